// What a native MPI library would answer, under names that the driver's resolver maps to.  It notes each call in
// `last_native`. It has no MPI_File_read_c and no MPI_File_seek, has MPI_File_write_at_c, and its MPI_File_sync opens
// a file of its own.
#include <mpi.h>

#include <string>

std::string last_native;
MPI_File last_handle;
MPI_Count last_native_count;
int last_error_seen;

static int note(const char* name, MPI_File fh, MPI_Count count = 0) {
  last_native = name;
  last_handle = fh;
  last_native_count = count;
  return MPI_SUCCESS;
}

extern "C" {
int native_MPI_File_open(MPI_Comm, const char*, int, MPI_Info, MPI_File*) { return note("MPI_File_open", nullptr); }
int native_MPI_File_close(MPI_File* fh) { return note("MPI_File_close", *fh); }
int native_MPI_File_sync(MPI_File) { return MPI_File_open(0, "inner", 0, 0, nullptr); }
int native_MPI_File_read(MPI_File fh, void*, int count, MPI_Datatype, MPI_Status*) { return note("MPI_File_read", fh, count); }
int native_PMPI_File_read(MPI_File fh, void*, int count, MPI_Datatype, MPI_Status*) { return note("PMPI_File_read", fh, count); }
int native_MPI_File_write_at_c(MPI_File fh, MPI_Offset, const void*, MPI_Count count, MPI_Datatype, MPI_Status*) {
  return note("MPI_File_write_at_c", fh, count);
}
int native_MPI_File_get_type_extent(MPI_File fh, MPI_Datatype, MPI_Aint* extent) {
  *extent = 24;
  return note("MPI_File_get_type_extent", fh);
}
MPI_Fint native_MPI_File_c2f(MPI_File fh) { return note("MPI_File_c2f", fh) + 99; }
int native_MPI_File_call_errhandler(MPI_File fh, int error) {
  last_error_seen = error;
  return note("MPI_File_call_errhandler", fh);
}
}
