"""penstock testbed device: makes a directory that is as slow as another storage device, shows, measures and removes it, and runs programs beside it."""

import os
import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from penstock import show
from penstock.commands import run as run_command
from penstock.failure import USAGE, Failure
from penstock.testbed import devices, groups, making, measuring
from penstock.testbed.devices import Device, Found, Wanted

VARIABLE = "PENSTOCK_DEVICE"


def facts(device: Device) -> dict[str, Any]:
    """A device as it is: what was asked for, how it is made, what is wrong with it."""
    wrong = making.trouble(device)
    profile = device.profile
    found: dict[str, Any] = {
        "name": device.name,
        "up": not wrong,
        "trouble": wrong,
        "directory": device.directory,
        "profile": profile.name,
        "method": device.method,
        "held_by": held_by(device),
        "size_bytes": device.size_bytes,
        "megabytes_per_second": profile.megabytes_per_second,
        "requests_per_second": profile.requests_per_second,
        "latency_us": profile.random_latency_us,
        "page_cache_bytes": device.page_cache_bytes,
        "bypasses_page_cache": device.method == "fuse" and not device.page_cache_bytes,
        "run_needed": device.throttle == "io.max",
    }
    if not wrong:
        space = os.statvfs(device.directory)
        found["free_bytes"] = space.f_bavail * space.f_frsize
    return found


def held_by(device: Device) -> str:
    if device.throttle:
        version = "1 (blkio)" if device.throttle == "blkio" else "2 (io.max)"
        return f"control groups version {version} on loop device {device.number}"
    if device.method == "fuse":
        return "the file system process, which answers each request when the device would"
    return "nothing: it is as fast as memory"


def up(wanted: Wanted, as_json: bool) -> int:
    device = making.up(wanted)
    found = facts(device)
    if as_json:
        show.print_json(found)
    else:
        _print(found)
    for text in notes(device):
        show.say(text)
    return 0 if found["up"] else 1


def notes(device: Device) -> list[str]:
    """What a user of the device has to know."""
    out = []
    if device.throttle == "io.max":
        out.append(
            "control groups of version 2 hold only what runs in them: start programs by penstock testbed device run"
        )
    if device.throttle == "blkio" and not _in_root_group():
        out.append(
            "this shell is in a blkio control group of its own, which the rates do not hold: start programs by penstock testbed device run"
        )
    if device.method == "loop" and device.profile.serial:
        out.append(
            "rates are exact on average, in slices of 100 ms; single requests have no latency of their own (--method fuse has)"
        )
    least = device.profile.random_latency_us
    if device.method == "fuse" and device.path_us > least and not device.profile.at_least:
        out.append(f"a latency of {least:g} us can not be had: FUSE itself takes {device.path_us:g} us here")
    if device.page_cache_bytes:
        out.append("the page cache is limited for programs that penstock testbed device run starts")
    return out


def _in_root_group() -> bool:
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    return any("blkio" in line.split(":")[1].split(",") and line.split(":", 2)[2] == "/" for line in lines)


def down(name: str, as_json: bool) -> int:
    """Exit code 0 whether there was one or not: afterwards there is none."""
    removed = making.down(name)
    if as_json:
        show.print_json({"name": name, "removed": removed})
    else:
        print(f"device {name}: {'removed' if removed else 'there was none'}")
    return 0


def status(name: str | None, as_json: bool) -> int:
    """Of one device, or of all.  Exit code 1 when there is none, or a part of one is gone."""
    found = [making.find(one) for one in ([name] if name is not None else making.names())]
    rows = [facts(device) for device in found if device is not None]
    if as_json:
        show.print_json({"devices": rows})
    else:
        for row in rows:
            _print(row)
        if not rows:
            print(f"device {name}: not up" if name is not None else "no device is up")
    return 0 if rows and all(row["up"] for row in rows) else 1


