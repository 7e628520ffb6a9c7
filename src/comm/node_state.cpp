// Agreement, lock and futex waiting on shared memory.
#include "comm/node_state.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <bit>
#include <ctime>

namespace penstock::comm {
namespace {

constexpr std::int64_t kFirstNapNs = 250'000;
// About fifty microseconds, what a sleep and its wake-up cost on a virtual machine: who waits longer than that loses at most as much again.
constexpr int kSpins = 1500;
// So long it looks after that, each time after others had the core if they wanted it.  A rank that sleeps is often woken on the core of the one that
// wakes it, and then the two take turns there for milliseconds though another core is idle.
constexpr std::int64_t kYieldingNs = 300'000;

std::int64_t monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

void pause_processor() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

std::uint32_t ticket_bit(std::uint32_t ticket) { return 1U << (ticket % 32); }

}  // namespace

std::uint64_t verdict_key(const Verdict& verdict, int rank) {
  if (verdict.ok()) return 0;
  constexpr std::int32_t kFieldMaximum = 0xffff;
  const auto code = static_cast<std::uint64_t>(std::clamp(verdict.code, 0, kFieldMaximum));
  const auto system_errno = static_cast<std::uint64_t>(std::clamp(verdict.system_errno, 0, kFieldMaximum));
  // Complemented, so that the maximum is the lowest rank and that no failure is 0.
  return ~(static_cast<std::uint64_t>(rank) << 32 | code << 16 | system_errno);
}

Verdict verdict_of(std::uint64_t key) {
  if (key == 0) return {};
  const std::uint64_t fields = ~key;
  return {.code = static_cast<std::int32_t>(fields >> 16 & 0xffff),
          .system_errno = static_cast<std::int32_t>(fields & 0xffff),
          .rank = static_cast<std::int32_t>(fields >> 32)};
}

bool FutexWord::wait_until(std::uint32_t wanted, std::uint32_t bits, const Waiting& waiting) {
  return wait([wanted](std::uint32_t seen) { return seen == wanted; }, bits, waiting);
}

bool FutexWord::wait_while(std::uint32_t unwanted, const Waiting& waiting) {
  return wait([unwanted](std::uint32_t seen) { return seen != unwanted; }, ~0U, waiting);
}

void FutexWord::wake(std::uint32_t bits) {
  // A sleeper counts itself before the kernel looks at the value, we changed the value before looking at the count: one of us sees the other.
  if (sleepers_.load(std::memory_order_seq_cst) == 0) return;
  syscall(SYS_futex, &value, FUTEX_WAKE_BITSET, INT32_MAX, nullptr, nullptr, bits);
}

template <typename Done>
bool FutexWord::wait(Done done, std::uint32_t bits, const Waiting& waiting) {
  for (int look = 0; look <= waiting.spins; ++look) {
    if (done(value.load(std::memory_order_acquire))) return true;
    pause_processor();
  }
  // By the clock: where somebody else works on this core, one look takes his whole turn.
  if (waiting.spins > 0)
    for (const std::int64_t end_ns = monotonic_ns() + kYieldingNs; monotonic_ns() < end_ns;) {
      sched_yield();
      if (done(value.load(std::memory_order_acquire))) return true;
    }
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  std::int64_t nap_ns = std::min(kFirstNapNs, waiting.longest_nap_ns);
  bool in_time = true;
  for (;;) {
    const std::uint32_t seen = value.load(std::memory_order_seq_cst);
    if (done(seen)) break;
    if (!sleep(seen, bits, waiting, nap_ns)) {
      in_time = done(value.load(std::memory_order_acquire));
      break;
    }
  }
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
  return in_time;
}

// One sleep, until woken, until a signal, or until it is time to poke.  False when the poke says to give up.
bool FutexWord::sleep(std::uint32_t seen, std::uint32_t bits, const Waiting& waiting, std::int64_t& nap_ns) {
  timespec until{};
  if (waiting.poke != nullptr) {
    // FUTEX_WAIT_BITSET takes the time of the monotonic clock, not a duration.
    clock_gettime(CLOCK_MONOTONIC, &until);
    const std::int64_t end_ns = until.tv_nsec + nap_ns;
    until.tv_sec += end_ns / 1'000'000'000;
    until.tv_nsec = end_ns % 1'000'000'000;
  }
  const long outcome = syscall(SYS_futex, &value, FUTEX_WAIT_BITSET, seen, waiting.poke != nullptr ? &until : nullptr,
                               nullptr, bits);
  if (outcome == 0 || errno == EAGAIN || waiting.poke == nullptr) return true;  // woken, or not asleep: the caller looks again
  if (errno == ETIMEDOUT) nap_ns = std::min(2 * nap_ns, waiting.longest_nap_ns);
  // Also when a signal ended the nap: those of a profiler's timer can come so often that none is ever slept to its end.
  return !waiting.poke(waiting.context);
}

void Agreement::contribute(std::uint32_t generation, std::uint64_t key) {
  if (key == 0) return;
  std::atomic<std::uint64_t>& worst = worst_[generation % 2];
  std::uint64_t before = worst.load(std::memory_order_relaxed);
  while (before < key && !worst.compare_exchange_weak(before, key, std::memory_order_acq_rel)) {
  }
}

Agreement::Outcome Agreement::agree(std::uint64_t key, std::uint32_t size, const Waiting& waiting) {
  const std::uint32_t generation = this->generation();  // cannot change before this member has arrived
  contribute(generation, key);
  if (arrived_.value.fetch_add(1, std::memory_order_acq_rel) + 1 == size) {
    const std::uint64_t worst = worst_[generation % 2].load(std::memory_order_relaxed);
    release(worst);
    return {.key = worst};
  }
  if (!generation_.wait_while(generation, waiting)) return {.given_up = true};
  return {.key = worst_[generation % 2].load(std::memory_order_relaxed)};
}

Agreement::Outcome Agreement::gather(std::uint64_t key, std::uint32_t size, const Waiting& waiting) {
  const std::uint32_t generation = this->generation();
  contribute(generation, key);
  arrived_.value.fetch_add(1, std::memory_order_acq_rel);
  if (!arrived_.wait_until(size, ~0U, waiting)) return {.given_up = true};
  return {.key = worst_[generation % 2].load(std::memory_order_relaxed)};
}

void Agreement::release(std::uint64_t key) {
  const std::uint32_t generation = this->generation();
  worst_[generation % 2].store(key, std::memory_order_relaxed);
  worst_[(generation + 1) % 2].store(0, std::memory_order_relaxed);
  arrived_.value.store(0, std::memory_order_relaxed);
  generation_.value.store(generation + 1, std::memory_order_seq_cst);
  generation_.wake();
}

Agreement::Outcome Agreement::follow(std::uint64_t key, std::uint32_t size, const Waiting& waiting) {
  const std::uint32_t generation = this->generation();
  contribute(generation, key);
  if (arrived_.value.fetch_add(1, std::memory_order_seq_cst) + 1 == size) arrived_.wake();
  if (!generation_.wait_while(generation, waiting)) return {.given_up = true};
  return {.key = worst_[generation % 2].load(std::memory_order_relaxed)};
}

void TicketLock::lock(bool exclusive, int spins) {
  const std::uint32_t ticket = next_.fetch_add(1, std::memory_order_relaxed);
  FutexWord& turn = exclusive ? writers_turn_ : readers_turn_;
  turn.wait_until(ticket, ticket_bit(ticket), {.spins = spins});
  if (exclusive) return;
  readers_turn_.value.fetch_add(1, std::memory_order_seq_cst);
  readers_turn_.wake(ticket_bit(ticket + 1));
}

void TicketLock::unlock(bool exclusive) {
  if (exclusive) {
    const std::uint32_t before = readers_turn_.value.fetch_add(1, std::memory_order_seq_cst);
    readers_turn_.wake(ticket_bit(before + 1));
  }
  const std::uint32_t before = writers_turn_.value.fetch_add(1, std::memory_order_seq_cst);
  writers_turn_.wake(ticket_bit(before + 1));
}

void add_processors(NodeState& state) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  constexpr int kBits = 64 * NodeState::kProcessorWords;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) {
    // A machine with more processors than cpu_set_t has bits: count those that are on line.
    const long online = std::clamp(sysconf(_SC_NPROCESSORS_ONLN), 1L, static_cast<long>(std::min(kBits, CPU_SETSIZE)));
    for (int processor = 0; processor < online; ++processor) CPU_SET(processor, &allowed);
  }
  for (int processor = 0; processor < std::min(kBits, CPU_SETSIZE); ++processor)
    if (CPU_ISSET(processor, &allowed))
      state.processors[processor / 64].fetch_or(std::uint64_t{1} << (processor % 64), std::memory_order_relaxed);
}

int spins_for(const NodeState& state, int ranks) {
  int processors = 0;
  for (const auto& word : state.processors) processors += std::popcount(word.load(std::memory_order_relaxed));
  return ranks <= processors ? kSpins : 0;
}

}  // namespace penstock::comm
