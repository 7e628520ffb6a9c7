// Putting regular copies together in order.  Knows neither ranks nor claims.
#include "access/chain.h"

namespace penstock::access {

namespace {

using Kind = Node::Kind;

bool same_unit(const Copies& a, const Copies& b) {
  if (!a.unit || !b.unit) return !a.unit && !b.unit && a.length == b.length;
  return same_shape(*a.unit, *b.unit);
}

/// `one` is, all of it, a copy of the unit of `many`.
bool is_copy(const Copies& one, const Copies& many) {
  if (one.count == 1) return same_unit(one, many);
  if (!many.unit || many.unit->kind != Kind::kLoop) return false;
  const Node& loop = *many.unit;
  return loop.count == one.count && loop.stride == one.stride && same_unit(one, copies_of(loop.child, 0));
}

/// Whether `next` goes on where `before` ends; then `next` becomes both.
bool join(const Copies& before, Copies& next) {
  if (before.is_block() && next.is_block()) {
    if (before.at + before.length != next.at) return false;
    next.at = before.at;
    return checked_add(next.length, before.length, next.length);
  }
  const Wide distance = static_cast<Wide>(next.at) - before.at;
  Copies both = before;
  both.width = std::max(before.width, next.width);
  const bool continues = before.count > 1 && distance == static_cast<Wide>(before.count) * before.stride;
  if (continues && next.count > 1 && next.stride == before.stride && same_unit(before, next)) {
    both.count += next.count;
  } else if (continues && is_copy(next, before)) {
    both.count += 1;
  } else if (next.count > 1 && distance == next.stride && is_copy(before, next)) {
    both = next;
    both.at = before.at;
    both.count += 1;
    both.width = std::max(before.width, next.width);
  } else {
    return false;
  }
  next = normal(std::move(both));
  return true;
}

/// A part of a chain as a node that is placed by itself.
Result<Placed> placed(const Copies& copies) {
  NodePtr unit = copies.unit;
  if (!unit) {
    Result<NodePtr> block = make_block(0, copies.length, Element::kRaw, 1);
    if (!block.ok()) return block.status();
    unit = std::move(*block);
  }
  Offset offset = 0;
  if (__builtin_sub_overflow(copies.at, unit->base, &offset)) return too_large("access", "an offset of its data");
  Result<NodePtr> loop = make_loop(0, copies.count, copies.stride, unit);
  if (!loop.ok()) return loop.status();
  return Placed{offset, std::move(*loop)};
}

/// Parts [first, end), all of them blocks.
Result<NodePtr> blocks_of(const std::vector<Copies>& parts, std::size_t first, std::size_t end) {
  std::vector<Offset> offsets, lengths;
  offsets.reserve(end - first);
  lengths.reserve(end - first);
  for (std::size_t i = first; i < end; ++i) {
    offsets.push_back(parts[i].at);
    lengths.push_back(parts[i].length);
  }
  return make_blocks(std::move(offsets), std::move(lengths), Element::kRaw, 1);
}

}  // namespace

Copies normal(Copies copies) {
  for (;;) {
    if (copies.unit && copies.unit->kind == Kind::kBlock) {
      copies.length = copies.unit->size;
      copies.unit = nullptr;
    }
    if (!copies.unit) break;
    const NodePtr unit = copies.unit;
    const bool continues = unit->kind == Kind::kLoop && static_cast<Wide>(unit->count) * unit->stride == copies.stride;
    if (unit->kind != Kind::kLoop || (copies.count > 1 && !continues)) return copies;
    copies.count *= unit->count;
    copies.stride = unit->stride;
    copies.unit = unit->child;
  }
  if (copies.count > 1 && copies.length == copies.stride) {
    copies.length *= copies.count;
    copies.count = 1;
  }
  return copies;
}

Copies copies_of(const NodePtr& node, Offset at) {
  Copies copies;
  copies.at = at;
  copies.unit = node;
  copies.width = node->width;
  return normal(std::move(copies));
}

Copies part_of(const Copies& copies, Offset first, Offset count) {
  Copies part = copies;
  part.at += first * copies.stride;
  part.count = count;
  return count == 1 ? normal(std::move(part)) : part;
}

void push_members(const Node& unit, Offset at, std::vector<Copies>& reversed) {
  if (unit.kind == Kind::kBlocks) {
    for (Offset i = unit.blocks->count(); i-- > 0;) {
      Copies block;
      block.at = at + unit.blocks->offsets[i];
      block.length = unit.blocks->length_of(i);
      reversed.push_back(std::move(block));
    }
    return;
  }
  for (Offset i = unit.list->count(); i-- > 0;)
    reversed.push_back(copies_of(unit.list->children[i], at + unit.list->offsets[i]));
}

bool Chain::append(Copies next) {
  next = normal(std::move(next));
  if (!parts_.empty() && parts_.back().end() > next.at) return false;
  while (!parts_.empty() && join(parts_.back(), next)) {
    width_ -= parts_.back().width;
    parts_.pop_back();
  }
  width_ += next.width;
  parts_.push_back(std::move(next));
  return true;
}

/// Positions [from, to) of copy number `index`.
bool Chain::append_slice_of_unit(const Copies& copies, Offset index, Offset from, Offset to) {
  if (from == 0 && to == copies.unit_size()) return append(part_of(copies, index, 1));
  const Offset at = copies.at + index * copies.stride;
  if (!copies.unit) {
    Copies block;
    block.at = at + from;
    block.length = to - from;
    return append(std::move(block));
  }
  if (copies.unit->kind == Kind::kLoop) return append_slice(copies_of(copies.unit, at), from, to);
  return copies.unit->kind == Kind::kBlocks ? append_slice_of_blocks(*copies.unit->blocks, at, from, to)
                                            : append_slice_of_list(*copies.unit->list, at, from, to);
}

bool Chain::append_slice_of_blocks(const Blocks& blocks, Offset at, Offset from, Offset to) {
  for (Offset i = blocks.at_position(from); i < blocks.count() && blocks.position(i) < to; ++i) {
    const Offset position = blocks.position(i), first = std::max(from, position);
    Copies block;
    block.at = at + blocks.offsets[i] + (first - position);
    block.length = std::min(to, position + blocks.length_of(i)) - first;
    if (!append(std::move(block))) return false;
  }
  return true;
}

bool Chain::append_slice_of_list(const List& list, Offset at, Offset from, Offset to) {
  for (Offset i = list.at_position(from); i < list.count() && list.positions[i] < to; ++i) {
    const Offset position = list.positions[i];
    const Offset first = std::max(from, position) - position, last = std::min(to, list.positions[i + 1]) - position;
    if (!append_slice(copies_of(list.children[i], at + list.offsets[i]), first, last)) return false;
  }
  return true;
}

bool Chain::append_slice(const Copies& copies, Offset from, Offset to) {
  const Offset size = copies.unit_size();
  Offset first = from / size;
  const Offset last = (to - 1) / size, from_in_first = from % size, to_in_last = (to - 1) % size + 1;
  if (first == last) return append_slice_of_unit(copies, first, from_in_first, to_in_last);
  if (from_in_first > 0) {
    if (!append_slice_of_unit(copies, first, from_in_first, size)) return false;
    ++first;
  }
  const Offset whole = (to_in_last == size ? last + 1 : last) - first;
  if (whole > 0 && !append(part_of(copies, first, whole))) return false;
  return to_in_last == size || append_slice_of_unit(copies, last, 0, to_in_last);
}

NodePtr Chain::build() const {
  std::vector<Placed> nodes;
  for (std::size_t first = 0, end = 0; first < parts_.size(); first = end) {
    // Neighbouring blocks are one node, however many.
    while (end < parts_.size() && parts_[end].is_block()) ++end;
    if (end > first) {
      Result<NodePtr> blocks = blocks_of(parts_, first, end);
      if (!blocks.ok()) return nullptr;
      nodes.push_back({0, std::move(*blocks)});
      continue;
    }
    Result<Placed> part = placed(parts_[end++]);
    if (!part.ok()) return nullptr;
    nodes.push_back(std::move(*part));
  }
  if (nodes.empty()) return nullptr;
  Result<NodePtr> node = make_list(std::move(nodes));
  return node.ok() ? std::move(*node) : nullptr;
}

}  // namespace penstock::access
