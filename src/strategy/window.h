// The window of an aggregator: a part of the file in memory, and which of its bytes have arrived.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "access/cursor.h"
#include "base/status.h"

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

/// Memory that is kept from one collective access of a file to the next.  Thread rule: one access at a time.
class FileWindow {
 public:
  /// Room for `bytes`; free where there was room before.  Fails with kNoMemory.
  Status reserve(Offset bytes);

  /// Begins anew at a file offset: nothing has arrived.
  void begin(Offset first, Offset length);
  [[nodiscard]] std::byte* at(Offset offset) { return bytes_.data() + (offset - first_); }
  [[nodiscard]] Offset first() const { return first_; }

  /// [offset, offset + length) has arrived.
  void mark(Offset offset, Offset length);

  /// The next stretch of bytes that have arrived, from `from` on; false when there is none.
  bool next_stretch(Offset from, Offset& first, Offset& end) const;

 private:
  [[nodiscard]] std::uint64_t* arrived() const { return reinterpret_cast<std::uint64_t*>(arrived_.data()); }

  Room bytes_;
  Room arrived_;  ///< a bit per byte
  Offset first_ = 0;
  Offset length_ = 0;
};

/// All that one rank keeps for the two-phase accesses of a file.
struct CollectiveMemory {
  FileWindow window;  ///< aggregators only
  Room staging;       ///< aggregators only: messages whose bytes do not abut in the file
  Room own;           ///< this rank's data of a round, where its memory is not contiguous
};

}  // namespace penstock::strategy
