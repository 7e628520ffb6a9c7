"""penstock run: starts a launcher line with Penstock under it, and tells afterwards where the time of each file went."""

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from penstock import environment, launcher, paths, preflight, report, show
from penstock.failure import USAGE, Failure


@dataclass
class Prepared:
    """Everything that is decided before the program starts."""

    words: list[str]
    changes: dict[str, str]
    warnings: list[str] = field(default_factory=list)


def prepare(
    words: list[str], base: Mapping[str, str], library: Path, wanted: environment.Wanted, directory: Path | None = None
) -> Prepared:
    """Checks the line, seen from `directory` (the current one), and says what to start.  Raises Failure when the program can not run on Penstock."""
    line = launcher.parse(words, directory)
    if line.launcher is None and (line.family or line.programs[0].path is None):
        raise Failure(f"{words[0]}: there is no such program in PATH or here, or it can not be executed", USAGE)
    notes = preflight.check(line, library)
    changes = environment.variables(base, library, wanted)
    vendor = environment.launcher_vendor(line.launcher) if line.launcher and line.family == "mpi" else ""
    started, more, warnings = environment.carried(line, vendor, base, changes)
    return Prepared(started, changes | more, notes + warnings)


@contextlib.contextmanager
def _report_file(chosen: Path | None) -> Iterator[Path]:
    """The user's report file, or a temporary one in the current directory, which all nodes of a job can reach as a rule."""
    if chosen is not None:
        try:
            with chosen.open("ab"):
                pass
        except OSError as error:
            raise Failure(f"{chosen}: the report can not be written: {error.strerror}") from error
        yield chosen.absolute()
        return
    handle, name = -1, ""
    for directory in (Path.cwd(), Path(tempfile.gettempdir())):
        with contextlib.suppress(OSError):
            handle, name = tempfile.mkstemp(prefix=".penstock-report-", suffix=".jsonl", dir=directory)
            break
    if handle < 0:
        raise Failure(
            "neither the current directory nor the temporary one can be written; name a report file with --report FILE"
        )
    os.close(handle)
    try:
        yield Path(name)
    finally:
        with contextlib.suppress(OSError):
            Path(name).unlink()


class Receiver(Protocol):
    """What signals are passed on to."""

    def send_signal(self, sig: int, /) -> None: ...


class Signals:
    """Signals sent to us go to the program, which decides; those before its start wait for it.

    SIGINT and SIGQUIT the terminal sends to the program as well, so ours only has to survive them.  A signal that we were told to
    ignore (nohup) stays ignored, in the program too; handlers of our own are not inherited by it.
    """

    PASSED_ON = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
    SURVIVED = (signal.SIGINT, signal.SIGQUIT)

    def __init__(self) -> None:
        self._process: Receiver | None = None
        self._waiting: list[int] = []
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Signals":
        for number in (*self.PASSED_ON, *self.SURVIVED):
            if signal.getsignal(number) != signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._arrived)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _arrived(self, number: int, _frame: object) -> None:
        if number in self.SURVIVED:
            return
        if self._process is None:
            self._waiting.append(number)
        else:
            self._process.send_signal(number)

    def go_to(self, process: Receiver) -> None:
        self._process = process
        for number in self._waiting:
            process.send_signal(number)


def start(prepared: Prepared, base: Mapping[str, str], stdout: int | None) -> int:
    """Runs the line to its end; the program's exit code as a shell would tell it."""
    with Signals() as signals:
        try:
            process = subprocess.Popen(prepared.words, env={**base, **prepared.changes}, stdout=stdout)
        except OSError as error:
            raise Failure(f"{prepared.words[0]}: can not be started: {error.strerror}") from error
        signals.go_to(process)
        code = process.wait()
    return 128 - code if code < 0 else code


def nothing_seen(bypass: bool) -> str:
    if bypass:
        return "every file went to the native MPI library, as asked; there is nothing to report"
    return (
        "no MPI file was closed by this program, so there is nothing to report. If you expected some: does the program write by "
        "POSIX or by PnetCDF's own GIO driver (PNETCDF_HINTS=nc_driver=mpiio), does it end before MPI_File_close, or does a script in "
        "the line start a statically linked program?"
    )


def say_failed(exit_code: int) -> None:
    """What is not in a report of a program that did not end well."""
    if exit_code != 0:
        show.say(f"the program ended with exit code {exit_code}; files that it had not closed by then are not reported")


def _show(found: report.Report, exit_code: int, name: str, wanted: environment.Wanted, as_json: bool) -> None:
    if as_json:
        show.print_json({"exit_code": exit_code, **report.as_json(found)})
        return
    if found.files:
        show.print_report(found, sys.stderr)
    elif not found.problems and (exit_code == 0 or wanted.bypass):
        show.say(nothing_seen(wanted.bypass))
    show.print_problems(found, name)
    if not wanted.bypass:
        say_failed(exit_code)


def run(words: list[str], wanted: environment.Wanted, as_json: bool, dry_run: bool) -> int:
    """The whole command; returns the exit code of the program."""
    base = dict(os.environ)
    if base.get("PENSTOCK_BYPASS", "") not in ("", "0"):
        wanted = replace(wanted, bypass=True)
    library = environment.library_in(paths.library_directory())
    if dry_run:
        chosen = wanted.report.absolute() if wanted.report else Path.cwd() / ".penstock-report.jsonl"
        return print_plan(prepare(words, base, library, _with_report(wanted, chosen)), as_json)
    with _report_file(wanted.report) as file:
        prepared = prepare(words, base, library, _with_report(wanted, file))
        for text in prepared.warnings:
            show.say(text)
        before = file.stat().st_size
        sys.stdout.flush()
        exit_code = start(prepared, base, sys.stderr.fileno() if as_json else None)
        try:
            found = report.read(file, before)
        except OSError as error:
            raise Failure(
                f"{file}: the report can not be read: {error.strerror}; the program ended with {exit_code}"
            ) from error
        _show(found, exit_code, str(file), wanted, as_json)
    return exit_code


def _with_report(wanted: environment.Wanted, file: Path) -> environment.Wanted:
    return environment.Wanted(file, wanted.hints, wanted.strategy, wanted.bypass)


def print_plan(prepared: Prepared, as_json: bool) -> int:
    plan: dict[str, Any] = {"words": prepared.words, "environment": prepared.changes, "warnings": prepared.warnings}
    if as_json:
        show.print_json(plan)
        return 0
    for text in prepared.warnings:
        show.say(text)
    for name, value in prepared.changes.items():
        print(f"{name}={shlex.quote(value)} \\")
    print(shlex.join(prepared.words))
    return 0
