"""Individual and collective access measured here, with the paper's estimate and Penstock's own beside each.

Starts the kernel interleave under the library, on a test bed or on pretended nodes of this machine, in a directory or on devices that the library pretends; reads
its seconds.  Knows neither the command line nor how results are shown.
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock import model, paths, profiles, report
from penstock.failure import USAGE, Failure
from penstock.profiles import Profile, figures_text
from penstock.study import breakdown, paper
from penstock.study.tam import launching

Progress = Callable[[str], None]
# Fresh files of a run.  Of the first, what is only done once in a program is left out.
REPETITIONS = 2
ACCESSES = {"individual": "independent", "collective": "two_phase"}


@dataclass(frozen=True)
class Wanted:
    """What the user asked for, read once."""

    ranks: tuple[int, ...]
    ranks_per_node: int
    mpis: tuple[str, ...]
    bed: str  # "": pretended nodes of this machine
    directory: Path
    transfer_bytes: int  # one piece of a rank
    segments: int  # pieces of each rank
    buffer_bytes: int
    rounds: int
    durable: bool  # count making data durable
    timeout_seconds: float
    emulated: tuple[
        str, ...
    ] = ()  # devices that the library pretends `directory` to lie on, one after the other; none: as it is


@dataclass(frozen=True)
class Cell:
    mpi: Any  # launching.Mpi
    ranks: int
    nodes: int
    access: str
    device: str = ""

    def name(self) -> str:
        return f"{self.mpi.name} x{self.ranks} on {self.nodes} {self.access}" + (
            f" {self.device}" if self.device else ""
        )


def cells_of(wanted: Wanted, mpis: Sequence[Any]) -> list[Cell]:
    return [
        Cell(mpi, ranks, -(-ranks // wanted.ranks_per_node), access, device)
        for device in wanted.emulated or ("",)
        for mpi in mpis
        for ranks in wanted.ranks
        for access in ACCESSES
    ]


# Runs


def line_of(cell: Cell, wanted: Wanted, file: Path, log: Path) -> list[str]:
    """penstock run or penstock testbed run, with everything that a user would type."""
    starter = launching()
    words = [str(cell.mpi.program("interleave")), "-b", str(wanted.transfer_bytes), "-s", str(wanted.segments)]
    words += ["--collective" if cell.access == "collective" else "--independent", "--no-shifted", "--json"]
    words += ["--sync" if wanted.durable else "--no-sync", "--repetitions", str(REPETITIONS), "--file", str(file)]
    where = ["run"]
    if wanted.bed:
        where = ["testbed", "run", "--name", wanted.bed, "--per-node", str(wanted.ranks_per_node)]
    hints = [f"cb_nodes={cell.nodes}", f"cb_buffer_size={wanted.buffer_bytes}"]
    asked = [word for hint in hints for word in ("--hints", hint)]
    asked += ["--strategy", ACCESSES[cell.access], "--report", str(log)]
    start = [sys.executable, str(paths.PACKAGE / "__main__.py"), *where, *asked]
    return [*start, *starter.line(cell.mpi, cell.ranks, words)]


def environment_of(cell: Cell, wanted: Wanted) -> dict[str, str]:
    changed: dict[str, str] = launching().environment(cell.mpi, cell.ranks)
    for name in ("PENSTOCK_HINTS", "PENSTOCK_BYPASS", "PENSTOCK_REPORT", "PENSTOCK_RANKS_PER_NODE", "PENSTOCK_EMULATE"):
        changed.pop(name, None)
    if not wanted.bed:
        changed["PENSTOCK_RANKS_PER_NODE"] = str(wanted.ranks_per_node)
    if cell.device:
        changed["PENSTOCK_EMULATE"] = cell.device
    return changed


def access_seconds(told: dict[str, Any], durable: bool) -> dict[str, float]:
    """By direction, of the kernel's seconds: of the slowest rank inside the access calls; making data durable when it counts."""
    seconds = {direction: float(told[direction][-1]) for direction in ("write", "read")}
    if durable:
        seconds["write"] += float(told["sync"][-1])
    return seconds


