// The window of an aggregator: a part of the file in memory, and which of its bytes have arrived.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "access/cursor.h"
#include "base/status.h"
#include "strategy/kept.h"

namespace penstock::strategy {

/// Uninitialized memory that grows.
class Room {
 public:
  /// Fails with kNoMemory; then there is none.
  Status reserve(Offset bytes);
  [[nodiscard]] std::byte* data() const { return bytes_.get(); }
  [[nodiscard]] Offset size() const { return size_; }

 private:
  std::unique_ptr<std::byte[]> bytes_;
  Offset size_ = 0;
};

/// Borrows the memory; what has arrived it keeps itself.  Thread rule: one access at a time.
class FileWindow {
 public:
  /// Gives it memory for `bytes`; free where there was room before.  Fails with kNoMemory.
  Status use(std::byte* memory, Offset bytes);

  /// Begins anew at a file offset: nothing has arrived, and nothing is touched.
  void begin(Offset first);
  [[nodiscard]] Offset first() const { return first_; }
  /// Bytes of [first, end) will arrive.
  void touch(Offset first, Offset end);
  [[nodiscard]] Offset touched_first() const { return touched_first_; }
  [[nodiscard]] Offset touched_end() const { return touched_end_; }
  [[nodiscard]] std::byte* at(Offset offset) { return bytes_ + (offset - first_); }

  /// Forgets the marks of what is touched.
  void clear_marks();
  /// [offset, offset + length) has arrived.  Requires: it is touched.
  void mark(Offset offset, Offset length);

  /// The next stretch of bytes that have arrived, from `from` on; false when there is none.
  bool next_stretch(Offset from, Offset& first, Offset& end) const;

 private:
  [[nodiscard]] std::uint64_t* arrived() const { return reinterpret_cast<std::uint64_t*>(arrived_.data()); }

  std::byte* bytes_ = nullptr;
  Room arrived_;  ///< a bit per byte, from first_ on
  Offset first_ = 0;
  Offset touched_first_ = 0;
  Offset touched_end_ = 0;
};

/// What is under way at once: one round is being gathered, one communicated, one written; of reads, one is being read, one communicated, one handed out.
constexpr int kSlots = 3;

/// All that one rank keeps for the two-phase accesses of a file.
struct CollectiveMemory {
  FileWindow windows[kSlots];  ///< global aggregators only
  Room staging;                ///< global aggregators only: messages whose bytes do not abut in the file
  KeptPlans plans;             ///< of earlier accesses
  Room own;                    ///< this rank's data of a window, where its memory is not contiguous
};

}  // namespace penstock::strategy
