// In a file: one line for each signature: whose it is, the signature, the way in use, the ratios of each way.  In the process: a short list, the last one in front.
#include "file/learned.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>
#include <vector>

#include "model/profile.h"

namespace penstock::file {

namespace {

namespace fs = std::filesystem;
using plan::Experience;

constexpr std::string_view kFirstLine = "penstock learned 1";
constexpr std::size_t kLinesMost = 64;
constexpr int kLogarithmMost = 63;

std::string plain(std::string_view name) {
  std::string text;
  for (const char letter : name.substr(0, 64)) text += std::isalnum(static_cast<unsigned char>(letter)) != 0 ? letter : '_';
  return text;
}

std::string state_directory() {
  const char* state = std::getenv("XDG_STATE_HOME");
  if (state != nullptr && state[0] == '/') return std::string(state) + "/penstock/learned";
  const char* home = std::getenv("HOME");
  return home != nullptr && home[0] == '/' ? std::string(home) + "/.local/state/penstock/learned" : std::string();
}

bool read_line(const std::string& line, std::string& whose, Experience::Known& known) {
  std::istringstream words(line);
  int write = 0, fresh = 0, bytes = 0, piece = 0, distance = 0, current = 0;
  if (!(words >> whose >> write >> fresh >> bytes >> piece >> distance >> current)) return false;
  for (const int logarithm : {bytes, piece, distance})
    if (logarithm < 0 || logarithm > kLogarithmMost) return false;
  if (current < -1 || current >= static_cast<int>(model::kWayNames.size())) return false;
  known = {};
  known.signature = {write != 0, fresh != 0, static_cast<std::int8_t>(bytes), static_cast<std::int8_t>(piece), static_cast<std::int8_t>(distance)};
  known.current = static_cast<std::int8_t>(current);
  for (auto& ratios : known.ratios)
    for (float& ratio : ratios)
      if (!(words >> ratio)) return false;
  return true;
}

void write_lines(std::ostream& out, const char* whose, std::span<const Experience::Known> known) {
  for (const Experience::Known& one : known) {
    const plan::Signature& signature = one.signature;
    out << whose << ' ' << signature.write << ' ' << signature.fresh << ' ' << int{signature.bytes} << ' ' << int{signature.piece} << ' '
        << int{signature.distance} << ' ' << int{one.current};
    for (const auto& ratios : one.ratios)
      for (const float ratio : ratios) out << ' ' << ratio;
    out << '\n';
  }
}

void read_into(Learned& learned, std::istream& lines) {
  std::string line;
  if (!std::getline(lines, line) || line != kFirstLine) return;
  for (std::size_t count = 0; count < kLinesMost && std::getline(lines, line); ++count) {
    std::string whose;
    Experience::Known known;
    if (!read_line(line, whose, known)) continue;
    const bool own = whose == "own";
    if (!own && whose != "together") continue;
    std::int32_t& place = own ? learned.own_count : learned.together_count;
    if (static_cast<std::size_t>(place) < Experience::kKept) (own ? learned.own : learned.together)[static_cast<std::size_t>(place++)] = known;
  }
}

/// Of this process.  Never destroyed: files may be closed while the program ends.
struct Process {
  struct Entry {
    LikeFiles files;
    Learned learned;
  };
  std::mutex mutex;
  std::vector<Entry> entries;

  static Process& get() {
    static auto* const process = new Process;
    return *process;
  }
  auto find(const LikeFiles& files) {
    return std::find_if(entries.begin(), entries.end(), [&](const Entry& entry) { return entry.files == files; });
  }
};

std::int32_t take_over(std::span<const Experience::Known> known, Learned::Kept& kept) {
  const std::size_t count = std::min(known.size(), kept.size());
  std::copy_n(known.begin(), count, kept.begin());
  return static_cast<std::int32_t>(count);
}

}  // namespace

std::string learned_path(const std::string& file_system, const std::string& profile, int ranks, int nodes) {
  const std::string directory = state_directory();
  if (directory.empty()) return {};
  char host[256] = {};
  (void)gethostname(host, sizeof host - 1);
  return directory + "/" + plain(model::machine_of(host)) + "-" + plain(file_system) + "-" + plain(profile) + "-" + std::to_string(ranks) + "x" +
         std::to_string(nodes);
}

Learned read_learned(const std::string& path) {
  Learned learned;
  try {
    std::ifstream lines(path);
    if (lines) read_into(learned, lines);
  } catch (const std::exception&) {
    learned = {};
  }
  return learned;
}

Learned recall_from_process(const LikeFiles& files) {
  Process& process = Process::get();
  const std::lock_guard guard(process.mutex);
  const auto found = process.find(files);
  return found == process.entries.end() ? Learned() : found->learned;
}

void keep_in_process(const LikeFiles& files, std::span<const Experience::Known> own, std::span<const Experience::Known> together, int local_per_node) {
  Learned learned;
  learned.local_per_node = local_per_node;
  learned.own_count = take_over(own, learned.own);
  learned.together_count = take_over(together, learned.together);
  Process& process = Process::get();
  const std::lock_guard guard(process.mutex);
  if (const auto found = process.find(files); found != process.entries.end()) process.entries.erase(found);
  process.entries.insert(process.entries.begin(), {files, learned});
  if (process.entries.size() > kLikeFilesKept) process.entries.pop_back();
}

bool write_learned(const std::string& path, std::span<const Experience::Known> own, std::span<const Experience::Known> together) {
  try {
    std::error_code error;
    fs::create_directories(fs::path(path).parent_path(), error);
    // A name that nobody else has: neither a thread of this process that closes another file, nor a process of another node with the same home.
    std::string fresh = path + ".XXXXXX";
    const int made = mkstemp(fresh.data());
    if (made < 0) return false;
    (void)::close(made);
    {
      std::ofstream out(fresh, std::ios::trunc);
      out << kFirstLine << '\n';
      write_lines(out, "own", own);
      write_lines(out, "together", together);
      out.close();
      if (!out) error = std::make_error_code(std::errc::io_error);
    }
    if (!error) fs::rename(fresh, path, error);
    if (error) {
      std::error_code ignored;
      fs::remove(fresh, ignored);
    }
    return !error;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace penstock::file
