// Aggregation: which ranks carry out a collective access for the others, and which part of the file is whose.  Pure: the same facts give the
// same answers on every rank.
#pragma once

#include <vector>

#include "base/units.h"
#include "model/predict.h"

namespace penstock::plan {

/// The local aggregators of a node with `ranks` ranks, as positions among them: `count` of them, spread evenly, each serving itself and those up
/// to the next one (the two-layer aggregation paper, section IV.A; 2 of 5 are 0 and 3).  A count beyond the ranks is cut to it.
/// Requires: ranks > 0, count > 0.
std::vector<int> local_aggregators(int ranks, int count);

/// Global aggregators, ascending: `count` ranks spread evenly, over the nodes first and over the ranks of each node then (figure 1 of the same
/// paper).  `node_of_rank` is dense, in the order of each node's lowest rank.  A count of 0 asks for one per node, one beyond the ranks is cut.
std::vector<int> global_aggregators(const std::vector<int>& node_of_rank, int count);

/// Who gathers for whom, and who accesses the file.
struct Placement {
  std::vector<int> local;   ///< ranks of the local aggregators, ascending
  std::vector<int> global;  ///< ranks of the global aggregators, ascending; each is a local one
  int leader = 0;           ///< the local aggregator of the rank that asks
  int first = 0;            ///< the team of both: places in its node [first, first + count)
  int count = 1;
};

/// `local_per_node`: local aggregators of each node, cut to its ranks; 0: every rank is one.  `global`: as in global_aggregators(); where that is more
/// than there would be local aggregators, there are more of those.  Every node gets the same number of them at most, so where nodes have few ranks there may
/// be fewer global ones than asked for.
/// O(ranks).
Placement place(const std::vector<int>& node_of_rank, int rank, int local_per_node, int global);

/// The same where every node has a number of global aggregators of its own, cut to its ranks; there are local ones where it has none, too.
/// Requires: a number for each node, and one that is more than 0.
Placement place(const std::vector<int>& node_of_rank, int rank, int local_per_node, const std::vector<int>& global_of_node);

/// How many aggregators: local ones of each node (0: every rank is one), and global ones in all.
struct Layers {
  int local_per_node = 0;
  int aggregators = 1;
};

/// Numbers of local aggregators of a node that are worth a thought where nobody asked for one, for nodes of up to `ranks_in_node` ranks: one, ever twice as many,
/// and then every rank (0).  At most kLocalNumbersMost; one only where there is one rank.
constexpr std::size_t kLocalNumbersMost = 8;
std::vector<int> local_numbers(int ranks_in_node);

/// How many global aggregators where nobody asked for a number.  Two-phase: of each node as many as `processors` and ranks allow, up to four or one for each of
/// its network `interfaces`: one alone copies for all.  Two-layer (`local_per_node` > 0): one for each interface, since its team copies with it, or as many as there are teams up to that.
/// Requires: processors > 0, interfaces > 0 and no more than a machine has.
int automatic_global(const std::vector<int>& node_of_rank, int local_per_node, int processors, int interfaces);

/// How much of the file an aggregator handles at once, at most `limit`: so little that it stays in a cache from its arrival to its writing, and so much
/// that the messages of `local` teams that share it evenly do not become small.
Offset window_bytes(int local, Offset limit);

/// What the file domains of an open file follow from: the same on all ranks.
struct DomainRules {
  int aggregators = 1;
  bool asked_for = false;      ///< so many: then all of them take part
  Offset window_bytes = 1;     ///< at most, of a window
  Offset alignment_bytes = 1;  ///< what the store likes accesses to begin at: its stripe or block
  Offset stripe_bytes = 0;     ///< 0: not striped
  int stripe_count = 1;

