// Collective accesses in which one rank runs out of memory where it asks for much: all ranks come back, the next call does what it should, and what nobody
// writes stays as it was.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <new>

#include "comm/local/local_comm.h"
#include "file/file.h"
#include "store/memory/memory_store.h"
#include "support/shared_store.h"
#include "support/turning_profile.h"

namespace {

/// What counts as much: more than the lists of a few bytes that are asked for in the middle of it all, and than what ranks that are threads keep messages in.
constexpr std::size_t kMuch = 600;
/// Requests of this thread for less are always granted.
thread_local std::size_t least_refused = kMuch;
/// So many requests for much are granted to this thread yet; below 0: all.
thread_local int granted = -1;
thread_local bool refused = false;

void* allocated(std::size_t bytes) {
  if (bytes >= least_refused && granted >= 0 && granted-- == 0) {
    refused = true;
    throw std::bad_alloc();
  }
  void* const memory = std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t bytes) { return allocated(bytes); }
void* operator new[](std::size_t bytes) { return allocated(bytes); }
// Those of a sanitizer would not go with the delete below.
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return std::malloc(bytes); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return std::malloc(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace penstock {
namespace {

using Bytes = std::vector<std::byte>;

constexpr int kRanks = 4;
constexpr Offset kBlocks = 400;

/// Blocks of unequal lengths dealt out to the ranks and, where there are holes, to nobody.
access::Type dealt(int rank, bool holes) {
  std::vector<Offset> offsets, lengths;
  Offset at = 0;
  std::uint64_t state = 1;
  for (Offset i = 0; i < kBlocks * kRanks; ++i) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    const Offset length = 1 + static_cast<Offset>(state >> 58);
    if (static_cast<int>(state >> 40 & (holes ? 7 : 3)) == rank) {
      offsets.push_back(at);
      lengths.push_back(length);
    }
    at += length;
  }
  return *access::resized(0, at, *access::hindexed(lengths, offsets, *access::elementary(1)));
}

constexpr Offset kSmallPiece = 2, kSmallBytes = 20;

access::Type dealt_in_turn(int rank) {
  const Offset one = 1, at = rank * kSmallPiece;
  return *access::resized(0, kRanks * kSmallPiece, *access::hindexed({&one, 1}, {&at, 1}, *access::elementary(kSmallPiece)));
}

std::byte value_of(Offset offset) { return static_cast<std::byte>(offset * 7 + offset / 251); }

struct Call {
  bool write;
  Offset displacement;
  bool small;  ///< between these and others the file goes over to other aggregators
};

constexpr Offset kFileBytes = 90000;
/// In one of these a rank is short of memory; then come the same again, all of them with enough.  The first read reaches beyond the end of the file, so that
/// parts lie elsewhere and teams have to tell what they access once more.
constexpr Call kCalls[] = {{true, 0, false}, {true, 4000, false}, {false, 60000, false}, {true, 8000, false}, {false, 100, false}};
/// The same where aggregators are open to choice.
constexpr Call kTurningCalls[] = {{true, 0, false}, {false, 4000, true}, {true, 8000, false}, {false, 60000, false}, {false, 100, true}};
static_assert(std::size(kCalls) == std::size(kTurningCalls));

/// How a file goes, and by how many local aggregators of a node; 0: as it finds.
struct Way {
  hints::Strategy strategy;
  int local_aggregators;
  [[nodiscard]] bool open_to_choice() const { return strategy == hints::Strategy::kAutomatic && local_aggregators == 0; }
};

struct Case {
  Way way;
  int call;
  int rank;
  int granted;
};

file::Outcome carried_out(file::File& file, const Call& call, const access::Type& type, Offset bytes, int granted_now) {
  trace::OpTrace trace(file.trace());
  file::View view;
  view.filetype = access::tile(type, call.displacement);
  view.filetype_size = type.size();
  view.contiguous = false;
  EXPECT_TRUE(file.set_view(view, 0, trace, {}).ok());
  Bytes memory(static_cast<std::size_t>(bytes));
  for (Offset i = 0; call.write && i < bytes; ++i) memory[static_cast<std::size_t>(i)] = value_of(access::offset_of(view.filetype, i));
  file::Request request;
  request.write = call.write;
  request.collective = true;
  request.buffer = memory.data();
  request.bytes = bytes;
  granted = granted_now;
  file::Outcome outcome = file.access(request, trace);
  granted = -1;
  if (!outcome.status.ok() || call.write) return outcome;
  for (Offset i = 0; i < bytes; ++i) {
    const Offset offset = access::offset_of(view.filetype, i);
    if (offset < kFileBytes) {
      EXPECT_EQ(memory[static_cast<std::size_t>(i)], value_of(offset)) << i;
    }
  }
  return outcome;
}

Offset moved(const trace::FileTrace& counted) { return counted.count(trace::Counter::kBytesWritten) + counted.count(trace::Counter::kBytesRead); }

/// Whether the rank ran out of memory.
bool run(const Case& now, const TurningProfile& profile) {
  const bool open_to_choice = now.way.open_to_choice();
  bool ran_out = false;
  Bytes bytes(kFileBytes);
  for (Offset i = 0; i < kFileBytes; ++i) bytes[static_cast<std::size_t>(i)] = value_of(i);
  SharedStore store;
  store::OpenOptions options;
  options.create = true;
  const std::unique_ptr<store::File> before = std::move(*store.open("file", options));
  store::Transfer transfer{0, bytes.data(), bytes.size(), 0};
  EXPECT_TRUE(before->write(std::span(&transfer, 1)).ok());
  comm::run_ranks(
      kRanks,
      [&](comm::Comm& group) {
        const int rank = group.topology().rank;
        hints::Hints hints = hints::defaults();
        hints.strategy = now.way.strategy;
        hints.local_aggregators = now.way.local_aggregators;
        hints.collective_buffer_bytes = 4096;
        hints.aggregators = open_to_choice ? 0 : 2;
        hints.profile = profile.path();
        hints.sieve_reads = hints::Switch::kDisable;  // the profile is not about it
        hints.interfaces = 1;
        trace::FileTrace counted;
        auto opened = file::File::open(std::move(*group.duplicate()), store, "file", {.read = true, .write = true, .create = true}, hints, &counted, {});
        ASSERT_TRUE(opened.ok()) << opened.status().text();
        const access::Type type = dealt(rank, !open_to_choice), small = dealt_in_turn(rank);
        for (int pass = 0; pass < 2; ++pass)
          for (int i = 0; i < static_cast<int>(std::size(kCalls)); ++i) {
            const Call& call = open_to_choice ? kTurningCalls[i] : kCalls[i];
            const bool short_of_memory = pass == 0 && i == now.call;
            const Offset moved_before = moved(counted);
            const file::Outcome outcome = carried_out(**opened, call, call.small ? small : type, call.small ? kSmallBytes : type.size(), short_of_memory && rank == now.rank ? now.granted : -1);
            if (short_of_memory && rank == now.rank) ran_out = refused;
            refused = false;
            if (!short_of_memory) {
              EXPECT_TRUE(outcome.status.ok()) << outcome.status.text();
            }
            if (!outcome.status.ok()) {
              EXPECT_EQ(moved(counted), moved_before) << "a call that fails for want of memory fails before anything is moved";
            }
          }
        if (open_to_choice && sysconf(_SC_NPROCESSORS_ONLN) > 1) {
          EXPECT_GT(counted.count(trace::Counter::kTwoLayer), 0) << "few aggregators";
          EXPECT_GT(counted.count(trace::Counter::kTwoPhase), 0) << "many";
        }
        trace::OpTrace trace(nullptr);
        EXPECT_TRUE((*opened)->close(trace).ok());
      },
      2);
  Bytes after(kFileBytes);
  transfer = {0, after.data(), after.size(), 0};
  EXPECT_TRUE(before->read(std::span(&transfer, 1)).ok());
  EXPECT_TRUE(after == bytes);
  return ran_out;
}

TEST(OutOfMemory, OfOneRankKeepsNobodyWaiting) {
  // Every place where a run of all cases is asked for, else one of a few, others for each rank and call.
  const int step = std::getenv("PENSTOCK_RANDOM_CASES") != nullptr ? 1 : 6;
  const TurningProfile profile;
  int failures = 0;
  constexpr Way kWays[] = {{hints::Strategy::kTwoPhase, 0}, {hints::Strategy::kTwoLayer, 0}, {hints::Strategy::kAutomatic, 0}, {hints::Strategy::kAutomatic, 1}};
  for (const Way& way : kWays)
    for (int call = 0; call < static_cast<int>(std::size(kCalls)); ++call)
      for (int rank = 0; rank < kRanks; ++rank)
        for (int granted_now = (rank + call) % step;; granted_now += step) {
          SCOPED_TRACE("strategy " + std::to_string(static_cast<int>(way.strategy)) + " local aggregators " + std::to_string(way.local_aggregators) + " call " + std::to_string(call) + " rank " + std::to_string(rank) + " behind " +
                       std::to_string(granted_now));
          if (!run({way, call, rank, granted_now}, profile)) break;
          ++failures;
          if (testing::Test::HasFailure()) return;
        }
  EXPECT_GT(failures, 100);
}

TEST(OutOfMemory, OfWhoeverStartsAnAccessKeepsCloseFromNothing) {
  // Any request for memory at all: the start either says so and has begun nothing, or the access is carried out.
  for (const bool collective : {false, true}) {
    int thrown = 0, carried_out = 0;
    bool ran_out = true;
    for (int granted_now = 0; ran_out; ++granted_now) {
      store::MemoryStore store;
      comm::run_ranks(1, [&](comm::Comm& group) {
        auto opened = file::File::open(std::move(*group.duplicate()), store, "file", {.read = true, .write = true, .create = true}, hints::defaults(), nullptr, {});
        ASSERT_TRUE(opened.ok()) << opened.status().text();
        file::File& file = **opened;
        std::byte byte{7};
        file::Request request;
        request.write = true;
        request.collective = collective;
        request.buffer = &byte;
        request.bytes = 1;
        std::shared_ptr<file::Pending> pending;
        refused = false;
        least_refused = 1;
        granted = granted_now;
        try {
          pending = file.start(request, {}, file::File::Starting::kNeverWaits, {}, {});
        } catch (const std::bad_alloc&) {
          ++thrown;
        }
        granted = -1;
        least_refused = kMuch;
        ran_out = std::exchange(refused, false);
        if (pending != nullptr) {
          file.wait(*pending);
          EXPECT_TRUE(pending->outcome().status.ok()) << pending->outcome().status.text();
          EXPECT_EQ(*file.size(), 1);
          if (ran_out) ++carried_out;
        }
        trace::OpTrace trace(nullptr);
        EXPECT_TRUE(file.close(trace).ok());
      });
    }
    EXPECT_GT(thrown, 0);
    EXPECT_GT(carried_out, 0);
  }
}

}  // namespace
}  // namespace penstock
