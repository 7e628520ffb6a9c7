// How many aggregators a striped file gets, and the size of their windows: each target has one writer.
#include "plan/striping.h"

#include <gtest/gtest.h>

#include <set>

#include "plan/aggregation.h"

namespace penstock::plan {
namespace {

/// `nodes` nodes with `ranks` ranks each.
std::vector<int> machine(int nodes, int ranks) {
  std::vector<int> node_of_rank;
  for (int node = 0; node < nodes; ++node) node_of_rank.insert(node_of_rank.end(), static_cast<std::size_t>(ranks), node);
  return node_of_rank;
}

int aggregators(const Striping& striping, const std::vector<int>& node_of_rank, int processors) {
  return striped_aggregators(striping, static_cast<int>(node_of_rank.size()), workers(node_of_rank, processors));
}

Striping striped(int count, int targets) { return {.stripe_bytes = 1 << 20, .stripe_count = count, .target_count = targets, .block_bytes = 4096}; }

TEST(Striped, OneAggregatorForEachTarget) {
  EXPECT_EQ(aggregators(striped(4, 4), machine(2, 4), 64), 4);
  EXPECT_EQ(aggregators(striped(4, 4), machine(2, 1), 64), 2) << "two targets each";
  EXPECT_EQ(aggregators(striped(8, 8), machine(1, 64), 6), 4) << "of six that can work at once, two would have no whole target";
  EXPECT_EQ(aggregators(striped(8, 4), machine(2, 8), 64), 4) << "overstriped: two stripes of a turn each";
  EXPECT_EQ(aggregators(striped(1, 1), machine(4, 2), 64), 1);
  EXPECT_EQ(aggregators(striped(7, 7), machine(6, 1), 64), 6) << "no number fits but one and seven";
  EXPECT_EQ(aggregators(striped(56, 56), machine(256, 64), 64), 4 * 56);
}

TEST(Striped, SeveralForATargetWhereRanksAbound) {
  EXPECT_EQ(aggregators(striped(2, 2), machine(4, 8), 64), 2) << "32 ranks: each of two serves 16";
  EXPECT_EQ(aggregators(striped(2, 2), machine(8, 8), 64), 4);
  EXPECT_EQ(aggregators(striped(1, 1), machine(64, 64), 64), 4);
  EXPECT_EQ(aggregators(striped(2, 2), machine(1, 1024), 2), 2) << "two processors: more would wait for each other";
}

/// Which aggregators write to a stripe of a turn: windows dealt out in turn, every byte of `turns` turns looked at by the smallest of both sizes.
std::vector<std::set<Offset>> writers(const Striping& striping, int aggregators, Offset window, int turns) {
  std::vector<std::set<Offset>> of_stripe(static_cast<std::size_t>(striping.stripe_count));
  const Offset step = std::min(window, striping.stripe_bytes);
  for (Offset at = 0; at < striping.stripe_bytes * striping.stripe_count * turns; at += step)
    of_stripe[static_cast<std::size_t>(at / striping.stripe_bytes % striping.stripe_count)].insert(at / window % aggregators);
  return of_stripe;
}

TEST(Striped, EachTargetHasOneWriter) {
  for (int count = 1; count <= 24; ++count)
    for (int nodes = 1; nodes <= 5; ++nodes)
      for (int ranks = 1; ranks <= 16; ++ranks)
        for (const Offset limit : {Offset{1} << 20, Offset{4} << 20, Offset{16} << 20}) {
          const Striping striping = striped(count, count);
          const int number = aggregators(striping, machine(nodes, ranks), 8);
          ASSERT_TRUE(1 <= number && number <= nodes * std::min(ranks, 8));
          const Offset window = aligned_window_bytes(striping, number, window_bytes(nodes * ranks, limit), limit);
          ASSERT_TRUE(window > 0 && window <= limit && window % striping.stripe_bytes == 0);
          if (count % number != 0 && number % count != 0) {
            ASSERT_TRUE(number == std::min(count, nodes * std::min(ranks, 8))) << "nothing near fits, so all of them work";
            continue;
          }
          for (const std::set<Offset>& of_one : writers(striping, number, window, 7))
            ASSERT_EQ(of_one.size(), static_cast<std::size_t>(std::max(1, number / count))) << count << ' ' << nodes << ' ' << ranks;
        }
}

TEST(Windows, DoNotTearStripesOrBlocks) {
  const Offset kMiB = 1 << 20;
  const Striping four = striped(4, 4);
  EXPECT_EQ(aligned_window_bytes(four, 4, 3 * kMiB, 16 * kMiB), kMiB) << "a stripe each";
  EXPECT_EQ(aligned_window_bytes(four, 2, 3 * kMiB, 16 * kMiB), 2 * kMiB) << "two stripes of the same turn, on the aggregator's own targets";
  EXPECT_EQ(aligned_window_bytes(four, 1, 3 * kMiB, 16 * kMiB), 2 * kMiB);
  EXPECT_EQ(aligned_window_bytes(four, 3, 8 * kMiB, 16 * kMiB), kMiB);
  EXPECT_EQ(aligned_window_bytes(four, 4, kMiB / 2, kMiB), kMiB) << "a stripe is no more than allowed";
  EXPECT_EQ(aligned_window_bytes(four, 4, 4096, 300000), kMiB / 4) << "a divisor of the stripe";
  const Striping odd{.stripe_bytes = 3 << 20, .stripe_count = 2, .target_count = 2, .block_bytes = 4096};
  EXPECT_EQ(aligned_window_bytes(odd, 2, kMiB, kMiB), 3 * kMiB / 4);
  const Striping prime{.stripe_bytes = 10007, .stripe_count = 2, .target_count = 2, .block_bytes = 1};
  EXPECT_EQ(aligned_window_bytes(prime, 2, 4096, 8192), 4096) << "it has no even divisor";
  const Striping none{.block_bytes = 4096};
  EXPECT_EQ(aligned_window_bytes(none, 4, kMiB + 5, 16 * kMiB), kMiB);
  EXPECT_EQ(aligned_window_bytes(none, 4, 4096, 4096), 4096);
  const Striping large_blocks{.block_bytes = 4 << 20};
  EXPECT_EQ(aligned_window_bytes(large_blocks, 4, kMiB, 16 * kMiB), 4 * kMiB);
  EXPECT_EQ(aligned_window_bytes(large_blocks, 4, kMiB, kMiB), kMiB);
  EXPECT_EQ(aligned_window_bytes(Striping(), 4, 12345, 12345), 12345);
}

}  // namespace
}  // namespace penstock::plan
