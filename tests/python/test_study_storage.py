"""penstock study page-cache, interfaces, collective and shuffle: cases, arithmetic, what is shown, and short real runs in a plain directory."""

import dataclasses
import json
import os
import shutil
import signal
from pathlib import Path

import pytest
from conftest import report_line
from penstock import report
from penstock.commands import storage
from penstock.failure import Failure
from penstock.study import cases, charts, collective, devices, interfaces, page_cache, runs, shuffle
from penstock.study.cases import Case, Wanted

TOP = Path(__file__).resolve().parents[2]
KERNELS = TOP / "build/release/kernels"
STUDIES = (page_cache.STUDY, interfaces.STUDY, collective.STUDY, shuffle.STUDY)
WANTED = Wanted((), (), (), 4, 2, (1, 4), ("interleave",), None, 64, 2, 10.0)


def row(device, arm, figures, **changes):
    """As row_of makes it: a file of 1 MB and the seconds of each figure."""
    sample = {
        "seconds": {name: [value] for name, value in figures.items()},
        "bytes": dict.fromkeys(figures, 1_000_000),
        "file_bytes": 1_000_000,
    }
    case = Case(device, "mpich", "mpich", "interleave", arm, 4, 4, ("-t", "1000"), tuple(figures))
    return cases.row_of(dataclasses.replace(case, **changes), [sample])


# Cases


def test_every_study_has_the_papers_sizes():
    full = dataclasses.replace(WANTED, scale=1, nodes=4, kernels=page_cache.KERNELS)
    words = {case.kernel: case.words for case in page_cache.cases(full, "hdd", "mpich", "mpich")}
    assert words["hacc"][:2] == ("--particles", "13107200")
    assert words["madbench2"][:8] == ("--pixels", "5000", "--bins", "8", "--gangs", "1", "--block", "1024")
    assert words["s3asim"][:6] == ("--queries", "100", "--size-max", "5000", "--count-max", "10000")
    assert page_cache.caches_of(full) == tuple(size << 30 for size in (1, 3, 5, 7, 9, 11))
    interleave = interfaces.words_of("interleave", 1)
    assert interleave[:6] == ("-b", str(256 << 20), "-t", str(16 << 20), "-s", "2")
    assert collective.words_of(1)[:6] == interleave[:6]
    (mixed,) = shuffle.cases(dataclasses.replace(full, kernels=shuffle.KERNELS), "hdd", "mpich", "mpich")
    assert mixed.words[:6] == ("-b", str(512 << 20), "-t", str(16 << 20), "-s", "2")
    assert mixed.ranks == 16 and shuffle.file_bytes(full) == 16 << 30


def test_native_and_penstock_stand_side_by_side():
    for study in STUDIES[:3]:
        wanted = dataclasses.replace(WANTED, kernels=study.kernels)
        found = study.cases(wanted, "ssd", "mpich", "mpich")
        for case in found:
            assert case.penstock == case.arm.startswith("Penstock")
            assert case.penstock or not case.hints
        assert {case.penstock for case in found} == {True, False}


def test_madbench2_wants_a_square_of_ranks():
    wanted = dataclasses.replace(WANTED, ranks=3, kernels=page_cache.KERNELS)
    assert {case.kernel for case in page_cache.cases(wanted, "hdd", "mpich", "mpich")} == {"hacc", "s3asim"}


def test_interfaces_on_one_node_and_on_several():
    assert interfaces.layouts(WANTED) == [(4, 4), (8, 4)]
    assert interfaces.layouts(dataclasses.replace(WANTED, nodes=1)) == [(4, 4)]


def test_no_limit_is_one_case_without_one():
    wanted = dataclasses.replace(WANTED, caches=(), kernels=("hacc",))
    assert [case.cache_bytes for case in page_cache.cases(wanted, "hdd", "mpich", "mpich")] == [0, 0]


# The arithmetic


