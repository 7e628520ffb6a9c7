// Joining claims by shift and reduce over their structure.  Knows neither ranks nor files.
#include "access/merge.h"

#include <algorithm>
#include <optional>

#include "access/chain.h"
#include "access/node.h"

namespace penstock::access {

namespace {

using Kind = Node::Kind;

Result<NodePtr> raw(const NodePtr& node);

Result<NodePtr> raw_list(const Node& node) {
  std::vector<Placed> parts;
  NodePtr before, made;
  for (Offset i = 0; i < node.list->count(); ++i) {
    const NodePtr& child = node.list->children[i];
    if (child != before) {
      Result<NodePtr> next = raw(child);
      if (!next.ok()) return next;
      made = std::move(*next);
      before = child;
    }
    parts.push_back({node.base + node.list->offsets[i], made});
  }
  return make_list(std::move(parts));
}

/// The same bytes without their kinds: elements of different kinds that abut are one block then.
Result<NodePtr> raw(const NodePtr& node) {
  if (!node->typed) return node;
  switch (node->kind) {
    case Kind::kEmpty:
      return node;
    case Kind::kBlock:
      return make_block(node->base, node->size, Element::kRaw, 1);
    case Kind::kLoop: {
      const Result<NodePtr> child = raw(node->child);
      return child.ok() ? make_loop(node->base, node->count, node->stride, *child) : child;
    }
    case Kind::kBlocks: {
      std::vector<Offset> offsets = node->blocks->offsets, lengths;
      for (Offset i = 0; i < node->blocks->count(); ++i) {
        lengths.push_back(node->blocks->length_of(i));
        offsets[i] += node->base;
      }
      return make_blocks(std::move(offsets), std::move(lengths), Element::kRaw, 1);
    }
    case Kind::kList:
      return raw_list(*node);
  }
  return node;
}

/// All bytes of a claim as one node in normal form that lies where they lie; null where that cannot be had.
NodePtr node_of(const Claim& claim) {
  const Tiling& tiling = claim.tiling;
  const Result<NodePtr> root = raw(tiling.node);
  Offset end = 0;
  if (!root.ok() || claim.position < 0 || !checked_add(claim.position, claim.bytes, end)) return nullptr;
  const Node& node = **root;
  const Offset first = claim.position / node.size, last = (end - 1) / node.size;
  const Wide base = static_cast<Wide>(tiling.displacement) + node.base;
  const Wide at = base + static_cast<Wide>(first) * tiling.extent, at_last = base + static_cast<Wide>(last) * tiling.extent;
  const bool monotone = node.monotone && !node.repeats && (first == last || tiling.extent >= node.span());
  if (!monotone || !fits(at) || !fits(at_last + node.upper)) return nullptr;
  Copies copies;
  copies.at = static_cast<Offset>(at);
  copies.count = last - first + 1;
  copies.stride = tiling.extent;
  copies.unit = *root;
  copies.width = node.width;
  Chain chain;
  const Offset skipped = first * node.size;
  if (!chain.append_slice(normal(std::move(copies)), claim.position - skipped, end - skipped)) return nullptr;
  NodePtr made = chain.build();
  return made && made->size == claim.bytes ? made : nullptr;
}

Claim claim_of(const NodePtr& node) { return {{node, std::max<Offset>(node->span(), 1), 0}, 0, node->size}; }

/// Parts of one side that are still to be taken, the next one last.
using Waiting = std::vector<Copies>;

Waiting parts_of(const Copies& copies) {
  Waiting waiting;
  if (copies.count == 1 && copies.unit)
    push_members(*copies.unit, copies.at, waiting);
  else
    waiting.push_back(copies);
  return waiting;
}

/// Joins two nodes: takes parts of the one and the other in the order in which they lie, and where they lie within one
/// another takes them apart just so far that they do not, or that equal numbers of copies can be joined pair by pair.
/// What comes out has each part of either side once and in strictly increasing order: no byte is lost or there twice.
class Joiner {
 public:
  /// `equal_patterns`: two equal patterns somewhere may become a loop of two.
  Joiner(const Node& a, const Node& b, bool equal_patterns) : equal_patterns_(equal_patterns) {
    // A bound on the work, for patterns that would come apart into their pieces.
    steps_left_ = 16 * std::min<Wide>(static_cast<Wide>(a.width) + b.width, INT64_MAX / 32) + 64;
    // A join has to save half of the shorter description.
    width_max_ = std::max(a.width, b.width) + std::min(a.width, b.width) / 2;
    width_on_the_way_max_ = equal_patterns ? nearest(static_cast<Wide>(a.width) + b.width) : width_max_;
  }

  /// Null when they share a byte, or joining would not make them simpler.
  NodePtr join(const NodePtr& a, const NodePtr& b) {
    Chain chain;
    if (!merge(parts_of(copies_of(a, a->base)), parts_of(copies_of(b, b->base)), chain)) return nullptr;
    if (!equal_patterns_ && chain.width() > width_max_) return nullptr;
    NodePtr made = chain.build();
    return made && made->width <= width_max_ ? made : nullptr;
  }

