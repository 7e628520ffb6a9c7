/* Carries a kernel's steps out: fresh file, write, plain check, read, check, repeat; times of the slowest rank; one line of JSON.
 * Knows nothing of any kernel's pattern, nor of what carries the MPI-IO calls out.
 *
 * All buffers are filled before the clock starts, so that between two calls of a pass nothing happens but the next call.  A pass is timed
 * from the first rank that begins, of those of a node, to the last that is through. */
#include "passes.h"

#include "content.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum phase { OPEN, VIEW, WRITE, WRITE_PASS, SYNC, CLOSE, READ, READ_PASS, READ_SHIFTED, WRITE_TOTAL, READ_TOTAL, PHASES };
static const char *const phase_names[PHASES] = {"open",  "view",      "write",        "write_pass",  "sync",      "close",
                                                "read",  "read_pass", "read_shifted", "write_total", "read_total"};
enum { COSTS = 5 };
static const char *const cost_names[COSTS] = {"user_seconds", "system_seconds", "switches", "page_faults", "file_calls"};

struct run {
  const struct kernel *kernel;
  const struct pass_options *options;
  unsigned char **buffer; /* of each step; as large as the larger of the two lists wants */
  char *path[2];          /* of this rank's file and of the next one's; both --file where all ranks share it */
  double now[PHASES];     /* seconds of this rank in this repetition */
  double spent[2][COSTS]; /* by this rank in this repetition */
  struct series seconds[PHASES];
  struct series cost[2][COSTS]; /* of write and read */
  int64_t wrong;
  uint64_t hash;
};

/* Options */

struct pass_options pass_options_default(void) {
  return (struct pass_options){.access = {.collective = 1, .info = MPI_INFO_NULL},
                               .repetitions = 1,
                               .verify = 1,
                               .plain = 1,
                               .writing = 1,
                               .reading = 1,
                               .shifted = 1,
                               .json = 1};
}

static void add_hint(struct pass_options *options, const char *text) {
  char key[MPI_MAX_INFO_KEY + 1];
  const char *equals = strchr(text, '=');
  if (equals == NULL || equals == text || equals - text > MPI_MAX_INFO_KEY) {
    refuse("--hint %s: KEY=VALUE was expected", text);
  }
  memcpy(key, text, (size_t)(equals - text));
  key[equals - text] = '\0';
  MPI_Info *info = &options->access.info;
  if (*info == MPI_INFO_NULL) {
    CHECK(MPI_Info_create(info), "hints");
  }
  CHECK(MPI_Info_set(*info, key, equals + 1), text);
}

int pass_option_taken(struct pass_options *options, int code, const char *value) {
  switch (code) {
    case PASS_FILE: options->file = value; break;
    case PASS_COLLECTIVE: options->access.collective = 1; break;
    case PASS_INDEPENDENT: options->access.collective = 0; break;
    case PASS_POSIX: options->access.posix = 1; break;
    case PASS_REPETITIONS: options->repetitions = (int)whole_number("repetitions", value, 1, REPETITIONS_MAX); break;
    case PASS_SEED: options->seed = (uint64_t)whole_number("seed", value, 0, INT_MAX); break;
    case PASS_HINT: add_hint(options, value); break;
    case PASS_NO_VERIFY: options->verify = 0; break;
    case PASS_NO_PLAIN: options->plain = 0; break;
    case PASS_NO_SHIFTED: options->shifted = 0; break;
    case PASS_REORDER: options->reorder = 1; break;
    case PASS_WRITE_ONLY: options->reading = 0; break;
    case PASS_READ_ONLY: options->writing = 0; break;
    case PASS_SYNC: options->sync = 1; break;
    case PASS_NO_SYNC: options->sync = 0; break;
    case PASS_KEEP: options->keep = 1; break;
    case PASS_JSON: options->json = 1; break;
    case PASS_TABLE: options->json = 0; break;
    default: return 0;
  }
  return 1;
}

void pass_options_release(struct pass_options *options) {
  if (options->access.info != MPI_INFO_NULL) {
    CHECK(MPI_Info_free(&options->access.info), "hints");
  }
}

/* Content that is a function of the file offset */

struct filling {
  unsigned char *buffer;
  uint64_t seed;
};

