// The data representation external32 (MPI 4.1 section 14.5.2): between elements in memory and big-endian bytes.  Pure:
// knows how numbers are kept, and neither files nor MPI's names of types.
#pragma once

#include <cfloat>
#include <cstddef>

#include "access/cursor.h"
#include "access/layout.h"
#include "base/status.h"

namespace penstock::access {

/// What `long double` and its complex are on this machine.
constexpr Element kLongDouble = LDBL_MANT_DIG == 64 ? Element::kExtended : Element::kFloat;
constexpr Element kComplexLongDouble = LDBL_MANT_DIG == 64 ? Element::kComplexExtended : Element::kComplex;

/// Success when an element of `native_size` bytes can be converted to and from `external_size` bytes of external32.
/// Fails with kUnsupported.
Status check_conversion(Element element, Offset native_size, Offset external_size);

/// Whole elements at the beginning of one copy's data.
struct WholeElements {
  Offset count = 0;
  Offset native_bytes = 0;
};

/// Those that the first `external_bytes` bytes of a copy hold.  The two types are described as for Conversion; their elements may be of any size.
/// O(runs of what is looked at).
WholeElements whole_elements(const Type& native, const Type& external, Offset external_bytes);

/// Converts the data of a buffer from the first element to the last, as much at a time as the caller has room for.
///
/// The buffer is described twice by the same constructors: `native` with the sizes of this machine, `external` with those
/// of external32 (a long has 8 bytes here and 4 there; the kind of element does not tell, so whoever builds the types
/// does).  Only the order and the sizes of the elements of `external` matter, not where they lie.
///
/// Integers that are too large for their external size lose their upper bits, numbers are rounded to nearest, logicals
/// become 0 or 1, wide characters beyond the 16 bits of external32 become U+FFFD.  Thread rule: one thread at a time.
class Conversion {
 public:
  Conversion(const Type& native, const Type& external, Offset copies);

  /// Fills `packed` with as many whole elements as fit in `capacity` bytes, in data order.  Returns the bytes filled: 0
  /// when all is done, or when not even one element fits.
  /// Fails with kConversion when the two descriptions differ, kUnsupported when an element cannot be converted.
  Result<Offset> to_external32(const std::byte* buffer, std::byte* packed, Offset capacity);

  /// Puts the whole elements among `bytes` packed bytes to their places in `buffer`.  Returns the bytes used: the caller
  /// keeps the rest, which is less than an element, for the next time.  Fails like to_external32.
  Result<Offset> from_external32(const std::byte* packed, Offset bytes, std::byte* buffer);

  /// Bytes of external32 not yet converted.
  [[nodiscard]] Offset remaining() const { return packed_.cursor.remaining() + packed_.left; }

 private:
  struct NativeSide {
    Cursor cursor;
    Run run;
    Offset within = 0;  ///< bytes of the first piece that are done
  };
  struct PackedSide {
    Cursor cursor;
    Run run;
    Offset left = 0;  ///< bytes of the run that are not done
  };

  /// Elements that lie regularly on both sides.
  struct Batch {
    Offset buffer_offset = 0;
    Offset native_step = 0;
    Offset count = 0;
  };
  Result<Batch> next_batch(Offset room);
  void finish_batch(const Batch& batch);
  template <typename Convert>
  Result<Offset> convert_all(Offset room, Convert convert);

  NativeSide native_;
  PackedSide packed_;
};

}  // namespace penstock::access
