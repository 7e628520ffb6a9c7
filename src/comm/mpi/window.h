// Words of several nodes' ranks, in an MPI window on rank 0, and a lock made of them.  Its progress is MPI's.
#pragma once

#include <mpi.h>

#include <atomic>
#include <mutex>

#include "base/status.h"
#include "base/units.h"

namespace penstock::comm {

/// A window that is still there when the program calls MPI_Finalize is freed then, in the order of making: MPI libraries abort over windows
/// that are left, and a program that forgets to close a file ends well without us.
class Window {
 public:
  Window() = default;
  ~Window();
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  /// Makes the window.  *Collective* over `comm`; nobody may use the words before all ranks are through and have met once more.
  /// `comm` is borrowed as long as the window lives.  `spins`: looks at an access that is under way before giving up the core.
  Status make(MPI_Comm comm, int spins);
  /// Gives up the window, if there is one, for what happened on some rank: from now on every access fails with `why`.
  void give_up(Status why);
  /// Frees it.  *Collective*.  Requires: MPI is not finalized.
  void free();

  Offset fetch_add(int word, Offset delta) { return access(word, delta, MPI_SUM); }
  Offset load(int word) { return access(word, 0, MPI_NO_OP); }
  void store(int word, Offset value) { access(word, value, MPI_REPLACE); }
  /// In the order of arrival.  Returns without the lock when MPI fails.
  void lock(bool exclusive);
  void unlock(bool exclusive);

  /// Why accesses fail, or success.
  [[nodiscard]] Status failure() const;
  /// The same, but success as long as no access was tried: the functions above have no way to return what happened to them.
  [[nodiscard]] Status failed_access() const { return missed_.load(std::memory_order_acquire) ? failure() : Status(); }

 private:
  Offset access(int word, Offset value, MPI_Op operation);
  void fail(Status why);

  MPI_Comm comm_ = MPI_COMM_NULL;  ///< borrowed
  MPI_Win window_ = MPI_WIN_NULL;
  int spins_ = 0;
  std::atomic<bool> failed_{false};  ///< there is a failure_
  std::atomic<bool> missed_{false};  ///< an access was tried all the same
  mutable std::mutex mutex_;
  Status failure_;  ///< under mutex_
};

}  // namespace penstock::comm
