"""Where a study's files lie: devices that are pretended for as long as it measures them, and directories that the user names.

Knows `penstock testbed device` by its command line only, and no kernel.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from penstock import paths
from penstock.failure import Failure

KINDS = ("hdd", "ssd", "nvm")
# Memory itself is as fast as the third.
PAST_THE_CACHE = ("hdd", "ssd")
AS_LARGE_AS_MEMORY = 1 << 40
LEAST_BYTES = 64 << 20
# File systems keep some for themselves.
MORE_THAN_FILES = 1.25
SECONDS_TO_MAKE = 120.0


@dataclass(frozen=True)
class Place:
    """One device, while it is there."""

    kind: str
    directory: Path
    text: str  # what it is, for people
    device: str = ""  # its name for `penstock testbed device`; "": a directory that is no device of ours

    def around(self, limit_bytes: int) -> list[str]:
        """What goes before a launcher line so that it is held to the device's rates, and to so much memory and page cache together."""
        if not self.device and not limit_bytes:
            return []
        limit = ["--page-cache", str(limit_bytes)] if limit_bytes else []
        return [*_command("run"), "--name", self.device or f"none-{os.getpid()}", *limit]


def _command(word: str) -> list[str]:
    return [sys.executable, str(paths.PACKAGE / "__main__.py"), "testbed", "device", word]


def _call(words: list[str], what: str) -> str:
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS_TO_MAKE, check=False)
    except subprocess.TimeoutExpired:
        raise Failure(f"{what}: not finished after {SECONDS_TO_MAKE:.0f} s") from None
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise Failure(f"{what}: {said[-1] if said else f'exit code {done.returncode}'}")
    return done.stdout


def _described(facts: dict[str, object]) -> str:
    rates = f"{facts.get('megabytes_per_second', 0):g} MB/s"
    if facts.get("requests_per_second"):
        rates += f", {facts['requests_per_second']:g} requests/s"
    return (
        f"pretended by {facts.get('method', 'a device')}, {rates}, {facts.get('latency_us', 0):g} us a random request"
    )


@contextlib.contextmanager
def pretended(kind: str, file_bytes: int, limits_cache: bool) -> Iterator[Place]:
    """A device of that kind with room for such files.  Raises Failure when it can not be had here.

    `limits_cache`: with a page cache in front of it, as large as memory until a run gets less, which is a block device's (FUSE holds what is
    not yet written down by itself); otherwise accesses go to the device itself.
    """
    name = f"study-{os.getpid()}-{kind}"
    size = max(LEAST_BYTES, int(file_bytes * MORE_THAN_FILES))
    words = [*_command("up"), "--profile", kind, "--size", str(size), "--name", name, "--json"]
    if limits_cache:
        words += ["--page-cache", str(AS_LARGE_AS_MEMORY), "--method", "loop"]
    elif kind in PAST_THE_CACHE:
        words += ["--method", "fuse"]
    try:
        facts = json.loads(_call(words, f"device {kind}"))
        yield Place(kind, Path(facts["directory"]), _described(facts), name)
    finally:
        with contextlib.suppress(Failure):
            _call([*_command("down"), "--name", name], f"device {kind}")


@contextlib.contextmanager
def named(kind: str, directory: Path) -> Iterator[Place]:
    """A directory of our own in the user's, gone afterwards."""
    try:
        made = tempfile.TemporaryDirectory(prefix="penstock-study-", dir=directory)
    except OSError as error:
        raise Failure(f"{directory}: no directory can be made there: {error.strerror}") from error
    with made as name:
        yield Place(kind, Path(name), f"the directory {directory}")
