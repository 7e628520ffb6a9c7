/* Writes, rewrites and reads matrices that memory does not hold, as MADbench2 does in its I/O mode, in which busy-work takes the place of
 * the arithmetic.  A plain MPI program: it knows nothing of what carries its MPI-IO calls out.
 *
 * --bins matrices of --pixels times --pixels numbers, in blocks over a square of ranks (S), or each over one of --gangs smaller squares (W
 * and C).  Phase S makes and writes every matrix; phase W reads each, works on it and writes the result in its place; phase C reads the
 * results.  Busy-work is N to the power --busy operations on the N numbers that a rank holds; 0, none to speak of, is the mode without
 * computing.  With --async a matrix is worked on while the one before it is written, or the one after it read.
 *
 * The shared file has matrix after matrix, each with what phase S has of it on rank 0, rank 1 and so on; a gang's member takes what --gangs
 * ranks in a row had.  A rank's own file has its parts alone.  Parts begin at multiples of --file-block bytes; between them is nothing. */
#include "common/content.h"
#include "common/passes.h"

#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NUMBER_BYTES = 8, BUFFERS = 3 };

enum phase { S, W, C, PHASES };
static const char phase_letters[PHASES + 1] = "SWC";

enum figure { OPEN, S_WRITE, W_READ, W_WRITE, C_READ, S_BUSY, W_BUSY, C_BUSY, S_ALL, W_ALL, C_ALL, WRITE, READ, SYNC, CLOSE, FIGURES };
static const char *const figure_names[FIGURES] = {"open",   "s_write", "w_read", "w_write", "c_read", "s_busy", "w_busy", "c_busy",
                                                  "s",      "w",       "c",      "write",   "read",   "sync",   "close"};

struct options {
  int64_t pixels;
  int bins;
  int gangs;
  int64_t block;      /* numbers along an edge of a block */
  int64_t file_block; /* bytes */
  int own_files;
  int async;
  double busy; /* exponent */
  int phases[PHASES];
  struct pass_options pass;
};

/* What this rank has of one matrix, in bytes from the matrix's beginning in the file. */
struct part {
  int64_t offset;
  int64_t bytes;
};

struct madbench {
  struct options options;
  int64_t matrix_bytes; /* in the file, with the gaps */
  struct part whole;    /* phase S */
  struct part ganged;   /* phases W and C */
  int gang;
  char *path;
  struct opened file;
  unsigned char *buffer[BUFFERS]; /* one is read into, one worked on, one written */
  double now[FIGURES]; /* seconds of this rank in this repetition */
  struct series seconds[FIGURES];
  int64_t calls;
  int64_t moved[2]; /* bytes written and read */
  int64_t wrong;
  uint64_t hash;
};

static const char usage[] =
    "usage: madbench2 --file PATH [--pixels N] [--bins N] [--gangs N] [--block N] [options]\n"
    "  --pixels N        along the edge of a matrix (400; the cache study's 5000)\n"
    "  --bins N          matrices (8)\n"
    "  --gangs N         squares of ranks that work on matrices of their own in phases W and C (1)\n"
    "  --block N         numbers along the edge of a block that a rank holds (32; the cache study's 1024)\n"
    "  --file-block N    parts begin at multiples of so many bytes (1)\n"
    "  --shared          one file (the default); --unique: a file for each rank, PATH.00000 and so on\n"
    "  --async           MPI_File_iwrite_at and iread_at beside the busy-work; --sync-calls: one after the other (the default)\n"
    "  --busy EXPONENT   of the busy-work (0: none)\n"
    "  --phases LETTERS  of S, W and C (SWC); what an earlier run left is there already\n" PASS_USAGE;

/* Options */

static double exponent(const char *text) {
  char *end = NULL;
  const double value = strtod(text, &end);
  if (end == text || *end != '\0' || !(value >= 0.0 && value <= 3.0)) {
    refuse("--busy %s: a number from 0 to 3 was expected", text);
  }
  return value;
}

