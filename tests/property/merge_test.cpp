// Merged claims, and where a member's bytes lie in them, against a look at every byte.
#include "access/merge.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <unordered_map>

#include "access/cursor.h"
#include "access/within.h"
#include "oracle/access_type.h"
#include "oracle/datatype.h"
#include "oracle/random_datatype.h"

namespace penstock {
namespace {

using access::Claim;
using access::Coalesced;
using oracle::Datatype;
using oracle::Number;
using oracle::Numbers;

/// A claim both ways: for Penstock, and as the offset of each byte in data order.
struct Member {
  Claim claim;
  Numbers offsets;
};

Numbers offsets_of(const Claim& claim) {
  Numbers offsets;
  access::Cursor cursor(claim.tiling, claim.position, claim.bytes);
  access::Run run;
  while (cursor.next(run))
    for (Number i = 0; i < run.count; ++i)
      for (Number j = 0; j < run.length; ++j) offsets.push_back(run.offset + i * run.stride + j);
  return offsets;
}

/// The given part of a description's data; nothing where the description is no filetype.
bool make_member(const Datatype& description, Number displacement, Number position, Number bytes, Member& member) {
  const Result<access::Type> type = oracle::access_type(description);
  if (!type.ok()) return false;
  const access::Tiling tiling = tile(*type, displacement);
  if (type->size() > 0 && (!is_monotone(tiling) || overlaps_itself(tiling))) return false;
  member.claim = {tiling, position, type->size() == 0 ? 0 : bytes};
  member.offsets.clear();
  if (member.claim.bytes == 0) return true;
  const oracle::Tiles truth(oracle::expand(description), displacement);
  for (Number p = position; p < position + bytes; ++p) member.offsets.push_back(truth.offset_of(p));
  return true;
}

/// Where each byte lies in the data of a claim.
std::unordered_map<Number, Number> positions_of(const Claim& claim) {
  std::unordered_map<Number, Number> positions;
  for (const Number offset : offsets_of(claim)) positions.emplace(offset, static_cast<Number>(positions.size()));
  return positions;
}

/// The bytes of a step have to be where they are in the whole; bytes that are not in it have to be refused.
std::string check_steps(const Member& member, const Claim& whole, const std::unordered_map<Number, Number>& position_in_whole,
                        Number from, Number to) {
  access::Within within(whole, member.claim, from, to);
  access::PackedStep step;
  Number p = from;
  const std::string range = "[" + std::to_string(from) + ", " + std::to_string(to) + ")";
  for (;;) {
    const Result<bool> more = within.next(step);
    if (!more.ok()) {
      // Only where one of the bytes that come next is not there.
      for (Number i = p; i < to; ++i)
        if (!position_in_whole.contains(member.offsets[static_cast<std::size_t>(i)])) return "";
      return "steps of " + range + " failed: " + std::string(more.status().text());
    }
    if (!*more) return p == to ? "" : "steps of " + range + " end at " + std::to_string(p);
    if (step.member_position != p || step.count < 1 || step.length < 1) return "a step of " + range + " is out of order";
    for (Number i = 0; i < step.count; ++i)
      for (Number j = 0; j < step.length; ++j, ++p) {
        if (p >= to) return "steps of " + range + " go too far";
        const auto found = position_in_whole.find(member.offsets[static_cast<std::size_t>(p)]);
        if (found == position_in_whole.end() || step.whole_position + i * step.whole_stride + j != found->second)
          return "a step of " + range + " has position " + std::to_string(p) + " in the wrong place";
      }
  }
}

/// What coalesce() promises of one whole: exactly the bytes of its claims, in order, and whether there are gaps shows.
std::string check_whole(const Claim& whole, Numbers expected) {
  std::sort(expected.begin(), expected.end());
  if (std::adjacent_find(expected.begin(), expected.end()) != expected.end()) return "claims that share a byte were joined";
  if (whole.position != 0) return "the data of a whole does not start at position 0";
  if (offsets_of(whole) != expected) return "a whole does not reach the bytes of its claims";
  const bool dense = expected.back() - expected.front() + 1 == static_cast<Number>(expected.size());
  if (is_contiguous(whole.tiling) != dense) return "a whole does not show whether it has gaps";
  return "";
}

std::string check_member(const Member& member, const Claim& whole, oracle::RandomDatatype& random) {
  const std::unordered_map<Number, Number> position_in_whole = positions_of(whole);
  if (std::string wrong = check_steps(member, whole, position_in_whole, 0, member.claim.bytes); !wrong.empty()) return wrong;
  for (int range = 0; range < 3; ++range) {
    const Number from = random.between(0, member.claim.bytes), to = random.between(from, member.claim.bytes);
    if (std::string wrong = check_steps(member, whole, position_in_whole, from, to); !wrong.empty()) return wrong;
  }
  return "";
}

/// Everything that coalesce() promises of all wholes, and Within of all members.
std::string check_merged(const std::vector<Member>& members, std::size_t wholes_max, oracle::RandomDatatype& random) {
  std::vector<Claim> claims;
  for (const Member& member : members) claims.push_back(member.claim);
  const Coalesced result = coalesce(claims);
  std::vector<Numbers> expected(result.wholes.size());
  for (std::size_t i = 0; i < members.size(); ++i) {
    const std::size_t whole = result.whole_of.at(i);
    if ((whole == Coalesced::kNone) != members[i].offsets.empty()) return "only a claim without bytes is in no whole";
    if (whole == Coalesced::kNone) continue;
    expected.at(whole).insert(expected[whole].end(), members[i].offsets.begin(), members[i].offsets.end());
    if (std::string wrong = check_member(members[i], result.wholes[whole], random); !wrong.empty()) return wrong;
  }
  for (std::size_t w = 0; w < expected.size(); ++w)
    if (std::string wrong = check_whole(result.wholes[w], expected[w]); !wrong.empty()) return wrong;
  if (expected.size() > wholes_max) return std::to_string(expected.size()) + " wholes";
  return "";
}

int case_count(int usual) {
  const char* wanted = std::getenv("PENSTOCK_RANDOM_CASES");
  return wanted ? std::atoi(wanted) : usual;
}

/// Claims of one filetype or of several that have nothing to do with one another: they overlap or not, as it comes.
std::string check_any_claims(std::uint64_t seed, Number size) {
  oracle::RandomDatatype random(seed, {size, 3, true, false});
  std::vector<Member> members;
  Datatype description = random.make();
  for (Number ranks = random.between(1, 6); ranks > 0; --ranks) {
    if (random.between(0, 1) == 1) description = random.make();
    const Number data = static_cast<Number>(oracle::expand(description).bytes.size());
    Member member;
    const Number displacement = random.between(0, 8 * size), position = random.between(0, data);
    if (make_member(description, displacement, position, random.between(0, std::min<Number>(2 * data, 400)), member))
      members.push_back(member);
  }
  return check_merged(members, members.size(), random);
}

/// A claim searched in another one that reaches all of its bytes, or some, or none.
std::string check_any_pair(std::uint64_t seed, Number size) {
  oracle::RandomDatatype random(seed, {size, 3, true, false});
  const Datatype description = random.make(), other = random.between(0, 2) == 0 ? random.make() : description;
  const Number displacement = random.between(0, 4), shift = random.between(0, 2) == 0 ? random.between(0, size) : 0;
  Member whole, member;
  const Number data = static_cast<Number>(oracle::expand(description).bytes.size());
  const Number position = random.between(0, data), bytes = random.between(0, std::min<Number>(2 * data, 400));
  if (!make_member(description, displacement, position, bytes, whole)) return "";
  if (!make_member(other, displacement + shift, position, bytes, member)) return "";
  if (whole.claim.bytes == 0 || member.claim.bytes == 0) return "";
  if (random.between(0, 1) == 1) whole.claim = normal_form(whole.claim);
  return check_member(member, whole.claim, random);
}

/// A claim cut into as many parts as there are borders, each of which has what lies between two of them.
std::string check_clipped(std::uint64_t seed, Number size) {
  oracle::RandomDatatype random(seed, {size, 3, true, false});
  const Datatype description = random.make();
  const Number data = static_cast<Number>(oracle::expand(description).bytes.size());
  Member whole;
  if (!make_member(description, random.between(0, 9), random.between(0, data), random.between(0, std::min<Number>(3 * data, 400)), whole)) return "";
  if (random.between(0, 1) == 1) whole.claim = normal_form(whole.claim);
  Numbers left = whole.offsets;
  for (Number first = 0; !left.empty(); ) {
    const Number end = random.between(0, 9) == 0 ? INT64_MAX : first + random.between(0, 40);
    const Claim part = access::clipped(whole.claim, first, end);
    const auto behind = std::lower_bound(left.begin(), left.end(), end);
    if (part.bytes != behind - left.begin() || (part.bytes > 0 && offsets_of(part) != Numbers(left.begin(), behind)))
      return "another part in [" + std::to_string(first) + ", " + std::to_string(end) + ") of " + to_string(description);
    left.erase(left.begin(), behind);
    first = end;
  }
  return "";
}

/// Every so many-th piece of a regular pattern, or a part of it, in two levels: steps go over pieces and over copies.
std::string check_coarser_pattern(std::uint64_t seed, Number size) {
  oracle::RandomDatatype random(seed, {size, 1, true, false});
  const Number length = random.between(1, 8), stride = length + random.between(0, 4), count = random.between(1, 2 * size);
  const Number outer_stride = count * stride + random.between(0, 9), outer_count = random.between(1, size);
  const Number every = random.between(1, 3), outer_every = random.between(1, 3);
  const Number skipped = random.between(0, length - 1), part = random.between(1, length - skipped);
  const Datatype inner = oracle::hvector(count, 1, stride, oracle::elementary(length));
  const Datatype coarse = oracle::hvector((count + every - 1) / every, 1, every * stride, oracle::elementary(part));
  Member whole, member;
  const Number outer_taken = (outer_count + outer_every - 1) / outer_every;
  if (!make_member(oracle::hvector(outer_count, 1, outer_stride, inner), 5, 0, outer_count * count * length, whole))
    return "no filetype";
  if (!make_member(oracle::hvector(outer_taken, 1, outer_every * outer_stride, coarse), 5 + skipped, 0,
                   outer_taken * coarse.count * part, member))
    return "no filetype";
  whole.claim = normal_form(whole.claim);
  return check_member(member, whole.claim, random);
}

/// Bytes dealt out to some ranks at random, in stretches: every rank has an irregular list.
std::string check_dealt_bytes(std::uint64_t seed, Number size) {
  oracle::RandomDatatype random(seed, {size, 1, true, false});
  const std::size_t ranks = static_cast<std::size_t>(random.between(1, 5));
  std::vector<Numbers> lengths(ranks), displacements(ranks);
  Number at = random.between(0, 9);
  for (Number stretch = random.between(1, 10 * size); stretch > 0; --stretch) {
    const std::size_t rank = static_cast<std::size_t>(random.between(0, static_cast<Number>(ranks) - 1));
    lengths[rank].push_back(random.between(1, 4));
    displacements[rank].push_back(at);
    at += lengths[rank].back() + (random.between(0, 9) == 0 ? 2 : 0);
  }
  std::vector<Member> members;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const Datatype description = oracle::hindexed(lengths[rank], displacements[rank], oracle::elementary(1));
    Member member;
    const Number data = static_cast<Number>(oracle::expand(description).bytes.size());
    if (make_member(description, 0, 0, data, member)) members.push_back(member);
  }
  return check_merged(members, members.size(), random);
}

/// All ranks' parts of one distributed array, or the first few copies of it: one whole without gaps.
std::string check_distributed_array(std::uint64_t seed, Number size) {
  oracle::RandomDatatype random(seed, {size, 1, true, false});
  Datatype array;
  array.combiner = oracle::Combiner::kDarray;
  array.parts = {oracle::elementary(random.between(1, 8))};
  array.fortran = random.between(0, 1) == 1;
  for (Number dimensions = random.between(1, 3); dimensions > 0; --dimensions) {
    const auto spread = static_cast<oracle::Spread>(random.between(0, 2));
    array.sizes.push_back(random.between(1, size + 2));
    array.spreads.push_back(spread);
    array.process_sizes.push_back(spread == oracle::Spread::kNone ? 1 : random.between(1, 3));
    array.arguments.push_back(spread == oracle::Spread::kCyclic ? random.between(1, 3) : -1);
    array.process_count *= static_cast<int>(array.process_sizes.back());
  }
  std::vector<Member> members;
  const Number displacement = random.between(0, 5), copies = random.between(1, 2);
  for (array.rank = 0; array.rank < array.process_count; ++array.rank) {
    Member member;
    const Number data = static_cast<Number>(oracle::expand(array).bytes.size());
    if (!make_member(array, displacement, 0, copies * data, member)) return "no filetype: " + to_string(array);
    members.push_back(member);
  }
  std::string wrong = check_merged(members, 1, random);
  return wrong.empty() ? "" : wrong + " of " + to_string(array);
}

template <typename Check>
void check_random(int cases, Number size, Check check) {
  for (int seed = 1; seed <= case_count(cases); ++seed) {
    const std::string failure = oracle::smallest_failure(static_cast<std::uint64_t>(seed), size, check);
    ASSERT_EQ(failure, "");
  }
}

TEST(Merge, AnyClaimsKeepTheirBytes) { check_random(2000, 6, check_any_claims); }

TEST(Merge, DealtBytesKeepTheirBytes) { check_random(1500, 8, check_dealt_bytes); }

TEST(Merge, DistributedArraysAreOneWhole) { check_random(1000, 7, check_distributed_array); }

TEST(Merge, ClippedClaimsHaveWhatLiesThere) { check_random(3000, 6, check_clipped); }

TEST(Within, FindsAllBytesOfAMemberAndRefusesOthers) { check_random(2000, 6, check_any_pair); }

TEST(Within, GoesOverPiecesAndCopiesThatAMemberLeavesOut) { check_random(1000, 6, check_coarser_pattern); }

}  // namespace
}  // namespace penstock
