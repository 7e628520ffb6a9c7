// Look, yield, sleep.
#include "comm/mpi/patience.h"

#include <sched.h>

#include <ctime>

#include "comm/mpi/topology.h"

namespace penstock::comm {

Status wait_patiently(MPI_Request* requests, int count, int spins) {
  constexpr int kYields = 20;
  constexpr long kNapNs = 50'000;
  for (int look = 0;; ++look) {
    int done = 0;
    PENSTOCK_TRY(status_of(PMPI_Testall(count, requests, &done, MPI_STATUSES_IGNORE), "PMPI_Testall"));
    if (done != 0) return {};
    if (look < spins) continue;
    if (look < spins + kYields) {
      sched_yield();
    } else {
      const timespec nap{.tv_sec = 0, .tv_nsec = kNapNs};
      nanosleep(&nap, nullptr);
    }
  }
}

void let_mpi_progress(MPI_Comm comm) {
  // Asks for what is never sent: a probe that finds something returns at once and lets nothing proceed.
  int found = 0;
  PMPI_Iprobe(MPI_ANY_SOURCE, kNeverSentTag, comm, &found, MPI_STATUS_IGNORE);
}

}  // namespace penstock::comm
