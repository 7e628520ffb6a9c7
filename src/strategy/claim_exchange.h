// The claim exchange: local aggregators tell the global ones that they reach what their teams access.  Descriptions, whose size does not depend on how many
// pieces they are of.  Of long ones each global aggregator hears only what lies in its surroundings, and before it how long that is: what all of them hear
// together is about as much as all that there is to tell.
// Knows whom a team reaches and what of it is told; nothing of members, plans or data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "strategy/agreement.h"
#include "strategy/call.h"
#include "strategy/kept.h"

namespace penstock::strategy {

class ClaimExchange {
 public:
  /// `all`: of every team; `told`: what this one's accesses as a message, of which `agreement` has the walks.  All have to stay.
  ClaimExchange(Call& call, Agreement& agreement, const std::vector<Facts>& all, const std::vector<std::byte>& told)
      : call_(call), agreement_(agreement), all_(all), told_(told) {}

  /// Has room for what can be told whole, and for how long the rest is.  Requires: the file is divided.  Throws where there is no memory.
  void expect();
  /// Fills in agreement.peers and, for writes, agreement.gaps; or agreement.stop.  Collective over the local aggregators, all of which expect it.
  Status exchange();

 private:
  /// What a team says that reaches this rank's part of the file, or this rank's own team does without saying.
  struct Hearing {
    int rank;
    FileRange known;
    std::uint64_t bytes;  ///< of its message
    std::vector<std::byte> message;
    [[nodiscard]] bool in_part() const { return known.end != INT64_MAX; }
  };
  /// What this team tells a global aggregator, by its place, of a description too long to be told whole.
  struct Telling {
    int place;
    std::uint64_t bytes;             ///< of what it is told
    std::vector<std::byte> message;  ///< without any, and yet of some bytes: the whole description
  };

  void cut_claims();
  Status exchange_wholes();
  Status make_room_for_parts();
  Status exchange_parts();
  Status read(bool in_parts);
  [[nodiscard]] const plan::FileDomains& domains() const { return agreement_.division.domains(); }
  [[nodiscard]] int own_place() const { return agreement_.division.place(); }
  /// This team has to tell the global aggregator of a place.
  [[nodiscard]] bool reaches_other(int place) const;

  Call& call_;
  Agreement& agreement_;
  const std::vector<Facts>& all_;
  const std::vector<std::byte>& told_;
  std::vector<Hearing> hearings_;  ///< ascending by rank
  std::vector<Telling> tellings_;  ///< ascending by place
};

}  // namespace penstock::strategy
