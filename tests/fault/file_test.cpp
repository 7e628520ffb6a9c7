// Collective calls when one rank's store fails: every rank returns, with the same verdict, whichever store call it is that fails.
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <mutex>
#include <vector>

#include "comm/local/local_comm.h"
#include "file/file.h"
#include "store/fault/fault_store.h"
#include "store/memory/memory_store.h"

namespace penstock {
namespace {

constexpr int kRanks = 3;
constexpr Offset kPieces = 40;
constexpr Offset kPieceBytes = 8;
constexpr const char* kSteps[] = {"open", "set_view", "write_all", "sync", "read_all", "set_size", "iwrite_all", "close"};
constexpr std::size_t kStepCount = std::size(kSteps);

/// Codes of every step on every rank; a step that was not reached stays kOk on all ranks alike.
using Codes = std::array<std::array<Code, kStepCount>, kRanks>;

file::View interleaved(int rank) {
  const access::Type piece = *access::elementary(kPieceBytes);
  const access::Type spaced = *access::resized(0, kPieceBytes * kRanks, piece);
  file::View view;
  view.filetype = access::tile(spaced, rank * kPieceBytes);
  view.filetype_size = kPieceBytes;
  view.etype_size = kPieceBytes;
  view.contiguous = false;
  return view;
}

std::vector<std::byte> pattern(int rank) {
  std::vector<std::byte> bytes(kPieces * kPieceBytes);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(1 + rank * 80 + i % 79);
  return bytes;
}

/// One rank's life with the file; `faulty` has its store fail.
void live(comm::Comm& group, store::Store& store, const hints::Hints& hints, std::array<Code, kStepCount>& codes) {
  trace::OpTrace trace(nullptr);
  const int rank = group.topology().rank;
  std::size_t step = 0;
  auto record = [&](const Status& status) {
    codes[step++] = status.code();
    return status.ok();
  };
  auto duplicated = group.duplicate();
  ASSERT_TRUE(duplicated.ok());
  file::Mode mode;
  mode.read = mode.write = mode.create = true;
  auto opened = file::File::open(std::move(*duplicated), store, "file", mode, hints, nullptr, {});
  if (!record(opened.status())) return;
  file::File& file = **opened;
  record(file.set_view(interleaved(rank), 1, trace, {}));

  std::vector<std::byte> data = pattern(rank);
  file::Request request;
  request.write = true;
  request.collective = true;
  request.buffer = data.data();
  request.bytes = static_cast<Offset>(data.size());
  const bool wrote = record(file.access(request, trace).status);
  record(file.sync(trace, {}));

  std::vector<std::byte> back(data.size());
  request.write = false;
  request.buffer = back.data();
  const file::Outcome read = file.access(request, trace);
  if (record(read.status) && wrote) {
    EXPECT_EQ(read.bytes, request.bytes);
    EXPECT_EQ(back, data);
  }
  record(file.set_size(kRanks * kPieces * kPieceBytes, trace, {}));
  request.write = true;
  request.buffer = data.data();
  auto pending = file.start(request, {}, {}, {}, {});
  pending->wait();
  record(pending->outcome().status);
  record(file.close(trace));
}

class CollectiveFault : public ::testing::TestWithParam<std::tuple<hints::Strategy, bool>> {};

TEST_P(CollectiveFault, EveryStoreCallInTurn) {
  const auto [strategy, can_map] = GetParam();
  hints::Hints hints = hints::defaults();
  hints.strategy = strategy;
  hints.learn = hints::Switch::kDisable;  // so that the n-th call is the same one in every run
  int number = 1;
  for (;; ++number) {
    ASSERT_LT(number, 200) << "the fault never stops firing";
    store::MemoryStore memory({.can_map = can_map});
    auto plan = std::make_shared<store::FaultPlan>(
        std::vector<store::FaultRule>{{.call = store::Call::kAny, .number = number, .error = number % 2 == 0 ? ENOSPC : EIO}});
    store::FaultStore faulty(memory, plan);
    Codes codes{};
    // Only rank 1 meets the fault; ranks 0 and 2 must hear of it.
    comm::run_ranks(kRanks, [&](comm::Comm& group) {
      const int rank = group.topology().rank;
      live(group, rank == 1 ? static_cast<store::Store&>(faulty) : memory, hints, codes[static_cast<std::size_t>(rank)]);
    });
    for (std::size_t step = 0; step < kStepCount; ++step)
      for (int rank = 1; rank < kRanks; ++rank)
        EXPECT_EQ(codes[static_cast<std::size_t>(rank)][step], codes[0][step])
            << kSteps[step] << " with store call " << number << " of rank 1 failing";
    if (plan->struck() == 0) break;
  }
  EXPECT_GT(number, 5) << "too few store calls were tried";
}

TEST_P(CollectiveFault, OnRankZeroToo) {
  const auto [strategy, can_map] = GetParam();
  hints::Hints hints = hints::defaults();
  hints.strategy = strategy;
  hints.learn = hints::Switch::kDisable;
  for (int number = 1; number < 200; ++number) {
    store::MemoryStore memory({.can_map = can_map});
    auto plan =
        std::make_shared<store::FaultPlan>(std::vector<store::FaultRule>{{.call = store::Call::kAny, .number = number, .error = EDQUOT}});
    store::FaultStore faulty(memory, plan);
    Codes codes{};
    comm::run_ranks(kRanks, [&](comm::Comm& group) {
      const int rank = group.topology().rank;
      live(group, rank == 0 ? static_cast<store::Store&>(faulty) : memory, hints, codes[static_cast<std::size_t>(rank)]);
    });
    for (std::size_t step = 0; step < kStepCount; ++step)
      for (int rank = 1; rank < kRanks; ++rank)
        EXPECT_EQ(codes[static_cast<std::size_t>(rank)][step], codes[0][step]) << kSteps[step] << " with store call " << number;
    if (plan->struck() == 0) return;
  }
  FAIL() << "the fault never stops firing";
}

INSTANTIATE_TEST_SUITE_P(Strategies, CollectiveFault,
                         ::testing::Values(std::make_tuple(hints::Strategy::kAutomatic, false), std::make_tuple(hints::Strategy::kAutomatic, true),
                                           std::make_tuple(hints::Strategy::kIndependent, false),
                                           std::make_tuple(hints::Strategy::kMapped, true), std::make_tuple(hints::Strategy::kSieved, false)));

}  // namespace
}  // namespace penstock
