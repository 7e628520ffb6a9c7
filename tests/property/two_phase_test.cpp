// Collective access by aggregators against the same access made by every rank for itself: random interleaved views, memory, numbers of ranks,
// nodes, aggregators and window sizes; and what is left when the store fails.
#include <gtest/gtest.h>

#include <cstdlib>
#include <mutex>
#include <random>

#include "access/wire.h"
#include "comm/local/local_comm.h"
#include "file/file.h"
#include "store/fault/fault_store.h"
#include "store/memory/memory_store.h"
#include "support/races.h"

namespace penstock {
namespace {

using Random = std::mt19937_64;

Offset below(Random& random, Offset limit) { return static_cast<Offset>(random() % static_cast<std::uint64_t>(limit)); }

std::uint64_t cases(std::uint64_t usual) {
  const char* given = std::getenv("PENSTOCK_RANDOM_CASES");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : usual;
}

/// A tile of a file of which every rank owns some blocks, and nobody the rest.
struct Tile {
  Offset bytes = 0;
  std::vector<access::Type> of_rank;
};

Tile regular_tile(Random& random, int ranks) {
  Tile tile;
  const Offset length = 1 + below(random, 24), gap = below(random, 3) * below(random, 9), count = 1 + below(random, 6);
  const access::Type byte = *access::elementary(1);
  const Offset stride = ranks * length + gap;
  tile.bytes = count * stride + below(random, 20);
  for (int rank = 0; rank < ranks; ++rank) {
    const access::Type blocks = *access::hvector(count, length, stride, byte);
    const Offset one = 1, at = rank * length;
    const access::Type moved = *access::hindexed({&one, 1}, {&at, 1}, blocks);
    tile.of_rank.push_back(*access::resized(0, tile.bytes, moved));
  }
  return tile;
}

Tile irregular_tile(Random& random, int ranks) {
  std::vector<std::vector<Offset>> offsets(static_cast<std::size_t>(ranks)), lengths(static_cast<std::size_t>(ranks));
  Tile tile;
  const Offset blocks = 1 + below(random, 30);
  for (Offset block = 0; block < blocks; ++block) {
    const Offset length = 1 + below(random, 40);
    const auto owner = static_cast<std::size_t>(below(random, ranks + 1));
    if (owner < offsets.size()) {
      offsets[owner].push_back(tile.bytes);
      lengths[owner].push_back(length);
    }
    tile.bytes += length;
  }
  const access::Type byte = *access::elementary(1);
  for (std::size_t rank = 0; rank < offsets.size(); ++rank)
    tile.of_rank.push_back(*access::resized(0, tile.bytes, *access::hindexed(lengths[rank], offsets[rank], byte)));
  return tile;
}

/// One rank's part of one collective call.
struct Part {
  file::View view;
  Offset position = 0;
  Offset bytes = 0;
  access::Tiling memory = access::bytes_at(0);
  bool contiguous = true;
  Offset memory_span = 0;
};

struct Case {
  int ranks = 1;
  int ranks_per_node = 1;
  hints::Hints hints;
  std::vector<Part> parts;
  std::uint64_t seed = 0;
  // Of the store: they say which file domains there are.
  Offset block_bytes = 1;
  Offset stripe_bytes = 0;
  int stripe_count = 1;
};

Case make_case(std::uint64_t seed) {
  Random random(seed);
  Case made;
  made.seed = seed;
  made.ranks = static_cast<int>(1 + below(random, 6));
  made.ranks_per_node = static_cast<int>(1 + below(random, made.ranks));
  made.hints = hints::defaults();
  constexpr hints::Strategy kStrategies[] = {hints::Strategy::kTwoPhase, hints::Strategy::kTwoLayer, hints::Strategy::kAutomatic};
  made.hints.strategy = kStrategies[below(random, 3)];
  made.hints.local_aggregators = static_cast<int>(below(random, 4));
  made.hints.collective_buffer_bytes = 1 + below(random, below(random, 2) == 0 ? 64 : 1000);
  made.hints.aggregators = static_cast<int>(below(random, made.ranks + 2));
  made.block_bytes = 1 + below(random, below(random, 2) == 0 ? 8 : 300);
  if (below(random, 3) == 0) {
    made.stripe_bytes = 1 + below(random, 200);
    made.stripe_count = static_cast<int>(1 + below(random, 5));
  }
  const Tile tile = below(random, 2) == 0 ? regular_tile(random, made.ranks) : irregular_tile(random, made.ranks);
  const Offset displacement = below(random, 300);
  for (const access::Type& type : tile.of_rank) {
    Part part;
    part.view.filetype = access::tile(type, displacement);
    part.view.filetype_size = type.size();
    part.view.contiguous = false;
    if (type.size() > 0 && below(random, 5) > 0) {
      part.position = below(random, 3 * type.size());
      part.bytes = below(random, 6 * type.size());
    }
    part.memory_span = part.bytes;
    if (below(random, 2) == 0) {
      const access::Type memory = *access::resized(0, 9, *access::hvector(2, 3, 5, *access::elementary(1)));  // 3 bytes, 2 of none, 3, 1 of none
      part.memory = access::tile(memory);
      part.contiguous = false;
      part.memory_span = 9 * (part.bytes / 6 + 1);
    }
    made.parts.push_back(part);
  }
  return made;
}

using Bytes = std::vector<std::byte>;

Bytes random_bytes(Offset size, std::uint64_t seed) {
  Random random(seed);
  Bytes bytes(static_cast<std::size_t>(size));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

file::Mode read_write() {
  file::Mode mode;
  mode.read = mode.write = mode.create = true;
  return mode;
}

/// What a case came to: the file, and per rank what was returned and what was read.
struct Outcomes {
  Bytes file;
  std::vector<Offset> moved;
  std::vector<Code> codes;
  std::vector<Bytes> memory;
};

enum class Form { kBlocking, kBackground };

/// A store that nodes reach over a network, each through a cache of its own: there Penstock aggregates by itself, and writes back and forgets.
class NetworkFile final : public store::ForwardingFile {
 public:
  NetworkFile(std::unique_ptr<store::File> inner, const Case& which) : ForwardingFile(std::move(inner)), traits_(inner_->traits()) {
    traits_.node_local = traits_.coherent_between_nodes = false;
    traits_.block_bytes = which.block_bytes;
    traits_.stripe_bytes = which.stripe_bytes;
    traits_.stripe_count = which.stripe_count;
  }
  [[nodiscard]] const store::Traits& traits() const override { return traits_; }

 private:
  store::Traits traits_;
};

class NetworkStore final : public store::Store {
 public:
  NetworkStore(store::Store& inner, const Case& which) : inner_(inner), which_(which) {}
  penstock::Result<std::unique_ptr<store::File>> open(const std::string& path, const store::OpenOptions& options) override {
    auto opened = inner_.open(path, options);
    if (!opened.ok()) return opened;
    return std::unique_ptr<store::File>(std::make_unique<NetworkFile>(std::move(*opened), which_));
  }
  Status remove(const std::string& path) override { return inner_.remove(path); }

 private:
  store::Store& inner_;
  const Case& which_;
};

Outcomes carry_out(const Case& which, store::Store& store, bool write, const Bytes& before, Form form) {
  const auto ranks = static_cast<std::size_t>(which.ranks);
  Outcomes result{{}, std::vector<Offset>(ranks), std::vector<Code>(ranks), std::vector<Bytes>(ranks)};
  comm::run_ranks(
      which.ranks,
      [&](comm::Comm& group) {
        const int rank = group.topology().rank;
        const auto r = static_cast<std::size_t>(rank);
        const Part& part = which.parts[r];
        trace::OpTrace trace(nullptr);
        auto opened = file::File::open(std::move(*group.duplicate()), store, "file", read_write(), which.hints, nullptr, {});
        ASSERT_TRUE(opened.ok()) << opened.status().text();
        file::File& file = **opened;
        Bytes memory = random_bytes(part.memory_span, which.seed * 64 + r);
        if (rank == 0 && !before.empty()) {
          file::Request fill;
          fill.write = true;
          fill.buffer = const_cast<std::byte*>(before.data());
          fill.bytes = static_cast<Offset>(before.size());
          EXPECT_TRUE(file.access(fill, trace).status.ok());
        }
        ASSERT_TRUE(file.set_view(part.view, 0, trace, {}).ok());
        file::Request request;
        request.write = write;
        request.collective = true;
        request.offset_etypes = part.position;
        request.memory = part.memory;
        request.memory_contiguous = part.contiguous;
        request.buffer = memory.data();
        request.bytes = part.bytes;
        file::Outcome outcome;
        if (form == Form::kBlocking) {
          outcome = file.access(request, trace);
        } else {
          const auto pending = file.start(request, {}, {}, {}, {});
          pending->wait();
          outcome = pending->outcome();
        }
        result.moved[r] = outcome.bytes;
        result.codes[r] = outcome.status.code();
        result.memory[r] = memory;
        (void)file.close(trace);
      },
      which.ranks_per_node);
  return result;
}

Bytes contents(store::Store& store) {
  auto opened = store.open("file", {});
  if (!opened.ok()) return {};
  Bytes bytes(static_cast<std::size_t>(*(*opened)->size()));
  store::Transfer transfer{0, bytes.data(), bytes.size(), 0};
  EXPECT_TRUE((*opened)->read(std::span(&transfer, 1)).ok());
  return bytes;
}

Case by_itself(Case which) {
  which.hints.strategy = hints::Strategy::kIndependent;
  return which;
}

TEST(TwoPhase, DoesWhatEveryRankForItselfDoes) {
  const std::uint64_t count = cases(400);
  for (std::uint64_t seed = 1; seed <= count; ++seed) {
    const Case which = make_case(seed);
    Random random(seed + 77);
    const Bytes before = random_bytes(below(random, 1500), seed);
    const Form form = below(random, 3) == 0 ? Form::kBackground : Form::kBlocking;
    for (const bool write : {true, false}) {
      store::MemoryStore ours, theirs;
      NetworkStore network(ours, which);
      const Outcomes mine = carry_out(which, network, write, before, form);
      const Outcomes other = carry_out(by_itself(which), theirs, write, before, form);
      ASSERT_EQ(mine.moved, other.moved) << "seed " << seed << (write ? " write" : " read");
      ASSERT_EQ(mine.memory, other.memory) << "seed " << seed << (write ? " write" : " read");
      for (const Code code : mine.codes) ASSERT_EQ(code, Code::kOk) << "seed " << seed;
      ASSERT_EQ(contents(ours), contents(theirs)) << "seed " << seed << (write ? " write" : " read");
    }
  }
}

TEST(TwoPhase, RanksMayAccessTheSameBytes) {
  // All access all: an aggregator gets, or gives, many times what its memory for messages holds.
  for (const int ranks_per_node : {1, 2, 3, 6})
    for (const int local_aggregators : {1, 2})
      for (const bool write : {true, false}) {
        if (write && kRacesAreTold) continue;
        Case which;
        which.ranks = 6;
        which.ranks_per_node = ranks_per_node;
        which.hints = hints::defaults();
        which.hints.strategy = local_aggregators == 1 ? hints::Strategy::kTwoLayer : hints::Strategy::kTwoPhase;
        which.hints.local_aggregators = local_aggregators;
        which.hints.aggregators = 3;
        which.hints.collective_buffer_bytes = 64;
        const access::Type pair = *access::resized(0, 5, *access::hvector(2, 1, 2, *access::elementary(1)));
        Part part;
        part.view.filetype = access::tile(pair, 3);
        part.view.filetype_size = pair.size();
        part.view.contiguous = false;
        part.bytes = part.memory_span = 300;
        which.parts.assign(6, part);
        store::MemoryStore ours, theirs;
        const Bytes before = random_bytes(1000, 5);
        const Outcomes mine = carry_out(which, ours, write, before, Form::kBlocking);
        EXPECT_EQ(mine.moved, std::vector<Offset>(6, 300));
        if (!write) {
          EXPECT_EQ(mine.memory, carry_out(by_itself(which), theirs, write, before, Form::kBlocking).memory);
          continue;
        }
        // Of every byte that was written some rank's value counts; the others are as they were.
        const Bytes after = contents(ours);
        ASSERT_EQ(after.size(), before.size());
        Offset written = 0;
        for (Offset offset = 0; offset < 1000; ++offset) {
          const Offset position = access::position_of(part.view.filetype, offset);
          const auto at = static_cast<std::size_t>(offset);
          if (position >= 300 || access::offset_of(part.view.filetype, position) != offset) {
            EXPECT_EQ(after[at], before[at]) << offset;
            continue;
          }
          ++written;
          const auto p = static_cast<std::size_t>(position);
          EXPECT_TRUE(std::any_of(mine.memory.begin(), mine.memory.end(), [&](const Bytes& memory) { return memory[p] == after[at]; })) << offset;
        }
        EXPECT_EQ(written, 300);
      }
}

TEST(TwoPhase, AFailureOfTheStoreIsEverybodys) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Case which = make_case(seed);
    Offset data = 0;
    for (const Part& part : which.parts) data += part.bytes;
    if (data == 0) continue;
    const Bytes before(5000, std::byte{1});
    for (const bool write : {true, false})
      for (int nth = 1; nth <= 3; ++nth) {
        store::MemoryStore memory;
        { carry_out(by_itself(which), memory, true, before, Form::kBlocking); }
        const auto rules = store::parse_fault_rules((write ? "write:" : "read:") + std::to_string(nth) + "+:EIO");
        ASSERT_TRUE(rules.ok()) << rules.status().text();
        store::FaultStore fault(memory, std::make_shared<store::FaultPlan>(*rules));
        const Outcomes result = carry_out(which, fault, write, {}, Form::kBlocking);
        for (const Code code : result.codes) ASSERT_EQ(code, result.codes[0]) << "seed " << seed << ": all ranks return the same verdict";
        if (nth == 1) {
          ASSERT_EQ(result.codes[0], Code::kIo) << "seed " << seed << (write ? " write" : " read");
        }
      }
  }
}

/// A group whose threads of ours do not get at MPI, nor, where its ranks share no memory, agree; passes everything on but that.
class MainThreadOnly final : public comm::Comm {
 public:
  explicit MainThreadOnly(std::unique_ptr<comm::Comm> inner, bool shares_memory = true) : inner_(std::move(inner)), shares_memory_(shares_memory) {}
  [[nodiscard]] const comm::Topology& topology() const override { return inner_->topology(); }
  Status barrier() override { return inner_->barrier(); }
  Status broadcast(void* bytes, std::size_t size_bytes, int root) override { return inner_->broadcast(bytes, size_bytes, root); }
  Status all_gather(const void* mine, std::size_t size_bytes, void* all) override { return inner_->all_gather(mine, size_bytes, all); }
  Status gather(const void* mine, std::size_t size_bytes, void* all, int root) override { return inner_->gather(mine, size_bytes, all, root); }
  std::unique_ptr<comm::Exchange> exchange() override { return inner_->exchange(); }
  Status exclusive_sum(Offset mine, Offset& before, Offset& total) override { return inner_->exclusive_sum(mine, before, total); }
  comm::Verdict agree(const comm::Verdict& mine) override { return inner_->agree(mine); }
  [[nodiscard]] bool may_agree_in_background() const override { return shares_memory_; }
  [[nodiscard]] bool may_exchange_in_background() const override { return false; }
  [[nodiscard]] bool may_lock_in_background() const override { return shares_memory_; }
  [[nodiscard]] bool calls_may_overlap() const override { return false; }
  Offset fetch_add(int word, Offset delta) override { return inner_->fetch_add(word, delta); }
  Offset load(int word) override { return inner_->load(word); }
  void store(int word, Offset value) override { inner_->store(word, value); }
  void lock(bool exclusive) override { inner_->lock(exclusive); }
  void unlock(bool exclusive) override { inner_->unlock(exclusive); }
  penstock::Result<std::unique_ptr<comm::Team>> team(int first, int count) override { return inner_->team(first, count); }
  penstock::Result<std::unique_ptr<comm::Comm>> duplicate() override { return inner_->duplicate(); }

