// Random views, random memory, every strategy and store against the byte-by-byte truth; and many writers at once on one
// file.
#include "strategy/strategy.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <random>
#include <set>
#include <sstream>
#include <string_view>
#include <thread>

#include "file/sieve_lock.h"
#include "oracle/access_type.h"
#include "oracle/datatype.h"
#include "oracle/random_datatype.h"
#include "store/memory/memory_store.h"
#include "store/posix/posix_store.h"
#include "support/temporary_file.h"

namespace penstock::strategy {
namespace {

using oracle::Number;

struct Strategy {
  const char* name;
  Result<Offset> (*read)(const Access&);
  Result<Offset> (*write)(const Access&);
};
constexpr Strategy kStrategies[] = {{"independent", read_independent, write_independent},
                                    {"mapped", read_mapped, write_mapped},
                                    {"sieved", read_sieved, write_sieved}};

/// Number of random cases: PENSTOCK_RANDOM_CASES, or few enough for every build.
std::uint64_t random_cases() {
  const char* given = std::getenv("PENSTOCK_RANDOM_CASES");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : 150;
}

/// A repeated datatype as the oracle sees it, with the bounds worked out once.
struct Places {
  Places(const oracle::Datatype& type, Number displacement)
      : map(oracle::expand(type)), extent(map.extent()), displacement(displacement) {}
  [[nodiscard]] Number offset_of(Number position) const {
    const auto size = static_cast<Number>(map.bytes.size());
    return map.bytes[static_cast<std::size_t>(position % size)].offset + displacement + position / size * extent;
  }
  oracle::Typemap map;
  Number extent;
  Number displacement;
};

using Bytes = std::vector<std::uint8_t>;

/// A store with one file in it, and the truth about that file.
class Subject {
 public:
  Subject(store::Store& store, const std::string& path) {
    Result<std::unique_ptr<store::File>> opened = store.open(path, {.read = true, .write = true, .create = true});
    EXPECT_TRUE(opened.ok()) << opened.status().text();
    file = std::move(*opened);
    EXPECT_TRUE(file->resize(0).ok());
  }
  [[nodiscard]] Bytes content() const {
    Bytes bytes(static_cast<std::size_t>(*file->size()) + 1);
    store::Transfer transfer{0, reinterpret_cast<std::byte*>(bytes.data()), bytes.size()};
    EXPECT_TRUE(file->read(std::span(&transfer, 1)).ok());
    bytes.resize(transfer.done);
    return bytes;
  }
  std::unique_ptr<store::File> file;
  Bytes truth;
};

/// A buffer that the memory's offsets of `bytes` data bytes fit in, with room to be disturbed on both sides.
struct Buffer {
  Buffer(const Places& memory, Number position, Number bytes, std::mt19937_64& random) {
    Number lowest = 0, highest = 0;
    for (Number i = 0; i < bytes; ++i) {
      const Number offset = memory.offset_of(position + i);
      lowest = std::min(lowest, offset);
      highest = std::max(highest, offset);
    }
    origin = 16 - lowest;
    content.resize(static_cast<std::size_t>(highest - lowest + 33));
    for (std::uint8_t& byte : content) byte = static_cast<std::uint8_t>(random());
  }
  std::uint8_t& at(Number offset) { return content[static_cast<std::size_t>(origin + offset)]; }
  std::byte* base() { return reinterpret_cast<std::byte*>(content.data() + origin); }
  Number origin = 0;
  Bytes content;
};

bool overlaps(const Places& places, Number position, Number bytes) {
  std::set<Number> seen;
  for (Number i = 0; i < bytes; ++i)
    if (!seen.insert(places.offset_of(position + i)).second) return true;
  return false;
}

/// One random sequence of accesses through one view; "" or what went wrong.
std::string check(Subject& subject, std::uint64_t seed, Number size) {
  std::mt19937_64 random(seed);
  const auto between = [&](Number low, Number high) {
    return std::uniform_int_distribution<Number>(low, high)(random);
  };
  oracle::Datatype filetype = oracle::RandomDatatype(seed, {.size = size, .for_file = true}).make();
  if (between(0, 3) == 0)  // room for gaps that end a window, and for sparse pages
    filetype = oracle::resized(0, oracle::expand(filetype).upper_bound() + (Number{1} << between(6, 17)), filetype);
  const Number displacement = between(0, 100);
  const Places file(filetype, displacement);
  const Result<access::Type> file_type = oracle::access_type(filetype);
  if (!file_type.ok()) return "the filetype could not be made";
  if (file.map.bytes.empty()) return "";
  const access::Tiling view = access::tile(*file_type, displacement);
  if (!access::is_monotone(view) || access::overlaps_itself(view)) return "";

  EXPECT_TRUE(subject.file->resize(0).ok());
  subject.truth.clear();
  for (int operation = 0; operation < 6; ++operation) {
    oracle::Datatype memory_datatype =
        between(0, 2) == 0 ? oracle::elementary(1) : oracle::RandomDatatype(random(), {.size = size}).make();
    if (oracle::expand(memory_datatype).bytes.empty()) memory_datatype = oracle::elementary(1);
    const bool write = operation == 0 || between(0, 1) == 0;
    const Number position = between(0, 50 * size);
    // Far pieces are slow to check: the truth is a byte for every offset.
    const Number bytes =
        between(0, file.extent > 1000 ? 40 * static_cast<Number>(file.map.bytes.size()) : 700 * size) %
        std::max<Number>(1, 3'000'000 * static_cast<Number>(file.map.bytes.size()) / (file.extent + 1));
    const Number memory_position = between(0, 20);
    if (!write && overlaps(Places(memory_datatype, 0), memory_position, bytes)) memory_datatype = oracle::elementary(1);
    const Places memory(memory_datatype, 0);
    const Result<access::Type> memory_type = oracle::access_type(memory_datatype);
    if (!memory_type.ok()) return "the memory type could not be made";
    const access::Tiling memory_tiling = access::tile(*memory_type);
    const Strategy& strategy = kStrategies[between(0, 2)];

    Buffer buffer(memory, memory_position, bytes, random);
    trace::OpTrace trace(nullptr);
    const Access access{.store = *subject.file,
                        .file = view,
                        .position = position,
                        .memory = memory_tiling,
                        .memory_position = memory_position,
                        .bytes = bytes,
                        .buffer = buffer.base(),
                        .trace = trace,
                        .buffer_bytes = std::array{Offset{49}, Offset{4096}, Offset{1} << 20}[static_cast<std::size_t>(between(0, 2))]};
    std::ostringstream words;
    words << (write ? "write " : "read ") << strategy.name << " of " << bytes << " bytes at position " << position
          << " of " << oracle::to_string(filetype) << " at " << displacement << ", memory "
          << oracle::to_string(memory_datatype) << " from " << memory_position << ": ";
    const std::string what = words.str();
    Buffer expected = buffer;
    if (write) {
      for (Number i = 0; i < bytes; ++i) {
        const auto offset = static_cast<std::size_t>(file.offset_of(position + i));
        if (offset >= subject.truth.size()) subject.truth.resize(offset + 1);
        subject.truth[offset] = buffer.at(memory.offset_of(memory_position + i));
      }
      const Result<Offset> moved = strategy.write(access);
      if (!moved.ok()) return what + std::string(moved.status().text());
      if (*moved != bytes) return what + "moved " + std::to_string(*moved);
    } else {
      Number there = 0;
      while (there < bytes && file.offset_of(position + there) < static_cast<Number>(subject.truth.size())) {
        expected.at(memory.offset_of(memory_position + there)) =
            subject.truth[static_cast<std::size_t>(file.offset_of(position + there))];
        ++there;
      }
      const Result<Offset> moved = strategy.read(access);
      if (!moved.ok()) return what + std::string(moved.status().text());
      if (*moved != there) return what + "moved " + std::to_string(*moved) + " instead of " + std::to_string(there);
    }
    if (buffer.content != expected.content) return what + "wrong bytes in memory";
    if (subject.content() != subject.truth) return what + "wrong bytes in the file";
  }
  return "";
}

class Random : public testing::TestWithParam<const char*> {
 protected:
  Random()
      : mappable_({.can_map = true}),
        name_(std::string(GetParam()) == "temporary_directory" ? test::TemporaryFile::default_directory()
                                                               : "/dev/shm") {}
  store::Store& store() {
    const std::string kind = GetParam();
    if (kind == "memory") return plain_;
    if (kind == "mappable_memory") return mappable_;
    return posix_;
  }
  store::MemoryStore plain_, mappable_;
  store::PosixStore posix_;
  test::TemporaryFile name_;
};

TEST_P(Random, ViewsAndMemoryAgainstTheTruth) {
  Subject subject(store(), name_.path());
  for (std::uint64_t seed = 1; seed <= random_cases(); ++seed) {
    const std::string failure = oracle::smallest_failure(
        seed, 6, [&](std::uint64_t one_seed, Number size) { return check(subject, one_seed, size); });
    ASSERT_EQ(failure, "");
  }
}

/// Leaves the processor after some reads: what a sieving write does between reading and putting back then takes long.
class Hesitating final : public store::ForwardingFile {
 public:
  using ForwardingFile::ForwardingFile;
  Status read(std::span<store::Transfer> batch) override {
    Status status = inner_->read(batch);
    if (++reads_ % 16 == 0) std::this_thread::yield();
    return status;
  }

