// Calls of Penstock that wait for a collective access in the background, in a program whose thread has to carry the messages of it: whoever waits without
// carrying them hangs, and the runner's time limit tells.
// ranks: 4
// preloaded only
// run: PENSTOCK_HINTS=penstock_strategy=two_phase PENSTOCK_RANKS_PER_NODE=2
// run: PENSTOCK_HINTS=penstock_strategy=two_layer PENSTOCK_RANKS_PER_NODE=2
#include <dlfcn.h>

#include "calls.h"

using check::open_on_world;
using check::scratch;

namespace {

constexpr int kCount = 50000;

/// Open MPI and newer MPICH call Penstock while the program is inside of MPI.  With others a non-blocking collective tells each rank its own verdict (README).
bool ranks_agree() {
#ifdef OPEN_MPI
  return true;
#else
  return dlsym(RTLD_DEFAULT, "PMPIX_Async_start") != nullptr;
#endif
}

/// A file of which every rank has each n-th number.
struct Dealt {
  MPI_File file = MPI_FILE_NULL;
  std::vector<int> values;

  bool open(const std::string& suffix = "file") {
    if (!open_on_world(scratch(suffix), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return false;
    for (int i = 0; i < kCount; ++i) values.push_back(8 * i + check::rank);
    MPI_Datatype turn;
    MPI_Type_vector(kCount, 1, check::size, MPI_INT, &turn);
    MPI_Type_commit(&turn);
    CHECK_OK(MPI_File_set_view(file, 4 * check::rank, MPI_INT, turn, "native", MPI_INFO_NULL));
    MPI_Type_free(&turn);
    return true;
  }
  [[nodiscard]] int start(int count, MPI_Request* request) { return MPI_File_iwrite_at_all(file, 0, values.data(), count, MPI_INT, request); }
  void check_contents() {
    std::vector<int> back(kCount, -1);
    CHECK_OK(MPI_File_read_at(file, 0, back.data(), kCount, MPI_INT, MPI_STATUS_IGNORE));
    CHECK(back == values);
  }
};

}  // namespace

TEST(atomicity_is_set_meanwhile) {
  Dealt dealt;
  if (!dealt.open()) return;
  MPI_Request request = MPI_REQUEST_NULL;
  CHECK_OK(dealt.start(kCount, &request));
  CHECK_OK(MPI_File_set_atomicity(dealt.file, 1));
  CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  dealt.check_contents();
  CHECK_OK(MPI_File_close(&dealt.file));
}

TEST(closed_within_a_split_collective) {
  // Erroneous, but the data arrive and nobody hangs.
  Dealt dealt;
  if (!dealt.open()) return;
  CHECK_OK(MPI_File_write_at_all_begin(dealt.file, 0, dealt.values.data(), kCount, MPI_INT));
  CHECK_OK(MPI_File_close(&dealt.file));
  CHECK_EQ(check::size_of_file(scratch("file")), std::int64_t{4} * kCount * check::size);
}

TEST(closed_with_requests_that_nobody_waits_for) {
  Dealt dealt;
  if (!dealt.open()) return;
  for (int round = 0; round < 3; ++round) {
    MPI_Request request = MPI_REQUEST_NULL;
    CHECK_OK(dealt.start(kCount, &request));
    MPI_Request_free(&request);
  }
  CHECK_OK(MPI_File_close(&dealt.file));
  CHECK_EQ(check::size_of_file(scratch("file")), std::int64_t{4} * kCount * check::size);
}

TEST(one_rank_has_no_request) {
  // Its arguments are wrong.  The others hear of it when they wait, whatever it does meanwhile.
  Dealt dealt;
  if (!dealt.open()) return;
  const bool wrong = check::rank == check::size - 1;
  for (int round = 0; round < 3; ++round) {
    MPI_Request request = MPI_REQUEST_NULL;
    const int started = dealt.start(wrong ? -1 : kCount, &request);
    CHECK_EQ(started != MPI_SUCCESS, wrong);
    if (wrong)
      check::barrier();
    else
      CHECK_EQ(MPI_Wait(&request, MPI_STATUS_IGNORE) != MPI_SUCCESS, ranks_agree());
    if (!wrong) check::barrier();
    CHECK_OK(dealt.start(kCount, &request));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  }
  dealt.check_contents();
  CHECK_OK(MPI_File_close(&dealt.file));
}

TEST(several_files_at_once) {
  Dealt dealt[3];
  for (int i = 0; i < 3; ++i)
    if (!dealt[i].open("file" + std::to_string(i))) return;
  for (int round = 0; round < 3; ++round) {
    MPI_Request requests[3];
    for (int i = 0; i < 3; ++i) {
      const int which = (i + check::rank) % 3;
      CHECK_OK(dealt[which].start(kCount, &requests[which]));
    }
    for (int i = 0; i < 3; ++i) {
      int index = -1;
      CHECK_OK(MPI_Waitany(3, requests, &index, MPI_STATUS_IGNORE));
      if (i == 1) check::barrier();
    }
  }
  for (Dealt& one : dealt) {
    one.check_contents();
    CHECK_OK(MPI_File_close(&one.file));
  }
}

TEST_MAIN(MPI_THREAD_SINGLE)