def test_medians_and_rates():
    samples = [
        {"seconds": {"write": [value]}, "bytes": {"write": 3_000_000}, "file_bytes": 3_000_000}
        for value in (9.0, 1.0, 2.0)
    ]
    found = cases.row_of(Case("hdd", "mpich", "mpich", "hacc", "native", 4, 4, (), ("write",)), samples)
    assert found["seconds"] == {"write": 2.0} and found["megabytes_per_second"] == {"write": 1.5}
    assert found["spread"]["write"] == {"least": 1.0, "most": 9.0, "samples": 3}


def test_what_a_smaller_cache_costs():
    rows = [
        row("hdd", arm, {"write": seconds}, kernel="hacc", cache_bytes=size)
        for arm, times in (("native", (10.0, 2.0, 1.0)), ("Penstock", (4.0, 2.0, 1.0)))
        for size, seconds in zip((1 << 20, 3 << 20, 11 << 20), times, strict=True)
    ]
    shown = page_cache.shown(rows)
    native, penstock = shown.compared
    assert native["lost"] == pytest.approx(0.9) and native["lost_from_the_middle"] == pytest.approx(0.8)
    assert penstock["lost"] == pytest.approx(0.75)
    assert shown.sheets[0].headings[1:] == ("1 MiB", "3 MiB", "11 MiB", "smallest beside largest")
    assert shown.sheets[0].lines[0] == ["hdd, native", "0.1", "0.5", "1", "-90.0 %"]
    assert shown.panels[0].series[1] == ("hdd, Penstock", [0.25, 0.5, 1.0])


def test_how_much_slower_than_posix():
    times = {"POSIX": 1.0, "native individual": 1.25, "Penstock individual": 1.0}
    shown = interfaces.shown([row("nvm", arm, {"write": value, "read": value}) for arm, value in times.items()])
    assert [(one["arm"], one["slower_than_posix"]) for one in shown.compared if one["operation"] == "write"] == [
        ("native individual", pytest.approx(0.2)),
        ("Penstock individual", pytest.approx(0.0)),
    ]
    assert shown.sheets[0].lines == [["nvm", "1", "0.8", "1", "+20.0 %", "+0.0 %"]]


def test_collective_beside_individual():
    times = {"native individual": 1.0, "native collective": 2.0, "Penstock individual": 1.0, "Penstock collective": 0.5}
    shown = collective.shown([row("ssd", arm, {"write": value, "read": value}) for arm, value in times.items()])
    gains = {one["arm"]: one["collective_gain"] for one in shown.compared if one["operation"] == "read"}
    assert gains == {"native collective": pytest.approx(-0.5), "Penstock collective": pytest.approx(1.0)}
    assert shown.sheets[0].lines[0][-1] == "-"  # nothing was made to aggregate


def test_io_and_shuffle_of_an_aggregator():
    """Two aggregators of four ranks, 500 iterations.  All spend 8 s in it together, 2 s each; the aggregators 1.5 s of them in the file."""
    phases = {"write": 2.5, "sync": 0.5, "communicate": 4.0, "copy": 0.5, "wait": 0.5, "open": 9.0, "plan": 9.0}
    found = shuffle.split_of(
        row("hdd", shuffle.ARM, {"write": 1.0}, ranks_per_node=2) | {"phases": {"write": phases}}, "write"
    )
    assert found["iterations"] == 500
    assert found["io_seconds"] == pytest.approx(1.5) and found["shuffle_seconds"] == pytest.approx(0.5)
    assert found["shuffle_share"] == pytest.approx(0.25)
    assert found["io_seconds_per_iteration"] == pytest.approx(0.003)
    assert shuffle.split_of(row("hdd", shuffle.ARM, {"write": 1.0}), "write") is None


