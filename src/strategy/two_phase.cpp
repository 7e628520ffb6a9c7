// The engine: who has what, then round by round.
//
// In a round every global aggregator has one window of its file domain; the windows of a round may lie anywhere in the file.  Which bytes of a walk are
// in the window that an aggregator has in a round follows from the walk's description and from the domains, which both sides know, so neither has to
// remember what was moved before.
//
// A team's rounds are those in which it has data for some window, a global aggregator's those in which some team has data for its window.  Everybody goes
// through his in ascending order, so two aggregators meet in the same round and nobody waits for a round that is empty on his side.  Within a round an
// aggregator posts what it will receive before it waits for anything, and sends all it has before it waits for what it receives.  So nobody waits in a
// circle: in the lowest round that is not over somewhere, everybody who is in it gets what he waits for.
//
// A local aggregator leads its team through its rounds and those of its window alike, so that all of them use the same slots of memory.  The team
// learns of the next round before it meets over the one at hand, and works on the next one while that is sent.  When they read, some members read the
// next window together while the one at hand is sent and the one before is handed out.
#include "strategy/two_phase.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <tuple>

#include "access/cursor.h"
#include "access/merge.h"
#include "access/wire.h"
#include "access/within.h"
#include "strategy/board.h"
#include "strategy/claim_message.h"
#include "strategy/kept.h"

namespace penstock::strategy {

namespace {

using access::Claim;
using trace::Counter;
using trace::Phase;
using trace::PhaseScope;

/// Extents that go to the store in one call.
constexpr std::size_t kBatchMax = 512;
/// Members that read a window together: more do not make a node's storage client faster, and each has to open the file.
constexpr int kReadersMost = 4;
/// What a member reads of a window at least, and a multiple of.
constexpr Offset kReadLeast = Offset{128} << 10;
constexpr Offset kReadUnit = 4096;
/// Room for a member's description to begin with: regular ones take some hundred bytes.
constexpr Offset kTreeRoom = 4096;

/// Some data that are moved window by window.
struct Walk {
  Claim claim;
  Offset end = 0;  ///< data position

  explicit Walk(Claim of) : claim(std::move(of)), end(claim.position + claim.bytes) {}
  [[nodiscard]] Offset begin() const { return claim.position; }
  [[nodiscard]] bool empty() const { return begin() == end; }
  [[nodiscard]] Offset offset(Offset position) const { return access::offset_of(claim.tiling, position); }
  /// The position of the first byte at or behind a file offset, from the walk's begin to its end.
  [[nodiscard]] Offset position_at(Offset file_offset) const { return std::clamp(access::position_of(claim.tiling, file_offset), begin(), end); }
  void cut(Offset file_bytes) { end = position_at(file_bytes); }
};

/// The rounds in which walks have data for aggregators, from some round on.  Rounds in which none has any cost nothing.
class Agenda {
 public:
  /// The next data of a walk for an aggregator.
  struct Entry {
    Offset round;
    Offset position;
    int aggregator;
    std::uint32_t index;  ///< of the walk, among those that were added
    const Walk* walk;
  };

  explicit Agenda(const plan::FileDomains& domains) : domains_(domains) {}

  void reserve(std::size_t entries) { entries_.reserve(entries); }

  /// The walk must stay where it is.  Throws where there is no memory.
  void add(const Walk& walk, std::size_t index, int aggregator) {
    Entry entry{0, walk.begin(), aggregator, static_cast<std::uint32_t>(index), &walk};
    if (find(entry)) push(entry);
  }

  /// For each aggregator that the walk reaches.
  void add(const Walk& walk, std::size_t index) {
    if (walk.empty()) return;
    const plan::FileDomains::Reach reach = domains_.reach(walk.offset(walk.begin()), walk.offset(walk.end - 1) + 1);
    for (int i = 0; i < reach.count; ++i) add(walk, index, (reach.first + i) % domains_.aggregators());
  }

  /// INT64_MAX when all is over.
  [[nodiscard]] Offset next_round() const { return entries_.empty() ? INT64_MAX : entries_.front().round; }

  /// Calls visit(entry, end) for what lies in the windows of a round, data positions [entry.position, end): by aggregators, then by walks.
  /// Requires: no earlier round is left.
  template <typename Visit>
  void take(Offset round, Visit visit) {
    while (!entries_.empty() && entries_.front().round == round) {
      std::pop_heap(entries_.begin(), entries_.end(), later);
      Entry entry = entries_.back();
      entries_.pop_back();
      const Offset end = entry.walk->position_at(domains_.window(round, entry.aggregator).end);
      visit(entry, end);
      entry.position = end;
      if (find(entry)) push(entry);
    }
  }

 private:
  static bool later(const Entry& a, const Entry& b) {
    return std::tie(a.round, a.aggregator, a.index) > std::tie(b.round, b.aggregator, b.index);
  }

  void push(const Entry& entry) {
    entries_.push_back(entry);
    std::push_heap(entries_.begin(), entries_.end(), later);
  }

  /// Moves an entry on to the aggregator's next data; false when there are none.
  bool find(Entry& entry) const {
    while (entry.position < entry.walk->end) {
      const Offset offset = entry.walk->offset(entry.position);
      const Offset next = domains_.next_of(entry.aggregator, offset);
      if (next == INT64_MAX) return false;
      if (next == offset) {
        entry.round = domains_.round_of(offset);
        return true;
      }
      entry.position = entry.walk->position_at(next);
    }
    return false;
  }

  plan::FileDomains domains_;
  std::vector<Entry> entries_;  ///< a heap, the next one first
};

/// A team that reaches a global aggregator.
struct Peer {
  int rank;
  FileRange known;            ///< of what the team accesses
  std::uint64_t told_bytes;   ///< of its message
  std::vector<std::byte> told;
  std::vector<Walk> walks;

  [[nodiscard]] bool tells_part() const { return known.end != INT64_MAX; }
};

/// What a team tells a global aggregator, by its place, of a description too long to be told whole.
struct Telling {
  int place;
  std::uint64_t bytes;             ///< of what it is told
  std::vector<std::byte> message;  ///< without any, and yet of some bytes: the whole description
};

/// The part of a walk that lies in a window; for messages, where it lies in the staging memory.
struct Part {
  const Claim* claim;
  Offset position;
  Offset bytes;
  Offset staged;
};

/// A message from or to the local aggregator of another team: a window's parts [begin, end).
struct TeamMessage {
  int rank;
  std::size_t begin;
  std::size_t end;
  Offset bytes;
};

/// Between a local aggregator's staging memory, or the program's, and a global aggregator.
struct Message {
  int rank;
  std::byte* data;
  Offset bytes;
};

/// One round of a local aggregator.
struct Step {
  Offset round = INT64_MAX;
  bool moves = false;   ///< its team has data
  bool serves = false;  ///< its window gets or gives data
  [[nodiscard]] bool over() const { return round == INT64_MAX; }
};

class Engine {
 public:
  Engine(const Collective& access, Status mine)
      : access_(access), failure_(std::move(mine)), own_(Claim{access.file, access.position, access.bytes}) {
    aggregator_ = index_in(access_.placement.global, access_.placement.leader);
  }

  Result<Moved> run() {
    prepare();
    const bool agreed = this->agreed();
    if (agreed)
      keep_plan();
    else if (plan_ != nullptr)
      plans().drop(plan_->number);  // who has been told what is not the same everywhere any more
    // Nothing has been moved.  What failed since all knew what all want is memory: then it goes without aggregation.
    if (!agreed && !stop_ && may_decline()) return Moved{.declined = true, .short_of_memory = true};
    if (!agreed || stop_) return outcome({.stopped = true});
    if (declined_) return outcome({.declined = true});
    if (elsewhere_ >= 0) return outcome({.elsewhere = elsewhere_});
    if (leads())
      fail_if(lead());
    else
      follow();
    return outcome({.bytes = own_end_ - access_.position});
  }

 private:
  [[nodiscard]] int rank() const { return access_.comm.topology().rank; }
  [[nodiscard]] bool leads() const { return access_.team.place() == 0; }
  [[nodiscard]] bool alone() const { return access_.team.size() == 1; }
  /// A team of one sends from and receives into the program's memory where that is in one piece.
  [[nodiscard]] bool direct() const { return alone() && access_.memory_contiguous; }
  [[nodiscard]] bool aggregates() const { return leads() && place_ >= 0; }
  [[nodiscard]] int aggregators() const { return domains_.aggregators(); }
  [[nodiscard]] std::size_t standing(int place) const { return static_cast<std::size_t>(plan::standing(place, aggregators(), access_.domains.aggregators)); }
  [[nodiscard]] int rank_of(int place) const { return access_.placement.global[standing(place)]; }
  [[nodiscard]] static int index_in(const std::vector<int>& ranks, int rank) {
    const auto found = std::lower_bound(ranks.begin(), ranks.end(), rank);
    return found != ranks.end() && *found == rank ? static_cast<int>(found - ranks.begin()) : -1;
  }
  [[nodiscard]] const Claim& claim_at(std::size_t index) const { return walks_[index].claim; }