static void fill_run(void *user, int64_t file_offset, int64_t size_bytes, int64_t buffer_offset) {
  const struct filling *filling = user;
  content_bytes(filling->buffer + buffer_offset, file_offset, size_bytes, filling->seed);
}

static void fill_of_runs(const struct kernel *kernel, int neighbour, int step, uint64_t seed, unsigned char *buffer) {
  struct filling filling = {buffer, seed};
  kernel->runs(kernel, neighbour, step, fill_run, &filling);
}

struct checking {
  const unsigned char *buffer;
  uint64_t seed;
  int64_t wrong;
  uint64_t hash;
};

static void check_run(void *user, int64_t file_offset, int64_t size_bytes, int64_t buffer_offset) {
  struct checking *checking = user;
  checking->wrong += content_wrong(checking->buffer + buffer_offset, file_offset, size_bytes, checking->seed, &checking->hash);
}

static int64_t wrong_of_runs(const struct kernel *kernel, int neighbour, int step, uint64_t seed, const unsigned char *buffer,
                             uint64_t *hash) {
  struct checking checking = {buffer, seed, 0, *hash};
  kernel->runs(kernel, neighbour, step, check_run, &checking);
  *hash = checking.hash;
  return checking.wrong;
}

struct counting {
  int64_t pieces;
  int64_t end;
};

static void count_run(void *user, int64_t file_offset, int64_t size_bytes, int64_t buffer_offset) {
  struct counting *counting = user;
  (void)buffer_offset;
  counting->pieces += counting->pieces == 0 || file_offset != counting->end;
  counting->end = file_offset + size_bytes;
}

void kernel_of_runs(struct kernel *kernel) {
  kernel->fill = fill_of_runs;
  kernel->wrong = wrong_of_runs;
  for (int step = 0; step < kernel->own.count; ++step) {
    struct counting counting = {0, 0};
    kernel->runs(kernel, 0, step, count_run, &counting);
    kernel->own.step[step].pieces = counting.pieces;
  }
}

void steps_allocate(struct steps *steps, int count) {
  steps->count = count;
  steps->step = allocate(count, sizeof *steps->step);
  memset(steps->step, 0, (size_t)count * sizeof *steps->step);
}

/* Passes */

static const char *path_of(const struct run *run, int neighbour) { return run->path[neighbour]; }

/* Where in the content the file begins that this rank (or the next one) writes. */
static int64_t content_offset(const struct kernel *kernel, int neighbour) {
  return (this_rank + neighbour) % all_ranks * kernel->own_file_bytes;
}

static void set_view(struct run *run, const struct opened *opened, const struct step *step) {
  if (opened->access->posix || step->names_offset) {
    return;
  }
  const double start = MPI_Wtime();
  CHECK(MPI_File_set_view(opened->file, step->displacement, step->etype, step->filetype, "native", opened->access->info), opened->path);
  run->now[VIEW] += MPI_Wtime() - start;
}

struct moving {
  const struct opened *opened;
  unsigned char *buffer;
  int writing;
  int64_t content_offset;
};

static void move_run(void *user, int64_t file_offset, int64_t size_bytes, int64_t buffer_offset) {
  const struct moving *moving = user;
  const int64_t offset = file_offset - moving->content_offset;
  if (moving->writing) {
    opened_write_at(moving->opened, offset, moving->buffer + buffer_offset, size_bytes);
  } else {
    opened_read_at(moving->opened, offset, moving->buffer + buffer_offset, size_bytes);
  }
}

static void call(const struct opened *opened, const struct step *step, int writing, void *buffer, MPI_Status *status) {
  const MPI_Offset offset = step->displacement;
  const int collective = opened->access->collective;
  MPI_File file = opened->file;
  if (step->names_offset && writing) {
    CHECK(collective ? MPI_File_write_at_all(file, offset, buffer, step->count, step->memory, status)
                     : MPI_File_write_at(file, offset, buffer, step->count, step->memory, status),
          opened->path);
  } else if (step->names_offset) {
    CHECK(collective ? MPI_File_read_at_all(file, offset, buffer, step->count, step->memory, status)
                     : MPI_File_read_at(file, offset, buffer, step->count, step->memory, status),
          opened->path);
  } else if (writing) {
    CHECK(collective ? MPI_File_write_all(file, buffer, step->count, step->memory, status)
                     : MPI_File_write(file, buffer, step->count, step->memory, status),
          opened->path);
  } else {
    CHECK(collective ? MPI_File_read_all(file, buffer, step->count, step->memory, status)
                     : MPI_File_read(file, buffer, step->count, step->memory, status),
          opened->path);
  }
}