  [[nodiscard]] bool striped() const { return stripe_bytes > 0 && stripe_count > 1; }
};

/// What all ranks together access in a call.
struct Accessed {
  Offset first = 0;       ///< [first, end) of the file has all of it
  Offset end = 0;
  Offset bytes = 0;       ///< of data
  Offset pieces = 0;      ///< that they are made up of
  Offset team_span = 0;   ///< from the first to the last byte of a team, on average
  Offset rank_span = 0;   ///< the same of a rank
  bool fresh = false;     ///< writing: the file did not reach so far before
  Offset told_bytes = 0;  ///< of the description of what a team accesses, on average
};

/// Whether so many ranks of one node may gain by gathering what they access of a file system of that node.  Each that maps the file faults all pages of it in
/// that it has a piece on, which costs as much as ranks times pages.  Few ranks on many processors are not asked at all: opening their team is not free.  Whether a
/// call gathers is for the model to say.
bool may_gather_on_a_node(int ranks, int processors);

/// Of a description longer than this an aggregator hears only what lies in its part of the file.
constexpr std::size_t kToldWhole = model::kToldWhole;

/// Which part of the file is whose.  Each byte is in one window of one aggregator, and an aggregator goes through its windows round by round.
///
/// Contiguous domains: what is accessed in equal parts, one behind the other.  Where nodes access one part each, it stays there, and in every round all
/// nodes have data to write.  Cyclic domains: units of the file dealt out in turn, so that with a stripe for a unit, each of the devices has one writer.
class FileDomains {
 public:
  /// [first, end) of the file; empty where both are the same.
  struct Range {
    Offset first = 0;
    Offset end = 0;
  };

  FileDomains() = default;  ///< of nothing
  /// Equal parts of [first, end), which begin at multiples of `alignment_bytes`: where there are fewer of those than aggregators, some have no part.
  /// Windows do too, unless `window_bytes` is less than that, and there are no more of them than it takes, about equal.
  /// Requires: aggregators > 0, the bytes > 0, 0 <= first <= end.
  static FileDomains contiguous(int aggregators, Offset window_bytes, Offset alignment_bytes, Offset first, Offset end);
  /// Units of `unit_bytes`; those that are larger than `window_bytes` are gone through in several windows.
  static FileDomains cyclic(int aggregators, Offset window_bytes, Offset unit_bytes);

  /// Of these, aggregators are known by their place, from 0 on.
  [[nodiscard]] int aggregators() const { return aggregators_; }
  /// No window is larger.
  [[nodiscard]] Offset window_bytes() const { return window_bytes_; }

  /// The window of an aggregator, by its place among them, in a round.
  [[nodiscard]] Range window(Offset round, int aggregator) const;
  /// The round in which its aggregator has an offset.  Requires, with contiguous domains: it is accessed.
  [[nodiscard]] Offset round_of(Offset offset) const;
  /// The first offset at or behind `offset` that is the aggregator's; INT64_MAX when there is none.
  [[nodiscard]] Offset next_of(int aggregator, Offset offset) const;
  /// No other aggregators than `count` from `first` on, with 0 behind the last one, have bytes of [first, end).
  /// Requires: first < end; with contiguous domains, it is accessed.
  struct Reach {
    int first;
    int count;
  };
  [[nodiscard]] Reach reach(Offset first, Offset end) const;
  /// True when [first, end) reaches into some window of the aggregator.
  [[nodiscard]] bool reaches(Offset first, Offset end, int aggregator) const { return first < end && next_of(aggregator, first) < end; }

  /// The aggregator's part of the file; with cyclic domains all of it.
  [[nodiscard]] Range domain(int aggregator) const;
  /// The same with a margin: when all access the same further on in the file, the parts move with the data but for less than that, since they begin at
  /// multiples of the alignment.
  [[nodiscard]] Range surroundings(int aggregator) const;

 private:
  [[nodiscard]] Offset boundary(int aggregator) const;
  [[nodiscard]] int owner(Offset offset) const;

  int aggregators_ = 1;
  Offset window_bytes_ = 1;
  Offset unit_bytes_ = 0;  ///< cyclic: what is dealt out; 0: contiguous
  Offset alignment_bytes_ = 1;
  Range accessed_;
};

/// The file domains of one call.  A file striped over several devices gets cyclic ones, a stripe at a time, of as many aggregators as make each of them
/// meet the same devices in every turn (unless that were fewer than half of them, or somebody asked for a number).  Others get contiguous ones of so many
/// `aggregators`, which plan/choose.h finds.
/// Requires: 0 <= first <= end, 0 < aggregators <= rules.aggregators.
FileDomains domains_for(const DomainRules& rules, Offset first, Offset end, int aggregators);

/// Where those that take part stand among all aggregators, of which they are `used`, evenly spread.
int standing(int place, int used, int all);
/// Which place the one has that stands there; -1 for one that takes no part.
int place_of(int standing, int used, int all);

}  // namespace penstock::plan
