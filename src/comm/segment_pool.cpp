// A short list.
#include "comm/segment_pool.h"

#include <utility>

namespace penstock::comm {

SegmentPool& SegmentPool::of_process() {
  static auto* const pool = new SegmentPool;
  return *pool;
}

std::optional<NamedSegment> SegmentPool::take_at(std::size_t index) {
  NamedSegment taken = std::move(kept_[index]);
  kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(index));
  return taken;
}

std::optional<NamedSegment> SegmentPool::take_fitting(std::size_t size_bytes, int members) {
  constexpr std::size_t kWaste = 4;
  constexpr std::size_t kPageBytes = 4096;
  const std::lock_guard lock(mutex_);
  std::size_t best = kept_.size();
  for (std::size_t i = 0; i < kept_.size(); ++i) {
    const bool fits = kept_[i].members == members && kept_[i].size_bytes >= size_bytes && kept_[i].size_bytes <= kWaste * (size_bytes + kPageBytes);
    if (fits && (best == kept_.size() || kept_[i].size_bytes < kept_[best].size_bytes)) best = i;
  }
  return best == kept_.size() ? std::nullopt : take_at(best);
}

std::optional<NamedSegment> SegmentPool::take(const NodeSegment::Name& name) {
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < kept_.size(); ++i)
    if (kept_[i].name == name) return take_at(i);
  return std::nullopt;
}

void SegmentPool::give(NamedSegment segment) {
  const std::lock_guard lock(mutex_);
  kept_.push_back(std::move(segment));
  std::size_t bytes = 0;
  for (const NamedSegment& one : kept_) bytes += one.size_bytes;
  std::size_t first = 0;
  while (bytes > kBytesMost) bytes -= kept_[first++].size_bytes;
  kept_.erase(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(first));
}

}  // namespace penstock::comm
