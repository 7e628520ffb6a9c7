// Mistakes of a program that a sanitizer has to report from inside the library: whether runs under sanitizers would show a mistake of ours.
// ranks: 1 2
// reported by: thread: --race --multiple
// reported by: address: --overflow
// preloaded only
#include "check.h"

using check::open_on_world;
using check::scratch;

namespace {

constexpr int pieces = 20000;

/// `pieces` ints with a hole after each: the library has to gather them piece by piece.
MPI_Datatype every_second_int() {
  MPI_Datatype type;
  MPI_Type_vector(pieces, 1, 2, MPI_INT, &type);
  MPI_Type_commit(&type);
  return type;
}

}  // namespace

TEST(a_buffer_that_the_program_writes_while_the_library_reads_it) {
  if (!check::flag("--race")) return;
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  MPI_Datatype type = every_second_int();
  std::vector<int> memory(2 * pieces, 1);
  MPI_Request request;
  CHECK_OK(MPI_File_iwrite_at(file, MPI_Offset(4) * pieces * check::rank, memory.data(), 1, type, &request));
  for (int& value : memory) value = 2;  // before the wait: nothing orders it with the library's reading
  CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  MPI_Type_free(&type);
  CHECK_OK(MPI_File_close(&file));
}

TEST(a_buffer_that_is_shorter_than_the_program_says) {
  if (!check::flag("--overflow")) return;
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  MPI_Datatype type = every_second_int();
  std::vector<int> memory(2 * pieces - 100, 1);
  CHECK_OK(MPI_File_write_at(file, MPI_Offset(4) * pieces * check::rank, memory.data(), 1, type, MPI_STATUS_IGNORE));
  MPI_Type_free(&type);
  CHECK_OK(MPI_File_close(&file));
}

TEST_MAIN(MPI_THREAD_SINGLE)
