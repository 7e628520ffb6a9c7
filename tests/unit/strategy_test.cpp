// Each strategy on small accesses that can be checked by eye, and what it asks of the store.
#include "strategy/strategy.h"

#include <gtest/gtest.h>

#include <string>

#include "store/memory/memory_store.h"
#include "store/trace/trace_store.h"
#include "strategy/staged.h"

namespace penstock::strategy {
namespace {

using access::Tiling;

Tiling pieces(Offset length, Offset distance, Offset displacement = 0) {
  return access::tile(*access::resized(0, distance, *access::contiguous(length, *access::elementary(1))), displacement);
}

struct Strategy {
  const char* name;
  Result<Offset> (*read)(const Access&);
  Result<Offset> (*write)(const Access&);
};
constexpr Strategy kStrategies[] = {{"independent", read_independent, write_independent},
                                    {"mapped", read_mapped, write_mapped},
                                    {"sieved", read_sieved, write_sieved}};

class StrategyTest : public testing::TestWithParam<Strategy> {
 protected:
  StrategyTest() { file_ = std::move(*store_.open("a", {.read = true, .write = true, .create = true})); }

  void fill(std::string text) {
    store::Transfer transfer{0, reinterpret_cast<std::byte*>(text.data()), text.size()};
    ASSERT_TRUE(file_->write(std::span(&transfer, 1)).ok());
  }
  std::string content() {
    std::string text(static_cast<std::size_t>(*file_->size()), '#');
    store::Transfer transfer{0, reinterpret_cast<std::byte*>(text.data()), text.size()};
    EXPECT_TRUE(file_->read(std::span(&transfer, 1)).ok());
    return text;
  }
  Access access(const Tiling& file, const Tiling& memory, std::string& buffer, Offset bytes, Offset position = 0) {
    return {.store = *file_,
            .file = file,
            .position = position,
            .memory = memory,
            .memory_position = 0,
            .bytes = bytes,
            .buffer = reinterpret_cast<std::byte*>(buffer.data()),
            .trace = trace_};
  }
  std::int64_t counter(trace::Counter which) const { return totals_.count(which); }

