"""Runs one test in a fresh directory and says how it went.  Knows no suite and compares nothing.

A test that hangs is ended with all its processes and no others: each process of a run carries a variable with the run's own value.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from implementations import Implementation

from model import CRASH, FAIL, PASS, SKIP, TIMEOUT, Result, Step, Test

MARK = "CONFORMANCE_RUN"
KEPT_OUTPUT_CHARACTERS = 3000

# How the launchers say that a rank was ended by a signal.
SIGNALLED = re.compile(
    r"exited on signal \d+|EXIT STRING: (?:Segmentation fault|Aborted|Bus error|Floating point|Illegal)|KILLED BY SIGNAL: (?:\d+)"
    r"|Program received signal SIG|double free or corruption|\*\*\* Process received signal",
)
NOT_PRELOADED = re.compile(r"object '([^']*)' from LD_PRELOAD cannot be preloaded")


@dataclass
class Ended:
    """What is left of a program that ran."""

    code: int  # negative: the launcher itself was ended by this signal
    stdout: str
    stderr: str
    timed_out: bool


def what_it_said(ended: Ended) -> str:
    """The first line that a program printed about its failure, to stand beside the verdict."""
    for line in (ended.stderr + "\n" + ended.stdout).splitlines():
        words = " ".join(line.split())
        if words and not words.startswith(("---", "===", "=", "[WARNING]")):
            return f": {words[:160]}"
    return ""


def no_errors(ended: Ended) -> str:
    """MPICH's rule: one line "No Errors" on the standard output and nothing else."""
    lines = [line.strip() for line in ended.stdout.splitlines() if line.strip()]
    told = [line for line in lines if line.lower() != "no errors"]
    if len(told) == len(lines):
        return f"did not say No Errors{what_it_said(ended)}"
    if told:
        return f"unexpected output: {told[0][:160]}"
    return f"exit code {ended.code}" if ended.code else ""


def no_errors_among(ended: Ended) -> str:
    """ROMIO's rule: "No Errors" on a line of its own."""
    if not re.search(r"(?im)^\s*no errors\s*$", ended.stdout + "\n" + ended.stderr):
        return f"did not say No Errors{what_it_said(ended)}"
    return f"exit code {ended.code}" if ended.code else ""


def exit_code(ended: Ended) -> str:
    return f"exit code {ended.code}{what_it_said(ended)}" if ended.code else ""


def silent(ended: Ended) -> str:
    """For programs that end with 0 whatever they found and tell of errors on standard error."""
    if ended.code:
        return f"exit code {ended.code}"
    wrong = re.search(r"(?im)^.*\berror\b.*$", ended.stderr + ended.stdout)
    return f"said: {wrong.group(0).strip()[:160]}" if wrong else ""


def no_failed_line(ended: Ended) -> str:
    """HDF5's rule: exit code 0 and no line with FAILED."""
    wrong = re.search(r"(?m)^.*\*FAILED\*.*$", ended.stdout + ended.stderr)
    if wrong:
        return f"said: {' '.join(wrong.group(0).split())[:160]}"
    return f"exit code {ended.code}" if ended.code else ""


def gives_up_after_passing(ended: Ended) -> str:
    """HDF5's flush tests: the first program flushes, says PASSED and then leaves MPI without closing anything, on purpose."""
    text = ended.stdout + ended.stderr
    return "" if "PASSED" in text and "*FAILED*" not in text else f"did not say PASSED (exit code {ended.code})"


def external32_big_endian(ended: Ended) -> str:
    """For ROMIO's external32, which prints what it found and leaves the judgement to the reader."""
    if not re.search(r"external32 datarep is (?:LITTLE or )?BIG ENDIAN", ended.stdout):
        return f"external32 data is not big-endian in the file{what_it_said(ended)}"
    return exit_code(ended)


RULES: dict[str, Callable[[Ended], str]] = {
    "no errors": no_errors,
    "no errors among": no_errors_among,
    "exit": exit_code,
    "silent": silent,
    "no failed line": no_failed_line,
    "gives up after passing": gives_up_after_passing,
    "external32 is big-endian": external32_big_endian,
}
IGNORES_SIGNALS = {"gives up after passing"}


def classify(ended: Ended, rule: str, time_limit_seconds: float) -> tuple[str, str]:
    """Outcome and reason of one program.  Pure."""
    if ended.timed_out:
        return TIMEOUT, f"ran longer than {time_limit_seconds:.0f} s"
    unloaded = NOT_PRELOADED.search(ended.stderr)
    if unloaded:
        return FAIL, f"the preload {unloaded.group(1)} could not be loaded"
    if rule not in IGNORES_SIGNALS:
        signalled = SIGNALLED.search(ended.stderr + ended.stdout)
        if signalled:
            return CRASH, signalled.group(0)
        if ended.code < 0 or 128 < ended.code <= 128 + 31:
            number = -ended.code if ended.code < 0 else ended.code - 128
            return CRASH, f"ended by {signal.Signals(number).name}"
    reason = RULES[rule](ended)
    return (FAIL, reason) if reason else (PASS, "")


