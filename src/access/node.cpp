// Making nodes in normal form.  Knows nothing of MPI's constructors, only of blocks, loops and lists.
#include "access/node.h"

namespace penstock::access {

namespace {

using Kind = Node::Kind;

/// Gives `node` its place and checks that all of it can be addressed.
Result<NodePtr> finish(Node node, Wide base) {
  if (!fits(base + node.lower) || !fits(base + node.upper)) return too_large("datatype", "an offset of its data");
  node.base = static_cast<Offset>(base);
  return std::make_shared<const Node>(std::move(node));
}

Result<NodePtr> place(const NodePtr& node, Wide offset) {
  if (offset == 0 || node->size == 0) return node;
  return finish(*node, node->base + offset);
}

NodePtr at_base_zero(const NodePtr& node) {
  if (node->base == 0) return node;
  Node moved = *node;
  moved.base = 0;
  return std::make_shared<const Node>(std::move(moved));
}

bool same_element(const Node& a, const Node& b) { return a.element == b.element && a.element_size == b.element_size; }

bool same_blocks(const Blocks& a, const Blocks& b) {
  return &a == &b || (a.length == b.length && a.offsets == b.offsets && a.positions == b.positions);
}

bool same_list(const List& a, const List& b) {
  if (&a == &b) return true;
  if (a.offsets != b.offsets || a.positions != b.positions) return false;
  for (std::size_t i = 0; i < a.children.size(); ++i) {
    // Neighbours are often one node: what has just been compared is not compared again.
    if (i > 0 && a.children[i] == a.children[i - 1] && b.children[i] == b.children[i - 1]) continue;
    if (!same_shape(*a.children[i], *b.children[i])) return false;
  }
  return true;
}

/// Keeps monotone, repeats, lower and upper of a list while its parts are put in, in data order.
class Outline {
 public:
  void add(Wide offset, const Node& part) { add(offset, part.lower, part.upper, part.monotone, part.repeats); }

  void add(Wide offset, Offset lower, Offset upper, bool monotone, bool repeats) {
    const Wide low = offset + lower, high = offset + upper;
    if (any_) {
      monotone_ = monotone_ && low >= upper_ - 1;
      repeats_ = repeats_ || low == upper_ - 1;
    }
    monotone_ = monotone_ && monotone;
    repeats_ = repeats_ || repeats;
    lower_ = any_ ? std::min(lower_, low) : low;
    upper_ = any_ ? std::max(upper_, high) : high;
    any_ = true;
  }

  /// False when the bounds do not fit.
  bool give(Node& node) const {
    if (!fits(lower_) || !fits(upper_) || !fits(upper_ - lower_)) return false;
    node.lower = static_cast<Offset>(lower_);
    node.upper = static_cast<Offset>(upper_);
    node.monotone = monotone_;
    node.repeats = monotone_ && repeats_;
    return true;
  }

 private:
  bool any_ = false, monotone_ = true, repeats_ = false;
  Wide lower_ = 0, upper_ = 0;
};

/// The distance between neighbours when it is the same everywhere.  Requires at least two offsets.
bool equally_spaced(const std::vector<Offset>& offsets, Wide& stride) {
  stride = static_cast<Wide>(offsets[1]) - offsets[0];
  for (std::size_t i = 2; i < offsets.size(); ++i)
    if (static_cast<Wide>(offsets[i]) - offsets[i - 1] != stride) return false;
  return true;
}

/// Makes offsets count from the first one; false when a difference does not fit.
bool count_from_first(std::vector<Offset>& offsets) {
  const Offset first = offsets[0];
  for (Offset& offset : offsets)
    if (__builtin_sub_overflow(offset, first, &offset)) return false;
  return true;
}

/// Drops empty blocks and joins those that abut, in place.  False when a sum does not fit.
bool join_abutting(std::vector<Offset>& offsets, std::vector<Offset>& lengths) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    if (lengths[i] == 0) continue;
    Offset end = 0;
    if (!checked_add(offsets[i], lengths[i], end)) return false;
    if (kept > 0 && offsets[kept - 1] + lengths[kept - 1] == offsets[i]) {
      if (!checked_add(lengths[kept - 1], lengths[i], lengths[kept - 1])) return false;
      continue;
    }
    offsets[kept] = offsets[i];
    lengths[kept] = lengths[i];
    ++kept;
  }
  offsets.resize(kept);
  lengths.resize(kept);
  return true;
}

}  // namespace

