/* Searches a database of sequences for queries, as S3aSim pretends to: workers stream through fragments, the master merges what they found
 * by score and says where in the file of results each result goes, workers write there.  A plain MPI program: it knows nothing of what
 * carries its MPI-IO calls out.
 *
 * Rank 0 is the master and the others are workers; one rank alone is both.  Fragments go round the workers, query after query.  How many
 * results a query has, which fragment holds each, its score and its size follow from --random, so that the file of results is the same
 * whoever finds them: results lie by query, and there by falling score.  A result has twice the bytes of the shorter of query and
 * sequence; both have sizes of the histogram.  Nothing is computed: what is timed is reading and writing.
 *
 * The database is made before, with plain calls, and begins every repetition outside the page cache. */
#include "common/content.h"
#include "common/passes.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BOXES_MAX = 64, RESULT_FIELDS = 3, TAG_FOUND = 1, TAG_PLACES = 2 };
/* Far from the numbers of what results contain. */
static const uint64_t database_number = UINT64_C(1) << 40;

enum figure { OPEN, VIEW, READ, WRITE, SYNC, CLOSE, IO, READ_BACK, FIGURES };
static const char *const figure_names[FIGURES] = {"open", "view", "read", "write", "sync", "close", "io", "read_back"};

struct box {
  int64_t least;
  int64_t most;
  int64_t weight;
};

struct options {
  int queries;
  int fragments;
  int64_t fragment_bytes;
  int64_t chunk_bytes;
  int64_t count_least; /* results of a query */
  int64_t count_most;
  int64_t size_most;
  const char *histogram;
  struct box box[BOXES_MAX];
  int boxes;
  uint64_t random_seed;
  int query_sync;
  int list;
  struct pass_options pass;
};

/* One hit; also how it is sent to the master. */
struct result {
  int64_t index; /* among the results of its query */
  int64_t score;
  int64_t bytes;
};

/* What a worker found for one query. */
struct found {
  struct result *result;
  int64_t *offset; /* where the master puts them */
  int count;
  MPI_Request request;
};

struct s3asim {
  struct options options;
  int64_t file_bytes;
  int64_t results;
  char *database_path;
  struct access alone; /* how files are accessed that no other rank takes part in */
  struct opened file;
  struct opened database;
  unsigned char *chunk;
  int64_t end;         /* of the results that have a place; the master's */
  double now[FIGURES]; /* seconds of this rank in this repetition */
  struct series seconds[FIGURES];
  int64_t calls;
  int64_t moved[2]; /* bytes written and read */
  int64_t wrong;
  uint64_t hash;
};

static const char usage[] =
    "usage: s3asim --file PATH [--queries N] [--count-max N] [--size-max BYTES] [options]\n"
    "  --queries N       (10; the cache study's 100)\n"
    "  --count-max N     most results of a query (100; the cache study's 10000); --count-min N: fewest (0)\n"
    "  --size-max BYTES  longest query and sequence (5000)\n"
    "  --histogram L-M:W,...   sizes from L to M bytes with weight W each, instead of half of them up to an eighth of --size-max,\n"
    "                    a third up to half of it and the rest up to all of it\n"
    "  --fragments N     of the database, which is PATH.database (8)\n"
    "  --fragment-bytes N (262144); --chunk-bytes N: read by one call (65536)\n"
    "  --random SEED     of all that is drawn (0)\n"
    "  --query-sync      nobody begins a query before all results of the last one are written; --no-query-sync (the default)\n"
    "  --list            with --independent, all results of a query by one call through a view, not one by one\n" PASS_USAGE;

/* Options */

