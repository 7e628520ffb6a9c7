// Which ways there are to carry an access out, and which of them takes the least time.  Pure.
#pragma once

#include <span>
#include <vector>

#include "model/predict.h"

namespace penstock::model {

/// What rules ways out, whatever they cost.
struct Possible {
  bool collective = true;    ///< all ranks are in the call: aggregation is possible
  bool mapped = false;       ///< the store maps files, and maps are coherent for all ranks that access it
  bool sieved_reads = true;
  bool sieved_writes = false;  ///< byte ranges can be locked
};

/// Every way with several numbers of local and global aggregators: powers of two of local ones for each node up to its ranks, and of global ones from one
/// up to four for each node.  The simpler ones first.  O(log^2(ranks of a node)) candidates.
std::vector<Candidate> candidates_of(const Workload& work, const Possible& possible, double window);

/// The place of the least; of those that are within `tie` of it (a share, 0.02 is 2 %), the first.  Requires: not empty.
std::size_t least_of(std::span<const double> seconds, double tie);

}  // namespace penstock::model
