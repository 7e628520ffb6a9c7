// Every data access call, reading and writing, through a contiguous and a strided view, from contiguous and strided memory:
// bytes in the file, status, and where the pointers are afterwards (MPI 4.1 section 14.4).
// ranks: 1 2
// thorough: 3:
// thorough: 4:
// time limit: 120
#include "calls.h"

using calls::Call;
using calls::Direction;
using calls::Pointer;
using calls::Style;
using check::open_on_world;
using check::scratch;

namespace {

constexpr int records = 6;      // etypes (ints) that one call moves
constexpr int rounds = 3;       // calls one after the other
constexpr int block = 2;        // ints per piece of the strided view
constexpr int memory_step = 3;  // every third int of memory in the strided memory type

bool strided_view = false, strided_memory = false;

std::string setting(const Call& call, Direction direction) {
  return name_of(call, direction) + (strided_view ? ", strided view" : "") + (strided_memory ? ", strided memory" : "");
}

#define EXPECT_EQ_IN(got, expected, what) \
  check::expect_equal((got), (expected), (setting(call, direction) + ": " + (what)).c_str(), __FILE__, __LINE__)
#define EXPECT_OK_IN(code) check::expect_success((code), setting(call, direction).c_str(), __FILE__, __LINE__)

/// The rank-wide index of the int that a rank's view reaches with its `i`-th etype: views of different ranks are disjoint,
/// except with shared pointers, where all ranks have the view of rank 0 to be the same.
int index_in_file(const Call& call, int i) {
  const bool shared = call.pointer == Pointer::shared;
  const int part = shared ? 0 : check::rank;
  if (!strided_view) return part * records * rounds + i;
  const int stride = block * (shared ? 2 : check::size);
  return part * block + i / block * stride + i % block;
}

int ints_in_file(const Call& call) {
  if (call.pointer != Pointer::shared) return records * rounds * check::size;
  return records * rounds * check::size * (strided_view ? 2 : 1);
}

/// What the int at `index` shall be.
int value_at(int index) { return 7 * index + 1; }

void set_view(MPI_File file, const Call& call, Direction direction) {
  const bool shared = call.pointer == Pointer::shared;
  const int displacement = index_in_file(call, 0) * 4;
  if (!strided_view) {
    EXPECT_OK_IN(MPI_File_set_view(file, displacement, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    return;
  }
  MPI_Datatype pair, filetype;
  MPI_Type_contiguous(block, MPI_INT, &pair);
  MPI_Type_create_resized(pair, 0, 4 * block * (shared ? 2 : check::size), &filetype);
  MPI_Type_commit(&filetype);
  EXPECT_OK_IN(MPI_File_set_view(file, displacement, MPI_INT, filetype, "native", MPI_INFO_NULL));
  MPI_Type_free(&pair);
  MPI_Type_free(&filetype);
}

/// Memory for one call: `records` ints, contiguous or every third.
struct Memory {
  std::vector<int> ints = std::vector<int>(records * memory_step, -1);
  MPI_Datatype type = MPI_INT;
  int count = records;
  Memory() {
    if (!strided_memory) return;
    MPI_Type_vector(records, 1, memory_step, MPI_INT, &type);
    MPI_Type_commit(&type);
    count = 1;
  }
  ~Memory() {
    if (strided_memory) MPI_Type_free(&type);
  }
  int& at(int i) { return ints[static_cast<std::size_t>(strided_memory ? i * memory_step : i)]; }
};

/// Which etype of the view this rank's `round`-th call starts at.
int first_etype(const Call& call, int round) {
  return call.pointer == Pointer::shared ? (round * check::size + check::rank) * records : round * records;
}

MPI_Offset position(MPI_File file) {
  MPI_Offset offset = -1;
  CHECK_OK(MPI_File_get_position(file, &offset));
  return offset;
}

MPI_Offset shared_position(MPI_File file) {
  MPI_Offset offset = -1;
  CHECK_OK(MPI_File_get_position_shared(file, &offset));
  return offset;
}

/// One call; ranks take turns where only the order of ranks makes the outcome certain.
int call_in_turn(const Call& call, Direction direction, MPI_File file, int round, Memory* memory, MPI_Status* status) {
  const MPI_Offset offset = first_etype(call, round);
  if (call.pointer != Pointer::shared || is_collective(call))
    return transfer(call, direction, file, offset, memory->ints.data(), memory->count, memory->type, status);
  int code = MPI_SUCCESS;
  for (int turn = 0; turn < check::size; ++turn) {
    if (turn == check::rank)
      code = transfer(call, direction, file, offset, memory->ints.data(), memory->count, memory->type, status);
    check::barrier();
  }
  return code;
}

void check_pointers(const Call& call, Direction direction, MPI_File file, int rounds_done) {
  EXPECT_EQ_IN(position(file), call.pointer == Pointer::individual ? records * rounds_done : 0, "individual pointer");
  check::barrier();
  EXPECT_EQ_IN(shared_position(file), call.pointer == Pointer::shared ? records * rounds_done * check::size : 0,
               "shared pointer");
  check::barrier();
}

void write_and_check(const Call& call) {
  constexpr Direction direction = Direction::write;
  const std::string name = scratch();
  check::make_file_for_all(name, check::Bytes(static_cast<std::size_t>(4 * ints_in_file(call)), 0xEE));
  MPI_File file;
  if (!open_on_world(name, MPI_MODE_RDWR, &file)) return;
  set_view(file, call, direction);
  for (int round = 0; round < rounds; ++round) {
    Memory memory;
    for (int i = 0; i < records; ++i) memory.at(i) = value_at(index_in_file(call, first_etype(call, round) + i));
    const std::vector<int> before = memory.ints;
    MPI_Status status;
    EXPECT_OK_IN(call_in_turn(call, direction, file, round, &memory, &status));
    EXPECT_EQ_IN(check::count_in(status, memory.type), memory.count, "count");
    EXPECT_EQ_IN(check::bytes_in(status), 4 * records, "bytes");
    EXPECT_EQ_IN(memory.ints == before, true, "the buffer is as it was");
    check_pointers(call, direction, file, round + 1);
  }
  EXPECT_OK_IN(MPI_File_close(&file));
  check::barrier();
  if (check::rank != 0) return;
  const check::Bytes bytes = check::contents(name);
  if (!EXPECT_EQ_IN(bytes.size(), static_cast<std::size_t>(4 * ints_in_file(call)), "size of the file")) return;
  const int* got = reinterpret_cast<const int*>(bytes.data());
  for (int i = 0; i < ints_in_file(call); ++i) {
    const bool gap = strided_view && call.pointer == Pointer::shared && i / block % 2 == 1;
    if (!EXPECT_EQ_IN(got[i], gap ? static_cast<int>(0xEEEEEEEE) : value_at(i), "int " + std::to_string(i) + " of the file")) return;
  }
}

void read_and_check(const Call& call) {
  constexpr Direction direction = Direction::read;
  const std::string name = scratch();
  check::Bytes bytes(static_cast<std::size_t>(4 * ints_in_file(call)));
  for (int i = 0; i < ints_in_file(call); ++i) {
    const int value = value_at(i);
    std::memcpy(bytes.data() + 4 * i, &value, 4);
  }
  check::make_file_for_all(name, bytes);
  MPI_File file;
  if (!open_on_world(name, MPI_MODE_RDONLY, &file)) return;
  set_view(file, call, direction);
  for (int round = 0; round < rounds; ++round) {
    Memory memory;
    MPI_Status status;
    EXPECT_OK_IN(call_in_turn(call, direction, file, round, &memory, &status));
    EXPECT_EQ_IN(check::count_in(status, memory.type), memory.count, "count");
    EXPECT_EQ_IN(check::bytes_in(status), 4 * records, "bytes");
    for (int i = 0; i < records; ++i) {
      const int expected = value_at(index_in_file(call, first_etype(call, round) + i));
      if (!EXPECT_EQ_IN(memory.at(i), expected, "int " + std::to_string(i) + " of memory")) break;
      if (strided_memory && !EXPECT_EQ_IN((&memory.at(i))[1], -1, "a gap in memory")) break;
    }
    check_pointers(call, direction, file, round + 1);
  }
  EXPECT_OK_IN(MPI_File_close(&file));
}

void all_calls_both_ways(bool view, bool memory) {
  strided_view = view, strided_memory = memory;
  for (const Call& call : calls::all_calls()) {
    write_and_check(call);
    check::barrier();
    read_and_check(call);
    check::barrier();
  }
}

/// Nothing moves, nothing changes, and every status says zero.
void nothing_at_all(const Call& call, Direction direction, MPI_File file) {
  int value = 99;
  MPI_Status status;
  EXPECT_OK_IN(transfer(call, direction, file, 5, &value, 0, MPI_INT, &status));
  EXPECT_EQ_IN(check::count_in(status, MPI_INT), 0, "count");
  EXPECT_EQ_IN(check::bytes_in(status), 0, "bytes");
  EXPECT_OK_IN(transfer(call, direction, file, 5, nullptr, 0, MPI_INT, &status));
  EXPECT_EQ_IN(value, 99, "the buffer");
}

}  // namespace

TEST(contiguous_to_contiguous) { all_calls_both_ways(false, false); }
TEST(strided_memory_to_contiguous_view) { all_calls_both_ways(false, true); }
TEST(contiguous_memory_to_strided_view) { all_calls_both_ways(true, false); }
TEST(strided_memory_to_strided_view) { all_calls_both_ways(true, true); }

TEST(zero_counts) {
  strided_view = strided_memory = false;
  check::make_file_for_all(scratch(), check::Bytes(40, 3));
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_RDWR, &file)) return;
  for (const Call& call : calls::all_calls())
    for (Direction direction : {Direction::read, Direction::write}) nothing_at_all(call, direction, file);
  CHECK_EQ(position(file), 0);
  CHECK_EQ(shared_position(file), 0);
  CHECK_OK(MPI_File_close(&file));
  check::barrier();
  CHECK_EQ(check::size_of_file(scratch()), 40);
}

