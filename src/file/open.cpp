// Opening: rank 0 creates or looks up the file and finds what all go by, the others hear of it, and aggregators are placed.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <numeric>
#include <tuple>
#include <type_traits>

#include "file/file.h"
#include "file/interfaces.h"
#include "file/learned.h"
#include "file/profiles.h"

namespace penstock::file {

/// What rank 0 tells the others after it has opened the file.
struct OpenNotice {
  comm::Verdict verdict;
  OpenedFacts facts;
  store::Identity identity;
  Offset window_bytes = 0;  ///< 0: no aggregation
  Offset alignment_bytes = 1;
  std::array<plan::Layers, plan::kLocalNumbersMost> layers{};  ///< ways to place aggregators, the one to begin with in front
  std::size_t layers_count = 0;
  bool asked_for_aggregators = false;
  bool by_list = false;       ///< rank 0 has a list of nodes to aggregate
  bool may_decline = false;
  plan::Setting setting;
  bool learns = false;
  bool keeps_learned = false;
  hints::Switch sieve_reads = hints::Switch::kAutomatic;
  bool knows_together = false;  ///< what was learned of collective accesses before
};

namespace {

using trace::Phase;
using trace::PhaseScope;

std::uint64_t mode_bits(const Mode& mode) {
  std::uint64_t bits = 0;
  for (bool flag : {mode.read, mode.write, mode.create, mode.exclusive, mode.delete_on_close, mode.unique_open, mode.sequential,
                    mode.append})
    bits = bits << 1 | static_cast<std::uint64_t>(flag);
  return bits;
}

static_assert(std::is_trivially_copyable_v<OpenNotice> && std::is_trivially_copyable_v<Learned>, "sent as bytes");

int processors() { return std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN))); }

/// How many global aggregators rank 0 wants.
int aggregators_of(const comm::Topology& topology, const hints::Hints& hints, const plan::Striping& striping, int local_per_node, int interfaces) {
  if (hints.aggregators > 0) return hints.aggregators;
  if (striping.stripe_bytes > 0) return plan::striped_aggregators(striping, topology.size, plan::workers(topology.node_of_rank, processors()));
  return plan::automatic_global(topology.node_of_rank, local_per_node, processors(), interfaces);
}

/// The ways to place aggregators that are open to choice, for rank 0 to tell.
/// `last`: by how many local aggregators of a node the last such file went.
void find_layers(const comm::Topology& ranks, const hints::Hints& hints, int last, OpenNotice& notice) {
  // Nodes of a job are alike, so rank 0's counts for all: that costs no message.
  int& interfaces = notice.facts.interfaces;
  interfaces = hints.interfaces > 0 ? hints.interfaces : ranks.node_count > 1 ? network_interfaces() : 1;
  notice.by_list = !hints.config_list.empty();
  notice.asked_for_aggregators = hints.aggregators > 0 || notice.by_list;
  const auto add = [&](int local_per_node) {
    const int aggregators = aggregators_of(ranks, hints, notice.facts.striping, local_per_node, interfaces);
    notice.layers[notice.layers_count++] = {local_per_node, aggregators};
  };
  const bool open_to_choice = hints.strategy == hints::Strategy::kAutomatic && ranks.node_count > 1 && hints.local_aggregators == 0 && !notice.by_list;
  if (!open_to_choice) return add(hints.strategy == hints::Strategy::kTwoPhase ? 0 : std::max(1, hints.local_aggregators));
  std::vector<int> ranks_of_node(static_cast<std::size_t>(ranks.node_count), 0);
  for (const int node : ranks.node_of_rank) ++ranks_of_node[static_cast<std::size_t>(node)];
  for (const int number : plan::local_numbers(*std::max_element(ranks_of_node.begin(), ranks_of_node.end()))) add(number);
  const auto all = std::span(notice.layers).first(notice.layers_count);
  const auto begins = std::find_if(all.begin(), all.end(), [&](const plan::Layers& layers) { return layers.local_per_node == last; });
  if (begins != all.end()) std::rotate(all.begin(), begins, begins + 1);
}

