// Pretended devices: when requests are done, what settings mean, what a store on one does.  Time is the test's own, so nothing waits.
#include "store/emulated/emulated_store.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <limits>
#include <thread>
#include <vector>

#include "store/emulated/shared_state.h"
#include "store/fault/fault_store.h"
#include "store/memory/memory_store.h"
#include "store/posix/posix_store.h"
#include "support/temporary_file.h"

namespace penstock::store {
namespace {

constexpr std::int64_t kUs = 1000;
constexpr std::int64_t kMs = 1'000'000;
constexpr std::int64_t kBegin = 1'000'000'000'000;

class TestClock final : public DeviceClock {
 public:
  [[nodiscard]] std::int64_t now_ns() const override { return now_; }
  void sleep_until(std::int64_t time_ns) override { now_ = std::max(now_, time_ns); }
  void pass(std::int64_t duration_ns) { now_ += duration_ns; }

 private:
  std::int64_t now_ = kBegin;
};

DeviceProfile profile_of(std::string_view text) {
  Result<DeviceProfile> profile = parse_device(text);
  EXPECT_TRUE(profile.ok()) << profile.status().text();
  return *profile;
}

std::string device_path(const std::string& name) {
  return "/dev/shm/penstock-device-" + std::to_string(geteuid()) + "-" + name;
}

/// A device name that no other test has.
std::string unused_name() { return "test" + std::to_string(getpid()); }

TEST(ParseDevice, KnowsTheProfiles) {
  const DeviceProfile hdd = profile_of("hdd");
  EXPECT_EQ(hdd.name, "hdd");
  EXPECT_EQ(hdd.bytes_per_second, 120'000'000);
  EXPECT_EQ(hdd.requests_per_second, 150);
  EXPECT_EQ(hdd.random_latency_ns, 8 * kMs);
  EXPECT_TRUE(hdd.serial);
  EXPECT_EQ(profile_of("ssd").random_latency_ns, 80 * kUs);
  EXPECT_GE(profile_of("nvm").bytes_per_second, 2'000'000'000);
}

TEST(ParseDevice, SettingsChangeAProfileOrStandAlone) {
  const DeviceProfile slower = profile_of("ssd,rate=2.5,latency=0.5,name=mine");
  EXPECT_EQ(slower.bytes_per_second, 2'500'000);
  EXPECT_EQ(slower.random_latency_ns, 500);
  EXPECT_EQ(slower.requests_per_second, 50'000);
  EXPECT_EQ(slower.name, "mine");
  const DeviceProfile alone = profile_of("iops=10,sequential_latency=3,serial=yes,rate=0");
  EXPECT_EQ(alone.bytes_per_second, 0);
  EXPECT_EQ(alone.requests_per_second, 10);
  EXPECT_EQ(alone.sequential_latency_ns, 3 * kUs);
  EXPECT_TRUE(alone.serial);
}

TEST(ParseDevice, SaysWhichWordIsWrong) {
  const std::string long_name = "name=" + std::string(33, 'a');
  for (const std::string& text :
       {std::string(), std::string("tape"), std::string("hdd,"), std::string("rate"), std::string("rate="), std::string("rate=fast"),
        std::string("rate=-1"), std::string("rate=nan"), std::string("rate=inf"), std::string("rate=1e400"), std::string("rate=1e3"), std::string("rate=2000000"),
        std::string("rate= 1"), std::string("rate=1 "), std::string("rate=0.0000001"), std::string("iops=0.2"), std::string("latency=60000001"), std::string("serial=maybe"),
        std::string("name="), std::string("name=../x"), std::string("name=a b"), long_name, std::string("rate=1,hdd"), std::string("HDD"),
        std::string("rate=1,,iops=2"), std::string(100'000, ',')}) {
    const Result<DeviceProfile> profile = parse_device(text);
    ASSERT_FALSE(profile.ok()) << text.substr(0, 50);
    EXPECT_EQ(profile.status().code(), Code::kInfo);
    EXPECT_NE(profile.status().text().find("expected"), std::string_view::npos) << text.substr(0, 50);
  }
  EXPECT_NE(parse_device("hdd,rate=fast").status().text().find("'rate=fast'"), std::string_view::npos);
  EXPECT_NE(parse_device("tape").status().text().find("hdd, ssd, nvm"), std::string_view::npos);
}

/// One request of a user who asked for nothing before.
std::int64_t take_request(const DeviceProfile& profile, DeviceState& state, std::int64_t now_ns, std::uint64_t file, Offset offset, std::size_t bytes) {
  return take_request(profile, state, now_ns, file, offset, bytes, now_ns);
}

TEST(Device, BytesOfAllUsersShareTheRate) {
  const DeviceProfile profile = profile_of("rate=100");
  DeviceState state;
  std::int64_t last = 0;
  // Ten users at once, each on a file of its own, 1 MB each: 0.1 s.
  for (std::uint64_t user = 0; user < 10; ++user) last = take_request(profile, state, kBegin, user, 0, 1'000'000);
  EXPECT_NEAR(static_cast<double>(last - kBegin), 100.0 * kMs, 10);
}

TEST(Device, AStreamMovesAtTheRateAndALateRequestWaitsForItsOwnBytes) {
  const DeviceProfile profile = profile_of("rate=100");
  DeviceState state;
  std::int64_t now = kBegin;
  Offset at = 0;
  for (int request = 0; request < 10; ++request, at += 1'000'000) {
    now = take_request(profile, state, now, 1, at, 1'000'000);
    now += 100 * kUs;  // the way to the program and back
  }
  EXPECT_NEAR(static_cast<double>(now - kBegin), 100.1 * kMs, 20);
  now += kMs;  // nothing asked of it meanwhile: what is idle does not save up
  EXPECT_NEAR(static_cast<double>(take_request(profile, state, now, 1, at, 1'000'000) - now), 10.0 * kMs, 10);
}

TEST(Device, WhatDoesNotContinueTheLastRequestIsRandom) {
  const DeviceProfile profile = profile_of("latency=1000,sequential_latency=10");
  DeviceState state;
  EXPECT_EQ(take_request(profile, state, kBegin, 1, 4096, 4096), kBegin + kMs);
  EXPECT_EQ(take_request(profile, state, kBegin, 1, 8192, 4096), kBegin + 10 * kUs);
  EXPECT_EQ(take_request(profile, state, kBegin, 2, 12288, 4096), kBegin + kMs) << "of another file";
  EXPECT_EQ(take_request(profile, state, kBegin, 1, 12288, 4096), kBegin + kMs) << "the head was elsewhere";
  EXPECT_EQ(take_request(profile, state, kBegin, 1, 12288, 4096), kBegin + kMs) << "again, not on";
  EXPECT_EQ(take_request(profile, state, kBegin, 1, std::numeric_limits<Offset>::max() - 4096, 4096), kBegin + kMs);
}

TEST(Device, OneHeadDoesOneRequestAfterTheOther) {
  const DeviceProfile hdd = profile_of("hdd");
  DeviceState state;
  EXPECT_EQ(take_request(hdd, state, kBegin, 1, 0, 4096), kBegin + 8 * kMs) << "alone: its latency";
  DeviceState busy;
  std::int64_t last = 0;
  for (Offset request = 0; request < 150; ++request) last = take_request(hdd, busy, kBegin, 1, request << 20, 4096);
  EXPECT_GE(last - kBegin, 1000 * kMs) << "150 a second, and their bytes";
  EXPECT_LE(last - kBegin, 1010 * kMs);
  // What continues the last request only moves its bytes.
  EXPECT_EQ(take_request(hdd, busy, last, 1, (Offset{149} << 20) + 4096, 1200), last + 50 * kUs);
}

TEST(Device, RequestsAreCountedBesideTheBytesWhereThereIsNoHead) {
  const DeviceProfile profile = profile_of("rate=100,iops=1000");
  DeviceState state;
  std::int64_t last = 0;
  for (Offset request = 0; request < 10; ++request) last = take_request(profile, state, kBegin, 1, request * 10, 10);
  EXPECT_EQ(last, kBegin + 10 * kMs) << "in a row or not";
  DeviceState other;
  EXPECT_NEAR(static_cast<double>(take_request(profile, other, kBegin, 1, 0, 1'000'000) - kBegin), 10.0 * kMs, 10) << "not both times one after the other";
}

TEST(Device, UsersThatBookSeveralRequestsAtOnceWaitAtTheSameTime) {
  const DeviceProfile profile = profile_of("rate=1000,iops=50000,latency=100");
  DeviceState state;
  const auto forty_of = [&](std::uint64_t user) {
    std::int64_t own = kBegin;
    std::int64_t done = kBegin;
    for (Offset request = 0; request < 40; ++request) done = take_request(profile, state, kBegin, user, request << 20, 1000, own);
    return done;
  };
  for (std::uint64_t user = 1; user <= 5; ++user) EXPECT_EQ(forty_of(user), kBegin + 4 * kMs) << user;
  EXPECT_EQ(forty_of(6), kBegin + 4800 * kUs) << "240 requests, of which the device does one in 20 us";
}

TEST(Device, ItsPaceIsWhatItIsSetTo) {
  const Pace ssd = pace_of(profile_of("rate=500,iops=50000,latency=80,sequential_latency=20"));
  EXPECT_DOUBLE_EQ(ssd.random_call_seconds, 80e-6);
  EXPECT_DOUBLE_EQ(ssd.call_seconds, 20e-6);
  EXPECT_DOUBLE_EQ(ssd.per_byte_seconds, 2e-9);
  EXPECT_DOUBLE_EQ(ssd.requests_at_once, 4);
  EXPECT_DOUBLE_EQ(pace_of(profile_of("rate=1,iops=10,latency=10")).requests_at_once, 1) << "fewer than one cannot be";
  const Pace free = pace_of(profile_of("latency=5"));
  EXPECT_DOUBLE_EQ(free.per_byte_seconds, 0);
  EXPECT_GT(free.requests_at_once, 10'000);
}

TEST(Device, WhatAnEarlierClockLeftDoesNotCount) {
  const DeviceProfile profile = profile_of("rate=1");
  DeviceState state;
  state.bytes_until_ns = std::numeric_limits<std::int64_t>::max() - 1;
  EXPECT_EQ(take_request(profile, state, kBegin, 1, 0, 1000), kBegin + kMs);
  state.bytes_until_ns = std::numeric_limits<std::int64_t>::min() + 1;
  EXPECT_EQ(take_request(profile, state, kBegin, 1, 0, 1000), kBegin + kMs);
}

TEST(Device, ThreadsLoseNoRequest) {
  const DeviceProfile profile = profile_of("rate=1000");
  DeviceState state;
  std::vector<std::thread> threads;
  for (std::uint64_t number = 0; number < 4; ++number)
    threads.emplace_back([&, number] {
      for (int i = 0; i < 1000; ++i) take_request(profile, state, kBegin, number, 0, 1000);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(state.bytes_until_ns.load(), kBegin + 4000 * kUs);
}

class EmulatedStoreTest : public testing::Test {
 protected:
  std::unique_ptr<File> open(const std::string& settings, Store* inner = nullptr) {
    store_ = std::make_unique<EmulatedStore>(inner != nullptr ? *inner : memory_, parse_device(settings + ",name=" + name_), clock_);
    OpenOptions options;
    options.write = options.create = true;
    Result<std::unique_ptr<File>> file = store_->open("file", options);
    EXPECT_TRUE(file.ok()) << file.status().text();
    return file.ok() ? std::move(*file) : nullptr;
  }
  std::int64_t took() {
    const std::int64_t duration = clock_.now_ns() - before_;
    before_ = clock_.now_ns();
    return duration;
  }

  const std::string name_ = unused_name();
  MemoryStore memory_{{.can_map = true}};
  TestClock clock_;
  std::int64_t before_ = kBegin;
  std::unique_ptr<EmulatedStore> store_;
  std::vector<std::byte> bytes_ = std::vector<std::byte>(8'000'000, std::byte{7});
};

TEST_F(EmulatedStoreTest, WhatIsWrittenIsReadAndBothTakeTheirTime) {
  const auto file = open("rate=100");
  Transfer transfer{0, bytes_.data(), 1'000'000};
  ASSERT_TRUE(file->write({&transfer, 1}).ok());
  EXPECT_NEAR(static_cast<double>(took()), 10.0 * kMs, 10);
  std::vector<std::byte> back(1'000'000);
  transfer = {0, back.data(), back.size()};
  ASSERT_TRUE(file->read({&transfer, 1}).ok());
  EXPECT_EQ(back[999'999], std::byte{7});
  EXPECT_NEAR(static_cast<double>(took()), 10.0 * kMs, 10) << "nothing is cached";
}

TEST_F(EmulatedStoreTest, TransfersInARowAreOneRequestAndLongOnesSeveral) {
  const auto file = open("latency=1000,sequential_latency=100");
  Transfer pieces[] = {{0, bytes_.data(), 100}, {100, bytes_.data(), 100}, {200, bytes_.data(), 100}, {500, bytes_.data(), 100}};
  ASSERT_TRUE(file->write(pieces).ok());
  EXPECT_EQ(took(), 2 * kMs) << "three in a row, and one";
  Transfer transfer{600, bytes_.data(), 3 * kRequestBytesMax};
  ASSERT_TRUE(file->write({&transfer, 1}).ok());
  EXPECT_EQ(took(), 3 * 100 * kUs);
}

TEST_F(EmulatedStoreTest, NothingIsPaidForWhatDoesNotMove) {
  const auto file = open("rate=1,latency=1000");
  Transfer transfer{0, bytes_.data(), 0};
  ASSERT_TRUE(file->write({&transfer, 1}).ok());
  ASSERT_TRUE(file->write({}).ok());
  EXPECT_EQ(took(), 0);
  transfer = {0, bytes_.data(), 1000};
  ASSERT_TRUE(file->write({&transfer, 1}).ok());
  EXPECT_EQ(took(), kMs);
  transfer = {500, bytes_.data(), 100'000};
  ASSERT_TRUE(file->read({&transfer, 1}).ok());
  EXPECT_EQ(transfer.done, 500U);
  EXPECT_EQ(took(), kMs) << "the file ends after 500 bytes: 0.5 ms, but never less than the latency";
  ASSERT_TRUE(file->resize(5'000'000'000).ok());
  ASSERT_TRUE(file->size().ok());
  EXPECT_EQ(took(), 0);
  ASSERT_TRUE(file->sync().ok());
  EXPECT_EQ(took(), kMs) << "one request";
}

TEST_F(EmulatedStoreTest, FailuresComeThroughAndPayForWhatMoved) {
  Result<std::vector<FaultRule>> rules = parse_fault_rules("write:1:ENOSPC:short");
  ASSERT_TRUE(rules.ok());
  FaultStore faulty(memory_, std::make_shared<FaultPlan>(*rules));
  const auto file = open("rate=100", &faulty);
  Transfer transfer{0, bytes_.data(), 1'000'000};
  EXPECT_EQ(file->write({&transfer, 1}).code(), Code::kNoSpace);
  EXPECT_EQ(transfer.done, 500'000U);
  EXPECT_NEAR(static_cast<double>(took()), 5.0 * kMs, 10);
}

TEST_F(EmulatedStoreTest, CanNotBeMapped) {
  const auto file = open("ssd");
  EXPECT_FALSE(file->traits().can_map);
  EXPECT_FALSE(file->traits().maps_coherent);
  ASSERT_TRUE(file->traits().pace.has_value());
  EXPECT_DOUBLE_EQ(file->traits().pace->random_call_seconds, 80e-6);
  EXPECT_EQ(file->traits().file_system, "emulated " + name_);
  EXPECT_EQ(file->map(0, 10, false).status().code(), Code::kUnsupported);
}

TEST_F(EmulatedStoreTest, OpeningFailsWhereTheSettingsAreWrong) {
  EmulatedStore store(memory_, parse_device("rate=fast"), clock_);
  OpenOptions options;
  options.write = options.create = true;
  EXPECT_EQ(store.open("file", options).status().code(), Code::kInfo);
  EXPECT_EQ(memory_.remove("file").code(), Code::kNoSuchFile) << "nothing was created";
}

TEST_F(EmulatedStoreTest, ProcessesShareTheDeviceAndTheLastRemovesIt) {
  auto file = open("rate=100");
  ASSERT_EQ(access(device_path(name_).c_str(), F_OK), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto state = shared_device_state(name_);
    if (state.ok()) (*state)->bytes_until_ns = kBegin + 50 * kMs;
    _exit(state.ok() ? 0 : 1);
  }
  int ended = -1;
  ASSERT_EQ(waitpid(child, &ended, 0), child);
  ASSERT_EQ(ended, 0);
  Transfer transfer{0, bytes_.data(), 1'000'000};
  ASSERT_TRUE(file->write({&transfer, 1}).ok());
  EXPECT_NEAR(static_cast<double>(took()), 60.0 * kMs, 10) << "the other process' bytes come first";
  ASSERT_EQ(access(device_path(name_).c_str(), F_OK), 0) << "still in use here";
  file.reset();
  EXPECT_NE(access(device_path(name_).c_str(), F_OK), 0);
}

TEST_F(EmulatedStoreTest, WhatAKilledProcessLeftIsUsedAndRemoved) {
  const int left = ::open(device_path(name_).c_str(), O_CREAT | O_EXCL | O_WRONLY, 0600);  // of length 0: killed early
  ASSERT_GE(left, 0);
  ::close(left);
  auto file = open("rate=100");
  ASSERT_NE(file, nullptr);
  file.reset();
  EXPECT_NE(access(device_path(name_).c_str(), F_OK), 0);
}

TEST_F(EmulatedStoreTest, ALinkInPlaceOfTheSharedFileIsNotFollowed) {
  const test::TemporaryFile victim;
  ASSERT_EQ(symlink(victim.path().c_str(), device_path(name_).c_str()), 0);
  EXPECT_FALSE(shared_device_state(name_).ok());
  EXPECT_NE(access(victim.path().c_str(), F_OK), 0) << "nothing was made";
  unlink(device_path(name_).c_str());
}

TEST_F(EmulatedStoreTest, AFullSharedMemoryIsAnErrorAndNoSignal) {
  constexpr int kCannotMount = 77;
  const pid_t child = fork();
  if (child == 0) {
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 || mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=4k") != 0)
      _exit(kCannotMount);
    const int filler = ::open("/dev/shm/filler", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (posix_fallocate(filler, 0, 4096) != 0) _exit(2);
    const auto state = shared_device_state(name_);
    if (state.ok()) (*state)->head = 1;
    _exit(state.status().code() == Code::kNoSpace ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  if (WEXITSTATUS(status) == kCannotMount) GTEST_SKIP() << "this user cannot mount a small tmpfs";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(EmulatedStoreTest, AnotherUsersLockIsNotWaitedFor) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  const int theirs = ::open(device_path(name_).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  ASSERT_GE(theirs, 0);
  ASSERT_EQ(fchown(theirs, 12345, 12345), 0);
  ASSERT_EQ(flock(theirs, LOCK_EX), 0);
  const pid_t child = fork();
  if (child == 0) {
    alarm(10);
    _exit(shared_device_state(name_).status().code() == Code::kAccess ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  ::close(theirs);
  unlink(device_path(name_).c_str());
}

TEST_F(EmulatedStoreTest, AFileHasOnePlaceUnderAllItsNames) {
  const test::TemporaryFile name;
  const test::TemporaryFile other;
  PosixStore posix;
  EmulatedStore store(posix, parse_device("latency=1000,name=" + name_), clock_);
  OpenOptions options;
  options.write = options.create = true;
  auto first = store.open(name.path(), options);
  ASSERT_TRUE(first.ok());
  ASSERT_EQ(link(name.path().c_str(), other.path().c_str()), 0);
  auto second = store.open(other.path(), options);
  ASSERT_TRUE(second.ok());
  Transfer transfer{0, bytes_.data(), 100};
  ASSERT_TRUE((*first)->write({&transfer, 1}).ok());
  EXPECT_EQ(took(), kMs);
  transfer = {100, bytes_.data(), 100};
  ASSERT_TRUE((*second)->write({&transfer, 1}).ok());
  EXPECT_EQ(took(), 0) << "it continues the first";
}

// The real clock: never too early; how late depends on the machine.
TEST(SystemDeviceClock, SleepsLongEnough) {
  DeviceClock& clock = system_device_clock();
  for (const std::int64_t duration : {std::int64_t{0}, 20 * kUs, 300 * kUs, 3 * kMs}) {
    const std::int64_t until = clock.now_ns() + duration;
    clock.sleep_until(until);
    EXPECT_GE(clock.now_ns(), until);
  }
}

}  // namespace
}  // namespace penstock::store
