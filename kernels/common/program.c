/* Failing clearly, plain files, shared clocks, sums, JSON, for kernels and benchmark programs.  The only place that calls MPI_Abort.
 * Knows nothing of patterns. */
#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

int this_rank;
int all_ranks;
static const char *program_name;
static MPI_Comm ranks_of_node = MPI_COMM_NULL;

void start_mpi(int *argc, char ***argv, const char *name) {
  program_name = name;
  if (MPI_Init(argc, argv) != MPI_SUCCESS) {
    fprintf(stderr, "%s: MPI_Init failed\n", name);
    exit(1);
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  CHECK(MPI_Comm_rank(MPI_COMM_WORLD, &this_rank), "communicator");
  CHECK(MPI_Comm_size(MPI_COMM_WORLD, &all_ranks), "communicator");
  CHECK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, this_rank, MPI_INFO_NULL, &ranks_of_node), "ranks of a node");
}

void end_mpi(void) {
  CHECK(MPI_Comm_free(&ranks_of_node), "ranks of a node");
  CHECK(MPI_Finalize(), "finalize");
}

_Noreturn static void end_in_order(void) {
  fflush(stderr);
  end_mpi();
  exit(2);
}

static void say(const char *format, va_list arguments) {
  char text[1024];
  vsnprintf(text, sizeof text, format, arguments);
  fprintf(stderr, "%s: rank %d: %s\n", program_name, this_rank, text);
  fflush(stderr);
}

_Noreturn void refuse(const char *format, ...) {
  if (this_rank == 0) {
    va_list arguments;
    va_start(arguments, format);
    say(format, arguments);
    va_end(arguments);
  }
  end_in_order();
}

_Noreturn void usage_error(const char *usage) {
  if (this_rank == 0) {
    fputs(usage, stderr);
  }
  end_in_order();
}

_Noreturn void fail(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  say(format, arguments);
  va_end(arguments);
  // A launcher that hears of an abort may stop forwarding at once, and the sentence would be lost in its pipe.
  nanosleep(&(struct timespec){.tv_nsec = 200 * 1000 * 1000}, NULL);
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

int64_t multiply(int64_t one, int64_t other, const char *what) {
  int64_t product = 0;
  if (__builtin_mul_overflow(one, other, &product)) {
    fail("%s: %lld times %lld overflows 64 bits", what, (long long)one, (long long)other);
  }
  return product;
}

void *allocate(int64_t count, int64_t size_bytes) {
  const int64_t bytes = multiply(count, size_bytes, "memory");
  void *memory = malloc(bytes > 0 ? (size_t)bytes : 1);
  if (memory == NULL) {
    fail("out of memory: %lld bytes wanted; use a smaller problem or more ranks", (long long)bytes);
  }
  return memory;
}

int64_t whole_number(const char *option, const char *text, int64_t least, int64_t most) {
  char *end = NULL;
  errno = 0;
  const long long value = strtoll(text, &end, 10);
  if (errno != 0 || end == text || *end != '\0' || value < least || value > most) {
    refuse("--%s %s: a whole number from %lld to %lld was expected", option, text, (long long)least, (long long)most);
  }
  return value;
}

int open_posix(const char *path, int flags) {
  const int file = open(path, flags | O_CLOEXEC, 0644);
  if (file < 0) {
    fail("%s: open: %s", path, strerror(errno));
  }
  return file;
}

void pwrite_whole(int file, const unsigned char *buffer, int64_t size_bytes, int64_t offset, const char *path) {
  while (size_bytes > 0) {
    const ssize_t moved = pwrite(file, buffer, (size_t)size_bytes, offset);
    if (moved < 0 && errno == EINTR) {
      continue;
    }
    if (moved <= 0) {
      fail("%s: pwrite of %lld bytes at %lld: %s", path, (long long)size_bytes, (long long)offset, strerror(errno));
    }
    buffer += moved;
    offset += moved;
    size_bytes -= moved;
  }
}

int64_t pread_whole(int file, unsigned char *buffer, int64_t size_bytes, int64_t offset, const char *path) {
  int64_t done = 0;
  while (done < size_bytes) {
    const ssize_t moved = pread(file, buffer + done, (size_t)(size_bytes - done), offset + done);
    if (moved < 0 && errno == EINTR) {
      continue;
    }
    if (moved < 0) {
      fail("%s: pread of %lld bytes at %lld: %s", path, (long long)size_bytes, (long long)offset, strerror(errno));
    }
    if (moved == 0) {
      break;
    }
    done += moved;
  }
  return done;
}

void remove_file(const char *path) {
  barrier();
  if (this_rank == 0 && unlink(path) != 0 && errno != ENOENT) {
    fail("%s: unlink: %s", path, strerror(errno));
  }
  barrier();
}

void barrier(void) { CHECK(MPI_Barrier(MPI_COMM_WORLD), "barrier"); }

double start_together(void) {
  barrier();
  /* Time enough for every rank to have had a turn on its core, and to sleep too. */
  int ranks = 1;
  CHECK(MPI_Comm_size(ranks_of_node, &ranks), "ranks of a node");
  const long cores = sysconf(_SC_NPROCESSORS_ONLN);
  const long turns = cores > 0 ? (ranks - 1) / cores : 0;
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_nsec += 3000000 + turns * 6000000;
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  CHECK(MPI_Bcast(&until, (int)sizeof until, MPI_BYTE, 0, ranks_of_node), "common start");
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) {
  }
  return clock_seconds();
}

