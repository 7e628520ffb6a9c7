// Hints by the table: what a value means, what stays in force, what to complain about.
//
// The map of canonical texts is the truth; the fields of Hints are read from it at the end.
#include "hints/hints.h"

#include <charconv>
#include <climits>
#include <optional>
#include <utility>

#include "hints/hint_table.h"
#include "hints/names.h"

namespace penstock::hints {
namespace {

constexpr std::string_view kPermissions = "file_perm";

bool is_one_of(std::string_view word, std::string_view list) {
  for (const std::string_view one : words(list))
    if (one == word) return true;
  return false;
}

const HintRow* row_of(std::string_view key) {
  for (const HintRow& row : kHintRows)
    if (row.name == key || is_one_of(key, row.aliases)) return &row;
  return nullptr;
}

// --- From what somebody wrote to the canonical text; nothing when it cannot be meant. ------------------------------------------------

using Canonical = std::optional<std::string>;

Canonical switch_value(std::string_view value) {
  const std::string word = lower(value);
  if (is_one_of(word, "enable true yes 1")) return "enable";
  if (is_one_of(word, "disable false no 0")) return "disable";
  if (is_one_of(word, "automatic auto")) return "automatic";
  return std::nullopt;
}

Canonical choice_value(const HintRow& row, std::string_view value) {
  std::string word = lower(value);
  if (is_one_of(word, row.choices)) return word;
  return std::nullopt;
}

std::optional<int> shift_of(std::string_view suffix) {
  const std::string word = lower(suffix);
  if (word.empty()) return 0;
  if (word == "k" || word == "kib") return 10;
  if (word == "m" || word == "mib") return 20;
  if (word == "g" || word == "gib") return 30;
  return std::nullopt;
}

Canonical number_value(const HintRow& row, std::string_view value) {
  Offset number = 0;
  const char* const end = value.data() + value.size();
  const auto [stopped, error] = std::from_chars(value.data(), end, number);
  if (error != std::errc()) return std::nullopt;
  const std::string_view suffix(stopped, static_cast<std::size_t>(end - stopped));
  const std::optional<int> shift = row.type == "bytes" || suffix.empty() ? shift_of(suffix) : std::nullopt;
  if (!shift || !checked_multiply(number, Offset{1} << *shift, number)) return std::nullopt;
  if (number < row.minimum || number > row.maximum) return std::nullopt;
  return std::to_string(number);
}

std::optional<int> permission_bits(std::string_view value) {
  constexpr int kAllBits = 07777;
  int bits = 0;
  const char* const end = value.data() + value.size();
  const auto [stopped, error] = std::from_chars(value.data(), end, bits, 8);
  if (error != std::errc() || stopped != end || bits < 0 || bits > kAllBits) return std::nullopt;
  return bits;
}

Canonical canonical(const HintRow& row, std::string_view value) {
  if (value.find('\0') != std::string_view::npos) return std::nullopt;
  if (row.type == "switch") return switch_value(value);
  if (row.type == "choice") return choice_value(row, value);
  if (row.type == "bytes" || row.type == "count") return number_value(row, value);
  if (row.name == kPermissions && !permission_bits(value)) return std::nullopt;
  if (row.type == "nodes") {
    const std::optional<std::vector<NodeLimit>> list = parse_config_list(value);
    return list ? Canonical(text_of(*list)) : std::nullopt;
  }
  return std::string(value);
}

// --- Complaints. -----------------------------------------------------------------------------------------------------------------

std::string limits(const HintRow& row, std::string_view what) {
  std::string text(what);
  text += " of at least " + std::to_string(row.minimum);
  if (row.maximum != INT64_MAX) text += " and at most " + std::to_string(row.maximum);
  return text;
}

std::string expected(const HintRow& row) {
  if (row.type == "switch") return "enable, disable or automatic";
  if (row.type == "choice") {
    std::string list;
    for (const std::string_view choice : words(row.choices)) list.append(list.empty() ? "" : ", ").append(choice);
    return list;
  }
  if (row.type == "bytes") return limits(row, "a number of bytes, plain or with k, m or g behind it,");
  if (row.type == "count") return limits(row, "a number");
  if (row.type == "nodes") return "entries like node:number joined by commas, where * stands for all other nodes or for all ranks of a node";
  if (row.name == kPermissions) return "permission bits as octal digits, 7777 at most";
  return "text without a zero byte";
}

std::string start_of_complaint(const Given& given) { return "hint " + shown(given.key) + " from " + given.source + ": "; }

std::string bad_value(const Given& given, const HintRow& row, const Hints& in_force) {
  const auto kept = in_force.effective.find(std::string(row.name));
  return start_of_complaint(given) + "the value " + shown(given.value) + " was ignored; expected " + expected(row) + "; " +
         (kept == in_force.effective.end() ? "none is in force" : kept->second + " stays in force");
}

bool is_ours(std::string_view key) {
  constexpr std::string_view kStart = "penstock";
  return lower(key.substr(0, kStart.size())) == kStart;
}

// Only names that start as ours do: what a misspelt one can have been meant for.
std::string_view nearest_name(std::string_view key) {
  const std::string small = lower(key);
  std::string_view nearest;
  int least = INT_MAX;
  const auto consider = [&](std::string_view name) {
    if (!is_ours(name)) return;
    const int distance = edit_distance(small, name);
    if (distance >= least) return;
    least = distance;
    nearest = name;
  };
  for (const HintRow& row : kHintRows) {
    if (row.type == "fact") continue;
    consider(row.name);
    for (const std::string_view alias : words(row.aliases)) consider(alias);
  }
  return nearest;
}

// --- The fields. -------------------------------------------------------------------------------------------------------------------

std::string_view in_force(const Hints& hints, std::string_view name) {
  const auto found = hints.effective.find(std::string(name));
  return found == hints.effective.end() ? std::string_view() : std::string_view(found->second);
}

Switch switch_in_force(const Hints& hints, std::string_view name) {
  const std::string_view value = in_force(hints, name);
  return value == "enable" ? Switch::kEnable : value == "disable" ? Switch::kDisable : Switch::kAutomatic;
}

Offset bytes_in_force(const Hints& hints, std::string_view name, Offset otherwise) {
  const std::string_view value = in_force(hints, name);
  Offset number = otherwise;
  std::from_chars(value.data(), value.data() + value.size(), number);
  return number;
}

void read_fields(Hints& hints) {
  hints.strategy = Strategy::kAutomatic;
  for (const Strategy strategy : {Strategy::kIndependent, Strategy::kMapped, Strategy::kSieved, Strategy::kTwoPhase, Strategy::kTwoLayer})
    if (in_force(hints, "penstock_strategy") == name(strategy)) hints.strategy = strategy;
  hints.bypass = switch_in_force(hints, "penstock_bypass") == Switch::kEnable;
  hints.read_buffer_bytes = bytes_in_force(hints, "ind_rd_buffer_size", hints.read_buffer_bytes);
  hints.write_buffer_bytes = bytes_in_force(hints, "ind_wr_buffer_size", hints.write_buffer_bytes);
  hints.collective_buffer_bytes = bytes_in_force(hints, "cb_buffer_size", hints.collective_buffer_bytes);
  hints.aggregators = static_cast<int>(bytes_in_force(hints, "cb_nodes", hints.aggregators));
  hints.local_aggregators = static_cast<int>(bytes_in_force(hints, "penstock_local_aggregators", hints.local_aggregators));
  hints.config_list = parse_config_list(in_force(hints, "cb_config_list")).value_or(std::vector<NodeLimit>());
  hints.interfaces = static_cast<int>(bytes_in_force(hints, "penstock_interfaces", hints.interfaces));
  hints.profile = std::string(in_force(hints, "penstock_profile"));
  hints.learn = switch_in_force(hints, "penstock_learn");
  hints.stripe_bytes = bytes_in_force(hints, "striping_unit", 0);
  hints.stripe_count = static_cast<int>(bytes_in_force(hints, "striping_factor", 0));
  hints.first_device = static_cast<int>(bytes_in_force(hints, "start_iodevice", -1));
  hints.sieve_reads = switch_in_force(hints, "romio_ds_read");
  hints.sieve_writes = switch_in_force(hints, "romio_ds_write");
  hints.no_atime = switch_in_force(hints, "penstock_no_atime");
  hints.permissions = permission_bits(in_force(hints, kPermissions)).value_or(-1);
}

void apply_one(const Given& given, When when, Parsed& parsed) {
  const HintRow* row = row_of(given.key);
  if (row == nullptr) {
    if (is_ours(given.key))
      parsed.complaints.push_back(start_of_complaint(given) + "there is no such hint; did you mean " +
                                  std::string(nearest_name(given.key)) + "?");
    return;
  }
  if (row->type == "fact") return;
  Canonical value = canonical(*row, trimmed(given.value));
  if (!value) {
    parsed.complaints.push_back(bad_value(given, *row, parsed.hints));
    return;
  }
  const bool too_late = when == When::kLater && row->scope == "open";
  if (!too_late)
    parsed.hints.effective.insert_or_assign(std::string(row->name), std::move(*value));
  else if (is_ours(given.key) && in_force(parsed.hints, row->name) != *value)
    parsed.complaints.push_back(start_of_complaint(given) + "it can be given when the file is opened only; " +
                                std::string(in_force(parsed.hints, row->name)) + " stays in force");
}

}  // namespace

std::string_view name(Strategy strategy) {
  switch (strategy) {
    case Strategy::kAutomatic:
      return "automatic";
    case Strategy::kIndependent:
      return "independent";
    case Strategy::kMapped:
      return "mapped";
    case Strategy::kSieved:
      return "sieved";
    case Strategy::kTwoPhase:
      return "two_phase";
    case Strategy::kTwoLayer:
      return "two_layer";
  }
  return "automatic";
}

Parsed apply(const Hints& base, const std::vector<Given>& given, When when) {
  Parsed parsed{.hints = base, .complaints = {}};
  for (const Given& one : given) apply_one(one, when, parsed);
  // An empty text is how a hint is taken back; MPI_Info cannot tell it.
  std::erase_if(parsed.hints.effective, [](const auto& pair) { return pair.second.empty(); });
  read_fields(parsed.hints);
  return parsed;
}

Hints defaults() {
  Hints hints;
  for (const HintRow& row : kHintRows)
    if (!row.default_value.empty()) hints.effective.emplace(row.name, row.default_value);
  read_fields(hints);
  return hints;
}

}  // namespace penstock::hints
