"""Calibration profiles: read, checked against table/profile.toml, found by machine and file system, written.  Measures nothing."""

import contextlib
import functools
import json
import math
import os
import re
import stat
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock import paths
from penstock.failure import UNREADABLE, USAGE, Failure
from penstock.testbed import devices

VERSION = 1
FOR_PEOPLE = ("profile", "measurements")
LARGEST_BYTES = 1 << 20
LONGEST_SHOWN = 200
EMULATED = "emulated "
UNLIMITED_RANKS = 1e6
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True)
class Field:
    """One number of a profile, as table/profile.toml has it."""

    section: str
    name: str
    unit: str
    text: str
    measured: str
    minimum: float
    built_in: dict[str, float]

    @property
    def key(self) -> str:
        return f"{self.section}.{self.name}"


@dataclass(frozen=True)
class Profile:
    """Figures by "section.name": all of them, those that it does not have itself from the built-in profile that it is based on."""

    name: str
    figures: dict[str, float]
    measured: bool
    path: Path | None = None
    head: dict[str, Any] = field(default_factory=dict)
    own: frozenset[str] = frozenset()  # what it has itself
    measurements: dict[str, Any] = field(default_factory=dict)

    def said(self) -> str:
        """What a user is told about where figures come from."""
        if self.name.startswith(EMULATED):
            return f"what the {self.name.removeprefix(EMULATED)} that the library pretends is set to"
        if not self.measured:
            return f"the built-in profile {self.name}: nothing was calibrated here"
        missing = [key for key in self.figures if key not in self.own]
        rest = f"; {len(missing)} figures are those of the built-in profile {self.head.get('based_on', 'ssd')}"
        return f"the profile {self.name} ({self.path}){rest if missing else ''}"


@functools.cache
def _table() -> dict[str, Any]:
    return tomllib.loads(paths.table_file("profile").read_text())


@functools.cache
def fields() -> tuple[Field, ...]:
    return tuple(Field(**row) for row in _table()["field"])


@functools.cache
def built_in_names() -> tuple[str, ...]:
    return tuple(row["name"] for row in _table()["built_in"])


def built_in(name: str) -> Profile:
    if name not in built_in_names():
        raise Failure(f"profile {name}: expected one of {', '.join(built_in_names())}", USAGE)
    return Profile(name, {one.key: one.built_in[name] for one in fields()}, measured=False)


# Where they are


def directory(environment: Mapping[str, str] | None = None) -> Path:
    """$XDG_CONFIG_HOME/penstock/profiles; as the specification says, a relative path there counts as none."""
    given = os.environ if environment is None else environment
    config = Path(given.get("XDG_CONFIG_HOME", ""))
    if not config.is_absolute():
        config = paths.home(given) / ".config"
    return config / "penstock" / "profiles"


def checked_name(name: str) -> str:
    if not NAME.fullmatch(name) or name in built_in_names():
        raise Failure(
            f"profile name {name!r}: expected letters, digits, dots, hyphens and underscores, at most 100, and none of "
            f"{', '.join(built_in_names())}",
            USAGE,
        )
    return name


# Reading


