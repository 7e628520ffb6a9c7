// Files on a pretended device (PENSTOCK_EMULATE): the same bytes, no sooner than the device has them; and settings that can not be meant.
// ranks: 1 3 4
// run: PENSTOCK_EMULATE=ssd,rate=40,name=mpi-test --rate 40000000
// run: PENSTOCK_EMULATE=rate=fast --refused
// preloaded only
#include "check.h"

using check::open_on_world;
using check::scratch;

namespace {

constexpr int kPiece = 512;
constexpr int kPieces = 1000;

std::string argument_after(const char* name) {
  for (std::size_t i = 0; i + 1 < check::arguments.size(); ++i)
    if (check::arguments[i] == name) return check::arguments[i + 1];
  return "";
}

bool refused() { return std::find(check::arguments.begin(), check::arguments.end(), "--refused") != check::arguments.end(); }

/// Byte `index` of the file.
unsigned char byte_at(long index) { return static_cast<unsigned char>(index * 7 + index / 251); }

}  // namespace

// Every rank has every size-th piece; written by a collective call, read back by another rank's view and by the system.
TEST(interleaved) {
  if (refused()) return;
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  MPI_Datatype pieces;
  CHECK_OK(MPI_Type_vector(kPieces, kPiece, kPiece * check::size, MPI_BYTE, &pieces));
  CHECK_OK(MPI_Type_commit(&pieces));
  std::vector<unsigned char> data(static_cast<std::size_t>(kPieces) * kPiece);
  const auto fill = [&](int rank) {
    for (long i = 0; i < kPieces * kPiece; ++i)
      data[static_cast<std::size_t>(i)] = byte_at((i / kPiece * check::size + rank) * kPiece + i % kPiece);
  };
  fill(check::rank);
  CHECK_OK(MPI_File_set_view(file, MPI_Offset{check::rank} * kPiece, MPI_BYTE, pieces, "native", MPI_INFO_NULL));
  check::barrier();
  const double began = MPI_Wtime();
  MPI_Status status;
  CHECK_OK(MPI_File_write_all(file, data.data(), kPieces * kPiece, MPI_BYTE, &status));
  CHECK_EQ(check::bytes_in(status), kPieces * kPiece);
  check::barrier();
  const double took = MPI_Wtime() - began;
  const double least = static_cast<double>(kPieces) * kPiece * check::size / std::stod(argument_after("--rate"));
  CHECK(took >= least * 0.95);
  check::sync_all(file);
  const int other = (check::rank + 1) % check::size;
  CHECK_OK(MPI_File_set_view(file, MPI_Offset{other} * kPiece, MPI_BYTE, pieces, "native", MPI_INFO_NULL));
  std::vector<unsigned char> back(data.size());
  CHECK_OK(MPI_File_read_all(file, back.data(), kPieces * kPiece, MPI_BYTE, &status));
  fill(other);
  CHECK(back == data);
  CHECK_OK(MPI_Type_free(&pieces));
  CHECK_OK(MPI_File_close(&file));
  check::barrier();
  CHECK_EQ(check::size_of_file(scratch()), static_cast<long>(kPieces) * kPiece * check::size);
}

// A run that was to be slow is not fast without anybody noticing.
TEST(settings_that_can_not_be_meant) {
  if (!refused()) return;
  MPI_File file = MPI_FILE_NULL;
  EXPECT_CLASS(MPI_File_open(MPI_COMM_WORLD, scratch().c_str(), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file), MPI_ERR_INFO_VALUE);
  check::barrier();
  CHECK_EQ(check::size_of_file(scratch()), -1);
}

TEST_MAIN(MPI_THREAD_SINGLE)
