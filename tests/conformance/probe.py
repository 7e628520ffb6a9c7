"""Checks, before any suite runs, that the preload serves files at all: results under a preload that does nothing would prove nothing."""

import re
import tempfile
from pathlib import Path

from execute import run_program
from implementations import Implementation

import build
from model import Missing

IN_PYTHON = """
from mpi4py import MPI
file = MPI.File.Open(MPI.COMM_WORLD, "probe.file", MPI.MODE_CREATE | MPI.MODE_RDWR | MPI.MODE_DELETE_ON_CLOSE)
info = file.Get_info()
print("store:", info.get("penstock_store") or "native")
file.Close()
"""


def _program(on: Implementation, cache: Path) -> list[str]:
    if not on.cc:
        return [on.python, "-c", IN_PYTHON]
    output = cache / "build" / on.key / "probe"
    output.parent.mkdir(parents=True, exist_ok=True)
    source = Path(__file__).with_name("probe.c")
    build.run(
        [on.cc, "-O1", str(source), "-o", str(output)],
        output.parent,
        output.with_suffix(".log"),
        f"{on.name}: probe",
        on.base_environment(),
    )
    return [str(output)]


def check(on: Implementation, cache: Path, preload: dict[str, str]) -> str:
    """The store that serves a file under the preload.  Raises Missing when it is the native library that does."""
    program = _program(on, cache)
    with tempfile.TemporaryDirectory(prefix="penstock-probe-") as directory:
        ended = run_program(
            on.command(2, program, dict(on.python_environment) | preload), on.base_environment(), Path(directory), 60.0
        )
    found = re.findall(r"store: (\S+)", ended.stdout)
    if len(found) != 2 or "native" in found:
        said = (ended.stderr or ended.stdout).strip()[-400:]
        raise Missing(
            f"{on.name}: {preload['LD_PRELOAD']} does not take MPI_File_open over (served by {', '.join(found) or 'nobody'}); {said}"
        )
    return found[0]
