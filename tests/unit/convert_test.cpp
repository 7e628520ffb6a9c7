// external32 against MPI 4.1 section 14.5.2: the bytes of every kind of element, and buffers of any layout.
#include "access/convert.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <random>

namespace penstock::access {
namespace {

using Offsets = std::vector<Offset>;
using Bytes = std::vector<int>;

struct Kind {
  Element element;
  Offset external_size;
};

/// What one value becomes, and whether it comes back.
template <typename T>
Bytes external_bytes(T value, Kind kind) {
  const Type native = *elementary(sizeof(T), kind.element), external = *elementary(kind.external_size, kind.element);
  std::vector<std::byte> packed(static_cast<std::size_t>(kind.external_size));
  Conversion conversion(native, external, 1);
  const Result<Offset> filled =
      conversion.to_external32(reinterpret_cast<const std::byte*>(&value), packed.data(), kind.external_size);
  EXPECT_TRUE(filled.ok() && *filled == kind.external_size);
  EXPECT_EQ(conversion.remaining(), 0);
  Bytes bytes;
  for (std::byte byte : packed) bytes.push_back(static_cast<int>(byte));
  return bytes;
}

template <typename T>
T value_of(const Bytes& bytes, Element element) {
  const Offset size = static_cast<Offset>(bytes.size());
  std::vector<std::byte> packed;
  for (int byte : bytes) packed.push_back(static_cast<std::byte>(byte));
  T value{};
  Conversion conversion(*elementary(sizeof(T), element), *elementary(size, element), 1);
  const Result<Offset> used = conversion.from_external32(packed.data(), size, reinterpret_cast<std::byte*>(&value));
  EXPECT_TRUE(used.ok() && *used == size);
  return value;
}

template <typename T>
void expect_both_ways(T value, Kind kind, const Bytes& bytes) {
  EXPECT_EQ(external_bytes(value, kind), bytes);
  EXPECT_EQ(value_of<T>(bytes, kind.element), value);
}

TEST(External32, IntegersAreBigEndianTwosComplement) {
  expect_both_ways<std::int8_t>(-2, {Element::kSigned, 1}, {0xFE});
  expect_both_ways<std::int16_t>(-2, {Element::kSigned, 2}, {0xFF, 0xFE});
  expect_both_ways<std::int32_t>(0x01020304, {Element::kSigned, 4}, {1, 2, 3, 4});
  expect_both_ways<std::int64_t>(0x0102030405060708, {Element::kSigned, 8}, {1, 2, 3, 4, 5, 6, 7, 8});
  expect_both_ways<std::uint16_t>(0xFF01, {Element::kUnsigned, 2}, {0xFF, 0x01});
}

TEST(External32, ALongHasFourBytes) {
  expect_both_ways<std::int64_t>(-3, {Element::kSigned, 4}, {0xFF, 0xFF, 0xFF, 0xFD});
  expect_both_ways<std::uint64_t>(0xFFFFFFFD, {Element::kUnsigned, 4}, {0xFF, 0xFF, 0xFF, 0xFD});
  EXPECT_EQ(external_bytes<std::int64_t>(0x123456789A, {Element::kSigned, 4}), (Bytes{0x34, 0x56, 0x78, 0x9A}));
  expect_both_ways<std::int32_t>(-3, {Element::kSigned, 8}, {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFD});
}

TEST(External32, SixteenByteIntegersKeepAllBits) {
  __extension__ typedef __int128 Integer;
  const Integer value = static_cast<Integer>(0x0102030405060708) << 64 | 0x090A0B0C0D0E0F10;
  const Bytes bytes{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  EXPECT_EQ(external_bytes(value, {Element::kSigned, 16}), bytes);
  EXPECT_TRUE(value_of<Integer>(bytes, Element::kSigned) == value);
}

TEST(External32, FloatingPointIsBigEndianIeee) {
  expect_both_ways<float>(-1.5F, {Element::kFloat, 4}, {0xBF, 0xC0, 0, 0});
  expect_both_ways<double>(-1.5, {Element::kFloat, 8}, {0xBF, 0xF8, 0, 0, 0, 0, 0, 0});
  expect_both_ways<double>(1.5, {Element::kFloat, 4}, {0x3F, 0xC0, 0, 0});
  expect_both_ways<float>(1.5F, {Element::kFloat, 8}, {0x3F, 0xF8, 0, 0, 0, 0, 0, 0});
  EXPECT_EQ(external_bytes(std::numeric_limits<float>::infinity(), {Element::kFloat, 4}), (Bytes{0x7F, 0x80, 0, 0}));
  expect_both_ways<std::uint16_t>(0x3C00, {Element::kFloat, 2}, {0x3C, 0x00});  // 1.0 in half precision
}

TEST(External32, SignallingNansOfTheSameSizeKeepTheirBits) {
  const std::uint32_t bits = 0x7F800001;
  EXPECT_EQ(external_bytes(std::bit_cast<float>(bits), {Element::kFloat, 4}), (Bytes{0x7F, 0x80, 0, 1}));
}

TEST(External32, ComplexIsAPair) {
  expect_both_ways<std::complex<float>>({1.0F, -2.0F}, {Element::kComplex, 8}, {0x3F, 0x80, 0, 0, 0xC0, 0, 0, 0});
}

TEST(External32, LogicalsAreZeroOrOne) {
  expect_both_ways<std::int32_t>(1, {Element::kLogical, 4}, {0, 0, 0, 1});
  EXPECT_EQ(external_bytes<std::int32_t>(-1, {Element::kLogical, 4}), (Bytes{0, 0, 0, 1}));
  EXPECT_EQ(external_bytes<std::int64_t>(std::int64_t{1} << 40, {Element::kLogical, 4}), (Bytes{0, 0, 0, 1}));
  expect_both_ways<bool>(true, {Element::kLogical, 1}, {1});
  EXPECT_EQ(value_of<std::int32_t>({0x80, 0, 0, 0}, Element::kLogical), 1);
  EXPECT_EQ(value_of<std::int32_t>({0, 0, 0, 0}, Element::kLogical), 0);
}

TEST(External32, CharactersHaveOneByteAndWideOnesTwo) {
  expect_both_ways<char>('\xE9', {Element::kCharacter, 1}, {0xE9});
  expect_both_ways<wchar_t>(L'\u20AC', {Element::kWide, 2}, {0x20, 0xAC});
  EXPECT_EQ(external_bytes<char32_t>(U'\U0001F600', {Element::kWide, 2}), (Bytes{0xFF, 0xFD}));
}

#if LDBL_MANT_DIG == 64
TEST(External32, LongDoubleIsBinary128) {
  Bytes one_and_a_half(16);
  one_and_a_half[0] = 0x3F;
  one_and_a_half[1] = 0xFF;
  one_and_a_half[2] = 0x80;
  expect_both_ways<long double>(1.5L, {kLongDouble, 16}, one_and_a_half);
  Bytes pair = one_and_a_half;
  pair.insert(pair.end(), one_and_a_half.begin(), one_and_a_half.end());
  pair[16] = 0xBF;
  expect_both_ways<std::complex<long double>>({1.5L, -1.5L}, {kComplexLongDouble, 32}, pair);
  expect_both_ways<long double>(-std::numeric_limits<long double>::infinity(), {kLongDouble, 16},
                                {0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  EXPECT_TRUE(std::isnan(value_of<long double>(external_bytes(std::nanl(""), {kLongDouble, 16}), kLongDouble)));
}

TEST(External32, ALongDoubleWithItsFirstBitAndTheLeastExponentIsTheLeastNormalNumber) {
  // The processor never makes it, but takes it for 2^-16382.
  const unsigned char bits[16] = {0, 0, 0, 0, 0, 0, 0, 0x80, 0, 0x80};
  long double odd;
  std::memcpy(&odd, bits, sizeof odd);
  EXPECT_EQ(value_of<long double>(external_bytes(odd, {kLongDouble, 16}), kLongDouble), -std::numeric_limits<long double>::min());
}

TEST(External32, ALongDoubleWithoutItsFirstBitIsNotANumber) {
  unsigned char bits[16] = {0, 0, 0, 0, 0, 0, 0, 0x40, 0xFF, 0x3F};
  long double invalid;
  std::memcpy(&invalid, bits, sizeof invalid);
  EXPECT_TRUE(std::isnan(value_of<long double>(external_bytes(invalid, {kLongDouble, 16}), kLongDouble)));
}

#ifdef __SIZEOF_FLOAT128__
__extension__ typedef __float128 Quadruple;

Bytes bytes_of(Quadruple value) {
  unsigned char bytes[16];
  std::memcpy(bytes, &value, sizeof bytes);
  return Bytes(std::make_reverse_iterator(bytes + 16), std::make_reverse_iterator(bytes));
}

/// The compiler has its own conversion, which knows nothing of ours.
TEST(External32, LongDoubleAgreesWithTheCompiler) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 20000; ++i) {
    const std::uint16_t exponent = i % 4 == 0 ? static_cast<std::uint16_t>(random() % 3) : static_cast<std::uint16_t>(random() % 0x7FFF);
    const std::uint64_t significand = exponent == 0 ? random() >> (1 + random() % 60) : random() | std::uint64_t{1} << 63;
    const std::uint16_t signed_exponent = exponent | static_cast<std::uint16_t>(i % 2 << 15);
    long double value = 0;
    std::memcpy(&value, &significand, 8);
    std::memcpy(reinterpret_cast<char*>(&value) + 8, &signed_exponent, 2);
    ASSERT_EQ(external_bytes(value, {kLongDouble, 16}), bytes_of(value)) << "significand " << significand << ", exponent " << exponent;
    ASSERT_TRUE(value_of<long double>(bytes_of(value), kLongDouble) == value);
  }
}

TEST(External32, RoundingToLongDoubleAgreesWithTheCompiler) {
  std::mt19937_64 random(8);
  for (int i = 0; i < 20000; ++i) {
    // Every other number lies just at, under or over the middle between two neighbours; some are the smallest or largest.
    std::uint64_t lower = random(), upper = random() & ((std::uint64_t{1} << 48) - 1);
    const std::uint64_t half = std::uint64_t{1} << 48;
    if (i % 2 == 0) lower = (lower >> 49 << 49 | half) + random() % 3 - 1;
    if (i % 5 == 0) { upper = (std::uint64_t{1} << 48) - 1; lower |= ~((std::uint64_t{1} << 49) - 1); }
    const std::uint64_t exponents[] = {0, 1, 0x3FFF, 0x7FFE, random() % 0x7FFF};
    upper |= exponents[i % 5] << 48 | static_cast<std::uint64_t>(i % 2) << 63;
    if (i % 7 == 0) upper = (upper & ~(std::uint64_t{0x7FFF} << 48)) | exponents[i / 7 % 5] << 48;
    Quadruple value = 0;
    std::memcpy(&value, &lower, 8);
    std::memcpy(reinterpret_cast<char*>(&value) + 8, &upper, 8);
    const long double ours = value_of<long double>(bytes_of(value), kLongDouble), theirs = static_cast<long double>(value);
    ASSERT_EQ(std::memcmp(&ours, &theirs, 10), 0) << "upper " << upper << ", lower " << lower;
  }
}
#endif
#endif

TEST(External32, WhatCannotBeConvertedIsRefused) {
  EXPECT_TRUE(check_conversion(Element::kFloat, 16, 16).ok());
  EXPECT_TRUE(check_conversion(Element::kRaw, 1, 1).ok());
  for (const Status& status : {check_conversion(Element::kFloat, 8, 16), check_conversion(Element::kSigned, 3, 4),
                               check_conversion(Element::kComplex, 9, 8), check_conversion(Element::kExtended, 16, 8),
                               check_conversion(Element::kWide, 4, 4), check_conversion(Element::kCharacter, 2, 2)})
    EXPECT_EQ(status.code(), Code::kUnsupported);
}

/// A struct of a short, 2 longs and 3 raw bytes with gaps, in either size of long.
Type record(Offset size_of_long, Offset gap) {
  const Type types[] = {*elementary(2, Element::kSigned), *elementary(size_of_long, Element::kSigned), *elementary(1)};
  const Offset at_longs = 2 + gap, at_bytes = at_longs + 2 * size_of_long + gap;
  return *resized(0, at_bytes + 3 + gap, *structure(Offsets{1, 2, 3}, Offsets{0, at_longs, at_bytes}, types));
}

TEST(Conversion, OfARecordInAnyPortionsIsTheSame) {
  constexpr Offset kCopies = 5;
  const Type native = record(8, 6), external = record(4, 0);
  std::vector<std::byte> buffer(static_cast<std::size_t>(native.extent * kCopies), std::byte{0xEE});
  std::vector<std::byte> expected;
  for (Offset i = 0; i < kCopies; ++i) {
    std::byte* at = buffer.data() + i * native.extent;
    const std::int16_t number = static_cast<std::int16_t>(0x0100 + i);
    const std::int64_t longs[] = {-i - 1, 0x00A0B0C0 + i};
    const std::byte raw[] = {std::byte{7}, std::byte{8}, static_cast<std::byte>(i)};
    std::memcpy(at, &number, 2);
    std::memcpy(at + 8, longs, 16);
    std::memcpy(at + 30, raw, 3);
    for (int byte : {1, static_cast<int>(i), 0xFF, 0xFF, 0xFF, static_cast<int>(0xFF - i), 0, 0xA0, 0xB0, static_cast<int>(0xC0 + i), 7, 8, static_cast<int>(i)})
      expected.push_back(static_cast<std::byte>(byte));
  }
  ASSERT_EQ(static_cast<Offset>(expected.size()), external.size() * kCopies);
  for (Offset portion : {4, 5, 7, 13, 64, 1000}) {
    std::vector<std::byte> packed(expected.size() + 8);
    Conversion out(native, external, kCopies);
    Offset filled = 0;
    while (out.remaining() > 0) {
      const Result<Offset> now = out.to_external32(buffer.data(), packed.data() + filled,
                                                   std::min<Offset>(portion, static_cast<Offset>(packed.size()) - filled));
      ASSERT_TRUE(now.ok());
      ASSERT_GT(*now, 0);
      ASSERT_LE(*now, portion);
      filled += *now;
    }
    packed.resize(static_cast<std::size_t>(filled));
    ASSERT_EQ(packed, expected) << "portions of " << portion;

    std::vector<std::byte> back(buffer.size(), std::byte{0xEE});
    Conversion in(native, external, kCopies);
    for (Offset used = 0; in.remaining() > 0;) {
      const Result<Offset> now = in.from_external32(packed.data() + used, std::min(portion, filled - used), back.data());
      ASSERT_TRUE(now.ok());
      ASSERT_GT(*now, 0);
      used += *now;
    }
    ASSERT_EQ(back, buffer) << "portions of " << portion << " must leave the gaps alone";
  }
}

TEST(Conversion, OfStridedComplexAndOfPiecesOfSeveralElements) {
  const Type one = *elementary(8, Element::kComplex);
  for (const Type& native : {*hvector(3, 1, 24, one), *hvector(1, 3, 0, one), *hvector(3, 1, -16, one)}) {
    std::vector<std::complex<float>> buffer(12);
    for (std::size_t i = 0; i < buffer.size(); ++i) buffer[i] = {static_cast<float>(i), static_cast<float>(100 + i)};
    std::byte* origin = reinterpret_cast<std::byte*>(buffer.data() + 5);
    const Type external = *contiguous(3, one);
    std::vector<std::byte> packed(24);
    ASSERT_EQ(*Conversion(native, external, 1).to_external32(origin, packed.data(), 24), 24);
    for (int i = 0; i < 3; ++i) {
      std::complex<float> expected;
      std::memcpy(&expected, origin + offset_of(tile(native), 8 * i), 8);
      Bytes bytes;
      for (int j = 0; j < 8; ++j) bytes.push_back(static_cast<int>(packed[static_cast<std::size_t>(8 * i + j)]));
      EXPECT_EQ(value_of<std::complex<float>>(bytes, Element::kComplex), expected);
    }
  }
}

TEST(Conversion, OfBuffersDescribedDifferentlyFails) {
  const Type number = *elementary(4, Element::kSigned), real = *elementary(4, Element::kFloat);
  std::vector<std::byte> buffer(64), packed(64);
  EXPECT_EQ(Conversion(number, real, 1).to_external32(buffer.data(), packed.data(), 64).status().code(), Code::kConversion);
  EXPECT_EQ(Conversion(*contiguous(2, number), number, 1).to_external32(buffer.data(), packed.data(), 64).status().code(),
            Code::kConversion);
  EXPECT_EQ(Conversion(number, *contiguous(2, number), 1).from_external32(packed.data(), 64, buffer.data()).status().code(),
            Code::kConversion);
  EXPECT_EQ(Conversion(*elementary(3, Element::kSigned), number, 1).to_external32(buffer.data(), packed.data(), 64).status().code(),
            Code::kUnsupported);
}

TEST(Conversion, WholeElementsOfACutItem) {
  // A long, an int and two bytes: 4 + 4 + 2 bytes outside, 8 + 4 + 2 in memory, where gaps do not count.
  const Type number = *elementary(8, Element::kSigned), small = *elementary(4, Element::kSigned), letter = *elementary(1, Element::kCharacter);
  const Offset lengths[] = {1, 1, 2}, in_memory[] = {0, 8, 20}, outside[] = {0, 4, 8};
  const Type native_parts[] = {number, small, letter}, external_parts[] = {small, small, letter};
  const Type native = *structure(lengths, in_memory, native_parts), external = *structure(lengths, outside, external_parts);
  const Offset counts[] = {0, 0, 0, 0, 1, 1, 1, 1, 2, 3, 4}, bytes[] = {0, 0, 0, 0, 8, 8, 8, 8, 12, 13, 14};
  for (Offset arrived = 0; arrived <= 10; ++arrived) {
    const WholeElements whole = whole_elements(native, external, arrived);
    EXPECT_EQ(whole.count, counts[arrived]) << arrived;
    EXPECT_EQ(whole.native_bytes, bytes[arrived]) << arrived;
  }
}

TEST(Conversion, WholeElementsOfAnItemOfManyGigabytes) {
  constexpr Offset kMany = Offset{1} << 33;
  const Type native = *contiguous(kMany, *elementary(8, Element::kSigned));
  const Type external = *hvector(kMany, 1, 6, *elementary(4, Element::kSigned));  // where they lie outside does not matter
  const WholeElements whole = whole_elements(native, external, 4 * (kMany - 1) + 3);
  EXPECT_EQ(whole.count, kMany - 1);
  EXPECT_EQ(whole.native_bytes, 8 * (kMany - 1));
}

TEST(Conversion, OfNothingIsNothing) {
  const Type number = *elementary(4, Element::kSigned);
  Conversion none(number, number, 0);
  EXPECT_EQ(none.remaining(), 0);
  EXPECT_EQ(*none.to_external32(nullptr, nullptr, 0), 0);
  std::byte buffer[4] = {}, packed[4] = {};
  Conversion one(number, number, 1);
  EXPECT_EQ(*one.to_external32(buffer, packed, 3), 0);
  EXPECT_EQ(one.remaining(), 4);
  EXPECT_EQ(*one.to_external32(buffer, packed, 4), 4);
}

}  // namespace
}  // namespace penstock::access
