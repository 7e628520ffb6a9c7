// The engine: who has what, then round by round.
//
// A rank's rounds are those in which it has data, an aggregator's those in which some rank has data in its window; both go upwards, so two ranks
// meet in the same round and nobody waits for a round that is empty on his side.  Within a round everything a rank sends is posted before it waits,
// and so is everything it receives for itself; an aggregator takes what arrives in batches that fit a window.  So nobody waits in a circle.
#include "strategy/two_phase.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <string>

#include "access/cursor.h"
#include "access/wire.h"

namespace penstock::strategy {

namespace {

using trace::Counter;
using trace::Phase;
using trace::PhaseScope;

/// Extents that go to the store in one call.
constexpr std::size_t kBatchMax = 512;

/// What every rank knows of every other.
struct Facts {
  Offset first = 0;  ///< of the file, [first, end); empty for nothing
  Offset end = 0;
  std::uint64_t tree_bytes = 0;
  std::int32_t code = 0;  ///< a failure: then nobody does anything
  std::int32_t unused = 0;
};

/// Goes before the packed tiling.
struct Claim {
  Offset position;
  Offset bytes;
};

/// What an aggregator knows of a rank that reaches it.
struct Peer {
  int rank;
  access::Tiling file;
  Offset next;  ///< data position
  Offset end;
};

/// What lies in [first, end) of the file, of data positions [position, limit).
Offset positions_until(const access::Tiling& file, Offset position, Offset limit, Offset end) {
  return std::clamp(access::position_of(file, end), position, limit);
}

class Engine {
 public:
  Engine(const Collective& access, Status mine) : access_(access), failure_(std::move(mine)), end_(access.position + access.bytes) {
    const auto& ranks = access_.aggregators;
    const auto found = std::lower_bound(ranks.begin(), ranks.end(), rank());
    if (found != ranks.end() && *found == rank()) place_ = static_cast<int>(found - ranks.begin());
  }

  Result<Offset> run() {
    PENSTOCK_TRY(tell_facts());
    for (const Facts& facts : all_)
      if (facts.code != 0) return outcome(0);
    if (!access_.write) PENSTOCK_TRY(cut_at_end_of_file());
    prepare();
    if (!agreed()) return outcome(0);
    PENSTOCK_TRY(exchange_claims());
    if (!agreed()) return outcome(0);
    PENSTOCK_TRY(move());
    return outcome(end_ - access_.position);
  }

 private:
  [[nodiscard]] int rank() const { return access_.comm.topology().rank; }
  [[nodiscard]] bool has_data() const { return end_ > access_.position; }
  Result<Offset> outcome(Offset moved) const {
    if (!failure_.ok()) return failure_;
    return moved;
  }
  void fail(Status status) {
    if (failure_.ok()) failure_ = std::move(status);
  }

  bool agreed() {
    const PhaseScope phase(access_.trace, Phase::kWait);
    return access_.comm.agree({static_cast<std::int32_t>(failure_.code()), failure_.system_errno(), failure_.ok() ? -1 : rank()}).ok();
  }

  Status tell_facts() {
    Facts mine;
    if (failure_.ok() && has_data()) {
      access::pack(access_.file, tree_);
      const access::Bounds bounds = access::bounds_of(access_.file, access_.position, access_.bytes);
      mine.first = bounds.first;
      mine.end = bounds.end;
      mine.tree_bytes = tree_.size();
    }
    mine.code = static_cast<std::int32_t>(failure_.code());
    all_.resize(static_cast<std::size_t>(access_.comm.topology().size));
    const PhaseScope phase(access_.trace, Phase::kWait);
    return access_.comm.all_gather(&mine, sizeof mine, all_.data());
  }

  /// Asked only now, when all ranks are here: what each of them wrote before counts.
  Status cut_at_end_of_file() {
    Offset size = 0;
    if (rank() == 0) {
      const Result<Offset> found = access_.target.size();
      if (found.ok())
        size = *found;
      else
        fail(found.status());
    }
    {
      const PhaseScope phase(access_.trace, Phase::kWait);
      PENSTOCK_TRY(access_.comm.broadcast(&size, sizeof size, 0));
    }
    for (Facts& facts : all_) {
      facts.end = std::min(facts.end, size);
      facts.first = std::min(facts.first, facts.end);
    }
    if (has_data()) end_ = positions_until(access_.file, access_.position, end_, size);
    return {};
  }

