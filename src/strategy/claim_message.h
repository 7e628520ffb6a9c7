// Messages by which local aggregators tell global ones what their teams access.  Knows how they are written and to whom what is told; sends nothing.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "access/merge.h"
#include "base/status.h"
#include "plan/aggregation.h"
#include "strategy/kept.h"

namespace penstock::strategy {

/// The range of the file of which an aggregator, by its place in the domains, is told what a team accesses.  Of a description longer than plan::kToldWhole
/// only what lies in the aggregator's surroundings, so that it has to know no more than its share, however many teams there are.
/// Both sides know it from the same facts.
[[nodiscard]] FileRange told_range(const Facts& team, const plan::FileDomains& domains, int place);

/// Whether some team tells no aggregator all.  O(teams).
[[nodiscard]] bool some_tell_parts(const std::vector<Facts>& teams, const plan::FileDomains& domains);

/// Appends a claim, whose tiling is packed in `tree`, to a message.
void append_claim(const access::Claim& claim, std::span<const std::byte> tree, std::vector<std::byte>& message);

/// Appends what another rank says in its message to `claims`.  Trusts nothing in it: fails with kIntern.
Status read_claims(int rank, std::span<const std::byte> message, std::vector<access::Claim>& claims);

/// One claim of which everything but the tree is known.
Result<access::Claim> read_claim(std::span<const std::byte> tree, Offset position, Offset bytes);

}  // namespace penstock::strategy
