/* Opens, moves, syncs, closes and removes through MPI-IO or with plain calls.  Knows nothing of patterns. */
#include "opened.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct opened opened_open(const struct access *access, MPI_Comm ranks, const char *path, int writing, int reading) {
  struct opened opened = {.access = access, .path = path, .file = MPI_FILE_NULL, .descriptor = -1};
  if (access->posix) {
    opened.descriptor = open_posix(path, (writing ? O_CREAT : 0) | (!writing ? O_RDONLY : reading ? O_RDWR : O_WRONLY));
  } else {
    const int mode =
        (writing ? MPI_MODE_CREATE : 0) | (!writing ? MPI_MODE_RDONLY : reading ? MPI_MODE_RDWR : MPI_MODE_WRONLY);
    CHECK(MPI_File_open(ranks, path, mode, access->info, &opened.file), path);
  }
  return opened;
}

void opened_expect(const struct opened *opened, MPI_Status *status, int64_t size_bytes, const char *operation) {
  MPI_Count moved = 0;
  CHECK(MPI_Get_elements_x(status, MPI_BYTE, &moved), opened->path);
  if ((int64_t)moved != size_bytes) {
    fail("%s: %s moved %lld bytes, %lld were expected", opened->path, operation, (long long)moved, (long long)size_bytes);
  }
}

static int count_of(const struct opened *opened, int64_t size_bytes) {
  if (size_bytes > INT_MAX) {
    fail("%s: a call of %lld bytes is more than an int counts; use a smaller problem or more ranks", opened->path,
         (long long)size_bytes);
  }
  return (int)size_bytes;
}

void opened_write_at(const struct opened *opened, int64_t offset, const unsigned char *buffer, int64_t size_bytes) {
  if (opened->access->posix) {
    pwrite_whole(opened->descriptor, buffer, size_bytes, offset, opened->path);
    return;
  }
  MPI_Status status;
  const int count = count_of(opened, size_bytes);
  CHECK(opened->access->collective ? MPI_File_write_at_all(opened->file, offset, buffer, count, MPI_BYTE, &status)
                                   : MPI_File_write_at(opened->file, offset, buffer, count, MPI_BYTE, &status),
        opened->path);
  opened_expect(opened, &status, size_bytes, "write");
}

void opened_read_at(const struct opened *opened, int64_t offset, unsigned char *buffer, int64_t size_bytes) {
  if (opened->access->posix) {
    const int64_t moved = pread_whole(opened->descriptor, buffer, size_bytes, offset, opened->path);
    if (moved != size_bytes) {
      fail("%s: the file ends at %lld, %lld bytes too soon", opened->path, (long long)(offset + moved), (long long)(size_bytes - moved));
    }
    return;
  }
  MPI_Status status;
  const int count = count_of(opened, size_bytes);
  CHECK(opened->access->collective ? MPI_File_read_at_all(opened->file, offset, buffer, count, MPI_BYTE, &status)
                                   : MPI_File_read_at(opened->file, offset, buffer, count, MPI_BYTE, &status),
        opened->path);
  opened_expect(opened, &status, size_bytes, "read");
}

void opened_sync(const struct opened *opened) {
  if (!opened->access->posix) {
    CHECK(MPI_File_sync(opened->file), opened->path);
  } else if (fsync(opened->descriptor) != 0) {
    fail("%s: fsync: %s", opened->path, strerror(errno));
  }
}

void opened_close(struct opened *opened) {
  if (!opened->access->posix) {
    CHECK(MPI_File_close(&opened->file), opened->path);
  } else if (close(opened->descriptor) != 0) {
    fail("%s: close: %s", opened->path, strerror(errno));
  }
}

void opened_remove(const struct access *access, const char *path) {
  if (access->posix) {
    if (unlink(path) != 0 && errno != ENOENT) {
      fail("%s: unlink: %s", path, strerror(errno));
    }
    return;
  }
  const int code = MPI_File_delete(path, access->info);
  int class = MPI_SUCCESS;
  MPI_Error_class(code, &class);
  if (class != MPI_ERR_NO_SUCH_FILE) {
    check(code, "MPI_File_delete", path);
  }
}

const char *access_name(const struct access *access) {
  return access->posix ? "posix" : access->collective ? "collective" : "independent";
}

char *path_of_rank(const char *path, int rank) {
  const size_t length = strlen(path) + 16;
  char *text = allocate((int64_t)length, 1);
  snprintf(text, length, "%s.%05d", path, rank);
  return text;
}
