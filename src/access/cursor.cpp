// Walking a tiling run by run, and two tilings in step.  Allocates only for types nested deeper than kInlineDepth.
#include "access/cursor.h"

#include <algorithm>
#include <limits>

#include "access/node.h"

namespace penstock::access {

namespace {

using Kind = Node::Kind;

/// a + b * c where the answer is known to be an offset of real data whenever it is used; otherwise any value will do.
Offset add_product(Offset a, Offset b, Offset c) {
  return static_cast<Offset>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b) * static_cast<std::uint64_t>(c));
}

}  // namespace

Cursor::Cursor(const Tiling& tiling, Offset position, Offset bytes)
    : root_(tiling.node), tile_stride_(tiling.extent), remaining_(bytes) {
  if (root_->size == 0 || bytes <= 0) {
    remaining_ = 0;
    return;
  }
  first_tile_ = add_product(tiling.displacement, 1, root_->base);
  // A loop whose copies continue from one tile to the next is no level of its own.
  while (root_->kind == Kind::kLoop && static_cast<Wide>(root_->count) * root_->stride == tile_stride_) {
    tile_stride_ = root_->stride;
    root_ = root_->child;
  }
  tile_ = position / root_->size;
  const Offset skip = position % root_->size;
  const Offset origin = add_product(first_tile_, tile_, tile_stride_);
  descend(root_.get(), origin, skip);
  if (root_->kind != Kind::kBlock) return;
  // All tiles together are one regular sequence, or one piece.
  stride_ = tile_stride_;
  if (tile_stride_ == length_) {
    offset_ = origin;
    length_ = std::numeric_limits<Offset>::max();
  } else {
    pieces_left_ = std::numeric_limits<Offset>::max();
  }
}

void Cursor::push(const Frame& pushed) {
  if (depth_ >= kInlineDepth && static_cast<std::size_t>(depth_ - kInlineDepth) == deep_.size()) deep_.emplace_back();
  frame(depth_++) = pushed;
}

/// Goes down to the pieces that hold data position `skip` of `node`, whose first byte is at `origin`.
void Cursor::descend(const Node* node, Offset origin, Offset skip) {
  for (;;) {
    switch (node->kind) {
      case Kind::kEmpty:
      case Kind::kBlock:
        offset_ = origin;
        length_ = node->size;
        stride_ = 0;
        pieces_left_ = 1;
        within_ = skip;
        blocks_ = nullptr;
        element_ = node->element;
        element_size_ = node->element_size;
        return;
      case Kind::kLoop: {
        const Node* child = node->child.get();
        const Offset i = skip == 0 ? 0 : skip / child->size;
        skip -= i * child->size;
        if (child->kind == Kind::kBlock) {
          offset_ = origin + i * node->stride;
          length_ = child->size;
          stride_ = node->stride;
          pieces_left_ = node->count - i;
          within_ = skip;
          blocks_ = nullptr;
          element_ = child->element;
          element_size_ = child->element_size;
          return;
        }
        push({node, origin, i});
        origin += i * node->stride;
        node = child;
        break;
      }
      case Kind::kBlocks:
        blocks_ = node;
        blocks_origin_ = origin;
        next_block_ = skip == 0 ? 0 : node->blocks->at_position(skip);
        element_ = node->element;
        element_size_ = node->element_size;
        take_blocks(skip - node->blocks->position(next_block_));
        return;
      case Kind::kList: {
        const Offset i = skip == 0 ? 0 : node->list->at_position(skip);
        skip -= node->list->positions[i];
        push({node, origin, i});
        origin += node->list->offsets[i];
        node = node->list->children[i].get();
        break;
      }
    }
  }
}

