"""penstock study model and study tradeoff: the paper's cells through penstock-model, what is said of them, and one short real run."""

import dataclasses
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from penstock import model, paths, profiles
from penstock.commands import study
from penstock.failure import Failure
from penstock.study import curves, measured_model, paper

TOP = Path(__file__).resolve().parents[2]
BUILD = TOP / "build/release"
COMMAND = [sys.executable, str(TOP / "python/penstock/__main__.py"), "study"]

built = pytest.mark.skipif(not paths.program(model.PROGRAM).is_file(), reason="build/release has no penstock-model")


@built
def test_every_cell_comes_out_to_the_printed_digits_but_one():
    rows = paper.cells()
    assert len(rows) == 12
    assert [(row["table"], row["device"], row["access"]) for row in rows if not row["same_digits"]] == [
        ("V", "HDD", "collective")
    ]
    assert [row["same_digits"] for row in rows] == [row["explained"] for row in rows]
    assert [row["error_percent"] for row in rows if not row["same_error"]] == pytest.approx([17.28, 0.32], abs=0.005)
    found = paper.errors(rows)
    assert found["printed_mean_percent"] == pytest.approx(4.93, abs=0.0051) and found["printed_worst_percent"] == 14.4
    assert found["worst_percent"] == pytest.approx(17.28, abs=0.005)


@built
def test_the_stated_estimates_explain_individual_cells_only():
    for row in paper.cells():
        near = abs(row["stated_seconds"] - row["printed_seconds"]) < 0.011
        assert near == (row["access"] == "individual" and row["device"] != "NVM")


def test_a_cell_that_changes_its_digits_is_a_finding(monkeypatch, tmp_path, capsys):
    row = {
        "table": "V", "nodes": 4, "device": "HDD", "access": "individual", "printed_seconds": 2.0, "stated_seconds": 2.0, "computed_seconds": 2.0,
        "same_digits": True, "explained": True, "assumption": "as stated", "measured_seconds": 2.0, "printed_error_percent": 0.0,
        "error_percent": 0.0, "same_error": True,
    }  # fmt: skip
    rows = [row, row | {"table": "VI"}]
    monkeypatch.setattr(paper, "cells", lambda: rows)
    assert study.run_model(None, "", tmp_path / "model", False) == 0
    assert "No assumption gives the printed digits of: none." in capsys.readouterr().out
    rows[0] = row | {"same_digits": False}
    assert study.run_model(None, "", tmp_path / "model", False) == 1
    assert "Table V, HDD, individual" in capsys.readouterr().out


@built
def test_the_tradeoff_says_what_the_paper_says_of_its_figure():
    rows = paper.tradeoff(study.paper_devices(), 4, 4)
    assert len(rows) == 30 and {row["message_bytes"] for row in rows} == set(paper.TRADEOFF_BYTES)
    said = {one["text"]: one["holds"] for one in paper.statements(rows)}
    assert [text for text, holds in said.items() if not holds] == ["the benefit grows with the message, SSD and NVM"]


