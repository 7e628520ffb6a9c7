// What is kept from run to run: written, read again, and nonsense in its place.
#include "file/learned.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "comm/local/local_comm.h"
#include "file/file.h"
#include "store/emulated/emulated_store.h"
#include "store/memory/memory_store.h"

namespace penstock::file {
namespace {

using plan::Experience;

Experience::Known known(bool write, std::int8_t bytes) {
  Experience::Known one{.signature = {write, false, bytes, 3, 4}};
  one.current = 1;
  one.ratios[1] = {1.5F, 0.25F, 2.0F};
  return one;
}

/// 8 bytes in every 64: what there are several ways for.
View strided_view() {
  View view;
  view.filetype = access::tile(*access::resized(0, 64, *access::elementary(8)), 0);
  view.filetype_size = 8;
  view.contiguous = false;
  view.ascending = view.in_order = view.writable = true;
  return view;
}

class LearnedFile : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = std::filesystem::temp_directory_path() / ("penstock-learned-" + std::to_string(getpid()));
    setenv("XDG_STATE_HOME", directory_.c_str(), 1);
    path_ = learned_path("ext4", "my profile/../x", 4, 2);
  }
  void TearDown() override {
    unsetenv("XDG_STATE_HOME");
    std::filesystem::remove_all(directory_);
  }
  std::filesystem::path directory_;
  std::string path_;
};

TEST_F(LearnedFile, NamesLeadNowhereElse) {
  EXPECT_EQ(std::filesystem::path(path_).parent_path(), directory_ / "penstock" / "learned");
  EXPECT_NE(path_, learned_path("ext4", "my profile/../x", 8, 2));
  setenv("XDG_STATE_HOME", "relative", 1);
  const std::string home = std::getenv("HOME") != nullptr ? std::getenv("HOME") : "";
  unsetenv("HOME");
  EXPECT_EQ(learned_path("ext4", "ssd", 4, 2), "");
  setenv("HOME", home.c_str(), 1);
}

TEST_F(LearnedFile, IsReadAsItWasWritten) {
  const std::array<Experience::Known, 2> own = {known(true, 20), known(false, 10)};
  const std::array<Experience::Known, 1> together = {known(true, 30)};
  ASSERT_TRUE(write_learned(path_, own, together));
  const Learned learned = read_learned(path_);
  ASSERT_EQ(learned.own_count, 2);
  ASSERT_EQ(learned.together_count, 1);
  EXPECT_EQ(learned.own[1].signature, own[1].signature);
  EXPECT_EQ(learned.own[0].ratios, own[0].ratios);
  EXPECT_EQ(learned.together[0].current, 1);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory_ / "penstock" / "learned"), {}), 1) << "nothing else is left behind";
}

