// Collective and independent accesses that are under way together, while the program sets views and hints, asks for the size, and closes the file: each does to its
// bytes what it would do alone.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <list>
#include <map>
#include <random>
#include <string>
#include <thread>

#include "comm/local/local_comm.h"
#include "file/file.h"
#include "store/memory/memory_store.h"
#include "support/turning_profile.h"

namespace penstock {
namespace {

using Random = std::mt19937_64;
using Bytes = std::vector<std::byte>;

Offset below(Random& random, Offset limit) { return static_cast<Offset>(random() % static_cast<std::uint64_t>(limit)); }

std::uint64_t cases(std::uint64_t usual) {
  const char* given = std::getenv("PENSTOCK_RANDOM_CASES");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : usual;
}

/// An access has a slot of the rank's data to itself until it is over.  Behind the slots is what is written by the shared pointer.
constexpr Offset kSlotBytes = 48, kSlots = 12, kViews = 3;
constexpr Offset kOrderedFirst = kSlots * kSlotBytes, kStretchBytes = 20000;

enum class Kind : std::uint8_t { kCollective, kOrdered, kIndependent, kView, kHints, kAtomicity, kSync, kWait };

/// The same on all ranks.
struct Step {
  Kind kind = Kind::kCollective;
  bool blocks = false;
  Offset number = 0;  ///< of the view, or which of those that are under way is waited for
  bool on = false;    ///< atomic mode
  bool one_lacks = false;  ///< the first rank has nothing to access
  int failing = -1;   ///< this rank has met a failure before
  std::uint64_t seed = 0;
};

struct Sequence {
  int ranks = 1;
  int ranks_per_node = 1;
  store::Traits traits;
  hints::Hints hints = hints::defaults();
  Offset block = 1;
  Offset slowest_us = 0;
  bool looks_at_all = false;  ///< in the end
  std::vector<Step> steps;
};

Sequence make_sequence(std::uint64_t seed, const std::string& turning) {
  Random random(seed);
  Sequence made;
  made.ranks = static_cast<int>(1 + below(random, 6));
  made.ranks_per_node = static_cast<int>(1 + below(random, made.ranks));
  constexpr hints::Strategy kStrategies[] = {hints::Strategy::kIndependent, hints::Strategy::kTwoPhase, hints::Strategy::kTwoLayer, hints::Strategy::kAutomatic};
  made.hints.strategy = kStrategies[below(random, 4)];
  made.hints.collective_buffer_bytes = 1 + below(random, 300);
  made.hints.local_aggregators = static_cast<int>(below(random, 3));
  if (made.hints.strategy == hints::Strategy::kAutomatic && below(random, 2) == 0) {
    made.hints.profile = turning;
    made.hints.local_aggregators = 0;
  }
  made.traits.node_local = below(random, 3) == 0;
  made.traits.coherent_between_nodes = below(random, 2) == 0;
  made.traits.block_bytes = 1 + below(random, 64);
  made.block = 1 + below(random, 9);
  made.slowest_us = below(random, 3) > 0 ? below(random, 300) : 0;
  made.looks_at_all = below(random, 2) == 0;
  const Offset count = 10 + below(random, 30);
  constexpr Kind kKinds[] = {Kind::kCollective,  Kind::kCollective, Kind::kCollective, Kind::kCollective, Kind::kOrdered, Kind::kOrdered,
                             Kind::kIndependent, Kind::kIndependent, Kind::kView,      Kind::kHints,      Kind::kAtomicity,
                             Kind::kSync,        Kind::kWait,        Kind::kWait};
  for (Offset i = 0; i < count; ++i) {
    Step step;
    step.kind = kKinds[below(random, static_cast<Offset>(std::size(kKinds)))];
    step.blocks = below(random, 3) == 0;
    step.number = below(random, 100);
    step.on = below(random, 3) == 0;
    step.one_lacks = below(random, 4) == 0;
    step.failing = step.kind == Kind::kCollective && below(random, 12) == 0 ? static_cast<int>(below(random, made.ranks)) : -1;
    step.seed = random();
    made.steps.push_back(step);
  }
  return made;
}

/// One rank: every n-th block of the file is its own, and nobody else's.
class Rank {
 public:
  Rank(const Sequence& sequence, store::Store& store, comm::Comm& group) : sequence_(sequence), rank_(group.topology().rank) {
    auto opened = file::File::open(std::move(*group.duplicate()), store, "file", {.read = true, .write = true, .create = true}, sequence.hints, nullptr, {});
    EXPECT_TRUE(opened.ok()) << opened.status().text();
    file_ = std::move(*opened);
    for (auto& slots : contents_) slots.resize(static_cast<std::size_t>(kSlots));
  }

  void run() {
    set_view(0);
    for (std::size_t i = 0; i < sequence_.steps.size() && !testing::Test::HasFatalFailure(); ++i) {
      where_ = "step " + std::to_string(i) + " rank " + std::to_string(rank_) + ": ";
      carry_out(sequence_.steps[i]);
    }
    where_ = "in the end, rank " + std::to_string(rank_) + ": ";
    if (sequence_.looks_at_all) look_at_all();
    // Else close() waits for what is under way.
    trace::OpTrace trace(nullptr);
    ASSERT_TRUE(file_->close(trace).ok());
    finish_all(together_);
    finish_all(alone_);
  }

