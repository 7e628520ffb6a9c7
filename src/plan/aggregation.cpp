// Spreading evenly, and dealing out windows.
#include "plan/aggregation.h"

#include <algorithm>
#include <climits>

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

namespace {

/// Places the local aggregators: of each node as many as `wanted` says.  Tells the ranks of each node's, in the order of the nodes.
std::vector<std::vector<int>> place_local(const std::vector<int>& node_of_rank, int rank, const std::vector<int>& wanted, Placement& placement) {
  std::vector<std::vector<int>> ranks_of_node(wanted.size()), local_of_node(wanted.size());
  for (int other = 0; other < static_cast<int>(node_of_rank.size()); ++other)
    ranks_of_node[static_cast<std::size_t>(node_of_rank[static_cast<std::size_t>(other)])].push_back(other);
  for (std::size_t node = 0; node < wanted.size(); ++node) {
    const std::vector<int>& ranks = ranks_of_node[node];
    const int size = static_cast<int>(ranks.size());
    const std::vector<int> places = local_aggregators(size, wanted[node]);
    for (const int place : places) local_of_node[node].push_back(ranks[static_cast<std::size_t>(place)]);
    placement.local.insert(placement.local.end(), local_of_node[node].begin(), local_of_node[node].end());
    if (static_cast<int>(node) != node_of_rank[static_cast<std::size_t>(rank)]) continue;
    const auto mine = std::lower_bound(ranks.begin(), ranks.end(), rank) - ranks.begin();
    const auto next = std::upper_bound(places.begin(), places.end(), static_cast<int>(mine));
    placement.first = *(next - 1);
    placement.leader = ranks[static_cast<std::size_t>(placement.first)];
    placement.count = (next == places.end() ? size : *next) - placement.first;
  }
  std::sort(placement.local.begin(), placement.local.end());
  return local_of_node;
}

/// At least `local_per_node`, and enough for the global ones.
int enough_local(int local_per_node, int global) { return local_per_node == 0 ? INT_MAX : std::max(local_per_node, global); }

}  // namespace

Placement place(const std::vector<int>& node_of_rank, int rank, int local_per_node, int global) {
  const int nodes = *std::max_element(node_of_rank.begin(), node_of_rank.end()) + 1;
  const int wanted = enough_local(local_per_node, (global + nodes - 1) / nodes);
  Placement placement;
  std::vector<int> node_of_local, locals;
  const auto local_of_node = place_local(node_of_rank, rank, std::vector<int>(static_cast<std::size_t>(nodes), wanted), placement);
  for (std::size_t node = 0; node < local_of_node.size(); ++node) {
    locals.insert(locals.end(), local_of_node[node].begin(), local_of_node[node].end());
    node_of_local.insert(node_of_local.end(), local_of_node[node].size(), static_cast<int>(node));
  }
  for (const int index : global_aggregators(node_of_local, global)) placement.global.push_back(locals[static_cast<std::size_t>(index)]);
  std::sort(placement.global.begin(), placement.global.end());
  return placement;
}

Placement place(const std::vector<int>& node_of_rank, int rank, int local_per_node, const std::vector<int>& global_of_node) {
  Placement placement;
  std::vector<int> wanted;
  for (const int global : global_of_node) wanted.push_back(enough_local(local_per_node, global));
  const auto local_of_node = place_local(node_of_rank, rank, wanted, placement);
  for (std::size_t node = 0; node < local_of_node.size(); ++node) {
    const std::vector<int>& locals = local_of_node[node];
    if (global_of_node[node] == 0) continue;
    for (const int index : local_aggregators(static_cast<int>(locals.size()), global_of_node[node]))
      placement.global.push_back(locals[static_cast<std::size_t>(index)]);
  }
  std::sort(placement.global.begin(), placement.global.end());
  return placement;
}

int automatic_global(const std::vector<int>& node_of_rank, int local_per_node, int processors, int interfaces) {
  constexpr int kWhereOneCopies = 4;
  const int nodes = *std::max_element(node_of_rank.begin(), node_of_rank.end()) + 1;
  const int of_a_node = local_per_node > 0 ? interfaces : std::clamp(processors, 1, std::max(kWhereOneCopies, interfaces));
  return std::min(nodes * of_a_node, static_cast<int>(node_of_rank.size()));
}

bool better_alone(Offset pieces, Offset bytes) {
  constexpr Offset kLargePiece = Offset{4} << 20;
  return pieces <= 1 || bytes / pieces >= kLargePiece;
}

Offset window_bytes(int local, Offset limit) {
  constexpr Offset kLeast = Offset{1} << 20;
  constexpr Offset kMessage = Offset{64} << 10;
  return std::min(std::max(kLeast, kMessage * local), limit);
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
