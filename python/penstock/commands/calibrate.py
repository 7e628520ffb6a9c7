"""penstock calibrate: starts the calibration program natively, makes a profile of what it prints, keeps it where it is found again.

The measuring is in calibrate/ (C), the arithmetic in penstock/calibration.py, profiles in penstock/profiles.py.
"""

import contextlib
import datetime
import hashlib
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock import __version__, calibration, machine, paths, profiles, show
from penstock import environment as launchers
from penstock.ending import terminated_as_interrupted
from penstock.failure import FINDINGS, USAGE, Failure
from penstock.profiles import Profile
from penstock.study.tables import Printer
from penstock.study.tam import launching

SECONDS = 45
SECONDS_QUICK = 3
LAUNCHERS = ("mpiexec", "mpirun", "orterun", "prterun", "srun", "aprun", "jsrun")
SOURCES = (
    "kernels/common/program.c",
    "calibrate/calibrate.c",
    "calibrate/network.c",
    "calibrate/storage.c",
    "calibrate/memory.c",
)
HEADERS = ("kernels/common/program.h", "calibrate/calibrate.h")


@dataclass(frozen=True)
class Wanted:
    """What the user asked for, read once."""

    directory: Path
    ranks: int | None
    name: str
    output: Path | None
    line: tuple[str, ...]
    seconds: int
    compiler: str


# What to start


def launcher_of(words: Sequence[str]) -> int | None:
    """Where in a line the launcher stands: behind `penstock testbed run --native`, or first."""
    for index, word in enumerate(words):
        if Path(word).name.split(".")[0].split("-")[0] in LAUNCHERS:
            return index
    return None


def says_ranks(words: Sequence[str]) -> bool:
    return any(re.fullmatch(r"-{1,2}(n|np|c|ntasks)", word) or word.startswith("--ntasks=") for word in words)


def cache_directory(environment: Mapping[str, str] | None = None) -> Path:
    given = os.environ if environment is None else environment
    chosen = Path(given.get("XDG_CACHE_HOME", ""))
    if not chosen.is_absolute():
        chosen = paths.home(given) / ".cache"
    return chosen / "penstock"


def compiler_beside(launcher: Path) -> Path | None:
    """The wrapper of the same MPI: mpicc.mpich beside mpiexec.mpich; else the one in PATH."""
    name = re.sub(r"^(mpiexec|mpirun|orterun|prterun)(\.hydra)?", "mpicc", launcher.name)
    for path in (launcher.parent / name, launcher.resolve().parent / name):
        if name != launcher.name and path.is_file():
            return path
    found = shutil.which("mpicc")
    return Path(found) if found else None


def built_program(launcher: Path) -> Path | None:
    """The one that was built for the MPI of this launcher."""
    for note in sorted((paths.library_directory().parent / "kernels").glob("*/launcher")):
        named = Path(note.read_text().strip())
        program = note.parent / "calibrate"
        if (
            program.is_file()
            and named.is_file()
            and named.resolve() == launcher.resolve()
            and named.name == launcher.name
        ):
            return program
    return None


def compiled_program(compiler: Path) -> Path:
    """Built from the sources with the MPI's own wrapper, and kept for the next time."""
    top = paths.checkout_root() or paths.PACKAGE.parents[1]
    state = hashlib.sha256(str(compiler).encode())
    try:
        for name in (*SOURCES, *HEADERS):
            state.update((top / name).read_bytes())
        state.update(compiler.resolve().read_bytes())
    except OSError as error:
        raise Failure(f"{error.filename}: {error.strerror}; the calibration program can not be built") from error
    directory = cache_directory() / f"calibrate-{state.hexdigest()[:16]}"
    program = directory / "calibrate"
    if program.is_file():
        return program
    show.say(f"building the calibration program with {compiler}")
    fresh = directory / f"calibrate.{os.getpid()}"
    words = [str(compiler), "-std=gnu11", "-O2", f"-I{top / 'kernels'}", f"-I{top / 'calibrate'}", "-o", str(fresh)]
    words += [*(str(top / name) for name in SOURCES), "-lm", "-lrt"]
    try:
        directory.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(words, capture_output=True, text=True, errors="replace", timeout=120, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        why = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)
        raise Failure(
            f"{compiler}: the calibration program can not be built: {why}; XDG_CACHE_HOME names another directory for it"
        ) from error
    if done.returncode != 0:
        raise Failure(f"{' '.join(words)}: exit code {done.returncode}: {done.stderr.strip()[:1500]}")
    fresh.replace(program)
    return program


