"""Tests of the conformance runner itself: rules, classes, verdicts, time limits, what counts as an error.  Needs no MPI and no network."""

import json
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "conformance"))

import calls
import run
import sources
import suite_hdf5
import suite_mpi4py
import suite_mpich
from execute import MARK, RULES, Ended, classify, read_cases, run_program, run_test
from implementations import Implementation

from model import (
    CRASH,
    DIFFERS,
    FAIL,
    FAILS_NATIVELY_TOO,
    IMPROVEMENT,
    PASS,
    PASSES,
    REGRESSION,
    SKIP,
    SKIPPED,
    TIMEOUT,
    Result,
    Step,
    Test,
    lost_cases,
    verdict,
)


def ended(stdout: str = "", stderr: str = "", code: int = 0, timed_out: bool = False) -> Ended:
    return Ended(code, stdout, stderr, timed_out)


@pytest.mark.parametrize(
    ("rule", "what", "outcome"),
    [
        ("no errors", ended(" No Errors\n"), PASS),
        ("no errors", ended(" No Errors\n\n"), PASS),
        ("no errors", ended(""), FAIL),
        ("no errors", ended("buffer differs\n No Errors\n"), FAIL),
        ("no errors", ended(" No Errors\n", code=1), FAIL),
        ("no errors", ended("Found 3 errors\n"), FAIL),
        ("no errors among", ended("extent 8: OK\n No Errors\n"), PASS),
        ("no errors among", ended("", "  No Errors\n"), PASS),
        ("no errors among", ended("OK\n"), FAIL),
        ("silent", ended("rate = 3 MB/s\n"), PASS),
        ("silent", ended("", "MPI_File_write returned error\n"), FAIL),
        ("no failed line", ended("Testing x   PASSED\n"), PASS),
        ("no failed line", ended("Testing x  *FAILED*\n"), FAIL),
        ("gives up after passing", ended("t_pflush1 PASSED\n", code=139), PASS),
        ("gives up after passing", ended("*FAILED*\n"), FAIL),
        ("external32 is big-endian", ended("external32 datarep is BIG ENDIAN\n"), PASS),
        ("external32 is big-endian", ended("external32 datarep is LITTLE ENDIAN\n"), FAIL),
        ("exit", ended(code=0), PASS),
        ("exit", ended(code=7), FAIL),
        ("exit", ended(code=139), CRASH),
        ("exit", ended(code=-11), CRASH),
        ("exit", ended(stderr="rank 1 exited on signal 11 (Segmentation fault)", code=1), CRASH),
        ("no errors", ended(" No Errors\n", timed_out=True), TIMEOUT),
        (
            "no errors",
            ended(
                " No Errors\n",
                "ERROR: ld.so: object 'x.so' from LD_PRELOAD cannot be preloaded (wrong ELF class): ignored.",
            ),
            FAIL,
        ),
    ],
)
def test_rules(rule: str, what: Ended, outcome: str) -> None:
    assert classify(what, rule, 10.0)[0] == outcome


def test_every_rule_refuses_a_program_that_says_and_does_nothing_right() -> None:
    for name, rule in RULES.items():
        assert rule(ended("*FAILED* error", code=1)), name


@pytest.mark.parametrize(
    ("native", "ours", "expected"),
    [
        (Result(PASS), Result(PASS), PASSES),
        (Result(PASS), Result(FAIL), REGRESSION),
        (Result(PASS), Result(TIMEOUT), REGRESSION),
        (Result(PASS), Result(CRASH), REGRESSION),
        (Result(FAIL), Result(PASS), IMPROVEMENT),
        (Result(CRASH), Result(PASS), IMPROVEMENT),
        (Result(TIMEOUT), Result(PASS), PASSES),
        (Result(FAIL), Result(FAIL), FAILS_NATIVELY_TOO),
        (Result(PASS), Result(SKIP), SKIPPED),
        (Result(SKIP), Result(SKIP), SKIPPED),
        (Result(FAIL, cases={"a": PASS, "b": FAIL}), Result(FAIL, cases={"a": FAIL, "b": PASS}), REGRESSION),
        (Result(FAIL, cases={"a": PASS, "b": FAIL}), Result(FAIL, cases={"a": PASS, "b": FAIL}), FAILS_NATIVELY_TOO),
        (Result(FAIL, cases={"a": PASS}), Result(CRASH), REGRESSION),
    ],
)
def test_verdicts(native: Result, ours: Result, expected: str) -> None:
    assert verdict(native, ours) == expected


def test_what_the_standard_does_not_ask_is_told_apart() -> None:
    assert verdict(Result(PASS), Result(FAIL), "why") == DIFFERS
    assert verdict(Result(PASS), Result(PASS), "why") == PASSES
    assert verdict(Result(PASS), Result(CRASH), "why") == REGRESSION
    assert verdict(Result(PASS), Result(TIMEOUT), "why") == REGRESSION
    made = rows((PASS, PASS), (PASS, FAIL))
    made[1] |= {"verdict": DIFFERS, "differs": "the standard says nothing of it"}
    text, code = run.report(made, [], True, False)
    assert "s:1@1: the standard says nothing of it" in text
    assert text.splitlines()[-1] == "1 passed, 0 failed, 1 skipped"
    assert code == 0


