// Files of a file system whose nodes do not see each other's writes until they are told to: which calls tell them, and that every rank sees its own writes.
#include <gtest/gtest.h>

#include <atomic>

#include "comm/local/local_comm.h"
#include "file/file.h"
#include "store/memory/memory_store.h"

namespace penstock {
namespace {

constexpr Offset kStripe = 100;

/// As a node sees a file: its size is remembered until the node writes or synchronizes, and nothing behind it is there to read.
class RememberedFile final : public store::ForwardingFile {
 public:
  RememberedFile(std::unique_ptr<store::File> inner, std::atomic<int>& syncs)
      : ForwardingFile(std::move(inner)), traits_(inner_->traits()), size_(*inner_->size()), syncs_(syncs) {
    traits_.stripe_bytes = kStripe;
    traits_.stripe_count = traits_.target_count = 2;
    traits_.node_local = traits_.coherent_between_nodes = traits_.can_map = traits_.maps_coherent = false;
  }
  [[nodiscard]] const store::Traits& traits() const override { return traits_; }
  Result<Offset> size() override { return size_; }
  Status read(std::span<store::Transfer> batch) override {
    const Status status = inner_->read(batch);
    for (store::Transfer& transfer : batch)
      transfer.done = std::min(transfer.done, static_cast<std::size_t>(std::max<Offset>(size_ - transfer.offset, 0)));
    return status;
  }
  Status write(std::span<store::Transfer> batch) override {
    for (const store::Transfer& transfer : batch) size_ = std::max(size_, transfer.offset + static_cast<Offset>(transfer.length));
    return inner_->write(batch);
  }
  Status resize(Offset size_bytes) override {
    size_ = size_bytes;
    return inner_->resize(size_bytes);
  }
  Status sync() override {
    ++syncs_;
    size_ = *inner_->size();
    return inner_->sync();
  }

 private:
  store::Traits traits_;
  Offset size_;
  std::atomic<int>& syncs_;
};

class RememberingStore final : public store::Store {
 public:
  explicit RememberingStore(store::Store& inner) : inner_(inner) {}
  Result<std::unique_ptr<store::File>> open(const std::string& path, const store::OpenOptions& options) override {
    Result<std::unique_ptr<store::File>> file = inner_.open(path, options);
    if (!file.ok()) return file;
    return std::unique_ptr<store::File>(new RememberedFile(std::move(*file), syncs));
  }
  Status remove(const std::string& path) override { return inner_.remove(path); }

  std::atomic<int> syncs{0};

 private:
  store::Store& inner_;
};

std::unique_ptr<file::File> open_on(comm::Comm& group, store::Store& store) {
  file::Mode mode;
  mode.read = mode.write = mode.create = true;
  hints::Hints hints = hints::defaults();
  hints.strategy = hints::Strategy::kTwoPhase;
  hints.aggregators = 2;
  auto opened = file::File::open(std::move(*group.duplicate()), store, "file", mode, hints, nullptr, {});
  EXPECT_TRUE(opened.ok()) << opened.status().text();
  return opened.ok() ? std::move(*opened) : nullptr;
}

Offset moved(file::File& file, bool write, bool collective, Offset offset, std::span<std::byte> data) {
  trace::OpTrace trace(nullptr);
  file::Request request;
  request.write = write;
  request.collective = collective;
  request.offset_etypes = offset;
  request.buffer = data.data();
  request.bytes = static_cast<Offset>(data.size());
  const file::Outcome outcome = file.access(request, trace);
  EXPECT_TRUE(outcome.status.ok()) << outcome.status.text();
  return outcome.bytes;
}

TEST(IncoherentFile, RanksOfOneNodeNeedNobodyToBeTold) {
  store::MemoryStore memory;
  comm::run_ranks(
      2,
      [&](comm::Comm& group) {
        RememberingStore store(memory);
        auto file = open_on(group, store);
        std::vector<std::byte> data(100);
        const Offset place = 100 * group.topology().rank;
        for (int i = 0; i < 2; ++i) EXPECT_EQ(moved(*file, true, true, place, data), 100);
        EXPECT_EQ(store.syncs.load(), 0);
        trace::OpTrace trace(nullptr);
        EXPECT_TRUE(file->close(trace).ok());
      },
      2);
}

TEST(IncoherentFile, ARankReadsAgainAndAgainWhatItWroteByItself) {
  store::MemoryStore memory;
  comm::run_ranks(
      2,
      [&](comm::Comm& group) {
        RememberingStore store(memory);
        auto file = open_on(group, store);
        std::vector<std::byte> data(100, std::byte{7}), back(100);
        if (group.topology().rank == 1) {
          EXPECT_EQ(moved(*file, true, false, kStripe, data), 100);
        }
        // The other node was not told how long the file is now, and has nothing to read for anybody.
        for (int i = 0; i < 3; ++i) {
          const Offset seen = moved(*file, false, true, kStripe, back);
          if (group.topology().rank == 1) {
            EXPECT_EQ(seen, 100) << "time " << i;
            EXPECT_EQ(back, data);
          }
        }
        trace::OpTrace trace(nullptr);
        EXPECT_TRUE(file->set_size(kStripe + 40, trace, {}).ok());
        EXPECT_EQ(moved(*file, false, true, kStripe, back), 40) << "what the other node remembers is more";
        EXPECT_TRUE(file->sync(trace, {}).ok());
        EXPECT_EQ(moved(*file, false, true, kStripe, back), 40);
        EXPECT_TRUE(file->close(trace).ok());
      },
      1);
}

TEST(IncoherentFile, InAtomicModeEveryNodeSeesWhatWasWritten) {
  // MPI 4.1 section 14.6.1: without a call of sync.
  store::MemoryStore memory;
  comm::run_ranks(
      2,
      [&](comm::Comm& group) {
        RememberingStore store(memory);
        auto file = open_on(group, store);
        trace::OpTrace trace(nullptr);
        EXPECT_TRUE(file->set_atomicity(true, trace, {}).ok());
        const int rank = group.topology().rank;
        for (const bool collective : {false, true})
          for (Offset turn = 0; turn < 4; ++turn) {
            const Offset place = 50 * (turn + (collective ? 4 : 0));
            std::vector<std::byte> data(50, static_cast<std::byte>(10 + place)), back(50);
            if (collective || turn % 2 == rank) {
              const Offset mine = turn % 2 == rank ? 50 : 0;
              EXPECT_EQ(moved(*file, true, collective, place, std::span(data).first(static_cast<std::size_t>(mine))), mine);
            }
            EXPECT_TRUE(group.barrier().ok());
            EXPECT_EQ(moved(*file, false, collective, place, back), 50) << "at " << place;
            EXPECT_EQ(back, data);
            EXPECT_TRUE(group.barrier().ok());
          }
        EXPECT_TRUE(file->close(trace).ok());
      },
      1);
}

}  // namespace
}  // namespace penstock
