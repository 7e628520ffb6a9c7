"""Looks at a program before it is started: can the library be preloaded into it at all?"""

import stat
from pathlib import Path

from penstock import elf
from penstock.failure import Failure
from penstock.launcher import Line, Program

_LINK = "Link it with -L{directory} @{directory}/penstock-mpich.options before its MPI library if that is MPICH's, or link it dynamically."


def problem_of(path: Path, library: Path, library_elf: elf.Elf) -> str:
    """One sentence that says why Penstock can not work in the program at `path`, or ""."""
    try:
        program = elf.read(path)
    except (elf.NotElf, OSError):
        return ""  # a script, or something only the launcher understands
    link = _LINK.format(directory=library.parent)
    if not program.same_machine(library_elf):
        return f"{path} is made for {program.machine_text}, {library} for {library_elf.machine_text}. Build Penstock for that machine."
    if program.statically_linked and not path.name.startswith("ld-"):
        return f"{path} is linked statically, so nothing can be preloaded into it. {link}"
    if program.defines_mpi and not any(name.startswith(("libmpi", "libmpich")) for name in program.needed):
        return f"{path} has its MPI library linked in statically, so its MPI calls can not be taken over. {link}"
    if path.stat().st_mode & (stat.S_ISUID | stat.S_ISGID):
        return f"{path} is set-user-id or set-group-id, and the system ignores LD_PRELOAD for it. Remove that bit from a copy."
    return ""


def check(line: Line, library: Path) -> list[str]:
    """Raises Failure when a program of the line can not work; returns sentences about those that were not found."""
    try:
        library_elf = elf.read(library)
    except (elf.NotElf, OSError) as error:
        raise Failure(f"{library}: {error}; build it again with `make build`") from error
    notes = []
    for program in line.programs:
        if program.path is None:
            notes.append(_not_found(program))
        elif text := problem_of(program.path, library, library_elf):
            raise Failure(text)
    return notes


def _not_found(program: Program) -> str:
    what = program.word or "the program"
    return f"{what} was not found here as an executable, so it was not checked for static linking"