double clock_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

double seconds_since_first(double start, double end) {
  double first = start;
  CHECK(MPI_Allreduce(&start, &first, 1, MPI_DOUBLE, MPI_MIN, ranks_of_node), "times");
  return end - first;
}

void finish_together(void) {
  const struct timespec nap = {.tv_sec = 0, .tv_nsec = 5000000};
  nanosleep(&nap, NULL);
  barrier();
}

void series_append(struct series *series, double value) {
  if (series->count == REPETITIONS_MAX) {
    fail("series %s: more than %d repetitions", series->name, REPETITIONS_MAX);
  }
  series->values[series->count++] = value;
}

void series_add(struct series *series, double seconds) {
  double slowest = 0.0;
  CHECK(MPI_Allreduce(&seconds, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD), "times");
  series_append(series, slowest);
}

void series_print(const struct series *series) {
  printf("\"%s\": [", series->name);
  for (int i = 0; i < series->count; ++i) {
    printf("%s%.9f", i == 0 ? "" : ", ", series->values[i]);
  }
  printf("]");
}

int64_t file_calls_now(void) {
  char text[512];
  const int file = open("/proc/self/io", O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    return 0;
  }
  const ssize_t length = read(file, text, sizeof text - 1);
  close(file);
  if (length <= 0) {
    return 0;
  }
  text[length] = '\0';
  long long reads = 0;
  long long writes = 0;
  const char *at = strstr(text, "syscr:");
  if (at == NULL || sscanf(at, "syscr: %lld syscw: %lld", &reads, &writes) != 2) {
    return 0;
  }
  return reads + writes;
}

int64_t memory_now(void) {
  char line[256];
  long long sum = 0;
  FILE *file = fopen("/proc/self/smaps_rollup", "re");
  while (file != NULL && fgets(line, sizeof line, file) != NULL) {
    long long kibibytes = 0;
    if (sscanf(line, "Pss_Anon: %lld", &kibibytes) == 1 || sscanf(line, "Pss_Shmem: %lld", &kibibytes) == 1) {
      sum += kibibytes;
    }
  }
  if (file != NULL) {
    fclose(file);
  }
  return sum * 1024;
}

struct cost cost_now(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (struct cost){
      (double)usage.ru_utime.tv_sec + (double)usage.ru_utime.tv_usec * 1e-6,
      (double)usage.ru_stime.tv_sec + (double)usage.ru_stime.tv_usec * 1e-6,
      usage.ru_nvcsw + usage.ru_nivcsw,
      usage.ru_minflt + usage.ru_majflt,
  };
}

void cost_add(struct cost *total, const struct cost *since) {
  const struct cost now = cost_now();
  total->user_seconds += now.user_seconds - since->user_seconds;
  total->system_seconds += now.system_seconds - since->system_seconds;
  total->switches += now.switches - since->switches;
  total->page_faults += now.page_faults - since->page_faults;
}

struct cost cost_of_all(const struct cost *own) {
  double seconds[2] = {own->user_seconds, own->system_seconds};
  int64_t counts[2] = {own->switches, own->page_faults};
  double seconds_sum[2];
  int64_t counts_sum[2];
  CHECK(MPI_Allreduce(seconds, seconds_sum, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD), "costs");
  CHECK(MPI_Allreduce(counts, counts_sum, 2, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD), "costs");
  return (struct cost){seconds_sum[0], seconds_sum[1], counts_sum[0], counts_sum[1]};
}

void cost_print(const struct cost *cost) {
  printf("\"cpu\": {\"user_seconds\": %.6f, \"system_seconds\": %.6f, \"switches\": %lld, \"page_faults\": %lld}",
         cost->user_seconds, cost->system_seconds, (long long)cost->switches, (long long)cost->page_faults);
}

int64_t sum_of_all(int64_t own) {
  int64_t sum = 0;
  CHECK(MPI_Allreduce(&own, &sum, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD), "sum");
  return sum;
}

int64_t max_of_all(int64_t own) {
  int64_t most = 0;
  CHECK(MPI_Allreduce(&own, &most, 1, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD), "maximum");
  return most;
}

uint64_t hash_of_all(uint64_t own) {
  uint64_t sum = 0;
  CHECK(MPI_Allreduce(&own, &sum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD), "hash");
  return sum;
}

void print_string(const char *text) {
  putchar('"');
  for (const char *c = text; *c != '\0'; ++c) {
    if (*c == '"' || *c == '\\') {
      printf("\\%c", *c);
    } else if ((unsigned char)*c < 0x20) {
      printf("\\u%04x", (unsigned char)*c);
    } else {
      putchar(*c);
    }
  }
  putchar('"');
}

void print_mpi_version(void) {
  char version[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  CHECK(MPI_Get_library_version(version, &length), "version");
  version[strcspn(version, "\r\n")] = '\0';
  printf("\"mpi\": ");
  print_string(version);
}
