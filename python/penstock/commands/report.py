"""penstock report: prints the table of a report file."""

import sys
from pathlib import Path

from penstock import report, show
from penstock.failure import FINDINGS, UNREADABLE, Failure


def read(path: Path) -> report.Report:
    """Raises Failure (unreadable input) when there is no report in the file."""
    try:
        found = report.read(path)
    except OSError as error:
        raise Failure(f"{path}: can not be read: {error.strerror}", UNREADABLE) from error
    if found.problems and not found.files:
        first = found.problems[0]
        raise Failure(f"{path}: no line of it is a report; line {first.line}: {first.text}", UNREADABLE)
    return found


def run(path: Path, as_json: bool) -> int:
    found = read(path)
    if as_json:
        show.print_json(report.as_json(found))
    elif found.files:
        show.print_report(found, sys.stdout)
    else:
        show.say(f"{path}: no file in this report")
    show.print_problems(found, str(path))
    return FINDINGS if found.problems else 0
