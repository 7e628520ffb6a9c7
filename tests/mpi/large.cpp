// Beyond 2 GiB and 2^31: offsets, sizes, strides, extents and counts (MPI 4.1 sections 14.1, 14.4; large counts of MPI 4.0).
// ranks: 1 3
// time limit: 180
// runs alone
#include "calls.h"

#include <sys/mman.h>

using check::open_on_world;
using check::scratch;

namespace {

constexpr MPI_Offset GiB = MPI_Offset(1) << 30;

std::vector<int> some_ints(int n) {
  std::vector<int> ints(static_cast<std::size_t>(n));
  for (int i = 0; i < n; ++i) ints[static_cast<std::size_t>(i)] = 1000 * check::rank + i;
  return ints;
}

/// `n` ints of the file by plain pread.
std::vector<int> ints_at(const std::string& name, MPI_Offset place, int n) {
  std::vector<int> ints(static_cast<std::size_t>(n), -1);
  const int file = open(name.c_str(), O_RDONLY);
  CHECK(file >= 0);
  CHECK_EQ(pread(file, ints.data(), ints.size() * 4, place), static_cast<ssize_t>(ints.size() * 4));
  close(file);
  return ints;
}

bool open_file(MPI_File* file) { return open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, file); }

}  // namespace

TEST(offsets_beyond_four_gibibytes) {
  MPI_File file;
  if (!open_file(&file)) return;
  std::vector<int> mine = some_ints(100), back(100);
  for (const MPI_Offset base : {2 * GiB - 200, 2 * GiB, 4 * GiB - 200, 4 * GiB, 9 * GiB + 1}) {
    const MPI_Offset place = base + 400 * check::rank;
    CHECK_OK(MPI_File_write_at(file, place, mine.data(), 400, MPI_BYTE, MPI_STATUS_IGNORE));
    check::sync_all(file);
    CHECK(ints_at(scratch(), place, 100) == mine);
    CHECK_OK(MPI_File_read_at_all(file, place, back.data(), 400, MPI_BYTE, MPI_STATUS_IGNORE));
    CHECK(back == mine);
    check::barrier();
  }
  MPI_Offset size = -1;
  CHECK_OK(MPI_File_get_size(file, &size));
  CHECK_EQ(size, 9 * GiB + 1 + 400 * check::size);
  CHECK_OK(MPI_File_seek(file, -400, MPI_SEEK_END));
  CHECK_OK(MPI_File_read(file, back.data(), 400, MPI_BYTE, MPI_STATUS_IGNORE));
  CHECK_EQ(back[99], 1000 * (check::size - 1) + 99);
  CHECK_OK(MPI_File_close(&file));
}