  /// All memory, before anybody depends on this rank.
  void prepare() {
    try {
      if (has_data() && !access_.memory_contiguous) fail_if(access_.kept.own.reserve(most_in_a_round()));
      if (place_ < 0) return;
      fail_if(window_.reserve(access_.domains.window_bytes()));
      fail_if(staging_.reserve(access_.domains.window_bytes()));
      batch_.reserve(kBatchMax);
      for (int rank = 0; rank < static_cast<int>(all_.size()); ++rank) {
        const Facts& facts = all_[static_cast<std::size_t>(rank)];
        if (!access_.domains.reaches(facts.first, facts.end, place_)) continue;
        peers_.push_back({rank, {}, 0, 0});
        arrived_.emplace_back(rank == this->rank() ? 0 : sizeof(Claim) + facts.tree_bytes);
      }
      arriving_.reserve(peers_.size());
    } catch (const std::bad_alloc&) {
      fail(Status::failure(Code::kNoMemory, "no memory for the buffers of a collective access; set cb_buffer_size lower"));
    }
  }
  void fail_if(Status status) {
    if (!status.ok()) fail(std::move(status));
  }

  /// Of this rank's data, the most that lies in one round.
  [[nodiscard]] Offset most_in_a_round() const {
    Offset most = 0;
    for (Offset position = access_.position; position < end_;) {
      const Offset round = access_.domains.round_of(access::offset_of(access_.file, position));
      const Offset next = positions_until(access_.file, position, end_, access_.domains.window(round + 1, 0));
      most = std::max(most, next - position);
      position = next;
    }
    return most;
  }

  /// Ranks with data tell every aggregator they reach what they access: the whole description, whose size does not depend on the pieces.
  Status exchange_claims() {
    const PhaseScope phase(access_.trace, Phase::kWait);
    const std::unique_ptr<comm::Exchange> messages = access_.comm.exchange();
    for (std::size_t i = 0; i < peers_.size(); ++i)
      if (peers_[i].rank != rank()) PENSTOCK_TRY(messages->receive(peers_[i].rank, arrived_[i].data(), arrived_[i].size()));
    std::vector<std::byte> told;
    if (has_data()) {
      const Claim claim{access_.position, end_ - access_.position};
      told.resize(sizeof claim + tree_.size());
      std::memcpy(told.data(), &claim, sizeof claim);
      std::copy(tree_.begin(), tree_.end(), told.begin() + sizeof claim);
      const Facts& mine = all_[static_cast<std::size_t>(rank())];
      for (int place = 0; place < access_.domains.aggregators(); ++place) {
        const int to = access_.aggregators[static_cast<std::size_t>(place)];
        if (to != rank() && access_.domains.reaches(mine.first, mine.end, place)) PENSTOCK_TRY(messages->send(to, told.data(), told.size()));
      }
    }
    PENSTOCK_TRY(messages->wait());
    for (std::size_t i = 0; i < peers_.size(); ++i) read_claim(peers_[i], arrived_[i]);
    arrived_.clear();
    return {};
  }

  void read_claim(Peer& peer, const std::vector<std::byte>& message) {
    if (peer.rank == rank()) {
      peer.file = access_.file;
      peer.next = access_.position;
      peer.end = end_;
      return;
    }
    Claim claim;
    std::memcpy(&claim, message.data(), sizeof claim);
    Result<access::Tiling> tiling = access::unpack(std::span(message).subspan(sizeof claim));
    Offset end = 0;
    if (!tiling.ok()) return fail(tiling.status());
    if (claim.position < 0 || claim.bytes < 0 || !checked_add(claim.position, claim.bytes, end))
      return fail(Status::failure(Code::kIntern, "rank " + std::to_string(peer.rank) + " described an access that cannot be"));
    peer.file = std::move(*tiling);
    peer.next = claim.position;
    peer.end = end;
  }

  Status move() {
    for (;;) {
      const Offset own = has_data_from(next_) ? round_at(access_.file, next_) : INT64_MAX;
      const Offset served = place_ >= 0 ? next_served_round() : INT64_MAX;
      const Offset round = std::min(own, served);
      if (round == INT64_MAX) return {};
      PENSTOCK_TRY(access_.write ? write_round(round, own == round, served == round) : read_round(round, own == round, served == round));
    }
  }

