// Numbers go as groups of seven bits, signed ones folded so that small magnitudes are short; lists go as differences.
//
// Irregular blocks go as the gaps between them and their lengths, counted in their greatest common divisor: where both are small, in one byte.
// Stretches of them that come again and again at equal distances go as loops, and come out as such.
#include "access/wire.h"

#include <numeric>

#include "access/node.h"

namespace penstock::access {

namespace {

using Kind = Node::Kind;

/// In the place of a list's child: the one before once more.
constexpr std::uint64_t kSameChild = 255;
/// In the place of a kind: irregular blocks that have been told already, whose number follows, elsewhere.
constexpr std::uint64_t kEarlierBlocks = 254;
/// What arrives may stand for so many entries of lists per byte, so that going through them takes time in proportion to what arrived.
constexpr Offset kEntriesPerByte = 128;
/// A layout as deep as this was made by nobody's program.
constexpr int kDepthMax = 1000;
/// In half a byte: a larger number follows.
constexpr std::uint64_t kLarger = 15;

/// Blocks [first, end) of some: copies of the first `pattern` of them, `stride` apart.  A pattern of 0: they are irregular.
struct Stretch {
  Offset first = 0;
  Offset end = 0;
  Offset pattern = 0;
  Offset stride = 0;
};

/// Finds the stretches of irregular blocks that are repetitions.
class Repetitions {
 public:
  /// O(blocks) where what repeats is far shorter than the whole.
  static std::vector<Stretch> find(const Blocks& blocks, Offset first, Offset end) {
    Repetitions found(blocks, end);
    if (end - first >= 2 * kLeastSaved && end < INT32_MAX) found.look_through(first);
    found.add_irregular(first, end);
    return std::move(found.stretches_);
  }

 private:
  /// Blocks that have to be alike before it is tried how many more are.
  static constexpr Offset kAlike = 4;
  /// Blocks that a loop has to save.
  static constexpr Offset kLeastSaved = 16;

  Repetitions(const Blocks& blocks, Offset end) : blocks_(blocks), end_(end) {}

  void look_through(Offset first) {
    std::size_t places = 64;
    while (places < static_cast<std::size_t>(end_ - first) && places < (std::size_t{1} << 20)) places *= 2;
    seen_.assign(places, -1);
    done_ = first;
    for (Offset at = first; at + kAlike <= end_;) {
      std::int32_t& seen = seen_[hash(at) & (places - 1)];
      const Offset before = seen;
      seen = static_cast<std::int32_t>(at);
      at += before < 0 ? 1 : try_repetition(before, at);
    }
  }

  [[nodiscard]] std::size_t hash(Offset at) const {
    std::uint64_t mixed = 0;
    for (Offset i = at; i < at + kAlike; ++i) {
      const Offset distance = i > at ? offset(i) - offset(i - 1) : 0;
      mixed = (mixed ^ (static_cast<std::uint64_t>(blocks_.length_of(i)) * 31 + static_cast<std::uint64_t>(distance))) * 0x9e3779b97f4a7c15u;
      mixed ^= mixed >> 29;
    }
    return static_cast<std::size_t>(mixed);
  }

  /// How far to go on from `at`, behind what has been found or is known to be nothing.
  Offset try_repetition(Offset before, Offset at) {
    const Offset pattern = at - before, stride = offset(at) - offset(before);
    if (pattern == failed_pattern_ && stride == failed_stride_ && at < failed_end_) return 1;
    Offset alike = 0;
    while (at + alike < end_ && blocks_.length_of(at + alike) == blocks_.length_of(before + alike) && offset(at + alike) - offset(before + alike) == stride)
      ++alike;
    const Offset start = before >= done_ ? before : at;  // its first copy may be part of another stretch
    const Offset copies = (at + alike - start) / pattern;
    if (copies < 2 || pattern * (copies - 1) < kLeastSaved) {
      // A shorter pattern may be found in it.
      failed_pattern_ = pattern;
      failed_stride_ = stride;
      failed_end_ = at + alike;
      return 1;
    }
    add_irregular(done_, start);
    done_ = start + copies * pattern;
    stretches_.push_back({start, done_, pattern, stride});
    return done_ - at;
  }

  void add_irregular(Offset first, Offset end) {
    first = std::max(first, done_);
    if (first < end) stretches_.push_back({first, end, 0, 0});
  }

  [[nodiscard]] Offset offset(Offset i) const { return blocks_.offsets[static_cast<std::size_t>(i)]; }

