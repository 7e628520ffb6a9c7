// Which ranks of a communicator share a node: asked of MPI once per communicator and kept on it.  Knows nothing of files or memory.
#pragma once

#include <mpi.h>

#include <memory>

#include "comm/comm.h"

namespace penstock::comm {

/// The topology of `user_comm`, from its attribute, or found out now over `own_comm`, a duplicate of it.  *Collective* over it.
/// Fails, the same on all ranks, with kArgument when PENSTOCK_RANKS_PER_NODE is no positive number; as status_of() says when MPI fails.
Result<std::shared_ptr<const Topology>> topology_of(MPI_Comm user_comm, MPI_Comm own_comm);

/// The Status of what the PMPI call `call` returned.
Status status_of(int outcome, const char* call);

}  // namespace penstock::comm
