"""docs/conformance.md: rows for every entry point and clause, counts that tell the truth, and clauses that name real tests only."""

import json
import re
import sys
import tomllib
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tools" / "gen"))

import conformance_doc as doc

ROOT = Path(__file__).parents[2]

FUNCTIONS = {
    "function": [
        {"name": "MPI_File_open", "section": "14.2.1"},
        {"name": "MPI_File_read", "section": "14.4.3", "large": True},
    ]
}
CLAUSES = [
    {"number": "14.2", "title": "File Manipulation", "requires": "", "tests": []},
    {"number": "14.2.1", "title": "Opening a File", "requires": "Opens.", "tests": ["romio:s*", "mpi:modes.fails"]},
]


def row(
    test: str, outcome: str, *calls: str, suite: str = "romio", native: str = "pass", verdict: str = "passes"
) -> doc.Row:
    return doc.Row(suite, test, "mpich", 4, outcome, native, "why", "because", verdict, "unasked", frozenset(calls))


ROWS = [
    row("simple", "pass", "mpi_file_open", "mpi_file_read"),
    row("status", "fail", "mpi_file_open", verdict="regression"),
    row("views", "fail", verdict="differs"),
    row("error", "pass", native="fail", verdict="improvement"),
    row("modes", "pass", "mpi_file_open", suite="mpi", native="", verdict=""),
    row("skipped", "skip", "mpi_file_read", native="skip", verdict="skipped"),
]


def test_each_entry_point_has_a_row_and_counts_what_names_it() -> None:
    text = doc.document(FUNCTIONS, CLAUSES, ROWS, {"mpich": "mpich 4.0"}, [])
    assert "| `MPI_File_open` | 14.2.1 | 1 | **1/2** |" in text
    assert "| `MPI_File_read` | 14.4.3 | – | 1 |" in text
    assert "| `MPI_File_read_c` | 14.4.3 | – | – |" in text


def test_each_clause_has_a_row() -> None:
    text = doc.document(FUNCTIONS, CLAUSES, ROWS, {}, [])
    assert "| 14.2.1 | Opening a File | Opens. | 1 | **1/2** |" in text
    assert "| 14.2 | *File Manipulation* |" in text


def test_failures_and_improvements_are_listed_with_reasons() -> None:
    text = doc.document(FUNCTIONS, CLAUSES, ROWS, {}, [])
    gained = text.split("## Fail natively, pass with Penstock")[1].split("##")[0]
    lost = text.split("## Pass natively, do not with Penstock")[1].split("##")[0]
    assert "| `romio:error` | mpich ×4 | why |" in gained
    assert "| `romio:status` | mpich ×4 | because |" in lost
    unasked = text.split("## Pass natively and ask what the standard does not")[1].split("##")[0]
    assert "| `romio:views` | mpich ×4 | unasked |" in unasked


def test_suites_are_summed_up() -> None:
    text = doc.document(FUNCTIONS, CLAUSES, ROWS, {"mpich": "mpich 4.0"}, [])
    assert "| ROMIO's | mpich 4.0 | 4 | 3 | 2 | 1 | 1 |" in text


def test_forced_strategies_have_a_table_of_their_own_and_count_nowhere_else() -> None:
    forced = [row("simple", "fail", "mpi_file_open", verdict="regression")]
    forced[0].forced = "sieved"
    text = doc.document(FUNCTIONS, CLAUSES, ROWS + forced, {"mpich": "mpich 4.0"}, [])
    assert "| ROMIO's | mpich 4.0 | sieved | 1 | 1 | 0 | 1 | 0 |" in text
    assert "| `romio:simple` | mpich ×4 sieved | because |" in text
    rest = doc.document(FUNCTIONS, CLAUSES, ROWS, {"mpich": "mpich 4.0"}, [])
    assert [line for line in rest.splitlines() if line not in text.splitlines()] == []
    assert "strategy forced" not in rest


def test_when_and_with_what_results_were_made_is_told() -> None:
    def results(state: str) -> dict:
        about = {"started": 1000000000, "seconds": 60.0, "state": state, "processors": 2, "machine": "x86_64"}
        return about | {"tests": [{"file_system": "tmpfs"}]}

    text = doc.made_with([results("abc")], [{"began": 1000003600, "seconds": 1.0}])
    assert text.startswith("Made on 2001-09-09 from 01:46 to 02:46 UTC with commit abc, one state of the library")
    assert "several states of the library: commits abc, def" in doc.made_with([results("def"), results("abc")], [])
    assert doc.made_with([{"started": 1, "seconds": 1, "tests": []}], []) == ""


