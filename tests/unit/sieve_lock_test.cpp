// Plain writers and sievers are never there together, in whatever order their steps fall.
#include "file/sieve_lock.h"

#include <gtest/gtest.h>

#include <array>
#include <condition_variable>
#include <thread>

#include "store/fault/fault_store.h"
#include "store/memory/memory_store.h"
#include "store/posix/posix_store.h"
#include "store/trace/trace_store.h"
#include "support/temporary_file.h"

namespace penstock::file {
namespace {

constexpr store::OpenOptions kReadWrite = {.read = true, .write = true, .create = true};

std::unique_ptr<store::File> open(store::Store& store, const std::string& path = "a") {
  Result<std::unique_ptr<store::File>> file = store.open(path, kReadWrite);
  EXPECT_TRUE(file.ok()) << file.status().text();
  return std::move(*file);
}

/// Lets two threads take one step each time their number comes up.
class Baton {
 public:
  explicit Baton(unsigned order) : order_(order) {}
  void step(unsigned who) {
    std::unique_lock guard(mutex_);
    moved_.wait(guard, [&] { return finished_[1 - who] || place_ >= kSteps || ((order_ >> place_) & 1U) == who; });
    if (place_ < kSteps) ++place_;
    moved_.notify_all();
  }
  void finish(unsigned who) {
    const std::lock_guard guard(mutex_);
    finished_[who] = true;
    moved_.notify_all();
  }
  static constexpr unsigned kSteps = 10;

 private:
  std::mutex mutex_;
  std::condition_variable moved_;
  unsigned order_;
  unsigned place_ = 0;
  std::array<bool, 2> finished_{};
};

class SteppedFile final : public store::ForwardingFile {
 public:
  SteppedFile(std::unique_ptr<store::File> inner, Baton& baton, unsigned who)
      : ForwardingFile(std::move(inner)), baton_(baton), who_(who) {}
  Status lock_range(Offset offset, Offset length, bool exclusive) override {
    baton_.step(who_);
    return inner_->lock_range(offset, length, exclusive);
  }
  Status unlock_range(Offset offset, Offset length) override {
    baton_.step(who_);
    return inner_->unlock_range(offset, length);
  }
  Result<bool> range_is_locked(Offset offset, Offset length) override {
    baton_.step(who_);
    return inner_->range_is_locked(offset, length);
  }

