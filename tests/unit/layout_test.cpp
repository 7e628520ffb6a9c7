// Layouts: bounds, normal form, limits of 64 bits, and that nothing grows with the number of pieces.  What bytes a type
// touches is compared with the oracle in property/layout_test.
#include "access/layout.h"

#include <gtest/gtest.h>

#include <limits>
#include <numeric>

namespace penstock::access {
namespace {

using Offsets = std::vector<Offset>;
constexpr Offset kMax = std::numeric_limits<Offset>::max();
constexpr Offset kMin = std::numeric_limits<Offset>::min();

Type bytes(Offset size) { return *elementary(size); }

void expect_bounds(const Result<Type>& type, Offset lower_bound, Offset extent) {
  ASSERT_TRUE(type.ok()) << type.status().text();
  EXPECT_EQ(type->lower_bound, lower_bound);
  EXPECT_EQ(type->extent, extent);
}

void expect_type_failure(const Result<Type>& type, const std::string& about) {
  ASSERT_FALSE(type.ok());
  EXPECT_EQ(type.status().code(), Code::kType);
  EXPECT_NE(std::string(type.status().text()).find(about), std::string::npos) << type.status().text();
}

TEST(Bounds, OfTypesWithoutData) {
  expect_bounds(contiguous(0, bytes(4)), 0, 0);
  expect_bounds(hvector(3, 0, 100, bytes(4)), 0, 0);
  expect_bounds(hindexed(Offsets{0, 0}, Offsets{50, -50}, bytes(4)), 0, 0);
  expect_bounds(structure({}, {}, {}), 0, 0);
}

TEST(Bounds, OfSetBoundsWithoutData) {
  const Type hole = *resized(-4, 16, *contiguous(0, bytes(1)));
  expect_bounds(contiguous(3, hole), -4, 48);
  EXPECT_EQ(contiguous(3, hole)->size(), 0);
}

TEST(Bounds, EmptyBlocksDoNotCount) {
  expect_bounds(hindexed(Offsets{0, 2}, Offsets{-1000, 8}, bytes(4)), 8, 8);
}

TEST(Bounds, GoBackwardsWithNegativeStrides) {
  expect_bounds(hvector(3, 2, -10, bytes(4)), -20, 28);
  expect_bounds(contiguous(3, *resized(0, -8, bytes(4))), -16, 8);  // markers at 0, -8, -16 and -8, -16, -24
}

TEST(Bounds, SetOnesHideDerivedOnes) {
  const Type narrow = *resized(1, 2, bytes(8));
  expect_bounds(structure(Offsets{1, 1}, Offsets{0, 100}, std::vector<Type>{narrow, bytes(8)}), 1, 2);
  expect_bounds(structure(Offsets{1, 1}, Offsets{100, 0}, std::vector<Type>{bytes(8), narrow}), 1, 2);
  expect_bounds(structure(Offsets{0, 1}, Offsets{0, 100}, std::vector<Type>{narrow, bytes(8)}), 100, 8);
}

TEST(Bounds, OfArraysAreTheWholeArray) {
  expect_bounds(subarray(Offsets{4, 5}, Offsets{2, 2}, Offsets{1, 1}, Order::kC, bytes(8)), 0, 160);
  const Distribution block = Distribution::kBlock;
  const Offset size = 2, argument = kDefaultDistribution, grid = 4;
  for (int rank = 0; rank < 4; ++rank) {
    const Result<Type> share = darray(4, rank, {&size, 1}, {&block, 1}, {&argument, 1}, {&grid, 1}, Order::kC, bytes(8));
    expect_bounds(share, 0, 16);
    EXPECT_EQ(share->size(), rank < 2 ? 8 : 0);
  }
}

TEST(NormalForm, WhatHasNoGapsIsOneBlock) {
  const Type types[] = {
      *contiguous(6, bytes(4)),
      *hvector(3, 2, 8, bytes(4)),
      *hindexed(Offsets{1, 2, 3}, Offsets{0, 4, 12}, bytes(4)),
      *structure(Offsets{1, 5}, Offsets{0, 4}, std::vector<Type>{bytes(4), *contiguous(1, bytes(4))}),
      *subarray(Offsets{3, 2}, Offsets{3, 2}, Offsets{0, 0}, Order::kC, bytes(4)),
  };
  for (const Type& type : types) {
    EXPECT_EQ(description_size(type.node), 1u);
    EXPECT_TRUE(is_contiguous(tile(type)));
    EXPECT_EQ(pieces_in(tile(type), 0, type.size()), 1);
  }
}

TEST(NormalForm, RegularListsAreLoops) {
  Offsets displacements(100000), lengths(100000, 2);
  for (std::size_t i = 0; i < displacements.size(); ++i) displacements[i] = 5 + 32 * static_cast<Offset>(i);
  EXPECT_EQ(description_size(hindexed(lengths, displacements, bytes(8))->node), 2u);
  EXPECT_EQ(description_size(hindexed_block(1, displacements, *resized(0, 24, bytes(8)))->node), 2u);
  // Rows of rows that continue one another are one loop.
  EXPECT_EQ(description_size(hvector(50, 1, 160, *hvector(10, 1, 16, bytes(8)))->node), 2u);
}

TEST(NormalForm, IrregularListsAreNotExpandedFurther) {
  const Type million = *hvector(1000000, 1, 16, bytes(8));
  const Type type = *hindexed(Offsets{1, 2, 1}, Offsets{0, 20000000, 70000000}, million);
  EXPECT_LT(description_size(type.node), 20u);
  EXPECT_EQ(type.size(), 4 * million.size());
}

TEST(NormalForm, KindsOfElementsStayApart) {
  const Type mixed = *structure(Offsets{1, 1}, Offsets{0, 4},
                                std::vector<Type>{*elementary(4, Element::kSigned), *elementary(4, Element::kFloat)});
  EXPECT_TRUE(is_contiguous(tile(mixed)));
  EXPECT_GT(description_size(mixed.node), 1u);
  const Type same = *contiguous(2, *elementary(4, Element::kFloat));
  EXPECT_EQ(description_size(same.node), 1u);
}

/// A cube of n^3 elements cut out of one of (2n)^3.
Type cube(Offset n) {
  const Offsets sizes(3, 2 * n), subsizes(3, n), starts(3, n / 2);
  return *subarray(sizes, subsizes, starts, Order::kC, *resized(0, 16, bytes(8)));
}

TEST(HugeSubarray, CostsNothingAndAnswersExactly) {
  const Offset n = 10000;  // 10^12 pieces of 8 bytes
  const Type type = cube(n);
  const Tiling view = tile(type, 512);
  EXPECT_LE(description_size(type.node), 4u);
  EXPECT_EQ(type.size(), 8 * n * n * n);
  EXPECT_TRUE(is_monotone(view));
  EXPECT_FALSE(overlaps_itself(view));
  EXPECT_EQ(pieces_in(view, 0, type.size()), n * n * n);
  auto offset = [&](Offset i, Offset j, Offset k) {
    return 512 + 16 * (((i + n / 2) * 2 * n + j + n / 2) * 2 * n + k + n / 2);
  };
  EXPECT_EQ(offset_of(view, 0), offset(0, 0, 0));
  const Offset position = 8 * ((1234 * n + 5678) * n + 9999) + 3;
  EXPECT_EQ(offset_of(view, position), offset(1234, 5678, 9999) + 3);
  EXPECT_EQ(position_of(view, offset(1234, 5678, 9999) + 3), position);
  EXPECT_EQ(position_of(view, offset(1234, 5678, 9999) + 12), position + 5);
  const Bounds bounds = bounds_of(view, 8, type.size() - 8);
  EXPECT_EQ(bounds.first, offset(0, 0, 1));
  EXPECT_EQ(bounds.end, offset(n - 1, n - 1, n - 1) + 8);
  EXPECT_EQ(offset_of(view, type.size() + 1), offset(0, 0, 0) + type.extent + 1);
}

TEST(Overlap, IsExactForIncreasingTypesAndTheirCopies) {
  EXPECT_FALSE(overlaps_itself(tile(*hvector(3, 1, 8, bytes(8)))));
  EXPECT_TRUE(overlaps_itself(tile(*hvector(3, 1, 7, bytes(8)))));
  EXPECT_FALSE(overlaps_itself(tile(*resized(0, 8, bytes(8)))));
  EXPECT_TRUE(overlaps_itself(tile(*resized(0, 7, bytes(8)))));
  EXPECT_TRUE(overlaps_itself(tile(*resized(0, 0, bytes(1)))));
}

TEST(Overlap, OfTransposedOrdersIsFound) {
  // A matrix of 3 by 4 eight-byte elements walked column by column.
  const Type column = *hvector(3, 1, 32, bytes(8));
  const Type transposed = *hvector(4, 1, 8, column);
  EXPECT_FALSE(is_monotone(tile(transposed)));
  EXPECT_FALSE(overlaps_itself(tile(transposed)));
  EXPECT_TRUE(overlaps_itself(tile(*hvector(5, 1, 8, column))));
  EXPECT_FALSE(overlaps_itself(tile(*hindexed(Offsets{1, 1, 1}, Offsets{80, 0, 40}, bytes(8)))));
  EXPECT_TRUE(overlaps_itself(tile(*hindexed(Offsets{1, 1, 1}, Offsets{80, 0, 73}, bytes(8)))));
}

TEST(Monotone, NeedsCopiesThatGoForward) {
  EXPECT_TRUE(is_monotone(tile(*resized(0, 8, bytes(8)))));
  EXPECT_FALSE(is_monotone(tile(*resized(0, -8, bytes(8)))));
  EXPECT_FALSE(is_monotone(tile(*resized(0, 0, bytes(8)))));
  EXPECT_FALSE(is_monotone(tile(*hindexed(Offsets{1, 1}, Offsets{16, 0}, bytes(8)))));
}

TEST(CopyAlone, IsInPlaceAndMonotoneWhereCopiesReachIntoEachOther) {
  const Tiling view = tile(*resized(0, 4, *hindexed(Offsets{1, 1}, Offsets{0, 8}, bytes(4))), 100);
  EXPECT_FALSE(is_monotone(view));
  const Result<Tiling> third = copy_alone(view, 2);
  ASSERT_TRUE(third.ok());
  EXPECT_TRUE(is_monotone(*third));
  EXPECT_FALSE(overlaps_itself(*third));
  for (Offset position = 0; position < 8; ++position)
    EXPECT_EQ(offset_of(*third, position), offset_of(view, 16 + position)) << position;
  EXPECT_EQ(position_of(*third, 116), 4);
  EXPECT_FALSE(is_monotone(*copy_alone(tile(*hindexed(Offsets{1, 1}, Offsets{16, 0}, bytes(8))), 0)));
  EXPECT_FALSE(copy_alone(view, kMax / 4).ok());
  EXPECT_TRUE(is_monotone(*copy_alone(tile(*resized(0, -8, bytes(8)), 64), 3)));
  EXPECT_EQ(offset_of(*copy_alone(tile(*resized(0, -8, bytes(8)), 64), 3), 0), 40);
}

TEST(SixtyFourBits, AreNotExceededSilently) {
  const Type big = bytes(kMax / 2);
  expect_type_failure(contiguous(3, big), "64-bit");
  expect_type_failure(hvector(kMax, 1, kMax, bytes(1)), "64-bit");
  expect_type_failure(hvector(2, 1, kMax, bytes(8)), "64-bit");
  expect_type_failure(hindexed(Offsets{1, 1}, Offsets{kMin, kMax - 8}, bytes(1)), "64-bit");
  expect_type_failure(hindexed(Offsets{1, 2}, Offsets{0, kMax - 1}, bytes(1)), "64-bit");
  expect_type_failure(hindexed(Offsets{1, 1}, Offsets{0, 1}, *hvector(2, 1, kMax - 1, bytes(1))), "64-bit");
  expect_type_failure(hindexed_block(kMax, Offsets{0}, bytes(2)), "64-bit");
  expect_type_failure(structure(Offsets{1, 1}, Offsets{0, kMax}, std::vector<Type>{bytes(1), bytes(2)}), "64-bit");
  expect_type_failure(structure(Offsets{3}, Offsets{0}, std::vector<Type>{big}), "64-bit");
  expect_type_failure(resized(kMax, 1, bytes(1)), "64-bit");
  expect_type_failure(subarray(Offsets{kMax, 2}, Offsets{1, 1}, Offsets{0, 0}, Order::kC, bytes(1)), "64-bit");
  const Offset size = kMax, argument = 1, grid = 1;
  const Distribution cyclic = Distribution::kCyclic;
  expect_type_failure(darray(1, 0, {&size, 1}, {&cyclic, 1}, {&argument, 1}, {&grid, 1}, Order::kC, bytes(2)), "64-bit");
}

TEST(SixtyFourBits, LargestDisplacementsThatFitWork) {
  const Result<Type> type = hindexed(Offsets{1, 1}, Offsets{0, kMax - 1}, bytes(1));
  ASSERT_TRUE(type.ok());
  EXPECT_EQ(type->extent, kMax);
  EXPECT_EQ(offset_of(tile(*type), 1), kMax - 1);
  EXPECT_EQ(position_of(tile(*type), kMax), 2);
}

TEST(SixtyFourBits, AnswersBeyondThemAreTheNearest) {
  const Tiling view = tile(*resized(0, kMax / 2, bytes(1)));
  EXPECT_EQ(offset_of(view, 2), kMax - 1);
  EXPECT_EQ(offset_of(view, 3), kMax);
  EXPECT_EQ(position_of(bytes_at(kMin), kMax), kMax);
  EXPECT_EQ(position_of(bytes_at(kMax), kMin), 0);
}

TEST(Arguments, ThatMakeNoTypeAreRefused) {
  expect_type_failure(elementary(-1), "-1");
  expect_type_failure(contiguous(-1, bytes(1)), "-1");
  expect_type_failure(hvector(-2, 1, 1, bytes(1)), "count is -2");
  expect_type_failure(hvector(1, -3, 1, bytes(1)), "block length is -3");
  expect_type_failure(hindexed(Offsets{1, -4}, Offsets{0, 0}, bytes(1)), "-4");
  expect_type_failure(hindexed(Offsets{1}, Offsets{0, 0}, bytes(1)), "1 block lengths and 2 displacements");
  expect_type_failure(hindexed_block(-1, Offsets{0}, bytes(1)), "-1");
  expect_type_failure(structure(Offsets{-1}, Offsets{0}, std::vector<Type>{bytes(1)}), "-1");
  expect_type_failure(structure(Offsets{1, 1}, Offsets{0, 1}, std::vector<Type>{bytes(1)}), "as many");
  expect_type_failure(subarray(Offsets{4}, Offsets{3}, Offsets{2}, Order::kC, bytes(1)), "not inside of 4");
  expect_type_failure(subarray(Offsets{4}, Offsets{1}, Offsets{-1}, Order::kC, bytes(1)), "not inside of 4");
  expect_type_failure(subarray({}, {}, {}, Order::kC, bytes(1)), "at least one");
}

Result<Type> share_of(int processes, int rank, Offset size, Distribution distribution, Offset argument, Offset grid) {
  return darray(processes, rank, {&size, 1}, {&distribution, 1}, {&argument, 1}, {&grid, 1}, Order::kC, bytes(4));
}

TEST(Arguments, ThatMakeNoDistributedArrayAreRefused) {
  expect_type_failure(share_of(2, 0, 8, Distribution::kBlock, kDefaultDistribution, 3), "rank 0 of 2");
  expect_type_failure(share_of(2, 2, 8, Distribution::kBlock, kDefaultDistribution, 2), "rank 2 of 2");
  expect_type_failure(share_of(2, 0, 8, Distribution::kBlock, 3, 2), "do not cover 8");
  expect_type_failure(share_of(2, 0, 8, Distribution::kCyclic, 0, 2), "argument is 0");
  expect_type_failure(share_of(2, 0, 8, Distribution::kNone, kDefaultDistribution, 2), "must be 1");
  expect_type_failure(share_of(1, 0, -8, Distribution::kNone, kDefaultDistribution, 1), "-8");
  expect_type_failure(share_of(1, 0, 8, Distribution::kBlock, kDefaultDistribution, 0), "size 0");
}

TEST(DistributedArray, HugeCyclicSharesAreSmall) {
  const Result<Type> share = share_of(3, 1, 1000000000000, Distribution::kCyclic, 7, 3);
  ASSERT_TRUE(share.ok());
  EXPECT_LT(description_size(share->node), 8u);
  EXPECT_EQ(offset_of(tile(*share), 4 * 7), 4 * (7 + 21));
  // 10^12 = 47619047619 cycles of 21 and one index more, which is the first rank's.
  EXPECT_EQ(share->size(), Offset{4} * 47619047619 * 7);
  EXPECT_EQ(share_of(3, 0, 1000000000000, Distribution::kCyclic, 7, 3)->size(), Offset{4} * (47619047619 * 7 + 1));
}

TEST(DistributedArray, EnormousBlocksDoNotOverflow) {
  EXPECT_EQ(share_of(2, 0, 5, Distribution::kCyclic, kMax, 2)->size(), 20);
  EXPECT_EQ(share_of(2, 1, 5, Distribution::kCyclic, kMax, 2)->size(), 0);
}

}  // namespace
}  // namespace penstock::access
