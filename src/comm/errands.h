// Errands: MPI calls that a thread of ours needs and may not make, so that a thread of the program makes them.  Knows neither MPI nor files.
//
// Below MPI_THREAD_MULTIPLE only the program's own threads may call MPI.  A collective access in the background moves its data on a thread of ours, and
// has its messages carried by whichever thread of the program is inside MPI or Penstock.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>

namespace penstock::comm {

/// Marks a thread as ours for as long as it lives.
class ThreadOfOurs {
 public:
  ThreadOfOurs();
  ~ThreadOfOurs();
  ThreadOfOurs(const ThreadOfOurs&) = delete;
  ThreadOfOurs& operator=(const ThreadOfOurs&) = delete;
  /// Whether the calling thread is.
  static bool here();
};

class Errands {
 public:
  /// Returns true when it is over; until then it is asked again.  Must not block, and must not throw.
  using Attempt = std::function<bool()>;

  /// Those of the process.  Never destroyed: a program may exit while some are left.
  static Errands& of_process();

  /// That progress() is called, again and again, while some thread of the program is inside of any blocking call of MPI.  Without this promise a program
  /// may wait for ever for a message that another rank sends only after its access is complete.
  void promise_progress() { promised_.store(true, std::memory_order_release); }
  [[nodiscard]] bool promised() const { return promised_.load(std::memory_order_acquire); }

  /// Hands over an attempt; those of one thread are tried in order until they are over.  On a thread of ours.
  /// Returns a ticket for wait().
  std::uint64_t post(Attempt attempt);
  /// Blocks until that attempt is over.  On a thread of ours.
  void wait(std::uint64_t ticket);

  /// Tries each errand once.  Returns how many are over.  On a thread of the program that may call MPI; calls from inside of an attempt do nothing.
  /// Costs one load while there is none.
  int progress();

 private:
  struct Errand {
    std::uint64_t ticket;
    Attempt attempt;
  };

  std::atomic<bool> promised_{false};
  std::atomic<std::size_t> count_{0};
  std::atomic_flag running_;  ///< set while attempts are made
  std::mutex mutex_;    ///< guards the rest
  std::condition_variable over_;
  std::deque<Errand> errands_;
  std::uint64_t next_ticket_ = 1;
};

}  // namespace penstock::comm
