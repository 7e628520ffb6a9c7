// Atomic mode: of conflicting accesses, one comes entirely before the other (MPI 4.1 section 14.6.1).
// ranks: 2 3 4
// time limit: 120
#include "calls.h"

using calls::Call;
using calls::Direction;
using calls::Pointer;
using calls::Style;
using check::open_on_world;
using check::scratch;

namespace {

constexpr int pieces = 64;
constexpr int rounds = 30;

/// 3 ints in every 5: one region of many pieces, the same for every rank.
MPI_Datatype region() {
  MPI_Datatype three, type;
  MPI_Type_contiguous(3, MPI_INT, &three);
  MPI_Type_create_resized(three, 0, 20, &type);
  MPI_Type_commit(&type);
  MPI_Type_free(&three);
  return type;
}

bool open_atomic(MPI_File* file) {
  check::make_file_for_all(scratch(), check::Bytes(20 * pieces, 0));
  if (!open_on_world(scratch(), MPI_MODE_RDWR, file)) return false;
  MPI_Datatype filetype = region();
  CHECK_OK(MPI_File_set_view(*file, 0, MPI_INT, filetype, "native", MPI_INFO_NULL));
  MPI_Type_free(&filetype);
  CHECK_OK(MPI_File_set_atomicity(*file, 1));
  return true;
}

/// All ints of the region are the same; gives that value.
int one_value(const std::vector<int>& ints, const char* what, int line) {
  for (std::size_t i = 1; i < ints.size(); ++i)
    if (ints[i] != ints[0]) {
      check::fail(__FILE__, line, std::string(what) + ": one rank's write was seen in part: int 0 is " + std::to_string(ints[0]) +
                                      ", int " + std::to_string(i) + " is " + std::to_string(ints[i]));
      return ints[0];
    }
  return ints[0];
}

void writers_then_look(const Call& call) {
  MPI_File file;
  if (!open_atomic(&file)) return;
  for (int round = 0; round < rounds; ++round) {
    const int first = round * check::size;
    std::vector<int> mine(3 * pieces, first + check::rank), seen(3 * pieces);
    if (call.pointer == Pointer::individual) CHECK_OK(MPI_File_seek(file, 0, MPI_SEEK_SET));
    check::barrier();
    CHECK_OK(transfer(call, Direction::write, file, 0, mine.data(), 3 * pieces, MPI_INT, MPI_STATUS_IGNORE));
    check::barrier();
    CHECK_OK(MPI_File_read_at(file, 0, seen.data(), 3 * pieces, MPI_INT, MPI_STATUS_IGNORE));
    const int value = one_value(seen, name_of(call, Direction::write).c_str(), __LINE__);
    CHECK(value >= first && value < first + check::size);
    check::barrier();
  }
  CHECK_OK(MPI_File_close(&file));
}

/// Even ranks write again and again while odd ranks read: a reader sees one write or another, never a mixture.
void writers_and_readers(const Call& call) {
  MPI_File file;
  if (!open_atomic(&file)) return;
  for (int round = 0; round < 3 * rounds; ++round) {
    std::vector<int> ints(3 * pieces, round * check::size + check::rank);
    const Direction direction = check::rank % 2 == 0 ? Direction::write : Direction::read;
    if (call.pointer == Pointer::individual) CHECK_OK(MPI_File_seek(file, 0, MPI_SEEK_SET));
    CHECK_OK(transfer(call, direction, file, 0, ints.data(), 3 * pieces, MPI_INT, MPI_STATUS_IGNORE));
    if (direction == Direction::read) one_value(ints, name_of(call, direction).c_str(), __LINE__);
  }
  CHECK_OK(MPI_File_close(&file));
}

}  // namespace

TEST(off_at_first_and_switched) {
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  int flag = -1;
  CHECK_OK(MPI_File_get_atomicity(file, &flag));
  CHECK_EQ(flag, 0);
  CHECK_OK(MPI_File_set_atomicity(file, 1));
  CHECK_OK(MPI_File_get_atomicity(file, &flag));
  CHECK(flag != 0);
  CHECK_OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
  CHECK_OK(MPI_File_get_atomicity(file, &flag));
  CHECK(flag != 0);
  CHECK_OK(MPI_File_set_atomicity(file, 0));
  CHECK_OK(MPI_File_get_atomicity(file, &flag));
  CHECK_EQ(flag, 0);
  CHECK_OK(MPI_File_close(&file));
}