def test_a_case_that_was_never_reached_is_lost() -> None:
    assert lost_cases(Result(FAIL, cases={"a": PASS, "b": PASS}), Result(TIMEOUT, cases={"a": PASS})) == ["b"]


def rows(*outcomes: tuple[str, str]) -> list[dict]:
    made = []
    for number, (native, ours) in enumerate(outcomes):
        results = Result(native, "n"), Result(ours, "o")
        made.append(
            {
                "mpi": "mpich",
                "suite": "s",
                "test": str(number),
                "ranks": 1,
                "identity": f"s:{number}@1",
                "native": results[0].as_dict(),
                "preload": results[1].as_dict(),
                "verdict": verdict(*results),
                "lost_cases": [],
                "gained_cases": [],
            }
        )
    return made


@pytest.mark.parametrize(
    ("given", "problems", "allowed", "last", "code"),
    [
        (rows((PASS, PASS), (FAIL, FAIL), (FAIL, PASS)), [], False, "2 passed, 0 failed, 1 skipped", 0),
        (rows((PASS, PASS), (PASS, FAIL)), [], False, "1 passed, 1 failed, 0 skipped", 1),
        (rows((PASS, PASS)), ["hdf5 could not be fetched"], False, "1 passed, 0 failed, 0 skipped", 1),
        (rows((PASS, PASS)), ["hdf5 could not be fetched"], True, "1 passed, 0 failed, 0 skipped", 0),
        ([], [], True, "0 passed, 0 failed, 0 skipped", 1),
    ],
)
def test_the_last_line_and_the_exit_code(
    given: list[dict], problems: list[str], allowed: bool, last: str, code: int
) -> None:
    text, got = run.report(given, problems, True, allowed)
    assert text.splitlines()[-1] == last
    assert got == code
    assert all(problem in text for problem in problems)


def test_native_failures_alone_are_no_error() -> None:
    text, code = run.report(rows((PASS, PASS), (FAIL, PASS)), [], False, False)
    assert text.splitlines()[-1] == "1 passed, 1 failed, 0 skipped"
    assert code == 0


def direct() -> Implementation:
    """An "MPI" whose launcher starts one process."""
    launcher = ("sh", "-c", 'while [ "$1" != -n ]; do shift; done; shift 2; exec "$@"', "launcher")
    return Implementation("direct", "mpich", "1", launcher)


def test_a_hanging_test_is_ended_with_its_children(tmp_path: Path) -> None:
    script = "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'], start_new_session=True); time.sleep(60)"
    began = time.monotonic()
    test = Test("s", "hang", (Step(sys.executable, ("-c", script)),), 1.0)
    result = run_test(test, direct(), {}, tmp_path / "scratch", tmp_path / "log", 1.0)
    assert result.outcome == TIMEOUT
    assert time.monotonic() - began < 30
    left = [
        path
        for path in Path("/proc").glob("[0-9]*")
        if MARK.encode() in _read(path / "environ") and b"sleep(60)" in _read(path / "cmdline")
    ]
    assert left == []


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_the_preload_reaches_the_ranks_and_not_the_launcher() -> None:
    command = direct().command(2, ["program"], {"LD_PRELOAD": "x.so"})
    assert command[-3:] == ["env", "LD_PRELOAD=x.so", "program"]
    assert command.index("-n") < command.index("env")
    idle = direct()
    idle.idle_library = "idle.so"
    assert idle.command(2, ["program"], {"LD_PRELOAD": "x.so"})[-3:] == ["env", "LD_PRELOAD=x.so idle.so", "program"]
    assert idle.command(2, ["program"], {})[-3:] == ["env", "LD_PRELOAD=idle.so", "program"]


def test_steps_stop_at_the_first_that_does_not_pass(tmp_path: Path) -> None:
    steps = (
        Step("sh", ("-c", "echo 1 > a")),
        Step("sh", ("-c", "test -f a && exit 3")),
        Step("sh", ("-c", "echo never; touch never")),
    )
    result = run_test(Test("s", "steps", steps), direct(), {}, tmp_path / "scratch", tmp_path / "log", 1.0)
    assert (result.outcome, result.reason) == (FAIL, "step 2, sh: exit code 3")
    assert "never" not in (tmp_path / "log").read_text().split("exit code 3")[1]


def test_each_run_has_a_fresh_directory(tmp_path: Path) -> None:
    test = Test("s", "fresh", (Step("sh", ("-c", "test ! -e left && touch left")),))
    for _ in range(2):
        assert run_test(test, direct(), {}, tmp_path / "scratch", tmp_path / "log", 1.0).outcome == PASS


def test_too_little_memory_skips_with_the_figures(tmp_path: Path) -> None:
    result = run_test(
        Test("s", "big", (Step("true"),), memory_gib=1e6), direct(), {}, tmp_path / "scratch", tmp_path / "log", 1.0
    )
    assert result.outcome == SKIP
    assert "1e+06 GiB of memory" in result.reason


