// Ways to place aggregators where something is wanting: a rank that gets no team for one of them, ranks that share no memory, a call that fails before or after the file
// went over to another.  All ranks go on alike, and no byte is lost.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <new>

#include "comm/local/local_comm.h"
#include "file/file.h"
#include "support/shared_store.h"
#include "support/turning_profile.h"

namespace penstock {
namespace {

using trace::Counter;

/// Which teams cannot be had.
struct Wanting {
  std::function<Status(int rank, int count)> team;
};

/// Passes everything on, but for teams that are wanting.
class WantingComm final : public comm::Comm {
 public:
  WantingComm(std::unique_ptr<comm::Comm> inner, const Wanting& wanting) : inner_(std::move(inner)), wanting_(wanting) {}
  [[nodiscard]] const comm::Topology& topology() const override { return inner_->topology(); }
  Status barrier() override { return inner_->barrier(); }
  Status broadcast(void* bytes, std::size_t size_bytes, int root) override { return inner_->broadcast(bytes, size_bytes, root); }
  Status all_gather(const void* mine, std::size_t size_bytes, void* all) override { return inner_->all_gather(mine, size_bytes, all); }
  Status gather(const void* mine, std::size_t size_bytes, void* all, int root) override { return inner_->gather(mine, size_bytes, all, root); }
  std::unique_ptr<comm::Exchange> exchange() override { return inner_->exchange(); }
  Status exclusive_sum(Offset mine, Offset& before, Offset& total) override { return inner_->exclusive_sum(mine, before, total); }
  comm::Verdict agree(const comm::Verdict& mine) override { return inner_->agree(mine); }
  [[nodiscard]] bool may_agree_in_background() const override { return inner_->may_agree_in_background(); }
  [[nodiscard]] bool may_exchange_in_background() const override { return inner_->may_exchange_in_background(); }
  [[nodiscard]] bool may_lock_in_background() const override { return inner_->may_lock_in_background(); }
  [[nodiscard]] bool calls_may_overlap() const override { return inner_->calls_may_overlap(); }
  Offset fetch_add(int word, Offset delta) override { return inner_->fetch_add(word, delta); }
  Offset load(int word) override { return inner_->load(word); }
  void store(int word, Offset value) override { inner_->store(word, value); }
  void lock(bool exclusive) override { inner_->lock(exclusive); }
  void unlock(bool exclusive) override { inner_->unlock(exclusive); }
  Result<std::unique_ptr<comm::Team>> team(int first, int count) override {
    PENSTOCK_TRY(wanting_.team(topology().rank, count));
    return inner_->team(first, count);
  }
  Result<std::unique_ptr<comm::Comm>> duplicate() override { return inner_->duplicate(); }

 private:
  std::unique_ptr<comm::Comm> inner_;
  const Wanting& wanting_;
};

std::byte value_of(Offset offset, int turn) { return static_cast<std::byte>(offset * 7 + offset / 251 + turn * 31); }

/// One rank's file, of which each rank has every n-th piece.
class Session {
 public:
  Session(comm::Comm& group, const Wanting& wanting, store::Store& store, const hints::Hints& hints) : ranks_(group.topology().size), rank_(group.topology().rank) {
    auto opened = file::File::open(std::make_unique<WantingComm>(std::move(*group.duplicate()), wanting), store, "file",
                                   {.read = true, .write = true, .create = true}, hints, &counted, {});
    EXPECT_TRUE(opened.ok()) << opened.status().text();
    file = std::move(*opened);
  }
  ~Session() {
    trace::OpTrace trace(nullptr);
    EXPECT_TRUE(file->close(trace).ok());
  }

  /// Writes pieces and reads them back.
  void write_and_read(Offset piece, Offset pieces, int turn) {
    access(true, piece, pieces, turn, {});
    access(false, piece, pieces, turn, {});
  }

  void access(bool write, Offset piece, Offset pieces, int turn, const Status& local, bool fails = false) {
    trace::OpTrace trace(&counted);
    file::View view;
    view.filetype = access::tile(*access::resized(0, piece * ranks_, *access::contiguous(piece, *access::elementary(1))), rank_ * piece);
    view.filetype_size = piece;
    view.contiguous = false;
    ASSERT_TRUE(file->set_view(view, 0, trace, {}).ok());
    std::vector<std::byte> data(static_cast<std::size_t>(piece * pieces));
    for (Offset i = 0; write && i < piece * pieces; ++i) data[static_cast<std::size_t>(i)] = value_of(access::offset_of(view.filetype, i), turn);
    file::Request request;
    request.write = write;
    request.collective = true;
    request.buffer = data.data();
    request.bytes = piece * pieces;
    const file::Outcome outcome = file->access(request, trace, local);
    ASSERT_EQ(outcome.status.ok(), !fails) << outcome.status.text();
    if (fails) return;
    ASSERT_EQ(outcome.bytes, request.bytes);
    for (Offset i = 0; i < request.bytes; ++i)
      ASSERT_EQ(data[static_cast<std::size_t>(i)], value_of(access::offset_of(view.filetype, i), turn)) << i;
  }

  [[nodiscard]] std::int64_t count(Counter counter) const { return counted.count(counter); }

