"""Measures two-layer aggregation beside two-phase: one kernel, many ways to aggregate, on pretended nodes of this machine.

Starts the kernels under the library and reads its reports; knows neither the command line nor how results are shown.
"""

import contextlib
import importlib
import math
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock import environment, hints, paths, report
from penstock.failure import USAGE, Failure
from penstock.study import breakdown
from penstock.study.breakdown import Cell

Progress = Callable[[str], None]

# Kernels and their options, small and as usual.  The first four are those of the paper's figures 4 to 7.
SIZES: dict[str, dict[str, list[str]]] = {
    "quick": {
        "e3sm": ["--ne", "4", "--levels", "8", "--variables", "4", "--records", "1", "--group", "0"],
        "e3sm-F": ["--variables", "4", "--records", "1", "--group", "0"],
        "e3sm-G": ["--variables", "4", "--records", "1", "--group", "0"],
        "btio": ["--points", "12", "--variables", "3"],
        "s3d": ["--points", "16"],
        "interleave": ["-b", "512", "-s", "500"],
    },
    "usual": {
        "e3sm": ["--ne", "16", "--levels", "32", "--variables", "8", "--records", "1", "--group", "0"],
        "e3sm-F": ["--variables", "8", "--records", "1", "--group", "0"],
        "e3sm-G": ["--variables", "8", "--records", "1", "--group", "0"],
        "btio": ["--points", "48", "--variables", "8"],
        "s3d": ["--points", "64"],
        "interleave": ["-b", "512", "-s", "5000"],
    },
}
KERNELS = tuple(SIZES["usual"])
BY_DEFAULT = ("e3sm", "btio", "s3d")
SQUARE = ("btio",)  # of ranks
OWN_PROGRAM = "program"
FILE_WORD = "{file}"
# Equal for all ways to aggregate, so that their rounds are the same.
BUFFER_BYTES = 1 << 20


@dataclass(frozen=True)
class Wanted:
    """What the user asked for, read once."""

    ranks: tuple[int, ...]
    ranks_per_node: int
    local: tuple[int, ...]
    mpis: tuple[str, ...]
    kernels: tuple[str, ...]  # empty: those of BY_DEFAULT that are built
    line: tuple[str, ...]  # the user's own program instead of kernels
    rounds: int
    directory: Path | None
    aggregators: int  # in all; 0: one for each node
    buffer_bytes: int
    maps: Path | None
    quick: bool
    timeout_seconds: float


def launching() -> Any:
    """bench/launching.py, which starts programs for benchmarks too."""
    directory = paths.bench_directory()
    if not (directory / "launching.py").is_file():
        raise Failure(
            f"{directory / 'launching.py'} is not there: studies need it; run from a checkout or install again"
        )
    if str(directory) not in sys.path:
        sys.path.insert(0, str(directory))
    return importlib.import_module("launching")


# What to run


def installed(wanted: Wanted, build: Path) -> list[Any]:
    """The MPIs to measure.  A program of the user's needs no kernels, only launchers."""
    starter = launching()
    try:
        return list(starter.installed(build, wanted.mpis))
    except SystemExit as missing:
        if not wanted.line:
            raise Failure(str(missing)) from None
    found = []
    for name in wanted.mpis or ("mpich", "openmpi"):
        launcher = shutil.which(f"mpiexec.{name}")
        if launcher:
            found.append(starter.Mpi(name, "openmpi" if "openmpi" in name else "mpich", Path(launcher), build))
    if not found:
        raise Failure(f"no mpiexec.{' or mpiexec.'.join(wanted.mpis or ('mpich', 'openmpi'))} in PATH")
    return found


def kernels_of(wanted: Wanted, mpi: Any, progress: Progress) -> list[str]:
    """Those asked for; without a wish, those that are built for this MPI."""
    if wanted.line:
        return [OWN_PROGRAM]
    unknown = [name for name in wanted.kernels if name not in KERNELS]
    if unknown:
        raise Failure(f"--kernel {','.join(unknown)}: expected some of {', '.join(KERNELS)}", USAGE)
    names = wanted.kernels or (BY_DEFAULT[:1] if wanted.quick else BY_DEFAULT)
    found = []
    for name in names:
        if mpi.program(name.partition("-")[0]).is_file():
            found.append(name)
        elif wanted.kernels:
            raise Failure(
                f"{mpi.program(name.partition('-')[0])} is not there: build it (make build), or leave {name} out"
            )
        else:
            progress(f"{name} is not built for {mpi.name}: left out")
    return found


def map_of(kernel: str, maps: Path | None) -> list[str]:
    """The decomposition of the production case that e3sm-F and e3sm-G stand for."""
    letter = kernel.partition("-")[2].lower()
    if not letter:
        return []
    directory = maps or paths.PACKAGE.parents[2] / "shared" / "data" / "e3sm"
    found = sorted(directory.glob(f"map_{letter}_case*.nc"))
    if not found:
        raise Failure(f"{directory}: no map_{letter}_case*.nc, which {kernel} needs; name its directory with --maps")
    return ["--map", str(found[0].resolve())]


