"""Runs the cases of a study on each of its devices, native and Penstock taking turns, and keeps medians of what was verified.

Starts kernels and reads their JSON and the library's reports; knows no study, and neither the command line nor how results are shown.
"""

import contextlib
import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from penstock import environment, paths, report
from penstock.failure import Failure
from penstock.study import breakdown, devices
from penstock.study.cases import Case, Row, Study, Wanted, amount, row_of
from penstock.study.devices import Place
from penstock.study.tam import launching

Progress = Callable[[str], None]

# Besides what kernels tell: page tables and the like, and the launcher's processes.
OTHER_MEMORY_BYTES = 3 << 20  # a rank
LAUNCHER_BYTES = 12 << 20


@dataclass
class Measured:
    """What came of a case's runs."""

    samples: list[Row] = field(default_factory=list)
    failure: str = ""


@dataclass(frozen=True)
class Runner:
    """Starts one case once."""

    mpis: dict[str, Any]
    library: Path
    timeout_seconds: float
    reads_report: bool
    bed: str = ""

    def on_bed(self, case: Case, place: Place) -> bool:
        """Nodes of a bed see the user's directories, but not what is mounted for a device after they were made."""
        return bool(self.bed) and case.nodes > 1 and not place.device

    def across(self, case: Case, log: Path) -> list[str]:
        """What goes before a launcher line so that it runs on the nodes of the bed."""
        asked = ["--native"]
        if case.penstock:
            asked = ["--report", str(log), *(word for hint in case.hints for word in ("--hints", hint))]
        start = [sys.executable, str(paths.PACKAGE / "__main__.py"), "testbed", "run", "--name", self.bed]
        return [*start, "--per-node", str(case.ranks_per_node), *asked]

    def line(self, case: Case, place: Place, limit_bytes: int, log: Path) -> list[str]:
        mpi = self.mpis[case.mpi]
        repetitions = 2 if case.warm else 1
        words = [
            mpi.program(case.kernel),
            *case.words,
            "--repetitions",
            repetitions,
            "--json",
            "--file",
            place.directory / "data",
        ]
        if self.on_bed(case, place):
            return [*self.across(case, log), *launching().line(mpi, case.ranks, words)]
        inner = launching().line(mpi, case.ranks, words, self.library if case.penstock else None)
        return [*place.around(limit_bytes), *inner]

    def variables(self, case: Case, place: Place, log: Path) -> dict[str, str]:
        changed: dict[str, str] = launching().environment(self.mpis[case.mpi], case.ranks)
        changed.pop("PENSTOCK_BYPASS", None)
        if case.penstock and not self.on_bed(case, place):
            changed["PENSTOCK_REPORT"] = str(log)
            given = changed.get("PENSTOCK_HINTS", "")
            changed["PENSTOCK_HINTS"] = ";".join(word for word in (given, *case.hints) if word)
            if case.nodes > 1:
                changed["PENSTOCK_RANKS_PER_NODE"] = str(case.ranks_per_node)
        return changed

    def once(self, case: Case, place: Place, limit_bytes: int) -> Row:
        """What the kernel told.  Raises LaunchFailure, also when bytes came back wrong or Penstock was not there."""
        starter = launching()
        log = place.directory / "report.jsonl"
        log.unlink(missing_ok=True)
        line = self.line(case, place, limit_bytes, log)
        try:
            found = starter.result(line, self.variables(case, place, log), self.timeout_seconds)
            files = report.read(log).files if log.is_file() else []
        finally:
            for left in place.directory.glob("data*"):
                left.unlink(missing_ok=True)
            log.unlink(missing_ok=True)
        if not found["checked"] or not found["verified"]:
            raise starter.LaunchFailure(f"{' '.join(line)}: bytes came back wrong")
        if case.penstock and not files:
            raise starter.LaunchFailure(f"{' '.join(line)}: no report: Penstock was not in the program")
        return self._sample(case, found, files, limit_bytes)

    def _sample(self, case: Case, found: dict[str, Any], files: Sequence[report.FileReport], limit_bytes: int) -> Row:
        first = 1 if case.warm else 0
        sample = {
            "seconds": {figure: found["seconds"][figure][first:] for figure in case.figures},
            "bytes": {figure: bytes_of(found, figure) for figure in case.figures},
            "file_bytes": found["file_bytes"],
            "memory_bytes": found["memory_bytes"],
            "limit_bytes": limit_bytes,
        }
        if self.reads_report:
            sample["phases"] = phases_of(files)
        return sample


def bytes_of(found: dict[str, Any], figure: str) -> int:
    """What a kernel moves in the time of a figure."""
    if figure == "w":
        return 2 * int(found["file_bytes"])
    if figure == "io":
        return int(found["file_bytes"] + found["queries"] * found["database_bytes"])
    return int(found["file_bytes"])


def phases_of(files: Sequence[report.FileReport]) -> dict[str, dict[str, float]]:
    """Sums over the ranks, of the last file that was written and the last that was read: those before warmed up."""
    found = {}
    for file in files:
        direction = breakdown.direction_of(file)
        if direction:
            found[direction] = {name: value.sum for name, value in file.phases.items()}
    return found


def limit_of(case: Case, memory_bytes: int) -> int:
    """What the control group gets so that the page cache has what the case says."""
    return case.cache_bytes + memory_bytes + case.ranks * OTHER_MEMORY_BYTES + LAUNCHER_BYTES if case.cache_bytes else 0


