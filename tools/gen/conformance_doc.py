"""Writes docs/conformance.md: a row for each entry point and each clause of MPI 4.1 chapter 14, with the tests that show it and how they went.

    conformance_doc.py --results RESULTS.json [...] [--own OWN.jsonl [...]] [--programs DIRECTORY] --output docs/conformance.md

RESULTS.json is what tests/conformance/run.py --json wrote (with a preload), OWN.jsonl what tests/mpi/run.py --json printed, DIRECTORY
where the programs of tests/mpi were built (they are asked which functions they call).  Facts come from table/mpi_file.toml and
table/clauses.toml.  Exit code 1: a clause names a test that does not exist; the document is written all the same.
"""

import argparse
import fnmatch
import json
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OWN = "mpi"
SUITE_TITLES = {
    OWN: "ours",
    "mpich": "MPICH's",
    "romio": "ROMIO's",
    "mpi4py": "mpi4py's",
    "hdf5": "HDF5's",
    "pnetcdf": "PnetCDF's",
}
OWN_OUTCOMES = {"ok": "pass", "failed": "fail", "timeout": "timeout", "skipped": "skip"}


@dataclass
class Row:
    """One test on one MPI under Penstock."""

    suite: str
    test: str
    mpi: str
    ranks: int
    outcome: str
    native: str = ""
    native_reason: str = ""
    reason: str = ""
    verdict: str = ""
    differs: str = ""
    calls: frozenset[str] = field(default_factory=frozenset)
    forced: str = ""

    @property
    def name(self) -> str:
        return f"{self.suite}:{self.test}"


def entry_points(table: dict) -> list[tuple[str, str]]:
    """Name and section of every exported function, large-count forms after their plain ones."""
    rows = []
    for function in table["function"]:
        rows.append((function["name"], function.get("section", "")))
        if function.get("large"):
            rows.append((function["name"] + "_c", function.get("section", "")))
    return rows


def rows_of_results(results: dict) -> list[Row]:
    made = []
    for test in results["tests"]:
        native = test["native"]
        ours = test.get("preload", {"outcome": "not run"})
        made.append(
            Row(
                test["suite"],
                test["test"],
                test["mpi"],
                test["ranks"],
                ours["outcome"],
                native["outcome"],
                native.get("reason", ""),
                ours.get("reason", ""),
                test.get("verdict", ""),
                test.get("differs", ""),
                frozenset(test.get("calls", ())),
                test.get("forced", ""),
            )
        )
    return made


def rows_of_own(lines: list[str], calls: dict[str, frozenset[str]]) -> list[Row]:
    made = []
    for line in lines:
        if not line.startswith("{"):
            continue
        row = json.loads(line)
        name = row["program"] + (f".{row['test']}" if row.get("test") else "")
        made.append(
            Row(
                OWN,
                name,
                row["mpi"],
                row["ranks"],
                OWN_OUTCOMES[row["verdict"]],
                calls=calls.get(row["program"], frozenset()),
            )
        )
    return made


def matches(pattern: str, row: Row) -> bool:
    """Whether a test of table/clauses.toml is this one.  A whole program of ours stands for each of its tests, and the other way round."""
    suite, _, name = pattern.partition(":")
    if suite != row.suite:
        return False
    if fnmatch.fnmatchcase(row.test, name):
        return True
    return suite == OWN and (
        fnmatch.fnmatchcase(row.test, name + ".*") or ("." in name and row.test == name.split(".")[0])
    )


def own_tests(directory: Path) -> set[str]:
    """PROGRAM and PROGRAM.TEST of everything in tests/mpi, from its sources."""
    names = set()
    for path in directory.glob("*"):
        if path.suffix in (".cpp", ".c", ".f90", ".py"):
            names.add(path.stem)
            names.update(f"{path.stem}.{test}" for test in re.findall(r"(?m)^TEST\((\w+)\)", path.read_text()))
    return names