  Result<Moved> outcome(Moved moved) const {
    if (!failure_.ok()) return failure_;
    return moved;
  }
  void fail(Status status) {
    if (failure_.ok()) failure_ = std::move(status);
  }
  void fail_if(Status status) {
    if (!status.ok()) fail(std::move(status));
  }
  [[nodiscard]] comm::Verdict verdict() const {
    return {static_cast<std::int32_t>(failure_.code()), failure_.system_errno(), failure_.ok() ? -1 : rank()};
  }

  bool agreed() {
    const PhaseScope phase(access_.trace, Phase::kWait);
    return access_.comm.agree(verdict()).ok();
  }

  // --- Who accesses what ----------------------------------------------------------------------------------------------

  /// All that can fail, before anybody depends on this rank's data.  Whatever fails, every meeting of the team and of the aggregators is kept, but for the
  /// two lists of facts about local aggregators, without memory for which the others wait in vain.
  void prepare() {
    number_ = plans().begin();
    if (!access_.write && failure_.ok()) {
      const Result<Offset> size = access_.target.size_with_own_writes();
      if (size.ok()) seen_file_bytes_ = *size;
      fail_if(size.status());
    }
    if (!plans().any_agreed() || !recall()) {
      if (!alone()) fail_if(show());
      if (leads() && !stop_) guarded([this] { return plan(); });
      if (!alone()) fail_if(hear());
    }
    // The members of a team go on alike, also where one of them has failed since: its failure is told in the agreement.
    if (!stop_ && !idle() && (!alone() || failure_.ok())) fail_if(share_buffers());
  }

  /// Runs what may be short of memory.
  template <typename Body>
  void guarded(Body body) {
    try {
      fail_if(body());
    } catch (const std::bad_alloc&) {
      fail(Status::failure(Code::kNoMemory, "no memory for the descriptions of a collective access"));
    }
  }

  // --- Plans of earlier calls -------------------------------------------------------------------------------------------

  [[nodiscard]] KeptPlans& plans() const { return access_.kept.plans; }
  [[nodiscard]] std::size_t team_index() const { return static_cast<std::size_t>(index_in(access_.placement.local, rank())); }

  /// Whether all ranks do once more, or elsewhere in the file, what they did in an earlier call: then its plan holds, and nobody tells anybody what he
  /// accesses.  True when nothing is left to be found out: that is so, or some rank failed.
  bool recall() {
    Ballot ballot;
    if (failure_.ok()) {
      const PhaseScope phase(access_.trace, Phase::kPlan);
      ballot = plans().ballot(own_.claim, may_decline());
    }
    ballot.code = static_cast<std::int32_t>(failure_.code());
    ballot.file_bytes = seen_file_bytes_;
    ballot.taken = access_.taken;
    if (!alone()) join_team(ballot);
    if (leads()) fail_if(vote(ballot));
    if (alone()) return stop_ || plan_ != nullptr;
    // What all members see of each other needs no word from the local aggregator.  Of failures elsewhere they hear from it when they have shown what they access.
    if (ballot.code != 0) {
      stop_ = true;
      return true;
    }
    return ballot.count > 0 && hear_recalled();
  }

  void join_team(Ballot& ballot) {
    const PhaseScope phase(access_.trace, Phase::kGather);
    fail_if(open_board(kTreeRoom));
    ballot.code = static_cast<std::int32_t>(failure_.code());
    if (board_ == std::nullopt) return;
    board_->ballot(access_.team.place()) = ballot;
    (void)access_.team.meet({});
    for (int member = 0; member < access_.team.size(); ++member) ballot.join(board_->ballot(member));
  }

  /// The local aggregators find the plan that all of them can go by.
  Status vote(Ballot ballot) {
    const PhaseScope phase(access_.trace, Phase::kExchange);
    if (ballot.count > 0) guarded([&] { return make_ready(ballot); });
    if (ballot.count > 0 && failure_.ok() && !access_.write && rank() == access_.placement.local.front()) {
      const Result<Offset> size = access_.target.size();  // asked in every call: what each rank wrote before counts
      if (size.ok()) ballot.file_bytes = std::max(ballot.file_bytes, *size);
      fail_if(size.status());
    }
    ballot.code = std::max(ballot.code, static_cast<std::int32_t>(failure_.code()));
    const std::vector<int>& ranks = access_.placement.local;
    const std::size_t count = ranks.size(), me = team_index();
    for (std::size_t distance = 1; distance < count; distance *= 2) {
      Ballot heard;
      const Ballot told = ballot;
      const std::unique_ptr<comm::Exchange> messages = access_.comm.exchange();
      PENSTOCK_TRY(messages->receive(ranks[(me + count - distance) % count], &heard, sizeof heard));
      PENSTOCK_TRY(messages->send(ranks[(me + distance) % count], &told, sizeof told));
      PENSTOCK_TRY(messages->wait());
      access_.trace.count(Counter::kRequestBytes, static_cast<std::int64_t>(sizeof told));
      ballot.join(heard);
    }
    stop_ = ballot.code != 0;
    if (stop_) return {};
    if (may_decline()) access_.learn(ballot.taken);
    if (ballot.count == 0) return {};
    return go_by(ballot.candidates[0], ballot.file_bytes);
  }

  /// Strikes out what would lead beyond the largest offset, and has room for what may have to be told yet.
  Status make_ready(Ballot& ballot) {
    std::size_t room = 0;
    for (auto i = static_cast<std::size_t>(ballot.count); i-- > 0;) {
      const KeptPlan& plan = *plans().find(ballot.candidates[i].plan);
      const Offset shift = ballot.candidates[i].shift;
      if (!can_shift(plan, shift)) {
        ballot.drop(i);  // what some team strikes out, no team goes by
        continue;
      }
      for (std::size_t team = 0; aggregator_ >= 0 && team < plan.all.size(); ++team)
        if (const KeptPeer* peer = plan.peer(team); team != team_index() && (peer == nullptr || peer->known.end != INT64_MAX))
          room = std::max(room, static_cast<std::size_t>(plan.all[team].told_bytes));
    }
    told_late_ = std::unique_ptr<std::byte[]>(new std::byte[room]);  // as it comes: it is seldom needed
    return {};
  }

  /// Nothing is moved by this call's aggregators.
  [[nodiscard]] bool idle() const { return declined_ || elsewhere_ >= 0; }

  [[nodiscard]] bool may_decline() const { return access_.better_alone != nullptr; }

  /// On a local aggregator, going by a plan once more.
  [[nodiscard]] bool would_decline(const KeptPlan& plan, Offset shift) const {
    if (!may_decline()) return false;
    plan::Accessed all = plan.accessed;
    all.fresh = all.fresh && access_.write && shift != 0;  // at its own place it has been written
    return access_.better_alone(all, plan.aggregators, plan.exchanged);
  }

  /// Claims of other teams are tried by those teams.
  [[nodiscard]] static bool can_shift(const KeptPlan& plan, Offset shift) {
    if (shift == 0 || shift == Candidate::kAnywhere) return true;
    Offset moved = 0;
    const plan::Accessed& all = plan.accessed;
    if (all.end == INT64_MAX || !checked_add(all.first, shift, moved) || moved < 0 || !checked_add(all.end, shift, moved)) return false;
    return std::all_of(plan.claims.begin(), plan.claims.end(),
                       [&](const Claim& claim) { return checked_add(claim.tiling.displacement, shift, moved); });
  }

  [[nodiscard]] Claim shifted(Claim claim) const {
    claim.tiling.displacement += shift_;
    return claim;
  }

  /// In this call.
  [[nodiscard]] bool team_reaches(std::size_t team, int place) const {
    const Facts& facts = plan_->all[team];
    return facts.first < facts.end && domains_.reaches(facts.first + shift_, facts.end + shift_, place);
  }

  /// Whether who knows what a team accesses in a range of the file of the plan's own access knows all that this call needs there.
  [[nodiscard]] bool suffices(FileRange known, std::size_t team, int place) const {
    const Facts& facts = plan_->all[team];
    const FileRange domain = domains_.domain(place);
    const Offset first = std::max(facts.first + shift_, domain.first) - shift_, end = std::min(facts.end + shift_, domain.end) - shift_;
    return first >= end || (known.first <= first && end <= known.end);
  }

  Status go_by(const Candidate& candidate, Offset file_bytes) {
    plan_ = plans().use(candidate.plan);
    shift_ = candidate.shift == Candidate::kAnywhere ? 0 : candidate.shift;
    if (plan_->elsewhere >= 0 && access_.elsewhere != nullptr) {
      elsewhere_ = plan_->elsewhere;
      return {};
    }
    declined_ = would_decline(*plan_, shift_);
    if (declined_) return {};
    if (!plan_->exchanged) {
      plan_ = nullptr;  // of an access that was declined too little is known to carry it out: it is planned anew
      shift_ = 0;
      return {};
    }
    if (!access_.write) file_bytes_ = file_bytes;
    plan::Accessed all = plan_->accessed;
    all.first += shift_;
    all.end += shift_;
    taking_part_ = plan_->aggregators;
    divide(all);
    PENSTOCK_TRY(tell_late());
    guarded([this] { return take_kept_claims(); });
    return {};
  }

