"""Takes a launcher line apart: which launcher, which programs, behind which wrappers.  Starts nothing.

Launchers have hundreds of options, so two rules work together: the options listed here are known to take values, and of the
remaining words the first that is an existing executable is the program.
"""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

# Finds the executable a word names, seen from a directory; None when there is none.
Finder = Callable[[str, Path], Path | None]

_HYDRA_AND_OPEN_MPI = {
    1: """n np f c N npernode npersocket H host hosts hostfile machinefile default-hostfile order-nodes ppn perhost rr-size arch
          path launcher bootstrap launcher-exec bootstrap-exec bind-to map-by rank-by membind rmk iface demux prepend-pattern
          outfile-pattern errfile-pattern outfile errfile s usize pmi-port ckpointlib ckpoint-prefix ckpoint-num envlist genvlist
          topolib gpus-per-proc gtool gtoolfile wdir wd x am tune prefix report-uri output-filename output display rf rankfile
          cpu-set cpu-list slot-list cpus-per-proc cpus-per-rank personality max-restarts timeout runtime-options stdin
          preload-files dvm-uri exec-timeout""".split(),
    2: "env genv mca gmca omca prtemca pmixmca".split(),
}
_HYDRA_AND_OPEN_MPI_VALUES = {name: count for count, names in _HYDRA_AND_OPEN_MPI.items() for name in names}
_SRUN_SHORT = set("ABbCcDdEeFGgiJLMmNnopPqrStTUwWxZ")
_SRUN_FLAGS = set(
    """contiguous disable-status exclusive hold help immediate kill-on-bad-exit label multi-prog no-allocate no-kill
    oom-kill-step overcommit overlap oversubscribe preserve-env propagate pty quiet quit-on-interrupt reboot spread-job unbuffered
    usage use-min-nodes verbose version whole exact""".split()
)
_LETTERS_WITH_VALUES = {
    "aprun": set("nNdSLjepCDmrtw"),
    "jsrun": set("nacgrdblpEeIkotXhSPKM"),
    "lrun": set("nNTcgp"),
    "ibrun": set("no"),
    "flux": set("nNcgtoxl"),
    "palsrun": set("n"),
}
_FAMILIES = {
    "mpiexec": "mpi", "mpirun": "mpi", "orterun": "mpi", "prterun": "mpi", "prun": "mpi", "srun": "srun", "aprun": "aprun",
    "jsrun": "jsrun", "lrun": "lrun", "ibrun": "ibrun", "flux": "flux", "palsrun": "palsrun",
}  # fmt: skip

# Programs that start another one; the options of theirs that take a value.  Other words are looked at like a launcher's.
_WRAPPERS: dict[str, set[str]] = {
    "env": {"-u", "--unset", "-C", "--chdir"},
    "numactl": {
        "-i",
        "-m",
        "-N",
        "-C",
        "-p",
        "--interleave",
        "--membind",
        "--cpunodebind",
        "--physcpubind",
        "--preferred",
    },
    "time": {"-f", "-o", "--format", "--output"},
    "nice": {"-n", "--adjustment"},
    "ionice": {"-c", "-n", "-p"},
    "taskset": set(),
    "timeout": {"-k", "-s", "--kill-after", "--signal"},
    "stdbuf": {"-i", "-o", "-e"},
    "chrt": set(),
    "nohup": set(),
    "setsid": set(),
    "setarch": set(),
    "x86_64": set(),
    "linux64": set(),
    "catchsegv": set(),
    "valgrind": set(),
    "strace": {"-o", "-e", "-s", "-p", "-u"},
    "ltrace": {"-o", "-e", "-s", "-p", "-u"},
    "perf": {"-e", "-o", "-F", "-C", "--event", "--output"},
    "gdb": {"-ex", "-x"},
    "xterm": {"-geometry", "-title", "-T", "-fn"},
    "rr": set(),
}
_WITH_SUBCOMMAND = {"perf", "rr", "flux"}
_CONTAINERS = {
    "singularity",
    "apptainer",
    "shifter",
    "podman",
    "docker",
    "podman-hpc",
    "ch-run",
    "sarus",
    "charliecloud",
}


@dataclass
class Program:
    """One program of the line.  `path` is None when no word of it names an executable here."""

    word: str
    path: Path | None
    wrappers: list[str] = field(default_factory=list)
    in_container: bool = False
    environment_cleared: bool = False


@dataclass
class Line:
    words: list[str]
    launcher: Path | None
    family: str  # "" when the line starts the program itself
    programs: list[Program]
    part_starts: list[int]  # where the options of each program begin, one per colon-separated part
    options: list[str]  # every word between launcher and program that is not the program's