  const Blocks& blocks_;
  Offset end_;
  Offset done_ = 0;                  ///< stretches have been found up to here
  // The last repetition that was too short, so that it is not gone through again from each of its blocks.
  Offset failed_pattern_ = 0;
  Offset failed_stride_ = 0;
  Offset failed_end_ = 0;
  std::vector<std::int32_t> seen_;   ///< by hash: where it was met last
  std::vector<Stretch> stretches_;
};

class Writer {
 public:
  explicit Writer(std::vector<std::byte>& bytes) : bytes_(bytes), start_(bytes.size()) {}

  void put(std::uint64_t value) {
    for (; value >= 128; value >>= 7) bytes_.push_back(static_cast<std::byte>(value | 128));
    bytes_.push_back(static_cast<std::byte>(value));
  }
  static std::uint64_t folded(Offset value) { return (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63); }
  void put_signed(Offset value) { put(folded(value)); }

  void put_node(const Node& node) {
    if (node.kind == Kind::kBlocks) {
      put_blocks(*node.blocks, 0, node.blocks->count(), node.base);
      return;
    }
    put_head(node.kind, node.base);
    switch (node.kind) {
      case Kind::kEmpty:
        break;
      case Kind::kBlock:
        put_signed(node.size);
        break;
      case Kind::kLoop:
        put_signed(node.count);
        put_signed(node.stride);
        put_node(*node.child);
        break;
      case Kind::kBlocks:
        break;
      case Kind::kList:
        put_list(*node.list);
        break;
    }
  }

 private:
  void put_head(Kind kind, Offset base) {
    put(static_cast<std::uint64_t>(kind));
    put_signed(base);
  }
  void put_differences(const std::vector<Offset>& offsets) {
    Offset before = 0;
    for (const Offset offset : offsets) {
      put_signed(static_cast<Offset>(static_cast<std::uint64_t>(offset) - static_cast<std::uint64_t>(before)));
      before = offset;
    }
  }

  /// Blocks [first, end) as a node of its own, the first of them at `base`.
  void put_blocks(const Blocks& blocks, Offset first, Offset end, Offset base) {
    const std::vector<Stretch> stretches = Repetitions::find(blocks, first, end);
    if (stretches.size() == 1) {
      put_stretch(blocks, stretches[0], base);
      return;
    }
    put_head(Kind::kList, base);
    put(stretches.size());
    Offset before = blocks.offsets[static_cast<std::size_t>(first)];
    for (const Stretch& stretch : stretches) {
      const Offset at = blocks.offsets[static_cast<std::size_t>(stretch.first)];
      put_signed(at - before);
      before = at;
    }
    for (const Stretch& stretch : stretches) put_stretch(blocks, stretch, 0);
  }

  void put_stretch(const Blocks& blocks, const Stretch& stretch, Offset base) {
    if (stretch.pattern > 0) {
      put_head(Kind::kLoop, base);
      put_signed((stretch.end - stretch.first) / stretch.pattern);
      put_signed(stretch.stride);
      put_blocks(blocks, stretch.first, stretch.first + stretch.pattern, 0);
    } else if (stretch.end - stretch.first == 1) {
      put_head(Kind::kBlock, base);
      put_signed(blocks.length_of(stretch.first));
    } else if (std::size_t same = 0; find_told(blocks, stretch, same) && may_repeat(stretch.end - stretch.first)) {
      put(kEarlierBlocks);
      put_signed(base);
      put(same);
    } else {
      told_.push_back({&blocks, stretch.first, stretch.end});
      put_head(Kind::kBlocks, base);
      put_irregular(blocks, stretch.first, stretch.end);
    }
  }

  /// Looks at the last few that could be the same.
  bool find_told(const Blocks& blocks, const Stretch& stretch, std::size_t& number) const {
    constexpr int kTries = 8;
    for (std::size_t i = told_.size(), tries = 0; i-- > 0 && tries < kTries;) {
      if (told_[i].end - told_[i].first != stretch.end - stretch.first) continue;
      ++tries;
      number = i;
      if (same_blocks(*told_[i].blocks, told_[i].first, blocks, stretch.first, stretch.end - stretch.first)) return true;
    }
    return false;
  }

  static bool same_blocks(const Blocks& a, Offset in_a, const Blocks& b, Offset in_b, Offset count) {
    for (Offset i = 0; i < count; ++i)
      if (a.length_of(in_a + i) != b.length_of(in_b + i) || (i > 0 && gap_before(a, in_a + i) != gap_before(b, in_b + i))) return false;
    return true;
  }

  bool may_repeat(Offset entries) {
    if (repeated_entries_ + entries > kEntriesPerByte * static_cast<Offset>(bytes_.size() - start_)) return false;
    repeated_entries_ += entries;
    return true;
  }

  static Offset gap_before(const Blocks& blocks, Offset i) {
    const auto at = static_cast<std::size_t>(i);
    return blocks.offsets[at] - blocks.offsets[at - 1] - blocks.length_of(i - 1);
  }