  /// File domains move with the data, but not exactly: a team may reach a global aggregator that does not know its claims yet, or not there.
  Status tell_late() {
    const std::size_t me = team_index();
    const std::unique_ptr<comm::Exchange> sent = access_.comm.exchange();
    for (int place = 0; place < aggregators(); ++place) {
      const std::size_t aggregator = standing(place);
      if (!team_reaches(me, place) || suffices(plan_->told_to[aggregator], me, place)) continue;
      plan_->told_to[aggregator] = kAllOfIt;
      if (place == place_) {
        plan_->gaps.reset();
        continue;
      }
      PENSTOCK_TRY(sent->send(rank_of(place), plan_->told.data(), plan_->told.size()));
      access_.trace.count(Counter::kRequestBytes, static_cast<std::int64_t>(plan_->told.size()));
    }
    bool heard = false;
    for (std::size_t team = 0; place_ >= 0 && team < plan_->all.size(); ++team) {
      const KeptPeer* const known = plan_->peer(team);
      if (team == me || !team_reaches(team, place_) || (known != nullptr && suffices(known->known, team, place_))) continue;
      const std::unique_ptr<comm::Exchange> received = access_.comm.exchange();
      const int other = access_.placement.local[team];
      const std::span<std::byte> told(told_late_.get(), static_cast<std::size_t>(plan_->all[team].told_bytes));
      PENSTOCK_TRY(received->receive(other, told.data(), told.size()));
      PENSTOCK_TRY(received->wait());
      guarded([&] { return read_late(team, other, told); });
      heard = true;
    }
    if (heard) guarded([this] {
      plans().used_has_grown();
      return Status();
    });
    return sent->wait();
  }

  Status read_late(std::size_t team, int other, std::span<const std::byte> told) {
    KeptPeer peer{team, kAllOfIt, {}};
    PENSTOCK_TRY(read_claims(other, told, peer.claims));
    plan_->add_peer(std::move(peer));
    return {};
  }

  Status take_kept_claims() {
    for (const Claim& claim : plan_->claims) walks_.emplace_back(alone() ? own_.claim : shifted(claim));  // alone, data are told by their positions
    if (place_ >= 0) {
      if (team_reaches(team_index(), place_)) peers_.push_back({rank(), kAllOfIt, 0, {}, walks_});
      for (const KeptPeer& kept : plan_->peers) {
        if (!team_reaches(kept.team, place_)) continue;
        Peer& peer = peers_.emplace_back(Peer{access_.placement.local[kept.team], kept.known, 0, {}, {}});
        for (const Claim& claim : kept.claims) peer.walks.emplace_back(shifted(claim));
      }
      if (access_.write) {
        look_for_gaps();
        gapless_ = plan_->gaps->none;
      }
    }
    if (!access_.write) cut_at_end_of_file();
    return {};
  }

  /// Unless it is known of this call's domain already.
  void look_for_gaps() {
    const FileRange domain = domains_.domain(place_);
    const plan::Accessed& all = plan_->accessed;
    const Offset first = std::max(all.first + shift_, domain.first) - shift_, end = std::min(all.end + shift_, domain.end) - shift_;
    if (plan_->gaps.has_value() && plan_->gaps->range.first <= first && end <= plan_->gaps->range.end) return;
    std::vector<Claim> claims;
    FileRange range = kAllOfIt;  // as much as is known of all, so that it need not be looked at again where the domain moves
    if (plan_->told_to[static_cast<std::size_t>(aggregator_)].end > 0) claims = plan_->claims;
    for (const KeptPeer& peer : plan_->peers) {
      claims.insert(claims.end(), peer.claims.begin(), peer.claims.end());
      range = {std::max(range.first, peer.known.first), std::min(range.end, peer.known.end)};
    }
    if (range.first > first || end > range.end) range = {first, end};
    const bool none = in_one_stretch(claims, range);
    if (!none && in_one_stretch(claims, {first, end}))
      plan_->gaps = {{first, end}, true};  // those that there are lie beside the domain
    else
      plan_->gaps = {range, none};
  }

  [[nodiscard]] Plan recalled() const {
    return {.declined = declined_ ? 1 : 0,
            .elsewhere = elsewhere_,
            .recalled = plan_->number,
            .shift = shift_,
            .file_bytes = file_bytes_,
            .domains = domains_,
            .claims = static_cast<std::int64_t>(walks_.size()),
            .staging_bytes = idle() ? 0 : most_in_a_round()};
  }

  /// The local aggregator tells its members by what plan all go, and they hear it.
  bool hear_recalled() {
    const PhaseScope phase(access_.trace, Phase::kGather);
    if (leads()) {
      board_->plan() = {.stop = 1};
      if (!stop_ && failure_.ok()) guarded([this] {
        board_->plan() = plan_ == nullptr ? Plan{} : recalled();
        return Status();
      });
    }
    (void)access_.team.meet({});
    const Plan& plan = board_->plan();
    stop_ = plan.stop != 0;
    if (stop_ || plan.recalled == 0) return stop_;
    plan_ = plans().use(plan.recalled);
    shift_ = plan.shift;
    declined_ = plan.declined != 0;
    elsewhere_ = static_cast<int>(plan.elsewhere);
    file_bytes_ = plan.file_bytes;
    take_domains(plan.domains);
    claims_ = plan.claims;
    staging_bytes_ = plan.staging_bytes;
    own_claim_ = plan_->own_claim;
    if (plan_->whole.has_value()) whole_.emplace(shifted(*plan_->whole));
    return true;
  }

  /// For later calls.  Who has no memory for it keeps none, and then no rank goes by that plan.
  void keep_plan() {
    plans().agreed();
    if (plan_ != nullptr) {
      if (elsewhere_ < 0) access_.trace.count(Counter::kPlansReused);  // else it is counted there
      return;
    }
    try {
      auto kept = std::make_unique<KeptPlan>();
      kept->number = number_;
      kept->exchanged = !idle();
      kept->elsewhere = elsewhere_;
      kept->own = own_.claim;
      kept->own_claim = own_claim_;
      if (whole_.has_value()) kept->whole = whole_->claim;
      if (leads()) kept->accessed = accessed_by_all();
      kept->aggregators = taking_part_;
      if (leads() && !idle()) keep_teams(*kept);
      plans().keep(std::move(kept));
    } catch (const std::bad_alloc&) {
    }
  }

  void keep_teams(KeptPlan& kept) {
    for (const Walk& walk : walks_) kept.claims.push_back(walk.claim);
    kept.told = std::move(told_);
    kept.all = std::move(all_);
    const Facts& mine = kept.all[team_index()];
    kept.told_to.resize(access_.placement.global.size());
    for (int place = 0; place < aggregators(); ++place)
      if (domains_.reaches(mine.first, mine.end, place)) kept.told_to[standing(place)] = place == place_ ? kAllOfIt : told_range(mine, domains_, place);
    for (const Peer& peer : peers_) {
      if (peer.rank == rank()) continue;
      KeptPeer& made = kept.peers.emplace_back(KeptPeer{static_cast<std::size_t>(index_in(access_.placement.local, peer.rank)), peer.known, {}});
      for (const Walk& walk : peer.walks) made.claims.push_back(walk.claim);
    }
    if (access_.write && place_ >= 0) kept.gaps = {looked_at_, gapless_};
  }

  // --- The first time -----------------------------------------------------------------------------------------------------

  /// Members show the local aggregator what they access.
  Status show() {
    const PhaseScope phase(access_.trace, Phase::kGather);
    guarded([this] {
      if (failure_.ok() && !own_.empty()) access::pack(access_.file, tree_);
      return Status();
    });
    PENSTOCK_TRY(open_board(kTreeRoom));
    write_asked();
    (void)access_.team.meet({});
    Offset most = 0;
    for (int member = 0; member < access_.team.size(); ++member) most = std::max(most, board_->asked(member).tree_bytes);
    if (most <= board_->tree_room()) return {};
    (void)access_.team.meet({});  // all have read how much it is
    PENSTOCK_TRY(open_board((most + 7) / 8 * 8));
    write_asked();
    (void)access_.team.meet({});
    return {};
  }

  Status open_board(Offset tree_room) {
    const Result<std::byte*> memory = access_.team.memory(0, Board::bytes_for(access_.team.size(), tree_room));
    if (!memory.ok()) {
      board_.reset();
      return memory.status();
    }
    board_.emplace(*memory, access_.team.size(), tree_room);
    return {};
  }