@built
def test_a_profile_takes_the_place_of_the_papers_devices(tmp_path):
    done = subprocess.run(
        [*COMMAND, "tradeoff", "--profile", "hdd", "--json", "--output", tmp_path / "here/tradeoff"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    found = json.loads(done.stdout)
    assert {row["device"] for row in found["cells"]} == {"hdd"} and found["statements"] == []
    assert "built-in profile hdd" in found["source"]
    assert json.loads((tmp_path / "here/tradeoff.json").read_text()) == found


def test_an_unknown_profile_is_named_with_those_there_are():
    with pytest.raises(Failure, match="profile floppy: expected a file or one of hdd, ssd"):
        study.run_tradeoff("floppy", 4, 4, None, True)


def test_rates_of_a_profile_in_the_papers_terms():
    profile = profiles.built_in("ssd")
    get = profile.figures
    cached = paper.mb_per_second(profile, False, True, 1 << 20, 1, 2, durable=False)
    seconds = get["storage.read.cached_call"] + (1 << 20) * get["storage.read.cached_per_byte"]
    assert cached == pytest.approx(1 / seconds)
    device = [
        paper.mb_per_second(profile, True, random, 4096, ranks, 2, True) for random, ranks in ((0, 1), (1, 1), (1, 9))
    ]
    assert device[1] < device[0] and device[2] == pytest.approx(device[1] * get["storage.write.device_ranks"])
    bytes_alone = 1 / get["storage.write.device_per_byte"] / (1 << 20)
    assert paper.mb_per_second(profile, True, True, 1 << 20, 4, 2, True) == pytest.approx(bytes_alone), (
        "one stream has all of it"
    )
    fresh = paper.mb_per_second(profile, True, False, 1 << 20, 1, 2, durable=False)
    assert 1 / fresh == pytest.approx(
        get["storage.write.cached_call"] + (1 << 20) * get["storage.write.cached_per_byte"] + 256 * get["file.new_page"]
    )


def test_one_head_moves_no_bytes_on_its_way():
    profile = profiles.on_pretended(profiles.built_in("hdd"), "hdd")
    rate = paper.mb_per_second(profile, True, True, 1 << 20, 4, 2, durable=True)
    assert 1 / rate == pytest.approx(1 / 150 + (1 << 20) / 120e6), "150 ways of the head in a second, and 120 MB/s"


def test_between_nodes_takes_the_network_between_them():
    profile = profiles.built_in("ssd")
    inside, between = (paper.platform_of(profile, across, 2, 4, 2, 1 << 20, 1 << 20) for across in (False, True))
    assert inside["startup_seconds"] == profile.figures["network.inside.startup"]
    assert between["transfer_seconds_per_mb"] == profile.figures["network.between.per_byte"] * (1 << 20)


class Stand:
    """An MPI as launching knows it."""

    name, family, launcher, programs = "mpich", "mpich", Path("/bin/mpiexec"), Path("/programs")

    def program(self, name):
        return self.programs / name


WANTED = measured_model.Wanted((2, 4), 2, (), "", Path("/data"), 1 << 20, 8, 4 << 20, 1, False, 60.0)


def test_lines_of_a_run():
    cell = measured_model.Cell(Stand(), 4, 2, "collective")
    line = measured_model.line_of(cell, WANTED, Path("/data/f"), Path("/data/r"))
    assert line[2] == "run" and line[line.index("--strategy") + 1] == "two_phase" and "cb_nodes=2" in line
    on_bed = measured_model.line_of(
        measured_model.Cell(Stand(), 4, 2, "individual"),
        dataclasses.replace(WANTED, bed="mine", durable=True),
        Path("/data/f"),
        Path("/data/r"),
    )
    assert on_bed[2:7] == ["testbed", "run", "--name", "mine", "--per-node"]
    assert "--independent" in on_bed and "--sync" in on_bed and on_bed[on_bed.index("--strategy") + 1] == "independent"


def test_seconds_of_access_are_the_last_ones_and_durable_when_that_counts():
    told = {"write": [9.0, 3.0], "read": [8.0, 2.0], "sync": [7.0, 4.0], "open": [5.0, 5.0]}
    assert measured_model.access_seconds(told, durable=False) == {"write": 3.0, "read": 2.0}
    assert measured_model.access_seconds(told, durable=True) == {"write": 7.0, "read": 2.0}


def test_every_pretended_device_has_its_cells():
    wanted = dataclasses.replace(WANTED, emulated=("hdd", "nvm"))
    cells = measured_model.cells_of(wanted, [Stand()])
    assert [cell.device for cell in cells] == ["hdd"] * 4 + ["nvm"] * 4
    assert len({cell.name() for cell in cells}) == len(cells)
    assert measured_model.environment_of(cells[0], wanted)["PENSTOCK_EMULATE"] == "hdd"


def test_a_device_of_the_environment_is_not_measured_unasked(monkeypatch):
    monkeypatch.setenv("PENSTOCK_EMULATE", "hdd")
    (cell, *_) = measured_model.cells_of(WANTED, [Stand()])
    assert "PENSTOCK_EMULATE" not in measured_model.environment_of(cell, WANTED)


@pytest.mark.parametrize(
    ("changed", "said"),
    [({"emulated": ("floppy",)}, "expected one of hdd"), ({"emulated": ("hdd",), "bed": "b"}, "use one of them")],
)
def test_devices_that_can_not_be_are_refused_before_anything_runs(changed, said, tmp_path):
    wanted = dataclasses.replace(WANTED, directory=tmp_path, **changed)
    with pytest.raises(Failure, match=said):
        measured_model.run(wanted, profiles.built_in("ssd"), lambda text: None)
    assert list(tmp_path.iterdir()) == []


def test_wrong_bytes_are_no_measurement(tmp_path, monkeypatch):
    class Starter:
        LaunchFailure = RuntimeError

        def result(self, line, changed, timeout):
            return {"checked": True, "verified": False, "seconds": {"write": [1.0], "read": [1.0]}}

        def line(self, mpi, ranks, words):
            return words

        def environment(self, mpi, ranks):
            return {}

    monkeypatch.setattr(measured_model, "launching", Starter)
    with pytest.raises(RuntimeError, match="bytes came back wrong"):
        measured_model.run_once(measured_model.Cell(Stand(), 2, 1, "collective"), WANTED, tmp_path)


def test_a_pretended_device_keeps_what_was_measured_of_the_node():
    node = profiles.built_in("lustre")
    there = profiles.on_pretended(node, "ssd")
    assert there.figures["network.between.startup"] == node.figures["network.between.startup"]
    assert there.figures["storage.write.device_per_byte"] == pytest.approx(1 / 500e6)
    assert there.figures["file.cached"] == 0


@built
def test_estimates_of_both_models_are_seconds():
    profile = profiles.built_in("tmpfs")
    for access in measured_model.ACCESSES:
        for write in (True, False):
            of_paper, ours = measured_model.estimates(
                measured_model.Cell(Stand(), 4, 2, access), WANTED, profile, write, 2
            )
            assert 0 < of_paper < 10 and (ours is None or 0 < ours < 10)


@built
def test_penstock_model_reads_the_figures_that_are_told_it():
    text = measured_model.figures_text(profiles.built_in("hdd"), durable=True)
    assert profiles.parse(text, "figures").figures == profiles.built_in("hdd").figures | {"file.cached": 0.0}


def test_errors_are_summed_without_their_sign():
    rows = [
        {"paper_error_percent": -30.0, "penstock_error_percent": None},
        {"paper_error_percent": 10.0, "penstock_error_percent": None},
    ]
    assert measured_model.summary_of(rows) == {"paper": {"mean_percent": 20.0, "worst_percent": 30.0}}


def test_pictures(tmp_path):
    pytest.importorskip("matplotlib")
    rows = [
        {"device": "d", "message_bytes": 1 << power, "shuffle_seconds": 1e-3, "benefit_seconds": value, "file_benefit_seconds": 0.0}
        for power, value in ((15, -1e-3), (16, 0.0), (17, 1e-2))
    ]  # fmt: skip
    curves.tradeoff(rows, "caption", tmp_path / "t.png")
    curves.bars([("one", ["a", "b"], [("x", [1.0, None]), ("y", [2.0, 3.0])])], tmp_path / "b.png")
    assert all((tmp_path / name).read_bytes().startswith(b"\x89PNG") for name in ("t.png", "b.png"))


@pytest.mark.skipif(not (BUILD / "kernels/mpich/interleave").is_file(), reason="build/release has no kernels for MPICH")
@pytest.mark.skipif(not (BUILD / "lib/libpenstock-mpich.so").is_file(), reason="build/release has no MPICH flavour")
@pytest.mark.skipif(shutil.which("mpiexec.mpich") is None, reason="mpiexec.mpich is missing")
@built
def test_a_short_run(tmp_path):
    words = [
        "model",
        "--run",
        "--profile",
        "tmpfs",
        "--directory",
        tmp_path,
        "--mpi",
        "mpich",
        "--ranks",
        "2",
        "--ranks-per-node",
        "1",
    ]
    words += ["--piece", "65536", "--pieces", "4", "--rounds", "1", "--json", "--output", tmp_path / "model"]
    done = subprocess.run([*COMMAND, *words], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    here = json.loads(done.stdout)["here"]
    assert {(row["access"], row["direction"]) for row in here["cells"]} == {
        (access, direction) for access in ("individual", "collective") for direction in ("write", "read")
    }
    assert all(row["nodes"] == 2 and row["measured_seconds"] > 0 and row["paper_seconds"] > 0 for row in here["cells"])
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("penstock-study-")]