def find_executable(word: str, directory: Path) -> Path | None:
    """As a launcher does it: a path as it is, a plain name in PATH and then in `directory`."""
    if not word or "\0" in word:
        return None
    places = [directory] if "/" in word else [*map(Path, os.get_exec_path()), directory]
    for place in places:
        path = directory / place / word
        try:
            if path.is_file() and os.access(path, os.X_OK):
                return path
        except OSError:
            continue
    return None


def family_of(path: Path) -> str:
    """The launcher family a program belongs to by its name (`mpiexec.hydra` is `mpiexec`), or ""."""
    name = path.name
    if name in _FAMILIES:
        return _FAMILIES[name]
    stem = name.split(".")[0].split("-")[0]
    return _FAMILIES.get(stem, "") if stem in ("mpiexec", "mpirun", "orterun", "prterun") else ""


def _values_of_option(family: str, option: str) -> int:
    """How many words after `option` belong to it."""
    name = option.lstrip("-")
    if "=" in option or not name:
        return 0
    if family == "srun":
        if option.startswith("--"):
            return 0 if name in _SRUN_FLAGS else 1
        return 1 if len(name) == 1 and name in _SRUN_SHORT else 0
    if family in _LETTERS_WITH_VALUES:
        if option.startswith("--"):
            return (
                1 if name in ("ntasks", "nodes", "cores-per-task", "env", "setopt", "np", "nrs", "tasks_per_rs") else 0
            )
        return 1 if (len(name) == 1 and name in _LETTERS_WITH_VALUES[family]) or option == "-cc" else 0
    return _HYDRA_AND_OPEN_MPI_VALUES.get(name, 0)


def _values_of_wrapper(taking: set[str], option: str) -> int:
    return int(option in taking)


def _skip_to_executable(
    words: list[str], at: int, directory: Path, values: Callable[[str], int], find: Finder
) -> tuple[int, Path | None]:
    """The index of the first word from `at` on that is an executable and no option's value."""
    while at < len(words):
        word = words[at]
        if word.startswith("-"):
            count = values(word)
            if word.lstrip("-") in ("wdir", "wd", "chdir", "D") and count == 1 and at + 1 < len(words):
                directory = directory / words[at + 1]
            at += 1 + count
            continue
        path = find(word, directory)
        if path is not None:
            return at, path
        at += 1
    return at, None


def _program_in(words: list[str], at: int, family: str, directory: Path, find: Finder) -> tuple[Program, int]:
    """The program that the part of a line from `at` on starts, and where its first word (a wrapper's perhaps) stands."""
    first, path = _skip_to_executable(words, at, directory, partial(_values_of_option, family), find)
    if path is None:
        plain = [word for word in words[at:] if not word.startswith("-")]
        return Program(plain[-1] if plain else "", None), len(words)
    program = Program(words[first], path)
    position = first
    while True:
        name = path.name
        if name in _CONTAINERS:
            program.in_container = True
            return program, first
        if name not in _WRAPPERS and not name.startswith("ld-linux"):
            return program, first
        taking = _WRAPPERS.get(name, set())
        rest = position + 1
        if name == "env":
            while rest < len(words) and (words[rest].startswith("-") or "=" in words[rest]):
                program.environment_cleared |= words[rest] in ("-", "-i", "--ignore-environment")
                rest += 2 if words[rest] in taking else 1
        elif name in _WITH_SUBCOMMAND:
            rest += 1
        following, next_path = _skip_to_executable(words, rest, directory, partial(_values_of_wrapper, taking), find)
        if next_path is None:
            return program, first
        program.wrappers.append(name)
        program.word, program.path = words[following], next_path
        position, path = following, next_path


def parse(words: Iterable[str], directory: Path | None = None, find: Finder = find_executable) -> Line:
    """Takes `words` apart, seen from `directory` (the current one).  Never fails: what is not found stays None."""
    words = list(words)
    directory = Path.cwd() if directory is None else directory
    line = Line(words, None, "", [], [], [])
    if not words:
        return line
    first = find(words[0], directory)
    family = family_of(first if first is not None else Path(words[0]))
    if not family:
        program, _ = _program_in(words, 0, "", directory, find)
        if first is None:
            program = Program(words[0], None)
        line.programs.append(program)
        return line
    line.launcher, line.family = first, family
    start = min(len(words), 2 if family == "flux" else 1)
    while start <= len(words):
        end = words.index(":", start) if family == "mpi" and ":" in words[start:] else len(words)
        program, program_at = _program_in(words[:end], start, family, directory, find)
        line.programs.append(program)
        line.part_starts.append(start)
        line.options += words[start:program_at]
        start = end + 1
    return line