  store::MemoryStore memory_store_{{.can_map = true}};
  std::shared_ptr<store::StoreCounts> counts_ = std::make_shared<store::StoreCounts>();
  store::TraceStore store_{memory_store_, counts_};
  std::unique_ptr<store::File> file_;
  trace::FileTrace totals_;
  trace::OpTrace trace_{&totals_};
};

TEST_P(StrategyTest, WritesOnlyThePieces) {
  fill("....................");
  std::string buffer = "abcdef";
  const Tiling file = pieces(2, 5, 1), memory = access::bytes_at(0);
  const Result<Offset> moved = GetParam().write(access(file, memory, buffer, 6));
  ASSERT_TRUE(moved.ok()) << moved.status().text();
  EXPECT_EQ(*moved, 6);
  EXPECT_EQ(content(), ".ab...cd...ef.......");
  EXPECT_EQ(counter(trace::Counter::kStoreBytesWritten) >= 6, true);
}

TEST_P(StrategyTest, WritesStartAndEndInsideAPiece) {
  fill("....................");
  std::string buffer = "abcdef";
  const Tiling file = pieces(3, 5, 1), memory = access::bytes_at(0);
  ASSERT_EQ(*GetParam().write(access(file, memory, buffer, 5, 2)), 5);
  EXPECT_EQ(content(), "...a..bcd..e........");
}

TEST_P(StrategyTest, WritesBeyondTheEndLeaveZerosBetween) {
  fill("....");
  std::string buffer = "abcdef";
  const Tiling file = pieces(2, 4, 3), memory = access::bytes_at(0);
  ASSERT_EQ(*GetParam().write(access(file, memory, buffer, 6)), 6);
  EXPECT_EQ(content(), std::string("...ab\0\0cd\0\0ef", 13));
}

TEST_P(StrategyTest, ReadsOnlyThePieces) {
  fill("0123456789abcdefghij");
  std::string buffer = "........";
  const Tiling file = pieces(2, 5, 1), memory = pieces(1, 1);
  ASSERT_EQ(*GetParam().read(access(file, memory, buffer, 6)), 6);
  EXPECT_EQ(buffer, "1267bc..");
}

TEST_P(StrategyTest, ReadsIntoScatteredMemory) {
  fill("0123456789");
  std::string buffer = "..........";
  const Tiling file = pieces(3, 4), memory = pieces(2, 3, 1);
  ASSERT_EQ(*GetParam().read(access(file, memory, buffer, 6)), 6);
  EXPECT_EQ(buffer, ".01.24.56.");
}

TEST_P(StrategyTest, ReadsStopAtTheEndOfTheFile) {
  fill("0123456789");
  for (Offset position = 0; position < 12; ++position) {
    std::string buffer = "............";
    const Tiling file = pieces(2, 4, 1), memory = access::bytes_at(0);
    // Data is at 1 2 5 6 9 (10 ...): five bytes exist.
    const Offset there = std::max<Offset>(5 - position, 0);
    const Result<Offset> moved = GetParam().read(access(file, memory, buffer, 12, position));
    ASSERT_TRUE(moved.ok()) << moved.status().text();
    EXPECT_EQ(*moved, there);
    EXPECT_EQ(buffer, (std::string("12569").substr(std::min<Offset>(position, 5)) + "............").substr(0, 12));
  }
}

TEST_P(StrategyTest, NothingAsksNothingOfTheStore) {
  fill("0123");
  std::string buffer = "....";
  const Tiling file = pieces(2, 4), memory = access::bytes_at(0);
  EXPECT_EQ(*GetParam().read(access(file, memory, buffer, 0)), 0);
  EXPECT_EQ(*GetParam().write(access(file, memory, buffer, 0)), 0);
  EXPECT_EQ(counts_->read.calls + counts_->map.calls + counts_->size.calls, 0);
  EXPECT_EQ(content(), "0123");
}

TEST_P(StrategyTest, WindowsBoundTheStaging) {
  std::string all(60'000, '.');
  fill(all);
  std::string buffer(10'000, 'x');
  const Tiling file = pieces(5, 30, 7), memory = access::bytes_at(0);
  Access whole = access(file, memory, buffer, 10'000);
  whole.buffer_bytes = 4096;
  ASSERT_EQ(*GetParam().write(whole), 10'000);
  for (std::size_t at = 7; at < all.size(); at += 30) all.replace(at, 5, "xxxxx");
  EXPECT_EQ(content(), all);
  std::string back(10'000, '.');
  whole.buffer = reinterpret_cast<std::byte*>(back.data());
  ASSERT_EQ(*GetParam().read(whole), 10'000);
  EXPECT_EQ(back, buffer);
}

INSTANTIATE_TEST_SUITE_P(All, StrategyTest, testing::ValuesIn(kStrategies),
                         [](const auto& info) { return std::string(info.param.name); });

class IndependentTest : public StrategyTest {};

TEST_F(IndependentTest, BatchesPieces) {
  std::string buffer(2000, 'x');
  const Tiling file = pieces(2, 10), memory = access::bytes_at(0);
  ASSERT_EQ(*write_independent(access(file, memory, buffer, 2000)), 2000);
  EXPECT_EQ(counts_->write.calls, 2);
  EXPECT_EQ(counts_->write.transfers, 1000);
  EXPECT_EQ(counter(trace::Counter::kStoreWrites), 1000);
  EXPECT_EQ(counter(trace::Counter::kStoreBytesWritten), 2000);
}

TEST_F(IndependentTest, JoinsPiecesThatAbutInFileAndMemory) {
  std::string buffer(2000, 'x');
  const Tiling file = pieces(2, 2, 5), memory = pieces(4, 4);
  ASSERT_EQ(*write_independent(access(file, memory, buffer, 2000)), 2000);
  EXPECT_EQ(counts_->write.transfers, 1);
}

TEST_F(IndependentTest, GathersSmallMemoryForOnePieceOfTheFile) {
  std::string buffer(4000, '.');
  for (std::size_t i = 0; i < buffer.size(); i += 4) buffer[i] = buffer[i + 1] = static_cast<char>('a' + i / 4 % 26);
  const Tiling file = access::bytes_at(3), memory = pieces(2, 4);
  ASSERT_EQ(*write_independent(access(file, memory, buffer, 2000)), 2000);
  EXPECT_EQ(counts_->write.transfers, 1);
  EXPECT_EQ(counts_->read.calls, 0);
  EXPECT_EQ(counts_->lock.calls, 0);
  EXPECT_EQ(content().substr(3, 8), "aabbccdd");
  std::string back(4000, '.');
  ASSERT_EQ(*read_independent(access(file, memory, back, 2000)), 2000);
  EXPECT_EQ(back, buffer);
}

class SievedTest : public StrategyTest {};

TEST_F(SievedTest, LocksExclusivelyOnlyWhatIsPutBack) {
  fill(std::string(1000, '.'));
  std::string buffer(500, 'x');
  const Tiling gaps = pieces(5, 10), memory = access::bytes_at(0), dense = access::bytes_at(100);
  const auto counts = counts_ = std::make_shared<store::StoreCounts>();
  store::TraceStore traced(memory_store_, counts);
  file_ = std::move(*traced.open("a", {.read = true, .write = true}));
  ASSERT_EQ(*write_sieved(access(gaps, memory, buffer, 500)), 500);
  EXPECT_EQ(counts->read.calls, 1);
  EXPECT_EQ(counts->write.transfers, 1);
  EXPECT_EQ(counts->lock.calls, 1);
  EXPECT_EQ(counts->unlock.calls, 1);
  ASSERT_EQ(*write_sieved(access(dense, memory, buffer, 500)), 500);
  EXPECT_EQ(counts->read.calls, 1) << "nothing is read where nothing is put back";
  EXPECT_EQ(counts->lock.calls, 2) << "but a siever elsewhere is kept out";
}

TEST_F(SievedTest, RefusesOffsetsWhereTheLockSignsLie) {
  std::string buffer = "abcd";
  const Tiling file = pieces(1, 2, INT64_MAX - 100), memory = access::bytes_at(0);
  EXPECT_EQ(write_sieved(access(file, memory, buffer, 4)).status().code(), Code::kNoSpace);
}

TEST(NextWindow, EndsAtLargeGapsAndAtItsSize) {
  const Tiling far = pieces(10, 100'000);
  const Window one = next_window(far, 3, 1000, 1 << 20, 4096);
  EXPECT_EQ(one.bytes, 7);
  EXPECT_EQ(one.first, 3);
  EXPECT_EQ(one.end, 10);
  const Tiling near = pieces(10, 100);
  const Window many = next_window(near, 0, 100, 250, 4096);
  EXPECT_EQ(many.bytes, 30);
  EXPECT_EQ(many.end, 210);
  EXPECT_TRUE(many.has_gaps());
  const Window cut = next_window(near, 0, 100, 205, 4096);
  EXPECT_EQ(cut.bytes, 25);
  EXPECT_EQ(cut.end, 205);
  EXPECT_FALSE(next_window(access::bytes_at(5), 0, 1000, 100, 4096).has_gaps());
}

}  // namespace
}  // namespace penstock::strategy
