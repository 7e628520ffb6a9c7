// Strategies: each carries out one kind of plan for the bytes of one rank.  Effects go through the store; pure
// decisions (which strategy) are in src/plan.
#pragma once

#include <cstddef>
#include <memory>

#include "access/cursor.h"
#include "access/layout.h"
#include "base/status.h"
#include "store/store.h"
#include "trace/trace.h"

namespace penstock::strategy {

/// One access of one rank: data positions [position, position + bytes) of `file` from or to data positions
/// [memory_position, ...) of `memory`, whose offsets count from `buffer`.
/// Requires: file is monotone; for writes it does not overlap itself.
struct Access {
  store::File& store;
  const access::Tiling& file;
  Offset position = 0;
  const access::Tiling& memory;
  Offset memory_position = 0;
  Offset bytes = 0;
  std::byte* buffer = nullptr;
  trace::OpTrace& trace;
  Offset buffer_bytes = 4 << 20;  ///< bound on staging memory (reads: ind_rd_buffer_size, writes: ind_wr_buffer_size)
  /// This is the `turn`-th of `turns` ranks of the node that may write nearby at the same time: each begins somewhere
  /// else, so that they do not all wait for the same pages.
  int turn = 0;
  int turns = 1;
};

/// The whole of an access that is one piece of the file and one piece of memory.
struct Piece {
  store::File& store;
  Offset offset = 0;  ///< in the file
  std::byte* memory = nullptr;
  Offset bytes = 0;
  trace::OpTrace& trace;
};

/// Each returns the number of bytes moved, counted from the start without a gap: `access.bytes`, or less at the end of
/// the file (reads). A failure of a write says nothing of which bytes arrived.  Bytes between the pieces are never
/// changed, in the file or in memory.

/// One store transfer, with nothing to walk or choose: small calls are mostly these, and cost little more than the transfer.
Result<Offset> read_piece(const Piece& piece);
Result<Offset> write_piece(const Piece& piece);

/// A store transfer per contiguous piece, batched; adjacent file pieces from scattered memory go in one call.
Result<Offset> read_independent(const Access& access);
Result<Offset> write_independent(const Access& access);

/// Copies straight between the buffer and the mapped file.  Requires traits().can_map and maps_coherent.
/// write: grows the file first, faults pages in through Mapping::populate so that a full device is an error and not a
/// signal.
Result<Offset> read_mapped(const Access& access);
Result<Offset> write_mapped(const Access& access);

/// read: one large read per window, then pick the pieces.  write: read-modify-write per window; Requires that the
/// caller excludes every other writer of the window (see file/sieve_lock.h); a window without gaps is written without
/// reading it first.
Result<Offset> read_sieved(const Access& access);
Result<Offset> write_sieved(const Access& access);

}  // namespace penstock::strategy