def suite_names(results: list[dict]) -> dict[str, set[str]]:
    """All tests of each suite that was prepared, also those that a run left out."""
    names: dict[str, set[str]] = defaultdict(set)
    for result in results:
        for about in result["implementations"]:
            for suite in about["suites"]:
                names[suite["suite"]].update(suite["names"])
    return names


def left_out(results: list[dict]) -> list[list[str]]:
    """Tests that a suite has on an MPI and that the results say nothing of, each suite and MPI a row."""
    ran: dict[tuple[str, str], set[str]] = defaultdict(set)
    there: dict[tuple[str, str], set[str]] = defaultdict(set)
    for result in results:
        for test in result["tests"]:
            ran[test["suite"], test["mpi"]].add(test["test"])
        for about in result["implementations"]:
            for suite in about["suites"]:
                there[suite["suite"], about["mpi"]].update(suite["names"])
    return [
        [SUITE_TITLES[suite], mpi, ", ".join(f"`{name}`" for name in sorted(there[suite, mpi] - ran[suite, mpi]))]
        for suite, mpi in sorted(there)
        if there[suite, mpi] - ran[suite, mpi]
    ]


def dead_references(clauses: list[dict], names: dict[str, set[str]], own: set[str]) -> list[str]:
    """Patterns that name no test; suites that were not prepared at all are not judged."""
    dead = []
    for clause in clauses:
        for pattern in clause["tests"]:
            suite, _, name = pattern.partition(":")
            if suite not in SUITE_TITLES:
                dead.append(f"{clause['number']}: {pattern}: no such suite; there are {', '.join(SUITE_TITLES)}")
            elif suite == OWN and own and not any(fnmatch.fnmatchcase(test, name) for test in own):
                dead.append(f"{clause['number']}: {pattern} names no test in tests/mpi")
            elif suite in names and not any(fnmatch.fnmatchcase(test, name) for test in names[suite]):
                dead.append(f"{clause['number']}: {pattern} names no test of {SUITE_TITLES[suite]}")
    return dead


def tally(rows: list[Row]) -> str:
    """`12` when all pass, `11/12` when not, skipped ones left out, `–` when there is none."""
    counted = [row for row in rows if row.outcome not in ("skip", "not run")]
    passed = sum(row.outcome == "pass" for row in counted)
    if not counted:
        return "–"
    return str(passed) if passed == len(counted) else f"**{passed}/{len(counted)}**"