 private:
  Baton& baton_;
  unsigned who_;
};

bool clash(WriteRight a, WriteRight b) {
  return (a == WriteRight::kPlain && b == WriteRight::kMaySieve) ||
         (b == WriteRight::kPlain && a == WriteRight::kMaySieve);
}

TEST(SieveLock, NoOrderOfStepsLetsPlainAndSieveTogether) {
  int sieving = 0;
  for (unsigned order = 0; order < (1U << Baton::kSteps); ++order) {
    store::MemoryStore store({.file_bytes_max = 1 << 16});
    Baton baton(order);
    std::array<WriteRight, 2> right{};
    std::array<SieveLock, 2> locks;
    std::array<std::unique_ptr<store::File>, 2> files;
    for (unsigned who = 0; who < 2; ++who) files[who] = std::make_unique<SteppedFile>(open(store), baton, who);
    const auto run = [&](unsigned who) {
      const Result<WriteRight> got = locks[who].acquire(*files[who], who == 0);
      EXPECT_TRUE(got.ok());
      right[who] = *got;
      baton.finish(who);
    };
    std::thread other(run, 1);
    run(0);
    other.join();
    ASSERT_FALSE(clash(right[0], right[1])) << "order " << order;
    ASSERT_NE(right[1], WriteRight::kMaySieve);
    sieving += right[0] == WriteRight::kMaySieve;
  }
  EXPECT_GT(sieving, 0);
}

class SieveLockOn : public testing::TestWithParam<bool> {
 protected:
  store::Store& store() { return GetParam() ? static_cast<store::Store&>(posix_) : memory_; }
  std::unique_ptr<store::File> open_file() { return open(store(), name_.path()); }
  store::MemoryStore memory_;
  store::PosixStore posix_;
  test::TemporaryFile name_{"/dev/shm"};
};

TEST_P(SieveLockOn, ManyPlainWriters) {
  const auto a = open_file(), b = open_file();
  SieveLock lock_a, lock_b;
  EXPECT_EQ(*lock_a.acquire(*a, false), WriteRight::kPlain);
  EXPECT_EQ(*lock_b.acquire(*b, false), WriteRight::kPlain);
}

TEST_P(SieveLockOn, ManySievers) {
  const auto a = open_file(), b = open_file();
  SieveLock lock_a, lock_b;
  EXPECT_EQ(*lock_a.acquire(*a, true), WriteRight::kMaySieve);
  EXPECT_EQ(*lock_b.acquire(*b, true), WriteRight::kMaySieve);
}

TEST_P(SieveLockOn, ASieverMakesOthersLockRanges) {
  const auto a = open_file(), b = open_file();
  SieveLock lock_a, lock_b;
  EXPECT_EQ(*lock_a.acquire(*a, true), WriteRight::kMaySieve);
  EXPECT_EQ(*lock_b.acquire(*b, false), WriteRight::kLockRanges);
  // Neither waits for the other's close; once the siever is gone, newcomers are plain again.
  ASSERT_TRUE(a->close().ok());
  const auto c = open_file();
  SieveLock lock_c;
  EXPECT_EQ(*lock_c.acquire(*c, false), WriteRight::kPlain);
  EXPECT_EQ(*lock_b.acquire(*b, false), WriteRight::kLockRanges) << "safe with a plain writer too";
}

TEST_P(SieveLockOn, APlainWriterKeepsSieversOut) {
  auto a = open_file(), b = open_file();
  SieveLock lock_a, lock_b, lock_c;
  EXPECT_EQ(*lock_a.acquire(*a, false), WriteRight::kPlain);
  EXPECT_EQ(*lock_b.acquire(*b, true), WriteRight::kPlain) << "refused, and then as plain as anybody";
  a.reset();
  EXPECT_EQ(*lock_b.acquire(*b, true), WriteRight::kPlain) << "a right does not change";
  b.reset();
  const auto c = open_file();
  EXPECT_EQ(*lock_c.acquire(*c, true), WriteRight::kMaySieve) << "the signs went with the close";
  EXPECT_EQ(*lock_c.acquire(*c, false), WriteRight::kMaySieve);
}

TEST_P(SieveLockOn, GuardsShareAndKeepSieversOut) {
  const auto a = open_file(), b = open_file();
  {
    const auto guard_a = WriteGuard::lock(*a, WriteRight::kLockRanges, 0, 100);
    const auto guard_b = WriteGuard::lock(*b, WriteRight::kMaySieve, 50, 150);
    ASSERT_TRUE(guard_a.ok() && guard_b.ok());
    const auto c = open_file();
    EXPECT_TRUE(*c->range_is_locked(0, 1));
    EXPECT_TRUE(*c->range_is_locked(149, 1));
    EXPECT_FALSE(*c->range_is_locked(150, 1));
    EXPECT_TRUE(WriteGuard::lock(*c, WriteRight::kPlain, 0, 100).ok());
    EXPECT_TRUE(WriteGuard::lock(*c, WriteRight::kLockRanges, 7, 7).ok());
  }
  EXPECT_FALSE(*a->range_is_locked(0, 1000));
  EXPECT_FALSE(*b->range_is_locked(0, 1000));
}

INSTANTIATE_TEST_SUITE_P(Stores, SieveLockOn, testing::Bool(),
                         [](const auto& info) { return std::string(info.param ? "posix" : "memory"); });

store::Traits local_traits(bool can_read_back) {
  store::Traits traits;
  traits.node_local = traits.range_locks = true;
  traits.can_read_back = can_read_back;
  return traits;
}

/// A file with other traits.
class WithTraits final : public store::ForwardingFile {
 public:
  WithTraits(std::unique_ptr<store::File> inner, store::Traits traits)
      : ForwardingFile(std::move(inner)), traits_(std::move(traits)) {}
  [[nodiscard]] const store::Traits& traits() const override { return traits_; }

 private:
  store::Traits traits_;
};

TEST(SieveLock, ElsewhereNobodySievesAndNobodyPays) {
  store::MemoryStore memory;
  const auto counts = std::make_shared<store::StoreCounts>();
  store::TraceStore store(memory, counts);
  store::Traits traits = local_traits(true);
  traits.node_local = false;
  WithTraits file(open(store), traits);
  SieveLock lock;
  EXPECT_EQ(*lock.acquire(file, true), WriteRight::kPlain);
  EXPECT_EQ(*lock.acquire(file, false), WriteRight::kPlain);
  EXPECT_EQ(counts->lock.calls, 0);
}

TEST(SieveLock, AFileThatCannotBeReadLocksEachRange) {
  store::MemoryStore memory;
  WithTraits file(open(memory), local_traits(false));
  SieveLock lock, other_lock;
  EXPECT_EQ(*lock.acquire(file, true), WriteRight::kLockRanges);
  EXPECT_EQ(*lock.acquire(file, false), WriteRight::kLockRanges);
  const auto other = open(memory);
  EXPECT_EQ(*other_lock.acquire(*other, true), WriteRight::kMaySieve);
}

TEST(SieveLock, FailuresAreReportedAndLeaveNothingBehind) {
  for (const bool want : {false, true})
    for (std::int64_t number = 1;; ++number) {
      store::MemoryStore memory;
      const auto plan = std::make_shared<store::FaultPlan>(
          std::vector<store::FaultRule>{{.call = store::Call::kLock, .number = number, .error = 37}});
      store::FaultStore store(memory, plan);
      const auto file = open(store);
      SieveLock lock;
      const Result<WriteRight> right = lock.acquire(*file, want);
      EXPECT_EQ(right.ok(), plan->struck() == 0);
      if (plan->struck() == 0) break;
      const Result<WriteRight> again = lock.acquire(*file, want);
      ASSERT_TRUE(again.ok()) << again.status().text();
      EXPECT_EQ(*again, want ? WriteRight::kMaySieve : WriteRight::kPlain);
      ASSERT_LT(number, 10);
    }
}

}  // namespace
}  // namespace penstock::file
