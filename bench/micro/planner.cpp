// What planning one collective call costs ranks that are only pretended: a time step of the block-tridiagonal benchmark (kernels/btio) on any number of
// them, by the pure functions that a collective access calls.  One line of JSON on standard output: processor seconds and peak memory by role.
//
//   planner [--ranks 16384] [--ranks-per-node 64] [--points 512] [--layers two|one]
//
// The roles: every rank describes what it accesses and finds its place; a local aggregator reads the descriptions of its team, joins them, describes
// the whole, and cuts what is long for the global aggregators; one of those reads what all local ones tell it and looks for gaps.  With one layer every
// rank is its own local aggregator.
#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <malloc.h>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "access/layout.h"
#include "access/merge.h"
#include "access/wire.h"
#include "plan/aggregation.h"
#include "strategy/claim_message.h"

namespace {

std::atomic<std::size_t> in_use{0};
std::atomic<std::size_t> peak{0};

}  // namespace

void* operator new(std::size_t bytes) {
  void* const memory = std::malloc(bytes > 0 ? bytes : 1);
  if (memory == nullptr) throw std::bad_alloc();
  const std::size_t now = in_use.fetch_add(malloc_usable_size(memory)) + malloc_usable_size(memory);
  if (now > peak.load()) peak.store(now);
  return memory;
}

void operator delete(void* memory) noexcept {
  if (memory != nullptr) in_use.fetch_sub(malloc_usable_size(memory));
  std::free(memory);
}

void operator delete(void* memory, std::size_t) noexcept { operator delete(memory); }

namespace {

using penstock::Offset;
namespace access = penstock::access;
namespace plan = penstock::plan;
namespace strategy = penstock::strategy;

constexpr Offset kNumber = 8, kNumbers = 5;

struct Problem {
  int ranks = 16384;
  int ranks_per_node = 64;
  Offset points = 512;
  bool two_layers = true;
  int cells = 128;  ///< along an edge: the square root of the ranks
};

[[noreturn]] void refuse(const char* sentence) {
  std::fprintf(stderr, "planner: %s\n", sentence);
  std::exit(2);
}

template <typename T>
T value_of(penstock::Result<T> result) {
  if (!result.ok()) refuse(std::string(result.status().text()).c_str());
  return std::move(result).value();
}

/// As kernels/btio: in slab c a rank's cell moves one to the right in x and one down in y, round the edges.
access::Type type_of(const Problem& problem, int rank) {
  const Offset q = problem.cells, even = problem.points / q, rest = problem.points % q;
  const auto low = [&](Offset cell) { return cell * even + std::min(cell, rest); };
  const std::vector<Offset> whole{problem.points, problem.points, problem.points, kNumbers};
  const access::Type number = value_of(access::elementary(kNumber));
  std::vector<access::Type> boxes;
  for (Offset slab = 0; slab < q; ++slab) {
    const Offset place[] = {slab, (rank / q - slab + q) % q, (rank % q + slab) % q};
    std::vector<Offset> size, start;
    for (const Offset cell : place) {
      size.push_back(even + (cell < rest ? 1 : 0));
      start.push_back(low(cell));
    }
    size.push_back(kNumbers);
    start.push_back(0);
    boxes.push_back(value_of(access::subarray(whole, size, start, access::Order::kC, number)));
  }
  const std::vector<Offset> ones(boxes.size(), 1), zeros(boxes.size(), 0);
  return value_of(access::structure(ones, zeros, boxes));
}

/// What a role costs.
class Meter {
 public:
  Meter() : begin_(seconds()), before_(in_use.load()) { peak.store(before_); }
  void tell(const char* role, bool last = false) const {
    std::printf("\"%s\": {\"cpu_seconds\": %.6f, \"peak_bytes\": %zu}%s", role, seconds() - begin_, peak.load() - before_, last ? "}}\n" : ", ");
  }

