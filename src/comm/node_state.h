// What the ranks of one node share in memory: an agreement, a few words and a lock.  Knows neither MPI nor how the memory is shared.
//
// The same code runs on a segment mapped by several processes (comm/mpi) and on the heap of one (comm/local), so the thread
// sanitizer sees in tests what production runs.  All waiting is a short spin at most, then a futex: ranks that wait take no core away
// from those that work.  A NodeState made of zero bytes is a valid new one.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/units.h"
#include "comm/comm.h"

namespace penstock::comm {

/// How to wait.  `spins` looks, then some more between which others may have the core, before sleeping; 0 where ranks outnumber cores: sleeping at
/// once.  `poke`, when given, is called now and then by a
/// sleeper with `context`, first after a quarter of a millisecond at most of sleep, later every `longest_nap_ns`, and
/// whenever a signal wakes it; true from it ends the wait.
struct Waiting {
  int spins = 0;
  std::int64_t longest_nap_ns = 4'000'000;
  bool (*poke)(void* context) = nullptr;
  void* context = nullptr;
};

/// A verdict as one word that atomic maximum can combine: 0 is success, a lower rank's failure is larger than a higher rank's.
std::uint64_t verdict_key(const Verdict& verdict, int rank);
Verdict verdict_of(std::uint64_t key);

/// A word that can be slept on.
class FutexWord {
 public:
  std::atomic<std::uint32_t> value{0};

  /// Blocks until `value` is `wanted`.  `bits` chooses which calls of wake() reach this sleeper.  False when the poke ended the wait.
  bool wait_until(std::uint32_t wanted, std::uint32_t bits, const Waiting& waiting);
  /// Blocks while `value` is `unwanted`.
  bool wait_while(std::uint32_t unwanted, const Waiting& waiting);
  /// Wakes the sleepers that share a bit with `bits`.  Requires: `value` was changed before, sequentially consistently.
  void wake(std::uint32_t bits = ~0U);

 private:
  template <typename Done>
  bool wait(Done done, std::uint32_t bits, const Waiting& waiting);
  bool sleep(std::uint32_t seen, std::uint32_t bits, const Waiting& waiting, std::int64_t& nap_ns);

  std::atomic<std::uint32_t> sleepers_{0};
};

/// Barrier that carries the worst verdict.  May be used again at once; every member calls in the same order.
class Agreement {
 public:
  struct Outcome {
    std::uint64_t key = 0;
    bool given_up = false;  ///< the poke ended the wait: the group is broken and must not be used again
  };

  /// All `size` members call it with their own key; all get the largest.
  Outcome agree(std::uint64_t key, std::uint32_t size, const Waiting& waiting);

  /// The same in two halves, for a leader that has to ask other nodes in between.  The leader calls gather(), which returns when all others
  /// are inside follow(), with the largest key; then release() with what all are to get.
  Outcome gather(std::uint64_t key, std::uint32_t size, const Waiting& waiting);
  void release(std::uint64_t key);
  Outcome follow(std::uint64_t key, std::uint32_t size, const Waiting& waiting);

  /// How many agreements are complete, modulo 2^32.
  [[nodiscard]] std::uint32_t generation() const { return generation_.value.load(std::memory_order_acquire); }

 private:
  void contribute(std::uint32_t generation, std::uint64_t key);

  // An agreement of generation g gathers in worst_[g % 2].  The slot is cleared at the end of generation g + 1, when everybody has
  // entered g + 1 and so has read what g said.
  alignas(64) FutexWord arrived_;
  std::atomic<std::uint64_t> worst_[2] = {0, 0};
  alignas(64) FutexWord generation_;
};

/// Readers-writer lock in the order of arrival, so nobody starves: tickets, and each hand-over wakes only whose turn it is.
class TicketLock {
 public:
  void lock(bool exclusive, int spins);
  void unlock(bool exclusive);

 private:
  alignas(64) std::atomic<std::uint32_t> next_{0};
  alignas(64) FutexWord readers_turn_;  ///< tickets that no longer keep readers out: readers inside or gone, writers gone
  alignas(64) FutexWord writers_turn_;  ///< tickets that are gone
};

/// What the members of a team have in common before they have memory.
struct TeamState {
  Agreement agreement;
  alignas(64) char announced[64] = {};  ///< where the memory is, told by the first member between two agreements
};

struct NodeState {
  Agreement agreement;
  TicketLock lock;
  alignas(64) std::atomic<Offset> words[Comm::kSharedWords] = {};
  /// Processors that the ranks may run on, one bit each; filled while the group is made.
  static constexpr int kProcessorWords = 16;
  alignas(64) std::atomic<std::uint64_t> processors[kProcessorWords] = {};
  /// Ranks none of whose background threads gets at MPI; counted while the group is made.
  std::atomic<std::uint32_t> ranks_without_background{0};
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free &&
                  std::atomic<Offset>::is_always_lock_free,
              "words shared between processes must not hide a lock");

/// Adds the processors that this process may run on to `state`.
void add_processors(NodeState& state);
/// Looks before sleeping that suit `ranks` ranks on the processors in `state`: none when ranks must take turns.
int spins_for(const NodeState& state, int ranks);

}  // namespace penstock::comm
