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
  EXPECT_EQ(window_bytes(2, 16 << 20), 1 << 20);
  EXPECT_EQ(window_bytes(256, 64 << 20), 16 << 20);
  EXPECT_EQ(window_bytes(256, 4096), 4096);
}

TEST(Aggregation, GatheringOnANodeIsForRanksThatUseItUp) {
  EXPECT_TRUE(may_gather_on_a_node(16, 64) && may_gather_on_a_node(4, 4) && may_gather_on_a_node(2, 1) && may_gather_on_a_node(2, 2));
  EXPECT_FALSE(may_gather_on_a_node(1, 1) || may_gather_on_a_node(2, 4) || may_gather_on_a_node(11, 16));
}

/// How often [first, end) has each byte in some window, by what a call goes through: the windows of all rounds until the last byte's.
void expect_each_byte_once(const FileDomains& domains, Offset first, Offset end) {
  std::vector<int> owners(static_cast<std::size_t>(end - first), 0);
  Offset rounds = 0;
  for (Offset offset = first; offset < end; ++offset) rounds = std::max(rounds, domains.round_of(offset) + 1);
  for (int place = 0; place < domains.aggregators(); ++place) {
    Offset behind = 0;
    for (Offset round = 0; round < rounds; ++round) {
      const FileDomains::Range window = domains.window(round, place);
      ASSERT_LE(window.first, window.end);
      ASSERT_LE(window.end - window.first, domains.window_bytes());
      ASSERT_GE(window.first, behind) << "windows of later rounds lie behind";
      behind = window.end;
      for (Offset offset = std::max(window.first, first); offset < std::min(window.end, end); ++offset) {
        ++owners[static_cast<std::size_t>(offset - first)];
        ASSERT_EQ(domains.round_of(offset), round);
      }
    }
    // The next byte of the aggregator, the slow way.
    Offset next = INT64_MAX;
    for (Offset offset = end - 1; offset >= first; --offset) {
      const FileDomains::Range window = domains.window(domains.round_of(offset), place);
      if (offset >= window.first && offset < window.end) next = offset;
      if (next < end) {
        ASSERT_EQ(domains.next_of(place, offset), next) << offset;
      }
      ASSERT_EQ(domains.reaches(offset, end, place), next < end);
      ASSERT_EQ(domains.reaches(offset, offset + 1, place), next == offset);
    }
    ASSERT_FALSE(domains.reaches(first, first, place));
  }
  for (Offset offset = first; offset < end; ++offset)
    for (Offset behind = offset + 1; behind <= std::min(end, offset + 60); behind += 7) {
      const FileDomains::Reach reach = domains.reach(offset, behind);
      ASSERT_TRUE(reach.count > 0 && reach.count <= domains.aggregators());
      for (int place = 0; place < domains.aggregators(); ++place) {
        const bool among = (place - reach.first + domains.aggregators()) % domains.aggregators() < reach.count;
        ASSERT_TRUE(among || !domains.reaches(offset, behind, place)) << offset << ' ' << behind << ' ' << place;
      }
      ASSERT_TRUE(domains.reaches(offset, behind, reach.first));
    }
  for (std::size_t i = 0; i < owners.size(); ++i) ASSERT_EQ(owners[i], 1) << "offset " << first + static_cast<Offset>(i);
}

TEST(FileDomains, EachByteIsInOneWindowOfContiguousDomains) {
  for (const int aggregators : {1, 2, 3, 5, 40})
    for (const Offset window : {1, 7, 8, 64})
      for (const Offset alignment : {1, 4, 8, 24})
        for (Offset first = 0; first < 26; first += 5)
          for (const Offset bytes : {0, 1, 2, 3, 7, 8, 31, 100}) {
            SCOPED_TRACE(testing::Message() << aggregators << " aggregators, window " << window << ", alignment " << alignment << ", " << bytes << " from " << first);
            const FileDomains domains = FileDomains::contiguous(aggregators, window, alignment, first, first + bytes);
            ASSERT_EQ(domains.aggregators(), aggregators);
            expect_each_byte_once(domains, first, first + bytes);
            if (HasFatalFailure()) return;
          }
}

