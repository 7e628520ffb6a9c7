// Every store call of every strategy fails in turn: the error is returned, no byte but the pieces' own changes, no lock
// stays.
#include "strategy/strategy.h"

#include <gtest/gtest.h>

#include <string>

#include "store/fault/fault_store.h"
#include "store/memory/memory_store.h"

namespace penstock::strategy {
namespace {

using access::Tiling;

Tiling pieces(Offset length, Offset distance, Offset displacement) {
  return access::tile(*access::resized(0, distance, *access::contiguous(length, *access::elementary(1))), displacement);
}

struct Case {
  const char* name;
  Result<Offset> (*run)(const Access&);
  bool write;
};
constexpr Case kCases[] = {{"write_independent", write_independent, true},
                           {"write_mapped", write_mapped, true},
                           {"write_sieved", write_sieved, true},
                           {"read_independent", read_independent, false},
                           {"read_mapped", read_mapped, false},
                           {"read_sieved", read_sieved, false}};

constexpr Offset kPieces = 2000, kLength = 6, kDistance = 10, kFirst = 3;
constexpr std::size_t kFileBytes = 15'000;  // the last pieces lie behind the end

class FaultTest : public testing::TestWithParam<Case> {
 protected:
  /// Runs the access with `rule` in force, over memory whose pieces are apart too (so that gathering is met), and
  /// checks. Returns whether the rule struck.
  bool run(const store::FaultRule& rule, bool scattered) {
    store::MemoryStore memory_store({.can_map = true, .file_bytes_max = 1 << 20});
    std::string before(kFileBytes, '\0');
    for (std::size_t i = 0; i < before.size(); ++i) before[i] = static_cast<char>('A' + i % 26);
    const auto plain = std::move(*memory_store.open("a", {.read = true, .write = true, .create = true}));
    store::Transfer fill{0, reinterpret_cast<std::byte*>(before.data()), before.size()};
    EXPECT_TRUE(plain->write(std::span(&fill, 1)).ok());

    const auto plan = std::make_shared<store::FaultPlan>(std::vector<store::FaultRule>{rule});
    store::FaultStore store(memory_store, plan);
    auto file = std::move(*store.open("a", {.read = true, .write = true}));
    const Tiling view = scattered ? access::bytes_at(kFirst) : pieces(kLength, kDistance, kFirst);
    const Tiling memory = scattered ? pieces(kLength, kDistance, 1) : access::bytes_at(1);
    const Offset bytes = kPieces * kLength;
    std::string buffer(static_cast<std::size_t>(kPieces * kDistance + 2), '#');
    if (GetParam().write) std::fill(buffer.begin(), buffer.end(), 'x');
    trace::OpTrace trace(nullptr);
    const Access access{.store = *file,
                        .file = view,
                        .position = 0,
                        .memory = memory,
                        .memory_position = 0,
                        .bytes = bytes,
                        .buffer = reinterpret_cast<std::byte*>(buffer.data()),
                        .trace = trace,
                        .buffer_bytes = 4096};
    const Result<Offset> moved = GetParam().run(access);
    const bool struck = plan->struck() > 0;
    if (rule.error != 0) {
      EXPECT_EQ(moved.ok(), !struck) << rule.number;
      EXPECT_EQ(moved.status().system_errno(), struck ? rule.error : 0) << moved.status().text();
    } else {
      EXPECT_TRUE(moved.ok());
      EXPECT_TRUE(!struck || *moved < bytes);
    }
    check_file(*plain, before, scattered, moved.ok());
    if (!GetParam().write) check_buffer(buffer, before, scattered, moved.ok() ? *moved : 0, moved.ok());
    EXPECT_FALSE(*plain->range_is_locked(0, 1 << 20)) << "a lock stayed";
    EXPECT_TRUE(!struck || file->close().ok());
    return struck;
  }

 private:
  static bool is_data(Offset offset, bool scattered) {
    if (offset < kFirst) return false;
    if (scattered) return offset < kFirst + kPieces * kLength;
    return offset < kFirst + kPieces * kDistance && (offset - kFirst) % kDistance < kLength;
  }

