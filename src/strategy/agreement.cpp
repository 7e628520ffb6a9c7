// Follows from descriptions and domains; costs nothing per piece.
#include "strategy/agreement.h"

#include <algorithm>

namespace penstock::strategy {

Division::Division(const Call& call, const plan::FileDomains& domains)
    : access_(&call.access()),
      domains_(domains),
      place_(call.aggregator() < 0 ? -1 : plan::place_of(call.aggregator(), domains.aggregators(), access_->domains.aggregators)) {}

std::size_t Division::standing(int place) const {
  return static_cast<std::size_t>(plan::standing(place, aggregators(), access_->domains.aggregators));
}

void Agreement::divide(const Call& call, plan::Accessed all, int taking_part) {
  if (!call.access().write) {
    all.end = std::min(all.end, file_bytes);
    all.first = std::min(all.first, all.end);
  }
  division = Division(call, plan::domains_for(call.access().domains, all.first, all.end, taking_part));
}

void Agreement::cut_at_end_of_file() {
  for (Walk& walk : walks) walk.cut(file_bytes);
  for (Peer& peer : peers)
    for (Walk& walk : peer.walks) walk.cut(file_bytes);
}

Agenda Agreement::agenda_of_team() const {
  Agenda agenda(division.domains());
  for (std::size_t claim = 0; claim < walks.size(); ++claim) agenda.add(walks[claim], claim);
  return agenda;
}

Offset Agreement::most_in_a_round() const {
  Agenda agenda = agenda_of_team();
  Offset most = 0;
  while (agenda.next_round() != INT64_MAX) {
    Offset bytes = 0;
    agenda.take(agenda.next_round(),
                [&](const Agenda::Entry& part, Offset end) { bytes += part.aggregator == division.place() ? 0 : end - part.position; });
    most = std::max(most, bytes);
  }
  return most;
}

bool in_one_stretch(std::vector<access::Claim>& claims, FileRange range) {
  constexpr std::size_t kJoinedMost = 512;
  if (claims.size() > kJoinedMost) return false;
  if (range.end != INT64_MAX)
    for (access::Claim& claim : claims) claim = access::clipped(claim, range.first, range.end);
  const access::Coalesced joined = access::coalesce(claims);
  return joined.wholes.size() == 1 && access::is_contiguous(joined.wholes[0].tiling);
}

}  // namespace penstock::strategy