def test_phases_are_those_of_the_last_repetition():
    def file(calls, seconds):
        line = report_line(counters={calls: 1}, phases={"write": {"sum": seconds, "max": seconds}})
        return report.parse_line(json.dumps(line))

    files = [file("calls_write", 5.0), file("calls_read", 3.0), file("calls_write", 1.0), file("calls_read", 2.0)]
    assert runs.phases_of(files) == {"write": {"write": 1.0}, "read": {"write": 2.0}}


def test_limit_is_cache_and_what_ranks_have():
    case = Case("hdd", "mpich", "mpich", "hacc", "native", 4, 4, (), ("write",), cache_bytes=1 << 30)
    assert runs.limit_of(case, 1000) > (1 << 30) + 1000
    assert runs.limit_of(dataclasses.replace(case, cache_bytes=0), 1000) == 0


def test_several_nodes_go_to_the_bed_where_it_sees_the_directory(tmp_path):
    starter = runs.launching()
    runner = runs.Runner(
        {"mpich": starter.Mpi("mpich", "mpich", Path("mpiexec"), tmp_path)}, Path("/lib.so"), 1.0, False, "b"
    )
    case = Case("x", "mpich", "mpich", "interleave", "Penstock collective", 8, 4, (), ("write",), hints=("cb_nodes=2",))
    own, device = devices.Place("x", tmp_path, ""), devices.Place("x", tmp_path, "", "study-x")
    line = runner.line(case, own, 0, Path("/log"))
    assert line[2:12] == [*"testbed run --name b --per-node 4 --report /log --hints cb_nodes=2".split()]
    assert "LD_PRELOAD=/lib.so" not in line and "PENSTOCK_RANKS_PER_NODE" not in runner.variables(
        case, own, Path("/log")
    )
    native = dataclasses.replace(case, arm="native collective", hints=())
    assert runner.line(native, own, 0, Path("/log"))[8] == "--native"
    for place, one in ((device, case), (own, dataclasses.replace(case, ranks=4))):
        assert "LD_PRELOAD=/lib.so" in runner.line(one, place, 0, Path("/log"))
    assert runner.variables(case, device, Path("/log"))["PENSTOCK_RANKS_PER_NODE"] == "4"


# Options


def test_sizes_of_caches():
    assert storage.caches("") is None and storage.caches("none") == ()
    assert storage.caches("1g,64M,512") == (512, 64 << 20, 1 << 30)
    for text in ("x", "0", "1q", "1g,,2g", "-1"):
        with pytest.raises(Failure, match="expected sizes"):
            storage.caches(text)


def test_devices(tmp_path):
    own = storage.named_directories([f"mine={tmp_path}"])
    assert own == (("mine", tmp_path),)
    assert storage.kinds("", own) == () and storage.kinds("", ()) == devices.KINDS
    assert storage.kinds("nvm,hdd,nvm", own) == ("nvm", "hdd")
    for wrong in ("x", f"={tmp_path}", f"a={tmp_path}/none"):
        with pytest.raises(Failure, match="NAME=DIR"):
            storage.named_directories([wrong])
    with pytest.raises(Failure, match="once only"):
        storage.named_directories([f"a={tmp_path}", f"a={tmp_path}"])
    with pytest.raises(Failure, match="expected some of hdd, ssd, nvm"):
        storage.kinds("tape", ())
    with pytest.raises(Failure, match="another name"):
        storage.kinds("hdd", (("hdd", tmp_path),))


def test_only_what_needs_it_goes_through_the_device():
    plain = devices.Place("x", Path("/x"), "")
    assert plain.around(0) == []
    assert plain.around(5)[-2:] == ["--page-cache", "5"]
    own = devices.Place("hdd", Path("/x"), "", "study-hdd").around(0)
    assert own[-4:] == ["device", "run", "--name", "study-hdd"]


def test_usage(penstock, tmp_path):
    for study in STUDIES:
        assert penstock("study", study.name, "--help").returncode == 0
    wrong = penstock("study", "page-cache", "--kernel", "btio")
    assert wrong.returncode == 2 and "expected some of hacc, madbench2, s3asim" in wrong.stderr


