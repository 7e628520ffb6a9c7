// First what is told whole and how long the parts are, then the parts: nobody has to have room for more than comes.
#include "strategy/claim_exchange.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "access/wire.h"
#include "strategy/claim_message.h"
#include "strategy/dissemination.h"

namespace penstock::strategy {

using access::Claim;
using trace::Phase;
using trace::PhaseScope;

bool ClaimExchange::reaches_other(int place) const {
  const Facts& mine = all_[call_.team()];
  return place != own_place() && domains().reaches(mine.first, mine.end, place);
}

void ClaimExchange::expect() {
  for (std::size_t team = 0; team < all_.size() && agreement_.division.aggregates(); ++team) {
    if (!domains().reaches(all_[team].first, all_[team].end, own_place())) continue;
    const int other = call_.access().placement.local[team];
    const bool own = other == call_.rank();
    Hearing& hearing = hearings_.emplace_back(Hearing{other, own ? kAllOfIt : told_range(all_[team], domains(), own_place()), all_[team].told_bytes, {}});
    if (!own && !hearing.in_part()) hearing.message.resize(hearing.bytes);
  }
  for (int place = 0; place < agreement_.division.aggregators(); ++place)
    if (reaches_other(place) && told_range(all_[call_.team()], domains(), place).end != INT64_MAX) tellings_.push_back({place, 0, {}});
}

Status ClaimExchange::exchange() {
  const PhaseScope phase(call_.access().trace, Phase::kExchange);
  const bool in_parts = some_tell_parts(all_, domains());
  if (in_parts) call_.guarded([this] { cut_claims(); });
  PENSTOCK_TRY(exchange_wholes());
  if (in_parts) {
    call_.guarded([this] { return make_room_for_parts(); });
    PENSTOCK_TRY(learn_of_failures(call_, agreement_.stop));
    if (agreement_.stop) return {};
    PENSTOCK_TRY(exchange_parts());
  }
  call_.guarded([&] { return read(in_parts); });
  return {};
}

void ClaimExchange::cut_claims() {
  std::vector<Claim> claims;
  if (!tellings_.empty())
    for (const Walk& walk : agreement_.walks) claims.push_back(access::normal_form(walk.claim));
  std::vector<std::byte> tree;
  for (Telling& telling : tellings_) {
    const FileRange range = domains().surroundings(telling.place);
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
}

Status ClaimExchange::exchange_wholes() {
  const std::unique_ptr<comm::Exchange> messages = call_.access().comm.exchange();
  for (Hearing& hearing : hearings_) {
    if (hearing.rank == call_.rank()) continue;
    if (hearing.in_part())
      PENSTOCK_TRY(messages->receive(hearing.rank, &hearing.bytes, sizeof hearing.bytes));
    else
      PENSTOCK_TRY(messages->receive(hearing.rank, hearing.message.data(), hearing.message.size()));
  }
  auto part = tellings_.begin();
  for (int place = 0; place < agreement_.division.aggregators(); ++place) {
    if (!reaches_other(place)) continue;
    const int other = agreement_.division.rank_of(place);
    if (part != tellings_.end() && part->place == place) {
      PENSTOCK_TRY(messages->send(other, &part->bytes, sizeof part->bytes));
      call_.count_request(sizeof part->bytes);
      ++part;
      continue;
    }
    PENSTOCK_TRY(messages->send(other, told_.data(), told_.size()));
    call_.count_request(told_.size());
  }
  return messages->wait();
}

Status ClaimExchange::make_room_for_parts() {
  for (Hearing& hearing : hearings_) {
    if (!hearing.in_part()) continue;
    if (hearing.bytes > all_[call_.team_of(hearing.rank)].told_bytes)
      return Status::failure(Code::kIntern, "rank " + std::to_string(hearing.rank) + " says that a part of its description is longer than all of it");
    hearing.message.resize(hearing.bytes);
  }
  return {};
}

Status ClaimExchange::exchange_parts() {
  const std::unique_ptr<comm::Exchange> messages = call_.access().comm.exchange();
  for (Hearing& hearing : hearings_)
    if (hearing.in_part() && !hearing.message.empty())
      PENSTOCK_TRY(messages->receive(hearing.rank, hearing.message.data(), hearing.message.size()));
  for (const Telling& telling : tellings_) {
    if (telling.bytes == 0) continue;
    const std::vector<std::byte>& message = telling.message.empty() ? told_ : telling.message;
    PENSTOCK_TRY(messages->send(agreement_.division.rank_of(telling.place), message.data(), telling.bytes));
    call_.count_request(telling.bytes);
  }
  return messages->wait();
}

Status ClaimExchange::read(bool in_parts) {
  std::vector<Claim> claims;
  for (Hearing& hearing : hearings_) {
    const std::size_t first = claims.size();
    if (hearing.rank != call_.rank()) PENSTOCK_TRY(read_claims(hearing.rank, hearing.message, claims));
    if (hearing.rank == call_.rank())
      for (const Walk& walk : agreement_.walks) claims.push_back(walk.claim);
    Peer& peer = agreement_.peers.emplace_back(Peer{hearing.rank, hearing.known, {}});
    for (std::size_t i = first; i < claims.size(); ++i) peer.walks.emplace_back(claims[i]);
    hearing.message = {};
  }
  if (call_.access().write && agreement_.division.aggregates()) {
    const FileRange looked_at = in_parts ? domains().surroundings(own_place()) : kAllOfIt;
    agreement_.gaps = {looked_at, in_one_stretch(claims, looked_at)};
  }
  return {};
}

}  // namespace penstock::strategy
