// As much of an mpi.h as the entry points need.  No large-count declarations, as in Open MPI 4; MPI_Aint is narrower
// than MPI_Count, so that extents can be too large for it.
#pragma once

#include <stdint.h>

typedef struct FakeFile* MPI_File;
#define MPI_FILE_NULL ((MPI_File)0)
typedef struct FakeRequest* MPI_Request;
typedef struct FakeErrhandler* MPI_Errhandler;
typedef int MPI_Comm;
typedef int MPI_Info;
typedef int MPI_Datatype;
typedef int MPI_Group;
typedef int MPI_Fint;
typedef int32_t MPI_Aint;
typedef int64_t MPI_Offset;
typedef int64_t MPI_Count;
typedef struct {
  int count;
} MPI_Status;

typedef void MPI_File_errhandler_function(MPI_File*, int*, ...);
typedef int MPI_Datarep_conversion_function(void*, MPI_Datatype, int, void*, MPI_Offset, void*);
typedef int MPI_Datarep_extent_function(MPI_Datatype, MPI_Aint*, void*);

#define MPI_SUCCESS 0
#define MPI_ERR_UNSUPPORTED_OPERATION 52
#define MPI_UNDEFINED (-32766)

#ifdef __cplusplus
extern "C" {
#endif
int MPI_File_open(MPI_Comm comm, const char* filename, int amode, MPI_Info info, MPI_File* fh);
int MPI_File_read(MPI_File fh, void* buffer, int count, MPI_Datatype datatype, MPI_Status* status);
int PMPI_File_read(MPI_File fh, void* buffer, int count, MPI_Datatype datatype, MPI_Status* status);
int MPI_File_write_at(MPI_File fh, MPI_Offset offset, const void* buffer, int count, MPI_Datatype datatype, MPI_Status* status);
int MPI_File_sync(MPI_File fh);
int MPI_File_seek(MPI_File fh, MPI_Offset offset, int whence);
int MPI_File_close(MPI_File* fh);
int MPI_File_get_type_extent(MPI_File fh, MPI_Datatype datatype, MPI_Aint* extent);
MPI_Fint MPI_File_c2f(MPI_File file);
#ifdef __cplusplus
}
#endif
