// What ranks of a node share in memory: how a sleeper is looked after.
#include "comm/node_state.h"

#include <gtest/gtest.h>
#include <sys/time.h>

#include <cerrno>
#include <csignal>
#include <ctime>
#include <thread>
#include <vector>

namespace penstock::comm {
namespace {

std::int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

struct Poked {
  int times;
  int wanted;
  std::int64_t until_ns;  ///< the test has failed then
  static bool poke(void* context) {
    auto& poked = *static_cast<Poked*>(context);
    return ++poked.times == poked.wanted || now_ns() > poked.until_ns;
  }
};

// What other ranks wait for may depend on the poke: a profiler's timer, whose signals end each nap before its time, must not keep it away.
TEST(FutexWord, ASleeperIsPokedUnderATimer) {
  struct sigaction ignore_it {};
  ignore_it.sa_handler = [](int) {};
  ignore_it.sa_flags = SA_RESTART;
  struct sigaction before {};
  ASSERT_EQ(sigaction(SIGALRM, &ignore_it, &before), 0);
  const itimerval often{{0, 500}, {0, 500}};
  ASSERT_EQ(setitimer(ITIMER_REAL, &often, nullptr), 0);
  FutexWord word;
  constexpr std::int64_t kNapNs = 50'000'000;
  Poked poked{0, 100, now_ns() + 20 * kNapNs};
  EXPECT_FALSE(word.wait_while(0, {.longest_nap_ns = kNapNs, .poke = &Poked::poke, .context = &poked}));
  const itimerval never{};
  setitimer(ITIMER_REAL, &never, nullptr);
  sigaction(SIGALRM, &before, nullptr);
  EXPECT_EQ(poked.times, poked.wanted);
}

TEST(FutexWord, ASleeperIsPokedWithoutSignals) {
  FutexWord word;
  Poked poked{0, 20, now_ns() + 2'000'000'000};  // not half as much when naps stay short
  EXPECT_FALSE(word.wait_while(0, {.longest_nap_ns = 1'000'000, .poke = &Poked::poke, .context = &poked}));
  EXPECT_EQ(poked.times, poked.wanted);
}

// Each wakes only whose turn it is, so the first reader wakes the second, and both are inside at once.
TEST(TicketLock, ReadersThatSleepAreAllLetIn) {
  TicketLock lock;
  FutexWord inside;
  lock.lock(true, 0);
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i)
    readers.emplace_back([&] {
      lock.lock(false, 0);
      inside.value.fetch_add(1);
      inside.wake();
      inside.wait_until(3, ~0U, {});
      lock.unlock(false);
    });
  for (int look = 0; look < 20'000; ++look) std::this_thread::yield();  // time for all to fall asleep
  lock.unlock(true);
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(inside.value.load(), 3U);
}

}  // namespace
}  // namespace penstock::comm