  void put_irregular(const Blocks& blocks, Offset first, Offset end) {
    Offset unit = blocks.length_of(first);
    bool forwards = true, same_lengths = true;
    for (Offset i = first + 1; i < end; ++i) {
      const Offset gap = gap_before(blocks, i);
      unit = std::gcd(std::gcd(unit, gap), blocks.length_of(i));
      forwards = forwards && gap >= 0;
      same_lengths = same_lengths && blocks.length_of(i) == blocks.length_of(first);
    }
    put(static_cast<std::uint64_t>(end - first));
    put(static_cast<std::uint64_t>(unit));
    put((forwards ? 1u : 0u) + (same_lengths ? 2u : 0u));
    if (same_lengths) put(static_cast<std::uint64_t>(blocks.length_of(first) / unit));
    for (Offset i = first; i < end; ++i) {
      const Offset gap = i > first ? gap_before(blocks, i) / unit : 0;
      const std::uint64_t told = forwards ? static_cast<std::uint64_t>(gap) : folded(gap);
      const auto length = static_cast<std::uint64_t>(blocks.length_of(i) / unit - 1);
      if (same_lengths)
        put(told);
      else
        put_pair(told, length);
    }
  }

  void put_pair(std::uint64_t gap, std::uint64_t length) {
    bytes_.push_back(static_cast<std::byte>(std::min(gap, kLarger) << 4 | std::min(length, kLarger)));
    if (gap >= kLarger) put(gap - kLarger);
    if (length >= kLarger) put(length - kLarger);
  }

  void put_list(const List& list) {
    put(static_cast<std::uint64_t>(list.count()));
    put_differences(list.offsets);
    const Node* before = nullptr;
    for (const NodePtr& child : list.children) {
      if (child.get() == before)
        put(kSameChild);
      else
        put_node(*child);
      before = child.get();
    }
  }

  std::vector<std::byte>& bytes_;
  std::size_t start_;
  struct ToldBlocks {
    const Blocks* blocks;
    Offset first;
    Offset end;
  };
  std::vector<ToldBlocks> told_;
  Offset repeated_entries_ = 0;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : left_(bytes), size_(bytes.size()) {}

  bool get(std::uint64_t& value) {
    value = 0;
    for (int shift = 0; shift < 64 && !left_.empty(); shift += 7) {
      const auto group = static_cast<std::uint64_t>(left_.front());
      left_ = left_.subspan(1);
      value |= (group & 127) << shift;
      if (group < 128) return true;
    }
    return false;
  }
  bool get_signed(Offset& value) {
    std::uint64_t folded = 0;
    if (!get(folded)) return false;
    value = unfolded(folded);
    return true;
  }
  [[nodiscard]] bool at_end() const { return left_.empty(); }

  Result<NodePtr> get_node(int depth) {
    std::uint64_t kind = 0;
    if (!get(kind)) return torn();
    return get_node_of_kind(kind, depth);
  }

 private:
  static Offset unfolded(std::uint64_t folded) { return static_cast<Offset>((folded >> 1) ^ (~(folded & 1) + 1)); }
  static Status torn() { return Status::failure(Code::kIntern, "a rank's description of its access arrived torn"); }

  Result<NodePtr> get_node_of_kind(std::uint64_t kind, int depth) {
    Offset base = 0;
    if (depth > kDepthMax || !get_signed(base)) return torn();
    if (kind == kEarlierBlocks) return get_earlier(base);
    switch (static_cast<Kind>(kind)) {
      case Kind::kEmpty:
        return empty_node();
      case Kind::kBlock: {
        Offset size = 0;
        if (!get_signed(size) || size <= 0) return torn();
        return make_block(base, size, Element::kRaw, 1);
      }
      case Kind::kLoop: {
        Offset count = 0, stride = 0;
        if (!get_signed(count) || !get_signed(stride) || count <= 0) return torn();
        const Result<NodePtr> child = get_node(depth + 1);
        if (!child.ok()) return child;
        return make_loop(base, count, stride, *child);
      }
      case Kind::kBlocks:
        return get_blocks(base);
      case Kind::kList:
        return get_list(base, depth);
      default:
        return torn();
    }
  }

  /// Every entry takes at least a byte: a count beyond what is left is a lie, and nothing is allocated for it.
  bool get_offsets(Offset base, std::vector<Offset>& offsets) {
    std::uint64_t count = 0;
    if (!get(count) || count == 0 || count > left_.size()) return false;
    offsets.resize(count);
    Offset before = base;
    for (Offset& offset : offsets) {
      Offset difference = 0;
      if (!get_signed(difference) || !checked_add(before, difference, offset)) return false;
      before = offset;
    }
    return true;
  }

