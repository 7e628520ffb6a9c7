// Comm: what a file needs of the group of ranks that opened it.  Knows nothing of files or datatypes.
//
// Two implementations: comm/mpi (a duplicate of the user's communicator, plus a shared-memory segment per node)
// and comm/local (ranks as threads of one process, for tests).  "Collective" means: every rank of the group calls it,
// in the same order relative to the other collective calls on this Comm.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/units.h"

namespace penstock::comm {

/// Where ranks live.  Node numbers are dense, in the order of each node's lowest rank.
struct Topology {
  int rank = 0;
  int size = 1;
  int node = 0;
  int node_count = 1;
  int rank_in_node = 0;
  int ranks_in_node = 1;
  std::vector<int> node_of_rank;  ///< size entries
};

/// A failure small enough to send: which code, which errno, which rank.  Zero-initialized means success.
struct Verdict {
  std::int32_t code = 0;  ///< static_cast<int>(Code)
  std::int32_t system_errno = 0;
  std::int32_t rank = -1;
  [[nodiscard]] bool ok() const { return code == 0; }
};

/// Messages between some ranks of a group, of sizes that both sides know.  Between two ranks they arrive in the order in which they were
/// sent.  Buffers are borrowed until the wait.  Thread rule: that of Comm's collective calls.
class Exchange {
 public:
  virtual ~Exchange() = default;
  /// Begins to send.  Complete only when the other side has posted its receive: a rank that only sends can not run ahead of the
  /// receivers and fill their queues (the reason for MPI_Issend in the two-layer aggregation paper, section V).
  virtual Status send(int to, const void* bytes, std::size_t size_bytes) = 0;
  virtual Status receive(int from, void* bytes, std::size_t size_bytes) = 0;
  /// Blocks until all that was posted to be received so far has arrived.
  virtual Status wait_received() = 0;
  /// Blocks until all is sent and received.
  virtual Status wait() = 0;
};

/// Neighbouring ranks of one node around a local aggregator, the first of them, and memory that all of them see.  Must not outlive its Comm.
/// Thread rule: one thread of each member at a time; any thread that may agree in the background.
class Team {
 public:
  virtual ~Team() = default;
  [[nodiscard]] virtual int size() const = 0;
  [[nodiscard]] virtual int place() const = 0;  ///< of this rank among the members; 0 is the local aggregator
  /// A barrier that carries the worst verdict.  Collective over the team.
  virtual Verdict meet(const Verdict& mine) = 0;
  /// Uninitialized memory of at least `size_bytes`, the same on all members, at an address of its own in each.  There are kMemories of them.
  /// Collective over the team, with equal arguments; free where there was room before, and then what is in it stays.  Else what was in it is gone.
  /// Fails on all members alike; then there is none.
  static constexpr int kMemories = 2;
  virtual Result<std::byte*> memory(int which, std::size_t size_bytes) = 0;
  /// Of member 0: how often shared memory had to be made for that, which takes milliseconds that later calls do not.
  [[nodiscard]] std::int64_t memories_made() const { return memories_made_; }

 protected:
  std::int64_t memories_made_ = 0;
};

class Comm {
 public:
  virtual ~Comm() = default;

  [[nodiscard]] virtual const Topology& topology() const = 0;

  // --- Collective, blocking, called from a thread that may call MPI. -----------------------------------------
  virtual Status barrier() = 0;
  virtual Status broadcast(void* bytes, std::size_t size_bytes, int root) = 0;
  /// `all` has topology().size * size_bytes bytes on every rank; equal sizes everywhere.
  virtual Status all_gather(const void* mine, std::size_t size_bytes, void* all) = 0;
  /// Like all_gather, at `root` only; `all` is ignored elsewhere.
  virtual Status gather(const void* mine, std::size_t size_bytes, void* all, int root) = 0;
  /// A new exchange, in which nothing has been posted.  Local; every message in it needs its counterpart in an exchange of the other rank.
  virtual std::unique_ptr<Exchange> exchange() = 0;
  /// The team of the ranks of this node whose places in it are [first, first + count), this rank among them.  Local; every member calls it with the
  /// same numbers.  Teams that share ranks take turns: when one of them is used after another, all ranks of the group have agreed in between.  Fails with
  /// kUnsupported where ranks of this node share no memory; a team of one never does.
  virtual Result<std::unique_ptr<Team>> team(int first, int count) = 0;
  /// before = sum of `mine` over lower ranks, total = over all ranks.  Requires: mine >= 0.
  /// Fails with kArgument, on all ranks, when the total does not fit in 64 bits.
  virtual Status exclusive_sum(Offset mine, Offset& before, Offset& total) = 0;
  /// The failure of the lowest failing rank, the same on all ranks; success when all succeeded.  Returns only when all ranks
  /// have called it: it is also a barrier.  On one node: shared memory and futex, no MPI.
  virtual Verdict agree(const Verdict& mine) = 0;

  /// agree(), which also fails with kNotSame (naming the lowest rank that differs from rank 0) when `fingerprint` is not the same on all ranks.
  /// A failure in `mine` counts before a difference.  Here: a broadcast and an agree(); an implementation may do it in one step.
  virtual Verdict agree_same(const Verdict& mine, std::uint64_t fingerprint);

  // --- The same agreement off the caller's thread. ------------------------------------------------------------
  /// True when agree() may be called from a thread of ours (comm/errands.h): it needs no MPI, MPI is thread-safe, or errands are carried.  The same on
  /// all ranks.
  [[nodiscard]] virtual bool may_agree_in_background() const = 0;

  /// True when exchange() and teams may be used on a thread of ours as well.  The same on all ranks.
  [[nodiscard]] virtual bool may_exchange_in_background() const = 0;

  /// True when lock() and unlock() may be called from a thread of ours.
  [[nodiscard]] virtual bool may_lock_in_background() const = 0;

  /// A thread of the program that waits for one of ours calls it again and again: it carries errands and lets MPI go on, and returns at once.  What the other
  /// thread waits for may depend, through another rank, on a message that this program sent before (MPI 4.1 section 3.5).
  virtual void help_background() {}
  /// True when our thread gets on only then: whoever waits had better not sleep long.
  [[nodiscard]] virtual bool background_needs_help() const { return false; }

  /// True when the program may make calls from several threads at the same time.
  [[nodiscard]] virtual bool calls_may_overlap() const = 0;

  // --- Shared words and a lock, for shared file pointers and atomic mode.  Local calls, from any thread. ------------
  static constexpr int kSharedWords = 8;
  /// Success, or why the words and the lock do not work; does not get better later.  They always work within one node.  Across nodes they need
  /// what not every MPI gives; the words then read 0 and lock() lets everybody in, so callers that could do harm ask first.
  [[nodiscard]] virtual Status words_and_lock() const { return {}; }
  virtual Offset fetch_add(int word, Offset delta) = 0;  ///< atomic; returns the value before
  virtual Offset load(int word) = 0;
  virtual void store(int word, Offset value) = 0;
  /// Mutual exclusion between all ranks (and threads) of the group; readers share.  Fair enough that nobody starves.
  /// Waits by futex, not by spinning.
  virtual void lock(bool exclusive) = 0;
  virtual void unlock(bool exclusive) = 0;

  /// Another Comm over the same ranks with its own ordering, words and lock.  Collective.
  virtual Result<std::unique_ptr<Comm>> duplicate() = 0;
};

}  // namespace penstock::comm
