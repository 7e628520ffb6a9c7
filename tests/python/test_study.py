"""penstock study tam: the arithmetic on made-up reports, the plan of cells, what is printed and drawn, and one short real run."""

import dataclasses
import json
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest
from conftest import report_line
from penstock import report
from penstock.commands import storage, study
from penstock.failure import Failure
from penstock.study import breakdown, drawing, tables, tam
from penstock.study.breakdown import Cell

TOP = Path(__file__).resolve().parents[2]
KERNELS = TOP / "build/release/kernels"
PHASES = {
    "open": 0.5, "gather": 1.0, "merge": 0.25, "exchange": 0.125, "communicate": 2.0, "copy": 0.5, "write": 4.0, "read": 0.0,
    "sync": 1.0, "wait": 0.25, "a_new_one": 0.375,
}  # fmt: skip
PLAIN = Cell("mpich", "e3sm", 8, 4, "two_phase")
LAYERED = Cell("mpich", "e3sm", 8, 4, "two_layer", 1)
WANTED = tam.Wanted((4, 8), 4, (1, 2, 4), (), (), (), 1, None, 0, 1 << 20, None, False, 10.0)


def test_what_can_not_be_saved_is_not_measured(tmp_path, monkeypatch):
    def measured(*_):
        raise AssertionError("measured")

    (tmp_path / "file").write_text("")
    place = tmp_path / "file" / "prefix"
    for module, name in (
        (study.tam, "run"),
        (storage.runs, "run"),
        (study.measured_model, "run"),
        (study.paper, "tradeoff"),
    ):
        monkeypatch.setattr(module, name, measured)
    for run in (
        lambda: study.run_tam(WANTED, place, False),
        lambda: storage.run_of_storage(storage.storage_study("shuffle"), None, place, False),
        lambda: study.run_model(None, "", place, False),
        lambda: study.run_tradeoff("", 4, 4, place, False),
    ):
        with pytest.raises(Failure, match=r"prefix\.json: the result can not be written: .*--output"):
            run()


def test_a_bed_that_is_not_up_is_told_once_and_nothing_is_measured(tmp_path, monkeypatch):
    def measured(*_):
        raise AssertionError("measured")

    monkeypatch.setattr(storage.runs, "run", measured)
    monkeypatch.setattr(study.measured_model, "run", measured)
    name = f"none{os.getpid()}"
    asked = {
        "devices": "",
        "device": [f"a={tmp_path}"],
        "mpi": [],
        "bed": name,
        "scale": 0,
        "rounds": 0,
        "timeout": 0,
        "full": False,
    }
    shuffle = storage.storage_study("shuffle")
    model = study.measured_model.Wanted((2,), 2, (), name, tmp_path, 1, 1, 1, 1, False, 1.0)
    for run in (
        lambda: storage.run_of_storage(shuffle, storage.wanted_of(shuffle, asked), tmp_path / "x", False),
        lambda: study.run_model(model, "", tmp_path / "x", False),
    ):
        with pytest.raises(Failure, match=f"no test bed {name} up"):
            run()
    with pytest.raises(Failure, match="^--directory .*/none: "):
        study.run_model(dataclasses.replace(model, bed="", directory=tmp_path / "none"), "", tmp_path / "x", False)


def file_of(cell, **counters):
    """A file that was written: seconds by phase are sums over the ranks."""
    line = report_line(
        ranks=cell.ranks,
        nodes=cell.nodes(),
        phases={name: {"sum": value, "max": value} for name, value in PHASES.items()},
        wall_seconds={"sum": sum(PHASES.values()), "max": 3.0},
        counters={
            "calls_write": 8, "calls_collective": 8, "bytes_written": 1 << 20, "pieces": 640, cell.strategy: 8,
            "messages": 12, "messages_between_nodes": 6, "bytes_between_nodes": 1 << 19, "request_bytes": 1 << 10,
        } | counters,
    )  # fmt: skip
    return report.parse_line(json.dumps(line))


def row_of(cell, *samples):
    measured = tam.Measured({"write": list(samples) or [breakdown.sample([file_of(cell)], cell.ranks)]}, [])
    return next(tam.rows_of(cell, measured))


# The arithmetic


def test_parts_add_up_and_leave_no_phase_out():
    sample = breakdown.sample([file_of(LAYERED)], 8)
    assert sum(sample["seconds"].values()) == pytest.approx(sample["wall_seconds"]) == pytest.approx(10.0 / 8)
    assert sample["seconds"]["file"] == pytest.approx(5.0 / 8)
    assert sample["seconds"]["other"] == pytest.approx(0.875 / 8)  # open, and one that this version does not know
    assert [part.name for part in breakdown.PARTS] == list(sample["seconds"])


