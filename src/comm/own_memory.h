// Uninitialized memory of one process that grows.  Knows nothing of who uses it.
#pragma once

#include <cstddef>
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
    }
    return bytes_.get();
  }

 private:
  std::unique_ptr<std::byte[]> bytes_;
  std::size_t size_bytes_ = 0;
};

}  // namespace penstock::comm
