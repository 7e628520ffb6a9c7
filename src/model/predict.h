// Penstock's cost model: how many seconds an access takes by each way of carrying it out.  Pure arithmetic on a profile's figures; knows no file and
// no MPI.  What the paper's own model (model/paper.h) leaves out is in here: communication inside and between nodes apart, aggregators that share links and
// devices, the size of requests, ranks that share processors, copies, page faults, local aggregators, plans that are kept, holes.
#pragma once

#include <array>
#include <string_view>

#include "model/figures.h"

namespace penstock::model {

/// The strategies of the design, in the order in which ties are decided: the simpler one first.
enum class Way { kIndependent, kMapped, kSieved, kTwoLayer, kTwoPhase };
[[nodiscard]] constexpr bool is_collective(Way way) { return way == Way::kTwoLayer || way == Way::kTwoPhase; }
constexpr std::array<std::string_view, 5> kWayNames = {"independent", "mapped", "sieved", "two_layer", "two_phase"};

/// Bytes.  A team tells a longer description in parts: to each aggregator what lies in its share of the file.  Shorter ones are told whole, which saves
/// telling first how long a part is.
constexpr int kToldWhole = 256;

/// What all ranks together access in one call.  Numbers are of all ranks unless they say otherwise; every rank is taken to have an equal share.
struct Workload {
  bool write = false;
  bool fresh = true;      ///< writing: the pages are new to the file
  bool planned = false;   ///< aggregators have agreed on this pattern before
  bool anew = false;      ///< the first collective call of a file: memory for windows is made for it
  int ranks = 1;
  int nodes = 1;
  int processors = 1;     ///< of a node that ranks may use
  double bytes = 0;       ///< of data
  double pieces = 1;      ///< contiguous ones of the file
  double span = 0;        ///< bytes from the first accessed to the last
  double rank_span = 0;   ///< the same of one rank, on average
  double told_bytes = 0;  ///< that describe what one local aggregator accesses
  double sieve_buffer = 4.0 * 1024 * 1024;  ///< bytes that sieving reads at once
};

/// One way to carry it out.
struct Candidate {
  Way way = Way::kIndependent;
  int local_per_node = 0;  ///< local aggregators of a node; two_phase: 0, every rank is one
  int aggregators = 1;     ///< global ones
  double window = 1024.0 * 1024;  ///< bytes of the file that each of them handles at once
};

/// Seconds that the slowest rank spends, by the phases of the report (table/counters.toml) that they are measured as.  They add up to the whole:
/// what is hidden behind something else is taken off the smaller of both.
struct Seconds {
  double file = 0;         ///< phases read and write: calls, bytes, page faults, mapping
  double copy = 0;         ///< between the program's buffer and pages or staging buffers
  double gather = 0;       ///< to a local aggregator and back
  double merge = 0;        ///< joining descriptions
  double exchange = 0;     ///< telling descriptions
  double communicate = 0;  ///< data between aggregators
  double wait = 0;         ///< agreement, meetings of every round
  [[nodiscard]] double sum() const { return file + copy + gather + merge + exchange + communicate + wait; }
};

/// How many members of a team read a window together, at most.  Behind a page cache they share processors' work; of a device, no more than it works on at once:
/// one that has a single head would only go back and forth between them.
int readers_most(const Figures& figures);

/// O(log(ranks)), and the same to the last bit on every rank: only what IEEE 754 rounds exactly.  Requires: ranks, nodes, processors, aggregators > 0;
/// what cannot be (mapped where `file.cached` is 0 and the store maps nothing) is for the caller to leave out.  Terms and where their figures come from: see the functions in predict.cpp.
Seconds predict(const Figures& figures, const Workload& work, const Candidate& candidate);

}  // namespace penstock::model
