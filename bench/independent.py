"""Independent and collective pieces: native MPI-IO, Penstock and the bound on one node, alternating, bytes verified.

Knows the programs of bench/programs and bench/bound by their JSON only.  bench/README.md says what each figure means.
"""

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import launching
from cells import (
    BOUND,
    MEBIBYTE,
    NATIVE,
    OPERATIONS,
    PENSTOCK,
    WAYS,
    Progress,
    choices,
    geomean,
    library_of,
    lines_file,
    numbers,
    ratio,
    readable,
    refuse_unknown,
    scratch,
    seconds,
    spread,
    storages,
    target,
    words_of,
)
from cells import Launcher as Lines

QUICK_SECONDS = 45.0  # no new launches after that; what is under way may still take a few seconds
MODES = ("independent", "collective")
REPORTING = "penstock with a report"


@dataclass(frozen=True)
class Size:
    pattern: str
    piece_bytes: int
    count: int


FULL_SIZES = (
    Size("contiguous", MEBIBYTE, 16),
    Size("contiguous", 16 * MEBIBYTE, 4),
    Size("interleaved", 8, 100_000),
    Size("interleaved", 64, 100_000),
    Size("interleaved", 512, 20_000),
    Size("interleaved", 4096, 20_000),
    Size("interleaved", MEBIBYTE, 32),
)
QUICK_SIZES = (Size("interleaved", 8, 20_000), Size("interleaved", 64, 20_000), Size("contiguous", MEBIBYTE, 8))


@dataclass(frozen=True)
class Case:
    """Everything that native, Penstock and the bound have in common."""

    mpi: launching.Mpi
    storage: str
    directory: Path
    size: Size
    ranks: int

    def name(self) -> str:
        return f"{self.mpi.name} {self.storage} {self.size.pattern} {readable(self.size.piece_bytes)} x{self.ranks}"


@dataclass
class Samples:
    """What was measured of one case: seconds by (arm, mode or way, series)."""

    seconds: dict[tuple[str, str, str], list[float]] = field(default_factory=dict)
    cpu_seconds: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    hashes: dict[str, set[str]] = field(default_factory=dict)
    verified: bool = True
    failures: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Settings:
    """The options, read once."""

    quick: bool
    build: Path
    library: Path | None  # None: native against native, to see the noise
    mpis: list[launching.Mpi]
    storages: dict[str, Path]
    ranks: tuple[int, ...]
    sizes: tuple[Size, ...]
    rounds: int
    repetitions: int
    timeout_seconds: float
    lines: Path


# Options


def settings(quick: bool, options: dict[str, Any]) -> Settings:
    """Reads `options`; every value may be text.  The keys are those of bench/README.md."""
    known = {
        "mpi",
        "build",
        "library",
        "native_only",
        "directories",
        "ranks",
        "pieces",
        "rounds",
        "repetitions",
        "timeout",
        "lines",
    }
    refuse_unknown(options, known)
    build = Path(options.get("build", launching.default_build())).resolve()
    library = library_of(options, build)
    names = words_of(options.get("mpi", []))
    found = launching.installed(build, names)
    if quick and not names:
        found = [mpi for mpi in found if not mpi.name.startswith("wheel-")] or found
    sizes: tuple[Size, ...] = QUICK_SIZES if quick else FULL_SIZES
    if "pieces" in options:
        known = tuple(dict.fromkeys(size.piece_bytes for size in FULL_SIZES))
        wanted = choices(options, "pieces", known, ())
        sizes = tuple(size for size in FULL_SIZES if size.piece_bytes in wanted)
    return Settings(
        quick=quick,
        build=build,
        library=library,
        mpis=found,
        storages=storages(options.get("directories", "")),
        ranks=numbers(options, "ranks", "2" if quick else "2,4"),
        sizes=sizes,
        rounds=numbers(options, "rounds", "2" if quick else "3")[0],
        repetitions=numbers(options, "repetitions", "2" if quick else "3")[0],
        timeout_seconds=seconds(options, "timeout", 30 if quick else 180),
        lines=Path(options["lines"]) if "lines" in options else lines_file("independent"),
    )


# Launches


