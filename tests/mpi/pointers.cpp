// File pointers and offsets: seek, get_position, get_byte_offset, shared seeks, the end of file in a view
// (MPI 4.1 sections 14.4.3 and 14.4.4).
// ranks: 1 3 4
#include "check.h"

using check::open_on_world;
using check::scratch;

namespace {

MPI_Offset position(MPI_File file) {
  MPI_Offset offset = -99;
  CHECK_OK(MPI_File_get_position(file, &offset));
  return offset;
}

MPI_Offset shared_position(MPI_File file) {
  MPI_Offset offset = -99;
  CHECK_OK(MPI_File_get_position_shared(file, &offset));
  return offset;
}

/// A view of 8 bytes (two ints) in every 20, from byte 4.
bool open_with_holes(MPI_File* file, std::size_t file_bytes) {
  check::make_file_for_all(scratch(), check::Bytes(file_bytes, 1));
  if (!open_on_world(scratch(), MPI_MODE_RDWR, file)) return false;
  MPI_Datatype pair, filetype;
  MPI_Type_contiguous(2, MPI_INT, &pair);
  MPI_Type_create_resized(pair, 0, 20, &filetype);
  MPI_Type_commit(&filetype);
  CHECK_OK(MPI_File_set_view(*file, 4, MPI_INT, filetype, "native", MPI_INFO_NULL));
  MPI_Type_free(&pair);
  MPI_Type_free(&filetype);
  return true;
}

}  // namespace

TEST(seek_from_start_and_here) {
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  CHECK_EQ(position(file), 0);
  CHECK_OK(MPI_File_seek(file, 10 + check::rank, MPI_SEEK_SET));
  CHECK_EQ(position(file), 10 + check::rank);
  CHECK_OK(MPI_File_seek(file, 5, MPI_SEEK_CUR));
  CHECK_EQ(position(file), 15 + check::rank);
  CHECK_OK(MPI_File_seek(file, -15, MPI_SEEK_CUR));
  CHECK_EQ(position(file), check::rank);
  CHECK_OK(MPI_File_seek(file, 0, MPI_SEEK_CUR));
  CHECK_EQ(position(file), check::rank);
  CHECK_OK(MPI_File_close(&file));
}

TEST(seek_counts_etypes) {
  MPI_File file;
  if (!open_with_holes(&file, 200)) return;
  CHECK_OK(MPI_File_seek(file, 5, MPI_SEEK_SET));
  CHECK_EQ(position(file), 5);
  MPI_Offset offset = -1;
  CHECK_OK(MPI_File_get_byte_offset(file, position(file), &offset));
  CHECK_EQ(offset, 4 + 2 * 20 + 4);
  CHECK_OK(MPI_File_close(&file));
}

TEST(byte_offsets) {
  MPI_File file;
  if (!open_with_holes(&file, 0)) return;
  const MPI_Offset etypes[] = {0, 1, 2, 3, 4, 1000, 1001, MPI_Offset(1) << 40};
  for (MPI_Offset etype : etypes) {
    MPI_Offset offset = -1;
    CHECK_OK(MPI_File_get_byte_offset(file, etype, &offset));
    CHECK_EQ(offset, 4 + etype / 2 * 20 + etype % 2 * 4);
  }
  CHECK_OK(MPI_File_close(&file));
}

// Section 14.1.1: for a view, the end of file is the offset of the first etype that starts after the last byte of the file.
TEST(end_of_file_in_a_view) {
  struct Case {
    std::size_t file_bytes;
    MPI_Offset end;
  };
  // Etypes start at 4, 8, 24, 28, 44, 48 ...
  const Case cases[] = {{0, 0},  {4, 0},  {5, 1},  {8, 1},  {9, 2},  {12, 2}, {13, 2}, {23, 2},
                        {24, 2}, {25, 3}, {28, 3}, {29, 4}, {32, 4}, {44, 4}, {45, 5}, {204, 20}};
  for (const Case& each : cases) {
    MPI_File file;
    if (!open_with_holes(&file, each.file_bytes)) return;
    const std::string what = "end of a file of " + std::to_string(each.file_bytes) + " bytes";
    CHECK_OK(MPI_File_seek(file, 0, MPI_SEEK_END));
    check::expect_equal(position(file), each.end, what.c_str(), __FILE__, __LINE__);
    CHECK_OK(MPI_File_seek(file, 7, MPI_SEEK_END));
    check::expect_equal(position(file), each.end + 7, what.c_str(), __FILE__, __LINE__);
    if (each.end > 0) {
      CHECK_OK(MPI_File_seek(file, -1, MPI_SEEK_END));
      check::expect_equal(position(file), each.end - 1, what.c_str(), __FILE__, __LINE__);
    }
    CHECK_OK(MPI_File_seek_shared(file, 0, MPI_SEEK_END));
    check::expect_equal(shared_position(file), each.end, (what + ", shared").c_str(), __FILE__, __LINE__);
    CHECK_OK(MPI_File_close(&file));
  }
}

TEST(end_of_file_of_the_default_view) {
  check::make_file_for_all(scratch(), check::Bytes(123, 1));
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_RDONLY, &file)) return;
  CHECK_OK(MPI_File_seek(file, 0, MPI_SEEK_END));
  CHECK_EQ(position(file), 123);
  CHECK_OK(MPI_File_seek(file, -23, MPI_SEEK_END));
  CHECK_EQ(position(file), 100);
  CHECK_OK(MPI_File_close(&file));
}

