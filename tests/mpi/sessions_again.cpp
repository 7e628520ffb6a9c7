// A program that ends MPI and begins it anew, as programs of sessions may (MPI 4.1 section 11.3): the numbers of attribute keys that the library gave before
// are then the program's.  On one rank: with several, and with Open MPI, libraries that begin anew fail or hang by themselves now and then.
// ranks: 1
// run:
// run: --world
// under: wheel-mpich wheel-abi
// preloaded only
#include "check.h"

namespace {

constexpr int kInts = 6;
constexpr int kKeys = 8;
// Not at all what anybody else would keep there.
char programs_own[64];

std::string file_name() { return check::directory + "/sessions-again-file"; }

int delete_from_comm(MPI_Comm, int, void* value, void*) { return value == programs_own ? MPI_SUCCESS : MPI_ERR_OTHER; }
int delete_from_type(MPI_Datatype, int, void* value, void*) { return value == programs_own ? MPI_SUCCESS : MPI_ERR_OTHER; }

/// A file by a strided view, with accesses that go on in the background; a second one on the same communicator.
void use_files(MPI_Comm everybody, MPI_Datatype column, int round) {
  for (int time = 0; time < 2; ++time) {
    MPI_File file = MPI_FILE_NULL;
    CHECK_OK(MPI_File_open(everybody, file_name().c_str(), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    CHECK_OK(MPI_File_set_view(file, check::rank * static_cast<MPI_Offset>(sizeof(int)), MPI_INT, column, "native", MPI_INFO_NULL));
    std::vector<int> values;
    for (int i = 0; i < kInts; ++i) values.push_back(1000 * round + 100 * check::rank + 10 * time + i);
    std::vector<int> back(values.size(), -1);
    MPI_Request requests[2];
    CHECK_OK(MPI_File_write_at_all(file, 0, values.data(), kInts, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_iwrite_at(file, kInts, values.data(), kInts, MPI_INT, &requests[0]));
    CHECK_OK(MPI_File_iwrite_at_all(file, 2 * kInts, values.data(), kInts, MPI_INT, &requests[1]));
    CHECK_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    for (int block = 0; block < 3; ++block) {
      CHECK_OK(MPI_File_read_at_all(file, block * kInts, back.data(), kInts, MPI_INT, MPI_STATUS_IGNORE));
      CHECK(back == values);
    }
    CHECK_OK(MPI_File_close(&file));
  }
}

/// From the beginning of a session to its end.  Returns whether a check failed on any rank.
bool use_session(int round) {
  MPI_Session session = MPI_SESSION_NULL;
  MPI_Group group = MPI_GROUP_NULL;
  MPI_Comm everybody = MPI_COMM_NULL;
  CHECK_OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
  CHECK_OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
  CHECK_OK(MPI_Comm_create_from_group(group, "penstock.test", MPI_INFO_NULL, MPI_ERRORS_RETURN, &everybody));
  MPI_Comm_rank(everybody, &check::rank);
  MPI_Comm_size(everybody, &check::size);
  MPI_Datatype column = MPI_DATATYPE_NULL, narrow = MPI_DATATYPE_NULL;
  MPI_Type_vector(kInts, 1, check::size, MPI_INT, &narrow);
  MPI_Type_create_resized(narrow, 0, static_cast<MPI_Aint>(sizeof(int)) * kInts * check::size, &column);
  MPI_Type_commit(&column);
  int comm_keys[kKeys], type_keys[kKeys];
  for (int i = 0; i < kKeys && round > 0; ++i) {
    CHECK_OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete_from_comm, &comm_keys[i], nullptr));
    CHECK_OK(MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, delete_from_type, &type_keys[i], nullptr));
    CHECK_OK(MPI_Comm_set_attr(everybody, comm_keys[i], programs_own));
    CHECK_OK(MPI_Type_set_attr(column, type_keys[i], programs_own));
  }
  use_files(everybody, column, round);
  for (int i = 0; i < kKeys && round > 0; ++i) {
    void* value = nullptr;
    int found = 0;
    CHECK_OK(MPI_Comm_get_attr(everybody, comm_keys[i], &value, &found));
    CHECK(found != 0 && value == programs_own);
    CHECK_OK(MPI_Type_get_attr(column, type_keys[i], &value, &found));
    CHECK(found != 0 && value == programs_own);
    CHECK_OK(MPI_Comm_free_keyval(&comm_keys[i]));
    CHECK_OK(MPI_Type_free_keyval(&type_keys[i]));
  }
  CHECK_OK(MPI_Type_free(&column));
  MPI_Type_free(&narrow);
  int failed = check::failures_here, failed_anywhere = 1;
  MPI_Allreduce(&failed, &failed_anywhere, 1, MPI_INT, MPI_MAX, everybody);
  if (check::rank == 0) unlink(file_name().c_str());
  CHECK_OK(MPI_Comm_free(&everybody));
  MPI_Group_free(&group);
  CHECK_OK(MPI_Session_finalize(&session));
  return failed_anywhere != 0;
}

/// The same beginning as most programs have.
void use_world() {
  MPI_Init(nullptr, nullptr);
  MPI_Comm_rank(MPI_COMM_WORLD, &check::rank);
  MPI_Comm_size(MPI_COMM_WORLD, &check::size);
  MPI_Datatype column = MPI_DATATYPE_NULL, narrow = MPI_DATATYPE_NULL;
  MPI_Type_vector(kInts, 1, check::size, MPI_INT, &narrow);
  MPI_Type_create_resized(narrow, 0, static_cast<MPI_Aint>(sizeof(int)) * kInts * check::size, &column);
  MPI_Type_commit(&column);
  use_files(MPI_COMM_WORLD, column, 0);
  MPI_Type_free(&column);
  MPI_Type_free(&narrow);
  MPI_Finalize();
}

}  // namespace

int main(int argc, char** argv) {
  std::memset(programs_own, 'A', sizeof programs_own);
  if (const char* given = std::getenv("PENSTOCK_TEST_DIRECTORY")) check::directory = given;
  const bool world = argc > 1 && std::string(argv[1]) == "--world";
  if (world) use_world();
  bool failed = !world && use_session(0);
  failed = use_session(1) || failed;
  failed = use_session(2) || failed;
  if (check::rank == 0 && !failed) std::printf("ok\n");
  return failed ? 1 : 0;
}
