"""Collective I/O beside individual I/O (figures 9 and 10 of the NVM paper).  Pure: cases and rows, starts nothing."""

from collections.abc import Sequence

from penstock.study.cases import (
    NATIVE,
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
    percent,
    shown_number,
    value_of,
)
from penstock.study.interfaces import OPERATIONS, transfer_bytes, where_of

KERNELS = ("interleave",)
FORCED = f"{PENSTOCK} two_phase"
PAIRS = {  # what is set beside what
    f"{NATIVE} collective": f"{NATIVE} individual",
    f"{PENSTOCK} collective": f"{PENSTOCK} individual",
    FORCED: f"{PENSTOCK} individual",
}

PAPER = (
    Fact(
        "section III.C, figures 9 and 10",
        "IOR, transfers of 16 MB at random places, one aggregator on each of 4 nodes: with 1 rank on each node collective I/O brings little on any "
        "device, with 4 it is better on HDD only; on SSD and NVM it is always worse than individual I/O, the more so with 4",
    ),
    Fact(
        "section I",
        "collective I/O of random accesses performs 38.4 % worse than individual I/O on NVM",
        {"nvm": 0.384},
    ),
)


# Of each rank.  ROMIO goes through all of the range that a call's places span, buffer by buffer, and its ranks meet for each of them.
PAPER_TRANSFERS, QUICK_TRANSFERS = 32, 8


def transfers(scale: int) -> int:
    return PAPER_TRANSFERS if scale == 1 else QUICK_TRANSFERS


def words_of(scale: int) -> tuple[str, ...]:
    transfer = transfer_bytes(scale)
    words = ("-b", str(transfers(scale) // 2 * transfer), "-t", str(transfer), "-s", "2", "-z", "1", "-C", "--at")
    return (*words, "--no-plain")


def buffer_bytes(scale: int) -> int:
    """The paper's 16 MB, one transfer."""
    return transfer_bytes(scale)


def native_hints(nodes: int, scale: int) -> tuple[str, ...]:
    """One aggregator for each node, pretended or not, and no choice of the library's own.  Open MPI's has its own names and takes what it knows."""
    hints = (
        "romio_cb_write=enable",
        "romio_cb_read=enable",
        f"cb_nodes={nodes}",
        f"cb_config_list=*:{nodes}",
        f"cb_buffer_size={buffer_bytes(scale)}",
    )
    return tuple(word for hint in hints for word in ("--hint", hint))


def cases(wanted: Wanted, device: str, mpi: str, family: str) -> list[Case]:
    found = []
    for kernel in wanted.kernels:
        for per_node in wanted.ranks_per_node:
            ranks = wanted.nodes * per_node
            words = words_of(wanted.scale)
            hints = (f"cb_nodes={wanted.nodes}", f"cb_buffer_size={buffer_bytes(wanted.scale)}")
            arms = (
                (f"{NATIVE} individual", ("--independent",), ()),
                (f"{NATIVE} collective", ("--collective", *native_hints(wanted.nodes, wanted.scale)), ()),
                (f"{PENSTOCK} individual", ("--independent",), ()),
                (f"{PENSTOCK} collective", ("--collective",), hints),
                (FORCED, ("--collective",), (*hints, "penstock_strategy=two_phase")),
            )
            found += [
                Case(device, mpi, family, kernel, arm, ranks, per_node, (*words, *way), tuple(OPERATIONS), 0, own)
                for arm, way, own in arms
            ]
    return found


def file_bytes(wanted: Wanted) -> int:
    return wanted.nodes * max(wanted.ranks_per_node) * transfers(wanted.scale) * transfer_bytes(wanted.scale)


def gain(value: float | None, base: float | None) -> float | None:
    """0.1: collective moves 10 % more in the same time; negative: it is worse."""
    return value / base - 1 if value is not None and base else None


def shown(rows: Sequence[Row]) -> Shown:
    sheets, panels, compared = [], [], []
    for mpi in distinct(rows, "mpi"):
        for kernel in distinct(only(rows, mpi=mpi), "kernel"):
            for ranks in distinct(only(rows, mpi=mpi, kernel=kernel), "ranks"):
                mine = only(rows, mpi=mpi, kernel=kernel, ranks=ranks)
                devices, arms = distinct(mine, "device"), distinct(mine, "arm")
                for operation, text in OPERATIONS.items():
                    title = f"{kernel}, {text}, {where_of(mine[0])}, file of {amount(mine[0]['file_bytes'])}, {mpi}"
                    rates = {
                        arm: [
                            value_of(mine, "megabytes_per_second", operation, device=device, arm=arm)
                            for device in devices
                        ]
                        for arm in arms
                    }
                    lines = []
                    for place, device in enumerate(devices):
                        line = [device, *(shown_number(rates[arm][place]) for arm in arms)]
                        for arm, base in PAIRS.items():
                            more = (
                                gain(rates[arm][place], rates[base][place]) if arm in rates and base in rates else None
                            )
                            line.append(percent(more))
                            if more is not None:
                                facts = {
                                    "mpi": mpi,
                                    "kernel": kernel,
                                    "ranks": ranks,
                                    "ranks_per_node": mine[0]["ranks_per_node"],
                                }
                                facts |= {"device": device, "operation": operation, "arm": arm, "beside": base}
                                compared.append(facts | {"collective_gain": more})
                        lines.append(line)
                    beside = (f"{arm} beside {base}" for arm, base in PAIRS.items())
                    sheets.append(Sheet(title, ("MB/s", *arms, *beside), lines))
                    panels.append(Panel(title, devices, list(rates.items())))
    return Shown(sheets, panels, "MB/s", compared)


STUDY = Study(
    "collective",
    "collective I/O beside individual I/O, native and on Penstock, on few and on many ranks of a node",
    PAPER,
    KERNELS,
    limits_cache=False,
    reads_report=False,
    notes=(
        "Native collective has collective buffering enabled by ROMIO's hints, with one aggregator for each node; Open MPI's own component takes "
        "of them what it knows.",
        f"The paper's 32 calls of a rank are {QUICK_TRANSFERS} in smaller sizes.",
        "Penstock collective chooses by itself; Penstock two_phase is made to aggregate, one aggregator for each node.",
    ),
    cases=cases,
    file_bytes=file_bytes,
    shown=shown,
)
