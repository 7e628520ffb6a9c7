// The format, as Lustre's public user header (lustre_user.h) and manual describe it.  All offsets are bytes from the start of the structure they are in.
//
//   plain      0 magic 4 | 4 pattern 4 | 8 id 16 | 24 stripe size 4 | 28 stripe count 2 | 30 generation 2 | [V3: 32 pool name 16] | objects
//   object     0 id 16 | 16 generation 4 | 20 index of the target 4
//   composite  0 magic 4 | 4 size 4 | 8 generation 4 | 12 flags 2 | 14 number of entries 2 | 16 mirrors and padding 16 | entries
//   entry      0 id 4 | 4 flags 4 | 8 first 8 | 16 end 8 (all ones: end of file) | 24 offset of a plain layout in the composite one 4 | 28 its size 4 |
//              32 generation, time and more 16
#include "store/posix/stripe_layout.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/vfs.h>
#include <sys/xattr.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

namespace penstock::store {

namespace {

using Bytes = std::span<const std::byte>;

constexpr std::uint32_t kMagicV1 = 0x0BD10BD0;
constexpr std::uint32_t kMagicV3 = 0x0BD30BD0;
constexpr std::uint32_t kMagicComposite = 0x0BD60BD0;
constexpr std::uint32_t kMagicForeign = 0x0BD70BD0;  ///< a component that lies in another system altogether

constexpr std::uint32_t kPatternStriped = 0x001;
constexpr std::uint32_t kPatternWithMetadata = 0x100;
constexpr std::uint32_t kPatternOverstriped = 0x200;
constexpr std::uint32_t kPatternCompressed = 0x800;
constexpr std::uint32_t kPatternReleased = 0x80000000;  ///< archived: there are no objects now
constexpr std::uint32_t kPatternKinds = 0x0000ffff;

constexpr std::uint32_t kEntryStale = 0x01;
constexpr std::uint32_t kEntryHasObjects = 0x10;
constexpr std::uint32_t kEntryToGrowInto = 0x40;

constexpr std::size_t kPlainBytes = 32, kPlainV3Bytes = 48, kObjectBytes = 24, kCompositeBytes = 32, kEntryBytes = 48;
/// From here on a count is a negative number in disguise: "all targets", "the default".
constexpr int kCountsNothing = 65532;
constexpr std::uint64_t kEndOfFile = UINT64_MAX;

Status malformed(const std::string& what) {
  return Status::failure(Code::kIo, "the file's Lustre layout cannot be understood: " + what + "; it is treated as not striped");
}

/// The number at `offset`.  Requires: it lies within `bytes`.
template <typename Number>
Number number_at(Bytes bytes, std::size_t offset) {
  Number number = 0;
  for (std::size_t i = sizeof(Number); i-- > 0;) number = static_cast<Number>(number << 8 | std::to_integer<Number>(bytes[offset + i]));
  return number;
}

/// `has_objects`: the targets have been chosen.  Nothing in `part` is a part that does not count.
Status parse_plain(Bytes bytes, bool has_objects, std::optional<StripedPart>& part) {
  if (bytes.size() < kPlainBytes) return malformed(std::to_string(bytes.size()) + " bytes are less than the " + std::to_string(kPlainBytes) + " of a plain layout");
  const auto magic = number_at<std::uint32_t>(bytes, 0);
  if (magic != kMagicV1 && magic != kMagicV3) return malformed("magic number " + std::to_string(magic) + " is not that of a plain layout");
  const std::size_t header = magic == kMagicV1 ? kPlainBytes : kPlainV3Bytes;
  if (bytes.size() < header) return malformed("it ends within the name of its pool");
  const auto pattern = number_at<std::uint32_t>(bytes, 4);
  const std::uint32_t kind = pattern & kPatternKinds & ~(kPatternOverstriped | kPatternCompressed);
  part.emplace();
  if (kind == kPatternWithMetadata) return {};
  if (kind != kPatternStriped) {
    part.reset();
    return {};
  }
  part->stripe_bytes = number_at<std::uint32_t>(bytes, 24);
  part->stripe_count = number_at<std::uint16_t>(bytes, 28);
  part->overstriped = (pattern & kPatternOverstriped) != 0;
  has_objects = has_objects && (pattern & kPatternReleased) == 0;
  if (part->stripe_bytes == 0) return malformed("its stripes have no bytes");
  if (part->stripe_count >= kCountsNothing) part->stripe_count = 0;
  if (!has_objects) return {};
  const auto count = static_cast<std::size_t>(part->stripe_count);
  if (count == 0) return malformed("it has objects, but no stripes");
  if (bytes.size() - header < count * kObjectBytes)
    return malformed("the targets of " + std::to_string(count) + " stripes do not fit into " + std::to_string(bytes.size()) + " bytes");
  for (std::size_t i = 0; i < count; ++i) part->targets.push_back(number_at<std::uint32_t>(bytes, header + i * kObjectBytes + 20));
  return {};
}

Status parse_entry(Bytes composite, std::size_t entry, std::size_t entries_end, StripeLayout& layout) {
  const auto flags = number_at<std::uint32_t>(composite, entry + 4);
  const auto first = number_at<std::uint64_t>(composite, entry + 8), end = number_at<std::uint64_t>(composite, entry + 16);
  const auto offset = number_at<std::uint32_t>(composite, entry + 24), size = number_at<std::uint32_t>(composite, entry + 28);
  if (first >= end || (end != kEndOfFile && end > INT64_MAX) || first > INT64_MAX) return malformed("a component has no range of a file");
  if (offset < entries_end || offset > composite.size() || size > composite.size() - offset) return malformed("a component lies outside of it");
  if ((flags & (kEntryStale | kEntryToGrowInto)) != 0) return {};
  const Bytes inner = composite.subspan(offset, size);
  if (inner.size() >= sizeof(std::uint32_t) && number_at<std::uint32_t>(inner, 0) == kMagicForeign) return {};
  std::optional<StripedPart> part;
  PENSTOCK_TRY(parse_plain(inner, (flags & kEntryHasObjects) != 0, part));
  if (!part) return {};
  part->first = static_cast<Offset>(first);
  part->end = end == kEndOfFile ? INT64_MAX : static_cast<Offset>(end);
  layout.parts.push_back(std::move(*part));
  return {};
}

Result<StripeLayout> parse_composite(Bytes value) {
  if (value.size() < kCompositeBytes) return malformed("it ends within the header of a composite layout");
  const auto size = number_at<std::uint32_t>(value, 4);
  const std::size_t entries = number_at<std::uint16_t>(value, 14);
  if (size > value.size()) return malformed("it is said to have " + std::to_string(size) + " bytes, of which there are " + std::to_string(value.size()));
  const std::size_t entries_end = kCompositeBytes + entries * kEntryBytes;
  if (size < entries_end) return malformed(std::to_string(entries) + " components do not fit into " + std::to_string(size) + " bytes");
  StripeLayout layout;
  for (std::size_t entry = kCompositeBytes; entry < entries_end; entry += kEntryBytes)
    PENSTOCK_TRY(parse_entry(value.first(size), entry, entries_end, layout));
  return layout;
}

// --- A layout as text. -------------------------------------------------------------------------------------------------------------

std::optional<Offset> amount(std::string_view text) {
  Offset number = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || number < 0 || end - stopped > 1) return std::nullopt;
  if (stopped == end) return number;
  const char unit = static_cast<char>(*stopped | 0x20);
  const int shift = unit == 'k' ? 10 : unit == 'm' ? 20 : unit == 'g' ? 30 : 0;
  if (shift == 0 || !checked_multiply(number, Offset{1} << shift, number)) return std::nullopt;
  return number;
}

/// What stands before the first `mark`, which is taken away with it; all of it where there is none.
std::string_view take(std::string_view& text, char mark) {
  const std::size_t at = std::min(text.find(mark), text.size());
  const std::string_view taken = text.substr(0, at);
  text.remove_prefix(std::min(at + 1, text.size()));
  return taken;
}

bool is_end_of_file(std::string_view text) { return text == "eof" || text == "EOF"; }

std::optional<StripedPart> part_of_text(std::string_view text) {
  StripedPart part;
  if (std::ranges::count(text, ':') == 2) {
    std::string_view range = take(text, ':');
    const std::optional<Offset> first = amount(take(range, '-'));
    const std::optional<Offset> end = is_end_of_file(range) ? INT64_MAX : amount(range);
    if (!first || !end || *first >= *end) return std::nullopt;
    part.first = *first;
    part.end = *end;
  }
  const std::optional<Offset> bytes = amount(take(text, ':'));
  const std::optional<Offset> count = amount(take(text, '/'));
  const std::optional<Offset> targets = text.empty() ? count : amount(text);
  if (!bytes || *bytes == 0 || *bytes > UINT32_MAX || !count || *count == 0 || *count >= kCountsNothing) return std::nullopt;
  if (!targets || *targets == 0 || *targets > *count) return std::nullopt;
  part.stripe_bytes = *bytes;
  part.stripe_count = static_cast<int>(*count);
  part.overstriped = *targets < *count;
  for (Offset i = 0; i < *count; ++i) part.targets.push_back(static_cast<std::uint32_t>(i % *targets));
  return part;
}

// --- Asking and telling the file system. -------------------------------------------------------------------------------------------

constexpr unsigned long kLustre = 0x0BD00BD0;  ///< f_type of statfs(2)
/// Takes the layout of a file that has none yet; the message is the plain layout.  (Lustre's LL_IOC_LOV_SETSTRIPE.)
constexpr unsigned long kSetLayout = _IOW('f', 154, long);

template <typename Number>
void put(std::array<std::byte, kWishBytes>& message, std::size_t offset, Number number) {
  std::memcpy(message.data() + offset, &number, sizeof number);
}

}  // namespace