def table(header: list[str], lines: list[list[str]]) -> list[str]:
    def row(cells: list[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    return [row(header), "|" + "---|" * len(header), *(row(line) for line in lines), ""]


def made_with(results: list[dict], own: list[dict]) -> str:
    """When and with what the results were made.  "" where they do not tell."""
    times = [(result["started"], result["started"] + result["seconds"]) for result in results]
    times += [(row["began"], row["began"] + row["seconds"]) for row in own if row.get("began")]
    states = sorted({result["state"] for result in results if result.get("state")})
    if not times or not states:
        return ""
    first, last = (
        datetime.fromtimestamp(second, UTC) for second in (min(t[0] for t in times), max(t[1] for t in times))
    )
    until = f"{last:%H:%M}" if first.date() == last.date() else f"{last:%Y-%m-%d %H:%M}"
    machines = sorted({f"{result['processors']} processors ({result['machine']})" for result in results})
    systems = sorted({test["file_system"] for result in results for test in result["tests"]})
    libraries = (
        f"commit {states[0]}, one state of the library for all of them"
        if len(states) == 1
        else (f"several states of the library: commits {', '.join(states)}")
    )
    return (
        f"Made on {first:%Y-%m-%d} from {first:%H:%M} to {until} UTC with {libraries}, on {' and '.join(machines)}, "
        f"with the tests' files on {' and '.join(systems)}."
    )


def summary(rows: list[Row], titles: dict[str, str]) -> list[str]:
    """A line for each suite and MPI, and for each strategy where one was forced."""
    groups: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row.suite, row.mpi, row.forced].append(row)
    forced = any(row.forced for row in rows)
    lines = []
    for (suite, mpi, strategy), members in sorted(
        groups.items(), key=lambda item: (list(SUITE_TITLES).index(item[0][0]), *item[0][1:])
    ):
        run = [row for row in members if row.outcome not in ("skip", "not run")]
        native = [row for row in run if row.native]
        lines.append(
            [
                SUITE_TITLES[suite],
                titles.get(mpi, mpi),
                *([strategy] if forced else []),
                str(len(run)),
                str(sum(row.native == "pass" for row in native)) if native else "",
                str(sum(row.outcome == "pass" for row in run)),
                str(sum(row.verdict == "regression" for row in run))
                if native
                else str(sum(row.outcome != "pass" for row in run)),
                str(len(members) - len(run)),
            ]
        )
    columns = ["suite", "MPI", *(["strategy"] if forced else []), "run", "pass natively", "pass with Penstock", "lost"]
    return table([*columns, "not run"], lines)


def forced_section(rows: list[Row], titles: dict[str, str]) -> list[str]:
    lost = listed([row for row in rows if row.verdict == "regression"], "reason")
    return [
        "## Suites with a strategy forced",
        "",
        "The short suites once more, with `penstock_strategy` set for every file (`run.py --forced`). They count here and nowhere else.",
        "",
        *summary(rows, titles),
        *(table(["lost with a strategy forced", "where", "what it says"], lost) if lost else []),
    ]


def entry_point_rows(points: list[tuple[str, str]], rows: list[Row], suites: list[str]) -> list[list[str]]:
    by_call: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        for call in row.calls:
            by_call[call].append(row)
    return [
        [
            f"`{name}`",
            section,
            *(tally([row for row in by_call[name.lower()] if row.suite == suite]) for suite in suites),
        ]
        for name, section in points
    ]


def clause_rows(clauses: list[dict], rows: list[Row], suites: list[str]) -> list[list[str]]:
    lines = []
    for clause in clauses:
        if not clause["requires"]:
            lines.append([clause["number"], f"*{clause['title']}*", "", *("" for _ in suites)])
            continue
        chosen = [row for row in rows if any(matches(pattern, row) for pattern in clause["tests"])]
        lines.append(
            [
                clause["number"],
                clause["title"],
                clause["requires"],
                *(tally([row for row in chosen if row.suite == suite]) for suite in suites),
            ]
        )
    return lines


def listed(rows: list[Row], reason: str) -> list[list[str]]:
    """Tests of one kind, ranks and MPIs of the same test together."""
    together: dict[tuple[str, str], list[str]] = defaultdict(list)
    for row in rows:
        together[row.name, getattr(row, reason)].append(
            f"{row.mpi} ×{row.ranks}" + (f" {row.forced}" if row.forced else "")
        )
    return [
        [f"`{name}`", ", ".join(where), " ".join(why.split())[:400]] for (name, why), where in sorted(together.items())
    ]


def document(
    functions: dict,
    clauses: list[dict],
    rows: list[Row],
    versions: dict[str, str],
    missing: list[list[str]],
    note: str = "",
) -> str:
    chosen_freely, forced = [row for row in rows if not row.forced], [row for row in rows if row.forced]
    suites = [suite for suite in SUITE_TITLES if any(row.suite == suite for row in chosen_freely)] or [OWN]
    titles = [SUITE_TITLES[suite] for suite in suites]
    out = [
        "# Conformance",
        "",
        "Generated by `tools/gen/conformance_doc.py` from `table/mpi_file.toml`, `table/clauses.toml` and test results; `make test-all` runs all of them; do not edit.",
        "",
        *([note, ""] if note else []),
        "A cell counts the runs of tests (one for each MPI and number of ranks) that touch the row and pass with Penstock preloaded; `11/12` says that one",
        "of twelve does not, `–` that there is none. Other people's suites are run by `tests/conformance/run.py`, natively and under Penstock, side by side;",
        "*lost* are tests that pass natively and do not with Penstock.",
        "",
        "## Suites",
        "",
        *summary(chosen_freely, versions),
        *(forced_section(forced, versions) if forced else []),
        "## Entry points",
        "",
        "Tests that name the function, or whose program is linked with it. Every function stands for its `PMPI_` twin as well.",
        "",
        *table(["function", "MPI 4.1", *titles], entry_point_rows(entry_points(functions), chosen_freely, suites)),
        "## Clauses of MPI 4.1, chapter 14",
        "",
        *table(["clause", "title", "what it asks", *titles], clause_rows(clauses, chosen_freely, suites)),
    ]
    sections = (
        ("Fail natively, pass with Penstock", "native_reason", lambda row: row.verdict == "improvement"),
        ("Pass natively, do not with Penstock", "reason", lambda row: row.verdict == "regression"),
        ("Pass natively and ask what the standard does not", "differs", lambda row: row.verdict == "differs"),
        ("Fail natively and with Penstock", "reason", lambda row: row.verdict == "fails natively too"),
        ("Not run", "native_reason", lambda row: row.suite != OWN and row.native == "skip"),
    )
    for title, reason, chosen in sections:
        lines = listed([row for row in chosen_freely if chosen(row)], reason)
        if lines:
            out += [f"## {title}", "", *table(["test", "where", "what it says"], lines)]
    if missing:
        out += [
            "## Left out of these results",
            "",
            "Tests that have no result here: not started, not built, or not ended.",
            "",
            *table(["suite", "MPI", "tests"], missing),
        ]
    return "\n".join(out).rstrip() + "\n"


def program_calls(directory: Path | None) -> dict[str, frozenset[str]]:
    """Program of tests/mpi -> functions it is linked with; programs of several MPIs are taken together."""
    calls: dict[str, set[str]] = defaultdict(set)
    for path in sorted(directory.rglob("*")) if directory else []:
        if not path.is_file() or path.suffix or not path.stat().st_mode & 0o100:
            continue
        done = subprocess.run(
            ["nm", "-D", "--undefined-only", str(path)],
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        for line in done.stdout.splitlines():
            found = re.match(
                r"p?(mpi_(?:file_\w+?|register_datarep\w*?))(?:_f08|_f08ts)?_{0,2}$",
                line.split()[-1].split("@")[0].lower(),
            )
            if found:
                calls[path.name].add(found.group(1))
    return {name: frozenset(found) for name, found in calls.items()}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, nargs="+", default=[], help="from tests/conformance/run.py --json")
    parser.add_argument("--own", type=Path, nargs="+", default=[], help="from tests/mpi/run.py --json")
    parser.add_argument("--programs", type=Path, help="where the programs of tests/mpi were built")
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "conformance.md")
    parser.add_argument("--note", default="", help="a sentence on these results, shown at the top")
    options = parser.parse_args(arguments)
    functions = tomllib.loads((ROOT / "table" / "mpi_file.toml").read_text())
    clauses = tomllib.loads((ROOT / "table" / "clauses.toml").read_text())["clause"]
    rows, versions = [], {}
    loaded = [json.loads(path.read_text()) for path in options.results]
    for results in loaded:
        rows += rows_of_results(results)
        versions |= {
            about["mpi"]: f"{about['mpi']} {about['version']}"
            for about in results["implementations"]
            if "version" in about
        }
    calls = program_calls(options.programs)
    own_lines = [line for path in options.own for line in path.read_text().splitlines() if line.startswith("{")]
    rows += rows_of_own(own_lines, calls)
    note = " ".join(filter(None, [made_with(loaded, [json.loads(line) for line in own_lines]), options.note]))
    text = document(functions, clauses, rows, versions, left_out(loaded), note)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(text)
    dead = dead_references(clauses, suite_names(loaded), own_tests(ROOT / "tests" / "mpi"))
    for line in dead:
        print(f"table/clauses.toml: {line}", file=sys.stderr)
    return 1 if dead else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
