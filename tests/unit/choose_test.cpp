// The choice of strategy, fact by fact.
#include "plan/choose.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "model/profile.h"

namespace penstock::plan {
namespace {

using model::Way;

constexpr StoreFacts kLocal = {.can_map = true, .maps_coherent = true, .node_local = true, .range_locks = true};
constexpr StoreFacts kNetwork = {.can_map = true, .maps_coherent = false, .node_local = false, .range_locks = true};

Pattern pieces(bool write, Offset count, Offset length, Offset distance) {
  return {.write = write, .bytes = count * length, .span_bytes = (count - 1) * distance + length, .pieces = count};
}

Setting setting_of(std::string_view profile, int ranks = 1) {
  return {.figures = model::built_in_profile(profile)->figures, .ranks = ranks, .ranks_in_node = ranks, .processors = 2};
}

/// The way with the least predicted seconds, the simpler one of two that are alike.
Way choose(const Pattern& pattern, const StoreFacts& facts, const hints::Hints& hints, bool may_sieve_writes, const Setting& setting = setting_of("tmpfs")) {
  const Estimates ways = estimate(pattern, facts, hints, may_sieve_writes, setting);
  const auto list = ways.list();
  return std::min_element(list.begin(), list.end(), [](const Estimate& a, const Estimate& b) { return a.seconds < b.seconds; })->way;
}

hints::Hints with(hints::Strategy strategy) {
  hints::Hints hints;
  hints.strategy = strategy;
  return hints;
}

TEST(Choose, NothingAndOnePieceGoDirectly) {
  for (const bool write : {false, true}) {
    EXPECT_EQ(choose({.write = write}, kLocal, {}, true), Way::kIndependent);
    EXPECT_EQ(choose(pieces(write, 1, 8, 0), kLocal, {}, true), Way::kIndependent);
    EXPECT_EQ(choose(pieces(write, 1, 1 << 20, 0), kLocal, {}, true), Way::kIndependent);
  }
}

TEST(Choose, ManySmallPieces) {
  EXPECT_EQ(choose(pieces(true, 100'000, 8, 16), kLocal, {}, false), Way::kMapped);
  EXPECT_EQ(choose(pieces(false, 100'000, 8, 16), kLocal, {}, false), Way::kMapped);
  EXPECT_EQ(choose(pieces(false, 1000, 8, 16), kLocal, {}, false), Way::kSieved);
  EXPECT_EQ(choose(pieces(false, 100'000, 64, 1024), kLocal, {}, false), Way::kMapped);
  EXPECT_EQ(choose(pieces(true, 100'000, 8, 16), kNetwork, {}, false), Way::kIndependent);
  EXPECT_EQ(choose(pieces(false, 100'000, 64, 1024), kNetwork, {}, false), Way::kSieved);
}

TEST(Choose, FewPiecesAreNotWorthAMapping) {
  EXPECT_EQ(choose(pieces(true, 5, 8, 16), kLocal, {}, false), Way::kIndependent);
  EXPECT_EQ(choose(pieces(true, 64, 8, 16), kLocal, {}, false), Way::kMapped);
  EXPECT_EQ(choose(pieces(false, 2, 8, 16), kLocal, {}, false), Way::kSieved);
}

TEST(Choose, LargeOrDistantPiecesGoDirectly) {
  for (const bool write : {false, true}) {
    EXPECT_EQ(choose(pieces(write, 1000, 65536, 131072), kLocal, {}, true), Way::kIndependent);
    EXPECT_EQ(choose(pieces(write, 1000, 1024, 8192), kLocal, {}, true), Way::kIndependent);
    EXPECT_EQ(choose(pieces(write, 1000, 8, 8192), kLocal, {}, true), Way::kIndependent);
    EXPECT_NE(choose(pieces(write, 1000, 512, 1024), kLocal, {}, true), Way::kIndependent);
    EXPECT_EQ(choose(pieces(write, 1000, 4096, 8192), kLocal, {}, true), Way::kIndependent);
  }
}

TEST(Choose, RanksThatWouldWaitForOneAnotherInTheFileSystemMapIt) {
  EXPECT_EQ(choose(pieces(true, 1000, 1024, 4096), kLocal, {}, true, setting_of("ssd", 1)), Way::kMapped);
  EXPECT_EQ(choose(pieces(true, 1000, 4096, 8192), kLocal, {}, true, setting_of("tmpfs", 2)), Way::kMapped);
}

TEST(Choose, ASlowDeviceIsReadInOne) {
  EXPECT_EQ(choose(pieces(false, 100, 4096, 65536), kNetwork, {}, false, setting_of("lustre")), Way::kSieved);
  EXPECT_EQ(choose(pieces(false, 4, 4096, Offset{1} << 30), kNetwork, {}, false, setting_of("lustre")), Way::kIndependent);
}

constexpr Offset kMiB = Offset{1} << 20;

Accessed dealt_out(Offset bytes, Offset piece) {
  return {.first = 0, .end = bytes, .bytes = bytes, .pieces = bytes / piece, .team_span = bytes, .rank_span = bytes, .told_bytes = 100};
}

bool gathers(const Accessed& all, bool write, const StoreFacts& facts, const Setting& setting) {
  const Together together = estimate_together(all, write, true, facts, hints::Switch::kAutomatic, setting, {.aggregators = setting.nodes, .window_bytes = kMiB}, 1, setting.nodes);
  return together.gathered.seconds < together.alone.seconds;
}

TEST(Choose, ManyRanksOfANodeGatherSmallPieces) {
  const Setting many = setting_of("tmpfs", 16);
  EXPECT_TRUE(gathers(dealt_out(16 * kMiB, 64), true, kLocal, many));
  EXPECT_FALSE(gathers(dealt_out(64 * kMiB, 4 * kMiB), true, kLocal, many));
  EXPECT_FALSE(gathers(dealt_out(4096, 64), true, kLocal, many));
}

TEST(Choose, NodesGatherWhatADeviceWouldSeekFor) {
  Setting nodes = setting_of("lustre", 64);
  nodes.nodes = 4;
  nodes.ranks_in_node = 16;
  nodes.processors = 16;
  for (const bool write : {false, true}) {
    EXPECT_TRUE(gathers(dealt_out(64 * kMiB, 4096), write, kNetwork, nodes));
    Accessed blocks = dealt_out(64 * 64 * kMiB, 64 * kMiB);
    blocks.rank_span = 64 * kMiB;
    EXPECT_FALSE(gathers(blocks, write, kNetwork, nodes)) << "each rank has one large block";
  }
}

int aggregators(const Accessed& all, bool write, DomainRules rules) {
  Setting nodes = setting_of("lustre", 64);
  nodes.nodes = 32;
  nodes.ranks_in_node = 2;
  return worthwhile_aggregators(all, write, nodes, rules, 1);
}

TEST(Choose, AggregatorsArePlacedAsPaysForThePattern) {
  Setting nodes = setting_of("lustre", 16);
  nodes.nodes = 2;
  nodes.ranks_in_node = nodes.processors = 8;
  const DomainRules few{.aggregators = 2, .window_bytes = kMiB}, many{.aggregators = 8, .window_bytes = kMiB};
  const std::vector<Placing> placings = {{1, few}, {4, many}, {0, many}};
  for (const bool write : {false, true}) {
    const Accessed large = dealt_out(1024 * kMiB, 4096), small = dealt_out(4096, 64);
    const std::size_t best = best_placing(large, write, nodes, placings, 0);
    EXPECT_NE(best, 0U) << "more aggregators make the file system faster, and there are no more than local ones";
    EXPECT_EQ(best_placing(large, write, nodes, placings, best), best);
    EXPECT_EQ(best_placing(small, write, nodes, std::span(placings).first(1), 0), 0U);
    EXPECT_EQ(best_placing({}, write, nodes, placings, 1), 1U) << "nothing is accessed";
    nodes.figures.network_between.startup = 1e-3;
    EXPECT_EQ(best_placing(small, write, nodes, placings, 2), 0U) << "the fewest messages";
    // What is little better is not gone over to.
    nodes.figures = setting_of("lustre", 16).figures;
    const auto seconds_by = [&](std::size_t placing) {
      const DomainRules& rules = placings[placing].rules;
      const int local = placings[placing].local_per_node;
      return estimate_together(small, write, true, {}, hints::Switch::kAutomatic, nodes, rules, local, worthwhile_aggregators(small, write, nodes, rules, local)).gathered.seconds;
    };
    for (std::size_t present = 0; present < placings.size(); ++present) {
      const std::size_t chosen = best_placing(small, write, nodes, placings, present);
      EXPECT_TRUE(chosen == present || seconds_by(chosen) < Experience::kHysteresis * seconds_by(present)) << present;
    }
  }
}

TEST(Choose, AsManyAggregatorsTakePartAsPay) {
  DomainRules rules{.aggregators = 32, .window_bytes = kMiB};
  for (const bool write : {false, true}) {
    EXPECT_GE(aggregators(dealt_out(1024 * kMiB, 4096), write, rules), 8) << "so many make the file system faster";
    EXPECT_EQ(aggregators(dealt_out(4096, 64), write, rules), 1) << "messages cost more than bytes";
    const int some = aggregators(dealt_out(4 * kMiB, 4096), write, rules);
    EXPECT_GT(some, 1);
    EXPECT_LE(some, 32);
    EXPECT_EQ(aggregators({}, write, rules), 32) << "nothing is accessed";
  }
  rules.asked_for = true;
  EXPECT_EQ(aggregators(dealt_out(4096, 64), true, rules), 32);
  rules = {.aggregators = 32, .stripe_bytes = kMiB, .stripe_count = 8};
  EXPECT_EQ(aggregators(dealt_out(4096, 64), true, rules), 32) << "those follow from the stripes";
}

TEST(Choose, RanksThatReadAloneSieveAsHintsPermit) {
  Accessed all;
  all.first = 0;
  all.end = all.rank_span = kMiB;
  all.bytes = kMiB;
  all.pieces = 4096;
  all.told_bytes = 100;
  Setting setting = setting_of("hdd", 4);
  setting.figures.file.cached = 0;
  const auto alone = [&](hints::Switch sieve_reads, bool write) {
    return estimate_together(all, write, true, {}, sieve_reads, setting, {.aggregators = 1, .window_bytes = kMiB}, 1, 1).alone.way;
  };
  EXPECT_EQ(alone(hints::Switch::kAutomatic, false), Way::kSieved) << "256 bytes here and there, of a disk";
  EXPECT_EQ(alone(hints::Switch::kDisable, false), Way::kIndependent);
  EXPECT_EQ(alone(hints::Switch::kAutomatic, true), Way::kIndependent);
  all.pieces = 4;
  all.rank_span = kMiB / 4;
  setting.figures.storage_read.device_random_call = 0;
  EXPECT_EQ(alone(hints::Switch::kEnable, false), Way::kSieved) << "asked for, whatever it takes";
}

TEST(Choose, HintsForceWhatIsSafe) {
  for (const bool write : {false, true}) {
    const Pattern small = pieces(write, 1000, 8, 16);
    const Pattern large = pieces(write, 1000, 65536, 131072);
    EXPECT_EQ(choose(small, kLocal, with(hints::Strategy::kIndependent), true), Way::kIndependent);
    EXPECT_EQ(choose(large, kLocal, with(hints::Strategy::kMapped), false), Way::kMapped);
    EXPECT_EQ(choose(large, kNetwork, with(hints::Strategy::kMapped), false), Way::kIndependent);
    EXPECT_EQ(choose(large, kLocal, with(hints::Strategy::kSieved), true), Way::kSieved);
    EXPECT_EQ(choose(large, kNetwork, with(hints::Strategy::kSieved), true),
              write ? Way::kIndependent : Way::kSieved);
  }
  EXPECT_EQ(choose(pieces(true, 1000, 8, 16), kLocal, with(hints::Strategy::kSieved), false), Way::kIndependent);
}

TEST(Choose, SievingHints) {
  hints::Hints hints;
  hints.sieve_reads = hints::Switch::kEnable;
  hints.sieve_writes = hints::Switch::kEnable;
  EXPECT_EQ(choose(pieces(false, 1000, 8, 8192), kLocal, hints, true), Way::kSieved);
  EXPECT_EQ(choose(pieces(false, 1, 8, 8), kLocal, hints, true), Way::kIndependent);
  EXPECT_EQ(choose(pieces(true, 1000, 8, 16), kLocal, hints, true), Way::kSieved);
  EXPECT_EQ(choose(pieces(true, 1000, 8, 16), kLocal, hints, false), Way::kMapped);
  hints.sieve_reads = hints::Switch::kDisable;
  hints.sieve_writes = hints::Switch::kDisable;
  EXPECT_EQ(choose(pieces(false, 1000, 8, 16), kLocal, hints, true), Way::kMapped);
  EXPECT_EQ(choose(pieces(false, 1000, 8, 16), kNetwork, hints, true), Way::kIndependent);
  EXPECT_EQ(choose(pieces(true, 1000, 8, 16), kLocal, hints, true), Way::kMapped);
}

TEST(Choose, SievedWritesAreAskedForOnlyWhereTheyCanBeHad) {
  hints::Hints hints;
  EXPECT_FALSE(wants_sieved_writes(kLocal, hints));
  hints.sieve_writes = hints::Switch::kEnable;
  EXPECT_TRUE(wants_sieved_writes(kLocal, hints));
  EXPECT_FALSE(wants_sieved_writes(kNetwork, hints));
  // Whoever writes otherwise never sieves, and should not have to lock what he writes.
  for (const hints::Strategy strategy : {hints::Strategy::kIndependent, hints::Strategy::kMapped}) {
    hints.strategy = strategy;
    EXPECT_FALSE(wants_sieved_writes(kLocal, hints));
  }
  // These are about collective calls; a rank's own writes are sieved all the same.
  for (const hints::Strategy strategy : {hints::Strategy::kTwoPhase, hints::Strategy::kTwoLayer}) {
    hints.strategy = strategy;
    EXPECT_TRUE(wants_sieved_writes(kLocal, hints));
    EXPECT_EQ(choose(pieces(true, 1000, 8, 16), kLocal, hints, true), Way::kSieved);
  }
  EXPECT_TRUE(wants_sieved_writes(kLocal, with(hints::Strategy::kSieved)));
}

}  // namespace
}  // namespace penstock::plan