TEST(flags_that_differ_between_ranks) {
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  EXPECT_CLASS(MPI_File_set_atomicity(file, check::rank == 0), MPI_ERR_NOT_SAME, MPI_ERR_ARG);
  CHECK_OK(MPI_File_close(&file));
}

TEST(write_at) { writers_then_look({Pointer::at, Style::blocking}); }
TEST(write) { writers_then_look({Pointer::individual, Style::blocking}); }
TEST(iwrite_at) { writers_then_look({Pointer::at, Style::nonblocking}); }
TEST(write_at_all) { writers_then_look({Pointer::at, Style::collective}); }
TEST(write_all) { writers_then_look({Pointer::individual, Style::collective}); }
TEST(iwrite_at_all) { writers_then_look({Pointer::at, Style::nonblocking_collective}); }
TEST(write_all_begin) { writers_then_look({Pointer::individual, Style::split}); }

TEST(read_beside_write_at) { writers_and_readers({Pointer::at, Style::blocking}); }
TEST(read_beside_write) { writers_and_readers({Pointer::individual, Style::blocking}); }
TEST(read_beside_iwrite_at) { writers_and_readers({Pointer::at, Style::nonblocking}); }

TEST(contiguous_and_large) {
  // One megabyte each, all in the same place: more than one system call's worth on many systems.
  constexpr int count = 1 << 18;
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  CHECK_OK(MPI_File_set_atomicity(file, 1));
  for (int round = 0; round < 5; ++round) {
    std::vector<int> ints(count, round * check::size + check::rank);
    check::barrier();
    CHECK_OK(MPI_File_write_at(file, 0, ints.data(), count, MPI_INT, MPI_STATUS_IGNORE));
    check::barrier();
    CHECK_OK(MPI_File_read_at(file, 0, ints.data(), count, MPI_INT, MPI_STATUS_IGNORE));
    one_value(ints, "write_at of 1 MiB", __LINE__);
    check::barrier();
  }
  CHECK_OK(MPI_File_close(&file));
}

TEST(what_was_written_is_seen_after_a_message) {
  // In atomic mode a write is visible as soon as the call returned: no sync needed, only the order that a message gives.
  MPI_File file;
  if (!open_atomic(&file)) return;
  for (int round = 1; round <= rounds; ++round) {
    const int writer = round % check::size;
    std::vector<int> ints(3 * pieces, round);
    if (check::rank == writer) CHECK_OK(MPI_File_write_at(file, 0, ints.data(), 3 * pieces, MPI_INT, MPI_STATUS_IGNORE));
    int token = 0;
    MPI_Bcast(&token, 1, MPI_INT, writer, MPI_COMM_WORLD);
    CHECK_OK(MPI_File_read_at(file, 0, ints.data(), 3 * pieces, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_EQ(one_value(ints, "read after a message", __LINE__), round);
    check::barrier();
  }
  CHECK_OK(MPI_File_close(&file));
}

TEST(disjoint_writers_both_stay) {
  // Interleaved, so that whoever locks or rewrites too much loses the other's bytes.
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  MPI_Datatype filetype;
  MPI_Type_create_resized(MPI_INT, 0, 4 * check::size, &filetype);
  MPI_Type_commit(&filetype);
  CHECK_OK(MPI_File_set_view(file, 4 * check::rank, MPI_INT, filetype, "native", MPI_INFO_NULL));
  CHECK_OK(MPI_File_set_atomicity(file, 1));
  for (int round = 0; round < rounds; ++round) {
    std::vector<int> mine(100, round * check::size + check::rank), back(100);
    CHECK_OK(MPI_File_write_at(file, 0, mine.data(), 100, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_read_at(file, 0, back.data(), 100, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_BYTES(back.data(), mine.data(), 400);
  }
  CHECK_OK(MPI_File_close(&file));
  MPI_Type_free(&filetype);
}

TEST_MAIN(MPI_THREAD_SINGLE)
