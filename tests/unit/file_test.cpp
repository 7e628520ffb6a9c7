// The open file on threads as ranks and files in memory: what chapter 14 asks of pointers, views, modes and background work.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <numeric>
#include <vector>

#include "comm/local/local_comm.h"
#include "file/file.h"
#include "store/memory/memory_store.h"

namespace penstock {
namespace {

file::Mode read_write() {
  file::Mode mode;
  mode.read = mode.write = mode.create = true;
  return mode;
}

std::unique_ptr<file::File> open_on(comm::Comm& group, store::Store& store, const file::Mode& mode) {
  auto opened = file::File::open(std::move(*group.duplicate()), store, "file", mode, hints::defaults(), nullptr, {});
  EXPECT_TRUE(opened.ok()) << opened.status().text();
  return opened.ok() ? std::move(*opened) : nullptr;
}

file::Request request_of(bool write, void* buffer, Offset bytes, file::Pointer pointer, Offset offset = 0, bool collective = false) {
  file::Request request;
  request.write = write;
  request.collective = collective;
  request.pointer = pointer;
  request.offset_etypes = offset;
  request.buffer = static_cast<std::byte*>(buffer);
  request.bytes = bytes;
  return request;
}

/// Counts how often the size of its files is asked for.
class AskedStore final : public store::Store {
 public:
  explicit AskedStore(store::Store& inner) : inner_(inner) {}
  Result<std::unique_ptr<store::File>> open(const std::string& path, const store::OpenOptions& options) override {
    Result<std::unique_ptr<store::File>> file = inner_.open(path, options);
    if (!file.ok()) return file;
    return std::unique_ptr<store::File>(new AskedFile(std::move(*file), asked));
  }
  Status remove(const std::string& path) override { return inner_.remove(path); }
  std::atomic<int> asked{0};

 private:
  class AskedFile final : public store::ForwardingFile {
   public:
    AskedFile(std::unique_ptr<store::File> inner, std::atomic<int>& asked) : ForwardingFile(std::move(inner)), asked_(asked) {}
    Result<Offset> size() override {
      ++asked_;
      return inner_->size();
    }

   private:
    std::atomic<int>& asked_;
  };
  store::Store& inner_;
};

TEST(Choice, TheSizeIsAskedForOnlyWhereThereIsSomethingToChoose) {
  for (const hints::Strategy strategy : {hints::Strategy::kIndependent, hints::Strategy::kAutomatic}) {
    store::MemoryStore memory({.can_map = true});
    AskedStore store(memory);
    hints::Hints hints = hints::defaults();
    hints.strategy = strategy;
    comm::run_ranks(1, [&](comm::Comm& group) {
      auto opened = file::File::open(std::move(*group.duplicate()), store, "file", read_write(), hints, nullptr, {});
      ASSERT_TRUE(opened.ok()) << opened.status().text();
      trace::OpTrace trace(nullptr);
      file::View view;
      view.filetype = access::tile(*access::resized(0, 16, *access::elementary(8)), 0);
      view.filetype_size = 8;
      view.contiguous = false;
      view.ascending = view.in_order = view.writable = true;
      ASSERT_TRUE((*opened)->set_view(view, 0, trace, {}).ok());
      std::vector<std::byte> data(800);
      const int before = store.asked;
      EXPECT_TRUE((*opened)->access(request_of(true, data.data(), 800, file::Pointer::kExplicit), trace).status.ok());
      EXPECT_EQ(store.asked - before, strategy == hints::Strategy::kAutomatic ? 1 : 0);
      EXPECT_TRUE((*opened)->close(trace).ok());
    });
  }
}

/// Counts how often ranges of its files are locked.
class LockedStore final : public store::Store {
 public:
  explicit LockedStore(store::Store& inner) : inner_(inner) {}
  Result<std::unique_ptr<store::File>> open(const std::string& path, const store::OpenOptions& options) override {
    Result<std::unique_ptr<store::File>> file = inner_.open(path, options);
    if (!file.ok()) return file;
    return std::unique_ptr<store::File>(new LockedFile(std::move(*file), locked));
  }
  Status remove(const std::string& path) override { return inner_.remove(path); }
  std::atomic<int> locked{0};

 private:
  class LockedFile final : public store::ForwardingFile {
   public:
    LockedFile(std::unique_ptr<store::File> inner, std::atomic<int>& locked) : ForwardingFile(std::move(inner)), locked_(locked) {}
    Status lock_range(Offset offset, Offset length, bool exclusive) override {
      ++locked_;
      return inner_->lock_range(offset, length, exclusive);
    }

