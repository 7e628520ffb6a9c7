// Data access on an open file: from a request to a position, a strategy, an agreement.
#include <algorithm>
#include <optional>

#include "file/file.h"
#include "strategy/strategy.h"

namespace penstock::file {

namespace {

using trace::Counter;
using trace::OpTrace;
using trace::Phase;
using trace::PhaseScope;

constexpr Offset kNowhere = -1;

plan::StoreFacts facts_of(const store::Traits& traits) {
  return {traits.can_map, traits.maps_coherent, traits.node_local, traits.range_locks};
}

}  // namespace

void Pending::wait() {
  if (done()) return;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return done(); });
}

void Pending::finish(Outcome outcome) {
  outcome_ = transform_ ? transform_(std::move(outcome)) : std::move(outcome);
  transform_ = nullptr;
  {
    std::lock_guard lock(mutex_);
    done_.store(true, std::memory_order_release);
  }
  changed_.notify_all();
  if (notify_) notify_();
  notify_ = nullptr;
}

Status File::check_request(const Request& request) const {
  if (request.write && !mode_.write)
    return Status::failure(Code::kReadOnly, path_ + ": write: the file was opened with RDONLY; open it with RDWR or WRONLY to write");
  if (!request.write && !mode_.read)
    return Status::failure(Code::kAccess, path_ + ": read: the file was opened with WRONLY; open it with RDWR or RDONLY to read");
  if (mode_.sequential && (request.pointer == Pointer::kExplicit || request.pointer == Pointer::kIndividual))
    return Status::failure(Code::kUnsupported, path_ + ": the file was opened with SEQUENTIAL; only shared-pointer access is allowed");
  const View& view = *view_;
  if (request.bytes % view.etype_size != 0)
    return Status::failure(Code::kIo, path_ + ": " + std::to_string(request.bytes) + " bytes are not a whole number of etypes of " +
                                          std::to_string(view.etype_size) + " bytes; access whole etypes of the view");
  if (request.bytes > 0 && view.filetype_size == 0)
    return Status::failure(Code::kIo, path_ + ": the view's filetype holds no data; set a view with a filetype that does");
  if (request.pointer == Pointer::kExplicit && request.offset_etypes < 0)
    return Status::failure(Code::kArgument, path_ + ": offset " + std::to_string(request.offset_etypes) + " is negative");
  if (request.write && !view.writable)
    return Status::failure(Code::kIo, path_ + ": write: the view's filetype reaches some bytes twice; such a view can only be read");
  return {};
}

Result<Offset> File::claim_position(const Request& request) {
  const View& view = *view_;
  const Offset etypes = request.bytes / view.etype_size;
  Offset start = request.offset_etypes;
  if (request.pointer == Pointer::kIndividual) start = individual_.fetch_add(etypes, std::memory_order_relaxed);
  if (request.pointer == Pointer::kShared) {
    PENSTOCK_TRY(shared_pointer_works());
    start = comm_->fetch_add(shared_word(), etypes);
    PENSTOCK_TRY(shared_pointer_works());  // the access itself may have been what failed
  }
  Offset position = 0;
  Offset end = 0;
  if (!checked_multiply(start, view.etype_size, position) || !checked_add(position, request.bytes, end))
    return Status::failure(Code::kArgument, path_ + ": an access of " + std::to_string(request.bytes) + " bytes at etype " +
                                                std::to_string(start) + " ends beyond the largest offset");
  return position;
}

Result<Offset> File::claim_ordered(const Request& request, Status& local) {
  // A rank that failed already takes part with nothing, so that the others' positions are what they would be without it.
  const View& view = *view_;
  const Offset mine = local.ok() ? request.bytes / view.etype_size : 0;
  Offset before = 0;
  Offset total = 0;
  PENSTOCK_TRY(comm_->exclusive_sum(mine, before, total));
  // Rank 0 asks for all; that it could not is told by a position that there is not.
  Offset base = kNowhere;
  Status works;
  if (comm_->topology().rank == 0) {
    works = shared_pointer_works();
    if (works.ok()) base = comm_->fetch_add(shared_word(), total);
    if (works.ok()) works = shared_pointer_works();
    if (!works.ok()) base = kNowhere;
  }
  if (comm_->topology().size > 1) PENSTOCK_TRY(comm_->broadcast(&base, sizeof base, 0));
  if (base == kNowhere) {
    PENSTOCK_TRY(works);
    PENSTOCK_TRY(shared_pointer_works());
    return Status::failure(Code::kOther, path_ + ": rank 0 could not move the shared file pointer");
  }
  Offset position = 0;
  if (!checked_multiply(base + before, view.etype_size, position))
    return Status::failure(Code::kArgument, path_ + ": the shared pointer is beyond the largest offset");
  return position;
}