OpenedFacts facts_of(const store::Traits& traits, Offset size_bytes) {
  OpenedFacts facts;
  std::strncpy(facts.file_system, traits.file_system.c_str(), sizeof facts.file_system - 1);
  facts.node_local = traits.node_local;
  facts.coherent_between_nodes = traits.coherent_between_nodes;
  facts.maps = traits.can_map && traits.maps_coherent;
  facts.striping = {traits.stripe_bytes, traits.stripe_count, traits.target_count, traits.block_bytes};
  facts.size_bytes = size_bytes;
  return facts;
}

}  // namespace

Status check_mode(const Mode& mode) {
  if (!mode.read && !mode.write)
    return Status::failure(Code::kMode, "access mode: exactly one of RDONLY, WRONLY and RDWR must be given");
  if ((mode.create || mode.exclusive) && !mode.write)
    return Status::failure(Code::kMode, "access mode: CREATE and EXCL cannot be used with RDONLY; open with RDWR or WRONLY to create");
  if (mode.sequential && mode.read && mode.write)
    return Status::failure(Code::kMode, "access mode: SEQUENTIAL cannot be used with RDWR; choose RDONLY or WRONLY");
  return {};
}

Result<std::unique_ptr<File>> File::open(std::unique_ptr<comm::Comm> comm, store::Store& store, const std::string& path,
                                         const Mode& mode, const hints::Hints& hints, trace::FileTrace* trace, Status local) {
  std::unique_ptr<File> file(new File(std::move(comm), store, path, mode, hints, trace));
  trace::OpTrace op(trace, Phase::kOpen);
  PENSTOCK_TRY(file->open_together(op, std::move(local)));
  return file;
}

Status File::open_together(trace::OpTrace& trace, Status local) {
  const comm::Topology& topology = comm_->topology();
  // Nothing is created before all ranks agree on what they want.
  if (local.ok()) local = check_mode(mode_).with_context(path_);
  {
    PhaseScope waiting(trace, Phase::kWait);
    const comm::Verdict verdict = comm_->agree_same(verdict_of(local, topology.rank), mode_bits(mode_));
    PENSTOCK_TRY(status_of(verdict, local, topology.rank, path_));
  }
  OpenNotice notice;
  Learned learned;
  if (topology.rank == 0) local = open_for_all(notice, learned);
  if (topology.size > 1) {
    PhaseScope waiting(trace, Phase::kWait);
    PENSTOCK_TRY(comm_->broadcast(&notice, sizeof notice, 0));
  }
  PENSTOCK_TRY(status_of(notice.verdict, local, topology.rank, path_));
  take(notice);
  if (topology.node_count > 1) PENSTOCK_TRY(open_on_every_node());
  if (notice.window_bytes > 0) PENSTOCK_TRY(place_aggregators(notice, trace));
  PENSTOCK_TRY(go_on_learning(learned, notice.knows_together));
  return mode_.append ? begin_at_end(trace) : Status();
}

Status File::open_for_all(OpenNotice& notice, Learned& learned) {
  const comm::Topology& topology = comm_->topology();
  const hints::Hints& asked = hints();
  store::OpenOptions options = open_options();
  options.create = mode_.create;
  options.exclusive = mode_.create && mode_.exclusive;
  options.stripe_bytes = asked.stripe_bytes;
  options.stripe_count = asked.stripe_count;
  options.first_device = asked.first_device;
  options.for_others = topology.size > 1;
  Status local = open_here(options);
  if (local.ok()) {
    const Result<Offset> size = store_file_->size();
    const store::Traits& traits = store_file_->traits();
    if (size.ok()) notice.facts = facts_of(traits, *size);
    notice.alignment_bytes = std::max<Offset>(traits.stripe_bytes > 0 ? traits.stripe_bytes : traits.block_bytes, 1);
    local = size.status();
  }
  notice.verdict = verdict_of(local, topology.rank);
  if (!local.ok()) return local;
  notice.identity = store_file_->identity();
  notice.setting = {.ranks = topology.size, .nodes = topology.node_count, .ranks_in_node = topology.ranks_in_node, .processors = processors()};
  choose_profile(notice.facts, notice.setting.figures);
  notice.learns = asked.learn != hints::Switch::kDisable;
  notice.keeps_learned = asked.learn == hints::Switch::kEnable;
  notice.sieve_reads = asked.sieve_reads;
  notice.may_decline = may_decline(notice.setting, notice.facts.node_local);
  if (asked.strategy == hints::Strategy::kTwoPhase || asked.strategy == hints::Strategy::kTwoLayer || notice.may_decline)
    notice.window_bytes = asked.collective_buffer_bytes;
  if (notice.learns) {
    learned = recall_learned(notice.facts, notice.identity, notice.keeps_learned);
    notice.knows_together = learned.together_count > 0;
  }
  if (notice.window_bytes > 0) find_layers(topology, asked, learned.local_per_node, notice);
  return {};
}