  void write_asked() {
    const bool has_data = failure_.ok() && !own_.empty();
    Asked& asked = board_->asked(access_.team.place());
    asked = {access_.position, has_data ? access_.bytes : 0, has_data ? static_cast<Offset>(tree_.size()) : 0, seen_file_bytes_,
             static_cast<std::int32_t>(failure_.code()), 0};
    const std::span<std::byte> room = board_->tree_of(access_.team.place());
    if (has_data && tree_.size() <= room.size()) std::copy(tree_.begin(), tree_.end(), room.begin());
  }

  /// The local aggregator's part, with the others of its kind.
  Status plan() {
    Facts mine;
    if (failure_.ok()) guarded([this] { return gather_claims(); });
    if (failure_.ok()) guarded([this] {
      pack_claims(told_);
      return Status();
    });
    if (failure_.ok()) mine = facts_of_team(told_.size());
    if (failure_.ok() && rank() == access_.placement.local.front() && (!access_.write || may_decline())) {
      const Result<Offset> size = access_.target.size();  // asked only now, when what each rank wrote before counts
      if (size.ok()) mine.file_bytes = std::max(mine.file_bytes, *size);
      if (!size.ok()) fail(size.status());
    }
    mine.code = static_cast<std::int32_t>(failure_.code());
    if (mine.code == 0 && other_code_ != 0) mine.code = other_code_;
    PENSTOCK_TRY(tell_facts(mine));
    for (const Facts& facts : all_) stop_ = stop_ || facts.code != 0;
    if (stop_) return {};
    if (!access_.write) {
      file_bytes_ = 0;
      for (const Facts& facts : all_) file_bytes_ = std::max(file_bytes_, facts.file_bytes);
    }
    const plan::Accessed all = accessed_by_all();
    taking_part_ = access_.worthwhile(all);
    divide(all);
    guarded([this] { return expect_peers(); });
    PENSTOCK_TRY(hear_of_failures());
    if (stop_) return {};
    if (access_.elsewhere != nullptr) elsewhere_ = access_.elsewhere(all);
    declined_ = elsewhere_ < 0 && may_decline() && access_.better_alone(all, taking_part_, false);
    if (idle()) return {};
    PENSTOCK_TRY(exchange_claims());
    if (stop_) return {};
    if (!access_.write) cut_at_end_of_file();
    return {};
  }

  Status gather_claims() {
    const PhaseScope phase(access_.trace, Phase::kMerge);
    claim_of_member_.assign(static_cast<std::size_t>(access_.team.size()), -1);
    if (alone()) {
      if (own_.empty()) return {};
      claim_of_member_[0] = 0;
      count_asked(own_.claim);
      walks_.emplace_back(own_.claim);
      access::pack(own_.claim.tiling, trees_.emplace_back());
      return {};
    }
    std::vector<Claim> claims;
    std::vector<int> members;
    for (int member = 0; member < access_.team.size(); ++member) {
      const Asked& asked = board_->asked(member);
      if (asked.code != 0) other_code_ = asked.code;
      if (asked.bytes == 0) continue;
      Result<Claim> claim = read_claim(board_->tree_of(member).first(static_cast<std::size_t>(asked.tree_bytes)), asked.position, asked.bytes);
      if (!claim.ok()) return claim.status();
      count_asked(*claim);
      claims.push_back(std::move(*claim));
      members.push_back(member);
    }
    access_.trace.count(Counter::kRequests, static_cast<std::int64_t>(claims.size()));
    access::Coalesced joined = access::coalesce(claims);
    take_joined(joined, members);
    // A joined description may be longer than its parts: a view says in a few numbers that its first and last copies are cut.
    std::size_t told = 0;
    for (std::size_t claim = 0; claim < walks_.size(); ++claim)
      if (joined_[claim] > 1) told += trees_[claim].size();
    if (told > board_->trees().size()) {
      joined.wholes = claims;
      for (std::size_t i = 0; i < claims.size(); ++i) joined.whole_of[i] = i;
      take_joined(joined, members);
    }
    access_.trace.count(Counter::kRequestsJoined, static_cast<std::int64_t>(walks_.size()));
    return {};
  }

  void take_joined(const access::Coalesced& joined, const std::vector<int>& members) {
    walks_.clear();
    trees_.clear();
    for (const Claim& claim : joined.wholes) {
      walks_.emplace_back(claim);
      access::pack(claim.tiling, trees_.emplace_back());
    }
    joined_.assign(walks_.size(), 0);
    for (std::size_t i = 0; i < members.size(); ++i) {
      claim_of_member_[static_cast<std::size_t>(members[i])] = static_cast<int>(joined.whole_of[i]);
      ++joined_[joined.whole_of[i]];
    }
  }

  void count_asked(const Claim& claim) {
    asked_pieces_ += access::pieces_in(claim.tiling, claim.position, claim.bytes);
    asked_bytes_ += claim.bytes;
    const access::Bounds bounds = access::bounds_of(claim.tiling, claim.position, claim.bytes);
    asked_spans_ = checked_add(asked_spans_, bounds.end - bounds.first, asked_spans_) ? asked_spans_ : INT64_MAX;
    ++asked_ranks_;
  }

  void pack_claims(std::vector<std::byte>& told) const {
    for (std::size_t i = 0; i < walks_.size(); ++i) append_claim(claim_at(i), trees_[i], told);
  }

  [[nodiscard]] Facts facts_of_team(std::size_t told_bytes) const {
    Facts facts;
    facts.told_bytes = told_bytes;
    facts.pieces = asked_pieces_;
    facts.bytes = asked_bytes_;
    facts.rank_spans = asked_spans_;
    facts.accessing = asked_ranks_;
    facts.file_bytes = seen_file_bytes_;
    for (int member = 0; !alone() && member < access_.team.size(); ++member) facts.file_bytes = std::max(facts.file_bytes, board_->asked(member).file_bytes);
    for (const Walk& walk : walks_) {
      const access::Bounds bounds = access::bounds_of(walk.claim.tiling, walk.claim.position, walk.claim.bytes);
      facts.first = facts.first == facts.end ? bounds.first : std::min(facts.first, bounds.first);
      facts.end = std::max(facts.end, bounds.end);
    }
    return facts;
  }

  /// All local aggregators' facts to all of them, in as many steps as it takes to double one to all.
  Status tell_facts(const Facts& mine) {
    const PhaseScope phase(access_.trace, Phase::kExchange);
    const std::vector<int>& ranks = access_.placement.local;
    const std::size_t count = ranks.size();
    const auto me = static_cast<std::size_t>(index_in(ranks, rank()));
    std::vector<Facts> from_me_on(count);
    from_me_on[0] = mine;
    for (std::size_t have = 1; have < count; have *= 2) {
      const std::size_t more = std::min(have, count - have);
      const std::unique_ptr<comm::Exchange> messages = access_.comm.exchange();
      PENSTOCK_TRY(messages->receive(ranks[(me + have) % count], &from_me_on[have], more * sizeof(Facts)));
      PENSTOCK_TRY(messages->send(ranks[(me + count - have) % count], from_me_on.data(), more * sizeof(Facts)));
      PENSTOCK_TRY(messages->wait());
      access_.trace.count(Counter::kRequestBytes, static_cast<std::int64_t>(more * sizeof(Facts)));
    }
    all_.resize(count);
    for (std::size_t i = 0; i < count; ++i) all_[(me + i) % count] = from_me_on[i];
    return {};
  }

  /// The file among the aggregators, now that it is known what all access of it.
  void divide(plan::Accessed all) {
    if (!access_.write) {
      all.end = std::min(all.end, file_bytes_);
      all.first = std::min(all.first, all.end);
    }
    take_domains(plan::domains_for(access_.domains, all.first, all.end, taking_part_));
  }

  void take_domains(const plan::FileDomains& domains) {
    domains_ = domains;
    place_ = aggregator_ < 0 ? -1 : plan::place_of(aggregator_, aggregators(), access_.domains.aggregators);
  }

  [[nodiscard]] plan::Accessed accessed_by_all() const {
    plan::Accessed all;
    Offset spans = 0, ranks = 0, seen = -1;
    const auto teams = std::count_if(all_.begin(), all_.end(), [](const Facts& facts) { return facts.first < facts.end; });
    for (const Facts& facts : all_) {
      seen = std::max(seen, facts.file_bytes);
      if (facts.first == facts.end) continue;
      spans = checked_add(spans, facts.rank_spans, spans) ? spans : INT64_MAX;
      ranks += facts.accessing;
      all.first = all.first == all.end ? facts.first : std::min(all.first, facts.first);
      all.end = std::max(all.end, facts.end);
      all.bytes = checked_add(all.bytes, facts.bytes, all.bytes) ? all.bytes : INT64_MAX;
      all.pieces = checked_add(all.pieces, facts.pieces, all.pieces) ? all.pieces : INT64_MAX;
      all.team_span += (facts.end - facts.first) / teams;
      all.told_bytes += static_cast<Offset>(facts.told_bytes) / teams;
    }
    all.rank_span = spans / std::max<Offset>(ranks, 1);
    all.fresh = access_.write && all.end > seen;
    return all;
  }

