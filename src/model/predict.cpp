// The terms of the model.  All seconds; small letters as in the comments: R ranks on N nodes, q = R / N of a node on p processors; every rank has b bytes in n
// pieces; S bytes from the first to the last accessed.  The figures' units are in table/profile.toml.
#include "model/predict.h"

#include <algorithm>
#include <cmath>

namespace penstock::model {

namespace {

constexpr double kPage = 4096;
/// strategy/mapped.cpp faults in what lies between the first and the last piece of so many bytes of the file.
constexpr double kPopulated = 256.0 * 1024;
/// strategy/staged.cpp reads over gaps up to so large.
constexpr double kGapRead = 64.0 * 1024;
/// What writers that wait for one another's lock of the file lose each time that there are twice as many: the lock is handed on through the scheduler.
constexpr double kConvoy = 0.1;
/// How many times dearer a page is that a call adds to the page cache while other ranks of the node use the memory too: calibration adds pages with one rank
/// (measured with 2 to 8 ranks on 2 processors).
constexpr double kCrowded = 2;
/// Until a rank that waits has a processor again, where there are more ranks than processors.  Of the scheduler, about the same on all machines.
constexpr double kWake = 15e-6;
/// More members of a team than that do not make a node's storage client faster, and each has to open the file.
constexpr int kReadersMost = 4;
/// What each of them reads at least (strategy/member.cpp).
constexpr double kReadLeast = 128.0 * 1024;

/// Binary logarithm, rounded up.  By hand: ranks on different processors must come to the very same seconds, which libraries' logarithms do not promise.
double steps(double of) {
  double steps = 0;
  for (double reached = 1; reached < of; reached *= 2) ++steps;
  return steps;
}

/// What of the machine and of the work all ways share.
struct Scene {
  const Figures& figures;
  const Workload& work;
  double q;     ///< ranks of a node
  double busy;  ///< how many times longer processors take when all ranks of a node work: max(1, q / p)
  double b;     ///< bytes of a rank
  double n;     ///< pieces of a rank
  bool cached;

  Scene(const Figures& of, const Workload& what)
      : figures(of), work(what), q(std::max(1.0, static_cast<double>(what.ranks) / what.nodes)), busy(std::max(1.0, q / what.processors)),
        b(what.bytes / what.ranks), n(std::max(1.0, what.pieces / what.ranks)), cached(of.file.cached != 0) {}

  [[nodiscard]] const Storage& storage() const { return work.write ? figures.storage_write : figures.storage_read; }

  /// Pages of 4 KiB that hold data of anybody: no more than the span has, nor than pieces that each lie on pages of their own.
  [[nodiscard]] double pages() const { return std::min(work.span / kPage + 1, work.pieces * 2 + work.bytes / kPage); }
  /// The same of one rank.
  [[nodiscard]] double rank_pages() const { return std::min(work.rank_span / kPage + 1, n * 2 + b / kPage); }
  /// Pages that each of `writers` adds to the page cache.
  [[nodiscard]] double new_pages(double writers) const { return work.write && work.fresh ? pages() / writers : 0; }

  /// Copying in a loop over pieces: memory.piece each, memory.copy_per_byte each byte.
  [[nodiscard]] double copying(double pieces, double bytes) const { return pieces * figures.memory.piece + bytes * figures.memory.copy_per_byte; }

  /// `accessors` ranks, `of_a_node` of each node, go to the file at once.
  struct Access {
    double accessors;
    double of_a_node;
    double calls;  ///< of each
    double bytes;
    bool random;   ///< requests do not go on where the last one ended
    bool write;
  };
  /// Page cache: processor time, of which no more goes on at once than there are processors, nor than the file system lets in (cached_ranks: 1 where
  /// it locks the file for every write).  Device: latency and bytes of requests, of no more ranks at once than it works on (device_ranks), and no sooner than
  /// the bytes of all get through (device_streams: of so many times what one rank gets).
  [[nodiscard]] double accessing(const Access& access) const {
    const Storage& storage = access.write ? figures.storage_write : figures.storage_read;
    if (cached) {
      const double added = access.write ? new_pages(access.accessors) * figures.file.new_page * (q > 1 ? kCrowded : 1) : 0;
      const double each = access.calls * storage.cached_call + access.bytes * storage.cached_per_byte + added;
      const double at_once = std::min({access.of_a_node, static_cast<double>(work.processors), storage.cached_ranks});
      const double convoy = access.write && access.of_a_node > at_once ? 1 + kConvoy * steps(access.of_a_node) : 1;
      return each * access.of_a_node / std::max(1.0, at_once) * convoy;
    }
    // Where several ranks take turns, whose requests lie apart, none goes on where the one before it ended.  Nor does anybody's first.
    const bool elsewhere = access.random || access.accessors > 1;
    const double each = storage.device_random_call + (access.calls - 1) * (elsewhere ? storage.device_random_call : storage.device_call) +
                        access.bytes * storage.device_per_byte;
    const double moving = access.bytes * storage.device_per_byte;
    const double worked_on = std::max(1.0, std::min(access.accessors, storage.device_ranks));
    const double through = std::max(1.0, std::min(access.accessors, storage.device_streams));
    // Fewer than two at once: one head, whose ways get shorter where there is a choice of them, and no bytes move meanwhile.
    if (storage.device_ranks < 2) return ((each - moving) / worked_on + moving / through) * access.accessors;
    return std::max(each / worked_on, moving / through) * access.accessors;
  }

