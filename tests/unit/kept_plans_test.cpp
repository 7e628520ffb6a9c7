// Which collective calls go by the plan of an earlier one, and what that saves.  That the right bytes are moved either way is for the property test.
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>

#include "comm/local/local_comm.h"
#include "file/file.h"
#include "store/memory/memory_store.h"
#include "strategy/kept.h"
#include "support/shared_store.h"
#include "support/turning_profile.h"

namespace penstock {
namespace {

using strategy::Ballot;
using strategy::Candidate;
using trace::Counter;

constexpr int kRanks = 4;

/// Blocks of `length` dealt out to the ranks in turn.
access::Type dealt(int rank, Offset length, Offset copies = 5) {
  const Offset one = 1, at = rank * length;
  const access::Type blocks = *access::hvector(copies, length, kRanks * length, *access::elementary(1));
  return *access::resized(0, copies * kRanks * length, *access::hindexed({&one, 1}, {&at, 1}, blocks));
}

/// The same, but for where the second block lies.
access::Type dealt_unevenly(int rank) {
  const std::vector<Offset> lengths(3, 8), offsets{rank * 8, 32 + rank * 8 + (rank == 2 ? 1 : 0), 80 + rank * 8};
  return *access::resized(0, 120, *access::hindexed(lengths, offsets, *access::elementary(1)));
}

struct Call {
  access::Type type;
  Offset displacement = 0;
  Offset position = 0;
  Offset bytes = 0;
  bool write = true;
  Status local = {};
};

/// An open file of one rank.
class Session {
 public:
  Session(comm::Comm& group, store::Store& store, const hints::Hints& hints) : rank(group.topology().rank) {
    file::Mode mode;
    mode.read = mode.write = mode.create = true;
    trace::OpTrace trace(nullptr);
    auto opened = file::File::open(std::move(*group.duplicate()), store, "file", mode, hints, &counted, {});
    EXPECT_TRUE(opened.ok()) << opened.status().text();
    file = std::move(*opened);
  }
  ~Session() {
    trace::OpTrace trace(nullptr);
    (void)file->close(trace);
  }

  /// Whether the call went by an earlier plan.  What is read is compared with what access() writes.
  bool reuses(const Call& call) {
    const std::int64_t before = count(Counter::kPlansReused);
    trace::OpTrace trace(&counted);
    file::View view;
    view.filetype = access::tile(call.type, call.displacement);
    view.filetype_size = call.type.size();
    view.contiguous = false;
    EXPECT_TRUE(file->set_view(view, 0, trace, {}).ok());
    std::vector<std::byte> memory(static_cast<std::size_t>(call.bytes));
    for (Offset i = 0; call.write && i < call.bytes; ++i) memory[static_cast<std::size_t>(i)] = value_of(access::offset_of(view.filetype, call.position + i));
    file::Request request;
    request.write = call.write;
    request.collective = true;
    request.offset_etypes = call.position;
    request.buffer = memory.data();
    request.bytes = call.bytes;
    const file::Outcome outcome = file->access(request, trace, call.local);
    status = outcome.status;
    moved = outcome.bytes;
    for (Offset i = 0; !call.write && i < moved; ++i)
      EXPECT_EQ(memory[static_cast<std::size_t>(i)], value_of(access::offset_of(view.filetype, call.position + i))) << i;
    return count(Counter::kPlansReused) > before;
  }

  [[nodiscard]] std::int64_t count(Counter counter) const { return counted.count(counter); }
  static std::byte value_of(Offset offset) { return static_cast<std::byte>(offset * 7 + offset / 251); }

