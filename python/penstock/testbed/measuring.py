"""Measures a pretended device with fio, beside what it should give.  Leaves nothing on it."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.failure import Failure
from penstock.testbed import groups
from penstock.testbed.bed import Ended, signals_as_exceptions
from penstock.testbed.devices import Device, Found, Target, judged, targets

SECONDS_BEYOND = 120


def fio() -> str:
    found = shutil.which("fio")
    if found is None:
        raise Failure("penstock testbed device check needs fio; on Debian: apt-get install fio")
    return found


def value_of(result: dict[str, Any], target: Target) -> float:
    """The measured value in fio's result, in the unit of the target."""
    job = result["jobs"][0]
    side = job["write" if "write" in target.what else "read"]
    if side["total_ios"] == 0:
        raise Failure(f"fio moved nothing for {target.what}")
    if target.value == "bandwidth":
        return float(side["bw_bytes"]) / 1e6
    if target.value == "rate":
        return float(side["iops"])
    return float(side["clat_ns"]["percentile"]["50.000000"]) / 1e3  # the median: other programs disturb few requests, but those much


def measured(target: Target, directory: Path, into: list[Path], seconds: float) -> float:
    """One run of fio.  Raises Failure with what it said."""
    files = "file.$jobnum" if target.own_files else "file"
    line = [fio(), "--name=check", f"--directory={directory}", f"--filename_format={files}", "--output-format=json",
            "--fallocate=none", "--randrepeat=1", *target.fio]  # fmt: skip
    try:
        done = subprocess.run(
            groups.entering(into, line), capture_output=True, text=True, errors="replace", timeout=seconds + SECONDS_BEYOND, check=False, cwd=directory
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise Failure(f"fio: {target.what}: no end within {error.timeout:g} s") from error
    begin = done.stdout.find("{")
    if done.returncode != 0 or begin < 0:
        said = " ".join((done.stderr or done.stdout).split())[-300:]
        raise Failure(f"fio: {target.what} ended with {done.returncode}: {said or 'without a word'}")
    try:
        return value_of(json.loads(done.stdout[begin:]), target)
    except (ValueError, KeyError, IndexError) as error:
        raise Failure(f"fio: {target.what}: its result is not understood: {error!r}") from error


def check(device: Device, seconds: float, tolerance: float, progress: Callable[[str], None]) -> list[Found]:
    """All measurements, one after the other.  Raises Failure."""
    fio()
    directory = Path(device.directory) / f".penstock-check-{os.getpid()}"
    run = f"run-{os.getpid()}"
    into = groups.joined_by_run(device.group, run, 0, block_version(device))
    try:
        with signals_as_exceptions():
            directory.mkdir()
            found = []
            for target in targets(device, seconds):
                progress(f"measuring {target.what}")
                found.append(judged(target, measured(target, directory, into, seconds), tolerance))
            return found
    except Ended as ended:
        raise Failure("ended by a signal; nothing is left of the measurement", 128 + ended.number) from None
    except OSError as error:
        raise Failure(f"{directory}: {error.strerror}") from error
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        groups.remove(made_by_run(into, run))


def block_version(device: Device) -> int:
    """Of the control groups that hold the device's rates; 0: none do."""
    return {"": 0, "blkio": 1, "io.max": 2}[device.throttle]


def made_by_run(files: list[Path], run: str) -> list[Path]:
    """The groups of these that were made for one run only."""
    return [file.parent for file in files if file.parent.name.endswith(run)]
