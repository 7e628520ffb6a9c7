// Failures of the file system, made by PENSTOCK_FAULT=kind:N:ERRNO[:rank=R]: a failed call on one rank of a collective returns
// an error of the right class on all ranks, and nobody hangs; an independent one fails where it struck, only there.
// preloaded only
// ranks: 1 3
// time limit: 30
// run: PENSTOCK_FAULT=write:1:ENOSPC:rank=0 --what write --class no_space --rank 0
// run: PENSTOCK_FAULT=write:1:EIO:rank=0 --what write --class io --rank 0
// run: PENSTOCK_FAULT=write:1:EDQUOT:rank=0 --what write --class quota --rank 0
// run: PENSTOCK_FAULT=write:2:ENOSPC:rank=0 --what second_write --class no_space --rank 0
// run: PENSTOCK_FAULT=write:1:EINTR --what nothing
// run: PENSTOCK_FAULT=read:1:EIO:rank=0 --what read --class io --rank 0
// run: PENSTOCK_FAULT=read:1:EINTR --what nothing
// run: PENSTOCK_FAULT=resize:1:EIO:rank=0 --what resize --class io --rank 0
// run: PENSTOCK_FAULT=sync:1:EIO:rank=0 --what sync --class io --rank 0
// run: PENSTOCK_FAULT=open:1:EACCES:rank=0 --what open --class access --rank 0
// run: PENSTOCK_FAULT=write:1:ENOSPC:rank=1 --what write --class no_space --rank 1
// run: PENSTOCK_FAULT=write:1:ENOSPC:rank=1 --what independent --class no_space --rank 1
// run: PENSTOCK_FAULT=write:1:ENOSPC:rank=0 --what independent --class no_space --rank 0
// run: PENSTOCK_FAULT=write:1:ENOSPC:rank=1 --what split --class no_space --rank 1
// run: PENSTOCK_FAULT=write:1:ENOSPC:rank=1 --what nonblocking_collective --class no_space --rank 1
// run: PENSTOCK_FAULT=write:1:ENOSPC:rank=1 --what ordered --class no_space --rank 1
#include "check.h"

using check::open_on_world;
using check::scratch;

namespace {

constexpr int ints = 1 << 18;  // 1 MiB: with aggregators of that window, each rank's data is its own to write

int expected_class() {
  const std::string name = check::option("--class", "");
  if (name == "no_space") return MPI_ERR_NO_SPACE;
  if (name == "quota") return MPI_ERR_QUOTA;
  if (name == "access") return MPI_ERR_ACCESS;
  if (name == "io") return MPI_ERR_IO;
  return MPI_SUCCESS;
}

/// The rank whose store fails; with fewer ranks than that, nothing fails at all.
int failing_rank() { return std::atoi(check::option("--rank", "-1").c_str()); }
bool something_fails() { return failing_rank() >= 0 && failing_rank() < check::size; }

/// What the collective call must give on this rank: the failing rank the class of its failure, the others any error.
void check_collective(int code, const char* text, int line) {
  if (!something_fails())
    check::expect_success(code, text, __FILE__, line);
  else if (check::rank == failing_rank())
    check::expect_class(code, {expected_class()}, text, __FILE__, line);
  else
    check::expect_true(code != MPI_SUCCESS, (std::string("an error on every rank from ") + text).c_str(), __FILE__, line);
}
#define CHECK_COLLECTIVE(call) check_collective((call), #call, __LINE__)

bool only_for(const char* what) { return check::option("--what", "nothing") == what; }

}  // namespace

