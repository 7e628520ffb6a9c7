// A file that loses its name, or whose name is given to another file, while it is open: every rank still reads and writes the one that was
// opened, also ranks that had nothing to do with it before.  Unlinking a scratch file right after MPI_File_open is a known idiom.
// ranks: 1 3 4
#include "check.h"

using check::open_on_world;
using check::scratch;

namespace {

/// The last rank writes before anyone else, then every rank writes and reads what all wrote.
void use(MPI_File file) {
  const int last = check::size - 1;
  int early = 100;
  if (check::rank == last) CHECK_OK(MPI_File_write_at(file, 4 * check::size, &early, 1, MPI_INT, MPI_STATUS_IGNORE));
  int mine = check::rank;
  CHECK_OK(MPI_File_write_at_all(file, 4 * check::rank, &mine, 1, MPI_INT, MPI_STATUS_IGNORE));
  std::vector<int> all(static_cast<std::size_t>(check::size) + 1, -1);
  MPI_Status status;
  check::sync_all(file);
  CHECK_OK(MPI_File_read_at_all(file, 0, all.data(), check::size + 1, MPI_INT, &status));
  CHECK_EQ(check::count_in(status, MPI_INT), check::size + 1);
  for (int i = 0; i < check::size; ++i) CHECK_EQ(all[static_cast<std::size_t>(i)], i);
  CHECK_EQ(all.back(), early);
  MPI_Offset size = -1;
  CHECK_OK(MPI_File_get_size(file, &size));
  CHECK_EQ(size, 4 * (check::size + 1));
}

}  // namespace

TEST(name_removed_after_open) {
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  if (check::rank == 0) CHECK_EQ(unlink(scratch().c_str()), 0);
  check::barrier();
  use(file);
  CHECK_OK(MPI_File_close(&file));
  CHECK(!check::exists(scratch()));
}

TEST(name_changed_after_open) {
  const std::string moved = scratch("moved");
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  if (check::rank == 0) CHECK_EQ(std::rename(scratch().c_str(), moved.c_str()), 0);
  check::barrier();
  use(file);
  CHECK_OK(MPI_File_close(&file));
  check::barrier();
  CHECK_EQ(check::size_of_file(moved), 4 * (check::size + 1));
  CHECK(!check::exists(scratch()));
}

TEST(name_given_to_another_file_after_open) {
  const std::string other = scratch("other");
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  if (check::rank == 0) {
    check::make_file(other, check::Bytes(3, 'x'));
    CHECK_EQ(std::rename(other.c_str(), scratch().c_str()), 0);
  }
  check::barrier();
  use(file);
  CHECK_OK(MPI_File_close(&file));
  check::barrier();
  CHECK(check::contents(scratch()) == check::Bytes(3, 'x'));
}

TEST(name_given_to_a_directory_after_open) {
  const std::string moved = scratch("moved");
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  if (check::rank == 0) {
    CHECK_EQ(std::rename(scratch().c_str(), moved.c_str()), 0);
    CHECK_EQ(mkdir(scratch().c_str(), 0), 0);
  }
  check::barrier();
  use(file);
  CHECK_OK(MPI_File_close(&file));
  check::barrier();
  if (check::rank == 0) CHECK_EQ(rmdir(scratch().c_str()), 0);
}

TEST(first_access_while_rank_0_is_in_close) {
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  if (check::rank == 0) unlink(scratch().c_str());
  check::barrier();
  if (check::rank != 0) {
    // Rank 0 is waiting in the collective close when it can be reached only by being there.
    usleep(50000);
    int value = check::rank;
    CHECK_OK(MPI_File_write_at(file, 4 * check::rank, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
  }
  CHECK_OK(MPI_File_close(&file));
}

TEST_MAIN(MPI_THREAD_SINGLE)
