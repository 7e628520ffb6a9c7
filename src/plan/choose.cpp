// The choice, by thresholds that were measured with bench/micro/strategies.cpp: two processes, interleaved pieces of 8
// bytes to 64 KiB at 2 to 1024 times their length, page-cached files on tmpfs and ext4.  A cost model replaces them
// with each machine's own figures.
#include "plan/choose.h"

namespace penstock::plan {

namespace {

/// Pieces this far apart, from start to start, are on pages of their own: a call for each costs less than a page fault
/// or a page read in vain for each.  (Pieces of this length are covered too: they are at least their length apart.)
constexpr Offset kDistanceMax = 4096;
/// Where a good part of each page is written, a new page costs about the same by a call as by a mapping, and a mapping
/// saves the calls: that outweighs its page faults up to pieces this far apart.
constexpr Offset kWriteDistanceMax = 32768;
constexpr Offset kWriteSparsity = 4;
/// Mapping and unmapping cost as much as about ten calls.
constexpr Offset kMappedPiecesMin = 16;
/// Sieving copies everything into a buffer first, a mapping only faults it in.  That pays from this span on, and before
/// it where the pieces are a small part of what lies between.
constexpr Offset kMappedReadSpanMin = Offset{1} << 20;
constexpr Offset kSparseReadRatio = 8;
constexpr Offset kMappedReadPiecesMin = 64;

bool can_map(const StoreFacts& facts) { return facts.can_map && facts.maps_coherent; }

bool is_dense(const Pattern& pattern) {
  return pattern.pieces > 1 && pattern.span_bytes / pattern.pieces < kDistanceMax;
}

bool is_dense_to_write(const Pattern& pattern) {
  if (is_dense(pattern)) return true;
  return pattern.pieces > 1 && pattern.span_bytes / pattern.pieces <= kWriteDistanceMax &&
         pattern.span_bytes / kWriteSparsity <= pattern.bytes;
}

Choice choose_read(const Pattern& pattern, const StoreFacts& facts, const hints::Hints& hints) {
  using hints::Switch;
  const bool may_map = can_map(facts) && facts.node_local;
  if (hints.sieve_reads == Switch::kEnable) return pattern.pieces > 1 ? Choice::kSieved : Choice::kIndependent;
  if (!is_dense(pattern)) return Choice::kIndependent;
  if (hints.sieve_reads == Switch::kDisable)
    return may_map && pattern.pieces >= kMappedPiecesMin ? Choice::kMapped : Choice::kIndependent;
  const bool pays = pattern.span_bytes >= kMappedReadSpanMin || pattern.span_bytes / kSparseReadRatio > pattern.bytes;
  return may_map && pays && pattern.pieces >= kMappedReadPiecesMin ? Choice::kMapped : Choice::kSieved;
}

Choice choose_write(const Pattern& pattern, const StoreFacts& facts, const hints::Hints& hints, bool may_sieve) {
  if (!is_dense_to_write(pattern)) return Choice::kIndependent;
  if (may_sieve && hints.sieve_writes == hints::Switch::kEnable) return Choice::kSieved;
  if (can_map(facts) && facts.node_local && pattern.pieces >= kMappedPiecesMin) return Choice::kMapped;
  return Choice::kIndependent;
}

bool can_sieve_writes(const StoreFacts& facts) { return facts.node_local && facts.range_locks; }

}  // namespace

bool wants_sieved_writes(const StoreFacts& facts, const hints::Hints& hints) {
  if (!can_sieve_writes(facts)) return false;
  if (hints.strategy == hints::Strategy::kSieved) return true;
  return hints.strategy == hints::Strategy::kAutomatic && hints.sieve_writes == hints::Switch::kEnable;
}

Choice choose(const Pattern& pattern, const StoreFacts& facts, const hints::Hints& hints, bool may_sieve_writes) {
  const bool may_sieve = !pattern.write || (may_sieve_writes && can_sieve_writes(facts));
  if (pattern.bytes == 0) return Choice::kIndependent;
  switch (hints.strategy) {
    case hints::Strategy::kIndependent:
      return Choice::kIndependent;
    case hints::Strategy::kMapped:
      return can_map(facts) ? Choice::kMapped : Choice::kIndependent;
    case hints::Strategy::kSieved:
      return may_sieve ? Choice::kSieved : Choice::kIndependent;
    case hints::Strategy::kTwoPhase:  // these two of collective calls only; this is about one rank's own access
    case hints::Strategy::kTwoLayer:
    case hints::Strategy::kAutomatic:
      break;
  }
  return pattern.write ? choose_write(pattern, facts, hints, may_sieve) : choose_read(pattern, facts, hints);
}

}  // namespace penstock::plan
