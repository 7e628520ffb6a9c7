// Waiting for MPI without keeping a core busy.  Knows nothing of what they are for.
#pragma once

#include <mpi.h>

#include "base/status.h"

namespace penstock::comm {

/// Blocks until all `count` requests are done: looks `spins` times, then lets others run between looks, then sleeps between them.
/// PMPI_Wait would keep a core busy that the awaited rank may need.  Fails when MPI does; requests may then be under way still.
Status wait_patiently(MPI_Request* requests, int count, int spins);

/// A tag of our communicators that no message has.
constexpr int kNeverSentTag = 3;

/// Lets whatever the program and the library have under way proceed.  Does not block.  Requires: a communicator of ours.
void let_mpi_progress(MPI_Comm comm);

}  // namespace penstock::comm
