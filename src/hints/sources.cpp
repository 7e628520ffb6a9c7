// Where hints come from, as text: the environment variable, a hints file, and what stands before a colon in a file name.
#include <fnmatch.h>

#include <algorithm>

#include "hints/hint_table.h"
#include "hints/hints.h"
#include "hints/names.h"

namespace penstock::hints {
namespace {

constexpr std::string_view kVariable = "PENSTOCK_HINTS";

struct Entry {
  std::string_view glob;
  std::string_view key;
  std::string_view value;
};

std::size_t last_plain_colon(std::string_view text) {
  for (std::size_t position = text.size(); position-- > 0;)
    if (text[position] == ':' && (position == 0 || text[position - 1] != '\\')) return position;
  return std::string_view::npos;
}

// The value may hold colons and equals signs, so the first equals sign ends the key.
Result<Entry> entry_of(std::string_view text) {
  const std::size_t equals = text.find('=');
  const std::string_view head = text.substr(0, equals);
  const std::size_t colon = last_plain_colon(head);
  Entry entry{.glob = "*", .key = trimmed(head), .value = {}};
  if (colon != std::string_view::npos) {
    entry.glob = head.substr(0, colon);
    entry.key = trimmed(head.substr(colon + 1));
  }
  if (equals == std::string_view::npos || entry.key.empty() || entry.glob.empty())
    return Status::failure(Code::kInfo, std::string(kVariable) + ": the entry " + shown(text) +
                                            " was not understood; expected glob:key=value or key=value");
  entry.value = trimmed(text.substr(equals + 1));
  return entry;
}

bool fits(std::string_view glob, std::string_view file_name) {
  const std::string pattern(glob);
  const std::string whole(file_name);
  if (fnmatch(pattern.c_str(), whole.c_str(), 0) == 0) return true;
  const std::string path = split_prefix(file_name).path;
  return fnmatch(pattern.c_str(), path.c_str() + (path.rfind('/') + 1), 0) == 0;  // npos + 1 is 0
}

}  // namespace

Result<std::vector<Given>> from_environment_text(std::string_view text, std::string_view file_name) {
  std::vector<Given> given;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(";\n"), text.size());
    const std::string_view piece = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (piece.empty()) continue;
    const Result<Entry> entry = entry_of(piece);
    if (!entry.ok()) return entry.status();
    if (fits(entry->glob, file_name))
      given.push_back({std::string(entry->key), std::string(entry->value), std::string(kVariable)});
  }
  return given;
}

std::vector<Given> from_hints_file(std::string_view text, std::string_view source, std::vector<std::string>& complaints) {
  std::vector<Given> given;
  for (int line_number = 1; !text.empty(); ++line_number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::vector<std::string_view> line = words(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    for (std::size_t word = 0; word < line.size(); ++word)
      if (line[word].front() == '#') line.resize(word);
    if (line.empty()) continue;
    const std::string ignored =
        std::string(source) + ", line " + std::to_string(line_number) + ": " + shown(line.front()) + " was ignored; ";
    if (line.size() != 2)
      complaints.push_back(ignored + "expected a key and a value, one word each");
    else if (std::ranges::any_of(given, [&](const Given& earlier) { return earlier.key == line[0]; }))
      complaints.push_back(ignored + "an earlier line gives it");  // as ROMIO reads its files: the first counts
    else
      given.push_back({std::string(line[0]), std::string(line[1]), std::string(source)});
  }
  return given;
}

FileName split_prefix(std::string_view name) {
  const std::size_t colon = name.find(':');
  if (colon != std::string_view::npos)
    for (const std::string_view prefix : kPrefixes)
      if (name.substr(0, colon) == prefix) return {std::string(prefix), std::string(name.substr(colon + 1))};
  return {"", std::string(name)};
}

}  // namespace penstock::hints