def cells_of(wanted: Wanted, mpi: str, kernels: Sequence[str], progress: Progress) -> list[Cell]:
    """Two-layer with each number of local aggregators that makes a difference, and two-phase."""
    found = []
    for kernel in kernels:
        for ranks in wanted.ranks:
            if kernel in SQUARE and math.isqrt(ranks) ** 2 != ranks:
                progress(f"{kernel} takes square numbers of ranks: {ranks} is left out")
                continue
            most = min(wanted.ranks_per_node, ranks)
            local = sorted({count for count in wanted.local if count <= most} or {most})
            found += [Cell(mpi, kernel, ranks, wanted.ranks_per_node, "two_layer", count) for count in local]
            found.append(Cell(mpi, kernel, ranks, wanted.ranks_per_node, "two_phase"))
    return found


def program_words(cell: Cell, wanted: Wanted, mpi: Any, file: Path) -> list[str]:
    if wanted.line:
        return [word.replace(FILE_WORD, str(file)) for word in wanted.line]
    options = SIZES["quick" if wanted.quick else "usual"][cell.kernel]
    program = str(mpi.program(cell.kernel.partition("-")[0]))
    return [program, *options, *map_of(cell.kernel, wanted.maps), "--collective", "--json", "--file", str(file)]


def variables(cell: Cell, wanted: Wanted, base: Mapping[str, str], log: Path) -> dict[str, str]:
    """The environment of a cell's ranks.  Hints of the user's stand before those of the cell, which win."""
    entries = hints.split_entries(base.get("PENSTOCK_HINTS", ""))
    entries += [
        f"penstock_strategy={cell.strategy}",
        f"cb_nodes={wanted.aggregators or cell.nodes()}",
        f"cb_buffer_size={wanted.buffer_bytes}",
    ]
    if cell.local_aggregators:
        entries.append(f"penstock_local_aggregators={cell.local_aggregators}")
    return {
        "PENSTOCK_HINTS": ";".join(entries),
        "PENSTOCK_REPORT": str(log),
        "PENSTOCK_RANKS_PER_NODE": str(cell.ranks_per_node),
        "PNETCDF_HINTS": environment.pnetcdf_hints(base.get("PNETCDF_HINTS", "")),
    }


# Runs


@dataclass
class Measured:
    """What came of a cell's runs."""

    samples: dict[str, list[dict[str, Any]]]  # by direction
    findings: list[str]
    failure: str = ""


def run_once(cell: Cell, wanted: Wanted, mpi: Any, library: Path, scratch: Path) -> list[report.FileReport]:
    """One launch.  Raises launching.LaunchFailure, also when bytes came back wrong."""
    starter = launching()
    file, log = scratch / "data", scratch / "report.jsonl"
    log.unlink(missing_ok=True)
    words = program_words(cell, wanted, mpi, file)
    changed = starter.environment(mpi, cell.ranks)
    changed |= variables(cell, wanted, changed, log)
    changed.pop("PENSTOCK_BYPASS", None)
    line = starter.line(mpi, cell.ranks, words, library)
    try:
        if wanted.line:
            done = starter.run(line, changed, wanted.timeout_seconds)
            if done.returncode != 0:
                said = (done.stderr or done.stdout).strip()[:1500]
                raise starter.LaunchFailure(f"{' '.join(line)}: exit code {done.returncode}: {said}")
        elif not starter.result(line, changed, wanted.timeout_seconds).get("verified", False):
            raise starter.LaunchFailure(f"{' '.join(line)}: bytes came back wrong")
        found = report.read(log) if log.is_file() else report.Report()
    finally:
        file.unlink(missing_ok=True)
    if found.problems:
        raise starter.LaunchFailure(f"its report, line {found.problems[0].line}: {found.problems[0].text}")
    moving = [one for one in found.files if breakdown.direction_of(one)]
    if not moving:
        raise starter.LaunchFailure(f"{' '.join(line)}: no data in its report: does the program use MPI-IO?")
    return moving


def measure(cell: Cell, wanted: Wanted, mpi: Any, library: Path, scratch: Path, into: Measured) -> None:
    starter = launching()
    try:
        files = run_once(cell, wanted, mpi, library, scratch)
    except starter.LaunchFailure as failure:
        into.failure = str(failure)
        return
    into.findings += [text for text in breakdown.findings(files, cell) if text not in into.findings]
    for direction in breakdown.DIRECTIONS:
        mine = [file for file in files if breakdown.direction_of(file) == direction]
        if mine:
            into.samples.setdefault(direction, []).append(breakdown.sample(mine, cell.ranks))


