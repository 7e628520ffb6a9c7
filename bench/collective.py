"""Collective patterns of the field's kernels: native collective, native independent and Penstock, alternating, bytes verified.

Knows the kernels of kernels/ and the program of bench/bound by their options and their JSON only.  bench/README.md says what each figure means.
"""

import json
import os
import shutil
import statistics
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
    Launcher,
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

QUICK_SECONDS = 50.0  # no new launches after that; what is under way may still take a few seconds
INDEPENDENT = "native_independent"
ARMS = (NATIVE, INDEPENDENT, PENSTOCK)
KERNELS = ("interleave", "btio", "s3d", "e3sm-F", "e3sm-G")
PIECES = (8, 64, 512, 4096, MEBIBYTE)
OPTIONS = (
    "build",
    "directories",
    "environment",
    "hints",
    "kernels",
    "library",
    "lines",
    "maps",
    "mpi",
    "native_only",
    "pieces",
    "ranks",
    "repetitions",
    "rounds",
    "size",
    "strategy",
    "timeout",
)
# Strategies that do not take the short cuts of one node; their targets are others.
FORCED = ("two_phase", "two_layer")


@dataclass(frozen=True)
class Size:
    """How large the kernels' problems are."""

    interleave_counts: dict[int, int]  # pieces of one rank, by their bytes
    btio: tuple[int, int]  # points along an edge, time steps
    s3d: int  # points along an edge
    e3sm: tuple[int, int]  # variables, records
    mesh: tuple[int, int]  # elements along an edge, levels, where there is no map


SIZES = {
    "tiny": Size({8: 500, 64: 500, 512: 200, 4096: 50, MEBIBYTE: 2}, (12, 3), 12, (6, 1), (2, 3)),
    "quick": Size({8: 20_000, 64: 20_000, 512: 5_000, 4096: 2_000, MEBIBYTE: 8}, (24, 10), 32, (12, 2), (8, 16)),
    "full": Size({8: 100_000, 64: 100_000, 512: 20_000, 4096: 20_000, MEBIBYTE: 64}, (48, 40), 96, (60, 2), (16, 32)),
}


@dataclass(frozen=True)
class Work:
    """One kernel with its options: what all arms of a case have in common."""

    name: str
    kernel: str
    program: str
    words: tuple[str, ...]
    bytes_at_most: int  # of the file, to see whether it fits
    square: bool = False  # numbers of ranks
    piece_bytes: int | None = None
    pieces: int | None = None  # of a rank
    mesh: str | None = None


@dataclass(frozen=True)
class Case:
    mpi: launching.Mpi
    storage: str
    directory: Path
    work: Work
    ranks: int

    def name(self) -> str:
        return f"{self.mpi.name} {self.storage} {self.work.name} x{self.ranks}"

    def file_bytes(self) -> int:
        return self.work.bytes_at_most * (self.ranks if self.work.piece_bytes else 1)


@dataclass
class Samples:
    """What was measured of one case, by (arm or bound's way, series)."""

    seconds: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    costs: dict[tuple[str, str, str], list[float]] = field(default_factory=dict)  # by arm, operation, cost
    hashes: set[str] = field(default_factory=set)
    facts: dict[str, Any] = field(default_factory=dict)
    report: dict[str, dict[str, Any]] = field(default_factory=dict)  # Penstock's own, by operation
    verified: bool = True
    failures: dict[str, str] = field(default_factory=dict)  # the first of each arm


@dataclass(frozen=True)
class Settings:
    """The options, read once."""

    quick: bool
    build: Path
    library: Path | None  # None: native against native, to see the noise
    mpis: list[launching.Mpi]
    storages: dict[str, Path]
    ranks: tuple[int, ...]
    works: tuple[Work, ...]
    rounds: int
    repetitions: int
    timeout_seconds: float
    strategy: str
    environment: dict[str, str]  # of Penstock's ranks
    lines: Path


# Options


