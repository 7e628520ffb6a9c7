"""The command line: names, options and help.  The work is in commands/, which are imported when they are called."""

import contextlib
import io
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock import __version__, hints
from penstock.failure import FINDINGS, USAGE, Failure

app = typer.Typer(
    help="An MPI-IO engine under programs that nobody changed.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    epilog="Exit codes: 0 fine, 1 findings or failure, 2 usage, 3 unreadable input. Manual: penstock(1), penstock-hints(7).",
)

Json = Annotated[bool, typer.Option("--json", help="JSON on stdout and nothing else there")]
Hints = Annotated[
    list[str] | None,
    typer.Option(
        "--hints",
        metavar="GLOB:KEY=VALUE",
        help="a hint for the files that the glob matches; may be repeated, later ones win",
    ),
]
Strategy = Annotated[
    str, typer.Option(metavar="NAME", help=f"the way data moves, for all files: {', '.join(hints.strategies())}")
]
Bypass = Annotated[bool, typer.Option("--bypass", help="hand every call to the native MPI library")]


def _version(wanted: bool) -> None:
    if wanted:
        print(f"penstock {__version__}")
        raise typer.Exit


@app.callback()
def top(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="print the version")
    ] = False,
) -> None:
    """Holds the options of the program itself."""


@app.command(context_settings={"allow_interspersed_args": False}, epilog=hints.help_text())
def run(
    line: Annotated[
        list[str],
        typer.Argument(metavar="LAUNCHER... APP...", help="the line as you would type it without penstock run"),
    ],
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="keep the report: one JSON line per file is appended")
    ] = None,
    hints: Hints = None,
    strategy: Strategy = "",
    bypass: Bypass = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="print what would be started, and start nothing")] = False,
    json: Annotated[
        bool, typer.Option("--json", help="the report as JSON on stdout; what the program prints goes to stderr then")
    ] = False,
) -> None:
    """Run an MPI program on Penstock and tell where the time of each file went (on stderr).  Returns the program's exit code."""
    from penstock.commands import run as command
    from penstock.environment import Wanted

    raise typer.Exit(command.run(line, Wanted(report, tuple(hints or ()), strategy, bypass), json, dry_run))


@app.command()
def report(file: Annotated[Path, typer.Argument(metavar="FILE")], json: Json = False) -> None:
    """Print the table of a report file that penstock run --report or PENSTOCK_REPORT wrote."""
    from penstock.commands import report as command

    raise typer.Exit(command.run(file, json))


@app.command()
def env(
    report: Annotated[Path | None, typer.Option(metavar="FILE", help="where the library writes its report")] = None,
    hints: Hints = None,
    strategy: Strategy = "",
    bypass: Bypass = False,
    shell: Annotated[str, typer.Option(metavar="sh|csh|fish", help="syntax; by $SHELL when not given")] = "",
    json: Json = False,
) -> None:
    """Print shell commands that put Penstock under what is started next: eval "$(penstock env)"."""
    from penstock.commands import env as command
    from penstock.environment import Wanted

    raise typer.Exit(
        command.run(Wanted(report.absolute() if report else None, tuple(hints or ()), strategy, bypass), shell, json)
    )


@app.command()
def info(json: Json = False) -> None:
    """Show version, flavours and the MPI libraries they serve, stores, hints, Python modules."""
    from penstock.commands import info as command

    raise typer.Exit(command.run(json))


@app.command()
def bench(
    name: Annotated[str, typer.Argument(metavar="NAME", help="a module of bench/")],
    quick: Annotated[bool, typer.Option("--quick", help="small sizes, few repeats")] = False,
    mpi: Annotated[
        list[str] | None, typer.Option("--mpi", metavar="NAME", help="measure this MPI only; may be repeated")
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option("--option", metavar="KEY=VALUE", help="passed on to the benchmark")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="instead of a new folder in results/")
    ] = None,
    json: Json = False,
) -> None:
    """Run a benchmark, native and Penstock side by side; ratios come first."""
    from penstock.commands import bench as command

    raise typer.Exit(command.run(name, quick, mpi or [], option or [], output, json))


