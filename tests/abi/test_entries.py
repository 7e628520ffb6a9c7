"""Whom an entry point asks (src/mpi or the native library), tried with a stand-in mpi.h that lacks all large-count functions.

Needs the generated sources (PENSTOCK_GENERATED) and a C++ compiler (CXX).
"""

import os
import subprocess
import sys
import tempfile
import tomllib
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tools" / "gen"))
import mpi_file  # noqa: E402

FAKE = HERE / "fake"
GENERATED = Path(os.environ["PENSTOCK_GENERATED"])
COMPILER = os.environ.get("CXX", "c++")
HANDLES_H = (
    "#pragma once\n#include <mpi.h>\nnamespace penstock::mpi {\nbool native_of(MPI_File fh, MPI_File* native);\n}\n"
)
ERRORS_H = (
    "#pragma once\n#include <mpi.h>\nnamespace penstock::mpi {\n"
    "template <typename Call> int guarded(MPI_File, Call call) { return call(); }\n}\n"
)
CALLS_HEAD = """#include <string>
#include "mpi/calls.h"
extern std::string last_call;
extern MPI_Count last_call_count;
extern MPI_Count extent_to_give;
extern bool extent_was_null;
namespace penstock::mpi::calls {
"""


def stand_in(function: dict, suffix: str, large: bool) -> str:
    """A definition that notes its name and what the driver checks of its arguments."""
    name = mpi_file.call_name(function) + suffix
    body = f'last_call = "{name}";'
    if mpi_file.has_kind(function, "COUNT"):
        body += " last_call_count = count;"
    if mpi_file.has_kind(function, "EXTENT_OUT"):
        body += " extent_was_null = extent == nullptr; if (extent) *extent = extent_to_give;"
    head = mpi_file.declaration(function, name, large).rstrip(";\n")
    return f"{head} {{ {body} return {{}}; }}\n"


def calls_stand_in(table: dict) -> str:
    out = CALLS_HEAD
    for function in table["function"]:
        if mpi_file.separate_large_call(function):
            out += stand_in(function, "", False) + stand_in(function, "_c", True)
        else:
            out += stand_in(function, "", function.get("large", False))
    return out + "}\n"


class Entries(unittest.TestCase):
    def test_each_sort_of_handle_reaches_the_right_side(self):
        table = tomllib.loads((ROOT / "table" / "mpi_file.toml").read_text())
        with tempfile.TemporaryDirectory(prefix="penstock-entries-") as name:
            work = Path(name)
            (work / "mpi").mkdir()
            (work / "mpi" / "handles.h").write_text(HANDLES_H)
            (work / "mpi" / "errors.h").write_text(ERRORS_H)
            (work / "calls.cpp").write_text(calls_stand_in(table))
            driver = self.build(work)
            done = subprocess.run([str(driver)], capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def build(self, work: Path) -> Path:
        options = [
            "-std=c++20",
            "-Wall",
            "-Wextra",
            "-Wno-unused-parameter",
            "-Werror",
            "-fPIC",
            f"-I{work}",
            f"-I{FAKE / 'include'}",
            f"-I{GENERATED}",
            f"-I{ROOT / 'src'}",
        ]
        library = work / "libnative.so"
        driver = work / "driver"
        # The native library calls MPI_File_open, which the program defines.
        subprocess.run([COMPILER, *options, "-shared", "-o", str(library), str(FAKE / "native_calls.cpp")], check=True)
        sources = [
            FAKE / "entries_driver.cpp",
            work / "calls.cpp",
            GENERATED / "abi" / "entries.cpp",
            ROOT / "src" / "mpi" / "real.cpp",
        ]
        subprocess.run(
            [
                COMPILER,
                *options,
                "-rdynamic",
                "-o",
                str(driver),
                *map(str, sources),
                str(library),
                f"-Wl,-rpath,{work}",
                "-ldl",
            ],
            check=True,
        )
        return driver


if __name__ == "__main__":
    unittest.main()
