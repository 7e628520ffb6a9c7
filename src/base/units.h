// Offsets and checked arithmetic.  Every position in a file and every size of data is a signed 64-bit number of
// bytes, as MPI_Offset is; sums and products that come from a user's numbers are checked before they are used.
#pragma once

#include <cstdint>

namespace penstock {

/// A position in a file, or an amount of data, in bytes unless the name says otherwise.
using Offset = std::int64_t;

/// Sets `sum` to a + b.  False when it does not fit; `sum` is then unspecified.
[[nodiscard]] inline bool checked_add(Offset a, Offset b, Offset& sum) { return !__builtin_add_overflow(a, b, &sum); }

/// Sets `product` to a * b.  False when it does not fit; `product` is then unspecified.
[[nodiscard]] inline bool checked_multiply(Offset a, Offset b, Offset& product) {
  return !__builtin_mul_overflow(a, b, &product);
}

}  // namespace penstock