static void choose_phases(const char *text, int *phases) {
  memset(phases, 0, PHASES * sizeof *phases);
  for (const char *letter = text; *letter != '\0'; ++letter) {
    const char *known = strchr(phase_letters, *letter);
    if (known == NULL) {
      refuse("--phases %s: letters of %s were expected", text, phase_letters);
    }
    phases[known - phase_letters] = 1;
  }
  if (*text == '\0') {
    refuse("--phases: at least one letter of %s was expected", phase_letters);
  }
}

static int root_of(int ranks) {
  int root = 1;
  while (root * root < ranks) {
    ++root;
  }
  return root;
}

static void check_options(struct options *options) {
  struct pass_options *pass = &options->pass;
  const int gangs = options->gangs;
  if (!pass->writing && !pass->reading) {
    refuse("--write-only and --read-only exclude each other");
  }
  if (all_ranks % gangs != 0 || root_of(all_ranks) * root_of(all_ranks) != all_ranks ||
      root_of(all_ranks / gangs) * root_of(all_ranks / gangs) != all_ranks / gangs) {
    refuse("%d ranks, --gangs %d: a square number of ranks, and one in each gang, was expected", all_ranks, gangs);
  }
  if (options->own_files && gangs > 1) {
    refuse("--unique --gangs %d: one gang was expected, since others would need the files of several ranks", gangs);
  }
  if (options->async && (pass->access.posix || pass->access.collective)) {
    refuse("--async: --independent was expected with it");
  }
  if (!pass->reading) {
    choose_phases("S", options->phases);
  } else if (!pass->writing) {
    choose_phases("C", options->phases);
  }
}

static struct options parse(int argc, char **argv) {
  static const struct option known[] = {{"pixels", required_argument, NULL, 'p'},     {"bins", required_argument, NULL, 'b'},
                                        {"gangs", required_argument, NULL, 'g'},      {"block", required_argument, NULL, 'k'},
                                        {"file-block", required_argument, NULL, 'f'}, {"shared", no_argument, NULL, 's'},
                                        {"unique", no_argument, NULL, 'u'},           {"async", no_argument, NULL, 'a'},
                                        {"sync-calls", no_argument, NULL, 'y'},       {"busy", required_argument, NULL, 'w'},
                                        {"phases", required_argument, NULL, 'h'},     PASS_OPTIONS,
                                        {NULL, 0, NULL, 0}};
  struct options options = {
      .pixels = 400, .bins = 8, .gangs = 1, .block = 32, .file_block = 1, .phases = {1, 1, 1}, .pass = pass_options_default()};
  options.pass.access.collective = 0;
  int good = 1;
  int option = 0;
  while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
    switch (option) {
      case 'p': options.pixels = whole_number("pixels", optarg, 1, 1 << 24); break;
      case 'b': options.bins = (int)whole_number("bins", optarg, 1, 1 << 20); break;
      case 'g': options.gangs = (int)whole_number("gangs", optarg, 1, all_ranks); break;
      case 'k': options.block = whole_number("block", optarg, 1, 1 << 24); break;
      case 'f': options.file_block = whole_number("file-block", optarg, 1, 1 << 30); break;
      case 's': options.own_files = 0; break;
      case 'u': options.own_files = 1; break;
      case 'a': options.async = 1; break;
      case 'y': options.async = 0; break;
      case 'w': options.busy = exponent(optarg); break;
      case 'h': choose_phases(optarg, options.phases); break;
      default: good &= pass_option_taken(&options.pass, option, optarg); break;
    }
  }
  if (!good || options.pass.file == NULL || optind != argc) {
    usage_error(usage);
  }
  check_options(&options);
  return options;
}

/* Places */

/* Rows (or columns) of `pixels` that the index-th of `ranks` holds when blocks go round. */
static int64_t dealt(const struct options *options, int index, int ranks) {
  const int64_t full = options->pixels / options->block;
  const int64_t rest = options->pixels % options->block;
  const int64_t extra = full % ranks;
  return full / ranks * options->block + (index < extra ? options->block : index == extra ? rest : 0);
}