TEST(zero_count_on_some_ranks) {
  // Collective calls in which every second rank has nothing to do.
  strided_view = strided_memory = false;
  for (const Call& call : calls::all_calls()) {
    if (!is_collective(call)) continue;
    MPI_File file;
    if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
    const Direction direction = Direction::write;
    EXPECT_OK_IN(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    const int mine = check::rank % 2 == 0 ? 1 : 0, place = call.pointer == Pointer::shared ? check::rank / 2 : check::rank;
    if (call.pointer == Pointer::individual) EXPECT_OK_IN(MPI_File_seek(file, check::rank, MPI_SEEK_SET));
    int value = 500 + check::rank;
    MPI_Status status;
    EXPECT_OK_IN(transfer(call, direction, file, check::rank, &value, mine, MPI_INT, &status));
    EXPECT_EQ_IN(check::count_in(status, MPI_INT), mine, "count");
    check::sync_all(file);
    int back = -1;
    if (mine) {
      EXPECT_OK_IN(MPI_File_read_at(file, place, &back, 1, MPI_INT, MPI_STATUS_IGNORE));
      EXPECT_EQ_IN(back, value, "int in the file");
    }
    EXPECT_OK_IN(MPI_File_close(&file));
  }
}

TEST(types_of_size_zero) {
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  MPI_Datatype empty;
  MPI_Type_contiguous(0, MPI_INT, &empty);
  MPI_Type_commit(&empty);
  int value = 7;
  MPI_Status status;
  CHECK_OK(MPI_File_write_at(file, 3, &value, 5, empty, &status));
  CHECK_EQ(check::bytes_in(status), 0);
  CHECK_OK(MPI_File_write_all(file, &value, 5, empty, &status));
  CHECK_EQ(check::bytes_in(status), 0);
  CHECK_OK(MPI_File_read_ordered(file, &value, 5, empty, &status));
  CHECK_EQ(check::bytes_in(status), 0);
  CHECK_EQ(value, 7);
  CHECK_OK(MPI_File_close(&file));
  MPI_Type_free(&empty);
  check::barrier();
  CHECK_EQ(check::size_of_file(scratch()), 0);
}

TEST(status_may_be_ignored) {
  strided_view = strided_memory = false;
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  for (const Call& call : calls::all_calls())
    for (Direction direction : {Direction::write, Direction::read}) {
      int value = 4;
      EXPECT_OK_IN(transfer(call, direction, file, check::rank, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
      check::barrier();
    }
  CHECK_OK(MPI_File_close(&file));
}

TEST(memory_from_the_bottom) {
  // MPI_BOTTOM with absolute addresses, in a struct of two scattered variables.
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  int number = 10 + check::rank;
  static double fraction;
  fraction = 0.5 * check::rank;
  MPI_Aint places[2];
  MPI_Get_address(&number, &places[0]);
  MPI_Get_address(&fraction, &places[1]);
  int lengths[2] = {1, 1};
  MPI_Datatype types[2] = {MPI_INT, MPI_DOUBLE}, scattered;
  MPI_Type_create_struct(2, lengths, places, types, &scattered);
  MPI_Type_commit(&scattered);
  MPI_Status status;
  CHECK_OK(MPI_File_write_at_all(file, 12 * check::rank, MPI_BOTTOM, 1, scattered, &status));
  CHECK_EQ(check::count_in(status, scattered), 1);
  const int number_before = number;
  const double fraction_before = fraction;
  number = 0, fraction = 0;
  CHECK_OK(MPI_File_read_at(file, 12 * check::rank, MPI_BOTTOM, 1, scattered, &status));
  CHECK_EQ(number, number_before);
  CHECK_EQ(fraction, fraction_before);
  MPI_Type_free(&scattered);
  CHECK_OK(MPI_File_close(&file));
}

TEST_MAIN(MPI_THREAD_SINGLE)
