// Collective accesses at the edges of what views allow: copies that share a byte, empty filetypes, offsets beyond the largest, descriptions that grow
// when they are joined.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <numeric>
#include <thread>

#include "comm/local/local_comm.h"
#include "file/file.h"
#include "store/memory/memory_store.h"

namespace penstock {
namespace {

using Bytes = std::vector<std::byte>;

struct Part {
  file::View view;
  Offset position = 0;
  Offset bytes = 0;
};

struct Outcomes {
  std::vector<Offset> moved;
  std::vector<Code> codes;
  std::vector<std::string> texts;
  std::vector<Bytes> memory;
};

file::View view_of(const access::Type& type, Offset displacement = 0) {
  file::View view;
  view.filetype = access::tile(type, displacement);
  view.filetype_size = type.size();
  view.contiguous = access::is_contiguous(view.filetype);
  const auto first_copy = access::copy_alone(view.filetype, 0);
  EXPECT_TRUE(first_copy.ok());
  view.contiguous_start = type.size() > 0 ? access::offset_of(view.filetype, 0) : 0;
  view.in_order = access::is_monotone(*first_copy);
  view.ascending = access::is_monotone(view.filetype);
  view.writable = view.contiguous || (view.in_order && !access::overlaps_itself(*first_copy));
  return view;
}

Outcomes carry_out(store::Store& store, const std::vector<Part>& parts, int ranks_per_node, hints::Strategy strategy, Offset buffer_bytes, bool write,
                   Offset file_bytes, trace::FileTrace* counts = nullptr) {
  hints::Hints hints = hints::defaults();
  hints.strategy = strategy;
  hints.collective_buffer_bytes = buffer_bytes;
  const auto ranks = parts.size();
  Outcomes result{std::vector<Offset>(ranks), std::vector<Code>(ranks), std::vector<std::string>(ranks), std::vector<Bytes>(ranks)};
  comm::run_ranks(
      static_cast<int>(ranks),
      [&](comm::Comm& group) {
        const auto r = static_cast<std::size_t>(group.topology().rank);
        trace::OpTrace trace(r == 0 ? counts : nullptr);
        file::Mode mode;
        mode.read = mode.write = mode.create = true;
        auto opened = file::File::open(std::move(*group.duplicate()), store, "file", mode, hints, r == 0 ? counts : nullptr, {});
        ASSERT_TRUE(opened.ok()) << opened.status().text();
        file::File& file = **opened;
        if (r == 0 && file_bytes > 0) {
          Bytes before(static_cast<std::size_t>(file_bytes));
          for (std::size_t i = 0; i < before.size(); ++i) before[i] = static_cast<std::byte>(i * 7 + i / 251);
          file::Request fill;
          fill.write = true;
          fill.buffer = before.data();
          fill.bytes = file_bytes;
          EXPECT_TRUE(file.access(fill, trace).status.ok());
        }
        ASSERT_TRUE(file.set_view(parts[r].view, 0, trace, {}).ok());
        Bytes memory(static_cast<std::size_t>(parts[r].bytes), static_cast<std::byte>(r + 1));
        file::Request request;
        request.write = write;
        request.collective = true;
        request.offset_etypes = parts[r].position;
        request.buffer = memory.data();
        request.bytes = parts[r].bytes;
        const file::Outcome outcome = file.access(request, trace);
        result.moved[r] = outcome.bytes;
        result.codes[r] = outcome.status.code();
        result.texts[r] = std::string(outcome.status.text());
        result.memory[r] = memory;
        (void)file.close(trace);
      },
      ranks_per_node);
  return result;
}

void expect_same(const std::vector<Part>& parts, int ranks_per_node, bool write, Offset file_bytes, Offset buffer_bytes) {
  for (const hints::Strategy strategy : {hints::Strategy::kTwoPhase, hints::Strategy::kTwoLayer}) {
    store::MemoryStore ours, theirs;
    const Outcomes mine = carry_out(ours, parts, ranks_per_node, strategy, buffer_bytes, write, file_bytes);
    const Outcomes other = carry_out(theirs, parts, ranks_per_node, hints::Strategy::kIndependent, buffer_bytes, write, file_bytes);
    for (std::size_t r = 0; r < parts.size(); ++r) {
      EXPECT_EQ(mine.codes[r], other.codes[r]) << "rank " << r << ": " << mine.texts[r] << " / " << other.texts[r];
      EXPECT_EQ(mine.moved[r], other.moved[r]) << "rank " << r;
      EXPECT_TRUE(mine.memory[r] == other.memory[r]) << "rank " << r;
    }
  }
}

access::Type bytes(Offset count) { return *access::contiguous(count, *access::elementary(1)); }

TEST(TwoPhaseEdges, CopiesThatShareABytePerCopyAreRead) {
  const access::Type type = *access::resized(0, 1, bytes(2));  // offsets 0 1, 1 2, 2 3, ...
  std::vector<Part> parts(2);
  for (Part& part : parts) part = {view_of(type), 0, 16000};
  expect_same(parts, 1, false, 100000, 4096);
}

TEST(TwoPhaseEdges, CopiesThatShareABytePerCopyAreWritten) {
  const access::Type type = *access::resized(0, 1, bytes(2));
  std::vector<Part> parts(2);
  for (Part& part : parts) part = {view_of(type), 0, 16000};
  parts[1].bytes = 0;
  expect_same(parts, 1, true, 0, 4096);
}

TEST(TwoPhaseEdges, ARankWithAnEmptyFiletypeTakesPartInReading) {
  std::vector<Part> parts(2);
  parts[0] = {view_of(bytes(4)), 0, 16};
  parts[1] = {view_of(bytes(0)), 0, 0};
  expect_same(parts, 1, false, 1000, 4096);
}

TEST(TwoPhaseEdges, AFiletypeWithoutExtentIsRead) {
  std::vector<Part> parts(2);
  parts[0] = {view_of(bytes(4)), 0, 16};
  parts[1] = {view_of(*access::resized(0, 0, bytes(4))), 0, 16};
  expect_same(parts, 1, false, 1000, 4096);
}

TEST(TwoPhaseEdges, OffsetsBeyondTheLargestAreAFailure) {
  std::vector<Part> parts(2);
  parts[0] = {view_of(bytes(4)), 0, 16};
  parts[1] = {view_of(*access::resized(0, Offset{1} << 62, bytes(4))), 8, 16};
  for (const bool write : {false, true})
    for (const hints::Strategy strategy : {hints::Strategy::kTwoPhase, hints::Strategy::kIndependent}) {
      store::MemoryStore store;
      const Outcomes outcomes = carry_out(store, parts, 1, strategy, 4096, write, 1000);
      EXPECT_EQ(outcomes.codes[1], Code::kArgument) << outcomes.texts[1];
      EXPECT_NE(outcomes.codes[0], Code::kOk);
    }
}

TEST(TwoPhaseEdges, ReadingUpToTheLargestOffsetFindsTheEndOfTheFile) {
  std::vector<Part> parts(2);
  parts[0] = {view_of(bytes(4)), 0, 16};
  parts[1] = {view_of(bytes(4), INT64_MAX - 16), 0, 16};
  for (const int ranks_per_node : {1, 2}) expect_same(parts, ranks_per_node, false, 1000, 4096);
}

/// Tells when somebody asks for the size of a file.
class WatchedFile final : public store::ForwardingFile {
 public:
  WatchedFile(std::unique_ptr<store::File> inner, std::atomic<int>& asked) : ForwardingFile(std::move(inner)), asked_(asked) {}
  penstock::Result<Offset> size() override {
    const auto size = ForwardingFile::size();
    ++asked_;
    return size;
  }

