// Shift: whether one access reaches the same bytes as another, moved along the file.  Pure.
#pragma once

#include <optional>

#include "access/merge.h"

namespace penstock::access {

/// By how much `to` is `from` moved: its i-th data byte lies that many bytes behind the i-th of `from`, for every i, and there are as many.
/// Nothing where that is not so, where a claim has no data, and where it does not show in how the two are written: a loop of which other copies are
/// accessed is found out, the same bytes put together in another way are not.  Kinds of elements may count as a difference.
/// Cost: O(depth * log(longest list)) where the two have their nodes in common, else O(entries).  Allocates nothing.
[[nodiscard]] std::optional<Offset> shift_between(const Claim& from, const Claim& to);

}  // namespace penstock::access