  [[nodiscard]] bool has_data_from(Offset position) const { return position < end_; }
  [[nodiscard]] Offset round_at(const access::Tiling& file, Offset position) const {
    return access_.domains.round_of(access::offset_of(file, position));
  }

  /// The first round in which some peer has data in this aggregator's window.  Peers are moved on to it.
  Offset next_served_round() {
    Offset next = INT64_MAX;
    for (Peer& peer : peers_) {
      while (peer.next < peer.end) {
        const Offset offset = access::offset_of(peer.file, peer.next);
        Offset round = access_.domains.round_of(offset);
        // Before this aggregator's window of that round, in it, or behind it.
        Offset first = access_.domains.window(round, place_);
        if (offset < first) {
          peer.next = positions_until(peer.file, peer.next, peer.end, first);
          continue;
        }
        if (offset >= access_.domains.window_end(first)) {
          peer.next = positions_until(peer.file, peer.next, peer.end, access_.domains.window(round + 1, place_));
          continue;
        }
        next = std::min(next, round);
        break;
      }
    }
    return next;
  }

  /// This rank's data of a round, by aggregator: body(rank, position, bytes).
  template <typename Body>
  Status for_own_parts(Offset round, Body body) {
    for (int place = 0; place < access_.domains.aggregators() && next_ < end_; ++place) {
      const Offset first = access_.domains.window(round, place);
      const Offset to = positions_until(access_.file, next_, end_, access_.domains.window_end(first));
      if (to == next_) continue;
      const int other = access_.aggregators[static_cast<std::size_t>(place)];
      if (other != rank()) PENSTOCK_TRY(body(other, next_, to - next_));
      next_ = to;
    }
    return {};
  }

  [[nodiscard]] Offset memory_position(Offset position) const { return position - access_.position; }

  /// Copies between contiguous bytes and this rank's memory.
  void pack_own(Offset position, Offset bytes, std::byte* contiguous, bool to_memory) {
    const access::Tiling plain = access::bytes_at(0);
    access::Zip zip(plain, 0, access_.memory, memory_position(position), bytes);
    access::Step step;
    while (zip.next(step)) {
      std::byte* const memory = access_.buffer + step.memory_offset;
      std::byte* const packed = contiguous + step.file_offset;
      if (to_memory)
        access::copy_strided(memory, step.memory_stride, packed, step.file_stride, step.length, step.count);
      else
        access::copy_strided(packed, step.file_stride, memory, step.memory_stride, step.length, step.count);
    }
  }

  /// Copies between the window and contiguous bytes that stand for positions [position, +bytes) of a peer, or this rank's own memory.
  void copy_window(const Peer& peer, Offset position, Offset bytes, std::byte* contiguous, bool to_window) {
    static const access::Tiling plain = access::bytes_at(0);
    const bool own = peer.rank == rank();
    access::Zip zip(peer.file, position, own ? access_.memory : plain, own ? memory_position(position) : 0, bytes);
    std::byte* const base = own ? access_.buffer : contiguous;
    access::Step step;
    while (zip.next(step)) {
      std::byte* const in_file = window_.at(step.file_offset);
      std::byte* const in_memory = base + step.memory_offset;
      if (!to_window) {
        access::copy_strided(in_memory, step.memory_stride, in_file, step.file_stride, step.length, step.count);
        continue;
      }
      access::copy_strided(in_file, step.file_stride, in_memory, step.memory_stride, step.length, step.count);
      if (step.count == 1 || step.file_stride == step.length)
        window_.mark(step.file_offset, step.length * step.count);
      else
        for (Offset i = 0; i < step.count; ++i) window_.mark(step.file_offset + i * step.file_stride, step.length);
    }
  }

  // --- Writing ------------------------------------------------------------------------------------------------------

