/* The limit on one node: the same bytes in the same places as `independent` moves, with no MPI-IO at all.  MPI is used for
 * barriers and for telling the slowest rank's time.  One line of JSON on standard output.
 *
 *   map     each rank copies its pieces into the mapped file (the time holds mmap and munmap)
 *   piece   each rank writes or reads its pieces one by one
 *   shared  all ranks copy their pieces to their place in one shared buffer of 16 MiB, which is a window of the file, and
 *           each writes a contiguous share of it; reads the other way round.  The buffer is made and touched once, outside
 *           the time, as a library would keep it.
 *
 * The file is made and opened outside the time; its size is set inside, where a way needs it. */
#include "measure.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { WINDOW_BYTES = 16 << 20, WAYS = 3 };
enum way { MAP, PIECE, SHARED };
static const char *const way_names[WAYS] = {"map", "piece", "shared"};

struct options {
  struct pattern pattern;
  int repetitions;
  const char *file;
};

static const char usage[] =
    "usage: bound --pattern contiguous|interleaved --file PATH [--piece BYTES] [--count N] [--repetitions N]\n";

static struct options parse(int argc, char **argv) {
  static const struct option known[] = {
      {"pattern", required_argument, NULL, 'p'},     {"piece", required_argument, NULL, 's'},
      {"count", required_argument, NULL, 'c'},       {"repetitions", required_argument, NULL, 'r'},
      {"file", required_argument, NULL, 'f'},        {NULL, 0, NULL, 0}};
  struct options options = {{0, 1 << 20, 8}, 3, NULL};
  int good = 1;
  int option = 0;
  while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
    switch (option) {
      case 'p':
        good &= strcmp(optarg, "contiguous") == 0 || strcmp(optarg, "interleaved") == 0;
        options.pattern.interleaved = optarg[0] == 'i';
        break;
      case 's': options.pattern.piece_bytes = whole_number("piece", optarg, 8, INT_MAX / 8 * 8); break;
      case 'c': options.pattern.count = whole_number("count", optarg, 1, INT_MAX); break;
      case 'r': options.repetitions = (int)whole_number("repetitions", optarg, 1, REPETITIONS_MAX); break;
      case 'f': options.file = optarg; break;
      default: good = 0; break;
    }
  }
  if (!good || options.file == NULL || optind != argc) {
    usage_error(usage);
  }
  if (options.pattern.piece_bytes % 8 != 0) {
    refuse("--piece %lld: a multiple of 8 bytes was expected", (long long)options.pattern.piece_bytes);
  }
  if (options.pattern.count > INT64_MAX / options.pattern.piece_bytes / all_ranks) {
    refuse("--piece %lld --count %lld: the file's size overflows 64 bits", (long long)options.pattern.piece_bytes,
         (long long)options.pattern.count);
  }
  return options;
}

static void move_mapped(const struct options *options, int file, int writing, unsigned char *buffer) {
  const struct pattern *pattern = &options->pattern;
  const int64_t first = piece_offset(pattern, 0);
  const int64_t end = piece_offset(pattern, pattern->count - 1) + pattern->piece_bytes;
  const int64_t begin = first / sysconf(_SC_PAGESIZE) * sysconf(_SC_PAGESIZE);
  if (writing) {
    if (this_rank == 0 && ftruncate(file, file_bytes(pattern)) != 0) {
      fail("%s: ftruncate to %lld bytes: %s", options->file, (long long)file_bytes(pattern), strerror(errno));
    }
    barrier();
  }
  unsigned char *mapped =
      mmap(NULL, (size_t)(end - begin), writing ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, file, begin);
  if (mapped == MAP_FAILED) {
    fail("%s: mmap of %lld bytes: %s", options->file, (long long)(end - begin), strerror(errno));
  }
  for (int64_t piece = 0; piece < pattern->count; ++piece) {
    unsigned char *at = mapped + (piece_offset(pattern, piece) - begin);
    unsigned char *own = buffer + piece * pattern->piece_bytes;
    memcpy(writing ? at : own, writing ? own : at, (size_t)pattern->piece_bytes);
  }
  munmap(mapped, (size_t)(end - begin));
}

