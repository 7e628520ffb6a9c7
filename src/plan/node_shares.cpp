// Entry by entry, turn by turn.
#include "plan/node_shares.h"

#include <algorithm>
#include <unordered_map>

#include "hints/names.h"

namespace penstock::plan {

namespace {

std::string host_of(const std::string& name) { return name.substr(0, name.find('.')); }

/// Of names in small letters whose hosts are the same.
bool same_name(const std::string& one, const std::string& other) {
  return one == other || one.find('.') == std::string::npos || other.find('.') == std::string::npos;
}

/// Gives each of `nodes` one in turn until it has `most` or its ranks are used up, while there are any left.
void deal(const std::vector<std::size_t>& nodes, int most, const std::vector<int>& ranks_of_node, int& left, std::vector<int>& shares) {
  for (int turn = 0; turn < most && left > 0; ++turn) {
    bool any = false;
    for (const std::size_t node : nodes) {
      if (turn >= ranks_of_node[node] || left == 0) continue;
      ++shares[node];
      --left;
      any = true;
    }
    if (!any) return;
  }
}

}  // namespace

std::vector<int> node_shares(const std::vector<hints::NodeLimit>& list, const std::vector<std::string>& name_of_node,
                             const std::vector<int>& ranks_of_node, int count) {
  std::vector<std::string> names;
  std::unordered_map<std::string, std::vector<std::size_t>> nodes_of_host;
  for (const std::string& name : name_of_node) {
    nodes_of_host[host_of(hints::lower(name))].push_back(names.size());
    names.push_back(hints::lower(name));
  }
  std::vector<int> shares(names.size(), 0);
  std::vector<bool> done(names.size(), false);
  int left = count > 0 ? count : INT_MAX;
  for (const hints::NodeLimit& entry : list) {
    const std::string wanted = hints::lower(entry.node);
    std::vector<std::size_t> meant;
    if (wanted.empty()) {
      for (std::size_t node = 0; node < names.size(); ++node)
        if (!done[node]) meant.push_back(node);
    } else if (const auto found = nodes_of_host.find(host_of(wanted)); found != nodes_of_host.end()) {
      for (const std::size_t node : found->second)
        if (!done[node] && same_name(wanted, names[node])) meant.push_back(node);
    }
    for (const std::size_t node : meant) done[node] = true;
    deal(meant, entry.most, ranks_of_node, left, shares);
  }
  return shares;
}

}  // namespace penstock::plan