static int64_t padded(const struct options *options, int64_t bytes) {
  return (bytes + options->file_block - 1) / options->file_block * options->file_block;
}

static int64_t share_bytes(const struct options *options, int rank) {
  const int edge = root_of(all_ranks);
  return dealt(options, rank / edge, edge) * dealt(options, rank % edge, edge) * NUMBER_BYTES;
}

/* What ranks [first, first + count) hold, gaps between them included. */
static struct part part_of_ranks(const struct options *options, int first, int count) {
  struct part part = {0, 0};
  for (int rank = 0; rank < first; ++rank) {
    part.offset += padded(options, share_bytes(options, rank));
  }
  for (int rank = first; rank < first + count; ++rank) {
    const int64_t share = share_bytes(options, rank);
    part.bytes = share > 0 ? padded(options, part.bytes) + share : part.bytes;
  }
  return part;
}

static void place_parts(struct madbench *kernel) {
  const struct options *options = &kernel->options;
  const int members = all_ranks / options->gangs;
  kernel->gang = this_rank / members;
  kernel->whole = part_of_ranks(options, this_rank, 1);
  kernel->ganged = part_of_ranks(options, this_rank % members * options->gangs, options->gangs);
  const struct part all = part_of_ranks(options, 0, all_ranks);
  kernel->matrix_bytes = padded(options, all.bytes);
  if (options->own_files) {
    kernel->whole.offset = kernel->ganged.offset = 0;
    kernel->matrix_bytes = padded(options, kernel->whole.bytes);
  }
  multiply(kernel->matrix_bytes, options->bins, "the file's size");
  if (kernel->ganged.bytes > INT_MAX) {
    fail("a part of %lld bytes is more than an int counts; use more ranks", (long long)kernel->ganged.bytes);
  }
}

/* Of this rank's own file, or of the file of all: the last matrix ends with its last byte, without a gap. */
static int64_t file_bytes(const struct madbench *kernel) {
  const struct options *options = &kernel->options;
  const struct part last = options->own_files ? kernel->whole : part_of_ranks(options, 0, all_ranks);
  return (options->bins - 1) * kernel->matrix_bytes + (last.bytes > 0 ? last.offset + last.bytes : 0);
}

static int64_t offset_of(const struct madbench *kernel, const struct part *part, int bin) {
  return bin * kernel->matrix_bytes + part->offset;
}

/* Ranks' own files differ though they have the same offsets. */
static uint64_t content_number(const struct madbench *kernel, uint64_t seed, int result) {
  const uint64_t of_file = kernel->options.own_files ? (uint64_t)this_rank << 32 : 0;
  return of_file + seed * 2 + (uint64_t)result;
}

/* Gaps between parts belong to nobody: what a gang's member rewrites of them is read by nobody.  Visits the bytes that are content. */
static void each_share(const struct madbench *kernel, const struct part *part, void (*visit)(void *, int64_t, int64_t), void *user) {
  const struct options *options = &kernel->options;
  if (part == &kernel->whole) {
    visit(user, 0, part->bytes);
    return;
  }
  const int first = this_rank % (all_ranks / options->gangs) * options->gangs;
  int64_t at = 0;
  for (int rank = first; rank < first + options->gangs; ++rank) {
    visit(user, at, share_bytes(options, rank));
    at += padded(options, share_bytes(options, rank));
  }
}

/* Content, made and checked outside of all times */

struct content {
  struct madbench *kernel;
  unsigned char *buffer;
  int64_t offset;
  uint64_t number;
  int64_t wrong;
};

static void fill_share(void *user, int64_t at, int64_t bytes) {
  const struct content *content = user;
  content_bytes(content->buffer + at, content->offset + at, bytes, content->number);
}

static void check_share(void *user, int64_t at, int64_t bytes) {
  struct content *content = user;
  content->wrong += content_wrong(content->buffer + at, content->offset + at, bytes, content->number, &content->kernel->hash);
}

