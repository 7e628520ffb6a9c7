// The group of ranks over MPI, on any number of ranks: topology, collectives, agreement, words, lock, and what happens without shared memory.
// A plain MPI program: silent and exit code 0 when all is well; the first disappointment is printed and aborts the job.
//   comm_test [--multiple] [--latency] [--no-windows]
// --multiple asks for MPI_THREAD_MULTIPLE; --latency measures and prints instead; --no-windows says that MPI has no one-sided communication
#include <dlfcn.h>
#include <fcntl.h>
#include <mpi.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "comm/errands.h"
#include "comm/mpi/mpi_comm.h"
#include "comm/segment_pool.h"

using namespace penstock;
using comm::Comm;
using comm::Verdict;

namespace {

std::atomic<bool> refuse_shared_memory{false};
bool no_windows = false;
std::set<std::string> names;  // of our shared memory, as this rank opened it

int world_rank = 0;
int world_size = 1;
const char* at = "start";

void fail(const char* file, int line, const char* what) {
  std::fprintf(stderr, "%s:%d: rank %d of %d, %s: expected %s\n", file, line, world_rank, world_size, at, what);
  PMPI_Abort(MPI_COMM_WORLD, 1);
}
#define CHECK(condition) \
  if (!(condition)) fail(__FILE__, __LINE__, #condition)

std::unique_ptr<Comm> make(MPI_Comm mpi_comm) {
  auto made = comm::make_mpi_comm(mpi_comm);
  if (!made.ok()) fail(__FILE__, __LINE__, std::string(made.status().text()).c_str());
  return std::move(made).value();
}

Verdict failure(int system_errno) {
  return {.code = static_cast<std::int32_t>(Code::kNoSpace), .system_errno = system_errno, .rank = -1};
}

void check_topology(Comm& comm, int ranks_per_node) {
  at = "topology";
  const auto& topology = comm.topology();
  const int per_node = ranks_per_node > 0 ? ranks_per_node : topology.size;
  CHECK(static_cast<int>(topology.node_of_rank.size()) == topology.size);
  CHECK(topology.node == topology.rank / per_node);
  CHECK(topology.node_count == (topology.size + per_node - 1) / per_node);
  CHECK(topology.rank_in_node == topology.rank % per_node);
  CHECK(topology.ranks_in_node == std::min(per_node, topology.size - topology.node * per_node));
  for (int rank = 0; rank < topology.size; ++rank)
    CHECK(topology.node_of_rank[static_cast<std::size_t>(rank)] == rank / per_node);
}

void check_collectives(Comm& comm) {
  at = "collectives";
  const int rank = comm.topology().rank;
  const int size = comm.topology().size;
  CHECK(comm.barrier().ok());
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{256}, std::size_t{257}, std::size_t{300'000}})
    for (int root = 0; root < size; ++root) {
      std::vector<unsigned char> message(bytes, static_cast<unsigned char>(rank == root ? root + 1 : 0));
      CHECK(comm.broadcast(message.data(), bytes, root).ok());
      CHECK(std::count(message.begin(), message.end(), static_cast<unsigned char>(root + 1)) ==
            static_cast<std::ptrdiff_t>(bytes));
      const std::vector<unsigned char> mine(bytes, static_cast<unsigned char>(rank + 10));
      std::vector<unsigned char> all(bytes * static_cast<std::size_t>(size), 0);
      const auto all_there = [&] {
        for (std::size_t i = 0; i < all.size(); ++i)
          if (all[i] != static_cast<unsigned char>(i / bytes + 10)) return false;
        return true;
      };
      CHECK(comm.gather(mine.data(), bytes, rank == root ? all.data() : nullptr, root).ok());
      CHECK(rank != root || all_there());
      std::fill(all.begin(), all.end(), static_cast<unsigned char>(0));
      CHECK(comm.all_gather(mine.data(), bytes, all.data()).ok());
      CHECK(all_there());
    }
  // One straight after the other, with a rank that is late now and then.
  for (int round = 0; round < 200; ++round) {
    if (round % 50 == rank) std::this_thread::yield();
    std::vector<int> all(static_cast<std::size_t>(size), -1);
    const int mine = round * 100 + rank;
    CHECK(comm.all_gather(&mine, sizeof mine, all.data()).ok());
    for (int other = 0; other < size; ++other) CHECK(all[static_cast<std::size_t>(other)] == round * 100 + other);
    int word = rank == round % size ? -round : 1;
    CHECK(comm.broadcast(&word, sizeof word, round % size).ok());
    CHECK(word == -round);
  }
  Offset before = -1;
  Offset total = -1;
  const Offset large = Offset{1} << 40;
  CHECK(comm.exclusive_sum(large + rank, before, total).ok());
  CHECK(before == rank * large + rank * (rank - 1) / 2);
  CHECK(total == size * large + size * (size - 1) / 2);
  if (size > 1) CHECK(comm.exclusive_sum(INT64_MAX, before, total).code() == Code::kArgument);
}

void check_agreement(Comm& comm, int rounds) {
  const int size = comm.topology().size;
  for (int round = 0; round < rounds; ++round) {
    std::mt19937 random(static_cast<unsigned>(round));  // the same on all ranks, so that each knows what the others say
    int lowest = -1;
    Verdict mine;
    for (int rank = 0; rank < size; ++rank) {
      if (random() % static_cast<unsigned>(2 * size) != 0) continue;
      if (lowest < 0) lowest = rank;
      if (rank == comm.topology().rank) mine = failure(rank + 1000);
    }
    const Verdict verdict = comm.agree(mine);
    CHECK(verdict.ok() == (lowest < 0));
    if (lowest < 0) continue;
    CHECK(verdict.rank == lowest);
    CHECK(verdict.code == static_cast<int>(Code::kNoSpace));
    CHECK(verdict.system_errno == lowest + 1000);
  }
}

void check_agreement_in_background(Comm& comm) {
  at = "agreement in the background";
  auto duplicated = comm.duplicate();
  CHECK(duplicated.ok());
  if (!comm.may_agree_in_background()) return;
  std::thread worker([&] {
    const penstock::comm::ThreadOfOurs mark;
    check_agreement(*duplicated.value(), 500);
  });
  if (comm.topology().node_count == 1) {
    // The program may use MPI meanwhile.
    for (int i = 0; i < 20; ++i) PMPI_Barrier(MPI_COMM_WORLD);
  }
  check_agreement(comm, 500);
  worker.join();
}

void check_words(Comm& comm) {
  at = "shared words";
  const int size = comm.topology().size;
  const Offset rounds = comm.topology().node_count == 1 ? 2000 : 100;
  CHECK(comm.load(Comm::kSharedWords - 1) == 0);
  CHECK(comm.barrier().ok());
  Offset last = -1;
  for (Offset i = 0; i < rounds; ++i) {
    const Offset now = comm.fetch_add(Comm::kSharedWords - 1, 3);
    CHECK(now > last && now % 3 == 0);
    last = now;
  }
  CHECK(comm.barrier().ok());
  CHECK(comm.load(Comm::kSharedWords - 1) == 3 * rounds * size);
  CHECK(comm.load(0) == 0);
  CHECK(comm.barrier().ok());
  if (comm.topology().rank == size - 1) comm.store(0, INT64_MIN + 1);
  CHECK(comm.barrier().ok());
  CHECK(comm.load(0) == INT64_MIN + 1);
  CHECK(comm.barrier().ok());
}

// Words 1 and 2 are only ever changed together, in two steps that the lock must hide.
void check_lock(Comm& comm) {
  at = "lock";
  const int rounds = comm.topology().node_count == 1 ? 300 : 30;
  Offset written = 0;
  for (int i = 0; i < rounds; ++i) {
    const bool exclusive = (i + comm.topology().rank) % 3 == 0;
    comm.lock(exclusive);
    const Offset first = comm.load(1);
    CHECK(comm.load(2) == first);
    if (exclusive) {
      comm.store(1, first + 1);
      if (i % 16 == 0) std::this_thread::yield();
      comm.store(2, first + 1);
      ++written;
    }
    comm.unlock(exclusive);
  }
  Offset before = 0;
  Offset total = 0;
  CHECK(comm.exclusive_sum(written, before, total).ok());
  CHECK(comm.load(1) == total);
  // Readers do not keep each other out: all are inside when the barrier ends.
  comm.lock(false);
  CHECK(comm.barrier().ok());
  comm.unlock(false);
}

// Where MPI gives no window, nothing may be claimed, and the failure of an access is told by the next agreement, again and again.
void check_words_that_do_not_work(Comm& comm) {
  at = "words that do not work";
  CHECK(comm.words_and_lock().code() == Code::kUnsupported);
  CHECK(comm.barrier().ok());
  const int last = comm.topology().size - 1;
  if (comm.topology().rank == last) CHECK(comm.fetch_add(0, 1) == 0);
  for (int i = 0; i < 2; ++i) {
    const Verdict verdict = comm.agree({});
    CHECK(verdict.rank == last && verdict.code == static_cast<int>(Code::kUnsupported));
  }
}

void check_words_and_lock(Comm& comm) {
  if (no_windows && comm.topology().node_count > 1) return check_words_that_do_not_work(comm);
  CHECK(comm.words_and_lock().ok());
  check_words(comm);
  check_lock(comm);
}

// A large send that its receiver has not met yet needs MPI to be active in the sender, which waits in agree().
void check_progress(Comm& comm) {
  at = "progress of the program's messages";
  if (world_size < 2) return;
  std::vector<char> message(std::size_t{8} << 20, 'm');
  MPI_Request request = MPI_REQUEST_NULL;
  if (world_rank == 1) MPI_Isend(message.data(), static_cast<int>(message.size()), MPI_CHAR, 0, 7, MPI_COMM_WORLD, &request);
  if (world_rank == 0) {
    usleep(20'000);
    MPI_Recv(message.data(), static_cast<int>(message.size()), MPI_CHAR, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  CHECK(comm.agree({}).ok());
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/// The whole node as one team: memory that grows, and a member that cannot have it.
void check_team(Comm& comm) {
  at = "team";
  const auto& topology = comm.topology();
  auto made = comm.team(0, topology.ranks_in_node);
  CHECK(made.ok());
  comm::Team& team = **made;
  CHECK(team.size() == topology.ranks_in_node && team.place() == topology.rank_in_node);
  for (std::size_t ints = 100; ints <= 1'000'000; ints *= 100)
    for (int which = 0; which < comm::Team::kMemories; ++which) {
      const auto memory = team.memory(which, ints * sizeof(int));
      CHECK(memory.ok());
      auto* const words = reinterpret_cast<int*>(*memory);
      words[ints - 1 - static_cast<std::size_t>(team.place())] = 7 * which + team.place();
      CHECK(team.meet({}).ok());
      for (int place = 0; place < team.size(); ++place) CHECK(words[ints - 1 - static_cast<std::size_t>(place)] == 7 * which + place);
      CHECK(team.meet({}).ok());
      CHECK(*team.memory(which, 1) == *memory);
    }
  const Verdict verdict = team.meet(team.place() == team.size() - 1 ? failure(9) : Verdict{});
  CHECK(!verdict.ok() && verdict.system_errno == 9);
  if (team.size() > 1) {
    for (const int refusing : {0, team.size() - 1}) {
      refuse_shared_memory = team.place() == refusing;
      const auto refused = team.memory(1, 8'000'000);
      refuse_shared_memory = false;
      CHECK(!refused.ok());
    }
  }
  const auto again = team.memory(1, 8'000'000);
  CHECK(again.ok());
  reinterpret_cast<char*>(*again)[7'999'999 - team.place()] = 1;
  CHECK(team.meet({}).ok());
}

/// Memory goes from one team to the next, also where a member has let go of it meanwhile.
void check_memory_of_an_earlier_team(Comm& comm) {
  at = "memory of an earlier team";
  const auto& topology = comm.topology();
  constexpr std::size_t kBytes = 300'000;
  for (const bool one_lets_go : {false, true}) {
    for (int use = 0; use < 2; ++use) {
      auto made = comm.team(0, topology.ranks_in_node);
      CHECK(made.ok());
      comm::Team& team = **made;
      const auto memory = team.memory(0, kBytes);
      CHECK(memory.ok());
      (*memory)[kBytes - 1 - static_cast<std::size_t>(team.place())] = static_cast<std::byte>(team.place() + 1);
      CHECK(team.meet({}).ok());
      for (int place = 0; place < team.size(); ++place)
        CHECK((*memory)[kBytes - 1 - static_cast<std::size_t>(place)] == static_cast<std::byte>(place + 1));
      CHECK(team.meet({}).ok());
      if (topology.ranks_in_node == 1 || team.place() != 0) continue;
      if (use == 1) CHECK(team.memories_made() == 0);
      if (use == 0 && one_lets_go) CHECK(team.memories_made() == 1);
    }
    CHECK(comm.barrier().ok());
    if (one_lets_go || topology.rank_in_node != topology.ranks_in_node - 1) continue;
    while (comm::SegmentPool::of_process().take_fitting(kBytes, topology.ranks_in_node).has_value()) {
    }
  }
}

void check_everything(Comm& comm) {
  check_collectives(comm);
  check_team(comm);
  check_memory_of_an_earlier_team(comm);
  at = "agreement";
  check_agreement(comm, comm.topology().node_count == 1 ? 5000 : 500);
  check_agreement_in_background(comm);
  check_progress(comm);
  check_words_and_lock(comm);
}

void check_without_shared_memory(int refusing_rank) {
  at = "without shared memory";
  MPI_Comm fresh = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &fresh);
  refuse_shared_memory = world_rank == refusing_rank;
  auto comm = make(fresh);
  refuse_shared_memory = false;
  check_collectives(*comm);
  const auto team = comm->team(0, comm->topology().ranks_in_node);
  CHECK(team.ok() == (comm->topology().ranks_in_node == 1 || comm->topology().node != comm->topology().node_of_rank[static_cast<std::size_t>(refusing_rank)]));
  check_agreement(*comm, 300);
  check_words_and_lock(*comm);
  comm.reset();
  MPI_Comm_free(&fresh);
}

void check_kept_topology() {
  at = "topology kept on the communicator";
  MPI_Comm fresh = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, 0, -world_rank, &fresh);  // the other way round
  const char* wished = std::getenv("PENSTOCK_RANKS_PER_NODE");
  const std::string before = wished == nullptr ? "" : wished;
  setenv("PENSTOCK_RANKS_PER_NODE", "3", 1);
  auto first = make(fresh);
  setenv("PENSTOCK_RANKS_PER_NODE", "1", 1);
  auto second = make(fresh);
  CHECK(second->topology().rank == world_size - 1 - world_rank);
  CHECK(second->topology().node_of_rank == first->topology().node_of_rank);
  MPI_Comm duplicate = MPI_COMM_NULL;
  MPI_Comm_dup(fresh, &duplicate);
  auto third = make(duplicate);
  CHECK(third->topology().node_of_rank == first->topology().node_of_rank);
  MPI_Comm_free(&duplicate);

  MPI_Comm_split(MPI_COMM_WORLD, 0, world_rank, &duplicate);
  for (const char* nonsense : {"0", "-4", "many", "2 "}) {
    setenv("PENSTOCK_RANKS_PER_NODE", world_rank == 0 ? nonsense : "2", 1);
    const auto refused = comm::make_mpi_comm(duplicate);
    CHECK(world_size == 1 || refused.status().code() == Code::kArgument);
  }
  setenv("PENSTOCK_RANKS_PER_NODE", before.c_str(), 1);
  MPI_Comm_free(&duplicate);
  third.reset();
  second.reset();
  first.reset();
  MPI_Comm_free(&fresh);
}

void check_intercommunicator() {
  at = "intercommunicator";
  if (world_size < 2) return;
  MPI_Comm half = MPI_COMM_NULL;
  MPI_Comm inter = MPI_COMM_NULL;
  const bool low = world_rank < world_size / 2;
  MPI_Comm_split(MPI_COMM_WORLD, low ? 0 : 1, world_rank, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, low ? world_size / 2 : 0, 3, &inter);
  CHECK(comm::make_mpi_comm(inter).status().code() == Code::kComm);
  MPI_Comm_free(&inter);
  MPI_Comm_free(&half);
}

void check_no_name_left() {
  at = "names in shared memory";
  for (const std::string& name : names) {
    errno = 0;
    CHECK(shm_open(name.c_str(), O_RDONLY, 0) < 0 && errno == ENOENT);
  }
}

/// Where the processes of one node cannot carry errands, no rank may count on them.  The last check: a promise is for ever.
void check_errands_of_some(const Comm& world) {
  at = "errands that only some carry";
  if (world.topology().node == 0) comm::Errands::of_process().promise_progress();
  MPI_Comm fresh = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &fresh);
  auto comm = make(fresh);
  const char mine = comm->may_agree_in_background() ? 1 : 0;
  std::vector<char> all(static_cast<std::size_t>(world_size), -1);
  CHECK(comm->all_gather(&mine, 1, all.data()).ok());
  CHECK(std::count(all.begin(), all.end(), mine) == world_size);
  comm.reset();
  MPI_Comm_free(&fresh);
}

template <typename Call>
double microseconds_per(int rounds, Call call) {
  PMPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < rounds / 10; ++i) call();
  const double start = MPI_Wtime();
  for (int i = 0; i < rounds; ++i) call();
  return (MPI_Wtime() - start) / rounds * 1e6;
}

void print_latency(Comm& comm) {
  const int rounds = 1000;
  const int mpi_rounds = world_size > 2 ? 10 : 1000;  // where ranks share cores, a call of MPI takes many milliseconds
  double agree[5];
  double barrier[5];
  double sum[5];
  double allgather[5];
  Offset before = 0;
  Offset total = 0;
  std::vector<Offset> all(static_cast<std::size_t>(world_size));
  for (int repeat = 0; repeat < 5; ++repeat) {
    agree[repeat] = microseconds_per(rounds, [&] { (void)comm.agree({}); });
    barrier[repeat] = microseconds_per(mpi_rounds, [] { PMPI_Barrier(MPI_COMM_WORLD); });
    sum[repeat] = microseconds_per(rounds, [&] { (void)comm.exclusive_sum(1, before, total); });
    allgather[repeat] = microseconds_per(
        mpi_rounds, [&] { PMPI_Allgather(&before, 1, MPI_INT64_T, all.data(), 1, MPI_INT64_T, MPI_COMM_WORLD); });
  }
  const double make_us = microseconds_per(mpi_rounds / 10 + 5, [] { make(MPI_COMM_WORLD); });
  const auto print = [](const char* what, double(&times)[5]) {
    std::sort(times, times + 5);
    if (world_rank == 0) std::printf("  %-15s %8.2f us (%.2f to %.2f)\n", what, times[2], times[0], times[4]);
  };
  if (world_rank == 0) std::printf("%d ranks, %d nodes; make and free %.0f us\n", world_size, comm.topology().node_count, make_us);
  print("agree", agree);
  print("PMPI_Barrier", barrier);
  print("exclusive_sum", sum);
  print("PMPI_Allgather", allgather);
}

}  // namespace

// Stands before the C library's, so that a rank can be refused what it asks for.
extern "C" int shm_open(const char* name, int flags, mode_t mode) {
  using Open = int (*)(const char*, int, mode_t);
  static const auto real = reinterpret_cast<Open>(dlsym(RTLD_NEXT, "shm_open"));
  if (std::strncmp(name, "/penstock-", 10) == 0) {
    if (refuse_shared_memory) {
      errno = EMFILE;
      return -1;
    }
    names.insert(name);
  }
  return real(name, flags, mode);
}

int main(int argc, char** argv) {
  alarm(300);  // a hang is a failure
  bool multiple = false;
  bool latency = false;
  for (int i = 1; i < argc; ++i) {
    multiple = multiple || std::string_view(argv[i]) == "--multiple";
    latency = latency || std::string_view(argv[i]) == "--latency";
    no_windows = no_windows || std::string_view(argv[i]) == "--no-windows";
  }
  int provided = 0;
  MPI_Init_thread(&argc, &argv, multiple ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world_size);
  const char* wished = std::getenv("PENSTOCK_RANKS_PER_NODE");
  const int ranks_per_node = wished == nullptr ? 0 : std::atoi(wished);

  auto world = make(MPI_COMM_WORLD);
  if (latency) {
    print_latency(*world);
  } else {
    check_topology(*world, ranks_per_node);
    check_everything(*world);
    auto self = make(MPI_COMM_SELF);
    check_topology(*self, 0);
    check_everything(*self);
    check_kept_topology();
    check_intercommunicator();
    check_without_shared_memory(0);
    check_without_shared_memory(world_size - 1);
    check_no_name_left();
    check_errands_of_some(*world);
  }
  auto never_freed_by_mpi = world->duplicate();
  world.reset();
  at = "after MPI_Finalize";
  MPI_Finalize();
  return never_freed_by_mpi.ok() ? 0 : 1;
}
