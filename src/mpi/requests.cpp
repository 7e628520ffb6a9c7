// Generalized requests and how they complete under each thread level.
//
// The worker finishes an access at any time, but MPI_Grequest_complete is an MPI call, and below MPI_THREAD_MULTIPLE only the program's own thread may
// make it.  So, in this order:
//   MPICH family    the extended generalized request has poll and wait functions, which Wait and Test call on the program's thread.  Under MULTIPLE
//                   too: its MPI_Waitall ends the program when a request without a wait function is not complete yet (seen with 4.0).
//   MULTIPLE        the worker completes the request itself.
//   Open MPI        its progress engine, which Wait and Test run, takes callbacks; ours completes what is done.
//   anything else   the access is carried out at once and its request is complete when it is returned: correct, though nothing overlaps.
#include "mpi/requests.h"

#include <sched.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "comm/mpi/topology.h"
#include "mpi/errors.h"
#include "mpi/progress.h"
#include "mpi/real.h"

namespace penstock::mpi {

namespace {

/// A failure that the program has given up asking for, when it freed the request: the next sync or close tells it.
class Unasked {
 public:
  explicit Unasked(std::shared_ptr<OpenFile> open) : open_(std::move(open)) {}
  void failed(const Status& status) {
    std::lock_guard lock(mutex_);
    status_ = status;
    tell();
  }
  void request_is_gone() {
    std::lock_guard lock(mutex_);
    gone_ = true;
    tell();
  }
  void asked() {
    std::lock_guard lock(mutex_);
    asked_ = true;
  }

 private:
  void tell() {
    if (!gone_ || asked_ || status_.ok()) return;
    std::lock_guard lock(open_->mutex);
    if (open_->deferred.ok()) open_->deferred = status_;
  }
  std::shared_ptr<OpenFile> open_;
  std::mutex mutex_;
  Status status_;
  bool gone_ = false;
  bool asked_ = false;
};

struct Operation {
  std::shared_ptr<OpenFile> open;
  std::shared_ptr<Unasked> unasked;  ///< of a write
  MPI_File handle = MPI_FILE_NULL;
  bool write = false;
  std::shared_ptr<file::Pending> pending;
  std::function<file::Outcome(file::Outcome)> finish;  ///< for the program's thread
  std::once_flag finished;                             ///< MPI_Request_get_status asks too, and before
  file::Outcome outcome;                               ///< once finished
  MPI_Request request = MPI_REQUEST_NULL;
  std::atomic<int> ready{0};          ///< request known here, and access done: whoever brings it to 2 completes the request
  std::atomic<bool> completed{false};
};

bool world_errors_are_fatal() {
  if (!comm::world_is_there()) return true;
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  if (PMPI_Comm_get_errhandler(MPI_COMM_WORLD, &handler) != MPI_SUCCESS) return true;
  bool fatal = handler == MPI_ERRORS_ARE_FATAL;
#ifdef MPI_ERRORS_ABORT
  fatal = fatal || handler == MPI_ERRORS_ABORT;
#endif
  if (handler != MPI_ERRHANDLER_NULL) PMPI_Errhandler_free(&handler);
  return fatal;
}

/// Called by Wait and Test on the program's thread when the request is complete.
int tell(Operation* operation, MPI_Status* status) {
  // Done, except when the program frees or cancels before the end; then MPI does not ask.
  operation->pending->wait();
  std::call_once(operation->finished, [operation] {
    try {
      operation->outcome = operation->finish ? operation->finish(operation->pending->outcome()) : operation->pending->outcome();
    } catch (const std::bad_alloc&) {
      operation->outcome = {Status::no_memory(), 0};
    }
  });
  if (operation->unasked != nullptr) operation->unasked->asked();
  const file::Outcome& outcome = operation->outcome;
  set_status(status, outcome.bytes);
  if (outcome.status.ok()) return MPI_SUCCESS;
  const int code = raise(operation->handle, outcome.status);
  // What query returns (or puts into the status: Open MPI looks there too) goes to the error handler of MPI_COMM_WORLD.  Where that one ends the
  // job although the file's own handler wants to go on (the default of both), the status says that nothing was moved, the file's handler has been
  // called, and a write's failure is returned by the next sync or close of the file.
  if (!world_errors_are_fatal()) return code;
  std::lock_guard lock(operation->open->mutex);
  if (operation->write && operation->open->deferred.ok()) operation->open->deferred = outcome.status;
  return MPI_SUCCESS;
}

/// MPI is C: nothing is thrown into it.
int query(void* state, MPI_Status* status) {
  auto* operation = static_cast<Operation*>(state);
  return guarded(operation->handle, [&] { return tell(operation, status); });
}

int release(void* state) {
  const std::unique_ptr<Operation> operation(static_cast<Operation*>(state));
  if (operation->unasked != nullptr) operation->unasked->request_is_gone();
  return MPI_SUCCESS;
}

/// File access cannot be called back; MPI 4.1 section 3.8.4 lets it run to its end.
int cancel(void*, int) { return MPI_SUCCESS; }

using Poll = int(void*, MPI_Status*);
using Wait = int(int, void**, double, MPI_Status*);
PENSTOCK_OPTIONAL_MPI(extended_start, "PMPIX_Grequest_start",
                      int(MPI_Grequest_query_function*, MPI_Grequest_free_function*, MPI_Grequest_cancel_function*, Poll*, Wait*, void*,
                          MPI_Request*));
PENSTOCK_OPTIONAL_MPI(extended_start_weak, "MPIX_Grequest_start",
                      int(MPI_Grequest_query_function*, MPI_Grequest_free_function*, MPI_Grequest_cancel_function*, Poll*, Wait*, void*,
                          MPI_Request*));

void complete(Operation* operation) {
  if (!operation->completed.exchange(true)) PMPI_Grequest_complete(operation->request);
}

/// Called again and again by MPICH's Wait of one request, which does nothing else meanwhile, and by its Test family.
int poll(void* state, MPI_Status*) {
  auto* operation = static_cast<Operation*>(state);
  if (operation->pending->done()) {
    complete(operation);
  } else {
    operation->open->file->comm().help_background();
    sched_yield();  // the program only waits; the worker may need this core
  }
  return MPI_SUCCESS;
}

/// Called by MPICH's Wait family; has to return with all of them complete.
int wait_for(int count, void** states, double, MPI_Status*) {
  for (int i = 0; i < count; ++i) {
    auto* operation = static_cast<Operation*>(states[i]);
    while (!operation->pending->done()) {
      operation->open->file->comm().help_background();
      sched_yield();
    }
    complete(operation);
  }
  return MPI_SUCCESS;
}

/// Open MPI: requests whose completion the progress engine looks for.
class Progressed {
 public:
  /// False when this MPI has no such engine.
  static bool available() {
    static const bool registered = called_by_progress_engine(&Progressed::run);
    return registered;
  }