// On one node, or on file systems of one, mapping and system calls of every rank are faster than any message, unless there are many ranks, or the device is
// slow and nothing stands before it.
bool File::may_decline(const plan::Setting& setting, bool node_local) const {
  if (hints().strategy != hints::Strategy::kAutomatic) return false;
  const bool cached = setting.figures.file.cached != 0;
  if (setting.nodes > 1) return !node_local || !cached;
  return setting.ranks > 1 && (!cached || plan::may_gather_on_a_node(setting.ranks, setting.processors));
}

void File::take(const OpenNotice& notice) {
  const comm::Topology& topology = comm_->topology();
  facts_ = notice.facts;
  setting_ = notice.setting;
  setting_.ranks_in_node = topology.ranks_in_node;
  learns_together_ = notice.learns;
  keeps_learned_ = notice.keeps_learned;
  sieve_reads_ = notice.sieve_reads;
  const bool beside_rank_0 = topology.node == topology.node_of_rank.front();
  identity_ = beside_rank_0 ? notice.identity : notice.identity.from_another_node();
}

Status File::place_aggregators(const OpenNotice& notice, trace::OpTrace& trace) {
  PhaseScope waiting(trace, Phase::kWait);
  may_decline_ = notice.may_decline;
  if (notice.by_list) PENSTOCK_TRY(follow_list(notice.layers.front().aggregators));
  const plan::DomainRules rules{.asked_for = notice.asked_for_aggregators,
                                .window_bytes = notice.window_bytes,
                                .alignment_bytes = notice.alignment_bytes,
                                .stripe_bytes = striping().stripe_bytes,
                                .stripe_count = striping().stripe_count};
  return arrange(std::span(notice.layers).first(notice.layers_count), rules);
}

Status File::begin_at_end(trace::OpTrace& trace) {
  const int rank = comm_->topology().rank;
  // The initial view is of bytes, so the end of the file in etypes is its size.
  individual_ = facts_.size_bytes;
  if (rank == 0 && comm_->words_and_lock().ok()) comm_->store(view_->shared_word, facts_.size_bytes);
  PhaseScope waiting(trace, Phase::kWait);
  return status_of(comm_->agree({}), {}, rank, path_);
}

void File::choose_profile(OpenedFacts& facts, model::Figures& figures) {
  const std::optional<store::Pace>& pace = store_file_->traits().pace;
  const FoundProfile found = pace && hints().profile.empty() ? FoundProfile{profile_of(*pace, facts.file_system, facts.node_local), {}}
                                                             : find_profile(hints().profile, path_, facts.file_system, facts.node_local);
  if (remark_.empty()) remark_ = found.remark;
  figures = found.profile.figures;
  std::strncpy(facts.profile, found.profile.name.c_str(), sizeof facts.profile - 1);
}

// The first rank of a node opens it for all: later its neighbours reach it through that rank's process, whatever its name means by then.
Status File::open_on_every_node() {
  const comm::Topology& topology = comm_->topology();
  Status local;
  if (topology.node != topology.node_of_rank.front()) {
    store::OpenOptions options = open_options();
    options.same_as = identity_;
    options.for_others = topology.ranks_in_node > 1;
    const Result<std::unique_ptr<comm::Team>> node = comm_->team(0, topology.ranks_in_node);
    if (topology.rank_in_node == 0) local = open_here(options);
    if (topology.ranks_in_node > 1) {
      // Ranks that share no memory open it each for itself, as rank 0 did.
      Result<std::byte*> told = node.ok() ? (*node)->memory(0, sizeof(store::Identity)) : node.status();
      if (told.ok()) {
        if (topology.rank_in_node == 0) {
          const store::Identity identity = local.ok() ? store_file_->identity() : store::Identity();
          std::memcpy(*told, &identity, sizeof identity);
        }
        (void)(*node)->meet({});
        std::memcpy(&identity_, *told, sizeof identity_);
        (void)(*node)->meet({});
      } else if (topology.rank_in_node != 0) {
        local = open_here(options);
      }
    }
  }
  return status_of(comm_->agree(verdict_of(local, topology.rank)), local, topology.rank, path_);
}

