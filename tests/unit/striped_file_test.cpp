// Collective writes to a file that is striped: which rank writes to which target, seen from the store.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <mutex>
#include <set>

#include "comm/local/local_comm.h"
#include "file/file.h"
#include "store/memory/memory_store.h"

namespace penstock {
namespace {

constexpr Offset kStripe = 64 << 10;

/// Who wrote to which stripe of a turn.
struct Writers {
  std::mutex mutex;
  std::map<Offset, std::set<int>> of_stripe;
};

class StripedFile final : public store::ForwardingFile {
 public:
  StripedFile(std::unique_ptr<store::File> inner, int stripes, int rank, Writers& writers)
      : ForwardingFile(std::move(inner)), traits_(inner_->traits()), rank_(rank), writers_(writers) {
    traits_.stripe_bytes = kStripe;
    traits_.stripe_count = traits_.target_count = stripes;
  }
  [[nodiscard]] const store::Traits& traits() const override { return traits_; }
  Status write(std::span<store::Transfer> batch) override {
    const std::lock_guard lock(writers_.mutex);
    for (const store::Transfer& transfer : batch)
      for (Offset at = transfer.offset; at < transfer.offset + static_cast<Offset>(transfer.length); at = (at / kStripe + 1) * kStripe)
        writers_.of_stripe[at / kStripe % traits_.stripe_count].insert(rank_);
    return inner_->write(batch);
  }

 private:
  store::Traits traits_;
  int rank_;
  Writers& writers_;
};

/// The same files for all ranks; one of these for each.
class StripedStore final : public store::Store {
 public:
  StripedStore(store::Store& inner, int stripes, int rank, Writers& writers) : inner_(inner), stripes_(stripes), rank_(rank), writers_(writers) {}
  Result<std::unique_ptr<store::File>> open(const std::string& path, const store::OpenOptions& options) override {
    Result<std::unique_ptr<store::File>> file = inner_.open(path, options);
    if (!file.ok()) return file;
    return std::unique_ptr<store::File>(new StripedFile(std::move(*file), stripes_, rank_, writers_));
  }
  Status remove(const std::string& path) override { return inner_.remove(path); }

 private:
  store::Store& inner_;
  int stripes_;
  int rank_;
  Writers& writers_;
};

struct Seen {
  std::vector<int> aggregators;
  std::map<Offset, std::set<int>> writers_of_stripe;
};

/// All ranks write interleaved pieces that together cover ten turns and a bit.
Seen write_interleaved(int ranks, int ranks_per_node, int stripes, hints::Strategy strategy, Offset buffer_bytes, int wanted_aggregators) {
  constexpr Offset kPiece = 1000;
  store::MemoryStore memory;
  Writers writers;
  Seen seen;
  hints::Hints hints = hints::defaults();
  hints.strategy = strategy;
  hints.collective_buffer_bytes = buffer_bytes;
  hints.aggregators = wanted_aggregators;
  const Offset pieces = (kStripe * stripes * 10 + kStripe / 3) / kPiece / ranks;
  comm::run_ranks(
      ranks,
      [&](comm::Comm& group) {
        const int rank = group.topology().rank;
        StripedStore store(memory, stripes, rank, writers);
        trace::FileTrace counters;
        {
          trace::OpTrace trace(&counters);
          file::Mode mode;
          mode.read = mode.write = mode.create = true;
          auto opened = file::File::open(std::move(*group.duplicate()), store, "file", mode, hints, nullptr, {});
          ASSERT_TRUE(opened.ok()) << opened.status().text();
          file::File& file = **opened;
          if (rank == 0) seen.aggregators = file.aggregators();
          file::View view;
          const Result<access::Type> type = access::hvector(pieces, 1, kPiece * ranks, *access::elementary(kPiece));
          ASSERT_TRUE(type.ok());
          view.filetype = access::tile(*type, kPiece * rank);
          view.filetype_size = type->size();
          view.contiguous = false;
          ASSERT_TRUE(file.set_view(view, 0, trace, {}).ok());
          std::vector<std::byte> data(static_cast<std::size_t>(kPiece * pieces), static_cast<std::byte>(rank + 1));
          file::Request request;
          request.write = request.collective = true;
          request.buffer = data.data();
          request.bytes = kPiece * pieces;
          EXPECT_EQ(file.access(request, trace).bytes, request.bytes);
          EXPECT_TRUE(file.close(trace).ok());
        }
      },
      ranks_per_node);
  seen.writers_of_stripe = writers.of_stripe;
  // What the storage has in the end is what every rank wrote.
  auto file = memory.open("file", {});
  std::vector<std::byte> whole(static_cast<std::size_t>(kPiece * pieces * ranks));
  store::Transfer all{0, whole.data(), whole.size()};
  EXPECT_TRUE((*file)->read({&all, 1}).ok());
  for (std::size_t i = 0; i < whole.size(); ++i)
    if (whole[i] != static_cast<std::byte>(i / kPiece % static_cast<std::size_t>(ranks) + 1)) {
      ADD_FAILURE() << "byte " << i;
      break;
    }
  return seen;
}

TEST(StripedFile, EachTargetHasOneWriter) {
  const std::vector<std::pair<int, int>> machines = {{4, 0}, {4, 2}, {6, 3}, {8, 2}, {5, 1}};
  for (const auto& [ranks, ranks_per_node] : machines)
    for (const int stripes : {1, 2, 3, 4, 8})
      for (const hints::Strategy strategy : {hints::Strategy::kTwoPhase, hints::Strategy::kTwoLayer})
        for (const Offset buffer : {kStripe, 16 * kStripe}) {
          const Seen seen = write_interleaved(ranks, ranks_per_node, stripes, strategy, buffer, 0);
          ASSERT_EQ(seen.writers_of_stripe.size(), static_cast<std::size_t>(stripes));
          if (stripes % static_cast<int>(seen.aggregators.size()) != 0) continue;
          std::set<int> all;
          for (const auto& [stripe, ranks_of_it] : seen.writers_of_stripe) {
            ASSERT_EQ(ranks_of_it.size(), 1U) << ranks << ' ' << ranks_per_node << ' ' << stripes << " stripe " << stripe;
            all.insert(ranks_of_it.begin(), ranks_of_it.end());
          }
          ASSERT_EQ(all, std::set<int>(seen.aggregators.begin(), seen.aggregators.end())) << "no aggregator is idle";
        }
}

TEST(StripedFile, AsManyAggregatorsAsWereAskedFor) {
  const Seen seen = write_interleaved(6, 3, 4, hints::Strategy::kTwoPhase, 16 * kStripe, 6);
  EXPECT_EQ(seen.aggregators.size(), 6U);
  const Seen two = write_interleaved(6, 3, 4, hints::Strategy::kTwoPhase, 16 * kStripe, 2);
  EXPECT_EQ(two.aggregators.size(), 2U);
  for (const auto& [stripe, ranks] : two.writers_of_stripe) EXPECT_EQ(ranks.size(), 1U) << stripe;
}

}  // namespace
}  // namespace penstock