def measure_device(
    study: Study, wanted: Wanted, runner: Runner, place: Place, progress: Progress, measured: dict[Case, Measured]
) -> None:
    """All cases of one device, round after round, every other time backwards: a busy minute does not fall on one arm alone."""
    cases = [case for name, mpi in runner.mpis.items() for case in study.cases(wanted, place.kind, name, mpi.family)]
    memory: dict[tuple[str, str, str], int] = {}
    measured.update((case, Measured()) for case in cases)
    for number in range(wanted.rounds):
        for index, case in enumerate(cases[:: 1 if number % 2 == 0 else -1], 1):
            mine = measured[case]
            if mine.failure:
                continue
            progress(f"round {number + 1} of {wanted.rounds}, {index} of {len(cases)}: {case.name()}")
            try:
                key = (case.mpi, case.kernel, case.arm)
                if case.cache_bytes and key not in memory:
                    # How much memory a kernel takes is seen when it may have all of it.
                    memory[key] = runner.once(case, place, 0)["memory_bytes"]
                mine.samples.append(runner.once(case, place, limit_of(case, memory.get(key, 0))))
            except launching().LaunchFailure as failure:
                mine.failure = str(failure)
                progress(mine.failure)


def places_of(study: Study, wanted: Wanted) -> Iterator[tuple[str, AbstractContextManager[Place]]]:
    for kind in wanted.devices:
        yield kind, devices.pretended(kind, study.file_bytes(wanted), study.limits_cache)
    for kind, directory in wanted.directories:
        yield kind, devices.named(kind, directory)


def mpis_of(wanted: Wanted, build: Path, kernels: Sequence[str]) -> dict[str, Any]:
    try:
        found = launching().installed(build, wanted.mpis)
    except SystemExit as missing:
        raise Failure(str(missing)) from None
    if not wanted.mpis:
        found = found[:1]
    for mpi in found:
        missing_programs = [name for name in kernels if not mpi.program(name).is_file()]
        if missing_programs:
            raise Failure(f"{mpi.program(missing_programs[0])} is not there: build it (make build)")
    return {mpi.name: mpi for mpi in found}


def notes_of(study: Study, wanted: Wanted, rows: Sequence[Row]) -> list[str]:
    cores = launching().cores()
    most = max((row["ranks"] for row in rows), default=0)
    notes = [*study.notes]
    if wanted.scale > 1:
        notes.append(f"Sizes are the paper's divided by {wanted.scale}; --full takes the paper's.")
    if most > cores:
        notes.append(
            f"Oversubscribed: up to {most} ranks share {cores} cores, so that some of the seconds are turns of waiting for one."
        )
    several = [row for row in rows if row["nodes"] > 1]
    if wanted.bed and several:
        notes.append(f"In directories that the user named, nodes are those of the test bed {wanted.bed}.")
    if several and (wanted.devices or not wanted.bed):
        notes.append(
            "Pretended nodes are this one machine: PENSTOCK_RANKS_PER_NODE splits it for Penstock, hints say how many aggregators a native library takes, "
            "and what goes between nodes goes through memory, not through a network."
        )
    notes.append(
        f"Medians of {wanted.rounds} round{'s' if wanted.rounds > 1 else ''} in which native and Penstock take turns; every byte was written and read back right, or the run does not count."
    )
    return notes


@contextlib.contextmanager
def _told(kind: str, left_out: dict[str, str], progress: Progress) -> Iterator[None]:
    """A device that can not be had is left out and told."""
    try:
        yield
    except Failure as failure:
        left_out[kind] = str(failure)
        progress(f"{kind} is left out: {failure}")


def run(study: Study, wanted: Wanted, progress: Progress) -> dict[str, Any]:
    """Everything: rows, tables, panels, the paper's findings, notes."""
    library = environment.library_in(paths.library_directory())
    mpis = mpis_of(wanted, library.parent.parent, wanted.kernels)
    runner = Runner(mpis, library, wanted.timeout_seconds, study.reads_report, wanted.bed)
    measured: dict[Case, Measured] = {}
    told: dict[str, str] = {}
    left_out: dict[str, str] = {}
    interrupted = False
    try:
        for kind, made in places_of(study, wanted):
            progress(f"{kind}: files of up to {amount(study.file_bytes(wanted))}")
            with _told(kind, left_out, progress), made as place:
                told[kind] = place.text
                measure_device(study, wanted, runner, place, progress, measured)
    except KeyboardInterrupt:
        progress("interrupted: what has been measured follows")
        interrupted = True
    rows = [row_of(case, found.samples) for case, found in measured.items() if found.samples and not found.failure]
    if not rows and left_out and not interrupted:
        raise Failure(
            "; ".join(f"{kind}: {text}" for kind, text in left_out.items())
            + ". Name a directory with --device NAME=DIR"
        )
    shown = study.shown(rows)
    return {
        "study": study.name,
        "machine": {"cores": launching().cores(), "system": platform.platform()},
        "settings": {
            "ranks": wanted.ranks,
            "nodes": wanted.nodes,
            "ranks_per_node": list(wanted.ranks_per_node),
            "kernels": list(wanted.kernels),
            "scale": wanted.scale,
            "rounds": wanted.rounds,
        },
        "devices": told,
        "rows": rows,
        "tables": [asdict(sheet) for sheet in shown.sheets],
        "panels": [asdict(panel) for panel in shown.panels],
        "unit": shown.unit,
        "compared": shown.compared,
        "paper": [asdict(fact) for fact in study.paper],
        "notes": notes_of(study, wanted, rows),
        "left_out": left_out,
        "failures": {case.name(): found.failure for case, found in measured.items() if found.failure},
        "interrupted": interrupted,
    }