ReportFile = Annotated[
    Path | None,
    typer.Argument(
        metavar="[REPORT]",
        help="what penstock run --report wrote; without it the options describe an access",
        show_default=False,
    ),
]
AskedProfile = Annotated[
    str,
    typer.Option(
        "--profile",
        metavar="NAME|FILE",
        help="a calibrated profile, or a built-in one: hdd, ssd, nvm, tmpfs, lustre; what was measured here when not given",
        show_default=False,
    ),
]
Processors = Annotated[
    int, typer.Option(min=0, max=1 << 24, metavar="N", help="processors of a node; 0: this machine's")
]
Read = Annotated[bool, typer.Option("--read", help="the access reads; it writes when not given")]
Ranks = Annotated[int, typer.Option(min=1, max=1 << 24, metavar="N", help="ranks of the described access")]
Nodes = Annotated[int, typer.Option(min=1, max=1 << 24, metavar="N", help="nodes that they run on")]
RankBytes = Annotated[str, typer.Option("--bytes", metavar="SIZE", help="data of each rank in a call, 64m for example")]
Piece = Annotated[str, typer.Option(metavar="SIZE", help="one contiguous piece of it in the file")]
Shape = Annotated[
    str,
    typer.Option(
        metavar="interleaved|blocks|sparse",
        help="pieces of all ranks in turn, each rank's together, or in turn with as much between them left out",
    ),
]
Independent = Annotated[bool, typer.Option("--independent", help="no collective calls: no aggregation is possible")]
Calls = Annotated[int, typer.Option(min=1, max=1 << 40, metavar="N", help="so many such calls")]
Where = Annotated[
    Path, typer.Option("--dir", metavar="DIR", help="where the file is: its file system's profile is used")
]


# Parameters of explain and predict that say what an access is like, with the names of their options.
DESCRIBING = {
    "read": "--read", "ranks": "--ranks", "nodes": "--nodes", "rank_bytes": "--bytes", "piece": "--piece", "shape": "--shape",
    "independent": "--independent", "calls": "--calls", "directory": "--dir",
}  # fmt: skip


def _described_by_report(context: typer.Context, report: Path) -> None:
    """Options that would do nothing are refused."""
    given = [option for name, option in DESCRIBING.items() if _from_line(context, name)]
    if given:
        raise Failure(
            f"{given[0]}: {report} already says what was accessed; leave the report or the option out, or ask "
            "penstock predict with --what-ranks and the like",
            USAGE,
        )


