// Sums over ranks, checked.  Pure.
#pragma once

#include <span>

#include "base/status.h"
#include "base/units.h"

namespace penstock::comm {

/// Comm::exclusive_sum() for rank `rank`, given what all ranks said.
inline Status exclusive_sum_of(std::span<const Offset> all, int rank, Offset& before, Offset& total) {
  before = total = 0;
  for (std::size_t other = 0; other < all.size(); ++other) {
    if (other == static_cast<std::size_t>(rank)) before = total;
    if (!checked_add(total, all[other], total))
      return Status::failure(Code::kArgument, "the sum over all ranks does not fit in 64 bits");
  }
  return {};
}

}  // namespace penstock::comm
