// How fast each strategy moves interleaved pieces: two processes, the pieces of one between those of the other, against
// the same copies made by hand into the mapped file.  What src/model/predict.cpp says of them can be compared with this.
//
//   micro_strategies [google-benchmark options]      files go to PENSTOCK_BENCH_DIRS (default "/dev/shm:/tmp")
// Name of a benchmark: directory/operation/strategy/piece bytes/gap factor.  Time: the slower process, from a common
// start; on a busy machine compare cpu_*, the processor time of the slower process.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "store/posix/posix_store.h"
#include "strategy/strategy.h"

namespace {

using namespace penstock;

constexpr int kProcesses = 2;

struct Case {
  std::string directory;
  bool write = false;
  std::string strategy;
  Offset piece_bytes = 8;
  Offset factor = 2;  ///< distance of pieces / piece length; at least the number of processes
  [[nodiscard]] Offset count() const {
    return std::clamp<Offset>((Offset{16} << 20) / piece_bytes, 16, 100'000) / (factor > 64 ? 64 : 1);
  }
  [[nodiscard]] Offset stride() const { return piece_bytes * factor; }
  [[nodiscard]] Offset span() const { return count() * stride(); }
};

/// Shared between the processes of one case.
struct Board {
  std::atomic<int> round = 0;
  std::atomic<int> finished = 0;
  std::atomic<bool> stop = false;
  std::atomic<std::int64_t> slowest_ns = 0;
  std::atomic<std::int64_t> started_ns = 0;
  std::atomic<std::int64_t> most_cpu_ns = 0;
  std::atomic<bool> failed = false;
};

bool by_hand(const Case& c, const std::string& path, int rank, std::byte* buffer) {
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  const Offset end = (c.count() - 1) * c.stride() + (rank + 1) * c.piece_bytes;
  if (c.write && fallocate(file, 0, end - 1, 1) != 0) return false;
  void* base =
      mmap(nullptr, static_cast<std::size_t>(end), PROT_READ | (c.write ? PROT_WRITE : 0), MAP_SHARED, file, 0);
  if (base == MAP_FAILED) return false;
  auto* mapped = static_cast<std::byte*>(base) + rank * c.piece_bytes;
  const auto length = static_cast<std::size_t>(c.piece_bytes);
  for (Offset i = 0; i < c.count(); ++i) {
    if (c.write)
      std::memcpy(mapped + i * c.stride(), buffer + i * c.piece_bytes, length);
    else
      std::memcpy(buffer + i * c.piece_bytes, mapped + i * c.stride(), length);
  }
  munmap(base, static_cast<std::size_t>(end));
  close(file);
  return true;
}

bool by_strategy(const Case& c, const std::string& path, int rank, std::byte* buffer) {
  store::PosixStore store;
  auto file = store.open(path, {.read = true, .write = true});
  if (!file) return false;
  const auto piece = access::contiguous(c.piece_bytes, *access::elementary(1));
  const auto spaced = access::resized(0, c.stride(), *piece);
  const access::Tiling view = access::tile(*spaced, rank * c.piece_bytes);
  const access::Tiling memory = access::bytes_at(0);
  trace::OpTrace trace(nullptr);
  const strategy::Access access{.store = **file,
                                .file = view,
                                .memory = memory,
                                .bytes = c.count() * c.piece_bytes,
                                .buffer = buffer,
                                .trace = trace};
  const auto run = c.write ? (c.strategy == "independent" ? strategy::write_independent
                              : c.strategy == "mapped"    ? strategy::write_mapped
                                                          : strategy::write_sieved)
                           : (c.strategy == "independent" ? strategy::read_independent
                              : c.strategy == "mapped"    ? strategy::read_mapped
                                                          : strategy::read_sieved);
  const Result<Offset> moved = run(access);
  if (!moved) std::fprintf(stderr, "%s\n", std::string(moved.status().text()).c_str());
  return moved.ok() && *moved == access.bytes && (*file)->close().ok();
}

std::int64_t cpu_ns() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

void raise(std::atomic<std::int64_t>& most, std::int64_t value) {
  std::int64_t seen = most.load();
  while (seen < value && !most.compare_exchange_weak(seen, value)) {
  }
}

void work(const Case& c, const std::string& path, int rank, Board& board) {
  std::vector<std::byte> buffer(static_cast<std::size_t>(c.count() * c.piece_bytes), std::byte(rank + 1));
  for (int round = 1;; ++round) {
    while (board.round.load() < round && !board.stop) sched_yield();
    if (board.stop) _exit(0);
    const std::int64_t cpu_before_ns = cpu_ns();
    const bool ok =
        c.strategy == "by_hand" ? by_hand(c, path, rank, buffer.data()) : by_strategy(c, path, rank, buffer.data());
    raise(board.most_cpu_ns, cpu_ns() - cpu_before_ns);
    raise(board.slowest_ns, trace::now_ns() - board.started_ns.load());
    for (std::size_t i = 0; i < buffer.size() && !c.write; i += 997)
      if (buffer[i] != std::byte(rank + 1)) board.failed = true;
    if (!ok) board.failed = true;
    ++board.finished;
  }
}

void fill(const Case& c, const std::string& path) {
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  std::vector<std::byte> block(static_cast<std::size_t>(c.stride()));
  for (int rank = 0; rank < kProcesses; ++rank)
    std::fill_n(block.begin() + rank * c.piece_bytes, c.piece_bytes, std::byte(rank + 1));
  const auto repeats = static_cast<std::size_t>(std::max<Offset>(1, (1 << 20) / c.stride()));
  std::vector<std::byte> blocks;
  for (std::size_t i = 0; i < repeats; ++i) blocks.insert(blocks.end(), block.begin(), block.end());
  for (Offset at = 0; at < c.span(); at += static_cast<Offset>(blocks.size()))
    if (pwrite(file, blocks.data(), std::min(blocks.size(), static_cast<std::size_t>(c.span() - at)), at) < 0)
      std::abort();
  close(file);
}

void measure(benchmark::State& state, const Case& c) {
  const std::string path = c.directory + "/penstock_bench_" + std::to_string(getpid());
  auto* board = new (mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Board;
  if (!c.write) fill(c, path);
  pid_t children[kProcesses];
  for (int rank = 0; rank < kProcesses; ++rank)
    if ((children[rank] = fork()) == 0) work(c, path, rank, *board);
  std::vector<double> seconds;
  std::vector<double> cpu_seconds;
  for (auto _ : state) {
    if (c.write) {  // a fresh file each time
      unlink(path.c_str());
      close(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    }
    board->finished = 0;
    board->slowest_ns = 0;
    board->most_cpu_ns = 0;
    board->started_ns = trace::now_ns();
    ++board->round;
    while (board->finished.load() < kProcesses) usleep(200);
    seconds.push_back(static_cast<double>(board->slowest_ns.load()) * 1e-9);
    cpu_seconds.push_back(static_cast<double>(board->most_cpu_ns.load()) * 1e-9);
    state.SetIterationTime(seconds.back());
  }
  board->stop = true;
  for (const pid_t child : children) waitpid(child, nullptr, 0);
  if (board->failed) state.SkipWithError("wrong bytes or an error");
  std::sort(seconds.begin(), seconds.end());
  std::sort(cpu_seconds.begin(), cpu_seconds.end());
  state.counters["best_ms"] = seconds.front() * 1e3;
  state.counters["median_ms"] = seconds[seconds.size() / 2] * 1e3;
  state.counters["cpu_best_ms"] = cpu_seconds.front() * 1e3;
  state.counters["cpu_median_ms"] = cpu_seconds[cpu_seconds.size() / 2] * 1e3;
  munmap(board, sizeof(Board));
  unlink(path.c_str());
}

void declare(const std::string& directory) {
  for (const bool write : {true, false})
    for (const Offset factor : {2, 16, 128, 1024})
      for (const Offset piece : {8, 64, 512, 4096, 65536}) {
        if (factor > 2 && piece * factor > (1 << 20)) continue;
        for (const char* strategy : {"by_hand", "independent", "mapped", "sieved"}) {
          const Case c{directory, write, strategy, piece, factor};
          const std::string name = directory + (write ? "/write/" : "/read/") + strategy + "/" + std::to_string(piece) +
                                   "/" + std::to_string(factor);
          benchmark::RegisterBenchmark(name.c_str(), [c](benchmark::State& state) { measure(state, c); })
              ->UseManualTime()
              ->Iterations(9)
              ->Unit(benchmark::kMillisecond);
        }
      }
}

}  // namespace

int main(int argc, char** argv) {
  const char* given = std::getenv("PENSTOCK_BENCH_DIRS");
  std::string directories = given != nullptr ? given : "/dev/shm:/tmp";
  for (std::size_t at = 0; at <= directories.size();) {
    const std::size_t end = std::min(directories.find(':', at), directories.size());
    declare(directories.substr(at, end - at));
    at = end + 1;
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