  /// Nobody sends what another local aggregator has no memory to receive.
  Status hear_of_failures() {
    const PhaseScope phase(access_.trace, Phase::kExchange);
    const std::vector<int>& ranks = access_.placement.local;
    const std::size_t count = ranks.size();
    const auto me = static_cast<std::size_t>(index_in(ranks, rank()));
    std::int32_t failed = failure_.ok() ? 0 : 1;
    for (std::size_t distance = 1; distance < count; distance *= 2) {
      std::int32_t heard = 0;
      const std::int32_t told = failed;
      const std::unique_ptr<comm::Exchange> messages = access_.comm.exchange();
      PENSTOCK_TRY(messages->receive(ranks[(me + count - distance) % count], &heard, sizeof heard));
      PENSTOCK_TRY(messages->send(ranks[(me + distance) % count], &told, sizeof told));
      PENSTOCK_TRY(messages->wait());
      failed = std::max(failed, heard);
    }
    stop_ = failed != 0;
    return {};
  }

  /// Teams tell every global aggregator they reach what they access: descriptions, whose size does not depend on the pieces.  Of long ones each hears only
  /// what lies in its surroundings, and before it how long that is: what all hear together is about as much as all that there is to tell.
  Status exchange_claims() {
    const PhaseScope phase(access_.trace, Phase::kExchange);
    const bool in_parts = some_tell_parts(all_, domains_);
    if (in_parts) guarded([this] { return cut_claims(); });
    PENSTOCK_TRY(exchange_wholes());
    if (in_parts) {
      guarded([this] { return make_room_for_parts(); });
      PENSTOCK_TRY(hear_of_failures());
      if (stop_) return {};
      PENSTOCK_TRY(exchange_parts());
    }
    guarded([this, in_parts] { return read_peers(in_parts); });
    return {};
  }

  /// Room for what can be told whole, and for how long the rest is.
  Status expect_peers() {
    for (std::size_t i = 0; i < all_.size() && place_ >= 0; ++i) {
      if (!domains_.reaches(all_[i].first, all_[i].end, place_)) continue;
      const int other = access_.placement.local[i];
      const FileRange known = other == rank() ? kAllOfIt : told_range(all_[i], domains_, place_);
      Peer& peer = peers_.emplace_back(Peer{other, known, all_[i].told_bytes, {}, {}});
      if (other != rank() && !peer.tells_part()) peer.told.resize(peer.told_bytes);
    }
    const Facts& mine = all_[team_index()];
    for (int place = 0; place < aggregators(); ++place)
      if (place != place_ && domains_.reaches(mine.first, mine.end, place) && told_range(mine, domains_, place).end != INT64_MAX)
        tellings_.push_back({place, 0, {}});
    return {};
  }

  Status cut_claims() {
    std::vector<Claim> claims;
    if (!tellings_.empty())
      for (const Walk& walk : walks_) claims.push_back(access::normal_form(walk.claim));
    std::vector<std::byte> tree;
    for (Telling& telling : tellings_) {
      const FileRange range = domains_.surroundings(telling.place);
      for (std::size_t i = 0; i < claims.size() && telling.message.size() <= told_.size(); ++i) {
        const Claim part = access::clipped(claims[i], range.first, range.end);
        if (part.bytes == 0) continue;
        tree.clear();
        access::pack(part.tiling, tree);
        append_claim(part, tree, telling.message);
      }
      telling.bytes = std::min(telling.message.size(), told_.size());
      if (telling.message.size() > told_.size()) telling.message = {};  // a pattern that is cut may take more words than the whole
    }
    return {};
  }

  Status exchange_wholes() {
    const std::unique_ptr<comm::Exchange> messages = access_.comm.exchange();
    for (Peer& peer : peers_) {
      if (peer.rank == rank()) continue;
      if (peer.tells_part())
        PENSTOCK_TRY(messages->receive(peer.rank, &peer.told_bytes, sizeof peer.told_bytes));
      else
        PENSTOCK_TRY(messages->receive(peer.rank, peer.told.data(), peer.told.size()));
    }
    const Facts& mine = all_[team_index()];
    auto part = tellings_.begin();
    for (int place = 0; place < aggregators(); ++place) {
      if (place == place_ || !domains_.reaches(mine.first, mine.end, place)) continue;
      if (part != tellings_.end() && part->place == place) {
        PENSTOCK_TRY(messages->send(rank_of(place), &part->bytes, sizeof part->bytes));
        access_.trace.count(Counter::kRequestBytes, static_cast<std::int64_t>(sizeof part->bytes));
        ++part;
        continue;
      }
      PENSTOCK_TRY(messages->send(rank_of(place), told_.data(), told_.size()));
      access_.trace.count(Counter::kRequestBytes, static_cast<std::int64_t>(told_.size()));
    }
    return messages->wait();
  }

  Status make_room_for_parts() {
    for (Peer& peer : peers_) {
      if (!peer.tells_part()) continue;
      if (peer.told_bytes > all_[static_cast<std::size_t>(index_in(access_.placement.local, peer.rank))].told_bytes)
        return Status::failure(Code::kIntern, "rank " + std::to_string(peer.rank) + " says that a part of its description is longer than all of it");
      peer.told.resize(peer.told_bytes);
    }
    return {};
  }

  Status exchange_parts() {
    const std::unique_ptr<comm::Exchange> messages = access_.comm.exchange();
    for (Peer& peer : peers_)
      if (peer.tells_part() && !peer.told.empty()) PENSTOCK_TRY(messages->receive(peer.rank, peer.told.data(), peer.told.size()));
    for (const Telling& telling : tellings_) {
      if (telling.bytes == 0) continue;
      PENSTOCK_TRY(messages->send(rank_of(telling.place), (telling.message.empty() ? told_ : telling.message).data(), telling.bytes));
      access_.trace.count(Counter::kRequestBytes, static_cast<std::int64_t>(telling.bytes));
    }
    return messages->wait();
  }

  Status read_peers(bool in_parts) {
    std::vector<Claim> claims;
    for (Peer& peer : peers_) {
      const std::size_t first = claims.size();
      if (peer.rank != rank()) PENSTOCK_TRY(read_claims(peer.rank, peer.told, claims));
      if (peer.rank == rank())
        for (const Walk& walk : walks_) claims.push_back(walk.claim);
      for (std::size_t i = first; i < claims.size(); ++i) peer.walks.emplace_back(claims[i]);
      peer.told = {};
    }
    tellings_.clear();
    if (access_.write && place_ >= 0) {
      looked_at_ = in_parts ? domains_.surroundings(place_) : kAllOfIt;
      gapless_ = in_one_stretch(claims, looked_at_);
    }
    return {};
  }

  /// Where all that arrives is one stretch of the file, nothing has to be marked as it arrives.  To find that out of very many costs more than marking.
  static bool in_one_stretch(std::vector<Claim>& claims, FileRange range) {
    constexpr std::size_t kJoinedMost = 512;
    if (claims.size() > kJoinedMost) return false;
    if (range.end != INT64_MAX)
      for (Claim& claim : claims) claim = access::clipped(claim, range.first, range.end);
    const access::Coalesced joined = access::coalesce(claims);
    return joined.wholes.size() == 1 && access::is_contiguous(joined.wholes[0].tiling);
  }

  void cut_at_end_of_file() {
    for (Walk& walk : walks_) walk.cut(file_bytes_);
    for (Peer& peer : peers_)
      for (Walk& walk : peer.walks) walk.cut(file_bytes_);
  }

  // --- What the team is told --------------------------------------------------------------------------------------------

  /// The local aggregator tells its members, and they hear it.
  Status hear() {
    if (board_ == std::nullopt) {
      stop_ = true;
      return {};
    }
    const PhaseScope phase(access_.trace, Phase::kGather);
    if (leads()) {
      board_->plan() = {.stop = 1};
      if (idle() && failure_.ok())
        board_->plan() = {.declined = declined_ ? 1 : 0, .elsewhere = elsewhere_};
      else if (!stop_ && failure_.ok())
        guarded([this] { return tell(); });
    }
    (void)access_.team.meet({});
    const Plan& plan = board_->plan();
    stop_ = plan.stop != 0;
    declined_ = plan.declined != 0;
    elsewhere_ = static_cast<int>(plan.elsewhere);
    if (stop_ || idle()) return {};
    file_bytes_ = plan.file_bytes;
    take_domains(plan.domains);
    claims_ = plan.claims;
    staging_bytes_ = plan.staging_bytes;
    const Told& told = board_->told(access_.team.place());
    own_claim_ = told.claim;
    if (told.tree_bytes > 0) guarded([&]() -> Status {
      Result<Claim> whole = read_claim(board_->trees().subspan(static_cast<std::size_t>(told.tree_at), static_cast<std::size_t>(told.tree_bytes)),
                                       told.position, told.bytes);
      if (!whole.ok()) return whole.status();
      whole_.emplace(std::move(*whole));
      return {};
    });
    return {};
  }

