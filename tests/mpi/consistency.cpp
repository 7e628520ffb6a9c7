// What a read must see: sync, barrier, sync; close and open; a rank's own writes; two handles on one file
// (MPI 4.1 section 14.6).
// ranks: 1 3 4
#include "check.h"

using check::open_on_world;
using check::scratch;

TEST(own_writes_are_seen_at_once) {
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  for (int i = 0; i < 100; ++i) {
    const MPI_Offset place = 4 * (i % 7 * check::size + check::rank);
    int value = i, back = -1;
    CHECK_OK(MPI_File_write_at(file, place, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_read_at(file, place, &back, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_EQ(back, value);
  }
  CHECK_OK(MPI_File_close(&file));
}

TEST(own_writes_by_mixed_views) {
  // Written byte by byte, read through a strided view, and the other way round.
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  MPI_Datatype filetype;
  MPI_Type_vector(10, 1, 2, MPI_INT, &filetype);
  MPI_Type_commit(&filetype);
  const MPI_Offset base = 1000 * check::rank;
  int ints[20], odd[10], back[20];
  for (int i = 0; i < 20; ++i) ints[i] = 100 * check::rank + i;
  CHECK_OK(MPI_File_write_at(file, base, ints, 20, MPI_INT, MPI_STATUS_IGNORE));
  CHECK_OK(MPI_File_set_view(file, base + 4, MPI_INT, filetype, "native", MPI_INFO_NULL));
  CHECK_OK(MPI_File_read(file, odd, 10, MPI_INT, MPI_STATUS_IGNORE));
  for (int i = 0; i < 10; ++i) CHECK_EQ(odd[i], ints[2 * i + 1]);
  for (int& value : odd) value = -value - 1;
  CHECK_OK(MPI_File_write_at(file, 0, odd, 10, MPI_INT, MPI_STATUS_IGNORE));
  CHECK_OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
  CHECK_OK(MPI_File_read_at(file, base, back, 80, MPI_BYTE, MPI_STATUS_IGNORE));
  for (int i = 0; i < 20; ++i) CHECK_EQ(back[i], i % 2 ? odd[i / 2] : ints[i]);
  CHECK_OK(MPI_File_close(&file));
  MPI_Type_free(&filetype);
}

TEST(sync_barrier_sync) {
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  for (int round = 0; round < 20; ++round) {
    const int value = 1000 * round + check::rank;
    CHECK_OK(MPI_File_write_at(file, 4 * check::rank, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    check::sync_all(file);
    const int other = (check::rank + 1) % check::size;
    int back = -1;
    CHECK_OK(MPI_File_read_at(file, 4 * other, &back, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_EQ(back, 1000 * round + other);
    check::barrier();
  }
  CHECK_OK(MPI_File_close(&file));
}

TEST(close_and_open) {
  for (int round = 0; round < 10; ++round) {
    MPI_File file;
    if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_WRONLY, &file)) return;
    const int value = 1000 * round + check::rank;
    CHECK_OK(MPI_File_write_at(file, 4 * check::rank, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_close(&file));
    check::barrier();
    if (!open_on_world(scratch(), MPI_MODE_RDONLY, &file)) return;
    const int other = (check::rank + 1) % check::size;
    int back = -1;
    CHECK_OK(MPI_File_read_at(file, 4 * other, &back, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_EQ(back, 1000 * round + other);
    CHECK_OK(MPI_File_close(&file));
  }
}

TEST(two_handles_on_one_file) {
  MPI_File one, two;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &one)) return;
  if (!open_on_world(scratch(), MPI_MODE_RDWR, &two)) return;
  for (int round = 0; round < 10; ++round) {
    const int value = 1000 * round + check::rank;
    CHECK_OK(MPI_File_write_at_all(one, 4 * check::rank, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_sync(one));
    check::barrier();
    CHECK_OK(MPI_File_sync(two));
    const int other = (check::rank + 1) % check::size;
    int back = -1;
    CHECK_OK(MPI_File_read_at(two, 4 * other, &back, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_EQ(back, 1000 * round + other);
    check::barrier();
  }
  CHECK_OK(MPI_File_close(&one));
  CHECK_OK(MPI_File_close(&two));
}

TEST(handles_of_single_ranks) {
  // Every rank has a handle of its own on one file.
  if (check::rank == 0) check::make_file(scratch(), {});
  check::barrier();
  MPI_File file = MPI_FILE_NULL;
  if (!CHECK_OK(MPI_File_open(MPI_COMM_SELF, scratch().c_str(), MPI_MODE_RDWR, MPI_INFO_NULL, &file))) return;
  const int value = 40 + check::rank;
  CHECK_OK(MPI_File_write_at(file, 4 * check::rank, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
  check::sync_all(file);
  for (int r = 0; r < check::size; ++r) {
    int back = -1;
    CHECK_OK(MPI_File_read_at(file, 4 * r, &back, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_EQ(back, 40 + r);
  }
  CHECK_OK(MPI_File_close(&file));
}

TEST(sync_of_what_is_read_only) {
  // A reader needs sync to see what others wrote, so sync must work on a file opened for reading (section 14.6.1).
  check::make_file_for_all(scratch(), {1, 2, 3});
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_RDONLY, &file)) return;
  CHECK_OK(MPI_File_sync(file));
  CHECK_OK(MPI_File_close(&file));
}

TEST(reader_sees_what_a_writer_synced) {
  if (check::rank == 0) check::make_file(scratch(), check::Bytes(4, 0));
  check::barrier();
  const bool writer = check::rank == 0;
  MPI_File file = MPI_FILE_NULL;
  if (!CHECK_OK(MPI_File_open(MPI_COMM_SELF, scratch().c_str(), writer ? MPI_MODE_RDWR : MPI_MODE_RDONLY, MPI_INFO_NULL, &file)))
    return;
  for (int round = 1; round < 10; ++round) {
    int value = round, back = -1;
    if (writer) {
      CHECK_OK(MPI_File_write_at(file, 0, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
      CHECK_OK(MPI_File_sync(file));
    }
    check::barrier();
    if (!writer) CHECK_OK(MPI_File_sync(file));
    CHECK_OK(MPI_File_read_at(file, 0, &back, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_EQ(back, round);
    check::barrier();
  }
  CHECK_OK(MPI_File_close(&file));
}

TEST(size_is_seen_after_sync) {
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  for (int round = 1; round < 10; ++round) {
    const char byte = 1;
    if (check::rank == round % check::size) CHECK_OK(MPI_File_write_at(file, 100 * round, &byte, 1, MPI_CHAR, MPI_STATUS_IGNORE));
    check::sync_all(file);
    MPI_Offset size = -1;
    CHECK_OK(MPI_File_get_size(file, &size));
    CHECK_EQ(size, 100 * round + 1);
    check::barrier();
  }
  CHECK_OK(MPI_File_close(&file));
}

TEST(other_programs_see_it_after_close) {
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_WRONLY, &file)) return;
  std::vector<unsigned char> mine(1000, static_cast<unsigned char>(check::rank + 1));
  CHECK_OK(MPI_File_write_ordered(file, mine.data(), 1000, MPI_BYTE, MPI_STATUS_IGNORE));
  CHECK_OK(MPI_File_close(&file));
  check::barrier();
  const check::Bytes bytes = check::contents(scratch());
  if (!CHECK_EQ(bytes.size(), 1000u * static_cast<unsigned>(check::size))) return;
  for (std::size_t i = 0; i < bytes.size(); ++i)
    if (!CHECK_EQ(bytes[i], static_cast<unsigned char>(i / 1000 + 1))) break;
}

TEST_MAIN(MPI_THREAD_SINGLE)
