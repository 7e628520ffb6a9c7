"""penstock testbed: makes several nodes on this machine, runs programs across them, shows them and takes them down."""

import contextlib
import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from penstock import environment, launcher, paths, report, show
from penstock.commands import run as run_command
from penstock.failure import USAGE, Failure
from penstock.testbed import bed as beds
from penstock.testbed import layout, processes
from penstock.testbed.layout import HEAD, STORAGE, STRIPED, Bed

MARK = "PENSTOCK_TESTBED_RUN"
SECONDS_TO_LOOK = 20


# --- up, down, status ------------------------------------------------------------------------------------------------------


def up(name: str, nodes: int, link: str, shared: list[Path], file_system: str, as_json: bool) -> int:
    for path in shared:
        if not path.is_dir():
            raise Failure(f"--share {path}: there is no such directory", USAGE)
    bed = layout.checked(name, nodes, link, [*(path.resolve() for path in shared), *layout.own_places()], file_system)
    beds.up(bed, show.say)
    return status(name, as_json)


def down(name: str, as_json: bool) -> int:
    """Exit code 0 whether there was one or not: afterwards there is none."""
    if os.geteuid() != 0:
        raise Failure("penstock testbed down needs root, as up does")
    bed = beds.find(name)
    removed = beds.down(bed) if bed else False
    if as_json:
        show.print_json({"name": name, "removed": removed})
    else:
        print(f"test bed {name}: {'removed' if removed else 'there was none'}")
    return 0


def facts(name: str) -> dict[str, Any]:
    """The bed as it is; "up" is false when there is none or a part of it died."""
    bed = beds.find(name)
    first = processes.first_processes(bed) if bed else {}
    if bed is None:
        return {"name": name, "up": False, "nodes": []}
    links = processes.traffic(first)
    rows = []
    # Of a bed whose directory is gone nobody knows how many nodes it had.
    known = (bed.state / "bed.json").exists()
    for node in (HEAD, *bed.linked) if known else first:
        row: dict[str, Any] = {"node": node, "address": bed.address(node), "process": first.get(node, 0)}
        if bed.striped and node != STORAGE:
            row["mounted"] = node in first and processes.mounted(first[node], STRIPED)
        rows.append(row | asdict(links.get(node, processes.Traffic())))
    return {
        "name": name,
        "up": known and len(first) == len(rows),
        "nodes": rows,
        "link": bed.link,
        "shared": list(bed.shared),
        "private": [str(path) for path in layout.PRIVATE],
        "striped_directory": str(STRIPED) if bed.striped else "",
    }


def status(name: str, as_json: bool) -> int:
    found = facts(name)
    if as_json:
        show.print_json(found)
    else:
        _print_status(found)
    return 0 if found["up"] else 1


def _print_status(found: dict[str, Any]) -> None:
    if not found["nodes"]:
        print(f"test bed {found['name']}: not up")
        return
    state = "up" if found["up"] else "broken: take it down"
    print(f"test bed {found['name']}: {state}; links {found['link'] or 'as fast as the machine carries them'}")
    for row in found["nodes"]:
        life = f"process {row['process']}" if row["process"] else "dead"
        sums = f"sent {show.byte_amount(row['sent_bytes'])}, received {show.byte_amount(row['received_bytes'])}"
        print(
            f"  {row['node']:<8} {row['address']:<14} {life:<16} {sums}{'' if row.get('mounted', True) else '  volume lost'}"
        )
    print(f"  each node has its own {', '.join(found['private'])}; the rest of the file system is shared")
    for directory in found["shared"]:
        print(f"  {directory} is shared")
    if found["striped_directory"]:
        print(f"  {found['striped_directory']} is the striped GlusterFS volume, on every node")


# --- run -------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Asked:
    """What the user of `run` asked for."""

    words: list[str]
    directory: Path
    per_node: int | None = None
    native: bool = False


def ranks_of(line: launcher.Line) -> int:
    """How many ranks the launcher line starts; 0 when it does not say."""
    total = 0
    for word, following in zip(line.options, line.options[1:], strict=False):
        if word.lstrip("-") in ("n", "np", "c") and word.startswith("-") and following.isdecimal():
            total += int(following)
    return total