 private:
  static double seconds() {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
  }
  double begin_;
  std::size_t before_;
};

struct Told {
  std::vector<std::byte> tree;
  Offset bytes = 0;
};

Told describe(const access::Tiling& tiling, Offset bytes) {
  Told told{{}, bytes};
  access::pack(tiling, told.tree);
  return told;
}

access::Claim read(const Told& told) { return {value_of(access::unpack(told.tree)), 0, told.bytes}; }

std::vector<access::Claim> read(const std::vector<Told>& members) {
  std::vector<access::Claim> claims;
  claims.reserve(members.size());
  for (const Told& told : members) claims.push_back(read(told));
  return claims;
}

/// What one team accesses, and its message.
struct Team {
  std::vector<access::Claim> claims;
  std::vector<std::byte> message;
  strategy::Facts facts;
};

Team team_of(std::vector<access::Claim> claims) {
  Team team{std::move(claims), {}, {}};
  team.facts.first = INT64_MAX;
  for (const access::Claim& claim : team.claims) {
    strategy::append_claim(claim, describe(claim.tiling, claim.bytes).tree, team.message);
    const access::Bounds bounds = access::bounds_of(claim.tiling, claim.position, claim.bytes);
    team.facts.first = std::min(team.facts.first, bounds.first);
    team.facts.end = std::max(team.facts.end, bounds.end);
    team.facts.bytes += claim.bytes;
  }
  team.facts.told_bytes = team.message.size();
  return team;
}

/// What a team tells an aggregator.  `claims` are in normal form.
std::vector<std::byte> told_to(const Team& team, const std::vector<access::Claim>& claims, const plan::FileDomains& domains, int place) {
  const strategy::FileRange range = strategy::told_range(team.facts, domains, place);
  if (range.end == INT64_MAX) return team.message;
  std::vector<std::byte> message;
  for (const access::Claim& claim : claims) {
    const access::Claim part = access::clipped(claim, range.first, range.end);
    if (part.bytes > 0) strategy::append_claim(part, describe(part.tiling, part.bytes).tree, message);
  }
  return message.size() > team.message.size() ? team.message : message;
}

std::vector<access::Claim> in_normal_form(std::vector<access::Claim> claims) {
  for (access::Claim& claim : claims) claim = access::normal_form(claim);
  return claims;
}

/// All that a team tells, one aggregator after the other, as strategy::two_phase has it at once: about as much as the whole, once more.
std::size_t tell_all(const Team& team, const plan::FileDomains& domains) {
  const std::vector<access::Claim> claims = in_normal_form(team.claims);
  std::vector<std::vector<std::byte>> messages;
  std::size_t bytes = 0;
  for (int place = 0; place < domains.aggregators(); ++place)
    if (domains.reaches(team.facts.first, team.facts.end, place)) bytes += messages.emplace_back(told_to(team, claims, domains, place)).size();
  return bytes;
}

/// Whether what all teams access of an aggregator's surroundings is one stretch of the file.
bool without_gaps(const std::vector<std::vector<std::byte>>& messages) {
  std::vector<access::Claim> claims;
  for (const std::vector<std::byte>& message : messages)
    if (!strategy::read_claims(0, message, claims).ok()) refuse("a message that cannot be read");
  constexpr std::size_t kJoinedMost = 512;  // as strategy::two_phase: to find it out of more costs more than marking what arrives
  if (claims.size() > kJoinedMost) return false;
  const access::Coalesced joined = access::coalesce(claims);
  return joined.wholes.size() == 1 && access::is_contiguous(joined.wholes[0].tiling);
}

Problem parse(int argc, char** argv) {
  Problem problem;
  const auto number = [&](int& i) {
    int value = 0;
    const std::string_view text = i + 1 < argc ? argv[++i] : "";
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < 1) refuse("a number from 1 on was expected behind an option");
    return value;
  };
  for (int i = 1; i < argc; ++i) {
    const std::string_view option = argv[i];
    if (option == "--ranks") problem.ranks = number(i);
    else if (option == "--ranks-per-node") problem.ranks_per_node = number(i);
    else if (option == "--points") problem.points = number(i);
    else if (option == "--layers" && i + 1 < argc) problem.two_layers = std::strcmp(argv[++i], "two") == 0;
    else refuse("usage: planner [--ranks N] [--ranks-per-node N] [--points N] [--layers two|one]");
  }
  for (problem.cells = 1; (problem.cells + 1) * (problem.cells + 1) <= problem.ranks;) ++problem.cells;
  if (problem.cells * problem.cells != problem.ranks) refuse("--ranks: a square number was expected");
  if (problem.points < problem.cells) refuse("--points: at least one for each cell along an edge was expected");
  return problem;
}

}  // namespace