def test_phases_of_parts_are_phases_of_the_report():
    named = [phase for part in breakdown.PARTS for phase in part.phases]
    assert len(named) == len(set(named)) and set(named) <= set(report.phase_names())


def test_files_of_one_run_are_added():
    both = breakdown.sample([file_of(LAYERED), file_of(LAYERED, messages=3)], 8)
    assert both["traffic"]["messages"] == 15 and both["bytes"] == 2 << 20
    assert both["wall_seconds"] == pytest.approx(20.0 / 8)


@pytest.mark.parametrize(
    ("writes", "reads", "direction"), [(1, 0, "write"), (0, 1, "read"), (1, 1, "both"), (0, 0, "")]
)
def test_direction(writes, reads, direction):
    assert breakdown.direction_of(file_of(PLAIN, calls_write=writes, calls_read=reads)) == direction


def test_the_middle_run_is_taken_whole():
    samples = [breakdown.sample([file_of(LAYERED)], 8) | {"wall_seconds": wall} for wall in (5.0, 1.0, 3.0, 2.0)]
    samples[0]["traffic"] = samples[0]["traffic"] | {"messages": 99}
    found = breakdown.middle(samples)
    assert found["wall_seconds"] == 2.0 and found["rounds"] == 4
    assert found["wall_seconds_of_rounds"] == {"least": 1.0, "median": 2.5, "most": 5.0}
    assert found["traffic_that_varied"] == ["messages"]


@pytest.mark.parametrize(
    ("ranks", "per_node", "local", "nodes", "in_all"),
    [(8, 4, 1, 2, 2), (8, 4, 0, 2, 8), (5, 4, 2, 2, 3), (5, 4, 4, 2, 5), (3, 4, 2, 1, 2), (4, 1, 1, 4, 4)],
)
def test_local_aggregators_in_all(ranks, per_node, local, nodes, in_all):
    cell = Cell("mpich", "e3sm", ranks, per_node, "two_layer", local)
    assert (cell.nodes(), cell.all_local_aggregators()) == (nodes, in_all)


def test_comparison_sets_two_layers_beside_two_phase():
    rows = [row_of(PLAIN, breakdown.sample([file_of(PLAIN, messages_between_nodes=24)], 8)), row_of(LAYERED)]
    (found,) = breakdown.comparison(rows)
    assert found["times_fewer_messages_between_nodes"] == 4.0 == found["ranks_per_local_aggregator"]
    assert found["messages_between_nodes"] == {"two_phase": 24, "two_layer": 6}
    assert found["times_sooner"] == pytest.approx(1.0)


def test_comparison_without_messages_or_partner():
    alone = dataclasses.replace(LAYERED, ranks=4)
    rows = [
        row_of(cell, breakdown.sample([file_of(cell, messages_between_nodes=0)], 4))
        for cell in (alone, dataclasses.replace(PLAIN, ranks=4))
    ]
    (found,) = breakdown.comparison(rows)
    assert found["times_fewer_messages_between_nodes"] is None
    assert breakdown.comparison([row_of(LAYERED)]) == []


def test_metadata_share():
    assert breakdown.metadata_share(row_of(LAYERED)) == pytest.approx(1 / 1024)
    empty = breakdown.sample([file_of(LAYERED, bytes_written=0)], 8)
    assert breakdown.metadata_share(row_of(LAYERED, empty)) is None


# What can not be true


def test_nothing_is_found_in_a_sound_report():
    assert breakdown.findings([file_of(PLAIN)], PLAIN) == []
    teams_of_one = Cell("mpich", "e3sm", 8, 4, "two_layer", 4)
    assert breakdown.findings([file_of(teams_of_one, two_phase=8, two_layer=0)], teams_of_one) == []


def test_what_can_not_be_true_is_found():
    (phases,) = breakdown.findings([dataclasses.replace(file_of(PLAIN), wall=report.Seconds(11.0, 3.0))], PLAIN)
    assert "phases add up to 10.000000 s, the wall time is 11.000000 s" in phases
    nodes = breakdown.findings([dataclasses.replace(file_of(PLAIN), nodes=1)], PLAIN)
    assert any("1 nodes, expected 2" in text for text in nodes)
    assert any("although there is one node" in text for text in nodes)
    (other,) = breakdown.findings([file_of(PLAIN, two_phase=0, mapped=8)], PLAIN)
    assert "expected two_phase" in other
    (complaint,) = breakdown.findings([dataclasses.replace(file_of(PLAIN), complaints=["cb_nodes=x"])], PLAIN)
    assert complaint.endswith("write: cb_nodes=x")


# What is run