  Status tell() {
    Offset used = 0;
    std::vector<Told> of_claim(walks_.size());
    for (std::size_t claim = 0; claim < walks_.size(); ++claim) {
      of_claim[claim] = {static_cast<std::int64_t>(claim), 0, used, claim_at(claim).position, claim_at(claim).bytes};
      if (joined_[claim] < 2) continue;
      // The members' descriptions, which have been read, make room; gather_claims() has seen that it suffices.
      const std::vector<std::byte>& tree = trees_[claim];
      std::copy(tree.begin(), tree.end(), board_->trees().begin() + used);
      of_claim[claim].tree_bytes = static_cast<Offset>(tree.size());
      used += static_cast<Offset>(tree.size());
    }
    for (int member = 0; member < access_.team.size(); ++member) {
      const int claim = claim_of_member_[static_cast<std::size_t>(member)];
      board_->told(member) = claim < 0 ? Told{-1, 0, 0, 0, 0} : of_claim[static_cast<std::size_t>(claim)];
    }
    board_->plan() = {.file_bytes = file_bytes_,
                      .domains = domains_,
                      .claims = static_cast<std::int64_t>(walks_.size()),
                      .staging_bytes = most_in_a_round()};
    return {};
  }

  [[nodiscard]] Agenda agenda_of_team() const {
    Agenda agenda(domains_);
    for (std::size_t claim = 0; claim < walks_.size(); ++claim) agenda.add(walks_[claim], claim);
    return agenda;
  }

  /// Of the team's data, what goes to other aggregators in the round that has most of it.
  [[nodiscard]] Offset most_in_a_round() const {
    Agenda agenda = agenda_of_team();
    Offset most = 0;
    while (agenda.next_round() != INT64_MAX) {
      Offset bytes = 0;
      agenda.take(agenda.next_round(), [&](const Agenda::Entry& part, Offset end) { bytes += part.aggregator == place_ ? 0 : end - part.position; });
      most = std::max(most, bytes);
    }
    return most;
  }

  Status share_buffers() {
    if (alone()) {
      claims_ = static_cast<std::int64_t>(walks_.size());
      own_claim_ = walks_.empty() ? -1 : 0;
      if (!direct()) guarded([this] {
        staging_bytes_ = most_in_a_round();
        return Status();
      });
    }
    if (!access_.write && !own_.empty()) own_.cut(file_bytes_);
    own_end_ = own_.end;
    const Offset window_bytes = place_ >= 0 ? domains_.window_bytes() : 0;
    const Result<std::byte*> memory = access_.team.memory(1, Buffers::bytes_for(claims_, aggregators(), window_bytes, staging_bytes_));
    if (!memory.ok()) return memory.status();
    buffers_ = Buffers(*memory, claims_, aggregators(), window_bytes, staging_bytes_);
    if (!access_.memory_contiguous && whole_.has_value())
      PENSTOCK_TRY(access_.kept.own.reserve(std::min(own_end_ - access_.position, domains_.window_bytes())));
    if (aggregates()) {
      for (int slot = 0; slot < kSlots; ++slot) PENSTOCK_TRY(window(slot).use(buffers_.window(slot), window_bytes));
      PENSTOCK_TRY(staging().reserve(window_bytes));
    }
    guarded([this] { return make_lists(); });
    if (leads() && failure_.ok()) guarded([this] {
      look_ahead(0);
      if (!access_.write && !step(0).over()) look_ahead(1);
      return Status();
    });
    return {};
  }

  /// Makes the lists, so that they do not have to grow while others wait.  Overlapping accesses of one team may make more messages than this.
  Status make_lists() {
    mine_ = Agenda(domains_);
    if (!direct()) mine_.add(own_, 0);
    if (direct() && place_ >= 0) mine_.add(own_, 0, place_);
    if (!leads()) return {};
    team_ = agenda_of_team();
    for (std::vector<Message>& messages : messages_) messages.reserve(static_cast<std::size_t>(aggregators()) + walks_.size());
    if (!aggregates()) return {};
    served_ = Agenda(domains_);
    for (const Peer& peer : peers_)
      for (const Walk& walk : peer.walks) {
        served_.add(walk, rank_of_served_.size(), place_);
        rank_of_served_.push_back(peer.rank);
      }
    for (int i = 0; i < kSlots; ++i) {
      parts(i).reserve(rank_of_served_.size());
      expected(i).reserve(rank_of_served_.size());
    }
    arriving_.reserve(rank_of_served_.size());
    batch_.reserve(kBatchMax);
    return {};
  }

  // --- A member's data --------------------------------------------------------------------------------------------------

  // All of the i-th step of this call.
  FileWindow& window(int i) { return access_.kept.windows[i % kSlots]; }
  Step& step(int i) { return steps_[i % kSlots]; }
  std::vector<Message>& messages(int i) { return messages_[i % kSlots]; }
  std::vector<Part>& parts(int i) { return parts_[i % kSlots]; }
  std::vector<TeamMessage>& expected(int i) { return expected_[i % kSlots]; }
  std::unique_ptr<comm::Exchange>& in(int i) { return in_[i % kSlots]; }
  std::unique_ptr<comm::Exchange>& out(int i) { return out_[i % kSlots]; }

  Room& staging() { return access_.kept.staging; }
  [[nodiscard]] Offset memory_position(Offset position) const { return position - access_.position; }

  /// This rank's data of a round, to or from the team's buffers.
  void move_own(Offset round, int i, bool to_buffers) {
    const PhaseScope phase(access_.trace, alone() ? Phase::kCopy : Phase::kGather);
    mine_.take(round, [&](const Agenda::Entry& part, Offset to) {
      const Offset first = domains_.window(round, part.aggregator).first;
      if (part.aggregator == place_)
        move_in_window(buffers_.window(i), first, part.position, to, to_buffers);
      else
        move_in_staging(i, part.aggregator, first, part.position, to, to_buffers);
    });
  }

  /// Straight between this rank's memory and the window that begins at `first`.
  void move_in_window(std::byte* window, Offset first, Offset from, Offset to, bool to_window) {
    access::Zip zip(access_.file, from, access_.memory, memory_position(from), to - from);
    access::Step step;
    while (zip.next(step)) {
      std::byte* const in_window = window + (step.file_offset - first);
      std::byte* const in_memory = access_.buffer + step.memory_offset;
      if (to_window)
        access::copy_strided(in_window, step.file_stride, in_memory, step.memory_stride, step.length, step.count);
      else
        access::copy_strided(in_memory, step.memory_stride, in_window, step.file_stride, step.length, step.count);
    }
  }

  /// Between this rank's memory and its place in the message for an aggregator.
  void move_in_staging(int i, int place, Offset first, Offset from, Offset to, bool to_staging) {
    std::byte* const message = buffers_.staging(i) + buffers_.place(i, own_claim_, place);
    if (!whole_.has_value()) {
      // The claim is this rank's own; the message begins with its first byte in the window.
      move_packed(from, to - from, message, to_staging);
      return;
    }
    const Offset start = whole_->position_at(first) - whole_->claim.position;
    std::byte* contiguous = access_.buffer + memory_position(from);
    if (!access_.memory_contiguous) {
      contiguous = access_.kept.own.data();
      if (to_staging) move_packed(from, to - from, contiguous, true);
    }
    access::Within within(whole_->claim, own_.claim, memory_position(from), memory_position(to));
    access::PackedStep step;
    Result<bool> more = within.next(step);
    for (; more.ok() && *more; more = within.next(step)) {
      std::byte* const packed = message + (step.whole_position - start);
      std::byte* const mine = contiguous + (step.member_position - memory_position(from));
      if (to_staging)
        access::copy_strided(packed, step.whole_stride, mine, step.length, step.length, step.count);
      else
        access::copy_strided(mine, step.length, packed, step.whole_stride, step.length, step.count);
    }
    fail_if(more.status());
    if (!access_.memory_contiguous && !to_staging) move_packed(from, to - from, contiguous, false);
  }

  /// Between this rank's memory and contiguous bytes.
  void move_packed(Offset position, Offset bytes, std::byte* contiguous, bool from_memory) {
    const access::Tiling plain = access::bytes_at(0);
    access::Zip zip(plain, 0, access_.memory, memory_position(position), bytes);
    access::Step step;
    while (zip.next(step)) {
      std::byte* const memory = access_.buffer + step.memory_offset;
      std::byte* const packed = contiguous + step.file_offset;
      if (from_memory)
        access::copy_strided(packed, step.file_stride, memory, step.memory_stride, step.length, step.count);
      else
        access::copy_strided(memory, step.memory_stride, packed, step.file_stride, step.length, step.count);
    }
  }

  void meet() {
    if (alone()) return;
    const PhaseScope phase(access_.trace, Phase::kGather);
    (void)access_.team.meet({});
  }

  /// All that a member does.  What fails here is told in the agreement that ends the call.
  void follow() {
    if (access_.write)
      follow_writing();
    else
      follow_reading();
  }