bool same_shape(const Node& a, const Node& b) {
  if (&a == &b) return true;
  if (a.kind != b.kind || a.size != b.size || a.upper != b.upper || a.width != b.width || !same_element(a, b)) return false;
  switch (a.kind) {
    case Kind::kEmpty:
    case Kind::kBlock:
      return true;
    case Kind::kLoop:
      return a.count == b.count && a.stride == b.stride && same_shape(*a.child, *b.child);
    case Kind::kBlocks:
      return same_blocks(*a.blocks, *b.blocks);
    case Kind::kList:
      return same_list(*a.list, *b.list);
  }
  return false;
}

Status too_large(const char* operation, const char* what) {
  return Status::failure(Code::kType, std::string(operation) + ": " + what +
                                          " does not fit in a signed 64-bit number; use smaller counts or displacements");
}

NodePtr empty_node() {
  static const NodePtr empty = std::make_shared<const Node>();
  return empty;
}

Result<NodePtr> make_block(Offset offset, Offset length, Element element, Offset element_size) {
  if (length == 0) return empty_node();
  Node node;
  node.kind = Kind::kBlock;
  node.element = element;
  node.typed = element != Element::kRaw;
  node.element_size = element_size;
  node.size = length;
  node.pieces = 1;
  node.width = 1;
  node.upper = length;
  return finish(std::move(node), offset);
}

Result<NodePtr> make_loop(Offset offset, Offset count, Offset stride, const NodePtr& child) {
  if (count == 0 || child->size == 0) return empty_node();
  if (count == 1) return place(child, offset);
  const Wide size = static_cast<Wide>(count) * child->size;
  if (!fits(size)) return too_large("datatype", "its size");
  const Wide base = static_cast<Wide>(offset) + child->base;
  if (child->kind == Kind::kBlock && stride == child->size) {
    if (!fits(base)) return too_large("datatype", "an offset of its data");
    return make_block(static_cast<Offset>(base), static_cast<Offset>(size), child->element, child->element_size);
  }
  if (child->kind == Kind::kLoop && static_cast<Wide>(child->count) * child->stride == stride) {
    if (!fits(base)) return too_large("datatype", "an offset of its data");
    return make_loop(static_cast<Offset>(base), count * child->count, child->stride, child->child);
  }
  Node node;
  node.kind = Kind::kLoop;
  node.size = static_cast<Offset>(size);
  node.pieces = count * child->pieces;
  node.width = child->width;
  node.count = count;
  node.stride = stride;
  node.child = at_base_zero(child);
  node.typed = child->typed;
  const Wide last = static_cast<Wide>(count - 1) * stride;
  const Wide lower = std::min<Wide>(0, last) + child->lower, upper = std::max<Wide>(0, last) + child->upper;
  if (!fits(lower) || !fits(upper) || !fits(upper - lower)) return too_large("datatype", "the span of its data");
  node.lower = static_cast<Offset>(lower);
  node.upper = static_cast<Offset>(upper);
  node.monotone = child->monotone && stride >= child->span() - 1;
  node.repeats = node.monotone && (child->repeats || stride == child->span() - 1);
  return finish(std::move(node), base);
}

Result<NodePtr> make_blocks(std::vector<Offset> offsets, std::vector<Offset> lengths, Element element,
                            Offset element_size) {
  if (!join_abutting(offsets, lengths)) return too_large("datatype", "an offset of its data");
  if (offsets.empty()) return empty_node();
  const bool equal_lengths = std::equal(lengths.begin() + 1, lengths.end(), lengths.begin());
  if (offsets.size() == 1) return make_block(offsets[0], lengths[0], element, element_size);
  Wide stride = 0;
  if (equal_lengths && equally_spaced(offsets, stride)) {
    if (!fits(stride)) return too_large("datatype", "the span of its data");
    Result<NodePtr> block = make_block(offsets[0], lengths[0], element, element_size);
    if (!block.ok()) return block;
    return make_loop(0, static_cast<Offset>(offsets.size()), static_cast<Offset>(stride), *block);
  }
  Node node;
  node.kind = Kind::kBlocks;
  node.element = element;
  node.typed = element != Element::kRaw;
  node.element_size = element_size;
  node.pieces = static_cast<Offset>(offsets.size());
  node.width = node.pieces;
  const Offset base = offsets[0];
  if (!count_from_first(offsets)) return too_large("datatype", "the span of its data");
  Outline outline;
  Wide size = 0;
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    outline.add(offsets[i], 0, lengths[i], true, false);
    size += lengths[i];
  }
  if (!fits(size)) return too_large("datatype", "its size");
  if (!outline.give(node)) return too_large("datatype", "the span of its data");
  node.size = static_cast<Offset>(size);
  auto blocks = std::make_shared<Blocks>();
  if (equal_lengths) {
    blocks->length = lengths[0];
  } else {
    Offset position = 0;
    for (Offset& length : lengths) {  // the lengths turn into the positions
      const Offset here = length;
      length = position;
      position += here;
    }
    lengths.push_back(position);
    lengths.shrink_to_fit();
    blocks->positions = std::move(lengths);
  }
  offsets.shrink_to_fit();
  blocks->offsets = std::move(offsets);
  node.blocks = std::move(blocks);
  return finish(std::move(node), base);
}

