/* Opens one file plainly and one bypassed: who serves the calls?  Prints what it sees, one fact a line. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static int handler_calls = 0;

static void count_call(MPI_File* file, int* code, ...) {
  (void)file;
  (void)code;
  ++handler_calls;
}

static int has_our_hints(MPI_File file) {
  MPI_Info info;
  int count = 0;
  int found = 0;
  MPI_File_get_info(file, &info);
  MPI_Info_get_nkeys(info, &count);
  for (int i = 0; i < count; ++i) {
    char key[MPI_MAX_INFO_KEY + 1];
    MPI_Info_get_nthkey(info, i, key);
    found |= strcmp(key, "penstock_store") == 0; /* a native library may keep penstock_bypass, as given */
  }
  MPI_Info_free(&info);
  return found;
}

/* Opens `name` with the hint penstock_bypass set to `bypass`, writes, makes a call fail, reads back. */
static void use(const char* name, const char* bypass, const char* title) {
  MPI_File file;
  MPI_Info info;
  MPI_Errhandler handler;
  int rank = 0;
  int back = -1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Info_create(&info);
  MPI_Info_set(info, "penstock_bypass", bypass);
  const int code = MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file);
  MPI_Info_free(&info);
  if (code != MPI_SUCCESS) {
    printf("%s: open failed with %d\n", title, code);
    return;
  }
  MPI_File_create_errhandler(count_call, &handler);
  MPI_File_set_errhandler(file, handler);
  MPI_Errhandler_free(&handler);
  handler_calls = 0;
  MPI_File_write_at(file, 0, &rank, -1, MPI_INT, MPI_STATUS_IGNORE);
  MPI_File_write_at_all(file, 4 * rank, &rank, 1, MPI_INT, MPI_STATUS_IGNORE);
  PMPI_File_read_at_all(file, 4 * rank, &back, 1, MPI_INT, MPI_STATUS_IGNORE);
  const int ours = has_our_hints(file);
  MPI_File_close(&file);
  if (rank == 0) printf("%s: %s, data %s, handler called %d times\n", title, ours ? "penstock" : "native", back == rank ? "right" : "wrong", handler_calls);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  use(argv[1], "no", "plain");
  use(argv[2], "yes", "bypassed");
  MPI_Finalize();
  return 0;
}
