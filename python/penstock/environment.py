"""The environment variables that put Penstock under a program, and how each launcher carries them to other nodes.  Changes nothing itself."""

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from penstock import hints
from penstock.failure import Failure
from penstock.launcher import Line

LIBRARY = "libpenstock.so"


@dataclass
class Wanted:
    """What the user asked for."""

    report: Path | None = None
    hints: tuple[str, ...] = ()
    strategy: str = ""
    bypass: bool = False


def library_in(directory: Path) -> Path:
    """The library to preload.  Raises Failure when it is not there or its name can not stand in LD_PRELOAD."""
    library = directory / LIBRARY
    if not library.is_file():
        raise Failure(
            f"{LIBRARY} is not in {directory}. In a checkout run `make build`; or set PENSTOCK_LIBDIR to the directory that has it."
        )
    if any(character in str(library) for character in " :\t\n"):
        raise Failure(
            f"{library}: LD_PRELOAD takes no path with a space or a colon. Install Penstock elsewhere, or set PENSTOCK_LIBDIR."
        )
    return library


def preload_list(existing: str, library: Path) -> str:
    """`existing` with `library` behind it: tools such as Darshan must stand before Penstock to see every call."""
    entries = [entry for entry in existing.replace(" ", ":").split(":") if entry]
    others = [entry for entry in entries if Path(entry).name != LIBRARY]
    return ":".join([*others, str(library)])


def pnetcdf_hints(existing: str) -> str:
    """PnetCDF from 1.15 on goes around MPI-IO unless it is told not to.  A driver that the user chose stays."""
    entries = [entry for entry in existing.split(";") if entry.strip()]
    if any(entry.partition("=")[0].strip() == "nc_driver" for entry in entries):
        return existing
    return ";".join([*entries, "nc_driver=mpiio"])


def variables(base: Mapping[str, str], library: Path, wanted: Wanted) -> dict[str, str]:
    """The variables to set, given those of `base`.  Raises Failure (usage) for a hint that can not be meant."""
    entries = hints.split_entries(base.get("PENSTOCK_HINTS", ""))
    if wanted.strategy:
        entries += hints.check(f"*:penstock_strategy={wanted.strategy}")
    for text in wanted.hints:
        entries += hints.check(text)
    out = {
        "LD_PRELOAD": preload_list(base.get("LD_PRELOAD", ""), library),
        "PNETCDF_HINTS": pnetcdf_hints(base.get("PNETCDF_HINTS", "")),
    }
    if wanted.report is not None:
        out["PENSTOCK_REPORT"] = str(wanted.report)
    if entries:
        out["PENSTOCK_HINTS"] = ";".join(entries)
    if wanted.bypass or base.get("PENSTOCK_BYPASS"):
        out["PENSTOCK_BYPASS"] = "1" if wanted.bypass else base["PENSTOCK_BYPASS"]
    return out


def launcher_vendor(launcher: Path) -> str:
    """Whose mpiexec it is: "open-mpi", "hydra" or "" (not known).  Asks the launcher itself; takes milliseconds."""
    try:
        answer = subprocess.run(
            [launcher, "--version"], capture_output=True, timeout=10, stdin=subprocess.DEVNULL, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    text = (answer.stdout + answer.stderr).decode(errors="replace")
    if any(name in text for name in ("Open MPI", "OpenRTE", "PRRTE", "prterun")):
        return "open-mpi"
    return "hydra" if "HYDRA" in text or "Intel(R) MPI" in text else ""


# Open MPI's way to hand variables to other nodes without the command line; it can not be mixed with -x in version 4.
_ENV_LIST = "OMPI_MCA_mca_base_env_list"


def carried(
    line: Line, vendor: str, base: Mapping[str, str], changes: Mapping[str, str]
) -> tuple[list[str], dict[str, str], list[str]]:
    """The words to start, further variables, and sentences of warning, so that `changes` reach ranks on other nodes too.

    Hydra, srun and most others carry the whole environment.  Open MPI carries only what it is told: by -x for each program of the
    line, except where the user already uses mca_base_env_list (version 4 refuses both; and the list loses values with semicolons).
    """
    warnings = _ways_to_lose_them(line)
    if vendor != "open-mpi":
        return list(line.words), {}, warnings
    if base.get(_ENV_LIST):
        lost = sorted(name for name, value in changes.items() if ";" in value)
        if lost:
            warnings.append(
                f"{_ENV_LIST} can not carry {' and '.join(lost)} to other nodes; use mpiexec -x instead of it"
            )
        kept = [f"{name}={value}" for name, value in changes.items() if name not in lost]
        return list(line.words), {_ENV_LIST: ";".join([base[_ENV_LIST], *kept])}, warnings
    if "mca_base_env_list" in line.options:
        warnings.append(
            "this line sets mca_base_env_list, so Penstock's variables stay on this node; use mpiexec -x instead of it"
        )
        return list(line.words), {}, warnings
    words = list(line.words)
    exports = [word for name in changes for word in ("-x", name)]
    for start in reversed(line.part_starts):
        words[start:start] = exports
    return words, {}, warnings


def _ways_to_lose_them(line: Line) -> list[str]:
    warnings = []
    names = "LD_PRELOAD, PENSTOCK_REPORT, PENSTOCK_HINTS and PNETCDF_HINTS"
    for option in line.options:
        bare = option.lstrip("-")
        if line.family == "mpi" and option.startswith("-") and bare in ("genvnone", "genvlist", "envnone", "envlist"):
            warnings.append(f"{option} keeps variables from the ranks; they need {names}")
        if line.family == "srun" and bare.startswith("export=") and "ALL" not in bare:
            warnings.append(f"{option} keeps variables from the ranks; add ALL or {names}")
    for program in line.programs:
        if program.environment_cleared:
            warnings.append(f"env -i clears what Penstock needs for {program.word}; name {names} behind it")
        if program.in_container:
            warnings.append(
                f"{program.word} starts a container: {LIBRARY} and its flavours must be visible inside, at the same path"
            )
    return warnings
