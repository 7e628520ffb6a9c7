"""Whether the strategy that Penstock chooses is the best one: every strategy forced once, the choice, and native, on the same cells.

Knows the kernels by their options and their JSON, as bench/collective.py does, whose cases it measures.  bench/README.md says what each figure means.
"""

import itertools
import json
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import collective
import launching
from cells import (
    MEBIBYTE,
    NATIVE,
    OPERATIONS,
    Launcher,
    Progress,
    geomean,
    library_of,
    lines_file,
    ratio,
    refuse_unknown,
    scratch,
    spread,
    storages,
    target,
    words_of,
)
from collective import Case, Size

CHOSEN = "chosen"
FORCED = ("independent", "mapped", "sieved", "two_phase", "two_layer")
ARMS = (NATIVE, CHOSEN, *FORCED)
PIECES = (64, 512, 4096, 64 << 10, MEBIBYTE)
KERNELS = ("interleave", "btio", "s3d", "e3sm-F")
OPTIONS = (
    "build",
    "devices",
    "directories",
    "kernels",
    "library",
    "lines",
    "mpi",
    "nodes",
    "pieces",
    "profile",
    "ranks",
    "repetitions",
    "rounds",
    "size",
    "timeout",
)
CLOSE = 1.05  # a choice is right when it takes no more than so many times the best
WORST = 1.5
SIZES = {
    "tiny": Size({64: 500, 512: 200, 4096: 50, 64 << 10: 8, MEBIBYTE: 2}, (12, 3), 12, (6, 1), (2, 3)),
    "quick": Size({64: 20_000, 512: 8_000, 4096: 2_000, 64 << 10: 128, MEBIBYTE: 8}, (24, 10), 32, (12, 2), (8, 16)),
}


@dataclass(frozen=True)
class Place:
    """Where a file is, and what it is pretended to be on: `device` is a profile of penstock's emulated store, which native does not have."""

    name: str
    directory: Path
    device: str = ""


@dataclass(frozen=True)
class Setting:
    """One case on a number of nodes (pretended: 0 for the one there is)."""

    case: Case
    place: Place
    ranks_per_node: int

    def name(self) -> str:
        nodes = f" {-(-self.case.ranks // self.ranks_per_node)} nodes" if self.ranks_per_node else ""
        return f"{self.case.mpi.name} {self.place.name} {self.case.work.name} x{self.case.ranks}{nodes}"


