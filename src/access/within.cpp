// Going down one tree by the offsets that another yields.  Knows neither ranks nor files.
#include "access/within.h"

#include <algorithm>

#include "access/node.h"

namespace penstock::access {

namespace {

using Kind = Node::Kind;

/// The last of sorted `offsets`, the first of which is 0, that is not above x.  Requires x >= 0.
Offset last_up_to(const std::vector<Offset>& offsets, Offset x) {
  return std::upper_bound(offsets.begin(), offsets.end(), x) - offsets.begin() - 1;
}

}  // namespace

/// The piece of the whole that holds a byte, and how far a run that goes on from there stays at the same place of
/// other copies.
struct Within::Search {
  Offset offset = 0;  ///< of the byte
  Offset stride = 0;  ///< of the run
  Offset count = 1;   ///< of the run

  Offset position = 0;  ///< in the data of the whole's tiling
  Offset left = 0;      ///< bytes from there to the end of the piece
  Offset alike = 1;     ///< how many pieces of the run lie alike in their copies
  Offset apart = 0;     ///< those are this far apart in the data

  /// On the way down: copy `index` of `copies` with `size` bytes of data, `distance` apart.
  void pass(Offset distance, Offset size, Offset index, Offset copies) {
    if (count == 1 || stride % distance != 0) return;
    const Offset ratio = stride / distance;
    const Offset reached = std::min(count, (copies - 1 - index) / ratio + 1);
    if (reached <= alike) return;
    alike = reached;
    apart = ratio * size;
  }
};

Within::Within(const Claim& whole, const Claim& member, Offset from, Offset to)
    : whole_(whole),
      cursor_(member.tiling, member.position + from, to - from),
      member_position_(from),
      searchable_(whole.bytes > 0 && is_monotone(whole.tiling) && !overlaps_itself(whole.tiling)) {}

/// False when the whole's tiling does not reach the byte.
bool Within::search(Search& search) const {
  const Node* node = whole_.tiling.node.get();
  const Wide from_first = static_cast<Wide>(search.offset) - whole_.tiling.displacement - node->base;
  if (from_first >= 0 && fits(from_first) && is_contiguous(whole_.tiling)) {  // one piece, though it is tiled
    search.position = static_cast<Offset>(from_first);
    search.left = std::numeric_limits<Offset>::max() - search.position;
    return true;
  }
  const Wide tile = from_first / whole_.tiling.extent;
  const Wide before = tile * node->size;
  if (from_first < 0 || !fits(before + node->size)) return false;
  search.pass(whole_.tiling.extent, node->size, static_cast<Offset>(tile), std::numeric_limits<Offset>::max());
  search.position = static_cast<Offset>(before);
  Offset x = static_cast<Offset>(from_first - tile * whole_.tiling.extent);
  for (;;) {
    switch (node->kind) {
      case Kind::kEmpty:
      case Kind::kBlock:
        search.position += x;
        search.left = node->size - x;
        return search.left > 0;
      case Kind::kLoop: {
        const Offset i = std::min(x / node->stride, node->count - 1);
        search.pass(node->stride, node->child->size, i, node->count);
        search.position += i * node->child->size;
        x -= i * node->stride;
        node = node->child.get();
        break;
      }
      case Kind::kBlocks: {
        const Offset i = last_up_to(node->blocks->offsets, x);
        x -= node->blocks->offsets[i];
        search.position += node->blocks->position(i) + x;
        search.left = node->blocks->length_of(i) - x;
        return search.left > 0;
      }
      case Kind::kList: {
        const Offset i = last_up_to(node->list->offsets, x);
        search.position += node->list->positions[i];
        x -= node->list->offsets[i];
        node = node->list->children[i].get();
        break;
      }
    }
  }
}

/// Where as many of the run's next pieces are as one step can say.  False when the first is not all in the whole.
bool Within::locate(PackedStep& step) const {
  Search search;
  search.offset = run_.offset;
  search.stride = run_.stride;
  search.count = run_.stride < run_.length ? 1 : run_.count;  // a member that is none may go backwards
  if (!this->search(search)) return false;
  const Offset in_piece = search.left < run_.length ? 0
                          : search.count == 1       ? 1
                                                    : std::min(search.count, (search.left - run_.length) / run_.stride + 1);
  if (in_piece >= search.alike) {
    step.count = in_piece;
    step.whole_stride = run_.stride;
  } else if (in_piece > 0) {
    step.count = search.alike;
    step.whole_stride = search.apart;
  } else {
    // Pieces of the whole that abut: the bytes are all there when as many of the whole's lie between their ends.
    Offset end = 0;
    if (!checked_add(run_.offset, run_.length, end)) return false;
    if (position_of(whole_.tiling, end) - search.position != run_.length) return false;
    step.count = 1;
    step.whole_stride = run_.length;
  }
  step.whole_position = search.position - whole_.position;
  const Wide last = step.whole_position + static_cast<Wide>(step.count - 1) * step.whole_stride;
  return step.whole_position >= 0 && last + run_.length <= whole_.bytes;
}

Result<bool> Within::next(PackedStep& step) {
  if (run_.count == 0 && !cursor_.next(run_)) return false;
  step.length = run_.length;
  step.member_position = member_position_;
  if (!searchable_ || !locate(step))
    return Status::failure(Code::kIntern, "merged access: the " + std::to_string(run_.length) + " bytes at offset " +
                                              std::to_string(run_.offset) +
                                              " are not in the access that they were merged into");
  run_.count -= step.count;
  if (run_.count > 0) run_.offset += step.count * run_.stride;
  member_position_ += step.count * step.length;
  return true;
}

}  // namespace penstock::access
