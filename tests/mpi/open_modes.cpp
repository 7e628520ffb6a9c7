// Opening, closing and deleting: access modes and their errors (MPI 4.1 sections 14.2.1 to 14.2.3).
// ranks: 1 3 4
#include "calls.h"

using check::open_on_world;
using check::scratch;

namespace {

int open_file(const std::string& name, int amode, MPI_File* file) {
  *file = MPI_FILE_NULL;
  return MPI_File_open(MPI_COMM_WORLD, name.c_str(), amode, MPI_INFO_NULL, file);
}

/// The open must fail on every rank with one of the classes; should it succeed, the file is closed again.
#define EXPECT_OPEN_FAILS(name, amode, ...)                            \
  do {                                                                 \
    MPI_File file_of_check;                                            \
    const int code_of_check = open_file(name, amode, &file_of_check);  \
    EXPECT_CLASS(code_of_check, __VA_ARGS__);                          \
    if (code_of_check == MPI_SUCCESS) MPI_File_close(&file_of_check);  \
  } while (false)

}  // namespace

TEST(create_makes_an_empty_file) {
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  MPI_Offset size = -1;
  CHECK_OK(MPI_File_get_size(file, &size));
  CHECK_EQ(size, 0);
  CHECK(check::exists(scratch()));
  CHECK_OK(MPI_File_close(&file));
  CHECK(file == MPI_FILE_NULL);
  check::barrier();
  if (check::rank == 0) CHECK_EQ(check::size_of_file(scratch()), 0);
}

TEST(create_keeps_what_is_there) {
  check::make_file_for_all(scratch(), {1, 2, 3, 4, 5});
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_WRONLY, &file)) return;
  CHECK_OK(MPI_File_close(&file));
  check::barrier();
  if (check::rank == 0) CHECK_EQ(check::size_of_file(scratch()), 5);
}

TEST(exclusive_creates) {
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_WRONLY, &file)) return;
  CHECK_OK(MPI_File_close(&file));
}

TEST(exclusive_on_existing_fails_everywhere) {
  check::make_file_for_all(scratch(), {1});
  EXPECT_OPEN_FAILS(scratch(), MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_RDWR, MPI_ERR_FILE_EXISTS);
  check::barrier();
  if (check::rank == 0) CHECK_EQ(check::size_of_file(scratch()), 1);
}

TEST(absent_file) {
  EXPECT_OPEN_FAILS(scratch(), MPI_MODE_RDONLY, MPI_ERR_NO_SUCH_FILE);
  EXPECT_OPEN_FAILS(scratch(), MPI_MODE_RDWR, MPI_ERR_NO_SUCH_FILE);
  EXPECT_OPEN_FAILS(scratch(), MPI_MODE_WRONLY, MPI_ERR_NO_SUCH_FILE);
  CHECK(!check::exists(scratch()));
}

TEST(absent_directory) {
  EXPECT_OPEN_FAILS(scratch() + ".none/file", MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_ERR_NO_SUCH_FILE, MPI_ERR_BAD_FILE);
}

TEST(component_that_is_no_directory) {
  check::make_file_for_all(scratch(), {1});
  EXPECT_OPEN_FAILS(scratch() + "/below", MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_ERR_BAD_FILE, MPI_ERR_NO_SUCH_FILE, MPI_ERR_ACCESS);
}

TEST(directory_is_no_file) {
  EXPECT_OPEN_FAILS(check::directory, MPI_MODE_RDWR, MPI_ERR_BAD_FILE, MPI_ERR_ACCESS, MPI_ERR_FILE, MPI_ERR_NO_SUCH_FILE);
}

TEST(name_too_long) {
  EXPECT_OPEN_FAILS(check::directory + "/" + std::string(300, 'x'), MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_ERR_BAD_FILE);
}

// Section 14.2.1: exactly one of RDONLY, RDWR, WRONLY; no CREATE or EXCL with RDONLY; no SEQUENTIAL with RDWR.
TEST(no_read_write_mode) {
  EXPECT_OPEN_FAILS(scratch(), 0, MPI_ERR_AMODE);
  EXPECT_OPEN_FAILS(scratch(), MPI_MODE_CREATE, MPI_ERR_AMODE);
  EXPECT_OPEN_FAILS(scratch(), MPI_MODE_DELETE_ON_CLOSE | MPI_MODE_APPEND, MPI_ERR_AMODE);
  CHECK(!check::exists(scratch()));
}