def run_once(cell: Cell, wanted: Wanted, scratch: Path) -> dict[str, float]:
    """Seconds by direction.  Raises launching.LaunchFailure, also when bytes came back wrong."""
    starter = launching()
    file, log = scratch / "data", scratch / "report.jsonl"
    log.unlink(missing_ok=True)
    line = line_of(cell, wanted, file, log)
    try:
        told = starter.result(line, environment_of(cell, wanted), wanted.timeout_seconds)
        found = report.read(log) if log.is_file() else report.Report()
    finally:
        file.unlink(missing_ok=True)
    if not told["checked"] or not told["verified"]:
        raise starter.LaunchFailure(f"{' '.join(line)}: bytes came back wrong")
    for direction in ("write", "read"):
        if not any(breakdown.direction_of(one) == direction for one in found.files):
            raise starter.LaunchFailure(
                f"{' '.join(line)}: nothing of {direction} in its report: Penstock was not in the program"
            )
    return access_seconds(told["seconds"], wanted.durable)


# Estimates


def question_of_paper(cell: Cell, wanted: Wanted, profile: Profile, write: bool, processors: int) -> dict[str, Any]:
    """With the assumption that gives the paper's Table V: tau 1, an aggregator's iterations are its part of the data over the buffer."""
    total = wanted.transfer_bytes * wanted.segments * cell.ranks
    buffer = min(wanted.buffer_bytes, max(1, total // cell.nodes))
    platform = paper.platform_of(
        profile,
        between_nodes=bool(wanted.bed) and cell.nodes > 1,
        aggregators=cell.nodes,
        ranks=cell.ranks,
        processors=processors,
        buffer_bytes=buffer,
        piece_bytes=wanted.transfer_bytes,
        write=write,
        durable=wanted.durable,
    )
    workload = {
        "total_mb": total / paper.MB,
        "buffer_mb": buffer / paper.MB,
        "ranks": cell.ranks,
        "aggregators": cell.nodes,
        "iterations": -(-total // (cell.nodes * buffer)),
        "shuffled_share": 1.0,
    }
    return {"operation": "paper", "platform": platform, "workload": workload}


def question_of_ours(cell: Cell, wanted: Wanted, profile: Profile, write: bool, processors: int) -> dict[str, Any]:
    total = wanted.transfer_bytes * wanted.segments * cell.ranks
    pieces = wanted.segments * cell.ranks
    return {
        "operation": "predict",
        "profile": profile.name,
        "profile_text": figures_text(profile, wanted.durable),
        "work": {
            "write": write,
            "fresh": write,
            "anew": True,
            "ranks": cell.ranks,
            # Pretended nodes share a memory, and a test bed's nodes the processors of the machine.
            "nodes": cell.nodes if wanted.bed else 1,
            "processors": max(1, processors // cell.nodes) if wanted.bed else processors,
            "bytes": total,
            "pieces": pieces,
            "span": total,
            "rank_span": total - (cell.ranks - 1) * wanted.transfer_bytes,
        },
        "candidates": [
            {"way": ACCESSES[cell.access], "aggregators": cell.nodes, "window": wanted.buffer_bytes},
        ],
    }


def estimates(cell: Cell, wanted: Wanted, profile: Profile, write: bool, processors: int) -> tuple[float, float]:
    """The paper's, and ours."""
    asked = (question_of_paper, question_of_ours)
    of_paper, ours = model.ask([question(cell, wanted, profile, write, processors) for question in asked])
    return of_paper[f"{cell.access}_seconds"], ours["candidates"][0]["seconds"]


def percent(estimated: float, measured: float) -> float | None:
    return None if measured <= 0 else 100 * (estimated - measured) / measured


def rows_of(
    cell: Cell, samples: Sequence[dict[str, float]], wanted: Wanted, profile: Profile, processors: int
) -> list[dict[str, Any]]:
    rows = []
    if cell.device:
        profile = profiles.on_pretended(profile, cell.device)
    for direction in ("write", "read"):
        measured = statistics.median(sample[direction] for sample in samples)
        of_paper, ours = estimates(cell, wanted, profile, direction == "write", processors)
        rows.append(
            {
                "device": cell.device,
                "mpi": cell.mpi.name,
                "ranks": cell.ranks,
                "nodes": cell.nodes,
                "access": cell.access,
                "direction": direction,
                "bytes": wanted.transfer_bytes * wanted.segments * cell.ranks,
                "rounds": len(samples),
                "measured_seconds": measured,
                "paper_seconds": of_paper,
                "paper_error_percent": percent(of_paper, measured),
                "penstock_seconds": ours,
                "penstock_error_percent": percent(ours, measured),
            }
        )
    return rows


def summary_of(rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Mean and worst error of each model, sign left out."""
    found = {}
    for name in ("paper", "penstock"):
        errors = [abs(row[f"{name}_error_percent"]) for row in rows if row[f"{name}_error_percent"] is not None]
        if errors:
            found[name] = {"mean_percent": statistics.fmean(errors), "worst_percent": max(errors)}
    return found


def run(wanted: Wanted, profile: Profile, progress: Progress) -> dict[str, Any]:
    """Every cell, every other round backwards.  An MPI that can not do it is told among the failures."""
    starter = launching()
    if wanted.emulated and wanted.bed:
        raise Failure(
            "--emulate and --bed: every node of a bed would pretend a device of its own; use one of them", USAGE
        )
    for name in wanted.emulated:
        profiles.on_pretended(profile, name)  # before anything is measured
    try:
        mpis = starter.installed(paths.library_directory().parent, wanted.mpis)
    except SystemExit as missing:
        raise Failure(str(missing)) from None
    mpis = mpis if wanted.mpis else mpis[:1]
    plan = cells_of(wanted, mpis)
    samples: dict[Cell, list[dict[str, float]]] = {cell: [] for cell in plan}
    failures: dict[str, str] = {}
    if not wanted.directory.is_dir():
        raise Failure(f"--directory {wanted.directory}: there is no such directory", USAGE)
    scratch = Path(tempfile.mkdtemp(prefix="penstock-study-", dir=wanted.directory))
    interrupted = False
    try:
        for number in range(wanted.rounds):
            for cell in plan[:: 1 if number % 2 == 0 else -1]:
                if cell.name() in failures:
                    continue
                progress(f"round {number + 1} of {wanted.rounds}: {cell.name()}")
                try:
                    samples[cell].append(run_once(cell, wanted, scratch))
                except (starter.LaunchFailure, OSError, subprocess.SubprocessError) as failure:
                    failures[cell.name()] = str(failure)
                    progress(f"{cell.name()}: {failure}")
    except KeyboardInterrupt:
        progress("interrupted: what has been measured follows")
        interrupted = True
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    processors = len(os.sched_getaffinity(0))
    rows = [
        row
        for cell, found in samples.items()
        if found and cell.name() not in failures
        for row in rows_of(cell, found, wanted, profile, processors)
    ]
    where = f"test bed {wanted.bed}" if wanted.bed else "pretended nodes of this machine"
    return {
        "where": where,
        "profile": profile.said(),
        "settings": {
            "ranks_per_node": wanted.ranks_per_node,
            "transfer_bytes": wanted.transfer_bytes,
            "segments": wanted.segments,
            "buffer_bytes": wanted.buffer_bytes,
            "durable": wanted.durable,
            "rounds": wanted.rounds,
        },
        "cells": rows,
        "errors": summary_of(rows),
        "errors_by_device": {
            name: summary_of([row for row in rows if row["device"] == name]) for name in wanted.emulated
        },
        "failures": failures,
        "interrupted": interrupted,
    }
