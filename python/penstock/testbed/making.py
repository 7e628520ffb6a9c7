"""Makes a pretended device, finds it again, and takes it down.  What it is to be is said in devices.py.

What is to be taken down is found by asking the kernel (mounts, loop devices, processes, control groups) and not by remembering what was done: whoever
made the device may have been killed at any point.  Only what can not be found so is in the state directory, and there before it exists.
"""

import contextlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from penstock.failure import Failure
from penstock.paths import library_directory
from penstock.testbed import bed, devices, groups, processes
from penstock.testbed.bed import Ended, locked, plain_environment, signals_as_exceptions, undisturbed, waited_for
from penstock.testbed.devices import Device, Machine, Wanted

SECONDS_FOR_A_COMMAND = 120
SECONDS_TO_MOUNT = 10
ROUNDS_OF_TAKING_DOWN = 10
PROBED_LATENCY_US = 200.0
PROBES = 300
BLOCKS = Path("/sys/block")
MARK = "penstock-device"  # the source of our mounts of memory, and the type of those by FUSE
_LOOP_TOOLS = {"losetup": "mount", "mkfs.ext4": "e2fsprogs", "mount": "mount", "umount": "mount"}


# --- what can be had here --------------------------------------------------------------------------------------------------


def program() -> Path:
    return library_directory() / "penstock" / "fuse-device"


def _missing(tools: Iterable[str]) -> list[str]:
    path = plain_environment()["PATH"]
    return [tool for tool in tools if shutil.which(tool, path=path) is None]


def _no_loop(root: bool) -> str:
    if not root:
        return "a loop device needs root"
    if missing := _missing(_LOOP_TOOLS):
        packages = " ".join(dict.fromkeys(_LOOP_TOOLS[tool] for tool in missing))
        return f"{' and '.join(missing)} missing; on Debian: apt-get install {packages}"
    if not Path("/dev/loop-control").exists():
        return "there is no /dev/loop-control: no loop devices here"
    if groups.block() is None:
        return "neither the blkio controller of control groups (version 1) nor io (version 2) is there, to hold it to its rates"
    return ""


def _no_fuse(root: bool) -> str:
    if not program().is_file():
        return f"{program()} is not there; it is built where libfuse 3.12 or newer is (on Debian: apt-get install libfuse3-dev fuse3, then make build)"
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "/dev/fuse is not there or not for this user"
    if not root and _missing(["fusermount3"]):
        return "fusermount3 is missing; on Debian: apt-get install fuse3"
    return ""


def machine() -> Machine:
    root = os.geteuid() == 0
    return Machine(_no_loop(root), _no_fuse(root), root)


# --- what is there ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mount:
    point: str
    kind: str
    source: str


def mounts() -> list[Mount]:
    found = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        point, (kind, source) = before.split()[4], after.split()[:2]
        for escape, character in ((r"\040", " "), (r"\011", "\t"), (r"\012", "\n"), (r"\134", "\\")):
            point = point.replace(escape, character)
        found.append(Mount(point, kind, source))
    return found


def loops_on(image: Path) -> dict[str, str]:
    """Loop devices that have the image: name -> MAJOR:MINOR."""
    found = {}
    for file in BLOCKS.glob("loop*/loop/backing_file"):
        with contextlib.suppress(OSError):
            if file.read_text().rstrip("\n").removesuffix(" (deleted)") == str(image):
                found[file.parent.parent.name] = (file.parent.parent / "dev").read_text().strip()
    return found


def _is_attached(number: str) -> bool:
    """Whether the loop device of that number has any file."""
    return (Path("/sys/dev/block") / number / "loop" / "backing_file").exists()


def fuse_processes(device: Device) -> list[int]:
    found = []
    for number in processes.numbers():
        words = processes.words_of(number)
        if words[-2:] == ["--of", device.state] and Path(words[0]).name == program().name and processes.alive(number):
            found.append(number)
    return found