class Launcher:
    """Runs the programs for one arm."""

    def __init__(self, wanted: Settings) -> None:
        self.wanted = wanted
        self.lines = Lines(wanted.lines, wanted.timeout_seconds)

    def launch(
        self, arm: str, mpi: launching.Mpi, storage: str, directory: Path, ranks: int, words: list[Any]
    ) -> dict[str, Any]:
        """One line of JSON of `independent` or, for the bound, of `bound`."""
        program = mpi.program("bound" if arm == BOUND else "independent")
        preload = self.wanted.library if arm in (PENSTOCK, REPORTING) else None
        with scratch(directory) as file, tempfile.TemporaryDirectory() as reports:
            keep = {"arm": arm, "storage": storage}
            changed = {"PENSTOCK_REPORT": str(Path(reports) / "report")} if arm == REPORTING else {}
            return self.lines.launch(mpi, ranks, [program, *words, "--file", file], preload, keep, changed)


def _case_words(case: Case, repetitions: int) -> list[Any]:
    size = case.size
    words: list[Any] = ["--pattern", size.pattern, "--piece", size.piece_bytes, "--count", size.count]
    return [*words, "--repetitions", repetitions + 1]  # the first warms up connections and is left out


def _add(samples: Samples, arm: str, found: dict[str, Any], repetitions: int) -> None:
    for kind in WAYS if arm == BOUND else MODES:
        part = found[kind]
        samples.verified &= part["verified"]
        samples.hashes.setdefault(arm, set()).add(part["hash"])
        for series, values in part["seconds"].items():
            samples.seconds.setdefault((arm, kind, series), []).extend(values[1:])
        if "cpu" in part:
            spent = part["cpu"]["user_seconds"] + part["cpu"]["system_seconds"]
            samples.cpu_seconds.setdefault((arm, kind), []).append(spent / (repetitions + 1))


def _measure_round(launcher: Launcher, case: Case, samples: Samples, number: int) -> None:
    """Native and Penstock change who goes first from round to round; the bound is measured in the first rounds only."""
    arms = [NATIVE, PENSTOCK] if number % 2 == 0 else [PENSTOCK, NATIVE]
    if number < (1 if launcher.wanted.quick else 2):
        arms.append(BOUND)
    for arm in arms:
        words = _case_words(case, launcher.wanted.repetitions)
        try:
            found = launcher.launch(arm, case.mpi, case.storage, case.directory, case.ranks, words)
            _add(samples, arm, found, launcher.wanted.repetitions)
        except launching.LaunchFailure as failure:
            samples.failures.append(f"{arm}: {failure}")


# Figures


def _median_ms(samples: Samples, arm: str, kind: str, series: str) -> float | None:
    values = samples.seconds.get((arm, kind, series))
    return statistics.median(values) * 1e3 if values else None


def _cell(case: Case, samples: Samples, operation: str, mode: str) -> dict[str, Any]:
    other = MODES[1 - MODES.index(mode)]
    native = _median_ms(samples, NATIVE, mode, operation)
    own = _median_ms(samples, PENSTOCK, mode, operation)
    bounds = {way: _median_ms(samples, BOUND, way, operation) for way in WAYS}
    best = min((value for value in bounds.values() if value is not None), default=None)
    cpu = {
        arm: statistics.median(samples.cpu_seconds[arm, mode])
        for arm in (NATIVE, PENSTOCK)
        if (arm, mode) in samples.cpu_seconds
    }
    cell: dict[str, Any] = {
        "name": f"{case.name()} {operation} {mode}",
        "native_ms": native,
        "penstock_ms": own,
        "ratio": ratio(native, own),
        "native_other_mode_ms": _median_ms(samples, NATIVE, other, operation),
        "bound_map_ms": bounds["map"],
        "bound_piece_ms": bounds["piece"],
        "bound_shared_ms": bounds["shared"],
        "times_bound_map": ratio(own, bounds["map"]),
        "times_bound_best": ratio(own, best),
        "verified": samples.verified and _same_bytes(samples) and not samples.failures,
        "oversubscribed": launching.oversubscribed(case.ranks),
        "facts": {
            "mpi": case.mpi.name,
            "storage": case.storage,
            "pattern": case.size.pattern,
            "piece_bytes": case.size.piece_bytes,
            "pieces": case.size.count,
            "ranks": case.ranks,
            "operation": operation,
            "mode": mode,
            "bytes": case.size.piece_bytes * case.size.count * case.ranks,
        },
        "cpu_seconds_write_and_read": cpu,
    }
    for arm in (NATIVE, PENSTOCK):
        values = samples.seconds.get((arm, mode, operation))
        if values:
            cell[arm] = spread(values)
    totals = {arm: _median_ms(samples, arm, mode, f"{operation}_total") for arm in (NATIVE, PENSTOCK)}
    cell["with_open_and_close"] = {
        "native_ms": totals[NATIVE],
        "penstock_ms": totals[PENSTOCK],
        "ratio": ratio(totals[NATIVE], totals[PENSTOCK]),
    }
    if samples.failures:
        cell["failures"] = samples.failures
    return cell


