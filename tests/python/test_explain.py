"""What penstock explain and predict make of patterns and reports."""

import json
from dataclasses import replace

import pytest
from conftest import report_line
from penstock import explanation, paths, profiles
from penstock.commands import explain as command
from penstock.explanation import Changes
from penstock.failure import Failure
from penstock.report import FileReport, Part, Seconds

pytestmark = pytest.mark.skipif(not paths.program("penstock-model").is_file(), reason="penstock-model is not built")


def described(**changed):
    given = {
        "write": True,
        "ranks": 16,
        "nodes": 1,
        "processors": 2,
        "rank_bytes": 1 << 20,
        "piece": 64,
        "pattern": "interleaved",
        "collective": True,
        "fresh": True,
        "calls": 1,
    }
    return explanation.described(**(given | changed))


def file_report(**changed) -> FileReport:
    counters = {
        "calls_write": 16,
        "calls_collective": 16,
        "bytes_written": 16 << 20,
        "pieces": 1 << 18,
        "span_bytes": 16 * (16 << 20),
        "mapped": 16,
    }
    phases = {"write": Seconds(0.8, 0.05), "copy": Seconds(0.4, 0.03), "plan": Seconds(0.16, 0.01)}
    report = FileReport(
        file="/nowhere/data",
        store="posix",
        file_system="tmpfs",
        mpi="mpich",
        ranks=16,
        nodes=1,
        opened=0.0,
        open_seconds=1.0,
        strategy="mapped",
        counters=counters,
        wall=Seconds(1.6, 0.1),
        phases=phases | {"open": Seconds(9, 9), "wait": Seconds(5, 5)},
        writing=Part(counters, phases),
        reading=Part({}, {}),
        background=Seconds(0, 0),
        hints={},
        complaints=[],
        errors=[],
    )
    return replace(report, **changed)


def test_patterns_by_shape():
    assert described().pieces == 1 << 18
    assert described().rank_span == (16 << 20) - 15 * 64
    blocks = described(pattern="blocks")
    assert (blocks.pieces, blocks.rank_span, blocks.span) == (16, 1 << 20, 16 << 20)
    assert described(pattern="sparse").span == 32 << 20
    assert described(rank_bytes=100, piece=64).pieces == 32


def test_a_report_gives_its_average_call():
    ((pattern, part),) = explanation.of_report(file_report(), 2)
    assert part == file_report().writing
    assert (pattern.write, pattern.calls, pattern.bytes, pattern.pieces) == (True, 1, 16 << 20, 1 << 18)
    assert pattern.rank_span == pattern.span == 16 << 20
    assert pattern.collective
    nothing = file_report(writing=Part({}, {}))
    assert explanation.of_report(nothing, 2) == []
    counters = {"calls_read": 32, "bytes_read": 32 << 20, "pieces": 64, "span_bytes": 32 << 20, "sieved": 32}
    both = file_report(reading=Part(counters, {"read": Seconds(3.2, 0.2)}))
    (written, _), (read, of_reads) = explanation.of_report(both, 2)
    assert (written.write, written.pieces) == (True, 1 << 18)
    assert (read.write, read.calls, read.bytes, read.pieces, read.collective) == (False, 2, 16 << 20, 32, False)
    assert explanation.taken(of_reads) == "sieved"
    assert explanation.measured(of_reads, 16)["file"] == pytest.approx(0.2)


def test_measured_terms_are_of_one_direction():
    terms = explanation.measured(file_report().writing, 16)
    assert sum(terms.values()) == pytest.approx(0.085), "neither opening nor what others waited for"
    assert terms["file"] == pytest.approx(0.05)
    assert terms["copy"] == pytest.approx(0.025)
    assert terms["other"] == pytest.approx(0.01)
    assert explanation.taken(file_report().writing) == "mapped"
    assert explanation.taken(file_report().reading) == ""


@pytest.mark.parametrize("name", profiles.built_in_names())
def test_every_candidate_has_its_terms_and_its_interval(name):
    answer = explanation.predicted(described(), profiles.built_in(name))
    ways = {row["way"] for row in answer["candidates"]}
    assert {"independent", "two_phase", "two_layer"} <= ways
    assert ("mapped" in ways) == (name != "lustre")
    for row in answer["candidates"]:
        assert sum(row["terms"].values()) == pytest.approx(row["seconds"])
        assert row["interval"][0] < row["seconds"] < row["interval"][1]
    least = min(row["seconds"] for row in answer["candidates"])
    assert answer["candidates"][answer["least"]]["seconds"] <= 1.02 * least
    assert explanation.because(answer["candidates"], answer["least"]).endswith(".")