def maps_of(options: dict[str, Any]) -> Path | None:
    if "maps" in options:
        given = Path(options["maps"])
        if not given.is_dir():
            raise SystemExit(f"maps={given}: expected a directory with map_f_*.nc and map_g_*.nc")
        return given
    beside = launching.ROOT.parent / "shared" / "data" / "e3sm"
    return beside if beside.is_dir() else None


def _interleave(size: Size, piece: int) -> Work:
    count = size.interleave_counts[piece]
    words = ("-b", str(piece), "-s", str(count))
    name = f"interleave-{readable(piece)}"
    return Work(name, "interleave", "interleave", words, piece * count, piece_bytes=piece, pieces=count)


def _e3sm(size: Size, name: str, maps: Path | None) -> Work:
    """A production case's map, or, where it is not there, the kernel's own mesh; the cell says which."""
    letter = name[-1].lower()
    found = sorted(maps.glob(f"map_{letter}_case*.nc")) if maps else []
    variables, records = size.e3sm
    words = ["--variables", str(variables), "--records", str(records), "--group", "0", "--no-sync"]
    if found:
        elements = 1 << 18  # more than any array of the maps that are known has
        words += ["--map", str(found[0].resolve())]
        mesh = found[0].stem
    else:
        edge, levels = size.mesh
        elements = 54 * edge * edge * levels + 2 * levels
        words += ["--ne", str(edge), "--levels", str(levels)]
        mesh = f"cubed sphere, {edge} elements along an edge, {levels} levels"
    shown = name if found else f"{name} (own mesh)"
    return Work(shown, name, "e3sm", tuple(words), 8 * elements * variables * records, mesh=mesh)


def works(size: Size, kernels: tuple[str, ...], pieces: tuple[int, ...], maps: Path | None) -> Iterator[Work]:
    for kernel in kernels:
        if kernel == "interleave":
            yield from (_interleave(size, piece) for piece in pieces)
        elif kernel == "btio":
            points, variables = size.btio
            words = ("--points", str(points), "--variables", str(variables))
            yield Work(kernel, kernel, kernel, words, 40 * points**3 * variables, square=True)
        elif kernel == "s3d":
            yield Work(kernel, kernel, kernel, ("--points", str(size.s3d)), 128 * size.s3d**3)
        else:
            yield _e3sm(size, kernel, maps)


def _environment(options: dict[str, Any]) -> dict[str, str]:
    """What Penstock's ranks get besides: a strategy and hints for every file, and variables."""
    changed = {}
    for setting in words_of(options.get("environment", "")):
        name, equals, value = setting.partition("=")
        if not equals or not name:
            raise SystemExit(f"environment={setting}: expected NAME=VALUE, with commas between several")
        changed[name] = value
    before = changed.pop("PENSTOCK_HINTS", os.environ.get("PENSTOCK_HINTS", ""))
    hints = [before, *words_of(options.get("hints", ""))]
    if options.get("strategy"):
        hints.append(f"penstock_strategy={options['strategy']}")
    if any(hints):
        changed["PENSTOCK_HINTS"] = ";".join(hint for hint in hints if hint)
    return changed


def settings(quick: bool, options: dict[str, Any]) -> Settings:
    """Reads `options`; every value may be text.  The keys are those of bench/README.md."""
    refuse_unknown(options, OPTIONS)
    build = Path(options.get("build", launching.default_build())).resolve()
    library = library_of(options, build)
    names = words_of(options.get("mpi", []))
    found = launching.installed(build, names)
    if not names:
        found = [mpi for mpi in found if mpi.name in ("mpich", "openmpi")] or found
    size_name = str(options.get("size", "quick" if quick else "full"))
    if size_name not in SIZES:
        raise SystemExit(f"size={size_name}: expected one of {', '.join(SIZES)}")
    kernels = choices(options, "kernels", KERNELS, KERNELS)
    pieces = choices(options, "pieces", PIECES, (512,) if quick else PIECES)
    directories = options.get("directories", "/dev/shm" if quick and Path("/dev/shm").is_dir() else "")
    return Settings(
        quick=quick,
        build=build,
        library=library,
        mpis=found,
        storages=storages(directories),
        ranks=numbers(options, "ranks", "4" if quick else "2,4,16"),
        works=tuple(works(SIZES[size_name], kernels, pieces, maps_of(options))),
        rounds=numbers(options, "rounds", "2" if quick else "3")[0],
        repetitions=numbers(options, "repetitions", "2" if quick else "3")[0],
        timeout_seconds=seconds(options, "timeout", 30 if quick else 300),
        strategy=str(options.get("strategy", "")),
        environment=_environment(options),
        lines=Path(options["lines"]) if "lines" in options else lines_file("collective"),
    )


