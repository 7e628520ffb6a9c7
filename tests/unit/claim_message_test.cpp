// What local aggregators tell global ones of long descriptions, and what they make of messages that are torn.
#include "strategy/claim_message.h"

#include <gtest/gtest.h>

#include "access/wire.h"

namespace penstock::strategy {
namespace {

using plan::FileDomains;

Facts facts(Offset first, Offset end, std::uint64_t told_bytes) {
  Facts facts;
  facts.first = first;
  facts.end = end;
  facts.told_bytes = told_bytes;
  return facts;
}

constexpr std::uint64_t kLong = plan::kToldWhole + 1;

TEST(ToldRange, IsAllOfAShortDescriptionAndTheSurroundingsOfALongOne) {
  const FileDomains domains = FileDomains::contiguous(4, 4096, 4096, 0, 1 << 20);
  for (int place = 0; place < 4; ++place) {
    EXPECT_EQ(told_range(facts(0, 1 << 20, plan::kToldWhole), domains, place).end, INT64_MAX);
    const FileRange part = told_range(facts(0, 1 << 20, kLong), domains, place), near = domains.surroundings(place);
    EXPECT_EQ(part.first, near.first);
    EXPECT_EQ(part.end, near.end);
  }
  const FileRange own = told_range(facts(5, 4000, kLong), domains, 0);
  EXPECT_EQ(own.first, 0);
  EXPECT_EQ(own.end, INT64_MAX) << "all of it lies there";
  EXPECT_TRUE(some_tell_parts({facts(0, 9, 9), facts(0, 1 << 20, kLong)}, domains));
  EXPECT_FALSE(some_tell_parts({facts(0, 9, 9), facts(0, 1 << 20, plan::kToldWhole)}, domains));
}

TEST(ToldRange, IsAllWhereTheFileIsNotInParts) {
  for (const FileDomains& domains : {FileDomains::contiguous(1, 4096, 4096, 0, 1 << 20), FileDomains::cyclic(4, 4096, 4096)}) {
    EXPECT_EQ(told_range(facts(0, 1 << 20, kLong), domains, 0).end, INT64_MAX);
    EXPECT_FALSE(some_tell_parts({facts(0, 1 << 20, kLong)}, domains));
  }
}

/// By its end alone it is known whether all is told: then that is also what is kept.
TEST(ToldRange, ThatHasNoEndHasNoBeginEither) {
  for (const Offset end : {INT64_MAX, INT64_MAX - 1, INT64_MAX - 4095, INT64_MAX - 4096, INT64_MAX - 9999}) {
    const FileDomains domains = FileDomains::contiguous(2, 4096, 4096, 1000, end);
    for (int place = 0; place < 2; ++place) {
      const FileRange told = told_range(facts(1000, end, kLong), domains, place);
      if (told.end == INT64_MAX) {
        EXPECT_EQ(told.first, 0) << end;
      }
    }
  }
}

TEST(ClaimMessage, IsReadAsItWasWrittenAndRefusedWhereItIsTorn) {
  const std::vector<Offset> offsets{3, 10, 40}, lengths{2, 5, 1};
  const access::Tiling tiling = access::tile(*access::hindexed(lengths, offsets, *access::elementary(1)), 1000);
  std::vector<std::byte> tree, message;
  access::pack(tiling, tree);
  append_claim({tiling, 3, 9}, tree, message);
  append_claim({tiling, 0, 8}, tree, message);
  std::vector<access::Claim> claims;
  ASSERT_TRUE(read_claims(1, message, claims).ok());
  ASSERT_EQ(claims.size(), 2U);
  EXPECT_EQ(claims[0].position, 3);
  EXPECT_EQ(claims[0].bytes, 9);
  for (Offset position = 0; position < 8; ++position) EXPECT_EQ(access::offset_of(claims[1].tiling, position), access::offset_of(tiling, position));
  for (std::size_t size = 1; size < message.size(); ++size) {
    if (size == message.size() / 2) continue;  // the first of them alone
    std::vector<access::Claim> some;
    EXPECT_EQ(read_claims(1, std::span(message).first(size), some).code(), Code::kIntern) << size;
  }
}

}  // namespace
}  // namespace penstock::strategy