 private:
  bool merge(Waiting a, Waiting b, Chain& out) {
    Waiting *first = &a, *second = &b;
    while (!a.empty() && !b.empty()) {
      if (second->back().at < first->back().at) std::swap(first, second);
      if (--steps_left_ < 0 || out.settled_width() > width_on_the_way_max_ || !step(*first, *second, out)) return false;
    }
    for (Waiting& rest = a.empty() ? b : a; !rest.empty(); rest.pop_back())
      if (!out.append(std::move(rest.back()))) return false;
    return true;
  }

  /// One step on.  The next part of `first` begins before that of `second`, or where it does.
  bool step(Waiting& first, Waiting& second, Chain& out) {
    const Copies x = first.back(), y = second.back();
    if (x.at == y.at) return false;
    if (x.end() <= y.at) {
      first.pop_back();
      return out.append(x);
    }
    if (x.count == 1) return take_apart(first);
    const Offset before = (y.at - x.at) / x.stride;  // copies of x that lie before y; y begins after one more has begun
    if (y.count > 1 && x.count - before > 1) {
      if (regroup(first, second, before)) return true;
      if (x.stride == y.stride) return pair(first, second, before, out);
    }
    const Offset copy = x.at + before * x.stride;
    const bool in_gap = copy + x.unit_span() <= y.at;
    if (in_gap && (y.count > 1 || !y.unit || y.end() <= copy + x.stride)) return emit(first, before + 1, out);
    if (y.count == 1 && y.unit) return take_apart(second);
    // y begins within a copy of x: that one by itself.
    return emit(first, before, out) && (x.count - before == 1 || separate(first));
  }

  /// Puts the members of a list in its place.  A block has none: then somebody else's bytes are within it.
  bool take_apart(Waiting& waiting) {
    const Copies list = waiting.back();
    if (!list.unit) return false;
    waiting.pop_back();
    const std::size_t others = waiting.size();
    push_members(*list.unit, list.at, waiting);
    steps_left_ -= static_cast<Offset>(waiting.size() - others);
    return true;
  }

  /// Puts the first copy by itself.
  static bool separate(Waiting& waiting) {
    const Copies loop = waiting.back();
    if (!loop.unit) return false;
    waiting.pop_back();
    waiting.push_back(part_of(loop, 1, loop.count - 1));
    waiting.push_back(part_of(loop, 0, 1));
    return true;
  }

  /// Moves the first `count` copies of the next part to the result.
  static bool emit(Waiting& waiting, Offset count, Chain& out) {
    if (count == 0) return true;
    const Copies copies = waiting.back();
    waiting.pop_back();
    if (count < copies.count) waiting.push_back(part_of(copies, count, copies.count - count));
    return out.append(part_of(copies, 0, count));
  }

  /// Where one stride is a multiple of the other: the finer loop as a loop of loops with the coarser stride.  The first
  /// `before` copies of `first` are left out of it.
  static bool regroup(Waiting& first, Waiting& second, Offset before) {
    const Copies x = first.back(), y = second.back();
    if (x.stride < y.stride && y.stride % x.stride == 0) return group(first, before, y.stride / x.stride);
    if (y.stride < x.stride && x.stride % y.stride == 0) return group(second, 0, x.stride / y.stride);
    return false;
  }

  static bool group(Waiting& waiting, Offset before, Offset ratio) {
    const Copies loop = waiting.back();
    const Offset groups = (loop.count - before) / ratio;
    if (groups < 2) return false;
    Chain chain;
    Copies inner = part_of(loop, 0, ratio);
    inner.at = 0;
    if (!chain.append(inner)) return false;
    Copies outer = loop;
    outer.at = loop.at + before * loop.stride;
    outer.count = groups;
    outer.stride = ratio * loop.stride;
    outer.unit = chain.build();
    if (!outer.unit) return false;
    waiting.pop_back();
    const Offset grouped = before + groups * ratio;
    if (grouped < loop.count) waiting.push_back(part_of(loop, grouped, loop.count - grouped));
    waiting.push_back(std::move(outer));
    if (before > 0) waiting.push_back(part_of(loop, 0, before));
    return true;
  }

  /// Two loops of one stride, of at least two copies each behind the first `before` copies of `first`: copy by copy.
  bool pair(Waiting& first, Waiting& second, Offset before, Chain& out) {
    const Copies x = first.back(), y = second.back();
    const Offset copy = x.at + before * x.stride;
    if (y.at + y.unit_span() > copy + x.stride) {
      // Copies of y reach into the next copy of x: then those of y have to lead.
      return copy + x.unit_span() <= y.at && emit(first, before + 1, out);
    }
    const Offset count = std::min(x.count - before, y.count);
    std::optional<Copies> both = join_units(x, y, y.at - copy);
    if (!both || !emit(first, before, out)) return false;
    both->at = copy;
    both->count = count;
    both->stride = x.stride;
    drop(first, count);
    drop(second, count);
    return out.append(std::move(*both));
  }

