// Ranks as threads: the collectives, the agreement, the words and the lock, and what happens when a rank leaves early.
#include "comm/local/local_comm.h"

#include <gtest/gtest.h>

#include <random>
#include <stdexcept>
#include <string>
#include <thread>

namespace penstock::comm {
namespace {

constexpr int kSizes[] = {1, 2, 3, 4, 8};

Verdict failure(Code code, int system_errno) {
  return {.code = static_cast<std::int32_t>(code), .system_errno = system_errno, .rank = -1};
}

TEST(LocalComm, TellsTheTopology) {
  run_ranks(
      5,
      [](Comm& comm) {
        const Topology& topology = comm.topology();
        EXPECT_EQ(topology.size, 5);
        EXPECT_EQ(topology.node, topology.rank / 2);
        EXPECT_EQ(topology.node_count, 3);
        EXPECT_EQ(topology.rank_in_node, topology.rank % 2);
        EXPECT_EQ(topology.ranks_in_node, topology.rank == 4 ? 1 : 2);
        EXPECT_EQ(topology.node_of_rank, (std::vector<int>{0, 0, 1, 1, 2}));
      },
      2);
}

TEST(LocalComm, BroadcastsAndGathers) {
  for (const int size : kSizes)
    run_ranks(size, [size](Comm& comm) {
      const int rank = comm.topology().rank;
      for (int root = 0; root < size; ++root) {
        std::int64_t word = rank == root ? 1000 + root : -1;
        ASSERT_TRUE(comm.broadcast(&word, sizeof word, root).ok());
        EXPECT_EQ(word, 1000 + root);
        std::vector<int> all(static_cast<std::size_t>(size), -1);
        ASSERT_TRUE(comm.gather(&rank, sizeof rank, rank == root ? all.data() : nullptr, root).ok());
        for (int other = 0; rank == root && other < size; ++other) EXPECT_EQ(all[static_cast<std::size_t>(other)], other);
        ASSERT_TRUE(comm.all_gather(&rank, sizeof rank, all.data()).ok());
        for (int other = 0; other < size; ++other) EXPECT_EQ(all[static_cast<std::size_t>(other)], other);
        ASSERT_TRUE(comm.broadcast(nullptr, 0, root).ok());
      }
    });
}

TEST(LocalComm, TeamsShareMemory) {
  // Nodes of ranks 0-3 and 4-6; teams 0-2, 3 and 4-6.
  run_ranks(
      7,
      [](Comm& comm) {
        const int rank = comm.topology().rank;
        const int first_rank = rank < 3 ? 0 : rank == 3 ? 3 : 4;
        const int count = rank == 3 ? 1 : 3;
        auto made = comm.team(first_rank % 4, count);
        ASSERT_TRUE(made.ok());
        Team& team = **made;
        EXPECT_EQ(team.size(), count);
        EXPECT_EQ(team.place(), rank - first_rank);
        for (std::size_t ints = 8; ints <= 8000; ints *= 10)
          for (int which = 0; which < Team::kMemories; ++which) {
            const auto memory = team.memory(which, ints * sizeof(int));
            ASSERT_TRUE(memory.ok());
            auto* const words = reinterpret_cast<int*>(*memory);
            words[team.place()] = 100 * which + rank;
            words[ints - 1 - static_cast<std::size_t>(team.place())] = rank;
            EXPECT_TRUE(team.meet({}).ok());
            for (int place = 0; place < count; ++place) {
              EXPECT_EQ(words[place], 100 * which + first_rank + place);
              EXPECT_EQ(words[ints - 1 - static_cast<std::size_t>(place)], first_rank + place);
            }
            EXPECT_TRUE(team.meet({}).ok());
            EXPECT_EQ(*team.memory(which, sizeof(int)), *memory) << "less than there is: the same";
            EXPECT_EQ(words[0], 100 * which + first_rank);
          }
        const Verdict verdict = team.meet(rank == 1 ? failure(Code::kIo, 5) : Verdict{});
        EXPECT_EQ(verdict.ok(), rank > 2);
        EXPECT_EQ(verdict.rank, rank > 2 ? -1 : 1);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // there, asking for too much ends the process
        const auto too_much = team.memory(0, SIZE_MAX / 4);
        EXPECT_EQ(too_much.status().code(), Code::kNoMemory);
        EXPECT_TRUE(team.memory(0, 16).ok());
#endif
      },
      4);
}

TEST(LocalComm, SumsOverLowerRanks) {
  run_ranks(4, [](Comm& comm) {
    Offset before = -1, total = -1;
    ASSERT_TRUE(comm.exclusive_sum(comm.topology().rank + 1, before, total).ok());
    const int rank = comm.topology().rank;
    EXPECT_EQ(before, rank * (rank + 1) / 2);
    EXPECT_EQ(total, 10);
    const Status status = comm.exclusive_sum(INT64_MAX, before, total);
    EXPECT_EQ(status.code(), Code::kArgument);
  });
}

TEST(LocalComm, AgreesOnTheLowestFailingRankEveryTime) {
  for (const int size : kSizes)
    run_ranks(size, [size](Comm& comm) {
      for (unsigned round = 0; round < 2000; ++round) {
        std::mt19937 random(round);  // the same on every rank, so that each knows what the others say
        int lowest = -1;
        Verdict mine;
        for (int rank = 0; rank < size; ++rank) {
          if (random() % 5 != 0) continue;
          if (lowest < 0) lowest = rank;
          if (rank == comm.topology().rank) mine = failure(Code::kNoSpace, rank + 100);
        }
        const Verdict verdict = comm.agree(mine);
        ASSERT_EQ(verdict.ok(), lowest < 0);
        if (lowest < 0) continue;
        ASSERT_EQ(verdict.rank, lowest);
        ASSERT_EQ(verdict.code, static_cast<int>(Code::kNoSpace));
        ASSERT_EQ(verdict.system_errno, lowest + 100);
      }
    });
}

TEST(LocalComm, AddsToSharedWordsExactly) {
  run_ranks(8, [](Comm& comm) {
    for (int i = 0; i < 1000; ++i) comm.fetch_add(3, 2);
    ASSERT_TRUE(comm.barrier().ok());
    EXPECT_EQ(comm.load(3), 16000);
    EXPECT_EQ(comm.load(2), 0);
    ASSERT_TRUE(comm.barrier().ok());
    if (comm.topology().rank == 5) comm.store(3, -7);
    ASSERT_TRUE(comm.barrier().ok());
    EXPECT_EQ(comm.fetch_add(3, 0), -7);
  });
}

TEST(LocalComm, LocksOutWritersAndLetsReadersShare) {
  Offset guarded[2] = {0, 0};  // plain memory: the thread sanitizer sees a lock that does not lock
  run_ranks(6, [&guarded](Comm& comm) {
    for (int i = 0; i < 500; ++i) {
      const bool exclusive = (i + comm.topology().rank) % 3 == 0;
      comm.lock(exclusive);
      if (exclusive) {
        ++guarded[0];
        ++guarded[1];
      } else {
        ASSERT_EQ(guarded[0], guarded[1]);
      }
      comm.unlock(exclusive);
    }
  });
  EXPECT_EQ(guarded[0], 6 * 500 / 3);
}

TEST(LocalComm, LetsTwoReadersInAtOnce) {
  run_ranks(2, [](Comm& comm) {
    comm.lock(false);
    EXPECT_TRUE(comm.barrier().ok());  // both are inside
    comm.unlock(false);
  });
}

TEST(LocalComm, DuplicatesAreSeparate) {
  run_ranks(3, [](Comm& comm) {
    auto other = comm.duplicate();
    ASSERT_TRUE(other.ok());
    comm.fetch_add(0, 1);
    other.value()->fetch_add(0, 10);
    const Verdict verdict = other.value()->agree(comm.topology().rank == 2 ? failure(Code::kIo, 5) : Verdict{});
    EXPECT_EQ(verdict.rank, 2);
    EXPECT_TRUE(comm.barrier().ok());
    EXPECT_EQ(comm.load(0), 3);
    EXPECT_EQ(other.value()->load(0), 30);
  });
}

TEST(LocalComm, AgreesFromAnotherThread) {
  run_ranks(3, [](Comm& comm) {
    ASSERT_TRUE(comm.may_agree_in_background());
    auto other = comm.duplicate();
    ASSERT_TRUE(other.ok());
    std::thread worker([&] {
      for (int i = 0; i < 200; ++i)
        EXPECT_EQ(other.value()->agree(comm.topology().rank == 1 ? failure(Code::kIo, i) : Verdict{}).system_errno, i);
    });
    for (int i = 0; i < 200; ++i) EXPECT_TRUE(comm.agree({}).ok());
    worker.join();
  });
}

TEST(LocalComm, ARankThatThrowsLeavesNobodyHanging) {
  std::atomic<int> told{0};
  const auto body = [&told](Comm& comm) {
    if (comm.topology().rank == 1) {
      comm.lock(true);
      throw std::logic_error("rank 1 is unwell");
    }
    if (comm.barrier().code() == Code::kIntern) ++told;
    if (!comm.agree({}).ok()) ++told;
    comm.lock(true);
    comm.unlock(true);
  };
  EXPECT_THROW(run_ranks(4, body), std::logic_error);
  EXPECT_EQ(told, 6);
}

TEST(LocalComm, ARankThatReturnsEarlyIsReported) {
  EXPECT_THROW(run_ranks(3,
                         [](Comm& comm) {
                           if (comm.topology().rank == 2) return;
                           EXPECT_FALSE(comm.barrier().ok());
                         }),
               std::runtime_error);
}

}  // namespace
}  // namespace penstock::comm