def _from_line(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


@app.command()
def explain(
    context: typer.Context,
    report: ReportFile = None,
    profile: AskedProfile = "",
    processors: Processors = 0,
    read: Read = False,
    ranks: Ranks = 4,
    nodes: Nodes = 1,
    rank_bytes: RankBytes = "16m",
    piece: Piece = "64k",
    shape: Shape = "interleaved",
    independent: Independent = False,
    calls: Calls = 1,
    directory: Where = Path(),
    json: Json = False,
) -> None:
    """Show what the cost model predicts for every way to carry an access out, and why the least is least; of a run's report, beside what was measured."""
    from penstock.commands import explain as command

    if report is not None:
        _described_by_report(context, report)
        raise typer.Exit(command.explain_report(report, profile, processors, json))
    given = command.checked(read, ranks, nodes, rank_bytes, piece, shape, independent, calls)
    raise typer.Exit(command.explain_pattern(given, profile, directory, processors, json))


@app.command()
def predict(
    context: typer.Context,
    report: ReportFile = None,
    profile: AskedProfile = "",
    processors: Processors = 0,
    read: Read = False,
    ranks: Ranks = 4,
    nodes: Nodes = 1,
    rank_bytes: RankBytes = "16m",
    piece: Piece = "64k",
    shape: Shape = "interleaved",
    independent: Independent = False,
    calls: Calls = 1,
    directory: Where = Path(),
    what_device: Annotated[
        list[str] | None,
        typer.Option("--what-device", metavar="PROFILE", help="what if it were on this device; may be repeated"),
    ] = None,
    what_ranks: Annotated[
        list[int] | None,
        typer.Option(
            "--what-ranks", min=1, max=1 << 24, metavar="N", help="what if so many ranks did it; may be repeated"
        ),
    ] = None,
    what_nodes: Annotated[
        list[int] | None,
        typer.Option(
            "--what-nodes", min=1, max=1 << 24, metavar="N", help="what if they ran on so many nodes; may be repeated"
        ),
    ] = None,
    what_aggregators: Annotated[
        list[int] | None,
        typer.Option(
            "--what-aggregators",
            min=1,
            max=1 << 24,
            metavar="N",
            help="what if there were so many global aggregators; may be repeated",
        ),
    ] = None,
    what_local: Annotated[
        list[int] | None,
        typer.Option(
            "--what-local",
            min=1,
            max=1 << 24,
            metavar="N",
            help="what if each node had so many local aggregators; may be repeated",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Answer "what if": the same data on another device, by other ranks, on other nodes, through other aggregators, without running anything."""
    from penstock.commands import explain as command
    from penstock.explanation import Changes

    changes = [
        *(Changes(ranks=value) for value in what_ranks or []),
        *(Changes(nodes=value) for value in what_nodes or []),
        *(Changes(aggregators=value) for value in what_aggregators or []),
        *(Changes(local=value) for value in what_local or []),
    ]
    if report is not None:
        _described_by_report(context, report)
        raise typer.Exit(command.predict_report(report, profile, processors, changes, what_device or [], json))
    given = command.checked(read, ranks, nodes, rank_bytes, piece, shape, independent, calls)
    raise typer.Exit(command.predict_pattern(given, profile, directory, processors, changes, what_device or [], json))


@app.command(context_settings={"allow_interspersed_args": False})
def calibrate(
    line: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[-- LAUNCHER...]",
            help="the line that starts ranks, without a program: mpiexec -n 4; with --compare the profiles",
        ),
    ] = None,
    dir: Annotated[
        Path | None, typer.Option("--dir", metavar="DIR", help="a directory of the file system to measure")
    ] = None,
    ranks: Annotated[
        int | None, typer.Option("-n", metavar="RANKS", min=1, help="ranks; as many as cores, 2 to 4, when not given")
    ] = None,
    name: Annotated[
        str, typer.Option(metavar="NAME", help="of the profile; from machine and file system when not given")
    ] = "",
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="instead of the user's directory of profiles")
    ] = None,
    seconds: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, max=600, help="to measure for, about (45; with --quick 3)", show_default=False
        ),
    ] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="seconds instead of a minute; rough")] = False,
    compiler: Annotated[
        str, typer.Option(metavar="MPICC", help="builds the measuring program for an MPI that has none yet")
    ] = "",
    compare: Annotated[bool, typer.Option("--compare", help="show profiles side by side: --compare A B")] = False,
    list_: Annotated[bool, typer.Option("--list", help="the profiles that there are")] = False,
    json: Json = False,
) -> None:
    """Measure what messages, files and memory cost here, and keep it as a profile for the cost model.  Under two minutes."""
    from penstock.commands import calibrate as command
    from penstock.failure import USAGE

    if list_ or compare:
        raise typer.Exit(command.listed(json) if list_ else command.compare(line or [], json))
    if dir is None:
        raise Failure("--dir: expected a directory of the file system to measure", USAGE)
    wanted = command.Wanted(
        directory=dir.absolute(),
        ranks=ranks,
        name=name,
        output=output,
        line=tuple(line or ()),
        seconds=seconds or (command.SECONDS_QUICK if quick else command.SECONDS),
        compiler=compiler,
    )
    raise typer.Exit(command.run(wanted, json))


testbed = typer.Typer(
    help="Several nodes on one machine: namespaces with their own host names, joined by shaped links.  Root only.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(testbed, name="testbed")
Bed = Annotated[str, typer.Option("--name", metavar="NAME", help="which bed, when there are several")]


@testbed.command()
def up(
    nodes: Annotated[int, typer.Option(metavar="N", help="how many nodes run programs: node0, node1 ...")] = 2,
    link: Annotated[
        str, typer.Option(metavar="RATE", help="of each node's link, both ways: 1gbit, 200mbit; none: not held up")
    ] = "1gbit",
    fs: Annotated[
        str, typer.Option(metavar="gluster", help="a storage node too, and its striped volume mounted on every node")
    ] = "",
    share: Annotated[
        list[Path] | None,
        typer.Option(metavar="DIR", help="a directory below /tmp, /dev/shm or /run that nodes see all the same"),
    ] = None,
    name: Bed = "default",
    json: Json = False,
) -> None:
    """Make a test bed.  Each node has its own network, host name, processes, /dev/shm, /tmp, /var/tmp and /run; the rest is shared."""
    from penstock.commands import testbed as command

    raise typer.Exit(command.up(name, nodes, link, share or [], fs, json))


@testbed.command(name="run", context_settings={"allow_interspersed_args": False})
def run_across(
    line: Annotated[
        list[str],
        typer.Argument(metavar="LAUNCHER... APP...", help="the line as you would type it for one machine"),
    ],
    native: Annotated[bool, typer.Option("--native", help="without Penstock")] = False,
    per_node: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="ranks on each node; otherwise they are shared out evenly, in blocks"),
    ] = None,
    directory: Annotated[
        Path | None, typer.Option(metavar="DIR", help="where the line starts, as nodes see it; otherwise here")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="keep the report: one JSON line per file is appended")
    ] = None,
    hints: Hints = None,
    strategy: Strategy = "",
    bypass: Bypass = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="print what would be started, and start nothing")] = False,
    name: Bed = "default",
    json: Annotated[
        bool,
        typer.Option(
            "--json", help="report and traffic as JSON on stdout; what the program prints goes to stderr then"
        ),
    ] = False,
) -> None:
    """Run an MPI program on Penstock across the nodes; then tell where the time went and what crossed the links (on stderr)."""
    from penstock.commands import testbed as command
    from penstock.environment import Wanted

    asked = command.Asked(line, (directory or Path.cwd()).absolute(), per_node, native)
    wanted = Wanted(report, tuple(hints or ()), strategy, bypass)
    raise typer.Exit(command.run(name, asked, wanted, json, dry_run))


@testbed.command(context_settings={"allow_interspersed_args": False})
def on(
    node: Annotated[str, typer.Argument(metavar="NODE", help="node0, node1 ..., storage or head")],
    line: Annotated[list[str], typer.Argument(metavar="COMMAND...", help="the command")],
    name: Bed = "default",
) -> None:
    """Run a command on one node, without MPI and without Penstock."""
    from penstock.commands import testbed as command

    raise typer.Exit(command.on(name, node, line))


@testbed.command()
def status(name: Bed = "default", json: Json = False) -> None:
    """Show the nodes, their links and what crossed them so far.  Exit code 1 when there is no bed, or a part of it died."""
    from penstock.commands import testbed as command

    raise typer.Exit(command.status(name, json))


@testbed.command()
def down(name: Bed = "default", json: Json = False) -> None:
    """Remove the bed and everything that runs in it.  Fine when there is none."""
    from penstock.commands import testbed as command

    raise typer.Exit(command.down(name, json))


device = typer.Typer(
    help="A directory as slow as another storage device, for any program: hdd, ssd, nvm.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
testbed.add_typer(device, name="device")
Device = Annotated[str, typer.Option("--name", metavar="NAME", help="which device, when there are several")]


@device.command(name="up")
def device_up(
    profile: Annotated[str, typer.Option(metavar="hdd|ssd|nvm", help="what it is like")],
    size: Annotated[str, typer.Option(metavar="SIZE", help="how much it holds, in memory: 512M, 2G")] = "2G",
    rate: Annotated[float | None, typer.Option(metavar="MB/S", help="instead of the profile's")] = None,
    iops: Annotated[
        float | None, typer.Option(metavar="N", help="requests per second, instead of the profile's")
    ] = None,
    latency: Annotated[
        float | None, typer.Option(metavar="US", help="microseconds of a random request, instead of the profile's")
    ] = None,
    method: Annotated[
        str,
        typer.Option(
            metavar="auto|loop|fuse|memory",
            help="loop: block device with rates, root only; fuse: each request has its latency; memory: as fast as it goes",
        ),
    ] = "auto",
    page_cache: Annotated[
        str, typer.Option(metavar="SIZE", help="page cache in front of it, for what device run starts; root only")
    ] = "",
    at: Annotated[
        Path | None, typer.Option(metavar="DIR", help="where programs find it; an empty or new directory")
    ] = None,
    backing: Annotated[
        Path | None, typer.Option(metavar="DIR", help="where its bytes lie, instead of in memory")
    ] = None,
    name: Device = "default",
    json: Json = False,
) -> None:
    """Make a device and say in which directory it is."""
    from penstock.commands import device as command
    from penstock.testbed.devices import Wanted

    wanted = Wanted(name, profile, size, rate, iops, latency, method, page_cache, at, backing)
    raise typer.Exit(command.up(wanted, json))


@device.command(name="run", context_settings={"allow_interspersed_args": False})
def device_run(
    line: Annotated[
        list[str], typer.Argument(metavar="COMMAND...", help="the command; $PENSTOCK_DEVICE is the directory")
    ],
    page_cache: Annotated[
        str, typer.Option(metavar="SIZE", help="of the command: its memory and page cache together; root only")
    ] = "",
    name: Device = "default",
) -> None:
    """Run a command held to the device's rates and page cache.  Returns the command's exit code."""
    from penstock.commands import device as command

    raise typer.Exit(command.run(name, line, page_cache))


@device.command(name="check")
def device_check(
    seconds: Annotated[float, typer.Option(metavar="S", help="for each measurement")] = 3,
    tolerance: Annotated[float, typer.Option(metavar="PERCENT", help="by how much a measurement may be off")] = 10,
    name: Device = "default",
    json: Json = False,
) -> None:
    """Measure the device with fio beside what it should give.  Exit code 1 when it is off by more than the tolerance."""
    from penstock.commands import device as command

    raise typer.Exit(command.check(name, seconds, tolerance, json))


@device.command(name="status")
def device_status(
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="this device; otherwise all")] = None,
    json: Json = False,
) -> None:
    """Show devices.  Exit code 1 when there is none, or a part of one is gone."""
    from penstock.commands import device as command

    raise typer.Exit(command.status(name, json))


@device.command(name="down")
def device_down(name: Device = "default", json: Json = False) -> None:
    """Remove the device and all that lies on it.  Fine when there is none."""
    from penstock.commands import device as command

    raise typer.Exit(command.down(name, json))


studies = typer.Typer(
    help="Measure a figure of a paper again, on this machine.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(studies, name="study")


@studies.command()
def tam(
    line: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[-- PROGRAM...]",
            help="a program of yours instead of the kernels, without its launcher; {file} in its words is a file to write",
        ),
    ] = None,
    ranks: Annotated[
        str, typer.Option(metavar="N,...", help="numbers of ranks (8,16; with --quick 4)", show_default=False)
    ] = "",
    ranks_per_node: Annotated[
        int, typer.Option(metavar="N", min=0, help="ranks of a pretended node (4; with --quick 2)", show_default=False)
    ] = 0,
    local: Annotated[str, typer.Option(metavar="N,...", help="local aggregators of a node")] = "1,2,4",
    aggregators: Annotated[
        int, typer.Option(metavar="N", min=0, help="global aggregators in all; 0: one for each node")
    ] = 0,
    mpi: Annotated[
        list[str] | None, typer.Option("--mpi", metavar="NAME", help="measure this MPI only; may be repeated")
    ] = None,
    kernel: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="e3sm, e3sm-F, e3sm-G, btio, s3d, interleave; may be repeated"),
    ] = None,
    maps: Annotated[Path | None, typer.Option(metavar="DIR", help="where the maps of e3sm-F and e3sm-G are")] = None,
    rounds: Annotated[int, typer.Option(min=0, help="runs of each cell (3; with --quick 1)", show_default=False)] = 0,
    timeout: Annotated[float, typer.Option(min=1, help="seconds that one run may take")] = 120,
    directory: Annotated[
        Path | None, typer.Option(metavar="DIR", help="where files are written (in memory where possible)")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(metavar="PREFIX", help="of PREFIX.json and the pictures, instead of a new folder in results/"),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="one kernel, small, one MPI, a quarter of a minute")] = False,
    json: Json = False,
) -> None:
    """Two-layer aggregation beside two-phase: where the seconds go, and what goes between nodes, over local aggregators and ranks."""
    from penstock.commands import study as command
    from penstock.study.tam import BUFFER_BYTES, Wanted

    wanted = Wanted(
        ranks=command.numbers("--ranks", ranks or ("4" if quick else "8,16")),
        ranks_per_node=ranks_per_node or (2 if quick else 4),
        local=command.numbers("--local", local),
        mpis=command.words(mpi or []),
        kernels=command.words(kernel or []),
        line=tuple(line or ()),
        rounds=rounds or (1 if quick else 3),
        directory=directory,
        aggregators=aggregators,
        buffer_bytes=BUFFER_BYTES,
        maps=maps,
        quick=quick,
        timeout_seconds=timeout,
    )
    raise typer.Exit(command.run_tam(wanted, output, json))


Devices = Annotated[
    str, typer.Option(metavar="KIND,...", help="hdd, ssd, nvm: devices to pretend (all of them)", show_default=False)
]
OwnDevice = Annotated[
    list[str] | None,
    typer.Option("--device", metavar="NAME=DIR", help="a directory on a device of yours instead; may be repeated"),
]
OneNode = Annotated[int, typer.Option("--ranks", metavar="N", min=1, help="ranks, all on one node")]
PretendedNodes = Annotated[
    int, typer.Option(metavar="N", min=0, help="pretended nodes of this machine (2; with --full 4)", show_default=False)
]
NodesBed = Annotated[
    str,
    typer.Option(
        metavar="NAME", help="the test bed on which cases of several nodes run, in directories that --device names"
    ),
]
PerNode = Annotated[str, typer.Option("--ranks-per-node", metavar="N,...", help="ranks of such a node")]
StudyMpi = Annotated[
    list[str] | None, typer.Option("--mpi", metavar="NAME", help="this MPI instead of the first one; may be repeated")
]
StudyKernel = Annotated[
    list[str] | None, typer.Option("--kernel", metavar="NAME", help="this kernel only; may be repeated")
]
Rounds = Annotated[int, typer.Option(min=0, help="runs of each case (2; with --full 3)", show_default=False)]
Scale = Annotated[int, typer.Option(metavar="N", min=0, help="divide the paper's sizes by N", show_default=False)]
StudyTimeout = Annotated[
    float, typer.Option(min=0, help="seconds that one run may take (120; with --full 7200)", show_default=False)
]
StudyOutput = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="of the JSON and the picture, instead of a new folder in results/"),
]
Full = Annotated[bool, typer.Option("--full", help="the paper's sizes: hours on a small machine")]


def _study(name: str, asked: dict[str, Any], output: Path | None, json: bool) -> None:
    """The studies of storage have their options in common."""
    from penstock.commands import storage as command

    study = command.storage_study(name)
    raise typer.Exit(
        command.run_of_storage(study, command.wanted_of(study, asked), output / name if output else None, json)
    )


@studies.command(name="page-cache")
def page_cache(
    cache: Annotated[
        str,
        typer.Option(
            metavar="SIZE,...",
            help="page caches: 64m,1g, or none for no limit (the paper's, scaled)",
            show_default=False,
        ),
    ] = "",
    devices: Devices = "",
    device: OwnDevice = None,
    ranks: OneNode = 4,
    mpi: StudyMpi = None,
    kernel: StudyKernel = None,
    rounds: Rounds = 0,
    scale: Scale = 0,
    timeout: StudyTimeout = 0,
    output: StudyOutput = None,
    full: Full = False,
    json: Json = False,
) -> None:
    """What a smaller page cache costs on slow and on fast devices: kernels hacc, madbench2 and s3asim."""
    asked = {"devices": devices, "device": device, "ranks": ranks, "mpi": mpi, "kernel": kernel, "rounds": rounds}
    _study("page-cache", asked | {"scale": scale, "timeout": timeout, "full": full, "cache": cache}, output, json)


@studies.command()
def interfaces(
    devices: Devices = "",
    device: OwnDevice = None,
    ranks: OneNode = 4,
    nodes: PretendedNodes = 0,
    ranks_per_node: PerNode = "4",
    bed: NodesBed = "",
    mpi: StudyMpi = None,
    kernel: StudyKernel = None,
    rounds: Rounds = 0,
    scale: Scale = 0,
    timeout: StudyTimeout = 0,
    output: StudyOutput = None,
    full: Full = False,
    json: Json = False,
) -> None:
    """MPI individual I/O, native and on Penstock, beside POSIX I/O, on one node and on several."""
    asked = {"devices": devices, "device": device, "ranks": ranks, "mpi": mpi, "kernel": kernel, "rounds": rounds}
    asked |= {"nodes": nodes, "ranks_per_node": ranks_per_node, "bed": bed}
    _study("interfaces", asked | {"scale": scale, "timeout": timeout, "full": full}, output, json)


@studies.command(name="collective")
def collective_study(
    devices: Devices = "",
    device: OwnDevice = None,
    nodes: PretendedNodes = 0,
    ranks_per_node: PerNode = "1,4",
    bed: NodesBed = "",
    mpi: StudyMpi = None,
    rounds: Rounds = 0,
    scale: Scale = 0,
    timeout: StudyTimeout = 0,
    output: StudyOutput = None,
    full: Full = False,
    json: Json = False,
) -> None:
    """Collective I/O beside individual I/O, native and on Penstock, with few and with many ranks on a node."""
    asked = {"devices": devices, "device": device, "mpi": mpi, "rounds": rounds, "nodes": nodes}
    asked |= {"ranks_per_node": ranks_per_node, "bed": bed}
    _study("collective", asked | {"scale": scale, "timeout": timeout, "full": full}, output, json)


@studies.command()
def shuffle(
    devices: Devices = "",
    device: OwnDevice = None,
    nodes: PretendedNodes = 0,
    ranks_per_node: PerNode = "4",
    bed: NodesBed = "",
    mpi: StudyMpi = None,
    rounds: Rounds = 0,
    scale: Scale = 0,
    timeout: StudyTimeout = 0,
    output: StudyOutput = None,
    full: Full = False,
    json: Json = False,
) -> None:
    """How long two-phase I/O shuffles data between ranks, and how long it accesses the file, on each device."""
    asked = {"devices": devices, "device": device, "mpi": mpi, "rounds": rounds, "nodes": nodes}
    asked |= {"ranks_per_node": ranks_per_node, "bed": bed}
    _study("shuffle", asked | {"scale": scale, "timeout": timeout, "full": full}, output, json)


Output = Annotated[
    Path | None,
    typer.Option(metavar="PREFIX", help="of PREFIX.json and the picture, instead of a new folder in results/"),
]
ProfileName = Annotated[
    str,
    typer.Option(
        "--profile",
        metavar="NAME|FILE",
        help="a calibrated profile, or a built-in one: hdd, ssd, nvm, tmpfs, lustre",
        show_default=False,
    ),
]


@studies.command(name="model")
def model_study(
    run: Annotated[bool, typer.Option("--run", help="measure here too, with both models' estimates beside it")] = False,
    profile: ProfileName = "",
    bed: Annotated[
        str, typer.Option(metavar="NAME", help="the test bed to measure on (pretended nodes of this machine)")
    ] = "",
    ranks: Annotated[str, typer.Option(metavar="N,...", help="numbers of ranks")] = "2,4",
    ranks_per_node: Annotated[int, typer.Option(metavar="N", min=1, help="ranks of a node")] = 2,
    mpi: Annotated[
        list[str] | None, typer.Option("--mpi", metavar="NAME", help="measure this MPI; may be repeated (the first)")
    ] = None,
    directory: Annotated[
        Path, typer.Option(metavar="DIR", help="where files are written; a test bed's nodes must see it")
    ] = Path(),
    piece: Annotated[int, typer.Option(metavar="BYTES", min=1, help="one piece of a rank")] = 1 << 20,
    pieces: Annotated[int, typer.Option(metavar="N", min=1, help="pieces of each rank")] = 64,
    buffer: Annotated[int, typer.Option(metavar="BYTES", min=1, help="the collective buffer")] = 16 << 20,
    durable: Annotated[bool, typer.Option("--durable", help="count making data durable")] = False,
    emulate: Annotated[
        list[str] | None,
        typer.Option(
            "--emulate",
            metavar="DEVICE",
            help="on this device that the library pretends (hdd, ssd, nvm); may be repeated",
        ),
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="runs of each cell")] = 3,
    timeout: Annotated[float, typer.Option(min=1, help="seconds that one run may take")] = 120,
    output: Output = None,
    json: Json = False,
) -> None:
    """The paper's cost model: Tables V and VI, printed and computed; with --run, both models beside what is measured here."""
    from penstock.commands import study as command
    from penstock.study.measured_model import Wanted

    wanted = Wanted(
        ranks=command.numbers("--ranks", ranks),
        ranks_per_node=ranks_per_node,
        mpis=command.words(mpi or []),
        bed=bed,
        directory=directory.absolute(),
        transfer_bytes=piece,
        segments=pieces,
        buffer_bytes=buffer,
        rounds=rounds,
        durable=durable,
        timeout_seconds=timeout,
        emulated=command.words(emulate or []),
    )
    raise typer.Exit(command.run_model(wanted if run else None, profile, output, json))


@studies.command()
def tradeoff(
    profile: ProfileName = "",
    nodes: Annotated[int, typer.Option(metavar="N", min=1, max=1 << 20, help="nodes, with an aggregator each")] = 4,
    ranks_per_node: Annotated[int, typer.Option(metavar="N", min=1, max=1 << 10, help="ranks of a node")] = 4,
    output: Output = None,
    json: Json = False,
) -> None:
    """Cost of the shuffle and benefit of collective access over the message size (the paper's Figure 11), by its parameters or a profile's."""
    from penstock.commands import study as command

    raise typer.Exit(command.run_tradeoff(profile, nodes, ranks_per_node, output, json))


def _write_what_the_terminal_has_not() -> None:
    """Where the locale has no character of a name, an escape stands for it."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def main() -> None:
    _write_what_the_terminal_has_not()
    try:
        app(prog_name="penstock")
        sys.stdout.flush()
    except Failure as failure:
        from penstock import show

        show.say(str(failure))
        sys.exit(failure.exit_code)
    except SystemExit as ended:
        # Benchmarks and launchers, which know nothing of this package, end with a sentence.
        if not isinstance(ended.code, str):
            raise
        from penstock import show

        show.say(ended.code)
        sys.exit(USAGE if ": expected" in ended.code else FINDINGS)
    except OSError as error:
        # Of files commands speak themselves: what is left is a full disk behind stdout.
        if error.filename is not None:
            raise
        from penstock import show

        show.say(f"the output can not be written: {error.strerror}")
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or Python tries once more, and complains, when it ends
        sys.exit(FINDINGS)
