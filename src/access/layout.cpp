// The constructors of MPI 4.1 section 5.1.2 in terms of nodes, with their bounds.  Knows no MPI handles.
#include "access/layout.h"

#include <unordered_map>

#include "access/node.h"

namespace penstock::access {

namespace {

/// Collects the bounds of a type that is built of copies of others (MPI 4.1 section 5.1.6, without padding).
class BoundsOfParts {
 public:
  /// `copies` of `type`, the first at `displacement`, an extent apart.
  void add(const Type& type, Wide displacement, Offset copies) {
    if (copies == 0 || (type.node->size == 0 && !type.bounds_set)) return;
    if (type.bounds_set && !set_) any_ = false;  // what was derived from data no longer counts
    if (!type.bounds_set && set_) return;
    set_ = type.bounds_set;
    const Wide last = displacement + static_cast<Wide>(copies - 1) * type.extent;
    const Wide lower = std::min(displacement, last) + type.lower_bound;
    const Wide upper = std::max(displacement, last) + type.lower_bound + type.extent;
    lower_ = any_ ? std::min(lower_, lower) : lower;
    upper_ = any_ ? std::max(upper_, upper) : upper;
    any_ = true;
  }

  Result<Type> type_of(Result<NodePtr> node) const {
    if (!node.ok()) return node.status();
    if (!fits(lower_) || !fits(upper_) || !fits(upper_ - lower_)) return too_large("datatype", "a bound or the extent");
    return Type{std::move(*node), static_cast<Offset>(lower_), static_cast<Offset>(upper_ - lower_), set_};
  }

 private:
  bool any_ = false, set_ = false;
  Wide lower_ = 0, upper_ = 0;
};

Status check_count(const char* constructor, const char* name, Offset count) {
  if (count >= 0) return {};
  return Status::failure(Code::kType, std::string(constructor) + ": the " + name + " is " + std::to_string(count) +
                                          "; it must be 0 or more");
}

Status check_lengths(const char* constructor, std::size_t lengths, std::size_t displacements) {
  if (lengths == displacements) return {};
  return Status::failure(Code::kType, std::string(constructor) + ": there are " + std::to_string(lengths) +
                                          " block lengths and " + std::to_string(displacements) +
                                          " displacements; there must be as many of each");
}

/// Copies of one type, an extent apart, remembered by their number, so that equal blocks share one node.
class BlockShapes {
 public:
  explicit BlockShapes(const Type& type) : type_(type) {}

  Result<NodePtr> of(Offset copies) {
    if (auto found = known_.find(copies); found != known_.end()) return found->second;
    Result<NodePtr> made = make_loop(0, copies, type_.extent, type_.node);
    if (made.ok()) known_.emplace(copies, *made);
    return made;
  }