static void fill(struct madbench *kernel, const struct part *part, int bin, uint64_t number, unsigned char *buffer) {
  struct content content = {kernel, buffer, offset_of(kernel, part, bin), number, 0};
  each_share(kernel, part, fill_share, &content);
}

static void verify(struct madbench *kernel, enum phase phase, int bin, uint64_t number, unsigned char *buffer) {
  if (!kernel->options.pass.verify) {
    return;
  }
  struct content content = {kernel, buffer, offset_of(kernel, &kernel->ganged, bin), number, 0};
  each_share(kernel, &kernel->ganged, check_share, &content);
  if (content.wrong > 0 && kernel->wrong == 0) {
    fprintf(stderr, "madbench2: rank %d: %s: %lld wrong bytes in matrix %d, read in phase %c\n", this_rank, kernel->path,
            (long long)content.wrong, bin, phase_letters[phase]);
  }
  kernel->wrong += content.wrong;
}

/* Busy-work and calls, timed */

static void work(struct madbench *kernel, const struct part *part, enum figure figure) {
  const double numbers = (double)(part->bytes / NUMBER_BYTES);
  const double operations = kernel->options.busy > 0.0 ? pow(numbers, kernel->options.busy) : 0.0;
  const double start = clock_seconds();
  volatile double sum = 1.0;
  for (double done = 0.0; done < operations; done += 2.0) {
    sum = sum * 0.5 + 1.0;
  }
  kernel->now[figure] += clock_seconds() - start;
}

/* A transfer that may still be under way. */
struct transfer {
  MPI_Request request;
  int64_t bytes; /* 0: nothing to wait for */
  enum figure figure;
};

static void finish(struct madbench *kernel, struct transfer *transfer) {
  if (transfer->bytes > 0) {
    MPI_Status status;
    const double start = clock_seconds();
    CHECK(MPI_Wait(&transfer->request, &status), kernel->path);
    kernel->now[transfer->figure] += clock_seconds() - start;
    opened_expect(&kernel->file, &status, transfer->bytes, figure_names[transfer->figure]);
    transfer->bytes = 0;
  }
}

/* `bin` beyond the last one: nothing, but a collective call needs every rank. */
static struct transfer move(struct madbench *kernel, const struct part *part, int bin, unsigned char *buffer, enum figure figure) {
  const int writing = figure == S_WRITE || figure == W_WRITE;
  const int there = bin < kernel->options.bins;
  const int64_t bytes = there ? part->bytes : 0;
  const int64_t offset = there ? offset_of(kernel, part, bin) : 0;
  struct transfer transfer = {MPI_REQUEST_NULL, 0, figure};
  if (bytes == 0 && !kernel->options.pass.access.collective) {
    return transfer;
  }
  const double start = clock_seconds();
  if (kernel->options.async) {
    CHECK(writing ? MPI_File_iwrite_at(kernel->file.file, offset, buffer, (int)bytes, MPI_BYTE, &transfer.request)
                  : MPI_File_iread_at(kernel->file.file, offset, buffer, (int)bytes, MPI_BYTE, &transfer.request),
          kernel->path);
    transfer.bytes = bytes;
  } else if (writing) {
    opened_write_at(&kernel->file, offset, buffer, bytes);
  } else {
    opened_read_at(&kernel->file, offset, buffer, bytes);
  }
  kernel->now[figure] += clock_seconds() - start;
  kernel->calls += 1;
  kernel->moved[!writing] += bytes;
  return transfer;
}

/* Phases.  Each opens and closes the file: what one rank wrote in one of them, another may read in the next. */

static void open_file(struct madbench *kernel, int writing, int reading) {
  const double start = start_together();
  MPI_Comm ranks = kernel->options.own_files ? MPI_COMM_SELF : MPI_COMM_WORLD;
  kernel->file = opened_open(&kernel->options.pass.access, ranks, kernel->path, writing, reading);
  kernel->now[OPEN] += seconds_since_first(start, clock_seconds());
  start_together();
}