static void read_histogram(struct options *options, const char *text) {
  const char *at = text;
  options->boxes = 0;
  for (;;) {
    long long least = 0;
    long long most = 0;
    long long weight = 0;
    int length = 0;
    if (options->boxes == BOXES_MAX || sscanf(at, "%lld-%lld:%lld%n", &least, &most, &weight, &length) != 3 || least < 1 ||
        most < least || most > INT_MAX / 4 || weight < 1 || weight > INT_MAX) {
      refuse("--histogram %s: LEAST-MOST:WEIGHT with commas between, at most %d times, was expected", text, BOXES_MAX);
    }
    options->box[options->boxes++] = (struct box){least, most, weight};
    at += length;
    if (*at == '\0') {
      return;
    }
    if (*at++ != ',') {
      refuse("--histogram %s: a comma was expected before %s", text, at - 1);
    }
  }
}

static void usual_histogram(struct options *options) {
  const int64_t most = options->size_most;
  if (most < 8) {
    options->box[0] = (struct box){1, most, 1};
    options->boxes = 1;
    return;
  }
  options->box[0] = (struct box){1, most / 8, 50};
  options->box[1] = (struct box){most / 8 + 1, most / 2, 35};
  options->box[2] = (struct box){most / 2 + 1, most, 15};
  options->boxes = 3;
}

static struct options parse(int argc, char **argv) {
  static const struct option known[] = {{"queries", required_argument, NULL, 'q'},
                                        {"count-min", required_argument, NULL, 'l'},
                                        {"count-max", required_argument, NULL, 'm'},
                                        {"size-max", required_argument, NULL, 'x'},
                                        {"histogram", required_argument, NULL, 'h'},
                                        {"fragments", required_argument, NULL, 'f'},
                                        {"fragment-bytes", required_argument, NULL, 'b'},
                                        {"chunk-bytes", required_argument, NULL, 'c'},
                                        {"random", required_argument, NULL, 'r'},
                                        {"query-sync", no_argument, NULL, 's'},
                                        {"no-query-sync", no_argument, NULL, 'n'},
                                        {"list", no_argument, NULL, 'i'},
                                        PASS_OPTIONS,
                                        {NULL, 0, NULL, 0}};
  struct options options = {.queries = 10,
                            .fragments = 8,
                            .fragment_bytes = 1 << 18,
                            .chunk_bytes = 1 << 16,
                            .count_most = 100,
                            .size_most = 5000,
                            .pass = pass_options_default()};
  options.pass.access.collective = 0;
  int good = 1;
  int option = 0;
  while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
    switch (option) {
      case 'q': options.queries = (int)whole_number("queries", optarg, 1, 1 << 20); break;
      case 'l': options.count_least = whole_number("count-min", optarg, 0, 1 << 24); break;
      case 'm': options.count_most = whole_number("count-max", optarg, 0, 1 << 24); break;
      case 'x': options.size_most = whole_number("size-max", optarg, 1, INT_MAX / 4); break;
      case 'h': options.histogram = optarg; break;
      case 'f': options.fragments = (int)whole_number("fragments", optarg, 1, 1 << 20); break;
      case 'b': options.fragment_bytes = whole_number("fragment-bytes", optarg, 1, INT64_C(1) << 40); break;
      case 'c': options.chunk_bytes = whole_number("chunk-bytes", optarg, 1, 1 << 30); break;
      case 'r': options.random_seed = (uint64_t)whole_number("random", optarg, 0, INT64_MAX); break;
      case 's': options.query_sync = 1; break;
      case 'n': options.query_sync = 0; break;
      case 'i': options.list = 1; break;
      default: good &= pass_option_taken(&options.pass, option, optarg); break;
    }
  }
  if (!good || options.pass.file == NULL || optind != argc) {
    usage_error(usage);
  }
  if (!options.pass.writing && !options.pass.reading) {
    refuse("--write-only and --read-only exclude each other");
  }
  if (options.count_least > options.count_most) {
    refuse("--count-min %lld --count-max %lld: the fewest first was expected", (long long)options.count_least,
           (long long)options.count_most);
  }
  if (options.histogram != NULL) {
    read_histogram(&options, options.histogram);
  } else {
    usual_histogram(&options);
  }
  multiply(options.fragment_bytes, options.fragments, "the database's size");
  return options;
}

/* What is drawn */

