// Cursors: walk a tiling in data order, one strided run at a time, without allocating per piece.  Pure.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "access/layout.h"

namespace penstock::access {

/// Yields the runs of data positions [position, position + bytes) of a tiling, in data order; the lengths times counts
/// add up to `bytes`.  A piece cut by either end comes as a run of its own.  Pieces that a layout keeps apart are not
/// joined, even where the last of one copy abuts the first of the next.
/// Requires: position >= 0, bytes >= 0, a node of positive size unless bytes is 0.
/// Borrows nothing that the tiling's node does not own: keeps the node alive.  Thread rule: one thread at a time.
/// Cost: O(depth) to make, amortized O(1) per run; no allocation while the depth is at most kInlineDepth.
class Cursor {
 public:
  Cursor(const Tiling& tiling, Offset position, Offset bytes);

  /// The next run; false at the end.  `limit_bytes`, at least 1, bounds length * count of the run (a piece may be cut by it).
  bool next(Run& run, Offset limit_bytes = INT64_MAX);

  /// Bytes not yet yielded.
  [[nodiscard]] Offset remaining() const { return remaining_; }

  static constexpr int kInlineDepth = 12;

 private:
  /// A loop or list on the way down to where we are: its first byte is at `origin`, we are in its part `index`.
  struct Frame {
    const Node* node;
    Offset origin;
    Offset index;
  };

  Frame& frame(int level) { return level < kInlineDepth ? inline_[level] : deep_[level - kInlineDepth]; }
  void push(const Frame& frame);
  void descend(const Node* node, Offset origin, Offset skip);
  void take_blocks(Offset skip);
  void advance();

  NodePtr root_;             ///< what is repeated, after folding loops that only continue the tiling
  Offset first_tile_ = 0;    ///< offset of the root's first byte in copy 0
  Offset tile_stride_ = 0;
  Offset tile_ = 0;          ///< the copy we are in
  Offset remaining_ = 0;

  // The regular pieces we are in: `pieces_left_` of `length_` bytes, the first at `offset_`, already yielded up to `within_`.
  Offset offset_ = 0;
  Offset length_ = 0;
  Offset stride_ = 0;
  Offset pieces_left_ = 0;
  Offset within_ = 0;
  Element element_ = Element::kRaw;
  Offset element_size_ = 1;

  // Irregular blocks we are in, taken one regular stretch after another; null elsewhere.
  const Node* blocks_ = nullptr;
  Offset blocks_origin_ = 0;
  Offset next_block_ = 0;

  int depth_ = 0;
  std::array<Frame, kInlineDepth> inline_;
  std::vector<Frame> deep_;
};

/// `count` pieces of `length` bytes that move between a file (first at `file_offset`, `file_stride` apart) and a
/// buffer (first at `memory_offset` from its start, `memory_stride` apart).
struct Step {
  Offset file_offset = 0;
  Offset file_stride = 0;
  Offset memory_offset = 0;
  Offset memory_stride = 0;
  Offset length = 0;
  Offset count = 0;
};

/// Walks file and memory in step: the joint strided runs of file positions [file_position, +bytes) and memory
/// positions [memory_position, +bytes).  A regular pattern against contiguous memory, or against memory of equal piece length
/// comes out as one Step per run, not per piece.
class Zip {
 public:
  Zip(const Tiling& file, Offset file_position, const Tiling& memory, Offset memory_position, Offset bytes);
  bool next(Step& step);

 private:
  /// The run one side is in; of its first piece `within` bytes are done.
  struct Side {
    Cursor cursor;
    Run run;
    Offset within = 0;

    bool fill();
    [[nodiscard]] Offset piece_length() const { return run.length - within; }
    [[nodiscard]] Offset pieces() const { return within > 0 ? 1 : run.count; }  ///< that are all piece_length() long
    void skip_pieces(Offset count);
    void skip_bytes(Offset bytes);
  };

  Side file_;
  Side memory_;
};

/// Copies count pieces of length bytes between two strided places that do not overlap.  The hot loop of every strategy:
/// the lengths of common elements, from 1 to
/// 128 bytes, are compiled apart.
void copy_strided(std::byte* to, Offset to_stride, const std::byte* from, Offset from_stride, Offset length, Offset count);

}  // namespace penstock::access
