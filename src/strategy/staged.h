// Staged access: file windows pass through a buffer of ours, from which the pieces are picked or into which they are
// put. Private to this room: the sieved strategy is built of it, and the independent one where small pieces of memory
// abut in the file.
#pragma once

#include "strategy/strategy.h"

namespace penstock::strategy {

/// Part of an access: data positions [position, position + bytes) and the file offsets [first, end) that they span.
struct Window {
  Offset position = 0;
  Offset bytes = 0;
  Offset first = 0;
  Offset end = 0;
  [[nodiscard]] bool has_gaps() const { return end - first != bytes; }
};

/// The longest window from `position` on that spans at most `span_bytes_max` of the file, crosses no gap larger than
/// `gap_bytes_max`, and has at most `bytes` of data.  Requires bytes > 0.  Never empty.
Window next_window(const access::Tiling& file, Offset position, Offset bytes, Offset span_bytes_max,
                   Offset gap_bytes_max);

enum class Exclusion {
  kCallers,    ///< the caller keeps other writers out, or there are no gaps
  kRangeLocks  ///< a range lock of the store around each window: exclusive where old bytes are put back
};

Result<Offset> read_staged(const Access& access);
Result<Offset> write_staged(const Access& access, Exclusion exclusion);

}  // namespace penstock::strategy
