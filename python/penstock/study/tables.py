"""A study's result as tables for people.  Knows the result's shape only."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import IO, Any

from penstock import show
from penstock.study.breakdown import DIRECTIONS, PARTS, metadata_share

HEADINGS = {"write": "writes", "read": "reads", "both": "writes and reads of one open"}


def milliseconds(value: float) -> str:
    return "-" if value == 0 else f"{value * 1e3:.1f}" if value >= 1e-4 else "< 0.1"


def groups(rows: Sequence[dict[str, Any]]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Rows that differ in their aggregators only, under a title."""

    def key(row: dict[str, Any]) -> tuple[Any, ...]:
        return row["mpi"], row["kernel"], row["ranks"], row["ranks_per_node"], DIRECTIONS.index(row["direction"])

    for _, found in groupby(sorted(rows, key=key), key=key):
        mine = sorted(found, key=lambda row: row["all_local_aggregators"])
        first = mine[0]
        where = f"{first['ranks']} ranks, {first['nodes']} pretended node{'s' if first['nodes'] > 1 else ''}"
        yield f"{first['kernel']}, {where}, {first['mpi']}, {HEADINGS[first['direction']]}", mine


def seconds_cells(row: dict[str, Any]) -> list[str]:
    times = [milliseconds(row["seconds"][part.name]) for part in PARTS]
    return [row["label"], str(row["all_local_aggregators"]), *times, milliseconds(row["wall_seconds"])]


def traffic_cells(row: dict[str, Any], compared: dict[str, Any] | None) -> list[str]:
    traffic, share = row["traffic"], metadata_share(row)
    requests = f"{traffic['requests']} -> {traffic['requests_joined']}" if traffic["requests"] else "-"
    fewer = compared["times_fewer_messages_between_nodes"] if compared else None
    return [
        row["label"],
        str(traffic["messages"]),
        str(traffic["messages_between_nodes"]),
        show.byte_amount(traffic["bytes_between_nodes"]),
        f"{fewer:.2f}" if fewer is not None else "-",
        f"{row['ranks'] / row['all_local_aggregators']:.3g}",
        show.byte_amount(traffic["request_bytes"]),
        f"{share:.2%}" if share is not None else "-",
        requests,
    ]


TIMES = ("", "P_L", *(part.text for part in PARTS), "all of it")
TRAFFIC = (
    "",
    "messages",
    "between nodes",
    "bytes between nodes",
    "times fewer than two_phase",
    "ranks per local aggregator",
    "metadata",
    "of the data",
    "requests -> joined",
)


class Printer:
    """Tables and sentences on a stream."""

    def __init__(self, stream: IO[str]) -> None:
        self._console = show.console_on(stream)

    def say(self, text: str) -> None:
        self._console.print(show.printable(text))

    def table(self, headings: Sequence[str], lines: Sequence[Sequence[str]], left: Sequence[str] = ("",)) -> None:
        """Columns whose heading is in `left` have words, the others numbers."""
        show.print_table(self._console, headings, lines, left)


def print_result(result: dict[str, Any], stream: IO[str]) -> None:
    printer = Printer(stream)
    identity = ("mpi", "kernel", "ranks", "ranks_per_node", "direction", "local_aggregators")
    compared = {tuple(row[name] for name in identity): row for row in result["comparison"]}
    for title, rows in groups(result["cells"]):
        printer.say(f"{title}: milliseconds, means over the ranks")
        printer.table(TIMES, [seconds_cells(row) for row in rows])
        printer.table(
            TRAFFIC, [traffic_cells(row, compared.get(tuple(row[name] for name in identity))) for row in rows]
        )
    for note in result["notes"]:
        printer.say(note)
