// Merging: what many ranks access of one file in one call, as few accesses that reach the same bytes.  Pure.
//
// Works on the structure of what is accessed, never on its pieces: 8 bytes of every rank in turn, 10^9 times, cost as much
// as twice.
#pragma once

#include <cstddef>
#include <vector>

#include "access/layout.h"

namespace penstock::access {

/// What one rank accesses of a file in one call: data positions [position, position + bytes) of a view.
/// Requires: is_monotone(tiling), no byte reached twice, position and bytes not negative.
struct Claim {
  Tiling tiling;
  Offset position = 0;
  Offset bytes = 0;
};

/// The outcome of coalesce(): `wholes`, ordered by their first bytes (those kept as they came stand last), and for each
/// claim that came in the index of the whole that its bytes are in.
struct Coalesced {
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);  ///< of a claim without bytes

  std::vector<Claim> wholes;
  std::vector<std::size_t> whole_of;
};

/// Joins claims that fit into one another.  Each byte of the claims is in the whole of its claim, and a whole has no
/// others; claims that share a byte are never in one whole.  A whole's data starts at position 0 and ends with its
/// only copy; one without gaps has is_contiguous(tiling), also if it is of a single claim.
///
/// Two claims are joined where that makes them simpler, not wherever it could be done: abutting blocks become one;
/// loops of one stride (or of strides that divide one another) whose copies fit together become one, to any depth and
/// though one of them has more copies or goes on where the other ends; lists are joined member by member.  What has gaps between and no
/// common pattern stays apart.  Equal patterns at equal distances are taken together last.
///
/// A claim whose numbers outgrow 64 bits, or that is not what is required, comes back as it was, in a whole of its own.
/// Cost: O(claims * log(claims)) comparisons, and O(entries) per attempt to join, of which there are at most 6 per claim.  Of
/// lists only those of like lengths are joined at first, so that a long one is not gone through for every short one.
[[nodiscard]] Coalesced coalesce(const std::vector<Claim>& claims);

/// All data of a claim as a claim that has one copy from position 0 on, in normal form: is_contiguous() of its tiling
/// tells whether it has gaps.  As it was where that cannot be had (see coalesce()).  O(entries).
[[nodiscard]] Claim normal_form(const Claim& claim);

/// Those data of a claim that lie at file offsets [first, end), in the same form; a claim without bytes where none do.
/// O(depth * log(longest list) + entries of what is cut out) of a claim in normal form: to cut one into many costs as much as to go through it once.
[[nodiscard]] Claim clipped(const Claim& claim, Offset first, Offset end);

}  // namespace penstock::access