def program_for(launcher: Path, compiler: str) -> Path:
    if compiler:
        found = shutil.which(compiler)
        if found is None:
            raise Failure(f"--compiler {compiler}: there is no such program", USAGE)
        return compiled_program(Path(found))
    if (program := built_program(launcher)) is not None:
        return program
    beside = compiler_beside(launcher)
    if beside is None:
        raise Failure(
            f"{launcher}: no mpicc beside it or in PATH to build the calibration program with; name one with --compiler"
        )
    return compiled_program(beside)


def line_for(wanted: Wanted) -> tuple[list[str], dict[str, str]]:
    """The launcher's line without the words of the program, the program last; and the environment."""
    starter = launching()
    ranks = wanted.ranks or max(2, min(4, starter.cores()))
    if not wanted.line:
        try:
            mpi = starter.installed(paths.library_directory().parent)[0]
        except SystemExit:
            found = shutil.which("mpiexec") or shutil.which("mpiexec.mpich") or shutil.which("mpiexec.openmpi")
            if found is None:
                raise Failure(
                    "there is no mpiexec in PATH; name one: penstock calibrate --dir DIR -- mpiexec -n 4"
                ) from None
            family = "openmpi" if launchers.launcher_vendor(Path(found)) == "open-mpi" else "mpich"
            mpi = starter.Mpi("mpi", family, Path(found), Path(found).parent)
        program = program_for(mpi.launcher, wanted.compiler)
        return starter.line(mpi, ranks, [program]), starter.environment(mpi, ranks)
    place = launcher_of(wanted.line)
    if place is None:
        raise Failure(
            f"{wanted.line[0]}: expected a line that starts ranks, such as mpiexec -n 4, without a program", USAGE
        )
    path = shutil.which(wanted.line[place])
    if path is None:
        raise Failure(f"{wanted.line[place]}: there is no such program", USAGE)
    line = list(wanted.line)
    if wanted.ranks is not None:
        if says_ranks(line[place:]):
            raise Failure("-n is given twice, before and behind --", USAGE)
        line += ["-n", str(wanted.ranks)]
    # Nothing of an MPI's own settings is changed: the line is the user's.
    plain = starter.environment(starter.Mpi("", "", Path(path), Path(path).parent), 0)
    return [*line, str(program_for(Path(path), wanted.compiler))], plain


# Measuring


def measured(words: Sequence[str], environment: Mapping[str, str], seconds: float) -> str:
    """What the program prints; its progress goes to stderr as it is.  Nothing of it is left running."""
    try:
        process = subprocess.Popen(
            words, stdout=subprocess.PIPE, text=True, errors="replace", env=dict(environment), start_new_session=True
        )
    except OSError as error:
        raise Failure(f"{words[0]} can not be started: {error.strerror}") from error
    try:
        output, _ = process.communicate(timeout=4 * seconds + 60)
    except subprocess.TimeoutExpired:
        raise Failure(f"{' '.join(words)}: not finished after {4 * seconds + 60:.0f} s") from None
    finally:
        if process.poll() is None:
            for kind in (signal.SIGTERM, signal.SIGKILL):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, kind)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=5)
    if process.returncode != 0:
        raise Failure(f"{' '.join(words)}: exit code {process.returncode}; the lines above say why")
    return output


