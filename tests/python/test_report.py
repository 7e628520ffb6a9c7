"""penstock report and its reader: good files, torn files, hostile files."""

import io
import json
import math

import pytest
from conftest import TOP, report_line
from hypothesis import given, settings
from hypothesis import strategies as some
from penstock import report, show
from rich.console import Console


def write(path, *lines):
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path


def test_good_file(tmp_path):
    found = report.read(write(tmp_path / "r", report_line(), "", report_line(file="b")))
    assert [file.file for file in found.files] == ["/data/out.nc", "b"] and not found.problems
    file = found.files[0]
    assert (file.calls, file.bytes, file.pieces) == (12, 5120, 640)
    assert math.isclose(sum(file.mean(value) for value in file.phases.values()), file.mean(file.wall))
    assert list(file.phases) == ["open", "copy", "wait"]


def test_names_of_a_newer_library_are_kept(tmp_path):
    line = report_line(counters={"teleported": 3}, phases={"teleport": {"sum": 3.0, "max": 2.0}}, news="ignored")
    file = report.read(write(tmp_path / "r", line)).files[0]
    assert file.counters == {"teleported": 3} and list(file.phases) == ["teleport"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("{", "no JSON"),
        ("[]", "no JSON object"),
        ("\x00\x01", "no JSON"),
        (json.dumps(report_line())[:-20], "no JSON"),
        (report_line(version=2), "format 2"),
        (report_line(version=True), "'version' is bool"),
        (report_line(kind="rank"), "kind 'rank'"),
        (report_line(ranks=0), "ranks is 0"),
        (report_line(ranks=-1), "ranks is no whole number"),
        (report_line(ranks=1.5), "ranks is no whole number"),
        (report_line(file=7), "'file' is int"),
        (report_line(counters={"pieces": -1}), "counters.pieces"),
        (report_line(counters={"pieces": 1e3}), "counters.pieces"),
        (report_line(counters={"a b": 1}), "which is no name"),
        (report_line(wall_seconds={"sum": 1}), "wall_seconds.max"),
        (report_line(wall_seconds=3), "wall_seconds is no object"),
        (report_line(opened=-1), "opened is -1"),
        (report_line(opened=2e15), "opened is 2e+15, expected at most 1e+15 seconds"),
        (json.dumps(report_line())[:20], "no JSON: Invalid control character at column 21"),
        (report_line(errors=[1]), "'errors'"),
        (report_line(hints={"a": 1}), "hints has a value"),
        ({key: value for key, value in report_line().items() if key != "store"}, "'store' is missing"),
        (json.dumps(report_line()).replace("4.0", "NaN"), "NaN is no JSON"),
        (json.dumps(report_line()).replace("4.0", "1e999"), "open_seconds is inf"),
        (json.dumps(report_line()).replace("4.0", "9" * 5000), ""),
        ("[" * 200000, "nested too deeply"),
    ],
)
def test_bad_line_is_told_with_its_number(tmp_path, line, expected):
    found = report.read(write(tmp_path / "r", report_line(), line, report_line()))
    assert len(found.files) == 2
    assert [problem.line for problem in found.problems] == [2]
    assert expected in found.problems[0].text


def test_line_that_is_too_long(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "LONGEST_LINE_BYTES", 5000)
    found = report.read(write(tmp_path / "r", "x" * 12345, report_line(), "y" * 5001))
    assert len(found.files) == 1 and [problem.line for problem in found.problems] == [1, 3]


def test_many_bad_lines_are_counted(tmp_path):
    found = report.read(write(tmp_path / "r", *["{"] * 100))
    assert len(found.problems) == report.MOST_PROBLEMS and found.problems_left_out == 80


def test_from_a_byte_on(tmp_path):
    path = write(tmp_path / "r", report_line(file="old"))
    before = path.stat().st_size
    with path.open("a") as file:
        file.write("{\n" + json.dumps(report_line(file="new")) + "\n")
    found = report.read(path, before)
    assert [file.file for file in found.files] == ["new"] and found.problems[0].line == 2


def test_a_pipe_is_read(penstock, tmp_path):
    text = write(tmp_path / "r", report_line()).read_text()
    answer = penstock("report", "/dev/stdin", input=text)
    assert answer.returncode == 0 and "/data/out.nc" in answer.stdout, answer.stderr


@settings(max_examples=300, deadline=None)
@given(some.binary(max_size=300))
def test_any_bytes(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "any"
    path.write_bytes(data)
    assert report.read(path).files == []


JSON = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats() | some.text(max_size=5),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=500, deadline=None)
@given(some.sampled_from(sorted(report_line())), JSON)
def test_any_value_in_any_field_is_read_or_refused(field, value):
    try:
        file = report.parse_line(json.dumps(report_line(**{field: value})))
    except ValueError:
        return
    json.dumps(report.as_json(report.Report([file])), allow_nan=False)


