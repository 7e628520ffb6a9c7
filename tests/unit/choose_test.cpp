// The choice of strategy, fact by fact.
#include "plan/choose.h"

#include <gtest/gtest.h>

namespace penstock::plan {
namespace {

constexpr StoreFacts kLocal = {.can_map = true, .maps_coherent = true, .node_local = true, .range_locks = true};
constexpr StoreFacts kNetwork = {.can_map = true, .maps_coherent = false, .node_local = false, .range_locks = true};

Pattern pieces(bool write, Offset count, Offset length, Offset distance) {
  return {.write = write, .bytes = count * length, .span_bytes = (count - 1) * distance + length, .pieces = count};
}

hints::Hints with(hints::Strategy strategy) {
  hints::Hints hints;
  hints.strategy = strategy;
  return hints;
}

TEST(Choose, NothingAndOnePieceGoDirectly) {
  for (const bool write : {false, true}) {
    EXPECT_EQ(choose({.write = write}, kLocal, {}, true), Choice::kIndependent);
    EXPECT_EQ(choose(pieces(write, 1, 8, 0), kLocal, {}, true), Choice::kIndependent);
    EXPECT_EQ(choose(pieces(write, 1, 1 << 20, 0), kLocal, {}, true), Choice::kIndependent);
  }
}

TEST(Choose, ManySmallPieces) {
  EXPECT_EQ(choose(pieces(true, 100'000, 8, 16), kLocal, {}, false), Choice::kMapped);
  EXPECT_EQ(choose(pieces(false, 100'000, 8, 16), kLocal, {}, false), Choice::kMapped);
  EXPECT_EQ(choose(pieces(false, 1000, 8, 16), kLocal, {}, false), Choice::kSieved);
  EXPECT_EQ(choose(pieces(false, 100'000, 64, 1024), kLocal, {}, false), Choice::kMapped);
  EXPECT_EQ(choose(pieces(true, 100'000, 8, 16), kNetwork, {}, false), Choice::kIndependent);
  EXPECT_EQ(choose(pieces(false, 100'000, 64, 1024), kNetwork, {}, false), Choice::kSieved);
}

TEST(Choose, FewPiecesAreNotWorthAMapping) {
  EXPECT_EQ(choose(pieces(true, 15, 8, 16), kLocal, {}, false), Choice::kIndependent);
  EXPECT_EQ(choose(pieces(true, 16, 8, 16), kLocal, {}, false), Choice::kMapped);
  EXPECT_EQ(choose(pieces(false, 2, 8, 16), kLocal, {}, false), Choice::kSieved);
}

TEST(Choose, LargeOrDistantPiecesGoDirectly) {
  for (const bool write : {false, true}) {
    EXPECT_EQ(choose(pieces(write, 1000, 65536, 131072), kLocal, {}, true), Choice::kIndependent);
    EXPECT_EQ(choose(pieces(write, 1000, 4096, 8192), kLocal, {}, true), write ? Choice::kMapped : Choice::kIndependent);
    EXPECT_EQ(choose(pieces(write, 1000, 1024, 8192), kLocal, {}, true), Choice::kIndependent);
    EXPECT_EQ(choose(pieces(write, 1000, 8, 8192), kLocal, {}, true), Choice::kIndependent);
    EXPECT_NE(choose(pieces(write, 1000, 512, 1024), kLocal, {}, true), Choice::kIndependent);
  }
}

TEST(Choose, HintsForceWhatIsSafe) {
  for (const bool write : {false, true}) {
    const Pattern small = pieces(write, 1000, 8, 16);
    const Pattern large = pieces(write, 1000, 65536, 131072);
    EXPECT_EQ(choose(small, kLocal, with(hints::Strategy::kIndependent), true), Choice::kIndependent);
    EXPECT_EQ(choose(large, kLocal, with(hints::Strategy::kMapped), false), Choice::kMapped);
    EXPECT_EQ(choose(large, kNetwork, with(hints::Strategy::kMapped), false), Choice::kIndependent);
    EXPECT_EQ(choose(large, kLocal, with(hints::Strategy::kSieved), true), Choice::kSieved);
    EXPECT_EQ(choose(large, kNetwork, with(hints::Strategy::kSieved), true),
              write ? Choice::kIndependent : Choice::kSieved);
  }
  EXPECT_EQ(choose(pieces(true, 1000, 8, 16), kLocal, with(hints::Strategy::kSieved), false), Choice::kIndependent);
}

TEST(Choose, SievingHints) {
  hints::Hints hints;
  hints.sieve_reads = hints::Switch::kEnable;
  hints.sieve_writes = hints::Switch::kEnable;
  EXPECT_EQ(choose(pieces(false, 1000, 8, 8192), kLocal, hints, true), Choice::kSieved);
  EXPECT_EQ(choose(pieces(false, 1, 8, 8), kLocal, hints, true), Choice::kIndependent);
  EXPECT_EQ(choose(pieces(true, 1000, 8, 16), kLocal, hints, true), Choice::kSieved);
  EXPECT_EQ(choose(pieces(true, 1000, 8, 16), kLocal, hints, false), Choice::kMapped);
  hints.sieve_reads = hints::Switch::kDisable;
  hints.sieve_writes = hints::Switch::kDisable;
  EXPECT_EQ(choose(pieces(false, 1000, 8, 16), kLocal, hints, true), Choice::kMapped);
  EXPECT_EQ(choose(pieces(false, 1000, 8, 16), kNetwork, hints, true), Choice::kIndependent);
  EXPECT_EQ(choose(pieces(true, 1000, 8, 16), kLocal, hints, true), Choice::kMapped);
}

TEST(Choose, SievedWritesAreAskedForOnlyWhereTheyCanBeHad) {
  hints::Hints hints;
  EXPECT_FALSE(wants_sieved_writes(kLocal, hints));
  hints.sieve_writes = hints::Switch::kEnable;
  EXPECT_TRUE(wants_sieved_writes(kLocal, hints));
  EXPECT_FALSE(wants_sieved_writes(kNetwork, hints));
  hints.strategy = hints::Strategy::kMapped;
  EXPECT_FALSE(wants_sieved_writes(kLocal, hints));
  EXPECT_TRUE(wants_sieved_writes(kLocal, with(hints::Strategy::kSieved)));
}

}  // namespace
}  // namespace penstock::plan