Result<StripeLayout> parse_layout(Bytes value) {
  if (value.size() < sizeof(std::uint32_t)) return malformed(std::to_string(value.size()) + " bytes have no magic number");
  if (number_at<std::uint32_t>(value, 0) == kMagicComposite) return parse_composite(value);
  std::optional<StripedPart> part;
  PENSTOCK_TRY(parse_plain(value, true, part));
  StripeLayout layout;
  if (part) layout.parts.push_back(std::move(*part));
  return layout;
}

Result<StripeLayout> layout_of_text(std::string_view text) {
  StripeLayout layout;
  for (bool more = true; more;) {
    more = text.find(',') != std::string_view::npos;
    const std::string_view piece = take(text, ',');
    std::optional<StripedPart> part = part_of_text(piece);
    if (!part)
      return Status::failure(Code::kArgument, "the layout part '" + std::string(piece) +
                                                  "' was not understood; expected SIZE:COUNT or FIRST-END:SIZE:COUNT, as 1m:4 or 64m-eof:4m:8");
    layout.parts.push_back(std::move(*part));
  }
  return layout;
}

const StripedPart* part_for(const StripeLayout& layout, Offset first, Offset end) {
  const StripedPart* best = nullptr;
  Offset most = 0;
  for (const StripedPart& part : layout.parts) {
    if (part.stripe_bytes == 0 || part.stripe_count == 0) continue;
    const Offset common = std::min(part.end, end) - std::max(part.first, first);
    if (common <= most) continue;
    most = common;
    best = &part;
  }
  return best;
}

