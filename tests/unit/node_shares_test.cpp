// Lists of nodes: what ROMIO's cb_config_list may say, and which nodes get how many aggregators by it.
#include "plan/node_shares.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "hints/hints.h"
#include "plan/aggregation.h"

namespace penstock {
namespace {

using hints::NodeLimit;
using hints::parse_config_list;
using List = std::vector<NodeLimit>;
using Shares = std::vector<int>;

TEST(ConfigList, WhatItMaySay) {
  EXPECT_EQ(parse_config_list("*:1"), (List{{"", 1}}));
  EXPECT_EQ(parse_config_list("*"), (List{{"", 1}}));
  EXPECT_EQ(parse_config_list("*:*"), (List{{"", INT_MAX}}));
  EXPECT_EQ(parse_config_list("host1:2,host2:1"), (List{{"host1", 2}, {"host2", 1}}));
  EXPECT_EQ(parse_config_list(" nid-0.example.org : 3 , b_2 , c:0,*:*"), (List{{"nid-0.example.org", 3}, {"b_2", 1}, {"c", 0}, {"", INT_MAX}}));
  for (const char* wrong : {"", ":", ":1", ",", "a,", ",a", "a,,b", "a:", "a:-1", "a:1x", "a:1:2", "a*:1", "*a:1", "**", "a b:1", "a:99999999999", "a:+1", "a;b", "a\x01",
                            "a/b:1", "\xff"})
    EXPECT_FALSE(parse_config_list(wrong).has_value()) << wrong;
  EXPECT_FALSE(parse_config_list(std::string(256, 'a')).has_value());
  EXPECT_FALSE(parse_config_list(std::string_view("a\0b", 3)).has_value());
}

TEST(ConfigList, AsHostileAsItGets) {
  std::mt19937 random(7);
  constexpr std::string_view kLetters = "ab*:,. 019-";
  for (int i = 0; i < 50000; ++i) {
    std::string text;
    for (auto length = random() % 12; length > 0; --length) text += kLetters[random() % kLetters.size()];
    const std::optional<List> list = parse_config_list(text);
    if (list) {
      ASSERT_EQ(parse_config_list(hints::text_of(*list)), list) << text;
    }
  }
  std::string many = "a";
  for (int i = 0; i < 70000; ++i) many += ",a";
  EXPECT_FALSE(parse_config_list(many).has_value());
}

TEST(ConfigList, AsAHint) {
  const auto give = [](const std::string& value) { return hints::apply(hints::defaults(), {{"cb_config_list", value, "MPI_Info"}}, hints::When::kOpen); };
  const hints::Parsed good = give(" b , *:2");
  EXPECT_TRUE(good.complaints.empty());
  EXPECT_EQ(good.hints.config_list, (List{{"b", 1}, {"", 2}}));
  EXPECT_EQ(good.hints.effective.at("cb_config_list"), "b:1,*:2");
  const hints::Parsed bad = give("*:x");
  ASSERT_EQ(bad.complaints.size(), 1U);
  EXPECT_NE(bad.complaints[0].find("\"*:x\" was ignored; expected entries like node:number"), std::string::npos) << bad.complaints[0];
  EXPECT_TRUE(bad.hints.config_list.empty());
  EXPECT_FALSE(bad.hints.effective.contains("cb_config_list"));
}

Shares shares(std::string_view list, const std::vector<std::string>& names, const std::vector<int>& ranks, int count) {
  return plan::node_shares(*parse_config_list(list), names, ranks, count);
}

TEST(NodeShares, ByNameAndOrder) {
  const std::vector<std::string> names = {"a", "b", "c"};
  const std::vector<int> four_each = {4, 4, 4};
  EXPECT_EQ(shares("*:1", names, four_each, 0), (Shares{1, 1, 1}));
  EXPECT_EQ(shares("*:*", names, {4, 2, 1}, 0), (Shares{4, 2, 1}));
  EXPECT_EQ(shares("b:2,a", names, four_each, 0), (Shares{1, 2, 0}));
  EXPECT_EQ(shares("b:2,a", names, four_each, 2), (Shares{0, 2, 0})) << "the first named get theirs first";
  EXPECT_EQ(shares("a:9", names, four_each, 0), (Shares{4, 0, 0})) << "no more than it has ranks";
  EXPECT_EQ(shares("b:0,*:2", names, four_each, 0), (Shares{2, 0, 2}));
  EXPECT_EQ(shares("*:2", names, four_each, 4), (Shares{2, 1, 1})) << "in turns";
  EXPECT_EQ(shares("*:2,a:4", names, four_each, 0), (Shares{2, 2, 2})) << "a counts by the first entry";
  EXPECT_EQ(shares("nowhere:4", names, four_each, 0), (Shares{0, 0, 0}));
  EXPECT_EQ(shares("*:3", {"a", "a", "b"}, four_each, 0), (Shares{3, 3, 3}));
  EXPECT_EQ(shares("a:1", {"a", "a", "b"}, four_each, 0), (Shares{1, 1, 0})) << "nodes that share a name have one each";
}

TEST(NodeShares, NamesWithAndWithoutDomain) {
  const std::vector<std::string> names = {"A.one.org", "a.two.org", "b"};
  const std::vector<int> ranks = {1, 1, 1};
  EXPECT_EQ(shares("a", names, ranks, 0), (Shares{1, 1, 0}));
  EXPECT_EQ(shares("a.one.org", names, ranks, 0), (Shares{1, 0, 0}));
  EXPECT_EQ(shares("B.any.org", names, ranks, 0), (Shares{0, 0, 1}));
  EXPECT_EQ(shares("10.0.0.1", {"10.0.0.1", "10.0.0.2"}, {1, 1}, 0), (Shares{1, 0}));
}

TEST(NodeShares, PlacedOnTheirNodes) {
  const std::vector<int> node_of_rank = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2};
  for (int local = 0; local <= 3; ++local)
    for (const Shares& of_node : {Shares{1, 1, 1}, Shares{0, 3, 0}, Shares{4, 0, 2}, Shares{0, 0, 1}})
      for (int rank = 0; rank < 10; ++rank) {
        const plan::Placement placement = plan::place(node_of_rank, rank, local, of_node);
        Shares found(3, 0);
        for (const int global : placement.global) {
          ++found[static_cast<std::size_t>(node_of_rank[static_cast<std::size_t>(global)])];
          ASSERT_TRUE(std::binary_search(placement.local.begin(), placement.local.end(), global));
        }
        ASSERT_EQ(found, of_node);
        ASSERT_EQ(placement.global, plan::place(node_of_rank, 0, local, of_node).global);
        ASSERT_EQ(node_of_rank[static_cast<std::size_t>(placement.leader)], node_of_rank[static_cast<std::size_t>(rank)]);
        ASSERT_EQ(placement.local.size() == 10, local == 0);
      }
}

}  // namespace
}  // namespace penstock
