// Sequences of collective calls on one file, in which a call often repeats an earlier one, the same or further on, or in all but one thing: against a
// plain array of bytes that every rank's bytes are put into.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <set>

#include "comm/local/local_comm.h"
#include "file/file.h"
#include "store/memory/memory_store.h"
#include "support/races.h"

namespace penstock {
namespace {

using Random = std::mt19937_64;
using Bytes = std::vector<std::byte>;

Offset below(Random& random, Offset limit) { return static_cast<Offset>(random() % static_cast<std::uint64_t>(limit)); }

std::uint64_t cases(std::uint64_t usual) {
  const char* given = std::getenv("PENSTOCK_RANDOM_CASES");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : usual;
}

/// A filetype as the lists that it is made of, so that it can be made again and changed.
struct Blocks {
  std::vector<Offset> offsets, lengths;
  Offset extent = 1;

  [[nodiscard]] access::Type made() const { return *access::resized(0, extent, *access::hindexed(lengths, offsets, *access::elementary(1))); }
};

struct Part {
  Blocks blocks;
  access::Type type;
  Offset displacement = 0;
  Offset position = 0;
  Offset bytes = 0;
  bool scattered = false;  ///< in memory

  [[nodiscard]] access::Tiling filetype() const { return access::tile(type, displacement); }
};

struct Call {
  std::vector<Part> parts;
  bool write = true;
  int failing = -1;   ///< this rank has met a failure before
  Offset resize = -1;  ///< what the file is cut or grown to before
  bool atomic = false;
  bool background = false;
};

/// Of a part of the file, every block is some rank's or nobody's.
std::vector<Part> new_parts(Random& random, int ranks) {
  std::vector<Part> parts(static_cast<std::size_t>(ranks));
  const bool regular = below(random, 2) == 0;
  // Now and then so many that their description is not told whole.
  const Offset blocks = 1 + (below(random, 5) == 0 ? 100 + below(random, 200) : below(random, 20)), length = 1 + below(random, 20), displacement = below(random, 200);
  Offset at = 0;
  for (Offset block = 0; block < blocks; ++block)
    for (int rank = 0; rank < ranks; ++rank) {
      const Offset this_length = regular ? length : 1 + below(random, 20);
      const bool taken = regular || below(random, 3) > 0;
      if (taken) {
        Blocks& mine = parts[static_cast<std::size_t>(regular ? rank : below(random, ranks))].blocks;
        mine.offsets.push_back(at);
        mine.lengths.push_back(this_length);
      }
      at += this_length;
    }
  for (Part& part : parts) {
    part.blocks.extent = at + (regular ? 0 : below(random, 10));
    part.type = part.blocks.made();
    part.displacement = displacement;
    if (part.type.size() == 0 || below(random, 5) == 0) continue;
    part.position = below(random, 2 * part.type.size());
    part.bytes = below(random, 3 * part.type.size());
    part.scattered = below(random, 3) == 0;
  }
  if (below(random, 8) == 0) {  // all access the same, or some of them
    const Part same = parts[0];
    for (Part& part : parts)
      if (below(random, 4) > 0) part = same;
  }
  // Where one extent is larger than another, copies of one rank lie among others' next ones; that is no view's fault.
  return parts;
}

/// As `call`, but for one thing of one rank or of all.
Call changed(Random& random, Call call) {
  Part& one = call.parts[static_cast<std::size_t>(below(random, static_cast<Offset>(call.parts.size())))];
  const bool has_type = one.type.size() > 0;
  switch (below(random, 12)) {
    case 0:
      one.displacement += 1 + below(random, 9);
      break;
    case 1: {  // all by as much
      const Offset shift = below(random, 300);
      for (Part& part : call.parts) part.displacement += shift;
      break;
    }
    case 2:  // all by whole copies
      for (Part& part : call.parts) part.position += 2 * part.type.size();
      break;
    case 3:
      if (has_type) one.position += one.type.size();
      break;
    case 4:
      if (has_type) one.position += 1;
      break;
    case 5:
      if (has_type) one.bytes += 1;
      break;
    case 6:
      one.bytes = 0;
      break;
    case 7:  // another type of the same size and extent
      if (one.blocks.offsets.size() > 1) {
        const std::size_t i = one.blocks.offsets.size() / 2;
        if (one.blocks.offsets[i - 1] + one.blocks.lengths[i - 1] < one.blocks.offsets[i]) --one.blocks.offsets[i];
        one.type = one.blocks.made();
      }
      break;
    case 8:  // the same types, made anew: where the old ones lay there may lie others
      for (Part& part : call.parts) {
        part.type = {};
        part.type = part.blocks.made();
      }
      break;
    case 9:
      one.scattered = !one.scattered;
      break;
    case 10:
      call.resize = below(random, 2500);
      break;
    case 11:
      for (Part& part : call.parts) {
        const Offset back = std::min<Offset>(part.displacement, 5);
        part.displacement -= call.parts[0].displacement >= 5 ? back : 0;
      }
      break;
  }
  return call;
}

/// Whether ranks reach the same bytes.
bool ranks_meet(const Call& call) {
  std::set<Offset> reached;
  for (const Part& part : call.parts)
    for (Offset p = part.position; p < part.position + part.bytes; ++p)
      if (!reached.insert(access::offset_of(part.filetype(), p)).second) return true;
  return false;
}

struct Sequence {
  int ranks = 1;
  int ranks_per_node = 1;
  store::Traits traits;
  hints::Hints hints = hints::defaults();
  std::vector<Call> calls;
};

Sequence make_sequence(std::uint64_t seed) {
  Random random(seed);
  Sequence made;
  made.ranks = static_cast<int>(1 + below(random, 6));
  made.ranks_per_node = static_cast<int>(1 + below(random, made.ranks));
  constexpr hints::Strategy kStrategies[] = {hints::Strategy::kTwoPhase, hints::Strategy::kTwoLayer, hints::Strategy::kAutomatic};
  made.hints.strategy = kStrategies[below(random, 3)];
  made.traits.node_local = made.traits.coherent_between_nodes = false;  // there Penstock aggregates by itself
  made.traits.block_bytes = 1 + below(random, below(random, 2) == 0 ? 8 : 300);
  if (below(random, 3) == 0) {
    made.traits.stripe_bytes = 1 + below(random, 200);
    made.traits.stripe_count = static_cast<int>(1 + below(random, 5));
  }
  made.hints.local_aggregators = static_cast<int>(below(random, 4));
  made.hints.collective_buffer_bytes = 1 + below(random, below(random, 2) == 0 ? 64 : 1000);
  made.hints.aggregators = static_cast<int>(below(random, made.ranks + 2));
  const Offset count = 4 + below(random, 12);
  for (Offset i = 0; i < count; ++i) {
    if (made.calls.empty() || below(random, 8) == 0) {
      made.calls.push_back({new_parts(random, made.ranks)});
    } else {
      // One of the last few: a program takes turns among its views.
      const auto back = static_cast<std::size_t>(1 + below(random, std::min<Offset>(i, 3)));
      Call call = made.calls[made.calls.size() - back];
      call.resize = -1;
      made.calls.push_back(below(random, 3) == 0 ? std::move(call) : changed(random, std::move(call)));
    }
    made.calls.back().write = below(random, 2) == 0 && !(kRacesAreTold && ranks_meet(made.calls.back()));
    made.calls.back().failing = below(random, 20) == 0 ? static_cast<int>(below(random, made.ranks)) : -1;
    made.calls.back().background = below(random, 4) == 0;
    made.calls.back().atomic = below(random, 12) == 0;
  }
  return made;
}

/// What is written depends on the call and the place alone, so that ranks may write the same bytes.
std::byte value_of(std::size_t call, Offset offset) { return static_cast<std::byte>((static_cast<std::uint64_t>(offset) * 2654435761u + call * 97) >> 7); }

void put(const Part& part, std::size_t call, Bytes& file) {
  for (Offset p = part.position; p < part.position + part.bytes; ++p) {
    const Offset offset = access::offset_of(part.filetype(), p);
    if (offset >= static_cast<Offset>(file.size())) file.resize(static_cast<std::size_t>(offset) + 1);
    file[static_cast<std::size_t>(offset)] = value_of(call, offset);
  }
}

/// 3 bytes, 2 of none, 3, 1 of none.
access::Tiling scattered() { return access::tile(*access::resized(0, 9, *access::hvector(2, 3, 5, *access::elementary(1)))); }

struct Placed {
  access::Tiling memory;
  Bytes bytes;

