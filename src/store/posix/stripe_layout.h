// How a file is striped over storage targets: what Lustre says of a file, taken apart.  Knows nothing of MPI, ranks or hints.
//
// Lustre tells the layout as the extended attribute "lustre.lov", little-endian: a plain layout, or a composite one (a progressive file layout), whose
// components each have a part of the file and a plain layout of their own; parts of mirrors overlap.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/units.h"

namespace penstock::store {

/// A part of the file whose stripes lie on its targets in turn.  Stripe 0 begins at the start of the file, also where the part begins later.
struct StripedPart {
  Offset first = 0;
  Offset end = INT64_MAX;    ///< INT64_MAX: up to the end of the file, however far that is
  Offset stripe_bytes = 0;   ///< 0: not striped; small files' data can lie with the metadata
  int stripe_count = 0;      ///< 0: not known before something is written ("over all targets")
  std::vector<std::uint32_t> targets;  ///< of each stripe of a turn; empty when they are not chosen yet
  bool overstriped = false;  ///< a target may have several stripes of a turn
  bool operator==(const StripedPart&) const = default;
};

struct StripeLayout {
  std::vector<StripedPart> parts;  ///< without those that nobody reads or writes: stale mirrors, and space set aside to grow into
  bool operator==(const StripeLayout&) const = default;
};

/// Takes the value of the extended attribute apart.  Fails with kIo on anything that is not a whole layout of a known kind; looks at nothing beyond
/// `value`, whatever that says of its own sizes.
Result<StripeLayout> parse_layout(std::span<const std::byte> value);

/// A layout as people write one, for tests and trials: "SIZE:COUNT" for the whole file, or parts "FIRST-END:SIZE:COUNT" joined by commas, as
/// "0-64m:1m:1,64m-eof:4m:8".  Sizes may end in k, m or g.  "COUNT/TARGETS" is overstriped: so many stripes in turn on fewer targets.
/// Fails with kArgument.
Result<StripeLayout> layout_of_text(std::string_view text);

/// The part that planning goes by: the one with most of [first, end), the earlier of equals, among those whose stripes are known; null without one.
/// Where the file may still be written anywhere, that is the part of the largest extent (give [0, INT64_MAX)): a progressive layout has its widest there, and
/// files that are worth aggregating reach it.
const StripedPart* part_for(const StripeLayout& layout, Offset first, Offset end);

/// How many different targets have stripes of a turn.
int target_count(const StripedPart& part);

/// What Lustre says of an open file, by its descriptor; nothing where it says nothing that can be understood: then the file is treated as not striped.
std::optional<StripeLayout> read_layout(int descriptor);

/// What somebody who creates a file wants of its layout.
struct LayoutWish {
  Offset stripe_bytes = 0;  ///< 0: as the file system likes
  int stripe_count = 0;     ///< 0: as the file system likes; -1: all targets
  int first_target = -1;    ///< -1: as the file system likes
  [[nodiscard]] bool any() const { return stripe_bytes > 0 || stripe_count != 0 || first_target >= 0; }
};

/// The wish as Lustre takes it, in this machine's byte order; zero or all ones in a field means as the file system likes.
inline constexpr std::size_t kWishBytes = 32;
std::array<std::byte, kWishBytes> message_of(const LayoutWish& wish);

/// Flags for open(2) of a new file in the directory of `path` so that its layout can still be set; 0 where that is not on Lustre.
int flags_to_set_layout(const std::string& path);
/// Sets the layout of a file that was just created with these flags.  A file that has a layout already changes nothing, nor does a wish that the file
/// system refuses: whoever wants to know reads the layout then.  False when the file may have none still: it cannot be written by a descriptor with these flags.
bool set_layout(int descriptor, const LayoutWish& wish);

}  // namespace penstock::store