void File::give_back(const View& view, const Request& request, Offset bytes_moved) {
  // Blocking reads leave the individual pointer behind the last etype that there was.
  if (request.pointer != Pointer::kIndividual || request.write || bytes_moved == request.bytes) return;
  individual_.fetch_sub(request.bytes / view.etype_size - bytes_moved / view.etype_size, std::memory_order_relaxed);
}

Outcome File::access(const Request& request, OpTrace& trace, Status local) {
  trace.count(request.write ? Counter::kCallsWrite : Counter::kCallsRead);
  if (local.ok()) local = check_request(request);
  if (!request.collective) {
    if (!local.ok()) return {local, 0};
    const Result<Offset> position = claim_position(request);
    if (!position.ok()) return {position.status(), 0};
    Outcome outcome = carry_out(*view_, request, *position, trace);
    give_back(*view_, request, outcome.bytes);
    return outcome;
  }

  trace.count(Counter::kCallsCollective);
  // From here on this rank always reaches the agreement, whatever fails: nobody is left waiting.
  Result<Offset> position = Offset{0};
  if (request.pointer == Pointer::kOrdered) {
    PhaseScope waiting(trace, Phase::kWait);
    drain_collectives();
    position = claim_ordered(request, local);
  } else if (local.ok()) {
    position = claim_position(request);
  }
  Outcome outcome;
  if (local.ok()) local = position.status();
  if (local.ok()) {
    outcome = carry_out(*view_, request, *position, trace);
    local = outcome.status;
  }
  give_back(*view_, request, outcome.bytes);
  outcome.status = agree(local, trace);
  return outcome;
}

Outcome File::carry_out(const View& view, const Request& request, Offset position, OpTrace& trace) {
  if (request.bytes == 0) return {};
  if (!atomic()) return move(view, request, position, trace);
  {
    PhaseScope waiting(trace, Phase::kWait);
    comm_->lock(request.write);
  }
  // Between nodes the lock is MPI's doing; where that failed, nothing keeps the others out.
  if (Status works = comm_->words_and_lock(); !works.ok()) return {works.with_context(path_ + ": atomic mode"), 0};
  Outcome outcome = move(view, request, position, trace);
  comm_->unlock(request.write);
  return outcome;
}

Result<WriteRight> File::write_right(store::File& store_file) {
  const bool wanted = hints_.sieve_writes == hints::Switch::kEnable || hints_.strategy == hints::Strategy::kSieved;
  return sieve_lock_.acquire(store_file, wanted);
}