 private:
  struct Slot {
    bool busy = false;
    bool known = false;
    Bytes bytes;  ///< that are there, where they are known
  };
  struct Access {
    std::shared_ptr<file::Pending> pending;
    bool write = false;
    bool fails = false;
    Slot* slot = nullptr;
    Bytes memory;
  };

  void set_view(Offset number) {
    view_ = static_cast<std::size_t>(number % kViews);
    file::View view;
    const Offset stretch = (kStretchBytes / sequence_.block + 1) * sequence_.block * sequence_.ranks;
    view.filetype = access::tile(*access::resized(0, sequence_.block * sequence_.ranks, *access::elementary(sequence_.block)),
                                 static_cast<Offset>(view_) * stretch + sequence_.block * rank_);
    view.filetype_size = sequence_.block;
    view.contiguous = false;
    trace::OpTrace trace(nullptr);
    ASSERT_TRUE(file_->set_view(view, 0, trace, {}).ok());
    finish_all(together_);  // a view waits for the collective ones
    ASSERT_TRUE(file_->seek_shared(kOrderedFirst, file::Whence::kSet, trace, {}).ok());
    shared_ = kOrderedFirst;
  }

  void carry_out(const Step& step) {
    trace::OpTrace trace(nullptr);
    Random random(step.seed + (step.kind == Kind::kIndependent ? static_cast<std::uint64_t>(rank_) : 0));
    switch (step.kind) {
      case Kind::kCollective:
        return begin(step, random, true);
      case Kind::kOrdered:
        return begin_ordered(step, random);
      case Kind::kIndependent:
        for (Offset times = below(random, 3); times > 0; --times) begin(step, random, false);
        return;
      case Kind::kView:
        return set_view(step.number);
      case Kind::kHints: {
        hints::Hints hints = sequence_.hints;
        hints.write_buffer_bytes = 1000 + step.number;
        ASSERT_TRUE(file_->set_hints(hints, trace, {}).ok());
        ASSERT_TRUE(file_->size().ok());
        return;
      }
      case Kind::kAtomicity:
        ASSERT_TRUE(file_->set_atomicity(step.on, trace, {}).ok());
        return;
      case Kind::kSync:
        ASSERT_TRUE(file_->sync(trace, {}).ok());
        return;
      case Kind::kWait:
        for (std::list<Access>* accesses : {&together_, &alone_}) {
          if (accesses->empty()) continue;
          auto chosen = accesses->begin();
          std::advance(chosen, step.number % static_cast<Offset>(accesses->size()));
          file_->wait(*chosen->pending);
          finish(*chosen);
          accesses->erase(chosen);
        }
        return;
    }
  }

  void begin(const Step& step, Random& random, bool collective) {
    // Collective ones take the slots of the first half, which are busy on all ranks alike; the others are each rank's own affair.
    const Offset half = kSlots / 2;
    const Offset place = below(random, half) + (collective ? 0 : half);
    const bool write = below(random, 2) == 0;
    Slot& slot = contents_[view_][static_cast<std::size_t>(place)];
    if (slot.busy) return;
    Access access;
    access.write = write;
    access.slot = &slot;
    const Offset bytes = collective && step.one_lacks && rank_ == 0 ? 0 : kSlotBytes;
    access.memory.resize(static_cast<std::size_t>(bytes));
    if (write)
      for (std::byte& byte : access.memory) byte = static_cast<std::byte>(1 + random() % 255 + static_cast<std::uint64_t>(rank_));
    file::Request request;
    request.write = write;
    request.collective = collective;
    request.offset_etypes = place * kSlotBytes;
    request.buffer = access.memory.data();
    request.bytes = bytes;
    const bool fails = collective && step.failing >= 0;
    access.fails = fails;
    const Status local = fails && step.failing == rank_ ? Status::failure(Code::kArgument, "for a test") : Status();
    if (step.blocks) {
      trace::OpTrace trace(nullptr);
      check(access, file_->access(request, trace, local));
      return;
    }
    slot.busy = true;
    std::list<Access>& accesses = collective ? together_ : alone_;
    accesses.push_back(std::move(access));
    accesses.back().pending = file_->start(request, local, file::File::Starting::kNeverWaits, {}, {});
  }

  void begin_ordered(const Step& step, Random& random) {
    const bool lacks = step.one_lacks && rank_ == 0;
    const Offset place = shared_ + (rank_ - (step.one_lacks && rank_ > 0 ? 1 : 0)) * kSlotBytes;
    shared_ += (sequence_.ranks - (step.one_lacks ? 1 : 0)) * kSlotBytes;
    Access access;
    access.write = true;
    access.slot = &ordered_[{view_, place}];
    access.memory.resize(static_cast<std::size_t>(lacks ? 0 : kSlotBytes));
    for (std::byte& byte : access.memory) byte = static_cast<std::byte>(1 + random() % 255 + static_cast<std::uint64_t>(rank_));
    file::Request request;
    request.write = request.collective = true;
    request.pointer = file::Pointer::kOrdered;
    request.buffer = access.memory.data();
    request.bytes = static_cast<Offset>(access.memory.size());
    trace::OpTrace trace(nullptr);
    if (step.blocks) return check(access, file_->access(request, trace));
    together_.push_back(std::move(access));
    together_.back().pending = file_->start(request, {}, file::File::Starting::kMayWait, {}, {});
  }