int target_count(const StripedPart& part) {
  if (part.targets.empty()) return part.stripe_count;
  std::vector<std::uint32_t> targets = part.targets;
  std::sort(targets.begin(), targets.end());
  return static_cast<int>(std::unique(targets.begin(), targets.end()) - targets.begin());
}

std::optional<StripeLayout> read_layout(int descriptor) {
  constexpr std::size_t kMost = 64 << 10;  // what Linux lets an extended attribute have
  std::vector<std::byte> value(4096);
  ssize_t size = fgetxattr(descriptor, "lustre.lov", value.data(), value.size());
  if (size < 0 && errno == ERANGE) {
    value.resize(kMost);
    size = fgetxattr(descriptor, "lustre.lov", value.data(), value.size());
  }
  if (size < 0) return std::nullopt;
  Result<StripeLayout> layout = parse_layout(Bytes(value).first(static_cast<std::size_t>(size)));
  if (!layout.ok()) return std::nullopt;
  return std::move(*layout);
}

std::array<std::byte, kWishBytes> message_of(const LayoutWish& wish) {
  std::array<std::byte, kWishBytes> message{};
  put(message, 0, kMagicV1);
  put(message, 24, static_cast<std::uint32_t>(std::clamp<Offset>(wish.stripe_bytes, 0, UINT32_MAX)));
  put(message, 28, static_cast<std::uint16_t>(wish.stripe_count < 0 ? UINT16_MAX : std::min(wish.stripe_count, kCountsNothing - 1)));
  put(message, 30, static_cast<std::uint16_t>(wish.first_target < 0 ? UINT16_MAX : std::min(wish.first_target, kCountsNothing - 1)));
  return message;
}

int flags_to_set_layout(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  struct statfs system;
  if (statfs(directory.c_str(), &system) != 0 || (static_cast<unsigned long>(system.f_type) & 0xffffffffUL) != kLustre) return 0;
  return O_NOCTTY | O_ASYNC;  // together, these two that mean nothing for a regular file ask Lustre to wait with the layout
}

bool set_layout(int descriptor, const LayoutWish& wish) {
  std::array<std::byte, kWishBytes> message = message_of(wish);
  return ioctl(descriptor, kSetLayout, message.data()) == 0 || errno == EEXIST;
}

}  // namespace penstock::store
