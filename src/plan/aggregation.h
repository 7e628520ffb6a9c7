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
