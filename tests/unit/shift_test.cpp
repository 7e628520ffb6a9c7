// Whether one access is another one moved: what is found must be so, byte by byte, and what programs repeat must be found.
#include <gtest/gtest.h>

#include <random>

#include "access/shift.h"

namespace penstock::access {
namespace {

using Random = std::mt19937_64;

Offset below(Random& random, Offset limit) { return static_cast<Offset>(random() % static_cast<std::uint64_t>(limit)); }

Type byte() { return *elementary(1); }
Type bytes(Offset count) { return *contiguous(count, byte()); }
Type list(std::vector<Offset> offsets, std::vector<Offset> lengths, Offset extent) { return *resized(0, extent, *hindexed(lengths, offsets, byte())); }

Type random_type(Random& random, int depth) {
  if (depth == 0) return bytes(1 + below(random, 3));
  const Type part = random_type(random, depth - 1);
  const Offset span = std::max<Offset>(part.extent, 1);
  switch (below(random, 3)) {
    case 0:
      return *hvector(1 + below(random, 3), 1, span + below(random, 3), part);
    case 1: {
      std::vector<Offset> offsets;
      Offset at = below(random, 3);
      for (Offset i = 1 + below(random, 3); i > 0; --i, at += span + below(random, 3)) offsets.push_back(at);
      return *resized(0, at + below(random, 3), *hindexed_block(1, offsets, part));
    }
    default:
      return *resized(0, span + below(random, 3), part);
  }
}

TEST(Shift, WhatIsFoundIsSoByteByByte) {
  Random random(3);
  int found = 0;
  for (int i = 0; i < 200000; ++i) {
    const Type a = random_type(random, static_cast<int>(below(random, 4))), b = below(random, 2) == 0 ? a : random_type(random, static_cast<int>(below(random, 4)));
    const Offset length = 1 + below(random, 8);
    const Claim from{tile(a, below(random, 20)), below(random, 12), length};
    const Claim to{tile(b, below(random, 20)), below(random, 12), length};
    const std::optional<Offset> shift = shift_between(from, to);
    if (!shift.has_value()) continue;
    ++found;
    for (Offset p = 0; p < length; ++p)
      ASSERT_EQ(offset_of(to.tiling, to.position + p), offset_of(from.tiling, from.position + p) + *shift) << "case " << i << " byte " << p;
  }
  EXPECT_GT(found, 20000);
}

TEST(Shift, WholeCopiesFurtherOn) {
  const Type type = list({0, 5, 7}, {2, 1, 4}, 20);
  EXPECT_EQ(shift_between({tile(type, 3), 2, 30}, {tile(type, 13), 2 + 7 * 4, 30}), 10 + 4 * 20);
  EXPECT_EQ(shift_between({tile(type, 3), 2, 30}, {tile(type, 3), 3, 30}), std::nullopt);
  EXPECT_EQ(shift_between({tile(type, 3), 2, 30}, {tile(type, 3), 2, 29}), std::nullopt);
}

TEST(Shift, ATypeMadeAnew) {
  EXPECT_EQ(shift_between({tile(list({0, 5, 7}, {2, 1, 4}, 20)), 0, 70}, {tile(list({0, 5, 7}, {2, 1, 4}, 20), 100), 0, 70}), 100);
  EXPECT_EQ(shift_between({tile(list({0, 5, 7}, {2, 1, 4}, 20)), 0, 70}, {tile(list({0, 4, 7}, {2, 1, 4}, 20)), 0, 70}), std::nullopt);
  EXPECT_EQ(shift_between({tile(list({0, 5, 7}, {2, 1, 4}, 20)), 0, 70}, {tile(list({0, 5, 7}, {2, 1, 4}, 21)), 0, 70}), std::nullopt);
  // Of one copy only, the extent makes no difference; nor does what comes before the data.
  EXPECT_EQ(shift_between({tile(list({0, 5, 7}, {2, 1, 4}, 20)), 0, 7}, {tile(list({1, 6, 8}, {2, 1, 4}, 21)), 0, 7}), 1);
}

TEST(Shift, RowsOfOneFiletype) {
  const Type rows = *hvector(100, 10, 50, byte());
  EXPECT_EQ(shift_between({tile(rows), 20, 20}, {tile(rows), 50, 20}), 150);
  EXPECT_EQ(shift_between({tile(rows), 20, 10}, {tile(rows), 55, 5}), std::nullopt);
  EXPECT_EQ(shift_between({tile(rows), 20, 5}, {tile(rows), 55, 5}), 155);  // pieces without gaps
  EXPECT_EQ(shift_between({tile(rows), 960, 40}, {tile(rows), 980, 40}), std::nullopt);  // this one goes on in the next copy, elsewhere
}

TEST(Shift, PlainBytesHoweverTheyAreWritten) {
  EXPECT_EQ(shift_between({bytes_at(5), 7, 100}, {tile(bytes(8), 40), 3, 100}), 31);
  EXPECT_EQ(shift_between({bytes_at(5), 7, 0}, {bytes_at(5), 7, 0}), std::nullopt);
}

TEST(Shift, FarApart) {
  EXPECT_EQ(shift_between({bytes_at(INT64_MIN + 5), 0, 1}, {bytes_at(INT64_MAX - 5), 0, 1}), std::nullopt);
  EXPECT_EQ(shift_between({bytes_at(0), INT64_MAX - 9, 9}, {bytes_at(0), 0, 9}), 9 - INT64_MAX);
}

}  // namespace
}  // namespace penstock::access