TEST_F(LearnedFile, IsWholeWhenSeveralThreadsWriteItAtOnce) {
  constexpr int kThreads = 4, kTimes = 100;
  std::vector<Experience::Known> own;
  for (std::size_t i = 0; i < Experience::kKept; ++i) own.push_back(known(true, static_cast<std::int8_t>(i)));
  ASSERT_TRUE(write_learned(path_, own, own));
  std::vector<int> wrong(kThreads, 0);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread)
    threads.emplace_back([&, thread] {
      int& failed = wrong[static_cast<std::size_t>(thread)];
      for (int time = 0; time < kTimes; ++time) {
        if (!write_learned(path_, own, own)) ++failed;
        const Learned learned = read_learned(path_);
        if (learned.own_count != static_cast<int>(own.size()) || learned.together_count != static_cast<int>(own.size())) ++failed;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(kThreads, 0));
}

TEST_F(LearnedFile, NonsenseIsNothing) {
  EXPECT_EQ(read_learned(path_).own_count, 0);
  std::filesystem::create_directories(directory_ / "penstock" / "learned");
  const std::string good = " 1 0 20 3 4 1 0 0 0 1.5 0.25 2 0 0 0 0 0 0 0 0 0\n";
  const auto count = [&](const std::string& text) {
    std::ofstream(path_) << text;
    const Learned learned = read_learned(path_);
    return learned.own_count + learned.together_count;
  };
  EXPECT_EQ(count("penstock learned 1\nown" + good + "together" + good), 2);
  EXPECT_EQ(count("something else\nown" + good), 0);
  EXPECT_EQ(count("penstock learned 1\nnobody" + good + "own 1 0 20\nown 1 0 99 3 4 1 0\n\nown 1 0 20 3 4 77" + good), 0);
  std::string many = "penstock learned 1\n";
  for (int i = 0; i < 1000; ++i) many += "own" + good;
  EXPECT_EQ(count(many), static_cast<int>(Experience::kKept));
}

TEST_F(LearnedFile, AnOpenFileKeepsWhatItLearnedOnlyWhereItIsAskedTo) {
  for (const hints::Switch learn : {hints::Switch::kAutomatic, hints::Switch::kEnable}) {
    hints::Hints hints = hints::defaults();
    hints.learn = learn;
    store::MemoryStore store;
    comm::run_ranks(
        2,
        [&](comm::Comm& group) {
          file::Mode mode;
          mode.read = mode.write = mode.create = true;
          auto opened = File::open(std::move(*group.duplicate()), store, "file", mode, hints, nullptr, {});
          ASSERT_TRUE(opened.ok()) << opened.status().text();
          trace::OpTrace trace(nullptr);
          ASSERT_TRUE((*opened)->set_view(strided_view(), 0, trace, {}).ok());
          std::vector<std::byte> data(8000);
          Request request;
          request.write = true;
          request.buffer = data.data();
          request.bytes = 8000;
          EXPECT_TRUE((*opened)->access(request, trace).status.ok());
          request.write = false;  // there are several ways to read from any store
          EXPECT_TRUE((*opened)->access(request, trace).status.ok());
          EXPECT_TRUE((*opened)->close(trace).ok());
        },
        2);
    const Learned learned = read_learned(learned_path("memory", "tmpfs", 2, 1));
    EXPECT_EQ(learned.own_count > 0, learn == hints::Switch::kEnable);
  }
}

// Rank 0 has nothing to write and is soon done: what the call took is what it took the others.
TEST_F(LearnedFile, ACallTookWhatTheSlowestRankTook) {
  constexpr int kRanks = 12;
  constexpr Offset kPiece = 8, pieces = 1000, kApart = Offset{1} << 20;
  hints::Hints hints = hints::defaults();
  hints.learn = hints::Switch::kEnable;
  hints.profile = "tmpfs";
  store::MemoryStore inner;
  store::EmulatedStore store(inner, store::parse_device("latency=200,name=learned-test"));
  comm::run_ranks(
      kRanks,
      [&](comm::Comm& group) {
        const int rank = group.topology().rank;
        auto opened = File::open(std::move(*group.duplicate()), store, "file", {.read = true, .write = true, .create = true}, hints, nullptr, {});
        ASSERT_TRUE(opened.ok()) << opened.status().text();
        trace::OpTrace trace(nullptr);
        View view;
        view.filetype = access::tile(*access::resized(0, kApart, *access::contiguous(kPiece, *access::elementary(1))), rank * kPiece);
        view.filetype_size = kPiece;
        view.contiguous = false;
        view.ascending = view.in_order = view.writable = true;
        ASSERT_TRUE((*opened)->set_view(view, 0, trace, {}).ok());
        std::vector<std::byte> data(rank == 0 ? 0 : kPiece * pieces);
        Request request;
        request.write = request.collective = true;
        request.buffer = data.data();
        request.bytes = static_cast<Offset>(data.size());
        EXPECT_TRUE((*opened)->access(request, trace).status.ok());
        EXPECT_TRUE((*opened)->close(trace).ok());
      },
      kRanks);
  const Learned learned = read_learned(learned_path("emulated learned-test", "tmpfs", kRanks, 1));
  ASSERT_EQ(learned.together_count, 1);
  EXPECT_EQ(learned.together[0].current, static_cast<int>(model::Way::kIndependent)) << "else this tests nothing";
  EXPECT_GT(learned.together[0].ratios[static_cast<std::size_t>(model::Way::kIndependent)][0], 1) << "200 ms, and a few of them predicted";
}

TEST(Learned, AProcessRemembersTheLastOfLikeFiles) {
  const LikeFiles files{"of this test", 7, "ssd", 4, 2, 1};
  EXPECT_EQ(recall_from_process(files).own_count, 0);
  const std::array<Experience::Known, 2> own = {known(true, 20), known(false, 10)};
  const std::array<Experience::Known, 1> together = {known(true, 30)};
  keep_in_process(files, together, {});
  keep_in_process(files, own, together, 4);
  const Learned learned = recall_from_process(files);
  EXPECT_EQ(learned.local_per_node, 4);
  ASSERT_EQ(learned.own_count, 2);
  ASSERT_EQ(learned.together_count, 1);
  EXPECT_EQ(learned.own[1].signature, own[1].signature);
  EXPECT_EQ(learned.together[0].ratios, together[0].ratios);
  for (int other = 0; other < 6; ++other) {
    LikeFiles changed = files;
    if (other == 0) changed.file_system += "x";
    if (other == 1) ++changed.device;
    if (other == 2) changed.profile += "x";
    if (other == 3) ++changed.ranks;
    if (other == 4) ++changed.nodes;
    if (other == 5) ++changed.rank;
    EXPECT_EQ(recall_from_process(changed).own_count, 0) << other;
  }
  for (std::size_t device = 100; device < 100 + kLikeFilesKept; ++device) keep_in_process({"of this test", device, "ssd", 4, 2, 1}, own, {});
  EXPECT_EQ(recall_from_process(files).own_count, 0) << "it was the oldest";
}

TEST(Learned, TheNextFileGoesOnWhereTheLastOneEnded) {
  store::MemoryStore inner;
  store::EmulatedStore store(inner, store::parse_device("latency=200,name=next-file-test"));
  hints::Hints hints = hints::defaults();
  hints.profile = "tmpfs";
  for (const hints::Switch learn : {hints::Switch::kDisable, hints::Switch::kAutomatic, hints::Switch::kAutomatic}) {
    hints.learn = learn;
    comm::run_ranks(1, [&](comm::Comm& group) {
      auto opened = File::open(std::move(*group.duplicate()), store, "file", {.read = true, .write = true, .create = true}, hints, nullptr, {});
      ASSERT_TRUE(opened.ok()) << opened.status().text();
      trace::OpTrace trace(nullptr);
      ASSERT_TRUE((*opened)->set_view(strided_view(), 0, trace, {}).ok());
      std::vector<std::byte> data(80);
      Request request;
      request.buffer = data.data();
      request.bytes = 80;
      EXPECT_TRUE((*opened)->access(request, trace).status.ok());
      EXPECT_TRUE((*opened)->close(trace).ok());
    });
    const Learned learned = recall_from_process({"emulated next-file-test", 0, "tmpfs", 1, 1, 0});
    EXPECT_EQ(learned.own_count, learn == hints::Switch::kDisable ? 0 : 1);
  }
  // Both files' accesses are known: the second went on with the first one's.
  const Learned learned = recall_from_process({"emulated next-file-test", 0, "tmpfs", 1, 1, 0});
  int measured = 0;
  for (const auto& ratios : learned.own[0].ratios) measured += static_cast<int>(std::count_if(ratios.begin(), ratios.end(), [](float ratio) { return ratio > 0; }));
  EXPECT_EQ(measured, 2);
}

/// Of several nodes, and as slow as is said: what the model says of it is wrong.
class SharedFile final : public store::ForwardingFile {
 public:
  SharedFile(std::unique_ptr<store::File> inner, std::chrono::milliseconds write_time)
      : ForwardingFile(std::move(inner)), traits_(inner_->traits()), write_time_(write_time) {
    traits_.file_system = "of several nodes";
    traits_.node_local = traits_.can_map = traits_.maps_coherent = false;
    traits_.coherent_between_nodes = true;
  }
  [[nodiscard]] const store::Traits& traits() const override { return traits_; }
  Status write(std::span<store::Transfer> batch) override {
    std::this_thread::sleep_for(write_time_);
    return inner_->write(batch);
  }

 private:
  store::Traits traits_;
  std::chrono::milliseconds write_time_;
};

class SharedStore final : public store::Store {
 public:
  explicit SharedStore(store::Store& inner, std::chrono::milliseconds write_time = std::chrono::milliseconds(5)) : inner_(inner), write_time_(write_time) {}
  Result<std::unique_ptr<store::File>> open(const std::string& path, const store::OpenOptions& options) override {
    Result<std::unique_ptr<store::File>> file = inner_.open(path, options);
    if (!file.ok()) return file;
    return std::unique_ptr<store::File>(new SharedFile(std::move(*file), write_time_));
  }
  Status remove(const std::string& path) override { return inner_.remove(path); }

 private:
  store::Store& inner_;
  std::chrono::milliseconds write_time_;
};

/// Every rank's n-th call of a file: whether its data went by aggregators.  `late_rank` lets all the others wait before each.
std::vector<std::vector<bool>> gathered_calls(store::Store& store, hints::Hints hints, int calls, int ranks, int ranks_per_node, int late_rank = -1) {
  constexpr Offset kPiece = 8;
  // By the second one, few pieces taken alone are predicted to take some times longer than gathered: what was learned decides.
  const Offset pieces = late_rank < 0 ? 250 : 2;
  hints.profile = late_rank < 0 ? "tmpfs" : "lustre";
  std::vector<std::vector<bool>> gathered(static_cast<std::size_t>(ranks));
  comm::run_ranks(
      ranks,
      [&](comm::Comm& group) {
        const int rank = group.topology().rank;
        trace::FileTrace counted;
        auto opened = File::open(std::move(*group.duplicate()), store, "file", {.read = true, .write = true, .create = true}, hints, &counted, {});
        ASSERT_TRUE(opened.ok()) << opened.status().text();
        trace::OpTrace quiet(nullptr);
        View view;
        view.filetype = access::tile(*access::resized(0, kPiece * ranks, *access::contiguous(kPiece, *access::elementary(1))), rank * kPiece);
        view.filetype_size = kPiece;
        view.contiguous = false;
        view.ascending = view.in_order = view.writable = true;
        ASSERT_TRUE((*opened)->set_view(view, 0, quiet, {}).ok());
        std::vector<std::byte> data(kPiece * pieces);
        Request request;
        request.write = request.collective = true;
        request.buffer = data.data();
        request.bytes = kPiece * pieces;
        for (int call = 0; call < calls; ++call) {
          const std::int64_t before = counted.count(trace::Counter::kTwoLayer);
          if (rank == late_rank) std::this_thread::sleep_for(std::chrono::milliseconds(20));
          {
            trace::OpTrace trace(&counted);
            EXPECT_TRUE((*opened)->access(request, trace).status.ok());
          }
          gathered[static_cast<std::size_t>(rank)].push_back(counted.count(trace::Counter::kTwoLayer) > before);
        }
        EXPECT_TRUE((*opened)->close(quiet).ok());
      },
      ranks_per_node);
  return gathered;
}

hints::Hints hints_that_learn(hints::Switch learn) {
  hints::Hints hints = hints::defaults();
  hints.learn = learn;
  return hints;
}

// What gathering took is known to the local aggregators of all nodes alike, in this file and the next.
TEST(Learned, NodesLearnTogether) {
  store::MemoryStore inner;
  SharedStore store(inner);
  const std::vector<std::vector<bool>> never = gathered_calls(store, hints_that_learn(hints::Switch::kDisable), 5, 4, 2);
  EXPECT_EQ(never[0], std::vector<bool>(5, true)) << "as predicted";
  const std::vector<std::vector<bool>> first = gathered_calls(store, hints_that_learn(hints::Switch::kAutomatic), 5, 4, 2);
  const std::vector<std::vector<bool>> second = gathered_calls(store, hints_that_learn(hints::Switch::kAutomatic), 3, 4, 2);
  // It is found out at the second call, or at the third where the first one had memory to make, which is not learned.  Then what each rank takes for itself is
  // found out too, and that is no better.
  EXPECT_EQ(std::count(first[0].begin(), first[0].begin() + 3, false), 1);
  EXPECT_TRUE(first[0].front());
  EXPECT_TRUE(first[0].back());
  EXPECT_EQ(second[0], std::vector<bool>(3, true)) << "all of that is known";
  for (std::size_t rank = 0; rank < first.size(); ++rank) {
    EXPECT_EQ(first[rank], first[0]) << rank;
    EXPECT_EQ(second[rank], second[0]) << rank;
  }
}

// The others' times have their waiting in them; if each local aggregator learned its own, they would come to decide otherwise than the late one.
TEST(Learned, AllGoByTheTimeOfTheRankThatCameLast) {
  for (int late_rank = 0; late_rank < 4; ++late_rank) {
    store::MemoryStore inner;
    SharedStore store(inner, std::chrono::milliseconds(0));
    const std::vector<std::vector<bool>> calls = gathered_calls(store, hints_that_learn(hints::Switch::kAutomatic), 4, 4, 2, late_rank);
    for (std::size_t rank = 0; rank < calls.size(); ++rank) EXPECT_EQ(calls[rank], calls[0]) << "rank " << rank << ", late " << late_rank;
  }
}

// So many aggregators have as many local ones, which decide alike in the next file as well.
TEST(Learned, SeveralLocalAggregatorsOfOneNodeGoByTheSame) {
  store::MemoryStore inner;
  SharedStore store(inner);
  hints::Hints hints = hints_that_learn(hints::Switch::kAutomatic);
  hints.aggregators = 2;
  constexpr int kRanks = 12;  // that many are asked on any machine
  const std::vector<std::vector<bool>> first = gathered_calls(store, hints, 5, kRanks, kRanks);
  const std::vector<std::vector<bool>> second = gathered_calls(store, hints, 5, kRanks, kRanks);
  EXPECT_TRUE(first[0].front());
  EXPECT_NE(first[0], std::vector<bool>(5, true)) << "that takes longer than predicted: each rank for itself may take less";
  for (std::size_t rank = 0; rank < first.size(); ++rank) {
    EXPECT_EQ(first[rank], first[0]) << rank;
    EXPECT_EQ(second[rank], second[0]) << rank;
  }
}

TEST(Learned, WhatCannotBeWrittenIsSaid) { EXPECT_FALSE(write_learned("/proc/no/such/place", {}, {})); }

}  // namespace
}  // namespace penstock::file
