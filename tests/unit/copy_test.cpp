// copy_strided against a loop over bytes: every length that has its own code and some that have not, all kinds of stride.
#include <gtest/gtest.h>

#include <vector>

#include "access/cursor.h"

namespace penstock::access {
namespace {

std::vector<std::byte> pattern(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 256 + 1);
  return bytes;
}

TEST(CopyStrided, PutsEveryByteWhereItBelongsAndNoOther) {
  constexpr Offset kMiddle = 4096;
  const std::vector<std::byte> from = pattern(2 * kMiddle);
  for (Offset length : {0, 1, 2, 3, 4, 5, 8, 12, 16, 24, 31, 32, 40, 48, 64, 96, 100, 128})
    for (Offset count : {0, 1, 2, 3, 17})
      for (Offset to_gap : {0, 1, 8})
        for (Offset from_gap : {0, 3, 16})
          for (Offset direction : {1, -1}) {
            const Offset to_stride = direction * (length + to_gap), from_stride = -direction * (length + from_gap);
            for (Offset reading : {from_stride, -from_stride, Offset{0}}) {
              std::vector<std::byte> copied(2 * kMiddle), expected(2 * kMiddle);
              for (Offset i = 0; i < count; ++i)
                for (Offset j = 0; j < length; ++j)
                  expected[kMiddle + i * to_stride + j] = from[kMiddle + i * reading + j];
              copy_strided(copied.data() + kMiddle, to_stride, from.data() + kMiddle, reading, length, count);
              ASSERT_EQ(copied, expected) << "length " << length << ", count " << count << ", strides " << to_stride
                                          << " and " << reading;
            }
          }
}

TEST(CopyStrided, OfNothingTouchesNothing) {
  copy_strided(nullptr, 8, nullptr, 8, 8, 0);
  std::byte untouched{5};
  copy_strided(&untouched, 1, nullptr, 0, 0, 3);
  EXPECT_EQ(untouched, std::byte{5});
}

}  // namespace
}  // namespace penstock::access