Outcome File::move(const View& view, const Request& request, Offset position, OpTrace& trace) {
  PhaseScope planning(trace, Phase::kPlan);
  if (Status opened = open_store(); !opened.ok()) return {opened.with_context(request.write ? "write" : "read"), 0};
  store::File& store_file = *opened_.load(std::memory_order_acquire);

  WriteRight right = WriteRight::kPlain;
  if (request.write) {
    const Result<WriteRight> held = write_right(store_file);
    if (!held.ok()) return {held.status().with_context(path_ + ": write"), 0};
    right = *held;
  }

  access::Tiling contiguous_view;
  const access::Tiling* file_side = &view.filetype;
  plan::Choice choice = plan::Choice::kIndependent;
  plan::Pattern pattern{request.write, request.bytes, request.bytes, 1};
  access::Bounds bounds{view.contiguous_start + position, view.contiguous_start + position + request.bytes};
  if (view.contiguous) {
    contiguous_view = access::bytes_at(view.contiguous_start);
    file_side = &contiguous_view;
  } else {
    bounds = access::bounds_of(view.filetype, position, request.bytes);
    pattern.span_bytes = bounds.end - bounds.first;
    pattern.pieces = access::pieces_in(view.filetype, position, request.bytes);
    choice = plan::choose(pattern, facts_of(store_file.traits()), hints_, right == WriteRight::kMaySieve);
  }
  trace.count(Counter::kPieces, pattern.pieces);

  const strategy::Access access{store_file,
                                *file_side,
                                position,
                                request.memory,
                                0,
                                request.bytes,
                                request.buffer,
                                trace,
                                request.write ? hints_.write_buffer_bytes : hints_.read_buffer_bytes};
  // A sieving neighbour rewrites whole windows: while there is one, every write keeps it out of the range it touches.  The sieved strategy
  // locks its own windows.
  std::optional<WriteGuard> guard;
  if (right != WriteRight::kPlain && choice != plan::Choice::kSieved) {
    PhaseScope waiting(trace, Phase::kWait);
    Result<WriteGuard> locked = WriteGuard::lock(store_file, right, bounds.first, bounds.end);
    if (!locked.ok()) return {locked.status().with_context(path_ + ": write"), 0};
    guard.emplace(std::move(*locked));
  }
  Result<Offset> moved = Offset{0};
  switch (choice) {
    case plan::Choice::kIndependent:
      trace.count(Counter::kIndependent);
      moved = request.write ? strategy::write_independent(access) : strategy::read_independent(access);
      break;
    case plan::Choice::kMapped:
      trace.count(Counter::kMapped);
      moved = request.write ? strategy::write_mapped(access) : strategy::read_mapped(access);
      break;
    case plan::Choice::kSieved:
      trace.count(Counter::kSieved);
      moved = request.write ? strategy::write_sieved(access) : strategy::read_sieved(access);
      break;
  }
  if (!moved.ok()) return {moved.status().with_context(path_ + (request.write ? ": write" : ": read")), 0};
  trace.count(request.write ? Counter::kBytesWritten : Counter::kBytesRead, *moved);
  return {{}, *moved};
}

std::shared_ptr<Pending> File::start(const Request& request, Status local, std::function<Outcome(Outcome)> transform,
                                     std::function<void()> notify) {
  auto pending = std::make_shared<Pending>();
  pending->transform_ = std::move(transform);
  pending->notify_ = std::move(notify);
  if (local.ok()) local = check_request(request);
  if (trace_ != nullptr) {
    OpTrace counting(trace_, Phase::kPlan);
    counting.count(request.write ? Counter::kCallsWrite : Counter::kCallsRead);
    counting.count(Counter::kCallsNonblocking);
    if (request.collective) counting.count(Counter::kCallsCollective);
  }
  // Positions are taken now, in the order of the program's calls.  Ordered access takes them from all ranks: its callers (the split
  // collectives) may wait here.
  Result<Offset> position = Offset{0};
  if (request.pointer == Pointer::kOrdered) {
    drain_collectives();
    position = claim_ordered(request, local);
  } else if (local.ok()) {
    position = claim_position(request);
  }
  if (!request.collective && (!local.ok() || !position.ok())) {
    pending->finish({local.ok() ? position.status() : local, 0});
    return pending;
  }
  std::shared_ptr<const View> view = view_;
  const bool in_order = request.collective && comm_->may_agree_in_background();
  Worker* worker = &Worker::independent();
  {
    std::lock_guard lock(pending_mutex_);
    ++pending_count_;
    if (in_order) {
      ++pending_collectives_;
      if (collective_worker_ == nullptr) collective_worker_ = std::make_unique<Worker>();
      worker = collective_worker_.get();
    }
  }
  auto job = [this, view, request, position, local, pending] { run_pending(view, request, position, local, pending); };
  if (!worker->post(job)) job();
  return pending;
}

void File::run_pending(const std::shared_ptr<const View>& view, const Request& request, Result<Offset> position, Status local,
                       const std::shared_ptr<Pending>& pending) {
  Outcome outcome;
  {
    OpTrace trace(trace_, Phase::kOther, /*background=*/true);
    if (local.ok()) local = position.status();
    if (local.ok()) {
      outcome = carry_out(*view, request, *position, trace);
      local = outcome.status;
    }
    // Where MPI cannot be called from here (several nodes, less than MPI_THREAD_MULTIPLE) each rank reports its own verdict.
    if (request.collective && comm_->may_agree_in_background()) local = agree_in_order(local);
    outcome.status = local;
  }
  const bool in_order = request.collective && comm_->may_agree_in_background();
  pending->finish(std::move(outcome));
  std::lock_guard lock(pending_mutex_);
  --pending_count_;
  if (in_order) --pending_collectives_;
  // Under the lock: close() may destroy the file as soon as it sees the count.
  pending_changed_.notify_all();
}

}  // namespace penstock::file