TEST(two_read_write_modes) {
  check::make_file_for_all(scratch(), {1});
  EXPECT_OPEN_FAILS(scratch(), MPI_MODE_RDONLY | MPI_MODE_RDWR, MPI_ERR_AMODE);
  EXPECT_OPEN_FAILS(scratch(), MPI_MODE_RDONLY | MPI_MODE_WRONLY, MPI_ERR_AMODE);
  EXPECT_OPEN_FAILS(scratch(), MPI_MODE_RDWR | MPI_MODE_WRONLY, MPI_ERR_AMODE);
  EXPECT_OPEN_FAILS(scratch(), MPI_MODE_RDWR | MPI_MODE_WRONLY | MPI_MODE_RDONLY | MPI_MODE_CREATE, MPI_ERR_AMODE);
}

TEST(create_with_read_only) {
  EXPECT_OPEN_FAILS(scratch(), MPI_MODE_RDONLY | MPI_MODE_CREATE, MPI_ERR_AMODE);
  CHECK(!check::exists(scratch()));
}

TEST(exclusive_with_read_only) {
  check::make_file_for_all(scratch(), {1});
  EXPECT_OPEN_FAILS(scratch(), MPI_MODE_RDONLY | MPI_MODE_EXCL, MPI_ERR_AMODE);
}

TEST(sequential_with_read_write) {
  check::make_file_for_all(scratch(), {1});
  EXPECT_OPEN_FAILS(scratch(), MPI_MODE_RDWR | MPI_MODE_SEQUENTIAL, MPI_ERR_AMODE);
}

TEST(modes_that_differ_between_ranks) {
  if (check::size == 1) return;
  const int mine = (check::rank == 0 ? MPI_MODE_RDWR : MPI_MODE_WRONLY) | MPI_MODE_CREATE;
  EXPECT_OPEN_FAILS(scratch(), mine, MPI_ERR_NOT_SAME, MPI_ERR_AMODE);
}

TEST(amode_bad_on_one_rank_fails_everywhere) {
  if (check::size == 1) return;
  const int mine = check::rank == check::size - 1 ? MPI_MODE_CREATE : MPI_MODE_CREATE | MPI_MODE_RDWR;
  EXPECT_OPEN_FAILS(scratch(), mine, MPI_ERR_NOT_SAME, MPI_ERR_AMODE);
}

TEST(delete_on_close) {
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, &file)) return;
  int value = check::rank;
  CHECK_OK(MPI_File_write_at(file, 4 * check::rank, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
  CHECK_OK(MPI_File_close(&file));
  check::barrier();
  CHECK(!check::exists(scratch()));
}

TEST(delete_on_close_of_an_older_file) {
  check::make_file_for_all(scratch(), {1, 2, 3});
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_RDONLY | MPI_MODE_DELETE_ON_CLOSE, &file)) return;
  unsigned char byte = 0;
  CHECK_OK(MPI_File_read_at(file, 2, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE));
  CHECK_EQ(byte, 3);
  CHECK_OK(MPI_File_close(&file));
  check::barrier();
  CHECK(!check::exists(scratch()));
}

TEST(delete_a_file) {
  check::make_file_for_all(scratch(), {1});
  if (check::rank == 0) {
    CHECK_OK(MPI_File_delete(scratch().c_str(), MPI_INFO_NULL));
    CHECK(!check::exists(scratch()));
  }
}

TEST(delete_an_absent_file) { EXPECT_CLASS(MPI_File_delete(scratch().c_str(), MPI_INFO_NULL), MPI_ERR_NO_SUCH_FILE); }

TEST(append_starts_at_the_end) {
  check::make_file_for_all(scratch(), check::Bytes(100, 7));
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_RDWR | MPI_MODE_APPEND, &file)) return;
  MPI_Offset position = -1;
  CHECK_OK(MPI_File_get_position(file, &position));
  CHECK_EQ(position, 100);
  CHECK_OK(MPI_File_get_position_shared(file, &position));
  CHECK_EQ(position, 100);
  check::barrier();  // nobody moves the pointer before all have looked
  const unsigned char mine = static_cast<unsigned char>(check::rank + 1);
  CHECK_OK(MPI_File_write_ordered(file, &mine, 1, MPI_BYTE, MPI_STATUS_IGNORE));
  CHECK_OK(MPI_File_get_position(file, &position));
  CHECK_EQ(position, 100);
  // A new view puts every pointer to its start (section 14.3).
  CHECK_OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
  CHECK_OK(MPI_File_get_position(file, &position));
  CHECK_EQ(position, 0);
  CHECK_OK(MPI_File_get_position_shared(file, &position));
  CHECK_EQ(position, 0);
  CHECK_OK(MPI_File_close(&file));
  check::barrier();
  if (check::rank == 0) {
    check::Bytes expected(100, 7);
    for (int r = 0; r < check::size; ++r) expected.push_back(static_cast<unsigned char>(r + 1));
    const check::Bytes got = check::contents(scratch());
    if (CHECK_EQ(got.size(), expected.size())) CHECK_BYTES(got.data(), expected.data(), got.size());
  }
}