/* All steps.  The pass holds the views that are set between calls, the phase the calls alone. */
static void pass(struct run *run, const struct opened *opened, int neighbour, enum phase phase) {
  const struct kernel *kernel = run->kernel;
  const struct steps *steps = neighbour ? &kernel->neighbour : &kernel->own;
  const int writing = phase == WRITE;
  const int posix = opened->access->posix;
  MPI_Status *status = allocate(steps->count, sizeof *status);
  struct cost cost = {0};
  if (steps->count > 0) {
    set_view(run, opened, &steps->step[0]);
  }
  const int64_t calls_before = file_calls_now();
  const double view_before = run->now[VIEW];
  const double start = start_together();
  const struct cost before = cost_now();
  for (int i = 0; i < steps->count; ++i) {
    if (posix) {
      struct moving moving = {opened, run->buffer[i], writing, content_offset(kernel, neighbour)};
      kernel->runs(kernel, neighbour, i, move_run, &moving);
      continue;
    }
    if (i > 0 && steps->step[i].begins_view) {
      set_view(run, opened, &steps->step[i]);
    }
    call(opened, &steps->step[i], writing, run->buffer[i], &status[i]);
  }
  const double end = clock_seconds();
  cost_add(&cost, &before);
  finish_together();
  const double span = seconds_since_first(start, end);
  const int64_t calls_after = file_calls_now();
  for (int i = 0; i < steps->count && !posix; ++i) {
    opened_expect(opened, &status[i], steps->step[i].bytes, phase_names[phase]);
  }
  free(status);
  run->now[phase] += span - (run->now[VIEW] - view_before);
  if (phase != READ_SHIFTED) {
    run->now[writing ? WRITE_PASS : READ_PASS] += span;
    double *spent = run->spent[!writing];
    spent[0] = cost.user_seconds;
    spent[1] = cost.system_seconds;
    spent[2] = (double)cost.switches;
    spent[3] = (double)cost.page_faults;
    spent[4] = calls_after > 0 ? (double)(calls_after - calls_before - 1) : 0.0;
  }
}

static struct opened open_file(struct run *run, int neighbour, int writing) {
  MPI_Comm ranks = run->kernel->own_file_bytes > 0 ? MPI_COMM_SELF : MPI_COMM_WORLD;
  const double start = start_together();
  const struct opened opened = opened_open(&run->options->access, ranks, path_of(run, neighbour), writing, !writing);
  run->now[OPEN] += seconds_since_first(start, clock_seconds());
  return opened;
}

static void close_file(struct run *run, struct opened *opened) {
  const double start = MPI_Wtime();
  opened_close(opened);
  run->now[CLOSE] += MPI_Wtime() - start;
}

/* open, view, the pass and close of one file, from what the phases were before it. */
static double total_since(const struct run *run, const double *before, enum phase phase) {
  return run->now[OPEN] - before[OPEN] + run->now[VIEW] - before[VIEW] + run->now[phase] - before[phase] + run->now[CLOSE] -
         before[CLOSE];
}

/* Through MPI, which knows names with a prefix.  Not timed: a file of a repetition begins as nothing and ends as nothing. */
static void delete_files(const struct run *run) {
  barrier();
  if (this_rank == 0 || run->kernel->own_file_bytes > 0) {
    opened_remove(&run->options->access, path_of(run, 0));
  }
  barrier();
}

static void write_header(const struct kernel *kernel, const struct opened *opened) {
  if (kernel->header_bytes > 0 && this_rank == 0) {
    MPI_Status status;
    CHECK(MPI_File_write_at(opened->file, 0, kernel->header, (int)kernel->header_bytes, MPI_BYTE, &status), opened->path);
    opened_expect(opened, &status, kernel->header_bytes, "write of the header");
  }
}

