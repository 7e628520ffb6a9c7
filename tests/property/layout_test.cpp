// Layouts and cursors against the oracle: all small types, and random ones.
#include "access/layout.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "access/cursor.h"
#include "oracle/access_type.h"
#include "oracle/datatype.h"
#include "oracle/random_datatype.h"

namespace penstock {
namespace {

using oracle::Datatype;
using oracle::Number;
using oracle::Tiles;

constexpr Number kTiles = 3;

/// A type both ways, with the facts that only looking at every byte can tell.
struct Case {
  Datatype description;
  Tiles truth;
  access::Tiling tiling;
  Number total = 0;  ///< bytes of data looked at
  bool monotone = true, repeats = false, contiguous = true;

  Case(const Datatype& type, access::Tiling made, Number displacement)
      : description(type), truth(oracle::expand(type), displacement), tiling(made), total(kTiles * truth.size()) {
    std::vector<Number> offsets;
    for (Number p = 0; p < total; ++p) {
      offsets.push_back(truth.offset_of(p));
      monotone = monotone && (p == 0 || offsets[p] >= offsets[p - 1]);
      contiguous = contiguous && offsets[p] == offsets[0] + p;
    }
    std::sort(offsets.begin(), offsets.end());
    repeats = std::adjacent_find(offsets.begin(), offsets.end()) != offsets.end();
    monotone = monotone && (total == 0 || truth.map().extent() > 0);
    contiguous = contiguous && total > 0;
  }
};

#define DEMAND(condition, what)                                                                       \
  do {                                                                                                \
    if (!(condition)) return (what) + " (" #condition ") of " + to_string(c.description); \
  } while (false)

std::string check_facts(const Case& c, const access::Type& type) {
  DEMAND(type.size() == c.truth.size(), std::string("size"));
  DEMAND(type.lower_bound == c.truth.map().lower_bound(), std::string("lower bound"));
  DEMAND(type.extent == c.truth.map().extent(), std::string("extent"));
  DEMAND(is_monotone(c.tiling) == c.monotone, std::string("monotone"));
  DEMAND(is_contiguous(c.tiling) == c.contiguous, std::string("contiguous"));
  if (c.monotone)
    DEMAND(overlaps_itself(c.tiling) == c.repeats, std::string("overlap of a monotone type"));
  else
    DEMAND(overlaps_itself(c.tiling) || !c.repeats, std::string("overlap"));
  return "";
}

std::string check_positions(const Case& c) {
  for (Number p = 0; p < c.total; ++p) DEMAND(offset_of(c.tiling, p) == c.truth.offset_of(p), std::string("offset"));
  if (!c.monotone) return "";
  const Number first = c.truth.offset_of(0) - 2, last = c.truth.offset_of(c.total - 1) + 2;
  const Number step = 1 + (last - first) / 500;  // the oracle looks at every byte each time
  for (Number x = first; x <= last; x += step)
    DEMAND(position_of(c.tiling, x) == c.truth.position_of(x), "position of " + std::to_string(x));
  return "";
}

/// Against the pieces as they come: those of one copy begin at offsets that never decrease, or do not.
std::string check_beginnings(const Case& c, const access::Type& type) {
  access::Cursor cursor(c.tiling, 0, type.size());
  access::Run run;
  bool in_order = true;
  Number before = std::numeric_limits<Number>::min();
  while (cursor.next(run))
    for (Number i = 0; i < run.count; ++i) {
      in_order = in_order && run.offset + i * run.stride >= before;
      before = run.offset + i * run.stride;
    }
  DEMAND(pieces_begin_in_order(c.tiling) == in_order, std::string("whether the pieces begin in order"));
  return "";
}

std::string check_range(const Case& c, Number from, Number to, Number limit) {
  Number lowest = 0, highest = 0, stretches = 0;
  for (Number p = from; p < to; ++p) {
    const Number offset = c.truth.offset_of(p);
    lowest = p == from ? offset : std::min(lowest, offset);
    highest = p == from ? offset + 1 : std::max(highest, offset + 1);
    if (p == from || offset != c.truth.offset_of(p - 1) + 1) ++stretches;
  }
  auto range = [&](const char* what) {
    return what + (" [" + std::to_string(from) + ", " + std::to_string(to) + ") by " + std::to_string(limit));
  };
  const access::Bounds bounds = bounds_of(c.tiling, from, to - from);
  DEMAND(bounds.first == lowest, range("first bound"));
  DEMAND(bounds.end == highest, range("end bound"));

  access::Cursor cursor(c.tiling, from, to - from);
  access::Run run;
  Number p = from, pieces = 0;
  while (cursor.next(run, limit)) {
    DEMAND(run.count >= 1 && run.length >= 1 && run.length * run.count <= limit, range("size of a run"));
    for (Number i = 0; i < run.count; ++i)
      for (Number j = 0; j < run.length; ++j, ++p) {
        DEMAND(p < to, range("too many bytes"));
        const oracle::Byte byte = c.truth.byte(p);
        DEMAND(run.offset + i * run.stride + j == byte.offset, range("offset in a run"));
        DEMAND(static_cast<int>(run.element) == byte.element && run.element_size == byte.element_size, range("element"));
      }
    pieces += run.count;
    DEMAND(cursor.remaining() == to - p, range("remaining"));
  }
  DEMAND(p == to, range("too few bytes"));
  const Number counted = pieces_in(c.tiling, from, to - from);
  DEMAND(counted >= stretches, range("pieces"));
  if (limit >= to - from && !c.contiguous) DEMAND(counted == pieces, range("pieces as yielded"));
  return "";
}

/// Makes the type both ways and compares everything; `ranges` parts of it, or all of them when 0.
std::string check_type(const Datatype& description, Number displacement, int ranges, oracle::RandomDatatype& random) {
  Result<access::Type> type = oracle::access_type(description);
  if (!type.ok()) return "made no type: " + std::string(type.status().text()) + " of " + to_string(description);
  const Case c(description, access::tile(*type, displacement), displacement);
  if (std::string wrong = check_facts(c, *type); !wrong.empty()) return wrong;
  if (c.total == 0) return "";
  if (std::string wrong = check_positions(c); !wrong.empty()) return wrong;
  if (std::string wrong = check_beginnings(c, *type); !wrong.empty()) return wrong;
  if (ranges == 0) {
    for (Number from = 0; from <= c.total; ++from)
      for (Number to = from; to <= c.total; ++to)
        for (Number limit : {Number{1}, Number{3}, Number{5}, std::numeric_limits<Number>::max()})
          if (std::string wrong = check_range(c, from, to, limit); !wrong.empty()) return wrong;
    return "";
  }
  for (int i = 0; i < ranges; ++i) {
    const Number from = i == 0 ? 0 : random.between(0, c.total), to = i == 0 ? c.total : random.between(from, c.total);
    const Number limit = i % 2 == 0 ? std::numeric_limits<Number>::max() : random.between(1, 40);
    if (std::string wrong = check_range(c, from, to, limit); !wrong.empty()) return wrong;
  }
  return "";
}

std::string check_zip(const Case& c, const Case& other, Number from, Number other_from, Number bytes) {
  access::Zip zip(c.tiling, from, other.tiling, other_from, bytes);
  access::Step step;
  Number p = 0;
  while (zip.next(step)) {
    DEMAND(step.count >= 1 && step.length >= 1, "size of a step against " + to_string(other.description));
    for (Number i = 0; i < step.count; ++i)
      for (Number j = 0; j < step.length; ++j, ++p) {
        DEMAND(p < bytes, "steps too many against " + to_string(other.description));
        DEMAND(step.file_offset + i * step.file_stride + j == c.truth.offset_of(from + p),
               "file offset of a step against " + to_string(other.description));
        DEMAND(step.memory_offset + i * step.memory_stride + j == other.truth.offset_of(other_from + p),
               "memory offset of a step against " + to_string(other.description));
      }
  }
  DEMAND(p == bytes, "too few steps against " + to_string(other.description));
  return "";
}

/// One of every way to build a type on `part`, with all the small numbers that matter.
std::vector<Datatype> built_on(const Datatype& part, bool many) {
  using namespace oracle;
  const Number extent = expand(part).extent();
  std::vector<Datatype> types;
  for (Number count : {0, 1, 2, 3}) types.push_back(contiguous(count, part));
  for (Number count : many ? Numbers{0, 1, 2, 3} : Numbers{2, 3})
    for (Number length : many ? Numbers{0, 1, 2} : Numbers{1, 2})
      for (Number stride : many ? Numbers{-3, -1, 0, 1, 2, 5, extent, 2 * extent, 2 * extent + 1} : Numbers{-2, 2 * extent + 1})
        types.push_back(hvector(count, length, stride, part));
  types.push_back(hindexed({1, 2}, {4 * extent, 0}, part));
  types.push_back(hindexed({2, 0, 1}, {0, -40, 3 * extent}, part));
  types.push_back(hindexed({1, 1, 2}, {-extent, extent, 2 * extent + 1}, part));
  types.push_back(hindexed_block(1, {0, extent + 1, 5 * extent}, part));
  types.push_back(structure({1, 1}, {0, extent}, {elementary(1), part}));
  types.push_back(structure({2, 1, 1}, {1, 3, 9}, {elementary(1), part, elementary(2, 1)}));
  types.push_back(resized(0, extent + 1, part));
  types.push_back(resized(-1, -3, part));
  types.push_back(subarray({3, 2}, {2, 1}, {1, 1}, false, part));
  types.push_back(darray(2, 1, {3}, {Spread::kCyclic}, {-1}, {2}, false, part));
  if (!many) return types;
  types.push_back(hindexed({}, {}, part));
  types.push_back(hindexed({3}, {2}, part));
  types.push_back(hindexed({1, 1, 1}, {0, extent, 2 * extent}, part));
  types.push_back(hindexed({1, 1, 1}, {3, 1, 2}, part));
  types.push_back(hindexed_block(2, {0, 3 * extent, 6 * extent}, part));
  types.push_back(hindexed_block(0, {1, 2}, part));
  types.push_back(structure({0, 1}, {-9, 2}, {part, part}));
  types.push_back(structure({1, 1}, {2, 30}, {resized(-2, 7, elementary(1)), part}));
  types.push_back(resized(0, 0, part));
  types.push_back(resized(2, 9, part));
  types.push_back(subarray({3, 2}, {2, 1}, {1, 1}, true, part));
  types.push_back(subarray({2, 3}, {2, 3}, {0, 0}, false, part));
  types.push_back(subarray({2, 2, 2}, {1, 2, 2}, {1, 0, 0}, false, part));
  types.push_back(subarray({3}, {2}, {0}, false, part));
  types.push_back(darray(2, 1, {1}, {Spread::kBlock}, {-1}, {2}, false, part));  // an empty share
  types.push_back(darray(2, 1, {5}, {Spread::kBlock}, {3}, {2}, false, part));
  types.push_back(darray(2, 0, {5}, {Spread::kCyclic}, {2}, {2}, false, part));
  types.push_back(darray(4, 2, {3, 3}, {Spread::kBlock, Spread::kCyclic}, {-1, -1}, {2, 2}, true, part));
  types.push_back(darray(2, 1, {2, 3}, {Spread::kNone, Spread::kCyclic}, {-1, 1}, {1, 2}, false, part));
  return types;
}

TEST(LayoutProperty, AllSmallTypesOfOneConstructorInAllRanges) {
  oracle::RandomDatatype random(1, {});
  for (const Datatype& element : {oracle::elementary(0), oracle::elementary(1), oracle::elementary(2), oracle::elementary(2, 3)})
    for (const Datatype& type : built_on(element, true)) ASSERT_EQ(check_type(type, 7, 0, random), "");
}

TEST(LayoutProperty, AllSmallTypesOfTwoConstructors) {
  oracle::RandomDatatype random(2, {});
  for (const Datatype& element : {oracle::elementary(1), oracle::elementary(2, 3)})
    for (const Datatype& inner : built_on(element, true))
      for (const Datatype& type : built_on(inner, true)) ASSERT_EQ(check_type(type, -5, 8, random), "");
}

TEST(LayoutProperty, AllSmallTypesOfThreeConstructors) {
  oracle::RandomDatatype random(3, {});
  for (const Datatype& inner : built_on(oracle::elementary(2), false))
    for (const Datatype& middle : built_on(inner, false))
      for (const Datatype& type : built_on(middle, false)) ASSERT_EQ(check_type(type, 0, 4, random), "");
}

/// Number of random cases: PENSTOCK_RANDOM_CASES, or few enough for every build.
std::uint64_t random_cases() {
  const char* asked = std::getenv("PENSTOCK_RANDOM_CASES");
  return asked ? std::strtoull(asked, nullptr, 10) : 1500;
}

std::string check_random(std::uint64_t seed, Number size, bool for_file) {
  oracle::RandomDatatype random(seed, {.size = size, .depth = 4, .for_file = for_file, .typed = seed % 3 == 0});
  const Datatype description = random.make();
  return check_type(description, random.between(-9, 9), 12, random);
}

TEST(LayoutProperty, RandomTypes) {
  for (std::uint64_t seed = 1; seed <= random_cases(); ++seed)
    ASSERT_EQ(oracle::smallest_failure(seed, 7, [](auto s, auto size) { return check_random(s, size, false); }), "");
}

TEST(LayoutProperty, RandomFiletypes) {
  for (std::uint64_t seed = 1; seed <= random_cases(); ++seed)
    ASSERT_EQ(oracle::smallest_failure(seed, 7, [](auto s, auto size) { return check_random(s, size, true); }), "");
}

std::string check_random_pair(std::uint64_t seed, Number size) {
  oracle::RandomDatatype file(seed, {.size = size, .depth = 3, .for_file = true});
  oracle::RandomDatatype memory(~seed, {.size = size, .depth = 3});
  std::vector<Case> cases;
  for (const Datatype& description : {file.make(), memory.make()}) {
    Result<access::Type> type = oracle::access_type(description);
    if (!type.ok()) return "made no type of " + to_string(description);
    if (type->size() == 0) return "";
    cases.emplace_back(description, access::tile(*type, 3), 3);
  }
  const Number most = std::min(cases[0].total, cases[1].total);
  for (int i = 0; i < 10; ++i) {
    const Number bytes = i == 0 ? most : file.between(0, most);
    const Number from = file.between(0, cases[0].total), other_from = file.between(0, cases[1].total);
    if (std::string wrong = check_zip(cases[0], cases[1], from, other_from, bytes); !wrong.empty()) return wrong;
    if (std::string wrong = check_zip(cases[1], cases[0], other_from, from, bytes); !wrong.empty()) return wrong;
  }
  return "";
}

TEST(LayoutProperty, RandomPairsInStep) {
  for (std::uint64_t seed = 1; seed <= random_cases(); ++seed)
    ASSERT_EQ(oracle::smallest_failure(seed, 7, check_random_pair), "");
}

/// The oracle must be able to say no: it is held against facts worked out by hand.
TEST(Oracle, KnowsATypemapWorkedOutByHand) {
  using namespace oracle;
  // MPI 4.1 example: {(double, 0), (char, 8)} without padding, twice, 16 bytes apart.
  const Typemap map = expand(hvector(2, 1, 16, structure({1, 1}, {0, 8}, {elementary(8), elementary(1)})));
  EXPECT_EQ(map.bytes.size(), 18u);
  EXPECT_EQ(map.bytes[8].offset, 8);
  EXPECT_EQ(map.bytes[9].offset, 16);
  EXPECT_EQ(map.extent(), 25);
  EXPECT_EQ(expand(resized(-3, 9, elementary(4))).lower_bound(), -3);
  EXPECT_EQ(expand(structure({1, 1}, {0, 50}, {resized(-3, 9, elementary(4)), elementary(4)})).extent(), 9);
  const Tiles tiles(expand(resized(0, 5, elementary(2))), 100);
  EXPECT_EQ(tiles.offset_of(5), 111);
  EXPECT_EQ(tiles.position_of(106), 3);
}

}  // namespace
}  // namespace penstock