def rows_of(cell: Cell, measured: Measured) -> Iterator[dict[str, Any]]:
    for direction, samples in measured.samples.items():
        yield {
            "mpi": cell.mpi,
            "kernel": cell.kernel,
            "ranks": cell.ranks,
            "ranks_per_node": cell.ranks_per_node,
            "nodes": cell.nodes(),
            "strategy": cell.strategy,
            "local_aggregators": cell.local_aggregators,
            "all_local_aggregators": cell.all_local_aggregators(),
            "label": cell.label(),
            "direction": direction,
            **breakdown.middle(samples),
        }


@contextlib.contextmanager
def _scratch(directory: Path | None) -> Iterator[Path]:
    """A directory of our own in the one that was asked for; else in memory where there is such a file system."""
    memory = Path("/dev/shm")
    above = directory or (memory if memory.is_dir() and os.access(memory, os.W_OK) else None)
    try:
        made = tempfile.TemporaryDirectory(prefix="penstock-study-", dir=above)
    except OSError as error:
        raise Failure(
            f"{above}: no directory can be made there: {error.strerror}; choose one with --directory"
        ) from error
    with made as name:
        yield Path(name)


def notes_of(wanted: Wanted, cells: Sequence[Cell], cores: int, scratch: Path) -> list[str]:
    most = max((cell.ranks for cell in cells), default=0)
    pretended = (
        f"All nodes are this one machine, split by PENSTOCK_RANKS_PER_NODE={wanted.ranks_per_node}: what goes between them goes through "
        "its memory, not through a network."
    )
    if most > cores:
        shared = f"Up to {most} ranks share {cores} cores, so that seconds are mostly turns of waiting for one; messages and bytes do not depend on it."
    else:
        shared = f"Each of up to {most} ranks has a core of its own ({cores} here)."
    checked = (
        "the program's exit code was 0"
        if wanted.line
        else "every byte was written and read back right, or the run does not count"
    )
    return [
        pretended,
        shared,
        f"Seconds are those of the run of median wall time of {wanted.rounds}, inside MPI_File calls; parts add up to all of it. Communication overlaps "
        "with file access: only waiting for messages counts as communication.",
        f"Files were in {scratch.parent}; {checked}.",
    ]


def _round(
    number: int,
    wanted: Wanted,
    plan: Mapping[Cell, Any],
    library: Path,
    scratch: Path,
    measured: Mapping[Cell, Measured],
    progress: Progress,
) -> None:
    """Every cell once, every other time backwards: a busy minute of the machine does not fall on one cell alone."""
    order = list(plan)[:: 1 if number % 2 == 0 else -1]
    for index, cell in enumerate(order, 1):
        if measured[cell].failure:
            continue
        progress(f"round {number + 1} of {wanted.rounds}, {index} of {len(plan)}: {cell.name()}")
        measure(cell, wanted, plan[cell], library, scratch, measured[cell])
        if measured[cell].failure:
            progress(measured[cell].failure)


def run(wanted: Wanted, progress: Progress) -> dict[str, Any]:
    """Everything: cells, comparison, notes, findings."""
    library = environment.library_in(paths.library_directory())
    mpis = installed(wanted, library.parent.parent)
    if wanted.quick and not wanted.mpis:
        mpis = mpis[:1]
    plan: dict[Cell, Any] = {}
    for mpi in mpis:
        for cell in cells_of(wanted, mpi.name, kernels_of(wanted, mpi, progress), progress):
            plan[cell] = mpi
    if not plan:
        raise Failure("nothing to measure: no kernel fits the number of ranks")
    measured = {cell: Measured({}, []) for cell in plan}
    interrupted = False
    with _scratch(wanted.directory) as scratch:
        notes = notes_of(wanted, list(plan), launching().cores(), scratch)
        try:
            for number in range(wanted.rounds):
                _round(number, wanted, plan, library, scratch, measured, progress)
        except KeyboardInterrupt:
            progress("interrupted: what has been measured follows")
            interrupted = True
    rows = [row for cell, found in measured.items() if not found.failure for row in rows_of(cell, found)]
    return {
        "study": "tam",
        "machine": {"cores": launching().cores(), "system": platform.platform()},
        "settings": {
            "ranks": wanted.ranks,
            "ranks_per_node": wanted.ranks_per_node,
            "local_aggregators": wanted.local,
            "aggregators": wanted.aggregators or "one for each node",
            "buffer_bytes": wanted.buffer_bytes,
            "rounds": wanted.rounds,
            "quick": wanted.quick,
            "line": wanted.line,
        },
        "parts": [{"name": part.name, "text": part.text, "phases": part.phases} for part in breakdown.PARTS],
        "cells": rows,
        "comparison": breakdown.comparison(rows),
        "notes": notes,
        "interrupted": interrupted,
        "findings": [text for found in measured.values() for text in found.findings],
        "failures": {cell.name(): found.failure for cell, found in measured.items() if found.failure},
    }
