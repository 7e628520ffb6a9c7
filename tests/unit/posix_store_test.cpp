// The posix store against real files, and against system calls that are interrupted, short or refused.
#include "store/posix/posix_store.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <filesystem>
#include <thread>
#include <vector>

#include "store/posix/file_systems.h"
#include "support/temporary_file.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

namespace {

/// What the system calls below do instead of their work; all zero: nothing special.
struct Kernel {
  int interrupt = 0;               ///< this many transfers fail with EINTR first
  std::size_t most = 0;            ///< a transfer moves at most this many bytes
  bool pretend = false;            ///< transfers say they moved everything, and touch nothing
  bool no_progress = false;        ///< writes return 0
  std::vector<int> populate = {};  ///< errno of the next populating calls, 0: the real one
  std::vector<int> reserve = {};   ///< errno of the next fallocate calls, 0: the real one
  off_t reserve_most = 0;          ///< a longer fallocate is interrupted by the next signal of a timer; 0: none is
  int reserve_interrupted = 0;     ///< counted
  int map = 0;                     ///< errno of mmap, 0: the real one
  bool owned_by_others = false;    ///< whoever makes a file is not its owner
  bool write_only = false;         ///< whoever opens a file may not read it
  bool lustre = false;             ///< directories are on it
  bool nfs = false;                ///< files are on it
  int forgotten = 0;               ///< counted: advice to forget what is cached
  std::vector<int> lock = {};      ///< errno of the next range locks that wait, 0: the real one
  int layout = 0;                  ///< errno of setting a layout, 0: it is set
  int transfers = 0;               ///< counted
  std::size_t largest = 0;         ///< counted
};
Kernel kernel;

/// True when the call is to return `result` at once.
bool divert(std::size_t length, ssize_t& result) {
  ++kernel.transfers;
  kernel.largest = std::max(kernel.largest, length);
  if (kernel.interrupt > 0) {
    --kernel.interrupt;
    errno = EINTR;
    result = -1;
    return true;
  }
  if (kernel.pretend) {
    result = static_cast<ssize_t>(std::min<std::size_t>(length, 0x7ffff000));
    return true;
  }
  return false;
}

std::size_t shortened(std::size_t length) { return kernel.most == 0 ? length : std::min(length, kernel.most); }

int next(std::vector<int>& errors) {
  if (errors.empty()) return 0;
  const int error = errors.front();
  errors.erase(errors.begin());
  return error;
}

/// The pieces cut to `most` bytes in total.
std::vector<iovec> shortened(const iovec* pieces, int count) {
  std::vector<iovec> result;
  std::size_t left = kernel.most == 0 ? SIZE_MAX : kernel.most;
  for (int i = 0; i < count && left > 0; ++i) {
    result.push_back({pieces[i].iov_base, std::min(pieces[i].iov_len, left)});
    left -= result.back().iov_len;
  }
  return result;
}

std::size_t total(const iovec* pieces, int count) {
  std::size_t sum = 0;
  for (int i = 0; i < count; ++i) sum += pieces[i].iov_len;
  return sum;
}

}  // namespace