def square(number: int) -> bool:
    return any(root * root == number for root in range(1, number + 1))


def cases_of(wanted: Settings) -> Iterator[Case]:
    for storage, directory in wanted.storages.items():
        for ranks in wanted.ranks:
            for work in wanted.works:
                if work.square and not square(ranks):
                    continue
                for mpi in wanted.mpis:
                    yield Case(mpi, storage, directory, work, ranks)


def _fits(case: Case) -> bool:
    """Twice the file must fit on the storage."""
    return shutil.disk_usage(case.directory).free > 2 * case.file_bytes()


# Launches


def _preload(wanted: Settings, arm: str) -> Path | None:
    return wanted.library if arm == PENSTOCK else None


def kernel_line(case: Case, arm: str, file: Path, repetitions: int) -> list[str | Path | int]:
    mode = "--independent" if arm == INDEPENDENT else "--collective"
    # The files of most kernels are read plainly as well; the climate kernel has only the other decomposition to check with.
    shifted = [] if case.work.program == "e3sm" else ["--no-shifted"]
    program = case.mpi.program(case.work.program)
    return [program, *case.work.words, mode, *shifted, "--repetitions", repetitions, "--file", file]


def _add(samples: Samples, arm: str, found: dict[str, Any]) -> None:
    """The first repetition warms up connections and is left out."""
    samples.verified &= found["verified"]
    samples.hashes.add(found["hash"])
    samples.facts = {key: found[key] for key in ("file_bytes", "pieces", "pieces_max")}
    for series, values in found["seconds"].items():
        samples.seconds.setdefault((arm, series), []).extend(values[1:])
    for operation, costs in found["costs"].items():
        for cost, values in costs.items():
            samples.costs.setdefault((arm, operation, cost), []).extend(values[1:])


def _add_bound(samples: Samples, found: dict[str, Any]) -> None:
    for way in WAYS:
        samples.verified &= found[way]["verified"]
        for operation, values in found[way]["seconds"].items():
            samples.seconds.setdefault((way, operation), []).extend(values[1:])


def _launch(launcher: Launcher, wanted: Settings, case: Case, arm: str, samples: Samples) -> None:
    keep = {"arm": arm, "storage": case.storage, "work": case.work.name}
    repetitions = wanted.repetitions + 1
    with scratch(case.directory) as file:
        if arm == BOUND:
            words = ["--pattern", "interleaved", "--piece", case.work.piece_bytes, "--count", case.work.pieces]
            line = [case.mpi.program("bound"), *words, "--repetitions", repetitions, "--file", file]
            _add_bound(samples, launcher.launch(case.mpi, case.ranks, line, None, keep))
            return
        line = kernel_line(case, arm, file, repetitions)
        changed = wanted.environment if arm == PENSTOCK else {}
        _add(samples, arm, launcher.launch(case.mpi, case.ranks, line, _preload(wanted, arm), keep, changed))


def _measure_round(launcher: Launcher, wanted: Settings, case: Case, samples: Samples, number: int) -> None:
    """Who goes first changes from round to round; the bound is measured in the first rounds only."""
    first = number % len(ARMS)
    arms = [*ARMS[first:], *ARMS[:first]]
    if case.work.piece_bytes and number < (1 if wanted.quick else 2):
        arms.append(BOUND)
    for arm in arms:
        if arm in samples.failures:
            continue  # what hung once would hang again, for as long
        try:
            _launch(launcher, wanted, case, arm, samples)
        except launching.LaunchFailure as failure:
            samples.failures[arm] = str(failure)