  void look_at_all() {
    for (std::size_t number = 0; number < kViews; ++number) {
      set_view(static_cast<Offset>(number));
      for (Access& access : alone_) file_->wait(*access.pending);
      finish_all(alone_);
      for (std::size_t place = 0; place < contents_[number].size(); ++place) look_at(contents_[number][place], static_cast<Offset>(place) * kSlotBytes);
      for (auto& [where, slot] : ordered_)
        if (where.first == number) look_at(slot, where.second);
    }
  }

  void look_at(Slot& slot, Offset position) {
    Access access;
    access.slot = &slot;
    access.memory.resize(static_cast<std::size_t>(kSlotBytes));
    file::Request request;
    request.offset_etypes = position;
    request.buffer = access.memory.data();
    request.bytes = kSlotBytes;
    trace::OpTrace trace(nullptr);
    check(access, file_->access(request, trace));
  }

  void finish_all(std::list<Access>& accesses) {
    for (Access& access : accesses) {
      ASSERT_TRUE(access.pending->done());
      finish(access);
    }
    accesses.clear();
  }

  void finish(Access& access) {
    access.slot->busy = false;
    check(access, access.pending->outcome());
  }

  void check(const Access& access, const file::Outcome& outcome) {
    ASSERT_EQ(outcome.status.ok(), !access.fails) << where_ << outcome.status.text();
    Slot& slot = *access.slot;
    if (access.fails) {
      if (access.write) slot.known = false;
      return;
    }
    if (access.write) {
      ASSERT_EQ(outcome.bytes, static_cast<Offset>(access.memory.size()));
      if (access.memory.empty()) return;
      slot.known = true;
      slot.bytes = access.memory;
      return;
    }
    if (!slot.known || access.memory.empty()) return;
    ASSERT_EQ(outcome.bytes, kSlotBytes);
    ASSERT_TRUE(access.memory == slot.bytes) << where_;
  }

  const Sequence& sequence_;
  int rank_;
  std::unique_ptr<file::File> file_;
  std::size_t view_ = 0;
  std::array<std::vector<Slot>, kViews> contents_;
  std::map<std::pair<std::size_t, Offset>, Slot> ordered_;  ///< what was written by the shared pointer: by view and place
  Offset shared_ = 0;  ///< where that stands
  std::string where_;
  std::list<Access> together_, alone_;  ///< that are under way; of the former all ranks have as many
};

/// A store with other traits, which takes its time.
class OtherFile final : public store::ForwardingFile {
 public:
  OtherFile(std::unique_ptr<store::File> inner, const store::Traits& traits, Offset slowest_us)
      : ForwardingFile(std::move(inner)), traits_(traits), slowest_us_(slowest_us) {}
  [[nodiscard]] const store::Traits& traits() const override { return traits_; }
  Status read(std::span<store::Transfer> batch) override {
    wait();
    return inner_->read(batch);
  }
  Status write(std::span<store::Transfer> batch) override {
    wait();
    return inner_->write(batch);
  }

 private:
  void wait() {
    if (slowest_us_ > 0) std::this_thread::sleep_for(std::chrono::microseconds(slowest_us_ * (turns_.fetch_add(1) * 7 % 10) / 10));
  }

  store::Traits traits_;
  Offset slowest_us_;
  std::atomic<int> turns_{0};
};

class OtherStore final : public store::Store {
 public:
  OtherStore(store::Store& inner, const Sequence& sequence) : inner_(inner), sequence_(sequence) {}
  Result<std::unique_ptr<store::File>> open(const std::string& path, const store::OpenOptions& options) override {
    auto opened = inner_.open(path, options);
    if (!opened.ok()) return opened;
    return std::unique_ptr<store::File>(std::make_unique<OtherFile>(std::move(*opened), sequence_.traits, sequence_.slowest_us));
  }
  Status remove(const std::string& path) override { return inner_.remove(path); }

 private:
  store::Store& inner_;
  const Sequence& sequence_;
};

TEST(InFlight, AccessesThatAreUnderWayTogetherDoWhatEachDoes) {
  const TurningProfile turning;
  const std::uint64_t count = cases(60);
  for (std::uint64_t seed = 1; seed <= count; ++seed) {
    const Sequence sequence = make_sequence(seed, turning.path());
    store::MemoryStore memory;
    OtherStore store(memory, sequence);
    comm::run_ranks(
        sequence.ranks, [&](comm::Comm& group) { Rank(sequence, store, group).run(); }, sequence.ranks_per_node);
    ASSERT_FALSE(testing::Test::HasFailure()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace penstock
