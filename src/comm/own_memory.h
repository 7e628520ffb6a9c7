// Uninitialized memory of one process that grows.  Knows nothing of who uses it.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>

#include "base/status.h"

namespace penstock::comm {

class OwnMemory {
 public:
  /// What was in it is gone when it has to grow.  Fails with kNoMemory; then there is none.
  Result<std::byte*> at_least(std::size_t size_bytes) {
    if (size_bytes > size_bytes_) {
      bytes_.reset();  // before the new one is made: never both
      size_bytes_ = 0;
      bytes_.reset(new (std::nothrow) std::byte[size_bytes]);
      if (bytes_ == nullptr) return Status::failure(Code::kNoMemory, "no memory for " + std::to_string(size_bytes) + " bytes");
      size_bytes_ = size_bytes;
      ask_for_large_pages();
    }
    return bytes_.get();
  }

 private:
  /// Windows of some MiB are touched once from end to end for every file: by large pages, where the kernel gives them to who asks, that is one fault and not 512.
  void ask_for_large_pages() const {
    constexpr std::uintptr_t kLarge = 2U << 20;
    const auto first = reinterpret_cast<std::uintptr_t>(bytes_.get());
    const std::uintptr_t begin = (first + kLarge - 1) / kLarge * kLarge, end = (first + size_bytes_) / kLarge * kLarge;
    if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
  }

  std::unique_ptr<std::byte[]> bytes_;
  std::size_t size_bytes_ = 0;
};

}  // namespace penstock::comm
