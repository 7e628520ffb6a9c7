// Within: where the bytes of one access lie in the data of another that reaches them all.  Pure.
#pragma once

#include "access/cursor.h"
#include "access/merge.h"

namespace penstock::access {

/// `count` pieces of `length` bytes: in the data of a member they follow one another from `member_position` on, in the
/// data of the whole the first is at `whole_position` and each `whole_stride` after the one before.  Positions count from
/// where the data of either claim begins.
struct PackedStep {
  Offset whole_position = 0;
  Offset whole_stride = 0;
  Offset member_position = 0;
  Offset length = 0;
  Offset count = 0;
};

/// Yields where positions [from, to) of a member's data lie in the data of a whole: a claim that coalesce() made of the member
/// and others, or the member itself.  The steps come in the order of the data.  A run of the member is one step where it lies in
/// one piece of the whole or steps regularly from piece to piece; else as many as it takes.
/// Requires: 0 <= from <= to <= member.bytes.
/// Borrows nothing; keeps the nodes of both.  Thread rule: one thread at a time.
/// Cost: O(depth * log(longest list)) per step; no allocation while the depth is at most Cursor::kInlineDepth.
class Within {
 public:
  Within(const Claim& whole, const Claim& member, Offset from, Offset to);

  /// The next step; false at the end.  Fails with kIntern when the whole does not reach all the bytes that come next, or is not
  /// what a claim has to be: nothing of `step` may be used then.
  [[nodiscard]] Result<bool> next(PackedStep& step);

 private:
  struct Search;

  [[nodiscard]] bool locate(PackedStep& step) const;
  [[nodiscard]] bool search(Search& search) const;

  Claim whole_;
  Cursor cursor_;  ///< over the member
  Run run_;        ///< of which `run_.count` pieces are still to be yielded
  Offset member_position_ = 0;
  bool searchable_ = false;
};

}  // namespace penstock::access