enum draw { COUNT, QUERY_BOX, QUERY_SIZE, FRAGMENT, SCORE, SEQUENCE_BOX, SEQUENCE_SIZE };

/* A number that follows from the seed, the query, one of its results and what is asked. */
static uint64_t drawn(const struct options *options, int query, int64_t index, enum draw what) {
  const uint64_t parts[4] = {options->random_seed, (uint64_t)query, (uint64_t)index, (uint64_t)what};
  uint64_t mixed = UINT64_C(0x2545f4914f6cdd1d);
  for (int i = 0; i < 4; ++i) {
    mixed = (mixed ^ (parts[i] + UINT64_C(0x9e3779b97f4a7c15) * (uint64_t)(i + 1))) * UINT64_C(0xff51afd7ed558ccd);
    mixed ^= mixed >> 32;
  }
  return mixed;
}

static int64_t drawn_size(const struct options *options, uint64_t of_box, uint64_t of_size) {
  int64_t weights = 0;
  for (int i = 0; i < options->boxes; ++i) {
    weights += options->box[i].weight;
  }
  int64_t place = (int64_t)(of_box % (uint64_t)weights);
  int box = 0;
  while (place >= options->box[box].weight) {
    place -= options->box[box++].weight;
  }
  return options->box[box].least + (int64_t)(of_size % (uint64_t)(options->box[box].most - options->box[box].least + 1));
}

static int64_t results_of(const struct options *options, int query) {
  const uint64_t range = (uint64_t)(options->count_most - options->count_least + 1);
  return options->count_least + (int64_t)(drawn(options, query, 0, COUNT) % range);
}

static struct result result_of(const struct options *options, int query, int64_t index) {
  const int64_t asked = drawn_size(options, drawn(options, query, 0, QUERY_BOX), drawn(options, query, 0, QUERY_SIZE));
  const int64_t hit = drawn_size(options, drawn(options, query, index, SEQUENCE_BOX), drawn(options, query, index, SEQUENCE_SIZE));
  const int64_t score = (int64_t)(drawn(options, query, index, SCORE) % 1000000);
  return (struct result){index, score, 2 * (asked < hit ? asked : hit)};
}

static int workers(void) { return all_ranks > 1 ? all_ranks - 1 : 1; }

/* Of [0, workers()). */
static int worker_of(const struct options *options, int query, int fragment) {
  return (int)(((int64_t)query * options->fragments + fragment) % workers());
}

static int is_worker(void) { return all_ranks == 1 || this_rank > 0; }
static int own_worker(void) { return all_ranks > 1 ? this_rank - 1 : 0; }

static int64_t database_bytes(const struct options *options) { return options->fragment_bytes * options->fragments; }

static void sum_results(struct s3asim *kernel) {
  const struct options *options = &kernel->options;
  for (int query = 0; query < options->queries; ++query) {
    const int64_t count = results_of(options, query);
    kernel->results += count;
    for (int64_t index = 0; index < count; ++index) {
      kernel->file_bytes += result_of(options, query, index).bytes;
    }
  }
}

/* The database */

static void make_database(const struct s3asim *kernel) {
  const struct options *options = &kernel->options;
  const int file = open_posix(kernel->database_path, O_CREAT | O_WRONLY);
  for (int fragment = this_rank; fragment < options->fragments; fragment += all_ranks) {
    for (int64_t at = 0; at < options->fragment_bytes; at += options->chunk_bytes) {
      const int64_t rest = options->fragment_bytes - at;
      const int64_t bytes = rest < options->chunk_bytes ? rest : options->chunk_bytes;
      const int64_t offset = fragment * options->fragment_bytes + at;
      content_bytes(kernel->chunk, offset, bytes, database_number);
      pwrite_whole(file, kernel->chunk, bytes, offset, kernel->database_path);
    }
  }
  if (fsync(file) != 0) {
    fail("%s: fsync: %s", kernel->database_path, strerror(errno));
  }
  close(file);
  barrier();
}