   private:
    std::atomic<int>& locked_;
  };
  store::Store& inner_;
};

TEST(Choice, OnlyWhoMaySieveLocksWhatIsWritten) {
  for (const hints::Strategy strategy : {hints::Strategy::kIndependent, hints::Strategy::kMapped, hints::Strategy::kAutomatic, hints::Strategy::kTwoPhase})
    for (const bool may_sieve : {false, true}) {
      store::MemoryStore memory;
      LockedStore store(memory);
      hints::Hints hints = hints::defaults();
      hints.strategy = strategy;
      hints.sieve_writes = may_sieve ? hints::Switch::kEnable : hints::Switch::kAutomatic;
      comm::run_ranks(1, [&](comm::Comm& group) {
        auto opened = file::File::open(std::move(*group.duplicate()), store, "file", read_write(), hints, nullptr, {});
        ASSERT_TRUE(opened.ok()) << opened.status().text();
        trace::OpTrace trace(nullptr);
        for (char byte = 0; byte < 10; ++byte) EXPECT_TRUE((*opened)->access(request_of(true, &byte, 1, file::Pointer::kIndividual), trace).status.ok());
        const bool sieves = may_sieve && (strategy == hints::Strategy::kAutomatic || strategy == hints::Strategy::kTwoPhase);
        EXPECT_EQ(store.locked.load(), sieves ? 11 : 1) << "one lock says who is there";
        EXPECT_TRUE((*opened)->close(trace).ok());
      });
    }
}

TEST(Mode, ForbiddenCombinations) {
  file::Mode mode;
  EXPECT_EQ(file::check_mode(mode).code(), Code::kMode);
  mode.read = true;
  EXPECT_TRUE(file::check_mode(mode).ok());
  mode.create = true;
  EXPECT_EQ(file::check_mode(mode).code(), Code::kMode);
  mode.write = true;
  EXPECT_TRUE(file::check_mode(mode).ok());
  mode.sequential = true;
  EXPECT_EQ(file::check_mode(mode).code(), Code::kMode);
}

TEST(Open, ModesMustAgreeAndNothingIsCreatedWhenTheyDoNot) {
  store::MemoryStore store;
  comm::run_ranks(3, [&](comm::Comm& group) {
    file::Mode mode = read_write();
    mode.append = group.topology().rank == 2;
    auto opened = file::File::open(std::move(*group.duplicate()), store, "file", mode, hints::defaults(), nullptr, {});
    EXPECT_EQ(opened.status().code(), Code::kNotSame);
  });
  EXPECT_EQ(store.remove("file").code(), Code::kNoSuchFile);
}

TEST(Open, OneRankFindsOutForAll) {
  store::MemoryStore store;
  comm::run_ranks(3, [&](comm::Comm& group) {
    file::Mode mode;
    mode.read = true;
    auto opened = file::File::open(std::move(*group.duplicate()), store, "absent", mode, hints::defaults(), nullptr, {});
    EXPECT_EQ(opened.status().code(), Code::kNoSuchFile);
  });
}

TEST(Pointers, IndividualAdvancesByWhatWasThere) {
  store::MemoryStore store;
  comm::run_ranks(1, [&](comm::Comm& group) {
    auto file = open_on(group, store, read_write());
    trace::OpTrace trace(nullptr);
    std::vector<char> data(10, 'x');
    EXPECT_EQ(file->access(request_of(true, data.data(), 10, file::Pointer::kIndividual), trace).bytes, 10);
    EXPECT_EQ(file->position_etypes(), 10);
    ASSERT_TRUE(file->seek(-3, file::Whence::kEnd).ok());
    EXPECT_EQ(file->position_etypes(), 7);
    EXPECT_EQ(file->access(request_of(false, data.data(), 10, file::Pointer::kIndividual), trace).bytes, 3);
    EXPECT_EQ(file->position_etypes(), 10);
    EXPECT_EQ(file->access(request_of(false, data.data(), 10, file::Pointer::kIndividual), trace).bytes, 0);
    EXPECT_EQ(file->seek(-1, file::Whence::kSet).code(), Code::kArgument);
    EXPECT_TRUE(file->close(trace).ok());
  });
}

TEST(Pointers, NothingEndsBeyondTheLargestOffset) {
  store::MemoryStore store;
  comm::run_ranks(1, [&](comm::Comm& group) {
    auto file = open_on(group, store, read_write());
    trace::OpTrace trace(nullptr);
    file::View view;
    view.contiguous_start = Offset{1} << 62;
    view.filetype = access::bytes_at(view.contiguous_start);
    ASSERT_TRUE(file->set_view(view, 0, trace, {}).ok());
    char byte = 'x';
    for (const bool write : {true, false}) {
      EXPECT_EQ(file->access(request_of(write, &byte, 1, file::Pointer::kExplicit, Offset{1} << 62), trace).status.code(), Code::kArgument);
      ASSERT_TRUE(file->seek(Offset{1} << 62, file::Whence::kSet).ok());
      EXPECT_EQ(file->access(request_of(write, &byte, 1, file::Pointer::kIndividual), trace).status.code(), Code::kArgument);
      EXPECT_EQ(file->position_etypes(), Offset{1} << 62) << "an access that was refused has not moved the pointer";
      ASSERT_TRUE(file->seek_shared(Offset{1} << 62, file::Whence::kSet, trace, {}).ok());
      EXPECT_EQ(file->access(request_of(write, &byte, 1, file::Pointer::kOrdered, 0, true), trace).status.code(), Code::kArgument);
    }
    EXPECT_TRUE(file->close(trace).ok());
  });
}

TEST(Pointers, PlacesThatAViewDoesNotHave) {
  store::MemoryStore store;
  comm::run_ranks(1, [&](comm::Comm& group) {
    auto file = open_on(group, store, read_write());
    trace::OpTrace trace(nullptr);
    file::View view;
    view.contiguous_start = 10;
    view.filetype = access::bytes_at(view.contiguous_start);
    ASSERT_TRUE(file->set_view(view, 0, trace, {}).ok());
    EXPECT_EQ(*file->byte_offset(INT64_MAX - 10), INT64_MAX);
    EXPECT_EQ(file->byte_offset(INT64_MAX - 9).status().code(), Code::kArgument);
    EXPECT_EQ(file->byte_offset(-1).status().code(), Code::kArgument);
    view.contiguous = false;
    view.filetype = access::tile(*access::resized(0, 1000, *access::elementary(1)), 10);
    ASSERT_TRUE(file->set_view(view, 0, trace, {}).ok());
    EXPECT_EQ(*file->byte_offset(7), 7010);
    EXPECT_EQ(file->byte_offset(INT64_MAX / 1000 + 1).status().code(), Code::kArgument);
    view.filetype = access::tile(*access::resized(0, 1000, *access::contiguous(0, *access::elementary(1))), 10);
    view.filetype_size = 0;
    ASSERT_TRUE(file->set_view(view, 0, trace, {}).ok());
    EXPECT_EQ(*file->byte_offset(0), 10) << "where its data would begin";
    EXPECT_EQ(*file->shared_byte_offset(), 10);
    EXPECT_EQ(file->byte_offset(1).status().code(), Code::kArgument);
    EXPECT_TRUE(file->close(trace).ok());
  });
}

TEST(Pointers, ASharedAccessThatIsRefusedLeavesThePointer) {
  store::MemoryStore store;
  comm::run_ranks(2, [&](comm::Comm& group) {
    auto file = open_on(group, store, read_write());
    trace::OpTrace trace(nullptr);
    ASSERT_TRUE(file->seek_shared(INT64_MAX - 1, file::Whence::kSet, trace, {}).ok());
    char bytes[4] = {};
    for (const bool collective : {false, true})
      for (int i = 0; i < 3; ++i) {
        const auto pointer = collective ? file::Pointer::kOrdered : file::Pointer::kShared;
        EXPECT_EQ(file->access(request_of(true, bytes, 4, pointer, 0, collective), trace).status.code(), Code::kArgument);
        EXPECT_TRUE(group.barrier().ok());
        EXPECT_EQ(*file->shared_position_etypes(), INT64_MAX - 1);
        EXPECT_TRUE(group.barrier().ok());
      }
    EXPECT_EQ(*file->size(), 0);
    EXPECT_TRUE(file->close(trace).ok());
  });
}

TEST(Pointers, SharedHandsOutEachPlaceOnce) {
  store::MemoryStore store;
  constexpr int kRanks = 4;
  constexpr int kRecords = 50;
  comm::run_ranks(kRanks, [&](comm::Comm& group) {
    auto file = open_on(group, store, read_write());
    trace::OpTrace trace(nullptr);
    for (int i = 0; i < kRecords; ++i) {
      std::int32_t record = group.topology().rank * kRecords + i;
      EXPECT_EQ(file->access(request_of(true, &record, 4, file::Pointer::kShared), trace).bytes, 4);
    }
    ASSERT_TRUE(file->seek_shared(0, file::Whence::kSet, trace, {}).ok());
    if (group.topology().rank == 0) {
      std::vector<std::int32_t> all(kRanks * kRecords);
      EXPECT_EQ(file->access(request_of(false, all.data(), 4 * kRanks * kRecords, file::Pointer::kExplicit), trace).bytes, 4 * kRanks * kRecords);
      std::sort(all.begin(), all.end());
      std::vector<std::int32_t> wanted(kRanks * kRecords);
      std::iota(wanted.begin(), wanted.end(), 0);
      EXPECT_EQ(all, wanted);
    }
    EXPECT_TRUE(file->close(trace).ok());
  });
}

TEST(Pointers, OrderedGoesByRank) {
  store::MemoryStore store;
  comm::run_ranks(4, [&](comm::Comm& group) {
    const int rank = group.topology().rank;
    auto file = open_on(group, store, read_write());
    trace::OpTrace trace(nullptr);
    std::vector<char> mine(static_cast<std::size_t>(rank), static_cast<char>('0' + rank));
    for (int round = 0; round < 2; ++round)
      EXPECT_TRUE(file->access(request_of(true, mine.data(), rank, file::Pointer::kOrdered, 0, true), trace).status.ok());
    EXPECT_EQ(*file->shared_position_etypes(), 12);
    char all[13] = {};
    EXPECT_EQ(file->access(request_of(false, all, 12, file::Pointer::kExplicit, 0, true), trace).bytes, 12);
    EXPECT_STREQ(all, "122333122333");
    EXPECT_TRUE(file->close(trace).ok());
  });
}

TEST(Background, CollectivesOfTwoFilesInDifferentOrder) {
  store::MemoryStore store;
  comm::run_ranks(2, [&](comm::Comm& group) {
    trace::OpTrace trace(nullptr);
    auto first = file::File::open(std::move(*group.duplicate()), store, "first", read_write(), hints::defaults(), nullptr, {});
    auto second = file::File::open(std::move(*group.duplicate()), store, "second", read_write(), hints::defaults(), nullptr, {});
    ASSERT_TRUE(first.ok() && second.ok());
    const int rank = group.topology().rank;
    file::File& one = rank == 0 ? **first : **second;
    file::File& other = rank == 0 ? **second : **first;
    char data[4] = {'a', 'b', 'c', 'd'};
    auto started = one.start(request_of(true, data, 4, file::Pointer::kExplicit, 4 * rank, true), {}, {}, {}, {});
    auto later = other.start(request_of(true, data, 4, file::Pointer::kExplicit, 4 * rank, true), {}, {}, {}, {});
    started->wait();
    later->wait();
    EXPECT_TRUE(started->outcome().status.ok());
    EXPECT_TRUE(later->outcome().status.ok());
    EXPECT_TRUE((*first)->close(trace).ok());
    EXPECT_TRUE((*second)->close(trace).ok());
  });
}

TEST(Background, IndependentDoesNotWaitForACollective) {
  store::MemoryStore store;
  std::atomic<bool> independent_done{false};
  comm::run_ranks(2, [&](comm::Comm& group) {
    auto file = open_on(group, store, read_write());
    trace::OpTrace trace(nullptr);
    char data[4] = {'a', 'b', 'c', 'd'};
    std::shared_ptr<file::Pending> collective;
    if (group.topology().rank == 0) {
      collective = file->start(request_of(true, data, 4, file::Pointer::kExplicit, 0, true), {}, {}, {}, {});
      auto alone = file->start(request_of(true, data, 4, file::Pointer::kExplicit, 8), {}, {}, {}, {});
      alone->wait();  // would hang if it queued behind the collective one, which rank 1 only joins later
      independent_done = true;
    } else {
      while (!independent_done) std::this_thread::yield();
      collective = file->start(request_of(true, data, 4, file::Pointer::kExplicit, 4, true), {}, {}, {}, {});
    }
    collective->wait();
    EXPECT_TRUE(collective->outcome().status.ok());
    EXPECT_TRUE(file->close(trace).ok());
  });
}

TEST(Background, HintsMayChangeWhileAccessesAreUnderWay) {
  // The thread sanitizer's test: a worker reads the hints while the program gives others.
  store::MemoryStore store;
  constexpr int kAccesses = 200;
  comm::run_ranks(1, [&](comm::Comm& group) {
    auto file = open_on(group, store, read_write());
    trace::OpTrace trace(nullptr);
    file::View view;
    view.filetype = access::tile(*access::resized(0, 8, *access::elementary(4)));
    view.filetype_size = 4;
    view.etype_size = 4;
    view.contiguous = false;
    ASSERT_TRUE(file->set_view(view, 7, trace, {}).ok());
    std::vector<std::int32_t> values(kAccesses * 4);
    std::iota(values.begin(), values.end(), 0);
    std::vector<std::shared_ptr<file::Pending>> started;
    const hints::Hints& first = file->hints();
    for (int i = 0; i < kAccesses; ++i) {
      started.push_back(file->start(request_of(true, &values[static_cast<std::size_t>(i) * 4], 16, file::Pointer::kExplicit, i * 4), {}, {}, {}, {}));
      hints::Hints other = hints::defaults();
      other.strategy = i % 2 == 0 ? hints::Strategy::kIndependent : hints::Strategy::kAutomatic;
      other.write_buffer_bytes = 4096 + i % 3;
      EXPECT_TRUE(file->set_hints(other, trace, {}).ok());
      EXPECT_EQ(file->hints(), other);
    }
    for (const auto& pending : started) {
      pending->wait();
      EXPECT_EQ(pending->outcome().bytes, 16) << pending->outcome().status.text();
    }
    EXPECT_EQ(first, hints::defaults());  // who looked before the change still may
    std::vector<std::int32_t> back(values.size());
    EXPECT_EQ(file->access(request_of(false, back.data(), kAccesses * 16, file::Pointer::kExplicit), trace).bytes, kAccesses * 16);
    EXPECT_EQ(back, values);
    EXPECT_TRUE(file->close(trace).ok());
  });
}

TEST(Atomic, WritesOfManyPiecesAreNotMixed) {
  store::MemoryStore store;
  constexpr Offset kBytes = 4096;
  comm::run_ranks(3, [&](comm::Comm& group) {
    auto file = open_on(group, store, read_write());
    trace::OpTrace trace(nullptr);
    const access::Type spaced = *access::resized(0, 4, *access::elementary(2));
    file::View view;
    view.filetype = access::tile(spaced);
    view.filetype_size = 2;
    view.etype_size = 2;
    view.contiguous = false;
    ASSERT_TRUE(file->set_view(view, 7, trace, {}).ok());
    ASSERT_TRUE(file->set_atomicity(true, trace, {}).ok());
    std::vector<char> data(kBytes, static_cast<char>('a' + group.topology().rank));
    std::vector<char> seen(kBytes);
    for (int i = 0; i < 20; ++i) {
      EXPECT_TRUE(file->access(request_of(true, data.data(), kBytes, file::Pointer::kExplicit), trace).status.ok());
      EXPECT_EQ(file->access(request_of(false, seen.data(), kBytes, file::Pointer::kExplicit), trace).bytes, kBytes);
      EXPECT_EQ(std::count(seen.begin(), seen.end(), seen[0]), kBytes);
    }
    EXPECT_TRUE(file->close(trace).ok());
  });
}

TEST(Trace, PhasesAddUpToTheWallTime) {
  store::MemoryStore store;
  trace::FileTrace trace_of_file;
  comm::run_ranks(1, [&](comm::Comm& group) {
    auto opened = file::File::open(std::move(*group.duplicate()), store, "file", read_write(), hints::defaults(), &trace_of_file, {});
    ASSERT_TRUE(opened.ok());
    {
      trace::OpTrace trace(&trace_of_file);
      std::vector<char> data(1 << 20, 'x');
      EXPECT_EQ((*opened)->access(request_of(true, data.data(), 1 << 20, file::Pointer::kExplicit), trace).bytes, 1 << 20);
      EXPECT_TRUE((*opened)->close(trace).ok());
    }
  });
  std::int64_t sum = 0;
  for (std::size_t phase = 0; phase < trace::kPhaseCount; ++phase) sum += trace_of_file.nanoseconds(static_cast<trace::Phase>(phase));
  EXPECT_EQ(sum, trace_of_file.wall_ns);
  EXPECT_GT(trace_of_file.nanoseconds(trace::Phase::kWrite), 0);
  EXPECT_EQ(trace_of_file.count(trace::Counter::kBytesWritten), 1 << 20);
}

}  // namespace
}  // namespace penstock
