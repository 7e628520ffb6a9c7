// All that a plan says of the file is shifted when it is used; the plan itself stays as it was made, but for what is learned about who knows what.
#include "strategy/recall.h"

#include <algorithm>
#include <utility>

#include "strategy/claim_message.h"

namespace penstock::strategy {

using access::Claim;
using trace::Phase;
using trace::PhaseScope;

namespace {

/// Whether all that the plan says of this team and of all together stays below the largest offset.  Claims of other teams are tried by those teams.
bool can_shift(const KeptPlan& plan, Offset shift) {
  if (shift == 0 || shift == Candidate::kAnywhere) return true;
  Offset moved = 0;
  const plan::Accessed& all = plan.accessed;
  if (all.end == INT64_MAX || !checked_add(all.first, shift, moved) || moved < 0 || !checked_add(all.end, shift, moved)) return false;
  return std::all_of(plan.claims.begin(), plan.claims.end(),
                     [&](const Claim& claim) { return checked_add(claim.tiling.displacement, shift, moved); });
}

/// How long the longest description is that an aggregator going by the plan may have to be told yet.
std::size_t longest_late(const KeptPlan& plan, std::size_t own_team) {
  std::size_t longest = 0;
  for (std::size_t team = 0; team < plan.all.size(); ++team)
    if (const KeptPeer* peer = plan.peer(team); team != own_team && (peer == nullptr || peer->known.end != INT64_MAX))
      longest = std::max(longest, static_cast<std::size_t>(plan.all[team].told_bytes));
  return longest;
}

}  // namespace

Ballot Recall::ballot() const {
  const PhaseScope phase(call_.access().trace, Phase::kPlan);
  return plans().ballot(call_.own(), call_.may_decline());
}

void Recall::make_ready(Ballot& ballot) {
  std::size_t room = 0;
  for (auto i = static_cast<std::size_t>(ballot.count); i-- > 0;) {
    const KeptPlan& plan = *plans().find(ballot.candidates[i].plan);
    if (!can_shift(plan, ballot.candidates[i].shift))
      ballot.drop(i);  // what some team strikes out, no team goes by
    else if (call_.aggregator() >= 0)
      room = std::max(room, longest_late(plan, call_.team()));
  }
  room_ = std::unique_ptr<std::byte[]>(new std::byte[room]);  // as it comes: it is seldom needed
}

Status Recall::go_by(const Candidate& candidate, Offset file_bytes) {
  plan_ = plans().use(candidate.plan);
  shift_ = candidate.shift == Candidate::kAnywhere ? 0 : candidate.shift;
  if (plan_->elsewhere >= 0 && call_.access().elsewhere != nullptr) {
    agreement_.elsewhere = plan_->elsewhere;
    return {};
  }
  agreement_.declined = would_decline();
  if (agreement_.declined) return {};
  if (!plan_->exchanged) {
    plan_ = nullptr;  // of an access that was declined too little is known to carry it out: it is planned anew
    shift_ = 0;
    return {};
  }
  if (!call_.access().write) agreement_.file_bytes = file_bytes;
  plan::Accessed all = plan_->accessed;
  all.first += shift_;
  all.end += shift_;
  agreement_.divide(call_, all, plan_->aggregators);
  PENSTOCK_TRY(tell_late());
  call_.guarded([this] { take_claims(); });
  return {};
}

bool Recall::would_decline() const {
  if (!call_.may_decline()) return false;
  plan::Accessed all = plan_->accessed;
  all.fresh = all.fresh && call_.access().write && shift_ != 0;  // at its own place it has been written
  return call_.access().better_alone(all, plan_->aggregators, plan_->exchanged);
}

Claim Recall::shifted(Claim claim) const {
  claim.tiling.displacement += shift_;
  return claim;
}

/// In this call.
bool Recall::team_reaches(std::size_t team, int place) const {
  const Facts& facts = plan_->all[team];
  return facts.first < facts.end && agreement_.division.domains().reaches(facts.first + shift_, facts.end + shift_, place);
}

/// What of a range of the file lies in an aggregator's domain in this call, in the offsets of the plan's own access; ends before it begins where that is nothing.
FileRange Recall::part_of(Offset first, Offset end, int place) const {
  const FileRange domain = agreement_.division.domains().domain(place);
  return {std::max(first + shift_, domain.first) - shift_, std::min(end + shift_, domain.end) - shift_};
}

/// Whether who knows what a team accesses in a range of the file of the plan's own access knows all that this call needs there.
bool Recall::suffices(FileRange known, std::size_t team, int place) const {
  const FileRange needed = part_of(plan_->all[team].first, plan_->all[team].end, place);
  return needed.first >= needed.end || (known.first <= needed.first && needed.end <= known.end);
}

/// File domains move with the data, but not exactly: a team may reach a global aggregator that does not know its claims yet, or not there.
Status Recall::tell_late() {
  const std::unique_ptr<comm::Exchange> sent = call_.access().comm.exchange();
  PENSTOCK_TRY(send_late(*sent));
  bool heard = false;
  for (std::size_t team = 0; agreement_.division.aggregates() && team < plan_->all.size(); ++team) {
    const int place = agreement_.division.place();
    const KeptPeer* const known = plan_->peer(team);
    if (team == call_.team() || !team_reaches(team, place) || (known != nullptr && suffices(known->known, team, place))) continue;
    PENSTOCK_TRY(hear_late(team));
    heard = true;
  }
  if (heard) call_.guarded([this] { plans().used_has_grown(); });
  return sent->wait();
}

Status Recall::send_late(comm::Exchange& sent) {
  const std::size_t me = call_.team();
  for (int place = 0; place < agreement_.division.aggregators(); ++place) {
    const std::size_t aggregator = agreement_.division.standing(place);
    if (!team_reaches(me, place) || suffices(plan_->told_to[aggregator], me, place)) continue;
    plan_->told_to[aggregator] = kAllOfIt;
    if (place == agreement_.division.place()) {
      plan_->gaps.reset();
      continue;
    }
    PENSTOCK_TRY(sent.send(agreement_.division.rank_of(place), plan_->told.data(), plan_->told.size()));
    call_.count_request(plan_->told.size());
  }
  return {};
}

Status Recall::hear_late(std::size_t team) {
  const std::unique_ptr<comm::Exchange> received = call_.access().comm.exchange();
  const std::span<std::byte> told(room_.get(), static_cast<std::size_t>(plan_->all[team].told_bytes));
  PENSTOCK_TRY(received->receive(call_.access().placement.local[team], told.data(), told.size()));
  PENSTOCK_TRY(received->wait());
  call_.guarded([&] { return read_late(team, told); });
  return {};
}

Status Recall::read_late(std::size_t team, std::span<const std::byte> told) {
  KeptPeer peer{team, kAllOfIt, {}};
  PENSTOCK_TRY(read_claims(call_.access().placement.local[team], told, peer.claims));
  plan_->add_peer(std::move(peer));
  return {};
}

void Recall::take_claims() {
  // Alone, data are told by their positions, which are this call's and not the plan's.
  for (const Claim& claim : plan_->claims) agreement_.walks.emplace_back(call_.alone() ? call_.own() : shifted(claim));
  if (agreement_.division.aggregates()) {
    const int place = agreement_.division.place();
    if (team_reaches(call_.team(), place)) agreement_.peers.push_back({call_.rank(), kAllOfIt, agreement_.walks});
    for (const KeptPeer& kept : plan_->peers) {
      if (!team_reaches(kept.team, place)) continue;
      Peer& peer = agreement_.peers.emplace_back(Peer{call_.access().placement.local[kept.team], kept.known, {}});
      for (const Claim& claim : kept.claims) peer.walks.emplace_back(shifted(claim));
    }
    if (call_.access().write) {
      look_for_gaps();
      agreement_.gaps = *plan_->gaps;
    }
  }
  if (!call_.access().write) agreement_.cut_at_end_of_file();
}

/// Unless it is known of this call's domain already.
void Recall::look_for_gaps() {
  const FileRange needed = part_of(plan_->accessed.first, plan_->accessed.end, agreement_.division.place());
  if (plan_->gaps.has_value() && plan_->gaps->range.first <= needed.first && needed.end <= plan_->gaps->range.end) return;
  std::vector<Claim> claims;
  FileRange range = kAllOfIt;  // as much as is known of all, so that it need not be looked at again where the domain moves
  if (plan_->told_to[static_cast<std::size_t>(call_.aggregator())].end > 0) claims = plan_->claims;
  for (const KeptPeer& peer : plan_->peers) {
    claims.insert(claims.end(), peer.claims.begin(), peer.claims.end());
    range = {std::max(range.first, peer.known.first), std::min(range.end, peer.known.end)};
  }
  if (range.first > needed.first || needed.end > range.end) range = needed;
  const bool none = in_one_stretch(claims, range);
  if (!none && in_one_stretch(claims, needed))
    plan_->gaps = {needed, true};  // those that there are lie beside the domain
  else
    plan_->gaps = {range, none};
}

Plan Recall::told() const {
  if (plan_ == nullptr) return {};
  return {.declined = agreement_.declined ? 1 : 0,
          .elsewhere = agreement_.elsewhere,
          .recalled = plan_->number,
          .shift = shift_,
          .file_bytes = agreement_.file_bytes,
          .domains = agreement_.division.domains(),
          .claims = static_cast<std::int64_t>(agreement_.walks.size()),
          .staging_bytes = agreement_.idle() ? 0 : agreement_.most_in_a_round()};
}

void Recall::hear(const Plan& told) {
  plan_ = plans().use(told.recalled);
  shift_ = told.shift;
  agreement_.own_claim = plan_->own_claim;
  if (plan_->whole.has_value()) agreement_.whole.emplace(shifted(*plan_->whole));
}

}  // namespace penstock::strategy