// Only rank 0 needs the names, and only one of each node has to tell it.
Status File::follow_list(int otherwise) {
  const comm::Topology& topology = comm_->topology();
  constexpr std::size_t kNameBytes = 256;
  const auto nodes = static_cast<std::size_t>(topology.node_count);
  std::vector<char> name_of_node(topology.rank == 0 ? nodes * kNameBytes : kNameBytes, '\0');
  (void)gethostname(name_of_node.data(), kNameBytes - 1);  // a node whose name cannot be had is none that a list names
  std::vector<int> ranks_of_node(nodes, 0);
  const std::unique_ptr<comm::Exchange> names = comm_->exchange();
  Status local;
  for (int rank = 0; rank < topology.size && local.ok() && topology.rank == 0; ++rank) {
    const auto node = static_cast<std::size_t>(topology.node_of_rank[static_cast<std::size_t>(rank)]);
    if (ranks_of_node[node]++ == 0 && node > 0) local = names->receive(rank, name_of_node.data() + node * kNameBytes, kNameBytes);
  }
  if (topology.rank != 0 && topology.rank_in_node == 0) local = names->send(0, name_of_node.data(), kNameBytes);
  const Status waited = names->wait();
  if (local.ok()) local = waited;
  std::vector<int> shares(nodes, 0);
  if (topology.rank == 0 && local.ok()) {
    std::vector<std::string> spelled;
    for (std::size_t node = 0; node < nodes; ++node) spelled.emplace_back(name_of_node.data() + node * kNameBytes);
    const std::vector<hints::NodeLimit>& list = hints().config_list;
    const std::vector<int> allowed = plan::node_shares(list, spelled, ranks_of_node, 0);
    const int sum = std::accumulate(allowed.begin(), allowed.end(), 0);
    int wanted = hints().aggregators;
    if (wanted == 0 && sum > 0 && striping().stripe_bytes > 0) wanted = plan::striped_aggregators(striping(), topology.size, std::min(otherwise, sum));
    shares = plan::node_shares(list, spelled, ranks_of_node, wanted);
    if (sum == 0) remark_ = "cb_config_list: no node of this group may have aggregators by the list " + hints::text_of(list) + "; it is not followed";
  }
  const Status told = comm_->broadcast(shares.data(), nodes * sizeof(int), 0);
  if (local.ok()) local = told;
  PENSTOCK_TRY(agree_in_order(local));
  if (std::accumulate(shares.begin(), shares.end(), 0) > 0) aggregators_of_node_ = std::move(shares);
  return {};
}

Status File::arrange(std::span<const plan::Layers> layers, const plan::DomainRules& rules) {
  Status status;
  try {
    for (const plan::Layers& numbers : layers) add_arrangement(numbers, rules);
  } catch (const std::bad_alloc&) {
    status = Status::failure(Code::kNoMemory, path_ + ": open: no memory to place aggregators");
  }
  if (go_over(0, status)) return {};
  // Where the ranks of some node share no memory, every rank sends for itself.
  arrangements_.clear();
  placings_.clear();
  if (status.ok()) try {
      add_arrangement({0, layers.front().aggregators}, rules);
    } catch (const std::bad_alloc&) {
      status = Status::failure(Code::kNoMemory, path_ + ": open: no memory to place aggregators");
    }
  if (go_over(0, status)) return {};
  return status.ok() ? Status::failure(Code::kNoMemory, path_ + ": open: another rank had no memory to place aggregators") : status;
}

void File::add_arrangement(const plan::Layers& numbers, plan::DomainRules rules) {
  const comm::Topology& topology = comm_->topology();
  auto made = std::make_unique<Arrangement>();
  made->placement = aggregators_of_node_.empty()
                        ? plan::place(topology.node_of_rank, topology.rank, numbers.local_per_node, numbers.aggregators)
                        : plan::place(topology.node_of_rank, topology.rank, numbers.local_per_node, aggregators_of_node_);
  rules.aggregators = static_cast<int>(made->placement.global.size());
  const Offset window_bytes = plan::window_bytes(static_cast<int>(made->placement.local.size()), rules.window_bytes);
  rules.window_bytes = plan::aligned_window_bytes(striping(), rules.aggregators, window_bytes, rules.window_bytes);
  placings_.push_back({numbers.local_per_node, rules});
  arrangements_.push_back(std::move(made));
}