def _same_bytes(samples: Samples) -> bool:
    """Every arm must have seen the same bytes: the hash covers what was in the file and what was read."""
    return len(set().union(*samples.hashes.values())) <= 1


# Bare calls and huge views


def _measure_calls(launcher: Launcher, mpi: launching.Mpi, storage: str, directory: Path) -> dict[str, Any]:
    wanted = launcher.wanted
    words = ["--pattern", "calls", "--count", 5_000 if wanted.quick else 50_000, "--repetitions", 5]
    arms: dict[str, dict[str, Any]] = {}
    cell: dict[str, Any] = {"name": f"{mpi.name} {storage} calls", "verified": True}
    for arm in (NATIVE, PENSTOCK, REPORTING):
        try:
            found = launcher.launch(arm, mpi, storage, directory, 1, words)
        except launching.LaunchFailure as failure:
            cell.setdefault("failures", []).append(f"{arm}: {failure}")
            cell["verified"] = False
            continue
        cell["verified"] &= found["verified"]
        series = found["nanoseconds"]
        small = [
            mine / bare for mine, bare in zip(series["write_at_8_bytes_ns"], series["pwrite_8_bytes_ns"], strict=True)
        ]
        arms[arm] = {name: statistics.median(values) for name, values in series.items()}
        arms[arm]["times_pwrite"] = statistics.median(small)
    if len(arms) == 3:
        cell["report_ns"] = arms[REPORTING]["write_at_8_bytes_ns"] - arms[PENSTOCK]["write_at_8_bytes_ns"]
        cell["ratio"] = arms[NATIVE]["write_at_8_bytes_ns"] / arms[PENSTOCK]["write_at_8_bytes_ns"]
        cell["empty_write_at_ns"] = arms[PENSTOCK]["empty_write_at_ns"]
        cell["times_pwrite"] = arms[PENSTOCK]["times_pwrite"]
    cell["facts"] = {"mpi": mpi.name, "storage": storage, "pattern": "calls", "ranks": 1}
    return cell | arms


def _measure_view(launcher: Launcher, mpi: launching.Mpi, storage: str, directory: Path) -> dict[str, Any]:
    """A view of few pieces against one of very many.  Native libraries would list them all, so they are not asked."""
    large = 1_000_000_000 if launcher.wanted.library else 100_000
    cell: dict[str, Any] = {"name": f"{mpi.name} {storage} view of {large} pieces", "verified": True}
    found = {}
    for name, pieces in (("few", 1_000), ("many", large)):
        words = ["--pattern", "view", "--count", pieces, "--repetitions", 101]  # of some microseconds each
        try:
            found[name] = launcher.launch(PENSTOCK, mpi, storage, directory, 1, words)
        except launching.LaunchFailure as failure:
            cell.setdefault("failures", []).append(str(failure))
            cell["verified"] = False
            continue
        cell["verified"] &= found[name]["verified"]
    if len(found) == 2:
        for name, part in found.items():
            cell[f"{name}_ms"] = statistics.median(part["seconds"]["view"]) * 1e3
            cell[f"{name}_memory_bytes"] = part["memory_bytes"]
        cell["times_few"] = cell["many_ms"] / cell["few_ms"]
        cell["more_memory_bytes"] = cell["many_memory_bytes"] - cell["few_memory_bytes"]
    cell["facts"] = {"mpi": mpi.name, "storage": storage, "pattern": "view", "ranks": 1}
    return cell


# Targets


def _figures(
    cells: list[dict[str, Any]], value: Callable[[dict[str, Any]], float | None], **facts: Any
) -> dict[str, float | None]:
    return {
        cell["name"]: value(cell)
        for cell in cells
        if all(cell["facts"].get(key) == wanted for key, wanted in facts.items())
    }


def _native_collective(cell: dict[str, Any]) -> float | None:
    """How many times sooner than native collective this cell's Penstock figure is, whichever mode the cell has."""
    collective = cell["native_ms"] if cell["facts"]["mode"] == "collective" else cell["native_other_mode_ms"]
    return ratio(collective, cell["penstock_ms"])


