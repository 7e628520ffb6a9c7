/* Times MPI-IO writes and reads of contiguous and of interleaved pieces, and the bare cost of a call.
 * A plain MPI program: it knows nothing of what carries its MPI-IO calls out.  One line of JSON on standard output.
 *
 * A repetition: a fresh file is opened, written and closed; its bytes are checked with plain reads; it is opened again,
 * read and closed; the bytes read are checked; it is removed.  `write` and `read` are the seconds of the transfer calls
 * of the slowest rank, from when the first of its node began; `write_total` and `read_total` also hold open, view and close. */
#include "measure.h"

#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum kind { CONTIGUOUS, INTERLEAVED, CALLS, VIEW };

struct options {
  enum kind kind;
  struct pattern pattern;
  int repetitions;
  int independent;
  int collective;
  const char *file;
};

static const char usage[] =
    "usage: independent --pattern contiguous|interleaved|calls|view --file PATH [--piece BYTES] [--count N] [--repetitions N]\n"
    "                   [--modes independent|collective|both]\n"
    "  contiguous    each rank writes its own part of the file, one call a piece\n"
    "  interleaved   the ranks' pieces take turns in the file; one call with a view for all pieces of a rank\n"
    "  calls         nanoseconds of an empty MPI_File_write_at, of one of 8 bytes, and of a bare pwrite of 8 bytes\n"
    "  view          seconds and memory of a subarray view of --count pieces of 8 bytes, and of writing a few in its middle\n";

static int kind_of(const char *text, enum kind *kind) {
  static const char *const names[] = {"contiguous", "interleaved", "calls", "view"};
  for (int i = CONTIGUOUS; i <= VIEW; ++i) {
    if (strcmp(text, names[i]) == 0) {
      *kind = (enum kind)i;
      return 1;
    }
  }
  return 0;
}

