"""How libpenstock.so finds the MPI library of a process and whom the calls go to, tried with stand-ins for MPI libraries and flavours.

Needs the built front (PENSTOCK_LIBRARIES), the generated headers (PENSTOCK_GENERATED) and a C compiler (CC).
"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
FAKE = HERE / "fake"
LIBRARIES = Path(os.environ["PENSTOCK_LIBRARIES"])
GENERATED = Path(os.environ["PENSTOCK_GENERATED"])
COMPILER = os.environ.get("CC", "cc")
MPICH, OMPI, ABI = 1000, 2000, 3000  # what each stand-in answers


def compile_c(output: Path, source: str, *options: str) -> Path:
    command = [
        COMPILER,
        "-std=gnu11",
        "-O1",
        "-fPIC",
        f"-I{GENERATED}",
        "-o",
        str(output),
        str(FAKE / source),
        *options,
    ]
    subprocess.run(command, check=True)
    return output


def native(directory: Path, file_name: str, mark: str, answer: int) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    return compile_c(
        directory / file_name,
        "native.c",
        "-shared",
        f"-DFAMILY_MARK={mark}",
        f"-DANSWER={answer}",
        f"-Wl,-soname,{file_name}",
    )


def linked_with(library: Path | None) -> list[str]:
    if library is None:
        return ["-ldl", "-pthread"]
    return ["-Wl,--no-as-needed", str(library), f"-Wl,-rpath,{library.parent}", "-ldl", "-pthread"]


class Front(unittest.TestCase):
    """Each test has the front and the stand-ins for its flavours in a directory of its own."""

    @classmethod
    def setUpClass(cls):
        cls.root = Path(tempfile.mkdtemp(prefix="penstock-front-"))
        cls.mpich = native(cls.root / "mpich", "libmpi.so.12", "MPIR_Dup_fn", MPICH)
        cls.ompi = native(cls.root / "ompi", "libmpi.so.40", "ompi_mpi_comm_world", OMPI)
        cls.abi = native(cls.root / "abi", "libmpi_abi.so.1", "ompi_mpi_comm_world", ABI)
        cls.renamed = native(cls.root / "renamed", "libmpi-3f2a9c1d.so.40.30.7", "ompi_mpi_comm_world", OMPI)
        cls.unknown = native(cls.root / "unknown", "libmpi.so.3", "somebody_elses_mark", 4000)
        cls.plain = compile_c(cls.root / "plain", "program.c", *linked_with(None))
        cls.installed = cls.root / "installed"
        cls.installed.mkdir()
        shutil.copy(LIBRARIES / "libpenstock.so", cls.installed)
        for flavour in ("mpich", "ompi", "abi"):
            compile_c(cls.installed / f"libpenstock-{flavour}.so", "flavour.c", "-shared")
        cls.names = cls.root / "names"
        standard = (HERE / "standard_names.txt").read_text().split()
        cls.names.write_text("\n".join(prefix + name for name in standard for prefix in ("", "P")))

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.root)

    def program(self, library: Path) -> Path:
        path = self.root / f"program-{library.parent.name}"
        return path if path.exists() else compile_c(path, "program.c", *linked_with(library))

    def module(self, library: Path) -> Path:
        path = self.root / f"module-{library.parent.name}.so"
        return path if path.exists() else compile_c(path, "module.c", "-shared", *linked_with(library))

    def run_preloaded(
        self, program: Path, *arguments, preload: str | None = None, cwd=None, **environment
    ) -> list[str]:
        """The lines that the program printed; it must print nothing else anywhere."""
        variables = {k: v for k, v in os.environ.items() if not k.startswith(("PENSTOCK_", "LD_"))}
        variables |= {"LD_PRELOAD": preload or str(self.installed / "libpenstock.so"), **environment}
        done = subprocess.run(
            [str(program), *map(str, arguments)], env=variables, cwd=cwd, capture_output=True, text=True, timeout=60
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        return done.stdout.splitlines()

    def test_every_function_goes_to_the_flavour_function_of_its_name(self):
        right, state = self.run_preloaded(self.program(self.mpich), "all-names", self.names)
        self.assertEqual(right, "188")
        self.assertEqual(state, f"flavour: file calls go to {self.installed}/libpenstock-mpich.so for {self.mpich}")

    def test_six_whole_words_and_the_result_pass_unchanged(self):
        for first in ([], ["call", "PMPI_File_set_view", 0, 0]):  # at the first call, and through a filled slot
            with self.subTest(first=first):
                *_, answer, _ = self.run_preloaded(self.program(self.mpich), *first, "words")
                self.assertEqual(int(answer), 21 * 0x100000001)

    def test_each_abi_gets_its_flavour(self):
        for library, flavour in ((self.mpich, "mpich"), (self.ompi, "ompi"), (self.abi, "abi"), (self.renamed, "ompi")):
            with self.subTest(library=library.name):
                state = self.run_preloaded(self.program(library), "call", "MPI_File_sync", 0, 0)[-1]
                self.assertEqual(
                    state, f"flavour: file calls go to {self.installed}/libpenstock-{flavour}.so for {library}"
                )

    def test_a_private_mpi_library_is_found_and_put_in_reach(self):
        for library, answer in ((self.mpich, MPICH), (self.ompi, OMPI), (self.renamed, OMPI), (self.abi, ABI)):
            with self.subTest(library=library.name):
                module = self.module(library)
                data, plain, twin, state = self.run_preloaded(
                    self.plain, "module", module, -1, 1, "module", module, -1, 2, "module", module, -1, 3
                )
                self.assertEqual([int(data), int(plain), int(twin)], [answer, answer, answer + 1])
                self.assertTrue(state.endswith(f"for {library}"), state)

    def test_of_several_private_libraries_the_callers_is_used(self):
        for caller, answer, other in ((self.ompi, OMPI, self.mpich), (self.mpich, MPICH, self.ompi)):
            with self.subTest(caller=caller.name):
                module = self.module(caller)
                data, native_answer, state = self.run_preloaded(
                    self.plain, "load", other, "module", module, -1, 1, "module", module, -1, 2
                )
                self.assertEqual([int(data), int(native_answer)], [answer, answer])
                self.assertTrue(state.startswith("flavour:") and state.endswith(f"for {caller}"), state)

    def test_a_library_behind_another_is_served_natively(self):
        answer, state = self.run_preloaded(self.program(self.mpich), "module", self.module(self.ompi), 0, 0)
        self.assertEqual(int(answer), OMPI)
        self.assertTrue(
            state.startswith(f"native: file calls go to {self.ompi}, not to Penstock: another MPI library"), state
        )

    def test_bypass_goes_to_the_native_library(self):
        plain, twin, missing, state = self.run_preloaded(
            self.program(self.mpich),
            "call",
            "MPI_File_get_size",
            0,
            0,
            "call",
            "PMPI_File_get_size",
            0,
            0,
            "call",
            "MPI_File_read_c",
            0,
            0,
            PENSTOCK_BYPASS="1",
        )
        self.assertEqual([int(plain), int(twin), int(missing)], [MPICH, MPICH + 1, 16])
        self.assertTrue(state.startswith("bypass:"), state)

    def test_bypass_set_to_nothing_or_zero_is_off(self):
        for value in ("", "0"):
            state = self.run_preloaded(self.program(self.mpich), "call", "MPI_File_sync", 0, 0, PENSTOCK_BYPASS=value)[
                -1
            ]
            self.assertTrue(state.startswith("flavour:"), state)

    def passes_through(self, directory: Path, why: str):
        log = self.root / f"log-{directory.name}"
        answer, state = self.run_preloaded(
            self.program(self.mpich),
            "call",
            "MPI_File_get_size",
            0,
            0,
            preload=f"{directory}/libpenstock.so",
            PENSTOCK_LOG=str(log),
        )
        self.assertEqual(int(answer), MPICH)
        self.assertIn(why, state)
        lines = log.read_text().splitlines()
        self.assertEqual(len(lines), 1)
        self.assertTrue(lines[0].endswith(state), lines)

    def test_without_its_flavour_it_passes_through_and_logs_why(self):
        directory = self.root / "alone"
        directory.mkdir()
        shutil.copy(self.installed / "libpenstock.so", directory)
        self.passes_through(directory, f"cannot load {directory}/libpenstock-mpich.so")

    def test_a_flavour_that_does_not_load_passes_through(self):
        directory = self.root / "broken"
        directory.mkdir()
        shutil.copy(self.installed / "libpenstock.so", directory)
        (directory / "libpenstock-mpich.so").write_text("not a library")
        self.passes_through(directory, "cannot load")

    def test_a_flavour_of_another_build_passes_through(self):
        directory = self.root / "mixed"
        directory.mkdir()
        shutil.copy(self.installed / "libpenstock.so", directory)
        compile_c(directory / "libpenstock-mpich.so", "quiet.c", "-shared")
        self.passes_through(directory, "lacks functions")

    def test_an_unknown_mpi_is_left_alone(self):
        answer, state = self.run_preloaded(self.program(self.unknown), "call", "MPI_File_get_size", 0, 0)
        self.assertEqual(int(answer), 4000)
        self.assertTrue(state.startswith("native:"), state)

    def test_without_mpi_calls_fail_and_a_later_mpi_is_still_found(self):
        error, handle, answer, state = self.run_preloaded(
            self.plain,
            "call",
            "MPI_File_open",
            0,
            0,
            "call",
            "MPI_File_fromint",
            7,
            0,
            "module",
            self.module(self.mpich),
            -1,
            2,
        )
        self.assertEqual([int(error), int(handle), int(answer)], [16, 0, MPICH])
        self.assertTrue(state.startswith("flavour:"), state)

    def test_without_mpi_it_says_so(self):
        self.assertTrue(self.run_preloaded(self.plain, "call", "PMPI_File_sync", 0, 0)[-1].startswith("absent:"))

    def test_a_relative_preload_survives_a_change_of_directory(self):
        right, state = self.run_preloaded(
            self.program(self.mpich),
            "chdir",
            "/",
            "all-names",
            self.names,
            preload="./libpenstock.so",
            cwd=self.installed,
        )
        self.assertEqual(right, "188")
        self.assertTrue(state.startswith("flavour:"), state)

    def test_flavours_may_lie_beside_what_a_link_points_to(self):
        directory = self.root / "links"
        directory.mkdir()
        (directory / "libpenstock.so").symlink_to(self.installed / "libpenstock.so")
        right, _ = self.run_preloaded(
            self.program(self.mpich), "all-names", self.names, preload=f"{directory}/libpenstock.so"
        )
        self.assertEqual(right, "188")

    def test_threads_may_make_the_first_call_together(self):
        self.assertEqual(self.run_preloaded(self.program(self.mpich), "threads")[0], "8 of 8")

    def test_a_call_from_within_the_loading_flavour_goes_to_the_native_library(self):
        answer, _ = self.run_preloaded(self.program(self.mpich), "call", "MPI_File_sync", -1, 4, FAKE_REENTER="1")
        self.assertEqual(int(answer), MPICH)

    def test_errno_and_dlerror_stay_the_programs(self):
        self.assertEqual(self.run_preloaded(self.program(self.mpich), "errno")[0], "kept")

    def test_other_programs_do_not_notice(self):
        for command in (["/bin/true"], ["/bin/sh", "-c", "exit 0"], [sys.executable, "-c", "import ctypes"]):
            with self.subTest(command=command):
                self.assertEqual(self.run_preloaded(Path(command[0]), *command[1:]), [])


if __name__ == "__main__":
    unittest.main()