  /// False where there is no memory for it.
  static bool add(Operation* operation) {
    std::lock_guard lock(mutex());
    try {
      list().push_back(operation);
    } catch (const std::bad_alloc&) {
      return false;
    }
    waiting().store(list().size(), std::memory_order_release);
    return true;
  }

  /// Called by the engine, often: costs one load while nothing is under way.
  static int run() {
    if (waiting().load(std::memory_order_acquire) == 0) return 0;
    // The engine is C: nothing here may throw.  What there is no room for is found the next time.
    std::array<Operation*, 64> done;
    std::size_t count = 0;
    {
      std::unique_lock lock(mutex(), std::try_to_lock);
      if (!lock.owns_lock()) return 0;
      auto& all = list();
      for (std::size_t i = 0; i < all.size() && count < done.size();) {
        if (!all[i]->pending->done()) {
          ++i;
          continue;
        }
        done[count++] = all[i];
        all[i] = all.back();
        all.pop_back();
      }
      waiting().store(all.size(), std::memory_order_release);
    }
    for (std::size_t i = 0; i < count; ++i) complete(done[i]);
    if (count == 0) sched_yield();
    return static_cast<int>(count);
  }

 private:
  static std::mutex& mutex() {
    static auto* const value = new std::mutex;
    return *value;
  }
  static std::vector<Operation*>& list() {
    static auto* const value = new std::vector<Operation*>;
    return *value;
  }
  static std::atomic<std::size_t>& waiting() {
    static std::atomic<std::size_t> value{0};
    return value;
  }
};

bool thread_multiple() {
  int provided = MPI_THREAD_SINGLE;
  return PMPI_Query_thread(&provided) == MPI_SUCCESS && provided >= MPI_THREAD_MULTIPLE;
}

}  // namespace

void set_status(MPI_Status* status, Offset bytes) {
  if (status == MPI_STATUS_IGNORE) return;
  PMPI_Status_set_elements_x(status, MPI_BYTE, bytes);
  PMPI_Status_set_cancelled(status, 0);
}

void complete_requests() {
  while (Progressed::run() > 0) {
  }
}

Status start_request(const std::shared_ptr<OpenFile>& open, MPI_File handle, const file::Request& request, Status local,
                     Finish finish, MPI_Request* mpi_request) {
  auto made = std::make_unique<Operation>();
  Operation* const operation = made.get();
  operation->finish = std::move(finish.by_program);
  if (request.write) {
    operation->unasked = std::make_shared<Unasked>(open);
    finish.anywhere = [unasked = operation->unasked, then = std::move(finish.anywhere)](file::Outcome outcome) {
      if (then) outcome = then(std::move(outcome));
      if (!outcome.status.ok()) unasked->failed(outcome.status);
      return outcome;
    };
  }
  operation->open = open;
  operation->handle = handle;
  operation->write = request.write;

  const bool polled = extended_start.exists() || extended_start_weak.exists();
  const bool worker_completes = !polled && thread_multiple();
  const bool progressed = !worker_completes && !polled && Progressed::available();

  int code = MPI_SUCCESS;
  if (polled) {
    const auto& start = extended_start.exists() ? extended_start : extended_start_weak;
    code = start(query, release, cancel, poll, wait_for, operation, &operation->request);
  } else {
    code = PMPI_Grequest_start(query, release, cancel, operation, &operation->request);
  }
  if (code != MPI_SUCCESS) return status_from_mpi(code, "a request for a non-blocking access");
  (void)made.release();  // the request's now

  std::function<void()> notify;
  // The program may complete and free the request as soon as MPI knows that it is complete, so the last one to touch the operation completes it: the
  // worker, or this thread if the worker was faster.
  if (worker_completes)
    notify = [operation] {
      if (operation->ready.fetch_add(1) == 1) complete(operation);
    };
  std::shared_ptr<file::Pending> pending;
  try {
    pending = start_in_background(*open->file, request, std::move(local), std::move(finish.anywhere), std::move(notify));
  } catch (const std::bad_alloc&) {
    // Nothing has begun, and nobody but MPI knows of the request.
    MPI_Request unused = operation->request;
    complete(operation);
    PMPI_Request_free(&unused);
    return Status::no_memory();
  }
  *mpi_request = operation->request;
  operation->pending = pending;
  if (worker_completes) {
    if (operation->ready.fetch_add(1) == 1) complete(operation);
  } else if (progressed && Progressed::add(operation)) {
    // The engine completes it.
  } else if (!polled) {
    open->file->wait(*pending);
    complete(operation);
  }
  return {};
}

}  // namespace penstock::mpi
