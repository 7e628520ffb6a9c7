// One rank's part of a collective access while it is under way: where the rank stands among teams and aggregators, and the first failure it met.
// All parts of the engine share it.  Sends nothing, moves nothing, and knows nothing of what other ranks access.
#pragma once

#include <algorithm>
#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "access/merge.h"
#include "base/status.h"
#include "comm/comm.h"
#include "strategy/two_phase.h"
#include "trace/trace.h"

namespace penstock::strategy {

class Call {
 public:
  /// `mine`: as two_phase() is told.  Borrows `access`.
  Call(const Collective& access, Status mine)
      : access_(access),
        own_{access.file, access.position, access.bytes},
        aggregator_(index_in(access.placement.global, access.placement.leader)),
        failure_(std::move(mine)) {}

  [[nodiscard]] const Collective& access() const { return access_; }
  /// What this rank accesses; bytes 0: nothing.
  [[nodiscard]] const access::Claim& own() const { return own_; }

  [[nodiscard]] int rank() const { return access_.comm.topology().rank; }
  /// This rank is the local aggregator of its team.
  [[nodiscard]] bool leads() const { return access_.team.place() == 0; }
  [[nodiscard]] bool alone() const { return access_.team.size() == 1; }
  /// A team of one sends from and receives into the program's memory where that is in one piece.
  [[nodiscard]] bool direct() const { return alone() && access_.memory_contiguous; }
  /// Where a local aggregator stands among its kind.  Requires: `rank` is one.
  [[nodiscard]] std::size_t team_of(int rank) const { return static_cast<std::size_t>(index_in(access_.placement.local, rank)); }
  /// Of this rank's team.
  [[nodiscard]] std::size_t team() const { return team_of(access_.placement.leader); }
  /// Where this rank's local aggregator stands among the global ones; -1: it is none.
  [[nodiscard]] int aggregator() const { return aggregator_; }
  [[nodiscard]] bool may_decline() const { return access_.better_alone != nullptr; }

  // The first failure that this rank met.  It is told when all agree; until then the rank goes on as far as others wait for it.
  [[nodiscard]] bool ok() const { return failure_.ok(); }
  [[nodiscard]] const Status& failure() const { return failure_; }
  [[nodiscard]] std::int32_t code() const { return static_cast<std::int32_t>(failure_.code()); }
  void note(Status status) {
    if (!status.ok() && failure_.ok()) failure_ = std::move(status);
  }
  /// Runs what may be short of memory, and may tell a failure.
  template <typename Body>
  void guarded(Body body) {
    try {
      if constexpr (std::is_void_v<std::invoke_result_t<Body>>)
        body();
      else
        note(body());
    } catch (const std::bad_alloc&) {
      note(Status::failure(Code::kNoMemory, "no memory for the descriptions of a collective access"));
    }
  }
  /// The worst that some rank met, the same on all: the first moment at which all of them are known to have come so far.  Collective.
  [[nodiscard]] comm::Verdict agree() const {
    const trace::PhaseScope phase(access_.trace, trace::Phase::kWait);
    return access_.comm.agree({code(), failure_.system_errno(), failure_.ok() ? -1 : rank()});
  }

  void count_request(std::size_t bytes) const { access_.trace.count(trace::Counter::kRequestBytes, static_cast<std::int64_t>(bytes)); }
  void count_message(int to, Offset bytes) const {
    access_.trace.count(trace::Counter::kMessages);
    access_.trace.count(trace::Counter::kMessageBytes, bytes);
    const comm::Topology& topology = access_.comm.topology();
    if (topology.node_of_rank[static_cast<std::size_t>(to)] == topology.node) return;
    access_.trace.count(trace::Counter::kMessagesBetweenNodes);
    access_.trace.count(trace::Counter::kBytesBetweenNodes, bytes);
  }

 private:
  [[nodiscard]] static int index_in(const std::vector<int>& ranks, int rank) {
    const auto found = std::lower_bound(ranks.begin(), ranks.end(), rank);
    return found != ranks.end() && *found == rank ? static_cast<int>(found - ranks.begin()) : -1;
  }

  const Collective& access_;
  access::Claim own_;
  int aggregator_;
  Status failure_;
};

}  // namespace penstock::strategy
