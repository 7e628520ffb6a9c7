// Descriptions are read once, joined by their structure, and packed again as what they were joined into.
#include "strategy/team_claims.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "access/shift.h"
#include "access/wire.h"
#include "strategy/claim_message.h"

namespace penstock::strategy {

using access::Claim;

namespace {

/// For each of the claims, which have data, the first one that is of the same bytes.
std::vector<std::size_t> first_alike(const std::vector<Claim>& claims) {
  std::vector<std::size_t> order(claims.size()), alike(claims.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto beginning = [&](std::size_t i) { return std::pair(access::offset_of(claims[i].tiling, claims[i].position), claims[i].bytes); };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return beginning(a) < beginning(b); });
  std::size_t first = 0;
  for (const std::size_t claim : order) {
    if (beginning(first) != beginning(claim) || access::shift_between(claims[first], claims[claim]) != Offset{0}) first = claim;
    alike[claim] = first;
  }
  return alike;
}

/// The claims joined by their structure.  Those of the same bytes are one, however many members want them: a team is sent them once.
access::Coalesced join(const std::vector<Claim>& claims) {
  const std::vector<std::size_t> alike = first_alike(claims);
  std::vector<Claim> unlike;
  std::vector<std::size_t> place(claims.size());
  for (std::size_t i = 0; i < claims.size(); ++i) {
    if (alike[i] != i) continue;
    place[i] = unlike.size();
    unlike.push_back(claims[i]);
  }
  access::Coalesced joined = access::coalesce(unlike);
  const std::vector<std::size_t> whole_of = std::exchange(joined.whole_of, {});
  for (const std::size_t first : alike) joined.whole_of.push_back(whole_of[place[first]]);
  return joined;
}

}  // namespace

void TeamClaims::take_own(const Claim& own) {
  if (own.bytes == 0) return;
  count(own);
  joined_.push_back(own);
  access::pack(own.tiling, trees_.emplace_back());
}

Status TeamClaims::take(const Board& board, int members) {
  claim_of_member_.assign(static_cast<std::size_t>(members), -1);
  std::vector<Claim> claims;
  std::vector<int> owners;
  for (int member = 0; member < members; ++member) {
    const Asked& asked = board.asked(member);
    if (asked.code != 0) failure_ = asked.code;
    if (asked.bytes == 0) continue;
    Result<Claim> claim = read_claim(board.tree_of(member).first(static_cast<std::size_t>(asked.tree_bytes)), asked.position, asked.bytes);
    if (!claim.ok()) return claim.status();
    count(*claim);
    claims.push_back(std::move(*claim));
    owners.push_back(member);
  }
  access::Coalesced joined = join(claims);
  take_joined(joined, owners);
  // A joined description may be longer than its parts: a view says in a few numbers that its first and last copies are cut.
  if (told_bytes() > board.trees().size()) {
    joined.wholes = claims;
    for (std::size_t i = 0; i < claims.size(); ++i) joined.whole_of[i] = i;
    take_joined(joined, owners);
  }
  return {};
}

void TeamClaims::take_joined(const access::Coalesced& joined, const std::vector<int>& members) {
  joined_ = joined.wholes;
  trees_.clear();
  for (const Claim& claim : joined_) access::pack(claim.tiling, trees_.emplace_back());
  members_of_.assign(joined_.size(), 0);
  for (std::size_t i = 0; i < members.size(); ++i) {
    claim_of_member_[static_cast<std::size_t>(members[i])] = static_cast<int>(joined.whole_of[i]);
    ++members_of_[joined.whole_of[i]];
  }
}

/// Of all descriptions that members have to be told.
std::size_t TeamClaims::told_bytes() const {
  std::size_t bytes = 0;
  for (std::size_t claim = 0; claim < joined_.size(); ++claim)
    if (members_of_[claim] > 1) bytes += trees_[claim].size();
  return bytes;
}

void TeamClaims::count(const Claim& claim) {
  facts_.pieces += access::pieces_in(claim.tiling, claim.position, claim.bytes);
  facts_.bytes += claim.bytes;
  const access::Bounds bounds = access::bounds_of(claim.tiling, claim.position, claim.bytes);
  facts_.rank_spans = checked_add(facts_.rank_spans, bounds.end - bounds.first, facts_.rank_spans) ? facts_.rank_spans : INT64_MAX;
  ++facts_.accessing;
}

Facts TeamClaims::facts() const {
  Facts facts = facts_;
  for (const Claim& claim : joined_) {
    const access::Bounds bounds = access::bounds_of(claim.tiling, claim.position, claim.bytes);
    facts.first = facts.first == facts.end ? bounds.first : std::min(facts.first, bounds.first);
    facts.end = std::max(facts.end, bounds.end);
  }
  return facts;
}

std::vector<std::byte> TeamClaims::message() const {
  std::vector<std::byte> message;
  for (std::size_t claim = 0; claim < joined_.size(); ++claim) append_claim(joined_[claim], trees_[claim], message);
  return message;
}

void TeamClaims::tell(const Board& board) const {
  Offset used = 0;
  std::vector<Told> of_claim(joined_.size());
  for (std::size_t claim = 0; claim < joined_.size(); ++claim) {
    of_claim[claim] = {static_cast<std::int64_t>(claim), 0, used, joined_[claim].position, joined_[claim].bytes};
    if (members_of_[claim] < 2) continue;
    // The members' descriptions, which have been read, make room; take() has seen that it suffices.
    const std::vector<std::byte>& tree = trees_[claim];
    std::copy(tree.begin(), tree.end(), board.trees().begin() + used);
    of_claim[claim].tree_bytes = static_cast<Offset>(tree.size());
    used += static_cast<Offset>(tree.size());
  }
  for (std::size_t member = 0; member < claim_of_member_.size(); ++member) {
    const int claim = claim_of_member_[member];
    board.told(static_cast<int>(member)) = claim < 0 ? Told{-1, 0, 0, 0, 0} : of_claim[static_cast<std::size_t>(claim)];
  }
}

}  // namespace penstock::strategy
