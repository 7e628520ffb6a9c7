// The table of held ranges: a plain list, because a process holds a handful at a time.
#include "store/range_locks.h"

#include <algorithm>

namespace penstock::store {

namespace {

bool overlap(Offset a, Offset a_length, Offset b, Offset b_length) { return a < b + b_length && b < a + a_length; }

}  // namespace

void RangeLocks::acquire(const void* owner, Offset offset, Offset length, bool exclusive) {
  std::unique_lock guard(mutex_);
  released_.wait(guard, [&] {
    return std::none_of(held_.begin(), held_.end(), [&](const Held& held) {
      return (exclusive || held.exclusive) && overlap(offset, length, held.offset, held.length);
    });
  });
  held_.push_back({owner, offset, length, exclusive});
}

void RangeLocks::release_all(const void* owner) {
  const std::lock_guard guard(mutex_);
  std::erase_if(held_, [&](const Held& held) { return held.owner == owner; });
  released_.notify_all();
}

bool RangeLocks::held_by_others(const void* owner, Offset offset, Offset length) {
  const std::lock_guard guard(mutex_);
  return std::any_of(held_.begin(), held_.end(), [&](const Held& held) {
    return held.owner != owner && overlap(offset, length, held.offset, held.length);
  });
}

bool RangeLocks::erase(const void* owner, Offset offset, Offset length) {
  const auto found = std::find_if(held_.begin(), held_.end(), [&](const Held& held) {
    return held.owner == owner && held.offset == offset && held.length == length;
  });
  if (found == held_.end()) return false;
  held_.erase(found);
  return true;
}

void RangeLocks::uncovered(Offset offset, Offset length, std::vector<Part>& parts) const {
  parts.assign(1, {offset, length});
  for (const Held& held : held_) {
    std::vector<Part> rest;
    for (const auto& [first, size] : parts) {
      if (!overlap(first, size, held.offset, held.length)) {
        rest.emplace_back(first, size);
        continue;
      }
      if (held.offset > first) rest.emplace_back(first, held.offset - first);
      const Offset held_end = held.offset + held.length;
      if (held_end < first + size) rest.emplace_back(held_end, first + size - held_end);
    }
    parts = std::move(rest);
  }
}

}  // namespace penstock::store
