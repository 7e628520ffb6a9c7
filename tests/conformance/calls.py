"""Which MPI file functions a test's source or program names: the input of the coverage tables.  Runs no test."""

import re
import subprocess
from functools import cache

CALL = re.compile(r"^p?(mpi_file_\w+?|mpi_register_datarep\w*?)(?:_f08|_f08ts)?_{0,2}$")
# Methods that communicators, groups, types or infos have too, and what test classes call a file.
SHARED_NAMES = {
    "Get_size",
    "Get_group",
    "Get_info",
    "Set_info",
    "Get_errhandler",
    "Set_errhandler",
    "Call_errhandler",
    "Free",
    "Dup",
    "Close",
    "Delete",
}
FILE_VARIABLES = {"fh", "FILE", "File", "file", "mpiobj"}
SET_BY_LIBRARIES = {"mpi_file_null", "mpi_file_null_copy_fn", "mpi_file_null_delete_fn"}


def canonical(symbol: str) -> str:
    """`PMPI_File_open`, `mpi_file_open_` and `mpi_file_open_f08_` are all `mpi_file_open`; "" for everything else."""
    found = CALL.match(symbol.lower())
    return "" if not found or found.group(1) in SET_BY_LIBRARIES else found.group(1)


@cache
def of_program(program: str) -> tuple[str, ...]:
    """What a compiled program asks of the MPI library.  Empty for scripts and where nm cannot read it."""
    try:
        done = subprocess.run(
            ["nm", "-D", "--undefined-only", program],
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except OSError:
        return ()
    found = {canonical(line.split()[-1].split("@")[0]) for line in done.stdout.splitlines() if line.split()}
    return tuple(sorted(found - {""}))


def of_python_class(text: str, name: str) -> tuple[str, ...]:
    """What the methods of a test class and of its bases in the same file call on a file: `.Read_at_all(` is mpi_file_read_at_all."""
    found: set[str] = set()
    waiting, seen = [name], set()
    while waiting:
        current = waiting.pop()
        body = re.search(rf"(?ms)^class {current}\b\(?(.*?)\)?:\n(.*?)(?=^\S|\Z)", text)
        if current in seen or not body:
            continue
        seen.add(current)
        waiting += re.findall(r"\b(\w+)\b", body.group(1))
        for holder, call in re.findall(r"(\w+)\.([A-Z][a-z]\w*)\(", body.group(2)):
            if holder in FILE_VARIABLES or call not in SHARED_NAMES:
                found.add(f"mpi_file_{call.lower()}")
        found.update("mpi_register_datarep" for _ in re.findall(r"\bRegister_datarep\(", body.group(2)))
    return tuple(sorted(found))
