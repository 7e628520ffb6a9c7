"""mpi4py's tests of files: test_io, test_file and the error handlers of files, on 1 to 4 ranks, from the source of the version installed.

Each test class is one run; where mpi4py leaves tests out by the name or version of the MPI library, a second run ignores that.
"""

import re
import subprocess
from pathlib import Path

import calls
from implementations import Implementation
from sources import python_source

from model import Missing, Step, Suite, Test

NAME = "mpi4py"
MODULES = {"test_io": r"Test\w+", "test_file": r"Test\w+", "test_errhandler": r"TestErrhandlerFile"}
RANKS = (1, 2, 3, 4)
DRIVER = Path(__file__).with_name("mpi4py_driver.py")


def test_classes(text: str, pattern: str) -> list[str]:
    return re.findall(rf"(?m)^class ({pattern})\(", text)


def _installed(python: str) -> str:
    done = subprocess.run(
        [python, "-c", "import importlib.metadata as m; print(m.version('mpi4py'))"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise Missing(f"{NAME}: {python} has no mpi4py")
    return done.stdout.strip()


def prepare(on: Implementation, cache: Path) -> Suite:
    if not on.python:
        raise Missing(f"{NAME} on {on.name}: no Python with mpi4py")
    source = python_source("mpi4py", _installed(on.python), on.python, cache)
    directory = source.tree / "test"
    environment = tuple(sorted((on.python_environment | {"TMPDIR": "."}).items()))  # where its tests put their files
    made = []
    for module, pattern in MODULES.items():
        text = (directory / f"{module}.py").read_text()
        names = test_classes(text, pattern)
        if not names:
            raise Missing(f"{NAME}: no test class {pattern} in {directory / module}.py")
        for name in names:
            for ranks in RANKS:
                for ignore in (False, True) if "skipMPI" in text else (False,):
                    arguments = (str(DRIVER), str(directory), module, name, *(("--ignore-skips",) if ignore else ()))
                    step = Step(on.python, arguments, ranks, "exit", environment)
                    label = f"{module}.{name}" + ("/all" if ignore else "")
                    made.append(Test(NAME, label, (step,), 180.0, calls=calls.of_python_class(text, name)))
    return Suite(NAME, made, [source.as_dict()])