TEST(displacement_and_pointer_beyond) {
  MPI_File file;
  if (!open_file(&file)) return;
  std::vector<int> mine = some_ints(10), back(10);
  CHECK_OK(MPI_File_set_view(file, 5 * GiB, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
  const MPI_Offset first = GiB + 10 * check::rank;  // in ints: another 4 GiB further on
  CHECK_OK(MPI_File_seek(file, first, MPI_SEEK_SET));
  CHECK_OK(MPI_File_write_all(file, mine.data(), 10, MPI_INT, MPI_STATUS_IGNORE));
  MPI_Offset position = -1, offset = -1;
  CHECK_OK(MPI_File_get_position(file, &position));
  CHECK_EQ(position, first + 10);
  CHECK_OK(MPI_File_get_byte_offset(file, position, &offset));
  CHECK_EQ(offset, 9 * GiB + 40 * (check::rank + 1));
  check::sync_all(file);
  CHECK(ints_at(scratch(), 9 * GiB + 40 * check::rank, 10) == mine);
  CHECK_OK(MPI_File_seek_shared(file, GiB, MPI_SEEK_SET));
  CHECK_OK(MPI_File_read_ordered(file, back.data(), 10, MPI_INT, MPI_STATUS_IGNORE));
  CHECK(back == mine);
  check::barrier();
  CHECK_OK(MPI_File_get_position_shared(file, &position));
  CHECK_EQ(position, GiB + 10 * check::size);
  CHECK_OK(MPI_File_close(&file));
}

TEST(stride_beyond) {
  // One int every 3 GiB: 4 pieces.
  MPI_File file;
  if (!open_file(&file)) return;
  MPI_Datatype filetype;
  MPI_Type_create_hvector(4, 1, static_cast<MPI_Aint>(3 * GiB), MPI_INT, &filetype);
  MPI_Type_commit(&filetype);
  std::vector<int> mine = some_ints(4), back(4);
  CHECK_OK(MPI_File_set_view(file, 4 * check::rank, MPI_INT, filetype, "native", MPI_INFO_NULL));
  CHECK_OK(MPI_File_write_all(file, mine.data(), 4, MPI_INT, MPI_STATUS_IGNORE));
  CHECK_OK(MPI_File_read_at(file, 0, back.data(), 4, MPI_INT, MPI_STATUS_IGNORE));
  CHECK(back == mine);
  check::sync_all(file);
  for (int i = 0; i < 4; ++i) CHECK_EQ(ints_at(scratch(), 3 * GiB * i + 4 * check::rank, 1)[0], mine[static_cast<std::size_t>(i)]);
  CHECK_OK(MPI_File_close(&file));
  MPI_Type_free(&filetype);
}

TEST(extent_beyond) {
  MPI_File file;
  if (!open_file(&file)) return;
  MPI_Datatype filetype;
  MPI_Type_create_resized(MPI_INT, 0, static_cast<MPI_Aint>(5 * GiB), &filetype);
  MPI_Type_commit(&filetype);
  std::vector<int> mine = some_ints(3), back(3);
  CHECK_OK(MPI_File_set_view(file, 4 * check::rank, MPI_INT, filetype, "native", MPI_INFO_NULL));
  CHECK_OK(MPI_File_write(file, mine.data(), 3, MPI_INT, MPI_STATUS_IGNORE));
  CHECK_OK(MPI_File_read_at_all(file, 0, back.data(), 3, MPI_INT, MPI_STATUS_IGNORE));
  CHECK(back == mine);
  check::sync_all(file);
  CHECK_EQ(ints_at(scratch(), 10 * GiB + 4 * check::rank, 1)[0], mine[2]);
  CHECK_OK(MPI_File_close(&file));
  MPI_Type_free(&filetype);
}

TEST(subarray_of_more_than_two_to_the_31_elements) {
  // A 2 x 2 corner of every rank in a 65536 x 65536 array of bytes.
  MPI_File file;
  if (!open_file(&file)) return;
  const int sizes[2] = {65536, 65536}, subsizes[2] = {2, 2}, starts[2] = {40000 + 2 * check::rank, 50000};
  MPI_Datatype filetype;
  MPI_Type_create_subarray(2, sizes, subsizes, starts, MPI_ORDER_C, MPI_BYTE, &filetype);
  MPI_Type_commit(&filetype);
  CHECK_OK(MPI_File_set_view(file, 0, MPI_BYTE, filetype, "native", MPI_INFO_NULL));
  const unsigned char mine[4] = {1, 2, 3, static_cast<unsigned char>(4 + check::rank)};
  unsigned char back[4] = {};
  CHECK_OK(MPI_File_write_all(file, mine, 4, MPI_BYTE, MPI_STATUS_IGNORE));
  CHECK_OK(MPI_File_read_at_all(file, 0, back, 4, MPI_BYTE, MPI_STATUS_IGNORE));
  CHECK_BYTES(back, mine, 4);
  MPI_Offset offset = -1;
  CHECK_OK(MPI_File_get_byte_offset(file, 2, &offset));
  CHECK_EQ(offset, MPI_Offset(65536) * (40000 + 2 * check::rank + 1) + 50000);
  CHECK_OK(MPI_File_close(&file));
  MPI_Type_free(&filetype);
}

TEST(filetype_of_more_than_two_to_the_31_bytes) {
  // Contiguous runs of 2^32 bytes with a gap behind; the middle of the second run is written.
  MPI_File file;
  if (!open_file(&file)) return;
  MPI_Datatype row, run, filetype;
  MPI_Type_contiguous(65536, MPI_BYTE, &row);
  MPI_Type_contiguous(65536, row, &run);
  MPI_Type_create_resized(run, 0, static_cast<MPI_Aint>(4 * GiB + 4096), &filetype);
  MPI_Type_commit(&filetype);
  CHECK_OK(MPI_File_set_view(file, 0, MPI_BYTE, filetype, "native", MPI_INFO_NULL));
  std::vector<int> mine = some_ints(10), back(10);
  const MPI_Offset first = 5 * GiB + 40 * check::rank;
  CHECK_OK(MPI_File_write_at_all(file, first, mine.data(), 40, MPI_BYTE, MPI_STATUS_IGNORE));
  CHECK_OK(MPI_File_read_at(file, first, back.data(), 40, MPI_BYTE, MPI_STATUS_IGNORE));
  CHECK(back == mine);
  check::sync_all(file);
  CHECK(ints_at(scratch(), first + 4096, 10) == mine);
  // And across the gap.
  if (check::rank == 0) {
    CHECK_OK(MPI_File_write_at(file, 4 * GiB - 20, mine.data(), 40, MPI_BYTE, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_read_at(file, 4 * GiB - 20, back.data(), 40, MPI_BYTE, MPI_STATUS_IGNORE));
    CHECK(back == mine);
    CHECK_OK(MPI_File_sync(file));
    CHECK_EQ(ints_at(scratch(), 4 * GiB - 20, 5)[4], mine[4]);
    CHECK_EQ(ints_at(scratch(), 4 * GiB + 4096, 5)[0], mine[5]);
  } else {
    CHECK_OK(MPI_File_sync(file));
  }
  CHECK_OK(MPI_File_close(&file));
  for (MPI_Datatype* type : {&row, &run, &filetype}) MPI_Type_free(type);
}

TEST(more_than_two_gibibytes_in_one_call) {
  // Rank 0 writes 2 GiB + 4 KiB from one megabyte of memory (copies of the type on top of each other), and reads the file's
  // two ends and its middle.  A write from overlapping memory is allowed, a read into it is not (section 14.4).
  MPI_File file;
  if (!open_file(&file)) return;
  constexpr int piece = 1 << 20;
  std::vector<int> memory(piece / 4);
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<int>(i);
  MPI_Datatype megabyte, copies;
  MPI_Type_contiguous(piece / 4, MPI_INT, &megabyte);
  MPI_Type_create_resized(megabyte, 0, 0, &copies);
  MPI_Type_commit(&copies);
  constexpr int count = 2049;
  if (check::rank == 0) {
    MPI_Status status;
    CHECK_OK(MPI_File_write_at(file, 0, memory.data(), count, copies, &status));
    CHECK_EQ(check::count_in(status, copies), count);
    MPI_Count elements = -1;
    MPI_Get_elements_x(&status, MPI_INT, &elements);
    CHECK_EQ(elements, MPI_Count(count) * piece / 4);
    CHECK_EQ(check::size_of_file(scratch()), MPI_Offset(count) * piece);
    for (const MPI_Offset place : {MPI_Offset(0), 2 * GiB - piece, 2 * GiB}) CHECK(ints_at(scratch(), place, piece / 4) == memory);
  }
  CHECK_OK(MPI_File_close(&file));
  MPI_Type_free(&megabyte);
  MPI_Type_free(&copies);
}

TEST(large_count_of_bytes) {
  // MPI_File_read_at_c of 2^31 + 8 bytes from a sparse file: mostly zeros, with marks at both ends and around 2 GiB.
  if (!check::have_large_count()) return;
  MPI_File file;
  if (!open_file(&file)) return;
  const MPI_Count count = 2 * GiB + 8;
  if (check::rank == 0) {
    const int marks[2] = {11, 22};
    CHECK_OK(MPI_File_write_at(file, 0, marks, 4, MPI_BYTE, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_write_at(file, 2 * GiB - 4, marks, 8, MPI_BYTE, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_write_at(file, 2 * GiB + 4, marks, 4, MPI_BYTE, MPI_STATUS_IGNORE));
    void* memory = mmap(nullptr, static_cast<std::size_t>(count), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (CHECK(memory != MAP_FAILED)) {
      MPI_Status status;
      CHECK_OK(MPI_File_read_at_c(file, 0, memory, count, MPI_BYTE, &status));
      CHECK_EQ(check::bytes_in(status), count);
      const auto* got = static_cast<const unsigned char*>(memory);
      CHECK_EQ(got[0], 11);
      CHECK_EQ(got[2 * GiB - 4], 11);
      CHECK_EQ(got[2 * GiB], 22);
      CHECK_EQ(got[2 * GiB + 4], 11);
      CHECK_EQ(got[GiB], 0);
      munmap(memory, static_cast<std::size_t>(count));
    }
  }
  CHECK_OK(MPI_File_close(&file));
}

TEST(large_count_of_nothing) {
  if (!check::have_large_count()) return;
  MPI_File file;
  if (!open_file(&file)) return;
  MPI_Datatype empty;
  MPI_Type_contiguous(0, MPI_INT, &empty);
  MPI_Type_commit(&empty);
  int value = 5;
  for (const calls::Call& call : calls::all_calls()) {
    if (!call.large) continue;
    MPI_Status status;
    const std::string what = name_of(call, calls::Direction::write);
    check::expect_success(transfer(call, calls::Direction::write, file, 0, &value, MPI_Count(5) << 31, empty, &status), what.c_str(),
                          __FILE__, __LINE__);
    check::expect_equal(check::bytes_in(status), 0, what.c_str(), __FILE__, __LINE__);
  }
  CHECK_OK(MPI_File_close(&file));
  check::barrier();
  CHECK_EQ(check::size_of_file(scratch()), 0);
  MPI_Type_free(&empty);
}

TEST(large_extents) {
  MPI_File file;
  if (!open_file(&file)) return;
  MPI_Datatype wide;
  MPI_Type_create_resized(MPI_INT, 0, static_cast<MPI_Aint>(7 * GiB), &wide);
  MPI_Type_commit(&wide);
  MPI_Aint extent = -1;
  CHECK_OK(MPI_File_get_type_extent(file, wide, &extent));
  CHECK_EQ(extent, 7 * GiB);
  if (check::have_large_count()) {
    MPI_Count large = -1;
    CHECK_OK(MPI_File_get_type_extent_c(file, wide, &large));
    CHECK_EQ(large, 7 * GiB);
  }
  MPI_Type_free(&wide);
  CHECK_OK(MPI_File_close(&file));
}

TEST(offset_that_overflows) {
  // A view offset whose byte offset does not fit 64 bits: an error, not a write somewhere else.
  MPI_File file;
  if (!open_file(&file)) return;
  CHECK_OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
  const int value = 1;
  EXPECT_ERROR(MPI_File_write_at(file, INT64_MAX / 2, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
  CHECK_OK(MPI_File_close(&file));
  check::barrier();
  CHECK_EQ(check::size_of_file(scratch()), 0);
}

TEST_MAIN(MPI_THREAD_SINGLE)
