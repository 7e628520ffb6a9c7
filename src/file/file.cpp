// The open file: closing, pointers, views and the calls about the file as a whole.  Opening is in open.cpp, data access in access.cpp.
#include "file/file.h"

#include <algorithm>
#include <new>

#include "file/learned.h"

namespace penstock::file {

namespace {

using trace::Phase;
using trace::PhaseScope;

}  // namespace

comm::Verdict verdict_of(const Status& status, int rank) {
  if (status.ok()) return {};
  return {static_cast<std::int32_t>(status.code()), status.system_errno(), rank};
}

Status status_of(const comm::Verdict& verdict, const Status& mine, int my_rank, const std::string& path) {
  if (verdict.ok()) return {};
  const auto code = static_cast<Code>(verdict.code);
  // A rank that failed in the same way knows better why than what the verdict says of another rank.
  if (!mine.ok() && (verdict.rank == my_rank || mine.code() == code)) return mine;
  std::string sentence = path + ": rank " + std::to_string(verdict.rank) + " failed";
  if (code == Code::kNotSame) sentence = path + ": rank " + std::to_string(verdict.rank) + " passed another value than rank 0";
  return Status::failure(code, verdict.system_errno, sentence + ": " + std::string(text(code)));
}

File::File(std::unique_ptr<comm::Comm> comm, store::Store& store, std::string path, const Mode& mode, const hints::Hints& hints,
           trace::FileTrace* trace)
    : comm_(std::move(comm)),
      store_(store),
      path_(std::move(path)),
      mode_(mode),
      trace_(trace),
      calls_may_overlap_(comm_->calls_may_overlap()),
      view_(std::make_shared<const View>()) {
  hints_kept_.push_back(std::make_unique<const hints::Hints>(hints));
  hints_ = hints_kept_.back().get();
}

File::~File() = default;

const std::vector<int>& File::aggregators() const {
  static const std::vector<int> kNone;
  return arrangements_.empty() ? kNone : arrangements_.front()->placement.global;
}

void File::wait_for_background(const std::function<bool()>& over) {
  std::unique_lock lock(pending_mutex_);
  if (comm_->topology().size == 1) {
    pending_changed_.wait(lock, over);
    return;
  }
  std::chrono::microseconds nap(50);
  constexpr std::chrono::microseconds kLongestNap(1000);
  while (!over()) {
    lock.unlock();
    comm_->help_background();
    lock.lock();
    pending_changed_.wait_for(lock, nap, over);
    if (!comm_->background_needs_help()) nap = std::min(2 * nap, kLongestNap);
  }
}

void File::drain_collectives() {
  wait_for_background([this] { return pending_collectives_ == 0; });
}

void File::wait(Pending& pending) {
  wait_for_background([&] { return pending.done(); });
}

Status File::agree(const Status& mine, trace::OpTrace& trace) {
  PhaseScope waiting(trace, Phase::kWait);
  drain_collectives();
  return agree_in_order(mine);
}

Status File::agree_same(const Status& mine, std::uint64_t fingerprint, trace::OpTrace& trace) {
  PhaseScope waiting(trace, Phase::kWait);
  drain_collectives();
  const int rank = comm_->topology().rank;
  return status_of(comm_->agree_same(verdict_of(mine, rank), fingerprint), mine, rank, path_);
}

Status File::agree_in_order(const Status& mine) {
  const int rank = comm_->topology().rank;
  return status_of(comm_->agree(verdict_of(mine, rank)), mine, rank, path_);
}

Status File::close(trace::OpTrace& trace) {
  {
    PhaseScope waiting(trace, Phase::kWait);
    wait_for_background([this] { return pending_count_ == 0; });
  }
  collective_worker_.reset();
  trace.count(trace::Counter::kTargetWriters, std::count(stripes_written_.begin(), stripes_written_.end(), true));
  Status status;
  if (store_file_ != nullptr) {
    PhaseScope closing(trace, Phase::kOpen);
    opened_.store(nullptr, std::memory_order_release);
    status = store_file_->close();
  }
  status = agree(status, trace);
  // Only now: a rank that has not called close() yet may still have to open the file, and finds it through rank 0's.
  store_file_.reset();
  if (mode_.delete_on_close) {
    // After the agreement nobody has the file open, so nobody can bring it back.
    Status removed;
    if (comm_->topology().rank == 0) {
      PhaseScope closing(trace, Phase::kOpen);
      removed = store_.remove(path_);
      if (removed.code() == Code::kNoSuchFile) removed = {};  // somebody else took it away: it is gone as asked
    }
    removed = agree(removed, trace);
    if (status.ok()) status = removed;
  }
  learn_together(taken_);  // no later call does
  if (experience_.known().empty() && learned_together().empty()) return status;  // nothing was chosen: what is kept is of more use
  if (learns()) keep_for_next_file();
  if (keeps_learned_ && comm_->topology().rank == 0) keep_learned();
  return status;
}

LikeFiles File::like_files(const OpenedFacts& facts, const store::Identity& identity) const {
  const comm::Topology& topology = comm_->topology();
  return {facts.file_system, identity.device, facts.profile, topology.size, topology.node_count, topology.rank};
}

void File::keep_for_next_file() {
  try {
    keep_in_process(like_files(facts_, identity_), experience_.known(), learned_together(),
                    placings_.empty() ? Learned::kUnknown : placings_[present_].local_per_node);
  } catch (const std::bad_alloc&) {
  }
}

std::span<const plan::Experience::Known> File::learned_together() const {
  return arrangements_.empty() ? std::span<const plan::Experience::Known>() : arrangements_[present_]->experience.known();
}

void File::keep_learned() {
  const comm::Topology& topology = comm_->topology();
  const std::string path = learned_path(facts_.file_system, facts_.profile, topology.size, topology.node_count);
  // Where it cannot be kept, the next run learns anew.
  if (!path.empty()) (void)write_learned(path, experience_.known(), learned_together());
}

void File::note_stripes(std::span<const store::Transfer> batch) {
  const plan::Striping& striping = this->striping();
  if (trace_ == nullptr || striping.stripe_bytes == 0) return;
  const auto count = static_cast<std::size_t>(striping.stripe_count);
  stripes_written_.resize(count);
  for (const store::Transfer& transfer : batch) {
    const Offset last = (transfer.offset + static_cast<Offset>(transfer.length) - 1) / striping.stripe_bytes;
    Offset stripe = transfer.offset / striping.stripe_bytes;
    for (std::size_t seen = 0; stripe <= last && seen < count; ++stripe, ++seen) stripes_written_[static_cast<std::size_t>(stripe) % count] = true;
  }
}

namespace {

/// Whole copies of the filetype of which all lie below the largest offset, as data positions.
Offset surely_fits(const View& view) {
  if (view.filetype_size == 0) return INT64_MAX;
  const Offset room = INT64_MAX - std::max<Offset>(access::bounds_of(view.filetype, 0, view.filetype_size).end, 0);
  if (room == 0) return 0;
  Offset fits = 0;
  if (view.filetype.extent <= 0 || !checked_multiply((room - 1) / view.filetype.extent, view.filetype_size, fits)) return INT64_MAX;
  return fits;
}

}  // namespace

Status File::set_view(const View& view, std::uint64_t fingerprint, trace::OpTrace& trace, Status local) {
  const int rank = comm_->topology().rank;
  // The two words take turns: the one that the new view will use was last touched two views ago, and every rank has agreed on a view
  // since.  So rank 0 may clear it before the agreement, and nobody can use it until the agreement is over.
  auto next = std::make_shared<View>(view);
  next->surely_fits = surely_fits(view);
  next->shared_word = 1 - HeldView(*this)->shared_word;
  if (rank == 0 && comm_->words_and_lock().ok()) comm_->store(next->shared_word, 0);
  PENSTOCK_TRY(agree_same(local, fingerprint, trace));
  std::lock_guard lock(view_mutex_);
  view_ = std::move(next);
  individual_.store(0, std::memory_order_relaxed);
  return {};
}

std::shared_ptr<const View> File::share_view() const {
  std::lock_guard lock(view_mutex_);
  return view_;
}

Result<Offset> File::byte_offset(Offset offset_etypes) const { return place_of(*HeldView(*this), offset_etypes); }

Result<Offset> File::place_of(const View& view, Offset offset_etypes) const {
  Offset position = 0;
  Offset place = view.filetype.displacement;  // where a view without data begins, which has no other place
  bool there = offset_etypes >= 0 && checked_multiply(offset_etypes, view.etype_size, position);
  if (there && view.contiguous) there = checked_add(view.contiguous_start, position, place);
  if (there && !view.contiguous && view.filetype_size == 0) there = position == 0;
  if (there && !view.contiguous && view.filetype_size > 0) {
    place = access::offset_of(view.filetype, position);
    there = place < INT64_MAX;  // what it says of offsets beyond
  }
  if (there) return place;
  return Status::failure(Code::kArgument, path_ + ": offset " + std::to_string(offset_etypes) + " etypes is not a place in the view");
}

Result<Offset> File::end_in_etypes(const View& view) {
  const Result<Offset> bytes = size();
  if (!bytes.ok()) return bytes.status();
  if (view.filetype_size == 0) return Offset{0};
  if (!view.ascending)
    return Status::failure(Code::kUnsupported, path_ + ": seek: the end is at no one position of the view, since parts of its filetype or copies "
                                                       "of it overlap; seek from the start");
  const Offset data = view.contiguous ? *bytes - view.contiguous_start : access::position_of(view.filetype, *bytes);
  if (data <= 0) return Offset{0};
  return (data + view.etype_size - 1) / view.etype_size;
}

Status File::seek(Offset offset_etypes, Whence whence) {
  if (mode_.sequential)
    return Status::failure(Code::kUnsupported, path_ + ": seek: the file was opened with SEQUENTIAL; only shared-pointer access is allowed");
  Offset base = 0;
  if (whence == Whence::kCurrent) base = individual_.load(std::memory_order_relaxed);
  if (whence == Whence::kEnd) {
    const Result<Offset> end = end_in_etypes(*HeldView(*this));
    if (!end.ok()) return end.status();
    base = *end;
  }
  Offset target = 0;
  if (!checked_add(base, offset_etypes, target) || target < 0)
    return Status::failure(Code::kArgument, path_ + ": seek to etype " + std::to_string(base) + " + " + std::to_string(offset_etypes) +
                                                ": a position before the start of the view");
  individual_.store(target, std::memory_order_relaxed);
  return {};
}

Status File::seek_shared(Offset offset_etypes, Whence whence, trace::OpTrace& trace, Status local) {
  if (local.ok() && mode_.sequential)
    local = Status::failure(Code::kUnsupported, path_ + ": seek_shared: the file was opened with SEQUENTIAL");
  if (local.ok()) local = shared_pointer_works();
  // Every rank has finished what it did with the pointer before rank 0 moves it, and nobody goes on before it has moved.
  const int rank = comm_->topology().rank;
  const std::uint64_t fingerprint = static_cast<std::uint64_t>(offset_etypes) * 4 + static_cast<std::uint64_t>(whence);
  PENSTOCK_TRY(agree_same(local, fingerprint, trace));
  if (rank == 0) {
    const HeldView view(*this);
    Offset base = 0;
    if (whence == Whence::kCurrent) base = comm_->load(view->shared_word);
    if (whence == Whence::kEnd) {
      const Result<Offset> end = end_in_etypes(*view);
      if (end.ok()) base = *end;
      if (!end.ok()) local = end.status();
    }
    Offset target = 0;
    if (local.ok() && (!checked_add(base, offset_etypes, target) || target < 0))
      local = Status::failure(Code::kArgument, path_ + ": seek_shared to etype " + std::to_string(base) + " + " +
                                                   std::to_string(offset_etypes) + ": a position before the start of the view");
    if (local.ok()) comm_->store(view->shared_word, target);
  }
  return agree(local, trace);
}

Result<Offset> File::shared_position_etypes() {
  if (mode_.sequential)
    return Status::failure(Code::kUnsupported, path_ + ": get_position_shared: the file was opened with SEQUENTIAL");
  return shared_position(*HeldView(*this));
}

Status File::shared_pointer_works() const { return comm_->words_and_lock().with_context(path_); }

Result<Offset> File::shared_position(const View& view) {
  PENSTOCK_TRY(shared_pointer_works());
  const Offset position = comm_->load(view.shared_word);
  PENSTOCK_TRY(shared_pointer_works());  // the access itself may have been what failed
  return position;
}

Result<Offset> File::shared_byte_offset() {
  const HeldView view(*this);
  const Result<Offset> position = shared_position(*view);
  return position.ok() ? place_of(*view, *position) : position;
}

Result<Offset> File::size() {
  PENSTOCK_TRY(open_store());
  return opened_.load(std::memory_order_acquire)->size();
}

Status File::set_size(Offset size_bytes, trace::OpTrace& trace, Status local) {
  if (local.ok() && mode_.sequential)
    local = Status::failure(Code::kUnsupported, path_ + ": set_size: the file was opened with SEQUENTIAL, whose size only writing changes");
  if (local.ok() && size_bytes < 0)
    local = Status::failure(Code::kArgument, path_ + ": set_size: " + std::to_string(size_bytes) + " bytes; a size cannot be negative");
  if (local.ok() && !mode_.write)
    local = Status::failure(Code::kReadOnly, path_ + ": set_size: the file was opened with RDONLY; open it with RDWR or WRONLY");
  PENSTOCK_TRY(agree_same(local, static_cast<std::uint64_t>(size_bytes), trace));
  wrote_since_read_.store(false);  // what other nodes remember of the size may be more than there is now
  if (comm_->topology().rank == 0) {
    PhaseScope resizing(trace, Phase::kWrite);
    local = open_store();
    if (local.ok()) local = store_file_->resize(size_bytes);
  }
  return agree(local, trace);
}

Status File::preallocate(Offset size_bytes, trace::OpTrace& trace, Status local) {
  if (local.ok() && mode_.sequential)
    local = Status::failure(Code::kUnsupported, path_ + ": preallocate: the file was opened with SEQUENTIAL, whose size only writing changes");
  if (local.ok() && size_bytes < 0)
    local = Status::failure(Code::kArgument, path_ + ": preallocate: " + std::to_string(size_bytes) + " bytes; a size cannot be negative");
  if (local.ok() && !mode_.write)
    local = Status::failure(Code::kReadOnly, path_ + ": preallocate: the file was opened with RDONLY; open it with RDWR or WRONLY");
  PENSTOCK_TRY(agree_same(local, static_cast<std::uint64_t>(size_bytes), trace));
  if (comm_->topology().rank == 0) {
    PhaseScope resizing(trace, Phase::kWrite);
    local = open_store();
    if (local.ok()) local = store_file_->preallocate(size_bytes);
  }
  return agree(local, trace);
}

Status File::sync(trace::OpTrace& trace, Status local) {
  // One rank of each node makes durable what all ranks of the node wrote: they share its page cache.  Everybody's writes are in the
  // cache when the first agreement is over.  Where other nodes' writes are not seen by themselves, ranks that only read let go of what is cached.
  PENSTOCK_TRY(agree(local, trace));
  if ((mode_.write || !nodes_see_each_other()) && comm_->topology().rank_in_node == 0) {
    PhaseScope syncing(trace, Phase::kSync);
    local = open_store();
    if (local.ok()) local = store_file_->sync();
  }
  return agree(local, trace);
}

Status File::set_atomicity(bool atomic, trace::OpTrace& trace, Status local) {
  {
    PhaseScope waiting(trace, Phase::kWait);
    wait_for_background([this] { return pending_count_ == 0; });
  }
  if (atomic && local.ok()) local = comm_->words_and_lock().with_context(path_);
  PENSTOCK_TRY(agree_same(local, atomic ? 1 : 0, trace));
  atomic_.store(atomic, std::memory_order_relaxed);
  return {};
}

Status File::set_hints(const hints::Hints& hints, trace::OpTrace& trace, Status local) {
  PhaseScope planning(trace, Phase::kPlan);
  if (!local.ok()) return local;
  std::lock_guard lock(hints_mutex_);
  // Programs tend to give the same few again and again (with every view), so each is kept once.
  for (const std::unique_ptr<const hints::Hints>& kept : hints_kept_) {
    if (*kept != hints) continue;
    hints_.store(kept.get(), std::memory_order_release);
    return {};
  }
  hints_kept_.push_back(std::make_unique<const hints::Hints>(hints));
  hints_.store(hints_kept_.back().get(), std::memory_order_release);
  return {};
}

}  // namespace penstock::file
