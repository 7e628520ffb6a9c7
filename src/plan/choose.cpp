// What is allowed is decided here; what it costs is the model's.
#include "plan/choose.h"

#include <algorithm>

namespace penstock::plan {

namespace {

using model::Way;

bool can_map(const StoreFacts& facts) { return facts.can_map && facts.maps_coherent; }

bool can_sieve_writes(const StoreFacts& facts) { return facts.node_local && facts.range_locks; }

void allow_reads(const StoreFacts& facts, const hints::Hints& hints, Estimates& ways) {
  if (hints.sieve_reads == hints::Switch::kEnable) return ways.add(Way::kSieved);
  ways.add(Way::kIndependent);
  if (can_map(facts) && facts.node_local) ways.add(Way::kMapped);
  if (hints.sieve_reads != hints::Switch::kDisable) ways.add(Way::kSieved);
}

void allow_writes(const StoreFacts& facts, const hints::Hints& hints, bool may_sieve, Estimates& ways) {
  if (may_sieve && hints.sieve_writes == hints::Switch::kEnable) return ways.add(Way::kSieved);
  ways.add(Way::kIndependent);
  if (can_map(facts) && facts.node_local) ways.add(Way::kMapped);
}

/// Where each of the node's ranks does as this one: side by side in the file where that has room between this one's pieces, else one behind the other.
model::Workload workload_of(const Pattern& pattern, const hints::Hints& hints, const Setting& setting) {
  const auto ranks = static_cast<double>(setting.ranks_in_node);
  model::Workload work;
  work.write = pattern.write;
  work.fresh = pattern.fresh;
  work.ranks = setting.ranks_in_node;
  work.processors = setting.processors;
  work.bytes = static_cast<double>(pattern.bytes) * ranks;
  work.pieces = static_cast<double>(pattern.pieces) * ranks;
  work.rank_span = static_cast<double>(pattern.span_bytes);
  work.span = std::max(work.rank_span, work.bytes);
  work.sieve_buffer = static_cast<double>(pattern.write ? hints.write_buffer_bytes : hints.read_buffer_bytes);
  return work;
}

}  // namespace

Estimates allowed(const Pattern& pattern, const StoreFacts& facts, const hints::Hints& hints, bool may_sieve_writes) {
  const bool may_sieve = !pattern.write || (may_sieve_writes && can_sieve_writes(facts));
  Estimates ways;
  if (pattern.bytes == 0) {
    ways.add(Way::kIndependent);
    return ways;
  }
  switch (hints.strategy) {
    case hints::Strategy::kIndependent:
      ways.add(Way::kIndependent);
      return ways;
    case hints::Strategy::kMapped:
      ways.add(can_map(facts) ? Way::kMapped : Way::kIndependent);
      return ways;
    case hints::Strategy::kSieved:
      ways.add(may_sieve ? Way::kSieved : Way::kIndependent);
      return ways;
    case hints::Strategy::kTwoPhase:  // these two of collective calls only; this is about one rank's own access
    case hints::Strategy::kTwoLayer:
    case hints::Strategy::kAutomatic:
      break;
  }
  if (pattern.pieces <= 1)
    ways.add(Way::kIndependent);
  else if (pattern.write)
    allow_writes(facts, hints, may_sieve, ways);
  else
    allow_reads(facts, hints, ways);
  return ways;
}

bool wants_sieved_writes(const StoreFacts& facts, const hints::Hints& hints) {
  if (!can_sieve_writes(facts)) return false;
  switch (hints.strategy) {
    case hints::Strategy::kIndependent:
    case hints::Strategy::kMapped:
      return false;
    case hints::Strategy::kSieved:
      return true;
    case hints::Strategy::kTwoPhase:
    case hints::Strategy::kTwoLayer:
    case hints::Strategy::kAutomatic:
      break;
  }
  return hints.sieve_writes == hints::Switch::kEnable;
}

void estimate(const Pattern& pattern, const hints::Hints& hints, const Setting& setting, Estimates& ways) {
  const model::Workload work = workload_of(pattern, hints, setting);
  for (Estimate& way : ways.list()) way.seconds = model::predict(setting.figures, work, {.way = way.way}).sum();
}

Estimates estimate(const Pattern& pattern, const StoreFacts& facts, const hints::Hints& hints, bool may_sieve_writes, const Setting& setting) {
  Estimates ways = allowed(pattern, facts, hints, may_sieve_writes);
  if (!ways.decided()) estimate(pattern, hints, setting, ways);
  return ways;
}

namespace {

model::Workload workload_of(const Accessed& all, bool write, bool planned, const Setting& setting) {
  model::Workload work;
  work.write = write;
  work.fresh = all.fresh;
  work.planned = planned;
  work.ranks = setting.ranks;
  work.nodes = setting.nodes;
  work.processors = setting.processors;
  work.bytes = static_cast<double>(all.bytes);
  work.pieces = static_cast<double>(all.pieces);
  work.span = static_cast<double>(all.end) - static_cast<double>(all.first);
  work.rank_span = std::min(static_cast<double>(all.rank_span), work.span);
  work.told_bytes = static_cast<double>(all.told_bytes);
  return work;
}

model::Candidate gathering(const DomainRules& rules, int local_per_node, int aggregators) {
  return {local_per_node > 0 ? Way::kTwoLayer : Way::kTwoPhase, local_per_node, aggregators, static_cast<double>(rules.window_bytes)};
}

}  // namespace

Together estimate_together(const Accessed& all, bool write, bool planned, const StoreFacts& facts, hints::Switch sieve_reads, const Setting& setting,
                           const DomainRules& rules, int local_per_node, int aggregators) {
  const model::Workload work = workload_of(all, write, planned, setting);
  const auto seconds_of = [&](Way way) { return model::predict(setting.figures, work, {.way = way}).sum(); };
  const bool only_sieved = !write && sieve_reads == hints::Switch::kEnable;
  const Way first = only_sieved ? Way::kSieved : Way::kIndependent;
  Together together{{first, seconds_of(first)}, {}};
  const auto consider = [&](Way way) {
    const double seconds = seconds_of(way);
    if (seconds < together.alone.seconds) together.alone = {way, seconds};
  };
  if (!only_sieved && can_map(facts) && facts.node_local) consider(Way::kMapped);
  if (!write && sieve_reads == hints::Switch::kAutomatic) consider(Way::kSieved);
  const model::Candidate gathered = gathering(rules, local_per_node, aggregators);
  together.gathered = {gathered.way, model::predict(setting.figures, work, gathered).sum()};
  return together;
}

namespace {

struct Aggregators {
  int count;
  double seconds;
};

Aggregators best_aggregators(const model::Workload& work, const Setting& setting, const Placing& placing) {
  const DomainRules& rules = placing.rules;
  const auto seconds_of = [&](int count) { return model::predict(setting.figures, work, gathering(rules, placing.local_per_node, count)).sum(); };
  Aggregators best{rules.aggregators, seconds_of(rules.aggregators)};
  if (rules.asked_for || rules.striped()) return best;
  for (int count = rules.aggregators / 2; count > 0; count /= 2)
    if (const double seconds = seconds_of(count); seconds <= best.seconds) best = {count, seconds};
  return best;
}

}  // namespace

int worthwhile_aggregators(const Accessed& all, bool write, const Setting& setting, const DomainRules& rules, int local_per_node) {
  if (rules.asked_for || rules.striped() || rules.aggregators == 1 || all.first == all.end) return rules.aggregators;
  return best_aggregators(workload_of(all, write, true, setting), setting, {local_per_node, rules}).count;
}

std::size_t best_placing(const Accessed& all, bool write, const Setting& setting, std::span<const Placing> placings, std::size_t present) {
  if (placings.size() == 1 || all.first == all.end) return present;
  constexpr double kTie = 0.98;  // what takes as much as the one before, which is simpler, is not better
  const model::Workload work = workload_of(all, write, true, setting);
  std::size_t best = present;
  double least = best_aggregators(work, setting, placings[present]).seconds * Experience::kHysteresis;
  for (std::size_t i = 0; i < placings.size(); ++i) {
    if (i == present) continue;
    const double seconds = best_aggregators(work, setting, placings[i]).seconds;
    if (seconds >= least) continue;
    best = i;
    least = seconds * kTie;
  }
  return best;
}

}  // namespace penstock::plan