  Status write_round(Offset round, bool sends, bool serves) {
    const std::unique_ptr<comm::Exchange> out = access_.comm.exchange();
    if (sends) {
      const PhaseScope phase(access_.trace, Phase::kCopy);
      Offset packed = 0;
      PENSTOCK_TRY(for_own_parts(round, [&](int to, Offset position, Offset bytes) {
        const std::byte* data = nullptr;
        if (access_.memory_contiguous) {
          data = access_.buffer + memory_position(position);
        } else {
          pack_own(position, bytes, access_.kept.own.data() + packed, false);
          data = access_.kept.own.data() + packed;
          packed += bytes;
        }
        return out->send(to, data, static_cast<std::size_t>(bytes));
      }));
    }
    if (serves) {
      PENSTOCK_TRY(collect(round));
      if (failure_.ok()) fail_if(write_window());
    }
    const PhaseScope phase(access_.trace, Phase::kWait);
    return out->wait();
  }

  /// A message on its way to the staging buffer.
  struct Arriving {
    const Peer* peer;
    Offset position;
    Offset bytes;
    Offset staged;
  };

  Status collect(Offset round) {
    const Offset first = access_.domains.window(round, place_);
    const Offset end = access_.domains.window_end(first);
    const access::Bounds touched = touched_in(first, end);
    window_.begin(touched.first, touched.end - touched.first);
    const std::unique_ptr<comm::Exchange> in = access_.comm.exchange();
    Offset staged = 0;
    for (Peer& peer : peers_) {
      const Offset from = peer.next;
      const Offset to = in_window(peer, first, end);
      if (to == from) continue;
      const Offset bytes = to - from;
      peer.next = to;
      if (peer.rank == rank()) {
        const PhaseScope phase(access_.trace, Phase::kCopy);
        copy_window(peer, from, bytes, nullptr, true);
        continue;
      }
      const access::Bounds bounds = access::bounds_of(peer.file, from, bytes);
      if (bounds.end - bounds.first == bytes) {
        PENSTOCK_TRY(in->receive(peer.rank, window_.at(bounds.first), static_cast<std::size_t>(bytes)));
        window_.mark(bounds.first, bytes);
        continue;
      }
      if (staged + bytes > staging_.size()) {
        PENSTOCK_TRY(take_in(*in));
        staged = 0;
      }
      PENSTOCK_TRY(in->receive(peer.rank, staging_.data() + staged, static_cast<std::size_t>(bytes)));
      arriving_.push_back({&peer, from, bytes, staged});
      staged += bytes;
    }
    return take_in(*in);
  }

  /// Where the peer's data in the window ends; its `next` when it has none there.
  static Offset in_window(const Peer& peer, Offset first, Offset end) {
    if (peer.next == peer.end || access::offset_of(peer.file, peer.next) < first) return peer.next;
    return positions_until(peer.file, peer.next, peer.end, end);
  }

  /// From the first to the last byte of the window that some peer has.
  [[nodiscard]] access::Bounds touched_in(Offset first, Offset end) const {
    access::Bounds touched{end, first};
    for (const Peer& peer : peers_) {
      const Offset to = in_window(peer, first, end);
      if (to == peer.next) continue;
      const access::Bounds bounds = access::bounds_of(peer.file, peer.next, to - peer.next);
      touched.first = std::min(touched.first, bounds.first);
      touched.end = std::max(touched.end, bounds.end);
    }
    return touched;
  }

  Status take_in(comm::Exchange& in) {
    {
      const PhaseScope phase(access_.trace, Phase::kWait);
      PENSTOCK_TRY(in.wait_received());
    }
    const PhaseScope phase(access_.trace, Phase::kCopy);
    for (const Arriving& message : arriving_) copy_window(*message.peer, message.position, message.bytes, staging_.data() + message.staged, true);
    arriving_.clear();
    return {};
  }

  Status write_window() {
    const PhaseScope phase(access_.trace, Phase::kWrite);
    Offset first = 0;
    Offset end = window_.first();
    while (window_.next_stretch(end, first, end)) {
      batch_.push_back({first, window_.at(first), static_cast<std::size_t>(end - first), 0});
      access_.trace.count(Counter::kStoreBytesWritten, end - first);
      if (batch_.size() == kBatchMax) PENSTOCK_TRY(write_batch());
    }
    return write_batch();
  }

  Status write_batch() {
    if (batch_.empty()) return {};
    access_.trace.count(Counter::kStoreWrites, static_cast<std::int64_t>(batch_.size()));
    Status status = access_.target.write(batch_);
    batch_.clear();
    return status;
  }

  // --- Reading ------------------------------------------------------------------------------------------------------