/* A wish that some file systems can not grant, such as those in memory. */
static void forget_database(const struct s3asim *kernel) {
  if (this_rank == 0) {
    const int file = open_posix(kernel->database_path, O_RDONLY);
    posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    close(file);
  }
  barrier();
}

/* A worker: searching */

static void tell_wrong(const struct s3asim *kernel, const char *path, const char *how, int64_t wrong, int64_t offset) {
  if (wrong > 0 && kernel->wrong == 0) {
    fprintf(stderr, "s3asim: rank %d: %s: %lld wrong bytes, %s at %lld\n", this_rank, path, (long long)wrong, how, (long long)offset);
  }
}

static void stream(struct s3asim *kernel, int fragment) {
  const struct options *options = &kernel->options;
  for (int64_t at = 0; at < options->fragment_bytes; at += options->chunk_bytes) {
    const int64_t rest = options->fragment_bytes - at;
    const int64_t bytes = rest < options->chunk_bytes ? rest : options->chunk_bytes;
    const int64_t offset = fragment * options->fragment_bytes + at;
    const double start = clock_seconds();
    opened_read_at(&kernel->database, offset, kernel->chunk, bytes);
    kernel->now[READ] += clock_seconds() - start;
    kernel->calls += 1;
    kernel->moved[1] += bytes;
    if (options->pass.verify) {
      const int64_t wrong = content_wrong(kernel->chunk, offset, bytes, database_number, &kernel->hash);
      tell_wrong(kernel, kernel->database_path, "read from the database", wrong, offset);
      kernel->wrong += wrong;
    }
  }
}

static struct found search(struct s3asim *kernel, int query) {
  const struct options *options = &kernel->options;
  const int64_t count = results_of(options, query);
  struct found found = {.result = allocate(count, sizeof *found.result), .request = MPI_REQUEST_NULL};
  for (int fragment = 0; fragment < options->fragments; ++fragment) {
    if (worker_of(options, query, fragment) == own_worker()) {
      stream(kernel, fragment);
    }
  }
  for (int64_t index = 0; index < count; ++index) {
    const int fragment = (int)(drawn(options, query, index, FRAGMENT) % (uint64_t)options->fragments);
    if (worker_of(options, query, fragment) == own_worker()) {
      found.result[found.count++] = result_of(options, query, index);
    }
  }
  found.offset = allocate(found.count, sizeof *found.offset);
  return found;
}

static void release(struct found *found) {
  free(found->result);
  free(found->offset);
}

/* The master: merging */

struct placed {
  struct result result;
  int64_t *offset;
};

static int by_score(const void *left, const void *right) {
  const struct result *a = &((const struct placed *)left)->result;
  const struct result *b = &((const struct placed *)right)->result;
  return a->score != b->score ? (a->score < b->score) - (a->score > b->score) : (a->index > b->index) - (a->index < b->index);
}

/* Gives every result of a query, of all workers, its place behind those of the queries before. */
static void merge(struct s3asim *kernel, struct found *found, int lists) {
  int64_t count = 0;
  for (int list = 0; list < lists; ++list) {
    count += found[list].count;
  }
  struct placed *placed = allocate(count, sizeof *placed);
  count = 0;
  for (int list = 0; list < lists; ++list) {
    for (int i = 0; i < found[list].count; ++i) {
      placed[count++] = (struct placed){found[list].result[i], &found[list].offset[i]};
    }
  }
  qsort(placed, (size_t)count, sizeof *placed, by_score);
  for (int64_t i = 0; i < count; ++i) {
    *placed[i].offset = kernel->end;
    kernel->end += placed[i].result.bytes;
  }
  free(placed);
}