def lines_of(wanted: Wanted) -> tuple[list[calibration.Line], list[str]]:
    words, environment = line_for(wanted)
    try:
        scratch = Path(tempfile.mkdtemp(prefix=".penstock-calibrate-", dir=wanted.directory))
    except OSError as error:
        raise Failure(f"--dir {wanted.directory}: no directory can be made there: {error.strerror}") from error
    line = [*words, "--file", str(scratch / "data"), "--seconds", str(wanted.seconds)]
    try:
        return calibration.parse(measured(line, environment, wanted.seconds)), words
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


# The profile


def default_name(host: str, place: machine.FileSystem) -> str:
    where = re.sub(r"[^A-Za-z0-9]+", "-", place.mount_point).strip("-") or "root"
    words = f"{machine.plain_host(host)}-{place.kind}-{where}"
    return re.sub(r"[^A-Za-z0-9._-]+", "-", words).lstrip("-.")[:100] or "profile"


def memory_bytes() -> int:
    with contextlib.suppress(ValueError, OSError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return 0


def head_of(
    wanted: Wanted, facts: Mapping[str, Any], place: machine.FileSystem, words: Sequence[str]
) -> dict[str, Any]:
    return {
        "version": profiles.VERSION,
        "name": wanted.name or default_name(str(facts["host"]), place),
        "based_on": "",
        "machine": machine.identity(str(facts["host"])),
        "mount_point": place.mount_point,
        "file_system": place.kind,
        "file_system_id": place.identifier,
        "device": place.device,
        "directory": show.printable(str(wanted.directory)),
        "made": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "penstock": __version__,
        "processor": machine.processor(),
        "kernel": platform.release(),
        "processors": facts["processors"],
        "memory_bytes": memory_bytes(),
        "mpi": str(facts["mpi"]),
        "ranks": facts["ranks"],
        "nodes": facts["nodes"],
        "line": show.printable(" ".join(words[:-1])),
    }


def calibrated(wanted: Wanted) -> tuple[dict[str, Any], calibration.Result]:
    place = machine.file_system(wanted.directory)
    began = time.monotonic()
    lines, words = lines_of(wanted)
    facts = calibration.of_kind(lines, "facts")
    in_memory = place.kind in machine.IN_MEMORY
    try:
        if not facts:
            raise ValueError("the calibration program told no facts: was it started?")
        head = head_of(wanted, facts[0], place, words)
        result = calibration.figures_of(lines, in_memory)
    except (KeyError, ValueError) as error:
        raise Failure(f"{' '.join(words)}: {error}") from error
    head["based_on"] = calibration.based_on(result.figures, in_memory, place.kind in machine.OF_SEVERAL_NODES)
    for one in calibration.of_kind(lines, "file"):
        head |= {"direct": one["direct"], "file_bytes": one["bytes"]}
    head["seconds"] = round(time.monotonic() - began, 1)
    head["not_measured"] = [one.key for one in profiles.fields() if one.key not in result.figures]
    return head, result


def run(wanted: Wanted, as_json: bool) -> int:
    if wanted.name:
        profiles.checked_name(wanted.name)
    profiles.check_place(wanted.output or profiles.directory() / "profile.toml")
    with terminated_as_interrupted():
        try:
            head, result = calibrated(wanted)
        except KeyboardInterrupt:
            show.say("interrupted: no profile was written")
            return FINDINGS
    path = wanted.output or profiles.directory() / f"{profiles.checked_name(head['name'])}.toml"
    profiles.write(path, profiles.text_of(head, result.figures, result.measurements))
    profile = profiles.read(path)
    if as_json:
        show.print_json(
            {
                "profile": str(path),
                "head": head,
                "figures": profile.figures,
                "measured": sorted(profile.own),
                "measurements": result.measurements,
            }
        )
    else:
        print_profile(profile)
    if head["not_measured"]:
        show.say(
            f"not measured here, and taken from the built-in profile {head['based_on']}: {', '.join(head['not_measured'])}"
        )
    show.say(f"written to {path} after {head['seconds']:.0f} s")
    return 0


# Showing


def human(value: float, unit: str) -> str:
    """0.00000047 s -> 470 ns; seconds a byte as what goes through in a second."""
    if unit == "s/B":
        return f"{1e-9 / value:.3g} GB/s" if value > 0 else "-"
    if unit == "0 or 1":
        return f"{value:.0f}"
    if unit != "s":
        return f"{value:.3g} {unit}"
    for factor, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if value >= factor:
            return f"{value / factor:.3g} {name}"
    return f"{value / 1e-9:.3g} ns"


def regression_lines(measurements: Mapping[str, Any]) -> list[str]:
    """How well each line fits, for people."""
    found = []
    for name, value in measurements.items():
        if isinstance(value, dict) and isinstance(value.get("r2"), (int, float)):
            worst = value.get("worst_residual_percent")
            sizes = [point for point in value.get("points", []) if isinstance(point, dict)]
            residuals = ", ".join(
                f"{show.byte_amount(int(point.get('size_bytes', 0)))} {float(point.get('residual_percent', 0)):+.0f} %"
                for point in sizes
            )
            found.append(f"{name.replace('_', ' ')}: R2 {value['r2']:.3f}, worst residual {worst:+.0f} % ({residuals})")
    return found


def print_profile(profile: Profile) -> None:
    printer = Printer(sys.stdout)
    head = profile.head
    printer.say(
        f"{profile.name}: {head.get('machine')}, {head.get('file_system')} at {head.get('mount_point')}, {head.get('ranks')} ranks on {head.get('nodes')} nodes"
    )
    rows = [
        [one.section, one.name, human(profile.figures[one.key], one.unit) if one.key in profile.own else "-", one.text]
        for one in profiles.fields()
    ]
    printer.table(("", "figure", "value", "what it is"), rows, ("", "figure", "what it is"))
    for text in regression_lines(profile.measurements):
        printer.say(text)


def compare(names: Sequence[str], as_json: bool) -> int:
    """Several side by side; a figure that a profile takes from a built-in one has brackets."""
    if not names:
        raise Failure("--compare: expected names of profiles or files", USAGE)
    found = [profiles.load(name) for name in names]
    if as_json:
        show.print_json(
            [{"name": one.name, "head": one.head, "figures": one.figures, "measured": sorted(one.own)} for one in found]
        )
        return 0
    printer = Printer(sys.stdout)

    def cell(profile: Profile, one: profiles.Field) -> str:
        text = human(profile.figures[one.key], one.unit)
        return text if not profile.measured or one.key in profile.own else f"({text})"

    rows = [[one.key, *(cell(profile, one) for profile in found)] for one in profiles.fields()]
    printer.table(("", *(profile.name for profile in found)), rows)
    for one in found:
        printer.say(f"{one.name}: {one.said()}")
    return 0


def listed(as_json: bool) -> int:
    """This user's profiles, those of this machine marked."""
    here = machine.identity()
    found = profiles.stored()
    if as_json:
        show.print_json(
            [
                {"name": one.name, "path": str(one.path), "here": one.head.get("machine") == here, "head": one.head}
                for one in found
            ]
        )
        return 0
    if not found:
        print(f"no profiles in {profiles.directory()}; the built-in ones are {', '.join(profiles.built_in_names())}")
        return 0
    printer = Printer(sys.stdout)
    names = ("machine", "file_system", "mount_point", "made")
    rows = [
        [
            one.name,
            "yes" if one.head.get("machine") == here else "",
            *(str(one.head.get(name, "")) for name in names),
            str(one.path),
        ]
        for one in found
    ]
    printer.table(
        ("", "this machine", "machine", "file system", "mount point", "made", "file"),
        rows,
        ("", "this machine", "machine", "file system", "mount point", "made", "file"),
    )
    return 0
