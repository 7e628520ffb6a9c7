// The group of ranks behind an open file, over MPI.  Knows nothing of files; calls MPI by its PMPI_ names only, so that tools which
// watch the program's calls do not see ours.
#pragma once

#include <mpi.h>

#include <memory>

#include "comm/comm.h"

namespace penstock::comm {

/// A Comm over the ranks of `user_comm`.  *Collective* over it; blocks like MPI_Comm_dup.
///
/// What happens inside:
/// - `user_comm` is duplicated; the duplicate reports errors by return code, whatever the program chose for its own.
/// - Who shares a node with whom is found out once and kept on `user_comm` as an attribute, so a second file on it does not ask again.
///   PENSTOCK_RANKS_PER_NODE=n (read on rank 0, when the nodes are found out) splits every node into pretended nodes of n ranks.
/// - The ranks of a node share one segment of memory.  Where they cannot have it, that node does with messages.
/// - With several nodes the shared words live in an MPI window on rank 0.  Their progress is then MPI's: an implementation that emulates
///   one-sided access moves on only while rank 0 is inside some MPI or Penstock call.  Where MPI gives no window, files open all the same and
///   words_and_lock() says why the words do not work.
///
/// Destroying the Comm is collective as well; after MPI_Finalize it frees what needs no MPI.
///
/// Thread rule, beyond comm.h: where the group is more than one node, or does with messages, the words, the lock and agree() call MPI, so they need
/// MPI_THREAD_MULTIPLE to be used from more than one thread; agree() and exchanges do without on threads of ours where errands are carried
/// (comm/errands.h).  A rank that waits long in agree() on a thread that may call MPI lets MPI make progress now and then: another rank may be blocked in a
/// receive whose sender waits here.
///
/// Fails, the same on all ranks, with kComm for an intercommunicator and kArgument for a bad PENSTOCK_RANKS_PER_NODE; with kNoMemory, kComm or kOther
/// when a call to MPI fails, then perhaps not the same on all ranks.  A failing one-sided access later has nowhere to be returned:
/// it becomes this rank's failure in the next agree() or barrier().
Result<std::unique_ptr<Comm>> make_mpi_comm(MPI_Comm user_comm);

}  // namespace penstock::comm
