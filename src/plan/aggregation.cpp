// Spreading evenly, and dealing out windows.
#include "plan/aggregation.h"

#include <algorithm>

namespace penstock::plan {

std::vector<int> local_aggregators(int ranks, int count) {
  count = std::min(count, ranks);
  const int larger = ranks % count, most = (ranks + count - 1) / count, least = ranks / count;
  std::vector<int> chosen;
  chosen.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) chosen.push_back(i < larger ? most * i : most * larger + least * (i - larger));
  return chosen;
}

std::vector<int> global_aggregators(const std::vector<int>& node_of_rank, int count) {
  const int ranks = static_cast<int>(node_of_rank.size());
  const int nodes = *std::max_element(node_of_rank.begin(), node_of_rank.end()) + 1;
  count = count == 0 ? nodes : std::min(count, ranks);
  std::vector<std::vector<int>> ranks_of_node(static_cast<std::size_t>(nodes));
  for (int rank = 0; rank < ranks; ++rank) ranks_of_node[static_cast<std::size_t>(node_of_rank[static_cast<std::size_t>(rank)])].push_back(rank);
  std::vector<int> share(static_cast<std::size_t>(nodes), 0);
  if (count <= nodes) {
    for (const int node : local_aggregators(nodes, count)) share[static_cast<std::size_t>(node)] = 1;
  } else {
    // In turns, so that nodes with few ranks leave theirs to the others.
    for (int left = count; left > 0;)
      for (int node = 0; node < nodes && left > 0; ++node) {
        const auto n = static_cast<std::size_t>(node);
        if (share[n] == static_cast<int>(ranks_of_node[n].size())) continue;
        ++share[n];
        --left;
      }
  }
  std::vector<int> chosen;
  for (std::size_t node = 0; node < ranks_of_node.size(); ++node)
    if (share[node] > 0)
      for (const int place : local_aggregators(static_cast<int>(ranks_of_node[node].size()), share[node]))
        chosen.push_back(ranks_of_node[node][static_cast<std::size_t>(place)]);
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

Offset FileDomains::window(Offset round, int aggregator) const {
  Offset number = 0;
  Offset first = 0;
  if (!checked_multiply(round, aggregators_, number) || !checked_add(number, aggregator, number) ||
      !checked_multiply(number, window_bytes_, first))
    return INT64_MAX;
  return first;
}

Offset FileDomains::window_end(Offset first) const {
  Offset end = 0;
  return checked_add(first, window_bytes_, end) ? end : INT64_MAX;
}

bool FileDomains::reaches(Offset first, Offset end, int aggregator) const {
  if (end <= first) return false;
  const Offset from = first / window_bytes_, last = (end - 1) / window_bytes_;
  if (last - from >= aggregators_ - 1) return true;
  const Offset turn = from % aggregators_;
  return (aggregator - turn + aggregators_) % aggregators_ <= last - from;
}

}  // namespace penstock::plan