@pytest.mark.parametrize(
    ("pattern", "test", "expected"),
    [
        ("mpi:modes", "modes", True),
        ("mpi:modes", "modes.fails", True),
        ("mpi:modes.fails", "modes", True),
        ("mpi:modes.f*", "modes.fails", True),
        ("mpi:modes.other", "modes.fails", False),
        ("mpi:mode", "modes", False),
        ("romio:modes", "modes", False),
    ],
)
def test_a_program_stands_for_its_tests(pattern: str, test: str, expected: bool) -> None:
    assert doc.matches(pattern, row(test, "pass", suite="mpi")) is expected


def test_names_of_tests_that_are_not_there_are_found() -> None:
    names = {"romio": {"simple", "status"}}
    assert doc.dead_references(CLAUSES, names, {"modes", "modes.fails"}) == []
    assert len(doc.dead_references(CLAUSES, names, {"modes"})) == 1
    assert len(doc.dead_references(CLAUSES, {"romio": {"other"}}, set())) == 1
    assert doc.dead_references([{"number": "1", "tests": ["unheard:x"]}], {}, set()) != []


def test_what_was_not_started_is_told() -> None:
    about = [
        {"mpi": "mpich", "suites": [{"suite": "romio", "names": ["simple", "status"]}]},
        {"mpi": "x", "suites": []},
    ]
    results = [{"implementations": about, "tests": [{"suite": "romio", "mpi": "mpich", "test": "simple"}]}]
    assert doc.left_out(results) == [["ROMIO's", "mpich", "`status`"]]
    text = doc.document(FUNCTIONS, CLAUSES, ROWS, {}, doc.left_out(results))
    assert "| ROMIO's | mpich | `status` |" in text.split("## Left out of these results")[1]
    assert "Left out" not in doc.document(FUNCTIONS, CLAUSES, ROWS, {}, [])


def test_our_own_results_are_read() -> None:
    lines = [json.dumps({"program": "views", "test": "", "mpi": "mpich", "ranks": 3, "verdict": "ok"}), "noise"]
    rows = doc.rows_of_own(lines, {"views": frozenset({"mpi_file_set_view"})})
    assert [(r.name, r.outcome, set(r.calls)) for r in rows] == [("mpi:views", "pass", {"mpi_file_set_view"})]


def test_the_tables_of_this_checkout_fit_together() -> None:
    functions = tomllib.loads((ROOT / "table" / "mpi_file.toml").read_text())
    clauses = tomllib.loads((ROOT / "table" / "clauses.toml").read_text())["clause"]
    numbers = [clause["number"] for clause in clauses]
    assert len(numbers) == len(set(numbers))
    assert {number.split(".")[1] for number in numbers} == {str(n) for n in range(1, 10)}
    assert [clause["number"] for clause in clauses if clause["requires"] and not clause["tests"]] == []
    assert len(doc.entry_points(functions)) == 94
    assert doc.dead_references(clauses, {}, doc.own_tests(ROOT / "tests" / "mpi")) == []


def cells_of(section: str) -> list[list[str]]:
    """The rows of the first table in a section of docs/conformance.md, without its heading."""
    text = (ROOT / "docs" / "conformance.md").read_text()
    rows = [line for line in text.split(f"## {section}\n")[1].split("\n## ")[0].splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows[2:]]


AGAIN = "docs/conformance.md is older than the tables; make test-all writes build/conformance.json, then run tools/gen/conformance_doc.py"


def test_the_document_has_the_tables_entry_points() -> None:
    functions = tomllib.loads((ROOT / "table" / "mpi_file.toml").read_text())
    told = [(row[0].strip("`"), row[1]) for row in cells_of("Entry points")]
    assert told == doc.entry_points(functions), AGAIN


def test_the_document_has_the_tables_clauses() -> None:
    clauses = tomllib.loads((ROOT / "table" / "clauses.toml").read_text())["clause"]
    told = [tuple(row[:3]) for row in cells_of("Clauses of MPI 4.1, chapter 14")]
    asked = [(c["number"], c["title"] if c["requires"] else f"*{c['title']}*", c["requires"]) for c in clauses]
    assert told == asked, AGAIN


def test_the_document_tells_of_both_kinds_of_mpi_and_every_suite() -> None:
    told = {(row[0], row[1].split()[0]) for row in cells_of("Suites")}
    wanted = {(title, mpi) for title in doc.SUITE_TITLES.values() for mpi in ("mpich", "openmpi")}
    assert wanted <= told, sorted(wanted - told)


def test_every_clause_that_asks_for_something_is_shown_by_tests_that_ran() -> None:
    for row in cells_of("Clauses of MPI 4.1, chapter 14"):
        if row[2]:
            assert any(cell != "–" for cell in row[3:]), f"{row[0]}: no test of table/clauses.toml ran"