# What is shown and how it ends


def result_of(*rows, **changes):
    shown = interfaces.shown(rows)
    return {
        "study": "interfaces",
        "devices": {"nvm": "the directory /x"},
        "rows": list(rows),
        "tables": [dataclasses.asdict(sheet) for sheet in shown.sheets],
        "panels": [dataclasses.asdict(panel) for panel in shown.panels],
        "unit": shown.unit,
        "compared": shown.compared,
        "paper": [dataclasses.asdict(fact) for fact in interfaces.PAPER],
        "notes": runs.notes_of(interfaces.STUDY, WANTED, rows),
        "left_out": {},
        "failures": {},
        "interrupted": False,
    } | changes


ROWS = [row("nvm", arm, {"write": 1.0, "read": 2.0}, ranks=400) for arm in ("POSIX", "Penstock individual")]


def test_printed_with_the_papers_finding(capsys):
    storage.charts.print_result(result_of(*ROWS), storage.sys.stdout)
    out = capsys.readouterr().out
    assert "nvm: the directory /x" in out and "4.87 % slower" in out
    assert "Oversubscribed: up to 400 ranks share" in out and "through memory, not through a network" in out.replace(
        "\n", " "
    )


def test_picture(tmp_path):
    pytest.importorskip("matplotlib")
    (path,) = charts.figure(result_of(*ROWS), tmp_path / "interfaces")
    assert path.name == "interfaces.png" and path.read_bytes().startswith(b"\x89PNG")
    stacked = cases.Panel("t", ["a"], [("x", [1.0]), ("y", [None])], stacked=True)
    changed = result_of(*ROWS, panels=[dataclasses.asdict(stacked)])
    assert charts.figure(changed, tmp_path / "y")[0].is_file()