def chosen(name="ssd", changes=None, **changed):
    answer = explanation.predicted(described(**changed), profiles.built_in(name), changes)
    row = answer["candidates"][answer["chosen"]]
    return row, explanation.instead(answer["candidates"], answer["least"], answer["chosen"])


def test_what_is_chosen_is_what_the_library_takes_by_itself():
    many = {"ranks": 64, "processors": 64, "rank_bytes": 64 << 20, "piece": 4096}
    row, instead = chosen(**many)
    assert (row["way"], row["local_per_node"], row["aggregators"]) == ("two_layer", 1, 1)
    assert instead == "", "which is the least of all"
    row, instead = chosen(name="lustre", **(many | {"nodes": 4}))
    assert (row["local_per_node"], row["aggregators"]) == (4, 16), "more make this file system faster"
    few, instead = chosen(**(many | {"ranks": 8}))
    assert few["way"] not in ("two_layer", "two_phase"), "few ranks of one node with processors to spare do not gather"
    assert "penstock_strategy=two_layer, penstock_local_aggregators=1, cb_nodes=1" in instead
    for pattern in ("blocks", "interleaved", "sparse"):
        for ranks, nodes in ((1, 1), (2, 1), (2, 2), (16384, 256)):
            for write in (True, False):
                row, _ = chosen(pattern=pattern, ranks=ranks, nodes=nodes, write=write)
                assert row["by_itself"]
                assert nodes > 1 or (row["way"] != "two_phase" and row["local_per_node"] < 2)
                assert pattern != "blocks" or row["way"] not in ("mapped", "sieved")


def test_one_rank_has_nobody_to_gather_from():
    answer = explanation.predicted(described(ranks=1), profiles.built_in("ssd"))
    assert {row["way"] for row in answer["candidates"]} == {"independent", "mapped"}


def test_so_many_calls_take_so_many_times_as_long():
    one = explanation.predicted(described(pattern="blocks"), profiles.built_in("hdd"))
    many = explanation.predicted(described(pattern="blocks", calls=10), profiles.built_in("hdd"))
    assert many["candidates"][0]["way"] == "independent", "the others have plans to make first, and keep them"
    assert many["candidates"][0]["seconds"] == pytest.approx(10 * one["candidates"][0]["seconds"])


def test_without_collective_calls_nobody_aggregates():
    answer = explanation.predicted(described(collective=False), profiles.built_in("tmpfs"))
    assert {row["way"] for row in answer["candidates"]} == {"independent", "mapped"}


def test_changes_keep_the_data():
    base = described()
    more = explanation.changed(base, Changes(ranks=64))
    assert (more.ranks, more.bytes, more.nodes) == (64, base.bytes, 1)
    assert explanation.changed(base, Changes(nodes=99)).nodes == 16
    blocks = explanation.changed(described(pattern="blocks"), Changes(ranks=64))
    assert blocks.rank_span == blocks.bytes / 64


def test_aggregators_that_were_asked_for():
    rows = explanation.predicted(
        described(nodes=4, ranks=64), profiles.built_in("lustre"), Changes(aggregators=8, local=2)
    )
    assert {(row["way"], row["local_per_node"], row["aggregators"]) for row in rows["candidates"]} == {
        ("two_layer", 2, 8)
    }


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (Changes(aggregators=8), {("two_layer", 2, 8), ("two_phase", 0, 8)}),
        (Changes(aggregators=1000), {("two_phase", 0, 64)}),
        (Changes(local=3), {("two_layer", 3, 4)}),
        (Changes(local=1, aggregators=12), {("two_layer", 3, 12)}),
        (Changes(local=16), {("two_phase", 0, 4)}),
    ],
)
def test_ways_that_were_asked_for_aggregate_as_the_library_would(changes, expected):
    rows = explanation.predicted(described(nodes=4, ranks=64), profiles.built_in("lustre"), changes)["candidates"]
    assert {(row["way"], row["local_per_node"], row["aggregators"]) for row in rows} == expected


