// The list of candidates, and the least of it.
#include "model/candidates.h"

#include <algorithm>

namespace penstock::model {

namespace {

constexpr int kGlobalOfANodeMost = 4;

/// 1, 2, 4, ... and `most`.
std::vector<int> doubling(int most) {
  std::vector<int> numbers;
  for (int number = 1; number < most; number *= 2) numbers.push_back(number);
  numbers.push_back(most);
  return numbers;
}

}  // namespace

std::vector<Candidate> candidates_of(const Workload& work, const Possible& possible, double window) {
  std::vector<Candidate> candidates{{Way::kIndependent, 0, 1, window}};
  if (possible.mapped) candidates.push_back({Way::kMapped, 0, 1, window});
  if (work.write ? possible.sieved_writes : possible.sieved_reads) candidates.push_back({Way::kSieved, 0, 1, window});
  if (!possible.collective) return candidates;
  const int of_a_node = std::max(1, (work.ranks + work.nodes - 1) / work.nodes);
  const std::vector<int> globals = doubling(std::min(kGlobalOfANodeMost, of_a_node));
  for (const int local : doubling(of_a_node)) {
    if (local == of_a_node) break;  // every rank a local aggregator: that is two_phase
    for (const int global : globals)
      if (global <= local) candidates.push_back({Way::kTwoLayer, local, global * work.nodes, window});
  }
  for (const int global : globals) candidates.push_back({Way::kTwoPhase, 0, std::min(global * work.nodes, work.ranks), window});
  return candidates;
}

std::size_t least_of(std::span<const double> seconds, double tie) {
  const double least = *std::min_element(seconds.begin(), seconds.end());
  const auto first = std::find_if(seconds.begin(), seconds.end(), [&](double one) { return one <= least * (1 + tie); });
  return static_cast<std::size_t>(first - seconds.begin());
}

}  // namespace penstock::model
