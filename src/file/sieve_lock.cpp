// The protocol of sieve_lock.h, on a store's range locks.
#include "file/sieve_lock.h"

namespace penstock::file {

namespace {

constexpr Offset kPlainSign = kLockSigns;
constexpr Offset kSievingSign = kLockSigns + 1;

}  // namespace

bool SieveLock::answers(State state, bool want_sieving) {
  switch (state) {
    case State::kNone: return false;
    case State::kPlain:
    case State::kLocking: return !want_sieving;
    case State::kPlainRefused:
    case State::kLockingRefused:
    case State::kSieving: return want_sieving;
  }
  return false;
}

WriteRight SieveLock::right_of(State state) {
  switch (state) {
    case State::kSieving: return WriteRight::kMaySieve;
    case State::kLocking:
    case State::kLockingRefused: return WriteRight::kLockRanges;
    default: return WriteRight::kPlain;
  }
}

Result<WriteRight> SieveLock::acquire(store::File& file, bool want_sieving) {
  const State present = state_.load(std::memory_order_acquire);
  if (answers(present, want_sieving)) return right_of(present);
  const std::lock_guard guard(mutex_);
  State state = state_.load(std::memory_order_relaxed);
  if (answers(state, want_sieving)) return right_of(state);

  const store::Traits& traits = file.traits();
  if (!traits.node_local || !traits.range_locks) {
    // Locks of this node say nothing of writers on others, so nobody sieves such files at all.
    state = want_sieving ? State::kPlainRefused : State::kPlain;
  } else if (!traits.can_read_back) {
    // The kernel refuses shared locks to a file that cannot be read, so it cannot show itself as plain; it locks each range instead.
    state = want_sieving ? State::kLockingRefused : State::kLocking;
  } else {
    Result<State> next = want_sieving ? become_siever(file) : become_plain(file);
    if (!next) {
      state_.store(State::kNone, std::memory_order_release);
      return next.status();
    }
    state = *next;
  }
  state_.store(state, std::memory_order_release);
  return right_of(state);
}

Result<SieveLock::State> SieveLock::become_plain(store::File& file) {
  PENSTOCK_TRY(hold(file, kPlainSign, holds_plain_));
  const Result<bool> sieved = file.range_is_locked(kSievingSign, 1);
  if (!sieved) {
    (void)let_go(file, kPlainSign, holds_plain_);
    return sieved.status();
  }
  if (*sieved) PENSTOCK_TRY(let_go(file, kPlainSign, holds_plain_));
  PENSTOCK_TRY(let_go(file, kSievingSign, holds_sieving_));
  return *sieved ? State::kLocking : State::kPlain;
}

Result<SieveLock::State> SieveLock::become_siever(store::File& file) {
  PENSTOCK_TRY(hold(file, kSievingSign, holds_sieving_));
  const Result<bool> written = file.range_is_locked(kPlainSign, 1);
  if (written.ok() && !*written) {
    PENSTOCK_TRY(let_go(file, kPlainSign, holds_plain_));
    return State::kSieving;
  }
  PENSTOCK_TRY(let_go(file, kSievingSign, holds_sieving_));
  if (!written) return written.status();
  const Result<State> plain = become_plain(file);
  if (!plain) return plain;
  return *plain == State::kPlain ? State::kPlainRefused : State::kLockingRefused;
}

Status SieveLock::hold(store::File& file, Offset sign, bool& held) {
  if (held) return {};
  PENSTOCK_TRY(file.lock_range(sign, 1, false));
  held = true;
  return {};
}

Status SieveLock::let_go(store::File& file, Offset sign, bool& held) {
  if (!held) return {};
  held = false;
  return file.unlock_range(sign, 1);
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
