// Data that are moved window by window, and the rounds in which they are.  Pure: knows neither ranks nor messages nor memory.
//
// In a round every global aggregator has one window of its file domain; the windows of a round may lie anywhere in the file.  Which bytes of a walk are
// in the window that an aggregator has in a round follows from the walk's description and from the domains, which both sides of a message know, so neither
// has to remember what was moved before.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "access/layout.h"
#include "access/merge.h"
#include "plan/aggregation.h"

namespace penstock::strategy {

/// The data of a claim, or those of them that lie before some offset.  Its positions are the claim's: those of the view it was made of.
struct Walk {
  access::Claim claim;
  Offset end = 0;  ///< data position

  explicit Walk(access::Claim of) : claim(std::move(of)), end(claim.position + claim.bytes) {}
  [[nodiscard]] Offset begin() const { return claim.position; }
  [[nodiscard]] bool empty() const { return begin() == end; }
  [[nodiscard]] Offset offset(Offset position) const { return access::offset_of(claim.tiling, position); }
  /// The position of the first byte at or behind a file offset, from the walk's begin to its end.
  [[nodiscard]] Offset position_at(Offset file_offset) const { return std::clamp(access::position_of(claim.tiling, file_offset), begin(), end); }
  /// Ends it before the first byte at or behind a file offset.
  void cut(Offset file_offset) { end = position_at(file_offset); }
};

/// The rounds in which walks have data for aggregators, from some round on.  Rounds in which none has any cost nothing.
class Agenda {
 public:
  /// The next data of a walk for an aggregator.
  struct Entry {
    Offset round;
    Offset position;
    int aggregator;
    std::uint32_t index;  ///< of the walk, as it was added
    const Walk* walk;
  };

  explicit Agenda(const plan::FileDomains& domains) : domains_(domains) {}

  /// The walk must stay where it is.  Throws where there is no memory.
  void add(const Walk& walk, std::size_t index, int aggregator) {
    Entry entry{0, walk.begin(), aggregator, static_cast<std::uint32_t>(index), &walk};
    if (find(entry)) push(entry);
  }

  /// For each aggregator that the walk reaches.
  void add(const Walk& walk, std::size_t index) {
    if (walk.empty()) return;
    const plan::FileDomains::Reach reach = domains_.reach(walk.offset(walk.begin()), walk.offset(walk.end - 1) + 1);
    for (int i = 0; i < reach.count; ++i) add(walk, index, (reach.first + i) % domains_.aggregators());
  }

  /// INT64_MAX when all is over.
  [[nodiscard]] Offset next_round() const { return entries_.empty() ? INT64_MAX : entries_.front().round; }

  /// Calls visit(entry, end) for what lies in the windows of a round, data positions [entry.position, end): by aggregators, then by walks.
  /// Requires: no earlier round is left.
  template <typename Visit>
  void take(Offset round, Visit visit) {
    while (!entries_.empty() && entries_.front().round == round) {
      std::pop_heap(entries_.begin(), entries_.end(), later);
      Entry entry = entries_.back();
      entries_.pop_back();
      const Offset end = entry.walk->position_at(domains_.window(round, entry.aggregator).end);
      visit(entry, end);
      entry.position = end;
      if (find(entry)) push(entry);
    }
  }

 private:
  static bool later(const Entry& a, const Entry& b) {
    return std::tie(a.round, a.aggregator, a.index) > std::tie(b.round, b.aggregator, b.index);
  }

  void push(const Entry& entry) {
    entries_.push_back(entry);
    std::push_heap(entries_.begin(), entries_.end(), later);
  }

  /// Moves an entry on to the aggregator's next data; false when there are none.
  bool find(Entry& entry) const {
    while (entry.position < entry.walk->end) {
      const Offset offset = entry.walk->offset(entry.position);
      const Offset next = domains_.next_of(entry.aggregator, offset);
      if (next == INT64_MAX) return false;
      if (next == offset) {
        entry.round = domains_.round_of(offset);
        return true;
      }
      entry.position = entry.walk->position_at(next);
    }
    return false;
  }

  plan::FileDomains domains_;
  std::vector<Entry> entries_;  ///< a heap, the next one first
};

}  // namespace penstock::strategy
