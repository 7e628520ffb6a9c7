"""How long collective I/O shuffles and how long it accesses the file (table II of the NVM paper).  Pure: cases and rows, starts nothing."""

from collections.abc import Sequence

from penstock.study.cases import (
    MEBIBYTE,
    PENSTOCK,
    Case,
    Fact,
    Panel,
    Row,
    Sheet,
    Shown,
    Study,
    Wanted,
    amount,
    distinct,
    only,
    shown_number,
)
from penstock.study.interfaces import OPERATIONS, where_of

KERNELS = ("interleave",)
ARM = f"{PENSTOCK} two_phase"
FILE_PHASES = ("read", "write", "sync")
# Of the collective's time; opening, views and planning belong to no iteration.
SHUFFLE_PHASES = ("gather", "merge", "exchange", "communicate", "copy", "wait")

PAPER = (
    Fact(
        "section IV.B, table II",
        "IOR, 4 nodes of 4 ranks, 16 GB, one aggregator for each node, 16 MB of buffer: of the time of collective I/O the shuffle takes 7.85 % on "
        "HDD, 49.93 % on SSD and 50.16 % on NVM; an iteration takes 170.38, 28.77 and 28.29 ms of I/O and 13.77, 14.32 and 14.19 ms of shuffle",
        {
            "hdd shuffle share": 0.0785,
            "ssd shuffle share": 0.4993,
            "nvm shuffle share": 0.5016,
            "hdd io ms": 170.38,
            "ssd io ms": 28.77,
            "nvm io ms": 28.29,
            "hdd shuffle ms": 13.77,
            "ssd shuffle ms": 14.32,
            "nvm shuffle ms": 14.19,
        },
    ),
    Fact("section IV.B", "the shuffle takes the same time on all three devices, since the same messages go"),
)


def transfer_bytes(scale: int) -> int:
    return max(1, 16 * MEBIBYTE // scale)


def cases(wanted: Wanted, device: str, mpi: str, family: str) -> list[Case]:
    transfer = transfer_bytes(wanted.scale)
    per_node = wanted.ranks_per_node[-1]
    words = (
        "-b",
        str(32 * transfer),
        "-t",
        str(transfer),
        "-s",
        "2",
        "-z",
        "1",
        "--per-call",
        "0",
        "--no-plain",
        "--no-shifted",
        "--collective",
    )
    hints = (f"cb_nodes={wanted.nodes}", f"cb_buffer_size={transfer}", "penstock_strategy=two_phase")
    return [
        Case(device, mpi, family, kernel, ARM, wanted.nodes * per_node, per_node, words, tuple(OPERATIONS), 0, hints)
        for kernel in wanted.kernels
    ]


def file_bytes(wanted: Wanted) -> int:
    return wanted.nodes * wanted.ranks_per_node[-1] * 64 * transfer_bytes(wanted.scale)


def split_of(row: Row, operation: str) -> Row | None:
    """Seconds of an aggregator, per iteration: in the file, and in all the rest of the exchange.

    Ranks go through a collective together, so that the mean over the ranks of everything they spend in it is how long it takes; only
    aggregators access the file, so that the sum of that over the ranks belongs to them.
    """
    phases = row["phases"].get(operation)
    if not phases:
        return None
    aggregators = min(row["nodes"], row["ranks"])
    buffer = next(int(word) for option, word in zip(row["options"], row["options"][1:], strict=False) if option == "-t")
    iterations = max(1, -(-row["file_bytes"] // (aggregators * buffer)))
    in_file = sum(phases.get(name, 0.0) for name in FILE_PHASES)
    together = (in_file + sum(phases.get(name, 0.0) for name in SHUFFLE_PHASES)) / row["ranks"]
    io = in_file / aggregators
    rest = max(0.0, together - io)
    return {
        "device": row["device"],
        "mpi": row["mpi"],
        "kernel": row["kernel"],
        "operation": operation,
        "iterations": iterations,
        "io_seconds": io,
        "shuffle_seconds": rest,
        "io_seconds_per_iteration": io / iterations,
        "shuffle_seconds_per_iteration": rest / iterations,
        "shuffle_share": rest / (io + rest) if io + rest > 0 else None,
    }


def _line(found: Row) -> list[str]:
    share = found["shuffle_share"]
    return [
        found["device"],
        shown_number(found["io_seconds"]),
        shown_number(found["shuffle_seconds"]),
        "-" if share is None else f"{100 * share:.2f} %",
        str(found["iterations"]),
        shown_number(found["io_seconds_per_iteration"] * 1e3),
        shown_number(found["shuffle_seconds_per_iteration"] * 1e3),
    ]


HEADINGS = (
    "",
    "I/O s",
    "shuffle s",
    "shuffle of both",
    "iterations",
    "I/O ms per iteration",
    "shuffle ms per iteration",
)


def shown(rows: Sequence[Row]) -> Shown:
    sheets, panels, compared = [], [], []
    for mpi in distinct(rows, "mpi"):
        for kernel in distinct(only(rows, mpi=mpi), "kernel"):
            mine = only(rows, mpi=mpi, kernel=kernel)
            for operation, text in OPERATIONS.items():
                found = [split for split in (split_of(row, operation) for row in mine) if split]
                if not found:
                    continue
                title = f"{kernel}, {text}, {ARM}, {where_of(mine[0])}, file of {amount(mine[0]['file_bytes'])}, {mpi}"
                sheets.append(Sheet(title, HEADINGS, [_line(one) for one in found]))
                series: list[tuple[str, list[float | None]]] = [
                    ("I/O", [one["io_seconds_per_iteration"] * 1e3 for one in found]),
                    ("shuffle", [one["shuffle_seconds_per_iteration"] * 1e3 for one in found]),
                ]
                panels.append(Panel(title, [one["device"] for one in found], series, stacked=True))
                compared += found
    return Shown(sheets, panels, "ms per iteration", compared)


STUDY = Study(
    "shuffle",
    "how long collective I/O shuffles data between ranks, and how long it accesses the file",
    PAPER,
    KERNELS,
    limits_cache=False,
    reads_report=True,
    notes=(
        "Seconds are those of an aggregator: the file's are what Penstock's report tells, the shuffle is the rest of the collective calls but for "
        "opening and planning. Penstock shuffles while it accesses the file: what is hidden behind the file's time counts as the file's.",
        "An iteration is one buffer of every aggregator.",
    ),
    cases=cases,
    file_bytes=file_bytes,
    shown=shown,
)
