// The report of a closed file.
#include "mpi/report.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <vector>

#include "mpi/environment.h"

namespace penstock::mpi {

namespace {

using trace::Counter;
using trace::kCounterCount;
using trace::kCounterNames;
using trace::kPhaseCount;
using trace::kPhaseNames;

struct Sums {
  std::array<std::int64_t, kPhaseCount> phase_ns;
  std::array<std::int64_t, kCounterCount> counters;
};

/// What one rank contributes.
struct Share {
  std::array<Sums, trace::kDoings> of;  ///< by trace::Doing
  std::int64_t wall_ns;
  std::int64_t background_ns;
};

double seconds(std::int64_t ns) { return static_cast<double>(ns) * 1e-9; }

std::int64_t counter(const Sums& sum, Counter which) { return sum.counters[static_cast<std::size_t>(which)]; }

/// "mapped", or "mapped 90 %, independent 10 %" of the accesses.
std::string strategy_mix(const Sums& sum) {
  std::vector<std::pair<std::int64_t, const char*>> parts = {{counter(sum, Counter::kIndependent), "independent"},
                                                              {counter(sum, Counter::kMapped), "mapped"},
                                                              {counter(sum, Counter::kSieved), "sieved"},
                                                              {counter(sum, Counter::kTwoPhase), "two_phase"},
                                                              {counter(sum, Counter::kTwoLayer), "two_layer"}};
  std::erase_if(parts, [](const auto& part) { return part.first == 0; });
  std::sort(parts.rbegin(), parts.rend());
  if (parts.empty()) return "none";
  if (parts.size() == 1) return parts.front().second;
  std::int64_t all = 0;
  for (const auto& part : parts) all += part.first;
  std::string text;
  for (const auto& part : parts)
    text += (text.empty() ? "" : ", ") + std::string(part.second) + " " + std::to_string((100 * part.first + all / 2) / all) + " %";
  return text;
}

/// The phases and counters of `doings`, all ranks together.
struct Added {
  Sums sum{};
  Sums most{};  ///< of one rank, each phase by itself

  Added(const std::vector<Share>& shares, std::initializer_list<trace::Doing> doings) {
    for (const Share& share : shares) {
      Sums mine{};
      for (const trace::Doing doing : doings) {
        const Sums& part = share.of[static_cast<std::size_t>(doing)];
        for (std::size_t i = 0; i < kPhaseCount; ++i) mine.phase_ns[i] += part.phase_ns[i];
        for (std::size_t i = 0; i < kCounterCount; ++i) sum.counters[i] += part.counters[i];
      }
      for (std::size_t i = 0; i < kPhaseCount; ++i) {
        sum.phase_ns[i] += mine.phase_ns[i];
        most.phase_ns[i] = std::max(most.phase_ns[i], mine.phase_ns[i]);
      }
    }
  }

  [[nodiscard]] nlohmann::json phases() const {
    nlohmann::json phases;
    for (std::size_t i = 0; i < kPhaseCount; ++i) phases[std::string(kPhaseNames[i])] = {{"sum", seconds(sum.phase_ns[i])}, {"max", seconds(most.phase_ns[i])}};
    return phases;
  }
  [[nodiscard]] nlohmann::json counters() const {
    nlohmann::json counters;
    for (std::size_t i = 0; i < kCounterCount; ++i) counters[std::string(kCounterNames[i])] = sum.counters[i];
    return counters;
  }
  [[nodiscard]] nlohmann::json both() const { return {{"counters", counters()}, {"phases", phases()}}; }
};

nlohmann::json to_json(const OpenFile& open, const std::vector<Share>& shares) {
  using trace::Doing;
  Share sum{};
  Share most{};
  for (const Share& share : shares) {
    sum.wall_ns += share.wall_ns;
    most.wall_ns = std::max(most.wall_ns, share.wall_ns);
    sum.background_ns += share.background_ns;
    most.background_ns = std::max(most.background_ns, share.background_ns);
  }
  const Added all(shares, {Doing::kElse, Doing::kWriting, Doing::kReading});
  const file::File& file = *open.file;
  const auto ranks = static_cast<double>(shares.size());
  return {{"version", 1},
          {"kind", "file"},
          {"file", file.path()},
          {"store", "posix"},
          {"file_system", file.facts().file_system},
          {"mpi", PENSTOCK_FLAVOUR},
          {"ranks", shares.size()},
          {"nodes", const_cast<file::File&>(file).comm().topology().node_count},
          {"opened", open.opened_seconds},
          {"open_seconds", seconds(trace::now_ns() - open.trace->opened_at_ns)},
          {"strategy", strategy_mix(all.sum)},
          {"profile", file.facts().profile},
          {"counters", all.counters()},
          {"wall_seconds", {{"sum", seconds(sum.wall_ns)}, {"max", seconds(most.wall_ns)}, {"mean", seconds(sum.wall_ns) / ranks}}},
          {"phases", all.phases()},
          {"writing", Added(shares, {Doing::kWriting}).both()},
          {"reading", Added(shares, {Doing::kReading}).both()},
          {"background_seconds", {{"sum", seconds(sum.background_ns)}, {"max", seconds(most.background_ns)}}},
          {"hints", file.hints().effective},
          {"complaints", open.complaints},
          {"errors", open.errors}};
}

}  // namespace

void write_report(OpenFile& open) {
  if (open.trace == nullptr || open.file == nullptr) return;
  Share mine{};
  for (std::size_t doing = 0; doing < trace::kDoings; ++doing) {
    for (std::size_t i = 0; i < kPhaseCount; ++i) mine.of[doing].phase_ns[i] = open.trace->of[doing].phase_ns[i].load();
    for (std::size_t i = 0; i < kCounterCount; ++i) mine.of[doing].counters[i] = open.trace->of[doing].counters[i].load();
  }
  mine.wall_ns = open.trace->wall_ns.load();
  mine.background_ns = open.trace->background_ns.load();

  comm::Comm& group = open.file->comm();
  const bool first = group.topology().rank == 0;
  std::vector<Share> shares(first ? static_cast<std::size_t>(group.topology().size) : 0);
  if (!group.gather(&mine, sizeof mine, shares.data(), 0).ok() || !first) return;

  std::string line;
  try {
    // Names and hints are the program's bytes: what is not UTF-8 is replaced, not thrown over.
    line = to_json(open, shares).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  } catch (const std::exception& error) {
    log_line(std::string("report: ") + error.what());
    return;
  }
  const std::string& path = environment().report;
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (descriptor < 0 || ::write(descriptor, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    log_line("report: cannot append to " + path);
  if (descriptor >= 0) ::close(descriptor);
}

}  // namespace penstock::mpi
