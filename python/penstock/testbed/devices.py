"""What a pretended device is: profiles, options, sizes, the words that start its file system, and what measuring it should give.  Pure: starts nothing."""

import os
import re
import tomllib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from penstock.failure import USAGE, Failure
from penstock.paths import table_file

METHODS = ("auto", "loop", "fuse", "memory")
LEAST_BYTES = 16 << 20
# Whatever lies in memory has to leave some to programs.
MEMORY_LEFT_BYTES = 256 << 20
PIECE_BYTES = 4096
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,30}")
_SIZE = re.compile(r"(\d+)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)


@dataclass(frozen=True)
class Profile:
    """A row of table/devices.toml."""

    name: str
    text: str
    megabytes_per_second: float
    requests_per_second: float
    random_latency_us: float
    sequential_latency_us: float
    serial: bool
    at_least: bool
    method: str
    queue_depth: int


def profiles() -> dict[str, Profile]:
    rows = tomllib.loads(table_file("devices").read_text())["device"]
    return {row["name"]: Profile(**row) for row in rows}


@dataclass(frozen=True)
class Wanted:
    """What the user of `device up` asked for; None: as the profile has it."""

    name: str
    profile: str
    size: str = "2G"
    rate: float | None = None
    iops: float | None = None
    latency: float | None = None
    method: str = "auto"
    page_cache: str = ""
    at: Path | None = None
    backing: Path | None = None


@dataclass(frozen=True)
class Device:
    """All that was decided when the device was made, and what was found out while it was made."""

    name: str
    profile: Profile
    method: str
    size_bytes: int
    page_cache_bytes: int
    state: str  # directory of what it is made of
    directory: str  # where programs find it
    own_directory: bool  # made by us, and removed with it
    backing: str  # directory in which the bytes lie
    backing_in_memory: bool
    throttle: str = ""  # "", "blkio" (version 1 of control groups) or "io.max" (version 2)
    number: str = ""  # of the loop device: MAJOR:MINOR
    path_us: float = 0.0  # of its latency, what FUSE itself takes

    @property
    def image(self) -> Path:
        return Path(self.backing) / f"penstock-device-{self.name}.img"

    @property
    def group(self) -> str:
        """Name of its control groups, and the beginning of the names of those of its runs."""
        return f"penstock-device-{self.name}"

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def device_of(value: dict[str, Any]) -> Device:
    """The inverse of Device.as_json."""
    return Device(**(value | {"profile": Profile(**value["profile"])}))


def check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise Failure(f"--name {name!r}: expected small letters, digits and dashes, at most 31", USAGE)
    return name


def size_of(option: str, text: str) -> int:
    """2G -> bytes, in powers of 1024.  Raises Failure (usage) for anything else."""
    match = _SIZE.fullmatch(text.strip())
    value = int(match[1]) << (10 * " kmgt".index(match[2].lower() or " ")) if match else 0
    if value <= 0 or value >= 1 << 50:
        raise Failure(f"{option} {text!r}: expected a size such as 512M or 2G", USAGE)
    return value


LEAST_CACHE_BYTES = 4 << 20


def cache_of(text: str) -> int:
    """--page-cache; 0 when not given.  Programs themselves lie in it: in much less none can be started, and the kernel kills it."""
    cache = size_of("--page-cache", text) if text else 0
    if text and cache < LEAST_CACHE_BYTES:
        raise Failure(
            f"--page-cache {text}: expected at least {LEAST_CACHE_BYTES >> 20}M, since programs lie in it too", USAGE
        )
    return cache


def _number(option: str, value: float | None, least: float, most: float) -> None:
    if value is not None and not least <= value <= most:
        raise Failure(f"{option} {value:g}: expected a number from {least:g} to {most:g}", USAGE)


def settings_of(wanted: Wanted) -> Profile:
    """The profile with what the user changed in it.  Raises Failure (usage) for what can not be meant."""
    known = profiles()
    if wanted.profile not in known:
        raise Failure(f"--profile {wanted.profile!r}: expected one of {', '.join(known)}", USAGE)
    _number("--rate", wanted.rate, 0.1, 1e6)
    _number("--iops", wanted.iops, 1, 1e7)
    _number("--latency", wanted.latency, 0, 1e7)
    changed = asdict(known[wanted.profile])
    if wanted.rate is not None:
        changed |= {"megabytes_per_second": wanted.rate, "at_least": False}
    if wanted.iops is not None:
        changed |= {"requests_per_second": wanted.iops, "at_least": False}
    if wanted.latency is not None:
        least = wanted.latency if not changed["serial"] else min(changed["sequential_latency_us"], wanted.latency)
        changed |= {"random_latency_us": wanted.latency, "sequential_latency_us": least, "at_least": False}
    return Profile(**changed)


@dataclass(frozen=True)
class Machine:
    """What can be had here: each entry is empty, or why not."""

    no_loop: str
    no_fuse: str
    root: bool


def method_for(wanted: Wanted, profile: Profile, machine: Machine) -> str:
    """Raises Failure when what is asked for can not be had, saying why."""
    if wanted.method not in METHODS:
        raise Failure(f"--method {wanted.method!r}: expected one of {', '.join(METHODS)}", USAGE)
    reasons = {"loop": machine.no_loop, "fuse": machine.no_fuse, "memory": _no_memory(wanted, machine)}
    if wanted.latency is not None:
        reasons["loop"] = "a control group can not set the latency of single requests"
    if wanted.method != "auto":
        if reason := reasons[wanted.method]:
            raise Failure(f"--method {wanted.method}: {reason}", FAILS_AS.get(reason, 1))
        return wanted.method
    first = "fuse" if wanted.latency is not None else profile.method
    for method in dict.fromkeys((first, "loop", "fuse")):
        # A disk whose head moves has a latency of its own for each request: a control group only keeps the average.
        if not reasons[method] and not (method == "loop" and profile.serial):
            return method
    said = "; ".join(f"{method}: {reason}" for method, reason in reasons.items() if reason)
    slower = " --method loop holds it to its averages only." if profile.serial and not machine.no_loop else ""
    raise Failure(f"device {profile.name} can not be had here: {said}.{slower}")


_HAS_NO_LIMITS = (
    "memory can not be made slower; leave --rate, --iops, --latency and --page-cache out, or take --method fuse"
)
_NEEDS_ROOT_AT = "--at needs root, to mount memory there"
FAILS_AS = {_HAS_NO_LIMITS: USAGE}


def _no_memory(wanted: Wanted, machine: Machine) -> str:
    if not (wanted.rate is None and wanted.iops is None and wanted.latency is None and not wanted.page_cache):
        return _HAS_NO_LIMITS
    if not profiles()[wanted.profile].at_least:
        return "it is as fast as memory, whatever the profile"
    return _NEEDS_ROOT_AT if wanted.at and not machine.root else ""


def home() -> Path:
    """Where the state of this user's devices is."""
    if os.geteuid() == 0:
        return Path("/run/penstock")
    given = os.environ.get("XDG_RUNTIME_DIR", "")
    return Path(given) / "penstock" if given else Path(f"/tmp/penstock-{os.geteuid()}")


def state_of(name: str) -> Path:
    return home() / f"device-{name}"


def checked(wanted: Wanted, machine: Machine) -> Device:
    """The device that the user asked for.  Raises Failure for what can not be meant or had."""
    check_name(wanted.name)
    profile = settings_of(wanted)
    size = size_of("--size", wanted.size)
    if size < LEAST_BYTES:
        raise Failure(f"--size {wanted.size}: expected at least {LEAST_BYTES >> 20}M", USAGE)
    cache = cache_of(wanted.page_cache)
    if cache and not machine.root:
        raise Failure("--page-cache needs root, to make a control group")
    method = method_for(wanted, profile, machine)
    state = state_of(wanted.name)
    in_memory = wanted.backing is None
    backing = state / "backing" if wanted.backing is None else wanted.backing.absolute()
    if in_memory and not machine.root:
        backing = Path(f"/dev/shm/penstock-device-{os.geteuid()}-{wanted.name}")
    directory = wanted.at.absolute() if wanted.at else state / "mount"
    if method == "memory" and not machine.root:
        directory = backing
    if method == "fuse" and not in_memory:
        backing = backing / f"penstock-device-{wanted.name}"
    return Device(
        wanted.name,
        profile,
        method,
        size,
        cache,
        str(state),
        str(directory),
        directory != backing and not directory.exists(),
        str(backing),
        in_memory,
    )


def fuse_words(
    program: Path, profile: Profile, source: str, at: str, page_cache: bool, for_all: bool, path_us: float
) -> list[str]:
    """Starts the file system.  `path_us`: what of every latency the way through FUSE is."""
    words = [str(program), "--source", source, "--at", at]
    free = profile.at_least  # as fast as it goes
    values = {
        "bytes-per-second": 0 if free else profile.megabytes_per_second * 1e6,
        "requests-per-second": 0 if free else profile.requests_per_second,
        "random-latency-us": max(0.0, profile.random_latency_us - path_us),
        "sequential-latency-us": max(0.0, profile.sequential_latency_us - path_us),
    }
    for option, value in values.items():
        words += [f"--{option}", str(round(value))]
    flags = {"serial": profile.serial, "page-cache": page_cache, "for-all": for_all}
    return words + [f"--{option}" for option, given in flags.items() if given]


# --- what measuring it should give -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Target:
    """One measurement: what fio is told, and what it should find."""

    what: str
    unit: str
    target: float
    fio: tuple[str, ...]
    value: str  # of fio's result: bandwidth, rate or latency
    judge: str  # "both", "at least", "at most", or why it is not judged
    own_files: bool = False  # each of its jobs has a file of its own


def targets(device: Device, seconds: float) -> list[Target]:
    profile = device.profile
    span = min(device.size_bytes // 3, max(64 << 20, int(profile.megabytes_per_second * 1e6 * seconds)))
    span = min(span, 1 << 30) // (1 << 20) * (1 << 20)
    direct = "0" if device.method == "memory" else "1"
    # Of memory the first use is slow, when the kernel clears it: files are there already when they are written.
    common = (f"--size={span}", f"--direct={direct}", f"--overwrite={int(device.method == 'memory')}")
    timed = ("--time_based", f"--runtime={seconds:g}")
    queue: tuple[str, ...] = (
        ("--ioengine=psync",) if profile.serial or device.method == "memory" else ("--ioengine=libaio", "--iodepth=4")
    )
    judge = "at least" if profile.at_least else "both"
    rows = [
        Target(f"sequential {way}", "MB/s", profile.megabytes_per_second, (f"--rw={way}", "--bs=1M", *common, *queue), "bandwidth", judge)
        for way in ("write", "read")
    ]  # fmt: skip
    if profile.requests_per_second:
        rate = min(profile.requests_per_second, profile.megabytes_per_second * 1e6 / PIECE_BYTES)
        depth = profile.queue_depth
        # A file for each: direct writes to one file wait for each other in FUSE.
        each = max(1, span // depth >> 20) << 20
        deep: tuple[str, ...] = (f"--size={each}", "--ioengine=psync", f"--numjobs={depth}", "--group_reporting")
        if device.method == "loop":
            deep = ("--ioengine=libaio", f"--iodepth={depth}")
        for way in ("read", "write"):
            words = (f"--rw=rand{way}", f"--bs={PIECE_BYTES}", *common, *timed, *deep)
            own = device.method != "loop"
            rows.append(Target(f"random {way}s, {depth} at a time", "/s", rate, words, "rate", judge, own))
    words = ("--rw=randread", f"--bs={PIECE_BYTES}", *common, *timed, "--ioengine=psync")
    latency_judge = "at most" if profile.at_least else "both"
    if device.method == "loop":
        latency_judge = "a control group sets no latency"
    rows.append(Target("random read, one at a time", "us", profile.random_latency_us, words, "latency", latency_judge))
    return rows


@dataclass(frozen=True)
class Found:
    what: str
    unit: str
    target: float
    measured: float
    deviation: float
    judged: bool
    fine: bool
    note: str


def judged(target: Target, measured: float, tolerance: float) -> Found:
    deviation = measured / target.target - 1 if target.target else 0.0
    fine = {
        "both": abs(deviation) <= tolerance,
        "at least": deviation >= -tolerance,
        "at most": deviation <= tolerance,
    }.get(target.judge, True)
    counts = target.judge in ("both", "at least", "at most")
    note = target.judge if target.judge != "both" else ""
    return Found(target.what, target.unit, target.target, measured, deviation, counts, fine, note)