TEST(FileDomains, EachByteIsInOneWindowOfCyclicDomains) {
  for (const int aggregators : {1, 2, 5})
    for (const Offset window : {1, 3, 7, 64})
      for (const Offset unit : {1, 7, 24, 64})
        for (const Offset first : {0, 1, 50, 333}) {
          SCOPED_TRACE(testing::Message() << aggregators << " aggregators, window " << window << ", unit " << unit << ", from " << first);
          const FileDomains domains = FileDomains::cyclic(aggregators, window, unit);
          expect_each_byte_once(domains, first, first + 200);
          if (HasFatalFailure()) return;
          for (Offset offset = first; offset < first + 200; ++offset)
            for (int place = 0; place < aggregators; ++place) ASSERT_EQ(domains.reaches(offset, offset + 1, place), offset / unit % aggregators == place);
        }
}

TEST(FileDomains, ContiguousOnesAreEqualAndAligned) {
  const FileDomains domains = FileDomains::contiguous(3, 1000, 64, 100, 64 * 90);
  EXPECT_EQ(domains.window_bytes(), 15 * 64);
  // A third of 5660 is 1886 and two are 3773: the boundaries would be 1986 and 3873.
  const Offset begins[] = {64, 31 * 64, 60 * 64, 90 * 64};
  for (int place = 0; place < 3; ++place) {
    EXPECT_EQ(domains.window(0, place).first, begins[place]);
    EXPECT_EQ(domains.window(0, place).end, begins[place] + 15 * 64);
    EXPECT_EQ(domains.window(1, place).first, begins[place] + 15 * 64);
    EXPECT_EQ(domains.window(1, place).end, std::min(begins[place] + 30 * 64, begins[place + 1]));
    EXPECT_EQ(domains.window(2, place).first, INT64_MAX);
  }
}

TEST(FileDomains, WindowsOfADomainAreAboutEqual) {
  EXPECT_EQ(FileDomains::contiguous(2, 1000, 10, 0, 2200).window_bytes(), 560);  // 1100 in two
  EXPECT_EQ(FileDomains::contiguous(2, 1000, 10, 0, 2000).window_bytes(), 1000);
  EXPECT_EQ(FileDomains::contiguous(2, 1000, 10, 5, 6).window_bytes(), 20);
}

TEST(FileDomains, PartsOfNodesAreTheirOwn) {
  // Four nodes with two aggregators each, every node with a part of its own.
  const Offset part = Offset{3} << 30;
  const FileDomains domains = FileDomains::contiguous(8, 1 << 20, 4096, 0, 4 * part);
  for (int node = 0; node < 4; ++node)
    for (int place = 0; place < 8; ++place) EXPECT_EQ(domains.reaches(node * part, (node + 1) * part, place), place / 2 == node);
}

TEST(FileDomains, UpToTheLargestOffset) {
  constexpr Offset kLast = INT64_MAX - 1;
  const FileDomains kinds[] = {FileDomains::contiguous(3, Offset{1} << 40, 4096, 0, INT64_MAX), FileDomains::contiguous(7, 1, 1, 5, INT64_MAX),
                               FileDomains::contiguous(1000, 4096, 1 << 20, kLast - 1, INT64_MAX), FileDomains::contiguous(2, INT64_MAX, INT64_MAX, 0, INT64_MAX),
                               FileDomains::cyclic(3, Offset{1} << 40, Offset{1} << 40), FileDomains::cyclic(3, 1, 3), FileDomains::cyclic(2, 2, 3),
                               FileDomains::cyclic(5, 1 << 20, Offset{1} << 61), FileDomains::cyclic(4, INT64_MAX, INT64_MAX)};
  for (std::size_t kind = 0; kind < std::size(kinds); ++kind) {
    const FileDomains& domains = kinds[kind];
    for (const Offset offset : {kLast, kLast - 1}) {
      const Offset round = domains.round_of(offset);
      ASSERT_GE(round, 0);
      int owners = 0;
      for (int place = 0; place < domains.aggregators(); ++place) {
        const FileDomains::Range window = domains.window(round, place);
        ASSERT_LE(window.first, window.end);
        const bool owns = offset >= window.first && offset < window.end;
        EXPECT_EQ(domains.next_of(place, offset) == offset, owns) << kind;
        owners += owns ? 1 : 0;
        const FileDomains::Range next = domains.window(round + 1, place);
        EXPECT_TRUE(!owns || next.first > offset) << kind;
      }
      EXPECT_EQ(owners, 1) << kind;
    }
  }
}

