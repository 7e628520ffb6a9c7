// What the members of a team tell each other in the memory they share.  Layout only: no waiting, no planning.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/units.h"
#include "plan/aggregation.h"
#include "strategy/kept.h"
#include "strategy/window.h"

namespace penstock::strategy {

/// What a member accesses.  Its description lies in the member's part of the room for descriptions, cut off where it does not fit.
struct Asked {
  Offset position;
  Offset bytes;       ///< 0: nothing
  Offset tree_bytes;  ///< of the packed tiling
  Offset file_bytes;  ///< with what it wrote by itself; -1: it did not
  std::int32_t code;  ///< a failure it met
  std::int32_t unused;
};

/// How a member's data come into what the team accesses together.
struct Told {
  std::int64_t claim;     ///< which one of the team's
  Offset tree_bytes;      ///< 0: the claim is the member's own
  Offset tree_at;         ///< in the room for descriptions
  Offset position;        ///< the claim's
  Offset bytes;
};

/// What the local aggregator found, for all members.
struct Plan {
  std::int32_t stop = 0;         ///< some rank failed: nothing is moved
  std::int32_t late = 0;         ///< it was the local aggregator itself, when other teams no longer heard of it
  std::int32_t declined = 0;     ///< every rank moves its own data
  std::int32_t unused = 0;
  std::int64_t elsewhere = -1;   ///< or it is begun anew there
  std::int64_t recalled = 0;     ///< the kept plan by which all go; 0: none
  Offset shift = 0;              ///< so far on in the file
  Offset file_bytes = 0;         ///< reads end there
  plan::FileDomains domains = {};
  std::int64_t claims = 0;
  Offset staging_bytes = 0;      ///< of one slot
};

/// Memory 0 of a team of `members`.
class Board {
 public:
  Board(std::byte* memory, int members, Offset tree_room) : memory_(memory), members_(members), tree_room_(tree_room) {}
  static std::size_t bytes_for(int members, Offset tree_room) {
    const auto m = static_cast<std::size_t>(members);
    return sizeof(Plan) + m * (kOfMember + static_cast<std::size_t>(tree_room));
  }

  [[nodiscard]] Plan& plan() const { return *at<Plan>(0); }
  [[nodiscard]] Asked& asked(int member) const { return at<Asked>(sizeof(Plan))[member]; }
  [[nodiscard]] Told& told(int member) const { return at<Told>(sizeof(Plan) + count() * sizeof(Asked))[member]; }
  [[nodiscard]] Ballot& ballot(int member) const { return at<Ballot>(sizeof(Plan) + count() * (sizeof(Asked) + sizeof(Told)))[member]; }
  /// A member's part of the room for descriptions, or all of it.
  [[nodiscard]] std::span<std::byte> tree_of(int member) const {
    return trees().subspan(static_cast<std::size_t>(member * tree_room_), static_cast<std::size_t>(tree_room_));
  }
  [[nodiscard]] std::span<std::byte> trees() const {
    return {memory_ + sizeof(Plan) + count() * kOfMember, count() * static_cast<std::size_t>(tree_room_)};
  }
  [[nodiscard]] Offset tree_room() const { return tree_room_; }

 private:
  static constexpr std::size_t kOfMember = sizeof(Asked) + sizeof(Told) + sizeof(Ballot);

  [[nodiscard]] std::size_t count() const { return static_cast<std::size_t>(members_); }
  template <typename T>
  T* at(std::size_t offset) const {
    static_assert(alignof(T) <= 8 && sizeof(T) % 8 == 0);
    return reinterpret_cast<T*>(memory_ + offset);
  }

  std::byte* memory_;
  int members_;
  Offset tree_room_;
};

/// What is told of rounds at once: those under way, and of reads the one behind the one that is being read.
constexpr int kTables = kSlots + 1;

/// One round as the team carries it out.
struct Round {
  std::int64_t number;
  std::int32_t over;    ///< there is none: the team is done
  std::int32_t moves;   ///< the team has data in it
  Offset window_first;  ///< of the file, the window's first byte
  Offset read_first;    ///< what has to be read of it; empty for nothing
  Offset read_end;
};

/// Memory 1 of a team: per table a round with places in the staging memory, per slot a window where the local aggregator is a global one, and staging.
class Buffers {
 public:
  Buffers() = default;
  Buffers(std::byte* memory, Offset claims, Offset aggregators, Offset window_bytes, Offset staging_bytes)
      : memory_(memory), aggregators_(aggregators), table_bytes_(table_bytes(claims, aggregators)), window_bytes_(window_bytes), staging_bytes_(staging_bytes) {}
  static std::size_t bytes_for(Offset claims, Offset aggregators, Offset window_bytes, Offset staging_bytes) {
    return static_cast<std::size_t>(kTables * table_bytes(claims, aggregators) + kSlots * (window_bytes + staging_bytes));
  }

  /// Of the i-th step of a call, as in all that follows.
  [[nodiscard]] Round& round(int i) const { return *reinterpret_cast<Round*>(table(i)); }
  /// Where the data of a claim for the window of an aggregator begin in the staging memory.
  [[nodiscard]] Offset& place(int i, Offset claim, Offset aggregator) const {
    return reinterpret_cast<Offset*>(table(i) + sizeof(Round))[claim * aggregators_ + aggregator];
  }
  [[nodiscard]] std::byte* window(int i) const { return memory_ + kTables * table_bytes_ + i % kSlots * window_bytes_; }
  [[nodiscard]] std::byte* staging(int i) const { return memory_ + kTables * table_bytes_ + kSlots * window_bytes_ + i % kSlots * staging_bytes_; }

 private:
  static Offset table_bytes(Offset claims, Offset aggregators) {
    return static_cast<Offset>(sizeof(Round) + sizeof(Offset) * static_cast<std::size_t>(claims * aggregators) + 63) / 64 * 64;
  }

  [[nodiscard]] std::byte* table(int i) const { return memory_ + i % kTables * table_bytes_; }

  std::byte* memory_ = nullptr;
  Offset aggregators_ = 0;
  Offset table_bytes_ = 0;
  Offset window_bytes_ = 0;
  Offset staging_bytes_ = 0;
};

}  // namespace penstock::strategy