TEST(seeking_before_the_start) {
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  CHECK_OK(MPI_File_seek(file, 3, MPI_SEEK_SET));
  EXPECT_CLASS(MPI_File_seek(file, -1, MPI_SEEK_SET), MPI_ERR_ARG);
  EXPECT_CLASS(MPI_File_seek(file, -4, MPI_SEEK_CUR), MPI_ERR_ARG);
  EXPECT_CLASS(MPI_File_seek(file, -1, MPI_SEEK_END), MPI_ERR_ARG);
  CHECK_EQ(position(file), 3);
  EXPECT_CLASS(MPI_File_seek(file, 0, 12345), MPI_ERR_ARG);
  CHECK_OK(MPI_File_close(&file));
}

TEST(shared_seeking_before_the_start) {
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  CHECK_OK(MPI_File_seek_shared(file, 3, MPI_SEEK_SET));
  EXPECT_CLASS(MPI_File_seek_shared(file, -1, MPI_SEEK_SET), MPI_ERR_ARG);
  EXPECT_CLASS(MPI_File_seek_shared(file, -4, MPI_SEEK_CUR), MPI_ERR_ARG);
  CHECK_EQ(shared_position(file), 3);
  EXPECT_CLASS(MPI_File_seek_shared(file, 0, 12345), MPI_ERR_ARG);
  CHECK_OK(MPI_File_close(&file));
}

TEST(shared_seeks_that_differ_between_ranks) {
  if (check::size == 1) return;
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  EXPECT_CLASS(MPI_File_seek_shared(file, check::rank, MPI_SEEK_SET), MPI_ERR_NOT_SAME, MPI_ERR_ARG);
  CHECK_OK(MPI_File_close(&file));
}

TEST(shared_pointer_is_one_for_all) {
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  CHECK_OK(MPI_File_seek_shared(file, 100, MPI_SEEK_SET));
  CHECK_EQ(shared_position(file), 100);
  check::barrier();  // nobody moves the pointer before all have looked
  CHECK_OK(MPI_File_seek_shared(file, 20, MPI_SEEK_CUR));
  CHECK_EQ(shared_position(file), 120);
  CHECK_EQ(position(file), 0);
  check::barrier();
  const unsigned char byte = 1;
  if (check::rank == check::size - 1) CHECK_OK(MPI_File_write_shared(file, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE));
  check::barrier();
  CHECK_EQ(shared_position(file), 121);
  check::sync_all(file);
  CHECK_OK(MPI_File_seek_shared(file, -1, MPI_SEEK_END));
  CHECK_EQ(shared_position(file), 120);
  CHECK_OK(MPI_File_close(&file));
}

TEST(pointers_of_two_handles_are_apart) {
  MPI_File one, two;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &one)) return;
  if (!open_on_world(scratch(), MPI_MODE_RDWR, &two)) return;
  CHECK_OK(MPI_File_seek(one, 10, MPI_SEEK_SET));
  CHECK_OK(MPI_File_seek_shared(one, 20, MPI_SEEK_SET));
  CHECK_EQ(position(two), 0);
  CHECK_EQ(shared_position(two), 0);
  check::barrier();
  const unsigned char byte = 1;
  CHECK_OK(MPI_File_write_ordered(two, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE));
  check::barrier();
  CHECK_EQ(shared_position(two), check::size);
  CHECK_EQ(shared_position(one), 20);
  CHECK_OK(MPI_File_close(&one));
  CHECK_OK(MPI_File_close(&two));
}

TEST(nonblocking_calls_move_the_pointer_at_once) {
  // Section 14.4.3: the pointer is updated when the call is initiated, not when it completes.
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  CHECK_OK(MPI_File_set_view(file, 400 * check::rank, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
  int values[10][10];
  MPI_Request requests[10];
  for (int i = 0; i < 10; ++i) {
    for (int& value : values[i]) value = i;
    CHECK_OK(MPI_File_iwrite(file, values[i], 10, MPI_INT, &requests[i]));
    CHECK_EQ(position(file), 10 * (i + 1));
  }
  CHECK_OK(MPI_Waitall(10, requests, MPI_STATUSES_IGNORE));
  int back[100];
  CHECK_OK(MPI_File_read_at(file, 0, back, 100, MPI_INT, MPI_STATUS_IGNORE));
  CHECK_BYTES(back, values, sizeof back);
  CHECK_OK(MPI_File_close(&file));
}

TEST(negative_offsets) {
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  int value = 1;
  MPI_Offset offset = 0;
  EXPECT_CLASS(MPI_File_write_at(file, -4, &value, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_ARG);
  EXPECT_CLASS(MPI_File_read_at(file, -4, &value, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_ARG);
  EXPECT_CLASS(MPI_File_write_at_all(file, -4, &value, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_ARG);
  EXPECT_CLASS(MPI_File_get_byte_offset(file, -1, &offset), MPI_ERR_ARG);
  CHECK_OK(MPI_File_close(&file));
}

TEST_MAIN(MPI_THREAD_SINGLE)
