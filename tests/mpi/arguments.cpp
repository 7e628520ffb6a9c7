// Wrong arguments give an error of the right class, and nothing worse (MPI 4.1 section 14.7).
// ranks: 1 3
#include "calls.h"

using calls::Call;
using calls::Direction;
using calls::Style;
using check::open_on_world;
using check::scratch;

namespace {

#define EXPECT_CLASS_IN(code, ...) \
  check::expect_class((code), {__VA_ARGS__}, name_of(call, direction).c_str(), __FILE__, __LINE__)

bool open_some(MPI_File* file) {
  check::make_file_for_all(scratch(), check::Bytes(64, 1));
  return open_on_world(scratch(), MPI_MODE_RDWR, file);
}

template <typename Body>
void for_every_call(Body body) {
  for (const Call& call : calls::all_calls())
    for (Direction direction : {Direction::write, Direction::read}) {
      body(call, direction);
      check::barrier();
    }
}

}  // namespace

TEST(null_file) {
  for_every_call([](const Call& call, Direction direction) {
    int value = 0;
    EXPECT_CLASS_IN(transfer(call, direction, MPI_FILE_NULL, 0, &value, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_FILE, MPI_ERR_ARG);
  });
  MPI_Offset offset;
  MPI_Group group;
  MPI_Info info;
  int number;
  EXPECT_CLASS(MPI_File_seek(MPI_FILE_NULL, 0, MPI_SEEK_SET), MPI_ERR_FILE, MPI_ERR_ARG);
  EXPECT_CLASS(MPI_File_get_position(MPI_FILE_NULL, &offset), MPI_ERR_FILE, MPI_ERR_ARG);
  EXPECT_CLASS(MPI_File_get_size(MPI_FILE_NULL, &offset), MPI_ERR_FILE, MPI_ERR_ARG);
  EXPECT_CLASS(MPI_File_get_group(MPI_FILE_NULL, &group), MPI_ERR_FILE, MPI_ERR_ARG);
  EXPECT_CLASS(MPI_File_get_info(MPI_FILE_NULL, &info), MPI_ERR_FILE, MPI_ERR_ARG);
  EXPECT_CLASS(MPI_File_get_amode(MPI_FILE_NULL, &number), MPI_ERR_FILE, MPI_ERR_ARG);
  EXPECT_CLASS(MPI_File_sync(MPI_FILE_NULL), MPI_ERR_FILE, MPI_ERR_ARG);
  EXPECT_CLASS(MPI_File_set_view(MPI_FILE_NULL, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL), MPI_ERR_FILE, MPI_ERR_ARG);
}

TEST(negative_count) {
  MPI_File file;
  if (!open_some(&file)) return;
  for_every_call([&](const Call& call, Direction direction) {
    int value = 0;
    EXPECT_CLASS_IN(transfer(call, direction, file, 0, &value, -1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_COUNT, MPI_ERR_ARG);
  });
  CHECK_OK(MPI_File_close(&file));
}

TEST(null_buffer_with_a_count) {
  // Only where the datatype starts at the buffer: MPI_BOTTOM is a null pointer too, with types of absolute addresses.
  if (!check::preloaded()) return;
  MPI_File file;
  if (!open_some(&file)) return;
  for_every_call([&](const Call& call, Direction direction) {
    EXPECT_CLASS_IN(transfer(call, direction, file, 0, nullptr, 4, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_BUFFER, MPI_ERR_ARG);
  });
  // Data that begins a little away from the buffer has no absolute address yet.
  for (const MPI_Aint gap : {MPI_Aint{8}, MPI_Aint{-8}}) {
    const int length = 1;
    MPI_Datatype type;
    MPI_Type_create_hindexed(1, &length, &gap, MPI_INT, &type);
    MPI_Type_commit(&type);
    EXPECT_CLASS(MPI_File_read_at_all(file, 0, nullptr, 1, type, MPI_STATUS_IGNORE), MPI_ERR_BUFFER, MPI_ERR_ARG);
    MPI_Type_free(&type);
  }
  CHECK_OK(MPI_File_close(&file));
}

TEST(null_datatype) {
  MPI_File file;
  if (!open_some(&file)) return;
  for_every_call([&](const Call& call, Direction direction) {
    int value = 0;
    EXPECT_CLASS_IN(transfer(call, direction, file, 0, &value, 1, MPI_DATATYPE_NULL, MPI_STATUS_IGNORE), MPI_ERR_TYPE, MPI_ERR_ARG);
  });
  CHECK_OK(MPI_File_close(&file));
}

TEST(uncommitted_datatype) {
  MPI_File file;
  if (!open_some(&file)) return;
  MPI_Datatype type;
  MPI_Type_contiguous(2, MPI_INT, &type);
  for_every_call([&](const Call& call, Direction direction) {
    int value[2] = {};
    EXPECT_CLASS_IN(transfer(call, direction, file, 0, value, 1, type, MPI_STATUS_IGNORE), MPI_ERR_TYPE, MPI_ERR_ARG);
  });
  MPI_Type_free(&type);
  CHECK_OK(MPI_File_close(&file));
}

TEST(not_a_whole_number_of_etypes) {
  MPI_File file;
  if (!open_some(&file)) return;
  CHECK_OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
  for_every_call([&](const Call& call, Direction direction) {
    unsigned char bytes[6] = {};
    EXPECT_CLASS_IN(transfer(call, direction, file, 0, bytes, 6, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_IO, MPI_ERR_ARG, MPI_ERR_TYPE,
                    MPI_ERR_COUNT);
  });
  CHECK_OK(MPI_File_close(&file));
}

TEST(calls_that_fail_at_once_leave_the_pointer) {
  // Nothing was accessed, so the next access goes where this one would have gone (section 14.4.1).
  if (!check::preloaded()) return;
  MPI_File file;
  if (!open_some(&file)) return;
  CHECK_OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
  unsigned char bytes[6] = {};
  for_every_call([&](const Call& call, Direction direction) {
    if (call.pointer != calls::Pointer::individual) return;
    for (const bool null_buffer : {false, true}) {
      CHECK_OK(MPI_File_seek(file, 3, MPI_SEEK_SET));
      const int code = null_buffer ? transfer(call, direction, file, 0, nullptr, 2, MPI_INT, MPI_STATUS_IGNORE)
                                   : transfer(call, direction, file, 0, bytes, 6, MPI_BYTE, MPI_STATUS_IGNORE);
      check::expect_true(code != MPI_SUCCESS, (name_of(call, direction) + " to fail").c_str(), __FILE__, __LINE__);
      MPI_Offset position = -99;
      CHECK_OK(MPI_File_get_position(file, &position));
      check::expect_equal(position, 3, name_of(call, direction).c_str(), __FILE__, __LINE__);
    }
  });
  CHECK_OK(MPI_File_close(&file));
}

TEST(count_bad_on_one_rank_only) {
  // A collective call that fails on one rank fails on all of them, and nobody waits for ever.
  if (check::size == 1) return;
  MPI_File file;
  if (!open_some(&file)) return;
  for_every_call([&](const Call& call, Direction direction) {
    if (!is_collective(call)) return;
    int value = 0;
    const int code = transfer(call, direction, file, 0, &value, check::rank == 1 ? -1 : 1, MPI_INT, MPI_STATUS_IGNORE);
    if (check::rank == 1)
      EXPECT_CLASS_IN(code, MPI_ERR_COUNT, MPI_ERR_ARG);
    else
      check::expect_true(code != MPI_SUCCESS, (name_of(call, direction) + " to fail as it did on rank 1").c_str(), __FILE__, __LINE__);
  });
  CHECK_OK(MPI_File_close(&file));
}

// Section 14.4.5: one split collective at a time, ended by its own end.
TEST(split_calls_that_do_not_match) {
  MPI_File file;
  if (!open_some(&file)) return;
  int one = 1, two = 2;
  EXPECT_ERROR(MPI_File_write_all_end(file, &one, MPI_STATUS_IGNORE));
  CHECK_OK(MPI_File_write_at_all_begin(file, 4 * check::rank, &one, 1, MPI_INT));
  EXPECT_ERROR(MPI_File_write_at_all_begin(file, 4 * check::rank, &two, 1, MPI_INT));
  EXPECT_ERROR(MPI_File_read_all_begin(file, &two, 1, MPI_INT));
  EXPECT_ERROR(MPI_File_write_all_end(file, &one, MPI_STATUS_IGNORE));
  MPI_Status status;
  CHECK_OK(MPI_File_write_at_all_end(file, &one, &status));
  CHECK_EQ(check::count_in(status, MPI_INT), 1);
  EXPECT_ERROR(MPI_File_write_at_all_end(file, &one, MPI_STATUS_IGNORE));
  CHECK_OK(MPI_File_close(&file));
}

TEST(split_calls_of_two_files) {
  MPI_File one, two;
  if (!open_on_world(scratch("one"), MPI_MODE_CREATE | MPI_MODE_RDWR, &one)) return;
  if (!open_on_world(scratch("two"), MPI_MODE_CREATE | MPI_MODE_RDWR, &two)) return;
  int a = check::rank, b = -check::rank, back = 99;
  CHECK_OK(MPI_File_write_at_all_begin(one, 4 * check::rank, &a, 1, MPI_INT));
  CHECK_OK(MPI_File_write_ordered_begin(two, &b, 1, MPI_INT));
  CHECK_OK(MPI_File_write_at_all_end(one, &a, MPI_STATUS_IGNORE));
  CHECK_OK(MPI_File_write_ordered_end(two, &b, MPI_STATUS_IGNORE));
  CHECK_OK(MPI_File_read_at(one, 4 * check::rank, &back, 1, MPI_INT, MPI_STATUS_IGNORE));
  CHECK_EQ(back, a);
  CHECK_OK(MPI_File_read_at(two, 4 * check::rank, &back, 1, MPI_INT, MPI_STATUS_IGNORE));
  CHECK_EQ(back, b);
  CHECK_OK(MPI_File_close(&one));
  CHECK_OK(MPI_File_close(&two));
}

TEST(independent_calls_during_a_split_call) {
  MPI_File file;
  if (!open_some(&file)) return;
  int a = 100 + check::rank, b = 200 + check::rank, back = -1;
  CHECK_OK(MPI_File_write_at_all_begin(file, 4 * check::rank, &a, 1, MPI_INT));
  CHECK_OK(MPI_File_write_at(file, 100 + 4 * check::rank, &b, 1, MPI_INT, MPI_STATUS_IGNORE));
  CHECK_OK(MPI_File_write_at_all_end(file, &a, MPI_STATUS_IGNORE));
  CHECK_OK(MPI_File_read_at(file, 4 * check::rank, &back, 1, MPI_INT, MPI_STATUS_IGNORE));
  CHECK_EQ(back, a);
  CHECK_OK(MPI_File_read_at(file, 100 + 4 * check::rank, &back, 1, MPI_INT, MPI_STATUS_IGNORE));
  CHECK_EQ(back, b);
  CHECK_OK(MPI_File_close(&file));
}

TEST(closed_handle) {
  // Only where handles are checked: a handle that was closed is no handle any more.
  if (!check::preloaded()) return;
  MPI_File file;
  if (!open_some(&file)) return;
  MPI_File copy = file;
  CHECK_OK(MPI_File_close(&file));
  int value = 1;
  EXPECT_CLASS(MPI_File_write_at(copy, 0, &value, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_FILE);
  EXPECT_CLASS(MPI_File_close(&copy), MPI_ERR_FILE);
}

TEST(bad_hint_of_penstock) {
  if (!check::preloaded()) return;
  // A wrong value is not fatal: hints are advice (section 14.2.8).
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "penstock_strategy", "teleported");
  MPI_File file = MPI_FILE_NULL;
  const int code = MPI_File_open(MPI_COMM_WORLD, scratch().c_str(), MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file);
  EXPECT_CLASS(code, MPI_SUCCESS, MPI_ERR_INFO_VALUE);
  MPI_Info_free(&info);
  if (code == MPI_SUCCESS) CHECK_OK(MPI_File_close(&file));
}

TEST(etype_larger_than_memory_item_is_fine) {
  // 6 bytes of memory make two etypes of three bytes.
  MPI_File file;
  if (!open_some(&file)) return;
  MPI_Datatype three;
  MPI_Type_contiguous(3, MPI_BYTE, &three);
  MPI_Type_commit(&three);
  CHECK_OK(MPI_File_set_view(file, 0, three, three, "native", MPI_INFO_NULL));
  unsigned char bytes[6] = {1, 2, 3, 4, 5, 6}, back[6] = {};
  CHECK_OK(MPI_File_write_at_all(file, 2 * check::rank, bytes, 6, MPI_BYTE, MPI_STATUS_IGNORE));
  CHECK_OK(MPI_File_read_at(file, 2 * check::rank, back, 6, MPI_BYTE, MPI_STATUS_IGNORE));
  CHECK_BYTES(back, bytes, 6);
  CHECK_OK(MPI_File_close(&file));
  MPI_Type_free(&three);
}

TEST_MAIN(MPI_THREAD_SINGLE)
