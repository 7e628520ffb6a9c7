// Which strategy an access takes: a pure function of the pattern, the store's traits and the hints.
#pragma once

#include "access/layout.h"
#include "hints/hints.h"

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
  Offset bytes = 0;       ///< data
  Offset span_bytes = 0;  ///< from the first byte touched to the last
  Offset pieces = 0;
};

enum class Choice { kIndependent, kMapped, kSieved };

/// True when the hints ask for sieved writes and the store could do them: what to ask of file/sieve_lock.h.
bool wants_sieved_writes(const StoreFacts& facts, const hints::Hints& hints);

/// The strategy for one rank's access.  Local: uses nothing of other ranks, so ranks may differ.  A strategy that was
/// asked for by hint but that the store cannot do safely falls back to kIndependent.  `may_sieve_writes`: the caller
/// holds the right to (file/sieve_lock.h).
Choice choose(const Pattern& pattern, const StoreFacts& facts, const hints::Hints& hints, bool may_sieve_writes);

}  // namespace penstock::plan
