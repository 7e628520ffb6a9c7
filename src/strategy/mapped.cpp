// The mapped strategy: the processor copies between the program's buffer and the pages of the file.
#include <algorithm>

#include "strategy/staged.h"

namespace penstock::strategy {

namespace {

using trace::Counter;
using trace::Phase;
using trace::PhaseScope;

/// Address space taken at once.
constexpr Offset kMapBytes = Offset{64} << 20;
/// Pages are faulted in just before they are copied to or from: they are still in a core's own cache, and somebody
/// else's truncation, which fails the access, has little time to come between.
constexpr Offset kPopulateBytes = Offset{256} << 10;
constexpr Offset kPageBytes = 4096;

struct Reading {
  static constexpr bool kWritable = false;
  static constexpr Phase kPhase = Phase::kRead;
  static constexpr Counter kTransfers = Counter::kStoreReads;
  static constexpr Counter kBytes = Counter::kStoreBytesRead;
  static Result<Offset> independently(const Access& access) { return read_independent(access); }
  static void copy(const Access& access, const access::Step& step, std::byte* mapped) {
    access::copy_strided(access.buffer + step.memory_offset, step.memory_stride, mapped, step.file_stride, step.length,
                         step.count);
  }
};

struct Writing {
  static constexpr bool kWritable = true;
  static constexpr Phase kPhase = Phase::kWrite;
  static constexpr Counter kTransfers = Counter::kStoreWrites;
  static constexpr Counter kBytes = Counter::kStoreBytesWritten;
  static Result<Offset> independently(const Access& access) { return write_independent(access); }
  static void copy(const Access& access, const access::Step& step, std::byte* mapped) {
    access::copy_strided(mapped, step.file_stride, access.buffer + step.memory_offset, step.memory_stride, step.length,
                         step.count);
  }
};

/// The same access, of the data of `window` only.
Access part_of(const Access& access, const Window& window) {
  return {.store = access.store,
          .file = access.file,
          .position = window.position,
          .memory = access.memory,
          .memory_position = access.memory_position + (window.position - access.position),
          .bytes = window.bytes,
          .buffer = access.buffer,
          .trace = access.trace,
          .buffer_bytes = access.buffer_bytes,
          .turn = access.turn,
          .turns = access.turns};
}

/// The data whose offsets lie within `span_bytes` from that of `position`.
Window window_at(const access::Tiling& file, Offset position, Offset bytes, Offset span_bytes) {
  Offset limit = 0;
  if (!checked_add(access::offset_of(file, position), span_bytes, limit)) limit = INT64_MAX;
  Window window{position, std::min(bytes, access::position_of(file, limit) - position), 0, 0};
  const access::Bounds bounds = access::bounds_of(file, position, window.bytes);
  window.first = bounds.first;
  window.end = bounds.end;
  return window;
}

/// True when most pages of the window hold a piece, so that faulting them all in wastes little.
bool is_dense(const access::Tiling& file, const Window& window) {
  const Offset pages = (window.end - window.first) / kPageBytes + 1;
  const Offset pieces = access::pieces_in(file, window.position, window.bytes);
  return (pieces + window.bytes / kPageBytes) * 2 >= pages;
}

template <typename Direction>
Status copy_chunk(const Access& access, const Window& chunk, store::Mapping& mapping) {
  {
    const PhaseScope phase(access.trace, Direction::kPhase);
    PENSTOCK_TRY(mapping.populate(chunk.first, chunk.end - chunk.first));
  }
  const PhaseScope phase(access.trace, Phase::kCopy);
  const Access part = part_of(access, chunk);
  access::Zip zip(part.file, part.position, part.memory, part.memory_position, part.bytes);
  access::Step step;
  while (zip.next(step)) Direction::copy(access, step, mapping.data() + (step.file_offset - mapping.first()));
  return mapping.intact();
}

/// Chunks lie at multiples of kPopulateBytes in the file, the same for all ranks, and each rank begins at its own share
/// of them and goes round.  Two ranks that fault the same new pages in at once cost nearly twice as much as two that
/// come one after the other, and interleaved ranks that begin at the same place stay together to the end.  Readers go
/// forward, which is what the kernel reads ahead for.
template <typename Direction>
Status copy_through(const Access& access, const Window& window, store::Mapping& mapping) {
  const Offset lowest = window.first / kPopulateBytes;
  const Offset chunks = (window.end - 1) / kPopulateBytes - lowest + 1;
  const Offset begin = Direction::kWritable ? chunks * access.turn / access.turns : 0;
  for (Offset taken = 0; taken < chunks; ++taken) {
    const Offset from = (lowest + (begin + taken) % chunks) * kPopulateBytes;
    const Offset last = window.position + window.bytes;
    Offset to = 0;  // the last chunk there can be ends behind the largest offset
    if (!checked_add(from, kPopulateBytes, to)) to = INT64_MAX;
    Window chunk;
    chunk.position = std::clamp(access::position_of(access.file, from), window.position, last);
    chunk.bytes = std::clamp(access::position_of(access.file, to), window.position, last) - chunk.position;
    if (chunk.bytes == 0) continue;
    const access::Bounds bounds = access::bounds_of(access.file, chunk.position, chunk.bytes);
    chunk.first = bounds.first;
    chunk.end = bounds.end;
    PENSTOCK_TRY(copy_chunk<Direction>(access, chunk, mapping));
  }
  return {};
}

/// Requires: the file reaches the last byte of the access.
template <typename Direction>
Result<Offset> move_mapped(const Access& access) {
  Offset moved = 0;
  while (moved < access.bytes) {
    const Window window = window_at(access.file, access.position + moved, access.bytes - moved, kMapBytes);
    std::unique_ptr<store::Mapping> mapping;
    if (is_dense(access.file, window)) {
      const PhaseScope phase(access.trace, Direction::kPhase);
      Result<std::unique_ptr<store::Mapping>> mapped =
          access.store.map(window.first, window.end - window.first, Direction::kWritable);
      if (mapped.ok())
        mapping = std::move(*mapped);
      else if (mapped.status().code() != Code::kUnsupported)
        return mapped.status();
    }
    if (mapping) {
      PENSTOCK_TRY(copy_through<Direction>(access, window, *mapping));
      access.trace.count(Direction::kTransfers);
      access.trace.count(Direction::kBytes, window.bytes);
      const PhaseScope phase(access.trace, Direction::kPhase);
      mapping.reset();
    } else {
      const Result<Offset> done = Direction::independently(part_of(access, window));
      if (!done) return done;
      if (*done < window.bytes) return moved + *done;
    }
    moved += window.bytes;
  }
  return moved;
}

}  // namespace

Result<Offset> read_mapped(const Access& access) {
  if (access.bytes <= 0) return Offset{0};
  const Result<Offset> size = access.store.size();
  if (!size) return size;
  // Data behind the end of the file is not there; touching its page would be a signal.
  const Offset there = access::position_of(access.file, *size) - access.position;
  if (there >= access.bytes) return move_mapped<Reading>(access);
  return move_mapped<Reading>(part_of(access, {access.position, std::max<Offset>(there, 0), 0, 0}));
}

Result<Offset> write_mapped(const Access& access) {
  if (access.bytes <= 0) return Offset{0};
  // Writing the last byte by a call makes the file reach that far, without a moment in which it could cut what another
  // rank has written behind it; it also reports limits, and sets the time of modification, which stores through a
  // mapping need not do.
  const Window last{access.position + access.bytes - 1, 1, 0, 0};
  const Result<Offset> reached = write_independent(part_of(access, last));
  if (!reached) return reached;
  return move_mapped<Writing>(access);
}

}  // namespace penstock::strategy
