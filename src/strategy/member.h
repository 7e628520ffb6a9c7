// A member of a team in the rounds of a collective access: moves its own data between the program's memory and the memory that the team shares, and reads its
// share of what the local aggregator's windows need.  Every rank is one, also a local aggregator.
// Knows the team's buffers; nothing of messages, of other members or of what the local aggregator does with the data.
#pragma once

#include <cstddef>

#include "base/status.h"
#include "strategy/agreement.h"
#include "strategy/board.h"
#include "strategy/call.h"
#include "strategy/walk.h"

namespace penstock::strategy {

class Member {
 public:
  /// Borrows all of them.
  Member(Call& call, const Agreement& agreement, const Buffers& buffers);
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  /// Has the memory that moving takes.  Throws or fails with kNoMemory.
  Status prepare();
  /// Of this rank's data, what is moved in all rounds together.
  [[nodiscard]] Offset bytes() const { return own_.end - own_.begin(); }

  /// All that a member does in the rounds that its local aggregator tells it of.  What fails here is told in the agreement that ends the call.
  void follow();

  // What a local aggregator does as a member of its own team; steps are those of Buffers.
  /// This rank's data of a round, to the team's buffers or from them.
  void move(Offset round, int step);
  /// This rank's part of a step's window, from the first to the last byte that somebody wants.  What cannot be read is sent as zeros: everybody learns of the
  /// failure at the end.
  void read_share(int step);
  /// Nobody is behind what the others have done in memory that the team shares.
  void meet();

 private:
  void follow_writing();
  void follow_reading();
  void move_in_window(int step, Offset first, Offset from, Offset to);
  void move_in_staging(int step, int place, Offset first, Offset from, Offset to);
  void move_among_others(std::byte* message, Offset first, Offset from, Offset to);
  void move_packed(Offset position, Offset bytes, std::byte* contiguous);
  [[nodiscard]] Offset memory_position(Offset position) const { return position - access_.position; }

  Call& call_;
  const Collective& access_;
  const Agreement& agreement_;
  const Buffers& buffers_;
  Walk own_;    ///< this rank's data
  Agenda mine_;  ///< of own_, what this rank has to copy
};

}  // namespace penstock::strategy