static struct options parse(int argc, char **argv) {
  static const struct option known[] = {
      {"pattern", required_argument, NULL, 'p'},     {"piece", required_argument, NULL, 's'},
      {"count", required_argument, NULL, 'c'},       {"repetitions", required_argument, NULL, 'r'},
      {"modes", required_argument, NULL, 'm'},       {"file", required_argument, NULL, 'f'},
      {NULL, 0, NULL, 0}};
  struct options options = {CONTIGUOUS, {0, 1 << 20, 8}, 3, 1, 1, NULL};
  int good = 1;
  int option = 0;
  while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
    switch (option) {
      case 'p':
        good &= kind_of(optarg, &options.kind);
        break;
      case 's': options.pattern.piece_bytes = whole_number("piece", optarg, 8, INT_MAX / 8 * 8); break;
      case 'c': options.pattern.count = whole_number("count", optarg, 1, INT_MAX); break;
      case 'r': options.repetitions = (int)whole_number("repetitions", optarg, 1, REPETITIONS_MAX); break;
      case 'm':
        good &= strcmp(optarg, "independent") == 0 || strcmp(optarg, "collective") == 0 || strcmp(optarg, "both") == 0;
        options.independent = optarg[0] != 'c';
        options.collective = optarg[0] != 'i';
        break;
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
  options.pattern.interleaved = options.kind == INTERLEAVED;
  return options;
}

static void expect_bytes(MPI_Status *status, MPI_Datatype piece, int pieces, const char *path) {
  int moved = 0;
  CHECK(MPI_Get_count(status, piece, &moved), path);
  if (moved != pieces) {
    fail("%s: a transfer moved %d pieces, %d were expected", path, moved, pieces);
  }
}

/* One contiguous type for a piece: counts stay small however large the pieces are. */
struct types {
  MPI_Datatype piece;
  MPI_Datatype view;
};

static struct types make_types(const struct pattern *pattern) {
  struct types types;
  CHECK(MPI_Type_contiguous((int)(pattern->piece_bytes / 8), MPI_UINT64_T, &types.piece), "piece type");
  CHECK(MPI_Type_commit(&types.piece), "piece type");
  CHECK(MPI_Type_create_resized(types.piece, 0, (MPI_Aint)(pattern->piece_bytes * all_ranks), &types.view), "view type");
  CHECK(MPI_Type_commit(&types.view), "view type");
  return types;
}

static void free_types(struct types *types) {
  CHECK(MPI_Type_free(&types->view), "view type");
  CHECK(MPI_Type_free(&types->piece), "piece type");
}

/* The transfer calls of one rank. */
static void transfer(const struct options *options, MPI_File file, const struct types *types, int collective, int writing,
                     unsigned char *buffer) {
  const struct pattern *pattern = &options->pattern;
  const char *path = options->file;
  MPI_Status status;
  if (pattern->interleaved) {
    const int count = (int)pattern->count;
    if (writing) {
      CHECK(collective ? MPI_File_write_all(file, buffer, count, types->piece, &status)
                       : MPI_File_write(file, buffer, count, types->piece, &status),
            path);
    } else {
      CHECK(collective ? MPI_File_read_all(file, buffer, count, types->piece, &status)
                       : MPI_File_read(file, buffer, count, types->piece, &status),
            path);
    }
    expect_bytes(&status, types->piece, count, path);
    return;
  }
  for (int64_t piece = 0; piece < pattern->count; ++piece) {
    unsigned char *at = buffer + piece * pattern->piece_bytes;
    const MPI_Offset offset = (MPI_Offset)piece_offset(pattern, piece);
    if (writing) {
      CHECK(collective ? MPI_File_write_at_all(file, offset, at, 1, types->piece, &status)
                       : MPI_File_write_at(file, offset, at, 1, types->piece, &status),
            path);
    } else {
      CHECK(collective ? MPI_File_read_at_all(file, offset, at, 1, types->piece, &status)
                       : MPI_File_read_at(file, offset, at, 1, types->piece, &status),
            path);
    }
    expect_bytes(&status, types->piece, 1, path);
  }
}

/* The results of one mode. */
struct outcome {
  struct series write, write_total, read, read_total;
  struct cost cost;
  int64_t wrong;
  uint64_t hash;
};

static void one_way(const struct options *options, const struct types *types, int collective, int writing,
                    unsigned char *buffer, struct outcome *outcome) {
  const char *path = options->file;
  MPI_File file = MPI_FILE_NULL;
  const double begin = start_together();
  CHECK(MPI_File_open(MPI_COMM_WORLD, path, writing ? MPI_MODE_CREATE | MPI_MODE_WRONLY : MPI_MODE_RDONLY, MPI_INFO_NULL,
                      &file),
        path);
  if (options->pattern.interleaved) {
    CHECK(MPI_File_set_view(file, (MPI_Offset)(this_rank * options->pattern.piece_bytes), types->piece, types->view, "native",
                            MPI_INFO_NULL),
          path);
  }
  const double opened = clock_seconds();
  const double start = start_together();
  const struct cost before = cost_now();
  transfer(options, file, types, collective, writing, buffer);
  const double end = clock_seconds();
  cost_add(&outcome->cost, &before);
  finish_together();
  const double closing = clock_seconds();
  CHECK(MPI_File_close(&file), path);
  const double closed = clock_seconds();
  const double own = seconds_since_first(start, end);
  const double total = seconds_since_first(begin, opened) + own + (closed - closing);
  series_add(writing ? &outcome->write : &outcome->read, own);
  series_add(writing ? &outcome->write_total : &outcome->read_total, total);
}

static void measure(const struct options *options, const struct types *types, int collective, struct outcome *outcome) {
  const struct pattern *pattern = &options->pattern;
  unsigned char *buffer = allocate(rank_bytes(pattern), 1);
  *outcome = (struct outcome){.write = {.name = "write"},
                              .write_total = {.name = "write_total"},
                              .read = {.name = "read"},
                              .read_total = {.name = "read_total"}};
  for (int repetition = 0; repetition < options->repetitions; ++repetition) {
    const uint64_t seed = (uint64_t)repetition;
    remove_file(options->file);
    fill_pieces(pattern, buffer, seed);
    one_way(options, types, collective, 1, buffer, outcome);
    outcome->wrong += content_wrong_in_file(options->file, file_bytes(pattern), seed, &outcome->hash);
    memset(buffer, 0xA5, (size_t)rank_bytes(pattern));
    one_way(options, types, collective, 0, buffer, outcome);
    outcome->wrong += check_pieces(pattern, buffer, seed, &outcome->hash);
    remove_file(options->file);
  }
  free(buffer);
}

/* Nanoseconds of a call in a tight loop: the calls of one repetition take turns in batches, so that a busy moment of the
 * machine meets all of them. */
struct calls {
  struct series empty, small, bare;
  int64_t wrong;
  uint64_t hash;
};

static double now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void measure_calls(const struct options *options, struct calls *calls) {
  enum { PLACES = 512, BATCH = 500 };
  const int64_t count = options->pattern.count;
  const int64_t region = (int64_t)this_rank * PLACES * 8;
  MPI_File file = MPI_FILE_NULL;
  *calls = (struct calls){.empty = {.name = "empty_write_at_ns"},
                          .small = {.name = "write_at_8_bytes_ns"},
                          .bare = {.name = "pwrite_8_bytes_ns"}};
  remove_file(options->file);
  CHECK(MPI_File_open(MPI_COMM_WORLD, options->file, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file), options->file);
  barrier();
  const int plain = open_posix(options->file, O_WRONLY);
  uint64_t words[PLACES];
  for (int repetition = 0; repetition <= options->repetitions; ++repetition) {
    content_bytes((unsigned char *)words, region, sizeof words, (uint64_t)repetition);
    barrier();
    double empty = 0.0;
    double bare = 0.0;
    double small = 0.0;
    for (int64_t first = 0; first < count; first += BATCH) {
      const int64_t after = first + BATCH < count ? first + BATCH : count;
      const double start = now_ns();
      for (int64_t i = first; i < after; ++i) {
        CHECK(MPI_File_write_at(file, region, words, 0, MPI_BYTE, MPI_STATUS_IGNORE), options->file);
      }
      const double after_empty = now_ns();
      for (int64_t i = first; i < after; ++i) {
        pwrite_whole(plain, (const unsigned char *)&words[i % PLACES], 8, region + i % PLACES * 8, options->file);
      }
      const double after_bare = now_ns();
      for (int64_t i = first; i < after; ++i) {
        CHECK(MPI_File_write_at(file, region + i % PLACES * 8, &words[i % PLACES], 8, MPI_BYTE, MPI_STATUS_IGNORE),
              options->file);
      }
      const double after_small = now_ns();
      empty += (after_empty - start) / (double)count;
      bare += (after_bare - after_empty) / (double)count;
      small += (after_small - after_bare) / (double)count;
    }
    /* The first round makes the file and warms everything. */
    if (repetition > 0) {
      series_add(&calls->empty, empty);
      series_add(&calls->bare, bare);
      series_add(&calls->small, small);
    }
  }
  close(plain);
  CHECK(MPI_File_close(&file), options->file);
  const int64_t places = count < PLACES ? count : PLACES;
  const int check = open_posix(options->file, O_RDONLY);
  memset(words, 0, sizeof words);
  pread_whole(check, (unsigned char *)words, places * 8, region, options->file);
  calls->wrong = content_wrong((const unsigned char *)words, region, places * 8, (uint64_t)options->repetitions, &calls->hash);
  close(check);
  remove_file(options->file);
}

/* A view of many pieces of which only a few are touched: what it costs must not grow with the number of pieces. */
struct view_cost {
  struct series seconds;
  int64_t memory_bytes;
  int64_t wrong;
  uint64_t hash;
};

static int64_t memory_peak_bytes(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (int64_t)usage.ru_maxrss * 1024;
}

static void measure_view(const struct options *options, struct view_cost *cost) {
  enum { TOUCHED = 4 };
  const int pieces = (int)options->pattern.count;
  const int64_t middle = pieces / 2;
  const int sizes[2] = {pieces, all_ranks};
  const int own_sizes[2] = {pieces, 1};
  const int starts[2] = {0, this_rank};
  *cost = (struct view_cost){.seconds = {.name = "view"}};
  if (pieces < 2 * TOUCHED) {
    refuse("--count %d: a view of at least %d pieces was expected", pieces, 2 * TOUCHED);
  }
  const int64_t memory_before = memory_peak_bytes();
  for (int repetition = 0; repetition < options->repetitions; ++repetition) {
    uint64_t words[TOUCHED];
    MPI_Datatype view = MPI_DATATYPE_NULL;
    MPI_File file = MPI_FILE_NULL;
    MPI_Status status;
    for (int i = 0; i < TOUCHED; ++i) {
      content_bytes((unsigned char *)&words[i], ((middle + i) * all_ranks + this_rank) * 8, 8, (uint64_t)repetition);
    }
    remove_file(options->file);
    CHECK(MPI_File_open(MPI_COMM_WORLD, options->file, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file), options->file);
    barrier();
    const double start = MPI_Wtime();
    CHECK(MPI_Type_create_subarray(2, sizes, own_sizes, starts, MPI_ORDER_C, MPI_UINT64_T, &view), "subarray type");
    CHECK(MPI_Type_commit(&view), "subarray type");
    CHECK(MPI_File_set_view(file, 0, MPI_UINT64_T, view, "native", MPI_INFO_NULL), options->file);
    CHECK(MPI_File_write_at(file, middle, words, TOUCHED, MPI_UINT64_T, &status), options->file);
    const double own = MPI_Wtime() - start;
    expect_bytes(&status, MPI_UINT64_T, TOUCHED, options->file);
    series_add(&cost->seconds, own);
    CHECK(MPI_Type_free(&view), "subarray type");
    CHECK(MPI_File_close(&file), options->file);
    const int plain = open_posix(options->file, O_RDONLY);
    for (int i = 0; i < TOUCHED; ++i) {
      const int64_t offset = ((middle + i) * all_ranks + this_rank) * 8;
      unsigned char found[8] = {0};
      pread_whole(plain, found, 8, offset, options->file);
      cost->wrong += content_wrong(found, offset, 8, (uint64_t)repetition, &cost->hash);
    }
    close(plain);
    remove_file(options->file);
  }
  cost->memory_bytes = memory_peak_bytes() - memory_before;
}

static int run_view(const struct options *options) {
  static struct view_cost cost;
  measure_view(options, &cost);
  const int64_t wrong = sum_of_all(cost.wrong);
  const uint64_t hash = hash_of_all(cost.hash);
  const int64_t memory = sum_of_all(cost.memory_bytes);
  if (this_rank == 0) {
    printf("{\"program\": \"independent\", ");
    print_mpi_version();
    printf(", \"ranks\": %d, \"pattern\": \"view\", \"pieces\": %lld, \"seconds\": {", all_ranks,
           (long long)options->pattern.count);
    series_print(&cost.seconds);
    printf("}, \"memory_bytes\": %lld, \"verified\": %s, \"wrong_bytes\": %lld, \"hash\": \"%016llx\"}\n", (long long)memory,
           wrong == 0 ? "true" : "false", (long long)wrong, (unsigned long long)hash);
  }
  return wrong == 0 ? 0 : 1;
}

static void print_mode(const char *name, const struct outcome *outcome, const struct cost *cost, int64_t wrong, uint64_t hash) {
  printf(", \"%s\": {\"seconds\": {", name);
  series_print(&outcome->write);
  printf(", ");
  series_print(&outcome->write_total);
  printf(", ");
  series_print(&outcome->read);
  printf(", ");
  series_print(&outcome->read_total);
  printf("}, ");
  cost_print(cost);
  printf(", \"verified\": %s, \"wrong_bytes\": %lld, \"hash\": \"%016llx\"}", wrong == 0 ? "true" : "false", (long long)wrong,
         (unsigned long long)hash);
}

static int run_calls(const struct options *options) {
  static struct calls calls;
  measure_calls(options, &calls);
  const int64_t wrong = sum_of_all(calls.wrong);
  const uint64_t hash = hash_of_all(calls.hash);
  if (this_rank == 0) {
    printf("{\"program\": \"independent\", ");
    print_mpi_version();
    printf(", \"ranks\": %d, \"pattern\": \"calls\", \"count\": %lld, \"nanoseconds\": {", all_ranks,
           (long long)options->pattern.count);
    series_print(&calls.empty);
    printf(", ");
    series_print(&calls.small);
    printf(", ");
    series_print(&calls.bare);
    printf("}, \"verified\": %s, \"wrong_bytes\": %lld, \"hash\": \"%016llx\"}\n", wrong == 0 ? "true" : "false",
           (long long)wrong, (unsigned long long)hash);
  }
  return wrong == 0 ? 0 : 1;
}

static int run_pattern(const struct options *options) {
  static struct outcome outcome;
  static const char *const names[2] = {"independent", "collective"};
  const int wanted[2] = {options->independent, options->collective};
  int64_t wrong_all = 0;
  struct types types = make_types(&options->pattern);
  if (this_rank == 0) {
    printf("{\"program\": \"independent\", ");
    print_mpi_version();
    printf(", \"ranks\": %d, \"pattern\": \"%s\", \"piece_bytes\": %lld, \"count\": %lld, \"bytes\": %lld", all_ranks,
           options->pattern.interleaved ? "interleaved" : "contiguous", (long long)options->pattern.piece_bytes,
           (long long)options->pattern.count, (long long)file_bytes(&options->pattern));
  }
  for (int collective = 0; collective < 2; ++collective) {
    if (wanted[collective]) {
      measure(options, &types, collective, &outcome);
      const struct cost cost = cost_of_all(&outcome.cost);
      const int64_t wrong = sum_of_all(outcome.wrong);
      const uint64_t hash = hash_of_all(outcome.hash);
      wrong_all += wrong;
      if (this_rank == 0) {
        print_mode(names[collective], &outcome, &cost, wrong, hash);
      }
    }
  }
  if (this_rank == 0) {
    printf("}\n");
  }
  free_types(&types);
  return wrong_all == 0 ? 0 : 1;
}

int main(int argc, char **argv) {
  start_mpi(&argc, &argv, "independent");
  const struct options options = parse(argc, argv);
  const int code = options.kind == CALLS  ? run_calls(&options)
                   : options.kind == VIEW ? run_view(&options)
                                          : run_pattern(&options);
  end_mpi();
  return code;
}
