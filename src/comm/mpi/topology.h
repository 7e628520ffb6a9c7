// Which ranks of a communicator share a node: asked of MPI once per communicator and kept on it.  Knows nothing of files or memory.
#pragma once

#include <mpi.h>

#include <memory>

#include "comm/comm.h"

namespace penstock::comm {

/// The topology of `user_comm`, from its attribute, or found out now over `own_comm`, a duplicate of it; a program of sessions only has it found out each time.  *Collective* over it.
/// Fails, the same on all ranks, with kArgument when PENSTOCK_RANKS_PER_NODE is no positive number; as status_of() says when MPI fails.
Result<std::shared_ptr<const Topology>> topology_of(MPI_Comm user_comm, MPI_Comm own_comm);

/// Whether MPI_COMM_WORLD and MPI_COMM_SELF may be used: not by a program that has sessions only (MPI 4.1 section 11.3), nor at the end.
bool world_is_there();

/// The Status of what the PMPI call `call` returned.
Status status_of(int outcome, const char* call);

}  // namespace penstock::comm
