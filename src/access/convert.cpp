// How each kind of element looks in external32.  Knows the machine's byte order and the formats of numbers.
#include "access/convert.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>

#include "access/node.h"

namespace penstock::access {

namespace {

__extension__ typedef unsigned __int128 Unsigned128;
__extension__ typedef __int128 Signed128;

/// `count` elements, each `step` bytes after the one before.
using Convert = void (*)(const std::byte* from, Offset from_step, std::byte* to, Offset to_step, Offset count);

/// Both directions between two sizes of one kind of element; null when there is no such conversion.
struct Pair {
  Convert to_external = nullptr;
  Convert from_external = nullptr;
};

template <typename Bits>
Bits swapped(Bits bits) {
  if constexpr (sizeof(Bits) == 1) return bits;
  else if constexpr (sizeof(Bits) == 2) return __builtin_bswap16(bits);
  else if constexpr (sizeof(Bits) == 4) return __builtin_bswap32(bits);
  else if constexpr (sizeof(Bits) == 8) return __builtin_bswap64(bits);
  else
    return static_cast<Bits>(__builtin_bswap64(static_cast<std::uint64_t>(bits))) << 64 |
           __builtin_bswap64(static_cast<std::uint64_t>(bits >> 64));
}

template <typename T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <typename T>
void store(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

/// Bits move as an unsigned number of their size: a swapped floating-point number must never be looked at as one.
template <std::size_t kSize>
struct BitsOf;
template <> struct BitsOf<1> { using Type = std::uint8_t; };
template <> struct BitsOf<2> { using Type = std::uint16_t; };
template <> struct BitsOf<4> { using Type = std::uint32_t; };
template <> struct BitsOf<8> { using Type = std::uint64_t; };
template <> struct BitsOf<16> { using Type = Unsigned128; };

template <typename T>
T load_big(const std::byte* at) {
  using Bits = typename BitsOf<sizeof(T)>::Type;
  Bits bits = load<Bits>(at);
  if constexpr (std::endian::native == std::endian::little) bits = swapped(bits);
  return std::bit_cast<T>(bits);
}

template <typename T>
void store_big(std::byte* at, T value) {
  auto bits = std::bit_cast<typename BitsOf<sizeof(T)>::Type>(value);
  if constexpr (std::endian::native == std::endian::little) bits = swapped(bits);
  store(at, bits);
}

struct KeepValue {
  template <typename To, typename From>
  static To of(From value) { return static_cast<To>(value); }
};
struct KeepTruth {
  template <typename To, typename From>
  static To of(From value) { return value != 0 ? To{1} : To{0}; }
};
struct KeepCharacter {
  template <typename To, typename From>
  static To of(From value) {
    constexpr std::uint32_t kReplacement = 0xFFFD;
    return static_cast<To>(sizeof(To) < sizeof(From) && value > 0xFFFF ? kReplacement : value);
  }
};

template <typename Native, typename External, typename Keep>
void to_external(const std::byte* from, Offset from_step, std::byte* to, Offset to_step, Offset count) {
  for (Offset i = 0; i < count; ++i)
    store_big(to + i * to_step, Keep::template of<External>(load<Native>(from + i * from_step)));
}

template <typename Native, typename External, typename Keep>
void from_external(const std::byte* from, Offset from_step, std::byte* to, Offset to_step, Offset count) {
  for (Offset i = 0; i < count; ++i)
    store(to + i * to_step, Keep::template of<Native>(load_big<External>(from + i * from_step)));
}

template <typename Native, typename External, typename Keep = KeepValue>
Pair pair() {
  return {to_external<Native, External, Keep>, from_external<Native, External, Keep>};
}

template <typename Native, typename Keep, typename One, typename Two, typename Four, typename Eight, typename Sixteen>
Pair pair_for_external_size(Offset external_size) {
  switch (external_size) {
    case 1: return pair<Native, One, Keep>();
    case 2: return pair<Native, Two, Keep>();
    case 4: return pair<Native, Four, Keep>();
    case 8: return pair<Native, Eight, Keep>();
    case 16: return pair<Native, Sixteen, Keep>();
    default: return {};
  }
}

/// Between all sizes of a family of integers, of 1, 2, 4, 8 and 16 bytes.
template <typename Keep, typename One, typename Two, typename Four, typename Eight, typename Sixteen>
Pair pair_of_integers(Offset native_size, Offset external_size) {
  switch (native_size) {
    case 1: return pair_for_external_size<One, Keep, One, Two, Four, Eight, Sixteen>(external_size);
    case 2: return pair_for_external_size<Two, Keep, One, Two, Four, Eight, Sixteen>(external_size);
    case 4: return pair_for_external_size<Four, Keep, One, Two, Four, Eight, Sixteen>(external_size);
    case 8: return pair_for_external_size<Eight, Keep, One, Two, Four, Eight, Sixteen>(external_size);
    case 16: return pair_for_external_size<Sixteen, Keep, One, Two, Four, Eight, Sixteen>(external_size);
    default: return {};
  }
}

template <typename Keep>
Pair pair_of_unsigned(Offset native_size, Offset external_size) {
  return pair_of_integers<Keep, std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t, Unsigned128>(native_size,
                                                                                                       external_size);
}

Pair pair_of_floats(Offset native_size, Offset external_size) {
  // Formats without a type in C++ only change their byte order.
  if (native_size == 2 && external_size == 2) return pair<std::uint16_t, std::uint16_t>();
  if (native_size == 16 && external_size == 16) return pair<Unsigned128, Unsigned128>();
  if (native_size == 4 && external_size == 4) return pair<std::uint32_t, std::uint32_t>();
  if (native_size == 8 && external_size == 8) return pair<std::uint64_t, std::uint64_t>();
  if (native_size == 4 && external_size == 8) return pair<float, double>();
  if (native_size == 8 && external_size == 4) return pair<double, float>();
  return {};
}

// The 80-bit format: 64 bits of significand, its first bit explicit; then 15 bits of exponent and the sign.  binary128 has the
// same exponents, and 112 bits of fraction whose first bit is implied.
constexpr std::uint64_t kFirstBit = std::uint64_t{1} << 63;
constexpr std::uint64_t kQuietBitOfExtended = std::uint64_t{1} << 62;
constexpr std::uint64_t kQuietBitOfQuadruple = std::uint64_t{1} << 47;  // of the upper half
constexpr std::uint64_t kUpperFraction = (std::uint64_t{1} << 48) - 1;
constexpr unsigned kLargestExponent = 0x7FFF;
constexpr int kExtraBits = 112 - 63;

void quadruple_from_extended(std::uint64_t significand, std::uint16_t sign_and_exponent, std::uint64_t& upper,
                             std::uint64_t& lower) {
  const std::uint64_t sign = static_cast<std::uint64_t>(sign_and_exponent >> 15) << 63;
  std::uint64_t exponent = sign_and_exponent & kLargestExponent;
  upper = significand >> (64 - kExtraBits);
  lower = significand << kExtraBits;
  const bool first_bit = (significand & kFirstBit) != 0;
  // The processor itself takes a missing first bit for a NaN, except in the smallest numbers, where it belongs.
  const bool invalid = exponent != 0 && !first_bit;
  const bool nan = invalid || (exponent == kLargestExponent && significand != kFirstBit);
  if (nan) exponent = kLargestExponent;
  if (exponent == 0 && first_bit) exponent = 1;
  upper = sign | exponent << 48 | (upper & kUpperFraction) | (nan ? kQuietBitOfQuadruple : 0);
}

void extended_from_quadruple(std::uint64_t upper, std::uint64_t lower, std::uint64_t& significand,
                             std::uint16_t& sign_and_exponent) {
  unsigned exponent = static_cast<unsigned>(upper >> 48) & kLargestExponent;
  const std::uint64_t fraction = (upper & kUpperFraction) << (64 - kExtraBits) | lower >> kExtraBits;
  const std::uint64_t rest = lower & ((std::uint64_t{1} << kExtraBits) - 1), half = std::uint64_t{1} << (kExtraBits - 1);
  significand = fraction;
  if (exponent == kLargestExponent) {
    significand |= kFirstBit;
    if (fraction != 0 || rest != 0) significand |= kQuietBitOfExtended;
  } else {
    if (exponent != 0) significand |= kFirstBit;
    if (rest > half || (rest == half && (significand & 1) != 0)) {
      ++significand;
      if (significand == 0) {  // all ones have become the next power of two
        significand = kFirstBit;
        ++exponent;
      }
    }
    if (exponent == 0 && (significand & kFirstBit) != 0) exponent = 1;
  }
  sign_and_exponent = static_cast<std::uint16_t>((upper >> 63) << 15 | exponent);
}

void extended_to_external(const std::byte* from, Offset from_step, std::byte* to, Offset to_step, Offset count) {
  for (Offset i = 0; i < count; ++i) {
    std::uint64_t upper = 0, lower = 0;
    quadruple_from_extended(load<std::uint64_t>(from + i * from_step), load<std::uint16_t>(from + i * from_step + 8), upper,
                            lower);
    store_big(to + i * to_step, upper);
    store_big(to + i * to_step + 8, lower);
  }
}

template <std::size_t kNativeSize>
void extended_from_external(const std::byte* from, Offset from_step, std::byte* to, Offset to_step, Offset count) {
  for (Offset i = 0; i < count; ++i) {
    std::uint64_t significand = 0;
    std::uint16_t sign_and_exponent = 0;
    extended_from_quadruple(load_big<std::uint64_t>(from + i * from_step), load_big<std::uint64_t>(from + i * from_step + 8),
                            significand, sign_and_exponent);
    std::byte* element = to + i * to_step;
    std::memset(element, 0, kNativeSize);  // bytes beyond the 80 bits are padding
    store(element, significand);
    store(element + 8, sign_and_exponent);
  }
}

Pair pair_of_extended(Offset native_size, Offset external_size) {
  if (external_size != 16) return {};
  if (native_size == 16) return {extended_to_external, extended_from_external<16>};
  if (native_size == 12) return {extended_to_external, extended_from_external<12>};
  return {};
}

/// How many numbers an element consists of.
Offset numbers_in(Element element) {
  return element == Element::kComplex || element == Element::kComplexExtended ? 2 : 1;
}

/// For one number of an element; the sizes are those of the whole element.
Pair pair_for(Element element, Offset native_size, Offset external_size) {
  const Offset numbers = numbers_in(element);
  if (native_size % numbers != 0 || external_size % numbers != 0) return {};
  native_size /= numbers;
  external_size /= numbers;
  switch (element) {
    case Element::kSigned:
      return pair_of_integers<KeepValue, std::int8_t, std::int16_t, std::int32_t, std::int64_t, Signed128>(native_size,
                                                                                                        external_size);
    case Element::kUnsigned: return pair_of_unsigned<KeepValue>(native_size, external_size);
    case Element::kLogical: return pair_of_unsigned<KeepTruth>(native_size, external_size);
    case Element::kWide:
      return external_size == 2 && (native_size == 2 || native_size == 4)
                 ? pair_of_unsigned<KeepCharacter>(native_size, external_size)
                 : Pair{};
    case Element::kRaw:
    case Element::kCharacter:
      return native_size == 1 && external_size == 1 ? pair<std::uint8_t, std::uint8_t>() : Pair{};
    case Element::kFloat:
    case Element::kComplex: return pair_of_floats(native_size, external_size);
    case Element::kExtended:
    case Element::kComplexExtended: return pair_of_extended(native_size, external_size);
  }
  return {};
}

const char* name_of(Element element) {
  switch (element) {
    case Element::kRaw: return "a byte";
    case Element::kSigned: return "a signed integer";
    case Element::kUnsigned: return "an unsigned integer";
    case Element::kFloat: return "a floating-point number";
    case Element::kComplex: return "a complex number";
    case Element::kLogical: return "a logical";
    case Element::kCharacter: return "a character";
    case Element::kWide: return "a wide character";
    case Element::kExtended: return "an 80-bit floating-point number";
    case Element::kComplexExtended: return "a complex of 80-bit floating-point numbers";
  }
  return "an element";
}

Status unlike(const std::string& what) {
  return Status::failure(Code::kConversion, "external32: " + what +
                                                "; both descriptions of the buffer must have the same elements in the same order");
}

/// Elements of one or more numbers, with `convert` for a single one.
void convert_numbers(Convert convert, Offset numbers, const std::byte* from, Offset from_step, Offset from_size,
                     std::byte* to, Offset to_step, Offset to_size, Offset count) {
  if (numbers == 1) return convert(from, from_step, to, to_step, count);
  for (Offset i = 0; i < count; ++i)
    convert(from + i * from_step, from_size / numbers, to + i * to_step, to_size / numbers, numbers);
}

Offset size_of_all(const Type& type, Offset copies) { return nearest(static_cast<Wide>(type.size()) * copies); }

}  // namespace

Status check_conversion(Element element, Offset native_size, Offset external_size) {
  if (pair_for(element, native_size, external_size).to_external) return {};
  return Status::failure(Code::kUnsupported, std::string("external32: ") + name_of(element) + " of " +
                                                 std::to_string(native_size) + " bytes has no conversion to " +
                                                 std::to_string(external_size) +
                                                 " bytes; use the native data representation for it");
}

WholeElements whole_elements(const Type& native, const Type& external, Offset external_bytes) {
  Cursor natives(tile(native), 0, native.size()), externals(tile(external), 0, external.size());
  Run in_memory, outside;
  Offset in_memory_left = 0, outside_left = 0;  // elements of the runs
  WholeElements whole;
  for (;;) {
    if (in_memory_left == 0 && natives.next(in_memory)) in_memory_left = in_memory.length / in_memory.element_size * in_memory.count;
    if (outside_left == 0 && externals.next(outside)) outside_left = outside.length / outside.element_size * outside.count;
    if (in_memory_left == 0 || outside_left == 0) return whole;
    const Offset number = std::min({in_memory_left, outside_left, external_bytes / outside.element_size});
    if (number <= 0) return whole;
    whole.count += number;
    whole.native_bytes += number * in_memory.element_size;
    external_bytes -= number * outside.element_size;
    in_memory_left -= number;
    outside_left -= number;
  }
}

Conversion::Conversion(const Type& native, const Type& external, Offset copies)
    : native_{Cursor(tile(native), 0, size_of_all(native, copies)), {}, 0},
      packed_{Cursor(tile(external), 0, size_of_all(external, copies)), {}, 0} {}

/// The elements that come next, as many as lie regularly and have `room` packed; none at the end or without room for one.
Result<Conversion::Batch> Conversion::next_batch(Offset room) {
  if (packed_.left == 0 && packed_.cursor.next(packed_.run)) packed_.left = packed_.run.length * packed_.run.count;
  if (native_.run.count == 0 && native_.cursor.next(native_.run)) native_.within = 0;
  const bool at_end = packed_.left == 0;
  if (at_end != (native_.run.count == 0)) return unlike("one description has more elements than the other");
  if (at_end) return Batch{};
  const Run& native = native_.run;
  const Run& packed = packed_.run;
  if (native.element != packed.element)
    return unlike(std::string("in one description comes ") + name_of(native.element) + " where in the other comes " +
                  name_of(packed.element));
  PENSTOCK_TRY(check_conversion(native.element, native.element_size, packed.element_size));
  Batch batch;
  batch.buffer_offset = native.offset + native_.within;
  const bool one_per_piece = native.length == native.element_size;
  batch.native_step = one_per_piece ? native.stride : native.element_size;
  const Offset at_hand = one_per_piece ? native.count : (native.length - native_.within) / native.element_size;
  batch.count = std::min({at_hand, packed_.left / packed.element_size, room / packed.element_size});
  return batch;
}

void Conversion::finish_batch(const Batch& batch) {
  Run& native = native_.run;
  packed_.left -= batch.count * packed_.run.element_size;
  Offset pieces = batch.count;
  if (native.length != native.element_size) {
    native_.within += batch.count * native.element_size;
    pieces = native_.within == native.length ? 1 : 0;
    if (pieces == 1) native_.within = 0;
  }
  native.count -= pieces;
  if (native.count > 0) native.offset += pieces * native.stride;
}

template <typename ConvertBatch>
Result<Offset> Conversion::convert_all(Offset room, ConvertBatch convert) {
  Offset done = 0;
  for (;;) {
    Result<Batch> batch = next_batch(room - done);
    if (!batch.ok()) return batch.status();
    if (batch->count == 0) return done;
    convert(*batch, done);
    done += batch->count * packed_.run.element_size;
    finish_batch(*batch);
  }
}

Result<Offset> Conversion::to_external32(const std::byte* buffer, std::byte* packed, Offset capacity) {
  return convert_all(capacity, [&](const Batch& batch, Offset done) {
    const Run& run = native_.run;
    const Offset external_size = packed_.run.element_size;
    if (run.element == Element::kRaw || run.element == Element::kCharacter)
      return copy_strided(packed + done, 1, buffer + batch.buffer_offset, batch.native_step, 1, batch.count);
    convert_numbers(pair_for(run.element, run.element_size, external_size).to_external, numbers_in(run.element),
                    buffer + batch.buffer_offset, batch.native_step, run.element_size, packed + done, external_size,
                    external_size, batch.count);
  });
}

Result<Offset> Conversion::from_external32(const std::byte* packed, Offset bytes, std::byte* buffer) {
  return convert_all(bytes, [&](const Batch& batch, Offset done) {
    const Run& run = native_.run;
    const Offset external_size = packed_.run.element_size;
    if (run.element == Element::kRaw || run.element == Element::kCharacter)
      return copy_strided(buffer + batch.buffer_offset, batch.native_step, packed + done, 1, 1, batch.count);
    convert_numbers(pair_for(run.element, run.element_size, external_size).from_external, numbers_in(run.element),
                    packed + done, external_size, external_size, buffer + batch.buffer_offset, batch.native_step,
                    run.element_size, batch.count);
  });
}

}  // namespace penstock::access
