// Independent accesses mixed with collective ones, in which ranks may hand their data to each other: every rank must see what it wrote itself, by whatever call,
// without any call of the others in between, and reads must end where the file ends.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <random>
#include <thread>

#include "comm/local/local_comm.h"
#include "file/file.h"
#include "store/memory/memory_store.h"
#include "support/turning_profile.h"

namespace penstock {
namespace {

using Random = std::mt19937_64;

Offset below(Random& random, Offset limit) { return static_cast<Offset>(random() % static_cast<std::uint64_t>(limit)); }

std::uint64_t cases(std::uint64_t usual) {
  const char* given = std::getenv("PENSTOCK_RANDOM_CASES");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : usual;
}

/// The same on all ranks.
struct Step {
  bool collective = true;
  bool write = true;
  bool background = false;
  bool meets_before = false;  ///< all ranks are at this step before it begins
  bool new_view = false;
  bool other_hints = false;  ///< each rank sets some of its own
  bool reopens = false;  ///< the file is closed before it and opened once more: what was learned is gone by
  int atomic = -1;   ///< becomes so; -1: stays
  int failing = -1;  ///< this rank has met a failure before
  bool alike = false;  ///< collective, and all ranks access as much, of one stretch of the file
  int times = 1;     ///< a collective one is carried out so often at the same place: by kept plans, and by what the calls before it took
  std::uint64_t seed = 0;
};

struct Sequence {
  int ranks = 1;
  int ranks_per_node = 1;
  store::Traits traits;
  hints::Hints hints = hints::defaults();
  Offset block = 1;
  bool hints_differ = false;  ///< from the open on: what has to be the same is so by rank 0's
  Offset slowest_us = 0;  ///< accesses of the store take up to so long, whatever the model predicts: what is learned from them must be so on all ranks alike
  std::vector<Step> steps;
};

/// Some that this rank alone has.
hints::Hints with_others(hints::Hints hints, Random& random) {
  constexpr hints::Strategy kStrategies[] = {hints::Strategy::kIndependent, hints::Strategy::kTwoPhase, hints::Strategy::kTwoLayer, hints::Strategy::kAutomatic};
  constexpr hints::Switch kSwitches[] = {hints::Switch::kAutomatic, hints::Switch::kDisable};
  hints.strategy = kStrategies[below(random, 4)];
  hints.learn = kSwitches[below(random, 2)];
  hints.local_aggregators = static_cast<int>(below(random, 4));
  hints.aggregators = static_cast<int>(below(random, 6));
  hints.collective_buffer_bytes = 1 + below(random, 900);
  return hints;
}

/// `turning`: paths of such profiles.
Sequence make_sequence(std::uint64_t seed, const std::array<std::string, 2>& turning) {
  Random random(seed);
  Sequence made;
  made.ranks = static_cast<int>(1 + below(random, 14));
  made.ranks_per_node = below(random, 2) == 0 ? made.ranks : static_cast<int>(1 + below(random, made.ranks));
  constexpr hints::Strategy kStrategies[] = {hints::Strategy::kTwoPhase, hints::Strategy::kTwoLayer, hints::Strategy::kAutomatic};
  made.hints.strategy = kStrategies[below(random, 3)];
  made.traits.node_local = below(random, 2) == 0;
  made.traits.coherent_between_nodes = below(random, 2) == 0;
  made.traits.block_bytes = 1 + below(random, 100);
  made.hints.local_aggregators = static_cast<int>(below(random, 3));
  made.hints.collective_buffer_bytes = 1 + below(random, 600);
  made.hints.aggregators = static_cast<int>(below(random, made.ranks + 1));
  made.block = 1 + below(random, 12);
  constexpr const char* kProfiles[] = {"hdd", "ssd", "nvm", "tmpfs", "lustre"};
  const Offset profile = below(random, 8);
  made.hints.profile = profile < 5 ? kProfiles[profile] : turning[static_cast<std::size_t>(profile % 2)];
  if (profile >= 5) {
    made.hints.strategy = hints::Strategy::kAutomatic;
    made.hints.local_aggregators = made.hints.aggregators = 0;
    made.traits.node_local = false;
    made.ranks_per_node = static_cast<int>(1 + below(random, (made.ranks + 1) / 2));
  }
  made.hints_differ = below(random, 4) == 0;
  if (below(random, 5) == 0) {
    made.traits.stripe_bytes = 1 + below(random, 64);
    made.traits.stripe_count = made.traits.target_count = static_cast<int>(1 + below(random, 5));
  }
  made.slowest_us = below(random, 3) == 0 ? below(random, 2000) : 0;
  const Offset count = 4 + below(random, 14);
  for (Offset i = 0; i < count; ++i) {
    Step step;
    step.collective = below(random, 3) > 0;
    step.write = below(random, 2) == 0;
    step.background = below(random, 3) == 0;
    step.meets_before = below(random, 4) == 0;
    step.new_view = below(random, 6) == 0;
    step.atomic = below(random, 10) == 0 ? static_cast<int>(below(random, 2)) : -1;
    step.reopens = below(random, 12) == 0;
    step.other_hints = below(random, 12) == 0;
    step.failing = step.collective && below(random, 15) == 0 ? static_cast<int>(below(random, made.ranks)) : -1;
    step.times = below(random, 4) == 0 ? static_cast<int>(2 + below(random, 8)) : 1;
    step.alike = step.collective && below(random, 3) == 0;
    step.seed = random();
    made.steps.push_back(step);
  }
  return made;
}

/// One rank: every n-th block of the file is its own, and nobody else's.
class Rank {
 public:
  Rank(const Sequence& sequence, store::Store& store, comm::Comm& group) : sequence_(sequence), store_(store), group_(group), rank_(group.topology().rank) {}

