"""Reads report files: JSON lines that the library writes, one per file that was closed.  Trusts nothing in them.

The format is described in docs/report-format.md.
"""

import json
import math
import tomllib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from penstock import paths

VERSION = 1
LONGEST_LINE_BYTES = 16 << 20
MOST_PROBLEMS = 20
LONGEST_NAME = 64
MOST_SECONDS = 1e15  # thirty million years; sums of what is below it are finite


@dataclass
class Seconds:
    """Over all ranks."""

    sum: float
    max: float


@dataclass
class Part:
    """What its writes, or its reads, took."""

    counters: dict[str, int]
    phases: dict[str, Seconds]


@dataclass
class FileReport:
    """One file from open to close, all ranks together."""

    file: str
    store: str
    file_system: str
    mpi: str
    ranks: int
    nodes: int
    opened: float
    open_seconds: float
    strategy: str
    counters: dict[str, int]
    wall: Seconds
    phases: dict[str, Seconds]
    background: Seconds
    hints: dict[str, str]
    complaints: list[str]
    errors: list[str]
    writing: Part
    reading: Part
    profile: str = ""  # "" of a library that chose without one

    @property
    def calls(self) -> int:
        return self.counters.get("calls_read", 0) + self.counters.get("calls_write", 0)

    @property
    def bytes(self) -> int:
        return self.counters.get("bytes_read", 0) + self.counters.get("bytes_written", 0)

    @property
    def pieces(self) -> int:
        return self.counters.get("pieces", 0)

    def mean(self, seconds: Seconds) -> float:
        return seconds.sum / self.ranks


@dataclass
class Problem:
    line: int
    text: str


@dataclass
class Report:
    files: list[FileReport] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    problems_left_out: int = 0

    def add_problem(self, line: int, text: str) -> None:
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(Problem(line, text))
        else:
            self.problems_left_out += 1


@cache
def phase_names() -> tuple[str, ...]:
    return tuple(row["name"] for row in tomllib.loads(paths.table_file("counters").read_text())["phase"])


class _Bad(ValueError):
    pass


def _field(row: dict[str, Any], name: str, kind: type | tuple[type, ...]) -> Any:
    if name not in row:
        raise _Bad(f"field {name!r} is missing")
    value = row[name]
    if isinstance(value, bool) or not isinstance(value, kind):
        raise _Bad(f"field {name!r} is {type(value).__name__}")
    return value