def targets(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found = []

    def add(text: str, unit: str, limit: float, at_least: bool, figures: dict[str, float | None]) -> None:
        found.append(target(text, unit, limit, at_least, figures))

    for piece in (MEBIBYTE, 16 * MEBIBYTE):
        figures = _figures(
            cells, lambda cell: cell["ratio"], pattern="contiguous", piece_bytes=piece, mode="independent"
        )
        add(f"contiguous {readable(piece)} independent: native time over Penstock's", "times", 1.0, True, figures)
    for piece, least in ((8, 2.5), (64, 1.5)):
        figures = _figures(cells, lambda cell: cell["times_bound_map"], pattern="interleaved", piece_bytes=piece)
        add(f"interleaved {readable(piece)}: Penstock's time over the bound's mapped way", "times", 1.3, False, figures)
        figures = _figures(cells, _native_collective, pattern="interleaved", piece_bytes=piece)
        add(f"interleaved {readable(piece)}: native collective time over Penstock's", "times", least, True, figures)
    add(
        "empty MPI_File_write_at",
        "ns",
        1000.0,
        False,
        _figures(cells, lambda cell: cell.get("empty_write_at_ns"), pattern="calls"),
    )
    add(
        "8-byte MPI_File_write_at over a bare pwrite",
        "times",
        1.3,
        False,
        _figures(cells, lambda cell: cell.get("times_pwrite"), pattern="calls"),
    )
    add(
        "what a report adds to a call: 1 % of one that moves 1 MiB at 10 GB/s",
        "ns",
        1000.0,
        False,
        _figures(cells, lambda cell: cell.get("report_ns"), pattern="calls"),
    )
    add(
        "view of 10^9 pieces: time over that of 10^3",
        "times",
        2.0,
        False,
        _figures(cells, lambda cell: cell.get("times_few"), pattern="view"),
    )
    add(
        "view of 10^9 pieces: memory beyond that of 10^3",
        "bytes",
        MEBIBYTE,
        False,
        _figures(cells, lambda cell: cell.get("more_memory_bytes"), pattern="view"),
    )
    return found


def _summary(cells: list[dict[str, Any]], wanted: Settings, left_out: list[str], seconds: float) -> dict[str, Any]:
    ratios = [cell["ratio"] for cell in cells if cell.get("ratio") and cell["facts"]["pattern"] != "calls"]
    return {
        "geomean_ratio": geomean(ratios),
        "min_ratio": min(ratios) if ratios else None,
        "verified": all(cell["verified"] for cell in cells),
        "cells": len(cells),
        "failed_cells": sum("failures" in cell for cell in cells),
        "left_out": left_out,
        "against": "native" if wanted.library is None else "penstock",
        "cores": launching.cores(),
        "rounds": wanted.rounds,
        "repetitions": wanted.repetitions,
        "seconds": round(seconds, 1),
        "lines": str(wanted.lines),
        # Native against native has no Penstock to judge.
        "targets": targets(cells) if wanted.library else [],
    }


def _cases(wanted: Settings) -> Iterator[Case]:
    for storage, directory in wanted.storages.items():
        for ranks in wanted.ranks:
            for size in wanted.sizes:
                for mpi in wanted.mpis:
                    yield Case(mpi, storage, directory, size, ranks)


def _fits(case: Case) -> bool:
    """Twice the file must fit on the storage."""
    return shutil.disk_usage(case.directory).free > 2 * case.size.piece_bytes * case.size.count * case.ranks


def run(*, quick: bool, options: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Measures every cell and says which targets of the design are met."""
    begin = time.monotonic()
    wanted = settings(quick, options)
    launcher = Launcher(wanted)
    cases = list(_cases(wanted))
    measured = {case: Samples() for case in cases if _fits(case)}
    left_out = [f"{case.name()}: not enough room in {case.directory}" for case in cases if case not in measured]

    def late() -> bool:
        return quick and time.monotonic() - begin > QUICK_SECONDS

    cells = []
    for mpi in wanted.mpis:
        for storage, directory in wanted.storages.items():
            progress(f"{mpi.name} {storage}: bare calls")
            cells.append(_measure_calls(launcher, mpi, storage, directory))
        progress(f"{mpi.name}: views")
        storage, directory = next(iter(wanted.storages.items()))
        cells.append(_measure_view(launcher, mpi, storage, directory))
    # Rounds outside, cases inside: a busy minute of the machine does not fall on one case alone.
    for number in range(wanted.rounds):
        for index, (case, samples) in enumerate(measured.items(), 1):
            if late():
                break
            progress(f"round {number + 1} of {wanted.rounds}, {index} of {len(measured)}: {case.name()}")
            _measure_round(launcher, case, samples, number)
    for case, samples in measured.items():
        if not samples.seconds and not samples.failures:
            left_out.append(f"{case.name()}: no time left")
            continue
        cells += [_cell(case, samples, operation, mode) for operation in OPERATIONS for mode in MODES]
    return {"cells": cells, "summary": _summary(cells, wanted, left_out, time.monotonic() - begin)}
