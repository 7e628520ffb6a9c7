// A few plans, the one used last in front, and the intersection of what ranks could go by.
#include "strategy/kept.h"

#include <algorithm>

#include "access/shift.h"

namespace penstock::strategy {

namespace {

/// Of an entry of a description: its offset and its position.
constexpr std::size_t kEntryBytes = 16;

std::size_t size_of(const std::vector<access::Claim>& claims) {
  std::size_t bytes = claims.size() * sizeof(access::Claim);
  for (const access::Claim& claim : claims) bytes += access::description_size(claim.tiling.node) * kEntryBytes;
  return bytes;
}

}  // namespace

const KeptPeer* KeptPlan::peer(std::size_t team) const {
  const auto found = std::lower_bound(peers.begin(), peers.end(), team, [](const KeptPeer& peer, std::size_t wanted) { return peer.team < wanted; });
  return found != peers.end() && found->team == team ? &*found : nullptr;
}

void KeptPlan::add_peer(KeptPeer peer) {
  gaps.reset();
  const auto at = std::lower_bound(peers.begin(), peers.end(), peer.team, [](const KeptPeer& one, std::size_t wanted) { return one.team < wanted; });
  if (at != peers.end() && at->team == peer.team)
    *at = std::move(peer);
  else
    peers.insert(at, std::move(peer));
}

std::size_t KeptPlan::size_bytes() const {
  std::size_t bytes = sizeof *this + told.size() + all.size() * sizeof(Facts) + told_to.size() * sizeof(FileRange) + size_of(claims);
  if (own.bytes > 0) bytes += access::description_size(own.tiling.node) * kEntryBytes;
  if (whole.has_value() && claims.empty()) bytes += access::description_size(whole->tiling.node) * kEntryBytes;
  for (const KeptPeer& peer : peers) bytes += size_of(peer.claims);
  return bytes;
}

void Ballot::join(const Ballot& other) {
  code = std::max(code, other.code);
  file_bytes = std::max(file_bytes, other.file_bytes);
  taken.nanoseconds = std::min(taken.nanoseconds, other.taken.nanoseconds);
  taken.prepared = std::max(taken.prepared, other.taken.prepared);
  std::int32_t kept = 0;
  for (std::int32_t mine = 0, theirs = 0; mine < count && theirs < other.count;) {
    const Candidate a = candidates[static_cast<std::size_t>(mine)], b = other.candidates[static_cast<std::size_t>(theirs)];
    if (a.plan != b.plan) {
      ++(a.plan > b.plan ? mine : theirs);
      continue;
    }
    ++mine;
    ++theirs;
    if (a.shift == b.shift || b.shift == Candidate::kAnywhere)
      candidates[static_cast<std::size_t>(kept++)] = a;
    else if (a.shift == Candidate::kAnywhere)
      candidates[static_cast<std::size_t>(kept++)] = b;
  }
  count = kept;
}

void Ballot::drop(std::size_t candidate) {
  std::copy(candidates.begin() + static_cast<std::ptrdiff_t>(candidate) + 1, candidates.begin() + count,
            candidates.begin() + static_cast<std::ptrdiff_t>(candidate));
  --count;
}

Ballot KeptPlans::ballot(const access::Claim& own, bool may_decline) const {
  Ballot ballot;
  for (const Entry& entry : plans_) {
    const KeptPlan& plan = *entry.plan;
    if (!plan.exchanged && !may_decline) continue;
    Candidate candidate{plan.number, Candidate::kAnywhere};
    if (own.bytes > 0 || plan.own.bytes > 0) {
      const std::optional<Offset> shift = access::shift_between(plan.own, own);
      if (!shift.has_value() || *shift == Candidate::kAnywhere) continue;
      candidate.shift = *shift;
    }
    ballot.candidates[static_cast<std::size_t>(ballot.count++)] = candidate;
  }
  std::sort(ballot.candidates.begin(), ballot.candidates.begin() + ballot.count, [](const Candidate& a, const Candidate& b) { return a.plan > b.plan; });
  return ballot;
}

KeptPlan* KeptPlans::find(std::int64_t number) const {
  for (const Entry& entry : plans_)
    if (entry.plan->number == number) return entry.plan.get();
  return nullptr;
}

KeptPlan* KeptPlans::use(std::int64_t number) {
  const auto found = std::find_if(plans_.begin(), plans_.end(), [&](const Entry& entry) { return entry.plan->number == number; });
  if (found == plans_.end()) return nullptr;
  std::rotate(plans_.begin(), found, found + 1);
  return plans_.front().plan.get();
}

void KeptPlans::used_has_grown() {
  plans_.front().bytes = plans_.front().plan->size_bytes();
  let_go();
}

void KeptPlans::keep(std::unique_ptr<KeptPlan> plan) {
  const std::size_t bytes = plan->size_bytes();
  if (bytes > kBytesMost) return;
  plans_.insert(plans_.begin(), Entry{std::move(plan), bytes});
  let_go();
}

void KeptPlans::let_go() {
  std::size_t kept = 1;
  for (std::size_t bytes = plans_[0].bytes; kept < std::min(plans_.size(), kPlansMost); ++kept) {
    bytes += plans_[kept].bytes;
    if (bytes > kBytesMost) break;
  }
  plans_.erase(plans_.begin() + static_cast<std::ptrdiff_t>(std::min(kept, plans_.size())), plans_.end());
}

void KeptPlans::drop(std::int64_t number) {
  std::erase_if(plans_, [&](const Entry& entry) { return entry.plan->number == number; });
}

}  // namespace penstock::strategy
