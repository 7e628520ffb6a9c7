/* The same calls from plain C17, without the harness: it compiles as C, and a C program runs. */
// ranks: 1 3 4
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size, failures;

#define EXPECT(condition)                                                                        \
  do {                                                                                           \
    if (!(condition)) {                                                                          \
      ++failures;                                                                                \
      fprintf(stderr, "%s:%d: rank %d of %d: expected %s\n", __FILE__, __LINE__, rank, size, #condition); \
    }                                                                                            \
  } while (0)
#define EXPECT_OK(call) EXPECT((call) == MPI_SUCCESS)

static int handled;
static void note(MPI_File* file, int* code, ...) {
  (void)file;
  (void)code;
  ++handled;
}

static void write_and_read(const char* name) {
  MPI_File file;
  MPI_Datatype filetype;
  MPI_Status status;
  MPI_Request request;
  MPI_Errhandler handler;
  MPI_Offset offset = -1, size_of_file = -1;
  MPI_Info info;
  int values[10], back[10], count = -1, present = -1, amode = 0;
  char value[MPI_MAX_INFO_VAL + 1];

  for (int i = 0; i < 10; ++i) values[i] = 100 * rank + i;
  EXPECT_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
  EXPECT_OK(MPI_File_get_amode(file, &amode));
  EXPECT(amode == (MPI_MODE_CREATE | MPI_MODE_RDWR));
  MPI_Type_vector(10, 1, size, MPI_INT, &filetype);
  MPI_Type_commit(&filetype);
  EXPECT_OK(MPI_File_set_view(file, (MPI_Offset)(4 * rank), MPI_INT, filetype, "native", MPI_INFO_NULL));
  EXPECT_OK(MPI_File_write_all(file, values, 10, MPI_INT, &status));
  MPI_Get_count(&status, MPI_INT, &count);
  EXPECT(count == 10);
  EXPECT_OK(MPI_File_get_position(file, &offset));
  EXPECT(offset == 10);
  EXPECT_OK(MPI_File_sync(file));
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_OK(MPI_File_get_size(file, &size_of_file));
  EXPECT(size_of_file == 40 * size);
  EXPECT_OK(MPI_File_iread_at(file, 0, back, 10, MPI_INT, &request));
  EXPECT_OK(MPI_Wait(&request, &status));
  EXPECT(memcmp(values, back, sizeof values) == 0);
  EXPECT_OK(MPI_File_get_info(file, &info));
  EXPECT_OK(MPI_Info_get(info, "no such key", MPI_MAX_INFO_VAL, value, &present));
  EXPECT(!present);
  MPI_Info_free(&info);
  EXPECT_OK(MPI_File_create_errhandler(note, &handler));
  EXPECT_OK(MPI_File_set_errhandler(file, handler));
  EXPECT(MPI_File_seek(file, -1, MPI_SEEK_SET) != MPI_SUCCESS);
  EXPECT(handled == 1);
  MPI_Errhandler_free(&handler);
#ifdef MPI_ABI_VERSION /* the standard ABI has these in place of f2c and c2f */
  EXPECT(MPI_File_fromint(MPI_File_toint(file)) == file);
#else
  EXPECT(MPI_File_f2c(MPI_File_c2f(file)) == file);
#endif
  EXPECT_OK(MPI_File_close(&file));
  EXPECT(file == MPI_FILE_NULL);
  MPI_Type_free(&filetype);
  if (rank == 0) EXPECT_OK(MPI_File_delete(name, MPI_INFO_NULL));
}

int main(int argc, char** argv) {
  char name[4096];
  const char* directory = getenv("PENSTOCK_TEST_DIRECTORY");
  int number = (int)getpid(), all = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Bcast(&number, 1, MPI_INT, 0, MPI_COMM_WORLD);
  snprintf(name, sizeof name, "%s/io_c-%d", directory ? directory : ".", number);
  write_and_read(name);
  MPI_Reduce(&failures, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) puts(all == 0 ? "ok" : "failed");
  MPI_Finalize();
  return all != 0;
}
