// The copy loop under every strategy.  Knows only addresses.
#include <cstring>

#include "access/cursor.h"

namespace penstock::access {

namespace {

/// The length is known here, so that a piece is a few loads and stores and no call.
template <std::size_t kLength>
void copy_pieces(std::byte* __restrict to, Offset to_stride, const std::byte* __restrict from, Offset from_stride,
                 Offset count) {
  // Four pieces per turn: their addresses do not wait for one another.
  for (; count >= 4; count -= 4) {
    std::memcpy(to, from, kLength);
    std::memcpy(to + to_stride, from + from_stride, kLength);
    std::memcpy(to + 2 * to_stride, from + 2 * from_stride, kLength);
    std::memcpy(to + 3 * to_stride, from + 3 * from_stride, kLength);
    to += 4 * to_stride;
    from += 4 * from_stride;
  }
  for (Offset i = 0; i < count; ++i) std::memcpy(to + i * to_stride, from + i * from_stride, kLength);
}

}  // namespace

void copy_strided(std::byte* to, Offset to_stride, const std::byte* from, Offset from_stride, Offset length, Offset count) {
  if (count <= 0 || length <= 0) return;
  if (count == 1 || (to_stride == length && from_stride == length)) {
    std::memcpy(to, from, static_cast<std::size_t>(length * count));
    return;
  }
  switch (length) {
    case 1: return copy_pieces<1>(to, to_stride, from, from_stride, count);
    case 2: return copy_pieces<2>(to, to_stride, from, from_stride, count);
    case 4: return copy_pieces<4>(to, to_stride, from, from_stride, count);
    case 8: return copy_pieces<8>(to, to_stride, from, from_stride, count);
    case 12: return copy_pieces<12>(to, to_stride, from, from_stride, count);
    case 16: return copy_pieces<16>(to, to_stride, from, from_stride, count);
    case 24: return copy_pieces<24>(to, to_stride, from, from_stride, count);
    case 32: return copy_pieces<32>(to, to_stride, from, from_stride, count);
    case 40: return copy_pieces<40>(to, to_stride, from, from_stride, count);
    case 48: return copy_pieces<48>(to, to_stride, from, from_stride, count);
    case 64: return copy_pieces<64>(to, to_stride, from, from_stride, count);
    case 96: return copy_pieces<96>(to, to_stride, from, from_stride, count);
    case 128: return copy_pieces<128>(to, to_stride, from, from_stride, count);
    default: break;
  }
  for (Offset i = 0; i < count; ++i)
    std::memcpy(to + i * to_stride, from + i * from_stride, static_cast<std::size_t>(length));
}

}  // namespace penstock::access
