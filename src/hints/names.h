// Names and values as people write them: trimming, comparing, showing.  Knows nothing of what hints mean.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace penstock::hints {

/// Without white space at both ends.
std::string_view trimmed(std::string_view text);

/// ASCII letters made small; independent of the locale.
std::string lower(std::string_view text);

/// The pieces of `text` between runs of white space.
std::vector<std::string_view> words(std::string_view text);

/// `text` in quotes, fit for a message: cut when long, with whatever is not printable written as \xNN.
std::string shown(std::string_view text);

/// How many letters have to be put in, left out or replaced to make one of the other.  Looks at the first 64 letters of each.
int edit_distance(std::string_view one, std::string_view other);

}  // namespace penstock::hints