  /// What every collective call ends with: all ranks agree on its verdict, in steps inside and between nodes (network.*.step).
  [[nodiscard]] double agreement() const {
    return steps(q) * figures.network_inside.step * busy + steps(work.nodes) * figures.network_between.step;
  }
};

/// Each piece is a request of its own; pieces that lie behind each other are one (the workload counts them so).
Seconds independent(const Scene& scene) {
  Seconds seconds;
  const bool random = scene.n > 1 && scene.work.rank_span > scene.b;
  seconds.file = scene.accessing({static_cast<double>(scene.work.ranks), scene.q, scene.n, scene.b, random, scene.work.write});
  seconds.wait = scene.agreement();
  return seconds;
}

/// Every rank maps what it spans and faults it in (memory.map, fault_*), but for what lies between pieces that are far apart.  A new page is made by the first one
/// that comes to it, and is an old one for the others; of one file, the kernel makes one after the other, whoever asks.  Where fewer than half of the pages
/// hold anything, nothing is mapped.
Seconds mapped(const Scene& scene) {
  if ((scene.n + scene.b / kPage) * 2 < scene.work.rank_span / kPage + 1) return independent(scene);
  constexpr double kMapBytes = 64.0 * 1024 * 1024;  // strategy/mapped.cpp maps so much at once
  const Memory& memory = scene.figures.memory;
  const bool far_apart = scene.work.rank_span / scene.n > kPopulated;
  const double pages = far_apart ? scene.rank_pages() : scene.work.rank_span / kPage + 1;
  const double made = std::min(pages, scene.new_pages(scene.work.ranks));
  const double fault = scene.work.write ? memory.fault_write : memory.fault_read;
  const double maps = std::ceil(std::max(scene.work.rank_span, 1.0) / kMapBytes);
  Seconds seconds;
  seconds.file = (maps * memory.map + (pages - made) * fault) * scene.busy + made * scene.q * memory.fault_new;
  if (scene.work.write) seconds.file += scene.storage().cached_call;  // the last byte goes by a call
  seconds.copy = scene.copying(scene.n, scene.b) * scene.busy;
  seconds.wait = scene.agreement();
  return seconds;
}

/// Reads the whole span in buffers, but for large gaps.  Writing, it reads each buffer, changes it and writes it back, under a lock that keeps out every rank whose span
/// overlaps: those go one after the other.
Seconds sieved(const Scene& scene) {
  const double gap = (scene.work.rank_span - scene.b) / scene.n;
  const bool skips = gap > kGapRead && !scene.work.write;
  const double span = skips ? scene.b : std::max(scene.work.rank_span, scene.b);
  const double buffers = std::max(std::ceil(std::max(span, 1.0) / scene.work.sieve_buffer), skips ? scene.n : 1);
  const double ranks = scene.work.ranks;
  Seconds seconds;
  seconds.copy = scene.copying(scene.n, scene.b) * scene.busy;
  seconds.wait = scene.agreement();
  if (!scene.work.write) {
    seconds.file = scene.accessing({ranks, scene.q, buffers, span, skips, false});
    return seconds;
  }
  const double overlapping = std::clamp(ranks * span / std::max(scene.work.span, 1.0), 1.0, ranks);
  const double one = scene.accessing({1, 1, buffers, span, true, false}) + scene.accessing({1, 1, buffers, span, true, true});
  seconds.file = one * overlapping;
  return seconds;
}

/// How data flow between teams and aggregators: numbers of one call.
struct Flow {
  double teams;       ///< local aggregators
  double members;     ///< ranks of each team
  double aggregators;
  double of_a_node;   ///< of them
  double reach;       ///< how many aggregators' domains a team has data in
  double foreign;     ///< share of the data that another team's aggregator handles
  double crossing;    ///< share of the data that goes to another node
  double rounds;