 private:
  int reads_ = 0;
};

/// Writers on files of their own, each with bytes of its own, dense between each other's; some may sieve, some do not.
TEST_P(Random, DisjointWritersLoseNothing) {
  constexpr int kWriters = 4;
  constexpr Number kPieces = 1000;
  const bool store_is_our_memory = std::string_view(GetParam()) == "mappable_memory";
  for (std::uint64_t seed = 1; seed <= random_cases() / 6; ++seed) {  // one takes as long as several of the others
    std::mt19937_64 setup(seed);
    const Number length = std::uniform_int_distribution<Number>(1, 40)(setup);
    const Number distance = kWriters * length;
    { Subject fresh(store(), name_.path()); }
    std::vector<std::thread> writers;
    std::array<std::string, kWriters> failures;
    for (int writer = 0; writer < kWriters; ++writer)
      writers.emplace_back([&, writer] {
        std::mt19937_64 random(seed * 100 + static_cast<unsigned>(writer));
        const auto between = [&](Number low, Number high) {
          return std::uniform_int_distribution<Number>(low, high)(random);
        };
        const auto type = access::resized(0, distance, *access::contiguous(length, *access::elementary(1)));
        const access::Tiling view = access::tile(*type, writer * length), memory = access::bytes_at(0);
        trace::OpTrace trace(nullptr);
        Bytes mine(static_cast<std::size_t>(kPieces * length));
        // Opened and closed several times, so that rights come and go under the others.
        for (int opening = 0; opening < 3; ++opening) {
          Result<std::unique_ptr<store::File>> opened = store().open(name_.path(), {.read = true, .write = true});
          if (!opened.ok()) {
            failures[static_cast<std::size_t>(writer)] = opened.status().text();
            return;
          }
          Hesitating file(std::move(*opened));
          file::SieveLock sieve_lock;
          const bool wants_sieving = between(0, 1) == 0;
          for (int round = 0; round < 8; ++round) {
            Number bytes = between(1, kPieces * length / 2);
            Number position = between(0, kPieces * length - bytes);
            if (opening == 2 && round == 7) {
              position = 0;
              bytes = kPieces * length;
            }
            Bytes buffer(static_cast<std::size_t>(bytes),
                         static_cast<std::uint8_t>(writer * 50 + opening * 8 + round + 1));
            const Access access{.store = file,
                                .file = view,
                                .position = position,
                                .memory = memory,
                                .bytes = bytes,
                                .buffer = reinterpret_cast<std::byte*>(buffer.data()),
                                .trace = trace,
                                .buffer_bytes = 4096};
            const Result<file::WriteRight> right = sieve_lock.acquire(file, wants_sieving);
            Result<Offset> moved = right.ok() ? Result<Offset>(Offset{0}) : Result<Offset>(right.status());
            if (right.ok() && *right == file::WriteRight::kMaySieve && between(0, 2) > 0) {
              moved = write_sieved(access);
            } else if (right.ok()) {
              const access::Bounds span = access::bounds_of(view, position, bytes);
              const auto guard = file::WriteGuard::lock(file, *right, span.first, span.end);
              if (guard.ok()) moved = between(0, 1) == 0 ? write_independent(access) : write_mapped(access);
            }
            if (!moved.ok() || *moved != bytes)
              failures[static_cast<std::size_t>(writer)] = moved.ok() ? "short" : std::string(moved.status().text());
            // What was written stays, whatever the neighbours do.
            std::copy(buffer.begin(), buffer.end(), mine.begin() + position);
            Bytes back(mine.size());
            Access whole{.store = file,
                         .file = view,
                         .memory = memory,
                         .bytes = kPieces * length,
                         .buffer = reinterpret_cast<std::byte*>(back.data()),
                         .trace = trace};
            // A sieving read takes neighbours' bytes along and throws them away. From a file that is plain memory of this process, into which they
            // copy through their mappings at that moment, it would be a data race; the kernel's copy from a real file is none.
            const Result<Offset> there = store_is_our_memory ? read_independent(whole) : read_sieved(whole);
            back.resize(mine.size());
            if (!there.ok() || back != mine)
              failures[static_cast<std::size_t>(writer)] = "lost bytes in round " + std::to_string(round);
          }
        }
      });
    for (std::thread& writer : writers) writer.join();
    for (const std::string& failure : failures) ASSERT_EQ(failure, "");
    Result<std::unique_ptr<store::File>> opened = store().open(name_.path(), {});
    ASSERT_TRUE(opened.ok());
    Bytes bytes(static_cast<std::size_t>(kPieces * distance) + 1);
    store::Transfer transfer{0, reinterpret_cast<std::byte*>(bytes.data()), bytes.size()};
    ASSERT_TRUE((*opened)->read(std::span(&transfer, 1)).ok());
    ASSERT_EQ(transfer.done, static_cast<std::size_t>(kPieces * distance));
    // The last round of each writer covered all of its bytes.
    for (Number i = 0; i < kPieces * distance; ++i)
      ASSERT_EQ(bytes[static_cast<std::size_t>(i)], i / length % kWriters * 50 + 24)
          << "offset " << i << ", seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Stores, Random, testing::Values("memory", "mappable_memory", "tmpfs", "temporary_directory"),
                         [](const auto& info) { return std::string(info.param); });

/// Larger than any window of a strategy, so that pieces are cut by windows.
TEST(Large, PiecesAcrossWindows) {
  store::MemoryStore store({.can_map = true});
  const auto file = std::move(*store.open("a", {.read = true, .write = true, .create = true}));
  const Offset length = 1000, distance = 3333, bytes = 30'000 * length;  // spans 100 MB
  const access::Tiling view =
      access::tile(*access::resized(0, distance, *access::contiguous(length, *access::elementary(1))), 77);
  const access::Tiling memory = access::bytes_at(0);
  Bytes content(static_cast<std::size_t>(bytes));
  std::mt19937_64 random(1);
  for (std::uint8_t& byte : content) byte = static_cast<std::uint8_t>(random());
  trace::OpTrace trace(nullptr);
  Access access{.store = *file,
                .file = view,
                .memory = memory,
                .bytes = bytes,
                .buffer = reinterpret_cast<std::byte*>(content.data()),
                .trace = trace};
  for (const Strategy& writer : kStrategies) {
    ASSERT_TRUE(file->resize(0).ok());
    access.buffer = reinterpret_cast<std::byte*>(content.data());
    ASSERT_EQ(*writer.write(access), bytes) << writer.name;
    ASSERT_EQ(*file->size(), 77 + 29'999 * distance + length);
    for (const Strategy& reader : kStrategies) {
      Bytes back(static_cast<std::size_t>(bytes));
      access.buffer = reinterpret_cast<std::byte*>(back.data());
      ASSERT_EQ(*reader.read(access), bytes) << reader.name;
      ASSERT_TRUE(back == content) << writer.name << " then " << reader.name;
    }
  }
}

}  // namespace
}  // namespace penstock::strategy
