"""Want of memory in the library: every allocation of a sequence of calls fails once, each call returns a code, and the next file goes right.

With one rank, under each MPI and strategy.  Needs the built libraries (PENSTOCK_LIBRARIES), and for each MPI its mpicc and mpiexec; an MPI that is not there is
skipped.
"""

import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
LIBRARIES = Path(os.environ["PENSTOCK_LIBRARIES"])
FLAVOURS = {"mpich": "mpich", "openmpi": "ompi"}
STRATEGIES = ("automatic", "independent", "sieved", "two_phase", "two_layer")
ALLOCATIONS_LEAST = 100


class Memory(unittest.TestCase):
    def test_no_call_ends_the_program_for_want_of_memory(self):
        for mpi, flavour in FLAVOURS.items():
            compiler, launcher = shutil.which(f"mpicc.{mpi}"), shutil.which(f"mpiexec.{mpi}")
            with self.subTest(mpi=mpi):
                if not compiler or not launcher or not (LIBRARIES / f"libpenstock-{flavour}.so").exists():
                    self.skipTest(f"there is no {mpi} here, or no flavour for it")
                with tempfile.TemporaryDirectory(prefix="penstock-memory-") as directory:
                    self.run_all([compiler], [launcher], Path(directory))

    def run_all(self, compiler: list[str], launcher: list[str], root: Path) -> None:
        program, failing = root / "short_of_memory", root / "libfailing.so"
        subprocess.run(
            [*compiler, "-std=gnu17", "-O1", HERE / "short_of_memory.c", "-o", program, "-ldl", "-lpthread"], check=True
        )
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", failing, HERE / "failing_malloc.c"], check=True)
        variables = {k: v for k, v in os.environ.items() if not k.startswith(("PENSTOCK_", "LD_PRELOAD"))}
        variables |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        preload = f"LD_PRELOAD={failing}:{LIBRARIES / 'libpenstock.so'}"
        for strategy in STRATEGIES:
            with self.subTest(strategy=strategy):
                command = [*launcher, "-n", "1", "env", preload, program, root / "data", strategy]
                done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=120, check=False)
                told = re.search(r"^(\d+) allocations failed, (\d+) times", done.stdout, re.MULTILINE)
                self.assertTrue(told, done.stdout + done.stderr)
                failed, noticed = (int(number) for number in told.groups())
                self.assertGreater(failed, ALLOCATIONS_LEAST)
                self.assertGreater(noticed, failed // 2)


if __name__ == "__main__":
    unittest.main()
