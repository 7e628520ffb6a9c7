// Several nodes (pretended) on an MPI without one-sided communication: files open and move data as ever, and what needs words that all nodes
// reach (shared pointers, atomic mode) says so instead of moving data to wrong places.  MPICH has no such setting; there everything works.
// preloaded only
// ranks: 1 3
// run: PENSTOCK_RANKS_PER_NODE=1 OMPI_MCA_osc=^sm,rdma,pt2pt,ucx,monitoring
// run: PENSTOCK_RANKS_PER_NODE=2 OMPI_MCA_osc=^sm,rdma,pt2pt,ucx,monitoring
#include "check.h"

using check::open_on_world;
using check::scratch;

namespace {

bool words_work() {
#ifdef OPEN_MPI
  return check::size == 1;
#else
  return true;
#endif
}

/// Success where the words work, else MPI_ERR_UNSUPPORTED_OPERATION (on the ranks that are not told by another only), and why.
void check_needs_words(int code, const char* text, int line) {
  if (words_work()) {
    check::expect_success(code, text, __FILE__, line);
    return;
  }
  check::expect_class(code, {MPI_ERR_UNSUPPORTED_OPERATION}, text, __FILE__, line);
  if (check::describe(code).find("one-sided") == std::string::npos)
    check::fail(__FILE__, line, std::string(text) + ": expected a sentence about one-sided communication, got " + check::describe(code));
}
#define CHECK_NEEDS_WORDS(call) check_needs_words((call), #call, __LINE__)

}  // namespace

TEST(everything_else_works) {
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_APPEND, &file)) return;
  MPI_Datatype part;
  MPI_Type_create_resized(MPI_INT, 0, 4 * check::size, &part);
  MPI_Type_commit(&part);
  for (int round = 0; round < 3; ++round) {
    CHECK_OK(MPI_File_set_view(file, 4 * check::rank, MPI_INT, part, "native", MPI_INFO_NULL));
    int values[2] = {10 * round + check::rank, 1000 + check::rank};
    int back[2] = {-1, -1};
    CHECK_OK(MPI_File_write_all(file, values, 2, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_seek(file, 0, MPI_SEEK_SET));
    CHECK_OK(MPI_File_read_all(file, back, 2, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_EQ(back[0], values[0]);
    CHECK_EQ(back[1], values[1]);
  }
  CHECK_OK(MPI_File_set_atomicity(file, 0));
  CHECK_OK(MPI_File_sync(file));
  CHECK_OK(MPI_File_close(&file));
  MPI_Type_free(&part);
  check::barrier();
  CHECK_EQ(check::size_of_file(scratch()), 8 * check::size);
}

TEST(shared_pointers_say_why_they_do_not) {
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  int value = check::rank;
  MPI_Offset position = -1;
  MPI_Request request = MPI_REQUEST_NULL;
  CHECK_NEEDS_WORDS(MPI_File_write_shared(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
  CHECK_NEEDS_WORDS(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
  CHECK_NEEDS_WORDS(MPI_File_get_position_shared(file, &position));
  const int started = MPI_File_iread_shared(file, &value, 1, MPI_INT, &request);
  CHECK_OK(words_work() ? started : MPI_SUCCESS);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (started == MPI_SUCCESS) CHECK_NEEDS_WORDS(MPI_Wait(&request, MPI_STATUS_IGNORE));
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
  CHECK_NEEDS_WORDS(MPI_File_write_ordered(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
  CHECK_NEEDS_WORDS(MPI_File_read_ordered(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
  check::barrier();
  if (check::rank == 0 && !words_work()) CHECK_EQ(check::size_of_file(scratch()), 0);
  check::barrier();
  // The file is as good as before.
  CHECK_OK(MPI_File_write_at_all(file, 4 * check::rank, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
  CHECK_OK(MPI_File_close(&file));
}

TEST(atomic_mode_says_why_it_does_not) {
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  int flag = -1;
  CHECK_NEEDS_WORDS(MPI_File_set_atomicity(file, 1));
  CHECK_OK(MPI_File_get_atomicity(file, &flag));
  CHECK_EQ(flag, words_work() ? 1 : 0);
  int value = check::rank;
  CHECK_OK(MPI_File_write_at_all(file, 4 * check::rank, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
  CHECK_OK(MPI_File_close(&file));
}

TEST_MAIN(MPI_THREAD_SINGLE)