  Status read_round(Offset round, bool receives, bool serves) {
    const std::unique_ptr<comm::Exchange> in = access_.comm.exchange();
    const Offset begin = next_;
    Offset packed = 0;
    if (receives)
      PENSTOCK_TRY(for_own_parts(round, [&](int from, Offset position, Offset bytes) {
        if (access_.memory_contiguous)
          return in->receive(from, access_.buffer + memory_position(position), static_cast<std::size_t>(bytes));
        packed += bytes;
        return in->receive(from, access_.kept.own.data() + (packed - bytes), static_cast<std::size_t>(bytes));
      }));
    if (serves) PENSTOCK_TRY(deliver(round));
    {
      const PhaseScope phase(access_.trace, Phase::kWait);
      PENSTOCK_TRY(in->wait());
    }
    if (!receives || access_.memory_contiguous) return {};
    // Once more over the same parts, to where they belong.
    const PhaseScope phase(access_.trace, Phase::kCopy);
    next_ = begin;
    packed = 0;
    return for_own_parts(round, [&](int, Offset position, Offset bytes) {
      pack_own(position, bytes, access_.kept.own.data() + packed, true);
      packed += bytes;
      return Status();
    });
  }

  Status deliver(Offset round) {
    const Offset first = access_.domains.window(round, place_);
    const Offset end = access_.domains.window_end(first);
    const access::Bounds touched = touched_in(first, end);
    window_.begin(touched.first, touched.end - touched.first);
    fail_if(read_window(touched));
    const std::unique_ptr<comm::Exchange> out = access_.comm.exchange();
    Offset staged = 0;
    for (Peer& peer : peers_) {
      const Offset from = peer.next;
      const Offset to = in_window(peer, first, end);
      if (to == from) continue;
      const Offset bytes = to - from;
      peer.next = to;
      const PhaseScope phase(access_.trace, Phase::kCopy);
      if (peer.rank == rank()) {
        copy_window(peer, from, bytes, nullptr, false);
        continue;
      }
      const access::Bounds bounds = access::bounds_of(peer.file, from, bytes);
      if (bounds.end - bounds.first == bytes) {
        PENSTOCK_TRY(out->send(peer.rank, window_.at(bounds.first), static_cast<std::size_t>(bytes)));
        continue;
      }
      if (staged + bytes > staging_.size()) {
        const PhaseScope waiting(access_.trace, Phase::kWait);
        PENSTOCK_TRY(out->wait());
        staged = 0;
      }
      copy_window(peer, from, bytes, staging_.data() + staged, false);
      PENSTOCK_TRY(out->send(peer.rank, staging_.data() + staged, static_cast<std::size_t>(bytes)));
      staged += bytes;
    }
    const PhaseScope phase(access_.trace, Phase::kWait);
    return out->wait();
  }

  /// From the first to the last byte that somebody wants.  What cannot be read is sent as zeros: everybody learns of the failure at the end.
  Status read_window(const access::Bounds& touched) {
    const PhaseScope phase(access_.trace, Phase::kRead);
    store::Transfer transfer{touched.first, window_.at(touched.first), static_cast<std::size_t>(touched.end - touched.first), 0};
    Status status = failure_.ok() ? access_.target.read(std::span(&transfer, 1)) : Status();
    access_.trace.count(Counter::kStoreReads);
    access_.trace.count(Counter::kStoreBytesRead, static_cast<std::int64_t>(transfer.done));
    std::memset(transfer.memory + transfer.done, 0, transfer.length - transfer.done);
    return status;
  }

  const Collective& access_;
  Status failure_;  ///< the first that this rank met
  Offset end_;      ///< of this rank's data positions
  Offset next_ = access_.position;
  int place_ = -1;  ///< among the aggregators
  std::vector<std::byte> tree_;
  std::vector<Facts> all_;

  // Aggregators only.
  std::vector<Peer> peers_;
  std::vector<std::vector<std::byte>> arrived_;
  FileWindow& window_ = access_.kept.window;
  Room& staging_ = access_.kept.staging;
  std::vector<Arriving> arriving_;
  std::vector<store::Transfer> batch_;
};

}  // namespace

Result<Offset> two_phase(const Collective& access, Status mine) { return Engine(access, std::move(mine)).run(); }

}  // namespace penstock::strategy