static struct found receive_found(int worker) {
  MPI_Status status;
  int numbers = 0;
  CHECK(MPI_Probe(worker + 1, TAG_FOUND, MPI_COMM_WORLD, &status), "results");
  CHECK(MPI_Get_count(&status, MPI_INT64_T, &numbers), "results");
  struct found found = {.count = numbers / RESULT_FIELDS};
  found.result = allocate(found.count, sizeof *found.result);
  found.offset = allocate(found.count, sizeof *found.offset);
  CHECK(MPI_Recv(found.result, numbers, MPI_INT64_T, worker + 1, TAG_FOUND, MPI_COMM_WORLD, MPI_STATUS_IGNORE), "results");
  return found;
}

static void place_results(struct s3asim *kernel) {
  struct found *found = allocate(workers(), sizeof *found);
  for (int worker = 0; worker < workers(); ++worker) {
    found[worker] = receive_found(worker);
  }
  merge(kernel, found, workers());
  for (int worker = 0; worker < workers(); ++worker) {
    CHECK(MPI_Send(found[worker].offset, found[worker].count, MPI_INT64_T, worker + 1, TAG_PLACES, MPI_COMM_WORLD), "places");
    release(&found[worker]);
  }
  free(found);
}

/* A worker: writing */

struct piece {
  int64_t offset;
  int64_t bytes;
};

static int by_offset(const void *left, const void *right) {
  const int64_t a = ((const struct piece *)left)->offset;
  const int64_t b = ((const struct piece *)right)->offset;
  return (a > b) - (a < b);
}

static void write_one_by_one(struct s3asim *kernel, const struct piece *piece, int count, const unsigned char *buffer) {
  const double start = clock_seconds();
  for (int i = 0; i < count; ++i) {
    opened_write_at(&kernel->file, piece[i].offset, buffer, piece[i].bytes);
    buffer += piece[i].bytes;
  }
  kernel->now[WRITE] += clock_seconds() - start;
  kernel->calls += count;
}

/* Where the file is opened by all ranks, all come here, with something or nothing. */
static void write_through_view(struct s3asim *kernel, const struct piece *piece, int count, const unsigned char *buffer, int64_t bytes) {
  const char *path = kernel->options.pass.file;
  MPI_Datatype view = MPI_BYTE;
  MPI_Status status;
  int *lengths = allocate(count, sizeof *lengths);
  MPI_Aint *displacements = allocate(count, sizeof *displacements);
  if (bytes > INT_MAX) {
    fail("%s: %lld bytes of results of one query are more than an int counts; use more ranks", path, (long long)bytes);
  }
  for (int i = 0; i < count; ++i) {
    lengths[i] = (int)piece[i].bytes;
    displacements[i] = (MPI_Aint)piece[i].offset;
  }
  if (count > 0) {
    CHECK(MPI_Type_create_hindexed(count, lengths, displacements, MPI_BYTE, &view), "view");
    CHECK(MPI_Type_commit(&view), "view");
  }
  const double start = clock_seconds();
  CHECK(MPI_File_set_view(kernel->file.file, 0, MPI_BYTE, view, "native", kernel->options.pass.access.info), path);
  const double between = clock_seconds();
  CHECK(kernel->options.pass.access.collective ? MPI_File_write_all(kernel->file.file, buffer, (int)bytes, MPI_BYTE, &status)
                                               : MPI_File_write(kernel->file.file, buffer, (int)bytes, MPI_BYTE, &status),
        path);
  kernel->now[VIEW] += between - start;
  kernel->now[WRITE] += clock_seconds() - between;
  kernel->calls += 1;
  opened_expect(&kernel->file, &status, bytes, "write of results");
  if (count > 0) {
    CHECK(MPI_Type_free(&view), "view");
  }
  free(displacements);
  free(lengths);
}