 private:
  std::unique_ptr<comm::Comm> inner_;
  bool shares_memory_;
};

TEST(TwoPhase, WhereThreadsOfOursSendNothingACallThatMayWaitStillAggregates) {
  for (const auto starting : {file::File::Starting::kNeverWaits, file::File::Starting::kMayWait}) {
    store::MemoryStore store;
    hints::Hints hints = hints::defaults();
    hints.strategy = hints::Strategy::kTwoPhase;
    trace::FileTrace counts;
    comm::run_ranks(3, [&](comm::Comm& group) {
      const int rank = group.topology().rank;
      std::unique_ptr<comm::Comm> own = std::make_unique<MainThreadOnly>(std::move(*group.duplicate()));
      trace::OpTrace trace(nullptr);
      auto opened = file::File::open(std::move(own), store, "file", read_write(), hints, rank == 0 ? &counts : nullptr, {});
      ASSERT_TRUE(opened.ok()) << opened.status().text();
      auto byte = static_cast<std::byte>(rank + 1);
      file::Request request;
      request.write = request.collective = true;
      request.offset_etypes = rank;
      request.buffer = &byte;
      request.bytes = 1;
      const auto pending = (*opened)->start(request, {}, starting, {}, {});
      (*opened)->wait(*pending);
      EXPECT_TRUE(pending->outcome().status.ok()) << pending->outcome().status.text();
      EXPECT_EQ(pending->outcome().bytes, 1);
      EXPECT_TRUE((*opened)->close(trace).ok());
    });
    EXPECT_EQ(contents(store), (Bytes{std::byte{1}, std::byte{2}, std::byte{3}}));
    EXPECT_EQ(counts.count(trace::Counter::kTwoPhase), starting == file::File::Starting::kMayWait ? 1 : 0);
  }
}

TEST(TwoPhase, AFailureThatOnlyItsRankHearsOfLeavesAllInStep) {
  // Small calls on a node soon do not ask any more whether to gather; a rank that began anew alone would ask the others in vain.
  constexpr int kRanks = 12;
  store::MemoryStore store;
  hints::Hints hints = hints::defaults();
  hints.learn = hints::Switch::kDisable;
  comm::run_ranks(kRanks, [&](comm::Comm& group) {
    const int rank = group.topology().rank;
    std::unique_ptr<comm::Comm> own = std::make_unique<MainThreadOnly>(std::move(*group.duplicate()), false);
    auto opened = file::File::open(std::move(own), store, "file", read_write(), hints, nullptr, {});
    ASSERT_TRUE(opened.ok()) << opened.status().text();
    trace::OpTrace trace(nullptr);
    auto byte = static_cast<std::byte>(rank + 1);
    file::Request request;
    request.write = request.collective = true;
    request.offset_etypes = rank;
    request.buffer = &byte;
    request.bytes = 1;
    for (int call = 0; call < 20; ++call) {
      if (call % 5 != 4) {
        EXPECT_TRUE((*opened)->access(request, trace).status.ok());
        continue;
      }
      const bool fails = rank == 5;
      const auto pending = (*opened)->start(request, fails ? Status::failure(Code::kArgument, "wrong") : Status(),
                                            file::File::Starting::kNeverWaits, {}, {});
      (*opened)->wait(*pending);
      EXPECT_EQ(pending->outcome().status.ok(), !fails);
    }
    EXPECT_TRUE((*opened)->close(trace).ok());
  });
}

TEST(Wire, ComesBackAsItWas) {
  for (std::uint64_t seed = 1; seed <= cases(400); ++seed) {
    const Case which = make_case(seed);
    for (const Part& part : which.parts) {
      if (part.view.filetype_size == 0) continue;
      Bytes bytes;
      access::pack(part.view.filetype, bytes);
      const auto back = access::unpack(bytes);
      ASSERT_TRUE(back.ok()) << back.status().text();
      for (Offset position = 0; position < 3 * part.view.filetype_size; ++position)
        ASSERT_EQ(access::offset_of(*back, position), access::offset_of(part.view.filetype, position)) << "seed " << seed;
      for (std::size_t length = 0; length < bytes.size(); ++length) ASSERT_FALSE(access::unpack(std::span(bytes).first(length)).ok()) << "cut at " << length;
      bytes.push_back(std::byte{0});
      ASSERT_FALSE(access::unpack(bytes).ok()) << "bytes behind the end";
    }
  }
}

TEST(Wire, AnythingButACrash) {
  Random random(5);
  for (int i = 0; i < 20000; ++i) {
    Bytes bytes(static_cast<std::size_t>(below(random, 40)));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(below(random, 4) == 0 ? random() : random() % 6);
    (void)access::unpack(bytes);
  }
}

}  // namespace
}  // namespace penstock