def places(bed: Bed, line: launcher.Line, per_node: int | None) -> list[int]:
    """Ranks for each node.  Raises Failure (usage) when they do not fit what was asked for."""
    ranks = ranks_of(line)
    if per_node is None:
        return layout.share_out(ranks, bed.nodes) if ranks else [1] * bed.nodes
    if ranks > per_node * bed.nodes:
        raise Failure(f"--per-node {per_node}: {ranks} ranks do not fit on {bed.nodes} nodes", USAGE)
    return [per_node] * bed.nodes


def version_of(path: Path) -> str:
    """What a launcher says of itself."""
    try:
        return subprocess.run(
            [path, "--version"], capture_output=True, text=True, errors="replace", timeout=10, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def hangs_across_nodes(version: str) -> bool:
    """MPICH 4.0 on UCX, as Debian 12 has it: ranks of several nodes wait for one another for ever in MPI_Finalize, whatever they did before."""
    words = version.split()
    number = words[words.index("Version:") + 1] if "Version:" in words[:-1] else ""
    return number.startswith("4.0") and "ch4:ucx" in version


def check_line(line: launcher.Line, counts: list[int], directory: Path) -> None:
    """Raises Failure when the launcher of the line can not start ranks in a bed."""
    if line.launcher is None and (line.family or line.programs[0].path is None):
        raise Failure(f"{line.words[0]}: there is no such program in PATH or in {directory}", USAGE)
    if line.launcher is None:
        return
    if line.family != "mpi":
        raise Failure(
            f"{line.words[0]} can not start ranks in a test bed: use mpiexec of MPICH, Intel MPI or Open MPI", USAGE
        )
    if not environment.launcher_vendor(line.launcher):
        raise Failure(
            f"{line.launcher} is neither Hydra's nor Open MPI's mpiexec, so it can not be told where the nodes are",
            USAGE,
        )
    if sum(map(bool, counts)) > 1 and max(counts) > 1 and hangs_across_nodes(version_of(line.launcher)):
        raise Failure(
            f"{line.launcher} is MPICH 4.0 on UCX, which hangs in MPI_Finalize when several nodes have several ranks each. "
            "Use a newer MPICH (pip install mpich), Open MPI, or one rank on each node."
        )


def check_visible(
    bed: Bed, line: launcher.Line, directory: Path, library: Path | None, report_file: Path | None
) -> None:
    """Raises Failure when a node could not see the working directory, the library, the report or a program."""
    needed = [("the working directory", directory), *([("the library", library)] if library else [])]
    needed += [("the report", report_file)] if report_file else []
    needed += [("the program", program.path) for program in line.programs if program.path]
    needed += [("the launcher", line.launcher)] if line.launcher else []
    for what, path in needed:
        # By its name and by what that leads to.
        private = layout.hidden(bed, Path(os.path.normpath(path))) or layout.hidden(bed, path.resolve())
        if private is not None:
            place = path if what == "the working directory" else path.parent
            share = "" if place in layout.PRIVATE else f", or make the bed with --share {place}"
            raise Failure(
                f"{what} {path} is below {private}, of which each node has its own. Take another place{share}."
            )


def check_directory(live: beds.Live, directory: Path) -> None:
    """Raises Failure (usage) when the line can not start there.  As the head sees it: a volume of the bed is not to be seen from outside."""
    line = beds.entering(live.first[HEAD], ["test", "-d", str(directory)])
    try:
        if subprocess.run(line, stdin=subprocess.DEVNULL, timeout=SECONDS_TO_LOOK, check=False).returncode != 0:
            raise Failure(f"--directory {directory}: there is no such directory on the nodes of the bed", USAGE)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failure(f"--directory {directory}: the bed can not be asked for it: {error}") from error


class _Inside:
    """A program behind nsenter, which passes no signal on itself."""

    def __init__(self, nsenter: int) -> None:
        self._nsenter = nsenter

    def send_signal(self, sig: int, /) -> None:
        for process in processes.children(self._nsenter):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, sig)


@contextlib.contextmanager
def _directory_of_run(bed: Bed, counts: list[int]) -> Iterator[Path]:
    """A directory that all nodes see, with the host files; it goes when the run is over."""
    directory = bed.state / "runs" / secrets.token_hex(6)
    directory.mkdir()
    try:
        for name, text in layout.host_files(bed, counts).items():
            (directory / name).write_text(text)
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _start(live: beds.Live, asked: Asked, words: list[str], variables: dict[str, str], stdout: int | None) -> int:
    """Runs the line on the head to its end, and ends what it left on the nodes.  The exit code as a shell would tell it."""
    line = ["sh", "-c", 'cd "$0" && exec "$@"', str(asked.directory), *words]
    mark = f"{MARK}={variables[MARK]}"
    with run_command.Signals() as signals:
        try:
            process = subprocess.Popen(
                beds.entering(live.first[HEAD], line), env={**os.environ, **variables}, stdout=stdout
            )
        except OSError as error:
            raise Failure(f"nsenter can not be started: {error.strerror}") from error
        try:
            signals.go_to(_Inside(process.pid))
            code = process.wait()
        finally:
            beds.sweep(mark)
    return 128 - code if code < 0 else code


