"""penstock info: what is installed, which MPI libraries it would serve, which hints there are."""

import importlib.metadata
import os
import platform
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from penstock import __version__, elf, hints, paths, show

# Which flavour serves an MPI library, by the library's own name.
_SONAMES = {
    "mpich": re.compile(r"libmpi(ch)?\.so\.12"),
    "ompi": re.compile(r"libmpi\.so\.40"),
    "abi": re.compile(r"libmpi_abi\.so\.[01]"),
}
_PYTHON_MODULES = ("typer", "rich", "numpy", "matplotlib", "mpi4py")


def _library_directories() -> list[Path]:
    """Where MPI libraries may lie: the loader's paths, beside each mpiexec in PATH, and this Python's own lib."""
    found = [Path(entry) for entry in os.environ.get("LD_LIBRARY_PATH", "").split(":") if entry]
    for entry in os.get_exec_path():
        if (Path(entry) / "mpiexec").exists():
            found.append(Path(entry).parent / "lib")
    found.append(Path(sys.prefix) / "lib")
    try:
        listing = subprocess.run(
            ["/sbin/ldconfig", "-p"], capture_output=True, text=True, errors="replace", timeout=10, check=False
        ).stdout
        found += [Path(line.rpartition("=> ")[2]).parent for line in listing.splitlines() if "libmpi" in line]
    except (OSError, subprocess.TimeoutExpired):
        found += [Path("/usr/lib"), Path("/usr/lib64"), Path("/lib")]
    return list(dict.fromkeys(found))


def mpi_libraries(directories: list[Path]) -> list[dict[str, str]]:
    """The MPI libraries in `directories`, each once, with the flavour that serves it."""
    found: dict[Path, dict[str, str]] = {}
    for directory in directories:
        for path in sorted(directory.glob("libmpi*.so.*")) if directory.is_dir() else []:
            for flavour, pattern in _SONAMES.items():
                if pattern.fullmatch(path.name):
                    found.setdefault(path.resolve(), {"library": str(path), "soname": path.name, "flavour": flavour})
    return list(found.values())


def flavours(directory: Path, libraries: list[dict[str, str]]) -> list[dict[str, Any]]:
    """Which libpenstock-*.so are built, and what each would serve."""
    rows = []
    for flavour in _SONAMES:
        path = directory / f"libpenstock-{flavour}.so"
        problem = ""
        if path.is_file():
            try:
                elf.read(path)
            except (OSError, elf.NotElf) as error:
                problem = str(error)
        rows.append(
            {
                "flavour": flavour,
                "library": str(path) if path.is_file() else "",
                "problem": problem,
                "serves": [row["library"] for row in libraries if row["flavour"] == flavour],
            }
        )
    return rows


def _version_of(module: str) -> str:
    try:
        return importlib.metadata.version(module)
    except importlib.metadata.PackageNotFoundError:
        return ""


def facts() -> dict[str, Any]:
    directory = paths.library_directory()
    front = directory / "libpenstock.so"
    return {
        "version": __version__,
        "front": str(front) if front.is_file() else "",
        "library_directory": str(directory),
        "flavours": flavours(directory, mpi_libraries(_library_directories())),
        "stores": tomllib.loads(paths.table_file("stores").read_text())["store"],
        "hints": [
            {
                "name": h.name,
                "aliases": list(h.aliases),
                "values": h.values,
                "default": h.default,
                "scope": h.scope,
                "text": h.text,
            }
            for h in hints.table()
        ],
        "python": {"version": platform.python_version(), "executable": sys.executable}
        | {"modules": {module: _version_of(module) for module in _PYTHON_MODULES}},
    }


def run(as_json: bool) -> int:
    """Exit code 1 when there is no library to preload."""
    found = facts()
    if as_json:
        show.print_json(found)
    else:
        _print(found)
    return 0 if found["front"] else 1


def _print(found: dict[str, Any]) -> None:
    print(f"Penstock {found['version']}")
    print(
        f"  preload   {found['front'] or 'libpenstock.so is not in ' + found['library_directory'] + '; run make build'}"
    )
    for row in found["flavours"]:
        print(f"  {row['flavour']:<9} {row['library'] or 'not built'}{': ' + row['problem'] if row['problem'] else ''}")
        for library in row["serves"]:
            print(f"            serves {library}")
    print("Stores")
    for store in found["stores"]:
        print(f"  {store['name']:<9} {store['text']}")
    print("Hints (penstock-hints(7))")
    for hint in found["hints"]:
        print(f"  {hint['name']} = {hint['values']}{' [' + hint['default'] + ']' if hint['default'] else ''}")
        print(f"      {hint['text']}")
    python = found["python"]
    print(f"Python {python['version']}, {python['executable']}")
    for module, version in python["modules"].items():
        print(f"  {module:<11} {version or 'not there'}")
