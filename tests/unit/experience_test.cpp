// What is learned from measured times, and what that may cost.
#include "plan/experience.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <random>

namespace penstock::plan {
namespace {

using model::Way;

const Signature kOne = signature_of(true, false, 1 << 20, 1 << 10, 1 << 21);

/// Goes on for `calls`, each way taking what `truth` says.
struct Program {
  Experience experience;
  std::array<Estimate, 2> estimates{Estimate{Way::kIndependent, 1e-3}, Estimate{Way::kMapped, 2e-3}};
  std::array<int, 2> taken{};
  double spent = 0, spent_best = 0;
  int switches = 0;
  std::size_t last = 0;

  void go(int calls, const std::function<double(std::size_t)>& truth) {
    for (int call = 0; call < calls; ++call) {
      const Experience::Decision decision = experience.decide(kOne, estimates);
      const double seconds = truth(decision.place);
      experience.note(kOne, estimates[decision.place], seconds, decision.tried);
      ++taken[decision.place];
      spent += seconds;
      spent_best += std::min(truth(0), truth(1));
      if (!decision.tried && decision.place != last) ++switches;
      if (!decision.tried) last = decision.place;
    }
  }
};

TEST(Experience, SizesAreTheSameByTheirPowersOfTwo) {
  EXPECT_EQ(signature_of(true, false, 1 << 20, 1 << 10, 1 << 21), signature_of(true, false, (1 << 20) + 5, 1 << 10, (1 << 21) + 7));
  EXPECT_NE(kOne, signature_of(false, false, 1 << 20, 1 << 10, 1 << 21));
  EXPECT_NE(kOne, signature_of(true, true, 1 << 20, 1 << 10, 1 << 21));
  EXPECT_NE(kOne, signature_of(true, false, 1 << 22, 1 << 12, 1 << 23));
  EXPECT_EQ(signature_of(true, false, 0, 0, 0), signature_of(true, false, 0, 1, 0));
}

TEST(Experience, WithoutMeasurementsTheLeastPredictedIsTaken) {
  Experience experience;
  const std::array<Estimate, 3> estimates{Estimate{Way::kIndependent, 3}, Estimate{Way::kMapped, 2}, Estimate{Way::kSieved, 2}};
  const Experience::Decision decision = experience.decide(kOne, estimates);
  EXPECT_EQ(decision.place, 1U) << "of equal ones the simpler";
  EXPECT_FALSE(decision.tried);
}

TEST(Experience, AWrongPredictionIsFoundOutByATryAndFollowedFromThen) {
  Program run;
  run.go(1000, [](std::size_t way) { return way == 0 ? 1e-3 : 0.5e-3; });
  EXPECT_EQ(run.last, 1U);
  EXPECT_EQ(run.switches, 1);
  EXPECT_GT(run.taken[1], 800);
}

TEST(Experience, TriesCostNoMoreThanTheirShare) {
  for (const double other : {1.1e-3, 2e-3, 3.9e-3}) {
    Program run;
    run.estimates[1].seconds = other;
    run.go(5000, [&](std::size_t way) { return way == 0 ? 1e-3 : other; });
    EXPECT_EQ(run.last, 0U);
    EXPECT_GE(run.taken[1], 1);
    EXPECT_LE(run.spent / run.spent_best, 1 + Experience::kTriesMost) << other;
  }
  Program hopeless;
  hopeless.estimates[1].seconds = 1;
  hopeless.go(5000, [](std::size_t way) { return way == 0 ? 1e-3 : 1; });
  EXPECT_EQ(hopeless.taken[1], 0);
}

TEST(Experience, NothingIsTriedInAShortRun) {
  Program run;
  run.go(20, [](std::size_t) { return 1e-3; });
  EXPECT_EQ(run.taken[1], 0);
}

TEST(Experience, TwoThatAreAlikeDoNotTakeTurns) {
  Program run;
  run.estimates[1].seconds = 1.01e-3;
  std::mt19937 random(7);
  std::uniform_real_distribution<double> noise(0.97, 1.03);
  run.go(5000, [&](std::size_t) { return 1e-3 * noise(random); });
  EXPECT_LE(run.switches, 1);
}

TEST(Experience, OneSlowCallChangesNothing) {
  Program run;
  run.go(400, [](std::size_t way) { return way == 0 ? 1e-3 : 1.5e-3; });
  ASSERT_EQ(run.last, 0U);
  run.go(1, [](std::size_t) { return 1.0; });
  run.go(1, [](std::size_t way) { return way == 0 ? 1e-3 : 1.5e-3; });
  EXPECT_EQ(run.last, 0U);
  EXPECT_EQ(run.switches, 0);
}

TEST(Experience, FollowsAMachineThatChanges) {
  Program run;
  run.go(1000, [](std::size_t way) { return way == 0 ? 1e-3 : 1.5e-3; });
  EXPECT_EQ(run.last, 0U);
  run.go(20, [](std::size_t way) { return way == 0 ? 5e-3 : 1.5e-3; });
  EXPECT_EQ(run.last, 1U);
}

TEST(Experience, CorrectionsAreBounded) {
  Experience experience;
  const std::array<Estimate, 1> one{Estimate{Way::kIndependent, 1e-6}};
  for (int i = 0; i < 3; ++i) experience.note(kOne, one[0], 1e3, false);
  (void)experience.decide(kOne, one);
  EXPECT_DOUBLE_EQ(experience.known()[0].expected, 1e-6 * Experience::kCorrectionMost);
  experience.note(kOne, one[0], std::nan(""), false);
  experience.note(kOne, one[0], -1, false);
  experience.note(kOne, {Way::kIndependent, 0}, 1, false);
  (void)experience.decide(kOne, one);
  EXPECT_DOUBLE_EQ(experience.known()[0].expected, 1e-6 * Experience::kCorrectionMost);
}

TEST(Experience, KeepsTheSignaturesUsedLast) {
  Experience experience;
  const std::array<Estimate, 1> one{Estimate{Way::kIndependent, 1}};
  for (int i = 0; i < 20; ++i) (void)experience.decide(signature_of(true, false, Offset{1} << i, 1, 1), one);
  ASSERT_EQ(experience.known().size(), Experience::kKept);
  EXPECT_EQ(experience.known()[0].signature, signature_of(true, false, Offset{1} << 19, 1, 1));
}

TEST(Experience, RecallsWhatCanBe) {
  Program first;
  first.go(1000, [](std::size_t way) { return way == 0 ? 1e-3 : 0.5e-3; });
  Program second;
  second.experience.recall(first.experience.known());
  second.go(1, [](std::size_t) { return 1e-3; });
  EXPECT_EQ(second.last, 1U) << "without asking anew";

  Experience::Known bad{.signature = kOne};
  bad.ratios[0] = {NAN, 1e30F, -1};
  bad.current = 99;
  Experience experience;
  experience.recall({&bad, 1});
  EXPECT_EQ(experience.decide(kOne, first.estimates).place, 0U);
}

TEST(Experience, TheFirstAccessThatPreparesForOthersIsLeftOut) {
  Experience experience;
  Signature other = kOne;
  other.write = !other.write;
  EXPECT_TRUE(experience.only_prepares(kOne));
  EXPECT_FALSE(experience.only_prepares(kOne)) << "it is what such accesses take";
  EXPECT_TRUE(experience.only_prepares(other));
  Experience next;
  next.recall(experience.known());
  EXPECT_FALSE(next.only_prepares(kOne)) << "also in the next file";
}

}  // namespace
}  // namespace penstock::plan