def _number(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _Bad(f"{name} is no number")
    try:
        number = float(value)
    except OverflowError as error:
        raise _Bad(f"{name} is out of range") from error
    if not math.isfinite(number) or number < 0:
        raise _Bad(f"{name} is {number}, expected a finite number from 0 on")
    if number > MOST_SECONDS:
        raise _Bad(f"{name} is {number:g}, expected at most {MOST_SECONDS:g} seconds")
    return number


def _count(value: Any, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 80:
        raise _Bad(f"{name} is no whole number from 0 on")
    return value


def _seconds(value: Any, name: str) -> Seconds:
    if not isinstance(value, dict):
        raise _Bad(f"{name} is no object")
    return Seconds(_number(value.get("sum"), f"{name}.sum"), _number(value.get("max"), f"{name}.max"))


def _texts(row: dict[str, Any], name: str) -> list[str]:
    values = _field(row, name, list)
    if not all(isinstance(value, str) for value in values):
        raise _Bad(f"field {name!r} has an entry that is no text")
    return list(values)


def _named(row: dict[str, Any], name: str) -> dict[str, Any]:
    """An object of the report whose keys are names; one that this version does not know is kept, so that sums stay right."""
    values: dict[str, Any] = _field(row, name, dict)
    for key in values:
        if not (key.isascii() and key.replace("_", "").isalnum() and len(key) <= LONGEST_NAME):
            raise _Bad(f"{name} has {key[:LONGEST_NAME]!r}, which is no name")
    return values


def _part(row: dict[str, Any], name: str) -> Part:
    part = _named(row, name) if name else row
    prefix = f"{name}." if name else ""
    phases = _named(part, "phases")
    order = [phase for phase in phase_names() if phase in phases]
    return Part(
        counters={k: _count(v, f"{prefix}counters.{k}") for k, v in _named(part, "counters").items()},
        phases={k: _seconds(phases[k], f"{prefix}phases.{k}") for k in dict.fromkeys([*order, *phases])},
    )


def _no_constant(text: str) -> Any:
    raise _Bad(f"{text} is no JSON")


def parse_line(text: str) -> FileReport:
    """One line.  Raises ValueError with a sentence that names the field."""
    try:
        row = json.loads(text, parse_constant=_no_constant)
    except RecursionError as error:
        raise _Bad("nested too deeply") from error
    except json.JSONDecodeError as error:
        raise _Bad(f"no JSON: {error.msg.removesuffix(' at')} at column {error.colno}") from error
    if not isinstance(row, dict):
        raise _Bad("no JSON object")
    version = _field(row, "version", int)
    if version != VERSION:
        raise _Bad(f"written in format {version}, this program reads format {VERSION}")
    kind = _field(row, "kind", str)
    if kind != "file":
        raise _Bad(f"kind {kind!r} is not known")
    ranks = _count(row.get("ranks"), "ranks")
    if ranks == 0:
        raise _Bad("ranks is 0")
    hints = _field(row, "hints", dict)
    if not all(isinstance(value, str) for value in hints.values()):
        raise _Bad("hints has a value that is no text")
    whole = _part(row, "")
    return FileReport(
        file=_field(row, "file", str),
        store=_field(row, "store", str),
        file_system=_field(row, "file_system", str),
        mpi=_field(row, "mpi", str),
        ranks=ranks,
        nodes=_count(row.get("nodes"), "nodes"),
        opened=_number(row.get("opened"), "opened"),
        open_seconds=_number(row.get("open_seconds"), "open_seconds"),
        strategy=_field(row, "strategy", str),
        profile=_field(row, "profile", str) if "profile" in row else "",
        counters=whole.counters,
        wall=_seconds(row.get("wall_seconds"), "wall_seconds"),
        phases=whole.phases,
        writing=_part(row, "writing"),
        reading=_part(row, "reading"),
        background=_seconds(row.get("background_seconds", {"sum": 0, "max": 0}), "background_seconds"),
        hints=hints,
        complaints=_texts(row, "complaints"),
        errors=_texts(row, "errors"),
    )


def read(path: Path, from_byte: int = 0) -> Report:
    """Reads the report file at `path` from a byte on; a pipe from its beginning.  A bad line becomes a Problem.  Raises OSError when it can not be read."""
    report = Report()
    with path.open("rb") as file:
        number = _lines_before(file, from_byte) if from_byte else 0
        while line := file.readline(LONGEST_LINE_BYTES):
            number += 1
            if len(line) == LONGEST_LINE_BYTES and not line.endswith(b"\n"):
                report.add_problem(number, f"longer than {LONGEST_LINE_BYTES} bytes")
                _skip_line(file)
                continue
            if not line.strip():
                continue
            try:
                report.files.append(parse_line(line.decode("utf-8", errors="replace")))
            except ValueError as error:
                report.add_problem(number, str(error))
    return report


def _lines_before(file: Any, from_byte: int) -> int:
    lines = 0
    while (left := from_byte - file.tell()) > 0:
        block = file.read(min(left, 1 << 20))
        if not block:
            break
        lines += block.count(b"\n")
    return lines


def _skip_line(file: Any) -> None:
    while block := file.readline(1 << 20):
        if block.endswith(b"\n"):
            return


def as_json(report: Report) -> dict[str, Any]:
    """The same facts, for programs."""
    return {
        "version": VERSION,
        "files": [_file_as_json(file) for file in report.files],
        "problems": [{"line": problem.line, "text": problem.text} for problem in report.problems],
        "problems_left_out": report.problems_left_out,
    }


def _file_as_json(file: FileReport) -> dict[str, Any]:
    def seconds(value: Seconds) -> dict[str, float]:
        return {"sum": value.sum, "max": value.max, "mean": file.mean(value)}

    def part(value: Part) -> dict[str, Any]:
        return {"counters": value.counters, "phases": {name: seconds(phase) for name, phase in value.phases.items()}}

    return {
        "file": file.file, "store": file.store, "file_system": file.file_system, "mpi": file.mpi, "ranks": file.ranks,
        "nodes": file.nodes, "opened": file.opened, "open_seconds": file.open_seconds, "strategy": file.strategy, "profile": file.profile,
        "calls": file.calls, "bytes": file.bytes, "pieces": file.pieces, "counters": file.counters,
        "wall_seconds": seconds(file.wall), "phases": {name: seconds(value) for name, value in file.phases.items()},
        "writing": part(file.writing), "reading": part(file.reading),
        "background_seconds": seconds(file.background), "hints": file.hints, "complaints": file.complaints,
        "errors": file.errors,
    }  # fmt: skip
