"""What studies of storage have in common: cases to run, rows of what came of them, tables and panels to show.  Pure: starts and prints nothing."""

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MEBIBYTE = 1 << 20
GIBIBYTE = 1 << 30
NATIVE, PENSTOCK = "native", "Penstock"
Row = dict[str, Any]


@dataclass(frozen=True)
class Wanted:
    """What the user asked for, read once."""

    devices: tuple[str, ...]  # kinds to pretend
    directories: tuple[tuple[str, Path], ...]  # named by hand
    mpis: tuple[str, ...]
    ranks: int  # of one node's cases
    nodes: int
    ranks_per_node: tuple[int, ...]
    kernels: tuple[str, ...]
    caches: tuple[int, ...] | None  # bytes; None: the paper's, scaled
    scale: int  # the paper's sizes are divided by it
    rounds: int
    timeout_seconds: float
    bed: str = ""  # of the cases on several nodes; "": pretended nodes of this machine


@dataclass(frozen=True)
class Case:
    """One bar: a kernel, how it accesses its file, and where."""

    device: str
    mpi: str
    family: str  # of the MPI: mpich or openmpi
    kernel: str
    arm: str
    ranks: int
    ranks_per_node: int
    words: tuple[str, ...]  # the kernel's options
    figures: tuple[str, ...]  # of the kernel's seconds
    cache_bytes: int = 0  # 0: as large as memory
    hints: tuple[str, ...] = ()  # of Penstock's ranks
    warm: bool = True  # a first repetition is left out

    @property
    def penstock(self) -> bool:
        return self.arm.startswith(PENSTOCK)

    @property
    def nodes(self) -> int:
        return -(-self.ranks // self.ranks_per_node)

    def name(self) -> str:
        cache = f", page cache {amount(self.cache_bytes)}" if self.cache_bytes else ""
        return f"{self.device}, {self.kernel}, {self.arm}, {self.mpi}, {self.ranks} ranks{cache}"


@dataclass(frozen=True)
class Fact:
    """What the paper found, in figures, and where it says so."""

    where: str
    text: str
    figures: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Sheet:
    """A table.  The first column has names, the others figures."""

    title: str
    headings: tuple[str, ...]
    lines: list[list[str]]


@dataclass(frozen=True)
class Panel:
    """Bars in groups, or on top of each other."""

    title: str
    groups: list[str]
    series: list[tuple[str, list[float | None]]]
    stacked: bool = False


@dataclass(frozen=True)
class Shown:
    sheets: list[Sheet]
    panels: list[Panel]
    unit: str  # of the panels
    compared: list[Row]  # what is set beside the paper's figures


@dataclass(frozen=True)
class Study:
    name: str
    text: str
    paper: tuple[Fact, ...]
    kernels: tuple[str, ...]
    limits_cache: bool  # its devices need a page cache in front of them
    reads_report: bool  # its rows need the report's phases
    notes: tuple[str, ...]
    cases: Callable[[Wanted, str, str, str], list[Case]]  # by device, MPI and its family
    file_bytes: Callable[[Wanted], int]  # the most that lies on a device at once
    shown: Callable[[Sequence[Row]], Shown]


def amount(size_bytes: float) -> str:
    """33554432 -> 32 MiB."""
    value, unit = float(size_bytes), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.4g} {unit}"


def row_of(case: Case, samples: Sequence[Row]) -> Row:
    """The medians of a case's runs.  Each sample has `seconds` and `bytes` by figure, and what else it told."""
    seconds, rates, spread = {}, {}, {}
    for figure in case.figures:
        values = [value for one in samples for value in one["seconds"][figure]]
        seconds[figure] = statistics.median(values)
        spread[figure] = {"least": min(values), "most": max(values), "samples": len(values)}
        moved = samples[-1]["bytes"].get(figure)
        if moved and seconds[figure] > 0:
            rates[figure] = moved / seconds[figure] / 1e6
    return {
        "device": case.device,
        "mpi": case.mpi,
        "kernel": case.kernel,
        "arm": case.arm,
        "ranks": case.ranks,
        "ranks_per_node": case.ranks_per_node,
        "nodes": case.nodes,
        "cache_bytes": case.cache_bytes,
        "options": list(case.words),
        "seconds": seconds,
        "spread": spread,
        "megabytes_per_second": rates,
        "file_bytes": samples[-1]["file_bytes"],
        "limit_bytes": samples[-1].get("limit_bytes", 0),
        "phases": samples[-1].get("phases", {}),
    }


def distinct(rows: Iterable[Row], name: str) -> list[Any]:
    """In the order in which they first come."""
    return list(dict.fromkeys(row[name] for row in rows))


def only(rows: Iterable[Row], **wanted: Any) -> list[Row]:
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def value_of(rows: Iterable[Row], kind: str, figure: str, **wanted: Any) -> float | None:
    """Of the only row that there is, or nothing."""
    found = only(rows, **wanted)
    return found[0][kind].get(figure) if found else None


def shown_number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"


def percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:+.1f} %"


def less(value: float | None, base: float | None) -> float | None:
    """By what share `value` is below `base`: 0.05 is 5 % worse, where more is better."""
    return 1 - value / base if value is not None and base else None
