// Range locks: who holds which bytes of one file, among the threads of one process.  Knows neither files nor system
// calls.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

#include "base/units.h"

namespace penstock::store {

/// Shared and exclusive locks on byte ranges.  Any two acquisitions exclude each other, whoever made them; `owner` only
/// serves to tell one's own locks from another's.  Thread rule: all calls may be made concurrently.
class RangeLocks {
 public:
  using Part = std::pair<Offset, Offset>;  ///< offset, length

  /// Blocks until no conflicting range is held.  Requires offset >= 0, length > 0, and a sum that fits.
  void acquire(const void* owner, Offset offset, Offset length, bool exclusive);

  /// Gives back one acquisition of exactly this range; false when there was none.  `let_go(part)` is called, under the
  /// lock of the table, for every part of the range that no other acquisition covers any more: a lock held elsewhere on
  /// behalf of all can be dropped there without pulling it away from under another holder.
  template <typename LetGo>
  bool release(const void* owner, Offset offset, Offset length, LetGo&& let_go) {
    const std::lock_guard guard(mutex_);
    if (!erase(owner, offset, length)) return false;
    // Without a list: where there is no memory, locks still have to be given back.
    for (Offset at = offset, end = offset + length; at < end;) {
      const Offset free_from = covered_until(at);
      if (free_from == at) {
        const Offset free_until = std::min(end, next_held(at));
        let_go(Part{at, free_until - at});
        at = free_until;
      } else {
        at = free_from;
      }
    }
    released_.notify_all();
    return true;
  }
  bool release(const void* owner, Offset offset, Offset length) {
    return release(owner, offset, length, [](const Part&) {});
  }

  /// Gives back everything of `owner`.
  void release_all(const void* owner);

  /// True when another owner holds a lock that overlaps the range.
  [[nodiscard]] bool held_by_others(const void* owner, Offset offset, Offset length);

 private:
  struct Held {
    const void* owner;
    Offset offset;
    Offset length;
    bool exclusive;
  };
  bool erase(const void* owner, Offset offset, Offset length);
  /// Where a held range that has `at` ends; `at` when none has it.
  [[nodiscard]] Offset covered_until(Offset at) const;
  /// Where the next held range behind `at` begins.
  [[nodiscard]] Offset next_held(Offset at) const;

  std::mutex mutex_;
  std::condition_variable released_;
  std::vector<Held> held_;
};

}  // namespace penstock::store
