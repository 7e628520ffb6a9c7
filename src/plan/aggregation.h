// Aggregation: which ranks carry out a collective access for the others, and which part of the file is whose.  Pure: the same facts give the
// same answers on every rank.
#pragma once

#include <vector>

#include "base/units.h"

namespace penstock::plan {

/// The local aggregators of a node with `ranks` ranks, as positions among them: `count` of them, spread evenly, each serving itself and those up
/// to the next one (the two-layer aggregation paper, section IV.A; 2 of 5 are 0 and 3).  A count beyond the ranks is cut to it.
/// Requires: ranks > 0, count > 0.
std::vector<int> local_aggregators(int ranks, int count);

/// Global aggregators, ascending: `count` ranks spread evenly, over the nodes first and over the ranks of each node then (figure 1 of the same
/// paper).  `node_of_rank` is dense, in the order of each node's lowest rank.  A count of 0 asks for one per node, one beyond the ranks is cut.
std::vector<int> global_aggregators(const std::vector<int>& node_of_rank, int count);

/// Who gathers for whom, and who accesses the file.
struct Placement {
  std::vector<int> local;   ///< ranks of the local aggregators, ascending
  std::vector<int> global;  ///< ranks of the global aggregators, ascending; each is a local one
  int leader = 0;           ///< the local aggregator of the rank that asks
  int first = 0;            ///< the team of both: places in its node [first, first + count)
  int count = 1;
};

/// `local_per_node`: local aggregators of each node, cut to its ranks; 0: every rank is one.  `global`: as in global_aggregators(); where that is more
/// than there would be local aggregators, there are more of those.  Every node gets the same number of them at most, so where nodes have few ranks there may
/// be fewer global ones than asked for.
/// O(ranks).
Placement place(const std::vector<int>& node_of_rank, int rank, int local_per_node, int global);

/// The same where every node has a number of global aggregators of its own, cut to its ranks; there are local ones where it has none, too.
/// Requires: a number for each node, and one that is more than 0.
Placement place(const std::vector<int>& node_of_rank, int rank, int local_per_node, const std::vector<int>& global_of_node);

/// How many global aggregators where nobody asked for a number.  Two-phase: of each node as many as `processors` and ranks allow, up to four or one for each of
/// its network `interfaces`: one alone copies for all.  Two-layer (`local_per_node` > 0): one for each interface, since its team copies with it.
/// Requires: processors > 0, interfaces > 0 and no more than a machine has.
int automatic_global(const std::vector<int>& node_of_rank, int local_per_node, int processors, int interfaces);

/// Whether ranks that may choose go to the file each for itself: `pieces` of all of them make up `bytes`, and are so large that handing them on costs
/// more than it saves, or only one rank has a single one.
bool better_alone(Offset pieces, Offset bytes);

/// How much of the file an aggregator handles at once, at most `limit`: so little that it stays in a cache from its arrival to its writing, and so much
/// that the messages of `local` teams that share it evenly do not become small.
Offset window_bytes(int local, Offset limit);

/// File domains: windows of `window_bytes`, at multiples of it, dealt out to the aggregators in turn.  In one round every aggregator has one
/// window, and a round covers a contiguous part of the file.  Where the window is the stripe and there is an aggregator per storage target, each
/// target has one writer only.
class FileDomains {
 public:
  /// Requires: aggregators > 0, window_bytes > 0.
  FileDomains(int aggregators, Offset window_bytes) : aggregators_(aggregators), window_bytes_(window_bytes) {}

  [[nodiscard]] Offset round_of(Offset offset) const { return offset / window_bytes_ / aggregators_; }
  /// The first offset of the window that an aggregator (by its place among them) has in a round; INT64_MAX when it lies beyond.
  [[nodiscard]] Offset window(Offset round, int aggregator) const;
  /// The end of the window that begins at `first`.
  [[nodiscard]] Offset window_end(Offset first) const;
  /// True when [first, end) reaches into some window of the aggregator.
  [[nodiscard]] bool reaches(Offset first, Offset end, int aggregator) const;
  [[nodiscard]] int aggregators() const { return aggregators_; }
  [[nodiscard]] Offset window_bytes() const { return window_bytes_; }

 private:
  int aggregators_;
  Offset window_bytes_;
};

}  // namespace penstock::plan
