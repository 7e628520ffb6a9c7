// The window of an aggregator: a part of the file in memory, and which of its bytes have arrived.  Private to this room.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "access/cursor.h"
#include "base/status.h"

namespace penstock::strategy {

class FileWindow {
 public:
  /// At most `bytes` at once; check status().
  explicit FileWindow(Offset bytes);
  [[nodiscard]] Status status() const;

  /// Begins anew at a file offset: nothing has arrived.
  void begin(Offset first, Offset length);
  [[nodiscard]] std::byte* at(Offset offset) { return bytes_.get() + (offset - first_); }
  [[nodiscard]] Offset first() const { return first_; }

  /// [offset, offset + length) has arrived.
  void mark(Offset offset, Offset length);

  /// The next stretch of bytes that have arrived, from `from` on; false when there is none.
  bool next_stretch(Offset from, Offset& first, Offset& end) const;

 private:
  Offset capacity_;
  std::unique_ptr<std::byte[]> bytes_;
  std::unique_ptr<std::uint64_t[]> arrived_;  ///< a bit per byte
  Offset first_ = 0;
  Offset length_ = 0;
};

}  // namespace penstock::strategy