TEST(without_append_starts_at_zero) {
  check::make_file_for_all(scratch(), check::Bytes(100, 7));
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_RDWR, &file)) return;
  MPI_Offset position = -1;
  CHECK_OK(MPI_File_get_position(file, &position));
  CHECK_EQ(position, 0);
  CHECK_OK(MPI_File_get_position_shared(file, &position));
  CHECK_EQ(position, 0);
  CHECK_OK(MPI_File_close(&file));
}

TEST(unique_open_is_allowed) {
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_UNIQUE_OPEN, &file)) return;
  int amode = 0;
  CHECK_OK(MPI_File_get_amode(file, &amode));
  CHECK_EQ(amode, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_UNIQUE_OPEN);
  CHECK_OK(MPI_File_close(&file));
}

TEST(every_rank_opens_its_own) {
  const std::string name = check::own_scratch();
  MPI_File file = MPI_FILE_NULL;
  if (!CHECK_OK(MPI_File_open(MPI_COMM_SELF, name.c_str(), MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                              MPI_INFO_NULL, &file)))
    return;
  int value = 17 + check::rank, back = 0;
  CHECK_OK(MPI_File_write_all(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
  CHECK_OK(MPI_File_read_at_all(file, 0, &back, 1, MPI_INT, MPI_STATUS_IGNORE));
  CHECK_EQ(back, value);
  CHECK_OK(MPI_File_close(&file));
  CHECK(!check::exists(name));
}

TEST(name_in_another_directory_form) {
  // The same file by another spelling of its name is the same file (section 14.2.1 asks no more than that).
  MPI_File file;
  if (!open_on_world(check::directory + "/./" + scratch().substr(check::directory.size() + 1), MPI_MODE_CREATE | MPI_MODE_WRONLY,
                     &file))
    return;
  CHECK_OK(MPI_File_close(&file));
  check::barrier();
  CHECK(check::exists(scratch()));
}

TEST(many_files_open_at_once) {
  constexpr int count = 40;
  std::vector<MPI_File> files(count, MPI_FILE_NULL);
  bool all_open = true;
  for (int i = 0; i < count; ++i)
    all_open = open_on_world(scratch(std::to_string(i)), MPI_MODE_CREATE | MPI_MODE_RDWR, &files[i]) && all_open;
  if (!all_open) return;
  for (int i = 0; i < count; ++i) {
    int value = 1000 * i + check::rank;
    CHECK_OK(MPI_File_write_at(files[i], 4 * check::rank, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
  }
  for (int i = count - 1; i >= 0; --i) CHECK_OK(MPI_File_close(&files[i]));
  check::barrier();
  if (check::rank == 0)
    for (int i = 0; i < count; ++i) CHECK_EQ(check::size_of_file(scratch(std::to_string(i))), 4 * check::size);
}

namespace {

void every_call_fails(int amode, calls::Direction direction, std::initializer_list<int> classes, bool only_not_shared = false) {
  check::make_file_for_all(scratch(), check::Bytes(64, 1));
  MPI_File file;
  if (!open_on_world(scratch(), amode, &file)) return;
  for (const calls::Call& call : calls::all_calls()) {
    if (only_not_shared && call.pointer == calls::Pointer::shared) continue;
    int value = 5;
    const int code = calls::transfer(call, direction, file, 0, &value, 1, MPI_INT, MPI_STATUS_IGNORE);
    check::expect_class(code, classes, name_of(call, direction).c_str(), __FILE__, __LINE__);
  }
  CHECK_OK(MPI_File_close(&file));
  check::barrier();
  const check::Bytes expected(64, 1);
  const check::Bytes got = check::contents(scratch());
  if (CHECK_EQ(got.size(), 64u)) CHECK_BYTES(got.data(), expected.data(), 64);
}

}  // namespace

TEST(writing_what_is_read_only) {
  every_call_fails(MPI_MODE_RDONLY, calls::Direction::write, {MPI_ERR_READ_ONLY, MPI_ERR_ACCESS, MPI_ERR_AMODE});
}

TEST(reading_what_is_write_only) {
  every_call_fails(MPI_MODE_WRONLY, calls::Direction::read, {MPI_ERR_ACCESS, MPI_ERR_AMODE});
}

// Sections 14.4.2 and 14.4.3: with SEQUENTIAL, only shared pointers may be used.
TEST(sequential_refuses_offsets_and_own_pointers_write) {
  every_call_fails(MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL, calls::Direction::write, {MPI_ERR_UNSUPPORTED_OPERATION, MPI_ERR_AMODE},
                   true);
}

TEST(sequential_refuses_offsets_and_own_pointers_read) {
  every_call_fails(MPI_MODE_RDONLY | MPI_MODE_SEQUENTIAL, calls::Direction::read, {MPI_ERR_UNSUPPORTED_OPERATION, MPI_ERR_AMODE},
                   true);
}

TEST(sequential_refuses_seeking) {
  check::make_file_for_all(scratch(), check::Bytes(64, 1));
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL, &file)) return;
  MPI_Offset offset = 0;
  EXPECT_CLASS(MPI_File_seek(file, 0, MPI_SEEK_SET), MPI_ERR_UNSUPPORTED_OPERATION, MPI_ERR_AMODE);
  EXPECT_CLASS(MPI_File_get_position(file, &offset), MPI_ERR_UNSUPPORTED_OPERATION, MPI_ERR_AMODE);
  EXPECT_CLASS(MPI_File_seek_shared(file, 0, MPI_SEEK_SET), MPI_ERR_UNSUPPORTED_OPERATION, MPI_ERR_AMODE);
  EXPECT_CLASS(MPI_File_get_position_shared(file, &offset), MPI_ERR_UNSUPPORTED_OPERATION, MPI_ERR_AMODE);
  EXPECT_CLASS(MPI_File_set_size(file, 10), MPI_ERR_UNSUPPORTED_OPERATION, MPI_ERR_AMODE);
  EXPECT_CLASS(MPI_File_preallocate(file, 10), MPI_ERR_UNSUPPORTED_OPERATION, MPI_ERR_AMODE);
  CHECK_OK(MPI_File_close(&file));
}

TEST(sequential_writes_and_reads_in_order) {
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL, &file)) return;
  int values[2] = {2 * check::rank, 2 * check::rank + 1};
  CHECK_OK(MPI_File_write_ordered(file, values, 2, MPI_INT, MPI_STATUS_IGNORE));
  if (check::rank == 0) {
    int last = -1;
    CHECK_OK(MPI_File_write_shared(file, &last, 1, MPI_INT, MPI_STATUS_IGNORE));
  }
  CHECK_OK(MPI_File_close(&file));
  check::barrier();
  CHECK_EQ(check::size_of_file(scratch()), 4 * (2 * check::size + 1));
  if (!open_on_world(scratch(), MPI_MODE_RDONLY | MPI_MODE_SEQUENTIAL, &file)) return;
  int back[2] = {-5, -5};
  MPI_Status status;
  CHECK_OK(MPI_File_read_ordered(file, back, 2, MPI_INT, &status));
  CHECK_EQ(check::count_in(status, MPI_INT), 2);
  CHECK_EQ(back[0], values[0]);
  CHECK_EQ(back[1], values[1]);
  CHECK_OK(MPI_File_close(&file));
}

