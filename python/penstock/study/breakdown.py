"""What a run of a study cost, by the parts of the two-layer aggregation paper.  Pure: reports in, figures out; starts and prints nothing."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from penstock.report import FileReport


@dataclass(frozen=True)
class Part:
    """One colour of the stacked bars: phases of the report (table/counters.toml) under the paper's name for them."""

    name: str
    text: str
    phases: tuple[str, ...]


PARTS = (
    Part("gather", "intra-node gather", ("gather",)),
    Part("merge", "sort and merge", ("merge",)),
    Part("exchange", "request exchange", ("exchange",)),
    Part("communicate", "inter-node communication", ("communicate",)),
    Part("copy", "copies to and from buffers", ("copy",)),
    Part("file", "file access", ("read", "write", "sync")),
    Part("wait", "wait", ("wait",)),
    Part("other", "everything else", ()),  # whatever phases no other part has
)
TRAFFIC = (
    "messages",
    "message_bytes",
    "messages_between_nodes",
    "bytes_between_nodes",
    "request_bytes",
    "requests",
    "requests_joined",
    "pieces",
)
DIRECTIONS = ("write", "read", "both")
# The report rounds each phase by itself.
ADDS_UP_WITHIN = 1e-6


@dataclass(frozen=True)
class Cell:
    """One bar: what is run and how.  `local_aggregators` is a number for each node, 0 with two_phase, where every rank is one."""

    mpi: str
    kernel: str
    ranks: int
    ranks_per_node: int
    strategy: str
    local_aggregators: int = 0

    def nodes(self) -> int:
        return -(-self.ranks // self.ranks_per_node)

    def all_local_aggregators(self) -> int:
        """The paper's P_L."""
        if self.local_aggregators == 0:
            return self.ranks
        full, rest = divmod(self.ranks, self.ranks_per_node)
        return full * min(self.local_aggregators, self.ranks_per_node) + min(self.local_aggregators, rest)

    def carried_out_by(self) -> str:
        """Two-layer where every rank is a local aggregator is two-phase, and the library calls it so."""
        return "two_phase" if self.all_local_aggregators() == self.ranks else self.strategy

    def label(self) -> str:
        return self.strategy if self.local_aggregators == 0 else f"{self.strategy} {self.local_aggregators}"

    def name(self) -> str:
        return f"{self.mpi} {self.kernel} x{self.ranks} {self.label()}"


def direction_of(file: FileReport) -> str:
    """ "" when no data was accessed between open and close."""
    writes, reads = (file.counters.get(name, 0) > 0 for name in ("calls_write", "calls_read"))
    return ("both" if reads else "write") if writes else "read" if reads else ""


def sample(files: Sequence[FileReport], ranks: int) -> dict[str, Any]:
    """The files of one run and one direction, together.  Seconds are means over the ranks, so that parts add up to the wall time."""
    phases: dict[str, dict[str, float]] = {}
    for file in files:
        for name, value in file.phases.items():
            mine = phases.setdefault(name, {"mean": 0.0, "max": 0.0})
            mine["mean"] += value.sum / ranks
            mine["max"] += value.max
    named = {phase for part in PARTS for phase in part.phases}
    seconds = {part.name: sum(phases[phase]["mean"] for phase in part.phases if phase in phases) for part in PARTS}
    seconds["other"] += sum(value["mean"] for name, value in phases.items() if name not in named)
    counters: dict[str, int] = {}
    for file in files:
        for name, number in file.counters.items():
            counters[name] = counters.get(name, 0) + number
    return {
        "wall_seconds": sum(file.wall.sum for file in files) / ranks,
        "wall_seconds_slowest": sum(file.wall.max for file in files),
        "seconds": seconds,
        "phases": phases,
        "bytes": sum(file.bytes for file in files),
        "traffic": {name: counters.get(name, 0) for name in TRAFFIC},
        "counters": counters,
    }


def findings(files: Sequence[FileReport], cell: Cell) -> list[str]:
    """What of a run's report can not be true, or says that something else was measured than was asked."""
    found = []
    for file in files:
        where = f"{cell.name()}, {direction_of(file)}"
        total = sum(value.sum for value in file.phases.values())
        if abs(total - file.wall.sum) > ADDS_UP_WITHIN * max(1.0, file.wall.sum):
            found.append(f"{where}: phases add up to {total:.6f} s, the wall time is {file.wall.sum:.6f} s")
        if file.ranks == cell.ranks and file.nodes != cell.nodes():
            found.append(f"{where}: {file.nodes} nodes, expected {cell.nodes()}")
        if file.nodes == 1 and file.counters.get("messages_between_nodes", 0) > 0:
            found.append(f"{where}: messages between nodes although there is one node")
        if file.counters.get("calls_collective", 0) > 0 and file.counters.get(cell.carried_out_by(), 0) == 0:
            found.append(f"{where}: carried out by {file.strategy}, expected {cell.carried_out_by()}")
        found += [f"{where}: {text}" for text in [*file.complaints, *file.errors]]
    return found


def middle(samples: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The run of median wall time as a whole (of an even number the faster of the two in the middle), so that its parts still add up;
    beside it the spread."""
    in_order = sorted(samples, key=lambda one: one["wall_seconds"])
    walls = [one["wall_seconds"] for one in in_order]
    chosen = in_order[(len(in_order) - 1) // 2]
    varying = [name for name in TRAFFIC if len({one["traffic"][name] for one in samples}) > 1]
    return chosen | {
        "rounds": len(walls),
        "wall_seconds_of_rounds": {"least": walls[0], "median": statistics.median(walls), "most": walls[-1]},
        "traffic_that_varied": varying,
    }


def metadata_share(row: dict[str, Any]) -> float | None:
    """Bytes that aggregators told each other about requests, over the bytes of data that the program moved."""
    return row["traffic"]["request_bytes"] / row["bytes"] if row["bytes"] else None


def comparison(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each two_layer row beside two_phase on the same ranks: how many times fewer messages go between nodes, and how many ranks share a
    local aggregator."""

    def key(row: dict[str, Any]) -> tuple[Any, ...]:
        return row["mpi"], row["kernel"], row["ranks"], row["ranks_per_node"], row["direction"]

    plain = {key(row): row for row in rows if row["strategy"] == "two_phase"}
    found = []
    for row in rows:
        base = plain.get(key(row))
        if row["strategy"] != "two_layer" or base is None:
            continue
        messages = [one["traffic"]["messages_between_nodes"] for one in (base, row)]
        found.append(
            {
                "mpi": row["mpi"],
                "kernel": row["kernel"],
                "ranks": row["ranks"],
                "ranks_per_node": row["ranks_per_node"],
                "direction": row["direction"],
                "local_aggregators": row["local_aggregators"],
                "ranks_per_local_aggregator": row["ranks"] / row["all_local_aggregators"],
                "messages_between_nodes": {"two_phase": messages[0], "two_layer": messages[1]},
                "times_fewer_messages_between_nodes": messages[0] / messages[1] if messages[1] else None,
                "bytes_between_nodes": {
                    name: one["traffic"]["bytes_between_nodes"]
                    for name, one in (("two_phase", base), ("two_layer", row))
                },
                "times_sooner": base["wall_seconds"] / row["wall_seconds"] if row["wall_seconds"] else None,
            }
        )
    return found