TEST(FileDomains, FollowFromTheStore) {
  DomainRules rules{.aggregators = 6, .window_bytes = 1 << 20, .alignment_bytes = 4096};
  const auto domains_now = [&rules] { return domains_for(rules, 0, 6 << 20, 6); };
  // Not striped, or over one device: contiguous.
  for (const Offset stripe_bytes : {0, 65536}) {
    rules.stripe_bytes = stripe_bytes;
    EXPECT_TRUE(domains_now().reaches(5 << 20, 6 << 20, 5));
    EXPECT_FALSE(domains_now().reaches(5 << 20, 6 << 20, 0));
  }
  // Of as many aggregators as each meet the same devices again and again.
  rules.stripe_bytes = 65536;
  const std::pair<int, int> used_of_devices[] = {{2, 6}, {3, 6}, {4, 4}, {5, 5}, {6, 6}, {7, 6}, {8, 4}, {9, 3}, {12, 6}, {13, 6}, {35, 5}};
  for (const auto& [devices, used] : used_of_devices) {
    rules.stripe_count = devices;
    const FileDomains domains = domains_now();
    EXPECT_EQ(domains.aggregators(), used) << devices;
    EXPECT_EQ(domains.window_bytes(), 65536);
    for (Offset stripe = 0; stripe < 40; ++stripe) EXPECT_TRUE(domains.reaches(stripe * 65536, stripe * 65536 + 1, static_cast<int>(stripe % used)));
  }
  rules.asked_for = true;
  EXPECT_EQ(domains_now().aggregators(), 6);
  // Nothing is accessed of what is there.
  rules.stripe_count = 1;
  const FileDomains nothing = domains_for(rules, 9, 9, 6);
  for (int place = 0; place < nothing.aggregators(); ++place) EXPECT_FALSE(nothing.reaches(9, 5000, place));
}

/// Wherever the same access is repeated, an aggregator's part lies in what surrounded it at first.
TEST(FileDomains, MoveWithTheDataWithinTheirSurroundings) {
  for (const Offset alignment : {1, 7, 4096})
    for (const int aggregators : {1, 3, 8})
      for (const Offset first : {0, 5, 9000}) {
        const FileDomains before = FileDomains::contiguous(aggregators, 1 << 20, alignment, first, first + 30011);
        for (const Offset shift : {0, 1, 4095, 4096, 100000}) {
          const FileDomains now = FileDomains::contiguous(aggregators, 1 << 20, alignment, first + shift, first + shift + 30011);
          for (int place = 0; place < aggregators; ++place) {
            const FileDomains::Range known = before.surroundings(place), needed = now.domain(place);
            EXPECT_LE(known.first, std::max(needed.first - shift, first));
            EXPECT_GE(known.end, needed.end - shift);
          }
        }
      }
  const FileDomains cyclic = FileDomains::cyclic(4, 64, 64);
  EXPECT_EQ(cyclic.surroundings(2).first, 0);
  EXPECT_EQ(cyclic.surroundings(2).end, INT64_MAX);
}

TEST(FileDomains, ThoseWhoHaveOneAreEvenlySpread) {
  for (int all = 1; all < 20; ++all)
    for (int used = 1; used <= all; ++used) {
      std::vector<int> places(static_cast<std::size_t>(all), -1);
      int before = -1;
      for (int place = 0; place < used; ++place) {
        const int at = standing(place, used, all);
        ASSERT_GT(at, before);
        ASSERT_LT(at, all);
        ASSERT_TRUE(before < 0 || at - before == all / used || at - before == (all + used - 1) / used);
        places[static_cast<std::size_t>(at)] = place;
        before = at;
      }
      for (int at = 0; at < all; ++at) ASSERT_EQ(place_of(at, used, all), places[static_cast<std::size_t>(at)]) << at << ' ' << used << ' ' << all;
    }
}

}  // namespace
}  // namespace penstock::plan