static void move_pieces(const struct options *options, int file, int writing, unsigned char *buffer) {
  const struct pattern *pattern = &options->pattern;
  for (int64_t piece = 0; piece < pattern->count; ++piece) {
    unsigned char *own = buffer + piece * pattern->piece_bytes;
    if (writing) {
      pwrite_whole(file, own, pattern->piece_bytes, piece_offset(pattern, piece), options->file);
    } else {
      pread_whole(file, own, pattern->piece_bytes, piece_offset(pattern, piece), options->file);
    }
  }
}

/* The first piece of this rank that ends behind `offset`. */
static int64_t piece_behind(const struct pattern *pattern, int64_t offset) {
  const int64_t stride = pattern->interleaved ? all_ranks * pattern->piece_bytes : pattern->piece_bytes;
  const int64_t first_end = piece_offset(pattern, 0) + pattern->piece_bytes;
  return offset < first_end ? 0 : (offset - first_end) / stride + 1;
}

/* Copies the parts of this rank's pieces that lie in the window [begin, end) to or from it. */
static void copy_window(const struct pattern *pattern, unsigned char *window, int64_t begin, int64_t end, int writing,
                        unsigned char *buffer) {
  for (int64_t piece = piece_behind(pattern, begin); piece < pattern->count; ++piece) {
    const int64_t offset = piece_offset(pattern, piece);
    if (offset >= end) {
      return;
    }
    const int64_t from = offset > begin ? offset : begin;
    const int64_t until = offset + pattern->piece_bytes < end ? offset + pattern->piece_bytes : end;
    unsigned char *own = buffer + piece * pattern->piece_bytes + (from - offset);
    unsigned char *shared = window + (from - begin);
    memcpy(writing ? shared : own, writing ? own : shared, (size_t)(until - from));
  }
}

static void move_shared(const struct options *options, int file, int writing, unsigned char *buffer, unsigned char *window) {
  const struct pattern *pattern = &options->pattern;
  const int64_t size = file_bytes(pattern);
  for (int64_t begin = 0; begin < size; begin += WINDOW_BYTES) {
    const int64_t length = size - begin < WINDOW_BYTES ? size - begin : WINDOW_BYTES;
    /* Shares begin on pages: two ranks never fill the same one. */
    const int64_t pages = (length + 4095) / 4096;
    const int64_t share = pages * this_rank / all_ranks * 4096;
    const int64_t share_limit = pages * (this_rank + 1) / all_ranks * 4096;
    const int64_t share_end = share_limit < length ? share_limit : length;
    if (writing) {
      copy_window(pattern, window, begin, begin + length, 1, buffer);
      barrier();
      pwrite_whole(file, window + share, share_end - share, begin + share, options->file);
    } else {
      pread_whole(file, window + share, share_end - share, begin + share, options->file);
      barrier();
      copy_window(pattern, window, begin, begin + length, 0, buffer);
    }
    if (begin + length < size) {
      barrier();
    }
  }
}

/* Memory that all ranks of this node see, with every page touched. */
static unsigned char *make_window(void) {
  char name[64] = "";
  if (this_rank == 0) {
    snprintf(name, sizeof name, "/bound-%ld", (long)getpid());
  }
  CHECK(MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD), "shared buffer");
  int file = -1;
  if (this_rank == 0) {
    file = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (file < 0 || ftruncate(file, WINDOW_BYTES) != 0) {
      fail("shared buffer %s of %d bytes: %s", name, WINDOW_BYTES, strerror(errno));
    }
  }
  barrier();
  if (this_rank != 0) {
    file = shm_open(name, O_RDWR, 0600);
  }
  if (file < 0) {
    fail("shared buffer %s: %s; all ranks must run on one node", name, strerror(errno));
  }
  barrier();
  if (this_rank == 0) {
    shm_unlink(name);
  }
  unsigned char *window = mmap(NULL, WINDOW_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (window == MAP_FAILED) {
    fail("mmap of the shared buffer: %s", strerror(errno));
  }
  close(file);
  memset(window, 0, WINDOW_BYTES);
  barrier();
  return window;
}

