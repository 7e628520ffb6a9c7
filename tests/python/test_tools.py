"""tools/: adding up results, and what set-up says where it may not install."""

import importlib.util
import os
import shutil
import subprocess

import pytest
from conftest import TOP

spec = importlib.util.spec_from_file_location("penstock_tools_test", TOP / "tools" / "test.py")
runner = importlib.util.module_from_spec(spec)
spec.loader.exec_module(runner)

CTEST = """<testsuite tests="5">
<testcase name="a" status="run"/><testcase name="b" status="fail"><failure message=""/></testcase>
<testcase name="c" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/></testcase><testcase name="d" status="disabled"/>
<testcase name="e" status="run"/></testsuite>"""
PYTEST = """<testsuites><testsuite><testcase name="a"/><testcase name="b"><error>x</error></testcase>
<testcase name="c"><skipped>y</skipped></testcase></testsuite></testsuites>"""


@pytest.mark.parametrize(("text", "expected"), [(CTEST, (2, 1, 2)), (PYTEST, (1, 1, 1))])
def test_counts(tmp_path, text, expected):
    (tmp_path / "r.xml").write_text(text)
    found = runner.counts_of_junit(tmp_path / "r.xml")
    assert (found.passed, found.failed, found.skipped) == expected


def test_a_stage_that_breaks_is_a_failure(tmp_path):
    good = tmp_path / "good.xml"
    good.write_text('<testsuite><testcase name="a" status="run"/></testsuite>')
    torn = tmp_path / "torn.xml"
    torn.write_text("<testsuite>")
    assert str(runner.of_stage("x", 0, good)) == "1 passed, 0 failed, 0 skipped"
    assert str(runner.of_stage("x", 8, good)) == "1 passed, 1 failed, 0 skipped"
    assert runner.of_stage("x", 0, torn).failed == 1
    assert runner.of_stage("x", 0, tmp_path / "none.xml").failed == 1


def test_conformance_counts_what_fails_natively_as_skipped():
    verdicts = ["passes", "improvement", "regression", "fails natively too", "skipped"]
    assert (
        str(runner.counts_of_conformance({"tests": [{"verdict": verdict} for verdict in verdicts]}))
        == "2 passed, 1 failed, 2 skipped"
    )


@pytest.fixture
def bare_system(tmp_path):
    """A PATH on which no package is installed, nobody is root and apt-get must not be called."""
    for name in ("bash", "dirname", "readlink", "cat", "printf", "cut", "sha256sum"):
        (tmp_path / name).symlink_to(shutil.which(name))
    for name, script in {
        "dpkg-query": "exit 1",
        "id": "echo 1000",
        "apt-get": f"touch {tmp_path}/called",
        "python3": "exit 1",
    }.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    return tmp_path


@pytest.mark.parametrize("level", ["build", "demo", "test", "all"])
def test_setup_names_what_is_missing_and_stops(bare_system, level):
    answer = subprocess.run(
        ["bash", TOP / "tools" / "setup.sh", level],
        env={"PATH": str(bare_system)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 1
    assert "cmake ninja-build g++" in answer.stderr and "sudo apt-get install" in answer.stderr
    assert ("libopenmpi-dev" in answer.stderr) == (level != "build")
    assert not (bare_system / "called").exists()


def test_setup_refuses_other_words():
    answer = subprocess.run(
        [TOP / "tools" / "setup.sh", "everything"], capture_output=True, text=True, env=os.environ, check=False
    )
    assert answer.returncode == 2 and "expected build, demo, test or all" in answer.stderr
