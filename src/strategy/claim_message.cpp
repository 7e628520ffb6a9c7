// Before each packed tiling, its length and which of its data it is about.
#include "strategy/claim_message.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "access/wire.h"

namespace penstock::strategy {

namespace {

struct ClaimHead {
  Offset position;
  Offset bytes;
  Offset tree_bytes;
};

/// Where there is one aggregator, or all of them reach all of the file, there are no parts to tell.
bool have_parts(const plan::FileDomains& domains) { return domains.aggregators() > 1 && domains.domain(0).end != INT64_MAX; }

}  // namespace

FileRange told_range(const Facts& team, const plan::FileDomains& domains, int place) {
  if (team.told_bytes <= plan::kToldWhole || !have_parts(domains)) return kAllOfIt;
  const FileRange near = domains.surroundings(place);
  // What has no end, which near the largest offset surroundings have not either, is told whole: by that both sides tell the one from the other.
  return near.end == INT64_MAX || (near.first <= team.first && team.end <= near.end) ? kAllOfIt : near;
}

bool some_tell_parts(const std::vector<Facts>& teams, const plan::FileDomains& domains) {
  return have_parts(domains) && std::any_of(teams.begin(), teams.end(), [](const Facts& team) { return team.told_bytes > plan::kToldWhole; });
}

void append_claim(const access::Claim& claim, std::span<const std::byte> tree, std::vector<std::byte>& message) {
  const ClaimHead head{claim.position, claim.bytes, static_cast<Offset>(tree.size())};
  const auto* bytes = reinterpret_cast<const std::byte*>(&head);
  message.insert(message.end(), bytes, bytes + sizeof head);
  message.insert(message.end(), tree.begin(), tree.end());
}

Result<access::Claim> read_claim(std::span<const std::byte> tree, Offset position, Offset bytes) {
  Result<access::Tiling> tiling = access::unpack(tree);
  if (!tiling.ok()) return tiling.status();
  Offset end = 0;
  if (position < 0 || bytes < 0 || !checked_add(position, bytes, end) || !access::is_monotone(*tiling) || access::overlaps_itself(*tiling) ||
      access::offset_of(*tiling, position) < 0)
    return Status::failure(Code::kIntern, "a rank described an access that cannot be");
  return access::Claim{std::move(*tiling), position, bytes};
}

Status read_claims(int rank, std::span<const std::byte> message, std::vector<access::Claim>& claims) {
  while (!message.empty()) {
    ClaimHead head;
    if (message.size() < sizeof head) return Status::failure(Code::kIntern, "rank " + std::to_string(rank) + " sent a description that is cut off");
    std::memcpy(&head, message.data(), sizeof head);
    message = message.subspan(sizeof head);
    if (head.tree_bytes < 0 || static_cast<std::size_t>(head.tree_bytes) > message.size())
      return Status::failure(Code::kIntern, "rank " + std::to_string(rank) + " sent a description that is cut off");
    const auto tree_bytes = static_cast<std::size_t>(head.tree_bytes);
    Result<access::Claim> claim = read_claim(message.first(tree_bytes), head.position, head.bytes);
    if (!claim.ok()) return claim.status();
    claims.push_back(std::move(*claim));
    message = message.subspan(tree_bytes);
  }
  return {};
}

}  // namespace penstock::strategy
