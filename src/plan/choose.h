// Which strategy an access takes: pure functions of the pattern, the store's traits, the hints and what the machine's work costs.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "access/layout.h"
#include "hints/hints.h"
#include "model/predict.h"
#include "plan/aggregation.h"
#include "plan/experience.h"

namespace penstock::plan {

/// The facts of store::Traits that choosing needs, without seeing the store's room.
struct StoreFacts {
  bool can_map = false;
  bool maps_coherent = false;
  bool node_local = false;
  bool range_locks = false;
};

/// What an access looks like, cheaply: from bounds_of() and pieces_in().
struct Pattern {
  bool write = false;
  bool fresh = false;     ///< writing: it makes the file longer
  Offset bytes = 0;       ///< data
  Offset span_bytes = 0;  ///< from the first byte touched to the last
  Offset pieces = 0;
};

/// Where ranks run, and what their work costs.
struct Setting {
  model::Figures figures{};
  int ranks = 1;
  int nodes = 1;
  int ranks_in_node = 1;
  int processors = 1;  ///< of a node
};

/// True when the hints ask for sieved writes and the store could do them: what to ask of file/sieve_lock.h.
bool wants_sieved_writes(const StoreFacts& facts, const hints::Hints& hints);

/// The ways that one rank's access may take, the simpler ones first; never none.
class Estimates {
 public:
  void add(model::Way way) { estimates_[count_++] = {way, 0}; }
  [[nodiscard]] std::span<Estimate> list() { return {estimates_.data(), count_}; }
  [[nodiscard]] std::span<const Estimate> list() const { return {estimates_.data(), count_}; }
  /// There is nothing to choose, and nobody predicted anything.
  [[nodiscard]] bool decided() const { return count_ == 1; }

 private:
  std::array<Estimate, 3> estimates_{};
  std::size_t count_ = 0;
};

/// Those that are safe and that the hints allow.  Local: uses nothing of other ranks, so ranks may differ; nor of what `pattern.fresh` says.  A strategy that was
/// asked for by hint but that the store cannot do safely falls back to independent.  `may_sieve_writes`: the caller holds the right to (file/sieve_lock.h).
Estimates allowed(const Pattern& pattern, const StoreFacts& facts, const hints::Hints& hints, bool may_sieve_writes);

/// Their predicted seconds.  The ranks of the node are taken to do alike at the same time.
void estimate(const Pattern& pattern, const hints::Hints& hints, const Setting& setting, Estimates& ways);

/// Both; the seconds only where there are several ways.
Estimates estimate(const Pattern& pattern, const StoreFacts& facts, const hints::Hints& hints, bool may_sieve_writes, const Setting& setting);

/// A collective access as all local aggregators know it: alone (each rank for itself, the best way that there is), or gathered.
struct Together {
  Estimate alone;
  Estimate gathered;
};
/// The same on all ranks that pass the same: `sieve_reads` must be some rank's hint for all of them.  `local_per_node`: local aggregators; 0: every rank is one.
/// `aggregators`: how many global ones take part.
Together estimate_together(const Accessed& all, bool write, bool planned, const StoreFacts& facts, hints::Switch sieve_reads, const Setting& setting,
                           const DomainRules& rules, int local_per_node, int aggregators);

/// How many of the global aggregators take part where the file is not striped: all where somebody asked for a number, else so many that the call takes
/// least once its plan is kept; of numbers that take as long, the least.  The same on all ranks that pass the same.  O(log^2) predictions.
int worthwhile_aggregators(const Accessed& all, bool write, const Setting& setting, const DomainRules& rules, int local_per_node);

/// One way to place aggregators: local ones of a node (0: every rank is one), and the global ones among them.
struct Placing {
  int local_per_node = 0;
  DomainRules rules;
};

/// By which of them the call takes least once its plan is kept; the one that is `present` where no other takes clearly less (Experience::kHysteresis), since
/// going over to another is not free; of others that take about as much, the first.  The same on all ranks that pass the same.  O(placings * log(aggregators)^2) predictions.
std::size_t best_placing(const Accessed& all, bool write, const Setting& setting, std::span<const Placing> placings, std::size_t present);

}  // namespace penstock::plan
