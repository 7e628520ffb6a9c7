// Text helpers of the room.
#include "hints/names.h"

#include <algorithm>
#include <numeric>

namespace penstock::hints {
namespace {

constexpr std::string_view kWhiteSpace = " \t\r\n\v\f";

}  // namespace

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kWhiteSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kWhiteSpace) - first + 1);
}

std::string lower(std::string_view text) {
  std::string small(text);
  for (char& letter : small)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  return small;
}

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> found;
  for (;;) {
    text = trimmed(text);
    if (text.empty()) return found;
    found.push_back(text.substr(0, text.find_first_of(kWhiteSpace)));
    text.remove_prefix(found.back().size());
  }
}

std::string shown(std::string_view text) {
  constexpr std::size_t kLongest = 80;
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out = "\"";
  for (const char letter : text.substr(0, kLongest)) {
    const auto byte = static_cast<unsigned char>(letter);
    if (byte >= 0x20 && byte < 0x7f)
      out += letter;
    else
      out.append("\\x").append(1, kDigits[byte >> 4]).append(1, kDigits[byte & 15]);
  }
  return out + (text.size() > kLongest ? "...\"" : "\"");
}

int edit_distance(std::string_view one, std::string_view other) {
  constexpr std::size_t kLongest = 64;
  one = one.substr(0, kLongest);
  other = other.substr(0, kLongest);
  std::vector<int> row(other.size() + 1);  // distances of a beginning of `one` to all beginnings of `other`
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 0; i < one.size(); ++i) {
    int diagonal = row[0]++;
    for (std::size_t j = 0; j < other.size(); ++j) {
      const int replaced = diagonal + (one[i] == other[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace penstock::hints