static void write_results(struct s3asim *kernel, const struct found *found, uint64_t seed) {
  const struct pass_options *pass = &kernel->options.pass;
  struct piece *piece = allocate(found->count, sizeof *piece);
  int64_t bytes = 0;
  for (int i = 0; i < found->count; ++i) {
    piece[i] = (struct piece){found->offset[i], found->result[i].bytes};
    bytes += piece[i].bytes;
  }
  qsort(piece, (size_t)found->count, sizeof *piece, by_offset);
  unsigned char *buffer = allocate(bytes, 1);
  int64_t at = 0;
  for (int i = 0; i < found->count; ++i) {
    content_bytes(buffer + at, piece[i].offset, piece[i].bytes, seed);
    at += piece[i].bytes;
  }
  if (!pass->access.posix && (pass->access.collective || kernel->options.list)) {
    write_through_view(kernel, piece, found->count, buffer, bytes);
  } else {
    write_one_by_one(kernel, piece, found->count, buffer);
  }
  kernel->moved[0] += bytes;
  free(buffer);
  free(piece);
}

/* Queries */

static void await_places(struct found *found) {
  CHECK(MPI_Wait(&found->request, MPI_STATUS_IGNORE), "results");
  CHECK(MPI_Recv(found->offset, found->count, MPI_INT64_T, 0, TAG_PLACES, MPI_COMM_WORLD, MPI_STATUS_IGNORE), "places");
}

static void write_and_release(struct s3asim *kernel, struct found *found, uint64_t seed) {
  if (all_ranks > 1) {
    await_places(found);
  }
  write_results(kernel, found, seed);
  release(found);
}

static void be_master(struct s3asim *kernel, uint64_t seed) {
  const struct found nothing = {.count = 0};
  for (int query = 0; query < kernel->options.queries; ++query) {
    place_results(kernel);
    if (kernel->options.pass.access.collective && !kernel->options.pass.access.posix) {
      write_results(kernel, &nothing, seed);
    }
    if (kernel->options.query_sync) {
      barrier();
    }
  }
}

/* Without --query-sync the next query is searched for before the master is asked where the results of the last one go. */
static void be_worker(struct s3asim *kernel, uint64_t seed) {
  const int ahead = kernel->options.query_sync ? 0 : 1;
  struct found found[2];
  for (int query = 0; query < kernel->options.queries + ahead; ++query) {
    if (query < kernel->options.queries) {
      struct found *mine = &found[query % 2];
      *mine = search(kernel, query);
      if (all_ranks == 1) {
        merge(kernel, mine, 1);
      } else {
        CHECK(MPI_Isend(mine->result, mine->count * RESULT_FIELDS, MPI_INT64_T, 0, TAG_FOUND, MPI_COMM_WORLD, &mine->request),
              "results");
      }
    }
    if (query >= ahead) {
      write_and_release(kernel, &found[(query - ahead) % 2], seed);
    }
    if (kernel->options.query_sync) {
      barrier();
    }
  }
}

/* Passes */

static MPI_Comm openers(const struct s3asim *kernel) {
  return kernel->options.pass.access.collective ? MPI_COMM_WORLD : MPI_COMM_SELF;
}

static void answer_queries(struct s3asim *kernel, uint64_t seed) {
  const struct options *options = &kernel->options;
  double start = start_together();
  kernel->file = opened_open(&options->pass.access, openers(kernel), options->pass.file, 1, 0);
  kernel->database = opened_open(&kernel->alone, MPI_COMM_SELF, kernel->database_path, 0, 1);
  kernel->now[OPEN] += seconds_since_first(start, clock_seconds());
  kernel->end = 0;
  start_together();
  if (is_worker()) {
    be_worker(kernel, seed);
  } else {
    be_master(kernel, seed);
  }
  start = clock_seconds();
  if (options->pass.sync) {
    opened_sync(&kernel->file);
  }
  const double between = clock_seconds();
  opened_close(&kernel->database);
  opened_close(&kernel->file);
  kernel->now[SYNC] += between - start;
  kernel->now[CLOSE] += clock_seconds() - between;
  finish_together();
}

