/* What the benchmark programs share: patterns, bytes that tell their own place, clocks, JSON.  Plain MPI and POSIX.
 * Header only, so that each program stays one file for any compiler wrapper. */
#ifndef MEASURE_H
#define MEASURE_H

#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { REPETITIONS_MAX = 1000, PATH_MAX_BYTES = 4096 };

static int this_rank;
static int all_ranks;
static const char *program_name;

_Noreturn static void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn static void fail(const char *format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  fprintf(stderr, "%s: rank %d: %s\n", program_name, this_rank, text);
  fflush(stderr);
  MPI_Abort(MPI_COMM_WORLD, 1);
  exit(1);
}

static void check(int code, const char *operation, const char *subject) {
  if (code != MPI_SUCCESS) {
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    MPI_Error_string(code, text, &length);
    fail("%s: %s in %s", subject, text, operation);
  }
}
#define CHECK(call, subject) check((call), #call, (subject))

static void *allocate(int64_t size_bytes) {
  void *memory = malloc(size_bytes > 0 ? (size_t)size_bytes : 1);
  if (memory == NULL) {
    fail("out of memory: %lld bytes wanted; use fewer or smaller pieces", (long long)size_bytes);
  }
  return memory;
}

static void start_mpi(int *argc, char ***argv, const char *name) {
  program_name = name;
  if (MPI_Init(argc, argv) != MPI_SUCCESS) {
    fprintf(stderr, "%s: MPI_Init failed\n", name);
    exit(1);
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  CHECK(MPI_Comm_rank(MPI_COMM_WORLD, &this_rank), "communicator");
  CHECK(MPI_Comm_size(MPI_COMM_WORLD, &all_ranks), "communicator");
}

static int64_t whole_number(const char *option, const char *text, int64_t least, int64_t most) {
  char *end = NULL;
  errno = 0;
  const long long value = strtoll(text, &end, 10);
  if (errno != 0 || end == text || *end != '\0' || value < least || value > most) {
    fail("--%s %s: a whole number from %lld to %lld was expected", option, text, (long long)least, (long long)most);
  }
  return value;
}

/* Who writes what: `count` pieces of `piece_bytes` by each rank.  Contiguous: each rank has a part of the file to itself.
 * Interleaved: the ranks' pieces take turns. */
struct pattern {
  int interleaved;
  int64_t piece_bytes;
  int64_t count;
};

static int64_t rank_bytes(const struct pattern *pattern) { return pattern->piece_bytes * pattern->count; }
static int64_t file_bytes(const struct pattern *pattern) { return rank_bytes(pattern) * all_ranks; }

static int64_t piece_offset(const struct pattern *pattern, int64_t piece) {
  return pattern->interleaved ? (piece * all_ranks + this_rank) * pattern->piece_bytes
                              : (this_rank * pattern->count + piece) * pattern->piece_bytes;
}

/* The 8 bytes at a file offset (a multiple of 8) in repetition `seed`. */
static uint64_t word_at(int64_t offset, uint64_t seed) {
  uint64_t word = ((uint64_t)offset / 8 + (seed + 1) * UINT64_C(0x632be59bd9b4e019)) * UINT64_C(0x9e3779b97f4a7c15);
  return word ^ (word >> 29);
}

static void fill_words(unsigned char *buffer, int64_t offset, int64_t size_bytes, uint64_t seed) {
  for (int64_t i = 0; i < size_bytes; i += 8) {
    const uint64_t word = word_at(offset + i, seed);
    memcpy(buffer + i, &word, 8);
  }
}

/* Bytes that differ from what they must be; adds those that are there to `hash`, whoever they belong to. */
static int64_t check_words(const unsigned char *buffer, int64_t offset, int64_t size_bytes, uint64_t seed, uint64_t *hash) {
  int64_t wrong = 0;
  for (int64_t i = 0; i < size_bytes; i += 8) {
    const uint64_t expected = word_at(offset + i, seed);
    uint64_t found = 0;
    memcpy(&found, buffer + i, 8);
    wrong += found == expected ? 0 : 8;
    *hash += (found ^ (uint64_t)(offset + i)) * UINT64_C(0xd6e8feb86659fd93);
  }
  return wrong;
}

/* All pieces of this rank, packed. */
static void fill_pieces(const struct pattern *pattern, unsigned char *buffer, uint64_t seed) {
  for (int64_t piece = 0; piece < pattern->count; ++piece) {
    fill_words(buffer + piece * pattern->piece_bytes, piece_offset(pattern, piece), pattern->piece_bytes, seed);
  }
}

static int64_t check_pieces(const struct pattern *pattern, const unsigned char *buffer, uint64_t seed, uint64_t *hash) {
  int64_t wrong = 0;
  for (int64_t piece = 0; piece < pattern->count; ++piece) {
    wrong += check_words(buffer + piece * pattern->piece_bytes, piece_offset(pattern, piece), pattern->piece_bytes, seed, hash);
  }
  return wrong;
}

static void pwrite_whole(int file, const unsigned char *buffer, int64_t size_bytes, int64_t offset, const char *path) {
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

/* Returns the bytes read: fewer than asked for only at the end of the file. */
static int64_t pread_whole(int file, unsigned char *buffer, int64_t size_bytes, int64_t offset, const char *path) {
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

static int open_posix(const char *path, int flags) {
  const int file = open(path, flags | O_CLOEXEC, 0644);
  if (file < 0) {
    fail("%s: open: %s", path, strerror(errno));
  }
  return file;
}

/* Checks a contiguous share of the finished file with plain reads, whoever wrote it; rank 0 also checks its size. */
static int64_t check_file(const struct pattern *pattern, const char *path, uint64_t seed, uint64_t *hash) {
  enum { CHUNK_BYTES = 1 << 20 };
  const int64_t share = rank_bytes(pattern);
  const int64_t begin = share * this_rank;
  unsigned char *chunk = allocate(CHUNK_BYTES);
  const int file = open_posix(path, O_RDONLY);
  int64_t wrong = 0;
  for (int64_t done = 0; done < share; done += CHUNK_BYTES) {
    const int64_t wanted = share - done < CHUNK_BYTES ? share - done : CHUNK_BYTES;
    const int64_t found = pread_whole(file, chunk, wanted, begin + done, path);
    wrong += wanted - found;
    wrong += check_words(chunk, begin + done, found / 8 * 8, seed, hash);
  }
  const off_t size = lseek(file, 0, SEEK_END);
  if (this_rank == 0 && size != file_bytes(pattern)) {
    fprintf(stderr, "%s: %s has %lld bytes, %lld were expected\n", program_name, path, (long long)size,
            (long long)file_bytes(pattern));
    wrong += 1;
  }
  close(file);
  free(chunk);
  return wrong;
}

static void barrier(void) { CHECK(MPI_Barrier(MPI_COMM_WORLD), "barrier"); }

/* All ranks leave at the same moment, awake: each sleeps until a time that rank 0 sets.  After a barrier alone, ranks that share a core
 * leave one after the other, up to a time slice apart, since MPI libraries wait by spinning; that would count as the first call's time. */
static void start_together(void) {
  barrier();
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_nsec += 3000000;
  if (until.tv_nsec >= 1000000000) {
    until.tv_nsec -= 1000000000;
    until.tv_sec += 1;
  }
  CHECK(MPI_Bcast(&until, (int)sizeof until, MPI_BYTE, 0, MPI_COMM_WORLD), "common start");
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) {
  }
}

/* After the timed part: a rank that is through sleeps before it spins in a barrier, or it keeps ranks that share its core from being through. */
static void finish_together(void) {
  const struct timespec nap = {.tv_sec = 0, .tv_nsec = 5000000};
  nanosleep(&nap, NULL);
  barrier();
}

/* Not timed: a file of a repetition begins as nothing and ends as nothing. */
static void remove_file(const char *path) {
  barrier();
  if (this_rank == 0 && unlink(path) != 0 && errno != ENOENT) {
    fail("%s: unlink: %s", path, strerror(errno));
  }
  barrier();
}

/* Seconds of the slowest rank for each repetition of one operation. */
struct series {
  const char *name;
  int count;
  double seconds[REPETITIONS_MAX];
};

static void series_add(struct series *series, double seconds) {
  double slowest = 0.0;
  CHECK(MPI_Allreduce(&seconds, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD), "times");
  series->seconds[series->count++] = slowest;
}

static void series_print(const struct series *series) {
  printf("\"%s\": [", series->name);
  for (int i = 0; i < series->count; ++i) {
    printf("%s%.9f", i == 0 ? "" : ", ", series->seconds[i]);
  }
  printf("]");
}

/* What the timed parts cost this process besides time. */
struct cost {
  double user_seconds;
  double system_seconds;
  int64_t switches;
  int64_t page_faults;
};

static struct cost cost_now(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (struct cost){
      (double)usage.ru_utime.tv_sec + (double)usage.ru_utime.tv_usec * 1e-6,
      (double)usage.ru_stime.tv_sec + (double)usage.ru_stime.tv_usec * 1e-6,
      usage.ru_nvcsw + usage.ru_nivcsw,
      usage.ru_minflt + usage.ru_majflt,
  };
}

static void cost_add(struct cost *total, const struct cost *since) {
  const struct cost now = cost_now();
  total->user_seconds += now.user_seconds - since->user_seconds;
  total->system_seconds += now.system_seconds - since->system_seconds;
  total->switches += now.switches - since->switches;
  total->page_faults += now.page_faults - since->page_faults;
}

/* Sums over all ranks.  Collective. */
static struct cost cost_of_all(const struct cost *own) {
  double seconds[2] = {own->user_seconds, own->system_seconds};
  int64_t counts[2] = {own->switches, own->page_faults};
  double seconds_sum[2];
  int64_t counts_sum[2];
  CHECK(MPI_Allreduce(seconds, seconds_sum, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD), "costs");
  CHECK(MPI_Allreduce(counts, counts_sum, 2, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD), "costs");
  return (struct cost){seconds_sum[0], seconds_sum[1], counts_sum[0], counts_sum[1]};
}

static void cost_print(const struct cost *cost) {
  printf("\"cpu\": {\"user_seconds\": %.6f, \"system_seconds\": %.6f, \"switches\": %lld, \"page_faults\": %lld}",
         cost->user_seconds, cost->system_seconds, (long long)cost->switches, (long long)cost->page_faults);
}

/* The first line of the MPI library's own name, safe inside quotes. */
static void print_mpi_version(void) {
  char version[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  CHECK(MPI_Get_library_version(version, &length), "version");
  for (char *c = version; *c != '\0'; ++c) {
    if (*c == '\n' || *c == '\r') {
      *c = '\0';
      break;
    }
    if (*c == '"' || *c == '\\' || (unsigned char)*c < 0x20) {
      *c = ' ';
    }
  }
  printf("\"mpi\": \"%s\"", version);
}

static int64_t sum_of_all(int64_t own) {
  int64_t sum = 0;
  CHECK(MPI_Allreduce(&own, &sum, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD), "sum");
  return sum;
}

static uint64_t hash_of_all(uint64_t own) {
  uint64_t sum = 0;
  CHECK(MPI_Allreduce(&own, &sum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD), "hash");
  return sum;
}

#endif
