"""penstock.environment: which variables, and how they get to other nodes."""

import re
from pathlib import Path

import pytest
from penstock import environment, launcher
from penstock.environment import Wanted
from penstock.failure import Failure

LIBRARY = Path("/p/lib/libpenstock.so")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "/p/lib/libpenstock.so"),
        ("/d/libdarshan.so", "/d/libdarshan.so:/p/lib/libpenstock.so"),
        ("/d/a.so /d/b.so", "/d/a.so:/d/b.so:/p/lib/libpenstock.so"),
        ("/old/libpenstock.so:/d/a.so", "/d/a.so:/p/lib/libpenstock.so"),
    ],
)
def test_preload_comes_last_and_once(before, after):
    assert environment.preload_list(before, LIBRARY) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "nc_driver=mpiio"),
        ("a=b", "a=b;nc_driver=mpiio"),
        ("nc_driver=gio;a=b", "nc_driver=gio;a=b"),
        ("x_nc_driver=1;", "x_nc_driver=1;nc_driver=mpiio"),
    ],
)
def test_pnetcdf(before, after):
    assert environment.pnetcdf_hints(before) == after


def test_later_hints_win_by_coming_later():
    found = environment.variables(
        {"PENSTOCK_HINTS": "*:penstock_strategy=sieved"}, LIBRARY, Wanted(hints=("x:cb_nodes=2",), strategy="mapped")
    )
    assert found["PENSTOCK_HINTS"] == "*:penstock_strategy=sieved;*:penstock_strategy=mapped;x:cb_nodes=2"
    assert "PENSTOCK_REPORT" not in found and "PENSTOCK_BYPASS" not in found


def test_bypass_of_the_user_is_carried_on():
    assert environment.variables({"PENSTOCK_BYPASS": "1"}, LIBRARY, Wanted())["PENSTOCK_BYPASS"] == "1"


def test_unknown_strategy():
    with pytest.raises(Failure, match="penstock_strategy takes"):
        environment.variables({}, LIBRARY, Wanted(strategy="fast"))


def _line(text: str) -> launcher.Line:
    known = {"mpiexec": Path("/b/mpiexec"), "srun": Path("/b/srun"), "./a": Path("/j/a"), "env": Path("/b/env")}
    return launcher.parse(text.split(), Path("/j"), lambda word, _directory: known.get(word))


def test_open_mpi_gets_each_variable_for_each_program():
    words, more, warnings = environment.carried(
        _line("mpiexec -n 1 ./a : -n 2 ./a"), "open-mpi", {}, {"A": "1", "B": "2;3"}
    )
    assert words == "mpiexec -x A -x B -n 1 ./a : -x A -x B -n 2 ./a".split()
    assert not more and not warnings


def test_open_mpi_with_the_list_that_excludes_x():
    base = {"OMPI_MCA_mca_base_env_list": "HOME"}
    words, more, warnings = environment.carried(_line("mpiexec -n 1 ./a"), "open-mpi", base, {"A": "x=1", "B": "2;3"})
    assert words == ["mpiexec", "-n", "1", "./a"]
    assert more == {"OMPI_MCA_mca_base_env_list": "HOME;A=x=1"}
    assert len(warnings) == 1 and "can not carry B" in warnings[0]


def test_others_are_left_alone():
    words, more, warnings = environment.carried(_line("mpiexec -n 1 ./a"), "hydra", {}, {"A": "1"})
    assert words == ["mpiexec", "-n", "1", "./a"] and not more and not warnings


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mpiexec -genvnone -n 1 ./a", "-genvnone keeps variables"),
        ("srun --export=A,B ./a", "--export=A,B keeps variables"),
        ("mpiexec -n 1 env -i ./a", "env -i clears"),
    ],
)
def test_ways_to_lose_variables_are_told(text, expected):
    _, _, warnings = environment.carried(_line(text), "", {}, {"A": "1"})
    assert [expected in warning for warning in warnings] == [True]


@pytest.mark.parametrize("text", ["mpiexec -n 1 ./a -genvnone", "srun --export=ALL,B ./a"])
def test_no_false_alarm(text):
    assert environment.carried(_line(text), "", {}, {"A": "1"})[2] == []


def test_library_that_can_not_stand_in_the_variable(tmp_path):
    directory = tmp_path / "a b"
    directory.mkdir()
    with pytest.raises(Failure, match="is not in"):
        environment.library_in(directory)
    (directory / "libpenstock.so").write_bytes(b"")
    with pytest.raises(Failure, match="no path with a space"):
        environment.library_in(directory)


def test_every_variable_that_the_library_reads_is_in_the_manuals():
    """PENSTOCK_FAULT is for this project's own tests."""
    top = Path(__file__).resolve().parents[2]
    pattern = re.compile(r'"(PENSTOCK_[A-Z_]+)"')
    read = {
        name
        for path in (top / "src").rglob("*")
        if path.suffix in (".c", ".cpp", ".h")
        for name in pattern.findall(path.read_text())
    }
    manuals = "".join(path.read_text() for path in (top / "docs" / "man").glob("*.1"))
    assert "PENSTOCK_LOG" in read
    missing = {name for name in read - {"PENSTOCK_FAULT"} if f"B {name}\n" not in manuals}
    assert not missing
