// Layouts: what a datatype touches, as nested strided runs.  Pure: knows neither MPI nor files.
//
// A Layout is an immutable tree that grows with the *description* of a datatype, never with the number of pieces
// it stands for: a subarray of 10^9 pieces is a handful of nodes.  Order is data order (the order of the typemap),
// so a layout also serves for memory, where displacements may go backwards.
//
// Costs: making a node is O(its own arrays); everything asked of a layout is O(depth * log(longest list)).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "base/units.h"

namespace penstock::access {

/// What one element is, for data representations other than native.  kRaw: bytes that are never converted.  kFloat is
/// IEEE of its size (16 bytes: binary128); kExtended is the 80-bit format that x86 keeps in 12 or 16 bytes, which is
/// `long double` there.  Complex elements are two numbers, and their size is that of both.
enum class Element : std::uint8_t {
  kRaw, kSigned, kUnsigned, kFloat, kComplex, kLogical, kCharacter, kWide, kExtended, kComplexExtended
};

/// `count` pieces of `length` bytes, the first at `offset`, each `stride` bytes after the one before.
/// A single piece has count 1 and any stride.  All bytes belong to elements of one kind and size (1 for kRaw).
struct Run {
  Offset offset = 0;
  Offset length = 0;
  Offset stride = 0;
  Offset count = 0;
  Element element = Element::kRaw;
  Offset element_size = 1;
};

struct Node;
using NodePtr = std::shared_ptr<const Node>;

/// A datatype as this room sees it: the bytes (node), and the bounds by which copies of it are placed one after
/// another.  `extent` may be smaller than the bytes touched, zero or negative; `lower_bound` may be negative.
/// Invariant: node is never null (an empty datatype has a node of size 0).
struct Type {
  NodePtr node;
  Offset lower_bound = 0;
  Offset extent = 0;
  /// The bounds were set (resized, subarray, darray) and not derived from the data.  In a type built from several,
  /// set bounds count and derived ones do not (the lb_marker and ub_marker of MPI 4.1 section 5.1.6).
  bool bounds_set = false;

  [[nodiscard]] Offset size() const;  ///< bytes of data in one copy
};

/// Constructors, one for each way in which MPI builds a datatype (MPI 4.1 section 5.1).  Displacements and strides
/// are in bytes.  Bounds of the result follow the standard's rules without alignment padding; a caller that
/// knows better (the MPI library pads structs) sets `lower_bound` and `extent` afterwards.
/// Blocks of length zero take no part in the bounds; a type without data and without set bounds has bounds 0 and 0.
/// Fail with kType when a size, a bound or the span of the data does not fit 64 bits, or counts are negative.
Result<Type> elementary(Offset size_bytes, Element element = Element::kRaw);
Result<Type> contiguous(Offset count, const Type& type);
Result<Type> hvector(Offset count, Offset block_length, Offset stride_bytes, const Type& type);
Result<Type> hindexed(std::span<const Offset> block_lengths, std::span<const Offset> displacements_bytes, const Type& type);
Result<Type> hindexed_block(Offset block_length, std::span<const Offset> displacements_bytes, const Type& type);
Result<Type> structure(std::span<const Offset> block_lengths, std::span<const Offset> displacements_bytes,
                       std::span<const Type> types);
Result<Type> resized(Offset lower_bound, Offset extent, const Type& type);
enum class Order : std::uint8_t { kC, kFortran };
/// The bounds are 0 and the whole array, whatever the bounds of `type` (as in the MPI libraries; the typemaps of MPI
/// 4.1 section 5.1.3 say otherwise only where a bound set in `type` lies outside the array).  Same for darray.
Result<Type> subarray(std::span<const Offset> sizes, std::span<const Offset> subsizes, std::span<const Offset> starts,
                      Order order, const Type& type);
enum class Distribution : std::uint8_t { kBlock, kCyclic, kNone };
constexpr Offset kDefaultDistribution = -1;  ///< MPI_DISTRIBUTE_DFLT_DARG
Result<Type> darray(int process_count, int rank, std::span<const Offset> global_sizes,
                    std::span<const Distribution> distributions, std::span<const Offset> arguments,
                    std::span<const Offset> process_sizes, Order order, const Type& type);

/// A type repeated without end, `extent` apart, the first copy's origin at `displacement`: a file view, or a
/// buffer of many copies of a datatype (displacement 0).
/// "Data position" p is the p-th byte of data in that sequence, counted from 0.
struct Tiling {
  NodePtr node;
  Offset extent = 0;
  Offset displacement = 0;
};

Tiling tile(const Type& type, Offset displacement = 0);

/// Copy number `copy` of a tiling by itself: the next copy lies behind all of it, whatever the tiling's extent.  Monotone
/// when the type's own offsets never decrease.  Fails with kType when its place does not fit 64 bits.
Result<Tiling> copy_alone(const Tiling& tiling, Offset copy);

/// A tiling of plain bytes: position p is at displacement + p.
Tiling bytes_at(Offset displacement);

/// True when data position p is at (some constant) + p for every p: no gaps, no reordering.  False without data.
[[nodiscard]] bool is_contiguous(const Tiling& tiling);

/// True when offsets never decrease in data order, so that position_of() has one answer (the standard asks it of
/// every filetype, MPI 4.1 section 14.1.1).  This speaks of every single byte: two equal elements of more than one
/// byte at the same place are not monotone.  Never true of an extent of 0 or less, always true without data.
[[nodiscard]] bool is_monotone(const Tiling& tiling);

/// True when the pieces of one copy begin at offsets that never decrease: what is_monotone() says of a copy, but elements may share bytes.
/// O(entries).
[[nodiscard]] bool pieces_begin_in_order(const Tiling& tiling);

/// True when some byte is reached twice (not allowed in a view that is written through).  Exact for monotone tilings.
/// For others it may be true although no byte is reached twice: it is false only where nesting and order of the
/// entries prove it, in O(entries * log entries).
[[nodiscard]] bool overlaps_itself(const Tiling& tiling);

/// Offset of the data byte at `position`.  Requires position >= 0 and a node of positive size.  Here and in the
/// questions below, an answer that does not fit 64 bits comes as the nearest number that does.
[[nodiscard]] Offset offset_of(const Tiling& tiling, Offset position);

/// How many data bytes lie at offsets below `offset`.  Requires is_monotone(tiling) and a node of positive size.
[[nodiscard]] Offset position_of(const Tiling& tiling, Offset offset);

/// [first, end) of the offsets touched by data positions [position, position + bytes).  Empty when bytes is 0.
/// Not monotone: also O(entries) of a list that is covered in part.
struct Bounds {
  Offset first = 0;
  Offset end = 0;
};
[[nodiscard]] Bounds bounds_of(const Tiling& tiling, Offset position, Offset bytes);

/// Number of contiguous pieces in data positions [position, position + bytes); may count two abutting pieces of
/// neighbouring copies as two.
[[nodiscard]] Offset pieces_in(const Tiling& tiling, Offset position, Offset bytes);

/// Number of nodes and list entries that the layout is made of: what it costs in memory, whatever it stands for.
[[nodiscard]] std::size_t description_size(const NodePtr& node);

}  // namespace penstock::access
