// The table of held ranges: a plain list, because a process holds a handful at a time.
#include "store/range_locks.h"

#include <algorithm>
#include <limits>

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

Offset RangeLocks::covered_until(Offset at) const {
  Offset end = at;
  for (const Held& held : held_)
    if (held.offset <= at) end = std::max(end, held.offset + held.length);
  return end;
}

Offset RangeLocks::next_held(Offset at) const {
  Offset next = std::numeric_limits<Offset>::max();
  for (const Held& held : held_)
    if (held.offset > at) next = std::min(next, held.offset);
  return next;
}

}  // namespace penstock::store
