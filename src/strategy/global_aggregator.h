// A global aggregator in the rounds of a collective access: takes in what teams write in its windows and writes them to the file, or gives teams what they read
// of windows that have been read.
// Knows its windows, what all teams access of them, and the file; nothing of the members of its own team, which reach the windows by themselves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "access/cursor.h"
#include "base/status.h"
#include "comm/comm.h"
#include "store/store.h"
#include "strategy/agreement.h"
#include "strategy/board.h"
#include "strategy/call.h"
#include "strategy/walk.h"
#include "strategy/window.h"

namespace penstock::strategy {

/// Part of every local aggregator; where that is no global one, it has nothing to serve.  Steps are those of Buffers.
class GlobalAggregator {
 public:
  /// Borrows all of them.
  GlobalAggregator(Call& call, const Agreement& agreement, const Buffers& buffers);
  GlobalAggregator(const GlobalAggregator&) = delete;
  GlobalAggregator& operator=(const GlobalAggregator&) = delete;

  /// Has the memory that serving takes, so that lists do not have to grow while others wait.  Overlapping accesses of one team may make more messages than that.
  /// Throws or fails with kNoMemory.
  Status prepare();

  /// In which some team has data for a window that has not begun; INT64_MAX: no more.
  [[nodiscard]] Offset next_round() const { return served_.next_round(); }
  /// Messages have failed: from now on there is nothing to serve.
  void serve_no_more() { served_ = Agenda(agreement_.division.domains()); }
  /// Finds what lies in the window of a step, and how it comes or goes.  Requires: the window that had the step's slot before is over.
  void begin(int step, Offset round);
  /// Where the window begins in the file, and from where to where somebody has data in it.
  [[nodiscard]] Offset window_first(int step) const { return window(step).first(); }
  [[nodiscard]] FileRange touched(int step) const { return {window(step).touched_first(), window(step).touched_end()}; }

  // Writing, for each step: expect_data() before this rank waits for anything, take_in() when its own team's data are in the window, then write().
  /// Posts the receives of a step, as many as there is room for.
  Status expect_data(int step);
  /// Blocks until all has arrived, and puts it into the window.
  Status take_in(int step);
  Status write(int step);

  // Reading.
  /// Begins to send what other teams want of a window that has been read.
  Status deliver(int step);
  /// Blocks until what was delivered in steps before this one has been fetched.
  Status finish_delivering_before(int step);
  Status finish_delivering();

 private:
  /// The part of a walk that lies in a window; for messages, where it lies in the staging memory.
  struct Part {
    const access::Claim* claim;
    Offset position;
    Offset bytes;
    Offset staged;
    [[nodiscard]] access::Bounds bounds() const { return access::bounds_of(claim->tiling, position, bytes); }
  };
  /// From or to the local aggregator of another team: a window's parts [begin, end).
  struct TeamMessage {
    int rank;
    std::size_t begin;
    std::size_t end;
    Offset bytes;
  };
  /// What a window gets or gives.
  struct Contents {
    std::vector<Part> parts;
    std::vector<TeamMessage> messages;
    [[nodiscard]] std::span<Part> of(const TeamMessage& message) { return std::span(parts).subspan(message.begin, message.end - message.begin); }
  };

  [[nodiscard]] FileWindow& window(int step) const { return call_.access().kept.windows[step % kSlots]; }
  [[nodiscard]] Contents& contents(int step) { return contents_[step % kSlots]; }
  [[nodiscard]] Room& staging() const { return call_.access().kept.staging; }
  [[nodiscard]] static bool in_one_piece(std::span<const Part> parts);

  Status post_receives(int step);
  Status scatter(int step);
  void mark(int step);
  Status add_to_batch(FileWindow& written, Offset first, Offset end);
  Status write_batch();
  Status give(int step, const TeamMessage& message);
  void copy_part(const Part& part, int step);

  Call& call_;
  const Agreement& agreement_;
  const Buffers& buffers_;
  Agenda served_;                      ///< of all walks of all peers, those that have not come up
  std::vector<int> rank_of_served_;    ///< whose each of them is
  Contents contents_[kSlots];
  Offset staged_ = 0;                  ///< so much of the staging memory is in use

  // Writing.
  std::unique_ptr<comm::Exchange> received_;  ///< of the step under way
  std::size_t next_expected_ = 0;             ///< of its messages, the first that no receive is posted for
  std::vector<Part> arriving_;                ///< those that come by the staging memory
  std::vector<store::Transfer> batch_;

  // Reading.
  std::unique_ptr<comm::Exchange> delivered_;
  int delivered_step_ = -1;
};

}  // namespace penstock::strategy