  void run() {
    open();
    for (std::size_t i = 0; i < sequence_.steps.size() && !testing::Test::HasFatalFailure(); ++i) {
      SCOPED_TRACE("step " + std::to_string(i) + " rank " + std::to_string(rank_));
      carry_out(sequence_.steps[i]);
    }
    close();
  }

 private:
  void open() {
    file::Mode mode;
    mode.read = mode.write = mode.create = true;
    Random random(static_cast<std::uint64_t>(rank_));
    const hints::Hints hints = sequence_.hints_differ && rank_ > 0 ? with_others(sequence_.hints, random) : sequence_.hints;
    auto opened = file::File::open(std::move(*group_.duplicate()), store_, "file", mode, hints, nullptr, {});
    ASSERT_TRUE(opened.ok()) << opened.status().text();
    file_ = std::move(*opened);
    set_view();
  }

  void close() { ASSERT_TRUE(file_->close(trace_).ok()); }

  void set_view() {
    file::View view;
    const Offset block = sequence_.block;
    view.filetype = access::tile(*access::resized(0, block * sequence_.ranks, *access::elementary(block)), block * rank_);
    view.filetype_size = block;
    view.contiguous = sequence_.ranks == 1;
    ASSERT_TRUE(file_->set_view(view, 0, trace_, {}).ok());
  }

  [[nodiscard]] Offset offset_of(Offset position) const {
    return position / sequence_.block * sequence_.block * sequence_.ranks + sequence_.block * rank_ + position % sequence_.block;
  }

  void carry_out(const Step& step) {
    if (step.reopens) {
      close();
      open();
    }
    if (step.atomic >= 0) {
      ASSERT_TRUE(file_->set_atomicity(step.atomic == 1, trace_, {}).ok());
    }
    if (step.new_view) set_view();
    if (step.other_hints) {
      Random random(step.seed * 31 + static_cast<std::uint64_t>(rank_));
      ASSERT_TRUE(file_->set_hints(with_others(sequence_.hints, random), trace_, {}).ok());
    }
    Random random(step.seed + static_cast<std::uint64_t>(rank_));
    if (step.meets_before) {
      ASSERT_TRUE(group_.barrier().ok());
    }
    const int times = step.collective ? step.times : static_cast<int>(below(random, 4));
    for (int i = 0; i < times; ++i) {
      if (step.collective) random.seed(step.seed + static_cast<std::uint64_t>(rank_));
      one(random, step, step.collective ? step.write : below(random, 2) == 0);
    }
  }

