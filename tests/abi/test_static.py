"""Programs that have the MPI library linked in statically, linked with libpenstock-mpich.a: its calls are ours, the native ones behind them.

Needs the built archive (PENSTOCK_LIBRARIES), where MPICH is (PENSTOCK_NATIVE_mpich) with its libmpich.a, its header's directory
(PENSTOCK_INCLUDE_mpich), a C compiler (CC) and mpiexec.mpich; without an archive of MPICH there is nothing to link and the tests are skipped.
"""

import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
MPI_TESTS = HERE.parent / "mpi"
LIBRARIES = Path(os.environ["PENSTOCK_LIBRARIES"])
COMPILER = os.environ.get("CC", "cc")
LAUNCHER = shutil.which("mpiexec.mpich")


def native(name: str) -> Path | None:
    directories = [Path(text) for text in os.environ.get("PENSTOCK_NATIVE_mpich", "").split(":") if text]
    return next((directory / name for directory in directories if (directory / name).exists()), None)


ARCHIVE = native("libmpich.a")


def needed_by_mpich() -> list[str]:
    """What the shared MPICH is linked with, its archive needs as well."""
    listing = subprocess.run(
        ["readelf", "-d", str(native("libmpich.so"))], check=True, capture_output=True, text=True
    ).stdout
    return [f"-l:{name}" for name in re.findall(r"\(NEEDED\).*\[(.*)\]", listing) if not name.startswith("ld-")]


@unittest.skipUnless(ARCHIVE and LAUNCHER, "there is no libmpich.a or no mpiexec.mpich here")
class StaticMpich(unittest.TestCase):
    def setUp(self):
        self.root = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="penstock-static-")))

    def link(self, source: Path, compiler: str = COMPILER, *more: str) -> Path:
        """As a user would: the options file before the MPI library's archive."""
        program = self.root / source.stem
        command = [
            compiler,
            f"-I{os.environ['PENSTOCK_INCLUDE_mpich']}",
            str(source),
            *more,
            "-o",
            str(program),
            f"-L{LIBRARIES}",
            f"@{LIBRARIES}/penstock-mpich.options",
        ]
        command += [str(path) for path in ([native("libmpichfort.a")] if compiler == "gfortran" else [])]
        done = subprocess.run([*command, str(ARCHIVE), *needed_by_mpich()], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        needed = subprocess.run(["readelf", "-d", str(program)], check=True, capture_output=True, text=True).stdout
        self.assertNotRegex(needed, r"\[lib(mpi|penstock)[^\]]*\]", "the libraries were to be linked in")
        return program

    def run_it(self, ranks: int, program: Path, *arguments, **environment) -> str:
        variables = {k: v for k, v in os.environ.items() if not k.startswith(("PENSTOCK_", "LD_PRELOAD"))}
        variables |= {"MPIR_CVAR_DEVICE_COLLECTIVES": "none", "PENSTOCK_TEST_DIRECTORY": str(self.root), **environment}
        done = subprocess.run(
            [LAUNCHER, "-n", str(ranks), str(program), *map(str, arguments)],
            env=variables,
            capture_output=True,
            text=True,
            timeout=240,
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        return done.stdout

    def test_file_calls_are_ours_and_the_native_ones_stay_reachable(self):
        program = self.link(HERE / "two_files.c")
        report = self.root / "report.jsonl"
        lines = self.run_it(
            2, program, self.root / "plain", self.root / "bypassed", PENSTOCK_REPORT=str(report)
        ).splitlines()
        self.assertEqual(
            lines,
            [
                "plain: penstock, data right, handler called 1 times",
                "bypassed: native, data right, handler called 1 times",
            ],
        )
        rows = [json.loads(line) for line in report.read_text().splitlines()]
        self.assertEqual([(row["file"], row["mpi"]) for row in rows], [(str(self.root / "plain"), "mpich")])

    def test_a_c_program(self):
        self.assertRegex(
            self.run_it(3, self.link(MPI_TESTS / "io_c.c", COMPILER, "-std=c17", f"-I{MPI_TESTS}")), r"(?m)^ok$"
        )

    @unittest.skipUnless(
        shutil.which("gfortran") and native("libmpichfort.a"), "there is no gfortran or no libmpichfort.a here"
    )
    def test_a_fortran_program(self):
        program = self.link(
            MPI_TESTS / "io_mpifh.f90", "gfortran", "-cpp", "-fallow-argument-mismatch", f"-I{MPI_TESTS}"
        )
        self.assertRegex(self.run_it(3, program), r"(?m)^ *ok$")


if __name__ == "__main__":
    unittest.main()