def test_titles_say_whose_the_bytes_are():
    assert command.title(described(ranks=4, piece=65536)) == (
        "1 collective write by 4 ranks on 1 node: 4 MiB of all ranks together, in 64 pieces of 64 KiB"
    )
    assert command.title(described(ranks=1, pattern="blocks", write=False, collective=False, calls=2)) == (
        "2 independent reads by 1 rank on 1 node: each moves 1 MiB of all ranks together, in 1 piece of 1 MiB"
    )


def test_the_terms_of_a_run_add_up_in_the_table(on_reports):
    phases = {"write": {"sum": 0.2, "max": 0.1}, "plan": {"sum": 2.0, "max": 1.0}}
    part = {"counters": {"calls_write": 2, "bytes_written": 1024, "pieces": 2, "independent": 2}, "phases": phases}
    done = on_reports("explain", report_line(writing=part, reading={"counters": {}, "phases": {}}))
    (row,) = [line.split() for line in done.stdout.splitlines() if "as it was" in line]
    total, *terms = [float(cell) for cell in row if cell.replace(".", "").isdigit()]
    assert (total, sum(terms)) == (1.1, pytest.approx(1.1)), done.stdout


def test_what_if_says_what_it_leaves_out_and_what_devices_are_behind(penstock):
    built = {"PENSTOCK_LIBDIR": str(paths.program("penstock-model").parent.parent / "lib")}
    what = ("--what-aggregators", "2", "--what-nodes", "9", "--what-device", "hdd", "--what-device", "lustre")
    done = penstock("predict", "--profile", "ssd", *what, environment=built)
    assert done.returncode == 0 and "9 nodes, 4 ranks on them" in done.stdout
    assert "hdd and ssd: a page cache stands before the device" in " ".join(done.stdout.split())
    ways = {line.split()[2] for line in done.stdout.splitlines() if line.strip().startswith("2 aggregators")}
    assert ways <= {"two_layer,", "two_phase,"} and ways
    alone = penstock("predict", "--independent", "--profile", "lustre", *what[:2], environment=built)
    assert alone.returncode == 0 and "2 aggregators: left out" in alone.stderr and "2 aggregators" not in alone.stdout


def test_predictions_are_corrected_by_the_run():
    ((pattern, _),) = explanation.of_report(file_report(), 2)
    profile = profiles.built_in("tmpfs")
    took = command.measured(file_report().writing, 16)

    def rows(base):
        return [("as it is", base, profile, Changes()), ("on hdd", base, profiles.built_in("hdd"), Changes())]

    free = command.predict(pattern, None, rows, None)
    corrected = command.predict(pattern, took, rows, None)
    assert corrected["correction"] != 1
    for before, after in zip(free["alternatives"], corrected["alternatives"], strict=True):
        assert after["seconds"] == pytest.approx(before["seconds"] * corrected["correction"])


@pytest.fixture
def on_reports(penstock, tmp_path):
    """penstock explain or predict with the built model, of a report with these lines."""
    built = {"PENSTOCK_LIBDIR": str(paths.program("penstock-model").parent.parent / "lib"), "HOME": str(tmp_path)}

    def call(command, *lines, options=()):
        path = tmp_path / "report.jsonl"
        path.write_text("".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in lines))
        return penstock(command, path, *options, environment=built)

    return call


HUGE = (1 << 80) - 1


@pytest.mark.parametrize("command", ["explain", "predict"])
@pytest.mark.parametrize(
    "changed",
    [
        {"ranks": HUGE},
        {"nodes": 0},
        {"nodes": 3},
        {"writing": {"counters": {"calls_write": 2, "bytes_written": HUGE}, "phases": {}}},
        {"writing": {"counters": {"calls_write": 2, "bytes_written": 8, "pieces": HUGE}, "phases": {}}},
        {"writing": {"counters": {"calls_write": 2, "bytes_written": 8, "span_bytes": HUGE}, "phases": {}}},
    ],
)
def test_a_file_that_can_not_be_predicted_is_told_and_the_others_are_explained(on_reports, command, changed):
    wrong = report_line(file="/wrong/file") | {"reading": {"counters": {}, "phases": {}}} | changed
    done = on_reports(command, wrong, report_line(file="/right/file"), options=["--json"])
    assert done.returncode == 1 and "/wrong/file: what it wrote can not be predicted" in done.stderr, done.stderr
    assert "expected" in done.stderr
    of_files = {one["file"]: one.get("calls", one.get("predictions")) for one in json.loads(done.stdout)["files"]}
    assert not of_files["/wrong/file"] and len(of_files["/right/file"]) == 2