def _marked(mark: str) -> list[int]:
    """Processes that carry this run's mark."""
    wanted, found = f"{MARK}={mark}".encode(), []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            continue  # it ended meanwhile, or belongs to somebody else
    return found


def _end_marked(mark: str) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in _marked(mark):
            try:
                os.kill(process, number)
            except ProcessLookupError:
                continue
        deadline = time.monotonic() + 3
        while _marked(mark) and time.monotonic() < deadline:
            time.sleep(0.1)


def run_program(command: list[str], environment: dict[str, str], directory: Path, time_limit_seconds: float) -> Ended:
    """Runs a launcher line to its end or to the time limit; leaves no process behind."""
    mark = uuid.uuid4().hex
    out_path, error_path = directory / ".stdout", directory / ".stderr"
    with out_path.open("wb") as out, error_path.open("wb") as error:
        try:
            process = subprocess.Popen(
                command,
                cwd=directory,
                env=environment | {MARK: mark},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=error,
                start_new_session=True,
            )
        except OSError as failure:
            return Ended(127, "", f"{command[0]}: {failure.strerror}", False)
        try:
            code, timed_out = process.wait(time_limit_seconds), False
        except subprocess.TimeoutExpired:
            code, timed_out = -1, True
        finally:
            _end_marked(mark)
            process.wait()
    texts = [path.read_bytes().decode(errors="replace") for path in (out_path, error_path)]
    out_path.unlink()
    error_path.unlink()
    return Ended(code, texts[0], texts[1], timed_out)


def read_cases(directory: Path) -> dict[str, str]:
    """Outcomes that a program wrote one by one into cases.*.jsonl, the worst of all ranks for each; one that began and never ended failed."""
    order = [PASS, SKIP, FAIL]
    cases: dict[str, str] = {}
    for path in sorted(directory.glob("cases.*.jsonl")):
        of_rank: dict[str, str] = {}
        for line in path.read_text().splitlines():
            try:
                row = json.loads(line)
            except json.JSONDecodeError:
                continue  # the last line of a rank that was ended while it wrote
            of_rank[row["case"]] = row["outcome"]
        for name, outcome in of_rank.items():
            told = FAIL if outcome == "begun" else outcome
            cases[name] = max(cases.get(name, PASS), told, key=order.index)
    return cases


def _available_memory_gib() -> float:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) / 2**20
    return 0.0


def _short_of(test: Test, directory: Path) -> str:
    memory, disk = _available_memory_gib(), shutil.disk_usage(directory).free / 2**30
    if test.memory_gib > 0.8 * memory:
        return f"needs {test.memory_gib:g} GiB of memory, {memory:.1f} are free"
    if test.disk_gib > 0.8 * disk:
        return f"needs {test.disk_gib:g} GiB of disk, {disk:.1f} are free"
    return ""


def _command(step: Step, on: Implementation, preload: dict[str, str]) -> list[str]:
    program = [step.program, *step.arguments]
    if step.ranks == 0:
        return program
    return on.command(step.ranks, program, dict(step.environment) | preload)


def run_test(
    test: Test, on: Implementation, preload: dict[str, str], scratch: Path, log: Path, time_factor: float
) -> Result:
    """Runs all steps of a test.  `preload`: variables that the ranks get and nobody else, empty for a native run."""
    if test.skip:
        return Result(SKIP, test.skip)
    directory = scratch / re.sub(r"[^\w.-]+", "_", test.identity)
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    log.parent.mkdir(parents=True, exist_ok=True)
    short = _short_of(test, directory)
    if short:
        return Result(SKIP, short)
    for path in test.copies:
        shutil.copy(path, directory)
    limit = test.time_limit_seconds * time_factor
    began, result = time.monotonic(), Result(PASS)
    with log.open("w") as written:
        for number, step in enumerate(test.steps, 1):
            command = _command(step, on, preload)
            environment = on.base_environment() | (dict(step.environment) if step.ranks == 0 else {})
            written.write(f"$ {' '.join(command)}\n")
            ended = run_program(command, environment, directory, max(1.0, limit - (time.monotonic() - began)))
            written.write(f"{ended.stdout}\n--- standard error\n{ended.stderr}\n--- exit code {ended.code}\n")
            outcome, reason = classify(ended, step.rule, limit)
            if outcome != PASS:
                where = f"step {number}, {Path(step.program).name}: " if len(test.steps) > 1 else ""
                result = Result(
                    outcome,
                    where + reason,
                    output=(ended.stdout + ended.stderr)[-KEPT_OUTPUT_CHARACTERS:],
                    log=str(log),
                )
                break
    result.seconds = round(time.monotonic() - began, 2)
    result.cases = read_cases(directory)
    failed = [name for name, outcome in result.cases.items() if outcome == FAIL]
    if failed:
        result.outcome = FAIL if result.outcome == PASS else result.outcome
        result.reason = f"{result.reason + '; ' if result.reason else ''}{len(failed)} of {len(result.cases)} cases: {', '.join(failed[:4])}"
    shutil.rmtree(directory, ignore_errors=True)
    return result