def our_mounts(device: Device) -> list[str]:
    """Where something of the device is mounted, the last mounted first."""
    loops = {f"/dev/{name}" for name in loops_on(device.image)}
    inside = device.state + "/"
    return [
        mount.point
        for mount in reversed(mounts())
        if (mount.point == device.directory or mount.point.startswith(inside))
        and (mount.source in loops or mount.source == MARK or mount.kind == f"fuse.{MARK}")
    ]


def find(name: str) -> Device | None:
    """The device of that name as it was made, whole or not; None when there is none."""
    state = devices.state_of(devices.check_name(name))
    try:
        return devices.device_of(json.loads((state / "device.json").read_text()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Failure(
            f"{state}/device.json can not be read: {error}; take away what is mounted there, then the directory"
        ) from error


def names() -> list[str]:
    return sorted(path.parent.name.removeprefix("device-") for path in devices.home().glob("device-*/device.json"))


def trouble(device: Device) -> str:
    """Empty when the device is up and whole; otherwise what is wrong with it."""
    if device.method == "memory" and device.directory == device.backing:
        return "" if Path(device.directory).is_dir() else f"{device.directory} is gone"
    if device.directory not in our_mounts(device):
        return f"nothing of it is mounted at {device.directory}"
    if device.method == "fuse" and not fuse_processes(device):
        return "its file system process died"
    if device.throttle:
        held = groups.block()
        if held is None or not groups.rates_in_force(held, device.group, device.number):
            return "its rates are no longer in force"
    return ""


def live(name: str) -> Device:
    """Raises Failure when the device is not up, or a part of it is gone."""
    device = find(name)
    option = "" if name == "default" else f" --name {name}"
    if device is None:
        raise Failure(f"there is no device {name} up; penstock testbed device up{option} --profile ... makes one")
    if wrong := trouble(device):
        raise Failure(f"the device {name} is broken: {wrong}; penstock testbed device down{option}, then up again")
    return device


# --- up --------------------------------------------------------------------------------------------------------------------


def command(*words: str | Path) -> str:
    """Runs a tool to its end; what it printed.  Raises Failure with what it said."""
    line = [str(word) for word in words]
    try:
        done = subprocess.run(
            line, capture_output=True, text=True, errors="replace", timeout=SECONDS_FOR_A_COMMAND, check=False, env=plain_environment(), stdin=subprocess.DEVNULL
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise Failure(f"{' '.join(line)}: no end within {SECONDS_FOR_A_COMMAND} s") from error
    except OSError as error:
        raise Failure(f"{line[0]}: can not be started: {error.strerror}") from error
    if done.returncode != 0:
        said = " ".join((done.stderr or done.stdout).split())
        raise Failure(f"{' '.join(line)} ended with {done.returncode}: {said or 'without a word'}")
    return done.stdout


def up(wanted: Wanted) -> Device:
    """Makes the device.  Raises Failure; then nothing is left of it.  Ended half way, by a signal too, it takes down what there is; killed, the next up or
    down of that name does."""
    device = devices.checked(wanted, machine())
    with locked(devices.home()):
        old = find(wanted.name)
        option = "" if wanted.name == "default" else f" --name {wanted.name}"
        if old is not None and not trouble(old):
            raise Failure(
                f"the device {wanted.name} is up at {old.directory}; penstock testbed device down{option} removes it"
            )
        if old is not None:
            _take_down(old)
        _check_room(device)
        try:
            with signals_as_exceptions():
                return _make(device)
        except BaseException as error:
            with undisturbed():
                _take_down(device)
            if isinstance(error, Ended):
                raise Failure("ended by a signal; nothing is left of the device", 128 + error.number) from None
            raise


def _check_room(device: Device) -> None:
    """Raises Failure where the bytes would not fit, or where something is in the way."""
    if devices.home().stat().st_uid != os.geteuid():
        raise Failure(f"{devices.home()} belongs to somebody else; set XDG_RUNTIME_DIR to a directory of your own")
    directory = Path(device.directory)
    if any(mount.point == device.directory for mount in mounts()):
        raise Failure(f"--at {directory}: something is mounted there")
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise Failure(f"--at {directory}: expected an empty directory, or a name that is not there yet")
    if not device.backing_in_memory:
        place = device.image.parent if device.method == "loop" else Path(device.backing).parent
        if not place.is_dir():
            raise Failure(f"--backing {place}: there is no such directory")
        if device.image.exists() or (device.method == "fuse" and Path(device.backing).exists()):
            raise Failure(f"--backing {place}: something of a device {device.name} is there already; remove it")
        if shutil.disk_usage(place).free < device.size_bytes:
            raise Failure(f"--backing {place}: fewer than {device.size_bytes} bytes are free; take a smaller --size")
        return
    lines = Path("/proc/meminfo").read_text().splitlines()
    free = next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), 0)
    if free < device.size_bytes + devices.MEMORY_LEFT_BYTES:
        raise Failure(
            f"--size {device.size_bytes}: it lies in memory, of which {free} bytes are free; take less, or --backing on a disk"
        )


def _remember(device: Device) -> Device:
    """Written whole or not at all: whoever reads it may come at any time."""
    file = Path(device.state) / "device.json"
    new = file.with_suffix(".new")
    new.write_text(json.dumps(device.as_json(), indent=2) + "\n")
    new.replace(file)
    return device


def _make(device: Device) -> Device:
    state = Path(device.state)
    # Of a device that was never finished there may be a directory without a word in it.
    shutil.rmtree(state, ignore_errors=True)
    state.mkdir(mode=0o755)
    _remember(device)
    try:
        Path(device.directory).mkdir(exist_ok=True)
    except OSError as error:
        raise Failure(f"--at {device.directory}: the directory can not be made: {error.strerror}") from error
    if device.method == "memory":
        return _make_memory(device)
    _make_backing(device)
    return _make_loop(device) if device.method == "loop" else _make_fuse(device)


def _mount_memory(size_bytes: int, mode: str, at: str, large_pages: bool = False) -> None:
    options = f"size={size_bytes},mode={mode}"
    # Non-volatile memory is mapped in large pages, too; without them a new file costs a fault for every 4 KiB.
    if large_pages:
        with contextlib.suppress(Failure):  # a kernel without them
            command("mount", "-t", "tmpfs", "-o", f"{options},huge=within_size", MARK, at)
            return
    command("mount", "-t", "tmpfs", "-o", options, MARK, at)


def _make_memory(device: Device) -> Device:
    if device.directory != device.backing:
        _mount_memory(device.size_bytes, "1777", device.directory, large_pages=True)
    return device


def _make_backing(device: Device) -> None:
    backing = Path(device.backing)
    if not device.backing_in_memory and device.method == "loop":
        return
    backing.mkdir(mode=0o700)
    if device.backing_in_memory and os.geteuid() == 0:
        # A little more than the image, for the file system's own records of it.
        _mount_memory(device.size_bytes + (1 << 20), "0700", device.backing)


def _make_loop(device: Device) -> Device:
    image = device.image
    # All of it at once: what is taken later is charged to the control group of whoever writes there.
    with image.open("xb") as handle:
        try:
            os.posix_fallocate(handle.fileno(), 0, device.size_bytes)
        except OSError as error:
            raise Failure(f"{image}: no room for {device.size_bytes} bytes: {error.strerror}") from error
    name = command("losetup", "--find", "--show", image).strip()
    number = loops_on(image).get(Path(name).name, "")
    if not number:
        raise Failure(f"{name} does not have {image}, although losetup said so")
    throttle = groups.block()
    assert throttle is not None
    limited = not device.profile.at_least
    device = _remember(replace(device, number=number, throttle=_word_of(throttle) if limited else ""))
    command("mkfs.ext4", "-q", "-F", "-m", "0", "-O", "^has_journal", "-E", "nodiscard,lazy_itable_init=0", name)
    command("mount", "-t", "ext4", name, device.directory)
    Path(device.directory).chmod(0o1777)
    if limited:
        profile = device.profile
        groups.set_rates(
            throttle, device.group, number, int(profile.megabytes_per_second * 1e6), int(profile.requests_per_second)
        )
    return device


def _word_of(hierarchy: groups.Hierarchy) -> str:
    return "blkio" if hierarchy.version == 1 else "io.max"


def _make_fuse(device: Device) -> Device:
    if (
        min(device.profile.random_latency_us, device.profile.sequential_latency_us) < 1000
        and not device.profile.at_least
    ):
        device = _remember(replace(device, path_us=_path_us(device)))
    files = Path(device.backing) / "files"  # nobody else gets to it past the device
    files.mkdir()
    files.chmod(0o1777 if os.geteuid() == 0 else 0o700)
    _start_fuse(device, device.profile, str(files), device.directory, device.path_us)
    if device.page_cache_bytes:
        _let_pages_wait(device.directory)
    return device


def _let_pages_wait(directory: str) -> None:
    """As many written pages may wait in the page cache as of a disk's: file systems by FUSE get a hundredth of it, and those who write wait for each."""
    number = Path(directory).stat().st_dev
    settings = Path("/sys/class/bdi") / f"{os.major(number)}:{os.minor(number)}"
    for name, value in (("strict_limit", "0"), ("max_ratio", "100")):
        with contextlib.suppress(OSError):  # a kernel that does not let one choose
            (settings / name).write_text(value)


def _start_fuse(
    device: Device, profile: devices.Profile, source: str, at: str, path_us: float
) -> "subprocess.Popen[bytes]":
    """Returns when it is mounted."""
    words = devices.fuse_words(
        program(), profile, source, at, bool(device.page_cache_bytes), os.geteuid() == 0, path_us
    )
    log_name = Path(device.state) / "log"
    with log_name.open("wb") as log:
        process = subprocess.Popen(
            [*words, "--of", device.state], stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True, cwd="/", env=plain_environment()
        )  # fmt: skip

    def ready() -> bool:
        return process.poll() is not None or any(
            mount.point == at and mount.kind == f"fuse.{MARK}" for mount in mounts()
        )

    assert process.stdin is not None
    with process.stdin as pipe:
        in_time = waited_for(ready, SECONDS_TO_MOUNT)
        if not in_time or process.poll() is not None:
            said = " ".join(log_name.read_text(errors="replace").split())
            raise Failure(f"fuse-device did not mount {at}: {said or 'it did not say why'}")
        pipe.write(b"stay\n")
    return process


def _path_us(device: Device) -> float:
    """What the way from a program through FUSE to a device and back takes here: measured on one of a known latency."""
    source, at = Path(device.state) / "probed", Path(device.state) / "probe"
    source.mkdir()
    at.mkdir()
    (source / "file").write_bytes(bytes(devices.PIECE_BYTES))
    latency = replace(device.profile, megabytes_per_second=0, requests_per_second=0, serial=False,
                      random_latency_us=PROBED_LATENCY_US, sequential_latency_us=PROBED_LATENCY_US)  # fmt: skip
    process = _start_fuse(replace(device, page_cache_bytes=0), latency, str(source), str(at), 0.0)
    took = []
    with undisturbed():  # an open file would keep the probe from being unmounted; it takes a tenth of a second
        handle = os.open(at / "file", os.O_RDONLY)
        try:
            for _ in range(PROBES):
                began = time.perf_counter()
                os.pread(handle, devices.PIECE_BYTES, 0)
                took.append((time.perf_counter() - began) * 1e6)
        finally:
            os.close(handle)
    command(*_unmounting(str(at)))
    process.wait(SECONDS_TO_MOUNT)
    # Not the median: other programs make the way longer now and then, never shorter.
    return max(0.0, round(statistics.quantiles(took, n=10)[0] - PROBED_LATENCY_US, 1))


# --- down ------------------------------------------------------------------------------------------------------------------


def down(name: str) -> bool:
    """Takes the device down with all that lies on it; whether there was one.  Raises Failure when it is in use; then all of it stays."""
    if not devices.home().exists():
        return False
    with locked(devices.home()), undisturbed():
        device = find(name)
        return _take_down(device) if device is not None else False


def _unmounting(point: str) -> list[str]:
    return ["umount", point] if os.geteuid() == 0 else ["fusermount3", "-u", point]


def users_of(directory: str) -> list[str]:
    """Processes that are in the directory or have something open there, by number and name."""
    found = []
    for number in processes.numbers():
        base = processes.PROC / str(number)
        links = [base / "cwd", base / "root", base / "exe"]
        with contextlib.suppress(OSError):
            links += (base / "fd").iterdir()
        if any(_leads_into(link, directory) for link in links):
            found.append(f"{number} ({' '.join(processes.words_of(number)[:1]) or '?'})")
    return found


def _leads_into(link: Path, directory: str) -> bool:
    with contextlib.suppress(OSError):
        target = str(link.readlink())
        return target == directory or target.startswith(directory + "/")
    return False


def _unmount(device: Device, points: list[str]) -> None:
    for point in points:
        try:
            command(*_unmounting(point))
        except Failure as failure:
            if point not in our_mounts(device):
                continue  # gone by itself
            users = ", ".join(users_of(point)) or "none was found; a test bed that is up holds it too"
            raise Failure(f"{failure}. It is in use by: {users}. End them, then call down again.") from failure


def _take_down(device: Device) -> bool:
    """The file system first: when that is in use nothing else is touched.  What holds its bytes goes last."""
    for _ in range(ROUNDS_OF_TAKING_DOWN):
        _unmount(device, [point for point in our_mounts(device) if point != device.backing])
        _end_fuse(device)
        _detach(device)
        left = groups.remove(groups.groups_of(device.group)) if os.geteuid() == 0 else []
        if left:
            raise Failure(
                f"{', '.join(map(str, left))}: something still runs in the control group; end it, then call down again"
            )
        _unmount(device, our_mounts(device))
        # What an `up` that was killed has just started may come and go meanwhile.
        if not our_mounts(device) and not fuse_processes(device) and not loops_on(device.image):
            break
    _remove_files(device)
    return True


def _end_fuse(device: Device) -> None:
    """They end by themselves when they are unmounted."""
    for ending, seconds in ((0, 5.0), (signal.SIGTERM, 3.0), (signal.SIGKILL, 5.0)):
        for number in fuse_processes(device) if ending else []:
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, ending)
        if waited_for(lambda: not fuse_processes(device), seconds):
            return
    raise Failure(
        f"process {fuse_processes(device)[0]} of the device {device.name} does not end; call down again when it is gone"
    )