@pytest.mark.parametrize("command", ["explain", "predict"])
def test_bad_lines_are_findings_and_an_empty_report_is_told(on_reports, command):
    done = on_reports(command, report_line(), "{")
    assert done.returncode == 1 and "line 2: no JSON" in done.stderr and "/data/out.nc" in done.stdout
    done = on_reports(command)
    assert done.returncode == 0 and "no file in this report" in done.stderr


@pytest.mark.parametrize("command", ["explain", "predict"])
@pytest.mark.parametrize(
    "name", ["x" * 5000, "/dev/zero", "a\0b", "\x1b[31m", "/", "emulated tape", "nvm", "emulated hdd"]
)
def test_the_profile_that_a_report_names(on_reports, command, name):
    done = on_reports(command, report_line(file_system="ext4", profile=name), options=["--json"])
    assert done.returncode == 0, done.stderr[-2000:]
    (file,) = json.loads(done.stdout)["files"]
    used = file["profile"] if command == "explain" else file["predictions"][0]["alternatives"][0]["profile"]
    assert used == name if name in ("nvm", "emulated hdd") else used in profiles.built_in_names()


@pytest.mark.parametrize(("text", "value"), [("1", 1), ("4k", 4096), ("2M", 2 << 20), ("1g", 1 << 30), ("3t", 3 << 40)])
def test_sizes(text, value):
    assert command.size("--bytes", text) == value


@pytest.mark.parametrize("text", ["", "0", "k", "-1", "4kk", "1.5m", "four"])
def test_sizes_that_are_none(text):
    with pytest.raises(Failure, match="--bytes"):
        command.size("--bytes", text)


def test_the_command_prints_json(penstock):
    built = {"PENSTOCK_LIBDIR": str(paths.program("penstock-model").parent.parent / "lib")}
    done = penstock("explain", "--ranks", "4", "--profile", "hdd", "--json", environment=built)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["profile"] == "hdd"
    assert answer["because"]
    what = ("--what-device", "nvm", "--what-ranks", "8")
    done = penstock("predict", "--ranks", "4", "--profile", "hdd", *what, "--json", environment=built)
    assert [one["what"] for one in json.loads(done.stdout)["alternatives"]] == ["as it is", "8 ranks", "on nvm"]
    assert penstock("explain", "--shape", "round").returncode == 2
    assert penstock("explain", "/nowhere/report").returncode == 3


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--bytes", "9999999t"], "expected at most 9.3e+18"),
        (["--bytes", "99999999999999999999999999t"], "expected at most 9.3e+18"),
        (["--shape", "sparse", "--bytes", "2000000t"], "bytes of the file"),
        (["--nodes", "5"], "--nodes 5: expected at most 4"),
        (["--dir", "/nowhere/at all"], "--dir /nowhere/at all: No such file or directory"),
        (["--processors", "999999999999999999999"], "--processors"),
    ],
)
def test_what_can_not_be_described_is_refused(penstock, options, said):
    done = penstock("predict" if options[0] == "--bytes" else "explain", *options)
    assert done.returncode == 2 and said in done.stderr and not done.stdout, done.stderr


@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("explain", ["--ranks", "8"]),
        ("explain", ["--read"]),
        ("predict", ["--dir", "/"]),
        ("predict", ["--bytes", "1"]),
    ],
)
def test_options_that_describe_are_refused_beside_a_report(on_reports, command, option):
    done = on_reports(command, report_line(), options=option)
    assert done.returncode == 2 and f"{option[0]}: " in done.stderr and "already says" in done.stderr


def test_a_file_whose_directory_is_gone_is_explained(on_reports, tmp_path):
    done = on_reports("explain", report_line(file=str(tmp_path / "gone" / "deeper" / "file")), options=["--json"])
    assert done.returncode == 0 and json.loads(done.stdout)["files"][0]["calls"], done.stderr
