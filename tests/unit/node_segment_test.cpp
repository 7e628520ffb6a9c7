// Shared segments: the same bytes behind two mappings, and no name left behind.
#include "comm/node_segment.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace {

off_t reserve_most = 0;  ///< what is longer is interrupted by the next signal of a timer; 0: nothing is
int interrupted = 0;

}  // namespace

// Takes the place of libc's, which the segments call by name.
extern "C" int posix_fallocate(int file, off_t offset, off_t length) {
  if (reserve_most > 0 && length > reserve_most) return ++interrupted < 1000 ? EINTR : ELOOP;  // a test that would never end fails
  return syscall(SYS_fallocate, file, 0, offset, length) == 0 ? 0 : errno;
}

namespace penstock::comm {
namespace {

constexpr std::size_t kSize = 8192;
constexpr int kCannotMount = 77;

TEST(NodeSegment, IsReservedUnderATimer) {
  constexpr std::size_t kLarge = 10'000'000;
  reserve_most = 2 << 20;
  NodeSegment::Name name;
  auto made = NodeSegment::create(kLarge, name);
  reserve_most = 0;
  ASSERT_TRUE(made.ok()) << made.status().text();
  const int descriptor = shm_open(name.data(), O_RDONLY, 0);
  NodeSegment::remove_name(name);
  struct stat facts {};
  ASSERT_EQ(fstat(descriptor, &facts), 0);
  close(descriptor);
  EXPECT_EQ(facts.st_size, static_cast<off_t>(kLarge));
  EXPECT_GE(facts.st_blocks * 512, static_cast<off_t>(kLarge));
}

TEST(NodeSegment, TwoMappingsAreTheSameMemory) {
  NodeSegment::Name name;
  auto made = NodeSegment::create(kSize, name);
  ASSERT_TRUE(made.ok()) << made.status().text();
  auto opened = NodeSegment::open(kSize, name);
  ASSERT_TRUE(opened.ok()) << opened.status().text();
  NodeSegment::remove_name(name);
  auto* written = static_cast<char*>(made.value().memory());
  auto* seen = static_cast<char*>(opened.value().memory());
  ASSERT_NE(written, seen);
  for (std::size_t i = 0; i < kSize; ++i) ASSERT_EQ(seen[i], 0);
  std::strcpy(written + kSize - 8, "penstk");
  EXPECT_STREQ(seen + kSize - 8, "penstk");
  EXPECT_EQ(NodeSegment::open(kSize, name).status().code(), Code::kNoSuchFile);
}

TEST(NodeSegment, IsForThisUserOnlyAndOfTheRightSize) {
  NodeSegment::Name name;
  auto made = NodeSegment::create(kSize, name);
  ASSERT_TRUE(made.ok());
  const int descriptor = shm_open(name.data(), O_RDONLY, 0);
  ASSERT_GE(descriptor, 0);
  struct stat facts {};
  ASSERT_EQ(fstat(descriptor, &facts), 0);
  close(descriptor);
  EXPECT_EQ(facts.st_mode & 0777, 0600U);
  EXPECT_EQ(NodeSegment::open(2 * kSize, name).status().code(), Code::kOther);
  NodeSegment::remove_name(name);
}

TEST(NodeSegment, IsNotTakenFromAnotherUser) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  NodeSegment::Name name;
  auto made = NodeSegment::create(kSize, name);
  ASSERT_TRUE(made.ok());
  const int descriptor = shm_open(name.data(), O_RDWR, 0);
  ASSERT_EQ(fchown(descriptor, 12345, 12345), 0);
  close(descriptor);
  EXPECT_EQ(NodeSegment::open(kSize, name).status().code(), Code::kOther);
  NodeSegment::remove_name(name);
}

/// In a child: 0 when there is an error, and no signal, where memory runs short.
int fill_up() {
  if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=256k") != 0)
    return kCannotMount;
  NodeSegment::Name name;
  const auto made = NodeSegment::create(1 << 20, name);
  if (made.ok()) std::memset(made.value().memory(), 1, 1 << 20);
  return made.status().code() == Code::kNoSpace ? 0 : 1;
}

TEST(NodeSegment, AFullMemoryIsAnErrorAndNoSignal) {
  const pid_t child = fork();
  if (child == 0) _exit(fill_up());
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  if (WEXITSTATUS(status) == kCannotMount) GTEST_SKIP() << "this user cannot mount a small tmpfs";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(NodeSegment, NamesDiffer) {
  NodeSegment::Name first, second;
  auto one = NodeSegment::create(kSize, first);
  auto two = NodeSegment::create(kSize, second);
  NodeSegment::remove_name(first);
  NodeSegment::remove_name(second);
  EXPECT_STRNE(first.data(), second.data());
}

TEST(NodeSegment, LeavesNoNameWhenThereIsNoRoom) {
  NodeSegment::Name name{};
  const auto made = NodeSegment::create(std::size_t{1} << 60, name);
  EXPECT_FALSE(made.ok());
  EXPECT_EQ(NodeSegment::open(kSize, name).status().code(), Code::kNoSuchFile);
}

}  // namespace
}  // namespace penstock::comm
