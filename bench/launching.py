"""Starts the built MPI programs natively and under Penstock.  Knows launchers and their settings, not what the programs measure."""

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Mpi:
    """One MPI that programs were built for."""

    name: str
    family: str  # mpich or openmpi
    launcher: Path
    programs: Path

    def program(self, name: str) -> Path:
        return self.programs / name


class LaunchFailure(Exception):
    """A program that did not end well; the text says which, how and what it said."""


def default_build() -> Path:
    return ROOT / "build" / "release"


def default_library(build: Path) -> Path:
    return build / "lib" / "libpenstock.so"


def installed(build: Path, names: Sequence[str] = ()) -> list[Mpi]:
    """The MPIs that programs were built for, in the order of `names` when given.  Ends with a message when there are none."""
    found = {}
    for note in sorted((build / "kernels").glob("*/launcher")):
        launcher = Path(note.read_text().strip())
        if launcher.is_file():
            found[note.parent.name] = Mpi(note.parent.name, _family(launcher), launcher, note.parent)
    missing = [name for name in names if name not in found]
    if missing or not found:
        raise SystemExit(
            f"{build / 'kernels'}: no programs for {', '.join(missing) or 'any MPI'} (found: {', '.join(found) or 'none'}); "
            "install an MPI with its compiler wrapper and build again"
        )
    return [found[name] for name in names] if names else list(found.values())


def _family(launcher: Path) -> str:
    said = subprocess.run(
        [launcher, "--version"], capture_output=True, text=True, env=_as_root(os.environ), check=False
    )
    text = said.stdout + said.stderr
    return "openmpi" if "Open MPI" in text or "OpenRTE" in text or "PRRTE" in text else "mpich"


def _as_root(environment: Mapping[str, str]) -> dict[str, str]:
    """Open MPI refuses to start for root unless it is told twice, in the words of its old and of its new launcher."""
    changed = dict(environment)
    if os.geteuid() == 0:
        for prefix in ("OMPI", "PRTE"):
            changed[f"{prefix}_ALLOW_RUN_AS_ROOT"] = "1"
            changed[f"{prefix}_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
    return changed


def cores() -> int:
    return len(os.sched_getaffinity(0))


def oversubscribed(ranks: int) -> bool:
    return ranks > cores()


def environment(mpi: Mpi, ranks: int) -> dict[str, str]:
    """What suits each MPI: MPICH's shared-memory collectives spin, which is ruinous as soon as no core is left over."""
    changed = _as_root(os.environ)
    changed.pop("LD_PRELOAD", None)
    if mpi.family == "mpich" and ranks >= cores():
        changed["MPIR_CVAR_DEVICE_COLLECTIVES"] = "none"
    return changed


def line(mpi: Mpi, ranks: int, words: Sequence[str | Path | int], preload: Path | None = None) -> list[str]:
    """A launcher line.  The preload is for the ranks alone, not for the launcher."""
    settings = []
    if mpi.family == "openmpi":
        settings = ["--oversubscribe", "--bind-to", "none"]
        if ranks >= cores():
            settings += ["--mca", "mpi_yield_when_idle", "1"]
    before = ["env", f"LD_PRELOAD={preload}"] if preload else []
    return [str(word) for word in [mpi.launcher, *settings, "-n", ranks, *before, *words]]


def run(words: Sequence[str], changed: Mapping[str, str], timeout_seconds: float) -> subprocess.CompletedProcess[str]:
    """Runs a line in a group of its own, so that nothing of it is left when it takes too long.

    Open MPI's launcher takes ranks for dead that it could not answer within 2 s of their end (PMIx waits no longer), on a busy machine now and then, and returns 1
    though they had done everything: that counts as 0.  Programs that end without MPI_Finalize look alike to it: what a run came to is for its output to say.
    """
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(changed), start_new_session=True
    ) as process:
        try:
            output, errors = process.communicate(timeout=timeout_seconds)
        except subprocess.TimeoutExpired:
            _end(process)
            raise LaunchFailure(f"{' '.join(words)}: not finished after {timeout_seconds:.0f} s") from None
        except BaseException:
            _end(process)
            raise
    missed_their_end = process.returncode == 1 and "exiting improperly" in errors
    return subprocess.CompletedProcess(words, 0 if missed_their_end else process.returncode, output, errors)


def _end(process: "subprocess.Popen[str]") -> None:
    for kind in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, kind)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=5)
            if kind == signal.SIGKILL:
                return


def result(words: Sequence[str], changed: Mapping[str, str], timeout_seconds: float) -> dict[str, Any]:
    """The line of JSON that a program prints.  Wrong bytes are a result; everything else that goes wrong is a failure."""
    done = run(words, changed, timeout_seconds)
    for text in done.stdout.splitlines():
        if text.startswith("{"):
            try:
                found: dict[str, Any] = json.loads(text)
            except ValueError as error:
                raise LaunchFailure(f"{' '.join(words)}: {error} in its output: {text[:200]}") from None
            if done.returncode == 0 or not _all_verified(found):
                return found
    # The program's own words come first; launchers add long ones of theirs behind.
    said = (done.stderr or done.stdout).strip()[:1500]
    raise LaunchFailure(f"{' '.join(words)}: exit code {done.returncode}: {said}")


def _all_verified(found: Mapping[str, Any]) -> bool:
    parts = [found, *(value for value in found.values() if isinstance(value, dict))]
    return all(part.get("verified", True) for part in parts)
