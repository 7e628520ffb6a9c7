// Segments between two teams: the best that fits, found by its name, and never too much of them.
#include "comm/segment_pool.h"

#include <gtest/gtest.h>

namespace penstock::comm {
namespace {

NamedSegment made(std::size_t size_bytes, int members) {
  NamedSegment segment{.size_bytes = size_bytes, .members = members};
  Result<NodeSegment> memory = NodeSegment::create(4096, segment.name);  // how much it is said to be is what counts here
  EXPECT_TRUE(memory.ok());
  NodeSegment::remove_name(segment.name);
  segment.segment = std::move(memory).value();
  return segment;
}

TEST(SegmentPool, GivesTheSmallestThatFits) {
  SegmentPool pool;
  for (const std::size_t size : {100'000, 30'000, 60'000, 20'000}) pool.give(made(size, 4));
  pool.give(made(30'000, 3));
  EXPECT_EQ(pool.take_fitting(25'000, 4)->size_bytes, 30'000U);
  EXPECT_EQ(pool.take_fitting(25'000, 4)->size_bytes, 60'000U);
  EXPECT_EQ(pool.take_fitting(25'000, 4)->size_bytes, 100'000U);
  EXPECT_FALSE(pool.take_fitting(25'000, 4).has_value());
  EXPECT_FALSE(pool.take_fitting(20'000, 2).has_value());
  EXPECT_FALSE(pool.take_fitting(100, 4).has_value()) << "most of it would lie idle";
  EXPECT_EQ(pool.take_fitting(20'000, 4)->size_bytes, 20'000U);
}

TEST(SegmentPool, FindsWhatAnotherProcessOffers) {
  SegmentPool pool;
  const NamedSegment other = made(10'000, 2);
  NamedSegment one = made(10'000, 2);
  const NodeSegment::Name name = one.name;
  void* const memory = one.segment.memory();
  pool.give(std::move(one));
  EXPECT_FALSE(pool.take(other.name).has_value());
  const std::optional<NamedSegment> found = pool.take(name);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->segment.memory(), memory);
  EXPECT_FALSE(pool.take(name).has_value());
}

TEST(SegmentPool, LetsGoOfTheOldest) {
  SegmentPool pool;
  const std::size_t third = SegmentPool::kBytesMost / 3;
  std::vector<NodeSegment::Name> names;
  for (int i = 0; i < 5; ++i) {
    NamedSegment segment = made(third, 2);
    names.push_back(segment.name);
    pool.give(std::move(segment));
  }
  for (int i = 0; i < 5; ++i) EXPECT_EQ(pool.take(names[static_cast<std::size_t>(i)]).has_value(), i >= 2) << i;
  pool.give(made(SegmentPool::kBytesMost + 1, 2));
  EXPECT_FALSE(pool.take_fitting(SegmentPool::kBytesMost + 1, 2).has_value());
}

}  // namespace
}  // namespace penstock::comm
