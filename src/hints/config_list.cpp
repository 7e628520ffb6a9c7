// Entries and numbers.
#include "hints/config_list.h"

#include <charconv>

#include "hints/names.h"

namespace penstock::hints {
namespace {

constexpr std::string_view kAll = "*";
/// Longer than any host name, and so many that no list written by hand has them.
constexpr std::size_t kNameBytesMax = 255;
constexpr std::size_t kEntriesMax = 65536;

bool is_name(std::string_view text) {
  if (text.empty() || text.size() > kNameBytesMax) return false;
  for (const char letter : text) {
    const bool fits = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') || (letter >= '0' && letter <= '9') || letter == '-' ||
                      letter == '_' || letter == '.';
    if (!fits) return false;
  }
  return true;
}

std::optional<int> number_of(std::string_view text) {
  if (text == kAll) return INT_MAX;
  int number = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stopped != end || number < 0) return std::nullopt;
  return number;
}

std::optional<NodeLimit> entry_of(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::string_view node = trimmed(text.substr(0, colon));
  const std::optional<int> most = colon == std::string_view::npos ? 1 : number_of(trimmed(text.substr(colon + 1)));
  if (!most || (node != kAll && !is_name(node))) return std::nullopt;
  return NodeLimit{node == kAll ? "" : std::string(node), *most};
}

}  // namespace

std::optional<std::vector<NodeLimit>> parse_config_list(std::string_view text) {
  std::vector<NodeLimit> list;
  for (;;) {
    const std::size_t comma = text.find(',');
    std::optional<NodeLimit> entry = entry_of(text.substr(0, comma));
    if (!entry || list.size() == kEntriesMax) return std::nullopt;
    list.push_back(std::move(*entry));
    if (comma == std::string_view::npos) return list;
    text.remove_prefix(comma + 1);
  }
}

std::string text_of(const std::vector<NodeLimit>& list) {
  std::string text;
  for (const NodeLimit& entry : list) {
    if (!text.empty()) text += ",";
    text += entry.node.empty() ? kAll : entry.node;
    text += ":" + (entry.most == INT_MAX ? std::string(kAll) : std::to_string(entry.most));
  }
  return text;
}

}  // namespace penstock::hints