TEST(closing_a_null_handle) {
  MPI_File file = MPI_FILE_NULL;
  EXPECT_CLASS(MPI_File_close(&file), MPI_ERR_FILE, MPI_ERR_ARG);
}

TEST(file_survives_its_communicator) {
  MPI_Comm other;
  MPI_Comm_dup(MPI_COMM_WORLD, &other);
  MPI_File file = MPI_FILE_NULL;
  const int code = MPI_File_open(other, scratch().c_str(), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
  CHECK_OK(code);
  MPI_Comm_free(&other);
  if (!check::all_ranks(code == MPI_SUCCESS)) return;
  int value = check::rank;
  CHECK_OK(MPI_File_write_at_all(file, 4 * check::rank, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
  CHECK_OK(MPI_File_close(&file));
  check::barrier();
  CHECK_EQ(check::size_of_file(scratch()), 4 * check::size);
}

TEST(communicator_of_some_ranks) {
  MPI_Comm half;
  MPI_Comm_split(MPI_COMM_WORLD, check::rank % 2, -check::rank, &half);
  int half_rank = 0, half_size = 0;
  MPI_Comm_rank(half, &half_rank);
  MPI_Comm_size(half, &half_size);
  const std::string name = scratch(check::rank % 2 ? "odd" : "even");
  scratch("odd"), scratch("even");  // rank 0 removes both
  MPI_File file = MPI_FILE_NULL;
  if (CHECK_OK(MPI_File_open(half, name.c_str(), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file))) {
    int value = check::rank;
    CHECK_OK(MPI_File_write_ordered(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_read_at_all(file, 4 * half_rank, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_EQ(value, check::rank);
    CHECK_OK(MPI_File_close(&file));
    CHECK_EQ(check::size_of_file(name), 4 * half_size);
  }
  MPI_Comm_free(&half);
}

TEST_MAIN(MPI_THREAD_SINGLE)
