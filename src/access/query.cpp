// Questions about a tiling: where, how many, in what order.  Never walks the pieces that a layout stands for.
#include <unordered_set>

#include "access/layout.h"
#include "access/node.h"

namespace penstock::access {

namespace {

using Kind = Node::Kind;

/// Offset of data position p of `node`, from the node's own origin.
Offset offset_in(const Node* node, Offset p) {
  Offset at = node->base;
  for (;;) {
    switch (node->kind) {
      case Kind::kEmpty:
      case Kind::kBlock:
        return at + p;
      case Kind::kLoop:
        at += p / node->child->size * node->stride;
        p %= node->child->size;
        node = node->child.get();
        break;
      case Kind::kBlocks: {
        const Offset i = node->blocks->at_position(p);
        return at + node->blocks->offsets[i] + (p - node->blocks->position(i));
      }
      case Kind::kList: {
        const Offset i = node->list->at_position(p);
        at += node->list->offsets[i];
        p -= node->list->positions[i];
        node = node->list->children[i].get();
        break;
      }
    }
  }
}

/// The last of sorted `offsets` that is below x.  Requires offsets[0] < x.
Offset last_below(const std::vector<Offset>& offsets, Offset x) {
  return std::lower_bound(offsets.begin(), offsets.end(), x) - offsets.begin() - 1;
}

/// How many bytes of a monotone `node` are below x, which counts from the node's base.
Offset position_in(const Node* node, Offset x) {
  Offset before = 0;
  for (;;) {
    if (x <= 0) return before;
    if (x >= node->upper) return before + node->size;
    switch (node->kind) {
      case Kind::kEmpty:
      case Kind::kBlock:
        return before + x;
      case Kind::kLoop: {
        // A stride of 0 is only monotone over a single byte, and then x has been at or past the upper bound.
        const Offset i = std::min((x - 1) / node->stride, node->count - 1);
        before += i * node->child->size;
        x -= i * node->stride;
        node = node->child.get();
        break;
      }
      case Kind::kBlocks: {
        const Offset i = last_below(node->blocks->offsets, x);
        return before + node->blocks->position(i) + std::min(x - node->blocks->offsets[i], node->blocks->length_of(i));
      }
      case Kind::kList: {
        const Offset i = last_below(node->list->offsets, x);
        before += node->list->positions[i];
        x -= node->list->offsets[i];
        node = node->list->children[i].get();
        break;
      }
    }
  }
}

/// Number of the piece that holds data position p.
Offset piece_in(const Node* node, Offset p) {
  Offset before = 0;
  for (;;) {
    switch (node->kind) {
      case Kind::kEmpty:
      case Kind::kBlock:
        return before;
      case Kind::kLoop:
        before += p / node->child->size * node->child->pieces;
        p %= node->child->size;
        node = node->child.get();
        break;
      case Kind::kBlocks:
        return before + node->blocks->at_position(p);
      case Kind::kList: {
        const Offset i = node->list->at_position(p);
        before += node->list->pieces[i];
        p -= node->list->positions[i];
        node = node->list->children[i].get();
        break;
      }
    }
  }
}

/// Lowest and highest offsets met so far.
struct Extremes {
  Wide lower = 0, upper = 0;
  bool any = false;