@pytest.mark.parametrize(
    ("changes", "code"),
    [({}, 0), ({"left_out": {"hdd": "why"}}, 1), ({"failures": {"case": "why"}}, 1), ({"interrupted": True}, 1)],
)
def test_exit_code(changes, code, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(runs, "run", lambda study, wanted, progress: result_of(**changes))
    assert storage.run_of_storage(interfaces.STUDY, WANTED, tmp_path / "new" / "x", True) == code
    out, err = capsys.readouterr()
    assert json.loads(out) == json.loads((tmp_path / "new" / "x.json").read_text())
    assert err.count("why") == len(changes.get("left_out", {})) + len(changes.get("failures", {}))


def told(case, place, limit_bytes):
    return {
        "seconds": {figure: [1.0] for figure in case.figures},
        "bytes": dict.fromkeys(case.figures, 1000),
        "file_bytes": 1000,
        "memory_bytes": 77,
        "limit_bytes": limit_bytes,
    }


@pytest.fixture
def pretended_runs(monkeypatch, library, tmp_path):
    """Runs of nothing: what is asked of them, in order."""
    asked = []

    def once(self, case, place, limit_bytes):
        asked.append((case, limit_bytes))
        return told(case, place, limit_bytes)

    starter = runs.launching()
    monkeypatch.setenv("PENSTOCK_LIBDIR", str(library.parent))
    monkeypatch.setattr(runs, "mpis_of", lambda *_: {"mpich": starter.Mpi("mpich", "mpich", Path("mpiexec"), tmp_path)})
    monkeypatch.setattr(runs.Runner, "once", once)
    return asked


def test_rounds_go_back_and_forth_and_limits_follow_memory(pretended_runs, tmp_path):
    wanted = dataclasses.replace(
        WANTED, directories=(("x", tmp_path),), kernels=("hacc",), caches=(1 << 20, 1 << 21), rounds=2
    )
    result = runs.run(page_cache.STUDY, wanted, lambda text: None)
    assert (
        len(result["rows"]) == 4 and not result["failures"] and result["devices"] == {"x": f"the directory {tmp_path}"}
    )
    limited = [(case.arm, case.cache_bytes) for case, limit in pretended_runs if limit]
    assert len(limited) == 8 and limited[4:] == limited[:4][::-1]
    assert [case.arm for case, limit in pretended_runs if not limit] == ["native", "Penstock"]
    assert {limit for case, limit in pretended_runs if limit} == {
        runs.limit_of(case, 77) for case, limit in pretended_runs if limit
    }
    assert list(tmp_path.glob("penstock-study-*")) == []


def test_terminated_it_tells_what_it_has(pretended_runs, tmp_path, monkeypatch, capsys):
    def once(self, case, place, limit_bytes):
        if pretended_runs:
            os.kill(os.getpid(), signal.SIGTERM)
        pretended_runs.append((case, limit_bytes))
        return told(case, place, limit_bytes)

    monkeypatch.setattr(runs.Runner, "once", once)
    wanted = dataclasses.replace(WANTED, directories=(("x", tmp_path),))
    assert storage.run_of_storage(interfaces.STUDY, wanted, tmp_path / "new", True) == 1
    result = json.loads(capsys.readouterr().out)
    assert result["interrupted"] and [one["arm"] for one in result["rows"]] == ["POSIX"]
    assert list(tmp_path.glob("penstock-study-*")) == []


def test_a_device_that_is_not_to_be_had(pretended_runs, tmp_path, monkeypatch):
    def none(words, what):
        raise Failure(f"{what}: needs root")

    monkeypatch.setattr(devices, "_call", none)
    wanted = dataclasses.replace(WANTED, devices=("hdd",), directories=(("x", tmp_path),))
    result = runs.run(interfaces.STUDY, wanted, lambda text: None)
    assert result["left_out"] == {"hdd": "device hdd: needs root"} and {one["device"] for one in result["rows"]} == {
        "x"
    }
    with pytest.raises(Failure, match="needs root.*--device NAME=DIR"):
        runs.run(interfaces.STUDY, dataclasses.replace(wanted, directories=()), lambda text: None)


# For real


def real_mpi():
    for name in ("mpich", "openmpi"):
        if shutil.which(f"mpiexec.{name}") and (KERNELS / name / "s3asim").is_file():
            return name
    return None


@pytest.mark.skipif(real_mpi() is None, reason="no s3asim below build/release/kernels")
@pytest.mark.skipif(not (TOP / "build/release/lib/libpenstock.so").is_file(), reason="the library is not built")
@pytest.mark.parametrize(
    ("study", "words", "rows"),
    [
        ("page-cache", ["--cache", "none", "--kernel", "hacc", "--ranks", "1"], 2),
        ("interfaces", ["--ranks", "1", "--nodes", "1"], 3),
        ("shuffle", ["--nodes", "2", "--ranks-per-node", "1"], 1),
    ],
)
def test_a_short_study(study, words, rows, penstock, tmp_path):
    common = [
        "--device",
        f"mine={tmp_path}",
        "--scale",
        65536,
        "--rounds",
        1,
        "--mpi",
        real_mpi(),
        "--output",
        tmp_path / "out",
    ]
    done = penstock("study", study, "--json", *map(str, [*common, *words]), environment={"PENSTOCK_LIBDIR": ""})
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result == json.loads((tmp_path / "out" / f"{study}.json").read_text())
    assert len(result["rows"]) == rows and result["failures"] == {}
    assert all(value > 0 for one in result["rows"] for value in one["seconds"].values())
    assert result["tables"] and result["panels"] and result["paper"]
    if study == "shuffle":
        assert {one["operation"] for one in result["compared"]} == {"write", "read"}
        assert all(one["io_seconds"] > 0 and one["iterations"] == 32 * 2 * 2 // 2 for one in result["compared"])
    assert sorted(path.name for path in tmp_path.glob("penstock-study-*")) == []
