// What the copy loop and the walk cost, beside loops written by hand for one length.
#include <benchmark/benchmark.h>

#include <cstring>
#include <vector>

#include "access/cursor.h"

namespace {

using penstock::Offset;
using namespace penstock::access;

constexpr Offset kPieces = 100000;
constexpr Offset kRanks = 2;

template <std::size_t kLength>
void by_hand(benchmark::State& state) {
  std::vector<std::byte> from(kLength * kPieces), to(kLength * kPieces * kRanks);
  for (auto _ : state) {
    for (Offset i = 0; i < kPieces; ++i) std::memcpy(to.data() + i * kRanks * kLength, from.data() + i * kLength, kLength);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * kLength * kPieces);
}

void copied(benchmark::State& state) {
  const Offset length = state.range(0);
  std::vector<std::byte> from(length * kPieces), to(length * kPieces * kRanks);
  for (auto _ : state) {
    copy_strided(to.data(), length * kRanks, from.data(), length, length, kPieces);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * length * kPieces);
}

/// The same bytes by way of a view: making the walk and taking its steps is part of the cost.
void zipped(benchmark::State& state, const Tiling& file, Offset size) {
  std::vector<std::byte> from(size), to(bounds_of(file, 0, size).end);
  const Tiling memory = bytes_at(0);
  for (auto _ : state) {
    Zip zip(file, 0, memory, 0, size);
    for (Step step; zip.next(step);)
      copy_strided(to.data() + step.file_offset, step.file_stride, from.data() + step.memory_offset, step.memory_stride,
                   step.length, step.count);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * size);
}

void interleaved_view(benchmark::State& state) {
  zipped(state, tile(*resized(0, kRanks * state.range(0), *elementary(state.range(0)))), state.range(0) * kPieces);
}

/// Rows of `range` elements of 8 bytes: a run per row.
void rows(benchmark::State& state) {
  const std::vector<Offset> sizes{kPieces / state.range(0), 2 * state.range(0)}, subsizes{sizes[0], state.range(0)}, starts{0, 0};
  const Type type = *subarray(sizes, subsizes, starts, Order::kC, *resized(0, 16, *elementary(8)));
  zipped(state, tile(type), type.size());
}

void irregular(benchmark::State& state) {
  std::vector<Offset> displacements;
  Offset at = 0;
  for (Offset i = 0; i < kPieces; ++i) displacements.push_back(at += 8 * (1 + i * i % 7));
  const Type type = *hindexed_block(1, displacements, *elementary(8));
  zipped(state, tile(type), type.size());
}

void one_short_access(benchmark::State& state) {
  const Tiling file = tile(*resized(0, 16, *elementary(8))), memory = bytes_at(0);
  Offset position = 0;
  for (auto _ : state) {
    Zip zip(file, position, memory, 0, 8);
    Step step;
    benchmark::DoNotOptimize(zip.next(step));
    position += 8;
  }
}

BENCHMARK(by_hand<1>);
BENCHMARK(by_hand<8>);
BENCHMARK(by_hand<16>);
BENCHMARK(by_hand<64>);
BENCHMARK(copied)->Arg(1)->Arg(2)->Arg(4)->Arg(8)->Arg(12)->Arg(16)->Arg(32)->Arg(64)->Arg(256);
BENCHMARK(interleaved_view)->Arg(8)->Arg(64);
BENCHMARK(rows)->Arg(2)->Arg(10)->Arg(100);
BENCHMARK(irregular);
BENCHMARK(one_short_access);

}  // namespace

BENCHMARK_MAIN();
