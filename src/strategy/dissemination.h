// Dissemination: what local aggregators tell one another so that all of them know it, in as many steps as it takes to double one to all.
// Knows who they are and how they take turns; nothing of what is told.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "comm/comm.h"
#include "strategy/call.h"

namespace penstock::strategy {

/// Collective over the local aggregators, which call the same in the same order.  What is told is sent as it is.
class Dissemination {
 public:
  explicit Dissemination(const Call& call) : comm_(call.access().comm), ranks_(call.access().placement.local), me_(call.team()) {}

  /// All values joined: join(mine, theirs) changes the first.
  /// Requires: the order of joining, and joining the same twice, makes no difference.
  template <typename Value, typename Join>
  Status join(Value& value, Join join) const {
    for (std::size_t distance = 1; distance < ranks_.size(); distance *= 2) {
      Value heard;
      const Value told = value;
      const std::unique_ptr<comm::Exchange> messages = comm_.exchange();
      PENSTOCK_TRY(messages->receive(behind(distance), &heard, sizeof heard));
      PENSTOCK_TRY(messages->send(ahead(distance), &told, sizeof told));
      PENSTOCK_TRY(messages->wait());
      join(value, heard);
    }
    return {};
  }

  /// How many messages that takes each of them.
  [[nodiscard]] std::size_t steps() const {
    std::size_t steps = 0;
    for (std::size_t distance = 1; distance < ranks_.size(); distance *= 2) ++steps;
    return steps;
  }

  /// Everybody's value, by its place among the local aggregators.  Throws where there is no memory, and then the others wait in vain.
  template <typename Value>
  Status all_gather(const Value& mine, std::vector<Value>& all) const {
    const std::size_t count = ranks_.size();
    std::vector<Value> from_me_on(count);
    from_me_on[0] = mine;
    for (std::size_t have = 1; have < count; have *= 2) {
      const std::size_t more = std::min(have, count - have);
      const std::unique_ptr<comm::Exchange> messages = comm_.exchange();
      PENSTOCK_TRY(messages->receive(ahead(have), &from_me_on[have], more * sizeof(Value)));
      PENSTOCK_TRY(messages->send(behind(have), from_me_on.data(), more * sizeof(Value)));
      PENSTOCK_TRY(messages->wait());
    }
    all.resize(count);
    for (std::size_t i = 0; i < count; ++i) all[(me_ + i) % count] = from_me_on[i];
    return {};
  }

 private:
  [[nodiscard]] int ahead(std::size_t distance) const { return ranks_[(me_ + distance) % ranks_.size()]; }
  [[nodiscard]] int behind(std::size_t distance) const { return ranks_[(me_ + ranks_.size() - distance) % ranks_.size()]; }

  comm::Comm& comm_;
  const std::vector<int>& ranks_;
  std::size_t me_;
};

/// Whether some local aggregator has met a failure.  Asked before messages for which each of them must have had the memory: nobody sends what another cannot
/// receive.
inline Status learn_of_failures(const Call& call, bool& some_failed) {
  const trace::PhaseScope phase(call.access().trace, trace::Phase::kExchange);
  std::int32_t failed = call.ok() ? 0 : 1;
  PENSTOCK_TRY(Dissemination(call).join(failed, [](std::int32_t& mine, std::int32_t theirs) { mine = std::max(mine, theirs); }));
  some_failed = failed != 0;
  return {};
}

}  // namespace penstock::strategy