def _count(launcher: Launcher, wanted: Settings, case: Case, samples: Samples) -> None:
    """Penstock's own counters and phases of one repetition, from a launch that is not timed."""
    keep = {"arm": "penstock_counts", "storage": case.storage, "work": case.work.name}
    with scratch(case.directory) as file:
        report = Path(f"{file}.report")
        line = [*kernel_line(case, PENSTOCK, file, 1), "--no-shifted"]
        changed = wanted.environment | {"PENSTOCK_REPORT": str(report)}
        try:
            launcher.launch(case.mpi, case.ranks, line, wanted.library, keep, changed)
            rows = [json.loads(row) for row in report.read_text().splitlines()]
        except (launching.LaunchFailure, OSError, ValueError) as failure:
            samples.failures["penstock_counts"] = str(failure)
            return
    for row in rows:
        operation = "write" if row["counters"].get("calls_write") else "read"
        phases = {name: part["max"] for name, part in row["phases"].items() if part["max"] > 0}
        counters = {name: number for name, number in row["counters"].items() if number}
        samples.report[operation] = {"strategy": row["strategy"], "counters": counters, "phase_seconds_max": phases}


def _refuse_bad_hints(launcher: Launcher, wanted: Settings) -> None:
    """A hint that is not understood changes nothing: the figures would be those of something else than was asked for."""
    if wanted.library is None or "PENSTOCK_HINTS" not in wanted.environment:
        return
    with scratch(next(iter(wanted.storages.values()))) as file:
        report = Path(f"{file}.report")
        mpi = wanted.mpis[0]
        line = [mpi.program("interleave"), "-b", 8, "--file", file]
        changed = wanted.environment | {"PENSTOCK_REPORT": str(report)}
        try:
            launcher.launch(mpi, 1, line, wanted.library, {"arm": "hints"}, changed)
            rows = [json.loads(row) for row in report.read_text().splitlines()]
        except (launching.LaunchFailure, OSError, ValueError) as failure:
            raise SystemExit(f"hints={wanted.environment['PENSTOCK_HINTS']}: a first trial failed: {failure}") from None
    complaints = dict.fromkeys(text for row in rows for text in row["complaints"])
    if complaints:
        raise SystemExit(f"hints={wanted.environment['PENSTOCK_HINTS']}: {'; '.join(complaints)}")


# Figures


def _median_ms(samples: Samples, arm: str, series: str) -> float | None:
    values = samples.seconds.get((arm, series))
    return statistics.median(values) * 1e3 if values else None


def _best(*values: float | None) -> float | None:
    return min((value for value in values if value is not None), default=None)


def _cost(samples: Samples, arm: str, operation: str, *names: str) -> float | None:
    values = [samples.costs.get((arm, operation, name)) for name in names]
    if not all(values):
        return None
    return sum(statistics.median(part) for part in values if part)


def _costs(samples: Samples, operation: str) -> dict[str, dict[str, float | None]]:
    """Of all ranks together, in one repetition."""
    return {
        arm: {
            "cpu_seconds": _cost(samples, arm, operation, "user_seconds", "system_seconds"),
            "file_calls": _cost(samples, arm, operation, "file_calls"),
            "switches": _cost(samples, arm, operation, "switches"),
            "page_faults": _cost(samples, arm, operation, "page_faults"),
        }
        for arm in ARMS
    }


def _behind(cell: dict[str, Any]) -> bool:
    """Slower than native collective by more than the spread of both: their middle halves do not even touch."""
    if NATIVE not in cell or PENSTOCK not in cell:
        return False
    return bool(cell[PENSTOCK]["lower_quartile_ms"] > cell[NATIVE]["upper_quartile_ms"])


