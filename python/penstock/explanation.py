"""What the cost model says of an access: candidates with their predicted seconds, and why the least is least.  Pure: asks penstock-model, prints nothing.

An access is described by a user (Pattern) or taken from a report, as its average call.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from penstock import model
from penstock.profiles import Profile, figures_text
from penstock.report import FileReport, Part

# Terms of the model, by the phases of the report that they are measured as.
TERMS = {
    "file": ("read", "write"),
    "copy": ("copy",),
    "gather": ("gather",),
    "merge": ("merge",),
    "exchange": ("exchange",),
    "communicate": ("communicate",),
    "wait": ("wait",),
}
SAID = {
    "file": "calls, bytes and page faults at the file",
    "copy": "copying between buffers",
    "gather": "handing data to local aggregators",
    "merge": "joining descriptions",
    "exchange": "telling descriptions",
    "communicate": "sending data between aggregators",
    "wait": "waiting for each other",
}
WAYS = ("independent", "mapped", "sieved", "two_phase", "two_layer")
# What a prediction may be off by, up and down.  With figures measured on the machine: nearly all of 120 comparisons on tmpfs (bench choices, 2 to 8 ranks)
# were within twice.  With built-in ones: assumed, not measured.
FACTOR_MEASURED = 2.0
FACTOR_BUILT_IN = 4.0
MOST_OF_A_NODE = 4  # global aggregators (kWhereOneCopies in src/plan/aggregation.cpp)
HYSTERESIS = 0.9  # plan::Experience::kHysteresis
TIE = 1.02  # what is within that of the least counts as the least (kTie in src/model/program/predict.cpp)


@dataclass(frozen=True)
class Pattern:
    """One call of all ranks.  Bytes and pieces of all ranks together; spans from the first byte accessed to the last."""

    write: bool
    ranks: int
    nodes: int
    processors: int  # of a node
    bytes: float
    pieces: float
    span: float
    rank_span: float
    collective: bool = True
    fresh: bool = True
    calls: int = 1

    def work(self) -> dict[str, Any]:
        return {
            "write": self.write,
            "fresh": self.fresh and self.write,
            "planned": self.calls > 1,
            "ranks": self.ranks,
            "nodes": self.nodes,
            "processors": self.processors,
            "bytes": self.bytes,
            "pieces": self.pieces,
            "span": self.span,
            "rank_span": self.rank_span,
        }


# What penstock-model takes (src/model/program/predict.cpp).
RANKS_MOST = 1 << 24
BYTES_MOST = 9.3e18


def out_of_range(pattern: Pattern) -> str:
    """Why nothing can be predicted for it, or ""."""
    if not 1 <= pattern.ranks <= RANKS_MOST:
        return f"{pattern.ranks} ranks: expected 1 to {RANKS_MOST}"
    if not 1 <= pattern.nodes <= pattern.ranks:
        return f"{pattern.nodes} nodes: expected 1 to {pattern.ranks}, as many as there are ranks"
    for value, what in ((pattern.bytes, "bytes"), (pattern.pieces, "pieces"), (pattern.span, "bytes of the file")):
        if value > BYTES_MOST:
            return f"{value:.3g} {what} in one call of all ranks: expected at most {BYTES_MOST:g}"
    return ""


@dataclass(frozen=True)
class Changes:
    """What is asked to be otherwise; None and empty: as it is."""

    ranks: int | None = None
    nodes: int | None = None
    aggregators: int | None = None
    local: int | None = None


def described(
    *,
    write: bool,
    ranks: int,
    nodes: int,
    processors: int,
    rank_bytes: int,
    piece: int,
    pattern: str,
    collective: bool,
    fresh: bool,
    calls: int,
) -> Pattern:
    """`pattern`: interleaved (pieces of all ranks in turn), blocks (each rank's pieces together) or sparse (interleaved, as much again left out)."""
    pieces = max(1, -(-rank_bytes // piece)) * ranks
    total = float(rank_bytes * ranks)
    span = 2 * total if pattern == "sparse" else total
    rank_span = (
        span - (ranks - 1) * min(piece, rank_bytes) * (span / total if total else 1)
        if pattern != "blocks"
        else float(rank_bytes)
    )
    if pattern == "blocks":
        pieces = ranks  # what lies together goes in one piece
    return Pattern(write, ranks, nodes, processors, total, pieces, span, rank_span, collective, fresh, calls)


def of_report(file: FileReport, processors: int) -> list[tuple[Pattern, Part]]:
    """The average call of each direction that moved anything, and what that direction took."""
    patterns = []
    for write, part in ((True, file.writing), (False, file.reading)):
        calls = part.counters.get("calls_write" if write else "calls_read", 0)
        data = part.counters.get("bytes_written" if write else "bytes_read", 0)
        if calls == 0 or data == 0:
            continue
        rounds = calls / file.ranks  # calls of each rank
        pieces = max(1.0, part.counters.get("pieces", 0) / rounds)
        per_call = data / rounds
        rank_span = max(part.counters.get("span_bytes", 0) / calls, per_call / file.ranks)
        interleaved = rank_span > 1.01 * per_call / file.ranks
        span = max(rank_span, per_call) if interleaved else per_call
        pattern = Pattern(
            write,
            file.ranks,
            file.nodes,
            processors,
            per_call,
            pieces,
            span,
            rank_span,
            collective=part.counters.get("calls_collective", 0) > 0,
            calls=max(1, round(rounds)),
        )
        patterns.append((pattern, part))
    return patterns


def changed(pattern: Pattern, changes: Changes) -> Pattern:
    """The same data of all ranks, by other ranks on other nodes."""
    ranks = changes.ranks or pattern.ranks
    nodes = min(changes.nodes or (pattern.nodes if ranks >= pattern.nodes else ranks), ranks)
    interleaved = pattern.rank_span > 1.01 * pattern.bytes / pattern.ranks
    rank_span = pattern.rank_span if interleaved else pattern.bytes / ranks
    return replace(pattern, ranks=ranks, nodes=nodes, rank_span=rank_span, pieces=max(pattern.pieces, ranks))


def gathers(pattern: Pattern, cached: bool) -> bool:
    """Whether the library considers gathering when nobody asked for it (src/file/open.cpp, plan::may_gather_on_a_node)."""
    if not pattern.collective or pattern.ranks == 1:
        return False
    return pattern.nodes > 1 or not cached or pattern.ranks >= 12 or pattern.ranks >= pattern.processors


def by_itself(row: dict[str, Any], pattern: Pattern, cached: bool) -> bool:
    """Whether the library may take this way without a hint: of the gathering ones, on one node two_layer with one local aggregator; on several any number of
    them, and as many global ones as a node has for each of them and processors for, up to four (plan::automatic_global, with one network interface)."""
    if row["way"] in ("two_layer", "two_phase"):
        local = row["local_per_node"] if row["way"] == "two_layer" else pattern.processors
        most = pattern.nodes * min(local, pattern.processors, MOST_OF_A_NODE)
        placed = pattern.nodes > 1 or (row["way"] == "two_layer" and local == 1)
        return gathers(pattern, cached) and placed and row["aggregators"] <= most
    if row["way"] in ("mapped", "sieved"):
        return pattern.pieces > pattern.ranks  # what lies together goes in one call
    return bool(row["way"] == "independent")


def candidates(pattern: Pattern, changes: Changes) -> list[dict[str, Any]]:
    """Through the numbers of aggregators that somebody asked for; nobody did: none, which stands for all.  A node has at least as many local ones as global."""
    if changes.aggregators is None and changes.local is None:
        return []
    of_a_node = -(-pattern.ranks // pattern.nodes)
    aggregators = min(changes.aggregators or pattern.nodes, pattern.ranks)
    local = max(changes.local or 1, -(-aggregators // pattern.nodes))
    rows: list[dict[str, Any]] = []
    if local < of_a_node:
        rows.append({"way": "two_layer", "local_per_node": local, "aggregators": aggregators})
    if local >= of_a_node or changes.local is None:
        rows.append({"way": "two_phase", "aggregators": aggregators})
    return rows


def predicted(
    pattern: Pattern, profile: Profile, changes: Changes | None = None, mapped: bool | None = None
) -> dict[str, Any]:
    """The answer of penstock-model, with seconds for all calls, and an interval for each candidate.  "least": the place of the least of all; "chosen": of the
    least of those that the library takes by itself, or that were asked for.  `mapped`: whether files can be mapped; None: where the profile says that a page
    cache stands before the device, and on one node."""
    asked = changes or Changes()
    cached = profile.figures["file.cached"] != 0
    able = cached and pattern.nodes == 1 if mapped is None else mapped
    request: dict[str, Any] = {
        "operation": "predict",
        "profile": profile.name,
        "profile_text": figures_text(profile),
        "work": pattern.work(),
        "possible": {
            "collective": pattern.collective and pattern.ranks > 1,
            "mapped": able,
            "sieved_reads": True,
            "sieved_writes": False,
        },
    }
    if wanted := candidates(pattern, asked):
        request["candidates"] = wanted
    answer = model.ask([request])[0]
    answer["least"] = answer.pop("chosen")
    factor = FACTOR_MEASURED if profile.measured else FACTOR_BUILT_IN
    for row in answer["candidates"]:
        row["seconds"] *= pattern.calls
        row["terms"] = {name: value * pattern.calls for name, value in row["terms"].items()}
        row["interval"] = [row["seconds"] / factor, row["seconds"] * factor]
        row["by_itself"] = by_itself(row, pattern, cached)
    answer["chosen"] = answer["least"] if wanted else _taken_of(answer["candidates"])
    return answer


def _taken_of(rows: Sequence[dict[str, Any]]) -> int:
    """What the library takes by itself: the simplest of the ways of each rank that take least, or gathering where that takes less.  It gathers by one local
    aggregator of a node, unless others take clearly less (plan::best_placing)."""
    places = [place for place, row in enumerate(rows) if row["by_itself"]]
    alone = [place for place in places if rows[place]["way"] not in ("two_layer", "two_phase")]
    most = TIE * min(rows[place]["seconds"] for place in alone)
    chosen = next(place for place in alone if rows[place]["seconds"] <= most)
    gathering = sorted(
        (place for place in places if place not in alone), key=lambda place: float(rows[place]["seconds"])
    )
    if not gathering:
        return chosen
    most = TIE * rows[gathering[0]]["seconds"]
    alike = [place for place in gathering if rows[place]["seconds"] <= most]
    least = min(alike, key=lambda place: (rows[place]["way"] == "two_phase", rows[place]["local_per_node"]))
    first = next((place for place in gathering if rows[place].get("local_per_node") == 1), least)
    if rows[least]["seconds"] >= HYSTERESIS * rows[first]["seconds"]:
        least = first
    return least if rows[least]["seconds"] < rows[chosen]["seconds"] else chosen


def taken(part: Part) -> str:
    """The way that carried out most accesses; empty when there were none."""
    counts = {way: part.counters.get(way, 0) for way in WAYS}
    most = max(counts, key=lambda way: counts[way])
    return most if counts[most] else ""


def measured(part: Part, ranks: int) -> dict[str, float]:
    """Seconds by the model's terms, mean over the ranks; other: what the model has no term for."""
    terms = {
        term: sum(part.phases[name].sum for name in names if name in part.phases) / ranks
        for term, names in TERMS.items()
    }
    known = {name for names in TERMS.values() for name in names}
    terms["other"] = sum(value.sum for name, value in part.phases.items() if name not in known) / ranks
    return terms


def hints_for(row: dict[str, Any]) -> str:
    """What a user writes to have this way."""
    hints = [f"penstock_strategy={row['way']}"]
    if row["way"] == "two_layer":
        hints.append(f"penstock_local_aggregators={row['local_per_node']}")
    if row["way"] in ("two_layer", "two_phase"):
        hints.append(f"cb_nodes={row['aggregators']}")
    return ", ".join(hints)


def instead(rows: Sequence[dict[str, Any]], least: int, chosen: int) -> str:
    """A sentence where the library by itself does not take what is predicted to take least, or ""."""
    best, taken_one = rows[least], rows[chosen]
    if least == chosen or taken_one["seconds"] <= TIE * best["seconds"]:
        return ""
    ratio = f", {taken_one['seconds'] / best['seconds']:.3g} times as much" if best["seconds"] > 0 else ""
    return (
        f"Penstock by itself takes {taken_one['way']} ({taken_one['seconds']:.4g} s{ratio}); "
        f"with the hints {hints_for(best)} it takes the least."
    )


def because(rows: Sequence[dict[str, Any]], least: int) -> str:
    """One sentence: what the least saves against the next best way, and where."""
    best = rows[least]
    others = [row for row in rows if row["way"] != best["way"]]
    if not others:
        return f"{best['way']} is the only way there is."
    rival = min(others, key=lambda row: row["seconds"])
    gains = {name: rival["terms"][name] - best["terms"][name] for name in best["terms"]}
    most = max(gains, key=lambda name: gains[name])
    loss = min(gains, key=lambda name: gains[name])
    ratio = rival["seconds"] / best["seconds"] if best["seconds"] > 0 else float("inf")
    than = (
        f"{ratio:.3g} times less than {rival['way']}" if ratio > 1.01 else f"as much as {rival['way']}, and is simpler"
    )
    text = f"{best['way']} is predicted to take {best['seconds']:.4g} s, {than}"
    if ratio > 1.01 and gains[most] > 0:
        text += f": it saves {gains[most]:.3g} s of {SAID[most]}"
        text += f" and spends {-gains[loss]:.3g} s more on {SAID[loss]}" if gains[loss] < -0.05 * gains[most] else ""
    return text + "."