  void add(Wide low, Wide high) {
    lower = any ? std::min(lower, low) : low;
    upper = any ? std::max(upper, high) : high;
    any = true;
  }
};

void add_range(const Node& node, Wide origin, Offset from, Offset to, Extremes& extremes);

/// Copies of `node`, `stride` apart, the first with its base at `origin`: data positions [from, to) of the sequence.
void add_copies(const Node& node, Wide origin, Wide stride, Offset from, Offset to, Extremes& extremes) {
  const Offset first = from / node.size, last = (to - 1) / node.size;
  const Offset from_in_first = from % node.size, to_in_last = (to - 1) % node.size + 1;
  if (first == last) return add_range(node, origin + first * stride, from_in_first, to_in_last, extremes);
  add_range(node, origin + first * stride, from_in_first, node.size, extremes);
  add_range(node, origin + last * stride, 0, to_in_last, extremes);
  if (last - first < 2) return;
  for (const Offset i : {first + 1, last - 1})  // the offsets grow or fall steadily from the one to the other
    extremes.add(origin + i * stride + node.lower, origin + i * stride + node.upper);
}

/// Data positions [from, to) of `node`, whose base is at `origin`.  Not empty.
void add_range(const Node& node, Wide origin, Offset from, Offset to, Extremes& extremes) {
  if (from == 0 && to == node.size) return extremes.add(origin + node.lower, origin + node.upper);
  switch (node.kind) {
    case Kind::kEmpty:
    case Kind::kBlock:
      return extremes.add(origin + from, origin + to);
    case Kind::kLoop:
      return add_copies(*node.child, origin, node.stride, from, to, extremes);
    case Kind::kBlocks:
      for (Offset i = node.blocks->at_position(from); i < node.blocks->count() && node.blocks->position(i) < to; ++i) {
        const Offset start = node.blocks->position(i), end = start + node.blocks->length_of(i);
        const Wide at = origin + node.blocks->offsets[i];
        extremes.add(at + (std::max(from, start) - start), at + (std::min(to, end) - start));
      }
      return;
    case Kind::kList:
      for (Offset i = node.list->at_position(from); i < node.list->count() && node.list->positions[i] < to; ++i) {
        const Offset start = node.list->positions[i], end = node.list->positions[i + 1];
        add_range(*node.list->children[i], origin + node.list->offsets[i], std::max(from, start) - start,
                  std::min(to, end) - start, extremes);
      }
      return;
  }
}

/// True when the intervals [lower, upper) have no point in common.
bool disjoint(std::vector<std::pair<Wide, Wide>> intervals) {
  std::sort(intervals.begin(), intervals.end());
  for (std::size_t i = 1; i < intervals.size(); ++i)
    if (intervals[i].first < intervals[i - 1].second) return false;
  return true;
}

/// True when it is certain that no byte of `node` comes twice.
bool reaches_bytes_once(const Node& node);

/// The same for a nest of loops, in whatever order they are nested: taken from the smallest stride on, each stride must
/// step over all that is inside of it.
bool nest_reaches_bytes_once(const Node& outermost) {
  std::vector<std::pair<Wide, Offset>> levels;  // distance, count
  const Node* node = &outermost;
  for (; node->kind == Kind::kLoop; node = node->child.get())
    levels.emplace_back(node->stride < 0 ? -static_cast<Wide>(node->stride) : node->stride, node->count);
  if (!reaches_bytes_once(*node)) return false;
  std::sort(levels.begin(), levels.end());
  Wide span = node->span();
  for (const auto& [distance, count] : levels) {
    if (distance < span) return false;
    span += distance * (count - 1);
  }
  return true;
}

bool reaches_bytes_once(const Node& node) {
  if (node.monotone) return !node.repeats;
  std::vector<std::pair<Wide, Wide>> intervals;
  switch (node.kind) {
    case Kind::kEmpty:
    case Kind::kBlock:
      return true;
    case Kind::kLoop:
      return nest_reaches_bytes_once(node);
    case Kind::kBlocks:
      for (Offset i = 0; i < node.blocks->count(); ++i)
        intervals.emplace_back(node.blocks->offsets[i], static_cast<Wide>(node.blocks->offsets[i]) + node.blocks->length_of(i));
      return disjoint(std::move(intervals));
    case Kind::kList:
      for (Offset i = 0; i < node.list->count(); ++i) {
        const Node& child = *node.list->children[i];
        if (!reaches_bytes_once(child)) return false;
        const Wide at = node.list->offsets[i];
        intervals.emplace_back(at + child.lower, at + child.upper);
      }
      return disjoint(std::move(intervals));
  }
  return false;
}

/// Whether the pieces of `node` begin in order; then `last` is where the last one begins, from the node's base.
bool begins_in_order(const Node& node, Wide& last) {
  Wide last_of_part = 0;
  last = 0;
  switch (node.kind) {
    case Kind::kEmpty:
    case Kind::kBlock:
      return true;
    case Kind::kLoop:
      if (!begins_in_order(*node.child, last_of_part) || node.stride < last_of_part) return false;
      last = static_cast<Wide>(node.stride) * (node.count - 1) + last_of_part;
      return true;
    case Kind::kBlocks:
      last = node.blocks->offsets.back();
      return std::is_sorted(node.blocks->offsets.begin(), node.blocks->offsets.end());
    case Kind::kList:
      for (Offset i = 0; i < node.list->count(); ++i) {
        const Wide at = node.list->offsets[i];
        if (at < last || !begins_in_order(*node.list->children[i], last_of_part)) return false;
        last = at + last_of_part;
      }
      return true;
  }
  return false;
}

std::size_t count_parts(const Node& node, std::unordered_set<const Node*>& seen) {
  if (!seen.insert(&node).second) return 0;
  std::size_t parts = 1;
  if (node.child) parts += count_parts(*node.child, seen);
  if (node.blocks) parts += node.blocks->offsets.size() + node.blocks->positions.size();
  if (node.list) {
    parts += node.list->children.size();
    for (const NodePtr& child : node.list->children) parts += count_parts(*child, seen);
  }
  return parts;
}

}  // namespace

Tiling tile(const Type& type, Offset displacement) { return Tiling{type.node, type.extent, displacement}; }

Result<Tiling> copy_alone(const Tiling& tiling, Offset copy) {
  const Node& node = *tiling.node;
  const Wide displacement = tiling.displacement + static_cast<Wide>(copy) * tiling.extent;
  if (!fits(displacement + node.base + node.lower) || !fits(displacement + node.base + node.upper) || !fits(displacement))
    return too_large("view", "the offset of a filetype's copy");
  return Tiling{tiling.node, std::max(node.span(), Offset{1}), static_cast<Offset>(displacement)};
}

Tiling bytes_at(Offset displacement) {
  static const NodePtr byte = *make_block(0, 1, Element::kRaw, 1);
  return Tiling{byte, 1, displacement};
}

bool is_contiguous(const Tiling& tiling) { return tiling.node->dense() && tiling.extent == tiling.node->size; }

bool is_monotone(const Tiling& tiling) {
  const Node& node = *tiling.node;
  return node.size == 0 || (node.monotone && tiling.extent > 0 && tiling.extent >= node.span() - 1);
}

bool pieces_begin_in_order(const Tiling& tiling) {
  Wide last = 0;
  return begins_in_order(*tiling.node, last);
}

bool overlaps_itself(const Tiling& tiling) {
  const Node& node = *tiling.node;
  if (node.size == 0) return false;
  const Wide distance = tiling.extent < 0 ? -static_cast<Wide>(tiling.extent) : tiling.extent;
  return distance < node.span() || !reaches_bytes_once(node);
}

Offset offset_of(const Tiling& tiling, Offset position) {
  const Node& node = *tiling.node;
  const Wide copy = position / node.size;
  return nearest(copy * tiling.extent + tiling.displacement + offset_in(&node, position % node.size));
}

Offset position_of(const Tiling& tiling, Offset offset) {
  const Node& node = *tiling.node;
  const Wide x = static_cast<Wide>(offset) - tiling.displacement - node.base;  // from the first byte of copy 0
  if (x <= 0) return 0;
  const Wide copy = (x - 1) / tiling.extent;  // the last one that starts below
  return nearest(copy * node.size + position_in(&node, static_cast<Offset>(x - copy * tiling.extent)));
}

Bounds bounds_of(const Tiling& tiling, Offset position, Offset bytes) {
  const Node& node = *tiling.node;
  if (bytes <= 0 || node.size == 0) return {};
  Extremes extremes;
  add_copies(node, static_cast<Wide>(tiling.displacement) + node.base, tiling.extent, position, position + bytes, extremes);
  return {nearest(extremes.lower), nearest(extremes.upper)};
}

Offset pieces_in(const Tiling& tiling, Offset position, Offset bytes) {
  const Node& node = *tiling.node;
  if (bytes <= 0 || node.size == 0) return 0;
  if (is_contiguous(tiling)) return 1;
  const Offset last = position + bytes - 1;
  const Wide before = static_cast<Wide>(position / node.size) * node.pieces + piece_in(&node, position % node.size);
  const Wide through = static_cast<Wide>(last / node.size) * node.pieces + piece_in(&node, last % node.size);
  return nearest(through - before + 1);
}

std::size_t description_size(const NodePtr& node) {
  std::unordered_set<const Node*> seen;
  return count_parts(*node, seen);
}

}  // namespace penstock::access
