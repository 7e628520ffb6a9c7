// Reading at and past the end of file: exact counts in the status, whole and partial elements (MPI 4.1 section 14.4.1).
// ranks: 1 3 4
#include "calls.h"

using calls::Call;
using calls::Direction;
using calls::Pointer;
using check::open_on_world;
using check::scratch;

namespace {

constexpr int file_bytes = 100;

unsigned char byte_at(int i) { return static_cast<unsigned char>(3 * i + 1); }

void make_file() {
  check::Bytes bytes;
  for (int i = 0; i < file_bytes; ++i) bytes.push_back(byte_at(i));
  check::make_file_for_all(scratch(), bytes);
}

#define EXPECT_EQ_IN(got, expected, what) \
  check::expect_equal((got), (expected), (name_of(call, Direction::read) + ": " + (what)).c_str(), __FILE__, __LINE__)
#define EXPECT_OK_IN(code) check::expect_success((code), name_of(call, Direction::read).c_str(), __FILE__, __LINE__)

/// Reads `wanted` bytes from byte `offset` of the view by any call.  Shared-pointer calls are made by rank 0 alone, or, where
/// they are collective, with nothing on the other ranks.
bool read_somewhere(const Call& call, MPI_File file, int offset, int wanted, unsigned char* to, MPI_Status* status) {
  if (call.pointer == Pointer::individual) EXPECT_OK_IN(MPI_File_seek(file, offset, MPI_SEEK_SET));
  if (call.pointer == Pointer::shared) {
    EXPECT_OK_IN(MPI_File_seek_shared(file, offset, MPI_SEEK_SET));
    if (check::rank != 0 && !is_collective(call)) return false;
    if (check::rank != 0) wanted = 0;
  }
  EXPECT_OK_IN(transfer(call, Direction::read, file, offset, to, wanted, MPI_BYTE, status));
  return wanted != 0;
}

}  // namespace

TEST(every_call_counts_what_was_read) {
  make_file();
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_RDONLY, &file)) return;
  struct Case {
    int offset, wanted, got;
  };
  const Case cases[] = {{0, 100, 100}, {0, 101, 100}, {60, 40, 40}, {60, 41, 40}, {99, 10, 1}, {100, 10, 0}, {5000, 10, 0}};
  for (const Call& call : calls::all_calls())
    for (const Case& each : cases) {
      check::Bytes buffer(200, 0xAA);
      MPI_Status status;
      if (!read_somewhere(call, file, each.offset, each.wanted, buffer.data(), &status)) continue;
      const std::string what = std::to_string(each.wanted) + " bytes at " + std::to_string(each.offset);
      EXPECT_EQ_IN(check::bytes_in(status), each.got, what + ": elements");
      EXPECT_EQ_IN(check::count_in(status, MPI_BYTE), each.got, what + ": count");
      for (int i = 0; i < each.got; ++i)
        if (!EXPECT_EQ_IN(buffer[static_cast<std::size_t>(i)], byte_at(each.offset + i), what)) break;
      EXPECT_EQ_IN(buffer[static_cast<std::size_t>(each.wanted)], 0xAA, what + ": memory behind the buffer");
    }
  CHECK_OK(MPI_File_close(&file));
}

TEST(strided_views_count_data_only) {
  // 4 bytes of every 12 from byte 2: 100 bytes of file hold 8 whole blocks (2..5, 14..17, ... 86..89) and 98, 99 of the ninth.
  make_file();
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_RDONLY, &file)) return;
  MPI_Datatype four, filetype;
  MPI_Type_contiguous(4, MPI_BYTE, &four);
  MPI_Type_create_resized(four, 0, 12, &filetype);
  MPI_Type_commit(&filetype);
  CHECK_OK(MPI_File_set_view(file, 2, MPI_BYTE, filetype, "native", MPI_INFO_NULL));
  struct Case {
    int offset, wanted, got;
  };
  const Case cases[] = {{0, 34, 34}, {0, 35, 34}, {0, 40, 34}, {30, 4, 4}, {30, 100, 4}, {32, 10, 2}, {33, 1, 1}, {34, 5, 0}, {36, 5, 0}};
  for (const Call& call : calls::all_calls())
    for (const Case& each : cases) {
      check::Bytes buffer(200, 0xAA);
      MPI_Status status;
      if (!read_somewhere(call, file, each.offset, each.wanted, buffer.data(), &status)) continue;
      const std::string what = std::to_string(each.wanted) + " bytes at " + std::to_string(each.offset);
      EXPECT_EQ_IN(check::bytes_in(status), each.got, what + ": elements");
      for (int i = 0; i < each.got; ++i) {
        const int at = each.offset + i;
        if (!EXPECT_EQ_IN(buffer[static_cast<std::size_t>(i)], byte_at(2 + at / 4 * 12 + at % 4), what)) break;
      }
    }
  CHECK_OK(MPI_File_close(&file));
  MPI_Type_free(&four);
  MPI_Type_free(&filetype);
}