  void follow_writing() {
    for (int i = 0; buffers_.round(i).over == 0; ++i) {
      const Round round = buffers_.round(i);
      if (round.moves != 0) move_own(round.number, i, true);
      meet();
    }
  }

  void follow_reading() {
    read_share(0);
    meet();
    Round before{};
    int i = 0;
    for (; buffers_.round(i).over == 0; ++i) {
      const Round round = buffers_.round(i);
      if (before.moves != 0) move_own(before.number, i - 1, false);
      read_share(i + 1);
      meet();
      before = round;
    }
    if (before.moves != 0) move_own(before.number, i - 1, false);
  }

  // --- Rounds -----------------------------------------------------------------------------------------------------------

  [[nodiscard]] Step next_step() const {
    const Offset own = team_.next_round(), served = served_.next_round();
    Step step;
    step.round = std::min(own, served);
    step.moves = !step.over() && own == step.round;
    step.serves = !step.over() && served == step.round;
    return step;
  }

  /// Finds the i-th step behind those before it, tells the members of it, and remembers the messages that it takes.
  void look_ahead(int i) {
    step(i) = next_step();
    Round told{step(i).round, step(i).over() ? 1 : 0, step(i).moves ? 1 : 0, 0, 0, 0};
    if (step(i).serves) {
      take_parts(i);
      if (!access_.write) told.window_first = domains_.window(step(i).round, place_).first;
      if (!access_.write) told.read_first = window(i).touched_first(), told.read_end = window(i).touched_end();
    }
    place_messages(i);
    buffers_.round(i) = told;
  }

  void place_messages(int i) {
    const Step& step = this->step(i);
    std::vector<Message>& messages = this->messages(i);
    messages.clear();
    if (!step.moves) return;
    Offset staged = 0;
    int place = -1;  // of the last message
    team_.take(step.round, [&](const Agenda::Entry& part, Offset end) {
      if (part.aggregator == place_) return;
      const Offset bytes = end - part.position;
      std::byte* data = nullptr;
      if (direct()) {
        data = access_.buffer + memory_position(part.position);
      } else {
        data = buffers_.staging(i) + staged;
        buffers_.place(i, part.index, part.aggregator) = staged;
        staged += bytes;
      }
      if (part.aggregator == place && fit_together(messages.back().bytes, bytes))
        messages.back().bytes += bytes;
      else
        messages.push_back({rank_of(part.aggregator), data, bytes});
      place = part.aggregator;
    });
  }

  /// Ranks of one team may write the same bytes, or want them: then their parts are more than a window, and more than one message.  Both sides ask this.
  [[nodiscard]] bool fit_together(Offset message_bytes, Offset more_bytes) const { return message_bytes + more_bytes <= domains_.window_bytes(); }

  Status lead() { return access_.write ? lead_writing() : lead_reading(); }

  // --- Writing ----------------------------------------------------------------------------------------------------------

  Status lead_writing() {
    Status status;  // a failure of messages: from then on only the team is kept going
    int i = 0;
    for (; !step(i).over(); ++i) {
      if (!status.ok()) served_ = Agenda(domains_);
      in(i) = access_.comm.exchange();
      out(i) = access_.comm.exchange();
      if (step(i).serves && status.ok()) status = expect_data(i);
      if (step(i).moves) move_own(step(i).round, i, true);
      look_ahead(i + 1);
      meet();
      if (status.ok()) status = send_messages(i);
      // The round before: its data go to the file while this one's are on their way.
      if (status.ok() && i > 0) status = finish_writing(i - 1);
      if (step(i).serves && status.ok()) status = take_in(i);
    }
    if (status.ok() && i > 0) status = finish_writing(i - 1);
    return status;
  }

  Status send_messages(int i) {
    for (const Message& message : messages(i)) {
      count_message(message.rank, message.bytes);
      PENSTOCK_TRY(out(i)->send(message.rank, message.data, static_cast<std::size_t>(message.bytes)));
    }
    return {};
  }

  void count_message(int to, Offset bytes) {
    access_.trace.count(Counter::kMessages);
    access_.trace.count(Counter::kMessageBytes, bytes);
    const comm::Topology& topology = access_.comm.topology();
    if (topology.node_of_rank[static_cast<std::size_t>(to)] == topology.node) return;
    access_.trace.count(Counter::kMessagesBetweenNodes);
    access_.trace.count(Counter::kBytesBetweenNodes, bytes);
  }

  /// What is in the file is not this call's business any more.
  Status finish_writing(int i) {
    if (step(i).serves && failure_.ok()) fail_if(write_window(window(i)));
    const PhaseScope phase(access_.trace, Phase::kCommunicate);
    return out(i)->wait();
  }

  /// Finds what lies in this aggregator's window in a step, and how it comes or goes.
  void take_parts(int i) {
    std::vector<Part>& parts = this->parts(i);
    std::vector<TeamMessage>& expected = this->expected(i);
    window(i).begin(domains_.window(step(i).round, place_).first);
    parts.clear();
    expected.clear();
    served_.take(step(i).round, [&](const Agenda::Entry& part, Offset end) {
      parts.push_back({&part.walk->claim, part.position, end - part.position, 0});
      const access::Bounds bounds = bounds_of(parts.back());
      window(i).touch(bounds.first, bounds.end);
      const int other = rank_of_served_[part.index];
      if (other == rank()) return;
      if (!expected.empty() && expected.back().rank == other && fit_together(expected.back().bytes, end - part.position)) {
        expected.back().end = parts.size();
        expected.back().bytes += end - part.position;
      } else {
        expected.push_back({other, parts.size() - 1, parts.size(), end - part.position});
      }
    });
  }

  [[nodiscard]] static access::Bounds bounds_of(const Part& part) { return access::bounds_of(part.claim->tiling, part.position, part.bytes); }

  /// Posts the receives of a round.
  Status expect_data(int i) {
    arriving_.clear();
    next_expected_ = 0;
    staged_ = 0;
    return post_receives(i);
  }

  /// As many as there is room for.  It does not wait for room: what this rank has to send is not on its way yet.
  Status post_receives(int i) {
    for (; next_expected_ < expected(i).size(); ++next_expected_) {
      const TeamMessage& message = expected(i)[next_expected_];
      const std::span<Part> parts = std::span(this->parts(i)).subspan(message.begin, message.end - message.begin);
      if (in_one_piece(parts)) {
        PENSTOCK_TRY(in(i)->receive(message.rank, window(i).at(bounds_of(parts[0]).first), static_cast<std::size_t>(message.bytes)));
        continue;
      }
      if (message.bytes > staging().size()) return Status::failure(Code::kIntern, "more data for a window than it holds");
      if (staged_ + message.bytes > staging().size()) return {};
      PENSTOCK_TRY(in(i)->receive(message.rank, staging().data() + staged_, static_cast<std::size_t>(message.bytes)));
      for (Part& part : parts) {
        part.staged = staged_;
        staged_ += part.bytes;
        arriving_.push_back(part);
      }
    }
    return {};
  }

  /// Such a message comes from or goes to the window itself.
  [[nodiscard]] static bool in_one_piece(std::span<const Part> parts) {
    const access::Bounds bounds = bounds_of(parts[0]);
    return parts.size() == 1 && bounds.end - bounds.first == parts[0].bytes;
  }

  Status take_in(int i) {
    PENSTOCK_TRY(scatter(i));
    while (next_expected_ < expected(i).size()) {
      PENSTOCK_TRY(post_receives(i));
      PENSTOCK_TRY(scatter(i));
    }
    if (gapless_) return {};
    const PhaseScope phase(access_.trace, Phase::kCopy);
    FileWindow& marked = window(i);
    marked.clear_marks();
    for (const Part& part : parts(i)) {
      access::Cursor cursor(part.claim->tiling, part.position, part.bytes);
      access::Run run;
      while (cursor.next(run)) {
        if (run.count == 1 || run.stride == run.length)
          marked.mark(run.offset, run.length * run.count);
        else
          for (Offset i = 0; i < run.count; ++i) marked.mark(run.offset + i * run.stride, run.length);
      }
    }
    return {};
  }

  /// Waits for what was posted, and puts what is in the staging memory into the window.
  Status scatter(int i) {
    {
      const PhaseScope phase(access_.trace, Phase::kCommunicate);
      PENSTOCK_TRY(in(i)->wait_received());
    }
    const PhaseScope phase(access_.trace, Phase::kCopy);
    for (const Part& part : arriving_) copy_part(part, window(i), true);
    arriving_.clear();
    staged_ = 0;
    return {};
  }

  /// Between the window and the staging memory.
  void copy_part(const Part& part, FileWindow& window, bool to_window) {
    const access::Tiling plain = access::bytes_at(0);
    access::Zip zip(part.claim->tiling, part.position, plain, 0, part.bytes);
    std::byte* const staged = staging().data() + part.staged;
    access::Step step;
    while (zip.next(step)) {
      std::byte* const in_file = window.at(step.file_offset);
      std::byte* const packed = staged + step.memory_offset;
      if (to_window)
        access::copy_strided(in_file, step.file_stride, packed, step.memory_stride, step.length, step.count);
      else
        access::copy_strided(packed, step.memory_stride, in_file, step.file_stride, step.length, step.count);
    }
  }

