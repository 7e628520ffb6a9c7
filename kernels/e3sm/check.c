/* Tells what failed, with which value, and ends the program.  The only place that calls MPI_Abort. */
#include "e3sm.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

_Noreturn void fail(const char *format, ...) {
  int rank = -1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  fprintf(stderr, "e3sm: rank %d: %s\n", rank, text);
  fflush(stderr);
  MPI_Abort(MPI_COMM_WORLD, 1);
  exit(1);
}

void check(int code, const char *operation, const char *subject) {
  if (code == MPI_SUCCESS) {
    return;
  }
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  int class = 0;
  MPI_Error_class(code, &class);
  MPI_Error_string(code, text, &length);
  fail("%s: %s (error class %d) in %s", subject, text, class, operation);
}

void *allocate(int64_t count, int64_t size_bytes) {
  if (count < 0 || (size_bytes > 0 && count > INT64_MAX / size_bytes)) {
    fail("cannot allocate %lld items of %lld bytes: the product overflows", (long long)count, (long long)size_bytes);
  }
  const size_t bytes = (size_t)(count * size_bytes);
  void *memory = malloc(bytes > 0 ? bytes : 1);
  if (memory == NULL) {
    fail("out of memory: %zu bytes wanted; use fewer levels, a coarser mesh or more ranks", bytes);
  }
  return memory;
}
