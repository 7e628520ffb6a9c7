// A table of ranges that the signal handler looks into.
#include "store/posix/bus_errors.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <mutex>

namespace penstock::store {
namespace {

constexpr std::uintptr_t kNowhere = UINTPTR_MAX;

/// What the handler needs.  `end` counts once `begin` says where.
struct Range {
  std::atomic<std::uintptr_t> begin{kNowhere};
  std::atomic<std::uintptr_t> end{0};
  std::atomic<bool> lost{false};
  bool taken = false;  ///< guarded by places_mutex
};
static_assert(std::atomic<std::uintptr_t>::is_always_lock_free && std::atomic<bool>::is_always_lock_free, "used in a signal handler");

std::array<Range, BusErrorGuard::kMost> ranges;
std::mutex places_mutex;
std::uintptr_t page_bytes = 0;
struct sigaction before;  ///< what SIGBUS did before us

bool make_good(std::uintptr_t address) {
  for (Range& range : ranges) {
    const std::uintptr_t begin = range.begin.load(std::memory_order_acquire);
    const std::uintptr_t end = range.end.load(std::memory_order_acquire);
    if (address < begin || address >= end) continue;
    const std::uintptr_t page = address & ~(page_bytes - 1);
    if (mmap(reinterpret_cast<void*>(page), end - page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
      return false;
    range.lost.store(true, std::memory_order_release);
    return true;
  }
  return false;
}

void pass_on(int number, siginfo_t* info, void* context) {
  if ((before.sa_flags & SA_SIGINFO) != 0) return before.sa_sigaction(number, info, context);
  const bool sent = info->si_code <= 0;  // by a process, not by the processor
  if (before.sa_handler == SIG_IGN && sent) return;
  if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) return before.sa_handler(number);
  // The instruction is tried again, or the signal comes again: both end the program as they would have without us.
  signal(number, SIG_DFL);
  if (sent) raise(number);
}

extern "C" {
static void on_bus_error(int number, siginfo_t* info, void* context) {
  const int error = errno;
  if (info->si_code <= 0 || !make_good(reinterpret_cast<std::uintptr_t>(info->si_addr))) pass_on(number, info, context);
  errno = error;
}
}

// Once: a handler that the program sets later is its own wish, and may call ours.
void take_bus_errors() {
  [[maybe_unused]] static const bool taken = [] {
    page_bytes = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    // Read before it is replaced: the first signal may come at once.
    sigaction(SIGBUS, nullptr, &before);
    struct sigaction ours {};
    ours.sa_sigaction = on_bus_error;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    sigemptyset(&ours.sa_mask);
    return sigaction(SIGBUS, &ours, nullptr) == 0;
  }();
}

}  // namespace

BusErrorGuard::BusErrorGuard(void* base, std::size_t size_bytes) {
  take_bus_errors();
  const std::lock_guard lock(places_mutex);
  for (int place = 0; place < kMost && place_ < 0; ++place)
    if (!ranges[static_cast<std::size_t>(place)].taken) place_ = place;
  if (place_ < 0) return;
  Range& range = ranges[static_cast<std::size_t>(place_)];
  const auto begin = reinterpret_cast<std::uintptr_t>(base);
  range.taken = true;
  range.lost.store(false, std::memory_order_relaxed);
  range.end.store(begin + (size_bytes + page_bytes - 1) / page_bytes * page_bytes, std::memory_order_release);
  range.begin.store(begin, std::memory_order_release);
}

BusErrorGuard::~BusErrorGuard() {
  if (place_ < 0) return;
  const std::lock_guard lock(places_mutex);
  Range& range = ranges[static_cast<std::size_t>(place_)];
  range.begin.store(kNowhere, std::memory_order_release);
  range.taken = false;
}

bool BusErrorGuard::lost() const { return place_ >= 0 && ranges[static_cast<std::size_t>(place_)].lost.load(std::memory_order_acquire); }

}  // namespace penstock::store