  Flow(const Scene& scene, const Candidate& candidate) {
    const double ranks = scene.work.ranks, nodes = scene.work.nodes;
    teams = candidate.local_per_node == 0 ? ranks : std::min(ranks, nodes * candidate.local_per_node);
    members = ranks / teams;
    aggregators = std::clamp<double>(candidate.aggregators, 1, teams);
    of_a_node = std::max(1.0, std::ceil(aggregators / nodes));
    // A team spans at least what each of its ranks does, and its share of the whole; ranks of a team follow each other in the file.
    const double whole = std::max(scene.work.span, 1.0);
    const double spanned = std::clamp(std::max(scene.work.rank_span, whole / teams), 0.0, whole);
    reach = std::clamp(std::ceil(aggregators * spanned / whole), 1.0, aggregators);
    foreign = 1 - aggregators / teams / reach;
    const double with_aggregator = std::min(aggregators, nodes);
    crossing = 1 - with_aggregator / nodes / std::min(reach, with_aggregator);
    rounds = std::max(1.0, std::ceil(whole / aggregators / candidate.window));
  }
};

/// Processor time of a rank's copies: out of (or into) the program's buffer, into a window or a message; and at the aggregator, of what came in messages,
/// shared by the team's members as far as those have processors.
double copying_of(const Scene& scene, const Flow& flow) {
  const double own = scene.copying(scene.n, scene.b);
  const double received = scene.copying(scene.work.pieces / flow.aggregators, scene.work.bytes / flow.aggregators) * flow.foreign;
  const double workers_of_a_node = std::min(scene.q, flow.of_a_node * flow.members);
  const double at_once = std::max(1.0, std::min<double>(workers_of_a_node, scene.work.processors));
  return own * scene.busy + received * flow.of_a_node / at_once;
}

/// Messages of data: network.*.startup for each that the busiest rank, an aggregator that has data for the others as well, sends and receives; and
/// per_byte: between nodes for what the link of a node carries, whose ranks share it; inside for what stays there, which is processor time.
double communicating(const Scene& scene, const Flow& flow) {
  if (flow.foreign <= 0) return 0;
  const double team_messages = flow.reach * std::min(flow.rounds, std::max(1.0, scene.work.bytes / flow.teams));
  const double aggregator_messages = flow.rounds * flow.teams * flow.reach / flow.aggregators;
  const double messages = team_messages + aggregator_messages;
  const Network& between = scene.figures.network_between;
  const Network& inside = scene.figures.network_inside;
  if (scene.work.nodes == 1) {
    const double at_once = std::max(1.0, std::min<double>(scene.work.processors, flow.aggregators));
    return messages * inside.startup * scene.busy + scene.work.bytes * flow.foreign * inside.per_byte / at_once;
  }
  // The busiest node sends its share, or receives that of the aggregators it has.
  const double node_bytes = scene.work.bytes / std::min<double>(scene.work.nodes, flow.aggregators);
  const double staying = std::max(0.0, flow.foreign - flow.crossing);
  return messages * between.startup * scene.busy + node_bytes * flow.crossing * between.per_byte + node_bytes * staying * inside.per_byte;
}

/// An aggregator reads or writes its domain, a window for each round: one request each where there are no holes.  Holes are read over, and written around.
double at_file(const Scene& scene, const Flow& flow) {
  const double whole = std::max(scene.work.span, 1.0);
  const bool holes = scene.work.bytes < whole;
  const double bytes = (scene.work.write ? scene.work.bytes : whole) / flow.aggregators;
  const double stretches = scene.work.write && holes ? std::max(flow.rounds, scene.work.pieces / flow.aggregators) : flow.rounds;
  if (scene.work.write) return scene.accessing({flow.aggregators, flow.of_a_node, stretches, bytes, holes, true});
  const double most = std::min<double>(flow.members, readers_most(scene.figures));
  const double readers = std::clamp(std::floor(whole / flow.aggregators / flow.rounds / kReadLeast), 1.0, std::max(1.0, std::floor(most)));
  return scene.accessing({flow.aggregators * readers, flow.of_a_node * readers, std::max(1.0, stretches / readers), bytes / readers, false, false});
}

/// What the memory of windows takes that a file's first call makes: of a team all of it is reserved in the node's shared memory, new pages as a file in memory has
/// them; an aggregator alone touches its first window as it fills it, and the kernel zeroes what it touches, about as fast as it copies.  Where a device is
/// read, that is while it works.
double making_windows(const Scene& scene, const Flow& flow, double window) {
  constexpr double kSlots = 3;  // strategy/window.h
  const double first = std::min(window, std::max(scene.work.span, 1.0) / flow.aggregators);
  if (flow.members > 1) return std::min(flow.rounds, kSlots) * flow.of_a_node * (first / kPage) * scene.figures.memory.fault_new;
  if (!scene.work.write && !scene.cached) return 0;
  return first * scene.figures.memory.copy_per_byte * std::max(1.0, flow.of_a_node / scene.work.processors);
}

/// Two-phase access in one or two layers.  Windows are handled one behind the other, so that messages and devices work while processors copy: of the three, the
/// longest counts whole, and the others where they cannot be hidden, that is in the first round.  On a page cache everything is processors' work: it is spread
/// over those a node has.
Seconds aggregated(const Scene& scene, const Candidate& candidate) {
  const Flow flow(scene, candidate);
  Seconds seconds;
  double copies = copying_of(scene, flow);
  double file = at_file(scene, flow);
  double messages = communicating(scene, flow);
  const double hidden = 1 - 1 / flow.rounds;
  const double longest = std::max({copies, file, messages});
  // What waits for nobody's processor can be hidden; with a processor to spare, so can a cached access behind other ranks' copies.  Messages inside a node move
  // while MPI is called: the aggregator that writes does not, of one that reads the others do.
  const bool spare = scene.q <= scene.work.processors;
  const bool device_longest = !scene.cached && file == longest;
  const bool messages_move = scene.work.nodes > 1 || (!scene.work.write && (spare || device_longest));
  if (file < longest && (!scene.cached || spare)) file *= 1 - hidden;
  if (messages < longest && messages_move) messages *= 1 - hidden;
  if (copies < longest && (!scene.cached || spare)) copies *= 1 - hidden;
  if (scene.work.anew) copies += making_windows(scene, flow, candidate.window);
  (flow.members > 1 ? seconds.gather : seconds.copy) = copies;
  seconds.file = file;
  seconds.communicate = messages;
  const double vote =
      (steps(flow.teams / scene.work.nodes) * scene.figures.network_inside.step + steps(scene.work.nodes) * scene.figures.network_between.step) * scene.busy;
  seconds.exchange = vote;
  if (!scene.work.planned) {
    // Each team's description goes to the aggregators it reaches, a long one in parts, and each of those reads and joins all it got, about as fast as it
    // copies.
    const double whole = scene.work.told_bytes;
    const double told = whole > kToldWhole ? std::max<double>(whole / flow.reach, kToldWhole / 4) : whole;
    const Network& link = scene.work.nodes > 1 ? scene.figures.network_between : scene.figures.network_inside;
    const double heard = flow.teams * flow.reach / flow.aggregators;
    seconds.exchange += heard * (link.startup + told * link.per_byte);
    seconds.merge = (heard * told + flow.members * whole) / sizeof(double) * scene.figures.memory.piece;
  }
  seconds.wait = scene.agreement();
  const double woken = std::max(0.0, scene.q - scene.work.processors) * kWake;
  if (flow.members > 1) seconds.wait += 2 * flow.rounds * (steps(flow.members) * scene.figures.network_inside.step * scene.busy + woken);
  if (flow.foreign > 0 && scene.work.nodes > 1) seconds.wait += flow.rounds * woken;  // who waits for a message needs a processor again, too
  return seconds;
}

}  // namespace

int readers_most(const Figures& figures) {
  if (figures.file.cached != 0) return kReadersMost;
  return static_cast<int>(std::clamp<double>(figures.storage_read.device_ranks, 1, kReadersMost));
}

Seconds predict(const Figures& figures, const Workload& work, const Candidate& candidate) {
  const Scene scene(figures, work);
  switch (candidate.way) {
    case Way::kIndependent:
      return independent(scene);
    case Way::kMapped:
      return mapped(scene);
    case Way::kSieved:
      return sieved(scene);
    case Way::kTwoLayer:
    case Way::kTwoPhase:
      break;
  }
  return aggregated(scene, candidate);
}

}  // namespace penstock::model