def test_command(penstock, tmp_path):
    path = write(
        tmp_path / "r.jsonl", report_line(errors=["MPI_File_write: no space"], complaints=["penstock_x is no hint"])
    )
    answer = penstock("report", path)
    assert answer.returncode == 0 and answer.stderr == ""
    for text in ("/data/out.nc", "mapped 90 %", "12", "5 KiB", "640", "1.5000", "0.2500", "1.1250", "0.1250", "1.7500"):
        assert text in answer.stdout
    assert "error: MPI_File_write: no space" in answer.stdout and "penstock_x is no hint" in answer.stdout
    assert "sync" not in answer.stdout, "a phase without time has no column"


def test_command_json(penstock, tmp_path):
    path = write(tmp_path / "r.jsonl", report_line(), "{")
    answer = penstock("report", "--json", path)
    assert answer.returncode == 1 and "line 2: no JSON" in answer.stderr
    found = json.loads(answer.stdout)
    assert found["files"][0]["wall_seconds"] == {"sum": 3.0, "max": 1.75, "mean": 1.5}
    assert found["problems"][0]["line"] == 2


def test_command_unreadable(penstock, tmp_path):
    (tmp_path / "binary").write_bytes(bytes(range(256)) * 100)
    for path in (tmp_path / "not-there", tmp_path, tmp_path / "binary"):
        answer = penstock("report", path)
        assert answer.returncode == 3 and answer.stdout == "" and str(path) in answer.stderr


def test_command_empty(penstock, tmp_path):
    answer = penstock("report", write(tmp_path / "r"))
    assert answer.returncode == 0 and "no file in this report" in answer.stderr


def shown_in(width, headings, rows, left=("",)):
    stream = io.StringIO()
    show.print_table(Console(file=stream, width=width, highlight=False, markup=False), headings, rows, left)
    return stream.getvalue()


def test_a_table_never_cuts_numbers():
    headings = ("file", "way", "", "seconds spent", "between", "never")
    rows = [["/a/rather/long/name/of/a/file", "independent", "chosen", "0.01234", "0.5 to 0.7", "-"]]
    wide = shown_in(100, headings, rows, ("file", "way", ""))
    assert "seconds spent" in wide and "─" in wide and "0.5 to 0.7" in wide
    folded = shown_in(74, headings, rows, ("file", "way", ""))
    assert all(text in folded for text in ("─", "0.01234", "0.5 to 0.7", "chosen")) and rows[0][0] not in folded
    assert shown_in(60, headings, rows, ("file", "way", "")) == (
        "/a/rather/long/name/of/a/file, chosen\n  way independent, seconds spent 0.01234, between 0.5 to 0.7\n"
    )
    narrow = shown_in(30, headings, rows, ("file", "way", ""))
    assert "…" not in narrow and "  way independent,\n" in narrow and "between 0.5 to 0.7" in narrow
    assert shown_in(20, ("a", "b"), [], ("a",))


def test_a_report_on_a_narrow_terminal_has_every_number(tmp_path):
    found = report.read(write(tmp_path / "r", report_line()))
    stream = io.StringIO()
    stream.isatty = lambda: True
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("COLUMNS", "40")
        show.print_report(found, stream)
    text = " ".join(stream.getvalue().split())
    for part in ("/data/out.nc", "strategy mapped 90 %, independent 10 %", "calls 12", "wall s 1.5000", "copy 1.1250"):
        assert part in text
    assert "…" not in text


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_full_disk_behind_the_output_is_told(penstock, tmp_path, options):
    path = write(tmp_path / "r", report_line())
    command = f"{TOP / 'bin' / 'penstock'} report {path} {' '.join(options)} > /dev/full"
    answer = penstock("-c", command, program="sh")
    assert answer.returncode == 1
    assert answer.stderr == "penstock: the output can not be written: No space left on device\n"


def test_names_that_the_locale_has_no_characters_for(penstock, tmp_path):
    path = write(tmp_path / "r", report_line(file="/data/wärme"))
    answer = penstock("report", path, environment={"PYTHONIOENCODING": "ascii"})
    assert answer.returncode == 0 and "/data/w\\xe4rme" in answer.stdout, answer.stderr


def test_names_can_not_steer_the_terminal(penstock, tmp_path):
    path = write(
        tmp_path / "r", report_line(file="a\x1b[31m\u202e[bold]b\n", strategy="[red]x", errors=["\x1b]0;title\x07"])
    )
    answer = penstock("report", path)
    assert answer.returncode == 0
    assert "\x1b" not in answer.stdout and "\u202e" not in answer.stdout and "\x07" not in answer.stdout
    assert "[bold]b" in answer.stdout and "[red]x" in answer.stdout


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (1536, "1.5 KiB"), (1 << 20, "1 MiB"), (3 << 50, "3 PiB")],
)
def test_byte_amount(number, text):
    assert show.byte_amount(number) == text


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0"), (999, "999"), (1000, "1 k"), (12345678, "12.3 M"), (999_999, "1 M")]
)
def test_amount(number, text):
    assert show.amount(number) == text