  /// Two numbers that share a byte where both are small.
  bool get_pair(std::uint64_t& first, std::uint64_t& second) {
    if (left_.empty()) return false;
    const auto both = static_cast<std::uint64_t>(left_.front());
    left_ = left_.subspan(1);
    std::uint64_t more = 0;
    first = both >> 4;
    second = both & kLarger;
    if (first == kLarger && (!get(more) || __builtin_add_overflow(first, more, &first))) return false;
    return second != kLarger || (get(more) && !__builtin_add_overflow(second, more, &second));
  }

  /// `value` times `unit` as an offset.
  static bool scaled(std::uint64_t value, Offset unit, Offset& product) {
    return value <= static_cast<std::uint64_t>(INT64_MAX) && checked_multiply(static_cast<Offset>(value), unit, product);
  }

  Result<NodePtr> get_blocks(Offset base) {
    std::uint64_t count = 0, unit = 0, flags = 0, same_length = 0;
    if (!get(count) || count == 0 || count > left_.size() || !get(unit) || unit == 0 || unit > static_cast<std::uint64_t>(INT64_MAX) || !get(flags) ||
        flags > 3)
      return torn();
    const bool forwards = (flags & 1) != 0, same_lengths = (flags & 2) != 0;
    // Every block takes at least a byte: what is allocated is in proportion to what arrived.
    if ((same_lengths && (!get(same_length) || same_length == 0)) || count > left_.size()) return torn();
    std::vector<Offset> offsets(count), lengths(count);
    Offset end = base;
    for (std::size_t i = 0; i < count; ++i) {
      std::uint64_t told = 0, length = same_length;
      if (same_lengths ? !get(told) : !get_pair(told, length)) return torn();
      if (!same_lengths && __builtin_add_overflow(length, 1, &length)) return torn();
      Offset gap = 0;
      const bool fits = forwards ? scaled(told, static_cast<Offset>(unit), gap) : checked_multiply(unfolded(told), static_cast<Offset>(unit), gap);
      if (!fits || !scaled(length, static_cast<Offset>(unit), lengths[i]) || !checked_add(end, gap, offsets[i]) || !checked_add(offsets[i], lengths[i], end))
        return torn();
    }
    Result<NodePtr> blocks = make_blocks(std::move(offsets), std::move(lengths), Element::kRaw, 1);
    if (blocks.ok()) told_.push_back(*blocks);
    return blocks;
  }

  Result<NodePtr> get_earlier(Offset base) {
    std::uint64_t number = 0;
    if (!get(number) || number >= told_.size() || !may_repeat(*told_[number])) return torn();
    Placed again{0, told_[number]};
    if (__builtin_sub_overflow(base, again.node->base, &again.offset)) return torn();
    return make_list({again});
  }

  bool may_repeat(const Node& node) {
    const Offset most = kEntriesPerByte * static_cast<Offset>(size_ - left_.size());
    return node.width <= most && (repeated_entries_ += node.width) <= most;
  }

  Result<NodePtr> get_list(Offset base, int depth) {
    std::vector<Offset> offsets;
    if (!get_offsets(base, offsets)) return torn();
    std::vector<Placed> parts;
    parts.reserve(offsets.size());
    NodePtr before;
    for (const Offset offset : offsets) {
      std::uint64_t kind = 0;
      if (!get(kind)) return torn();
      if (kind != kSameChild) {
        Result<NodePtr> child = get_node_of_kind(kind, depth + 1);
        if (!child.ok()) return child;
        before = std::move(*child);
      }
      if (before == nullptr) return torn();
      parts.push_back({offset, before});
    }
    return make_list(std::move(parts));
  }

  std::span<const std::byte> left_;
  std::size_t size_;
  std::vector<NodePtr> told_;
  Offset repeated_entries_ = 0;
};

}  // namespace

void pack(const Tiling& tiling, std::vector<std::byte>& bytes) {
  Writer writer(bytes);
  writer.put_signed(tiling.displacement);
  writer.put_signed(tiling.extent);
  writer.put_node(*tiling.node);
}

Result<Tiling> unpack(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  Tiling tiling;
  const bool headed = reader.get_signed(tiling.displacement) && reader.get_signed(tiling.extent);
  Result<NodePtr> node = headed ? reader.get_node(0) : Result<NodePtr>(Status::failure(Code::kIntern, "a rank's description of its access arrived torn"));
  if (!node.ok()) return node.status();
  if (!reader.at_end()) return Status::failure(Code::kIntern, "a rank's description of its access has bytes behind its end");
  if ((*node)->size == 0) return Status::failure(Code::kIntern, "a rank described an access without data");
  tiling.node = std::move(*node);
  return tiling;
}

}  // namespace penstock::access