 private:
  const Type& type_;
  std::unordered_map<Offset, NodePtr> known_;
};

/// The data of hindexed; `block_length(i)` gives the number of copies in block i.
template <typename BlockLength>
Result<NodePtr> indexed_node(BlockLength block_length, std::span<const Offset> displacements, const Type& type) {
  const Node& child = *type.node;
  const bool single_blocks = child.kind == Node::Kind::kBlock && type.extent == child.size;
  if (!single_blocks) {
    BlockShapes shapes(type);
    std::vector<Placed> parts;
    parts.reserve(displacements.size());
    for (std::size_t i = 0; i < displacements.size(); ++i) {
      Result<NodePtr> shape = shapes.of(block_length(i));
      if (!shape.ok()) return shape;
      parts.push_back({displacements[i], std::move(*shape)});
    }
    return make_list(std::move(parts));
  }
  std::vector<Offset> offsets(displacements.size()), lengths(displacements.size());
  for (std::size_t i = 0; i < displacements.size(); ++i) {
    if (block_length(i) == 0) continue;  // its displacement is not looked at
    if (!checked_add(displacements[i], child.base, offsets[i])) return too_large("hindexed", "a displacement");
    if (!checked_multiply(block_length(i), child.size, lengths[i])) return too_large("hindexed", "a block");
  }
  return make_blocks(std::move(offsets), std::move(lengths), child.element, child.element_size);
}

}  // namespace

Offset Type::size() const { return node->size; }

Result<Type> elementary(Offset size_bytes, Element element) {
  PENSTOCK_TRY(check_count("elementary", "size", size_bytes));
  Result<NodePtr> node = make_block(0, size_bytes, element, element == Element::kRaw ? 1 : size_bytes);
  if (!node.ok()) return node.status();
  return Type{std::move(*node), 0, size_bytes};
}

Result<Type> contiguous(Offset count, const Type& type) {
  PENSTOCK_TRY(check_count("contiguous", "count", count));
  BoundsOfParts bounds;
  bounds.add(type, 0, count);
  return bounds.type_of(make_loop(0, count, type.extent, type.node));
}

Result<Type> hvector(Offset count, Offset block_length, Offset stride_bytes, const Type& type) {
  PENSTOCK_TRY(check_count("hvector", "count", count));
  PENSTOCK_TRY(check_count("hvector", "block length", block_length));
  BoundsOfParts bounds;
  if (count > 0) {
    bounds.add(type, 0, block_length);
    bounds.add(type, static_cast<Wide>(count - 1) * stride_bytes, block_length);
  }
  Result<NodePtr> block = make_loop(0, block_length, type.extent, type.node);
  if (!block.ok()) return block.status();
  return bounds.type_of(make_loop(0, count, stride_bytes, *block));
}

Result<Type> hindexed(std::span<const Offset> block_lengths, std::span<const Offset> displacements_bytes,
                      const Type& type) {
  PENSTOCK_TRY(check_lengths("hindexed", block_lengths.size(), displacements_bytes.size()));
  BoundsOfParts bounds;
  for (std::size_t i = 0; i < block_lengths.size(); ++i) {
    PENSTOCK_TRY(check_count("hindexed", "block length", block_lengths[i]));
    bounds.add(type, displacements_bytes[i], block_lengths[i]);
  }
  return bounds.type_of(indexed_node([&](std::size_t i) { return block_lengths[i]; }, displacements_bytes, type));
}

Result<Type> hindexed_block(Offset block_length, std::span<const Offset> displacements_bytes, const Type& type) {
  PENSTOCK_TRY(check_count("hindexed_block", "block length", block_length));
  BoundsOfParts bounds;
  for (Offset displacement : displacements_bytes) bounds.add(type, displacement, block_length);
  return bounds.type_of(indexed_node([&](std::size_t) { return block_length; }, displacements_bytes, type));
}

Result<Type> structure(std::span<const Offset> block_lengths, std::span<const Offset> displacements_bytes,
                       std::span<const Type> types) {
  PENSTOCK_TRY(check_lengths("structure", block_lengths.size(), displacements_bytes.size()));
  PENSTOCK_TRY(check_lengths("structure", block_lengths.size(), types.size()));
  BoundsOfParts bounds;
  std::vector<Placed> parts;
  parts.reserve(types.size());
  for (std::size_t i = 0; i < types.size(); ++i) {
    PENSTOCK_TRY(check_count("structure", "block length", block_lengths[i]));
    bounds.add(types[i], displacements_bytes[i], block_lengths[i]);
    Result<NodePtr> part = make_loop(0, block_lengths[i], types[i].extent, types[i].node);
    if (!part.ok()) return part.status();
    parts.push_back({displacements_bytes[i], std::move(*part)});
  }
  return bounds.type_of(make_list(std::move(parts)));
}

Result<Type> resized(Offset lower_bound, Offset extent, const Type& type) {
  if (!fits(static_cast<Wide>(lower_bound) + extent)) return too_large("resized", "the upper bound");
  return Type{type.node, lower_bound, extent, true};
}

}  // namespace penstock::access
