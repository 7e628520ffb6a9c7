"""penstock env, info and bench."""

import json
import shutil
import subprocess

import pytest
from penstock.commands import bench, env, info
from penstock.failure import Failure

NASTY = "a 'quoted' $HOME `x` \"y\" \\ ! ;*"


@pytest.mark.parametrize("shell", ["sh", "bash", "dash", "zsh", "csh", "tcsh", "fish"])
def test_shells_get_values_back(shell):
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not here")
    syntax = env.shell_of(f"/bin/{shell}")
    script = "\n".join(env.lines({"NASTY": NASTY}, syntax)) + "\nprintenv NASTY\n"
    answer = subprocess.run([shell, "-c", script], capture_output=True, text=True, check=True)
    assert answer.stdout == NASTY + "\n"


@pytest.mark.parametrize(
    ("login", "syntax"), [("/bin/bash", "sh"), ("/bin/tcsh", "csh"), ("/usr/bin/fish", "fish"), ("", "sh")]
)
def test_shell_by_login(login, syntax):
    assert env.shell_of(login) == syntax


def test_env(penstock, library, tmp_path):
    answer = penstock(
        "env", "--shell", "sh", "--report", "r.jsonl", "--strategy", "mapped", environment={"LD_PRELOAD": "libm.so.6"}
    )
    assert answer.returncode == 0
    printed = subprocess.run(
        ["sh", "-c", answer.stdout + "env"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert f"LD_PRELOAD=libm.so.6:{library}" in printed
    assert f"PENSTOCK_REPORT={tmp_path}/r.jsonl" in printed
    assert "PENSTOCK_HINTS=*:penstock_strategy=mapped" in printed


def test_env_json_and_usage(penstock):
    assert json.loads(penstock("env", "--json").stdout)["environment"]["PNETCDF_HINTS"] == "nc_driver=mpiio"
    assert penstock("env", "--shell", "vms").returncode == 2


def test_info(penstock, library):
    answer = penstock("info")
    assert answer.returncode == 0 and str(library) in answer.stdout and "penstock_strategy" in answer.stdout
    found = json.loads(penstock("info", "--json").stdout)
    assert found["front"] == str(library)
    assert {row["flavour"] for row in found["flavours"]} == {"mpich", "ompi", "abi"}
    assert {row["name"] for row in found["stores"]} >= {"posix"}
    assert any(hint["name"] == "penstock_bypass" for hint in found["hints"])
    assert found["python"]["modules"]["typer"]


def test_info_without_a_library(penstock, tmp_path):
    answer = penstock("info", environment={"PENSTOCK_LIBDIR": str(tmp_path)})
    assert answer.returncode == 1 and "make build" in answer.stdout


def test_which_library_is_whose(tmp_path):
    for name in ("libmpi.so.12.1", "libmpi.so.40.30.4", "libmpi_abi.so.1", "libmpi_cxx.so.40", "libmpifort.so.12"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "libmpi.so.12").symlink_to("libmpi.so.12.1")
    (tmp_path / "libmpich.so.12").symlink_to("libmpi.so.12.1")
    (tmp_path / "libmpi.so.40").symlink_to("libmpi.so.40.30.4")
    found = info.mpi_libraries([tmp_path, tmp_path / "not-there"])
    assert sorted((row["flavour"], row["soname"]) for row in found) == [
        ("abi", "libmpi_abi.so.1"),
        ("mpich", "libmpi.so.12"),
        ("ompi", "libmpi.so.40"),
    ]


def test_damaged_flavour_is_told(tmp_path):
    (tmp_path / "libpenstock-ompi.so").write_bytes(b"not a library")
    rows = {row["flavour"]: row for row in info.flavours(tmp_path, [])}
    assert rows["ompi"]["problem"] == "no ELF file" and rows["mpich"]["library"] == ""


GOOD = """
def run(*, quick, options, progress):
    progress("measuring")
    return {"cells": [{"size": 8, "ratio": 1.5, "verified": %s}], "summary": {"n": 1, "geomean_ratio": 1.5, "options": options}}
"""


@pytest.fixture
def benches(tmp_path, monkeypatch):
    directory = tmp_path / "bench"
    directory.mkdir()
    (directory / "good.py").write_text(GOOD % "True")
    (directory / "wrong.py").write_text(GOOD % "False")
    (directory / "helper.py").write_text("def run(line, seconds):\n    return line\n")
    monkeypatch.setattr(bench.paths, "bench_directory", lambda: directory)
    monkeypatch.setattr(bench.paths, "results_directory", lambda: tmp_path / "results")
    return directory


def test_bench(benches, tmp_path, capsys):
    assert bench.run("good", True, ["mpich"], ["a=b"], None, False) == 0
    out, err = capsys.readouterr()
    assert out.startswith("geomean ratio: 1.5\n") and "size=8" in out and "measuring" in err
    saved = list((tmp_path / "results").glob("*/good-quick.json"))
    assert json.loads(saved[0].read_text())["summary"]["options"] == {"a": "b", "mpi": ["mpich"]}


def test_bench_json(benches, tmp_path, capsys):
    assert bench.run("good", False, [], [], tmp_path / "x" / "out.json", True) == 0
    assert json.loads(capsys.readouterr().out) == json.loads((tmp_path / "x" / "out.json").read_text())


def test_what_can_not_be_saved_is_not_measured(benches, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    for output in (tmp_path, tmp_path / "file" / "out.json", tmp_path / "file" / "deeper" / "out.json"):
        with pytest.raises(Failure, match="can not be written.*--output"):
            bench.run("good", False, [], [], output, False)
    assert "measuring" not in capsys.readouterr().err
    bench.check_place(tmp_path / "new" / "deeper" / "out.json")
    bench.check_place(tmp_path / "file")


def test_wrong_bytes_fail(benches, tmp_path, capsys):
    assert bench.run("wrong", False, [], [], tmp_path / "out.json", True) == 1
    assert "bytes came back wrong" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["helper", "nothing", "../good", ""])
def test_unknown_bench(benches, name):
    assert bench.names(benches) == ["good", "wrong"]
    with pytest.raises(Failure, match="good, wrong") as failure:
        bench.load(name, benches)
    assert failure.value.exit_code == 2


def test_option_without_value():
    with pytest.raises(Failure, match="expected key=value"):
        bench.options_of(["quick"], [])


def test_what_a_benchmark_refuses_is_usage(penstock):
    answer = penstock("bench", "planner", "--option", "ranks=many")
    assert answer.returncode == 2 and answer.stderr == "penstock: ranks=many: expected a whole number of at least 1\n"
    for command in (("bench", "planner", "--option", "foo=1"), ("study", "tam", "--mpi", "nosuch")):
        answer = penstock(*command)
        assert answer.returncode in (1, 2) and answer.stderr.startswith("penstock: ") and answer.stdout == ""
    assert "launching" not in penstock("bench", "nothing").stderr


def test_help_and_version(penstock):
    assert penstock("--version").stdout.startswith("penstock ")
    for command in ("run", "report", "env", "info", "bench"):
        assert penstock(command, "--help").returncode == 0
    assert penstock("calibrate").returncode == 2
