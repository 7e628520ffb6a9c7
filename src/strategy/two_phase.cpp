// The engine: negotiate, agree, and go through the rounds.  Knows the order of the parts and what becomes of failures between them; what they do is theirs.
#include "strategy/two_phase.h"

#include <new>
#include <optional>
#include <utility>

#include "strategy/agreement.h"
#include "strategy/board.h"
#include "strategy/call.h"
#include "strategy/local_aggregator.h"
#include "strategy/member.h"
#include "strategy/negotiation.h"

namespace penstock::strategy {

namespace {

/// One rank in one call.  Its parts refer to each other: it stays where it is.
class Engine {
 public:
  Engine(const Collective& access, Status mine) : call_(access, std::move(mine)), negotiation_(call_) {}

  Result<Moved> run() {
    negotiation_.run();
    const Agreement& agreement = negotiation_.agreement();
    // The members of a team go on alike, also where one of them has failed since: its failure is told in the agreement.
    if (!agreement.stop && !agreement.idle() && (!call_.alone() || call_.ok())) call_.note(share_buffers());
    const bool agreed = call_.agree().ok();
    negotiation_.conclude(agreed);
    // Nothing has been moved.  What failed since all knew what all want is memory: then it goes without aggregation.
    if (!agreed && (!agreement.stop || agreement.late) && call_.may_decline()) return Moved{.declined = true, .short_of_memory = true};
    if (!agreed || agreement.stop) return outcome({.stopped = true});
    if (agreement.declined) return outcome({.declined = true});
    if (agreement.elsewhere >= 0) return outcome({.elsewhere = agreement.elsewhere});
    if (call_.leads())
      call_.note(local_aggregator_->lead());
    else
      member_->follow();
    return outcome({.bytes = member_->bytes()});
  }

 private:
  [[nodiscard]] Result<Moved> outcome(Moved moved) const {
    if (!call_.ok()) return call_.failure();
    return moved;
  }

  /// Memory for the rounds.
  Status share_buffers() {
    const Agreement& agreement = negotiation_.agreement();
    const Division& division = agreement.division;
    const Offset window_bytes = division.aggregates() ? division.domains().window_bytes() : 0;
    const Result<std::byte*> memory =
        call_.access().team.memory(1, Buffers::bytes_for(agreement.claims, division.aggregators(), window_bytes, agreement.staging_bytes));
    if (!memory.ok()) return memory.status();
    buffers_ = Buffers(*memory, agreement.claims, division.aggregators(), window_bytes, agreement.staging_bytes);
    call_.guarded([&]() -> Status {
      PENSTOCK_TRY(member_.emplace(call_, agreement, buffers_).prepare());
      if (!call_.leads()) return {};
      return local_aggregator_.emplace(call_, agreement, buffers_, *member_).prepare();
    });
    return {};
  }

  Call call_;
  Negotiation negotiation_;
  Buffers buffers_;
  std::optional<Member> member_;
  std::optional<LocalAggregator> local_aggregator_;
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