/* The results, a share for each rank, whoever wrote them. */
static void read_back(struct s3asim *kernel, uint64_t seed) {
  const struct options *options = &kernel->options;
  const int collective = options->pass.access.collective && !options->pass.access.posix;
  const int64_t share = kernel->file_bytes / all_ranks;
  const int64_t begin = share * this_rank;
  const int64_t end = this_rank == all_ranks - 1 ? kernel->file_bytes : begin + share;
  const int64_t turns = (kernel->file_bytes - share * (all_ranks - 1) + options->chunk_bytes - 1) / options->chunk_bytes;
  struct opened file = opened_open(&options->pass.access, openers(kernel), options->pass.file, 0, 1);
  start_together();
  for (int64_t turn = 0; turn < turns; ++turn) {
    const int64_t at = begin + turn * options->chunk_bytes;
    const int64_t rest = at < end ? end - at : 0;
    const int64_t bytes = rest < options->chunk_bytes ? rest : options->chunk_bytes;
    if (bytes == 0 && !collective) {
      break;
    }
    const double start = clock_seconds();
    opened_read_at(&file, bytes > 0 ? at : 0, kernel->chunk, bytes);
    kernel->now[READ_BACK] += clock_seconds() - start;
    kernel->calls += 1;
    kernel->moved[1] += bytes;
    if (options->pass.verify) {
      const int64_t wrong = content_wrong(kernel->chunk, at, bytes, seed, &kernel->hash);
      tell_wrong(kernel, options->pass.file, "read back from the results", wrong, at);
      kernel->wrong += wrong;
    }
  }
  finish_together();
  opened_close(&file);
}

static void check_plainly(struct s3asim *kernel, uint64_t seed) {
  const struct pass_options *pass = &kernel->options.pass;
  if (pass->verify && pass->plain) {
    uint64_t hash = 0;
    barrier();
    const int64_t wrong = content_wrong_in_file(pass->file, kernel->file_bytes, seed, &hash);
    tell_wrong(kernel, pass->file, "read plainly, share", wrong, this_rank);
    kernel->wrong += wrong;
    barrier();
  }
}

static void delete_results(const struct s3asim *kernel) {
  barrier();
  if (this_rank == 0) {
    opened_remove(&kernel->options.pass.access, kernel->options.pass.file);
  }
  barrier();
}

static void add_figures(struct s3asim *kernel) {
  double *now = kernel->now;
  double slowest[FIGURES];
  now[IO] = now[OPEN] + now[VIEW] + now[READ] + now[WRITE] + now[SYNC] + now[CLOSE];
  CHECK(MPI_Allreduce(now, slowest, FIGURES, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD), "times");
  for (int figure = 0; figure < FIGURES; ++figure) {
    series_append(&kernel->seconds[figure], slowest[figure]);
  }
}

static void repeat(struct s3asim *kernel) {
  const struct pass_options *pass = &kernel->options.pass;
  for (int repetition = 0; repetition < pass->repetitions; ++repetition) {
    /* The last file has the content of --seed itself, for whoever reads it later; one that is there already has no other. */
    const uint64_t seed = pass->seed + (uint64_t)(pass->writing ? pass->repetitions - 1 - repetition : 0);
    memset(kernel->now, 0, sizeof kernel->now);
    memset(kernel->moved, 0, sizeof kernel->moved);
    kernel->calls = 0;
    if (pass->writing) {
      delete_results(kernel);
      forget_database(kernel);
      answer_queries(kernel, seed);
    }
    check_plainly(kernel, seed);
    if (pass->reading) {
      read_back(kernel, seed);
    }
    add_figures(kernel);
  }
}

/* Report */

struct totals {
  int64_t calls;
  int64_t moved[2];
  int64_t memory_bytes;
  int64_t wrong;
  uint64_t hash;
};

static struct totals totals_of(const struct s3asim *kernel) {
  return (struct totals){.calls = sum_of_all(kernel->calls),
                         .moved = {sum_of_all(kernel->moved[0]), sum_of_all(kernel->moved[1])},
                         .memory_bytes = sum_of_all(memory_now()),
                         .wrong = sum_of_all(kernel->wrong),
                         .hash = hash_of_all(kernel->hash)};
}