  void check_file(store::File& plain, const std::string& before, bool scattered, bool complete) {
    const Offset size = *plain.size();
    std::string after(static_cast<std::size_t>(size), '#');
    store::Transfer read{0, reinterpret_cast<std::byte*>(after.data()), after.size()};
    ASSERT_TRUE(plain.read(std::span(&read, 1)).ok());
    const Offset end = kFirst + (scattered ? kPieces * kLength : (kPieces - 1) * kDistance + kLength);
    ASSERT_GE(size, static_cast<Offset>(kFileBytes)) << "the file was cut";
    ASSERT_LE(size, GetParam().write ? std::max<Offset>(end, kFileBytes) : kFileBytes);
    for (Offset i = 0; i < size; ++i) {
      const char old = i < static_cast<Offset>(kFileBytes) ? before[static_cast<std::size_t>(i)] : '\0';
      const char now = after[static_cast<std::size_t>(i)];
      if (!GetParam().write || !is_data(i, scattered)) {
        ASSERT_EQ(now, old) << "offset " << i << " was disturbed";
      } else if (complete) {
        ASSERT_EQ(now, 'x') << "offset " << i;
      } else {
        ASSERT_TRUE(now == old || now == 'x') << "offset " << i;
      }
    }
  }

  static void check_buffer(const std::string& buffer, const std::string& before, bool scattered, Offset moved,
                           bool ok) {
    for (Offset i = 0; i < static_cast<Offset>(buffer.size()); ++i) {
      // The data position that belongs at buffer byte i, if any.
      const Offset at = i - 1;
      const bool mine =
          at >= 0 && (scattered ? at % kDistance < kLength && at / kDistance < kPieces : at < kPieces * kLength);
      const Offset position = scattered ? at / kDistance * kLength + at % kDistance : at;
      const Offset offset =
          scattered ? kFirst + position : kFirst + position / kLength * kDistance + position % kLength;
      const char now = buffer[static_cast<std::size_t>(i)];
      if (!mine) {
        ASSERT_EQ(now, '#') << "buffer byte " << i << " was disturbed";
      } else if (ok && position < moved) {
        ASSERT_EQ(now, before[static_cast<std::size_t>(offset)]) << "buffer byte " << i;
      }
    }
  }
};

TEST_P(FaultTest, EachCallInTurn) {
  for (const bool scattered : {false, true})
    for (const int error : {ENOSPC, EIO, EDQUOT})
      for (const bool half : {false, true}) {
        std::int64_t number = 2;  // the first call is the open
        while (run({.call = store::Call::kAny, .number = number, .error = error, .half = half}, scattered)) {
          ASSERT_FALSE(HasFailure()) << "call " << number << " scattered " << scattered << " half " << half;
          ASSERT_LT(++number, 200);
        }
        EXPECT_GT(number, 2) << "no call was ever struck";
      }
}

TEST_P(FaultTest, EachReadEndsEarly) {
  for (const bool scattered : {false, true}) {
    std::int64_t number = 1;
    while (!GetParam().write && run({.call = store::Call::kRead, .number = number, .error = 0}, scattered)) {
      ASSERT_FALSE(HasFailure()) << "read " << number;
      ASSERT_LT(++number, 200);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, FaultTest, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(MappedFault, AShrinkingFileIsAnErrorAndNoSignal) {
  store::MemoryStore memory_store({.can_map = true});
  const auto file = std::move(*memory_store.open("a", {.read = true, .write = true, .create = true}));
  class Shrinking final : public store::ForwardingFile {
   public:
    using ForwardingFile::ForwardingFile;
    Result<std::unique_ptr<store::Mapping>> map(Offset first, Offset length, bool writable) override {
      PENSTOCK_TRY(inner_->resize(100));
      return inner_->map(first, length, writable);
    }
  } shrinking(std::move(*memory_store.open("a", {.read = true, .write = true})));
  ASSERT_TRUE(file->grow(100'000).ok());
  std::string buffer(2000, 'x');
  const Tiling view = pieces(2, 4, 0), memory = access::bytes_at(0);
  trace::OpTrace trace(nullptr);
  const Access access{.store = shrinking,
                      .file = view,
                      .memory = memory,
                      .bytes = 2000,
                      .buffer = reinterpret_cast<std::byte*>(buffer.data()),
                      .trace = trace};
  EXPECT_EQ(read_mapped(access).status().code(), Code::kIo);
  EXPECT_EQ(write_mapped(access).status().code(), Code::kIo);
}

}  // namespace
}  // namespace penstock::strategy