TEST(partial_items) {
  // 100 bytes as pairs of ints (8 bytes): 12 whole pairs and one int.
  make_file();
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_RDONLY, &file)) return;
  MPI_Datatype pair;
  MPI_Type_contiguous(2, MPI_INT, &pair);
  MPI_Type_commit(&pair);
  int buffer[40];
  for (bool collective : {false, true}) {
    MPI_Status status;
    CHECK_OK(collective ? MPI_File_read_at_all(file, 0, buffer, 20, pair, &status)
                        : MPI_File_read_at(file, 0, buffer, 20, pair, &status));
    int elements = -1;
    MPI_Get_elements(&status, pair, &elements);
    CHECK_EQ(elements, 25);
    CHECK_EQ(check::count_in(status, pair), MPI_UNDEFINED);
    CHECK_OK(MPI_File_read_at(file, 4, buffer, 20, pair, &status));
    CHECK_EQ(check::count_in(status, pair), 12);
    MPI_Get_elements(&status, pair, &elements);
    CHECK_EQ(elements, 24);
  }
  MPI_Type_free(&pair);
  CHECK_OK(MPI_File_close(&file));
}

TEST(strided_memory_at_the_end) {
  make_file();
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_RDONLY, &file)) return;
  MPI_Datatype every_other;
  MPI_Type_vector(30, 1, 2, MPI_BYTE, &every_other);
  MPI_Type_commit(&every_other);
  check::Bytes buffer(60, 0xAA);
  MPI_Status status;
  CHECK_OK(MPI_File_read_at(file, 80, buffer.data(), 1, every_other, &status));
  CHECK_EQ(check::bytes_in(status), 20);
  for (std::size_t i = 0; i < 20; ++i) {
    CHECK_EQ(buffer[2 * i], byte_at(80 + static_cast<int>(i)));
    CHECK_EQ(buffer[2 * i + 1], 0xAA);
  }
  CHECK_OK(MPI_File_close(&file));
  MPI_Type_free(&every_other);
}

TEST(ranks_at_different_distances_from_the_end) {
  // Rank r reads 40 bytes from 30 r: whole, cut, or nothing; in one collective call.
  make_file();
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_RDONLY, &file)) return;
  check::Bytes buffer(40, 0xAA);
  MPI_Status status;
  CHECK_OK(MPI_File_read_at_all(file, 30 * check::rank, buffer.data(), 40, MPI_BYTE, &status));
  const int expected = std::clamp(file_bytes - 30 * check::rank, 0, 40);
  CHECK_EQ(check::bytes_in(status), expected);
  for (int i = 0; i < expected; ++i)
    if (!CHECK_EQ(buffer[static_cast<std::size_t>(i)], byte_at(30 * check::rank + i))) break;
  CHECK_OK(MPI_File_close(&file));
}

TEST(ordered_reading_runs_out) {
  // Ranks in order take 30 bytes each: 100 bytes are enough for three ranks and a third of the fourth.
  make_file();
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_RDONLY, &file)) return;
  check::Bytes buffer(30, 0xAA);
  MPI_Status status;
  CHECK_OK(MPI_File_read_ordered(file, buffer.data(), 30, MPI_BYTE, &status));
  const int expected = std::clamp(file_bytes - 30 * check::rank, 0, 30);
  CHECK_EQ(check::bytes_in(status), expected);
  if (expected > 0) CHECK_EQ(buffer[0], byte_at(30 * check::rank));
  CHECK_OK(MPI_File_close(&file));
}

TEST(empty_file) {
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  for (const Call& call : calls::all_calls()) {
    unsigned char bytes[8];
    MPI_Status status;
    EXPECT_OK_IN(transfer(call, Direction::read, file, 0, bytes, 8, MPI_BYTE, &status));
    EXPECT_EQ_IN(check::bytes_in(status), 0, "bytes");
  }
  CHECK_OK(MPI_File_close(&file));
}

TEST(nonblocking_statuses_in_one_array) {
  make_file();
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_RDONLY, &file)) return;
  unsigned char buffer[3][40];
  MPI_Request requests[3];
  MPI_Status statuses[3];
  CHECK_OK(MPI_File_iread_at(file, 10, buffer[0], 40, MPI_BYTE, &requests[0]));
  CHECK_OK(MPI_File_iread_at(file, 80, buffer[1], 40, MPI_BYTE, &requests[1]));
  CHECK_OK(MPI_File_iread_at(file, 300, buffer[2], 40, MPI_BYTE, &requests[2]));
  CHECK_OK(MPI_Waitall(3, requests, statuses));
  CHECK_EQ(check::bytes_in(statuses[0]), 40);
  CHECK_EQ(check::bytes_in(statuses[1]), 20);
  CHECK_EQ(check::bytes_in(statuses[2]), 0);
  int cancelled = -1;
  CHECK_OK(MPI_Test_cancelled(&statuses[1], &cancelled));
  CHECK_EQ(cancelled, 0);
  CHECK_OK(MPI_File_close(&file));
}

TEST_MAIN(MPI_THREAD_SINGLE)
