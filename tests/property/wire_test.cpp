// Descriptions as bytes: what arrives means what was sent, lists that programs make come out short, and nothing that arrives does harm.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "access/cursor.h"
#include "access/node.h"
#include "access/wire.h"
#include "oracle/access_type.h"
#include "oracle/random_datatype.h"

namespace penstock::access {
namespace {

using Random = std::mt19937_64;
using Packed = std::vector<std::byte>;

Offset below(Random& random, Offset limit) { return static_cast<Offset>(random() % static_cast<std::uint64_t>(limit)); }

std::uint64_t cases(std::uint64_t usual) {
  const char* given = std::getenv("PENSTOCK_RANDOM_CASES");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : usual;
}

Packed packed(const Tiling& tiling) {
  Packed bytes;
  pack(tiling, bytes);
  return bytes;
}

void expect_back(const Tiling& tiling, Offset positions) {
  const Result<Tiling> back = unpack(packed(tiling));
  ASSERT_TRUE(back.ok()) << back.status().text();
  ASSERT_EQ(back->node->size, tiling.node->size);
  ASSERT_EQ(is_monotone(*back), is_monotone(tiling));
  for (Offset p = 0; p < positions; ++p) ASSERT_EQ(offset_of(*back, p), offset_of(tiling, p)) << "data byte " << p;
}

/// Blocks as programs make them: repetitions of shorter lists, of which some are spoilt, and blocks from nowhere between.
Type random_list(Random& random) {
  std::vector<Offset> offsets, lengths;
  const Offset unit = Offset{1} << below(random, 4);
  const bool forwards = below(random, 5) > 0, same_lengths = below(random, 3) == 0;
  Offset at = 0;
  const auto put = [&](Offset gap, Offset length) {
    at += gap * unit;
    offsets.push_back(at);
    lengths.push_back((same_lengths ? 3 : length) * unit);
    at += lengths.back();
  };
  const auto some_gap = [&] { return (forwards ? 1 : -20) + below(random, below(random, 10) == 0 ? 100000 : 30); };
  for (Offset part = 1 + below(random, 4); part > 0; --part) {
    std::vector<std::pair<Offset, Offset>> pattern;
    for (Offset i = below(random, below(random, 2) == 0 ? 5 : 60); i >= 0; --i) pattern.emplace_back(some_gap(), 1 + below(random, 20));
    for (Offset copies = 1 + below(random, 30); copies > 0; --copies)
      for (const auto& [gap, length] : pattern) put(below(random, 400) == 0 ? some_gap() : gap, length);
  }
  return *hindexed(lengths, offsets, *elementary(1));
}

TEST(Wire, ListsComeBackAsTheyWere) {
  for (std::uint64_t seed = 1; seed <= cases(600); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    Type type = random_list(random);
    if (below(random, 3) == 0) type = *hvector(3, 2, type.extent + below(random, 9), type);
    expect_back(tile(type, below(random, 100)), std::min<Offset>(2 * type.size(), 20000));
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(Wire, RandomTypesComeBackAsTheyWere) {
  for (std::uint64_t seed = 1; seed <= cases(2000); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    oracle::RandomDatatype random(seed, {.size = 6, .depth = 3, .for_file = seed % 2 == 0});
    const Type type = *oracle::access_type(random.make());
    if (type.size() > 0) expect_back(tile(type, 7), 2 * type.size());
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(Wire, NumbersAtTheEdge) {
  const Offset far = INT64_MAX - 8;
  for (const std::vector<Offset>& offsets : {std::vector<Offset>{0, 1000, far}, {-5, 7, far - 100}, {far - 50, far - 10, 0}})
    for (const std::vector<Offset>& lengths : {std::vector<Offset>{1, 2, 8}, {8, 8, 8}, {3, 990, 1}})
      if (const Result<Type> type = hindexed(lengths, offsets, *elementary(1)); type.ok()) expect_back(tile(*type), type->size());
}

/// A column of the atmosphere in every level: the columns of a rank are anywhere in a level, some side by side.
Type columns(Random& random, Offset of_rank, Offset of_level, Offset levels) {
  std::vector<Offset> offsets, lengths;
  for (Offset level = 0; level < levels; ++level) {
    Random same(random);  // in every level
    Offset column = 0;
    for (Offset i = 0; i < of_rank; ++i) {
      column += 1 + below(same, 2 * of_level / of_rank - 2);
      const Offset length = 1 + below(same, 4) / 3;
      offsets.push_back((level * of_level + column) * 8);
      lengths.push_back(length * 8);
      column += length;
    }
  }
  return *hindexed(lengths, offsets, *elementary(1));
}

TEST(Wire, AnIrregularListTakesAboutAByteOrTwoPerPiece) {
  Random random(9);
  const Type type = columns(random, 5000, 50000, 1);
  const auto pieces = static_cast<double>(pieces_in(tile(type), 0, type.size()));
  EXPECT_LT(static_cast<double>(packed(tile(type)).size()) / pieces, 1.6);
}

TEST(Wire, WhatComesAgainInEveryLevelIsToldOnce) {
  Random random(9);
  const Packed one = packed(tile(columns(random, 500, 5000, 1))), many = packed(tile(columns(random, 500, 5000, 72)));
  EXPECT_LT(many.size(), one.size() + 64);
}

TEST(Wire, VariablesOfOneDecompositionAreToldOnce) {
  // Of 5 variables, with something else between them.
  Random random(9);
  std::vector<Offset> displacements, lengths;
  const Type variable = columns(random, 300, 3000, 20), other = columns(random, 300, 3000, 1);
  std::vector<Type> types;
  Offset at = 0;
  for (int i = 0; i < 5; ++i)
    for (const Type& type : {variable, other}) {
      types.push_back(type);
      displacements.push_back(at);
      lengths.push_back(1);
      at += type.lower_bound + type.extent + 777 * 8 * (i + 1);
    }
  // One list of blocks, as a program hands it over.
  const Type all = *structure(lengths, displacements, types);
  std::vector<Offset> offsets, sizes;
  Cursor cursor(tile(all), 0, all.size());
  for (access::Run run; cursor.next(run);)
    for (Offset i = 0; i < run.count; ++i) {
      offsets.push_back(run.offset + i * run.stride);
      sizes.push_back(run.length);
    }
  const Type list = *hindexed(sizes, offsets, *elementary(1));
  expect_back(tile(list), list.size());
  EXPECT_LT(packed(tile(list)).size(), packed(tile(variable)).size() + packed(tile(other)).size() + 200);
}

TEST(Wire, WhatIsTornOrTwistedIsAnErrorOrAnotherLayout) {
  Random random(11);
  for (std::uint64_t i = 0; i < cases(3000); ++i) {
    const Type type = random_list(random);
    Packed bytes = packed(tile(type, 3));
    if (bytes.size() > 400) continue;
    for (std::size_t length = 0; length < bytes.size(); ++length) ASSERT_FALSE(unpack(std::span(bytes).first(length)).ok()) << "cut at " << length;
    for (int changes = 0; changes < 20; ++changes) {
      Packed twisted = bytes;
      for (Offset many = 1 + below(random, 3); many > 0; --many)
        twisted[static_cast<std::size_t>(below(random, static_cast<Offset>(twisted.size())))] = static_cast<std::byte>(random());
      const Result<Tiling> other = unpack(twisted);
      // Whatever it means now, it is no larger than what arrived, and can be asked about.
      if (!other.ok()) continue;
      ASSERT_LE(description_size(other->node), 40 * twisted.size() + 40);
      (void)bounds_of(*other, 0, std::min<Offset>(other->node->size, 1000));
    }
  }
}

TEST(Wire, ALayoutOfAnyDepthIsAnErrorNotACrash) {
  // Loops in loops, as deep as nothing that a program makes: kind 2, base 0, 2 copies, 2 bytes apart.
  Packed bytes = {std::byte{0}, std::byte{2}};
  for (int i = 0; i < 4'000'000; ++i) bytes.insert(bytes.end(), {std::byte{2}, std::byte{0}, std::byte{4}, std::byte{4}});
  EXPECT_FALSE(unpack(bytes).ok());
}

}  // namespace
}  // namespace penstock::access