static void close_file(struct madbench *kernel, int writing) {
  const double before = clock_seconds();
  if (writing && kernel->options.pass.sync) {
    opened_sync(&kernel->file);
  }
  const double between = clock_seconds();
  opened_close(&kernel->file);
  kernel->now[SYNC] += between - before;
  kernel->now[CLOSE] += clock_seconds() - between;
  finish_together();
}

static void make_matrices(struct madbench *kernel, uint64_t seed) {
  struct transfer writing[2] = {{MPI_REQUEST_NULL, 0, S_WRITE}, {MPI_REQUEST_NULL, 0, S_WRITE}};
  for (int bin = 0; bin < kernel->options.bins; ++bin) {
    unsigned char *mine = kernel->buffer[bin % 2];
    finish(kernel, &writing[bin % 2]);
    fill(kernel, &kernel->whole, bin, content_number(kernel, seed, 0), mine);
    work(kernel, &kernel->whole, S_BUSY);
    writing[bin % 2] = move(kernel, &kernel->whole, bin, mine, S_WRITE);
  }
  finish(kernel, &writing[0]);
  finish(kernel, &writing[1]);
}

/* Reads every matrix of this gang and, in phase W, writes it back.  Where calls do not block, the next one is read meanwhile, and the last
 * one written. */
static void go_through_matrices(struct madbench *kernel, enum phase phase, uint64_t seed, int result) {
  const int gangs = kernel->options.gangs;
  const int turns = (kernel->options.bins + gangs - 1) / gangs;
  const enum figure reading = phase == W ? W_READ : C_READ;
  struct transfer writing[2] = {{MPI_REQUEST_NULL, 0, W_WRITE}, {MPI_REQUEST_NULL, 0, W_WRITE}};
  struct transfer ahead = move(kernel, &kernel->ganged, kernel->gang, kernel->buffer[0], reading);
  for (int turn = 0; turn < turns; ++turn) {
    const int bin = turn * gangs + kernel->gang;
    const int there = bin < kernel->options.bins;
    unsigned char *mine = kernel->buffer[turn % BUFFERS];
    unsigned char *next = kernel->buffer[(turn + 1) % BUFFERS];
    finish(kernel, &ahead);
    if (there) {
      verify(kernel, phase, bin, content_number(kernel, seed, result), mine);
    }
    finish(kernel, &writing[turn % 2]); /* of the turn before the last: its buffer is the next one */
    if (kernel->options.async && turn + 1 < turns) {
      ahead = move(kernel, &kernel->ganged, bin + gangs, next, reading);
    }
    if (there) {
      work(kernel, &kernel->ganged, phase == W ? W_BUSY : C_BUSY);
    }
    if (phase == W) {
      if (there) {
        fill(kernel, &kernel->ganged, bin, content_number(kernel, seed, 1), mine);
      }
      writing[turn % 2] = move(kernel, &kernel->ganged, bin, mine, W_WRITE);
    }
    if (!kernel->options.async && turn + 1 < turns) {
      ahead = move(kernel, &kernel->ganged, bin + gangs, next, reading);
    }
  }
  finish(kernel, &writing[0]);
  finish(kernel, &writing[1]);
}

/* Whether the file has what phase W makes, and not what phase S does. */
static int has_results(const struct madbench *kernel) { return kernel->options.phases[W] || !kernel->options.phases[S]; }

static void run_phases(struct madbench *kernel, uint64_t seed) {
  const int *phases = kernel->options.phases;
  if (phases[S]) {
    open_file(kernel, 1, 0);
    make_matrices(kernel, seed);
    close_file(kernel, 1);
  }
  if (phases[W]) {
    open_file(kernel, 1, 1);
    go_through_matrices(kernel, W, seed, 0);
    close_file(kernel, 1);
  }
  if (phases[C]) {
    open_file(kernel, 0, 1);
    go_through_matrices(kernel, C, seed, has_results(kernel));
    close_file(kernel, 0);
  }
}

