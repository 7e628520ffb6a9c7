// What the members of a team access, joined into as few claims as it takes, and what became of each member's.  The local aggregator's view of its team:
// reads and writes the team's board, sends nothing and knows nothing of other teams.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "access/merge.h"
#include "base/status.h"
#include "strategy/board.h"
#include "strategy/kept.h"

namespace penstock::strategy {

class TeamClaims {
 public:
  /// Of a team of one.
  void take_own(const access::Claim& own);
  /// What all members have shown on the board.  Throws where there is no memory.
  Status take(const Board& board, int members);

  [[nodiscard]] const std::vector<access::Claim>& joined() const { return joined_; }
  /// How many claims there were before they were joined.
  [[nodiscard]] int asked() const { return facts_.accessing; }
  /// A failure that some member has shown; 0: none.
  [[nodiscard]] std::int32_t failure() const { return failure_; }
  /// What can be said of the claims in a few numbers.
  [[nodiscard]] Facts facts() const;
  /// The claims as other teams are told of them.
  [[nodiscard]] std::vector<std::byte> message() const;

  /// Writes on the board which claim each member's was joined into, with its description where that is not the member's own; what members have shown there is
  /// gone then.  Requires: take() of that board.  Throws where there is no memory.
  void tell(const Board& board) const;

 private:
  void count(const access::Claim& claim);
  void take_joined(const access::Coalesced& joined, const std::vector<int>& members);
  [[nodiscard]] std::size_t told_bytes() const;

  std::vector<access::Claim> joined_;
  std::vector<std::vector<std::byte>> trees_;  ///< of each, packed
  std::vector<int> members_of_;                ///< how many were joined into each
  std::vector<int> claim_of_member_;           ///< -1: none
  Facts facts_;                                ///< of the claims before they were joined
  std::int32_t failure_ = 0;
};

}  // namespace penstock::strategy
