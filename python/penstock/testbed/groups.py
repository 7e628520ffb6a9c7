"""Control groups, of version 1 and 2: rates of block devices and limits of memory.  Makes and removes groups; knows nothing of devices' files."""

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

from penstock.failure import Failure

MOUNTS = Path("/proc/self/mounts")
SECONDS_TO_EMPTY = 3.0
_V1_LIMITS = {"read_bps": "bps", "write_bps": "bps", "read_iops": "iops", "write_iops": "iops"}


@dataclass(frozen=True)
class Hierarchy:
    """Where a controller is, and of which version of control groups."""

    version: int
    root: Path

    @property
    def words(self) -> str:
        return f"control groups version {self.version} at {self.root}"


def find(controller_v1: str, controller_v2: str) -> Hierarchy | None:
    """Version 1 first: its limits on the root group hold every program, and writing back of the page cache."""
    second = None
    with contextlib.suppress(OSError):
        for line in MOUNTS.read_text().splitlines():
            words = line.split()
            if len(words) < 4:
                continue
            root = Path(words[1].replace("\\040", " "))
            if words[2] == "cgroup" and controller_v1 in words[3].split(","):
                return Hierarchy(1, root)
            if words[2] == "cgroup2" and controller_v2 in _read(root / "cgroup.controllers").split():
                second = Hierarchy(2, root)
    return second


def block() -> Hierarchy | None:
    found = find("blkio", "io")
    if found and found.version == 1 and not (found.root / "blkio.throttle.read_bps_device").exists():
        return None  # a kernel without throttling
    return found


def memory() -> Hierarchy | None:
    return find("memory", "memory")


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _write(path: Path, text: str) -> None:
    """Control files take what one write(2) gives them."""
    try:
        handle = os.open(path, os.O_WRONLY)
        try:
            os.write(handle, text.encode())
        finally:
            os.close(handle)
    except OSError as error:
        raise Failure(f"{path}: {text!r} can not be written: {error.strerror}") from error


def set_rates(hierarchy: Hierarchy, group: str, number: str, bytes_per_second: int, requests_per_second: int) -> None:
    """Holds a block device (MAJOR:MINOR) to rates, 0 for none: on the root group in version 1, on `group` in version 2."""
    if hierarchy.version == 1:
        for name, kind in _V1_LIMITS.items():
            value = bytes_per_second if kind == "bps" else requests_per_second
            _write(hierarchy.root / f"blkio.throttle.{name}_device", f"{number} {value}")
        return
    made = _made(hierarchy, group, ("io",))
    values = (bytes_per_second or "max", bytes_per_second or "max", requests_per_second or "max", requests_per_second or "max")
    limits = " ".join(f"{key}={value}" for key, value in zip(("rbps", "wbps", "riops", "wiops"), values, strict=True))
    _write(made / "io.max", f"{number} {limits}")


def rates_in_force(hierarchy: Hierarchy, group: str, number: str) -> bool:
    """Whether anything holds the block device."""
    if hierarchy.version == 1:
        texts = [_read(hierarchy.root / f"blkio.throttle.{name}_device") for name in _V1_LIMITS]
    else:
        texts = [_read(hierarchy.root / group / "io.max")]
    return any(line.split()[:1] == [number] for text in texts for line in text.splitlines())


def clear_rates(hierarchy: Hierarchy, number: str) -> None:
    """In version 2 limits go with their group."""
    if hierarchy.version == 1 and rates_in_force(hierarchy, "", number):
        set_rates(hierarchy, "", number, 0, 0)


def _made(hierarchy: Hierarchy, name: str, controllers: tuple[str, ...]) -> Path:
    """The group `name`, below groups that pass the controllers on to it (version 2)."""
    path = hierarchy.root
    for part in name.split("/"):
        for controller in controllers if hierarchy.version == 2 else ():
            if controller not in _read(path / "cgroup.subtree_control").split():
                _write(path / "cgroup.subtree_control", f"+{controller}")
        path = path / part
        try:
            path.mkdir(exist_ok=True)
        except OSError as error:
            raise Failure(f"{path}: the control group can not be made: {error.strerror}") from error
    return path


def joined_by_run(group: str, run: str, memory_bytes: int, block_version: int) -> list[Path]:
    """Makes what a command has to be in, and tells the files that its process number has to be written to.

    `memory_bytes` 0: no limit.  `block_version`: of the groups that hold the device's rates, 0 for none.
    """
    files = []
    blocks = block()
    if block_version == 1 and blocks is not None:
        files.append(blocks.root / "cgroup.procs")  # limits of version 1 hold the group itself and none below it
    limits = memory() if memory_bytes else None
    if memory_bytes and limits is None:
        raise Failure("the size of the page cache needs the memory controller of control groups, which is not there")
    if limits is not None and limits.version == 1:
        made = _made(limits, f"{group}.{run}", ())
        _write(made / "memory.limit_in_bytes", str(memory_bytes))
        files.append(made / "cgroup.procs")
    second = blocks if block_version == 2 else limits if limits is not None and limits.version == 2 else None
    if second is not None:
        with_memory = limits is not None and limits.version == 2
        controllers = tuple(word for word, has in (("io", block_version == 2), ("memory", with_memory)) if has)
        made = _made(second, f"{group}/{run}", controllers)
        if with_memory:
            _write(made / "memory.max", str(memory_bytes))
        files.append(made / "cgroup.procs")
    return files


def groups_of(group: str) -> list[Path]:
    """Every group that the device and its runs have left, the deepest first."""
    found: list[Path] = []
    for hierarchy in {found for found in (block(), memory()) if found is not None}:
        for path in (hierarchy.root / group, *hierarchy.root.glob(f"{group}.*")):
            if path.is_dir():
                found += [*sorted((entry for entry in path.rglob("*") if entry.is_dir()), reverse=True), path]
    return found


def remove(paths: list[Path]) -> list[Path]:
    """Removes groups; those that something still runs in stay, and are told."""
    left = [path for path in paths if path.is_dir()]
    until = time.monotonic() + SECONDS_TO_EMPTY
    while left:
        for path in left:
            with contextlib.suppress(OSError):
                path.rmdir()
        left = [path for path in left if path.is_dir()]
        if time.monotonic() > until:
            break
        if left:
            time.sleep(0.02)
    return left


def entering(files: list[Path], words: list[str]) -> list[str]:
    """Starts `words` inside the groups whose files are named."""
    if not files:
        return words
    script = 'n=$1; shift; while [ "$n" -gt 0 ]; do echo $$ >"$1" || exit 126; shift; n=$((n - 1)); done; exec "$@"'
    return ["sh", "-c", script, "sh", str(len(files)), *map(str, files), *words]
