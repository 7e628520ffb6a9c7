"""`penstock run` on the library that was built: the report it writes is one that the reader takes, and phases add up to the wall time."""

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
PROGRAM = TOP / "build/release/kernels/mpich/e3sm"


pytestmark = [
    pytest.mark.skipif(not PROGRAM.is_file(), reason="build/release/kernels/mpich/e3sm is not built"),
    pytest.mark.skipif(shutil.which("mpiexec.mpich") is None, reason="mpiexec.mpich is missing"),
]


def test_hints_that_say_nothing_are_told_of(tmp_path):
    report = tmp_path / "report.jsonl"
    words = [
        TOP / "bin/penstock",
        "run",
        "--report",
        report,
        "mpiexec.mpich",
        "-n",
        "1",
        PROGRAM,
        "--ne",
        "4",
        "--file",
        "out",
    ]
    environment = os.environ | {"PENSTOCK_HINTS": "garbage"}
    done = subprocess.run(
        words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    complaints = json.loads(report.read_text().splitlines()[0])["complaints"]
    assert [text[:26] for text in complaints] == ["PENSTOCK_HINTS: the entry "], complaints


def test_a_real_run_ends_with_a_table(tmp_path):
    report = tmp_path / "report.jsonl"
    line = [
        TOP / "bin/penstock",
        "run",
        "--report",
        report,
        "mpiexec.mpich",
        "-n",
        "2",
        PROGRAM,
        "--ne",
        "4",
        "--file",
        "out",
    ]
    # A long name would be broken over lines.
    with tempfile.TemporaryDirectory() as short:
        done = subprocess.run(line, cwd=short, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "out" in done.stderr and "is missing" not in done.stderr, done.stderr
    files = [json.loads(text) for text in report.read_text().splitlines()]
    assert files
    for file in files:
        phases = sum(phase["sum"] for phase in file["phases"].values())
        assert phases == pytest.approx(file["wall_seconds"]["sum"], rel=1e-6)
        assert file["ranks"] == 2 and file["errors"] == []
        writing, reading = file["writing"], file["reading"]
        for name in ("calls_write", "bytes_written"):
            assert writing["counters"][name] == file["counters"][name] and reading["counters"][name] == 0
        for name in ("calls_read", "bytes_read"):
            assert reading["counters"][name] == file["counters"][name] and writing["counters"][name] == 0
        for name in ("pieces", "span_bytes"):
            assert writing["counters"][name] + reading["counters"][name] == file["counters"][name]
        for name, phase in file["phases"].items():
            parts = writing["phases"][name]["sum"] + reading["phases"][name]["sum"]
            assert (
                parts == pytest.approx(phase["sum"], rel=1e-6) if name == "copy" else parts <= phase["sum"] * (1 + 1e-6)
            )
        assert writing["phases"]["open"]["sum"] < file["phases"]["open"]["sum"]
