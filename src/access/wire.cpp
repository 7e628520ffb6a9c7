// Numbers go as groups of seven bits, signed ones folded so that small magnitudes are short; lists go as differences.
#include "access/wire.h"

#include "access/node.h"

namespace penstock::access {

namespace {

using Kind = Node::Kind;

/// In the place of a list's child: the one before once more.
constexpr std::uint64_t kSameChild = 255;
/// A layout as deep as this was made by nobody's program.
constexpr int kDepthMax = 1000;

class Writer {
 public:
  explicit Writer(std::vector<std::byte>& bytes) : bytes_(bytes) {}

  void put(std::uint64_t value) {
    for (; value >= 128; value >>= 7) bytes_.push_back(static_cast<std::byte>(value | 128));
    bytes_.push_back(static_cast<std::byte>(value));
  }
  void put_signed(Offset value) {
    put((static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63));
  }

  void put_node(const Node& node) {
    put(static_cast<std::uint64_t>(node.kind));
    put_signed(node.base);
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
        put_blocks(*node.blocks);
        break;
      case Kind::kList:
        put_list(*node.list);
        break;
    }
  }

 private:
  void put_differences(const std::vector<Offset>& offsets) {
    Offset before = 0;
    for (const Offset offset : offsets) {
      put_signed(static_cast<Offset>(static_cast<std::uint64_t>(offset) - static_cast<std::uint64_t>(before)));
      before = offset;
    }
  }

  void put_blocks(const Blocks& blocks) {
    put(static_cast<std::uint64_t>(blocks.count()));
    put_signed(blocks.length);
    put_differences(blocks.offsets);
    if (blocks.length > 0) return;
    for (Offset i = 0; i < blocks.count(); ++i) put_signed(blocks.length_of(i));
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
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : left_(bytes) {}

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
    value = static_cast<Offset>((folded >> 1) ^ (~(folded & 1) + 1));
    return true;
  }
  [[nodiscard]] bool at_end() const { return left_.empty(); }

  Result<NodePtr> get_node(int depth) {
    std::uint64_t kind = 0;
    if (!get(kind)) return torn();
    return get_node_of_kind(kind, depth);
  }

 private:
  static Status torn() { return Status::failure(Code::kIntern, "a rank's description of its access arrived torn"); }

  Result<NodePtr> get_node_of_kind(std::uint64_t kind, int depth) {
    Offset base = 0;
    if (depth > kDepthMax || !get_signed(base)) return torn();
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
    return read_offsets(base, count, offsets);
  }
  bool read_offsets(Offset base, std::uint64_t count, std::vector<Offset>& offsets) {
    offsets.resize(count);
    Offset before = base;
    for (Offset& offset : offsets) {
      Offset difference = 0;
      if (!get_signed(difference) || !checked_add(before, difference, offset)) return false;
      before = offset;
    }
    return true;
  }

  Result<NodePtr> get_blocks(Offset base) {
    std::uint64_t count = 0;
    Offset length = 0;
    std::vector<Offset> offsets;
    if (!get(count) || count == 0 || count > left_.size() || !get_signed(length) || length < 0 ||
        !read_offsets(base, count, offsets))
      return torn();
    std::vector<Offset> lengths(count, length);
    for (std::size_t i = 0; length == 0 && i < count; ++i)
      if (!get_signed(lengths[i]) || lengths[i] <= 0) return torn();
    return make_blocks(std::move(offsets), std::move(lengths), Element::kRaw, 1);
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
