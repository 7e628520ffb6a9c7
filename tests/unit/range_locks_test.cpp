// Range locks of one process: who waits for whom, and which parts nobody holds any more.
#include "store/range_locks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace penstock::store {
namespace {

const int one = 1, other = 2;

/// What release() says of parts that nobody covers any more, ascending.
std::vector<RangeLocks::Part> let_go(RangeLocks& locks, const void* owner, Offset offset, Offset length) {
  std::vector<RangeLocks::Part> parts;
  EXPECT_TRUE(locks.release(owner, offset, length, [&](const RangeLocks::Part& part) { parts.push_back(part); }));
  std::sort(parts.begin(), parts.end());
  return parts;
}

TEST(RangeLocks, OnlySharedOnesAreHeldTogether) {
  for (const bool first : {false, true})
    for (const bool second : {false, true}) {
      RangeLocks locks;
      locks.acquire(&one, 0, 10, first);
      std::atomic<int> inside = 1;
      std::atomic<int> most = 0;
      // The first is held until the second was seen inside, or has had every opportunity to come.
      std::thread comes([&] {
        locks.acquire(&other, 9, 10, second);
        most = ++inside;
        locks.release(&other, 9, 10);
      });
      for (int look = 0; look < 20'000 && most == 0; ++look) std::this_thread::yield();
      --inside;
      locks.release(&one, 0, 10);
      comes.join();
      EXPECT_EQ(most, first || second ? 1 : 2) << first << second;
    }
}

TEST(RangeLocks, ReleasedPartsAreThoseThatNobodyElseHolds) {
  using Parts = std::vector<RangeLocks::Part>;
  RangeLocks locks;
  locks.acquire(&one, 10, 10, false);
  EXPECT_EQ(let_go(locks, &one, 10, 10), (Parts{{10, 10}}));
  const auto beside = [&](Offset offset, Offset length) {
    locks.acquire(&one, 10, 10, false);
    locks.acquire(&other, offset, length, false);
    const Parts parts = let_go(locks, &one, 10, 10);
    EXPECT_TRUE(locks.release(&other, offset, length));
    return parts;
  };
  EXPECT_EQ(beside(12, 3), (Parts{{10, 2}, {15, 5}}));
  EXPECT_EQ(beside(10, 5), (Parts{{15, 5}}));
  EXPECT_EQ(beside(15, 5), (Parts{{10, 5}}));
  EXPECT_EQ(beside(5, 7), (Parts{{12, 8}}));
  EXPECT_EQ(beside(10, 10), Parts());
  EXPECT_EQ(beside(0, 100), Parts());
  EXPECT_EQ(beside(20, 5), (Parts{{10, 10}}));
  EXPECT_EQ(beside(0, 10), (Parts{{10, 10}}));
}

TEST(RangeLocks, OnlyWhatWasAcquiredIsReleased) {
  RangeLocks locks;
  locks.acquire(&one, 0, 10, true);
  EXPECT_FALSE(locks.release(&one, 0, 9));
  EXPECT_FALSE(locks.release(&other, 0, 10));
  EXPECT_FALSE(locks.held_by_others(&one, 0, 10));
  EXPECT_TRUE(locks.held_by_others(&other, 9, 1));
  EXPECT_FALSE(locks.held_by_others(&other, 10, 1));
  EXPECT_TRUE(locks.release(&one, 0, 10));
  locks.acquire(&other, 0, 10, true);
  locks.release_all(&other);
  locks.acquire(&one, 0, 10, true);
}

}  // namespace
}  // namespace penstock::store
