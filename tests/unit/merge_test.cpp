// Merging claims: the patterns of real programs collapse, at a cost that does not know how many pieces there are.
// Which bytes they are is in property/merge_test.
#include "access/merge.h"

#include <gtest/gtest.h>

#include <limits>

namespace penstock::access {
namespace {

using Offsets = std::vector<Offset>;
constexpr Offset kMany = 1000000000;

Type bytes(Offset size) { return *elementary(size); }

Claim all_of(const Type& type, Offset displacement = 0) { return {tile(type, displacement), 0, type.size()}; }

/// The one whole that all claims are in; a claim without bytes, and a failure, where there is not one.
Claim only_whole(const std::vector<Claim>& claims) {
  const Coalesced result = coalesce(claims);
  EXPECT_EQ(result.wholes.size(), 1u);
  for (const std::size_t whole : result.whole_of) EXPECT_EQ(whole, 0u);
  return result.wholes.size() == 1 ? result.wholes[0] : Claim{bytes_at(0), 0, 0};
}

void expect_dense(const std::vector<Claim>& claims, Offset offset, Offset size) {
  const Claim whole = only_whole(claims);
  EXPECT_EQ(whole.bytes, size);
  EXPECT_TRUE(is_contiguous(whole.tiling));
  EXPECT_EQ(offset_of(whole.tiling, 0), offset);
}

/// What every rank of a grid of processes has of an array, block by block; the last of a dimension may be smaller.
std::vector<Claim> block_distribution(const Offsets& sizes, const Offsets& grid, Order order, Offset element_size) {
  std::vector<Claim> claims;
  Offset ranks = 1;
  for (const Offset processes : grid) ranks *= processes;
  for (Offset rank = 0; rank < ranks; ++rank) {
    Offsets subsizes(sizes.size()), starts(sizes.size());
    Offset rest = rank;
    for (std::size_t i = sizes.size(); i-- > 0; rest /= grid[i]) {
      const Offset block = (sizes[i] + grid[i] - 1) / grid[i];
      starts[i] = rest % grid[i] * block;
      subsizes[i] = std::min(block, sizes[i] - starts[i]);
    }
    claims.push_back(all_of(*subarray(sizes, subsizes, starts, order, bytes(element_size))));
  }
  return claims;
}

Offset product(const Offsets& sizes) {
  Offset result = 1;
  for (const Offset size : sizes) result *= size;
  return result;
}

TEST(Coalesce, PiecesOfAllRanksInTurnAreOneRange) {
  constexpr Offset kRanks = 16;
  std::vector<Claim> claims;
  for (Offset rank = 0; rank < kRanks; ++rank)
    claims.push_back({tile(*resized(0, 8 * kRanks, bytes(8)), 100 + 8 * rank), 0, 8 * kMany});
  expect_dense(claims, 100, 8 * kMany * kRanks);
  std::reverse(claims.begin(), claims.end());
  expect_dense(claims, 100, 8 * kMany * kRanks);
}

TEST(Coalesce, PiecesInTurnWithAGapAreOneVector) {
  std::vector<Claim> claims;
  for (Offset rank = 0; rank < 3; ++rank) claims.push_back({tile(*resized(0, 32, bytes(8)), 8 * rank), 0, 8 * kMany});
  const Claim whole = only_whole(claims);
  EXPECT_EQ(whole.bytes, 24 * kMany);
  EXPECT_LE(description_size(whole.tiling.node), 2u);
  EXPECT_EQ(offset_of(whole.tiling, 24), 32);
}

TEST(Coalesce, ALastRoundThatNotAllRanksHaveIsOneRangeToo) {
  for (Offset with_one_more = 0; with_one_more <= 5; ++with_one_more) {
    std::vector<Claim> claims;
    for (Offset rank = 0; rank < 5; ++rank)
      claims.push_back({tile(*resized(0, 40, bytes(8)), 8 * rank), 0, 8 * (kMany + (rank < with_one_more ? 1 : 0))});
    expect_dense(claims, 0, 8 * (5 * kMany + with_one_more));
  }
}

TEST(Coalesce, SegmentsThatFollowOneAnotherAreOneRange) {
  std::vector<Claim> claims;
  for (Offset rank = 9; rank >= 0; --rank) claims.push_back({bytes_at(0), rank * kMany, kMany});
  expect_dense(claims, 0, 10 * kMany);
}

TEST(Coalesce, ACallThatGoesOnInTheMiddleOfAViewIsOneRange) {
  // Positions that begin and end within copies of the filetype, even within its blocks.
  const Type block = *hvector(4, 1, 16, bytes(8));
  std::vector<Claim> claims;
  for (Offset rank = 0; rank < 2; ++rank)
    claims.push_back({tile(*resized(0, 64, block), 8 * rank), 8, 8 * kMany + 24});
  expect_dense(claims, 16, 16 * kMany + 48);
  claims[0] = {claims[0].tiling, 3, 8 * kMany};
  claims[1] = {claims[1].tiling, 0, 8 * kMany};
  expect_dense(claims, 3, 16 * kMany);
}

TEST(Coalesce, BlocksOfAnArrayAreTheArray) {
  for (const Order order : {Order::kC, Order::kFortran})
    for (const Offset n : {2, 4, 5, 7, 1000}) {
      expect_dense(block_distribution({n, n, n}, {2, 2, 2}, order, 8), 0, 8 * n * n * n);
      expect_dense(block_distribution({n, n + 6}, {2, 3}, order, 4), 0, 4 * n * (n + 6));
    }
}

TEST(Coalesce, BlocksOfAnArrayWithComponentsAreTheArray) {
  const Offsets grid_first = {2, 2, 2, 1}, grid_last = {1, 2, 2, 2};
  const Offsets components_last = {200, 100, 50, 11}, components_first = {11, 50, 100, 201};
  for (const Order order : {Order::kC, Order::kFortran}) {
    expect_dense(block_distribution(components_last, grid_first, order, 8), 0, 8 * product(components_last));
    expect_dense(block_distribution(components_first, grid_last, order, 8), 0, 8 * product(components_first));
  }
}

TEST(Coalesce, BlocksOfSomeRanksOfAnArrayAreOneOfTheArraysOwnPatterns) {
  // The ranks of one node, each with a block of the inner planes: half of the array in its slowest dimension but one.
  std::vector<Claim> claims = block_distribution({1000, 1000, 1000}, {2, 2, 2}, Order::kC, 8);
  const Claim half = only_whole({claims[0], claims[1], claims[4], claims[5]});
  EXPECT_EQ(half.bytes, Offset{1000} * 500 * 1000 * 8);
  EXPECT_LE(description_size(half.tiling.node), 2u);
}

/// The claims of all ranks of a distributed array.
std::vector<Claim> distribution(const Offsets& sizes, const std::vector<Distribution>& kinds, const Offsets& arguments,
                                const Offsets& grid, Order order) {
  std::vector<Claim> claims;
  for (int rank = 0; rank < product(grid); ++rank) {
    const Type type = *darray(static_cast<int>(product(grid)), rank, sizes, kinds, arguments, grid, order, bytes(8));
    if (type.size() > 0) claims.push_back(all_of(type));
  }
  return claims;
}

TEST(Coalesce, CyclicDistributionsAreTheArray) {
  constexpr Distribution kCyclic = Distribution::kCyclic, kBlock = Distribution::kBlock;
  for (Offset size = 1; size < 40; ++size)
    for (Offset block = 1; block < 5; ++block)
      expect_dense(distribution({size}, {kCyclic}, {block}, {3}, Order::kC), 0, 8 * size);
  for (const Order order : {Order::kC, Order::kFortran})
    for (Offset size = 6; size < 24; ++size) {
      expect_dense(distribution({size, size + 1}, {kCyclic, kCyclic}, {2, 3}, {2, 2}, order), 0, 8 * size * (size + 1));
      expect_dense(distribution({size, 9, 10}, {kCyclic, kBlock, kCyclic}, {1, -1, 2}, {2, 2, 3}, order), 0, 8 * 90 * size);
    }
}

TEST(Coalesce, ACyclicDistributionOfAHugeArrayIsTheArray) {
  constexpr Distribution kCyclic = Distribution::kCyclic;
  constexpr Offset kSide = 1000003;
  for (const Order order : {Order::kC, Order::kFortran})
    expect_dense(distribution({kSide, kSide}, {kCyclic, kCyclic}, {7, 5}, {3, 4}, order), 0, 8 * kSide * kSide);
}

/// Cells of a cube that lie on shifted diagonals, as solvers for block-tridiagonal systems have them: cell c of rank (i, j) is at
/// (i + c, j - c, c).
std::vector<Claim> diagonal_cells(Offset side, Offset cell) {
  std::vector<Claim> claims;
  const Offset n = side * cell;
  for (Offset rank = 0; rank < side * side; ++rank) {
    std::vector<Type> cells;
    for (Offset c = 0; c < side; ++c) {
      const Offset x = (rank / side + c) % side, y = (rank % side + side - c) % side;
      cells.push_back(*subarray(Offsets{n, n, n}, Offsets{cell, cell, cell}, Offsets{c * cell, y * cell, x * cell}, Order::kC, bytes(40)));
    }
    claims.push_back(all_of(*structure(Offsets(cells.size(), 1), Offsets(cells.size(), 0), cells)));
  }
  return claims;
}

TEST(Coalesce, CellsOnShiftedDiagonalsAreTheCube) {
  for (const Offset side : {2, 3, 4, 9}) expect_dense(diagonal_cells(side, 12), 0, 40 * 12 * 12 * 12 * side * side * side);
}

TEST(Coalesce, StridesThatDivideOneAnotherAreJoined) {
  // Every second piece is one rank's, the others are two ranks' in turn.
  const auto every = [](Offset stride, Offset offset, Offset count) {
    return Claim{tile(*resized(0, stride, bytes(8)), offset), 0, 8 * count};
  };
  expect_dense({every(16, 0, 2 * kMany), every(32, 8, kMany), every(32, 24, kMany)}, 0, 32 * kMany);
}

TEST(Coalesce, AListFillsTheGapsOfAnother) {
  const Type one = *hindexed(Offsets{8, 8, 16}, Offsets{0, 100, 300}, bytes(1));
  const Type other = *hindexed(Offsets{92, 192, 4}, Offsets{8, 108, 316}, bytes(1));
  expect_dense({all_of(other), all_of(one)}, 0, 320);
}

TEST(Coalesce, EqualPatternsAtEqualDistancesAreALoop) {
  std::vector<Claim> claims;
  for (Offset rank = 0; rank < 100; ++rank) claims.push_back({tile(*resized(0, 16, bytes(8)), rank * 16 * kMany * 2), 0, 8 * kMany});
  const Claim whole = only_whole(claims);
  EXPECT_EQ(whole.bytes, 800 * kMany);
  EXPECT_LE(description_size(whole.tiling.node), 3u);
}

TEST(Coalesce, WhatHasNoPatternInCommonStaysApart) {
  const Coalesced result = coalesce({{bytes_at(0), 0, 10}, {bytes_at(20), 0, 5}, {bytes_at(5000), 0, 10}});
  EXPECT_EQ(result.wholes.size(), 3u);
}

TEST(Coalesce, ClaimsThatShareBytesStayApart) {
  const Claim pieces{tile(*resized(0, 16, bytes(8))), 0, 8 * kMany};
  Coalesced result = coalesce({pieces, pieces});
  EXPECT_EQ(result.wholes.size(), 2u);
  result = coalesce({pieces, {bytes_at(16 * kMany / 2 + 7), 0, 2}});
  EXPECT_EQ(result.wholes.size(), 2u);
  result = coalesce({{bytes_at(0), 0, 10}, {bytes_at(9), 0, 10}, {bytes_at(10), 0, 9}});
  EXPECT_NE(result.whole_of[0], result.whole_of[1]);
  EXPECT_NE(result.whole_of[2], result.whole_of[1]);
}

TEST(Coalesce, AClaimOfItsOwnIsInNormalForm) {
  expect_dense({{tile(*resized(0, 100, bytes(50))), 75, 20}}, 125, 20);
  expect_dense({{tile(*contiguous(kMany, bytes(3)), 7), 5, 1}}, 12, 1);
  // Elements of two kinds that abut are one range of bytes.
  const Type mixed = *structure(Offsets{1, 1}, Offsets{0, 4}, std::vector<Type>{*elementary(4, Element::kSigned), *elementary(4, Element::kFloat)});
  expect_dense({{tile(mixed), 0, 8 * kMany}}, 0, 8 * kMany);
}

TEST(Coalesce, ClaimsWithoutBytesAreInNoWhole) {
  const Coalesced result = coalesce({{bytes_at(0), 3, 0}, {bytes_at(0), 0, 4}, {tile(*contiguous(0, bytes(1))), 0, 0}});
  EXPECT_EQ(result.wholes.size(), 1u);
  EXPECT_EQ(result.whole_of, (std::vector<std::size_t>{Coalesced::kNone, 0, Coalesced::kNone}));
  EXPECT_TRUE(coalesce({}).wholes.empty());
}

TEST(Coalesce, AClaimThatOutgrows64BitsComesBackAsItWas) {
  constexpr Offset kLast = std::numeric_limits<Offset>::max();
  const Claim beyond{tile(*resized(0, kLast / 2, bytes(8))), 0, 80};
  const Coalesced result = coalesce({beyond, {bytes_at(8), 0, 8}, {bytes_at(16), 0, 8}});
  ASSERT_EQ(result.wholes.size(), 2u);
  EXPECT_EQ(result.whole_of[1], result.whole_of[2]);
  const Claim& same = result.wholes[result.whole_of[0]];
  EXPECT_EQ(same.tiling.node, beyond.tiling.node);
  EXPECT_EQ(same.tiling.extent, beyond.tiling.extent);
  EXPECT_EQ(same.bytes, beyond.bytes);
}

TEST(Coalesce, ClaimsAtTheVeryEndsOfTheOffsetsAreKept) {
  constexpr Offset kLast = std::numeric_limits<Offset>::max();
  const Coalesced result = coalesce({{bytes_at(-kLast), 0, 8}, {bytes_at(kLast - 16), 0, 8}, {bytes_at(kLast - 8), 0, 8}});
  ASSERT_EQ(result.wholes.size(), 2u);
  EXPECT_EQ(offset_of(result.wholes[result.whole_of[0]].tiling, 0), -kLast);
  EXPECT_EQ(offset_of(result.wholes[result.whole_of[2]].tiling, 15), kLast - 1);
}

TEST(Coalesce, DoesNotGoThroughTheirPiecesWhereLoopsDoNotFit) {
  // Strides without a common measure: would take forever piece by piece.
  const Coalesced result = coalesce({{tile(*resized(0, 17, bytes(1))), 0, kMany}, {tile(*resized(0, 19, bytes(1)), 3), 0, kMany}});
  EXPECT_EQ(result.wholes.size(), 2u);
}

}  // namespace
}  // namespace penstock::access