  explicit Placed(const Part& part) : memory(part.scattered ? scattered() : access::bytes_at(0)), bytes(static_cast<std::size_t>(part.bytes * 2 + 9)) {}
  std::byte& at(Offset position) { return bytes[static_cast<std::size_t>(access::offset_of(memory, position))]; }
};

void check_read(const Part& part, Placed& memory, Offset moved, const Bytes& file) {
  Offset there = 0;
  while (there < part.bytes && access::offset_of(part.filetype(), part.position + there) < static_cast<Offset>(file.size())) ++there;
  ASSERT_EQ(moved, there);
  for (Offset i = 0; i < there; ++i)
    ASSERT_EQ(memory.at(i), file[static_cast<std::size_t>(access::offset_of(part.filetype(), part.position + i))]) << "data byte " << i;
}

Bytes contents(store::Store& store) {
  auto opened = store.open("file", {});
  if (!opened.ok()) return {};
  Bytes bytes(static_cast<std::size_t>(*(*opened)->size()));
  store::Transfer transfer{0, bytes.data(), bytes.size(), 0};
  EXPECT_TRUE((*opened)->read(std::span(&transfer, 1)).ok());
  return bytes;
}

void set_view(file::File& file, const Part& part, trace::OpTrace& trace) {
  file::View view;
  view.filetype = part.filetype();
  view.filetype_size = part.type.size();
  view.contiguous = false;
  ASSERT_TRUE(file.set_view(view, 0, trace, {}).ok());
}

/// A store with other traits.
class OtherFile final : public store::ForwardingFile {
 public:
  OtherFile(std::unique_ptr<store::File> inner, const store::Traits& traits) : ForwardingFile(std::move(inner)), traits_(traits) {}
  [[nodiscard]] const store::Traits& traits() const override { return traits_; }