  static void drop(Waiting& waiting, Offset count) {
    const Copies copies = waiting.back();
    waiting.pop_back();
    if (count < copies.count) waiting.push_back(part_of(copies, count, copies.count - count));
  }

  /// A unit of x and, `distance` behind it, a unit of y as one unit.
  std::optional<Copies> join_units(const Copies& x, const Copies& y, Offset distance) {
    Copies one = part_of(x, 0, 1), other = part_of(y, 0, 1);
    one.at = 0;
    other.at = distance;
    Chain chain;
    if (!merge(parts_of(one), parts_of(other), chain)) return std::nullopt;
    Copies both;
    both.unit = chain.build();
    both.width = chain.width();
    if (!both.unit) return std::nullopt;
    return both;
  }

  bool equal_patterns_;
  Offset steps_left_ = 0;
  Offset width_max_ = 0;
  Offset width_on_the_way_max_ = 0;
};

/// A node and the claims that are in it.
struct Whole {
  NodePtr node;
  std::vector<std::size_t> members;
};

/// Puts `next` into `whole`; false, and nothing done, where they do not join.
bool absorb(Whole& whole, Whole& next, bool equal_patterns) {
  NodePtr both = Joiner(*whole.node, *next.node, equal_patterns).join(whole.node, next.node);
  if (!both || both->size != whole.node->size + next.node->size) return false;
  whole.node = std::move(both);
  if (whole.members.size() < next.members.size()) std::swap(whole.members, next.members);
  whole.members.insert(whole.members.end(), next.members.begin(), next.members.end());
  return true;
}

/// Shift-reduce: each whole is joined with the one before it if it can be, and the outcome with the one before that.
/// A list is not joined with one that is much longer than itself, since every such attempt goes through both.
std::vector<Whole> reduce(std::vector<Whole> wholes, bool equal_patterns) {
  constexpr Offset kShort = 64;
  std::vector<Whole> stack;
  for (Whole& next : wholes) {
    stack.push_back(std::move(next));
    while (stack.size() > 1) {
      Whole &below = stack[stack.size() - 2], &top = stack.back();
      if (below.node->width > kShort && below.node->width / 2 > top.node->width) break;
      if (!absorb(below, top, equal_patterns)) break;
      stack.pop_back();
    }
  }
  return stack;
}

/// What reduce() put off: from the end on, whatever the lengths.
std::vector<Whole> reduce_rest(std::vector<Whole> wholes) {
  std::vector<Whole> kept;
  for (; !wholes.empty(); wholes.pop_back()) {
    if (!kept.empty() && absorb(wholes.back(), kept.back(), false))
      kept.back() = std::move(wholes.back());
    else
      kept.push_back(std::move(wholes.back()));
  }
  std::reverse(kept.begin(), kept.end());
  return kept;
}

bool starts_before(const Whole& a, const Whole& b) { return a.node->base < b.node->base; }

}  // namespace

Claim normal_form(const Claim& claim) {
  if (claim.bytes <= 0 || claim.tiling.node->size == 0) return claim;
  const NodePtr node = node_of(claim);
  return node ? claim_of(node) : claim;
}

Claim clipped(const Claim& claim, Offset first, Offset end) {
  Claim part = claim;
  part.bytes = 0;
  if (claim.bytes <= 0 || claim.tiling.node->size == 0) return part;
  const Offset last = claim.position + claim.bytes;
  part.position = std::clamp(position_of(claim.tiling, first), claim.position, last);
  part.bytes = std::max(std::clamp(position_of(claim.tiling, end), claim.position, last) - part.position, Offset{0});
  return normal_form(part);
}

Coalesced coalesce(const std::vector<Claim>& claims) {
  std::vector<Whole> wholes;
  std::vector<std::size_t> as_they_were;
  for (std::size_t i = 0; i < claims.size(); ++i) {
    if (claims[i].bytes <= 0 || claims[i].tiling.node->size == 0) continue;
    if (NodePtr node = node_of(claims[i]))
      wholes.push_back({std::move(node), {i}});
    else
      as_they_were.push_back(i);
  }
  std::stable_sort(wholes.begin(), wholes.end(), starts_before);
  wholes = reduce(reduce_rest(reduce(std::move(wholes), false)), true);

  Coalesced result;
  result.whole_of.assign(claims.size(), Coalesced::kNone);
  for (const Whole& whole : wholes) {
    for (const std::size_t member : whole.members) result.whole_of[member] = result.wholes.size();
    result.wholes.push_back(claim_of(whole.node));
  }
  for (const std::size_t member : as_they_were) {
    result.whole_of[member] = result.wholes.size();
    result.wholes.push_back(claims[member]);
  }
  return result;
}

}  // namespace penstock::access
