// The negotiation: what the ranks of a collective access tell one another before anything is moved.  Where all of them do what they did before, they vote for
// the plan of then; else members show their local aggregator what they access, local aggregators tell one another in a few numbers what their teams do, decide
// from that alike how it goes, and tell the global ones what these have to know.  In the end every rank has its agreement.
// Knows meetings and messages of the negotiation; moves no data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/status.h"
#include "strategy/agreement.h"
#include "strategy/board.h"
#include "strategy/call.h"
#include "strategy/kept.h"
#include "strategy/recall.h"
#include "strategy/team_claims.h"

namespace penstock::strategy {

class Negotiation {
 public:
  explicit Negotiation(Call& call) : call_(call), recall_(call, agreement_) {}
  Negotiation(const Negotiation&) = delete;
  Negotiation& operator=(const Negotiation&) = delete;

  /// All that can fail, before anybody depends on this rank's data.  Whatever fails, which is noted in the call, every meeting of the team and of the aggregators
  /// is kept, but for the two lists of facts about local aggregators, without memory for which the others wait in vain.  Collective.
  void run();
  /// All ranks know by now whether some of them failed.  What was found out is kept for later calls, or a kept plan is let go of.
  void conclude(bool agreed);

  [[nodiscard]] const Agreement& agreement() const { return agreement_; }

 private:
  [[nodiscard]] KeptPlans& plans() const { return call_.access().kept.plans; }
  /// The local aggregator that asks for the file's size, for all: only when what each rank wrote before counts.
  [[nodiscard]] bool asks_for_size() const { return call_.rank() == call_.access().placement.local.front(); }
  void ask_for_size(Offset& file_bytes);

  // By a plan of before.
  bool recall();
  void join_team(Ballot& ballot);
  Status vote(Ballot ballot);
  bool hear_recalled();

  // The first time.
  Status show();
  Status open_board(Offset tree_room);
  void write_asked();
  Status plan();
  Status gather();
  [[nodiscard]] Facts facts_of_team();
  Status tell_facts(const Facts& mine);
  void decide(const plan::Accessed& all);
  Status hear();
  [[nodiscard]] Plan planned() const;
  void settle_alone();

  template <typename Find>
  Plan share(Find find);
  void take(const Plan& plan);

  void keep_plan();
  void keep_teams(KeptPlan& kept);

  Call& call_;
  Agreement agreement_;
  Recall recall_;
  std::int64_t number_ = 0;       ///< of this access among the file's
  Offset seen_file_bytes_ = -1;   ///< with what this rank wrote by itself
  std::optional<Board> board_;    ///< of a team of several
  std::vector<std::byte> tree_;   ///< of this rank's own claim, packed

  // Local aggregators only.
  TeamClaims claims_;
  std::vector<std::byte> told_;  ///< they, as a message
  std::vector<Facts> all_;       ///< of every team
  int taking_part_ = 1;          ///< global aggregators, as plan::domains_for() is asked for
};

}  // namespace penstock::strategy
