// Data access on an open file: from a request to a position, a strategy, an agreement.
#include <algorithm>
#include <cmath>
#include <new>
#include <optional>
#include <utility>

#include "access/cursor.h"
#include "file/file.h"
#include "strategy/strategy.h"
#include "strategy/two_phase.h"

namespace penstock::file {

namespace {

using trace::Counter;
using trace::OpTrace;
using trace::Phase;
using trace::PhaseScope;

constexpr Offset kNowhere = -1;

/// Whether an access by a view that is not contiguous ends at or beyond the largest offset.
bool wraps(const View& view, Offset position, Offset bytes) {
  return position + bytes > view.surely_fits && access::bounds_of(view.filetype, position, bytes).end == INT64_MAX;
}

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
  try {
    outcome_ = transform_ ? transform_(std::move(outcome)) : std::move(outcome);
  } catch (const std::bad_alloc&) {
    outcome_ = {Status::no_memory(), 0};
  }
  transform_ = nullptr;
  {
    std::lock_guard lock(mutex_);
    done_.store(true, std::memory_order_release);
  }
  changed_.notify_all();
  if (notify_) notify_();
  notify_ = nullptr;
}

Status File::check_request(const Request& request) const { return check_request(*HeldView(*this), request); }

Status File::check_request(const View& view, const Request& request) const {
  if (request.write && !mode_.write)
    return Status::failure(Code::kReadOnly, path_ + ": write: the file was opened with RDONLY; open it with RDWR or WRONLY to write");
  if (!request.write && !mode_.read)
    return Status::failure(Code::kAccess, path_ + ": read: the file was opened with WRONLY; open it with RDWR or RDONLY to read");
  if (mode_.sequential && (request.pointer == Pointer::kExplicit || request.pointer == Pointer::kIndividual))
    return Status::failure(Code::kUnsupported, path_ + ": the file was opened with SEQUENTIAL; only shared-pointer access is allowed");
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

Result<Offset> File::claim_position(const View& view, const Request& request) {
  const Offset etypes = request.bytes / view.etype_size;
  Offset start = request.offset_etypes;
  if (request.pointer == Pointer::kIndividual) start = individual_.fetch_add(etypes, std::memory_order_relaxed);
  if (request.pointer == Pointer::kShared) {
    PENSTOCK_TRY(shared_pointer_works());
    start = comm_->fetch_add(view.shared_word, etypes);
    PENSTOCK_TRY(shared_pointer_works());  // the access itself may have been what failed
  }
  const Result<Offset> position = position_of_etype(view, start, request.bytes);
  if (!position.ok() && request.pointer == Pointer::kIndividual) individual_.fetch_sub(etypes, std::memory_order_relaxed);
  if (!position.ok() && request.pointer == Pointer::kShared) comm_->fetch_add(view.shared_word, -etypes);
  return position;
}

Result<Offset> File::position_of_etype(const View& view, Offset etype, Offset bytes) const {
  Offset position = 0;
  Offset end = 0;
  if (etype < 0 || !checked_multiply(etype, view.etype_size, position) || !checked_add(position, bytes, end) ||
      (view.contiguous && !checked_add(view.contiguous_start, end, end)) || (!view.contiguous && wraps(view, position, bytes)))
    return Status::failure(Code::kArgument, path_ + ": an access of " + std::to_string(bytes) + " bytes at etype " +
                                                std::to_string(etype) + " ends beyond the largest offset");
  return position;
}

Result<Offset> File::claim_ordered(const View& view, const Request& request, Status& local) {
  // A rank that failed already takes part with nothing, so that the others' positions are what they would be without it.
  const Offset mine = local.ok() ? request.bytes / view.etype_size : 0;
  Offset before = 0;
  Offset total = 0;
  PENSTOCK_TRY(comm_->exclusive_sum(mine, before, total));
  // Rank 0 asks for all; that it could not is told by a position that there is not.
  Offset base = kNowhere;
  Status works;
  if (comm_->topology().rank == 0) {
    works = shared_pointer_works();
    if (works.ok()) base = comm_->fetch_add(view.shared_word, total);
    if (works.ok()) works = shared_pointer_works();
    if (works.ok()) {
      Offset bytes = INT64_MAX;
      if (!checked_multiply(total, view.etype_size, bytes)) bytes = INT64_MAX;
      works = position_of_etype(view, base, bytes).status();
      if (!works.ok()) comm_->fetch_add(view.shared_word, -total);
    }
    if (!works.ok()) base = kNowhere;
  }
  if (comm_->topology().size > 1) PENSTOCK_TRY(comm_->broadcast(&base, sizeof base, 0));
  if (base == kNowhere) {
    PENSTOCK_TRY(works);
    PENSTOCK_TRY(shared_pointer_works());
    return Status::failure(Code::kOther, path_ + ": rank 0 could not move the shared file pointer");
  }
  Offset start = 0;
  if (!checked_add(base, before, start))
    return Status::failure(Code::kArgument, path_ + ": the shared pointer is beyond the largest offset");
  return position_of_etype(view, start, request.bytes);
}

void File::give_back(const View& view, const Request& request, Offset bytes_moved) {
  // Blocking reads leave the individual pointer behind the last etype that there was.
  if (request.pointer != Pointer::kIndividual || request.write || bytes_moved == request.bytes) return;
  individual_.fetch_sub(request.bytes / view.etype_size - bytes_moved / view.etype_size, std::memory_order_relaxed);
}

Outcome File::access(const Request& request, OpTrace& trace, Status local) {
  trace.count(request.write ? Counter::kCallsWrite : Counter::kCallsRead);
  const HeldView view(*this);
  if (local.ok()) local = check_request(*view, request);
  if (!request.collective) {
    if (!local.ok()) return {local, 0};
    const Result<Offset> position = claim_position(*view, request);
    if (!position.ok()) return {position.status(), 0};
    Outcome outcome = carry_out(*view, request, *position, trace);
    give_back(*view, request, outcome.bytes);
    return outcome;
  }

  trace.count(Counter::kCallsCollective);
  // From here on this rank always reaches the agreement, whatever fails: nobody is left waiting.
  Result<Offset> position = Offset{0};
  if (request.pointer == Pointer::kOrdered) {
    PhaseScope waiting(trace, Phase::kWait);
    drain_collectives();
    position = claim_ordered(*view, request, local);
  } else if (local.ok()) {
    position = claim_position(*view, request);
  }
  Outcome outcome;
  if (local.ok()) local = position.status();
  const bool claimed = local.ok();
  const bool together = aggregates();
  if (together) {
    {
      PhaseScope waiting(trace, Phase::kWait);
      drain_collectives();
    }
    outcome = carry_out_together(*view, request, local.ok() ? *position : 0, trace, local);
    local = outcome.status;
  } else if (local.ok()) {
    outcome = carry_out(*view, request, *position, trace);
    local = outcome.status;
  }
  if (claimed) give_back(*view, request, outcome.bytes);
  outcome.status = agree(local, trace);
  if (!outcome.status.ok()) note_gathering(false);
  if (together) outcome.status.ok() ? remember_taken(trace) : forget_together();
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
  Outcome outcome;
  if (!request.write) outcome.status = see_other_nodes(trace);
  if (outcome.status.ok()) outcome = move(view, request, position, trace);
  if (request.write && outcome.status.ok()) outcome.status = see_other_nodes(trace);
  comm_->unlock(request.write);
  return outcome;
}

Status File::see_other_nodes(OpTrace& trace) {
  if (ranks_see_each_other()) return {};
  PhaseScope syncing(trace, Phase::kSync);
  PENSTOCK_TRY(open_store());
  return opened_.load(std::memory_order_acquire)->sync().with_context(path_ + ": atomic mode");
}

namespace {

/// Runs what it is given; for the file's private calls.
class AggregatorTarget final : public strategy::Target {
 public:
  /// `forgets_first`: what this node has cached may be older than what other nodes wrote.
  AggregatorTarget(std::function<Result<store::File*>()> open, std::function<Result<WriteRight>(store::File&)> right,
                   std::function<void(std::span<const store::Transfer>)> note, std::atomic<bool>& wrote_since_read, bool forgets_first)
      : open_(std::move(open)), right_(std::move(right)), note_(std::move(note)), wrote_since_read_(wrote_since_read), forgets_first_(forgets_first) {}

  Result<Offset> size() override {
    const Result<store::File*> file = open_();
    if (!file.ok()) return file.status();
    return (*file)->size();
  }

  Result<Offset> size_with_own_writes() override {
    // Where nodes do not see each other's writes, whoever says size() may know nothing of this one later either.
    if (!wrote_since_read_.load() || (!forgets_first_ && !wrote_since_read_.exchange(false))) return Offset{-1};
    return size();
  }

  Status read(std::span<store::Transfer> batch) override {
    const Result<store::File*> file = open_();
    if (!file.ok()) return file.status();
    if (forgets_first_ && !std::exchange(forgot_, true)) PENSTOCK_TRY((*file)->sync());
    return (*file)->read(batch);
  }

  Status write(std::span<store::Transfer> batch) override {
    const Result<store::File*> file = open_();
    if (!file.ok()) return file.status();
    const Result<WriteRight> right = right_(**file);
    if (!right.ok()) return right.status();
    const store::Transfer& last = batch.back();
    const Result<WriteGuard> guard =
        WriteGuard::lock(**file, *right, batch.front().offset, last.offset + static_cast<Offset>(last.length));
    if (!guard.ok()) return guard.status();
    wrote_ = true;
    note_(batch);
    return (*file)->write(batch);
  }
  [[nodiscard]] bool wrote() const { return wrote_; }

 private:
  std::function<Result<store::File*>()> open_;
  std::function<Result<WriteRight>(store::File&)> right_;
  std::function<void(std::span<const store::Transfer>)> note_;  ///< what is going to be written
  std::atomic<bool>& wrote_since_read_;
  bool forgets_first_;
  bool forgot_ = false;
  bool wrote_ = false;
};

}  // namespace

namespace {

/// Whether a write makes the file longer, and so its pages new; who cannot find out takes them to be.
bool reaches_further(store::File& store_file, Offset end) {
  const Result<Offset> size = store_file.size();
  return !size.ok() || end > *size;
}

void count_choice(double expected, bool tried, std::int64_t nanoseconds, OpTrace& trace) {
  trace.count(Counter::kChosen);
  trace.count(Counter::kChosenNanoseconds, nanoseconds);
  // A profile may say that a call takes longer than a counter can hold, or than any number says.
  constexpr double kLongest = 1e15;
  trace.count(Counter::kPredictedNanoseconds, static_cast<std::int64_t>(std::isnan(expected) ? 0 : std::min(expected * 1e9, kLongest)));
  if (tried) trace.count(Counter::kTried);
}

}  // namespace

File::Weighed File::weigh(plan::Pattern pattern, Offset end, store::File& store_file, const hints::Hints& asked, bool may_sieve_writes) {
  plan::Estimates ways = plan::allowed(pattern, facts_of(store_file.traits()), asked, may_sieve_writes);
  if (ways.decided()) return {{}, ways.list().front(), 0, false, false};
  // Asked only where it matters: between nodes it may be a message to every server that has a part of the file.
  if (pattern.write) pattern.fresh = reaches_further(store_file, end);
  plan::estimate(pattern, asked, setting_, ways);
  Weighed weighed{plan::signature_of(pattern.write, pattern.fresh, pattern.bytes, pattern.pieces, pattern.span_bytes), {}, 0, false, true};
  if (!learns()) {
    weighed.estimate = *std::min_element(ways.list().begin(), ways.list().end(),
                                         [](const plan::Estimate& a, const plan::Estimate& b) { return a.seconds < b.seconds; });
    weighed.expected = weighed.estimate.seconds;
    return weighed;
  }
  const std::lock_guard guard(experience_mutex_);
  const plan::Experience::Decision decision = experience_.decide(weighed.signature, ways.list());
  weighed.estimate = ways.list()[decision.place];
  weighed.expected = decision.expected;
  weighed.tried = decision.tried;
  return weighed;
}

void File::learn(const Weighed& weighed, std::int64_t nanoseconds, OpTrace& trace) {
  count_choice(weighed.expected, weighed.tried, nanoseconds, trace);
  if (!learns()) return;
  const std::lock_guard guard(experience_mutex_);
  experience_.note(weighed.signature, weighed.estimate, static_cast<double>(nanoseconds) * 1e-9, weighed.tried);
}

bool File::better_alone(const plan::Accessed& all, bool write, int aggregators, bool planned) {
  weighed_ = {};
  if (all.pieces <= 1) return true;
  // What rank 0 found: a rank that has not opened the file yet knows no traits of its own.
  const plan::StoreFacts facts{.can_map = facts_.maps, .maps_coherent = facts_.maps, .node_local = facts_.node_local};
  const plan::Together together =
      plan::estimate_together(all, write, planned, facts, sieve_reads_, setting_, placings_[present_].rules, placings_[present_].local_per_node, aggregators);
  if (!learns_together_) return together.alone.seconds <= together.gathered.seconds;
  const plan::Signature signature = plan::signature_of(write, all.fresh, all.bytes, all.pieces, all.end - all.first);
  const std::array<plan::Estimate, 2> both = {together.alone, together.gathered};
  const plan::Experience::Decision decision = arrangements_[present_]->experience.decide(signature, both);
  weighed_ = {signature, both[decision.place], decision.expected, decision.tried, true};
  return decision.place == 0;
}

int File::better_arrangement(const plan::Accessed& all, bool write) {
  const std::size_t best = plan::best_placing(all, write, setting_, placings_, present_);
  if (best == present_) return -1;
  const plan::Placing& placing = placings_[best];
  const int aggregators = plan::worthwhile_aggregators(all, write, setting_, placing.rules, placing.local_per_node);
  const plan::Together there = plan::estimate_together(all, write, true, {}, sieve_reads_, setting_, placing.rules, placing.local_per_node, aggregators);
  return there.alone.seconds <= there.gathered.seconds ? -1 : static_cast<int>(best);
}

void File::remember_taken(OpTrace& trace) {
  if (!asked_) return;
  taken_ = {trace::now_ns() - weighed_since_ns_, arrangements_[present_]->team->memories_made() != made_before_ ? 1 : 0};
  unlearned_ = std::exchange(weighed_, {});
  // What a rank did alone has been counted where it did.
  if (unlearned_.any && model::is_collective(unlearned_.estimate.way)) count_choice(unlearned_.expected, unlearned_.tried, taken_.nanoseconds, trace);
}

void File::learn_together(const strategy::Taken& taken) {
  const Weighed weighed = std::exchange(unlearned_, {});
  if (!weighed.any || taken.nanoseconds == strategy::Taken::kUnknown) return;
  plan::Experience& experience = arrangements_[present_]->experience;
  if (taken.prepared != 0 && experience.only_prepares(weighed.signature)) return;
  experience.note(weighed.signature, weighed.estimate, static_cast<double>(taken.nanoseconds) * 1e-9, weighed.tried);
}

void File::forget_together() {
  weighed_ = unlearned_ = {};
  taken_ = {};
  for (const std::unique_ptr<Arrangement>& arrangement : arrangements_) arrangement->experience = {};
}

bool File::tries_gathering() {
  if (!may_decline_ || comm_->topology().node_count > 1 || calls_to_skip_ == 0) return true;
  --calls_to_skip_;
  return false;
}

void File::note_gathering(bool declined) {
  constexpr int kSkippedMost = 64;
  skipped_last_ = declined ? std::clamp(2 * skipped_last_, 1, kSkippedMost) : 0;
  calls_to_skip_ = skipped_last_;
}

/// What a rank brings to a collective access by way of aggregators.
struct File::Contribution {
  access::Tiling file = access::bytes_at(0);
  Offset position = 0;
  Offset bytes = 0;    ///< 0: nothing
  bool alone = false;  ///< it has data, which it moves on its own
};

File::Contribution File::contribution(const View& view, const Request& request, Offset position) {
  if (request.bytes == 0) return {.position = position};
  // Aggregators ask for data by offset.  A view that reaches a byte twice (which can be read), whose copies lie among one another or that leads
  // to before the file gives no answer to that: then this rank takes part with nothing and moves its data on its own.
  if (!view.writable || (!view.contiguous && (!view.ascending || access::overlaps_itself(view.filetype) || access::offset_of(view.filetype, position) < 0)))
    return {.position = position, .alone = true};
  return {view.contiguous ? access::bytes_at(view.contiguous_start) : view.filetype, position, request.bytes};
}

Outcome File::carry_out_together(const View& view, const Request& request, Offset position, OpTrace& trace, const Status& local) try {
  asked_ = tries_gathering();
  if (!asked_) return local.ok() ? carry_out(view, request, position, trace) : Outcome{local, 0};
  AggregatorTarget target(
      [this]() -> Result<store::File*> {
        PENSTOCK_TRY(open_store());
        return opened_.load(std::memory_order_acquire);
      },
      [this](store::File& store_file) { return write_right(store_file, hints()); },
      [this](std::span<const store::Transfer> batch) { note_stripes(batch); }, wrote_since_read_, !ranks_see_each_other());
  const Contribution mine = local.ok() ? contribution(view, request, position) : Contribution{.position = position};
  weighed_ = {};
  weighed_since_ns_ = trace::now_ns();
  const bool blind = !ranks_see_each_other();
  const Status shown = blind && local.ok() ? show_own_writes() : local;
  const Result<strategy::Moved> moved = gather(request, mine, target, trace, shown);
  Status status = moved.ok() || !local.ok() ? local : moved.status().with_context(path_ + (request.write ? ": write" : ": read"));
  if (blind && request.write) status = see_aggregators_writes(target.wrote(), status);
  // All ranks know of that alike, unless some lacked memory: then the call fails on all, and all begin anew.
  note_gathering(moved.ok() && moved->declined);
  if (!status.ok() || moved->stopped) return {status, 0};
  if (moved->short_of_memory) forget_together();  // it does not go as was decided
  if (mine.alone || (moved->declined && mine.bytes > 0)) return move(view, request, position, trace);
  count_gathered(mine, trace);
  trace.count(request.write ? Counter::kBytesWritten : Counter::kBytesRead, moved->bytes);
  return {{}, moved->bytes};
} catch (const std::bad_alloc&) {
  return {Status::no_memory(), 0};
}

Result<strategy::Moved> File::gather(const Request& request, const Contribution& mine, strategy::Target& target, OpTrace& trace, const Status& local) {
  Result<strategy::Moved> moved = gather_here(request, mine, target, trace, local, may_go_over_ && placings_.size() > 1);
  // All ranks have come to the call by now, so what rank 0 finds to be the file's size has all that they wrote before.
  if (moved.ok() && moved->elsewhere >= 0) {
    may_go_over_ = go_over(static_cast<std::size_t>(moved->elsewhere), {});
    moved = gather_here(request, mine, target, trace, {}, false);
  }
  return moved;
}

Result<strategy::Moved> File::gather_here(const Request& request, const Contribution& mine, strategy::Target& target, OpTrace& trace, const Status& local,
                                          bool may_go_over) {
  Arrangement& arrangement = *arrangements_[present_];
  made_before_ = arrangement.team->memories_made();
  const bool write = request.write;
  const auto learn = [this](const strategy::Taken& taken) { learn_together(taken); };
  const auto judge = [this, write](const plan::Accessed& all, int aggregators, bool planned) { return better_alone(all, write, aggregators, planned); };
  const auto worthwhile = [this, write](const plan::Accessed& all) {
    const plan::Placing& placing = placings_[present_];
    return plan::worthwhile_aggregators(all, write, setting_, placing.rules, placing.local_per_node);
  };
  const auto guide = [this, write](const plan::Accessed& all) { return better_arrangement(all, write); };
  const strategy::Collective access{.comm = *comm_,
                                    .team = *arrangement.team,
                                    .placement = arrangement.placement,
                                    .domains = placings_[present_].rules,
                                    .target = target,
                                    .readers = model::readers_most(setting_.figures),
                                    .write = write,
                                    .file = mine.file,
                                    .position = mine.position,
                                    .memory = request.memory,
                                    .memory_contiguous = request.memory_contiguous,
                                    .buffer = request.buffer,
                                    .kept = arrangement.memory,
                                    .bytes = mine.bytes,
                                    .taken = std::exchange(taken_, {}),
                                    .learn = learn,
                                    .better_alone = may_decline_ ? judge : decltype(strategy::Collective::better_alone)(),
                                    .worthwhile = worthwhile,
                                    .elsewhere = may_go_over ? guide : decltype(strategy::Collective::elsewhere)(),
                                    .trace = trace};
  return strategy::two_phase(access, local);
}

void File::count_gathered(const Contribution& mine, OpTrace& trace) const {
  if (mine.bytes == 0) return;
  trace.count(arrangements_[present_]->team->size() > 1 ? Counter::kTwoLayer : Counter::kTwoPhase);
  const Offset pieces = access::pieces_in(mine.file, mine.position, mine.bytes);
  trace.count(Counter::kPieces, pieces);
  if (pieces == 1) return;
  const access::Bounds bounds = access::bounds_of(mine.file, mine.position, mine.bytes);
  trace.count(Counter::kSpanBytes, bounds.end - bounds.first);
}

Status File::show_own_writes() {
  if (!wrote_by_itself_.exchange(false)) return {};
  return opened_.load(std::memory_order_acquire)->sync();
}

Status File::see_aggregators_writes(bool wrote_for_others, const Status& mine) {
  Status status = mine;
  if (wrote_for_others && status.ok()) status = opened_.load(std::memory_order_acquire)->sync();
  status = agree_in_order(status);
  // One rank of each node has it let go of what it has cached; the others wait for that in the agreement that ends the call.
  store::File* const file = opened_.load(std::memory_order_acquire);
  if (status.ok() && comm_->topology().rank_in_node == 0 && file != nullptr) status = file->sync();
  return status;
}

Result<WriteRight> File::write_right(store::File& store_file, const hints::Hints& asked) {
  return sieve_lock_.acquire(store_file, plan::wants_sieved_writes(facts_of(store_file.traits()), asked));
}

/// A part of a request whose file offsets ascend.
struct File::Stretch {
  const access::Tiling& file;
  Offset position;         ///< in `file`
  Offset bytes;
  Offset memory_position;  ///< where the part starts in the request's data
  bool contiguous;         ///< `file` is, and begins at its displacement
};

// Where there is no memory, other ranks still have to hear of it, and the locks of atomic mode have to be given back: nothing is thrown.
Outcome File::move(const View& view, const Request& request, Offset position, OpTrace& trace) try {
  PhaseScope planning(trace, Phase::kPlan);
  if (Status opened = open_store(); !opened.ok()) return {opened.with_context(request.write ? "write" : "read"), 0};
  store::File& store_file = *opened_.load(std::memory_order_acquire);

  WriteRight right = WriteRight::kPlain;
  if (request.write) {
    if (!ranks_see_each_other()) wrote_by_itself_.store(true);
    const Result<WriteRight> held = write_right(store_file, hints());
    if (!held.ok()) return {held.status().with_context(path_ + ": write"), 0};
    right = *held;
  }

  if (view.contiguous && request.memory_contiguous && right == WriteRight::kPlain)
    return move_piece(store_file, request, view.contiguous_start + position, trace);
  if (view.contiguous)
    return move_stretch(store_file, right, request, {access::bytes_at(view.contiguous_start), position, request.bytes, 0, true}, trace);
  if (!view.in_order) return move_pieces(store_file, view, request, position, trace);
  if (view.ascending) return move_stretch(store_file, right, request, {view.filetype, position, request.bytes, 0, false}, trace);
  Offset moved = 0;
  while (moved < request.bytes) {
    const Offset within = (position + moved) % view.filetype_size;
    const Result<access::Tiling> copy = access::copy_alone(view.filetype, (position + moved) / view.filetype_size);
    if (!copy.ok()) return {copy.status().with_context(path_), moved};
    const Offset bytes = std::min(request.bytes - moved, view.filetype_size - within);
    const Outcome outcome = move_stretch(store_file, right, request, {*copy, within, bytes, moved, false}, trace);
    moved += outcome.bytes;
    if (!outcome.status.ok() || outcome.bytes < bytes) return {outcome.status, moved};
  }
  return {{}, moved};
} catch (const std::bad_alloc&) {
  return {Status::no_memory(), 0};
}

Outcome File::move_piece(store::File& store_file, const Request& request, Offset offset, OpTrace& trace) {
  trace.count(Counter::kPieces);
  trace.count(Counter::kIndependent);
  const strategy::Piece piece{store_file, offset, request.buffer, request.bytes, trace};
  return finish(request, request.write ? strategy::write_piece(piece) : strategy::read_piece(piece), trace);
}

Outcome File::move_pieces(store::File& store_file, const View& view, const Request& request, Offset position, OpTrace& trace) {
  // Strategies move bytes whose offsets ascend.  Of this view only each single piece is sure to be such; there are few such views, all for reading.
  access::Cursor cursor(view.filetype, position, request.bytes);
  access::Run run;
  Offset moved = 0;
  while (cursor.next(run)) {
    for (Offset i = 0; i < run.count; ++i) {
      const Offset offset = run.offset + i * run.stride;
      if (offset < 0)
        return {Status::failure(Code::kIo, path_ + ": the view leads to offset " + std::to_string(offset) + ", before the file"), moved};
      const Outcome outcome =
          move_stretch(store_file, WriteRight::kPlain, request, {access::bytes_at(offset), 0, run.length, moved, true}, trace);
      moved += outcome.bytes;
      if (!outcome.status.ok() || outcome.bytes < run.length) return {outcome.status, moved};
    }
  }
  return {{}, moved};
}

Outcome File::finish(const Request& request, const Result<Offset>& moved, OpTrace& trace) {
  if (request.write) wrote_since_read_.store(true);
  if (!moved.ok()) return {moved.status().with_context(path_ + (request.write ? ": write" : ": read")), 0};
  trace.count(request.write ? Counter::kBytesWritten : Counter::kBytesRead, *moved);
  return {{}, *moved};
}

Outcome File::move_stretch(store::File& store_file, WriteRight right, const Request& request, const Stretch& stretch, OpTrace& trace) {
  const hints::Hints& asked = hints();
  Weighed weighed;
  plan::Pattern pattern{.write = request.write, .bytes = stretch.bytes, .span_bytes = stretch.bytes, .pieces = 1};
  access::Bounds bounds{stretch.file.displacement + stretch.position, stretch.file.displacement + stretch.position + stretch.bytes};
  if (!stretch.contiguous) {
    bounds = access::bounds_of(stretch.file, stretch.position, stretch.bytes);
    if (bounds.first < 0)
      return {Status::failure(Code::kIo, path_ + ": the view leads to offset " + std::to_string(bounds.first) + ", before the file"), 0};
    pattern.span_bytes = bounds.end - bounds.first;
    pattern.pieces = access::pieces_in(stretch.file, stretch.position, stretch.bytes);
    if (pattern.pieces > 1) trace.count(Counter::kSpanBytes, pattern.span_bytes);
    weighed = weigh(pattern, bounds.end, store_file, asked, right == WriteRight::kMaySieve);
  }
  const std::int64_t begun_ns = weighed.any ? trace::now_ns() : 0;
  trace.count(Counter::kPieces, pattern.pieces);

  const strategy::Access access{store_file,
                                stretch.file,
                                stretch.position,
                                request.memory,
                                stretch.memory_position,
                                stretch.bytes,
                                request.buffer,
                                trace,
                                request.write ? asked.write_buffer_bytes : asked.read_buffer_bytes,
                                comm_->topology().rank_in_node,
                                comm_->topology().ranks_in_node};
  // A sieving neighbour rewrites whole windows: while there is one, every write keeps it out of the range it touches.  The sieved strategy
  // locks its own windows.
  std::optional<WriteGuard> guard;
  if (right != WriteRight::kPlain && weighed.estimate.way != model::Way::kSieved) {
    PhaseScope waiting(trace, Phase::kWait);
    Result<WriteGuard> locked = WriteGuard::lock(store_file, right, bounds.first, bounds.end);
    if (!locked.ok()) return {locked.status().with_context(path_ + ": write"), 0};
    guard.emplace(std::move(*locked));
  }
  Result<Offset> moved = Offset{0};
  switch (weighed.estimate.way) {
    case model::Way::kTwoLayer:  // of collective accesses: no rank's own access goes that way
    case model::Way::kTwoPhase:
    case model::Way::kIndependent:
      trace.count(Counter::kIndependent);
      moved = request.write ? strategy::write_independent(access) : strategy::read_independent(access);
      break;
    case model::Way::kMapped:
      trace.count(Counter::kMapped);
      moved = request.write ? strategy::write_mapped(access) : strategy::read_mapped(access);
      break;
    case model::Way::kSieved:
      trace.count(Counter::kSieved);
      moved = request.write ? strategy::write_sieved(access) : strategy::read_sieved(access);
      break;
  }
  if (weighed.any && moved.ok()) learn(weighed, trace::now_ns() - begun_ns, trace);
  return finish(request, moved, trace);
}

std::shared_ptr<Pending> File::start(const Request& request, Status local, Starting starting, std::function<Outcome(Outcome)> transform,
                                     std::function<void()> notify) {
  auto pending = std::make_shared<Pending>();
  pending->transform_ = std::move(transform);
  pending->notify_ = std::move(notify);
  if (starting == Starting::kMayWait && request.collective && aggregates() && !comm_->may_exchange_in_background()) {
    OpTrace trace(trace_, Phase::kPlan, trace::doing(request.write));
    pending->finish(access(request, trace, std::move(local)));
    return pending;
  }
  const std::shared_ptr<const View> view = share_view();
  if (local.ok()) local = check_request(*view, request);
  if (trace_ != nullptr) {
    OpTrace counting(trace_, Phase::kPlan, trace::doing(request.write));
    counting.count(request.write ? Counter::kCallsWrite : Counter::kCallsRead);
    counting.count(Counter::kCallsNonblocking);
    if (request.collective) counting.count(Counter::kCallsCollective);
  }
  // Positions are taken now, in the order of the program's calls.  Ordered access takes them from all ranks: its callers (the split
  // collectives) may wait here.
  Result<Offset> position = Offset{0};
  if (request.pointer == Pointer::kOrdered) {
    drain_collectives();
    position = claim_ordered(*view, request, local);
  } else if (local.ok()) {
    position = claim_position(*view, request);
  }
  if (!request.collective && (!local.ok() || !position.ok())) {
    pending->finish({local.ok() ? position.status() : local, 0});
    return pending;
  }
  std::optional<Outcome> moved;
  if (local.ok() && position.ok() && atomic() && !comm_->may_lock_in_background()) {
    OpTrace trace(trace_, Phase::kPlan, trace::doing(request.write));
    moved = carry_out(*view, request, *position, trace);
  }
  const bool in_order = request.collective && comm_->may_agree_in_background();
  {
    std::lock_guard lock(pending_mutex_);
    ++pending_count_;
    if (in_order) ++pending_collectives_;
  }
  bool posted = false;
  try {
    posted = worker(in_order).post([this, view, request, position, local, pending, moved] { run_pending(view, request, position, local, pending, moved); });
  } catch (const std::bad_alloc&) {
  }
  if (posted) return pending;
  // No thread or no memory to be had for it: then here and now, behind those that are under way.
  if (in_order) wait_for_background([this] { return pending_collectives_ == 1; });
  run_pending(view, request, position, local, pending, moved);
  return pending;
}

Worker& File::worker(bool in_order) {
  if (!in_order) return Worker::independent();
  std::lock_guard lock(pending_mutex_);
  if (collective_worker_ == nullptr) collective_worker_ = std::make_unique<Worker>();
  return *collective_worker_;
}

void File::run_pending(const std::shared_ptr<const View>& view, const Request& request, Result<Offset> position, Status local,
                       const std::shared_ptr<Pending>& pending, const std::optional<Outcome>& moved) {
  Outcome outcome;
  {
    OpTrace trace(trace_, Phase::kOther, trace::doing(request.write), /*background=*/true);
    if (local.ok()) local = position.status();
    const bool together = !moved.has_value() && request.collective && aggregates() && comm_->may_exchange_in_background();
    if (moved.has_value()) {
      outcome = *moved;
      local = outcome.status;
    } else if (together) {
      outcome = carry_out_together(*view, request, local.ok() ? *position : 0, trace, local);
      local = outcome.status;
    } else if (local.ok()) {
      outcome = carry_out(*view, request, *position, trace);
      local = outcome.status;
    }
    // Where nobody can be asked from here (several nodes, less than MPI_THREAD_MULTIPLE, an MPI that calls nobody back) each rank reports its own verdict.
    const bool agreed = request.collective && comm_->may_agree_in_background();
    if (agreed) local = agree_in_order(local);
    outcome.status = local;
    if (agreed && !local.ok()) note_gathering(false);  // what only this rank knows must not put it out of step
    if (together) local.ok() ? remember_taken(trace) : forget_together();
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