namespace {

/// Drops empty parts, moves every node's base into its offset, joins neighbouring blocks that abut.
Status tidy(std::vector<Placed>& parts) {
  std::size_t kept = 0;
  for (Placed& part : parts) {
    if (part.node->size == 0) continue;
    const Wide base = static_cast<Wide>(part.offset) + part.node->base;
    if (!fits(base + part.node->lower) || !fits(base + part.node->upper) || !fits(base))
      return too_large("datatype", "an offset of its data");
    Placed moved{static_cast<Offset>(base), at_base_zero(part.node)};
    if (kept > 0) {
      Placed& before = parts[kept - 1];
      if (before.node->kind == Kind::kBlock && moved.node->kind == Kind::kBlock &&
          same_element(*before.node, *moved.node) && before.offset + before.node->size == moved.offset) {
        const Wide length = static_cast<Wide>(before.node->size) + moved.node->size;
        if (!fits(length)) return too_large("datatype", "its size");
        Result<NodePtr> joined =
            make_block(0, static_cast<Offset>(length), moved.node->element, moved.node->element_size);
        if (!joined.ok()) return joined.status();
        before.node = std::move(*joined);
        continue;
      }
    }
    parts[kept++] = std::move(moved);
  }
  parts.resize(kept);
  return {};
}

Result<NodePtr> make_irregular_list(std::vector<Offset> offsets, const std::vector<Placed>& parts) {
  Node node;
  node.kind = Kind::kList;
  const Offset base = offsets[0];
  if (!count_from_first(offsets)) return too_large("datatype", "the span of its data");
  auto list = std::make_shared<List>();
  Outline outline;
  Wide size = 0;
  Offset pieces = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    outline.add(offsets[i], *parts[i].node);
    list->positions.push_back(static_cast<Offset>(size));
    list->pieces.push_back(pieces);
    list->children.push_back(parts[i].node);
    size += parts[i].node->size;
    if (!fits(size)) return too_large("datatype", "its size");
    pieces += parts[i].node->pieces;  // never more than the size
    node.width += parts[i].node->width;
    node.typed = node.typed || parts[i].node->typed;
  }
  if (!outline.give(node)) return too_large("datatype", "the span of its data");
  list->positions.push_back(static_cast<Offset>(size));
  list->pieces.push_back(pieces);
  list->offsets = std::move(offsets);
  node.size = static_cast<Offset>(size);
  node.pieces = pieces;
  node.list = std::move(list);
  return finish(std::move(node), base);
}

}  // namespace

Result<NodePtr> make_list(std::vector<Placed> parts) {
  PENSTOCK_TRY(tidy(parts));
  if (parts.empty()) return empty_node();
  if (parts.size() == 1) return place(parts[0].node, parts[0].offset);
  const Node& first = *parts[0].node;
  bool same_shapes = true, only_blocks = first.kind == Kind::kBlock;
  std::vector<Offset> offsets;
  offsets.reserve(parts.size());
  for (const Placed& part : parts) {
    offsets.push_back(part.offset);
    same_shapes = same_shapes && same_shape(*part.node, first);
    only_blocks = only_blocks && part.node->kind == Kind::kBlock && same_element(*part.node, first);
  }
  Wide stride = 0;
  if (same_shapes && equally_spaced(offsets, stride) && fits(stride))
    return make_loop(offsets[0], static_cast<Offset>(parts.size()), static_cast<Offset>(stride), parts[0].node);
  if (only_blocks) {
    std::vector<Offset> lengths;
    lengths.reserve(parts.size());
    for (const Placed& part : parts) lengths.push_back(part.node->size);
    return make_blocks(std::move(offsets), std::move(lengths), first.element, first.element_size);
  }
  return make_irregular_list(std::move(offsets), parts);
}

}  // namespace penstock::access