bool File::go_over(std::size_t to, Status mine) {
  if (mine.ok() && arrangements_[to]->team == nullptr) {
    const plan::Placement& placement = arrangements_[to]->placement;
    try {
      Result<std::unique_ptr<comm::Team>> team = comm_->team(placement.first, placement.count);
      mine = team.status();
      if (team.ok()) arrangements_[to]->team = std::move(*team);
    } catch (const std::bad_alloc&) {
      mine = Status::failure(Code::kNoMemory, path_ + ": no memory for a team of aggregators");
    }
  }
  const bool all_have_it = comm_->agree(verdict_of(mine, comm_->topology().rank)).ok();
  if (all_have_it) present_ = to;
  return all_have_it;
}

store::OpenOptions File::open_options() const {
  store::OpenOptions options;
  options.read = true;  // also for write-only files: mapping and sieving read what they rewrite
  options.write = mode_.write;
  options.permissions = hints().permissions;
  options.no_atime = hints().no_atime != hints::Switch::kDisable;
  return options;
}

Status File::open_here(store::OpenOptions options) {
  Result<std::unique_ptr<store::File>> opened = store_.open(path_, options);
  if (!opened.ok() && opened.status().code() == Code::kAccess && !mode_.read) {
    options.read = false;
    opened = store_.open(path_, options);
  }
  if (!opened.ok()) return opened.status();
  store_file_ = std::move(*opened);
  opened_.store(store_file_.get(), std::memory_order_release);
  return {};
}

Status File::open_store() {
  if (opened_.load(std::memory_order_acquire) != nullptr) return {};
  std::lock_guard lock(open_mutex_);
  if (opened_.load(std::memory_order_relaxed) != nullptr) return {};
  store::OpenOptions options = open_options();
  options.same_as = identity_;
  return open_here(options);
}

// What was learned is a help, no promise: for want of a few bytes for it nothing fails, least of all between two collective steps.
Learned File::recall_learned(const OpenedFacts& facts, const store::Identity& identity, bool also_from_last_run) const {
  Learned learned;
  try {
    learned = recall_from_process(like_files(facts, identity));
    if (also_from_last_run && (learned.own_count == 0 || learned.together_count == 0)) {
      const Learned kept = read_learned(learned_path(facts.file_system, facts.profile, comm_->topology().size, comm_->topology().node_count));
      if (learned.own_count == 0) std::tie(learned.own, learned.own_count) = std::tie(kept.own, kept.own_count);
      if (learned.together_count == 0) std::tie(learned.together, learned.together_count) = std::tie(kept.together, kept.together_count);
    }
  } catch (const std::bad_alloc&) {
  }
  return learned;
}

Status File::go_on_learning(Learned& learned, bool rank_0_knows_together) {
  const comm::Topology& topology = comm_->topology();
  // How many local aggregators there are is known only now: as many as global ones at least, and every rank where they share no memory.
  const bool several_decide = may_decline_ && !arrangements_.empty() && arrangements_.front()->placement.local.size() > 1;
  if (topology.size > 1 && (keeps_learned_ || (several_decide && rank_0_knows_together)))
    PENSTOCK_TRY(comm_->broadcast(&learned, sizeof learned, 0));
  if (topology.rank != 0 && learns()) recall_own(learned);
  if (learned.own_count > 0) experience_.recall(std::span(learned.own).first(static_cast<std::size_t>(learned.own_count)));
  if (learned.together_count > 0 && !arrangements_.empty())
    arrangements_.front()->experience.recall(std::span(learned.together).first(static_cast<std::size_t>(learned.together_count)));
  return {};
}

void File::recall_own(Learned& learned) const {
  const Learned mine = recall_learned(facts_, identity_, false);
  if (mine.own_count > 0) std::tie(learned.own, learned.own_count) = std::tie(mine.own, mine.own_count);
}

}  // namespace penstock::file
