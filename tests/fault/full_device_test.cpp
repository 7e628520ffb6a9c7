// A device that is really full: every strategy reports it as an error, where touching a mapping would have been a
// signal.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "store/posix/posix_store.h"
#include "strategy/strategy.h"
#include "support/temporary_file.h"

namespace penstock::strategy {
namespace {

constexpr int kCannotMount = 77;
constexpr std::size_t kRoomBytes = 256 << 10;

bool put_line(const char* path, const std::string& line) {
  const int file = open(path, O_WRONLY | O_CLOEXEC);
  if (file < 0) return false;
  const bool ok = write(file, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  close(file);
  return ok;
}

/// A small tmpfs on `directory`, seen by this process only.
bool mount_small(const std::string& directory) {
  const std::string user = std::to_string(getuid()), group = std::to_string(getgid());
  if (unshare(CLONE_NEWNS) != 0) {
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
    if (!put_line("/proc/self/setgroups", "deny") || !put_line("/proc/self/uid_map", "0 " + user + " 1") ||
        !put_line("/proc/self/gid_map", "0 " + group + " 1"))
      return false;
  }
  if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return false;
  return mount("tmpfs", directory.c_str(), "tmpfs", 0, ("size=" + std::to_string(kRoomBytes)).c_str()) == 0;
}

/// In a child: 0 when `write` reports kNoSpace and leaves other bytes alone.
int fill_up(const std::string& directory, Result<Offset> (*write)(const Access&)) {
  if (!mount_small(directory)) return kCannotMount;
  store::PosixStore store;
  Result<std::unique_ptr<store::File>> file =
      store.open(directory + "/a", {.read = true, .write = true, .create = true});
  if (!file.ok()) return 1;
  std::string neighbour(1000, 'n');
  store::Transfer first{0, reinterpret_cast<std::byte*>(neighbour.data()), neighbour.size()};
  if (!(*file)->write(std::span(&first, 1)).ok()) return 2;

  const access::Tiling view = access::tile(*access::resized(0, 16, *access::contiguous(8, *access::elementary(1))), 8);
  const access::Tiling memory = access::bytes_at(0);
  std::string buffer(kRoomBytes, 'x');  // spans twice the room
  trace::OpTrace trace(nullptr);
  const Access access{.store = **file,
                      .file = view,
                      .memory = memory,
                      .bytes = static_cast<Offset>(buffer.size()),
                      .buffer = reinterpret_cast<std::byte*>(buffer.data()),
                      .trace = trace};
  const Result<Offset> moved = write(access);
  if (moved.ok()) return 3;
  if (moved.status().code() != Code::kNoSpace) return 4;

  std::string back(1000, '.');
  store::Transfer again{0, reinterpret_cast<std::byte*>(back.data()), back.size()};
  if (!(*file)->read(std::span(&again, 1)).ok()) return 5;
  for (std::size_t i = 0; i < back.size(); i += 16)
    if (back.compare(i, 8, std::string("nnnnnnnn")) != 0) return 6;
  return 0;
}

class FullDevice : public testing::TestWithParam<Result<Offset> (*)(const Access&)> {};

TEST_P(FullDevice, IsAnErrorAndNoSignal) {
  const test::TemporaryFile name;
  ASSERT_EQ(mkdir(name.path().c_str(), 0700), 0);
  const pid_t child = fork();
  if (child == 0) _exit(fill_up(name.path(), GetParam()));
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  rmdir(name.path().c_str());
  ASSERT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  if (WEXITSTATUS(status) == kCannotMount) GTEST_SKIP() << "this user cannot mount a small tmpfs";
  EXPECT_EQ(WEXITSTATUS(status), 0) << "step of fill_up()";
}

INSTANTIATE_TEST_SUITE_P(Strategies, FullDevice, testing::Values(write_independent, write_mapped, write_sieved));

}  // namespace
}  // namespace penstock::strategy