/* Every rank its own parts, with plain reads. */
static void check_plainly(struct madbench *kernel, uint64_t seed) {
  const struct pass_options *pass = &kernel->options.pass;
  if (!pass->verify || !pass->plain) {
    return;
  }
  barrier();
  const int file = open_posix(kernel->path, O_RDONLY);
  const struct part *part = &kernel->whole;
  int64_t wrong = 0;
  for (int bin = 0; bin < kernel->options.bins; ++bin) {
    uint64_t hash = 0;
    const int64_t offset = offset_of(kernel, part, bin);
    const int64_t found = pread_whole(file, kernel->buffer[0], part->bytes, offset, kernel->path);
    wrong += part->bytes - found;
    wrong += content_wrong(kernel->buffer[0], offset, found, content_number(kernel, seed, has_results(kernel)), &hash);
  }
  const int64_t size = lseek(file, 0, SEEK_END);
  close(file);
  if (wrong > 0 || size != file_bytes(kernel)) {
    fprintf(stderr, "madbench2: rank %d: %s: %lld wrong bytes, %lld bytes, %lld were expected\n", this_rank, kernel->path,
            (long long)wrong, (long long)size, (long long)file_bytes(kernel));
    wrong += size != file_bytes(kernel);
  }
  kernel->wrong += wrong;
  barrier();
}

static void delete_files(const struct madbench *kernel) {
  barrier();
  if (this_rank == 0 || kernel->options.own_files) {
    opened_remove(&kernel->options.pass.access, kernel->path);
  }
  barrier();
}

/* Figures */

static void add_figures(struct madbench *kernel) {
  double *now = kernel->now;
  double slowest[FIGURES];
  now[S_ALL] = now[S_WRITE] + now[S_BUSY];
  now[W_ALL] = now[W_READ] + now[W_WRITE] + now[W_BUSY];
  now[C_ALL] = now[C_READ] + now[C_BUSY];
  now[WRITE] = now[S_WRITE] + now[W_WRITE];
  now[READ] = now[W_READ] + now[C_READ];
  CHECK(MPI_Allreduce(now, slowest, FIGURES, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD), "times");
  for (int figure = 0; figure < FIGURES; ++figure) {
    series_append(&kernel->seconds[figure], slowest[figure]);
  }
}

static void repeat(struct madbench *kernel) {
  const struct pass_options *pass = &kernel->options.pass;
  const int fresh = kernel->options.phases[S];
  for (int repetition = 0; repetition < pass->repetitions; ++repetition) {
    /* The last file has the content of --seed itself, for whoever reads it later; one that is there already has no other. */
    const uint64_t seed = pass->seed + (uint64_t)(fresh ? pass->repetitions - 1 - repetition : 0);
    if (fresh) {
      delete_files(kernel);
    }
    memset(kernel->now, 0, sizeof kernel->now);
    kernel->calls = 0;
    memset(kernel->moved, 0, sizeof kernel->moved);
    run_phases(kernel, seed);
    add_figures(kernel);
    check_plainly(kernel, seed);
  }
  if (fresh && !pass->keep) {
    delete_files(kernel);
  }
}

struct totals {
  int64_t file_bytes;
  int64_t calls;
  int64_t moved[2];
  int64_t memory_bytes;
  int64_t wrong;
  uint64_t hash;
};

static struct totals totals_of(const struct madbench *kernel) {
  const int counts = this_rank == 0 || kernel->options.own_files;
  return (struct totals){.file_bytes = sum_of_all(counts ? file_bytes(kernel) : 0),
                         .calls = sum_of_all(kernel->calls),
                         .moved = {sum_of_all(kernel->moved[0]), sum_of_all(kernel->moved[1])},
                         .memory_bytes = sum_of_all(memory_now()),
                         .wrong = sum_of_all(kernel->wrong),
                         .hash = hash_of_all(kernel->hash)};
}