static void write_everything(struct run *run, uint64_t seed) {
  const struct kernel *kernel = run->kernel;
  double before[PHASES];
  for (int i = 0; i < kernel->own.count; ++i) {
    memset(run->buffer[i], 0x5A, (size_t)kernel->own.step[i].buffer_bytes);
    kernel->fill(kernel, 0, i, seed, run->buffer[i]);
  }
  delete_files(run);
  memcpy(before, run->now, sizeof before);
  struct opened file = open_file(run, 0, 1);
  write_header(kernel, &file);
  pass(run, &file, 0, WRITE);
  if (run->options->sync) {
    const double start = MPI_Wtime();
    opened_sync(&file);
    run->now[SYNC] += MPI_Wtime() - start;
  }
  close_file(run, &file);
  run->now[WRITE_TOTAL] += total_since(run, before, WRITE);
}

static void tell_wrong(const struct run *run, const char *how, int step, int64_t wrong) {
  if (wrong > 0 && run->wrong == 0) {
    fprintf(stderr, "%s: rank %d: %s: %lld wrong bytes in call %d of the %s\n", run->kernel->name, this_rank, run->options->file,
            (long long)wrong, step, how);
  }
}

static void read_steps(struct run *run, const struct opened *file, int neighbour, uint64_t seed, enum phase phase) {
  const struct kernel *kernel = run->kernel;
  const struct steps *steps = neighbour ? &kernel->neighbour : &kernel->own;
  for (int i = 0; i < steps->count; ++i) {
    memset(run->buffer[i], 0xA5, (size_t)steps->step[i].buffer_bytes);
  }
  pass(run, file, neighbour, phase);
  for (int i = 0; run->options->verify && i < steps->count; ++i) {
    uint64_t hash = 0;
    const int64_t wrong = kernel->wrong(kernel, neighbour, i, seed, run->buffer[i], &hash);
    tell_wrong(run, phase_names[phase], i, wrong);
    run->wrong += wrong;
    run->hash += phase == READ ? hash : 0;
  }
}

/* What the next rank wrote, where that is another file: the times of its opening and closing belong to no phase. */
static void read_other_file(struct run *run, uint64_t seed) {
  const double opening = run->now[OPEN];
  const double closing = run->now[CLOSE];
  struct opened file = open_file(run, 1, 0);
  read_steps(run, &file, 1, seed, READ_SHIFTED);
  close_file(run, &file);
  run->now[OPEN] = opening;
  run->now[CLOSE] = closing;
}

static void read_everything(struct run *run, uint64_t seed) {
  const int shifted = run->options->shifted && !run->options->reorder;
  const int own_files = run->kernel->own_file_bytes > 0;
  double before[PHASES];
  memcpy(before, run->now, sizeof before);
  struct opened file = open_file(run, run->options->reorder, 0);
  read_steps(run, &file, run->options->reorder, seed, READ);
  run->now[READ_TOTAL] += total_since(run, before, READ);
  if (shifted && !own_files) {
    read_steps(run, &file, 1, seed, READ_SHIFTED);
  }
  const double closing = run->now[CLOSE];
  close_file(run, &file);
  run->now[READ_TOTAL] += run->now[CLOSE] - closing;
  if (shifted && own_files) {
    read_other_file(run, seed);
  }
}

/* With plain reads, where the content can be told from the offset. */
static void check_plainly(struct run *run, uint64_t seed) {
  if (run->options->verify && run->options->plain && run->kernel->runs != NULL) {
    uint64_t hash = 0;
    barrier();
    const struct kernel *kernel = run->kernel;
    const int64_t wrong =
        kernel->own_file_bytes > 0
            ? content_wrong_in_own_file(path_of(run, 0), kernel->own_file_bytes, content_offset(kernel, 0), seed, &hash)
            : content_wrong_in_file(path_of(run, 0), kernel->file_bytes, seed, &hash);
    if (wrong > 0 && run->wrong == 0) {
      fprintf(stderr, "%s: rank %d: %s: %lld wrong bytes in this rank's share, read plainly\n", run->kernel->name, this_rank,
              run->options->file, (long long)wrong);
    }
    run->wrong += wrong;
    barrier();
  }
}

