// The buffer grows to the largest size asked for, up to a bound; larger ones are given back at once.
#include "strategy/staging.h"

#include <algorithm>
#include <new>
#include <string>

namespace penstock::strategy {

namespace {

constexpr Offset kKeptBytesMax = Offset{64} << 20;
constexpr Offset kKeptBytesMin = Offset{256} << 10;

struct Kept {
  std::unique_ptr<std::byte[]> memory;
  Offset bytes = 0;
};
thread_local Kept kept;

}  // namespace

Staging::Staging(Offset bytes) : bytes_(bytes), data_(nullptr) {
  if (kept.bytes < bytes) {
    kept = {};  // before the new one is made: never both
    const Offset wanted = std::max(bytes, kKeptBytesMin);
    kept.memory.reset(new (std::nothrow) std::byte[static_cast<std::size_t>(wanted)]);
    if (kept.memory) kept.bytes = wanted;
  }
  data_ = kept.memory.get();
}

Staging::~Staging() {
  if (kept.bytes > kKeptBytesMax) kept = {};
}

Status Staging::status() const {
  if (data_ != nullptr) return {};
  return Status::failure(Code::kNoMemory, "no memory for a staging buffer of " + std::to_string(bytes_) +
                                              " bytes; set ind_rd_buffer_size or ind_wr_buffer_size lower");
}

}  // namespace penstock::strategy
