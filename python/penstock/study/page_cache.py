"""How much a smaller page cache costs on slow and fast devices (figures 4 to 6 of the NVM paper).  Pure: cases and rows, starts nothing."""

import math
from collections.abc import Sequence

from penstock.study.cases import (
    GIBIBYTE,
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

KERNELS = ("hacc", "madbench2", "s3asim")
FIGURE = {"hacc": "write", "madbench2": "w", "s3asim": "io"}
TEXT = {"hacc": "writes", "madbench2": "phase W", "s3asim": "the I/O phase"}
PAPER_CACHES = (1, 3, 5, 7, 9, 11)  # GiB
QUICK_CACHES = (1, 3, 11)
SEARCHED_BYTES = 1228 << 20  # of the database; with the results, the paper's 2 GB

PAPER = (
    Fact(
        "section III.A, figure 4",
        "HACC-IO, 4 ranks of one node, 13,107,200 particles, about 2 GB: from 11 GB of page cache to 1 GB it loses 92.7 % of its "
        "performance on HDD, 84.8 % on SSD and 11.5 % on NVM; with 9 GB and 11 GB the devices hardly differ",
        {"hacc hdd": 0.927, "hacc ssd": 0.848, "hacc nvm": 0.115},
    ),
    Fact(
        "section III.A, figures 5 and 6",
        "MADBench2 (NO_PIX 5000, NO_BIN 8, NO_GANG 1, BLOCKSIZE 1024, working set about 4 GB), phase W: stable from 11 GB to 3 GB on all "
        "three devices, fastest on NVM; from 3 GB to 1 GB it loses 40.16 % on NVM",
        {"madbench2 nvm, from the middle": 0.4016},
    ),
    Fact(
        "section III.A, figure 6",
        "S3aSim (100 queries, sizes up to 5,000, counts up to 10,000, working set 2 GB): fastest on NVM throughout; from 3 GB to 1 GB it "
        "loses 5.91 % on NVM",
        {"s3asim nvm, from the middle": 0.0591},
    ),
)


def words_of(kernel: str, scale: int) -> tuple[str, ...]:
    if kernel == "hacc":
        return ("--particles", str(max(1, 13_107_200 // scale)), "--independent", "--no-shifted", "--no-plain")
    if kernel == "madbench2":
        root = math.sqrt(scale)
        words = ("--pixels", str(max(4, int(5000 / root))), "--bins", "8", "--gangs", "1")
        return (*words, "--block", str(max(1, int(1024 / root))), "--no-plain")
    queries = 100 if scale == 1 else 10
    words = (
        "--queries",
        str(queries),
        "--size-max",
        "5000",
        "--count-max",
        str(max(1, 1_000_000 // (queries * scale))),
    )
    fragment = max(4096, SEARCHED_BYTES // 16 // scale)
    return (*words, "--fragments", "16", "--fragment-bytes", str(fragment), "--no-plain")


def caches_of(wanted: Wanted) -> tuple[int, ...]:
    if wanted.caches is not None:
        return wanted.caches
    return tuple(size * GIBIBYTE // wanted.scale for size in (PAPER_CACHES if wanted.scale == 1 else QUICK_CACHES))


def cases(wanted: Wanted, device: str, mpi: str, family: str) -> list[Case]:
    found = []
    for kernel in wanted.kernels:
        if kernel == "madbench2" and math.isqrt(wanted.ranks) ** 2 != wanted.ranks:
            continue
        words = words_of(kernel, wanted.scale)
        for cache in caches_of(wanted) or (0,):
            found += [
                Case(
                    device,
                    mpi,
                    family,
                    kernel,
                    arm,
                    wanted.ranks,
                    wanted.ranks,
                    words,
                    (FIGURE[kernel],),
                    cache,
                    warm=False,
                )
                for arm in (NATIVE, PENSTOCK)
            ]
    return found


def file_bytes(wanted: Wanted) -> int:
    most = {"hacc": 13_107_200 * 38 * wanted.ranks, "madbench2": 8 * 8 * 5000**2, "s3asim": SEARCHED_BYTES + (1 << 30)}
    return max(most[kernel] for kernel in wanted.kernels) // wanted.scale


def _shown_cache(row_cache: int) -> str:
    return amount(row_cache) if row_cache else "not limited"


def shown(rows: Sequence[Row]) -> Shown:
    sheets, panels, compared = [], [], []
    for mpi in distinct(rows, "mpi"):
        for kernel in distinct(only(rows, mpi=mpi), "kernel"):
            mine = only(rows, mpi=mpi, kernel=kernel)
            figure, caches = FIGURE[kernel], sorted(set(distinct(mine, "cache_bytes")))
            title = (
                f"{kernel}, {TEXT[kernel]}, {mine[0]['ranks']} ranks, file of {amount(mine[0]['file_bytes'])}, {mpi}"
            )
            lines, series = [], []
            for device in distinct(mine, "device"):
                for arm in distinct(mine, "arm"):
                    here = only(mine, device=device, arm=arm)
                    rates = [value_of(here, "megabytes_per_second", figure, cache_bytes=cache) for cache in caches]
                    lost = less(rates[0], rates[-1]) if len(rates) > 1 else None
                    lines.append(
                        [
                            f"{device}, {arm}",
                            *(shown_number(rate) for rate in rates),
                            percent(-lost if lost is not None else None),
                        ]
                    )
                    series.append((f"{device}, {arm}", rates))
                    if lost is not None:
                        from_middle = less(rates[0], rates[len(rates) // 2]) if len(rates) > 2 else None
                        compared.append(
                            {
                                "mpi": mpi,
                                "kernel": kernel,
                                "device": device,
                                "arm": arm,
                                "lost": lost,
                                "lost_from_the_middle": from_middle,
                            }
                        )
            headings = ("MB/s by page cache", *map(_shown_cache, caches), "smallest beside largest")
            sheets.append(Sheet(title, headings, lines))
            panels.append(Panel(title, list(map(_shown_cache, caches)), series))
    return Shown(sheets, panels, "MB/s", compared)


STUDY = Study(
    "page-cache",
    "what a smaller page cache costs on slow and on fast devices",
    PAPER,
    KERNELS,
    limits_cache=True,
    reads_report=False,
    notes=(
        "A page cache of some size is a memory control group of that size, of what the ranks took where they had no limit, and of a little besides for the launcher.",
        "Nothing is synced: what the page cache still holds when a file is closed is not paid for, in the paper neither.",
        "Kernels make and check their content between their calls, outside of all times; a device may go on writing meanwhile.",
    ),
    cases=cases,
    file_bytes=file_bytes,
    shown=shown,
)
