// Aggregators and storage targets: how many of the former suit a file that is striped over the latter, and how much of it they take at once.  Pure.
#pragma once

#include <vector>

#include "base/units.h"

namespace penstock::plan {

/// How the storage has the file, as the rank that opened it first found it: the same on all ranks.
struct Striping {
  Offset stripe_bytes = 0;  ///< 0: not striped
  int stripe_count = 1;     ///< stripe s lies where stripe s + stripe_count does
  int target_count = 1;     ///< devices that the stripes lie on; fewer than stripes where some have several
  Offset block_bytes = 1;   ///< preferred granularity of access
};

/// How many global aggregators a striped file gets where nobody asked for a number: one per target, so that no two write to the same one and each
/// has one to itself; fewer where `most` is less, then so that each has whole targets to itself; several per
/// target, up to four, where every one of them still serves many ranks.
/// Where no such number is near (7 targets, 6 at most), as many as there can be.
/// Requires: the file is striped; most > 0.
int striped_aggregators(const Striping& striping, int ranks, int most);

/// How many ranks can work at once, on nodes with `processors` each.
int workers(const std::vector<int>& node_of_rank, int processors);

/// The size of windows that begin at multiples of it and are dealt out to `aggregators` in turn: about `wanted`, at most `limit`, and such that
/// a stripe (or block, in a file that is not striped) is not torn between windows.  Where the number of aggregators suits the stripes, an aggregator's windows
/// lie on its own targets only.  A stripe beyond `limit` is divided into equal windows.
/// Requires: all of them > 0, wanted <= limit.
Offset aligned_window_bytes(const Striping& striping, int aggregators, Offset wanted, Offset limit);

}  // namespace penstock::plan