def _detach(device: Device) -> None:
    """Without their limits: the next user of a loop device would have them."""
    throttle = groups.block() if os.geteuid() == 0 else None
    attached = loops_on(device.image)
    numbers = {*attached.values(), *([device.number] if device.number and not _is_attached(device.number) else [])}
    for number in numbers if throttle else ():
        assert throttle is not None
        groups.clear_rates(throttle, number)
    for name in attached:
        command("losetup", "--detach", f"/dev/{name}")
    if not waited_for(lambda: not loops_on(device.image), bed.SECONDS_TO_END):
        raise Failure(
            f"{' '.join(loops_on(device.image))}: the loop device is still in use; call down again when it is not"
        )


def _remove_files(device: Device) -> None:
    if not device.backing_in_memory and device.method == "loop":
        device.image.unlink(missing_ok=True)
    elif Path(device.backing) != Path(device.state) / "backing":
        shutil.rmtree(device.backing, ignore_errors=True)
    if device.own_directory:
        with contextlib.suppress(OSError):
            Path(device.directory).rmdir()
    # Nothing of ours is mounted below it any more; what somebody else mounted there is not ours to remove.
    inside = [mount.point for mount in mounts() if mount.point.startswith(device.state + "/")]
    if inside:
        raise Failure(
            f"{', '.join(inside)}: mounted below the device's own directory by somebody else; unmount it, then call down again"
        )
    shutil.rmtree(device.state, ignore_errors=True)
