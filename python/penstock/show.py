"""Prints for people: the table of a run, sentences on stderr.  Computes nothing that a program would want; that is in report.py."""

import json
import sys
import textwrap
import unicodedata
from collections.abc import Iterable, Sequence
from typing import IO, TYPE_CHECKING, Any

from penstock.report import FileReport, Report

if TYPE_CHECKING:
    from rich.console import Console

MOST_FILES = 25
WIDTH_OF_A_PIPE = 180


def printable(text: str) -> str:
    """`text` with everything that could move the cursor or hide characters written as an escape."""
    return "".join(
        character if not unicodedata.category(character).startswith(("C", "Zl", "Zp")) else ascii(character)[1:-1]
        for character in text
    )


def say(text: str) -> None:
    """One sentence on stderr."""
    print(f"penstock: {printable(text)}", file=sys.stderr, flush=True)


def print_json(value: Any) -> None:
    """The only thing on stdout."""
    json.dump(value, sys.stdout, indent=2, allow_nan=False)
    sys.stdout.write("\n")
    sys.stdout.flush()


def amount(number: int) -> str:
    """12345678 -> "12.3 M": three digits, powers of 1000."""
    value = float(number)
    for unit in ("", " k", " M", " G", " T", " P"):
        if value < 999.5 or unit == " P":
            return f"{number}" if not unit else f"{value:.3g}{unit}"
        value /= 1000
    return f"{number}"


def byte_amount(number: int) -> str:
    """1536 -> "1.5 KiB"."""
    value = float(number)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if value < 1023.5 or unit == "PiB":
            return f"{number} B" if unit == "B" else f"{value:.4g} {unit}"
        value /= 1024
    return f"{number} B"


def seconds(value: float) -> str:
    return "-" if value == 0 else f"{value:.4f}" if value < 10 else f"{value:.2f}"


# A phase that takes less of all time has no column of its own: what is left of the line is for names.
LEAST_SHARE_SHOWN = 0.02
OTHER = "other"


def _phases_shown(files: Iterable[FileReport]) -> list[str]:
    """Phases that take a part worth a column; where there are more, the last one is "other", which has them all."""
    sums: dict[str, float] = {}
    for file in files:
        for name, value in file.phases.items():
            if value.sum > 0:
                sums[name] = sums.get(name, 0.0) + value.sum
    least = LEAST_SHARE_SHOWN * sum(sums.values())
    shown = [name for name, value in sums.items() if value >= least and name != OTHER]
    return shown if len(shown) == len(sums) else [*shown, OTHER]


def _phase_cells(file: FileReport, phases: list[str]) -> list[str]:
    """Means over the ranks.  They add up to the wall time, as the phases do."""
    cells = []
    for name in phases:
        mine = [name] if name != OTHER else [phase for phase in file.phases if phase == OTHER or phase not in phases]
        values = [file.mean(file.phases[phase]) for phase in mine if phase in file.phases]
        cells.append(seconds(sum(values)) if values else "-")
    return cells


def console_on(stream: IO[str]) -> "Console":
    from rich.console import Console

    width = None if stream.isatty() else WIDTH_OF_A_PIPE
    return Console(file=stream, width=width, highlight=False, markup=False)


LEAST_WIDTH_OF_WORDS = 16
WIDTH_BESIDE_A_CELL = 3


def least_widths(headings: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[str]) -> list[int]:
    """What each column needs to show every number whole; words, and headings between theirs, are folded where they have to be."""
    from rich.cells import cell_len

    widths = []
    for column, heading in enumerate(headings):
        widest = max((cell_len(row[column]) for row in rows), default=0)
        if heading and heading in left:
            widest = min(widest, LEAST_WIDTH_OF_WORDS)
        widths.append(max(widest, *(cell_len(word) for word in heading.split(" "))))
    return widths


def print_table(
    console: "Console", headings: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[str] = ("",)
) -> None:
    """Columns whose heading is in `left` have words, the others numbers.  Where a line is too short for the numbers, each row becomes a paragraph."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    rows = [[printable(cell) for cell in row] for row in rows]
    widths = least_widths(headings, rows, left)
    if sum(widths) + WIDTH_BESIDE_A_CELL * len(widths) > console.width:
        for row in rows:
            for line in paragraph(headings, row, console.width):
                console.print(Text(line), soft_wrap=True)
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading, width in zip(headings, widths, strict=True):
        table.add_column(heading, justify="left" if heading in left else "right", overflow="fold", min_width=width)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console.print(table)


def paragraph(headings: Sequence[str], row: Sequence[str], width: int) -> list[str]:
    """A row as lines: its name, and below it what has a value."""
    title = ", ".join(
        cell
        for place, (heading, cell) in enumerate(zip(headings, row, strict=True))
        if cell and (not heading or place == 0)
    )
    rest = [
        f"{heading} {cell}".replace(" ", "\N{NO-BREAK SPACE}")
        for place, (heading, cell) in enumerate(zip(headings, row, strict=True))
        if heading and place > 0 and cell not in ("", "-")
    ]
    lines = textwrap.wrap(
        ", ".join(rest),
        max(20, width),
        initial_indent="  ",
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [title, *(line.replace("\N{NO-BREAK SPACE}", " ") for line in lines)]


def print_report(report: Report, stream: IO[str]) -> None:
    """One row per file, the slowest first; the phases of a row add up to its wall time."""
    console = console_on(stream)
    files = sorted(report.files, key=lambda file: file.mean(file.wall), reverse=True)
    phases = _phases_shown(files)
    if files:
        headings = ("file", "strategy", "calls", "bytes", "pieces", "wall s", *phases, "slowest s")
        rows = []
        for file in files[:MOST_FILES]:
            cells = [file.file, file.strategy, amount(file.calls), byte_amount(file.bytes), amount(file.pieces)]
            cells += [seconds(file.mean(file.wall)), *_phase_cells(file, phases)]
            rows.append([*cells, seconds(file.wall.max)])
        print_table(console, headings, rows, ("file", "strategy"))
        console.print(
            "Seconds are means over the ranks; the phases of a row add up to its wall time, which is time inside MPI_File calls."
        )
    if len(files) > MOST_FILES:
        console.print(f"{len(files) - MOST_FILES} more files are in the report; penstock report --json FILE shows all.")
    for file in files[:MOST_FILES]:
        for text in file.complaints:
            console.print(f"{printable(file.file)}: {printable(text)}")
        for text in file.errors:
            console.print(f"{printable(file.file)}: error: {printable(text)}")


def print_problems(report: Report, name: str) -> None:
    for problem in report.problems:
        say(f"{name}, line {problem.line}: {problem.text}")
    if report.problems_left_out:
        say(f"{name}: {report.problems_left_out} more bad lines")