static void report_json(const struct madbench *kernel, const struct totals *totals) {
  const struct options *options = &kernel->options;
  printf("{\"program\": \"madbench2\", ");
  print_mpi_version();
  printf(", \"ranks\": %d, \"mode\": \"%s\", \"pixels\": %lld, \"bins\": %d, \"gangs\": %d, \"block\": %lld, \"file_block\": %lld, "
         "\"files\": \"%s\", \"async\": %s, \"busy\": %g, \"repetitions\": %d, \"file\": ",
         all_ranks, access_name(&options->pass.access), (long long)options->pixels, options->bins, options->gangs,
         (long long)options->block, (long long)options->file_block, options->own_files ? "unique" : "shared",
         options->async ? "true" : "false", options->busy, options->pass.repetitions);
  print_string(options->pass.file);
  printf(", \"file_bytes\": %lld, \"bytes_written\": %lld, \"bytes_read\": %lld, \"calls\": %lld, \"seconds\": {",
         (long long)totals->file_bytes, (long long)totals->moved[0], (long long)totals->moved[1], (long long)totals->calls);
  for (int figure = 0; figure < FIGURES; ++figure) {
    printf("%s", figure == 0 ? "" : ", ");
    series_print(&kernel->seconds[figure]);
  }
  printf("}, \"memory_bytes\": %lld, \"checked\": %s, \"verified\": %s, \"wrong_bytes\": %lld, \"hash\": \"%016llx\"}\n",
         (long long)totals->memory_bytes, options->pass.verify ? "true" : "false", totals->wrong == 0 ? "true" : "false",
         (long long)totals->wrong, (unsigned long long)totals->hash);
}

static void report_table(const struct madbench *kernel, const struct totals *totals) {
  const struct options *options = &kernel->options;
  printf("madbench2: %d ranks, %s, seconds of the last of %d repetitions\n", all_ranks, access_name(&options->pass.access),
         options->pass.repetitions);
  for (int figure = 0; figure < FIGURES; ++figure) {
    const struct series *series = &kernel->seconds[figure];
    printf("  %-14s %12.6f s\n", series->name, series->values[series->count - 1]);
  }
  printf("  written %lld bytes, read %lld bytes, %lld calls, hash %016llx: %s\n", (long long)totals->moved[0],
         (long long)totals->moved[1], (long long)totals->calls, (unsigned long long)totals->hash,
         totals->wrong > 0 ? "WRONG" : options->pass.verify ? "verified" : "not checked");
}

int main(int argc, char **argv) {
  static struct madbench kernel;
  start_mpi(&argc, &argv, "madbench2");
  kernel.options = parse(argc, argv);
  place_parts(&kernel);
  const struct pass_options *pass = &kernel.options.pass;
  kernel.path = kernel.options.own_files ? path_of_rank(pass->file, this_rank) : strdup(pass->file);
  if (kernel.path == NULL) {
    fail("out of memory: the name of the file");
  }
  const int64_t most = kernel.whole.bytes > kernel.ganged.bytes ? kernel.whole.bytes : kernel.ganged.bytes;
  for (int i = 0; i < BUFFERS; ++i) {
    kernel.buffer[i] = allocate(most, 1);
    memset(kernel.buffer[i], 0, (size_t)most);
  }
  for (int figure = 0; figure < FIGURES; ++figure) {
    kernel.seconds[figure].name = figure_names[figure];
  }
  repeat(&kernel);
  const struct totals totals = totals_of(&kernel);
  if (this_rank == 0 && pass->json) {
    report_json(&kernel, &totals);
  } else if (this_rank == 0) {
    report_table(&kernel, &totals);
  }
  for (int i = 0; i < BUFFERS; ++i) {
    free(kernel.buffer[i]);
  }
  free(kernel.path);
  pass_options_release(&kernel.options.pass);
  end_mpi();
  return totals.wrong == 0 ? 0 : 1;
}
