"""MPI individual I/O beside POSIX I/O (figures 7 and 8 of the NVM paper).  Pure: cases and rows, starts nothing."""

from collections.abc import Sequence

from penstock.study.cases import (
    MEBIBYTE,
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
    less,
    only,
    percent,
    shown_number,
    value_of,
)

KERNELS = ("interleave", "hacc")
POSIX = "POSIX"
OPERATIONS = {"write": "writes", "read": "reads"}

PAPER = (
    Fact(
        "section III.B, figure 7",
        "IOR on one node, 4 ranks, transfers of 16 MB at random places: MPI individual I/O and POSIX I/O hardly differ on HDD and SSD; on NVM "
        "MPI individual I/O is 4.87 % slower",
        {"one node, nvm": 0.0487},
    ),
    Fact(
        "section III.B, figure 8",
        "the same on 4 nodes of 4 ranks over NFS and 1 Gb Ethernet: almost no difference on any device, since the network takes most of the time",
    ),
)


def transfer_bytes(scale: int) -> int:
    return max(1, 16 * MEBIBYTE // scale)


def words_of(kernel: str, scale: int) -> tuple[str, ...]:
    if kernel == "hacc":
        return ("--particles", str(max(1, 13_107_200 // scale)), "--no-shifted", "--no-plain")
    transfer = transfer_bytes(scale)
    words = ("-b", str(16 * transfer), "-t", str(transfer), "-s", "2", "-z", "1", "-C", "--at")
    return (*words, "--no-plain")


def layouts(wanted: Wanted) -> list[tuple[int, int]]:
    """Ranks in all and on each node: one node and, where several are asked for, all of them."""
    found = [(wanted.ranks, wanted.ranks)]
    if wanted.nodes > 1:
        found += [(wanted.nodes * count, count) for count in wanted.ranks_per_node[-1:]]
    return found


def cases(wanted: Wanted, device: str, mpi: str, family: str) -> list[Case]:
    arms = (
        (POSIX, "--posix"),
        (f"{NATIVE} individual", "--independent"),
        (f"{PENSTOCK} individual", "--independent"),
    )
    return [
        Case(
            device, mpi, family, kernel, arm, ranks, per_node, (*words_of(kernel, wanted.scale), way), tuple(OPERATIONS)
        )
        for kernel in wanted.kernels
        for ranks, per_node in layouts(wanted)
        for arm, way in arms
    ]


def file_bytes(wanted: Wanted) -> int:
    ranks = max(ranks for ranks, _ in layouts(wanted))
    of_rank = {"interleave": 32 * transfer_bytes(wanted.scale), "hacc": 13_107_200 * 38 // wanted.scale}
    return ranks * max(of_rank[kernel] for kernel in wanted.kernels)


def where_of(row: Row) -> str:
    return f"{row['ranks']} ranks, {row['nodes']} node{'s' if row['nodes'] > 1 else ''}"


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
                        posix = rates.get(POSIX, [None] * len(devices))[place]
                        line = [device, *(shown_number(rates[arm][place]) for arm in arms)]
                        for arm in arms:
                            if arm == POSIX:
                                continue
                            slower = less(rates[arm][place], posix)
                            line.append(percent(slower))
                            if slower is not None:
                                compared.append(
                                    {
                                        "mpi": mpi,
                                        "kernel": kernel,
                                        "ranks": ranks,
                                        "device": device,
                                        "operation": operation,
                                        "arm": arm,
                                    }
                                    | {"slower_than_posix": slower}
                                )
                        lines.append(line)
                    behind = (f"{arm} slower than {POSIX} by" for arm in arms if arm != POSIX)
                    sheets.append(Sheet(title, ("MB/s", *arms, *behind), lines))
                    panels.append(Panel(title, devices, list(rates.items())))
    return Shown(sheets, panels, "MB/s", compared)


STUDY = Study(
    "interfaces",
    "MPI individual I/O, native and on Penstock, beside POSIX I/O",
    PAPER,
    KERNELS,
    limits_cache=False,
    reads_report=False,
    notes=(
        "Every call moves one transfer at a random place and says where; reading is of what another rank wrote, as the paper has it.",
        "The paper's options give a file of 2 GB, not the 16 GB that it tells.",
    ),
    cases=cases,
    file_bytes=file_bytes,
    shown=shown,
)
