// A local aggregator in the rounds of a collective access: leads its team through them, and sends or receives what the team moves to or from other aggregators.
// Knows which rounds there are and who has to meet in them; not what lies in windows (global_aggregator.h) or in members' memory (member.h).
//
// A team's rounds are those in which it has data for some window, a global aggregator's those in which some team has data for its window.  Everybody goes
// through his in ascending order, so two aggregators meet in the same round and nobody waits for a round that is empty on his side.  Within a round an
// aggregator posts what it will receive before it waits for anything, and sends all it has before it waits for what it receives.  So nobody waits in a
// circle: in the lowest round that is not over somewhere, everybody who is in it gets what he waits for.
//
// A local aggregator leads its team through its rounds and those of its window alike, so that all of them use the same slots of memory: these rounds are the
// steps of a call.  The team learns of the next step before it meets over the one at hand, and works on the next one while that is sent.  When they read, some
// members read the next window together while the one at hand is sent and the one before is handed out.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/status.h"
#include "comm/comm.h"
#include "strategy/agreement.h"
#include "strategy/board.h"
#include "strategy/call.h"
#include "strategy/global_aggregator.h"
#include "strategy/member.h"
#include "strategy/walk.h"

namespace penstock::strategy {

class LocalAggregator {
 public:
  /// Borrows all of them; `self` is this rank as a member of its team.
  LocalAggregator(Call& call, const Agreement& agreement, const Buffers& buffers, Member& self);
  LocalAggregator(const LocalAggregator&) = delete;
  LocalAggregator& operator=(const LocalAggregator&) = delete;

  /// Has the memory that leading takes, and publishes the first steps.  Throws or fails with kNoMemory.
  Status prepare();
  /// Goes through all steps.  A failure of messages is returned, that of files noted in the call: the team is kept going in either case.
  Status lead() { return call_.access().write ? lead_writing() : lead_reading(); }

 private:
  struct Step {
    Offset round = INT64_MAX;
    bool moves = false;   ///< the team has data
    bool serves = false;  ///< this aggregator's window gets or gives data
    [[nodiscard]] bool over() const { return round == INT64_MAX; }
  };
  /// Between the team's staging memory, or the program's, and a global aggregator.
  struct Message {
    int rank;
    std::byte* data;
    Offset bytes;
  };

  [[nodiscard]] Step& step(int i) { return steps_[i % kSlots]; }
  [[nodiscard]] std::vector<Message>& messages(int i) { return messages_[i % kSlots]; }
  [[nodiscard]] std::unique_ptr<comm::Exchange>& exchange(int i) { return exchanges_[i % kSlots]; }

  [[nodiscard]] Step next_step() const;
  void look_ahead(int i);
  void place_messages(int i);

  Status lead_writing();
  Status send_messages(int i);
  Status finish_writing(int i);

  Status lead_reading();
  Status receive_messages(int i);
  Status finish_receiving(int i);

  Call& call_;
  const Agreement& agreement_;
  const Buffers& buffers_;
  Member& self_;
  GlobalAggregator windows_;  ///< of this rank
  Agenda team_;               ///< of agreement_.walks, from the round behind the last one published on
  Step steps_[kSlots];
  std::vector<Message> messages_[kSlots];
  std::unique_ptr<comm::Exchange> exchanges_[kSlots];  ///< of the messages
};

}  // namespace penstock::strategy