def links_of(before: dict[str, processes.Traffic], after: dict[str, processes.Traffic]) -> dict[str, processes.Traffic]:
    return {node: after[node] - before[node] for node in after if node in before}


def _size_of_report(file: Path) -> int:
    """What it has already.  Made here, so that a run that writes none leaves one that can be read."""
    try:
        with file.open("ab") as handle:
            return handle.tell()
    except OSError as error:
        raise Failure(f"{file}: the report can not be written: {error.strerror}") from error


def run(name: str, asked: Asked, wanted: environment.Wanted, as_json: bool, dry_run: bool) -> int:
    """The whole command; returns the exit code of the program."""
    if os.geteuid() != 0:
        raise Failure("penstock testbed run needs root, as up does")
    live = beds.live(name)
    line = launcher.parse(asked.words, asked.directory)
    counts = places(live.bed, line, asked.per_node)
    check_line(line, counts, asked.directory)
    library = None if asked.native else environment.library_in(paths.library_directory())
    chosen = wanted.report.absolute() if wanted.report else None
    check_visible(live.bed, line, asked.directory, library, chosen)
    check_directory(live, asked.directory)
    with _directory_of_run(live.bed, counts) as directory:
        variables = layout.launch_variables(live.bed, directory) | {MARK: directory.name}
        words = asked.words
        file = chosen or directory / "report.jsonl"
        if library is not None:
            wanted = environment.Wanted(file, wanted.hints, wanted.strategy, wanted.bypass)
            prepared = run_command.prepare(words, dict(os.environ), library, wanted, asked.directory)
            words, variables = prepared.words, variables | prepared.changes
            for text in prepared.warnings:
                show.say(text)
        if dry_run:
            return run_command.print_plan(run_command.Prepared(words, variables), as_json)
        from_byte = _size_of_report(file)
        sys.stdout.flush()
        before, began = processes.traffic(live.first), time.monotonic()
        exit_code = _start(live, asked, words, variables, sys.stderr.fileno() if as_json else None)
        seconds = time.monotonic() - began
        links = links_of(before, processes.traffic(live.first))
        found = report.read(file, from_byte) if library is not None else None
    _show(found, links, exit_code, seconds, as_json, str(file))
    return exit_code


def _show(
    found: report.Report | None,
    links: dict[str, processes.Traffic],
    exit_code: int,
    seconds: float,
    as_json: bool,
    name: str,
) -> None:
    between = processes.between_nodes_bytes(links)
    if as_json:
        crossed = {
            "exit_code": exit_code,
            "seconds": seconds,
            "links": [{"node": node, **asdict(link)} for node, link in links.items()],
            "between_nodes_bytes": between,
        }
        show.print_json(crossed | (report.as_json(found) if found else {}))
        return
    if found and found.files:
        show.print_report(found, sys.stderr)
    elif found and not found.problems and exit_code == 0:
        show.say(run_command.nothing_seen(False))
    run_command.say_failed(exit_code)
    if found:
        show.print_problems(found, name)
    for node, link in links.items():
        if node != HEAD:
            show.say(
                f"{node}: sent {show.byte_amount(link.sent_bytes)} in {link.sent_packets} packets, "
                f"received {show.byte_amount(link.received_bytes)} in {link.received_packets}"
            )
    show.say(
        f"between nodes, without the launcher's and the storage's traffic: {show.byte_amount(between)} in {seconds:.2f} s"
    )


# --- on --------------------------------------------------------------------------------------------------------------------


def on(name: str, node: str, words: list[str]) -> int:
    """Replaces this process by a command on one node."""
    live = beds.live(name)
    if node not in live.first:
        raise Failure(f"{node}: expected one of {', '.join(live.first)}", USAGE)
    place = 'cd "$0" 2>/dev/null || cd /; exec "$@"'
    line = beds.entering(live.first[node], ["sh", "-c", place, str(Path.cwd()), *words])
    os.execvp(line[0], line)