/// The longest stretch of equal, equally spaced blocks from next_block_ on, of which `skip` bytes are done.
void Cursor::take_blocks(Offset skip) {
  const Blocks& blocks = *blocks_->blocks;
  const Offset first = next_block_, end = blocks.count();
  const Offset start = blocks.offsets[first];
  length_ = blocks.length_of(first);
  // Blocks that will not be yielded need not be looked at: a short access of a long list stays cheap.
  const Offset wanted = remaining_ / length_ < end - first - 2 ? first + remaining_ / length_ + 2 : end;
  Offset i = first + 1;
  stride_ = i < end ? blocks.offsets[i] - start : 0;
  while (i < wanted && blocks.length_of(i) == length_ && blocks.offsets[i] - blocks.offsets[i - 1] == stride_) ++i;
  offset_ = blocks_origin_ + start;
  pieces_left_ = i - first;
  within_ = skip;
  next_block_ = i;
}

/// To the pieces after those that are used up.
void Cursor::advance() {
  if (blocks_ && next_block_ < blocks_->blocks->count()) return take_blocks(0);
  for (; depth_ > 0; --depth_) {
    Frame& top = frame(depth_ - 1);
    ++top.index;
    if (top.node->kind == Kind::kLoop) {
      if (top.index < top.node->count)
        return descend(top.node->child.get(), top.origin + top.index * top.node->stride, 0);
    } else if (top.index < top.node->list->count()) {
      return descend(top.node->list->children[top.index].get(), top.origin + top.node->list->offsets[top.index], 0);
    }
  }
  ++tile_;
  descend(root_.get(), add_product(first_tile_, tile_, tile_stride_), 0);
}

bool Cursor::next(Run& run, Offset limit_bytes) {
  const Offset budget = std::min(remaining_, limit_bytes);
  if (budget <= 0) return false;
  if (pieces_left_ == 0) advance();
  run.offset = offset_ + within_;
  run.stride = stride_;
  run.element = element_;
  run.element_size = element_size_;
  if (within_ > 0 || budget < length_) {
    run.length = std::min(length_ - within_, budget);
    run.count = 1;
    within_ += run.length;
    remaining_ -= run.length;
    if (within_ < length_) return true;
    within_ = 0;
  } else {
    run.length = length_;
    run.count = std::min(pieces_left_, budget / length_);
    remaining_ -= run.length * run.count;
  }
  pieces_left_ -= run.count;
  offset_ = add_product(offset_, run.count, stride_);
  return true;
}

bool Zip::Side::fill() {
  if (run.count > 0) return true;
  within = 0;
  return cursor.next(run);
}

void Zip::Side::skip_pieces(Offset count) {
  within = 0;
  run.count -= count;
  run.offset = add_product(run.offset, count, run.stride);
}

/// Requires bytes <= piece_length().
void Zip::Side::skip_bytes(Offset bytes) {
  within += bytes;
  if (within == run.length) skip_pieces(1);
}

Zip::Zip(const Tiling& file, Offset file_position, const Tiling& memory, Offset memory_position, Offset bytes)
    : file_{Cursor(file, file_position, bytes), {}, 0}, memory_{Cursor(memory, memory_position, bytes), {}, 0} {}

bool Zip::next(Step& step) {
  if (!file_.fill() || !memory_.fill()) return false;
  const Offset file_length = file_.piece_length(), memory_length = memory_.piece_length();
  step.file_offset = file_.run.offset + file_.within;
  step.memory_offset = memory_.run.offset + memory_.within;
  step.length = std::min(file_length, memory_length);
  // The side with longer pieces is dense as far as its first piece goes.
  step.file_stride = file_length > memory_length ? step.length : file_.run.stride;
  step.memory_stride = memory_length > file_length ? step.length : memory_.run.stride;
  if (file_length == memory_length) {
    step.count = std::min(file_.pieces(), memory_.pieces());
    file_.skip_pieces(step.count);
    memory_.skip_pieces(step.count);
    return true;
  }
  Side& longer = file_length > memory_length ? file_ : memory_;
  Side& shorter = file_length > memory_length ? memory_ : file_;
  step.count = std::min(shorter.pieces(), longer.piece_length() / step.length);
  longer.skip_bytes(step.count * step.length);
  shorter.skip_pieces(step.count);
  return true;
}

}  // namespace penstock::access