TEST(write) {
  MPI_File file;
  if (!only_for("write") || !open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  const std::vector<int> mine(ints, check::rank);
  CHECK_COLLECTIVE(MPI_File_write_at_all(file, MPI_Offset(4) * ints * check::rank, mine.data(), ints, MPI_INT, MPI_STATUS_IGNORE));
  // The fault has passed: the file is usable again.
  CHECK_OK(MPI_File_write_at_all(file, MPI_Offset(4) * ints * check::rank, mine.data(), ints, MPI_INT, MPI_STATUS_IGNORE));
  std::vector<int> back(ints, -1);
  CHECK_OK(MPI_File_read_at(file, MPI_Offset(4) * ints * check::rank, back.data(), ints, MPI_INT, MPI_STATUS_IGNORE));
  CHECK(back == mine);
  CHECK_OK(MPI_File_close(&file));
}

TEST(second_write) {
  MPI_File file;
  if (!only_for("second_write") || !open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  const std::vector<int> mine(ints, check::rank);
  const MPI_Offset place = MPI_Offset(4) * ints * check::rank;
  CHECK_OK(MPI_File_write_at_all(file, place, mine.data(), ints, MPI_INT, MPI_STATUS_IGNORE));
  CHECK_COLLECTIVE(MPI_File_write_at_all(file, place, mine.data(), ints, MPI_INT, MPI_STATUS_IGNORE));
  CHECK_OK(MPI_File_write_at_all(file, place, mine.data(), ints, MPI_INT, MPI_STATUS_IGNORE));
  CHECK_OK(MPI_File_close(&file));
}

TEST(split) {
  MPI_File file;
  if (!only_for("split") || !open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  const std::vector<int> mine(ints, check::rank);
  int code = MPI_File_write_at_all_begin(file, MPI_Offset(4) * ints * check::rank, mine.data(), ints, MPI_INT);
  if (code == MPI_SUCCESS) code = MPI_File_write_at_all_end(file, mine.data(), MPI_STATUS_IGNORE);
  CHECK_COLLECTIVE(code);
  CHECK_OK(MPI_File_write_at_all(file, 0, mine.data(), 0, MPI_INT, MPI_STATUS_IGNORE));
  CHECK_OK(MPI_File_close(&file));
}

TEST(nonblocking_collective) {
  MPI_File file;
  if (!only_for("nonblocking_collective") || !open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  const std::vector<int> mine(ints, check::rank);
  MPI_Request request = MPI_REQUEST_NULL;
  int code = MPI_File_iwrite_at_all(file, MPI_Offset(4) * ints * check::rank, mine.data(), ints, MPI_INT, &request);
  if (code == MPI_SUCCESS) code = MPI_Wait(&request, MPI_STATUS_IGNORE);
  CHECK_COLLECTIVE(code);
  CHECK_OK(MPI_File_close(&file));
}

TEST(ordered) {
  MPI_File file;
  if (!only_for("ordered") || !open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  const std::vector<int> mine(ints, check::rank);
  CHECK_COLLECTIVE(MPI_File_write_ordered(file, mine.data(), ints, MPI_INT, MPI_STATUS_IGNORE));
  CHECK_OK(MPI_File_write_ordered(file, mine.data(), ints, MPI_INT, MPI_STATUS_IGNORE));
  CHECK_OK(MPI_File_close(&file));
}

TEST(independent) {
  MPI_File file;
  if (!only_for("independent") || !open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  const std::vector<int> mine(ints, check::rank);
  const int code = MPI_File_write_at(file, MPI_Offset(4) * ints * check::rank, mine.data(), ints, MPI_INT, MPI_STATUS_IGNORE);
  if (check::rank == failing_rank())
    EXPECT_CLASS(code, expected_class());
  else
    CHECK_OK(code);
  CHECK_OK(MPI_File_close(&file));
}

TEST(read) {
  if (!only_for("read")) return;
  check::make_file_for_all(scratch(), check::Bytes(static_cast<std::size_t>(4 * ints * check::size), 1));
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_RDONLY, &file)) return;
  std::vector<int> back(ints);
  CHECK_COLLECTIVE(MPI_File_read_at_all(file, MPI_Offset(4) * ints * check::rank, back.data(), ints, MPI_INT, MPI_STATUS_IGNORE));
  CHECK_OK(MPI_File_read_at_all(file, MPI_Offset(4) * ints * check::rank, back.data(), ints, MPI_INT, MPI_STATUS_IGNORE));
  CHECK_EQ(back[ints - 1], 0x01010101);
  CHECK_OK(MPI_File_close(&file));
}

TEST(resize) {
  MPI_File file;
  if (!only_for("resize") || !open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  CHECK_COLLECTIVE(MPI_File_set_size(file, 1000));
  CHECK_OK(MPI_File_set_size(file, 1000));
  CHECK_OK(MPI_File_close(&file));
}

TEST(sync) {
  MPI_File file;
  if (!only_for("sync") || !open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  const int value = 1;
  CHECK_OK(MPI_File_write_at_all(file, 4 * check::rank, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
  CHECK_COLLECTIVE(MPI_File_sync(file));
  CHECK_OK(MPI_File_sync(file));
  CHECK_OK(MPI_File_close(&file));
}

TEST(open) {
  if (!only_for("open")) return;
  MPI_File file = MPI_FILE_NULL;
  CHECK_COLLECTIVE(MPI_File_open(MPI_COMM_WORLD, scratch().c_str(), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  CHECK_OK(MPI_File_close(&file));
}

TEST(nothing) {
  // Interrupted system calls are no errors.
  MPI_File file;
  if (!only_for("nothing") || !open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  const std::vector<int> mine(ints, check::rank);
  std::vector<int> back(ints, -1);
  const MPI_Offset place = MPI_Offset(4) * ints * check::rank;
  MPI_Status status;
  CHECK_OK(MPI_File_write_at_all(file, place, mine.data(), ints, MPI_INT, &status));
  CHECK_EQ(check::count_in(status, MPI_INT), ints);
  CHECK_OK(MPI_File_read_at_all(file, place, back.data(), ints, MPI_INT, &status));
  CHECK_EQ(check::count_in(status, MPI_INT), ints);
  CHECK(back == mine);
  CHECK_OK(MPI_File_close(&file));
}

TEST_MAIN(MPI_THREAD_SINGLE)
