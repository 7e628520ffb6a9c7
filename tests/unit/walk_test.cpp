// Agendas against windows looked at byte by byte: each byte of each walk comes up once, in the round and window that it lies in, and in order.
#include <gtest/gtest.h>

#include <tuple>

#include "strategy/walk.h"

namespace penstock::strategy {
namespace {

using plan::FileDomains;

constexpr Offset kFirst = 5, kEnd = 5 + 12 * 40;

/// One of three that deal a part of the file out in blocks of 4 bytes, and leave some to nobody; its data begin in the middle of a block.
Walk dealt_out(int which) {
  const Offset one = 1, at = which * 4;
  const access::Type blocks = *access::hindexed({&one, 1}, {&at, 1}, *access::elementary(4));
  return Walk(access::Claim{access::tile(*access::resized(0, 12, blocks), kFirst), 2, 150});
}

std::vector<FileDomains> some_domains() {
  return {FileDomains::contiguous(1, 1000, 1, kFirst, kEnd), FileDomains::contiguous(3, 16, 1, kFirst, kEnd), FileDomains::contiguous(4, 100, 8, kFirst, kEnd),
          FileDomains::cyclic(3, 16, 10), FileDomains::cyclic(2, 7, 40), FileDomains::cyclic(5, 1000, 1)};
}

class AgendaTest : public testing::TestWithParam<FileDomains> {
 protected:
  void SetUp() override {
    for (int which = 0; which < 3; ++which) walks.push_back(dealt_out(which));
    seen.assign(walks.size(), std::vector<int>(160, 0));
  }

  /// Goes through it to its end.
  void go_through(Agenda& agenda) {
    Offset before = -1;
    while (agenda.next_round() != INT64_MAX) {
      const Offset round = agenda.next_round();
      ASSERT_GT(round, before);
      before = round;
      std::tuple<int, std::uint32_t> last{-1, 0};
      agenda.take(round, [&](const Agenda::Entry& entry, Offset end) {
        ASSERT_LT(entry.position, end);
        const std::tuple<int, std::uint32_t> now{entry.aggregator, entry.index};
        ASSERT_LT(last, now);
        last = now;
        const FileDomains::Range window = domains.window(round, entry.aggregator);
        for (Offset position = entry.position; position < end; ++position) {
          const Offset offset = entry.walk->offset(position);
          ASSERT_TRUE(window.first <= offset && offset < window.end) << offset;
          ++seen[entry.index][static_cast<std::size_t>(position)];
        }
      });
    }
  }

  void expect_all_once() const {
    for (std::size_t which = 0; which < walks.size(); ++which)
      for (Offset position = 0; position < 160; ++position)
        ASSERT_EQ(seen[which][static_cast<std::size_t>(position)], position >= walks[which].begin() && position < walks[which].end ? 1 : 0)
            << "walk " << which << " position " << position;
  }

  const FileDomains domains = GetParam();
  std::vector<Walk> walks;
  std::vector<std::vector<int>> seen;
};

TEST_P(AgendaTest, HasEachByteInTheWindowItLiesIn) {
  walks[1].cut(300);
  Agenda agenda(domains);
  for (std::size_t which = 0; which < walks.size(); ++which) agenda.add(walks[which], which);
  go_through(agenda);
  expect_all_once();
}

TEST_P(AgendaTest, OfOneAggregatorHasWhatIsIts) {
  for (int aggregator = 0; aggregator < domains.aggregators(); ++aggregator) {
    Agenda agenda(domains);
    for (std::size_t which = 0; which < walks.size(); ++which) agenda.add(walks[which], which, aggregator);
    agenda.take(INT64_MAX - 1, [](const Agenda::Entry&, Offset) { FAIL() << "no such round"; });
    go_through(agenda);
  }
  expect_all_once();
}

INSTANTIATE_TEST_SUITE_P(Domains, AgendaTest, testing::ValuesIn(some_domains()));

TEST(Walk, IsCutBeforeTheFirstByteAtAnOffset) {
  Walk walk = dealt_out(0);  // bytes 5 to 8, 17 to 20, 29 to 32 ..., from byte 7 on
  walk.cut(18);
  EXPECT_EQ(walk.end, 5);
  walk.cut(12);
  EXPECT_EQ(walk.end, 4);
  EXPECT_FALSE(walk.empty());
  walk.cut(0);
  EXPECT_TRUE(walk.empty());
  EXPECT_EQ(walk.end, walk.begin());
}

}  // namespace
}  // namespace penstock::strategy
