// Kept plans: what the ranks of a file agreed on for one collective access, for later ones that are the same again, or the same elsewhere in the file.
// Knows what is kept and how ranks find a plan that all of them mean; sends nothing and moves nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "access/merge.h"
#include "base/units.h"
#include "plan/aggregation.h"

namespace penstock::strategy {

/// What local aggregators know of each other.
struct Facts {
  Offset first = 0;  ///< of the file, [first, end); empty for nothing
  Offset end = 0;
  std::uint64_t told_bytes = 0;  ///< of the message that says what the team accesses
  Offset file_bytes = -1;        ///< as the lowest rank sees it, and whoever wrote by itself; for reads
  Offset pieces = 0;             ///< of the file, and the bytes they make up
  Offset bytes = 0;
  Offset rank_spans = 0;         ///< from the first to the last byte of a rank, added up
  std::int32_t accessing = 0;    ///< ranks that access anything
  std::int32_t code = 0;         ///< a failure: then nobody does anything
};

using FileRange = plan::FileDomains::Range;
/// All of any file.
constexpr FileRange kAllOfIt{0, INT64_MAX};

/// A team's claims as a global aggregator knows them.
struct KeptPeer {
  std::size_t team = 0;  ///< its place among the local aggregators
  FileRange known;       ///< what the team accesses outside of it is not told
  std::vector<access::Claim> claims;
};

/// What a global aggregator found out about the claims of all that reach it.
struct KeptGaps {
  FileRange range;  ///< looked at
  bool none;        ///< all that they access of it is one stretch
};

/// What one rank keeps of a plan.  All offsets are those of the access that made it.
struct KeptPlan {
  std::int64_t number = 0;    ///< the same on all ranks: of the call that made it
  bool exchanged = false;     ///< global aggregators know the claims of those that reach them
  int elsewhere = -1;         ///< it goes by other aggregators, as Collective::elsewhere() says; -1: by these

  // Of every rank.
  access::Claim own;            ///< bytes 0: nothing
  std::int64_t own_claim = -1;  ///< of the team's
  std::optional<access::Claim> whole;

  // Local aggregators only.
  std::vector<access::Claim> claims;  ///< of the team
  std::vector<std::byte> told;        ///< the same as a message
  std::vector<Facts> all;
  plan::Accessed accessed;            ///< by all teams
  int aggregators = 1;                ///< that took part, and do again
  std::vector<FileRange> told_to;     ///< by where it stands among them: where the global aggregator knows this team's claims

  // Global aggregators only.
  std::vector<KeptPeer> peers;  ///< ascending; this rank's own team is not among them
  std::optional<KeptGaps> gaps;

  [[nodiscard]] const KeptPeer* peer(std::size_t team) const;
  void add_peer(KeptPeer peer);
  /// About how much memory it takes.
  [[nodiscard]] std::size_t size_bytes() const;
};

/// How many plans of a file are kept: a program takes turns among a few decompositions of its data.
constexpr std::size_t kPlansMost = 8;

/// A plan that a rank, or several, could go by once more, that far on in the file.
struct Candidate {
  static constexpr Offset kAnywhere = INT64_MIN;  ///< a rank without data goes along with everybody
  std::int64_t plan = 0;
  Offset shift = kAnywhere;
};

/// What the latest access that was agreed on took, from when the last rank came to it: that is the rank that saw it take least.
struct Taken {
  static constexpr std::int64_t kUnknown = INT64_MAX;
  std::int64_t nanoseconds = kUnknown;
  std::int64_t prepared = 0;  ///< 1: shared memory was made for it
};

/// By what plans a rank could go, or several of them together.  Sent as it is.
struct Ballot {
  std::int32_t code = 0;    ///< a failure that one of them met
  std::int32_t count = 0;
  Offset file_bytes = -1;   ///< -1: not known
  Taken taken;
  std::array<Candidate, kPlansMost> candidates{};  ///< `count` of them, the latest plan first

  /// Leaves the candidates that both could go by.  The order of joining, and joining the same twice, makes no difference.
  void join(const Ballot& other);
  void drop(std::size_t candidate);
};

/// The plans that one rank keeps for a file, those that were used last.  Ranks may keep different ones: what one lacks is then used by none.
class KeptPlans {
 public:
  /// How much memory the descriptions in all of them may take.
  static constexpr std::size_t kBytesMost = std::size_t{64} << 20;

  /// The number of a new collective access.
  std::int64_t begin() { return ++calls_; }
  /// Some access has been agreed on: the same on all ranks.
  [[nodiscard]] bool any_agreed() const { return any_agreed_; }
  void agreed() { any_agreed_ = true; }

  /// By what this rank could go to access `own`.
  [[nodiscard]] Ballot ballot(const access::Claim& own, bool may_decline) const;
  /// The plan of that number, which from now on is the one used last; null when there is none.
  KeptPlan* use(std::int64_t number);
  /// More is known of the plan used last.  It is kept, whatever its size.
  void used_has_grown();
  [[nodiscard]] KeptPlan* find(std::int64_t number) const;
  /// Keeps it, and lets go of those that were not used for longest where there are too many.
  void keep(std::unique_ptr<KeptPlan> plan);
  void drop(std::int64_t number);

 private:
  struct Entry {
    std::unique_ptr<KeptPlan> plan;
    std::size_t bytes;
  };
  void let_go();

  std::vector<Entry> plans_;  ///< the one used last in front
  std::int64_t calls_ = 0;
  bool any_agreed_ = false;
};

}  // namespace penstock::strategy
