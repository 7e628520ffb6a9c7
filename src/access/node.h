// Nodes: how a layout is kept.  Internal to src/access; nobody else looks inside a NodePtr.
//
// A node is a sequence of bytes in data order.  It is made in normal form: abutting blocks of one element kind are one
// block, a loop without gaps is a block, a list that is regular is a loop, two loops that continue one another are
// one.  Hence a node of raw bytes without gaps is always a single block.
#pragma once

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "access/layout.h"

namespace penstock::access {

/// Wide enough for any sum of a few products of two offsets: computed here first, then checked.
__extension__ typedef __int128 Wide;

inline bool fits(Wide value) {
  return value >= std::numeric_limits<Offset>::min() && value <= std::numeric_limits<Offset>::max();
}

inline Offset nearest(Wide value) {
  if (value < std::numeric_limits<Offset>::min()) return std::numeric_limits<Offset>::min();
  if (value > std::numeric_limits<Offset>::max()) return std::numeric_limits<Offset>::max();
  return static_cast<Offset>(value);
}

/// Irregular blocks of one element kind.
struct Blocks {
  std::vector<Offset> offsets;    ///< from the node's base; the first is 0
  std::vector<Offset> positions;  ///< data position at which each block starts, and the end; empty when all are equally long
  Offset length = 0;              ///< of every block, or 0 when they differ

  [[nodiscard]] Offset count() const { return static_cast<Offset>(offsets.size()); }
  [[nodiscard]] Offset position(Offset i) const { return length > 0 ? i * length : positions[i]; }
  [[nodiscard]] Offset length_of(Offset i) const { return length > 0 ? length : positions[i + 1] - positions[i]; }
  /// The block that holds data position p.
  [[nodiscard]] Offset at_position(Offset p) const {
    if (length > 0) return p / length;
    return std::upper_bound(positions.begin(), positions.end(), p) - positions.begin() - 1;
  }
};

/// Irregular parts of any shape.
struct List {
  std::vector<Offset> offsets;    ///< from the node's base to each child's; the first is 0
  std::vector<Offset> positions;  ///< data position at which each child starts, and the end
  std::vector<Offset> pieces;     ///< number of pieces before each child, and in all
  std::vector<NodePtr> children;  ///< each of positive size, with base 0

  [[nodiscard]] Offset count() const { return static_cast<Offset>(children.size()); }
  [[nodiscard]] Offset at_position(Offset p) const {
    return std::upper_bound(positions.begin(), positions.end(), p) - positions.begin() - 1;
  }
};

struct Node {
  enum class Kind : std::uint8_t { kEmpty, kBlock, kLoop, kBlocks, kList };

  Kind kind = Kind::kEmpty;
  Element element = Element::kRaw;  ///< kBlock, kBlocks
  bool monotone = true;             ///< offsets of bytes never decrease in data order
  bool repeats = false;             ///< monotone, and some offset comes twice in succession
  bool typed = false;               ///< some of its bytes belong to elements of another kind than kRaw
  Offset base = 0;                  ///< offset of the first byte in data order
  Offset size = 0;                  ///< bytes of data
  Offset pieces = 0;                ///< blocks that it stands for
  Offset width = 0;                 ///< blocks and entries of lists that it is written with: pieces, but a loop counts once
  Offset lower = 0;                 ///< lowest offset, from base (so 0 when monotone)
  Offset upper = 0;                 ///< one past the highest offset, from base
  Offset element_size = 1;          ///< kBlock, kBlocks
  Offset count = 0;                 ///< kLoop: at least 2
  Offset stride = 0;                ///< kLoop
  NodePtr child;                    ///< kLoop: of positive size, with base 0
  std::shared_ptr<const Blocks> blocks;
  std::shared_ptr<const List> list;

  [[nodiscard]] Offset span() const { return upper - lower; }
  /// Data position p is at base + p.
  [[nodiscard]] bool dense() const { return size > 0 && monotone && !repeats && upper == size; }
};

/// A node somewhere: the node's own base plus `offset`.
struct Placed {
  Offset offset = 0;
  NodePtr node;
};

// Makers of nodes in normal form.  All fail with kType when something does not fit 64 bits.
NodePtr empty_node();
Result<NodePtr> make_block(Offset offset, Offset length, Element element, Offset element_size);
/// `count` copies of `child`, the first moved by `offset`, the others `stride` further each.
Result<NodePtr> make_loop(Offset offset, Offset count, Offset stride, const NodePtr& child);
/// Blocks in data order; both vectors are equally long.
Result<NodePtr> make_blocks(std::vector<Offset> offsets, std::vector<Offset> lengths, Element element, Offset element_size);
Result<NodePtr> make_list(std::vector<Placed> parts);

/// The same bytes but for the base.  By pointer where that decides, else O(entries).
bool same_shape(const Node& a, const Node& b);

/// The failure of everything that outgrows 64 bits; `what` names the number.
Status too_large(const char* operation, const char* what);

}  // namespace penstock::access