def test_cells():
    said = []
    cells = tam.cells_of(WANTED, "mpich", ["e3sm", "btio"], said.append)
    assert [cell.label() for cell in cells if cell.kernel == "e3sm" and cell.ranks == 8] == [
        "two_layer 1",
        "two_layer 2",
        "two_layer 4",
        "two_phase",
    ]
    assert {cell.ranks for cell in cells if cell.kernel == "btio"} == {4}
    assert said == ["btio takes square numbers of ranks: 8 is left out"]


def test_more_local_aggregators_than_ranks_are_cut():
    wanted = dataclasses.replace(WANTED, ranks=(2,), local=(3, 8))
    assert [cell.local_aggregators for cell in tam.cells_of(wanted, "mpich", ["e3sm"], print)] == [2, 0]


def test_hints_of_a_cell_come_behind_those_of_the_user():
    given = tam.variables(LAYERED, WANTED, {"PENSTOCK_HINTS": "*.nc:cb_nodes=7"}, Path("log"))
    assert given["PENSTOCK_HINTS"] == (
        "*.nc:cb_nodes=7;penstock_strategy=two_layer;cb_nodes=2;cb_buffer_size=1048576;penstock_local_aggregators=1"
    )
    assert given["PENSTOCK_RANKS_PER_NODE"] == "4"
    assert "penstock_local_aggregators" not in tam.variables(PLAIN, WANTED, {}, Path("log"))["PENSTOCK_HINTS"]


def test_a_program_of_the_users_gets_the_file():
    wanted = dataclasses.replace(WANTED, line=("./app", "-o", "{file}.nc"))
    assert tam.program_words(PLAIN, wanted, None, Path("/x/data")) == ["./app", "-o", "/x/data.nc"]


def test_maps(tmp_path):
    (tmp_path / "map_f_case_16p.nc").write_bytes(b"")
    assert tam.map_of("e3sm-F", tmp_path) == ["--map", str(tmp_path / "map_f_case_16p.nc")]
    assert tam.map_of("e3sm", tmp_path) == []
    with pytest.raises(Failure, match="map_g_case"):
        tam.map_of("e3sm-G", tmp_path)


@pytest.mark.parametrize("text", ["", "x", "0", "4,,8", "-1"])
def test_numbers_that_make_no_sense(text):
    with pytest.raises(Failure, match="whole numbers from 1 on") as failure:
        study.numbers("--ranks", text)
    assert failure.value.exit_code == 2


def test_numbers_and_words():
    assert study.numbers("--ranks", "8,4,8") == (4, 8)
    assert study.words(["e3sm,btio", "e3sm"]) == ("e3sm", "btio")


# What is shown


def result_of(*rows, **changes):
    return {
        "cells": list(rows),
        "comparison": breakdown.comparison(rows),
        "notes": tam.notes_of(WANTED, [PLAIN], 2, Path("/scratch/x")),
        "findings": [],
        "failures": {},
        "interrupted": False,
    } | changes


def test_tables(capsys):
    rows = [row_of(PLAIN, breakdown.sample([file_of(PLAIN, messages_between_nodes=24)], 8))]
    rows.append(row_of(LAYERED, breakdown.sample([file_of(LAYERED, requests=64, requests_joined=16)], 8)))
    tables.print_result(result_of(*rows), sys.stdout)
    out = capsys.readouterr().out
    assert "e3sm, 8 ranks, 2 pretended nodes, mpich, writes" in out
    layered, plain = (
        [line.split() for line in out.splitlines() if line.strip().startswith(label)]
        for label in ("two_layer 1", "two_phase")
    )
    assert layered[0][2:] == ["2", "125.0", "31.2", "15.6", "250.0", "62.5", "625.0", "31.2", "109.4", "1250.0"]
    assert layered[1][2:] == ["12", "6", "512", "KiB", "4.00", "4", "1", "KiB", "0.10%", "64", "->", "16"]
    assert plain[1][1:] == ["12", "24", "512", "KiB", "-", "1", "1", "KiB", "0.10%", "-"]
    assert "8 ranks share 2 cores" in out and "not through a network" in out


def test_cores_for_all_are_told_as_well():
    assert "a core of its own" in tam.notes_of(WANTED, [PLAIN], 8, Path("/scratch/x"))[1]