/* Times of the slowest rank and sums of costs, each in one message: more would take long where ranks share cores.  Collective. */
static void add_figures(struct run *run) {
  double slowest[PHASES];
  double sums[2 * COSTS];
  CHECK(MPI_Allreduce(run->now, slowest, PHASES, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD), "times");
  CHECK(MPI_Allreduce(run->spent, sums, 2 * COSTS, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD), "costs");
  for (int phase = 0; phase < PHASES; ++phase) {
    series_append(&run->seconds[phase], slowest[phase]);
  }
  for (int i = 0; i < 2 * COSTS; ++i) {
    series_append(&run->cost[i / COSTS][i % COSTS], sums[i]);
  }
}

static void repeat(struct run *run) {
  for (int repetition = 0; repetition < run->options->repetitions; ++repetition) {
    /* The last file has the content of --seed itself, for whoever reads it later; one that is there already has no other. */
    const int older = run->options->writing ? run->options->repetitions - 1 - repetition : 0;
    const uint64_t seed = run->options->seed + (uint64_t)older;
    memset(run->now, 0, sizeof run->now);
    memset(run->spent, 0, sizeof run->spent);
    if (run->options->writing) {
      write_everything(run, seed);
    }
    check_plainly(run, seed);
    if (run->options->reading) {
      read_everything(run, seed);
    }
    add_figures(run);
  }
  if (run->options->writing && !run->options->keep) {
    delete_files(run);
  }
}

/* Report */

struct totals {
  int64_t calls;
  int64_t bytes_written;
  int64_t bytes_read;
  int64_t pieces;
  int64_t pieces_max;
};

static void add_steps(const struct steps *steps, int64_t *calls, int64_t *bytes) {
  *calls += steps->count;
  for (int i = 0; i < steps->count; ++i) {
    *bytes += steps->step[i].bytes;
  }
}

/* Of one repetition, all ranks together.  Collective. */
static struct totals totals_of(const struct run *run) {
  const struct kernel *kernel = run->kernel;
  const struct pass_options *options = run->options;
  struct totals own = {0};
  for (int i = 0; i < kernel->own.count; ++i) {
    own.pieces += kernel->own.step[i].pieces;
  }
  if (options->writing) {
    add_steps(&kernel->own, &own.calls, &own.bytes_written);
    if (this_rank == 0 && kernel->header_bytes > 0) {
      own.calls += 1;
      own.bytes_written += kernel->header_bytes;
    }
  }
  if (options->reading) {
    add_steps(options->reorder ? &kernel->neighbour : &kernel->own, &own.calls, &own.bytes_read);
    if (options->shifted && !options->reorder) {
      add_steps(&kernel->neighbour, &own.calls, &own.bytes_read);
    }
  }
  return (struct totals){sum_of_all(own.calls), sum_of_all(own.bytes_written), sum_of_all(own.bytes_read), sum_of_all(own.pieces),
                         max_of_all(own.pieces)};
}

static void print_series(const struct series *series, int count) {
  for (int i = 0; i < count; ++i) {
    printf("%s", i == 0 ? "" : ", ");
    series_print(&series[i]);
  }
}

static void report_json(const struct run *run, const struct totals *totals, int64_t memory_bytes, int64_t wrong, uint64_t hash,
                        double wall) {
  const struct pass_options *options = run->options;
  printf("{\"program\": \"%s\", ", run->kernel->name);
  print_mpi_version();
  printf(", \"ranks\": %d, \"mode\": \"%s\"", all_ranks, access_name(&options->access));
  run->kernel->facts(run->kernel);
  printf(", \"repetitions\": %d, \"file\": ", options->repetitions);
  print_string(options->file);
  printf(", \"file_bytes\": %lld, \"bytes_written\": %lld, \"bytes_read\": %lld, \"calls\": %lld, \"pieces\": %lld, "
         "\"pieces_max\": %lld, \"seconds\": {",
         (long long)run->kernel->file_bytes, (long long)totals->bytes_written, (long long)totals->bytes_read,
         (long long)totals->calls, (long long)totals->pieces, (long long)totals->pieces_max);
  print_series(run->seconds, PHASES);
  printf("}, \"costs\": {\"write\": {");
  print_series(run->cost[0], COSTS);
  printf("}, \"read\": {");
  print_series(run->cost[1], COSTS);
  printf("}}, \"memory_bytes\": %lld, \"wall_seconds\": %.9f, \"checked\": %s, \"verified\": %s, \"wrong_bytes\": %lld, \"hash\": \"%016llx\"}\n",
         (long long)memory_bytes, wall,
         options->verify ? "true" : "false", wrong == 0 ? "true" : "false", (long long)wrong, (unsigned long long)hash);
}