  Status write_window(FileWindow& written) {
    const PhaseScope phase(access_.trace, Phase::kWrite);
    Offset first = written.touched_first();
    Offset end = written.touched_end();
    if (gapless_) {
      PENSTOCK_TRY(add_to_batch(written, first, end));
    } else {
      end = first;
      while (written.next_stretch(end, first, end)) PENSTOCK_TRY(add_to_batch(written, first, end));
    }
    return write_batch();
  }

  Status add_to_batch(FileWindow& written, Offset first, Offset end) {
    batch_.push_back({first, written.at(first), static_cast<std::size_t>(end - first), 0});
    access_.trace.count(Counter::kStoreBytesWritten, end - first);
    return batch_.size() == kBatchMax ? write_batch() : Status();
  }

  Status write_batch() {
    if (batch_.empty()) return {};
    access_.trace.count(Counter::kStoreWrites, static_cast<std::int64_t>(batch_.size()));
    Status status = access_.target.write(batch_);
    batch_.clear();
    return status;
  }

  // --- Reading ----------------------------------------------------------------------------------------------------------

  Status lead_reading() {
    Status status;
    read_share(0);
    meet();
    int i = 0;
    for (; !step(i).over(); ++i) {
      if (!status.ok()) served_ = Agenda(domains_);
      in(i) = access_.comm.exchange();
      if (status.ok()) status = receive_messages(i);
      if (step(i).serves && status.ok()) status = deliver(i);
      if (i > 0 && step(i - 1).moves) move_own(step(i - 1).round, i - 1, false);
      read_share(i + 1);
      // The step behind the next one uses the slots of the one before this, which is over now but for what other ranks have not fetched yet.
      if (status.ok() && delivered_step_ < i) status = wait_delivered();
      if (!step(i + 1).over()) look_ahead(i + 2);
      if (status.ok()) {
        const PhaseScope phase(access_.trace, Phase::kCommunicate);
        status = in(i)->wait();
      }
      meet();
    }
    if (i > 0 && step(i - 1).moves) move_own(step(i - 1).round, i - 1, false);
    return status.ok() ? wait_delivered() : status;
  }

  Status receive_messages(int i) {
    for (const Message& message : messages(i))
      PENSTOCK_TRY(in(i)->receive(message.rank, message.data, static_cast<std::size_t>(message.bytes)));
    return {};
  }

  Status wait_delivered() {
    if (delivered_ == nullptr) return {};
    const PhaseScope phase(access_.trace, Phase::kCommunicate);
    return delivered_->wait();
  }

  /// Sends what others want of a window that has been read.
  Status deliver(int i) {
    PENSTOCK_TRY(wait_delivered());  // from the staging memory
    delivered_ = access_.comm.exchange();
    delivered_step_ = i;
    staged_ = 0;
    for (const TeamMessage& message : expected(i)) PENSTOCK_TRY(give(i, message));
    return {};
  }

  Status give(int i, const TeamMessage& message) {
    FileWindow& read = window(i);
    const std::span<Part> parts = std::span(this->parts(i)).subspan(message.begin, message.end - message.begin);
    count_message(message.rank, message.bytes);
    if (in_one_piece(parts)) return delivered_->send(message.rank, read.at(bounds_of(parts[0]).first), static_cast<std::size_t>(message.bytes));
    if (message.bytes > staging().size()) return Status::failure(Code::kIntern, "more data of a window than it holds");
    if (staged_ + message.bytes > staging().size()) {
      PENSTOCK_TRY(wait_delivered());
      staged_ = 0;
    }
    const PhaseScope phase(access_.trace, Phase::kCopy);
    const Offset start = staged_;
    for (Part& part : parts) {
      part.staged = staged_;
      copy_part(part, read, false);
      staged_ += part.bytes;
    }
    return delivered_->send(message.rank, staging().data() + start, static_cast<std::size_t>(message.bytes));
  }

  /// This rank's part of the i-th step's window, from the first to the last byte that somebody wants.  What cannot be read is sent as zeros: everybody learns
  /// of the failure at the end.
  void read_share(int i) {
    const Round round = buffers_.round(i);
    const Offset bytes = round.read_end - round.read_first;
    if (round.over != 0 || bytes == 0) return;
    const Offset readers = std::clamp<Offset>(bytes / kReadLeast, 1, std::min(access_.team.size(), kReadersMost));
    const Offset each = (bytes / readers + kReadUnit) / kReadUnit * kReadUnit;
    const Offset begin = std::min(each * access_.team.place(), bytes), end = std::min(begin + each, bytes);
    if (access_.team.place() >= readers || begin == end) return;
    const PhaseScope phase(access_.trace, Phase::kRead);
    const Offset first = round.read_first + begin;
    store::Transfer transfer{first, buffers_.window(i) + (first - round.window_first), static_cast<std::size_t>(end - begin), 0};
    if (failure_.ok()) fail_if(access_.target.read(std::span(&transfer, 1)));
    access_.trace.count(Counter::kStoreReads);
    access_.trace.count(Counter::kStoreBytesRead, static_cast<std::int64_t>(transfer.done));
    std::memset(transfer.memory + transfer.done, 0, transfer.length - transfer.done);
  }

  const Collective& access_;
  Status failure_;         ///< the first that this rank met
  bool stop_ = false;      ///< some rank failed before anything was moved
  bool declined_ = false;  ///< every rank moves its own data
  int elsewhere_ = -1;     ///< the call is begun anew by other aggregators
  int aggregator_ = -1;    ///< where this rank's local aggregator stands among the global ones
  int place_ = -1;         ///< and among those that have a file domain
  plan::FileDomains domains_;  ///< of this call
  int taking_part_ = 1;        ///< global aggregators, as plan::domains_for() is asked for
  Walk own_;               ///< this rank's data
  Agenda mine_{domains_};  ///< of own_
  Offset own_end_ = access_.position;  ///< where they end, in data positions
  Offset file_bytes_ = INT64_MAX;
  Offset seen_file_bytes_ = -1;  ///< with what this rank wrote by itself
  std::vector<std::byte> tree_;
  std::int64_t number_ = 0;    ///< of this access among the file's
  KeptPlan* plan_ = nullptr;   ///< of an earlier one, by which this one goes
  Offset shift_ = 0;           ///< so far on in the file

  // Of the team.
  std::optional<Board> board_;
  Buffers buffers_;
  std::int64_t claims_ = 0;
  Offset staging_bytes_ = 0;
  std::int64_t own_claim_ = -1;
  std::optional<Walk> whole_;  ///< the claim that this rank's was joined to

  // Local aggregators only.
  std::vector<Walk> walks_;           ///< what the team accesses
  std::vector<int> claim_of_member_;  ///< -1: none
  std::vector<std::vector<std::byte>> trees_;  ///< of each, packed
  std::vector<int> joined_;           ///< members of each claim
  Offset asked_pieces_ = 0;           ///< before they were joined
  Offset asked_bytes_ = 0;
  Offset asked_spans_ = 0;
  int asked_ranks_ = 0;
  std::int32_t other_code_ = 0;       ///< a member's failure
  std::vector<Facts> all_;
  std::vector<std::byte> told_;       ///< what the team accesses, as a message
  std::vector<Telling> tellings_;     ///< parts of it, ascending
  Agenda team_{domains_};      ///< of walks_, from the round behind the last one published on
  Step steps_[kSlots];
  std::vector<Message> messages_[kSlots];
  std::unique_ptr<comm::Exchange> in_[kSlots], out_[kSlots];

  // Global aggregators only.
  std::vector<Peer> peers_;
  std::unique_ptr<std::byte[]> told_late_;  ///< room for what a team says that has not told this aggregator enough
  bool gapless_ = false;    ///< all that this aggregator's peers access of looked_at_ is one stretch
  FileRange looked_at_ = kAllOfIt;
  Agenda served_{domains_};     ///< of all walks of all peers
  std::vector<int> rank_of_served_;
  std::vector<Part> parts_[kSlots];
  std::vector<TeamMessage> expected_[kSlots];
  std::size_t next_expected_ = 0;  ///< that no receive is posted for
  std::vector<Part> arriving_;  ///< those that come by the staging memory
  Offset staged_ = 0;
  std::unique_ptr<comm::Exchange> delivered_;
  int delivered_step_ = -1;
  std::vector<store::Transfer> batch_;
};

}  // namespace

Result<Moved> two_phase(const Collective& access, Status mine) {
  try {
    return Engine(access, std::move(mine)).run();
  } catch (const std::bad_alloc&) {
    // A few bytes for a list, in the middle of it all.  What can be large is had before, where all ranks hear of a failure.
    return Status::failure(Code::kNoMemory, "no memory in a collective access");
  }
}

}  // namespace penstock::strategy