// These take the place of libc's: the store calls them by name.
extern "C" {
ssize_t pread(int file, void* memory, size_t length, off_t offset) {
  ssize_t result = 0;
  if (divert(length, result)) return result;
  return syscall(SYS_pread64, file, memory, shortened(length), offset);
}
ssize_t pwrite(int file, const void* memory, size_t length, off_t offset) {
  ssize_t result = 0;
  if (divert(length, result)) return result;
  if (kernel.no_progress) return 0;
  return syscall(SYS_pwrite64, file, memory, shortened(length), offset);
}
ssize_t preadv(int file, const iovec* pieces, int count, off_t offset) {
  ssize_t result = 0;
  if (divert(total(pieces, count), result)) return result;
  const std::vector<iovec> cut = shortened(pieces, count);
  return syscall(SYS_preadv, file, cut.data(), cut.size(), offset, 0);
}
ssize_t pwritev(int file, const iovec* pieces, int count, off_t offset) {
  ssize_t result = 0;
  if (divert(total(pieces, count), result)) return result;
  if (kernel.no_progress) return 0;
  const std::vector<iovec> cut = shortened(pieces, count);
  return syscall(SYS_pwritev, file, cut.data(), cut.size(), offset, 0);
}
int fallocate(int file, int mode, off_t offset, off_t length) {
  if (const int error = next(kernel.reserve)) {
    errno = error;
    return -1;
  }
  if (kernel.reserve_most > 0 && length > kernel.reserve_most) {
    errno = ++kernel.reserve_interrupted < 1000 ? EINTR : ELOOP;  // a test that would never end fails
    return -1;
  }
  return static_cast<int>(syscall(SYS_fallocate, file, mode, offset, length));
}
int madvise(void* address, size_t length, int advice) noexcept {
  if (advice == MADV_POPULATE_READ || advice == MADV_POPULATE_WRITE)
    if (const int error = next(kernel.populate)) {
      errno = error;
      return -1;
    }
  return static_cast<int>(syscall(SYS_madvise, address, length, advice));
}
#if !defined(__SANITIZE_THREAD__)  // which needs its own
void* mmap(void* address, size_t length, int protection, int flags, int file, off_t offset) noexcept {
  if (kernel.map != 0) {
    errno = kernel.map;
    return MAP_FAILED;
  }
  return reinterpret_cast<void*>(syscall(SYS_mmap, address, length, protection, flags, file, offset));
}
#endif
int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  if (kernel.write_only && (flags & O_ACCMODE) != O_WRONLY) {
    errno = EACCES;
    return -1;
  }
  const int file = static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags, mode));
  if (file < 0 || !kernel.owned_by_others || (flags & O_NOATIME) == 0) return file;
  close(file);  // Linux asks for the owner when the file is there already
  errno = EPERM;
  return -1;
}
int statfs(const char* path, struct statfs* system) noexcept {
  const int result = static_cast<int>(syscall(SYS_statfs, path, system));
  if (kernel.lustre) system->f_type = 0x0BD00BD0;
  return result;
}
int fstatfs(int file, struct statfs* system) noexcept {
  const int result = static_cast<int>(syscall(SYS_fstatfs, file, system));
  if (kernel.nfs) system->f_type = 0x6969;
  return result;
}
int posix_fadvise(int, off_t, off_t, int advice) noexcept {
  kernel.forgotten += advice == POSIX_FADV_DONTNEED ? 1 : 0;
  return 0;
}
int fcntl(int file, int command, ...) {
  va_list rest;
  va_start(rest, command);
  const auto argument = va_arg(rest, long);
  va_end(rest);
  if (command == F_OFD_SETLKW)
    if (const int error = next(kernel.lock)) {
      errno = error;
      return -1;
    }
  return static_cast<int>(syscall(SYS_fcntl, file, command, argument));
}
int ioctl(int, unsigned long, ...) noexcept {
  errno = kernel.layout;
  return kernel.layout == 0 ? 0 : -1;
}
}

namespace penstock::store {
namespace {

using test::TemporaryFile;

class PosixStoreTest : public testing::Test {
 protected:
  void SetUp() override { kernel = {}; }
  void TearDown() override { kernel = {}; }

  std::unique_ptr<File> create() { return open({.read = true, .write = true, .create = true}); }
  std::unique_ptr<File> open(const OpenOptions& options) {
    Result<std::unique_ptr<File>> file = store_.open(name_.path(), options);
    EXPECT_TRUE(file.ok()) << file.status().text();
    return std::move(*file);
  }
  static Status put(File& file, Offset offset, std::string text) {
    Transfer transfer{offset, reinterpret_cast<std::byte*>(text.data()), text.size()};
    return file.write(std::span(&transfer, 1));
  }
  static std::string get(File& file, Offset offset, std::size_t length) {
    std::string text(length, '#');
    Transfer transfer{offset, reinterpret_cast<std::byte*>(text.data()), length};
    EXPECT_TRUE(file.read(std::span(&transfer, 1)).ok());
    text.resize(transfer.done);
    return text;
  }

  /// The file's only one in this process; -1: there is none or more than one.
  int descriptor() const {
    int found = -1;
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code error;
      if (std::filesystem::read_symlink(entry.path(), error) != name_.path()) continue;
      found = std::stoi(entry.path().filename());
      ++count;
    }
    return count == 1 ? found : -1;
  }