def _leaves(table: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _finite(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."


def _figures(table: Mapping[str, Any], where: str) -> dict[str, float]:
    known = {one.key: one for one in fields()}
    found: dict[str, float] = {}
    for key, value in _leaves({name: part for name, part in table.items() if name not in FOR_PEOPLE}):
        row = known.get(key)
        if row is None:
            raise Failure(
                f"{where}: {_shortened(key)} is no number of a profile; penstock-calibrate(1) lists them", UNREADABLE
            )
        number = _finite(value)
        if number is None or number < row.minimum:
            raise Failure(
                f"{where}: {key} = {_shortened(repr(value))}: expected a finite number, at least {row.minimum:g}",
                UNREADABLE,
            )
        found[key] = number
    return found


def _is_profile(table: Mapping[str, Any]) -> bool:
    head = table.get("profile")
    return isinstance(head, dict) and type(head.get("version")) is int and head["version"] == VERSION


def parse(text: str, where: str, path: Path | None = None) -> Profile:
    """Raises Failure (unreadable) on what is no profile."""
    try:
        table = tomllib.loads(text)
        own = _figures(table, where) if _is_profile(table) else {}
    except RecursionError as error:
        raise Failure(f"{where}: nested too deeply for a profile", UNREADABLE) from error
    except ValueError as error:
        raise Failure(f"{where}: {error}; expected TOML as penstock calibrate writes it", UNREADABLE) from error
    if not _is_profile(table):
        raise Failure(f"{where}: expected a section [profile] with version = {VERSION}; calibrate again", UNREADABLE)
    head = table["profile"]
    based_on = head.get("based_on", "ssd")
    if based_on not in built_in_names():
        raise Failure(
            f"{where}: profile.based_on = {_shortened(repr(based_on))}: expected one of {', '.join(built_in_names())}",
            UNREADABLE,
        )
    measurements = table.get("measurements", {})
    return Profile(
        name=str(head.get("name", where)),
        figures=built_in(based_on).figures | own,
        measured=True,
        path=path,
        head=head,
        own=frozenset(own),
        measurements=measurements if isinstance(measurements, dict) else {},
    )


def read(path: Path) -> Profile:
    """Raises Failure (unreadable) on what is no profile; names come from reports too, so devices and files without an end are not even opened."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST_BYTES:
            raise Failure(f"{path}: expected a profile: a file of at most {LARGEST_BYTES >> 20} MiB", UNREADABLE)
        return parse(path.read_text(encoding="utf-8"), str(path), path)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise Failure(f"{path}: the profile can not be read: {why}", UNREADABLE) from error


def _is_file(path: Path) -> bool:
    """A name that no file can have is none."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def stored() -> list[Profile]:
    """Those of this user that can be read, by name."""
    found = []
    for path in sorted(directory().glob("*.toml")):
        try:
            found.append(read(path))
        except Failure:
            continue
    return found


def on_pretended(node: Profile, name: str) -> Profile:
    """A device of table/devices.toml that the library pretends (PENSTOCK_EMULATE), used by such nodes.  Raises Failure when there is none of that name."""
    known = devices.profiles()
    if name not in known:
        raise Failure(f"pretended device {_shortened(name)}: expected one of {', '.join(known)}", USAGE)
    device = known[name]
    latency, requests = device.random_latency_us * 1e-6, device.requests_per_second
    figures = dict(node.figures) | {"file.cached": 0.0, "file.sync": latency}
    for section in ("storage.read", "storage.write"):
        figures |= {
            f"{section}.device_call": device.sequential_latency_us * 1e-6,
            f"{section}.device_random_call": latency,
            f"{section}.device_per_byte": 1e-6 / device.megabytes_per_second,
            f"{section}.device_ranks": max(1.0, latency * requests) if requests else UNLIMITED_RANKS,
            f"{section}.device_streams": 1.0,
        }
    return Profile(EMULATED + name, figures, measured=False)


def load(name: str) -> Profile:
    """A built-in one, that of a pretended device ("emulated hdd"), one of this user's by its name, or a file."""
    if name in built_in_names():
        return built_in(name)
    if name.removeprefix(EMULATED) in devices.profiles() and name.startswith(EMULATED):
        return on_pretended(built_in("ssd"), name.removeprefix(EMULATED))
    path = Path(name)
    if path.suffix == ".toml" or os.sep in name or _is_file(path):
        return read(path)
    mine = directory() / f"{name}.toml"
    if _is_file(mine):
        return read(mine)
    known = [*built_in_names(), *(one.name for one in stored())]
    raise Failure(f"profile {_shortened(name)}: expected a file or one of {', '.join(known)}", USAGE)


def find(machine: str, mount_point: str, file_system: str, file_system_id: str) -> Profile | None:
    """The profile that was measured on this machine and file system, the latest when there are several."""
    place = {
        "machine": machine,
        "mount_point": mount_point,
        "file_system": file_system,
        "file_system_id": file_system_id,
    }
    mine = [one for one in stored() if all(one.head.get(name) == value for name, value in place.items())]
    return max(mine, key=lambda one: str(one.head.get("made", "")), default=None)


# Writing


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        # JSON's escapes are TOML's, but for DEL, which JSON leaves as it is.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name} = {_toml(one)}" for name, one in value.items()) + "}"
    return "[" + ", ".join(_toml(one) for one in value) + "]"


def _entry(name: str, value: Any) -> str:
    """Long lists of objects get a line for each."""
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], Mapping):
        return f"{name} = [\n" + "".join(f"  {_toml(one)},\n" for one in value) + "]\n"
    return f"{name} = {_toml(value)}\n"


def text_of(head: Mapping[str, Any], figures: Mapping[str, float], measurements: Mapping[str, Any]) -> str:
    """The commented TOML.  `figures`: what was measured, by "section.name"; what is not there is not written."""
    known = {one.key for one in fields()}
    if unknown := sorted(set(figures) - known):
        raise Failure(f"table/profile.toml has no {', '.join(unknown)}: penstock is not whole, install again")
    out = (
        "# What this machine and file system cost, as penstock calibrate measured it; penstock-calibrate(1) explains.  Seconds and bytes.\n"
        "# A figure may be changed by hand; one that is left out is taken from the built-in profile named in based_on.\n\n[profile]\n"
    )
    out += "".join(_entry(name, value) for name, value in head.items())
    section = ""
    for one in fields():
        if one.key not in figures:
            continue
        if one.section != section:
            section = one.section
            out += f"\n[{section}]\n"
        out += (
            f"# {one.text}\n# ({one.unit}; measured: {one.measured})\n{one.name} = {_toml(float(figures[one.key]))}\n"
        )
    out += "\n# How the figures came about: for people, nothing computes with it.\n[measurements]\n"
    return out + "".join(_entry(name, value) for name, value in measurements.items())


def figures_text(profile: Profile, durable: bool = False) -> str:
    """The profile as penstock-model reads it, without what is for people; `durable`: as if there were no page cache before the device."""
    figures = profile.figures | ({"file.cached": 0.0} if durable else {})
    text = "".join(f"{key} = {value!r}\n" for key, value in figures.items())
    return f"{text}[profile]\nversion = {VERSION}\nname = {_toml(profile.name)}\n"


ELSEWHERE = "name another place with --output FILE"


def check_place(path: Path) -> None:
    """Raises Failure where write() would, before anybody has measured for a minute."""
    if why := paths.why_not_writable(path):
        raise Failure(f"{path}: the profile can not be written: {why}; {ELSEWHERE}")


def write(path: Path, text: str) -> None:
    """Whole or not at all: who reads at this moment sees the old one."""
    parse(text, str(path))
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh.write_text(text)
        fresh.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            fresh.unlink()
        raise Failure(f"{path}: the profile can not be written: {error.strerror}; {ELSEWHERE}") from error
