// A queue of attempts, and who may make them.
#include "comm/errands.h"

#include <algorithm>
#include <utility>

namespace penstock::comm {
namespace {

thread_local int scopes_of_ours = 0;

}  // namespace

ThreadOfOurs::ThreadOfOurs() { ++scopes_of_ours; }
ThreadOfOurs::~ThreadOfOurs() { --scopes_of_ours; }
bool ThreadOfOurs::here() { return scopes_of_ours > 0; }

Errands& Errands::of_process() {
  static auto* const errands = new Errands;
  return *errands;
}

std::uint64_t Errands::post(Attempt attempt) {
  const std::lock_guard lock(mutex_);
  errands_.push_back({next_ticket_, std::move(attempt)});
  count_.store(errands_.size(), std::memory_order_release);
  return next_ticket_++;
}

void Errands::wait(std::uint64_t ticket) {
  std::unique_lock lock(mutex_);
  over_.wait(lock, [&] { return std::none_of(errands_.begin(), errands_.end(), [&](const Errand& errand) { return errand.ticket == ticket; }); });
}

int Errands::progress() {
  if (count_.load(std::memory_order_acquire) == 0) return 0;
  // An attempt calls MPI, and MPI may call this.
  if (running_.test_and_set(std::memory_order_acquire)) return 0;
  int over = 0;
  std::unique_lock lock(mutex_);
  // Others only append, which leaves references to elements of a deque alone; only here is anything taken out.
  for (std::size_t i = 0; i < errands_.size();) {
    Errand& errand = errands_[i];
    lock.unlock();
    const bool is_over = errand.attempt();
    lock.lock();
    if (!is_over) {
      ++i;
      continue;
    }
    errands_.erase(errands_.begin() + static_cast<std::ptrdiff_t>(i));
    ++over;
  }
  count_.store(errands_.size(), std::memory_order_release);
  lock.unlock();
  running_.clear(std::memory_order_release);
  if (over > 0) over_.notify_all();
  return over;
}

}  // namespace penstock::comm