static void report_table(const struct run *run, const struct totals *totals, int64_t wrong, uint64_t hash) {
  printf("%s: %d ranks, %s, seconds of the last of %d repetitions\n", run->kernel->name, all_ranks,
         access_name(&run->options->access), run->options->repetitions);
  for (int phase = 0; phase < PHASES; ++phase) {
    printf("  %-14s %12.6f s\n", phase_names[phase], run->seconds[phase].values[run->seconds[phase].count - 1]);
  }
  printf("  written %lld bytes, read %lld bytes, %lld calls, %lld pieces, hash %016llx: %s\n", (long long)totals->bytes_written,
         (long long)totals->bytes_read, (long long)totals->calls, (long long)totals->pieces, (unsigned long long)hash,
         wrong > 0 ? "WRONG" : run->options->verify ? "verified" : "not checked");
}

static void name_files(struct run *run) {
  for (int neighbour = 0; neighbour < 2; ++neighbour) {
    const char *path = run->options->file;
    run->path[neighbour] =
        run->kernel->own_file_bytes > 0 ? path_of_rank(path, (this_rank + neighbour) % all_ranks) : strdup(path);
    if (run->path[neighbour] == NULL) {
      fail("out of memory: the name of the file");
    }
  }
}

static void prepare(struct run *run) {
  name_files(run);
  const struct steps *lists[2] = {&run->kernel->own, &run->kernel->neighbour};
  const int steps = lists[0]->count > lists[1]->count ? lists[0]->count : lists[1]->count;
  run->buffer = allocate(steps, sizeof *run->buffer);
  for (int i = 0; i < steps; ++i) {
    int64_t bytes = 0;
    for (int list = 0; list < 2; ++list) {
      const int64_t wanted = i < lists[list]->count ? lists[list]->step[i].buffer_bytes : 0;
      bytes = wanted > bytes ? wanted : bytes;
    }
    run->buffer[i] = allocate(bytes, 1);
  }
  for (int phase = 0; phase < PHASES; ++phase) {
    run->seconds[phase].name = phase_names[phase];
  }
  for (int i = 0; i < 2 * COSTS; ++i) {
    run->cost[i / COSTS][i % COSTS].name = cost_names[i % COSTS];
  }
}

int kernel_run(const struct kernel *kernel, const struct pass_options *options) {
  static struct run run;
  run = (struct run){.kernel = kernel, .options = options};
  if (!options->writing && !options->reading) {
    refuse("--write-only and --read-only exclude each other");
  }
  if (options->access.posix && kernel->runs == NULL) {
    refuse("--posix: expected a kernel whose bytes follow from their place in the file, which %s is not", kernel->name);
  }
  prepare(&run);
  barrier();
  const double start = MPI_Wtime();
  repeat(&run);
  barrier();
  const double wall = MPI_Wtime() - start;
  const struct totals totals = totals_of(&run);
  const int64_t wrong = sum_of_all(run.wrong);
  const uint64_t hash = hash_of_all(run.hash);
  const int64_t memory_bytes = sum_of_all(memory_now());
  if (this_rank == 0 && options->json) {
    report_json(&run, &totals, memory_bytes, wrong, hash, wall);
  } else if (this_rank == 0) {
    report_table(&run, &totals, wrong, hash);
  }
  const int steps = kernel->own.count > kernel->neighbour.count ? kernel->own.count : kernel->neighbour.count;
  for (int i = 0; i < steps; ++i) {
    free(run.buffer[i]);
  }
  free(run.buffer);
  free(run.path[0]);
  free(run.path[1]);
  return wrong == 0 ? 0 : 1;
}
