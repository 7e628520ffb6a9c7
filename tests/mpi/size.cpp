// Size of a file: set_size, get_size, preallocate (MPI 4.1 sections 14.2.4 to 14.2.6).
// ranks: 1 3 4
#include "check.h"

using check::open_on_world;
using check::scratch;

namespace {

MPI_Offset size_by_mpi(MPI_File file) {
  MPI_Offset size = -1;
  CHECK_OK(MPI_File_get_size(file, &size));
  return size;
}

}  // namespace

TEST(grow_and_cut) {
  check::make_file_for_all(scratch(), {1, 2, 3, 4, 5, 6, 7, 8});
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_RDWR, &file)) return;
  CHECK_EQ(size_by_mpi(file), 8);
  CHECK_OK(MPI_File_set_size(file, 100));
  check::sync_all(file);
  CHECK_EQ(size_by_mpi(file), 100);
  CHECK_EQ(check::size_of_file(scratch()), 100);
  check::barrier();
  CHECK_OK(MPI_File_set_size(file, 3));
  check::sync_all(file);
  CHECK_EQ(size_by_mpi(file), 3);
  unsigned char bytes[8] = {};
  MPI_Status status;
  CHECK_OK(MPI_File_read_at(file, 0, bytes, 8, MPI_BYTE, &status));
  CHECK_EQ(check::bytes_in(status), 3);
  CHECK_EQ(bytes[2], 3);
  check::barrier();
  CHECK_OK(MPI_File_set_size(file, 0));
  check::sync_all(file);
  CHECK_EQ(size_by_mpi(file), 0);
  CHECK_OK(MPI_File_close(&file));
  check::barrier();
  CHECK_EQ(check::size_of_file(scratch()), 0);
}

TEST(pointers_stay_where_they_are) {
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  CHECK_OK(MPI_File_seek(file, 40, MPI_SEEK_SET));
  CHECK_OK(MPI_File_seek_shared(file, 30, MPI_SEEK_SET));
  CHECK_OK(MPI_File_set_size(file, 10));
  MPI_Offset position = -1;
  CHECK_OK(MPI_File_get_position(file, &position));
  CHECK_EQ(position, 40);
  CHECK_OK(MPI_File_get_position_shared(file, &position));
  CHECK_EQ(position, 30);
  CHECK_OK(MPI_File_close(&file));
}

TEST(view_does_not_matter) {
  // The size is in bytes of the file, whatever the view.
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  CHECK_OK(MPI_File_set_view(file, 1000, MPI_DOUBLE, MPI_DOUBLE, "native", MPI_INFO_NULL));
  CHECK_OK(MPI_File_set_size(file, 50));
  check::sync_all(file);
  CHECK_EQ(size_by_mpi(file), 50);
  CHECK_OK(MPI_File_close(&file));
}

TEST(more_than_four_gibibytes) {
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  const MPI_Offset size = (MPI_Offset(5) << 30) + 3;
  CHECK_OK(MPI_File_set_size(file, size));
  check::sync_all(file);
  CHECK_EQ(size_by_mpi(file), size);
  CHECK_OK(MPI_File_close(&file));
  check::barrier();
  CHECK_EQ(check::size_of_file(scratch()), size);
}

TEST(preallocate_grows_only) {
  check::make_file_for_all(scratch(), {1, 2, 3, 4, 5, 6, 7, 8});
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_RDWR, &file)) return;
  CHECK_OK(MPI_File_preallocate(file, 4));
  check::sync_all(file);
  CHECK_EQ(size_by_mpi(file), 8);
  CHECK_OK(MPI_File_preallocate(file, 100000));
  check::sync_all(file);
  CHECK_EQ(size_by_mpi(file), 100000);
  CHECK_OK(MPI_File_close(&file));
  check::barrier();
  if (check::rank == 0) {
    const unsigned char expected[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    const check::Bytes got = check::contents(scratch());
    if (CHECK_EQ(got.size(), 100000u)) CHECK_BYTES(got.data(), expected, 8);
  }
}

TEST(negative_sizes) {
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  EXPECT_CLASS(MPI_File_set_size(file, -1), MPI_ERR_ARG);
  EXPECT_CLASS(MPI_File_preallocate(file, -1), MPI_ERR_ARG);
  CHECK_OK(MPI_File_close(&file));
}

TEST(sizes_that_differ_between_ranks) {
  if (check::size == 1) return;
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  EXPECT_CLASS(MPI_File_set_size(file, 10 + (check::rank == 0)), MPI_ERR_NOT_SAME, MPI_ERR_ARG);
  EXPECT_CLASS(MPI_File_preallocate(file, 10 + (check::rank == 0)), MPI_ERR_NOT_SAME, MPI_ERR_ARG);
  CHECK_OK(MPI_File_close(&file));
}

TEST(resizing_what_is_read_only) {
  check::make_file_for_all(scratch(), {1, 2, 3});
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_RDONLY, &file)) return;
  EXPECT_CLASS(MPI_File_set_size(file, 10), MPI_ERR_READ_ONLY, MPI_ERR_ACCESS, MPI_ERR_AMODE);
  EXPECT_CLASS(MPI_File_preallocate(file, 10), MPI_ERR_READ_ONLY, MPI_ERR_ACCESS, MPI_ERR_AMODE);
  CHECK_OK(MPI_File_close(&file));
  check::barrier();
  CHECK_EQ(check::size_of_file(scratch()), 3);
}

TEST(writing_beyond_the_end_grows) {
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  const unsigned char byte = 9;
  if (check::rank == check::size - 1) CHECK_OK(MPI_File_write_at(file, 12345, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE));
  check::sync_all(file);
  CHECK_EQ(size_by_mpi(file), 12346);
  // Reading does not.
  unsigned char back = 0;
  MPI_Status status;
  CHECK_OK(MPI_File_read_at(file, 50000, &back, 1, MPI_BYTE, &status));
  CHECK_EQ(check::bytes_in(status), 0);
  CHECK_EQ(size_by_mpi(file), 12346);
  // Nor does writing nothing.
  CHECK_OK(MPI_File_write_at(file, 60000, &byte, 0, MPI_BYTE, MPI_STATUS_IGNORE));
  CHECK_EQ(size_by_mpi(file), 12346);
  CHECK_OK(MPI_File_close(&file));
}

TEST_MAIN(MPI_THREAD_SINGLE)