static void report_json(const struct s3asim *kernel, const struct totals *totals) {
  const struct options *options = &kernel->options;
  printf("{\"program\": \"s3asim\", ");
  print_mpi_version();
  printf(", \"ranks\": %d, \"mode\": \"%s\", \"queries\": %d, \"results\": %lld, \"fragments\": %d, \"fragment_bytes\": %lld, "
         "\"chunk_bytes\": %lld, \"query_sync\": %s, \"list\": %s, \"repetitions\": %d, \"file\": ",
         all_ranks, access_name(&options->pass.access), options->queries, (long long)kernel->results, options->fragments,
         (long long)options->fragment_bytes, (long long)options->chunk_bytes, options->query_sync ? "true" : "false",
         options->list ? "true" : "false", options->pass.repetitions);
  print_string(options->pass.file);
  printf(", \"file_bytes\": %lld, \"database_bytes\": %lld, \"bytes_written\": %lld, \"bytes_read\": %lld, \"calls\": %lld, "
         "\"seconds\": {",
         (long long)kernel->file_bytes, (long long)database_bytes(options), (long long)totals->moved[0], (long long)totals->moved[1],
         (long long)totals->calls);
  for (int figure = 0; figure < FIGURES; ++figure) {
    printf("%s", figure == 0 ? "" : ", ");
    series_print(&kernel->seconds[figure]);
  }
  printf("}, \"memory_bytes\": %lld, \"checked\": %s, \"verified\": %s, \"wrong_bytes\": %lld, \"hash\": \"%016llx\"}\n",
         (long long)totals->memory_bytes, options->pass.verify ? "true" : "false", totals->wrong == 0 ? "true" : "false",
         (long long)totals->wrong, (unsigned long long)totals->hash);
}

static void report_table(const struct s3asim *kernel, const struct totals *totals) {
  const struct options *options = &kernel->options;
  printf("s3asim: %d ranks, %s, seconds of the last of %d repetitions\n", all_ranks, access_name(&options->pass.access),
         options->pass.repetitions);
  for (int figure = 0; figure < FIGURES; ++figure) {
    const struct series *series = &kernel->seconds[figure];
    printf("  %-14s %12.6f s\n", series->name, series->values[series->count - 1]);
  }
  printf("  %lld results, written %lld bytes, read %lld bytes, %lld calls, hash %016llx: %s\n", (long long)kernel->results,
         (long long)totals->moved[0], (long long)totals->moved[1], (long long)totals->calls, (unsigned long long)totals->hash,
         totals->wrong > 0 ? "WRONG" : options->pass.verify ? "verified" : "not checked");
}

static char *name_of_database(const char *path) {
  static const char ending[] = ".database";
  const size_t length = strlen(path);
  char *name = allocate((int64_t)(length + sizeof ending), 1);
  memcpy(name, path, length);
  memcpy(name + length, ending, sizeof ending);
  return name;
}

int main(int argc, char **argv) {
  static struct s3asim kernel;
  start_mpi(&argc, &argv, "s3asim");
  kernel.options = parse(argc, argv);
  const struct pass_options *pass = &kernel.options.pass;
  kernel.alone = pass->access;
  kernel.alone.collective = 0;
  kernel.database_path = name_of_database(pass->file);
  kernel.chunk = allocate(kernel.options.chunk_bytes, 1);
  for (int figure = 0; figure < FIGURES; ++figure) {
    kernel.seconds[figure].name = figure_names[figure];
  }
  sum_results(&kernel);
  if (pass->writing) {
    make_database(&kernel);
  }
  repeat(&kernel);
  if (pass->writing && !pass->keep) {
    delete_results(&kernel);
    remove_file(kernel.database_path);
  }
  const struct totals totals = totals_of(&kernel);
  if (this_rank == 0 && pass->json) {
    report_json(&kernel, &totals);
  } else if (this_rank == 0) {
    report_table(&kernel, &totals);
  }
  free(kernel.chunk);
  free(kernel.database_path);
  pass_options_release(&kernel.options.pass);
  end_mpi();
  return totals.wrong == 0 ? 0 : 1;
}