  int rank;
  trace::FileTrace counted;
  std::unique_ptr<file::File> file;
  Status status;
  Offset moved = 0;
};

hints::Hints hints_for(hints::Strategy strategy) {
  hints::Hints hints = hints::defaults();
  hints.strategy = strategy;
  hints.collective_buffer_bytes = 4096;
  hints.aggregators = 2;
  return hints;
}

void with_file(const std::function<void(Session&)>& body) {
  for (const hints::Strategy strategy : {hints::Strategy::kTwoPhase, hints::Strategy::kTwoLayer}) {
    store::MemoryStore store;
    comm::run_ranks(
        kRanks,
        [&](comm::Comm& group) {
          Session session(group, store, hints_for(strategy));
          body(session);
        },
        2);
  }
}

TEST(KeptPlans, ARepeatedCallTellsNobodyWhatItAccesses) {
  with_file([](Session& session) {
    const Call call{dealt(session.rank, 8, 1000), 0, 0, 8000};
    EXPECT_FALSE(session.reuses(call));
    for (int i = 0; i < 3; ++i) {
      const std::int64_t told = session.count(Counter::kRequestBytes), shown = session.count(Counter::kRequests);
      EXPECT_TRUE(session.reuses(call));
      EXPECT_LE(session.count(Counter::kRequestBytes) - told, static_cast<std::int64_t>(2 * sizeof(Ballot)));
      EXPECT_EQ(session.count(Counter::kRequests), shown);
    }
  });
}

TEST(KeptPlans, TheSameFurtherOnIsTheSamePlan) {
  with_file([](Session& session) {
    const access::Type type = dealt(session.rank, 8);
    EXPECT_FALSE(session.reuses({type, 16, 40, 80}));
    EXPECT_TRUE(session.reuses({type, 16 + 1000001, 40, 80})) << "a displacement, on all ranks";
    EXPECT_TRUE(session.reuses({type, 16, 40 + 40 * 7, 80})) << "whole copies";
    EXPECT_TRUE(session.reuses({type, 0, 0, 80})) << "back again, by both";
    EXPECT_TRUE(session.reuses({dealt(session.rank, 8), 16, 40, 80})) << "a type made anew";
  });
}

TEST(KeptPlans, WhatIsNotTheSameIsNoticed) {
  with_file([](Session& session) {
    const access::Type type = dealt(session.rank, 8);
    const bool one = session.rank == 2;
    const Call call{type, 16, 40, 80};
    EXPECT_FALSE(session.reuses(call));
    const auto noticed = [&](const char* what, const Call& changed) {
      EXPECT_FALSE(session.reuses(changed)) << what;
      EXPECT_TRUE(session.status.ok());
      EXPECT_TRUE(session.reuses(call)) << "behind: " << what;
    };
    noticed("one rank's displacement", {type, one ? 17 : 16, 40, 80});
    noticed("one rank moves on by another distance", {type, one ? 26 : 1016, 40, 80});
    noticed("one rank's position, by a whole copy", {type, 16, one ? 80 : 40, 80});
    noticed("part of a copy", {type, 16, 45, 80});
    noticed("more bytes", {type, 16, 40, 81});
    noticed("one rank's bytes", {type, 16, 40, one ? 40 : 80});
    noticed("one rank has no data", {type, 16, 40, one ? 0 : 80});
    noticed("one rank's type", {one ? dealt_unevenly(2) : type, 16, 40, 80});
  });
}

TEST(KeptPlans, RanksWithoutDataGoAlong) {
  with_file([](Session& session) {
    const access::Type type = dealt(session.rank, 8);
    const Offset bytes = session.rank == 1 || session.rank == 2 ? 0 : 80;
    EXPECT_FALSE(session.reuses({type, 16, 0, bytes}));
    EXPECT_TRUE(session.reuses({type, 16, 0, bytes}));
    EXPECT_TRUE(session.reuses({type, 16, 120, bytes}));
    // They go along with either of two plans; the others tell which.
    EXPECT_FALSE(session.reuses({dealt(session.rank, 3), 16, 0, bytes / 2}));
    EXPECT_TRUE(session.reuses({type, 16, 0, bytes}));
    EXPECT_TRUE(session.reuses({dealt(session.rank, 3), 16, 0, bytes / 2}));
    EXPECT_FALSE(session.reuses({type, 16, 0, 0}));
    EXPECT_TRUE(session.reuses({type, 99, 0, 0})) << "nobody has data";
  });
}

TEST(KeptPlans, ReadsGoByThePlansOfWrites) {
  with_file([](Session& session) {
    const access::Type type = dealt(session.rank, 8);
    EXPECT_FALSE(session.reuses({type, 0, 0, 400}));
    EXPECT_TRUE(session.reuses({type, 0, 0, 400, false}));
    EXPECT_EQ(session.moved, 400);
    EXPECT_TRUE(session.reuses({type, 1600, 0, 400, false})) << "behind the end";
    EXPECT_EQ(session.moved, 0);
    EXPECT_TRUE(session.reuses({type, 1600, 0, 400}));
    EXPECT_TRUE(session.reuses({type, 1600, 0, 400, false})) << "the file has grown";
    EXPECT_EQ(session.moved, 400);
    trace::OpTrace trace(nullptr);
    EXPECT_TRUE(session.file->set_size(1600 + 80, trace, {}).ok());
    EXPECT_TRUE(session.reuses({type, 1600, 0, 400, false})) << "it has been cut";
    EXPECT_EQ(session.moved, session.rank < 2 ? 24 : 16);
  });
}

TEST(KeptPlans, AFailureIsEverybodysAndThePlanStays) {
  with_file([](Session& session) {
    const access::Type type = dealt(session.rank, 8);
    EXPECT_FALSE(session.reuses({type, 0, 0, 400}));
    for (int failing = 0; failing < kRanks; ++failing) {
      Call call{type, 0, 0, 400};
      if (session.rank == failing) call.local = Status::failure(Code::kArgument, "for a test");
      EXPECT_FALSE(session.reuses(call));
      EXPECT_EQ(session.status.code(), Code::kArgument);
      EXPECT_TRUE(session.reuses({type, 0, 0, 400}));
    }
  });
}

TEST(KeptPlans, AtomicCallsInBetweenMakeNoDifference) {
  with_file([](Session& session) {
    const Call call{dealt(session.rank, 8), 0, 0, 400};
    trace::OpTrace trace(nullptr);
    EXPECT_FALSE(session.reuses(call));
    EXPECT_TRUE(session.file->set_atomicity(true, trace, {}).ok());
    EXPECT_FALSE(session.reuses(call)) << "then nobody aggregates";
    EXPECT_TRUE(session.file->set_atomicity(false, trace, {}).ok());
    EXPECT_TRUE(session.reuses(call));
  });
}

TEST(KeptPlans, AFewOfThemTakeTurns) {
  with_file([](Session& session) {
    const auto call = [&](Offset length) { return Call{dealt(session.rank, length), 0, 0, 60}; };
    const auto most = static_cast<Offset>(strategy::kPlansMost);
    for (Offset length = 1; length <= most; ++length) EXPECT_FALSE(session.reuses(call(length)));
    for (Offset length = 1; length <= most; ++length) EXPECT_TRUE(session.reuses(call(length)));
    EXPECT_FALSE(session.reuses(call(most + 1)));
    EXPECT_FALSE(session.reuses(call(1))) << "used least recently";
    EXPECT_TRUE(session.reuses(call(3)));
    EXPECT_FALSE(session.reuses(call(2)));
  });
}

TEST(KeptPlans, WhoIsReachedLateIsToldOnce) {
  with_file([](Session& session) {
    // Small blocks that move through the windows: now the one, now the other aggregator has all.
    const access::Type type = dealt(session.rank, 8, 3);
    EXPECT_FALSE(session.reuses({type, 0, 0, 24}));
    for (Offset displacement = 0; displacement < 40000; displacement += 1500) EXPECT_TRUE(session.reuses({type, displacement, 0, 24}));
    const std::int64_t told = session.count(Counter::kRequestBytes);
    for (Offset displacement = 0; displacement < 40000; displacement += 1500) {
      EXPECT_TRUE(session.reuses({type, displacement, 0, 24}));
      EXPECT_TRUE(session.reuses({type, displacement, 0, 24, false}));
    }
    EXPECT_LE(session.count(Counter::kRequestBytes) - told, static_cast<std::int64_t>(2 * 27 * 2 * sizeof(Ballot)));
  });
}

/// A file whose every byte is what a Session writes there, so that whatever else is written is seen.
class FilledFile {
 public:
  explicit FilledFile(Offset bytes) : bytes_(static_cast<std::size_t>(bytes)) {
    for (std::size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = Session::value_of(static_cast<Offset>(i));
    store::OpenOptions options;
    options.create = true;
    file_ = std::move(*store.open("file", options));
    const store::Transfer transfer{0, bytes_.data(), bytes_.size(), 0};
    std::vector<store::Transfer> batch{transfer};
    EXPECT_TRUE(file_->write(batch).ok());
  }
  [[nodiscard]] bool undisturbed() {
    std::vector<std::byte> now(bytes_.size());
    store::Transfer transfer{0, now.data(), now.size(), 0};
    EXPECT_TRUE(file_->read(std::span(&transfer, 1)).ok());
    return now == bytes_;
  }

  store::MemoryStore store;

 private:
  std::vector<std::byte> bytes_;
  std::unique_ptr<store::File> file_;
};

/// Two aggregators share [0, kEnd).  Where it is accessed one byte further on, the first one's part has almost a multiple of the alignment more of it.
constexpr Offset kAlignment = 4096, kPart = 4 * kAlignment, kEnd = 2 * (kPart + kAlignment - 1);
/// Accessed by nobody, in what the first one has more then.
constexpr Offset kGap = kPart + 1000, kBehindGap = kPart + 3000;

/// Blocks of unequal lengths from `first` to `end`, dealt out to two ranks.
access::Type dealt_at_random(bool to_the_one, Offset first, Offset end, std::vector<Offset> offsets = {}, std::vector<Offset> lengths = {}) {
  bool one = true;
  for (std::uint64_t state = 1; first < end; one = !one) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    const Offset length = std::min<Offset>(1 + static_cast<Offset>(state >> 57), end - first);
    if (one == to_the_one) {
      offsets.push_back(first);
      lengths.push_back(length);
    }
    first += length;
  }
  return *access::resized(0, kEnd, *access::hindexed(lengths, offsets, *access::elementary(1)));
}

void in_filled_file(const std::function<void(Session&)>& body) {
  for (const hints::Strategy strategy : {hints::Strategy::kTwoPhase, hints::Strategy::kTwoLayer}) {
    FilledFile file(kEnd + 2 * kAlignment);
    comm::run_ranks(
        kRanks,
        [&](comm::Comm& group) {
          Session session(group, file.store, hints_for(strategy));
          body(session);
          EXPECT_TRUE(group.barrier().ok());
          if (session.rank == 0) {
            EXPECT_TRUE(file.undisturbed());
          }
          EXPECT_TRUE(group.barrier().ok());
        },
        2);
  }
}

TEST(KeptPlans, WhatLiesBetweenStaysWhereAPartMovesOverAGap) {
  in_filled_file([](Session& session) {
    access::Type type = *access::resized(0, kEnd, *access::contiguous(0, *access::elementary(1)));
    if (session.rank % 2 == 1) {
      const access::Type parts[] = {dealt_at_random(session.rank == 1, 0, kGap), dealt_at_random(session.rank == 1, kBehindGap, kEnd)};
      const std::vector<Offset> ones(2, 1), zeros(2, 0);
      type = *access::resized(0, kEnd, *access::structure(ones, zeros, parts));
    }
    // Aggregators hear of these what lies in their parts of the file, and look for gaps when they first write.
    EXPECT_FALSE(session.reuses({type, 0, 0, type.size(), false}));
    for (const Offset displacement : {0, 1, 0, 1, 2}) EXPECT_TRUE(session.reuses({type, displacement, 0, type.size()}));
  });
}

TEST(KeptPlans, WhatLiesBetweenStaysWhereAPartMovesOverDataOfATeamThatItDidNotReach) {
  for (int late = 0; late < kRanks; ++late)
    for (const bool long_description : {false, true})
      in_filled_file([&](Session& session) {
        const Offset behind = long_description ? kPart * 2 : kEnd;
        access::Type type = *access::resized(0, kEnd, *access::contiguous(0, *access::elementary(1)));
        if (session.rank == (late + 2) % kRanks) type = *access::resized(0, kEnd, *access::contiguous(kGap, *access::elementary(1)));
        if (session.rank == late) {
          std::vector<Offset> offsets{kBehindGap}, lengths{behind - kBehindGap};
          type = dealt_at_random(true, behind, kEnd, offsets, lengths);
        }
        EXPECT_FALSE(session.reuses({type, 0, 0, type.size()}));
        for (const Offset displacement : {0, 1, 0, 1, 2}) EXPECT_TRUE(session.reuses({type, displacement, 0, type.size()}));
      });
}

// An aggregator that was told of a part of the file, where nobody left anything out, has another part when the file has become longer.
TEST(KeptPlans, WhatLiesBetweenStaysWhereTheReadThatMadeThePlanWasCutShort) {
  constexpr Offset kCut = 5 * kAlignment, kWhole = 100 * kAlignment;
  for (const hints::Strategy strategy : {hints::Strategy::kTwoPhase, hints::Strategy::kTwoLayer}) {
    store::MemoryStore store;
    comm::run_ranks(
        kRanks,
        [&](comm::Comm& group) {
          Session session(group, store, hints_for(strategy));
          trace::OpTrace trace(nullptr);
          std::vector<std::byte> filled(static_cast<std::size_t>(kWhole));
          for (std::size_t i = 0; i < filled.size(); ++i) filled[i] = Session::value_of(static_cast<Offset>(i));
          const auto fill = [&](Offset bytes) {
            file::View view;
            EXPECT_TRUE(session.file->set_view(view, 0, trace, {}).ok());
            file::Request request;
            request.write = true;
            request.buffer = filled.data();
            request.bytes = session.rank == 0 ? bytes : 0;
            EXPECT_TRUE(session.file->access(request, trace).status.ok());
            EXPECT_TRUE(group.barrier().ok());
          };
          access::Type type = *access::resized(0, kWhole, *access::contiguous(0, *access::elementary(1)));
          // Long to tell, and in one stretch where the second aggregator has its part of the short file.
          if (session.rank == 1) type = *access::resized(0, kWhole, dealt_at_random(true, 2 * kCut, kWhole / 2, {0}, {2 * kCut}));
          if (session.rank == 3) type = *access::resized(0, kWhole, dealt_at_random(true, kWhole - kCut, kWhole));
          fill(kCut);
          EXPECT_FALSE(session.reuses({type, 0, 0, type.size(), false}));
          fill(kWhole);
          EXPECT_TRUE(session.reuses({type, 0, 0, type.size()}));
          EXPECT_TRUE(group.barrier().ok());
          if (session.rank == 0) {
            std::vector<std::byte> now(filled.size());
            const std::unique_ptr<store::File> file = std::move(*store.open("file", {}));
            store::Transfer transfer{0, now.data(), now.size(), 0};
            EXPECT_TRUE(file->read(std::span(&transfer, 1)).ok());
            EXPECT_TRUE(now == filled);
          }
          EXPECT_TRUE(group.barrier().ok());
        },
        2);
  }
}

Ballot ballot_of(std::vector<Candidate> candidates) {
  Ballot ballot;
  for (const Candidate& candidate : candidates) ballot.candidates[static_cast<std::size_t>(ballot.count++)] = candidate;
  return ballot;
}

std::vector<std::pair<std::int64_t, Offset>> listed(const Ballot& ballot) {
  std::vector<std::pair<std::int64_t, Offset>> list;
  for (int i = 0; i < ballot.count; ++i) list.emplace_back(ballot.candidates[static_cast<std::size_t>(i)].plan, ballot.candidates[static_cast<std::size_t>(i)].shift);
  return list;
}

// With one local aggregator of each of two nodes only two ranks would access a file system that four make faster.
TEST(OtherAggregators, APatternGoesOverToThoseThatSuitItAndStaysThere) {
  if (sysconf(_SC_NPROCESSORS_ONLN) < 2) GTEST_SKIP() << "with one processor there are no more aggregators than nodes";
  SharedStore store;
  hints::Hints hints = hints::defaults();
  hints.profile = "lustre";
  hints.interfaces = 1;
  hints.learn = hints::Switch::kDisable;
  comm::run_ranks(
      kRanks,
      [&](comm::Comm& group) {
        Session session(group, store, hints);
        const Call large{dealt(session.rank, 4096, 256), 0, 0, 256 * 4096}, small{dealt(session.rank, 8, 100), 0, 0, 800};
        EXPECT_FALSE(session.reuses(small));
        EXPECT_TRUE(session.reuses(small));
        EXPECT_EQ(session.count(Counter::kTwoLayer), 2);
        EXPECT_FALSE(session.reuses(large));
        EXPECT_EQ(session.count(Counter::kTwoPhase), 1);
        for (int call = 0; call < 3; ++call) {
          Call again = large;
          again.write = call % 2 == 0;
          EXPECT_TRUE(session.reuses(again)) << "the first call found out who accesses what";
          EXPECT_EQ(session.moved, large.bytes);
        }
        EXPECT_EQ(session.count(Counter::kTwoPhase), 4);
        EXPECT_EQ(session.count(Counter::kTwoLayer), 2);
        EXPECT_EQ(session.file->aggregators().size(), 2U) << "those that it began with";
      },
      2);
}

TEST(OtherAggregators, TheNextFileBeginsWithThoseThatTheLastOneEndedWith) {
  if (sysconf(_SC_NPROCESSORS_ONLN) < 2) GTEST_SKIP() << "with one processor there are no more aggregators than nodes";
  SharedStore store;
  hints::Hints hints = hints::defaults();
  hints.profile = "lustre";
  hints.interfaces = 1;
  comm::run_ranks(
      kRanks,
      [&](comm::Comm& group) {
        const Call large{dealt(group.topology().rank, 4096, 256), 0, 0, 256 * 4096};
        for (int file = 0; file < 2; ++file) {
          Session session(group, store, hints);
          EXPECT_EQ(session.file->aggregators().size(), file == 0 ? 2U : 4U);
          (void)session.reuses(large);
          EXPECT_EQ(session.count(Counter::kTwoPhase), 1);
          EXPECT_EQ(session.count(Counter::kTwoLayer), 0);
        }
      },
      2);
}

TEST(OtherAggregators, PatternsThatTakeTurnsGoOverByKeptPlans) {
  if (sysconf(_SC_NPROCESSORS_ONLN) < 2) GTEST_SKIP() << "with one processor there are no more aggregators than nodes";
  const TurningProfile profile;
  SharedStore store;
  hints::Hints hints = hints::defaults();
  hints.profile = profile.path();
  hints.sieve_reads = hints::Switch::kDisable;  // the profile is not about it
  hints.interfaces = 1;
  hints.learn = hints::Switch::kDisable;
  comm::run_ranks(
      kRanks,
      [&](comm::Comm& group) {
        Session session(group, store, hints);
        const Call large{dealt(session.rank, 100, 10), 0, 0, 1000}, small{dealt(session.rank, 2, 10), 0, 0, 20};
        // In the first turn each is planned, in the second it is found that the small one had better go back.
        for (int turn = 0; turn < 5; ++turn)
          for (const Call* call : {&small, &large}) {
            const std::int64_t reused = session.count(Counter::kPlansReused), told = session.count(Counter::kRequestBytes);
            Call again = *call;
            again.write = turn % 2 == 0;
            EXPECT_EQ(session.reuses(again), turn > 0);
            EXPECT_EQ(session.moved, call->bytes);
            if (turn < 2) continue;
            EXPECT_EQ(session.count(Counter::kPlansReused) - reused, 1) << "a call is one, by whatever aggregators it was begun";
            const std::int64_t ballots = (session.count(Counter::kRequestBytes) - told) / static_cast<std::int64_t>(sizeof(Ballot));
            EXPECT_LE(ballots, 3) << "two local aggregators vote in one step, four in two";
            EXPECT_EQ((session.count(Counter::kRequestBytes) - told) % static_cast<std::int64_t>(sizeof(Ballot)), 0) << "and say nothing else";
          }
      },
      2);
}

// Hints may differ between ranks, and be changed on one while another's collective access goes on in the background; whether aggregators are worth it may not.
TEST(OtherAggregators, RanksOfWhichSomeMayNotSieveDecideAlike) {
  if (sysconf(_SC_NPROCESSORS_ONLN) < 2) GTEST_SKIP() << "with one processor there are no more aggregators than nodes";
  const TurningProfile profile(4, 2);  // gathering takes longer than sieving, and less than requests of a few bytes
  for (const hints::Switch of_rank_0 : {hints::Switch::kDisable, hints::Switch::kAutomatic}) {
    SharedStore store;
    comm::run_ranks(
        kRanks,
        [&](comm::Comm& group) {
          hints::Hints hints = hints::defaults();
          hints.profile = profile.path();
          hints.interfaces = 1;
          hints.learn = hints::Switch::kDisable;
          const int rank = group.topology().rank;
          const bool elsewhere = group.topology().node > 0;
          hints.sieve_reads = (of_rank_0 == hints::Switch::kDisable) != elsewhere ? hints::Switch::kDisable : hints::Switch::kAutomatic;
          Session session(group, store, hints);
          Call call{dealt(rank, 2, 50), 0, 0, 100};
          session.reuses(call);
          EXPECT_TRUE(session.status.ok()) << session.status.text();
          call.write = false;
          for (int again = 0; again < 3; ++again) {
            const std::int64_t alone = session.count(Counter::kIndependent) + session.count(Counter::kSieved);
            session.reuses(call);
            EXPECT_TRUE(session.status.ok()) << session.status.text();
            EXPECT_EQ(session.moved, call.bytes);
            EXPECT_EQ(session.count(Counter::kIndependent) + session.count(Counter::kSieved) - alone, of_rank_0 == hints::Switch::kAutomatic ? 1 : 0);
          }
        },
        2);
  }
}

// Two plans that each lead to where the other is: the call is carried out all the same.
TEST(OtherAggregators, ACallGoesOverOnce) {
  if (sysconf(_SC_NPROCESSORS_ONLN) < 2) GTEST_SKIP() << "with one processor there are no more aggregators than nodes";
  const TurningProfile profile(1.0);
  SharedStore store;
  hints::Hints hints = hints::defaults();
  hints.profile = profile.path();
  hints.sieve_reads = hints::Switch::kDisable;  // the profile is not about it
  hints.interfaces = 1;
  hints.learn = hints::Switch::kDisable;
  comm::run_ranks(
      kRanks,
      [&](comm::Comm& group) {
        Session session(group, store, hints);
        Call written{dealt(session.rank, 100, 10), 0, 0, 1000};
        Call read = written;
        read.write = false;
        EXPECT_FALSE(session.reuses(written));
        EXPECT_EQ(session.count(Counter::kTwoPhase), 1) << "many write";
        // Its plan is let go there, but not that it went there.
        for (Offset other = 1; other <= static_cast<Offset>(strategy::kPlansMost); ++other)
          EXPECT_FALSE(session.reuses({dealt(session.rank, 100 + other, 10), 0, 0, 10 * (100 + other)}));
        EXPECT_EQ(session.count(Counter::kTwoPhase), 1 + static_cast<std::int64_t>(strategy::kPlansMost));
        for (int call = 0; call < 4; ++call) {
          session.reuses(written);
          EXPECT_EQ(session.moved, written.bytes);
          session.reuses(read);
          EXPECT_EQ(session.moved, read.bytes);
        }
        session.reuses({dealt(session.rank, 200, 10), 0, 0, 2000});
      },
      2);
}

TEST(Ballots, WhatAllCanGoByIsLeft) {
  const Offset any = Candidate::kAnywhere;
  const std::vector<Ballot> ballots{ballot_of({{9, 5}, {7, any}, {4, 1}, {2, 8}}), ballot_of({{9, any}, {8, 1}, {7, any}, {4, 1}}),
                                    ballot_of({{9, 5}, {7, 3}, {4, 2}}), ballot_of({{9, 5}, {7, 3}, {5, 1}, {4, any}})};
  std::vector<std::size_t> order{0, 1, 2, 3};
  do {
    Ballot all = ballots[order[0]];
    for (const std::size_t i : order) all.join(ballots[i]);
    EXPECT_EQ(listed(all), (std::vector<std::pair<std::int64_t, Offset>>{{9, 5}, {7, 3}}));
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(Ballots, FailuresAndTheSizeOfTheFileAreSpread) {
  Ballot a, b;
  a.code = 3;
  b.file_bytes = 0;
  a.join(b);
  b.join(a);
  EXPECT_EQ(a.code, 3);
  EXPECT_EQ(b.code, 3);
  EXPECT_EQ(a.file_bytes, 0);
}

TEST(Ballots, AllLearnWhatTheLastRankToComeSawAndWhetherAnyTeamMadeMemory) {
  Ballot a, b, c;
  a.taken = {500, 0};
  b.taken = {300, 1};
  c.join(a);
  EXPECT_EQ(c.taken.nanoseconds, 500) << "who knows nothing says nothing";
  a.join(b);
  b.join(a);
  for (const Ballot& ballot : {a, b}) {
    EXPECT_EQ(ballot.taken.nanoseconds, 300);
    EXPECT_EQ(ballot.taken.prepared, 1);
  }
}

}  // namespace
}  // namespace penstock
