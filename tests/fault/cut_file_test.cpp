// A file that somebody cuts between the moment when its pages are faulted in and the moment when they are touched: the mapped strategy fails, and the program
// goes on.  Every other SIGBUS ends in what the program had made of it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <future>
#include <string>

#include "file/worker.h"
#include "store/posix/bus_errors.h"
#include "store/posix/posix_store.h"
#include "strategy/strategy.h"
#include "support/temporary_file.h"

namespace penstock::strategy {
namespace {

constexpr Offset kBytes = 100'000;
constexpr int kHandled = 42;

class CutMapping final : public store::Mapping {
 public:
  CutMapping(std::unique_ptr<store::Mapping> inner, const std::string& path) : inner_(std::move(inner)), path_(path) {
    data_ = inner_->data();
    first_ = inner_->first();
    length_ = inner_->length();
  }
  Status populate(Offset offset, Offset length) override {
    PENSTOCK_TRY(inner_->populate(offset, length));
    return truncate(path_.c_str(), 0) == 0 ? Status() : Status::from_errno(errno, "cutting the file");
  }
  [[nodiscard]] Status intact() const override { return inner_->intact(); }

 private:
  std::unique_ptr<store::Mapping> inner_;
  const std::string& path_;
};

class CutFile final : public store::ForwardingFile {
 public:
  CutFile(std::unique_ptr<store::File> inner, std::string path) : ForwardingFile(std::move(inner)), path_(std::move(path)) {}
  Result<std::unique_ptr<store::Mapping>> map(Offset first, Offset length, bool writable) override {
    Result<std::unique_ptr<store::Mapping>> mapping = inner_->map(first, length, writable);
    if (!mapping.ok()) return mapping;
    return std::unique_ptr<store::Mapping>(new CutMapping(std::move(*mapping), path_));
  }

 private:
  const std::string path_;
};

/// Of an access of every second group of eight bytes.
Status access_cut_file(Result<Offset> (*run)(const Access&), const std::string& path) {
  store::PosixStore store;
  Result<std::unique_ptr<store::File>> made = store.open(path, {.read = true, .write = true, .create = true});
  if (!made.ok()) return made.status();
  PENSTOCK_TRY((*made)->resize(2 * kBytes));
  CutFile file(std::move(*made), path);
  const access::Tiling view = access::tile(*access::resized(0, 16, *access::contiguous(8, *access::elementary(1))), 8);
  const access::Tiling memory = access::bytes_at(0);
  std::string buffer(kBytes, 'x');
  trace::OpTrace trace(nullptr);
  const Access access{.store = file,
                      .file = view,
                      .memory = memory,
                      .bytes = kBytes,
                      .buffer = reinterpret_cast<std::byte*>(buffer.data()),
                      .trace = trace};
  return run(access).status();
}

/// A SIGBUS that is none of ours.
void touch_what_is_not_there() {
  const test::TemporaryFile name;
  const int file = open(name.path().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  auto* const page = static_cast<volatile char*>(mmap(nullptr, 4096, PROT_READ, MAP_SHARED, file, 0));
  unlink(name.path().c_str());
  _exit(page[0]);
}

/// How a child ends that does `body`: its exit code, or minus the signal.
template <typename Body>
int end_of(Body body) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit none{0, 0};
    setrlimit(RLIMIT_CORE, &none);
    _exit(body());
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child) return -1000;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

class CutFileTest : public testing::TestWithParam<Result<Offset> (*)(const Access&)> {};

TEST_P(CutFileTest, IsAnErrorAndNoSignal) {
  const test::TemporaryFile name;
  EXPECT_EQ(end_of([&] { return access_cut_file(GetParam(), name.path()).code() == Code::kIo ? 0 : 1; }), 0);
}

TEST_P(CutFileTest, AlsoOnAThreadOfOurs) {
  const test::TemporaryFile name;
  EXPECT_EQ(end_of([&] {
              file::Worker worker;
              std::promise<Code> code;
              if (!worker.post([&] { code.set_value(access_cut_file(GetParam(), name.path()).code()); })) return 2;
              return code.get_future().get() == Code::kIo ? 0 : 1;
            }),
            0);
}

INSTANTIATE_TEST_SUITE_P(Strategies, CutFileTest, testing::Values(read_mapped, write_mapped));

TEST(BusErrors, OthersEndTheProgramAsBefore) {
  const test::TemporaryFile name;
  for (const auto what : {touch_what_is_not_there, +[] { (void)raise(SIGBUS); }})
    EXPECT_EQ(end_of([&] {
                (void)signal(SIGBUS, SIG_DFL);  // a sanitizer has one of its own
                (void)access_cut_file(write_mapped, name.path());
                what();
                return 1;
              }),
              -SIGBUS);
}

TEST(BusErrors, OthersAreThePrograms) {
  const test::TemporaryFile name;
  const auto plain = [](struct sigaction& action) { action.sa_handler = [](int) { _exit(kHandled); }; };
  const auto with_facts = [](struct sigaction& action) {
    action.sa_sigaction = [](int, siginfo_t* info, void*) { _exit(info->si_signo == SIGBUS ? kHandled : 1); };
    action.sa_flags = SA_SIGINFO;
  };
  for (const auto& take : {std::function<void(struct sigaction&)>(plain), std::function<void(struct sigaction&)>(with_facts)})
    EXPECT_EQ(end_of([&] {
                struct sigaction action {};
                take(action);
                sigaction(SIGBUS, &action, nullptr);
                if (access_cut_file(write_mapped, name.path()).code() != Code::kIo) return 2;
                touch_what_is_not_there();
                return 3;
              }),
              kHandled);
  EXPECT_EQ(end_of([&] {
              (void)signal(SIGBUS, SIG_IGN);
              (void)access_cut_file(write_mapped, name.path());
              (void)raise(SIGBUS);
              return 0;
            }),
            0);
}

TEST(BusErrors, ThereAreGuardsForSoManyMappings) {
  constexpr std::size_t kPage = 4096;
  std::vector<std::unique_ptr<store::BusErrorGuard>> guards;
  std::vector<std::byte> memory(2 * kPage);
  for (int i = 0; i < store::BusErrorGuard::kMost; ++i) {
    guards.push_back(std::make_unique<store::BusErrorGuard>(memory.data(), kPage));
    ASSERT_TRUE(guards.back()->works()) << i;
  }
  EXPECT_FALSE(store::BusErrorGuard(memory.data(), kPage).works());
  guards.pop_back();
  EXPECT_TRUE(store::BusErrorGuard(memory.data(), kPage).works());
}

}  // namespace
}  // namespace penstock::strategy