 private:
  std::atomic<int>& asked_;
};

class WatchedStore final : public store::Store {
 public:
  explicit WatchedStore(store::Store& inner) : inner_(inner) {}
  penstock::Result<std::unique_ptr<store::File>> open(const std::string& path, const store::OpenOptions& options) override {
    auto opened = inner_.open(path, options);
    if (!opened.ok()) return opened;
    return std::unique_ptr<store::File>(std::make_unique<WatchedFile>(std::move(*opened), asked));
  }
  Status remove(const std::string& path) override { return inner_.remove(path); }

  std::atomic<int> asked{0};

 private:
  store::Store& inner_;
};

TEST(TwoPhaseEdges, ARankReadsBackWhatItWroteAfterOthersWereInTheCall) {
  for (const int ranks_per_node : {1, 2, 4}) {
    store::MemoryStore memory_store;
    WatchedStore store(memory_store);
    comm::run_ranks(
        4,
        [&](comm::Comm& group) {
          const int rank = group.topology().rank;
          trace::OpTrace trace(nullptr);
          file::Mode mode;
          mode.read = mode.write = mode.create = true;
          hints::Hints hints = hints::defaults();
          hints.strategy = hints::Strategy::kTwoLayer;
          auto opened = file::File::open(std::move(*group.duplicate()), store, "file", mode, hints, nullptr, {});
          ASSERT_TRUE(opened.ok()) << opened.status().text();
          // The second and third calls go by the plan of the first.
          for (Offset displacement = 0; displacement < 3000; displacement += 1000) {
            ASSERT_TRUE((*opened)->set_view(view_of(bytes(8), displacement), 0, trace, {}).ok());
            const int before = store.asked.load();
            ASSERT_TRUE(group.barrier().ok());
            Bytes mine(8, static_cast<std::byte>(rank + displacement / 1000)), back(8);
            file::Request request;
            request.offset_etypes = 8 * rank;
            request.bytes = 8;
            if (rank == 3) {
              // Until rank 0 has asked; not for ever, since it may also wait for this rank first.
              const auto limit = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
              while (ranks_per_node == 1 && store.asked.load() == before && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
              request.write = true;
              request.buffer = mine.data();
              ASSERT_TRUE((*opened)->access(request, trace).status.ok());
            }
            request.write = false;
            request.collective = true;
            request.buffer = back.data();
            const file::Outcome outcome = (*opened)->access(request, trace);
            EXPECT_TRUE(outcome.status.ok()) << outcome.status.text();
            if (rank == 3) {
              EXPECT_EQ(outcome.bytes, 8);
              EXPECT_EQ(back, mine);
            }
            ASSERT_TRUE(group.barrier().ok());
          }
          (void)(*opened)->close(trace);
        },
        ranks_per_node);
  }
}

/// Says that it is longer than it is: beyond its end there are zeros.
class LongFile final : public store::ForwardingFile {
 public:
  LongFile(std::unique_ptr<store::File> inner, const std::atomic<Offset>& size_bytes) : ForwardingFile(std::move(inner)), size_bytes_(size_bytes) {}
  penstock::Result<Offset> size() override { return size_bytes_.load(); }

 private:
  const std::atomic<Offset>& size_bytes_;
};

class LongStore final : public store::Store {
 public:
  explicit LongStore(store::Store& inner) : inner_(inner) {}
  penstock::Result<std::unique_ptr<store::File>> open(const std::string& path, const store::OpenOptions& options) override {
    auto opened = inner_.open(path, options);
    if (!opened.ok()) return opened;
    return std::unique_ptr<store::File>(std::make_unique<LongFile>(std::move(*opened), size_bytes));
  }
  Status remove(const std::string& path) override { return inner_.remove(path); }

  std::atomic<Offset> size_bytes{0};

 private:
  store::Store& inner_;
};

// The surroundings of the last part end where all offsets do, and so does what is told whole.
TEST(TwoPhaseEdges, AFileUpToTheLargestOffsetThatIsCutIsReadByTheSamePlan) {
  constexpr int kBlocks = 300;
  constexpr Offset kApart = 100, kFirst = INT64_MAX - kBlocks * kApart;
  std::vector<Offset> offsets, lengths;
  std::uint64_t state = 1;
  for (int i = 0; i < kBlocks; ++i) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    offsets.push_back(i * kApart + static_cast<Offset>(state >> 59));
    lengths.push_back(1 + static_cast<Offset>(state >> 54 & 31));
  }
  const access::Type type = *access::resized(0, kBlocks * kApart, *access::hindexed(lengths, offsets, *access::elementary(1)));
  store::MemoryStore memory_store;
  LongStore store(memory_store);
  hints::Hints hints = hints::defaults();
  hints.strategy = hints::Strategy::kTwoPhase;
  hints.collective_buffer_bytes = 4096;
  hints.aggregators = 2;
  trace::FileTrace counts;
  comm::run_ranks(
      2,
      [&](comm::Comm& group) {
        const int rank = group.topology().rank;
        trace::FileTrace* const counted = rank == 0 ? &counts : nullptr;
        auto opened = file::File::open(std::move(*group.duplicate()), store, "file", {.read = true, .write = true, .create = true}, hints, counted, {});
        ASSERT_TRUE(opened.ok()) << opened.status().text();
        trace::OpTrace trace(counted);
        ASSERT_TRUE((*opened)->set_view(view_of(type, kFirst), 0, trace, {}).ok());
        for (const int blocks : {kBlocks, 120, 3, 200}) {
          if (rank == 0) store.size_bytes = kFirst + blocks * kApart;
          ASSERT_TRUE(group.barrier().ok());
          Bytes memory(static_cast<std::size_t>(type.size()));
          file::Request request;
          request.collective = true;
          request.buffer = memory.data();
          request.bytes = type.size();
          const file::Outcome outcome = (*opened)->access(request, trace);
          EXPECT_TRUE(outcome.status.ok()) << outcome.status.text();
          EXPECT_EQ(outcome.bytes, std::accumulate(lengths.begin(), lengths.begin() + blocks, Offset{0}));
          ASSERT_TRUE(group.barrier().ok());
        }
        EXPECT_TRUE((*opened)->close(trace).ok());
      },
      1);
  EXPECT_EQ(counts.count(trace::Counter::kPlansReused), 3);
}

// A file may become shorter behind the back of a call that has been told its size: what is not there any more is not what was in that memory before.
TEST(TwoPhaseEdges, WhatIsNotThereAnyMoreIsReadAsZeros) {
  constexpr int kRanks = 4;
  constexpr Offset kPiece = 50, kPieces = 60, kLeft = 100;
  for (const hints::Strategy strategy : {hints::Strategy::kTwoPhase, hints::Strategy::kTwoLayer}) {
    store::MemoryStore memory_store;
    LongStore store(memory_store);
    comm::run_ranks(
        kRanks,
        [&](comm::Comm& group) {
          const int rank = group.topology().rank;
          hints::Hints hints = hints::defaults();
          hints.strategy = strategy;
          auto opened = file::File::open(std::move(*group.duplicate()), store, "file", {.read = true, .write = true, .create = true}, hints, nullptr, {});
          ASSERT_TRUE(opened.ok()) << opened.status().text();
          trace::OpTrace trace(nullptr);
          ASSERT_TRUE((*opened)->set_view(view_of(*access::resized(0, kPiece * kRanks, bytes(kPiece)), kPiece * rank), 0, trace, {}).ok());
          Bytes memory(static_cast<std::size_t>(kPiece * kPieces), std::byte{7});
          file::Request request;
          request.write = request.collective = true;
          request.buffer = memory.data();
          request.bytes = kPiece * kPieces;
          EXPECT_EQ((*opened)->access(request, trace).bytes, request.bytes);
          if (rank == 0) {
            EXPECT_TRUE((*memory_store.open("file", {}))->resize(kLeft).ok());
            store.size_bytes = kRanks * kPiece * kPieces;
          }
          ASSERT_TRUE(group.barrier().ok());
          request.write = false;
          const file::Outcome outcome = (*opened)->access(request, trace);
          EXPECT_TRUE(outcome.status.ok()) << outcome.status.text();
          EXPECT_EQ(outcome.bytes, request.bytes);
          Bytes wanted(memory.size());
          if (rank * kPiece < kLeft) std::fill_n(wanted.begin(), kPiece, std::byte{7});
          EXPECT_TRUE(memory == wanted);
          EXPECT_TRUE((*opened)->close(trace).ok());
        },
        2);
  }
}

TEST(TwoPhaseEdges, AJoinedDescriptionMayBeLongerThanItsParts) {
  std::vector<Offset> offsets, lengths;
  Offset at = 0;
  std::uint64_t state = 1;
  for (int i = 0; i < 2000; ++i) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    offsets.push_back(at);
    lengths.push_back(1 + static_cast<Offset>(state >> 60));
    at += lengths.back() + 1 + static_cast<Offset>(state >> 40 & 15);
  }
  const access::Type type = *access::resized(0, at, *access::hindexed(lengths, offsets, *access::elementary(1)));
  std::vector<Part> parts(2);
  const Offset first_length = lengths.front(), last_length = lengths.back();
  parts[0] = {view_of(type), first_length, 6 * type.size() - first_length - last_length};
  // In a gap of rank 0's last copy, behind the last block but two: both become one, written with its two cut copies and the loop between them.
  const Offset in_gap = 5 * at + offsets[1997] + lengths[1997];
  parts[1] = {view_of(bytes(1), in_gap), 0, 1};
  for (const bool write : {false, true}) expect_same(parts, 2, write, 400000, 1 << 20);
}

// All ranks read what a program starts from: a node is sent it once, and has memory for it once.
TEST(TwoPhaseEdges, WhatAllMembersOfATeamReadIsSentToThemOnce) {
  constexpr int kRanks = 8, kPerNode = 4;
  constexpr Offset kPiece = 64, kPieces = 1000;
  for (const Offset apart : {kPiece, 3 * kPiece})
    for (const bool from_kept_plan : {false, true}) {
      store::MemoryStore store;
      std::atomic<std::int64_t> sent{0};
      comm::run_ranks(
          kRanks,
          [&](comm::Comm& group) {
            hints::Hints hints = hints::defaults();
            hints.strategy = hints::Strategy::kTwoLayer;
            hints.aggregators = 2;
            hints.collective_buffer_bytes = 8192;
            auto opened = file::File::open(std::move(*group.duplicate()), store, "file", {.read = true, .write = true, .create = true}, hints, nullptr, {});
            ASSERT_TRUE(opened.ok()) << opened.status().text();
            file::File& file = **opened;
            trace::OpTrace quiet(nullptr);
            Bytes all(static_cast<std::size_t>(apart * kPieces));
            for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::byte>(i * 7 + i / 251);
            file::Request request;
            request.write = request.collective = true;
            request.buffer = all.data();
            request.bytes = group.topology().rank == 0 ? static_cast<Offset>(all.size()) : 0;
            EXPECT_TRUE(file.access(request, quiet).status.ok());
            ASSERT_TRUE(file.set_view(view_of(*access::resized(0, apart, bytes(kPiece))), 0, quiet, {}).ok());
            for (int call = 0; call < (from_kept_plan ? 2 : 1); ++call) {
              trace::FileTrace counts;
              Bytes memory(static_cast<std::size_t>(kPiece * kPieces));
              request.write = false;
              request.buffer = memory.data();
              request.bytes = static_cast<Offset>(memory.size());
              {
                trace::OpTrace trace(&counts);
                const file::Outcome outcome = file.access(request, trace);
                EXPECT_TRUE(outcome.status.ok()) << outcome.status.text();
                EXPECT_EQ(outcome.bytes, request.bytes);
              }
              for (Offset i = 0; i < request.bytes; ++i)
                ASSERT_EQ(memory[static_cast<std::size_t>(i)], all[static_cast<std::size_t>(i / kPiece * apart + i % kPiece)]) << i;
              EXPECT_EQ(counts.count(trace::Counter::kTwoLayer), 1);
              if (call == (from_kept_plan ? 1 : 0)) sent += counts.count(trace::Counter::kMessageBytes);
            }
            EXPECT_TRUE(file.close(quiet).ok());
          },
          kPerNode);
      EXPECT_EQ(sent.load(), kPiece * kPieces) << "each of two nodes has read half of it for both";
    }
}

std::int64_t gathered(const trace::FileTrace& counts) { return counts.count(trace::Counter::kTwoLayer); }

TEST(TwoPhaseEdges, ManyRanksOfANodeGatherSmallPieces) {
  constexpr int kRanks = 12;
  constexpr Offset kPiece = 64, kBytes = Offset{1} << 20;
  for (const Offset apart : {kPiece * kRanks, kPiece * kRanks * 8}) {
    std::vector<Part> parts(kRanks);
    for (int r = 0; r < kRanks; ++r) parts[static_cast<std::size_t>(r)] = {view_of(*access::resized(0, apart, bytes(kPiece)), r * kPiece), 0, kBytes};
    store::MemoryStore store;
    trace::FileTrace written, read;
    const Outcomes out = carry_out(store, parts, kRanks, hints::Strategy::kAutomatic, 1 << 20, true, 0, &written);
    const Outcomes back = carry_out(store, parts, kRanks, hints::Strategy::kIndependent, 1 << 20, false, 0);
    const Outcomes again = carry_out(store, parts, kRanks, hints::Strategy::kAutomatic, 1 << 20, false, 0, &read);
    for (std::size_t r = 0; r < kRanks; ++r) {
      EXPECT_EQ(out.moved[r], kBytes) << out.texts[r];
      EXPECT_TRUE(back.memory[r] == Bytes(static_cast<std::size_t>(kBytes), static_cast<std::byte>(r + 1)) && back.memory[r] == again.memory[r]) << "rank " << r;
    }
    // What is best where much lies between the pieces is the model's affair; the bytes are right either way.
    if (apart > kPiece * kRanks) continue;
    EXPECT_EQ(gathered(written), 1);
    EXPECT_EQ(gathered(read), 1);
  }
}

// A rank that decided by the size of its own team, or by its own hints, would wait for others that decided otherwise.
TEST(TwoPhaseEdges, TeamsOfUnlikeSizesDecideAlike) {
  constexpr int kRanks = 13, kLocal = 12;
  for (const Offset piece : {Offset{16}, Offset{64}, Offset{256}, Offset{1024}})
    for (const Offset apart : {Offset{1}, Offset{2}, Offset{4}, Offset{8}})
      for (const Offset size : {Offset{4} << 10, Offset{64} << 10}) {
        store::MemoryStore store;
        comm::run_ranks(
            kRanks,
            [&](comm::Comm& group) {
              const int rank = group.topology().rank;
              hints::Hints hints = hints::defaults();
              hints.local_aggregators = rank == 0 ? kLocal : 1;  // that of rank 0 holds
              hints.learn = hints::Switch::kDisable;
              auto opened = file::File::open(std::move(*group.duplicate()), store, "file", {.read = true, .write = true, .create = true}, hints, nullptr, {});
              ASSERT_TRUE(opened.ok()) << opened.status().text();
              trace::OpTrace trace(nullptr);
              ASSERT_TRUE((*opened)->set_view(view_of(*access::resized(0, piece * kRanks * apart, bytes(piece)), rank * piece), 0, trace, {}).ok());
              Bytes memory(static_cast<std::size_t>(size), static_cast<std::byte>(rank + 1));
              file::Request request;
              request.write = request.collective = true;
              request.buffer = memory.data();
              request.bytes = size;
              const file::Outcome outcome = (*opened)->access(request, trace);
              EXPECT_TRUE(outcome.status.ok()) << outcome.status.text();
              EXPECT_EQ(outcome.bytes, size);
              EXPECT_TRUE((*opened)->close(trace).ok());
            },
            kRanks);
      }
}

// What did not pay when it was read may pay when it is written: several teams strike out a plan that they did not agree to carry out.
TEST(TwoPhaseEdges, WhatWasReadAloneIsWrittenTogetherBySeveralTeams) {
  constexpr int kRanks = 12;
  constexpr Offset kPiece = 64, kBytes = Offset{1} << 20, kApart = kPiece * kRanks * 8;
  store::MemoryStore store;
  hints::Hints hints = hints::defaults();
  hints.local_aggregators = 2;
  trace::FileTrace counts;
  comm::run_ranks(
      kRanks,
      [&](comm::Comm& group) {
        const int rank = group.topology().rank;
        auto opened = file::File::open(std::move(*group.duplicate()), store, "file", {.read = true, .write = true, .create = true}, hints,
                                       rank == 0 ? &counts : nullptr, {});
        ASSERT_TRUE(opened.ok()) << opened.status().text();
        trace::OpTrace trace(rank == 0 ? &counts : nullptr);
        ASSERT_TRUE((*opened)->set_view(view_of(*access::resized(0, kApart, bytes(kPiece)), rank * kPiece), 0, trace, {}).ok());
        for (const bool write : {false, false, true}) {  // after the first one, the second one does not ask
          Bytes memory(static_cast<std::size_t>(kBytes), static_cast<std::byte>(rank + 1));
          file::Request request;
          request.write = write;
          request.collective = true;
          request.buffer = memory.data();
          request.bytes = kBytes;
          const file::Outcome outcome = (*opened)->access(request, trace);
          EXPECT_TRUE(outcome.status.ok()) << outcome.status.text();
          if (rank == 0) {
            EXPECT_EQ(gathered(counts), write ? 1 : 0);
          }
        }
        EXPECT_TRUE((*opened)->close(trace).ok());
      },
      kRanks);
}

TEST(TwoPhaseEdges, SmallCallsOnANodeStopAsking) {
  constexpr int kRanks = 12, kCalls = 200;
  store::MemoryStore store;
  hints::Hints hints = hints::defaults();
  hints.learn = hints::Switch::kDisable;  // else one of them may be gathered to see what that takes
  trace::FileTrace counts;
  comm::run_ranks(
      kRanks,
      [&](comm::Comm& group) {
        const int rank = group.topology().rank;
        auto opened = file::File::open(std::move(*group.duplicate()), store, "file", {.read = true, .write = true, .create = true}, hints,
                                       rank == 0 ? &counts : nullptr, {});
        ASSERT_TRUE(opened.ok()) << opened.status().text();
        trace::OpTrace trace(rank == 0 ? &counts : nullptr);
        for (int call = 0; call < kCalls; ++call) {
          auto byte = static_cast<std::byte>(rank + call);
          file::Request request;
          request.write = request.collective = true;
          request.offset_etypes = call * kRanks + rank;
          request.buffer = &byte;
          request.bytes = 1;
          // One rank's arguments are wrong now and then: the others must not come out of step.
          const Status local = call % 50 == 3 && rank == 5 ? Status::failure(Code::kArgument, "wrong") : Status();
          EXPECT_EQ((*opened)->access(request, trace, local).status.ok(), call % 50 != 3);
        }
        EXPECT_TRUE((*opened)->close(trace).ok());
      },
      kRanks);
  // After each time that it did not pay twice as many calls do not ask, and a failure begins anew.  Those that ask make a plan, or go by one.
  EXPECT_EQ(counts.count(trace::Counter::kTwoLayer), 0);
  const std::int64_t asked = counts.count(trace::Counter::kRequests) / kRanks +
                             counts.count(trace::Counter::kPlansReused);
  EXPECT_GT(asked, 5);
  EXPECT_LT(asked, kCalls / 4);
}

}  // namespace
}  // namespace penstock
