// Spreading evenly, and dividing files.
#include "plan/aggregation.h"

#include <algorithm>
#include <climits>

namespace penstock::plan {

namespace {

__extension__ typedef __int128 Wide;

Offset align_down(Offset offset, Offset alignment) { return offset - offset % alignment; }

/// Rounded up.
Wide divided(Wide bytes, Wide by) { return (bytes + by - 1) / by; }

/// The end of `bytes` from `first` on; the largest offset where it lies beyond.
Offset end_of(Offset first, Offset bytes) {
  Offset end = 0;
  return checked_add(first, bytes, end) ? end : INT64_MAX;
}

/// How many of `aggregators` make each of them meet the same of `devices` in every turn.
int matching(int aggregators, int devices) {
  if (aggregators >= devices) return aggregators / devices * devices;
  for (int count = aggregators; 2 * count >= aggregators; --count)
    if (devices % count == 0) return count;
  return aggregators;
}

}  // namespace

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

std::vector<int> local_numbers(int ranks_in_node) {
  std::vector<int> numbers{1};
  while (numbers.size() + 1 < kLocalNumbersMost && numbers.back() * 2 < ranks_in_node) numbers.push_back(numbers.back() * 2);
  if (ranks_in_node > 1) numbers.push_back(0);
  return numbers;
}

int automatic_global(const std::vector<int>& node_of_rank, int local_per_node, int processors, int interfaces) {
  constexpr int kWhereOneCopies = 4;
  const int nodes = *std::max_element(node_of_rank.begin(), node_of_rank.end()) + 1;
  const int copying = std::clamp(processors, 1, std::max(kWhereOneCopies, interfaces));
  const int of_a_node = local_per_node == 0 ? copying : std::max(interfaces, std::min(local_per_node, copying));
  return std::min(nodes * of_a_node, static_cast<int>(node_of_rank.size()));
}

bool may_gather_on_a_node(int ranks, int processors) {
  constexpr int kManyRanks = 12;
  return ranks >= kManyRanks || (ranks > 1 && ranks >= processors);
}

Offset window_bytes(int local, Offset limit) {
  constexpr Offset kLeast = Offset{1} << 20;
  constexpr Offset kMessage = Offset{64} << 10;
  return std::min(std::max(kLeast, kMessage * local), limit);
}

FileDomains FileDomains::contiguous(int aggregators, Offset window_bytes, Offset alignment_bytes, Offset first, Offset end) {
  FileDomains domains;
  domains.aggregators_ = aggregators;
  domains.window_bytes_ = window_bytes;
  if (window_bytes > alignment_bytes) {
    const Offset most = align_down(window_bytes, alignment_bytes);
    const Wide part = divided(static_cast<Wide>(end) - first, aggregators);
    const Wide windows = std::max<Wide>(divided(part, most), 1);
    // With one more multiple: boundaries are aligned down, so a part may be a little larger, and what is left must not need a window of its own.
    const Wide equal = (divided(divided(part, windows), alignment_bytes) + 1) * alignment_bytes;
    domains.window_bytes_ = static_cast<Offset>(std::min<Wide>(most, equal));
  }
  domains.alignment_bytes_ = alignment_bytes;
  domains.accessed_ = {first, end};
  return domains;
}

FileDomains FileDomains::cyclic(int aggregators, Offset window_bytes, Offset unit_bytes) {
  FileDomains domains;
  domains.aggregators_ = aggregators;
  domains.window_bytes_ = std::min(window_bytes, unit_bytes);
  domains.unit_bytes_ = unit_bytes;
  return domains;
}

/// Where the contiguous domain of an aggregator begins, and the one before ends.
Offset FileDomains::boundary(int aggregator) const {
  if (aggregator == aggregators_) return accessed_.end;
  const Wide before = static_cast<Wide>(accessed_.end - accessed_.first) * aggregator / aggregators_;
  return align_down(accessed_.first + static_cast<Offset>(before), alignment_bytes_);
}

/// The last aggregator whose contiguous domain begins at or before `offset`, which is accessed.
int FileDomains::owner(Offset offset) const {
  // Boundaries are aligned down: they are at or before `offset` where they were, unaligned, before the next multiple.
  const Wide next = static_cast<Wide>(align_down(offset, alignment_bytes_)) + alignment_bytes_ - accessed_.first;
  const Wide last = (next * aggregators_ - 1) / (accessed_.end - accessed_.first);
  return static_cast<int>(std::min<Wide>(last, aggregators_ - 1));
}

FileDomains::Range FileDomains::domain(int aggregator) const {
  return unit_bytes_ == 0 ? Range{boundary(aggregator), boundary(aggregator + 1)} : Range{0, INT64_MAX};
}

FileDomains::Range FileDomains::surroundings(int aggregator) const {
  const Range part = domain(aggregator);
  return {std::max<Offset>(part.first - alignment_bytes_, 0), end_of(part.end, alignment_bytes_)};
}

FileDomains::Range FileDomains::window(Offset round, int aggregator) const {
  constexpr Range kBeyond{INT64_MAX, INT64_MAX};
  Offset first = 0;
  if (unit_bytes_ == 0) {
    const Offset end = boundary(aggregator + 1);
    if (!checked_multiply(round, window_bytes_, first) || !checked_add(boundary(aggregator), first, first) || first >= end) return kBeyond;
    return {first, std::min(end_of(first, window_bytes_), end)};
  }
  const Offset in_unit = (unit_bytes_ - 1) / window_bytes_ + 1;
  Offset unit = 0;
  if (!checked_multiply(round / in_unit, aggregators_, unit) || !checked_add(unit, aggregator, unit) || !checked_multiply(unit, unit_bytes_, unit) ||
      !checked_add(unit, round % in_unit * window_bytes_, first))
    return kBeyond;
  return {first, std::min(end_of(first, window_bytes_), end_of(unit, unit_bytes_))};
}

Offset FileDomains::round_of(Offset offset) const {
  if (unit_bytes_ == 0) return (offset - boundary(owner(offset))) / window_bytes_;
  const Offset in_unit = (unit_bytes_ - 1) / window_bytes_ + 1;
  return offset / unit_bytes_ / aggregators_ * in_unit + offset % unit_bytes_ / window_bytes_;
}

FileDomains::Reach FileDomains::reach(Offset first, Offset end) const {
  if (unit_bytes_ == 0) {
    const int from = owner(first);
    return {from, owner(end - 1) - from + 1};
  }
  const Offset from = first / unit_bytes_, last = (end - 1) / unit_bytes_;
  return {static_cast<int>(from % aggregators_), static_cast<int>(std::min<Offset>(last - from + 1, aggregators_))};
}

Offset FileDomains::next_of(int aggregator, Offset offset) const {
  if (unit_bytes_ == 0) {
    const Offset end = boundary(aggregator + 1);
    const Offset next = std::max(offset, boundary(aggregator));
    return next < end ? next : INT64_MAX;
  }
  const Offset unit = offset / unit_bytes_;
  const Offset distance = (aggregator - unit % aggregators_ + aggregators_) % aggregators_;
  if (distance == 0) return offset;
  Offset next = 0;
  return checked_add(unit, distance, next) && checked_multiply(next, unit_bytes_, next) ? next : INT64_MAX;
}

FileDomains domains_for(const DomainRules& rules, Offset first, Offset end, int aggregators) {
  if (rules.striped())
    return FileDomains::cyclic(rules.asked_for ? rules.aggregators : matching(rules.aggregators, rules.stripe_count), rules.window_bytes, rules.stripe_bytes);
  return FileDomains::contiguous(aggregators, rules.window_bytes, rules.alignment_bytes, first, end);
}

int standing(int place, int used, int all) { return static_cast<int>(Offset{place} * all / used); }

int place_of(int at, int used, int all) {
  const int place = static_cast<int>((Offset{at} * used + all - 1) / all);
  return place < used && standing(place, used, all) == at ? place : -1;
}

}  // namespace penstock::plan
