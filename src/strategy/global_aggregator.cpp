// A message that is one piece of the file comes from or goes to the window itself; others pass through the staging memory, which may take several turns.
#include "strategy/global_aggregator.h"

#include "strategy/copying.h"

namespace penstock::strategy {

using trace::Counter;
using trace::Phase;
using trace::PhaseScope;

namespace {

/// Extents that go to the store in one call.
constexpr std::size_t kBatchMax = 512;

}  // namespace

GlobalAggregator::GlobalAggregator(Call& call, const Agreement& agreement, const Buffers& buffers)
    : call_(call), agreement_(agreement), buffers_(buffers), served_(agreement.division.domains()) {}

Status GlobalAggregator::prepare() {
  if (!agreement_.division.aggregates()) return {};
  const Offset window_bytes = agreement_.division.domains().window_bytes();
  for (int slot = 0; slot < kSlots; ++slot) PENSTOCK_TRY(window(slot).use(buffers_.window(slot), window_bytes));
  PENSTOCK_TRY(staging().reserve(window_bytes));
  for (const Peer& peer : agreement_.peers)
    for (const Walk& walk : peer.walks) {
      served_.add(walk, rank_of_served_.size(), agreement_.division.place());
      rank_of_served_.push_back(peer.rank);
    }
  for (Contents& contents : contents_) {
    contents.parts.reserve(rank_of_served_.size());
    contents.messages.reserve(rank_of_served_.size());
  }
  arriving_.reserve(rank_of_served_.size());
  batch_.reserve(kBatchMax);
  return {};
}

void GlobalAggregator::begin(int step, Offset round) {
  Contents& contents = this->contents(step);
  contents.parts.clear();
  contents.messages.clear();
  window(step).begin(agreement_.division.domains().window(round, agreement_.division.place()).first);
  served_.take(round, [&](const Agenda::Entry& entry, Offset end) {
    const Part& part = contents.parts.emplace_back(Part{&entry.walk->claim, entry.position, end - entry.position, 0});
    const access::Bounds bounds = part.bounds();
    window(step).touch(bounds.first, bounds.end);
    const int other = rank_of_served_[entry.index];
    if (other == call_.rank()) return;
    if (!contents.messages.empty() && contents.messages.back().rank == other &&
        agreement_.division.fit_together(contents.messages.back().bytes, part.bytes)) {
      contents.messages.back().end = contents.parts.size();
      contents.messages.back().bytes += part.bytes;
    } else {
      contents.messages.push_back({other, contents.parts.size() - 1, contents.parts.size(), part.bytes});
    }
  });
}

/// Such a message comes from or goes to the window itself.
bool GlobalAggregator::in_one_piece(std::span<const Part> parts) {
  const access::Bounds bounds = parts[0].bounds();
  return parts.size() == 1 && bounds.end - bounds.first == parts[0].bytes;
}

// --- Writing ----------------------------------------------------------------------------------------------------------

Status GlobalAggregator::expect_data(int step) {
  received_ = call_.access().comm.exchange();
  arriving_.clear();
  next_expected_ = 0;
  staged_ = 0;
  return post_receives(step);
}

/// As many as there is room for.  It does not wait for room: what this rank has to send is not on its way yet.
Status GlobalAggregator::post_receives(int step) {
  Contents& contents = this->contents(step);
  for (; next_expected_ < contents.messages.size(); ++next_expected_) {
    const TeamMessage& message = contents.messages[next_expected_];
    const std::span<Part> parts = contents.of(message);
    if (in_one_piece(parts)) {
      PENSTOCK_TRY(received_->receive(message.rank, window(step).at(parts[0].bounds().first), static_cast<std::size_t>(message.bytes)));
      continue;
    }
    if (message.bytes > staging().size()) return Status::failure(Code::kIntern, "more data for a window than it holds");
    if (staged_ + message.bytes > staging().size()) return {};
    PENSTOCK_TRY(received_->receive(message.rank, staging().data() + staged_, static_cast<std::size_t>(message.bytes)));
    for (Part& part : parts) {
      part.staged = staged_;
      staged_ += part.bytes;
      arriving_.push_back(part);
    }
  }
  return {};
}

Status GlobalAggregator::take_in(int step) {
  PENSTOCK_TRY(scatter(step));
  while (next_expected_ < contents(step).messages.size()) {
    PENSTOCK_TRY(post_receives(step));
    PENSTOCK_TRY(scatter(step));
  }
  if (!agreement_.gaps.none) mark(step);
  return {};
}

/// Waits for what was posted, and puts what is in the staging memory into the window.
Status GlobalAggregator::scatter(int step) {
  {
    const PhaseScope phase(call_.access().trace, Phase::kCommunicate);
    PENSTOCK_TRY(received_->wait_received());
  }
  const PhaseScope phase(call_.access().trace, Phase::kCopy);
  for (const Part& part : arriving_) copy_part(part, step);
  arriving_.clear();
  staged_ = 0;
  return {};
}

/// Which bytes of the window have arrived: no others are written.
void GlobalAggregator::mark(int step) {
  const PhaseScope phase(call_.access().trace, Phase::kCopy);
  FileWindow& marked = window(step);
  marked.clear_marks();
  for (const Part& part : contents(step).parts) {
    access::Cursor cursor(part.claim->tiling, part.position, part.bytes);
    access::Run run;
    while (cursor.next(run)) {
      if (run.count == 1 || run.stride == run.length)
        marked.mark(run.offset, run.length * run.count);
      else
        for (Offset i = 0; i < run.count; ++i) marked.mark(run.offset + i * run.stride, run.length);
    }
  }
}

Status GlobalAggregator::write(int step) {
  const PhaseScope phase(call_.access().trace, Phase::kWrite);
  FileWindow& written = window(step);
  Offset first = written.touched_first();
  Offset end = written.touched_end();
  if (agreement_.gaps.none) {
    PENSTOCK_TRY(add_to_batch(written, first, end));
  } else {
    end = first;
    while (written.next_stretch(end, first, end)) PENSTOCK_TRY(add_to_batch(written, first, end));
  }
  return write_batch();
}

Status GlobalAggregator::add_to_batch(FileWindow& written, Offset first, Offset end) {
  batch_.push_back({first, written.at(first), static_cast<std::size_t>(end - first), 0});
  call_.access().trace.count(Counter::kStoreBytesWritten, end - first);
  return batch_.size() == kBatchMax ? write_batch() : Status();
}

Status GlobalAggregator::write_batch() {
  if (batch_.empty()) return {};
  call_.access().trace.count(Counter::kStoreWrites, static_cast<std::int64_t>(batch_.size()));
  Status status = call_.access().target.write(batch_);
  batch_.clear();
  return status;
}

// --- Reading ----------------------------------------------------------------------------------------------------------

Status GlobalAggregator::deliver(int step) {
  PENSTOCK_TRY(finish_delivering());  // from the staging memory
  delivered_ = call_.access().comm.exchange();
  delivered_step_ = step;
  staged_ = 0;
  for (const TeamMessage& message : contents(step).messages) PENSTOCK_TRY(give(step, message));
  return {};
}

Status GlobalAggregator::give(int step, const TeamMessage& message) {
  const std::span<Part> parts = contents(step).of(message);
  call_.count_message(message.rank, message.bytes);
  if (in_one_piece(parts))
    return delivered_->send(message.rank, window(step).at(parts[0].bounds().first), static_cast<std::size_t>(message.bytes));
  if (message.bytes > staging().size()) return Status::failure(Code::kIntern, "more data of a window than it holds");
  if (staged_ + message.bytes > staging().size()) {
    PENSTOCK_TRY(finish_delivering());
    staged_ = 0;
  }
  const PhaseScope phase(call_.access().trace, Phase::kCopy);
  const Offset start = staged_;
  for (Part& part : parts) {
    part.staged = staged_;
    copy_part(part, step);
    staged_ += part.bytes;
  }
  return delivered_->send(message.rank, staging().data() + start, static_cast<std::size_t>(message.bytes));
}

Status GlobalAggregator::finish_delivering_before(int step) { return delivered_step_ < step ? finish_delivering() : Status(); }

Status GlobalAggregator::finish_delivering() {
  if (delivered_ == nullptr) return {};
  const PhaseScope phase(call_.access().trace, Phase::kCommunicate);
  return delivered_->wait();
}

/// Between the window and the staging memory.
void GlobalAggregator::copy_part(const Part& part, int step) {
  const access::Tiling plain = access::bytes_at(0);
  access::Zip zip(part.claim->tiling, part.position, plain, 0, part.bytes);
  copy_along(zip, buffers_.window(step), window_first(step), staging().data() + part.staged, call_.access().write);
}

}  // namespace penstock::strategy
