"""What the built libraries export, need and contain: the front and every flavour against the standard's list of names.

Needs the built libraries (PENSTOCK_LIBRARIES), which flavours were built (PENSTOCK_BUILT_FLAVOURS, separated by colons) and, for each,
the directories where its MPI library may be (PENSTOCK_NATIVE_mpich and so on).
"""

import os
import platform
import re
import subprocess
import sys
import tomllib
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tools" / "gen"))
import mpi_file  # noqa: E402

LIBRARIES = Path(os.environ["PENSTOCK_LIBRARIES"])
FLAVOURS = [name for name in os.environ.get("PENSTOCK_BUILT_FLAVOURS", "").split(":") if name]
STANDARD = (HERE / "standard_names.txt").read_text().split()
SYMBOLS = {prefix + name for name in STANDARD for prefix in ("", "P")}
LIBC = re.compile(r"(libc|libm|libpthread|libdl|librt|ld-linux[-\w]*)\.so\.\d+")
NATIVE_NAMES = {
    "mpich": ("libmpich.so", "libmpi.so.12"),
    "ompi": ("libmpi.so.40", "libmpi.so"),
    "abi": ("libmpi_abi.so.1", "libmpi_abi.so.0"),
}


def output(*command) -> str:
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout


def symbols(library: Path, which: str) -> set[str]:
    """Names without their versions; undefined ones that libc versions are left out."""
    names = [line.split()[-1] for line in output("nm", "-D", which, library).splitlines()]
    return {name.split("@")[0] for name in names if "@GLIBC" not in name and "@GCC" not in name}


def weak_undefined(library: Path) -> set[str]:
    lines = [line.split() for line in output("nm", "-D", "--undefined-only", library).splitlines()]
    return {fields[-1] for fields in lines if fields[0] in "wv"}


def needed(library: Path) -> list[str]:
    return re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-d", library))


def flavour_library(flavour: str) -> Path:
    return LIBRARIES / f"libpenstock-{flavour}.so"


def native_library(flavour: str) -> Path | None:
    directories = [Path(name) for name in os.environ.get(f"PENSTOCK_NATIVE_{flavour}", "").split(":") if name]
    paths = [directory / name for directory in directories for name in NATIVE_NAMES[flavour]]
    return next((path for path in paths if path.exists()), None)


class Names(unittest.TestCase):
    def test_the_table_has_the_standards_names(self):
        table = tomllib.loads((ROOT / "table" / "mpi_file.toml").read_text())
        names = mpi_file.symbols(table)
        self.assertEqual((len(STANDARD), len(names)), (94, 188))
        self.assertEqual(set(names), SYMBOLS)

    def test_the_front_exports_them_and_its_state(self):
        self.assertEqual(symbols(LIBRARIES / "libpenstock.so", "--defined-only"), SYMBOLS | {"penstock_front_state"})

    def test_every_flavour_exports_them_and_its_start(self):
        for flavour in FLAVOURS:
            with self.subTest(flavour=flavour):
                self.assertEqual(
                    symbols(flavour_library(flavour), "--defined-only"), SYMBOLS | {"penstock_flavour_start"}
                )


class Dependencies(unittest.TestCase):
    def test_the_front_needs_only_libc(self):
        self.assertEqual(
            symbols(LIBRARIES / "libpenstock.so", "--undefined-only") - weak_undefined(LIBRARIES / "libpenstock.so"),
            set(),
        )
        for name in needed(LIBRARIES / "libpenstock.so"):
            self.assertRegex(name, LIBC)

    def test_flavours_bring_their_run_time_libraries_and_leave_mpi_to_the_program(self):
        for flavour in FLAVOURS:
            with self.subTest(flavour=flavour):
                for name in needed(flavour_library(flavour)):
                    self.assertRegex(name, LIBC)

    def test_flavours_are_bound_lazily(self):
        for flavour in FLAVOURS:
            self.assertNotRegex(output("readelf", "-d", flavour_library(flavour)), r"BIND_NOW|\bNOW\b")

    def test_every_symbol_that_a_flavour_lacks_is_one_that_its_mpi_library_has(self):
        for flavour in FLAVOURS:
            native = native_library(flavour)
            with self.subTest(flavour=flavour, native=native):
                if native is None:
                    self.skipTest("built from the header alone, there is no MPI library to compare with")
                library = flavour_library(flavour)
                undefined = symbols(library, "--undefined-only") - weak_undefined(library)
                self.assertEqual(undefined - symbols(native, "--defined-only"), set())

    def test_flavours_lack_nothing_but_mpi(self):
        for flavour in FLAVOURS:
            with self.subTest(flavour=flavour):
                library = flavour_library(flavour)
                undefined = symbols(library, "--undefined-only") - weak_undefined(library)
                self.assertEqual(
                    [
                        name
                        for name in undefined
                        if not re.match(r"PMPI_|MPI_|MPIX_|PMPIX_|MPIR_|ompi_|OMPI_C_MPI_", name)
                    ],
                    [],
                )
                self.assertEqual(undefined & SYMBOLS, set(), "file functions have to be asked for by real_symbol")


@unittest.skipUnless(platform.machine() == "x86_64", "reads x86-64 instructions")
class Stubs(unittest.TestCase):
    def test_every_stub_is_a_jump_through_its_slot(self):
        listing = output("objdump", "-d", "--no-show-raw-insn", LIBRARIES / "libpenstock.so")
        bodies = dict(re.findall(r"^[0-9a-f]+ <(P?MPI_\w+)>:\n((?:.+\n)*)", listing, re.MULTILINE))
        self.assertEqual(set(bodies), SYMBOLS)
        slots = set()
        for name, body in bodies.items():
            code = [re.sub(r"\s+", " ", line.split("\t", 1)[1]).strip() for line in body.splitlines()]
            code = [line for line in code if not re.match(r"endbr64|nop|xchg %ax,%ax|cs nop|data16", line)]
            self.assertEqual(len(code), 2, f"{name}: {code}")
            load = re.fullmatch(r"mov 0x[0-9a-f]+\(%rip\),%rax # ([0-9a-f]+) <slots(?:\+0x[0-9a-f]+)?>", code[0])
            self.assertTrue(load and re.fullmatch(r"jmp \*%rax", code[1]), f"{name}: {code}")
            slots.add(load.group(1))
        self.assertEqual(len(slots), len(SYMBOLS))


if __name__ == "__main__":
    unittest.main()
