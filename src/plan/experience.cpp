// Medians of ratios, hysteresis and a budget.
#include "plan/experience.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

namespace penstock::plan {

namespace {

std::int8_t logarithm(Offset number) {
  std::int8_t bits = 0;
  for (; number > 1; number >>= 1) ++bits;
  return bits;
}

std::size_t index_of(model::Way way) { return static_cast<std::size_t>(way); }

/// 1 where nothing is known.
double correction(const Experience::Known& known, model::Way way) {
  std::array<float, Experience::Known::kRatios> ratios = known.ratios[index_of(way)];
  const auto count = static_cast<std::size_t>(std::count_if(ratios.begin(), ratios.end(), [](float ratio) { return ratio > 0; }));
  if (count == 0) return 1;
  std::sort(ratios.begin(), ratios.end(), std::greater<>());
  return ratios[count / 2];  // of two the lesser: what a call took longer may be somebody else's doing
}

bool was_measured(const Experience::Known& known, model::Way way) { return known.ratios[index_of(way)][0] > 0; }

double expected(const Experience::Known& known, const Estimate& estimate) { return estimate.seconds * correction(known, estimate.way); }

}  // namespace

Signature signature_of(bool write, bool fresh, Offset bytes, Offset pieces, Offset span_bytes) {
  pieces = std::max<Offset>(pieces, 1);
  return {write, fresh, logarithm(bytes), logarithm(bytes / pieces), logarithm(span_bytes / pieces)};
}

Experience::Known& Experience::of(const Signature& signature) {
  auto* const end = known_.begin() + static_cast<std::ptrdiff_t>(count_);
  auto* found = std::find_if(known_.begin(), end, [&](const Known& one) { return one.signature == signature; });
  if (found == end) {
    if (count_ < kKept) ++count_;
    found = known_.begin() + static_cast<std::ptrdiff_t>(count_) - 1;
    *found = Known{.signature = signature};
  }
  std::rotate(known_.begin(), found, found + 1);
  return known_.front();
}

Experience::Decision Experience::decide(const Signature& signature, std::span<const Estimate> estimates) {
  Known& known = of(signature);
  std::size_t best = 0, current = estimates.size();
  for (std::size_t i = 0; i < estimates.size(); ++i) {
    if (expected(known, estimates[i]) < expected(known, estimates[best])) best = i;
    if (known.current >= 0 && index_of(estimates[i].way) == static_cast<std::size_t>(known.current)) current = i;
  }
  if (current == estimates.size() || expected(known, estimates[best]) < kHysteresis * expected(known, estimates[current])) current = best;
  known.current = static_cast<std::int8_t>(index_of(estimates[current].way));
  known.expected = expected(known, estimates[current]);

  // Nothing is tried before it is known what the way in use really takes.
  if (!was_measured(known, estimates[current].way)) return {current, known.expected, false};
  for (std::size_t i = 0; i < estimates.size(); ++i) {
    if (was_measured(known, estimates[i].way) || estimates[i].seconds > kHopeless * known.expected) continue;
    const double more = std::max(0.0, estimates[i].seconds - known.expected);
    // As much again: a prediction that nobody has checked may be wrong by that.
    if (known.spent_on_tries + more + known.expected <= kTriesMost * known.spent) return {i, estimates[i].seconds, true};
  }
  return {current, known.expected, false};
}

void Experience::note(const Signature& signature, const Estimate& estimate, double seconds, bool tried) {
  if (!(seconds > 0) || !(estimate.seconds > 0)) return;
  Known& known = of(signature);
  known.spent += seconds;
  if (tried) known.spent_on_tries += std::max(0.0, seconds - known.expected);
  auto& ratios = known.ratios[index_of(estimate.way)];
  std::rotate(ratios.begin(), ratios.end() - 1, ratios.end());
  ratios[0] = static_cast<float>(std::clamp(seconds / estimate.seconds, 1 / kCorrectionMost, kCorrectionMost));
}

bool Experience::only_prepares(const Signature& signature) { return !std::exchange(of(signature).prepared, true); }

void Experience::recall(std::span<const Known> known) {
  count_ = 0;
  for (const Known& one : known.first(std::min(known.size(), kKept))) {
    Known taken{.signature = one.signature};
    taken.prepared = one.prepared;
    for (std::size_t way = 0; way < taken.ratios.size(); ++way) {
      std::size_t count = 0;
      for (const float ratio : one.ratios[way])
        if (std::isfinite(ratio) && ratio >= 1 / kCorrectionMost && ratio <= kCorrectionMost) taken.ratios[way][count++] = ratio;
    }
    if (one.current >= 0 && static_cast<std::size_t>(one.current) < model::kWayNames.size()) taken.current = one.current;
    known_[count_++] = taken;
  }
}

}  // namespace penstock::plan
