"""Profiling tools beside us in LD_PRELOAD, with a stand-in that wraps every MPI_File_* as Darshan does (PMPI_* of whoever comes next).

Before us it sees every call, as often as without us.  Behind us it sees what we forward: the files that are bypassed.
Needs the built libraries (PENSTOCK_LIBRARIES), and for each MPI its mpicc and mpiexec; an MPI that is not there is skipped.
"""

import os
import shutil
import subprocess
import tempfile
import unittest
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
MPI_TESTS = HERE.parent / "mpi"
LIBRARIES = Path(os.environ["PENSTOCK_LIBRARIES"])
FRONT = LIBRARIES / "libpenstock.so"
NAMES = (HERE / "standard_names.txt").read_text().split()
LAUNCH = {
    "mpich": ["mpiexec.mpich"],
    "openmpi": ["mpiexec.openmpi", "--oversubscribe", "--bind-to", "none", "--mca", "btl", "self,vader"],
}
FLAVOURS = {"mpich": "mpich", "openmpi": "ompi"}

# Every argument is an integer or a pointer and no function has more than six, so one shape fits all.
HEAD = """#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
typedef long (*Function)(long, long, long, long, long, long);
static const char* const names[];
static atomic_int counts[200];
static long pass(int which, const char* next, long a, long b, long c, long d, long e, long f) {
  atomic_fetch_add(&counts[which], 1);
  Function function = (Function)dlsym(RTLD_NEXT, next);
  if (function == NULL) abort();
  return function(a, b, c, d, e, f);
}
__attribute__((destructor)) static void tell(void) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%ld", getenv("TOOL_OUTPUT"), (long)getpid());
  FILE* file = NULL;
  for (int i = 0; names[i] != NULL; ++i) {
    if (counts[i] == 0) continue;
    if (file == NULL) file = fopen(path, "w");
    fprintf(file, "%s %d\\n", names[i], counts[i]);
  }
  if (file != NULL) fclose(file);
}
"""
WRAPPER = 'long {name}(long a, long b, long c, long d, long e, long f) {{ return pass({index}, "P{name}", a, b, c, d, e, f); }}\n'


class Tools(unittest.TestCase):
    mpi = ""

    @classmethod
    def setUpClass(cls):
        if not cls.mpi:
            raise unittest.SkipTest("for the MPIs below")
        cls.compiler = shutil.which(f"mpicc.{cls.mpi}")
        if (
            not cls.compiler
            or not shutil.which(LAUNCH[cls.mpi][0])
            or not (LIBRARIES / f"libpenstock-{FLAVOURS[cls.mpi]}.so").exists()
        ):
            raise unittest.SkipTest(f"there is no {cls.mpi} here, or no flavour for it")
        cls.root = Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="penstock-tools-")))
        source = HEAD + "".join(WRAPPER.format(name=name, index=i) for i, name in enumerate(NAMES))
        source += "static const char* const names[] = {" + ", ".join(f'"{name}"' for name in NAMES) + ", 0};\n"
        (cls.root / "tool.c").write_text(source)
        cls.tool = cls.root / "libtool.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", cls.tool, cls.root / "tool.c", "-ldl"], check=True)

    def program(self, source: Path, *options: str) -> Path:
        program = self.root / source.stem
        if not program.exists():
            subprocess.run([self.compiler, *options, str(source), "-o", str(program)], check=True)
        return program

    def seen(self, preload: list[Path], program: Path, *arguments) -> tuple[Counter, str]:
        """How often the tool was called in 2 ranks, and what they printed."""
        with tempfile.TemporaryDirectory(dir=self.root) as output:
            variables = {k: v for k, v in os.environ.items() if not k.startswith(("PENSTOCK_", "LD_PRELOAD"))}
            variables |= {
                "OMPI_ALLOW_RUN_AS_ROOT": "1",
                "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                "MPIR_CVAR_DEVICE_COLLECTIVES": "none",
            }
            command = [
                *LAUNCH[self.mpi],
                "-n",
                "2",
                "env",
                f"TOOL_OUTPUT={output}",
                f"PENSTOCK_TEST_DIRECTORY={output}",
                "LD_PRELOAD=" + ":".join(map(str, preload)),
                str(program),
                *(f"{output}/{name}" for name in arguments),
            ]
            done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=240)
            # Not what mpiexec returned: Open MPI's takes ranks for dead that it could not answer within 2 s of their end (PMIx waits no longer).
            told = [path.read_text() for path in Path(output).iterdir() if path.name.isdigit()]
            self.assertEqual(len(told), 2, f"ranks that came to their end\n{done.stdout}{done.stderr}")
            counts: Counter = Counter()
            for name, number in (line.split() for text in told for line in text.splitlines()):
                counts[name] += int(number)
            return counts, done.stdout

    def test_before_us_it_sees_every_call(self):
        program = self.program(MPI_TESTS / "io_c.c", "-std=c17", f"-I{MPI_TESTS}")
        natively, _ = self.seen([self.tool], program)
        with_us, printed = self.seen([self.tool, FRONT], program)
        self.assertRegex(printed, r"(?m)^ok$")
        self.assertGreater(len(with_us), 10)
        # The native library may call some of its own functions by their public names.
        self.assertEqual({name: with_us[name] for name in with_us}, {name: natively[name] for name in with_us})

    def test_either_way_the_work_is_done_and_behind_us_it_sees_what_is_bypassed(self):
        program = self.program(HERE / "two_files.c")
        expected = [
            "plain: penstock, data right, handler called 1 times",
            "bypassed: native, data right, handler called 1 times",
        ]
        for preload, opened in (([self.tool, FRONT], 4), ([FRONT, self.tool], 2)):
            with self.subTest(preload=[path.name for path in preload]):
                counts, printed = self.seen(preload, program, "plain", "bypassed")
                self.assertEqual(printed.splitlines(), expected)
                self.assertEqual((counts["MPI_File_open"], counts["MPI_File_write_at_all"]), (opened, opened))


class ToolsOnMpich(Tools):
    mpi = "mpich"


class ToolsOnOpenMpi(Tools):
    mpi = "openmpi"


if __name__ == "__main__":
    unittest.main()
