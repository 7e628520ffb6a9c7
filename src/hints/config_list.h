// How many aggregators each node may have, as ROMIO's hint cb_config_list says it.  Knows neither nodes nor ranks.
#pragma once

#include <climits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::hints {

/// One entry of the list.
struct NodeLimit {
  std::string node;  ///< a host name; empty: every node that no earlier entry is about
  int most = 1;      ///< INT_MAX: all its ranks
  bool operator==(const NodeLimit&) const = default;
};

/// Parses entries NODE or NODE:NUMBER joined by commas, where NODE is a name, or * for all nodes that no earlier entry is about, and NUMBER is
/// how many aggregators each of them may have: a number, or * for all its ranks; 1 without one.  Nothing when the text is anything else.
std::optional<std::vector<NodeLimit>> parse_config_list(std::string_view text);

/// The text that parses to `list`.
std::string text_of(const std::vector<NodeLimit>& list);

}  // namespace penstock::hints
