"""The runner of tests/mpi: what it reads from a program's first lines and what it makes of what a run printed.  Needs no MPI."""

import importlib.util
import sys
from pathlib import Path

import pytest

PATH = Path(__file__).parents[1] / "mpi" / "run.py"
specification = importlib.util.spec_from_file_location("mpi_runner", PATH)
runner = importlib.util.module_from_spec(specification)
sys.modules["mpi_runner"] = runner
specification.loader.exec_module(runner)

RACE = "WARNING: ThreadSanitizer: data race (pid=1)\n  #1 write libpenstock-mpich.so\nok\n"


@pytest.mark.parametrize(
    ("text", "reported_by", "verdict"),
    [
        ("ok\n", "", "ok"),
        ("okay\n", "", "failed"),
        ("", "", "failed"),
        (RACE, "", "failed"),
        ("file.cpp:3:5: runtime error: signed integer overflow\nok\n", "", "failed"),
        (RACE, "thread", "ok"),
        (RACE, "address", "failed"),
        ("ok\n", "thread", "failed"),
        ("==1==ERROR: AddressSanitizer: heap-buffer-overflow\n #0 libpenstock-mpich.so\n", "address", "ok"),
        (
            "libpenstock.so loaded\n==1==ERROR: AddressSanitizer: heap-buffer-overflow\n #0 program\n",
            "address",
            "failed",
        ),
    ],
)
def test_verdicts(text: str, reported_by: str, verdict: str) -> None:
    assert runner.verdict_of(text, reported_by) == verdict


def test_runs_that_must_be_reported_are_no_usual_ones(tmp_path: Path) -> None:
    source = tmp_path / "program.cpp"
    source.write_text("// Tests.\n// ranks: 1 2\n// reported by: thread: --race --multiple\n")
    (variant,) = runner.read_program(source).variants()
    assert (variant.text, variant.ranks, variant.reported_by) == ("--race --multiple", [1, 2], "thread")
    source.write_text("// Tests.\n")
    (variant,) = runner.read_program(source).variants()
    assert (variant.text, variant.reported_by) == ("", "")


def test_a_long_run_may_be_for_several_numbers_of_ranks(tmp_path: Path) -> None:
    source = tmp_path / "program.cpp"
    source.write_text("// Tests.\n// run: --short\n// thorough: 1 2 8: NAME=a:b --cases 9\n// time limit: 10\n")
    program = runner.read_program(source)
    short, long = program.variants()
    assert (long.text, long.ranks, long.thorough) == ("NAME=a:b --cases 9", [1, 2, 8], True)
    assert (short.text, short.thorough) == ("--short", False)
    assert program.mpis == list(runner.MPIS)


def test_a_program_may_need_certain_mpis(tmp_path: Path) -> None:
    source = tmp_path / "program.cpp"
    source.write_text("// Tests.\n// under: mpich wheel-abi\n")
    assert runner.read_program(source).mpis == ["mpich", "wheel-abi"]


def test_a_sanitizer_gets_a_part_of_the_random_cases() -> None:
    divisor = runner.SANITIZED_DIVISOR
    assert runner.with_fewer_cases(["--cases", "300", "--single"]) == ["--cases", str(300 // divisor), "--single"]
    assert runner.with_fewer_cases(["--cases", "1"]) == ["--cases", "1"]
    assert runner.with_fewer_cases(["300"]) == ["300"]
