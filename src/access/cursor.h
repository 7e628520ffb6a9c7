// Cursors: walk a tiling in data order, one strided run at a time, without allocating per piece.  Pure.
#pragma once

#include <cstddef>
#include <vector>

#include "access/layout.h"

namespace penstock::access {

/// Yields the runs of data positions [position, position + bytes) of a tiling, in data order; the lengths times counts
/// add up to `bytes`.  A piece cut by either end comes as a run of its own.
/// Borrows nothing that the tiling's node does not own: keeps the node alive.  Thread rule: one thread at a time.
/// Cost: O(depth) to make, amortized O(1) per run; no allocation while the depth is at most kInlineDepth.
class Cursor {
 public:
  Cursor(const Tiling& tiling, Offset position, Offset bytes);

  /// The next run; false at the end.  `limit_bytes` bounds length * count of the run (a piece may be cut by it).
  bool next(Run& run, Offset limit_bytes = INT64_MAX);

  /// Bytes not yet yielded.
  [[nodiscard]] Offset remaining() const;
  // private part: the implementer's
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
  // private part: the implementer's
};

/// Copies count pieces of length bytes between two strided places that do not overlap.  The hot loop of every strategy:
/// lengths 1, 2, 4, 8 and 16 are compiled apart.
void copy_strided(std::byte* to, Offset to_stride, const std::byte* from, Offset from_stride, Offset length, Offset count);

}  // namespace penstock::access
