// Which ranks aggregate, and which part of the file is whose.
#include "plan/aggregation.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace penstock::plan {
namespace {

using Ranks = std::vector<int>;

TEST(LocalAggregators, AsThePaperSays) {
  EXPECT_EQ(local_aggregators(5, 2), (Ranks{0, 3}));  // the example of section IV.A
  EXPECT_EQ(local_aggregators(8, 4), (Ranks{0, 2, 4, 6}));  // figure 1 (a)
  EXPECT_EQ(local_aggregators(7, 3), (Ranks{0, 3, 5}));
  EXPECT_EQ(local_aggregators(4, 9), (Ranks{0, 1, 2, 3}));
}

TEST(LocalAggregators, EachServesAboutAsMany) {
  for (int ranks = 1; ranks <= 40; ++ranks)
    for (int count = 1; count <= ranks; ++count) {
      Ranks chosen = local_aggregators(ranks, count);
      ASSERT_EQ(chosen.size(), static_cast<std::size_t>(count));
      ASSERT_EQ(chosen[0], 0);
      chosen.push_back(ranks);
      for (std::size_t i = 1; i < chosen.size(); ++i) {
        const int served = chosen[i] - chosen[i - 1];
        ASSERT_TRUE(served == ranks / count || served == (ranks + count - 1) / count) << ranks << " ranks, " << count;
      }
    }
}

TEST(GlobalAggregators, SpreadOverNodesFirst) {
  const std::vector<int> six_nodes_of_two = {0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5};
  EXPECT_EQ(global_aggregators(six_nodes_of_two, 0), (Ranks{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(global_aggregators(six_nodes_of_two, 3), (Ranks{0, 4, 8}));  // figure 1 (b): nodes 0, 2 and 4
  EXPECT_EQ(global_aggregators(six_nodes_of_two, 8), (Ranks{0, 1, 2, 3, 4, 6, 8, 10}));
  EXPECT_EQ(global_aggregators(six_nodes_of_two, 99).size(), 12U);
  EXPECT_EQ(global_aggregators({0, 1, 0, 1, 0}, 4), (Ranks{0, 1, 3, 4}));  // nodes of ranks 0, 2, 4 and 1, 3
  EXPECT_EQ(global_aggregators({0, 1, 1, 1}, 3), (Ranks{0, 1, 3}));
}

TEST(Place, TeamsCoverEveryRankOnce) {
  const std::vector<std::vector<int>> machines = {{0}, {0, 0, 0, 0, 0}, {0, 0, 0, 1, 1, 2}, {0, 1, 0, 1, 0, 2, 2, 1}, {0, 1, 2, 3}};
  for (const std::vector<int>& node_of_rank : machines)
    for (int local = 0; local <= 5; ++local)
      for (int global = 1; global <= 9; ++global) {
        const int ranks = static_cast<int>(node_of_rank.size());
        std::vector<int> led(static_cast<std::size_t>(ranks), 0);
        Placement first;
        for (int rank = 0; rank < ranks; ++rank) {
          const Placement placement = place(node_of_rank, rank, local, global);
          if (rank == 0) first = placement;
          ASSERT_EQ(placement.local, first.local);
          ASSERT_EQ(placement.global, first.global);
          ASSERT_TRUE(std::includes(placement.local.begin(), placement.local.end(), placement.global.begin(), placement.global.end()));
          ASSERT_EQ(static_cast<int>(placement.global.size()), std::min(global, static_cast<int>(placement.local.size())));
          ASSERT_TRUE(std::binary_search(placement.local.begin(), placement.local.end(), placement.leader));
          ASSERT_EQ(node_of_rank[static_cast<std::size_t>(placement.leader)], node_of_rank[static_cast<std::size_t>(rank)]);
          int in_node = 0;
          for (int other = 0; other < rank; ++other)
            if (node_of_rank[static_cast<std::size_t>(other)] == node_of_rank[static_cast<std::size_t>(rank)]) ++in_node;
          ASSERT_TRUE(placement.first <= in_node && in_node < placement.first + placement.count);
          ASSERT_EQ(placement.first == in_node, placement.leader == rank);
          ASSERT_TRUE(local > 0 || placement.leader == rank) << "every rank is one";
          led[static_cast<std::size_t>(placement.leader)] += 1;
          if (placement.leader == rank) led[static_cast<std::size_t>(rank)] -= placement.count;
        }
        for (const int left : led) ASSERT_EQ(left, 0) << "as many follow as the local aggregator counts on";
      }
}

TEST(Place, AsThePaperSays) {
  const Placement placement = place({0, 0, 0, 0, 0, 1, 1, 1, 1, 1}, 4, 2, 2);
  EXPECT_EQ(placement.local, (Ranks{0, 3, 5, 8}));
  EXPECT_EQ(placement.global, (Ranks{0, 5}));
  EXPECT_EQ(placement.leader, 3);
  EXPECT_EQ(placement.first, 3);
  EXPECT_EQ(placement.count, 2);
}

TEST(Automatic, AsManyAsPay) {
  const std::vector<int> two_nodes_of_three = {0, 0, 0, 1, 1, 1};
  EXPECT_EQ(automatic_global(two_nodes_of_three, 0, 1, 1), 2);
  EXPECT_EQ(automatic_global(two_nodes_of_three, 0, 2, 1), 4);
  EXPECT_EQ(automatic_global(two_nodes_of_three, 0, 64, 1), 6);
  EXPECT_EQ(automatic_global(two_nodes_of_three, 1, 64, 1), 2);
  EXPECT_EQ(automatic_global(two_nodes_of_three, 1, 64, 2), 4) << "one for each interface";
  EXPECT_EQ(automatic_global(two_nodes_of_three, 1, 64, 16), 6);
  EXPECT_EQ(automatic_global(std::vector<int>(64, 0), 0, 64, 1), 4);
  EXPECT_EQ(automatic_global(std::vector<int>(64, 0), 0, 64, 8), 8);
  EXPECT_EQ(automatic_global(std::vector<int>(64, 0), 0, 2, 8), 2);
  EXPECT_TRUE(better_alone(0, 0) && better_alone(1, 8) && better_alone(16, Offset{16} << 22));
  EXPECT_FALSE(better_alone(2, 16) || better_alone(1000, 4096000));
  EXPECT_EQ(window_bytes(2, 16 << 20), 1 << 20);
  EXPECT_EQ(window_bytes(256, 64 << 20), 16 << 20);
  EXPECT_EQ(window_bytes(256, 4096), 4096);
}

TEST(FileDomains, EveryOffsetHasOneOwner) {
  for (const int aggregators : {1, 2, 5})
    for (const Offset window : {1, 7, 64}) {
      const FileDomains domains(aggregators, window);
      for (Offset offset = 0; offset < 700; ++offset) {
        int owners = 0;
        for (int place = 0; place < aggregators; ++place) {
          const Offset first = domains.window(domains.round_of(offset), place);
          const bool owns = offset >= first && offset < domains.window_end(first);
          ASSERT_EQ(domains.reaches(offset, offset + 1, place), owns);
          owners += owns ? 1 : 0;
        }
        ASSERT_EQ(owners, 1);
      }
      for (Offset first = 0; first < 100; ++first)
        for (Offset end = first; end < first + 90; ++end)
          for (int place = 0; place < aggregators; ++place) {
            bool any = false;
            for (Offset offset = first; offset < end; ++offset) any = any || domains.reaches(offset, offset + 1, place);
            ASSERT_EQ(domains.reaches(first, end, place), any) << first << ' ' << end;
          }
    }
}

TEST(FileDomains, UpToTheLargestOffset) {
  const FileDomains domains(3, Offset{1} << 40);
  const Offset last = INT64_MAX - 1;
  const Offset round = domains.round_of(last);
  int owners = 0;
  for (int place = 0; place < 3; ++place) {
    const Offset first = domains.window(round, place);
    owners += last >= first && last < domains.window_end(first) ? 1 : 0;
  }
  EXPECT_EQ(owners, 1);
}

}  // namespace
}  // namespace penstock::plan