@dataclass
class Samples:
    seconds: dict[tuple[str, str], list[float]] = field(default_factory=dict)  # by arm, operation
    hashes: set[str] = field(default_factory=set)
    verified: bool = True
    report: dict[str, dict[str, Any]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Wanted:
    build: Path
    library: Path
    settings: tuple[Setting, ...]
    rounds: int
    repetitions: int
    timeout_seconds: float
    profile: str
    lines: Path


def _nodes(options: dict[str, Any]) -> tuple[int, ...]:
    """ "1,4" -> (1, 4)."""
    return collective.numbers(options, "nodes", "1")


def _places(options: dict[str, Any]) -> tuple[Place, ...]:
    found = [Place(name, directory) for name, directory in storages(options.get("directories", "")).items()]
    first = found[0].directory
    return (*found, *(Place(f"emulated {device}", first, device) for device in words_of(options.get("devices", ""))))


def wanted_of(quick: bool, options: dict[str, Any]) -> Wanted:
    """Reads `options`; every value may be text.  The keys are those of bench/README.md."""
    refuse_unknown(options, OPTIONS)
    build = Path(options.get("build", launching.default_build())).resolve()
    library = library_of(options, build)
    if library is None:
        raise SystemExit("library=none: expected Penstock's library; without it nothing is chosen")
    names = words_of(options.get("mpi", []))
    found = launching.installed(build, names)
    if not names:
        found = [mpi for mpi in found if mpi.name in ("mpich", "openmpi")] or found
    size_name = str(options.get("size", "quick"))
    if size_name not in SIZES:
        raise SystemExit(f"size={size_name}: expected one of {', '.join(SIZES)}")
    kernels = collective.choices(options, "kernels", KERNELS, ("interleave",) if quick else KERNELS)
    pieces = collective.choices(options, "pieces", PIECES, (512,) if quick else PIECES)
    ranks = collective.numbers(options, "ranks", "4" if quick else "2,4,8")
    works = tuple(collective.works(SIZES[size_name], kernels, pieces, collective.maps_of(options)))
    settings = tuple(
        Setting(Case(mpi, place.name, place.directory, work, count), place, -(-count // nodes) if nodes > 1 else 0)
        for place, count, nodes, work, mpi in itertools.product(_places(options), ranks, _nodes(options), works, found)
        if nodes <= count and not (work.square and not collective.square(count))
    )
    return Wanted(
        build,
        library,
        settings,
        rounds=collective.numbers(options, "rounds", "1" if quick else "2")[0],
        repetitions=collective.numbers(options, "repetitions", "2" if quick else "3")[0],
        timeout_seconds=collective.seconds(options, "timeout", 60),
        profile=str(options.get("profile", "")),
        lines=Path(options["lines"]) if "lines" in options else lines_file("choices"),
    )


# Launches


def environment_of(setting: Setting, arm: str, profile: str) -> dict[str, str]:
    if arm == NATIVE:
        return {}
    hints = [f"penstock_strategy={arm}"] if arm in FORCED else []
    hints += [f"penstock_profile={profile}"] if profile else []
    changed = {"PENSTOCK_HINTS": ";".join(hints)} if hints else {}
    if setting.ranks_per_node:
        changed["PENSTOCK_RANKS_PER_NODE"] = str(setting.ranks_per_node)
    if setting.place.device:
        changed["PENSTOCK_EMULATE"] = setting.place.device
    return changed


def arms_of(setting: Setting) -> tuple[str, ...]:
    """Native knows nothing of a device that Penstock's store pretends, nor of pretended nodes."""
    alone = bool(setting.place.device or setting.ranks_per_node)
    return tuple(arm for arm in ARMS if not (alone and arm == NATIVE))


def _rows(report: Path) -> Iterator[dict[str, Any]]:
    for line in report.read_text().splitlines():
        yield json.loads(line)


def _launch(launcher: Launcher, wanted: Wanted, setting: Setting, arm: str, samples: Samples) -> None:
    keep = {"arm": arm, "storage": setting.place.name, "work": setting.case.work.name}
    with scratch(setting.case.directory) as file:
        report = Path(f"{file}.report")
        line = collective.kernel_line(setting.case, NATIVE, file, wanted.repetitions + 1)
        changed = environment_of(setting, arm, wanted.profile)
        if arm != NATIVE:
            changed["PENSTOCK_REPORT"] = str(report)
        library = None if arm == NATIVE else wanted.library
        found = launcher.launch(setting.case.mpi, setting.case.ranks, line, library, keep, changed)
        for row in _rows(report) if arm == CHOSEN and report.is_file() else ():
            operation = "write" if row["counters"].get("calls_write") else "read"
            counters = row["counters"]
            samples.report[operation] = {
                "strategy": row["strategy"],
                "chosen": counters.get("chosen", 0),
                "tried": counters.get("tried", 0),
                "taken_seconds": counters.get("chosen_nanoseconds", 0) * 1e-9,
                "predicted_seconds": counters.get("predicted_nanoseconds", 0) * 1e-9,
            }
    samples.verified &= found["verified"]
    samples.hashes.add(found["hash"])
    for operation in OPERATIONS:
        # The first repetition warms up connections and is left out.
        samples.seconds.setdefault((arm, operation), []).extend(found["seconds"][f"{operation}_pass"][1:])


# Figures


def _median(samples: Samples, arm: str, operation: str) -> float | None:
    values = samples.seconds.get((arm, operation))
    return statistics.median(values) if values else None


def cell_of(setting: Setting, samples: Samples, operation: str) -> dict[str, Any]:
    medians = {arm: _median(samples, arm, operation) for arm in arms_of(setting)}
    forced = {arm: value for arm, value in medians.items() if arm in FORCED and value is not None}
    best = min(forced, key=lambda arm: forced[arm]) if forced else None
    chosen, native = medians[CHOSEN], medians.get(NATIVE)
    least = forced[best] if best else None
    report = samples.report.get(operation) or {}
    # "mapped", or with shares of the accesses, the most first: "mapped 80 %, independent 20 %".
    way = str(report.get("strategy", "")).split(" ")[0].rstrip(",")
    return {
        "name": f"{setting.name()} {operation}",
        "ratio": ratio(native, chosen),
        "times_best": ratio(chosen, least),
        "chosen_way": way,
        "way_times_best": ratio(forced.get(way, chosen), least),
        "native_times_best": ratio(native, least),
        "best": best,
        "milliseconds": {arm: value * 1e3 for arm, value in medians.items() if value is not None},
        "report": samples.report.get(operation),
        "verified": samples.verified and len(samples.hashes) <= 1,
        "oversubscribed": launching.oversubscribed(setting.case.ranks),
        **{arm: spread(samples.seconds[arm, operation]) for arm in medians if samples.seconds.get((arm, operation))},
        "facts": {
            "mpi": setting.case.mpi.name,
            "storage": setting.place.name,
            "kernel": setting.case.work.kernel,
            "piece_bytes": setting.case.work.piece_bytes,
            "ranks": setting.case.ranks,
            "ranks_per_node": setting.ranks_per_node,
            "operation": operation,
        },
        **({"failures": [f"{arm}: {text}" for arm, text in samples.failures.items()]} if samples.failures else {}),
    }


def summary_of(cells: list[dict[str, Any]], wanted: Wanted, seconds: float) -> dict[str, Any]:
    regrets = {cell["name"]: cell["way_times_best"] for cell in cells}
    known = [value for value in regrets.values() if value]
    right = sum(value <= CLOSE for value in known) / len(known) if known else None
    ratios = [cell["ratio"] for cell in cells if cell["ratio"]]
    return {
        "geomean_ratio": geomean(ratios),
        "min_ratio": min(ratios) if ratios else None,
        "geomean_times_best": geomean(known),
        "geomean_time_over_best": geomean([cell["times_best"] for cell in cells]),
        "share_within_5_percent": right,
        "worst_times_best": max(known) if known else None,
        "native_share_within_5_percent": _share([cell["native_times_best"] for cell in cells]),
        "verified": all(cell["verified"] for cell in cells),
        "cells": len(cells),
        "failed_cells": sum("failures" in cell for cell in cells),
        "profile": wanted.profile or "found for each file system",
        "cores": launching.cores(),
        "rounds": wanted.rounds,
        "repetitions": wanted.repetitions,
        "seconds": round(seconds, 1),
        "lines": str(wanted.lines),
        "targets": [
            target(
                "share of cells where the chosen way is within 5 % of the best", "share", 0.95, True, {"all": right}
            ),
            target("the chosen way over the best one", "times", WORST, False, regrets),
        ],
    }


def _share(values: list[float | None]) -> float | None:
    known = [value for value in values if value]
    return sum(value <= CLOSE for value in known) / len(known) if known else None


def _measure(launcher: Launcher, wanted: Wanted, measured: dict[Setting, Samples], progress: Progress) -> None:
    # Rounds outside, cases inside: a busy minute of the machine does not fall on one case alone.
    for number in range(wanted.rounds):
        for index, (setting, samples) in enumerate(measured.items(), 1):
            progress(f"round {number + 1} of {wanted.rounds}, {index} of {len(measured)}: {setting.name()}")
            arms = arms_of(setting)
            first = number % len(arms)
            for arm in (*arms[first:], *arms[:first]):
                # Native is there to be seen, and takes longest of all.
                if arm in samples.failures or (arm == NATIVE and number > 0):
                    continue
                try:
                    _launch(launcher, wanted, setting, arm, samples)
                except launching.LaunchFailure as failure:
                    samples.failures[arm] = str(failure)


def run(*, quick: bool, options: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Measures every cell by every strategy, and says how often the choice was right."""
    begin = time.monotonic()
    wanted = wanted_of(quick, options)
    launcher = Launcher(wanted.lines, wanted.timeout_seconds)
    measured = {setting: Samples() for setting in wanted.settings}
    try:
        _measure(launcher, wanted, measured, progress)
    except KeyboardInterrupt:
        progress("interrupted: what was measured until now is told")
    cells = [
        cell_of(setting, samples, operation)
        for setting, samples in measured.items()
        if samples.seconds or samples.failures
        for operation in OPERATIONS
    ]
    return {"cells": cells, "summary": summary_of(cells, wanted, time.monotonic() - begin)}
