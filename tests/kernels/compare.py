#!/usr/bin/env python3
"""Runs one kernel natively and under Penstock: files identical byte for byte, each reads the other's, damage is noticed.

    compare.py --build DIR --mpi NAME --ranks N [--preload LIBRARY] [--posix] KERNEL [KERNEL'S OPTION...]

Without --preload only the native half is done; with --posix the kernel's own plain calls take part as well.  Knows of a kernel only that it
takes --file, --keep, --read-only, --posix and --json, names files of single ranks PATH.NUMBER and prints one line of JSON.  Exit: 0 all was as it must be, 1 something was not, 77 skipped (the kernel was not built for that MPI).
"""

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import launching  # noqa: E402

SKIPPED = 77
TIMEOUT_SECONDS = 100.0
# Their calls name offsets, or some ways to write do; reading needs no view.
WITHOUT_VIEWS = ("hacc", "madbench2", "s3asim")


class Wrong(Exception):
    """What was not as it must be."""


def expect(good: bool, text: str) -> None:
    if not good:
        raise Wrong(text)


class Kernel:
    """One kernel with its options, started for either arm."""

    def __init__(self, wanted: argparse.Namespace, mpi: launching.Mpi) -> None:
        self.wanted = wanted
        self.mpi = mpi

    def run(self, arm: str, file: Path, *more: str) -> dict[str, Any]:
        plain = ["--posix"] if arm == "posix" else []
        words = [self.mpi.program(self.wanted.kernel), *self.wanted.options, *plain, *more, "--json", "--file", file]
        ranks = self.wanted.ranks
        environment = launching.environment(self.mpi, ranks)
        preload = self.wanted.preload if arm == "penstock" else None
        if preload:
            environment["PENSTOCK_REPORT"] = str(file) + ".report"
        line = launching.line(self.mpi, ranks, words, preload)
        found = launching.result(line, environment, TIMEOUT_SECONDS)
        if preload:
            report = Path(environment["PENSTOCK_REPORT"])
            expect(report.is_file() and report.stat().st_size > 0, f"{arm}: no report: Penstock was not in the program")
            report.unlink()
        return found


def expect_good(found: dict[str, Any], what: str) -> None:
    expect(found["checked"] and found["verified"] and found["wrong_bytes"] == 0, f"{what}: {json.dumps(found)}")


def files_of(path: Path) -> list[Path]:
    """The one that all ranks share, or those of single ranks."""
    return [path] if path.exists() else sorted(path.parent.glob(f"{path.name}.[0-9]*"))


def expect_same_files(one: Path, other: Path) -> None:
    both = [[file.read_bytes() for file in files_of(path)] for path in (one, other)]
    expect(len(both[0]) > 0 and both[0] == both[1], f"the files of {one.name} and {other.name} differ")


def expect_times(found: dict[str, Any], arm: str) -> None:
    views = () if arm == "posix" or found["program"] in WITHOUT_VIEWS else ("view",)
    for phase, seconds in found["seconds"].items():
        expect(len(seconds) == 2, f"{arm}: seconds of {phase} for each repetition expected")
    for phase in ("open", "write", "read", "close", *views):
        expect(min(found["seconds"][phase]) > 0, f"{arm}: {phase} took no time")


def flip_byte(file: Path, offset: int) -> None:
    with file.open("r+b") as opened:
        opened.seek(offset)
        byte = opened.read(1)[0]
        opened.seek(offset)
        opened.write(bytes([byte ^ 0x10]))


def middle_of_content(file: Path, found: dict[str, Any]) -> int:
    """An offset that some rank has to read: any, but in a file with a header one behind it, and in one with gaps its beginning."""
    if found["program"] == "madbench2":
        return 0
    if found["program"] != "e3sm":
        return file.stat().st_size // 2
    with file.open("rb") as opened:
        header = json.loads(opened.readline())
    return int(header["header_bytes"] + header["variables"][0]["offset"] + 1)


def compare(kernel: Kernel, directory: Path) -> None:
    arms = ["native", "penstock"] if kernel.wanted.preload else ["native"]
    arms += ["posix"] if kernel.wanted.posix else []
    paths = {arm: directory / arm for arm in arms}
    found = {arm: kernel.run(arm, paths[arm], "--keep", "--repetitions", "2") for arm in arms}
    for arm in arms:
        expect_good(found[arm], arm)
        size = sum(file.stat().st_size for file in files_of(paths[arm]))
        expect(size == found[arm]["file_bytes"], f"{arm}: {size} bytes in the file, {found[arm]['file_bytes']} told")
        expect_times(found[arm], arm)
        expect_same_files(paths["native"], paths[arm])
        expect(found["native"]["hash"] == found[arm]["hash"], f"the bytes that native and {arm} read differ")
    for arm, other in zip(arms, [*arms[1:], arms[0]], strict=True):
        expect_good(kernel.run(arm, paths[other], "--read-only"), f"{arm} reading what {other} wrote")
    noticing = "penstock" if kernel.wanted.preload else "native"
    last = paths[noticing]
    content = middle_of_content(files_of(last)[0], found["native"])
    flip_byte(files_of(last)[0], content)
    # Without the plain check, so that it is the bytes that came through MPI-IO that are found wrong.
    damaged = kernel.run(noticing, last, "--read-only", "--no-plain", "--no-shifted")
    expect(not damaged["verified"] and damaged["wrong_bytes"] > 0, f"a changed byte at {content} was not noticed")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=launching.default_build())
    parser.add_argument("--mpi", required=True)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--preload", type=Path)
    parser.add_argument("--posix", action="store_true")
    parser.add_argument("kernel")
    parser.add_argument("options", nargs=argparse.REMAINDER)
    return parser.parse_args()


def main() -> int:
    wanted = arguments()
    try:
        mpi = launching.installed(wanted.build, [wanted.mpi])[0]
    except SystemExit as missing:
        print(missing)
        return SKIPPED
    if not mpi.program(wanted.kernel).is_file():
        print(f"{mpi.program(wanted.kernel)} is not built")
        return SKIPPED
    storage = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="penstock-kernel-", dir=storage) as directory:
        try:
            compare(Kernel(wanted, mpi), Path(directory))
        except (Wrong, launching.LaunchFailure) as failure:
            print(f"{wanted.kernel}, {wanted.mpi}, {wanted.ranks} ranks: {failure}")
            return 1
    print("ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())