int main(int argc, char** argv) {
  const Problem problem = parse(argc, argv);
  std::vector<int> node_of_rank;
  for (int rank = 0; rank < problem.ranks; ++rank) node_of_rank.push_back(rank / problem.ranks_per_node);
  const int nodes = node_of_rank.back() + 1;
  std::printf("{\"program\": \"planner\", \"ranks\": %d, \"ranks_per_node\": %d, \"points\": %lld, \"layers\": \"%s\", ", problem.ranks, problem.ranks_per_node,
              static_cast<long long>(problem.points), problem.two_layers ? "two" : "one");

  // What the others tell is made outside of what is measured.
  std::vector<Team> teams;
  std::vector<Told> members;
  for (int rank = 0; rank < problem.ranks; ++rank) {
    const access::Type type = type_of(problem, rank);
    members.push_back(describe(access::tile(type), type.size()));
    if (problem.two_layers && (rank + 1) % problem.ranks_per_node != 0 && rank + 1 < problem.ranks) continue;
    teams.push_back(team_of(problem.two_layers ? access::coalesce(read(members)).wholes : read(members)));
    members.clear();
  }
  const std::size_t size = problem.two_layers ? static_cast<std::size_t>(problem.ranks_per_node) : 1;
  for (std::size_t rank = 0; rank < size; ++rank) {
    const access::Type type = type_of(problem, static_cast<int>(rank));
    members.push_back(describe(access::tile(type), type.size()));
  }
  plan::Accessed all;
  std::size_t described = 0;
  for (const Team& team : teams) {
    all.end = std::max(all.end, team.facts.end);
    all.bytes += team.facts.bytes;
    all.team_span += (team.facts.end - team.facts.first) / static_cast<Offset>(teams.size());
    described += team.message.size();
  }
  all.told_bytes = static_cast<Offset>(described / teams.size());
  const plan::DomainRules rules{.aggregators = nodes, .window_bytes = Offset{16} << 20, .alignment_bytes = 4096};
  const plan::FileDomains domains = plan::domains_for(rules, all.first, all.end, nodes);
  const int place = domains.aggregators() / 2;
  std::vector<std::vector<std::byte>> told;
  std::size_t told_bytes = 0;
  for (const Team& team : teams)
    if (domains.reaches(team.facts.first, team.facts.end, place)) told_bytes += told.emplace_back(told_to(team, in_normal_form(team.claims), domains, place)).size();

  std::printf("\"teams\": %zu, \"described_bytes\": %zu, \"aggregators\": %d, \"told_bytes\": %zu, \"roles\": {", teams.size(), described,
              domains.aggregators(), told_bytes);
  {
    const access::Type own = type_of(problem, 0);
    const Meter meter;
    const plan::Placement placement = plan::place(node_of_rank, problem.ranks - 1, problem.two_layers ? 1 : 0, nodes);
    if (static_cast<int>(placement.global.size()) != nodes) refuse("a placement that cannot be");
    (void)describe(access::tile(own), own.size());
    meter.tell("rank");
  }
  {
    const Meter meter;
    const Team team = team_of(problem.two_layers ? access::coalesce(read(members)).wholes : read(members));
    if (tell_all(team, domains) == 0) refuse("a team that accesses nothing");
    meter.tell("local_aggregator");
  }
  {
    const Meter meter;
    const bool gapless = without_gaps(told);
    meter.tell("global_aggregator", true);
    return gapless || !problem.two_layers ? 0 : 1;
  }
}
