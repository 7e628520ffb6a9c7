// Late opens: the very same file, although its name is gone or means another one by the time it is opened.
#include "store/pinned/pinned_store.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "comm/local/local_comm.h"
#include "file/file.h"
#include "store/fault/fault_store.h"
#include "store/posix/posix_store.h"
#include "store/trace/trace_store.h"
#include "support/temporary_file.h"

namespace penstock {
namespace {

using test::TemporaryFile;

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void put(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

store::OpenOptions to_write() {
  store::OpenOptions options;
  options.write = true;
  return options;
}

int open_descriptors() {
  int count = 0;
  for (int descriptor = 0; descriptor < 1024; ++descriptor) count += fcntl(descriptor, F_GETFD) >= 0 ? 1 : 0;
  return count;
}

class LateOpen : public testing::Test {
 protected:
  /// What the first opener has; it writes "first".
  std::unique_ptr<store::File> open_first() {
    store::OpenOptions options = to_write();
    options.create = true;
    options.for_others = true;
    auto file = store_.open(name_.path(), options);
    EXPECT_TRUE(file.ok()) << file.status().text();
    std::string text = "first";
    store::Transfer transfer{0, reinterpret_cast<std::byte*>(text.data()), text.size()};
    EXPECT_TRUE((*file)->write({&transfer, 1}).ok());
    return std::move(*file);
  }
  Result<std::unique_ptr<store::File>> open_late(const store::Identity& identity) {
    store::OpenOptions options = to_write();
    options.same_as = identity;
    return store_.open(name_.path(), options);
  }
  static std::string read_five(store::File& file) {
    std::string text(5, '-');
    store::Transfer transfer{0, reinterpret_cast<std::byte*>(text.data()), text.size()};
    EXPECT_TRUE(file.read({&transfer, 1}).ok());
    return text;
  }

  TemporaryFile name_;
  TemporaryFile other_;
  store::PosixStore posix_;
  store::PinnedStore store_{posix_};
};

TEST_F(LateOpen, ByNameWhenAllIsNormal) {
  auto counts = std::make_shared<store::StoreCounts>();
  store::TraceStore counted(posix_, counts);
  store::PinnedStore store(counted);
  store::OpenOptions options = to_write();
  options.create = options.for_others = true;
  auto first = store.open(name_.path(), options);
  ASSERT_TRUE(first.ok());
  options = to_write();
  options.same_as = (*first)->identity();
  ASSERT_TRUE(options.same_as.known);
  EXPECT_TRUE(store.open(name_.path(), options).ok());
  EXPECT_EQ(counts->open.calls.load(), 2);
}

TEST_F(LateOpen, NameRemoved) {
  auto first = open_first();
  unlink(name_.path().c_str());
  auto late = open_late(first->identity());
  ASSERT_TRUE(late.ok()) << late.status().text();
  EXPECT_EQ(read_five(**late), "first");
}

TEST_F(LateOpen, NameRenamed) {
  auto first = open_first();
  ASSERT_EQ(rename(name_.path().c_str(), other_.path().c_str()), 0);
  auto late = open_late(first->identity());
  ASSERT_TRUE(late.ok()) << late.status().text();
  EXPECT_EQ(read_five(**late), "first");
}

TEST_F(LateOpen, NameGivenToAnotherFile) {
  auto first = open_first();
  put(other_.path(), "other");
  ASSERT_EQ(rename(other_.path().c_str(), name_.path().c_str()), 0);
  auto late = open_late(first->identity());
  ASSERT_TRUE(late.ok()) << late.status().text();
  EXPECT_EQ(read_five(**late), "first");
  EXPECT_EQ(text_of(name_.path()), "other");
}

TEST_F(LateOpen, AnotherLinkIsTheSameFile) {
  auto first = open_first();
  ASSERT_EQ(rename(name_.path().c_str(), other_.path().c_str()), 0);
  ASSERT_EQ(symlink(other_.path().c_str(), name_.path().c_str()), 0);
  EXPECT_TRUE(open_late(first->identity()).ok());
}

TEST_F(LateOpen, ReachableUntilTheFirstIsDestroyedNotJustClosed) {
  auto first = open_first();
  const store::Identity identity = first->identity();
  unlink(name_.path().c_str());
  ASSERT_TRUE(first->close().ok());
  EXPECT_TRUE(open_late(identity).ok());
  first.reset();
  const auto late = open_late(identity);
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.status().code(), Code::kNoSuchFile);
  EXPECT_NE(late.status().text().find("removed"), std::string::npos) << late.status().text();
}

TEST_F(LateOpen, NeverAnotherFileFromAnotherNode) {
  auto first = open_first();
  const store::Identity identity = first->identity().from_another_node();
  EXPECT_TRUE(open_late(identity).ok());
  put(other_.path(), "other");
  ASSERT_EQ(rename(other_.path().c_str(), name_.path().c_str()), 0);
  const auto late = open_late(identity);
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.status().code(), Code::kNoSuchFile);
  EXPECT_NE(late.status().text().find("another node"), std::string::npos) << late.status().text();
}

TEST_F(LateOpen, TheSameNumberOnAnotherDeviceIsAnotherFile) {
  auto first = open_first();
  store::Identity identity = first->identity();
  identity.device += 1;
  EXPECT_EQ(open_late(identity).status().code(), Code::kNoSuchFile);
}

TEST_F(LateOpen, WhyTheFileCannotBeOpenedIsTold) {
  auto first = open_first();
  store::FaultStore broken(posix_, std::make_shared<store::FaultPlan>(std::vector<store::FaultRule>{{.call = store::Call::kOpen, .error = EIO}}));
  store::PinnedStore store(broken);
  store::OpenOptions options = to_write();
  options.same_as = first->identity().from_another_node();
  EXPECT_EQ(store.open(name_.path(), options).status().code(), Code::kIo);
}

TEST_F(LateOpen, ProgramsThatAreStartedInheritNothing) {
  std::vector<bool> there;
  for (int descriptor = 0; descriptor < 1024; ++descriptor) there.push_back(fcntl(descriptor, F_GETFD) >= 0);
  auto first = open_first();
  int ours = 0;
  for (int descriptor = 0; descriptor < 1024; ++descriptor) {
    const int flags = fcntl(descriptor, F_GETFD);
    if (flags < 0 || there[static_cast<std::size_t>(descriptor)]) continue;
    ++ours;
    EXPECT_EQ(flags, FD_CLOEXEC) << descriptor;
  }
  EXPECT_EQ(ours, 2);
}

TEST_F(LateOpen, LeavesNoDescriptorBehind) {
  const int before = open_descriptors();
  auto first = open_first();
  unlink(name_.path().c_str());
  auto late = open_late(first->identity());
  late->reset();
  first.reset();
  EXPECT_EQ(open_descriptors(), before);
}

// The same through the open file, where rank 0 opens and the others come when they have something to do.
TEST_F(LateOpen, EveryRankReachesAFileThatWasRemovedAfterOpen) {
  const int before = open_descriptors();
  comm::run_ranks(3, [&](comm::Comm& group) {
    file::Mode mode;
    mode.read = mode.write = mode.create = true;
    auto opened = file::File::open(std::move(*group.duplicate()), store_, name_.path(), mode, hints::defaults(), nullptr, {});
    ASSERT_TRUE(opened.ok()) << opened.status().text();
    const int rank = group.topology().rank;
    if (rank == 0) unlink(name_.path().c_str());
    ASSERT_TRUE(group.barrier().ok());
    trace::OpTrace trace(nullptr);
    file::Request request;
    request.write = request.collective = true;
    request.offset_etypes = rank;
    char mine = static_cast<char>('a' + rank);
    request.buffer = reinterpret_cast<std::byte*>(&mine);
    request.bytes = 1;
    EXPECT_TRUE((*opened)->access(request, trace).status.ok());
    std::string all(3, '-');
    request.write = false;
    request.offset_etypes = 0;
    request.buffer = reinterpret_cast<std::byte*>(all.data());
    request.bytes = 3;
    const file::Outcome outcome = (*opened)->access(request, trace);
    EXPECT_TRUE(outcome.status.ok()) << outcome.status.text();
    EXPECT_EQ(all, "abc");
    EXPECT_TRUE((*opened)->close(trace).ok());
  });
  EXPECT_EQ(::access(name_.path().c_str(), F_OK), -1);
  EXPECT_EQ(open_descriptors(), before);
}

// Rank 0 is in close() already when rank 1 opens.
TEST_F(LateOpen, RankZeroWaitingInCloseStillKeepsTheFile) {
  comm::run_ranks(2, [&](comm::Comm& group) {
    file::Mode mode;
    mode.read = mode.write = mode.create = true;
    auto opened = file::File::open(std::move(*group.duplicate()), store_, name_.path(), mode, hints::defaults(), nullptr, {});
    ASSERT_TRUE(opened.ok()) << opened.status().text();
    static std::atomic<int> with_file = 0;
    if (group.topology().rank == 0) {
      unlink(name_.path().c_str());
      with_file = open_descriptors();
    }
    ASSERT_TRUE(group.barrier().ok());
    trace::OpTrace trace(nullptr);
    if (group.topology().rank == 1) {
      // The other thread is this process too: its closing is seen in the number of descriptors.
      while (open_descriptors() >= with_file) std::this_thread::yield();
      EXPECT_TRUE((*opened)->size().ok());
    }
    EXPECT_TRUE((*opened)->close(trace).ok());
  });
}

}  // namespace
}  // namespace penstock