 private:
  store::Traits traits_;
};

class OtherStore final : public store::Store {
 public:
  OtherStore(store::Store& inner, const store::Traits& traits) : inner_(inner), traits_(traits) {}
  penstock::Result<std::unique_ptr<store::File>> open(const std::string& path, const store::OpenOptions& options) override {
    auto opened = inner_.open(path, options);
    if (!opened.ok()) return opened;
    return std::unique_ptr<store::File>(std::make_unique<OtherFile>(std::move(*opened), traits_));
  }
  Status remove(const std::string& path) override { return inner_.remove(path); }

 private:
  store::Store& inner_;
  store::Traits traits_;
};

file::Outcome access(file::File& file, const file::Request& request, bool background, trace::OpTrace& trace, const Status& local) {
  if (!background) return file.access(request, trace, local);
  const auto pending = file.start(request, local, {}, {}, {});
  pending->wait();
  return pending->outcome();
}

/// Carries the calls out, and says how many of rank 0's went by an earlier plan.
std::int64_t carry_out(const Sequence& sequence) {
  store::MemoryStore memory_store;
  OtherStore store(memory_store, sequence.traits);
  Bytes expected;
  std::int64_t reused = 0;
  comm::run_ranks(
      sequence.ranks,
      [&](comm::Comm& group) {
        const int rank = group.topology().rank;
        trace::FileTrace counted;
        {
          trace::OpTrace trace(&counted);
          file::Mode mode;
          mode.read = mode.write = mode.create = true;
          auto opened = file::File::open(std::move(*group.duplicate()), store, "file", mode, sequence.hints, nullptr, {});
          ASSERT_TRUE(opened.ok()) << opened.status().text();
          file::File& file = **opened;
          for (std::size_t i = 0; i < sequence.calls.size(); ++i) {
            SCOPED_TRACE("call " + std::to_string(i) + " rank " + std::to_string(rank));
            const Call& call = sequence.calls[i];
            const Part& part = call.parts[static_cast<std::size_t>(rank)];
            if (call.resize >= 0) {
              ASSERT_TRUE(file.set_size(call.resize, trace, {}).ok());
              if (rank == 0) expected.resize(static_cast<std::size_t>(call.resize));
            }
            ASSERT_TRUE(file.set_atomicity(call.atomic, trace, {}).ok());
            set_view(file, part, trace);
            Placed memory(part);
            for (Offset p = 0; call.write && p < part.bytes; ++p) memory.at(p) = value_of(i, access::offset_of(part.filetype(), part.position + p));
            file::Request request;
            request.write = call.write;
            request.collective = true;
            request.offset_etypes = part.position;
            request.memory = memory.memory;
            request.memory_contiguous = !part.scattered;
            request.buffer = memory.bytes.data();
            request.bytes = part.bytes;
            // Where each rank may go to the file by itself, the others may have written.
            const bool fails = call.failing >= 0 && !call.atomic && sequence.hints.strategy != hints::Strategy::kAutomatic;
            const file::Outcome outcome =
                access(file, request, call.background, trace, fails && call.failing == rank ? Status::failure(Code::kArgument, "for a test") : Status());
            ASSERT_EQ(outcome.status.ok(), !fails) << outcome.status.text();
            if (rank == 0 && call.write && !fails)
              for (const Part& of_rank : call.parts) put(of_rank, i, expected);
            ASSERT_TRUE(group.barrier().ok());
            if (fails) continue;
            if (!call.write) check_read(part, memory, outcome.bytes, expected);
            if (call.write) {
              EXPECT_EQ(outcome.bytes, part.bytes);
            }
            if (rank == 0) {
              ASSERT_TRUE(contents(store) == expected);
            }
            ASSERT_TRUE(group.barrier().ok());
          }
          ASSERT_TRUE(file.close(trace).ok());
        }
        if (rank == 0) reused = counted.count(trace::Counter::kPlansReused);
      },
      sequence.ranks_per_node);
  return reused;
}

TEST(KeptPlans, SequencesOfCallsDoWhatEachDoes) {
  std::int64_t reused = 0;
  const std::uint64_t count = cases(400);
  for (std::uint64_t seed = 1; seed <= count; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    reused += carry_out(make_sequence(seed));
    if (testing::Test::HasFailure()) return;
  }
  // Repetitions have to be found, or nothing has been tested here.
  EXPECT_GT(reused, static_cast<std::int64_t>(count));
}

}  // namespace
}  // namespace penstock
