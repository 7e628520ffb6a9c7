// One-sided words and a ticket lock that backs off the farther its turn is.
#include "comm/mpi/window.h"

#include <algorithm>
#include <ctime>
#include <utility>
#include <vector>

#include "comm/comm.h"
#include "comm/mpi/patience.h"
#include "comm/mpi/topology.h"

namespace penstock::comm {
namespace {

// After the words of the interface; the same three as in TicketLock, 64 bits wide.
constexpr int kNextTicket = Comm::kSharedWords;
constexpr int kReadersTurn = kNextTicket + 1;
constexpr int kWritersTurn = kNextTicket + 2;
constexpr int kWords = kNextTicket + 3;

constexpr Offset kNapPerTicketNs = 20'000;
constexpr Offset kLongestNapNs = 1'000'000;

// The windows that are there, in the order of making.  Never destroyed: a file may be closed after static objects are gone.
struct Alive {
  std::mutex mutex;
  std::vector<Window*> windows;
};

Alive& alive() {
  static Alive& windows = *new Alive;
  return windows;
}

// MPI calls this at the beginning of MPI_Finalize, while everything still works (MPI 4.1 section 11.2.4).  All ranks of a window that was left come
// here, because freeing it earlier would have needed all of them.
extern "C" {
static int free_windows(MPI_Comm, int, void*, void*) {
  for (;;) {
    Window* first = nullptr;
    {
      const std::lock_guard guard(alive().mutex);
      if (alive().windows.empty()) return MPI_SUCCESS;
      first = alive().windows.front();
    }
    first->free();
  }
}
}

Status watch_for_finalize() {
  static const Status watched = [] {
    int key = MPI_KEYVAL_INVALID;
    PENSTOCK_TRY(status_of(PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, free_windows, &key, nullptr),
                           "PMPI_Comm_create_keyval"));
    return status_of(PMPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr), "PMPI_Comm_set_attr");
  }();
  return watched;
}

}  // namespace

Window::~Window() {
  const std::lock_guard guard(alive().mutex);
  std::erase(alive().windows, this);
}

Status Window::make(MPI_Comm comm, int spins) {
  comm_ = comm;
  spins_ = spins;
  int rank = 0;
  PENSTOCK_TRY(status_of(PMPI_Comm_rank(comm, &rank), "PMPI_Comm_rank"));
  // A program of sessions only has no MPI_Finalize: there a file that stays open is one too many.
  if (world_is_there()) PENSTOCK_TRY(watch_for_finalize());
  const MPI_Aint size_bytes = rank == 0 ? kWords * static_cast<MPI_Aint>(sizeof(Offset)) : 0;
  Offset* words = nullptr;
  PENSTOCK_TRY(status_of(PMPI_Win_allocate(size_bytes, sizeof(Offset), MPI_INFO_NULL, comm, &words, &window_),
                         "PMPI_Win_allocate"));
  {
    const std::lock_guard guard(alive().mutex);
    alive().windows.push_back(this);
  }
  PENSTOCK_TRY(status_of(PMPI_Win_set_errhandler(window_, MPI_ERRORS_RETURN), "PMPI_Win_set_errhandler"));
  PENSTOCK_TRY(status_of(PMPI_Win_lock_all(MPI_MODE_NOCHECK, window_), "PMPI_Win_lock_all"));
  if (rank == 0) std::fill_n(words, kWords, 0);
  return status_of(PMPI_Win_sync(window_), "PMPI_Win_sync");
}

void Window::give_up(Status why) {
  {
    const std::lock_guard guard(alive().mutex);
    std::erase(alive().windows, this);
  }
  // Not freed: that would need all ranks to have one.
  window_ = MPI_WIN_NULL;
  fail(std::move(why));
}

void Window::free() {
  if (window_ == MPI_WIN_NULL) return;
  {
    const std::lock_guard guard(alive().mutex);
    std::erase(alive().windows, this);
  }
  PMPI_Win_unlock_all(window_);
  PMPI_Win_free(&window_);
  window_ = MPI_WIN_NULL;
}

void Window::lock(bool exclusive) {
  const Offset ticket = fetch_add(kNextTicket, 1);
  const int turn = exclusive ? kWritersTurn : kReadersTurn;
  for (;;) {
    const Offset seen = load(turn);
    if (failed_.load(std::memory_order_acquire)) return;
    if (seen == ticket) break;
    // Rank 0 may see its own words without MPI; then nothing but this serves the rank whose turn it is.
    let_mpi_progress(comm_);
    const timespec nap{.tv_sec = 0, .tv_nsec = std::min((ticket - seen) * kNapPerTicketNs, kLongestNapNs)};
    nanosleep(&nap, nullptr);
  }
  if (!exclusive) fetch_add(kReadersTurn, 1);
}

void Window::unlock(bool exclusive) {
  if (exclusive) fetch_add(kReadersTurn, 1);
  fetch_add(kWritersTurn, 1);
}

Status Window::failure() const {
  if (!failed_.load(std::memory_order_acquire)) return {};
  const std::lock_guard guard(mutex_);
  return failure_;
}

void Window::fail(Status why) {
  const std::lock_guard guard(mutex_);
  if (failure_.ok()) failure_ = std::move(why);
  failed_.store(true, std::memory_order_release);
}

Offset Window::access(int word, Offset value, MPI_Op operation) {
  if (!failed_.load(std::memory_order_acquire)) {
    // With a request, not PMPI_Fetch_and_op and a flush: those would keep a core busy that rank 0 may need to answer.  The value that
    // comes back shows that the access has happened, so nothing is left to flush.
    Offset before = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    Status status = status_of(PMPI_Rget_accumulate(&value, 1, MPI_INT64_T, &before, 1, MPI_INT64_T, 0, word, 1,
                                                   MPI_INT64_T, operation, window_, &request),
                              "PMPI_Rget_accumulate");
    if (status.ok()) status = wait_patiently(&request, 1, spins_);
    if (status.ok()) return before;
    fail(std::move(status));
  }
  missed_.store(true, std::memory_order_release);
  return 0;
}

}  // namespace penstock::comm
