/* Opens a file and says which library serves it: prints the value of the hint penstock_store, or "native". */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_File file;
  int failed = MPI_File_open(MPI_COMM_WORLD, "probe.file", MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file);
  if (failed == MPI_SUCCESS) {
    MPI_Info info;
    char value[MPI_MAX_INFO_VAL + 1] = "native";
    int there = 0;
    MPI_File_get_info(file, &info);
    if (info != MPI_INFO_NULL) {
      MPI_Info_get(info, "penstock_store", MPI_MAX_INFO_VAL, value, &there);
      MPI_Info_free(&info);
    }
    printf("store: %s\n", there ? value : "native");
    MPI_File_close(&file);
  }
  MPI_Finalize();
  return failed != MPI_SUCCESS;
}
