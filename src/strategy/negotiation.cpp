// Meetings of a team come in pairs with those of local aggregators: first the members tell, then the local aggregators find out, then the members hear.
#include "strategy/negotiation.h"

#include <algorithm>
#include <memory>
#include <new>
#include <span>
#include <utility>

#include "access/wire.h"
#include "strategy/claim_exchange.h"
#include "strategy/claim_message.h"
#include "strategy/dissemination.h"

namespace penstock::strategy {

using access::Claim;
using trace::Counter;
using trace::Phase;
using trace::PhaseScope;

namespace {

/// Room for a member's description to begin with: regular ones take some hundred bytes.
constexpr Offset kTreeRoom = 4096;

plan::Accessed accessed_by(const std::vector<Facts>& teams, bool write) {
  plan::Accessed all;
  Offset spans = 0, ranks = 0, seen = -1;
  const auto accessing = std::count_if(teams.begin(), teams.end(), [](const Facts& team) { return team.first < team.end; });
  for (const Facts& team : teams) {
    seen = std::max(seen, team.file_bytes);
    if (team.first == team.end) continue;
    spans = checked_add(spans, team.rank_spans, spans) ? spans : INT64_MAX;
    ranks += team.accessing;
    all.first = all.first == all.end ? team.first : std::min(all.first, team.first);
    all.end = std::max(all.end, team.end);
    all.bytes = checked_add(all.bytes, team.bytes, all.bytes) ? all.bytes : INT64_MAX;
    all.pieces = checked_add(all.pieces, team.pieces, all.pieces) ? all.pieces : INT64_MAX;
    all.team_span += (team.end - team.first) / accessing;
    all.told_bytes += static_cast<Offset>(team.told_bytes) / accessing;
  }
  all.rank_span = spans / std::max<Offset>(ranks, 1);
  all.fresh = write && all.end > seen;
  return all;
}

}  // namespace

void Negotiation::run() {
  number_ = plans().begin();
  if (!call_.access().write && call_.ok()) {
    const Result<Offset> size = call_.access().target.size_with_own_writes();
    if (size.ok()) seen_file_bytes_ = *size;
    call_.note(size.status());
  }
  if (!plans().any_agreed() || !recall()) {
    if (!call_.alone()) call_.note(show());
    if (call_.leads() && !agreement_.stop) call_.guarded([this] { return plan(); });
    if (!call_.alone()) call_.note(hear());
  }
  if (call_.alone() && call_.ok() && !agreement_.stop && !agreement_.idle()) settle_alone();
}

void Negotiation::ask_for_size(Offset& file_bytes) {
  const Result<Offset> size = call_.access().target.size();
  if (size.ok()) file_bytes = std::max(file_bytes, *size);
  call_.note(size.status());
}

/// All members go by what the local aggregator finds; where it has failed or has no memory to find it, all stop.
template <typename Find>
Plan Negotiation::share(Find find) {
  if (call_.leads()) {
    board_->plan() = {.stop = 1, .late = agreement_.stop ? 0 : 1};
    if (!agreement_.stop && call_.ok()) call_.guarded([&] { board_->plan() = find(); });
  }
  (void)call_.access().team.meet({});
  const Plan plan = board_->plan();
  agreement_.stop = plan.stop != 0;
  agreement_.late = plan.late != 0;
  return plan;
}

void Negotiation::take(const Plan& plan) {
  agreement_.declined = plan.declined != 0;
  agreement_.elsewhere = static_cast<int>(plan.elsewhere);
  if (agreement_.idle()) return;
  agreement_.file_bytes = plan.file_bytes;
  agreement_.division = Division(call_, plan.domains);
  agreement_.claims = plan.claims;
  agreement_.staging_bytes = plan.staging_bytes;
}

// --- By a plan of before ----------------------------------------------------------------------------------------------

/// Whether all ranks do once more, or elsewhere in the file, what they did in an earlier call: then its plan holds, and nobody tells anybody what he
/// accesses.  True when nothing is left to be found out: that is so, or some rank failed.
bool Negotiation::recall() {
  Ballot ballot;
  if (call_.ok()) ballot = recall_.ballot();
  ballot.code = call_.code();
  ballot.file_bytes = seen_file_bytes_;
  ballot.taken = call_.access().taken;
  if (!call_.alone()) join_team(ballot);
  if (call_.leads()) call_.note(vote(ballot));
  if (call_.alone()) return agreement_.stop || recall_.found();
  // What all members see of each other needs no word from the local aggregator.  Of failures elsewhere they hear from it when they have shown what they access.
  if (ballot.code != 0) {
    agreement_.stop = true;
    return true;
  }
  return ballot.count > 0 && hear_recalled();
}

void Negotiation::join_team(Ballot& ballot) {
  const PhaseScope phase(call_.access().trace, Phase::kGather);
  comm::Team& team = call_.access().team;
  call_.note(open_board(kTreeRoom));
  ballot.code = call_.code();
  if (board_ == std::nullopt) return;
  board_->ballot(team.place()) = ballot;
  (void)team.meet({});
  for (int member = 0; member < team.size(); ++member) ballot.join(board_->ballot(member));
}

/// The local aggregators find the plan that all of them can go by.
Status Negotiation::vote(Ballot ballot) {
  const PhaseScope phase(call_.access().trace, Phase::kExchange);
  if (ballot.count > 0) call_.guarded([&] { recall_.make_ready(ballot); });
  if (ballot.count > 0 && call_.ok() && !call_.access().write && asks_for_size()) ask_for_size(ballot.file_bytes);
  ballot.code = std::max(ballot.code, call_.code());
  const Dissemination among(call_);
  PENSTOCK_TRY(among.join(ballot, [](Ballot& mine, const Ballot& theirs) { mine.join(theirs); }));
  call_.count_request(among.steps() * sizeof ballot);
  agreement_.stop = ballot.code != 0;
  if (agreement_.stop) return {};
  if (call_.may_decline()) call_.access().learn(ballot.taken);
  if (ballot.count == 0) return {};
  return recall_.go_by(ballot.candidates[0], ballot.file_bytes);
}

/// The local aggregator tells its members by what plan all go, and they hear it.
bool Negotiation::hear_recalled() {
  const PhaseScope phase(call_.access().trace, Phase::kGather);
  const Plan plan = share([this] { return recall_.told(); });
  if (agreement_.stop || plan.recalled == 0) return agreement_.stop;
  take(plan);
  recall_.hear(plan);
  return true;
}

// --- The first time -----------------------------------------------------------------------------------------------------

/// Members show the local aggregator what they access.
Status Negotiation::show() {
  const PhaseScope phase(call_.access().trace, Phase::kGather);
  comm::Team& team = call_.access().team;
  if (call_.ok() && call_.own().bytes > 0) call_.guarded([this] { access::pack(call_.own().tiling, tree_); });
  PENSTOCK_TRY(open_board(kTreeRoom));
  write_asked();
  (void)team.meet({});
  Offset most = 0;
  for (int member = 0; member < team.size(); ++member) most = std::max(most, board_->asked(member).tree_bytes);
  if (most <= board_->tree_room()) return {};
  (void)team.meet({});  // all have read how much it is
  PENSTOCK_TRY(open_board((most + 7) / 8 * 8));
  write_asked();
  (void)team.meet({});
  return {};
}

Status Negotiation::open_board(Offset tree_room) {
  comm::Team& team = call_.access().team;
  const Result<std::byte*> memory = team.memory(0, Board::bytes_for(team.size(), tree_room));
  if (!memory.ok()) {
    board_.reset();
    return memory.status();
  }
  board_.emplace(*memory, team.size(), tree_room);
  return {};
}

void Negotiation::write_asked() {
  const Collective& access = call_.access();
  const bool has_data = call_.ok() && access.bytes > 0;
  Asked& asked = board_->asked(access.team.place());
  asked = {access.position, has_data ? access.bytes : 0, has_data ? static_cast<Offset>(tree_.size()) : 0, seen_file_bytes_, call_.code(), 0};
  const std::span<std::byte> room = board_->tree_of(access.team.place());
  if (has_data && tree_.size() <= room.size()) std::copy(tree_.begin(), tree_.end(), room.begin());
}

/// The local aggregator's part, with the others of its kind.
Status Negotiation::plan() {
  PENSTOCK_TRY(tell_facts(facts_of_team()));
  if (agreement_.stop) return {};
  const plan::Accessed all = accessed_by(all_, call_.access().write);
  taking_part_ = call_.access().worthwhile(all);
  agreement_.divide(call_, all, taking_part_);
  ClaimExchange exchange(call_, agreement_, all_, told_);
  call_.guarded([&] { exchange.expect(); });
  PENSTOCK_TRY(learn_of_failures(call_, agreement_.stop));
  if (agreement_.stop) return {};
  decide(all);
  if (agreement_.idle()) return {};
  PENSTOCK_TRY(exchange.exchange());
  if (agreement_.stop) return {};
  if (!call_.access().write) agreement_.cut_at_end_of_file();
  return {};
}

/// What the team accesses, in a few numbers; or that some member failed.
Facts Negotiation::facts_of_team() {
  Facts mine;
  if (call_.ok()) call_.guarded([this] { return gather(); });
  if (call_.ok()) call_.guarded([this] { told_ = claims_.message(); });
  if (call_.ok()) {
    mine = claims_.facts();
    mine.told_bytes = told_.size();
    mine.file_bytes = seen_file_bytes_;
    for (int member = 0; !call_.alone() && member < call_.access().team.size(); ++member)
      mine.file_bytes = std::max(mine.file_bytes, board_->asked(member).file_bytes);
  }
  if (call_.ok() && asks_for_size() && (!call_.access().write || call_.may_decline())) ask_for_size(mine.file_bytes);
  mine.code = call_.code();
  if (mine.code == 0) mine.code = claims_.failure();
  return mine;
}

Status Negotiation::gather() {
  trace::OpTrace& trace = call_.access().trace;
  const PhaseScope phase(trace, Phase::kMerge);
  if (call_.alone()) {
    claims_.take_own(call_.own());
  } else {
    PENSTOCK_TRY(claims_.take(*board_, call_.access().team.size()));
    trace.count(Counter::kRequests, claims_.asked());
    trace.count(Counter::kRequestsJoined, static_cast<std::int64_t>(claims_.joined().size()));
  }
  for (const Claim& claim : claims_.joined()) agreement_.walks.emplace_back(claim);
  return {};
}

/// All local aggregators' facts to all of them.
Status Negotiation::tell_facts(const Facts& mine) {
  const PhaseScope phase(call_.access().trace, Phase::kExchange);
  PENSTOCK_TRY(Dissemination(call_).all_gather(mine, all_));
  call_.count_request((all_.size() - 1) * sizeof(Facts));
  agreement_.stop = std::any_of(all_.begin(), all_.end(), [](const Facts& team) { return team.code != 0; });
  if (agreement_.stop || call_.access().write) return {};
  agreement_.file_bytes = 0;
  for (const Facts& team : all_) agreement_.file_bytes = std::max(agreement_.file_bytes, team.file_bytes);
  return {};
}

/// Whether the call goes by these aggregators, by others, or each rank by itself.
void Negotiation::decide(const plan::Accessed& all) {
  const Collective& access = call_.access();
  if (access.elsewhere != nullptr) agreement_.elsewhere = access.elsewhere(all);
  agreement_.declined = agreement_.elsewhere < 0 && call_.may_decline() && access.better_alone(all, taking_part_, false);
}

/// The local aggregator tells its members, and they hear it.
Status Negotiation::hear() {
  if (board_ == std::nullopt) {
    agreement_.stop = true;
    return {};
  }
  const PhaseScope phase(call_.access().trace, Phase::kGather);
  const Plan plan = share([this] { return planned(); });
  if (agreement_.stop) return {};
  take(plan);
  if (agreement_.idle()) return {};
  const Told& told = board_->told(call_.access().team.place());
  agreement_.own_claim = told.claim;
  if (told.tree_bytes > 0) call_.guarded([&]() -> Status {
    Result<Claim> whole = read_claim(board_->trees().subspan(static_cast<std::size_t>(told.tree_at), static_cast<std::size_t>(told.tree_bytes)),
                                     told.position, told.bytes);
    if (!whole.ok()) return whole.status();
    agreement_.whole.emplace(std::move(*whole));
    return {};
  });
  return {};
}

Plan Negotiation::planned() const {
  if (agreement_.idle()) return {.declined = agreement_.declined ? 1 : 0, .elsewhere = agreement_.elsewhere};
  claims_.tell(*board_);
  return {.file_bytes = agreement_.file_bytes,
          .domains = agreement_.division.domains(),
          .claims = static_cast<std::int64_t>(agreement_.walks.size()),
          .staging_bytes = agreement_.most_in_a_round()};
}

/// What members of several hear from each other, a team of one knows.
void Negotiation::settle_alone() {
  agreement_.claims = static_cast<std::int64_t>(agreement_.walks.size());
  agreement_.own_claim = agreement_.walks.empty() ? -1 : 0;
  if (!call_.direct()) call_.guarded([this] { agreement_.staging_bytes = agreement_.most_in_a_round(); });
}

// --- For later calls ----------------------------------------------------------------------------------------------------

void Negotiation::conclude(bool agreed) {
  if (!agreed) {
    if (recall_.found()) recall_.drop();
    return;
  }
  plans().agreed();
  if (!recall_.found())
    keep_plan();
  else if (agreement_.elsewhere < 0)
    call_.access().trace.count(Counter::kPlansReused);  // else it is counted there
}

/// Who has no memory for it keeps none, and then no rank goes by that plan.
void Negotiation::keep_plan() {
  try {
    auto kept = std::make_unique<KeptPlan>();
    kept->number = number_;
    kept->exchanged = !agreement_.idle();
    kept->elsewhere = agreement_.elsewhere;
    kept->own = call_.own();
    kept->own_claim = agreement_.own_claim;
    if (agreement_.whole.has_value()) kept->whole = agreement_.whole->claim;
    if (call_.leads()) kept->accessed = accessed_by(all_, call_.access().write);
    kept->aggregators = taking_part_;
    if (call_.leads() && !agreement_.idle()) keep_teams(*kept);
    plans().keep(std::move(kept));
  } catch (const std::bad_alloc&) {
  }
}

void Negotiation::keep_teams(KeptPlan& kept) {
  const Division& division = agreement_.division;
  for (const Walk& walk : agreement_.walks) kept.claims.push_back(walk.claim);
  kept.told = std::move(told_);
  kept.all = std::move(all_);
  const Facts& mine = kept.all[call_.team()];
  kept.told_to.resize(call_.access().placement.global.size());
  for (int place = 0; place < division.aggregators(); ++place)
    if (division.domains().reaches(mine.first, mine.end, place))
      kept.told_to[division.standing(place)] = place == division.place() ? kAllOfIt : told_range(mine, division.domains(), place);
  for (const Peer& peer : agreement_.peers) {
    if (peer.rank == call_.rank()) continue;
    KeptPeer& made = kept.peers.emplace_back(KeptPeer{call_.team_of(peer.rank), peer.known, {}});
    for (const Walk& walk : peer.walks) made.claims.push_back(walk.claim);
  }
  if (call_.access().write && division.aggregates()) kept.gaps = agreement_.gaps;
}

}  // namespace penstock::strategy