  PosixStore store_;
  TemporaryFile name_;
};

TEST_F(PosixStoreTest, OpenSaysWhatIsWrong) {
  const Result<std::unique_ptr<File>> absent = store_.open(name_.path(), {});
  ASSERT_FALSE(absent.ok());
  EXPECT_EQ(absent.status().code(), Code::kNoSuchFile);
  EXPECT_NE(absent.status().text().find(name_.path()), std::string_view::npos);
  create();
  EXPECT_EQ(store_.open(name_.path(), {.write = true, .create = true, .exclusive = true}).status().code(),
            Code::kFileExists);
  EXPECT_EQ(store_.open("/", {}).status().code(), Code::kBadFile);
  EXPECT_EQ(store_.open(name_.path() + "/x", {}).status().code(), Code::kBadFile);
}

TEST_F(PosixStoreTest, PermissionsAreGivenAtCreation) {
  const mode_t mask = umask(022);
  EXPECT_TRUE(store_.open(name_.path(), {.write = true, .create = true, .permissions = 0660}).ok());
  umask(mask);
  struct stat info;
  ASSERT_EQ(stat(name_.path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0640u);
}

TEST_F(PosixStoreTest, RemoveIsReported) {
  create();
  EXPECT_TRUE(store_.remove(name_.path()).ok());
  EXPECT_EQ(store_.remove(name_.path()).code(), Code::kNoSuchFile);
}

TEST_F(PosixStoreTest, AFileThatBelongsToSomebodyElseIsMadeAllTheSame) {
  kernel.owned_by_others = true;
  const auto file = open({.read = true, .write = true, .create = true, .exclusive = true});
  ASSERT_TRUE(put(*file, 0, "abc").ok());
  EXPECT_EQ(get(*file, 0, 3), "abc");
}

TEST_F(PosixStoreTest, AccessTimesAreLeftAloneOnlyWhereThatIsAskedFor) {
  for (const bool no_atime : {true, false}) {
    const auto file = open({.read = true, .write = true, .create = true, .no_atime = no_atime});
    EXPECT_EQ((fcntl(descriptor(), F_GETFL) & O_NOATIME) != 0, no_atime);
  }
}

TEST_F(PosixStoreTest, ALayoutThatIsRefusedDoesNotKeepTheFileFromBeingWritten) {
  kernel.lustre = true;
  const OpenOptions wish{.read = true, .write = true, .create = true, .exclusive = true, .no_atime = false, .stripe_bytes = 100};
  const auto waits = [&](int outcome) {
    unlink(name_.path().c_str());
    kernel.layout = outcome;
    const auto file = open(wish);
    EXPECT_TRUE(put(*file, 0, "abc").ok());
    const int flags = fcntl(descriptor(), F_GETFL);
    EXPECT_EQ(flags & O_ACCMODE, O_RDWR);
    EXPECT_EQ(fcntl(descriptor(), F_GETFD), FD_CLOEXEC);
    return (flags & O_ASYNC) != 0;
  };
  EXPECT_TRUE(waits(0));
  EXPECT_TRUE(waits(EEXIST));
  EXPECT_FALSE(waits(EINVAL));
}

TEST_F(PosixStoreTest, DescriptorIsNotInheritedNorAppending) {
  const auto file = create();
  EXPECT_EQ(fcntl(descriptor(), F_GETFD), FD_CLOEXEC);
  // Writing at 0 after writing further on must not go to the end.
  ASSERT_TRUE(put(*file, 4, "tail").ok());
  ASSERT_TRUE(put(*file, 0, "head").ok());
  EXPECT_EQ(get(*file, 0, 100), "headtail");
}

TEST_F(PosixStoreTest, ReadEndsAtTheEndOfFile) {
  const auto file = create();
  ASSERT_TRUE(put(*file, 0, "0123456789").ok());
  std::string memory(24, '#');
  auto* bytes = reinterpret_cast<std::byte*>(memory.data());
  std::vector<Transfer> batch = {{0, bytes, 4}, {6, bytes + 4, 8}, {20, bytes + 12, 4, 77}};
  ASSERT_TRUE(file->read(batch).ok());
  EXPECT_EQ(batch[0].done, 4u);
  EXPECT_EQ(batch[1].done, 4u);
  EXPECT_EQ(batch[2].done, 0u);
  EXPECT_EQ(memory, "01236789################");
}

TEST_F(PosixStoreTest, AdjacentTransfersTakeOneCall) {
  const auto file = create();
  std::string memory = "abcdefghij";
  auto* bytes = reinterpret_cast<std::byte*>(memory.data());
  std::vector<Transfer> batch = {
      {10, bytes + 8, 2}, {12, bytes, 3}, {15, bytes + 5, 0}, {15, bytes + 3, 2}, {30, bytes, 1}};
  ASSERT_TRUE(file->write(batch).ok());
  EXPECT_EQ(kernel.transfers, 2);
  EXPECT_EQ(get(*file, 10, 7), "ijabcde");
  EXPECT_EQ(*file->size(), 31);
  kernel.transfers = 0;
  std::fill(memory.begin(), memory.end(), '#');
  ASSERT_TRUE(file->read(batch).ok());
  EXPECT_EQ(kernel.transfers, 2);
  EXPECT_EQ(memory.substr(1, 4), "bcde");  // 'a' came back twice: from 12 and, as the last transfer, from 30
}

TEST_F(PosixStoreTest, MorePiecesThanOneCallTakes) {
  const auto file = create();
  std::vector<std::byte> memory(6000);
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<std::byte>(i * 7);
  std::vector<Transfer> batch;
  for (Offset i = 0; i < 3000; ++i) batch.push_back({i * 2, memory.data() + (2999 - i) * 2, 2});
  ASSERT_TRUE(file->write(batch).ok());
  EXPECT_EQ(kernel.transfers, 3);
  std::vector<std::byte> back(6000);
  for (Transfer& transfer : batch) transfer.memory = back.data() + (transfer.memory - memory.data());
  ASSERT_TRUE(file->read(batch).ok());
  EXPECT_EQ(back, memory);
}

TEST_F(PosixStoreTest, InterruptedAndShortCallsAreContinued) {
  const auto file = create();
  std::string memory = "the quick brown fox jumps over the lazy dog";
  for (const std::size_t most : {1, 2, 3, 5, 100}) {
    ASSERT_TRUE(file->resize(0).ok());
    kernel = {.interrupt = 3, .most = most};
    ASSERT_TRUE(put(*file, 1, memory).ok());
    kernel.interrupt = 2;
    EXPECT_EQ(get(*file, 1, memory.size() + 5), memory);
    auto* bytes = reinterpret_cast<std::byte*>(memory.data());
    std::vector<Transfer> batch = {{50, bytes, 10}, {60, bytes + 20, 7}, {67, bytes + 10, 10}, {80, bytes, 3}};
    kernel.interrupt = 4;
    ASSERT_TRUE(file->write(batch).ok());
    std::string back(memory.size(), '#');
    for (Transfer& transfer : batch)
      transfer.memory = reinterpret_cast<std::byte*>(back.data()) + (transfer.memory - bytes);
    kernel.interrupt = 4;
    ASSERT_TRUE(file->read(batch).ok());
    EXPECT_EQ(back.substr(0, 27), memory.substr(0, 27));
    for (const Transfer& transfer : batch) EXPECT_EQ(transfer.done, transfer.length);
  }
}

TEST_F(PosixStoreTest, HugeTransfersAreCutIntoCallsTheKernelTakes) {
  const auto file = create();
  kernel.pretend = true;
  std::byte memory[1];
  const std::size_t huge = (std::size_t{5} << 30) + 3;
  Transfer one{0, memory, huge};
  ASSERT_TRUE(file->write(std::span(&one, 1)).ok());
  EXPECT_EQ(one.done, huge);
  EXPECT_LE(kernel.largest, std::size_t{1} << 30);
  std::vector<Transfer> batch = {{0, memory, huge}, {static_cast<Offset>(huge), memory, huge}};
  kernel.largest = 0;
  ASSERT_TRUE(file->read(batch).ok());
  EXPECT_EQ(batch[0].done, huge);
  EXPECT_EQ(batch[1].done, huge);
  EXPECT_LE(kernel.largest, std::size_t{1} << 30);
}

TEST_F(PosixStoreTest, NothingToMoveMakesNoCall) {
  const auto file = create();
  ASSERT_TRUE(put(*file, 100, "").ok());
  ASSERT_TRUE(file->write({}).ok());
  EXPECT_EQ(kernel.transfers, 0);
  EXPECT_EQ(*file->size(), 0);
}

TEST_F(PosixStoreTest, FailuresNameFileOffsetAndLength) {
  const auto file = create();
  kernel.no_progress = true;
  const Status stuck = put(*file, 7, "abc");
  EXPECT_EQ(stuck.code(), Code::kIo);
  EXPECT_NE(stuck.text().find("3 bytes at offset 7 of '" + name_.path()), std::string_view::npos) << stuck.text();
  kernel = {};
  const auto reader = open({});
  EXPECT_FALSE(put(*reader, 0, "x").ok());
  Result<std::unique_ptr<File>> full = store_.open("/dev/full", {.read = false, .write = true});
  ASSERT_TRUE(full.ok());
  EXPECT_EQ(put(**full, 0, "x").code(), Code::kNoSpace);
}

TEST_F(PosixStoreTest, ResizeIsExactAndGrowNeverCuts) {
  const auto file = create();
  ASSERT_TRUE(put(*file, 0, "0123456789").ok());
  ASSERT_TRUE(file->grow(5).ok());
  EXPECT_EQ(*file->size(), 10);
  const Status grown = file->grow(20);
  ASSERT_TRUE(grown.ok() || (grown.code() == Code::kUnsupported && file->resize(20).ok())) << grown.text();
  EXPECT_EQ(*file->size(), 20);
  EXPECT_EQ(get(*file, 0, 20), std::string("0123456789") + std::string(10, '\0'));
  ASSERT_TRUE(file->resize(4).ok());
  EXPECT_EQ(get(*file, 0, 20), "0123");
  ASSERT_TRUE(file->resize(6).ok());
  EXPECT_EQ(*file->size(), 6);
  EXPECT_EQ(file->resize(-1).code(), Code::kArgument);
}

TEST_F(PosixStoreTest, GrowNeverCutsWhileOthersGrow) {
  const auto file = create();
  if (file->grow(1).code() == Code::kUnsupported) GTEST_SKIP() << file->traits().file_system << " cannot grow a file";
  std::atomic<bool> stop = false;
  std::thread grower([&] {
    for (Offset size = 1; !stop; size = size % 4096 + 1) ASSERT_TRUE(file->grow(size).ok());
  });
  const auto other = open({.read = true, .write = true});
  Offset seen = 0;
  for (Offset end = 1; end <= 4096 && !testing::Test::HasFailure(); ++end) {
    ASSERT_TRUE(put(*other, end - 1, "x").ok());
    EXPECT_GE(*other->size(), std::max(end, seen));
    seen = *other->size();
  }
  stop = true;
  grower.join();
  EXPECT_EQ(get(*file, 0, 5000), std::string(4096, 'x'));
}

TEST_F(PosixStoreTest, GrowIsRefusedWhereItCouldCut) {
  const auto file = create();
  ASSERT_TRUE(put(*file, 0, "abc").ok());
  kernel.reserve = {EOPNOTSUPP};
  EXPECT_EQ(file->grow(100).code(), Code::kUnsupported);
  EXPECT_EQ(*file->size(), 3);
  kernel.reserve = {EINTR, ENOSPC};
  EXPECT_EQ(file->grow(100).code(), Code::kNoSpace);
}

TEST_F(PosixStoreTest, PreallocateReservesAndKeepsWhatIsThere) {
  const auto file = create();
  ASSERT_TRUE(put(*file, 0, "abc").ok());
  ASSERT_TRUE(file->preallocate(1 << 20).ok());
  EXPECT_EQ(*file->size(), 1 << 20);
  struct stat info;
  ASSERT_EQ(stat(name_.path().c_str(), &info), 0);
  EXPECT_GE(info.st_blocks * 512, 1 << 20);
  ASSERT_TRUE(file->preallocate(10).ok());
  EXPECT_EQ(*file->size(), 1 << 20);
  EXPECT_EQ(get(*file, 0, 4), std::string("abc\0", 4));
}

TEST_F(PosixStoreTest, PreallocateWritesZerosWhereTheFileSystemCannotReserve) {
  const auto file = create();
  ASSERT_TRUE(put(*file, 0, "abc").ok());
  kernel.reserve = {EOPNOTSUPP};
  ASSERT_TRUE(file->preallocate(200'000).ok());
  EXPECT_EQ(get(*file, 0, 300'000), "abc" + std::string(200'000 - 3, '\0'));
  kernel.reserve = {EOPNOTSUPP};
  ASSERT_TRUE(file->preallocate(2).ok());
  EXPECT_EQ(*file->size(), 200'000);
  kernel.reserve = {EDQUOT};
  EXPECT_EQ(file->preallocate(300'000).code(), Code::kQuota);
}

TEST_F(PosixStoreTest, PreallocateMakesProgressUnderATimer) {
  const auto file = create();
  kernel.reserve_most = 3 << 20;
  ASSERT_TRUE(file->preallocate(Offset{700} << 20).ok());
  kernel.reserve_most = 0;
  EXPECT_EQ(*file->size(), Offset{700} << 20);
}

TEST_F(PosixStoreTest, AMappingThatTheKernelRefusesIsUnsupported) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "mmap is the sanitizer's";
#endif
  const auto file = create();
  if (!file->traits().can_map) GTEST_SKIP() << file->traits().file_system << " cannot be mapped";
  for (const int error : {ENODEV, EINVAL, ENOMEM, EAGAIN, EPERM, ENFILE}) {
    kernel.map = error;
    const Status refused = file->map(0, 4096, true).status();
    kernel.map = 0;
    EXPECT_EQ(refused.code(), Code::kUnsupported) << error;
    EXPECT_EQ(refused.system_errno(), error);
  }
}

TEST_F(PosixStoreTest, MappingReachesTheFileAtAnyOffset) {
  const auto file = open({.read = false, .write = true, .create = true});
  if (!file->traits().can_map) GTEST_SKIP() << file->traits().file_system << " cannot be mapped";
  ASSERT_TRUE(file->grow(10'000).ok());
  auto mapping = file->map(5'001, 4'000, true);
  ASSERT_TRUE(mapping.ok()) << mapping.status().text();
  EXPECT_EQ((*mapping)->first(), 5'001);
  EXPECT_EQ((*mapping)->length(), 4'000);
  ASSERT_TRUE((*mapping)->populate(5'001, 4'000).ok());
  std::memcpy((*mapping)->data() + 10, "mapped", 6);
  EXPECT_EQ(get(*file, 5'011, 6), "mapped");
  ASSERT_TRUE(put(*file, 5'011, "w").ok());
  EXPECT_EQ(static_cast<char>((*mapping)->data()[10]), 'w');
  EXPECT_EQ((*mapping)->populate(5'000, 10).code(), Code::kIntern);
  EXPECT_EQ((*mapping)->populate(9'000, 10).code(), Code::kIntern);
  EXPECT_EQ(file->map(-1, 10, false).status().code(), Code::kArgument);
}

TEST_F(PosixStoreTest, PopulateReportsWhatWouldHaveBeenASignal) {
  const auto file = create();
  if (!file->traits().can_map) GTEST_SKIP() << file->traits().file_system << " cannot be mapped";
  ASSERT_TRUE(file->grow(100'000).ok());
  auto mapping = file->map(0, 100'000, true);
  ASSERT_TRUE(mapping.ok());
  ASSERT_TRUE(file->resize(1'000).ok());
  const Status cut = (*mapping)->populate(0, 100'000);
  EXPECT_EQ(cut.code(), Code::kIo);
  EXPECT_NE(cut.text().find("shorter"), std::string_view::npos) << cut.text();
  ASSERT_TRUE(file->grow(100'000).ok());
  kernel = {.populate = {EFAULT}, .reserve = {ENOSPC}};
  EXPECT_EQ((*mapping)->populate(0, 100'000).code(), Code::kNoSpace);
  kernel = {.populate = {EFAULT}, .reserve = {EDQUOT}};
  EXPECT_EQ((*mapping)->populate(0, 100'000).code(), Code::kQuota);
  kernel = {.populate = {EFAULT, EFAULT}};
  EXPECT_EQ((*mapping)->populate(0, 100'000).code(), Code::kIo);
  kernel = {.populate = {EINTR, EFAULT}};
  EXPECT_TRUE((*mapping)->populate(0, 100'000).ok());
}

TEST_F(PosixStoreTest, OldKernelsReserveInsteadOfFaultingIn) {
  const auto file = create();
  if (!file->traits().can_map) GTEST_SKIP() << file->traits().file_system << " cannot be mapped";
  ASSERT_TRUE(file->grow(8'192).ok());
  auto mapping = file->map(0, 8'192, true);
  ASSERT_TRUE(mapping.ok());
  kernel = {.populate = {EINVAL}};
  EXPECT_TRUE((*mapping)->populate(0, 8'192).ok());
  kernel = {.populate = {EINVAL}, .reserve = {ENOSPC}};
  EXPECT_EQ((*mapping)->populate(0, 8'192).code(), Code::kNoSpace);
  kernel = {.populate = {EINVAL}, .reserve = {EOPNOTSUPP}};
  EXPECT_TRUE((*mapping)->populate(0, 8'192).ok());
  ASSERT_TRUE(file->resize(10).ok());
  kernel = {.populate = {EINVAL}};
  EXPECT_EQ((*mapping)->populate(0, 8'192).code(), Code::kIo);
}

TEST_F(PosixStoreTest, LocksExcludeOtherOpens) {
  const auto mine = create();
  const auto other = open({.read = true, .write = true});
  ASSERT_TRUE(mine->lock_range(100, 50, true).ok());
  EXPECT_FALSE(*mine->range_is_locked(100, 50)) << "one's own lock is nobody else's";
  EXPECT_TRUE(*other->range_is_locked(149, 1));
  EXPECT_FALSE(*other->range_is_locked(150, 1));
  std::atomic<bool> got = false;
  std::thread waiter([&] {
    ASSERT_TRUE(other->lock_range(120, 10, false).ok());
    got = true;
    ASSERT_TRUE(other->unlock_range(120, 10).ok());
  });
  ASSERT_TRUE(other->lock_range(200, 10, true).ok());  // disjoint: no waiting
  EXPECT_FALSE(got);
  ASSERT_TRUE(mine->unlock_range(100, 50).ok());
  waiter.join();
  EXPECT_TRUE(got);
  EXPECT_EQ(mine->unlock_range(100, 50).code(), Code::kIntern);
  EXPECT_EQ(mine->lock_range(INT64_MAX, 2, true).code(), Code::kArgument);
}

TEST_F(PosixStoreTest, LocksExcludeThreadsOfOneFile) {
  const auto file = create();
  std::int64_t counter = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      for (int round = 0; round < 200; ++round) {
        ASSERT_TRUE(file->lock_range(i, 10, true).ok());
        ++counter;
        ASSERT_TRUE(file->unlock_range(i, 10).ok());
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counter, 800);
}

TEST_F(PosixStoreTest, ALockThatFailsIsNotHeld) {
  const auto file = create();
  kernel.lock = {EINTR, ENOLCK};
  EXPECT_FALSE(file->lock_range(0, 10, true).ok());
  EXPECT_EQ(file->unlock_range(0, 10).code(), Code::kIntern);
  EXPECT_TRUE(file->lock_range(0, 10, true).ok());
}

TEST_F(PosixStoreTest, LocksEndWithTheFileAlsoWhereAChildHasIt) {
  const auto file = create();
  const auto other = open({.read = true, .write = true});
  ASSERT_TRUE(file->lock_range(0, 10, true).ok());
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    char byte = 0;
    ::close(ends[1]);
    while (::read(ends[0], &byte, 1) > 0) {  // as long as the test goes on
    }
    _exit(0);
  }
  EXPECT_TRUE(*other->range_is_locked(0, 10));
  EXPECT_TRUE(file->close().ok());
  EXPECT_FALSE(*other->range_is_locked(0, 10));
  ::close(ends[0]);
  ::close(ends[1]);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
}

TEST_F(PosixStoreTest, AFileThatCannotBeReadIsNeitherMappedNorLockedForReaders) {
  kernel.write_only = true;
  const auto file = open({.read = false, .write = true, .create = true});
  EXPECT_FALSE(file->traits().can_read_back);
  EXPECT_FALSE(file->traits().can_map);
  EXPECT_EQ(file->map(0, 10, true).status().code(), Code::kUnsupported);
  EXPECT_TRUE(put(*file, 0, "abc").ok());
  EXPECT_TRUE(file->lock_range(0, 10, false).ok()) << "an exclusive one instead";
  EXPECT_TRUE(file->unlock_range(0, 10).ok());
}

TEST_F(PosixStoreTest, SyncForgetsWhatOtherNodesMayHaveChanged) {
  for (const bool nfs : {false, true}) {
    kernel.nfs = nfs;
    const auto file = create();
    kernel.forgotten = 0;
    ASSERT_TRUE(file->sync().ok());
    EXPECT_EQ(kernel.forgotten, file->traits().node_local || file->traits().coherent_between_nodes ? 0 : 1);
    EXPECT_TRUE(!nfs || !file->traits().node_local);
  }
}

TEST_F(PosixStoreTest, NothingIsReadBehindTheEnd) {
  const auto file = create();
  ASSERT_TRUE(put(*file, 0, "0123456789").ok());
  std::string memory(20, '#');
  auto* const bytes = reinterpret_cast<std::byte*>(memory.data());
  Transfer batch[] = {{5, bytes, 6}, {100, bytes + 6, 5}, {200, bytes + 11, 5}};
  kernel.transfers = 0;
  ASSERT_TRUE(file->read(batch).ok());
  EXPECT_EQ(kernel.transfers, 2);  // up to the end, and that it is the end: what somebody writes behind it meanwhile would leave a gap
  EXPECT_EQ(batch[0].done, 5U);
  EXPECT_EQ(batch[1].done + batch[2].done, 0U);
}

TEST_F(PosixStoreTest, UnlockingLeavesOtherHoldersTheirShare) {
  const auto mine = create();
  const auto other = open({.read = true, .write = true});
  ASSERT_TRUE(mine->lock_range(0, 100, false).ok());
  ASSERT_TRUE(mine->lock_range(50, 100, false).ok());
  ASSERT_TRUE(mine->unlock_range(0, 100).ok());
  EXPECT_FALSE(*other->range_is_locked(0, 50));
  EXPECT_TRUE(*other->range_is_locked(50, 100));
  ASSERT_TRUE(mine->close().ok());
  EXPECT_FALSE(*other->range_is_locked(0, 1000));
}

TEST_F(PosixStoreTest, CloseIsIdempotentAndThenNothingWorks) {
  const auto file = create();
  ASSERT_TRUE(file->sync().ok());
  EXPECT_TRUE(file->close().ok());
  EXPECT_TRUE(file->close().ok());
  EXPECT_FALSE(put(*file, 0, "x").ok());
}

TEST(FileSystems, TellWhatIsPromised) {
  EXPECT_EQ(file_system_of_magic(0x01021994).name, "tmpfs");
  EXPECT_TRUE(file_system_of_magic(0x01021994).node_local);
  EXPECT_FALSE(file_system_of_magic(0x0bd00bd0).node_local);
  EXPECT_TRUE(file_system_of_magic(0x0bd00bd0).coherent_between_nodes);
  EXPECT_FALSE(file_system_of_magic(0x6969).coherent_between_nodes);
  EXPECT_FALSE(file_system_of_magic(0x12345).node_local);
}

TEST(FileSystems, SpecialFilesPromiseNothing) {
  PosixStore store;
  const auto file = store.open("/dev/null", {.read = true, .write = true});
  ASSERT_TRUE(file.ok());
  EXPECT_FALSE((*file)->traits().can_map);
  EXPECT_FALSE((*file)->traits().node_local);
  EXPECT_TRUE((*file)->sync().ok());
}

}  // namespace
}  // namespace penstock::store
