// The independent strategy: a transfer per contiguous piece.
#include <algorithm>
#include <array>

#include "strategy/staged.h"

namespace penstock::strategy {

namespace {

using trace::Counter;
using trace::Phase;
using trace::PhaseScope;

/// Transfers handed to the store at once; on the stack.
constexpr std::size_t kBatchSize = 512;
/// Pieces of memory smaller than this that abut in the file are gathered by a copy, which is cheaper than handing each
/// to the kernel.
constexpr Offset kGatherBytesMax = 1024;

struct Reading {
  static constexpr Phase kPhase = Phase::kRead;
  static constexpr Counter kTransfers = Counter::kStoreReads;
  static constexpr Counter kBytes = Counter::kStoreBytesRead;
  static Status move(store::File& file, std::span<store::Transfer> batch) { return file.read(batch); }
  static Result<Offset> staged(const Access& access) { return read_staged(access); }
};

struct Writing {
  static constexpr Phase kPhase = Phase::kWrite;
  static constexpr Counter kTransfers = Counter::kStoreWrites;
  static constexpr Counter kBytes = Counter::kStoreBytesWritten;
  static Status move(store::File& file, std::span<store::Transfer> batch) { return file.write(batch); }
  static Result<Offset> staged(const Access& access) { return write_staged(access, Exclusion::kCallers); }
};

/// Moves a batch; `complete` turns false when the file ended in it.  Returns the bytes up to there.
template <typename Direction>
Result<Offset> move_batch(store::File& file, std::span<store::Transfer> batch, trace::OpTrace& trace, bool& complete) {
  {
    const PhaseScope phase(trace, Direction::kPhase);
    PENSTOCK_TRY(Direction::move(file, batch));
  }
  Offset moved = 0;
  for (const store::Transfer& transfer : batch) {
    moved += static_cast<Offset>(transfer.done);
    if (transfer.done < transfer.length) {
      complete = false;  // file offsets ascend, so what follows lies behind the end too
      break;
    }
  }
  trace.count(Direction::kTransfers, static_cast<std::int64_t>(batch.size()));
  trace.count(Direction::kBytes, moved);
  return moved;
}

template <typename Direction>
Result<Offset> move_piece(const Piece& piece) {
  store::Transfer transfer{piece.offset, piece.memory, static_cast<std::size_t>(piece.bytes)};
  bool complete = true;
  return move_batch<Direction>(piece.store, std::span(&transfer, 1), piece.trace, complete);
}

template <typename Direction>
Result<Offset> move_pieces(const Access& access, access::Zip& zip, access::Step step) {
  std::array<store::Transfer, kBatchSize> batch;
  std::size_t size = 0;
  Offset moved = 0;
  bool complete = true;
  do {
    for (Offset i = 0; i < step.count; ++i) {
      const Offset offset = step.file_offset + i * step.file_stride;
      std::byte* memory = access.buffer + (step.memory_offset + i * step.memory_stride);
      const auto length = static_cast<std::size_t>(step.length);
      if (size > 0) {
        store::Transfer& last = batch[size - 1];
        if (last.offset + static_cast<Offset>(last.length) == offset && last.memory + last.length == memory) {
          last.length += length;
          continue;
        }
      }
      if (size == kBatchSize) {
        const Result<Offset> done = move_batch<Direction>(access.store, std::span(batch.data(), size), access.trace, complete);
        if (!done) return done;
        moved += *done;
        if (!complete) return moved;
        size = 0;
      }
      batch[size++] = {offset, memory, length, 0};
    }
  } while (zip.next(step));
  const Result<Offset> done = move_batch<Direction>(access.store, std::span(batch.data(), size), access.trace, complete);
  if (!done) return done;
  return moved + *done;
}

/// One piece of the file, many small ones of memory.
bool worth_gathering(const Access& access) {
  const access::Bounds span = access::bounds_of(access.file, access.position, access.bytes);
  if (span.end - span.first != access.bytes) return false;
  const Offset pieces = access::pieces_in(access.memory, access.memory_position, access.bytes);
  return pieces > 1 && access.bytes / pieces < kGatherBytesMax;
}

template <typename Direction>
Result<Offset> move(const Access& access) {
  if (access.bytes <= 0) return Offset{0};
  access::Zip zip(access.file, access.position, access.memory, access.memory_position, access.bytes);
  access::Step step;
  if (!zip.next(step)) return Status::failure(Code::kIntern, "an access of bytes without a piece");
  if (step.length == access.bytes)
    return move_piece<Direction>({access.store, step.file_offset, access.buffer + step.memory_offset, access.bytes, access.trace});
  if (worth_gathering(access)) return Direction::staged(access);
  return move_pieces<Direction>(access, zip, step);
}

}  // namespace

Result<Offset> read_piece(const Piece& piece) { return move_piece<Reading>(piece); }
Result<Offset> write_piece(const Piece& piece) { return move_piece<Writing>(piece); }
Result<Offset> read_independent(const Access& access) { return move<Reading>(access); }
Result<Offset> write_independent(const Access& access) { return move<Writing>(access); }

}  // namespace penstock::strategy
