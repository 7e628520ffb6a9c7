// Takes away from both accesses what only says where they begin, and compares the rest.  Knows neither ranks nor files.
#include "access/shift.h"

#include "access/node.h"

namespace penstock::access {

namespace {

using Kind = Node::Kind;

/// Some data of copies of a node, in the least that says which.
struct Core {
  const Node* node = nullptr;  ///< its own base is not counted; null: bytes without gaps
  Wide origin = 0;             ///< of the first copy that is reached
  Wide stride = 0;             ///< between copies; 0 where one is all
  Offset position = 0;         ///< in the first copy

  /// Goes into the only part of the node that is reached; false where there are several, or no parts.
  bool enter_part(Offset bytes) {
    if (node->kind == Kind::kLoop) {
      stride = node->stride;
      node = node->child.get();
      return true;
    }
    if (node->kind != Kind::kList) return false;
    const List& list = *node->list;
    const Offset part = list.at_position(position);
    if (bytes > list.positions[static_cast<std::size_t>(part) + 1] - position) return false;
    origin += list.offsets[static_cast<std::size_t>(part)];
    position -= list.positions[static_cast<std::size_t>(part)];
    node = list.children[static_cast<std::size_t>(part)].get();
    return true;
  }

  void become_bytes(Offset from_origin) { *this = {nullptr, origin + from_origin, 0, 0}; }
};

Core core_of(const Claim& claim) {
  const Tiling& tiling = claim.tiling;
  Core core{tiling.node.get(), static_cast<Wide>(tiling.displacement) + tiling.node->base, tiling.extent, claim.position};
  for (;;) {
    const Node& node = *core.node;
    if (node.dense() && core.stride == node.size) {
      core.become_bytes(core.position);
      return core;
    }
    const Offset copy = core.position / node.size;
    core.origin += copy * core.stride;
    core.position -= copy * node.size;
    if (claim.bytes > node.size - core.position) return core;
    core.stride = 0;
    if (node.dense()) {
      core.become_bytes(core.position);
      return core;
    }
    if (node.kind == Kind::kBlocks) {
      const Blocks& blocks = *node.blocks;
      const Offset block = blocks.at_position(core.position), into = core.position - blocks.position(block);
      if (claim.bytes <= blocks.length_of(block) - into) core.become_bytes(blocks.offsets[static_cast<std::size_t>(block)] + into);
      return core;
    }
    if (!core.enter_part(claim.bytes)) return core;
  }
}

}  // namespace

std::optional<Offset> shift_between(const Claim& from, const Claim& to) {
  if (from.bytes != to.bytes || from.bytes <= 0 || from.tiling.node->size == 0 || to.tiling.node->size == 0) return std::nullopt;
  const Core a = core_of(from), b = core_of(to);
  if (a.stride != b.stride || a.position != b.position || (a.node == nullptr) != (b.node == nullptr)) return std::nullopt;
  if (a.node != nullptr && !same_shape(*a.node, *b.node)) return std::nullopt;
  const Wide shift = b.origin - a.origin;
  if (!fits(shift)) return std::nullopt;
  return static_cast<Offset>(shift);
}

}  // namespace penstock::access