def _print(row: dict[str, Any]) -> None:
    state = "up" if row["up"] else f"broken: {row['trouble']}; take it down"
    print(f"device {row['name']}: {row['profile']} by {row['method']}, {state}")
    print(f"  directory   {show.printable(row['directory'])}")
    print(
        f"  rates       {row['megabytes_per_second']:g} MB/s{_requests(row)}, {row['latency_us']:g} us a random request"
    )
    print(f"  held by     {row['held_by']}")
    cache = "as large as memory" if row["method"] != "memory" else "none: it lies in memory"
    if row["page_cache_bytes"]:
        cache = f"{show.byte_amount(row['page_cache_bytes'])} for what penstock testbed device run starts, with the programs' own memory"
    print(f"  page cache  {'gone past' if row['bypasses_page_cache'] else cache}")
    free = f", {show.byte_amount(row['free_bytes'])} free" if "free_bytes" in row else ""
    print(f"  size        {show.byte_amount(row['size_bytes'])}{free}")


def _requests(row: dict[str, Any]) -> str:
    return f", {row['requests_per_second']:g} requests/s" if row["requests_per_second"] else ""


# --- check -----------------------------------------------------------------------------------------------------------------


def check(name: str, seconds: float, tolerance: float, as_json: bool) -> int:
    """Exit code 1 when anything is off by more than the tolerance."""
    if not 0.5 <= seconds <= 60:
        raise Failure(f"--seconds {seconds:g}: expected 0.5 to 60", USAGE)
    if not 0 < tolerance <= 100:
        raise Failure(f"--tolerance {tolerance:g}: expected per cent, above 0 and at most 100", USAGE)
    device = making.live(name)
    found = measuring.check(device, seconds, tolerance / 100, show.say)
    fine = all(row.fine for row in found)
    if as_json:
        rows = [asdict(row) for row in found]
        show.print_json(facts(device) | {"tolerance": tolerance / 100, "fine": fine, "measurements": rows})
    else:
        _print_check(device, found, tolerance)
    return 0 if fine else 1


def _print_check(device: Device, found: list[Found], tolerance: float) -> None:
    console = show.console_on(sys.stdout)
    rows = []
    for row in found:
        verdict = row.note if row.fine else f"more than {tolerance:g} %{', ' + row.note if row.note else ''}"
        numbers = f"{row.target:.4g}", f"{row.measured:.4g}", row.unit, f"{100 * row.deviation:+.1f} %"
        rows.append([row.what, *numbers, verdict])
    console.print(f"device {device.name}: {device.profile.name} by {device.method}; tolerance {tolerance:g} %")
    headings = ("measured by fio", "target", "measured", "unit", "off by", "")
    show.print_table(console, headings, rows, ("measured by fio", ""))


# --- run -------------------------------------------------------------------------------------------------------------------


def run(name: str, words: list[str], page_cache: str) -> int:
    """Runs a command held to the device's rates and with a page cache of its own; returns its exit code."""
    cache = devices.cache_of(page_cache)
    # A page cache of some size in front of the machine's own storage needs no device.
    device = None if cache and making.find(devices.check_name(name)) is None else making.live(name)
    cache = cache or (device.page_cache_bytes if device else 0)
    if cache and os.geteuid() != 0:
        raise Failure("--page-cache needs root, to make a control group")
    if device is not None and cache and device.method != "loop" and not device.page_cache_bytes:
        why = (
            "lies in memory" if device.method == "memory" else "goes past the page cache: make it with --page-cache too"
        )
        raise Failure(f"--page-cache: the device {name} {why}", USAGE)
    one = f"run-{os.getpid()}"
    group = f"penstock-device-{name}"
    version = measuring.block_version(device) if device is not None and os.geteuid() == 0 else 0
    changes = {VARIABLE: device.directory} if device is not None else {}
    into: list[Path] = []
    try:
        into = groups.joined_by_run(group, one, cache, version)
        started = run_command.Prepared(groups.entering(into, words), changes)
        return run_command.start(started, os.environ, None)
    finally:
        left = groups.remove([*measuring.made_by_run(into, one), *_empty_parent(into, one, device)])
        for path in left:
            show.say(f"{path}: something that {shlex.join(words)} started still runs in the control group")


def _empty_parent(into: list[Path], one: str, device: Device | None) -> list[Path]:
    """Of version 2, the group around that of the run, when there is no device that it belongs to."""
    if device is not None:
        return []
    return [file.parent.parent for file in into if file.parent.name == one]
