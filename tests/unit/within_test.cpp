// Where members lie in merged data: in few steps where the pattern is regular, never in wrong places.
// Which bytes they are is in property/merge_test.
#include "access/within.h"

#include <gtest/gtest.h>

namespace penstock::access {
namespace {

using Offsets = std::vector<Offset>;
constexpr Offset kMany = 1000000000;

Type bytes(Offset size) { return *elementary(size); }

Claim all_of(const Type& type, Offset displacement = 0) { return {tile(type, displacement), 0, type.size()}; }

Claim every(Offset stride, Offset offset, Offset length, Offset count) {
  return {tile(*resized(0, stride, bytes(length)), offset), 0, length * count};
}

std::vector<PackedStep> steps_of(const Claim& whole, const Claim& member, Offset from, Offset to) {
  Within within(whole, member, from, to);
  std::vector<PackedStep> steps;
  PackedStep step;
  for (;;) {
    const Result<bool> more = within.next(step);
    EXPECT_TRUE(more.ok()) << more.status().text();
    if (!more.ok() || !*more) return steps;
    steps.push_back(step);
  }
}

std::vector<PackedStep> steps_of(const Claim& whole, const Claim& member) { return steps_of(whole, member, 0, member.bytes); }

void expect_step(const PackedStep& step, Offset whole_position, Offset whole_stride, Offset member_position, Offset length,
                 Offset count) {
  EXPECT_EQ(step.whole_position, whole_position);
  EXPECT_EQ(step.member_position, member_position);
  EXPECT_EQ(step.length, length);
  EXPECT_EQ(step.count, count);
  if (count > 1) {
    EXPECT_EQ(step.whole_stride, whole_stride);
  }
}

TEST(Within, PiecesOfADenseWholeAreOneStep) {
  const auto steps = steps_of({bytes_at(100), 0, 32 * kMany}, every(32, 108, 8, kMany));
  ASSERT_EQ(steps.size(), 1u);
  expect_step(steps[0], 8, 32, 0, 8, kMany);
}

TEST(Within, PiecesOfAStridedWholeAreOneStep) {
  // 24 bytes of every 40 are reached, the middle 8 of them by this member.
  const auto steps = steps_of(every(40, 0, 24, kMany), every(40, 8, 8, kMany));
  ASSERT_EQ(steps.size(), 1u);
  expect_step(steps[0], 8, 24, 0, 8, kMany);
}

TEST(Within, EveryThirdPieceOfAStridedWholeIsOneStep) {
  const auto steps = steps_of(every(10, 0, 6, 3 * kMany), every(30, 12, 4, kMany));
  ASSERT_EQ(steps.size(), 1u);
  expect_step(steps[0], 8, 18, 0, 4, kMany);
}

TEST(Within, SeveralPiecesInEachPieceOfTheWholeAreAStepForEach) {
  const auto steps = steps_of(every(100, 0, 40, 3), {tile(*resized(0, 100, *hvector(5, 1, 8, bytes(4)))), 0, 60});
  ASSERT_EQ(steps.size(), 3u);
  expect_step(steps[1], 40, 8, 20, 4, 5);
}

TEST(Within, PiecesThatLieAlikeInAnOuterLoopAreOneStep) {
  // One column of a block of an array: from row to row, and from row to row of the next plane.
  const Offsets sizes = {100, 100, 100};
  const Claim block = all_of(*subarray(sizes, Offsets{100, 50, 50}, Offsets{0, 0, 0}, Order::kC, bytes(8)));
  const Claim line = all_of(*subarray(sizes, Offsets{100, 1, 1}, Offsets{0, 7, 9}, Order::kC, bytes(8)));
  const auto steps = steps_of(block, line);
  ASSERT_EQ(steps.size(), 1u);
  expect_step(steps[0], (7 * 50 + 9) * 8, 50 * 50 * 8, 0, 8, 100);
}

TEST(Within, APartOfAMemberBeginsWhereItIsAskedTo) {
  const auto steps = steps_of(every(40, 0, 24, kMany), every(40, 8, 8, kMany), 8 * 1000 + 3, 8 * 5000 + 2);
  ASSERT_EQ(steps.size(), 3u);
  expect_step(steps[0], 24 * 1000 + 11, 0, 8003, 5, 1);
  expect_step(steps[1], 24 * 1001 + 8, 24, 8008, 8, 3999);
  expect_step(steps[2], 24 * 5000 + 8, 0, 40000, 2, 1);
  EXPECT_TRUE(steps_of(every(40, 0, 24, kMany), every(40, 8, 8, kMany), 800, 800).empty());
}

TEST(Within, APieceOverPiecesOfTheWholeThatAbutIsOneStep) {
  // The last block of each copy abuts the first of the next.
  const Claim whole{tile(*resized(0, 10, *hindexed(Offsets{3, 3}, Offsets{0, 7}, bytes(1)))), 0, 600};
  const auto steps = steps_of(whole, {bytes_at(18), 0, 4});
  ASSERT_EQ(steps.size(), 1u);
  expect_step(steps[0], 10, 0, 0, 4, 1);
}

TEST(Within, PositionsCountFromWhereTheClaimsBegin) {
  const Claim whole{tile(*resized(0, 40, bytes(24))), 24 * 10 + 4, 24 * 100};
  const auto steps = steps_of(whole, {tile(*resized(0, 40, bytes(24))), 24 * 20, 240});
  ASSERT_EQ(steps.size(), 1u);
  expect_step(steps[0], 24 * 10 - 4, 24, 0, 24, 10);
}

void expect_refused(const Claim& whole, const Claim& member) {
  Within within(whole, member, 0, member.bytes);
  PackedStep step;
  const Result<bool> more = within.next(step);
  ASSERT_FALSE(more.ok());
  EXPECT_EQ(more.status().code(), Code::kIntern);
}

TEST(Within, WhatIsNotInTheWholeIsRefused) {
  const Claim whole{every(40, 0, 24, kMany).tiling, 24, 2400};
  expect_refused(whole, {bytes_at(0), 0, 24});           // before its data
  expect_refused(whole, {bytes_at(-40), 0, 24});         // before its tiling
  expect_refused(whole, {bytes_at(40 + 20), 0, 8});      // a piece that ends in a gap
  expect_refused(whole, {bytes_at(40 + 30), 0, 8});      // in a gap
  expect_refused(whole, {bytes_at(40 + 20), 0, 30});     // over a gap
  expect_refused(whole, {bytes_at(4040), 0, 8});         // behind its data
  expect_refused(whole, every(40, 44, 8, 101));          // the last piece is behind its data
  expect_refused({bytes_at(0), 0, 0}, {bytes_at(0), 0, 8});
}

TEST(Within, AWholeThatReachesBytesTwiceIsRefused) {
  expect_refused({tile(*resized(0, 4, bytes(8))), 0, 80}, {bytes_at(0), 0, 8});
}

}  // namespace
}  // namespace penstock::access
