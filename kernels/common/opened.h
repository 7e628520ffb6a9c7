/* A file that a program opened through MPI-IO or with plain calls, as its options say, so that both can be compared.  Knows nothing of
 * patterns, nor of what carries the MPI-IO calls out. */
#ifndef OPENED_H
#define OPENED_H

#include "program.h"

/* How a program accesses its files. */
struct access {
  int posix;      /* open, pwrite and pread instead of MPI_File calls */
  int collective; /* of MPI_File calls */
  MPI_Info info;
};

struct opened {
  const struct access *access;
  const char *path;
  MPI_File file;  /* unless posix */
  int descriptor; /* where posix */
};

/* Collective over `ranks`; creates what is not there when it is to be written. */
struct opened opened_open(const struct access *access, MPI_Comm ranks, const char *path, int writing, int reading);
/* One call of at most INT_MAX bytes.  Collective where the access is. */
void opened_write_at(const struct opened *opened, int64_t offset, const unsigned char *buffer, int64_t size_bytes);
void opened_read_at(const struct opened *opened, int64_t offset, unsigned char *buffer, int64_t size_bytes);
/* Ends the program unless the call moved that many bytes. */
void opened_expect(const struct opened *opened, MPI_Status *status, int64_t size_bytes, const char *operation);
void opened_sync(const struct opened *opened);
void opened_close(struct opened *opened);
/* Local; fine when there is no such file. */
void opened_remove(const struct access *access, const char *path);
/* PATH.00003: of a rank that has a file of its own.  The caller frees it. */
char *path_of_rank(const char *path, int rank);
/* "posix", "collective" or "independent". */
const char *access_name(const struct access *access);

#endif
