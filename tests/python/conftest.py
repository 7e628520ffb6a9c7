"""What the command line's tests share: the command as a process, a stand-in for the library, small programs to run under it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "python"), str(TOP / "tests"), str(TOP / "tools"), str(TOP / "tools" / "gen")]

# Stands in for libpenstock.so: closing a file appends the line that the test wants to the report.
FAKE_LIBRARY = r"""
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>
int MPI_File_close(void* file) {
  const char* name = getenv("PENSTOCK_REPORT");
  const char* line = getenv("FAKE_LINE");
  if (!name || !line || getenv("PENSTOCK_BYPASS")) return 0;
  int handle = open(name, O_WRONLY | O_APPEND | O_CREAT, 0666);
  if (handle < 0) return 1;
  /* One write, as the library does it: in two, the lines of two ranks would mix. */
  struct iovec both[] = {{(char*)line, strlen(line)}, {"\n", 1}};
  long written = writev(handle, both, 2);
  close(handle);
  return written != (long)strlen(line) + 1;
}
"""
# Calls MPI_File_close if something in the process has it; ends with its first argument as exit code.
PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
int MPI_File_close(void*) __attribute__((weak));
int main(int count, char** words) {
  printf("the program's own output\n");
  if (MPI_File_close && MPI_File_close(0)) return 99;
  return count > 1 ? atoi(words[1]) : 0;
}
"""


def compile_c(source: str, output: Path, *options: str) -> Path:
    code = output.with_suffix(".c")
    code.write_text(source)
    subprocess.run(["cc", "-o", output, code, *options], check=True, capture_output=True)
    return output


def report_line(**changes) -> dict:
    """A line as the library writes it: 2 ranks, 3 s of wall time in three phases."""
    line = {
        "version": 1,
        "kind": "file",
        "file": "/data/out.nc",
        "store": "posix",
        "file_system": "tmpfs",
        "mpi": "mpich",
        "ranks": 2,
        "nodes": 1,
        "opened": 1770000000.5,
        "open_seconds": 4.0,
        "strategy": "mapped 90 %, independent 10 %",
        "counters": {
            "calls_read": 10,
            "calls_write": 2,
            "bytes_read": 4096,
            "bytes_written": 1024,
            "pieces": 640,
            "mapped": 11,
        },
        "writing": {
            "counters": {"calls_write": 2, "bytes_written": 1024},
            "phases": {"wait": {"sum": 0.25, "max": 0.25}},
        },
        "reading": {
            "counters": {"calls_read": 10, "bytes_read": 4096, "pieces": 640, "mapped": 11},
            "phases": {"copy": {"sum": 2.25, "max": 1.25}},
        },
        "wall_seconds": {"sum": 3.0, "max": 1.75},
        "phases": {
            "open": {"sum": 0.5, "max": 0.25},
            "copy": {"sum": 2.25, "max": 1.25},
            "wait": {"sum": 0.25, "max": 0.25},
        },
        "background_seconds": {"sum": 0.125, "max": 0.125},
        "hints": {"penstock_strategy": "automatic"},
        "complaints": [],
        "errors": [],
    }
    return line | changes


@pytest.fixture(scope="session")
def library(tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("lib")
    return compile_c(FAKE_LIBRARY, directory / "libpenstock.so", "-shared", "-fPIC")


@pytest.fixture(scope="session")
def program(tmp_path_factory) -> Path:
    return compile_c(PROGRAM, tmp_path_factory.mktemp("bin") / "app")


@pytest.fixture
def penstock(library, tmp_path):
    """Calls the command in a directory of its own, on the stand-in library."""

    def call(*words, environment=None, directory=tmp_path, program=TOP / "bin" / "penstock", **more):
        variables = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PENSTOCK", "LD_PRELOAD", "PNETCDF"))
        }
        variables |= {"PENSTOCK_LIBDIR": str(library.parent), "FAKE_LINE": json.dumps(report_line())} | (
            environment or {}
        )
        return subprocess.run(
            [program, *words],
            cwd=directory,
            env=variables,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            **more,
        )

    return call


@pytest.fixture
def launcher(tmp_path):
    """Makes a launcher of a given name and vendor in a directory of its own; it skips options with one value and starts the rest."""

    def make(name="mpiexec", says="HYDRA build details"):
        directory = tmp_path / "launchers"
        directory.mkdir(exist_ok=True)
        path = directory / name
        path.write_text(
            f'#!/bin/sh\n[ "$1" = --version ] && {{ echo "{says}"; exit 0; }}\n'
            'while [ "${1#-}" != "$1" ]; do shift 2; done\nexec "$@"\n'
        )
        path.chmod(0o755)
        return path

    return make


@pytest.fixture
def needs_static(tmp_path) -> Path:
    """A statically linked program; skipped where the C library has no static form."""
    try:
        return compile_c("int main(void) { return 0; }", tmp_path / "static", "-static")
    except subprocess.CalledProcessError:
        pytest.skip("cc can not link statically here")


def real_launchers() -> list[str]:
    return [name for name in ("mpiexec.mpich", "mpiexec.openmpi") if shutil.which(name)]