struct outcome {
  struct series write, read;
  int64_t wrong;
  uint64_t hash;
};

static void move(const struct options *options, enum way way, int writing, unsigned char *buffer, unsigned char *window,
                 struct series *series) {
  const int file = open_posix(options->file, writing ? O_RDWR : O_RDONLY);
  const double start = start_together();
  switch (way) {
    case MAP: move_mapped(options, file, writing, buffer); break;
    case PIECE: move_pieces(options, file, writing, buffer); break;
    default: move_shared(options, file, writing, buffer, window); break;
  }
  const double end = clock_seconds();
  finish_together();
  close(file);
  series_add(series, seconds_since_first(start, end));
}

static void measure(const struct options *options, struct outcome *outcomes) {
  const struct pattern *pattern = &options->pattern;
  unsigned char *buffer = allocate(rank_bytes(pattern), 1);
  unsigned char *window = make_window();
  for (int way = 0; way < WAYS; ++way) {
    outcomes[way] = (struct outcome){.write = {.name = "write"}, .read = {.name = "read"}};
  }
  for (int repetition = 0; repetition < options->repetitions; ++repetition) {
    for (int way = 0; way < WAYS; ++way) {
      struct outcome *outcome = &outcomes[way];
      const uint64_t seed = (uint64_t)repetition;
      remove_file(options->file);
      if (this_rank == 0) {
        close(open_posix(options->file, O_RDWR | O_CREAT | O_EXCL));
      }
      fill_pieces(pattern, buffer, seed);
      barrier();
      move(options, (enum way)way, 1, buffer, window, &outcome->write);
      outcome->wrong += content_wrong_in_file(options->file, file_bytes(pattern), seed, &outcome->hash);
      memset(buffer, 0xA5, (size_t)rank_bytes(pattern));
      move(options, (enum way)way, 0, buffer, window, &outcome->read);
      outcome->wrong += check_pieces(pattern, buffer, seed, &outcome->hash);
      remove_file(options->file);
    }
  }
  munmap(window, WINDOW_BYTES);
  free(buffer);
}

int main(int argc, char **argv) {
  start_mpi(&argc, &argv, "bound");
  const struct options options = parse(argc, argv);
  static struct outcome outcomes[WAYS];
  measure(&options, outcomes);
  int64_t wrong_all = 0;
  if (this_rank == 0) {
    printf("{\"program\": \"bound\", ");
    print_mpi_version();
    printf(", \"ranks\": %d, \"pattern\": \"%s\", \"piece_bytes\": %lld, \"count\": %lld, \"bytes\": %lld", all_ranks,
           options.pattern.interleaved ? "interleaved" : "contiguous", (long long)options.pattern.piece_bytes,
           (long long)options.pattern.count, (long long)file_bytes(&options.pattern));
  }
  for (int way = 0; way < WAYS; ++way) {
    const int64_t wrong = sum_of_all(outcomes[way].wrong);
    const uint64_t hash = hash_of_all(outcomes[way].hash);
    wrong_all += wrong;
    if (this_rank == 0) {
      printf(", \"%s\": {\"seconds\": {", way_names[way]);
      series_print(&outcomes[way].write);
      printf(", ");
      series_print(&outcomes[way].read);
      printf("}, \"verified\": %s, \"wrong_bytes\": %lld, \"hash\": \"%016llx\"}", wrong == 0 ? "true" : "false",
             (long long)wrong, (unsigned long long)hash);
    }
  }
  if (this_rank == 0) {
    printf("}\n");
  }
  end_mpi();
  return wrong_all == 0 ? 0 : 1;
}