def _cell(case: Case, samples: Samples, operation: str) -> dict[str, Any]:
    """The time of a pass: from the first call's beginning to the last call's end, views set between calls included."""
    native, alone, own = (_median_ms(samples, arm, f"{operation}_pass") for arm in ARMS)
    bounds = {way: _median_ms(samples, way, operation) for way in WAYS} if case.work.piece_bytes else {}
    # A native arm that fails is told, but is no wrong byte of ours.
    good = samples.verified and len(samples.hashes) <= 1 and not {PENSTOCK, BOUND} & set(samples.failures)
    cell: dict[str, Any] = {
        "name": f"{case.name()} {operation}",
        "native_ms": native,
        "native_independent_ms": alone,
        "penstock_ms": own,
        "ratio": ratio(native, own),
        "ratio_best": ratio(_best(native, alone), own),
        **{f"bound_{way}_ms": value for way, value in bounds.items()},
        "times_bound_best": ratio(own, _best(*bounds.values())),
        "verified": good,
        "oversubscribed": launching.oversubscribed(case.ranks),
        "facts": {
            "mpi": case.mpi.name,
            "storage": case.storage,
            "kernel": case.work.kernel,
            "piece_bytes": case.work.piece_bytes,
            "mesh": case.work.mesh,
            "options": " ".join(case.work.words),
            "ranks": case.ranks,
            "operation": operation,
            **samples.facts,
        },
        "costs": _costs(samples, operation),
    }
    for arm in ARMS:
        values = samples.seconds.get((arm, f"{operation}_pass"))
        if values:
            cell[arm] = spread(values)
    totals = {arm: _median_ms(samples, arm, f"{operation}_total") for arm in ARMS}
    cell["with_open_and_close"] = {
        "native_ms": totals[NATIVE],
        "penstock_ms": totals[PENSTOCK],
        "ratio": ratio(totals[NATIVE], totals[PENSTOCK]),
    }
    cell["behind_native"] = _behind(cell)
    if operation in samples.report:
        cell["report"] = samples.report[operation]
    if samples.failures:
        cell["failures"] = [f"{arm}: {text}" for arm, text in samples.failures.items()]
    return cell


# Targets


def _of(cells: list[dict[str, Any]], key: str, **facts: Any) -> dict[str, float | None]:
    return {
        cell["name"]: cell[key]
        for cell in cells
        if all(cell["facts"].get(name) == wanted for name, wanted in facts.items())
    }


def _by_mpi(cells: list[dict[str, Any]], key: str) -> dict[str, float | None]:
    """The geometric mean over all cells of each MPI."""
    names = dict.fromkeys(cell["facts"]["mpi"] for cell in cells)
    return {name: geomean(_of(cells, key, mpi=name).values()) for name in names}


def _throughput_kept(cells: list[dict[str, Any]]) -> dict[str, float | None]:
    """Bytes a second of 16 ranks over those of 2, where both were measured."""

    def places(ranks: int) -> dict[tuple[Any, ...], dict[str, Any]]:
        keys = ("mpi", "storage", "kernel", "piece_bytes", "operation")
        return {tuple(cell["facts"][key] for key in keys): cell for cell in cells if cell["facts"]["ranks"] == ranks}

    def speed(cell: dict[str, Any]) -> float | None:
        return ratio(cell["facts"].get("file_bytes"), cell["penstock_ms"])

    few = places(2)
    return {cell["name"]: ratio(speed(cell), speed(few[place])) for place, cell in places(16).items() if place in few}


