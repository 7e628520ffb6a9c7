"""Which machine this is and which file system a directory is on, in words that stay the same: what a calibration profile is found by."""

import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path

from penstock.failure import USAGE, Failure

# Their identifiers are drawn anew with every mount, or are none.
WITHOUT_IDENTIFIER = ("tmpfs", "ramfs", "overlay", "nfs", "nfs4", "9p", "virtiofs")
IN_MEMORY = ("tmpfs", "ramfs")
OF_SEVERAL_NODES = (
    "nfs",
    "nfs4",
    "lustre",
    "gpfs",
    "beegfs",
    "cifs",
    "smb3",
    "ceph",
    "orangefs",
    "pvfs2",
    "fuse.glusterfs",
)


@dataclass(frozen=True)
class FileSystem:
    """Where a directory is."""

    mount_point: str
    kind: str  # ext4, tmpfs, lustre ...
    device: str
    identifier: str  # "" where it has none that lasts


def plain_host(name: str) -> str:
    """The nodes of a cluster are node001, node-002 ...: without the domain, and without the number behind.  As src/model/profile.cpp has it."""
    first = name.partition(".")[0]
    stem = first.rstrip("0123456789")
    return (stem.rstrip("-") or first) if stem else first


def processor_model(cpuinfo: str) -> str:
    for wanted in ("model name", "cpu model", "cpu", "Hardware", "CPU part"):
        found = re.search(rf"^{wanted}\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
        if found:
            return " ".join(found[1].split())
    return platform.machine()


def processor() -> str:
    try:
        return processor_model(Path("/proc/cpuinfo").read_text(errors="replace"))
    except OSError:
        return platform.machine()


def identity(host: str | None = None) -> str:
    """The same on all nodes of a cluster whose names say that they are of one kind."""
    return plain_host(platform.node() if host is None else host)


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def mount_of(path: str, mountinfo: str) -> tuple[str, str, str]:
    """Mount point, type and device of an absolute path without links; of mounts at one place the last one counts."""
    best = ("/", "unknown", "")
    for line in mountinfo.splitlines():
        before, dash, after = line.partition(" - ")
        words, behind = before.split(), after.split()
        if not dash or len(words) < 5 or len(behind) < 2:
            continue
        point = _unescaped(words[4])
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best[0]):
            best = (point, behind[0], _unescaped(behind[1]))
    return best


def file_system(directory: Path, option: str = "--dir") -> FileSystem:
    """Raises Failure (usage), which names the option, when there is no such directory."""
    try:
        real = directory.resolve(strict=True)
        identifier = f"{os.statvfs(real).f_fsid:016x}"
        mountinfo = Path("/proc/self/mountinfo").read_text(errors="replace")
    except OSError as error:
        raise Failure(f"{option} {directory}: {error.strerror}", USAGE) from error
    if not real.is_dir():
        raise Failure(f"{option} {directory}: expected a directory", USAGE)
    point, kind, device = mount_of(str(real), mountinfo)
    return FileSystem(point, kind, device, "" if kind in WITHOUT_IDENTIFIER else identifier)


def built_in_for(place: FileSystem) -> str:
    """The built-in profile that fits best where nothing was measured, as src/model/profile.cpp has it."""
    if place.kind in IN_MEMORY:
        return "tmpfs"
    return "lustre" if place.kind in OF_SEVERAL_NODES else "ssd"
