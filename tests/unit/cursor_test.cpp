// Cursors: that runs are as long as they can be, and steps as few.  Which bytes they name is in property/layout_test.
#include "access/cursor.h"

#include <gtest/gtest.h>

#include <limits>

namespace penstock::access {
namespace {

using Offsets = std::vector<Offset>;

Type bytes(Offset size) { return *elementary(size); }

std::vector<Run> runs_of(const Tiling& tiling, Offset position, Offset size) {
  Cursor cursor(tiling, position, size);
  std::vector<Run> runs;
  for (Run run; cursor.next(run);) runs.push_back(run);
  return runs;
}

std::vector<Step> steps_of(const Tiling& file, Offset position, const Tiling& memory, Offset memory_position, Offset size) {
  Zip zip(file, position, memory, memory_position, size);
  std::vector<Step> steps;
  for (Step step; zip.next(step);) steps.push_back(step);
  return steps;
}

void expect_run(const Run& run, Offset offset, Offset length, Offset count, Offset stride) {
  EXPECT_EQ(run.offset, offset);
  EXPECT_EQ(run.length, length);
  EXPECT_EQ(run.count, count);
  if (count > 1) {
    EXPECT_EQ(run.stride, stride);
  }
}

TEST(Cursor, CopiesOfOneBlockAreOneRun) {
  const auto runs = runs_of(tile(*resized(0, 16, bytes(8)), 40), 0, 800000);
  ASSERT_EQ(runs.size(), 1u);
  expect_run(runs[0], 40, 8, 100000, 16);
}

TEST(Cursor, AVectorIsOneRun) {
  const auto runs = runs_of(tile(*hvector(100000, 8, 16, bytes(1))), 0, 800000);
  ASSERT_EQ(runs.size(), 1u);
  expect_run(runs[0], 0, 8, 100000, 16);
}

TEST(Cursor, AVectorThatContinuesIntoItsCopiesIsOneRun) {
  const auto runs = runs_of(tile(*resized(0, 160, *hvector(10, 1, 16, bytes(8)))), 24, 8000);
  ASSERT_EQ(runs.size(), 1u);
  expect_run(runs[0], 48, 8, 1000, 16);
}

TEST(Cursor, CutPiecesAreRunsOfTheirOwn) {
  const auto runs = runs_of(tile(*resized(0, 16, bytes(8))), 3, 34);
  ASSERT_EQ(runs.size(), 3u);
  expect_run(runs[0], 3, 5, 1, 0);
  expect_run(runs[1], 16, 8, 3, 16);
  expect_run(runs[2], 64, 5, 1, 0);
}

TEST(Cursor, ContiguousBytesAreOneRunOfOnePiece) {
  const auto runs = runs_of(bytes_at(7), 5, 1000);
  ASSERT_EQ(runs.size(), 1u);
  expect_run(runs[0], 12, 1000, 1, 0);
}

TEST(Cursor, ALimitCutsRunsAndPieces) {
  Cursor cursor(tile(*resized(0, 16, bytes(8))), 0, 40);
  access::Run run;
  ASSERT_TRUE(cursor.next(run, 20));
  expect_run(run, 0, 8, 2, 16);
  ASSERT_TRUE(cursor.next(run, 5));
  expect_run(run, 32, 5, 1, 0);
  EXPECT_EQ(cursor.remaining(), 19);
  ASSERT_TRUE(cursor.next(run));
  expect_run(run, 37, 3, 1, 0);
  ASSERT_TRUE(cursor.next(run));
  expect_run(run, 48, 8, 2, 16);
  EXPECT_FALSE(cursor.next(run));
}

TEST(Cursor, IrregularBlocksComeInTheirRegularStretches) {
  const Type type = *hindexed(Offsets{1, 1, 1, 1, 2, 2}, Offsets{0, 16, 32, 200, 300, 340}, bytes(8));
  const auto runs = runs_of(tile(type), 0, type.size());
  ASSERT_EQ(runs.size(), 3u);
  expect_run(runs[0], 0, 8, 3, 16);
  expect_run(runs[1], 200, 8, 1, 0);
  expect_run(runs[2], 300, 16, 2, 40);
}

TEST(Cursor, NothingIsNoRun) {
  EXPECT_TRUE(runs_of(bytes_at(0), 10, 0).empty());
  EXPECT_TRUE(runs_of(tile(*contiguous(0, bytes(1))), 0, 0).empty());
}

TEST(Cursor, TellsTheKindOfElements) {
  const Type type = *structure(Offsets{2, 1, 1}, Offsets{0, 8, 16},
                               std::vector<Type>{*elementary(4, Element::kSigned), *elementary(8, Element::kFloat), bytes(4)});
  const auto runs = runs_of(tile(type), 0, type.size());
  ASSERT_EQ(runs.size(), 3u);
  EXPECT_EQ(runs[0].element, Element::kSigned);
  EXPECT_EQ(runs[0].element_size, 4);
  EXPECT_EQ(runs[0].length, 8);
  EXPECT_EQ(runs[1].element, Element::kFloat);
  EXPECT_EQ(runs[1].element_size, 8);
  EXPECT_EQ(runs[2].element, Element::kRaw);
  EXPECT_EQ(runs[2].element_size, 1);
}

TEST(Cursor, SeeksIntoAHugeSubarray) {
  const Offset n = 10000;
  const Type type = *subarray(Offsets{2 * n, 2 * n, 2 * n}, Offsets{n, n, n}, Offsets{0, 0, 0}, Order::kC, *resized(0, 16, bytes(8)));
  const Offset position = 8 * ((1234 * n + 5678) * n + 9000);
  Cursor cursor(tile(type), position, type.size() - position);
  access::Run run;
  ASSERT_TRUE(cursor.next(run));
  expect_run(run, 16 * ((1234 * 2 * n + 5678) * 2 * n + 9000), 8, 1000, 16);
  ASSERT_TRUE(cursor.next(run));
  expect_run(run, 16 * ((1234 * 2 * n + 5679) * 2 * n), 8, n, 16);
}

TEST(Cursor, GoesDeeperThanItsInlineFrames) {
  Type type = *hindexed(Offsets{1, 1, 1}, Offsets{0, 2, 5}, bytes(1));
  Offset expected_size = 3;
  for (int level = 0; level < Cursor::kInlineDepth + 4; ++level) {
    type = *hvector(2, 1, type.extent + 1, type);
    expected_size *= 2;
  }
  const Tiling tiling = tile(type);
  Cursor cursor(tiling, 0, type.size());
  Offset position = 0;
  for (access::Run run; cursor.next(run); position += run.length * run.count) ASSERT_EQ(run.offset, offset_of(tiling, position));
  EXPECT_EQ(position, expected_size);
}

TEST(Cursor, ReachesTheLastByteThatCanBeAddressed) {
  const Offset last = std::numeric_limits<Offset>::max();
  const auto runs = runs_of(bytes_at(last - 10), 0, 10);
  ASSERT_EQ(runs.size(), 1u);
  expect_run(runs[0], last - 10, 10, 1, 0);
}

TEST(Zip, ARegularFileAgainstContiguousMemoryIsOneStep) {
  const auto steps = steps_of(tile(*resized(0, 16, bytes(8))), 0, bytes_at(0), 0, 800000);
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0].length, 8);
  EXPECT_EQ(steps[0].count, 100000);
  EXPECT_EQ(steps[0].file_stride, 16);
  EXPECT_EQ(steps[0].memory_stride, 8);
}