  void one(Random& random, const Step& step, bool write) {
    const Offset most = below(random, 3) == 0 ? 400 : 60;
    Offset position = below(random, most), bytes = step.collective && below(random, 5) == 0 ? 0 : below(random, most);
    if (step.alike) {
      position = static_cast<Offset>(step.seed % 5) * sequence_.block;
      bytes = static_cast<Offset>(1 + step.seed / 5 % 30) * sequence_.block;
    }
    std::vector<std::byte> data(static_cast<std::size_t>(bytes) + 1);
    for (Offset i = 0; write && i < bytes; ++i) data[static_cast<std::size_t>(i)] = static_cast<std::byte>(1 + below(random, 255));
    file::Request request;
    request.write = write;
    request.collective = step.collective;
    request.offset_etypes = position;
    request.buffer = data.data();
    request.bytes = bytes;
    const Status local = step.failing == rank_ ? Status::failure(Code::kArgument, "for a test") : Status();
    file::Outcome outcome;
    if (step.background) {
      const auto pending = file_->start(request, local, file::File::Starting::kNeverWaits, {}, {});
      pending->wait();
      outcome = pending->outcome();
    } else {
      outcome = file_->access(request, trace_, local);
    }
    ASSERT_EQ(outcome.status.ok(), step.failing < 0) << outcome.status.text();
    if (write) {
      // What has arrived of a call that failed somewhere is not known.
      if (step.failing < 0) {
        ASSERT_EQ(outcome.bytes, bytes);
      }
      for (Offset i = 0; i < bytes; ++i) remember(position + i, step.failing < 0 ? data[static_cast<std::size_t>(i)] : std::byte{0}, step.failing < 0);
    } else if (step.failing < 0) {
      check_read(step, position, bytes, outcome.bytes, data);
    }
  }

  void remember(Offset position, std::byte value, bool known) {
    const auto at = static_cast<std::size_t>(position);
    if (at >= written_.size()) {
      written_.resize(at + 1);
      known_.resize(at + 1, true);
    }
    if (known) end_ = std::max(end_, position + 1);
    written_[at] = value;
    known_[at] = known;
  }

  void check_read(const Step& step, Offset position, Offset bytes, Offset moved, const std::vector<std::byte>& data) {
    ASSERT_GE(moved, std::clamp<Offset>(end_ - position, 0, bytes)) << "bytes at " << position << " of which this rank wrote up to " << end_;
    ASSERT_LE(moved, bytes);
    for (Offset i = 0; i < moved; ++i) {
      const auto at = static_cast<std::size_t>(position + i);
      if (at < known_.size() && !known_[at]) continue;
      ASSERT_EQ(data[static_cast<std::size_t>(i)], at < written_.size() ? written_[at] : std::byte{0}) << "data byte " << i << " at " << position;
    }
    if (!step.meets_before || !step.collective) return;
    const Result<Offset> size = file_->size();
    ASSERT_TRUE(size.ok());
    Offset there = 0;
    while (there < bytes && offset_of(position + there) < *size) ++there;
    ASSERT_LE(moved, there);
  }

  const Sequence& sequence_;
  store::Store& store_;
  comm::Comm& group_;
  int rank_;
  trace::OpTrace trace_{nullptr};
  std::unique_ptr<file::File> file_;
  std::vector<std::byte> written_;  ///< by data position
  std::vector<bool> known_;
  Offset end_ = 0;
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
  /// Now and then, so that medians change.
  void wait() {
    if (slowest_us_ == 0) return;
    const int turn = turns_.fetch_add(1);
    std::this_thread::sleep_for(std::chrono::microseconds(slowest_us_ * (turn * 7 % 10) / 10));
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

TEST(MixedCalls, EveryRankSeesWhatItWrote) {
  const TurningProfile turning, for_writing(1);
  const std::uint64_t count = cases(40);
  for (std::uint64_t seed = 1; seed <= count; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Sequence sequence = make_sequence(seed, {turning.path(), for_writing.path()});
    store::MemoryStore memory;
    OtherStore store(memory, sequence);
    comm::run_ranks(
        sequence.ranks, [&](comm::Comm& group) { Rank(sequence, store, group).run(); }, sequence.ranks_per_node);
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace penstock
