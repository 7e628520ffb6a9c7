// Who carries errands, below MPI_THREAD_MULTIPLE:
//   Open MPI        its progress engine takes callbacks.
//   MPICH from 4.3  takes a function that its progress engine calls until it says that it is done.
//   others          nobody: a program may be in a call that we do not see while another rank waits for it, so errands could wait for ever.
#include "mpi/progress.h"

#include <mpi.h>

#include <atomic>

#include "comm/errands.h"
#include "mpi/real.h"

namespace penstock::mpi {

namespace {

// MPICH's, which its older headers lack.
struct AsyncThing;
using AsyncPoll = int(AsyncThing*);
constexpr int kAsyncNoProgress = 0;
constexpr int kAsyncDone = 1;
constexpr int kNoStream = 0x3c000000;
PENSTOCK_OPTIONAL_MPI(async_start, "PMPIX_Async_start", int(AsyncPoll*, void*, int));
PENSTOCK_OPTIONAL_MPI(async_state, "PMPIX_Async_get_state", void*(AsyncThing*));

using Awaited = std::shared_ptr<file::Pending>;

int carry() { return comm::Errands::of_process().progress(); }

int carry_until_done(AsyncThing* thing) {
  // An errand calls MPI, and that may call this for the same thing: only the outermost call may end it.
  static std::atomic_flag inside;
  if (inside.test_and_set(std::memory_order_acquire)) return kAsyncNoProgress;
  (void)carry();
  auto* const awaited = static_cast<Awaited*>(async_state(thing));
  const bool done = (*awaited)->done();
  if (done) delete awaited;
  inside.clear(std::memory_order_release);
  return done ? kAsyncDone : kAsyncNoProgress;
}

bool has_async() { return async_start.exists() && async_state.exists(); }

}  // namespace

bool called_by_progress_engine(int (*callback)()) {
  using Register = int(int (*)());
  auto* const add = reinterpret_cast<Register*>(real_symbol("opal_progress_register"));
  return add != nullptr && add(callback) == 0;
}

void promise_errands() {
  static const bool carried = called_by_progress_engine(&carry) || has_async();
  if (carried) comm::Errands::of_process().promise_progress();
}

std::shared_ptr<file::Pending> start_in_background(file::File& file, const file::Request& request, Status local,
                                                   std::function<file::Outcome(file::Outcome)> finish, std::function<void()> notify,
                                                   file::File::Starting starting) {
  Awaited pending = file.start(request, std::move(local), starting, std::move(finish), std::move(notify));
  if (!request.collective || pending->done() || !file.needs_errands() || !has_async()) return pending;
  auto awaited = std::make_unique<Awaited>(pending);
  if (async_start(&carry_until_done, awaited.get(), kNoStream) == MPI_SUCCESS) static_cast<void>(awaited.release());
  return pending;
}

}  // namespace penstock::mpi