def _unforced_targets(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    bounds = _of(cells, "times_bound_best", kernel="interleave")
    behind = {cell["name"]: float(cell["behind_native"]) for cell in cells}
    return [
        target("interleave: Penstock's time over the bound", "times", 1.3, False, bounds),
        target("native collective over Penstock, geometric mean", "times", 6.0, True, _by_mpi(cells, "ratio")),
        target("the better native over Penstock, geometric mean", "times", 2.0, True, _by_mpi(cells, "ratio_best")),
        target("cells behind native collective beyond noise", "cells", 0.0, False, behind),
        target("throughput of 16 ranks over that of 2", "times", 0.5, True, _throughput_kept(cells)),
    ]


def _aggregates(cell: dict[str, Any]) -> bool:
    """Open MPI sends pieces of this size straight to the file."""
    return not (cell["facts"]["mpi"].startswith("openmpi") and cell["facts"]["piece_bytes"] == MEBIBYTE)


def _forced_targets(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    aggregated = {cell["name"]: cell["ratio"] for cell in cells if _aggregates(cell)}
    others = {cell["name"]: cell["ratio"] for cell in cells if not _aggregates(cell)}
    return [
        target("native collective over Penstock, geometric mean", "times", 3.0, True, _by_mpi(cells, "ratio")),
        target("native collective over Penstock, every cell", "times", 1.0, True, aggregated),
        target("the same where Open MPI does not aggregate", "times", 0.7, True, others),
        target("throughput of 16 ranks over that of 2", "times", 0.5, True, _throughput_kept(cells)),
    ]


def targets(cells: list[dict[str, Any]], strategy: str) -> list[dict[str, Any]]:
    return _forced_targets(cells) if strategy in FORCED else _unforced_targets(cells)


def _summary(cells: list[dict[str, Any]], wanted: Settings, left_out: list[str], seconds: float) -> dict[str, Any]:
    ratios = [cell["ratio"] for cell in cells if cell["ratio"]]
    against_collective, against_best = _by_mpi(cells, "ratio"), _by_mpi(cells, "ratio_best")
    return {
        "geomean_ratio": geomean(ratios),
        "min_ratio": min(ratios) if ratios else None,
        **{f"{name}_geomean_ratio": value for name, value in against_collective.items()},
        **{f"{name}_geomean_best_ratio": value for name, value in against_best.items()},
        "verified": all(cell["verified"] for cell in cells),
        "cells": len(cells),
        "failed_cells": sum("failures" in cell for cell in cells),
        "left_out": left_out,
        "against": NATIVE if wanted.library is None else PENSTOCK,
        "strategy": wanted.strategy or "automatic",
        "environment": wanted.environment,
        "cores": launching.cores(),
        "rounds": wanted.rounds,
        "repetitions": wanted.repetitions,
        "seconds": round(seconds, 1),
        "lines": str(wanted.lines),
        # Native against native has no Penstock to judge.
        "targets": targets(cells, wanted.strategy) if wanted.library else [],
    }


def _measure(
    launcher: Launcher, wanted: Settings, measured: dict[Case, Samples], late: Callable[[], bool], progress: Progress
) -> None:
    # Rounds outside, cases inside: a busy minute of the machine does not fall on one case alone.
    for number in range(wanted.rounds):
        for index, (case, samples) in enumerate(measured.items(), 1):
            if late():
                return
            progress(f"round {number + 1} of {wanted.rounds}, {index} of {len(measured)}: {case.name()}")
            _measure_round(launcher, wanted, case, samples, number)
    for index, (case, samples) in enumerate(measured.items(), 1):
        if wanted.library is None or PENSTOCK in samples.failures:
            continue
        if late():
            return
        progress(f"counts, {index} of {len(measured)}: {case.name()}")
        _count(launcher, wanted, case, samples)


def run(*, quick: bool, options: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Measures every cell and says which targets are met."""
    begin = time.monotonic()
    wanted = settings(quick, options)
    launcher = Launcher(wanted.lines, wanted.timeout_seconds)
    _refuse_bad_hints(launcher, wanted)
    cases = list(cases_of(wanted))
    measured = {case: Samples() for case in cases if _fits(case)}
    left_out = [f"{case.name()}: not enough room in {case.directory}" for case in cases if case not in measured]

    def late() -> bool:
        return quick and time.monotonic() - begin > QUICK_SECONDS

    interrupted = False
    try:
        _measure(launcher, wanted, measured, late, progress)
    except KeyboardInterrupt:
        interrupted = True
        progress("interrupted: what was measured until now is told")
    cells = []
    for case, samples in measured.items():
        if not samples.seconds and not samples.failures:
            left_out.append(f"{case.name()}: {'interrupted' if interrupted else 'no time left'}")
            continue
        cells += [_cell(case, samples, operation) for operation in OPERATIONS]
    return {"cells": cells, "summary": _summary(cells, wanted, left_out, time.monotonic() - begin)}
