// Recall: a collective access that goes by the plan of an earlier one, at its place or elsewhere in the file.  What a rank could go by, and what the plan that
// all of them mean comes to in this call.  The only messages are descriptions for aggregators that know too little of a team where the data are now.
// Knows nothing of how ranks find that plan (negotiation.h) or of how data are moved.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "strategy/agreement.h"
#include "strategy/board.h"
#include "strategy/call.h"
#include "strategy/kept.h"

namespace penstock::strategy {

class Recall {
 public:
  /// Fills in `agreement`.  Both have to stay.
  Recall(Call& call, Agreement& agreement) : call_(call), agreement_(agreement) {}

  /// By what this rank could go.
  [[nodiscard]] Ballot ballot() const;
  /// Of a local aggregator: strikes out what would lead beyond the largest offset, and has room for what may have to be told yet.  Throws where there is no memory.
  void make_ready(Ballot& ballot);
  /// Of a local aggregator: goes by the plan that all of them mean, unless it says too little to move data.  `file_bytes`: for reads.
  /// Collective over the local aggregators.  Requires: a candidate of the ballot that was made ready.
  Status go_by(const Candidate& candidate, Offset file_bytes);
  /// What the other members of the team have to know of that.
  [[nodiscard]] Plan told() const;
  /// Of any member: goes by the plan that its local aggregator told.
  void hear(const Plan& told);

  /// This call goes by a kept plan.
  [[nodiscard]] bool found() const { return plan_ != nullptr; }
  /// The call is not agreed on: who has been told what is not the same everywhere any more.
  void drop() { plans().drop(plan_->number); }

 private:
  [[nodiscard]] KeptPlans& plans() const { return call_.access().kept.plans; }
  [[nodiscard]] bool team_reaches(std::size_t team, int place) const;
  [[nodiscard]] FileRange part_of(Offset first, Offset end, int place) const;
  [[nodiscard]] bool suffices(FileRange known, std::size_t team, int place) const;
  [[nodiscard]] bool would_decline() const;
  [[nodiscard]] access::Claim shifted(access::Claim claim) const;

  Status tell_late();
  Status send_late(comm::Exchange& sent);
  Status hear_late(std::size_t team);
  Status read_late(std::size_t team, std::span<const std::byte> told);
  void take_claims();
  void look_for_gaps();

  Call& call_;
  Agreement& agreement_;
  KeptPlan* plan_ = nullptr;
  Offset shift_ = 0;  ///< so far on in the file
  std::unique_ptr<std::byte[]> room_;  ///< for what a team says that has not told this aggregator enough
};

}  // namespace penstock::strategy
