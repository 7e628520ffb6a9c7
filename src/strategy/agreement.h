// What a rank knows of a collective access when its data begin to move: who aggregates which part of the file, and what is going to be moved by way of this
// rank.  Made by the negotiation (negotiation.h), gone by in the rounds (member.h, local_aggregator.h, global_aggregator.h).  Pure: sends nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "access/merge.h"
#include "plan/aggregation.h"
#include "strategy/call.h"
#include "strategy/kept.h"
#include "strategy/walk.h"

namespace penstock::strategy {

/// The file among the global aggregators in one call.  Those that take part are known by their places among them, from 0 on.
class Division {
 public:
  Division() = default;  ///< of nothing
  Division(const Call& call, const plan::FileDomains& domains);

  [[nodiscard]] const plan::FileDomains& domains() const { return domains_; }
  [[nodiscard]] int aggregators() const { return domains_.aggregators(); }
  /// Where the local aggregator of this rank's team is among them; -1: it has no part of the file.
  [[nodiscard]] int place() const { return place_; }
  [[nodiscard]] bool aggregates() const { return place_ >= 0; }
  /// Where the one of a place stands among all global aggregators, also those that take no part.
  [[nodiscard]] std::size_t standing(int place) const;
  [[nodiscard]] int rank_of(int place) const { return access_->placement.global[standing(place)]; }

  /// Ranks of one team may write the same bytes, or want them: then what a team has in a window is more than the window, and goes in more than one message.  Both
  /// sides of a message ask this, part by part in the same order.
  [[nodiscard]] bool fit_together(Offset message_bytes, Offset more_bytes) const { return message_bytes + more_bytes <= domains_.window_bytes(); }

 private:
  const Collective* access_ = nullptr;
  plan::FileDomains domains_;
  int place_ = -1;
};

/// A team that reaches this rank's part of the file.
struct Peer {
  int rank;         ///< its local aggregator, maybe this rank itself
  FileRange known;  ///< what it accesses outside of that is not known here
  std::vector<Walk> walks;
};

struct Agreement {
  bool stop = false;      ///< some rank failed: nothing is moved
  bool late = false;      ///< only this team stops: its local aggregator failed when all were to know already that nobody had
  bool declined = false;  ///< every rank moves its own data
  int elsewhere = -1;     ///< the call is begun anew by other aggregators; -1: it is not
  /// Nothing is moved by this call's aggregators, though nobody failed.
  [[nodiscard]] bool idle() const { return declined || elsewhere >= 0; }

  Division division;
  Offset file_bytes = INT64_MAX;  ///< reads end there

  // Of the team; what all members know alike.
  std::int64_t claims = 0;  ///< into so many those of the members were joined
  Offset staging_bytes = 0;  ///< what the team moves to or from other aggregators in a round, at most

  // Of this rank.
  std::int64_t own_claim = -1;  ///< the team's that this rank's was joined into
  std::optional<Walk> whole;    ///< the same; none where it is this rank's own

  // Local aggregators only.
  std::vector<Walk> walks;  ///< what the team accesses

  // Global aggregators only.
  std::vector<Peer> peers;
  KeptGaps gaps{kAllOfIt, false};  ///< between what arrives here, for writes

  /// The file among the aggregators, now that it is known what all access of it.
  void divide(const Call& call, plan::Accessed all, int taking_part);
  void cut_at_end_of_file();
  [[nodiscard]] Agenda agenda_of_team() const;
  /// Of the team's data, what goes to or comes from other aggregators in the round that has most of it.
  [[nodiscard]] Offset most_in_a_round() const;
};

/// Whether all that the claims access of a range of the file is one stretch: then nothing has to be marked as it arrives.  Of very many that is not found out: it
/// would cost more than marking.  Cuts the claims to the range.
[[nodiscard]] bool in_one_stretch(std::vector<access::Claim>& claims, FileRange range);

}  // namespace penstock::strategy
