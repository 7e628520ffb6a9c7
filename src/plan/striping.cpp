// Divisors: a number of aggregators that divides the number of stripes meets the same targets in every turn.
#include "plan/striping.h"

#include <algorithm>

namespace penstock::plan {

namespace {

constexpr int kMostOfATarget = 4;
/// So few ranks do not need a second aggregator on a target that one keeps busy.
constexpr int kRanksOfAnAggregator = 16;

/// The largest divisor of `number` that is at most `most`.
int divisor_below(int number, int most) {
  int divisor = std::min(number, most);
  while (number % divisor != 0) --divisor;
  return divisor;
}

/// `unit` halved until it is at most `limit`; 0 when that does not come out even.
Offset halved(Offset unit, Offset limit) {
  while (unit > limit && unit % 2 == 0) unit /= 2;
  return unit > limit ? 0 : unit;
}

}  // namespace

int workers(const std::vector<int>& node_of_rank, int processors) {
  const int nodes = *std::max_element(node_of_rank.begin(), node_of_rank.end()) + 1;
  std::vector<int> ranks(static_cast<std::size_t>(nodes), 0);
  int sum = 0;
  for (const int node : node_of_rank)
    if (ranks[static_cast<std::size_t>(node)]++ < processors) ++sum;
  return sum;
}

int striped_aggregators(const Striping& striping, int ranks, int most) {
  const int wanted = std::min(most, striping.target_count);
  const int fitting = divisor_below(striping.stripe_count, wanted);
  if (fitting == striping.stripe_count) {
    const int abundance = std::min(ranks / kRanksOfAnAggregator, most) / fitting;
    return fitting * std::clamp(abundance, 1, kMostOfATarget);
  }
  return 2 * fitting >= wanted ? fitting : wanted;
}

Offset aligned_window_bytes(const Striping& striping, int aggregators, Offset wanted, Offset limit) {
  const Offset unit = striping.stripe_bytes > 0 ? striping.stripe_bytes : striping.block_bytes;
  if (unit > wanted) {
    const Offset window = halved(unit, limit);
    return window > 0 ? window : wanted;
  }
  if (striping.stripe_bytes == 0) return wanted - wanted % unit;
  // A window of several stripes lies on several targets: those stay the aggregator's own in the next turn when the windows of a turn divide the stripes of a
  // turn.
  if (striping.stripe_count % aggregators != 0) return unit;
  const int share = striping.stripe_count / aggregators;
  return unit * divisor_below(share, static_cast<int>(std::min<Offset>(share, wanted / unit)));
}

}  // namespace penstock::plan
