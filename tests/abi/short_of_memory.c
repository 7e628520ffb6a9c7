/* Every call with the n-th allocation of the library failing, for every n: each returns a code, none ends the program, and the next file goes right.  One rank. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INTS = 1000 };
static int out[INTS], in[INTS];
static const char *path;
static const char *hints;
static int errors; /* calls that returned one */
static const char *last_error;

static int told(int code, const char *call) {
  if (code == MPI_SUCCESS) return 1;
  int class = -1;
  MPI_Error_class(code, &class);
  if (class <= MPI_SUCCESS) printf("%s: code %d has class %d\n", call, code, class), exit(1);
  ++errors;
  last_error = call;
  return 0;
}
#define TRY(call) told(call, #call)

static void finish(MPI_Request *request) {
  if (*request != MPI_REQUEST_NULL) TRY(MPI_Wait(request, MPI_STATUS_IGNORE));
}

static void use(void) {
  MPI_File file = MPI_FILE_NULL;
  MPI_Info info = MPI_INFO_NULL;
  MPI_Datatype view = MPI_DATATYPE_NULL;
  MPI_Status status;
  MPI_Info_create(&info);
  MPI_Info_set(info, "penstock_strategy", hints);
  MPI_Type_vector(INTS, 1, 3, MPI_INT, &view);
  MPI_Type_commit(&view);
  const int opened = TRY(MPI_File_open(MPI_COMM_SELF, path, MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file));
  MPI_Info_free(&info);
  if (opened) {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Offset offset = 0;
    MPI_Aint extent = 0;
    MPI_Group group = MPI_GROUP_NULL;
    TRY(MPI_File_write_at(file, 0, out, INTS, MPI_INT, &status));
    TRY(MPI_File_set_view(file, 4, MPI_INT, view, "native", MPI_INFO_NULL));
    TRY(MPI_File_write_at_all(file, 0, out, INTS, MPI_INT, &status));
    TRY(MPI_File_read_at(file, 0, in, INTS, MPI_INT, &status));
    TRY(MPI_File_iwrite_at(file, 0, out, INTS, MPI_INT, &request));
    finish(&request);
    TRY(MPI_File_iread_at_all(file, 0, in, INTS, MPI_INT, &request));
    finish(&request);
    if (TRY(MPI_File_write_at_all_begin(file, 0, out, INTS, MPI_INT))) TRY(MPI_File_write_at_all_end(file, out, &status));
    TRY(MPI_File_write(file, out, 10, MPI_INT, &status));
    TRY(MPI_File_seek(file, 5, MPI_SEEK_SET));
    TRY(MPI_File_write_shared(file, out, 10, MPI_INT, &status));
    TRY(MPI_File_read_ordered(file, in, 10, MPI_INT, &status));
    TRY(MPI_File_get_position_shared(file, &offset));
    TRY(MPI_File_get_byte_offset(file, 3, &offset));
    TRY(MPI_File_set_view(file, 0, MPI_INT, view, "external32", MPI_INFO_NULL));
    TRY(MPI_File_get_type_extent(file, view, &extent));
    TRY(MPI_File_write_at(file, 0, out, INTS, MPI_INT, &status));
    TRY(MPI_File_read_at_all(file, 0, in, INTS, MPI_INT, &status));
    TRY(MPI_File_set_atomicity(file, 1));
    TRY(MPI_File_write_at(file, 0, out, INTS, MPI_INT, &status));
    if (TRY(MPI_File_get_info(file, &info))) MPI_Info_free(&info);
    if (TRY(MPI_File_get_group(file, &group))) MPI_Group_free(&group);
    TRY(MPI_File_preallocate(file, 20000));
    TRY(MPI_File_set_size(file, 20000));
    TRY(MPI_File_get_size(file, &offset));
    TRY(MPI_File_sync(file));
    TRY(MPI_File_close(&file));
  }
  MPI_Type_free(&view);
  TRY(MPI_File_delete(path, MPI_INFO_NULL));
}

int main(int argc, char **argv) {
  int (*fail_allocation)(long) = (int (*)(long))dlsym(RTLD_DEFAULT, "fail_allocation");
  int (*allocation_failed)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "allocation_failed");
  if (argc < 3 || fail_allocation == NULL || allocation_failed == NULL) return 2;
  path = argv[1];
  hints = argv[2];
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  for (int i = 0; i < INTS; ++i) out[i] = i;
  use(); /* what is only made once; the library is loaded */
  if (errors != 0 || !fail_allocation(-1)) return printf("%d errors without want of memory, the last of %s\n", errors, last_error), 1;
  long which = 0;
  long with_errors = 0;
  for (;; ++which) {
    if (getenv("TELL") != NULL) fprintf(stderr, "%ld\n", which);
    fail_allocation(which);
    use();
    const int failed = allocation_failed();
    fail_allocation(-1);
    with_errors += errors > 0;
    errors = 0;
    remove(path);
    use();
    if (errors > 0) return printf("after allocation %ld failed, %d calls on another file did, the last of them %s\n", which, errors, last_error), 1;
    if (!failed) break;
  }
  MPI_Finalize();
  printf("%ld allocations failed, %ld times a call said so\n", which, with_errors);
  return 0;
}
