// Queues of a pretended device as points in time, and the text form of profiles.
#include "store/emulated/device.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>

#include "store/emulated/device_table.h"

namespace penstock::store {

namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
/// Nobody queues that much: what says so is left over from before the clock began anew.
constexpr std::int64_t kLongestQueueNs = 3600 * kSecond;
constexpr double kMostMegabytesPerSecond = 1e6;
constexpr double kMostRequestsPerSecond = 1e9;
constexpr double kMostLatencyUs = 6e7;
constexpr std::size_t kMostLettersOfAName = 32;

/// Adds `duration` to a queue that is worked off until `until`; when the last of it is done.
std::int64_t queue_up(std::atomic<std::int64_t>& until, std::int64_t now, std::int64_t duration, std::int64_t forgiven) {
  std::int64_t old = until.load(std::memory_order_relaxed);
  for (;;) {
    const bool at_rest = old < now - forgiven || old > now + kLongestQueueNs;
    const std::int64_t done = (at_rest ? now : old) + duration;
    if (until.compare_exchange_weak(old, done, std::memory_order_relaxed)) return done;
  }
}

std::int64_t time_to_move(std::size_t bytes, std::int64_t bytes_per_second) {
  if (bytes_per_second <= 0) return 0;
  return static_cast<std::int64_t>(static_cast<double>(bytes) / static_cast<double>(bytes_per_second) * kSecond);
}

Status bad_word(std::string_view word, const std::string& expected) {
  return Status::failure(Code::kInfo, "device setting '" + std::string(word) + "': expected " + expected);
}

std::string names_of_profiles() {
  std::string names;
  for (const DeviceRow& row : kDeviceRows) names += (names.empty() ? "" : ", ") + std::string(row.name);
  return names;
}

/// A decimal number between 0 and `most`.
bool parse_number(std::string_view text, double most, double& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  return error == std::errc() && end == text.data() + text.size() && std::isfinite(number) && number >= 0 && number <= most;
}

bool is_name(std::string_view text) {
  const auto fine = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  };
  return !text.empty() && text.size() <= kMostLettersOfAName && std::all_of(text.begin(), text.end(), fine);
}

Status take_number(std::string_view word, std::string_view value, double most, double unit, std::int64_t& number) {
  double given = 0;
  if (!parse_number(value, most, given))
    return bad_word(word, "a number from 0 to " + std::to_string(static_cast<std::int64_t>(most)));
  number = std::llround(given * unit);
  if (given > 0 && number == 0) return bad_word(word, "0, which takes the limit away, or a larger number");
  return {};
}

Status take_setting(std::string_view word, DeviceProfile& profile) {
  const std::size_t equals = word.find('=');
  const std::string_view key = word.substr(0, equals);
  const std::string_view value = equals == std::string_view::npos ? std::string_view() : word.substr(equals + 1);
  if (key == "rate") return take_number(word, value, kMostMegabytesPerSecond, 1e6, profile.bytes_per_second);
  if (key == "iops") return take_number(word, value, kMostRequestsPerSecond, 1, profile.requests_per_second);
  if (key == "latency") return take_number(word, value, kMostLatencyUs, 1e3, profile.random_latency_ns);
  if (key == "sequential_latency") return take_number(word, value, kMostLatencyUs, 1e3, profile.sequential_latency_ns);
  if (key == "serial" && (value == "yes" || value == "no")) {
    profile.serial = value == "yes";
    return {};
  }
  if (key == "serial") return bad_word(word, "serial=yes or serial=no");
  if (key == "name" && is_name(value)) {
    profile.name = value;
    return {};
  }
  if (key == "name") return bad_word(word, "letters, digits, '-' and '_', at most " + std::to_string(kMostLettersOfAName));
  return bad_word(word, "a profile (" + names_of_profiles() + ") at the beginning, or rate=MB/s, iops=N, latency=US, sequential_latency=US, serial=yes|no, name=WORD");
}

DeviceProfile profile_of(const DeviceRow& row) {
  DeviceProfile profile;
  profile.name = row.name;
  profile.bytes_per_second = row.megabytes_per_second * 1'000'000;
  profile.requests_per_second = row.requests_per_second;
  profile.random_latency_ns = row.random_latency_us * 1000;
  profile.sequential_latency_ns = row.sequential_latency_us * 1000;
  profile.serial = row.serial;
  return profile;
}

}  // namespace

Result<DeviceProfile> parse_device(std::string_view text) {
  DeviceProfile profile;
  for (bool first = true;; first = false) {
    const std::size_t comma = text.find(',');
    const std::string_view word = text.substr(0, comma);
    const auto* const row = std::find_if(std::begin(kDeviceRows), std::end(kDeviceRows),
                                         [&](const DeviceRow& candidate) { return candidate.name == word; });
    if (first && row != std::end(kDeviceRows)) {
      profile = profile_of(*row);
    } else {
      PENSTOCK_TRY(take_setting(word, profile));
    }
    if (comma == std::string_view::npos) return profile;
    text.remove_prefix(comma + 1);
  }
}

Pace pace_of(const DeviceProfile& profile) {
  constexpr double kNanosecond = 1e-9;
  constexpr double kWithoutLimit = 1e6;
  Pace pace;
  pace.call_seconds = static_cast<double>(profile.sequential_latency_ns) * kNanosecond;
  pace.random_call_seconds = static_cast<double>(profile.random_latency_ns) * kNanosecond;
  if (profile.bytes_per_second > 0) pace.per_byte_seconds = 1 / static_cast<double>(profile.bytes_per_second);
  const double requests = static_cast<double>(profile.requests_per_second);
  pace.requests_at_once = requests > 0 ? std::max(1.0, pace.random_call_seconds * requests) : kWithoutLimit;
  return pace;
}

std::uint64_t place_of(std::uint64_t file, Offset offset) {
  // Files that are numbered one after the other must not lie one after the other on the device.
  std::uint64_t mixed = file + 0x9e3779b97f4a7c15U;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9U;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebU;
  return (mixed ^ (mixed >> 31)) + static_cast<std::uint64_t>(offset);
}

std::int64_t take_request(const DeviceProfile& profile, DeviceState& state, std::int64_t now_ns, std::uint64_t file, Offset offset, std::size_t bytes,
                          std::int64_t& own_ns) {
  const std::uint64_t begin = place_of(file, offset);
  const bool continues = state.head.exchange(begin + bytes, std::memory_order_relaxed) == begin;
  const std::int64_t each = profile.requests_per_second > 0 ? kSecond / profile.requests_per_second : 0;
  const std::int64_t seek = profile.serial && !continues ? each : 0;
  own_ns += continues ? profile.sequential_latency_ns : profile.random_latency_ns;
  std::int64_t done = std::max(own_ns, queue_up(state.bytes_until_ns, now_ns, seek + time_to_move(bytes, profile.bytes_per_second), profile.forgiven_idle_ns));
  if (!profile.serial && each > 0) done = std::max(done, queue_up(state.requests_until_ns, now_ns, each, profile.forgiven_idle_ns));
  return done;
}

}  // namespace penstock::store