def test_a_program_that_is_not_there_fails(tmp_path: Path) -> None:
    missing = run_program(["/nonexistent/program"], {}, tmp_path, 5.0)
    assert classify(missing, "exit", 5.0)[0] == FAIL


def test_cases_take_the_worst_of_all_ranks_and_unfinished_ones_failed(tmp_path: Path) -> None:
    def write(rank: int, *lines: tuple[str, str]) -> None:
        (tmp_path / f"cases.{rank}.jsonl").write_text(
            "".join(json.dumps({"case": case, "outcome": outcome}) + "\n" for case, outcome in lines)
            + '{"case": "cut of'
        )

    write(0, ("a", "begun"), ("a", PASS), ("b", "begun"), ("b", PASS), ("c", "begun"))
    write(1, ("a", "begun"), ("a", PASS), ("b", "begun"), ("b", FAIL))
    assert read_cases(tmp_path) == {"a": PASS, "b": FAIL, "c": FAIL}


def test_kept_results_survive_and_know_their_test(tmp_path: Path) -> None:
    test = Test("s", "t", (Step("p", ("x",)),))
    run.KeptResults(tmp_path / "kept.json").put(test, tmp_path, Result(PASS, seconds=1.5))
    again = run.KeptResults(tmp_path / "kept.json")
    assert again.get(test, tmp_path) == Result(PASS, seconds=1.5)
    assert again.get(Test("s", "t", (Step("p", ("y",)),)), tmp_path) is None
    assert again.get(test, Path("/proc")) is None  # another file system


def test_apt_entries_of_the_distribution_only() -> None:
    ours = "Types: deb\nURIs: http://mirror\nSuites: bookworm bookworm-updates\nComponents: main\n"
    other = "Types: deb\nURIs: http://elsewhere\nSuites: nodistro\nComponents: main\n"
    made = sources.with_source_entries(f"# comment\n{ours}\n{other}", True, "bookworm")
    assert "Types: deb-src" in made and "elsewhere" not in made and "Types: deb\n" not in made
    line = "deb [signed-by=/k] http://mirror bookworm-security main\ndeb http://elsewhere cloud-bookworm main\n# deb http://mirror bookworm main\n"
    assert (
        sources.with_source_entries(line, False, "bookworm")
        == "deb-src [signed-by=/k] http://mirror bookworm-security main\n"
    )
    assert sources.with_source_entries(other, True, "bookworm") == ""


def test_testlist_lines() -> None:
    text = "# comment\nrdwrord 4\nbigtype 1 mem=6.5\nsimple 1 arg=a.file arg=-v env=X=1\n\nbroken\n"
    assert suite_mpich.parse_testlist(text) == [
        ("rdwrord", 4, {}),
        ("bigtype", 1, {"mem": ["6.5"]}),
        ("simple", 1, {"arg": ["a.file", "-v"], "env": ["X=1"]}),
    ]


def test_names_found_in_sources() -> None:
    source = 'AddTest("a", f); if (x) AddTest("b", g); else AddTest( "b", h); AddTest((size < 3) ? "-c" : "c", i);'
    assert suite_hdf5.listed_tests(source) == ["a", "b", "c"]
    names = ["idsetw", "idsetr", "fill"]
    assert suite_hdf5.chosen("fill", names) == ["-o", "fill"]
    assert suite_hdf5.chosen("idsetr", names) == ["-x", "fill"]
    text = "class BaseTestX:\n    def testA(self):\n        fh.Read_all(1)\n\nclass TestX(BaseTestX, unittest.TestCase):\n    def testB(self):\n        comm.Get_size(); self.FILE.Get_size()\n"
    assert suite_mpi4py.test_classes(text, r"Test\w+") == ["TestX"]
    assert calls.of_python_class(text, "TestX") == ("mpi_file_get_size", "mpi_file_read_all")
    assert calls.of_python_class(text, "BaseTestX") == ("mpi_file_read_all",)


@pytest.mark.parametrize(
    ("symbol", "expected"),
    [
        ("MPI_File_open", "mpi_file_open"),
        ("PMPI_File_read_at_all_begin", "mpi_file_read_at_all_begin"),
        ("mpi_file_open_", "mpi_file_open"),
        ("mpi_file_write_all_f08ts_", "mpi_file_write_all"),
        ("mpi_file_open_f08_", "mpi_file_open"),
        ("MPI_Register_datarep_c", "mpi_register_datarep_c"),
        ("MPI_Send", ""),
        ("MPI_File_read_c", "mpi_file_read_c"),
    ],
)
def test_symbols_become_names(symbol: str, expected: str) -> None:
    assert calls.canonical(symbol) == expected


def test_usage_errors(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, word in (
        ([], "--preload"),
        (["--preload", "/nonexistent"], "no such file"),
        (["--native-only", "--forced", "sieved"], "--forced"),
    ):
        with pytest.raises(SystemExit) as stopped:
            run.parse(arguments)
        assert stopped.value.code == 2
        assert word in capsys.readouterr().err