def test_pictures(tmp_path):
    pytest.importorskip("matplotlib")
    rows = [row_of(dataclasses.replace(cell, ranks=ranks)) for ranks in (4, 8) for cell in (PLAIN, LAYERED)]
    (line,) = drawing.lines_by_aggregators(rows)
    assert [[label for label, _ in bars] for _, bars in line] == [
        ["1\ntwo layer 1", "4\ntwo phase"],
        ["2\ntwo layer 1", "8\ntwo phase"],
    ]
    (line,) = drawing.lines_by_ranks(rows)
    assert [title.splitlines()[1] for title, _ in line] == ["two layer 1 per node, mpich", "two phase, mpich"]
    assert [[label for label, _ in bars] for _, bars in line] == [["4", "8"], ["4", "8"]]
    # A kernel with fewer panels has a line of its own all the same.
    rows.append(row_of(dataclasses.replace(PLAIN, kernel="btio")))
    assert [len(line) for line in drawing.lines_by_aggregators(rows)] == [1, 2]
    written = drawing.figures(result_of(*rows), tmp_path / "x")
    assert [path.name for path in written] == ["x-aggregators.png", "x-ranks.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in written)


@pytest.mark.parametrize(
    ("changes", "code"),
    [({}, 0), ({"findings": ["odd"]}, 1), ({"failures": {"cell": "why"}}, 1), ({"interrupted": True}, 1)],
)
def test_exit_code(changes, code, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(study.tam, "run", lambda wanted, progress: result_of(**changes))
    assert study.run_tam(WANTED, tmp_path / "new" / "x", True) == code
    out, err = capsys.readouterr()
    assert json.loads(out) == json.loads((tmp_path / "new" / "x.json").read_text())
    assert all(text in err for text in [*changes.get("findings", []), *changes.get("failures", {}).values()])


def test_a_study_that_is_terminated_tells_what_it_has(tmp_path, monkeypatch, library, capsys):
    done = []

    def once(cell, *_):
        if done:
            os.kill(os.getpid(), signal.SIGTERM)
        done.append(cell)
        return [file_of(cell)]

    starter = tam.launching()
    monkeypatch.setenv("PENSTOCK_LIBDIR", str(library.parent))
    monkeypatch.setattr(tam, "run_once", once)
    monkeypatch.setattr(tam, "installed", lambda *_: [starter.Mpi("mpich", "mpich", Path("mpiexec"), tmp_path)])
    assert study.run_tam(dataclasses.replace(WANTED, line=("app",)), tmp_path / "new", True) == 1
    result = json.loads(capsys.readouterr().out)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert result["interrupted"] and [row["label"] for row in result["cells"]] == [done[0].label()]


def test_usage(penstock):
    assert penstock("study", "tam", "--help").returncode == 0
    wrong = penstock("study", "tam", "--ranks", "none")
    assert wrong.returncode == 2 and "--ranks 'none'" in wrong.stderr


# For real


def real_mpi():
    for name in ("mpich", "openmpi"):
        if shutil.which(f"mpiexec.{name}") and (KERNELS / name / "e3sm").is_file():
            return name
    return None


@pytest.mark.skipif(real_mpi() is None, reason="no e3sm below build/release/kernels")
@pytest.mark.skipif(not (TOP / "build/release/lib/libpenstock.so").is_file(), reason="the library is not built")
def test_a_short_study(penstock, tmp_path):
    words = ["--quick", "--mpi", real_mpi(), "--local", "1", "--output", tmp_path / "tam", "--directory", tmp_path]
    done = penstock("study", "tam", "--json", *words, environment={"PENSTOCK_LIBDIR": ""})
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result == json.loads((tmp_path / "tam.json").read_text())
    assert [(row["label"], row["direction"]) for row in result["cells"]] == [
        ("two_layer 1", "write"),
        ("two_layer 1", "read"),
        ("two_phase", "write"),
        ("two_phase", "read"),
    ]
    # Two nodes of two ranks, all of whose data lie in one window of each aggregator: a message of each rank becomes one of each team.
    for found in result["comparison"]:
        assert found["times_fewer_messages_between_nodes"] == 2.0 == found["ranks_per_local_aggregator"]
        assert len(set(found["bytes_between_nodes"].values())) == 1
    for row in result["cells"]:
        assert sum(row["seconds"].values()) == pytest.approx(row["wall_seconds"], rel=1e-6)
    assert sorted(path.name for path in tmp_path.glob("penstock-study-*")) == []


@pytest.mark.skipif(real_mpi() is None, reason="no e3sm below build/release/kernels")
@pytest.mark.skipif(not (TOP / "build/release/lib/libpenstock.so").is_file(), reason="the library is not built")
def test_a_program_without_mpi_io_is_told(penstock, tmp_path):
    words = ["--quick", "--mpi", real_mpi(), "--local", "1", "--output", tmp_path / "tam", "--", "true"]
    done = penstock("study", "tam", *words, environment={"PENSTOCK_LIBDIR": ""})
    assert done.returncode == 1 and "does the program use MPI-IO?" in done.stderr