  trace::FileTrace counted;
  std::unique_ptr<file::File> file;

 private:
  int ranks_;
  int rank_;
};

Wanting nothing_wanting() {
  return {[](int, int) { return Status(); }};
}

hints::Hints hints_by(const TurningProfile& profile) {
  hints::Hints hints = hints::defaults();
  hints.profile = profile.path();
  hints.sieve_reads = hints::Switch::kDisable;  // the profile is not about it
  hints.interfaces = 1;
  hints.learn = hints::Switch::kDisable;
  return hints;
}

constexpr Offset kLarge = 100, kSmall = 2;

TEST(Placing, WhereOneRankGetsNoTeamAllStayWhereTheyAre) {
  if (sysconf(_SC_NPROCESSORS_ONLN) < 2) GTEST_SKIP() << "with one processor there are no more aggregators than nodes";
  const TurningProfile profile;
  for (int kind = -1; kind < 8; ++kind) {
    const int wanting_rank = kind < 0 ? -1 : kind % 4;
    SCOPED_TRACE("rank " + std::to_string(wanting_rank));
    SharedStore store;
    std::array<std::atomic<int>, 4> asked{};
    // The last way to place aggregators is that every rank is one.
    const Wanting wanting{[&](int rank, int count) {
      const bool first_of_its_kind = count == 1 && asked[static_cast<std::size_t>(rank)].fetch_add(1) == 0;
      if (!first_of_its_kind || rank != wanting_rank) return Status();
      if (kind >= 4) throw std::bad_alloc();
      return Status::failure(Code::kNoMemory, "for a test");
    }};
    comm::run_ranks(
        4,
        [&](comm::Comm& group) {
          Session session(group, wanting, store, hints_by(profile));
          for (int turn = 0; turn < 3; ++turn) {
            session.write_and_read(kSmall, 10, turn);
            session.write_and_read(kLarge + turn, 10, turn);  // another pattern each time, which asks anew
          }
          EXPECT_EQ(session.count(Counter::kTwoPhase) > 0, wanting_rank < 0);
          EXPECT_EQ(session.count(Counter::kTwoPhase) + session.count(Counter::kTwoLayer), 12);
        },
        2);
  }
}

TEST(Placing, ACallThatFailsBeforeOrAfterGoingOverLeavesAllAlike) {
  if (sysconf(_SC_NPROCESSORS_ONLN) < 2) GTEST_SKIP() << "with one processor there are no more aggregators than nodes";
  const TurningProfile profile;
  for (int failing = 0; failing < 6; ++failing)
    for (int rank_failing = 0; rank_failing < 6; ++rank_failing) {
      SCOPED_TRACE("call " + std::to_string(failing) + " rank " + std::to_string(rank_failing));
      SharedStore store;
      hints::Hints hints = hints_by(profile);
      hints.learn = failing % 2 == 0 ? hints::Switch::kAutomatic : hints::Switch::kDisable;
      const Wanting wanting = nothing_wanting();
      comm::run_ranks(
          6,
          [&](comm::Comm& group) {
            Session session(group, wanting, store, hints);
            const Status failure = Status::failure(Code::kArgument, "for a test");
            for (int call = 0; call < 8; ++call) {
              const Offset piece = call / 2 % 2 == 0 ? kSmall : kLarge;
              session.access(true, piece, 10, 0, call == failing && group.topology().rank == rank_failing ? failure : Status(), call == failing);
            }
            session.write_and_read(kSmall, 10, 1);
            session.write_and_read(kLarge, 10, 1);
          },
          4);
    }
}

// Every rank could move its own data then; but what one rank may not begin, no rank does.
TEST(Placing, WhatOneRankMayNotBeginMovesNothing) {
  const TurningProfile profile;
  const Wanting wanting = nothing_wanting();
  for (int failing = 0; failing < 4; ++failing) {
    SCOPED_TRACE("rank " + std::to_string(failing));
    SharedStore store;
    comm::run_ranks(
        4,
        [&](comm::Comm& group) {
          Session session(group, wanting, store, hints_by(profile));
          const Status failure = group.topology().rank == failing ? Status::failure(Code::kArgument, "for a test") : Status();
          session.access(true, kSmall, 10, 0, failure, true);
          EXPECT_EQ(*session.file->size(), 0) << "the first of its kind";
          session.access(true, kSmall, 10, 1, {});
          session.access(true, kSmall, 10, 2, failure, true);
          session.access(false, kSmall, 10, 1, {});
        },
        2);
  }
}

// What was learned in one file is known to whoever decides about the next.
TEST(Placing, RanksThatShareNoMemoryLearnAlike) {
  SharedStore store;
  const Wanting wanting{[&](int, int count) { return count > 1 ? Status::failure(Code::kUnsupported, "for a test") : Status(); }};
  hints::Hints hints = hints::defaults();
  hints.profile = "lustre";  // which predicts much more than memory takes
  for (int file = 0; file < 3; ++file)
    comm::run_ranks(12, [&](comm::Comm& group) {
      Session session(group, wanting, store, hints);
      for (int turn = 0; turn < 4; ++turn) session.write_and_read(8, 100, turn);
    });
}

}  // namespace
}  // namespace penstock
