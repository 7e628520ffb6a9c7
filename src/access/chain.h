// Chains: a sequence of bytes in increasing order, put together from regular copies and turned into one node.
// Internal to src/access; knows neither ranks nor claims.
#pragma once

#include <vector>

#include "access/node.h"

namespace penstock::access {

/// `count` copies of a unit, `stride` apart, the first beginning at `at`.  The unit is `length` raw bytes where `unit` is null,
/// else a node whose own base is not counted.  Made by copies_of() or normal(): then a unit is never a block, a
/// single copy is never a loop, and copies without gaps are one block.
struct Copies {
  Offset at = 0;
  Offset count = 1;
  Offset stride = 0;  ///< any when count is 1
  Offset length = 0;  ///< when unit is null
  NodePtr unit;
  Offset width = 1;  ///< blocks and list entries that one copy was put together from

  [[nodiscard]] Offset unit_size() const { return unit ? unit->size : length; }
  [[nodiscard]] Offset unit_span() const { return unit ? unit->upper : length; }
  [[nodiscard]] Offset end() const { return at + (count - 1) * stride + unit_span(); }
  [[nodiscard]] bool is_block() const { return count == 1 && !unit; }
};

/// The same bytes, with loops of loops and loops of blocks taken together where they are one.
Copies normal(Copies copies);

/// A node moved so that its first byte is at `at`.
Copies copies_of(const NodePtr& node, Offset at);

/// Copies [first, first + count) of some.  Requires count >= 1.
Copies part_of(const Copies& copies, Offset first, Offset count);

/// Appends the members of one copy at `at` of a unit that is a list (or irregular blocks), the last member first.
/// Requires: no more than a loop is a unit here.  O(members).
void push_members(const Node& unit, Offset at, std::vector<Copies>& reversed);

/// Grows at its end only, so that its bytes increase strictly; whatever continues the end is joined with it.
class Chain {
 public:
  /// False, and nothing done, when `next` begins before the end of what there is.  Amortized O(1), and O(entries) where a
  /// unit has to be compared with another.
  [[nodiscard]] bool append(Copies next);

  /// Data positions [from, to) of `copies`, which are monotone.  O(depth * log(longest list) + entries of lists in what is cut out).
  [[nodiscard]] bool append_slice(const Copies& copies, Offset from, Offset to);

  /// The widths of all parts.
  [[nodiscard]] Offset width() const { return width_; }
  /// The same without the last part, which may yet be joined with what comes.
  [[nodiscard]] Offset settled_width() const { return parts_.empty() ? 0 : width_ - parts_.back().width; }

  /// All of it as one node in normal form; null when there is nothing or something does not fit 64 bits.  O(parts).
  [[nodiscard]] NodePtr build() const;

 private:
  [[nodiscard]] bool append_slice_of_unit(const Copies& copies, Offset index, Offset from, Offset to);
  [[nodiscard]] bool append_slice_of_blocks(const Blocks& blocks, Offset at, Offset from, Offset to);
  [[nodiscard]] bool append_slice_of_list(const List& list, Offset at, Offset from, Offset to);

  std::vector<Copies> parts_;
  Offset width_ = 0;
};

}  // namespace penstock::access