TEST(Zip, AContiguousFileAgainstRegularMemoryIsOneStep) {
  const auto steps = steps_of(bytes_at(100), 0, tile(*resized(0, 24, bytes(8))), 0, 800000);
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0].file_offset, 100);
  EXPECT_EQ(steps[0].file_stride, 8);
  EXPECT_EQ(steps[0].memory_stride, 24);
  EXPECT_EQ(steps[0].count, 100000);
}

TEST(Zip, EqualPiecesOnBothSidesAreOneStep) {
  const auto steps = steps_of(tile(*resized(0, 16, bytes(8))), 80, tile(*resized(0, 24, bytes(8))), 0, 8000);
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0].file_offset, 160);
  EXPECT_EQ(steps[0].memory_offset, 0);
  EXPECT_EQ(steps[0].file_stride, 16);
  EXPECT_EQ(steps[0].memory_stride, 24);
  EXPECT_EQ(steps[0].count, 1000);
}

TEST(Zip, BothContiguousIsOneStepOfOnePiece) {
  const auto steps = steps_of(bytes_at(10), 5, bytes_at(0), 7, 1000);
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0].length, 1000);
  EXPECT_EQ(steps[0].count, 1);
}

TEST(Zip, SmallPiecesOfMemoryFillAPieceOfTheFileInOneStep) {
  // Pieces of 1024 bytes in the file, of 8 bytes in memory: a step for each piece of the file.
  const auto steps = steps_of(tile(*resized(0, 4096, bytes(1024))), 0, tile(*resized(0, 16, bytes(8))), 0, 10240);
  ASSERT_EQ(steps.size(), 10u);
  EXPECT_EQ(steps[3].file_offset, 3 * 4096);
  EXPECT_EQ(steps[3].file_stride, 8);
  EXPECT_EQ(steps[3].memory_offset, 3 * 2048);
  EXPECT_EQ(steps[3].count, 128);
}

}  // namespace
}  // namespace penstock::access
