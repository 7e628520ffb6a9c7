// A group whose ranks are threads of this process: for tests.  Knows no MPI.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "comm/comm.h"

namespace penstock::comm {

/// One Comm per rank, for `size` threads.  `ranks_per_node`: so many consecutive ranks claim to be on one node; 0: all on one.
/// All collectives work between all of them whatever the nodes claim.  Every Comm is used by its own thread.
/// Requires: size >= 1.
std::vector<std::unique_ptr<Comm>> make_local_group(int size, int ranks_per_node = 0);

/// Runs `body` on `size` threads, one per rank, and returns when all are done.
///
/// A rank that returns or throws while others still wait for it does not leave them hanging: what they wait in returns a failure (kIntern), and
/// locks it still held are released.  Throws what the lowest rank threw; else, when some rank waited in vain,
/// std::runtime_error naming the rank that had left.  This is the one function of the house that throws: it is for tests.
void run_ranks(int size, const std::function<void(Comm&)>& body, int ranks_per_node = 0);

}  // namespace penstock::comm
