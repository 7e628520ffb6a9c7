// Two-phase access in two layers: ranks hand what they write to the local aggregator of their team through memory that they share, local aggregators
// send it to global ones, and those access the file in large pieces; reads go the other way.  Where every rank is a team of its own, this is
// plain two-phase access.
// Knows comm, plans and an aggregator's way to the file; nothing of views' semantics, pointers or MPI.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "access/layout.h"
#include "base/status.h"
#include "comm/comm.h"
#include "plan/aggregation.h"
#include "store/store.h"
#include "strategy/window.h"
#include "trace/trace.h"

namespace penstock::strategy {

/// How a rank reaches the file for others.  Used by aggregators, by members of their teams for reads, and by rank 0 for the size; opening is up to the
/// implementation.
class Target {
 public:
  virtual ~Target() = default;
  virtual Result<Offset> size() = 0;
  /// Of any rank, for reads: the size with what this rank wrote by itself since it was last asked; -1 when that is nothing.  The rank that says size() may do so
  /// before others have come to the call, and before they wrote what they want to read back.
  virtual Result<Offset> size_with_own_writes() = 0;
  /// As store::File::read.
  virtual Status read(std::span<store::Transfer> batch) = 0;
  /// As store::File::write; also keeps sieving writers out of the range that the batch spans.
  virtual Status write(std::span<store::Transfer> batch) = 0;
};

/// One rank's part of a collective access.  Tilings, positions and buffer as in strategy::Access.
struct Collective {
  comm::Comm& comm;
  comm::Team& team;                  ///< the one that `placement` says
  const plan::Placement& placement;  ///< the same aggregators on all ranks
  plan::DomainRules domains;         ///< among the global aggregators, the same on all ranks
  Target& target;
  int readers = 1;  ///< members of a team that read a window together, at most; the same on all ranks
  bool write = false;
  const access::Tiling& file;  ///< monotone, and not overlapping itself
  Offset position = 0;
  const access::Tiling& memory;
  bool memory_contiguous = false;
  std::byte* buffer = nullptr;
  CollectiveMemory& kept;
  Offset bytes = 0;  ///< 0 for a rank that has nothing to access, or failed before
  /// What the latest access took here.
  Taken taken;
  /// Told to local aggregators, to all of them alike and before they are asked anything: the least that any rank saw that access take.
  std::function<void(const Taken&)> learn;
  /// Whether the ranks had better move their own data, by what all of them access and whether they have agreed on that before: asked on local aggregators, as
  /// often and in the same order on all of them, whose answers are the same.  Empty, on all ranks alike: they never do.
  std::function<bool(const plan::Accessed&, int aggregators, bool planned)> better_alone;
  /// How many of the global aggregators take part in what all of them access: the same on all local aggregators.
  std::function<int(const plan::Accessed&)> worthwhile;
  /// By which other aggregators the call had better go: a number that the caller knows the meaning of, the same on all local aggregators; -1: by these, or by none.
  /// Asked before better_alone(), of accesses that have no plan yet.  Empty, on all ranks alike: never by others.
  std::function<int(const plan::Accessed&)> elsewhere;
  trace::OpTrace& trace;
};

/// What came of it.
struct Moved {
  Offset bytes = 0;
  bool declined = false;  ///< on all ranks alike: better_alone() said so, or there was no memory; nothing has been moved
  int elsewhere = -1;     ///< on all ranks alike: what Collective::elsewhere() said, where that was not -1; nothing has been moved
  bool short_of_memory = false;  ///< the latter, also on all alike
  bool stopped = false;   ///< another rank failed before anything was moved
};

/// Carries the access out.  Collective over `comm`, also for ranks without data.
/// `mine`: a failure this rank met before; it takes part all the same, so that nobody waits for it.
/// Tells the bytes moved, counted from the start without a gap: all, or less at the end of the file (reads).  A failure on one rank is a failure
/// there (and, where nothing could be begun, nothing is moved anywhere): the caller agrees on it.
/// Bytes that no rank wrote are never touched: an aggregator writes what arrived, piece by piece where there are gaps.
/// Memory: a global aggregator has three windows and one more for messages, a bit per byte of the windows, and a description of what each
/// team accesses that reaches it; a team of several has three times what it moves in a round.  Windows and what a team of several has are shared memory.
/// What it finds out about who accesses what is kept (strategy/kept.h): a later call that does the same, on every rank as far on in the file, costs as many messages
/// of constant size as it takes to double one local aggregator to all.
/// Cost: O(local aggregators) once per new plan for the summary of all, O(descriptions that reach an aggregator) there and O(descriptions * aggregators) in a
/// team; then O(log of that) for each description that has data in a window.
Result<Moved> two_phase(const Collective& access, Status mine);

}  // namespace penstock::strategy
