// The protocol of sieve_lock.h, on a store's range locks.
#include "file/sieve_lock.h"

namespace penstock::file {

namespace {

constexpr Offset kPlainSign = kLockSigns;
constexpr Offset kSievingSign = kLockSigns + 1;

/// Locks one's own sign, then looks for others' signs of the other kind: true when there is none.  Else the own sign is
/// given back.
Result<bool> show(store::File& file, Offset own, Offset other) {
  PENSTOCK_TRY(file.lock_range(own, 1, false));
  const Result<bool> met = file.range_is_locked(other, 1);
  if (met.ok() && !*met) return true;
  const Status given_back = file.unlock_range(own, 1);
  if (!met) return met.status();
  PENSTOCK_TRY(given_back);
  return false;
}

}  // namespace

Result<WriteRight> SieveLock::acquire(store::File& file, bool want_sieving) {
  if (known_.load(std::memory_order_acquire)) return right_;
  const std::lock_guard guard(mutex_);
  if (known_.load(std::memory_order_relaxed)) return right_;
  const Result<WriteRight> right = find_out(file, want_sieving);
  if (!right) return right;
  right_ = *right;
  known_.store(true, std::memory_order_release);
  return right;
}

Result<WriteRight> SieveLock::find_out(store::File& file, bool want_sieving) {
  const store::Traits& traits = file.traits();
  // Locks of this node say nothing of writers on others, so nobody sieves such files at all.
  if (!traits.node_local || !traits.range_locks) return WriteRight::kPlain;
  // The kernel refuses shared locks to a file that cannot be read, so it cannot show itself as plain; it locks each
  // range instead.
  if (!traits.can_read_back) return WriteRight::kLockRanges;
  if (want_sieving) {
    const Result<bool> alone = show(file, kSievingSign, kPlainSign);
    if (!alone) return alone.status();
    if (*alone) return WriteRight::kMaySieve;
  }
  const Result<bool> alone = show(file, kPlainSign, kSievingSign);
  if (!alone) return alone.status();
  return *alone ? WriteRight::kPlain : WriteRight::kLockRanges;
}

Result<WriteGuard> WriteGuard::lock(store::File& file, WriteRight right, Offset first, Offset end) {
  if (right == WriteRight::kPlain || end <= first) return WriteGuard(nullptr, 0, 0);
  PENSTOCK_TRY(file.lock_range(first, end - first, false));
  return WriteGuard(&file, first, end - first);
}

WriteGuard::~WriteGuard() {
  if (file_ != nullptr) (void)file_->unlock_range(first_, length_);
}

}  // namespace penstock::file
