/* Writes and reads pieces whose ranks take turns in one file, as IOR's shared-file patterns do, or that lie at random places.
 * A plain MPI program: it knows nothing of what carries its MPI-IO calls out.
 *
 * The file is --segments segments; a segment holds a block of each rank, in the order of the ranks; a block is transfers of equal size.
 * One segment of large blocks is the segmented pattern, many segments of one transfer the strided one.  With --random, transfers lie at
 * places of a permutation of the whole file that the number after it selects. */
#include "common/passes.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options {
  int64_t block_bytes;
  int64_t transfer_bytes;
  int64_t segments;
  int64_t per_call; /* transfers moved by one call; 0: all */
  int random;
  uint64_t random_seed;
  int at; /* calls say where: no views */
  struct pass_options pass;
};

/* Of this rank or of the next: with --random the offsets of its transfers, sorted within each call. */
struct part {
  int rank;
  int64_t *offsets;
};

struct interleave {
  struct options options;
  int64_t transfers; /* of one rank */
  struct part part[2];
  MPI_Datatype transfer;
  MPI_Datatype turn; /* a rank's block and the other ranks' after it */
};

static const char usage[] =
    "usage: interleave --file PATH [-b BYTES] [-t BYTES] [-s N] [-i N] [-C] [-z SEED] [--per-call N] [options]\n"
    "  -b, --block BYTES     what a rank has in one segment (1m; k, m and g are understood)\n"
    "  -t, --transfer BYTES  one piece; the block is a multiple of it (the block)\n"
    "  -s, --segments N      (1)\n"
    "  -i N                  like --repetitions\n"
    "  -C                    like --reorder\n"
    "  -z, --random SEED     transfers at random places\n"
    "  --per-call N          transfers moved by one call; 0 = all of them (0)\n"
    "  --at                  each call moves one transfer and says where (MPI_File_write_at and the like), without views\n" PASS_USAGE;

/* IOR's sizes: a number and k, m or g. */
static int64_t size_of(const char *option, const char *text) {
  char digits[32];
  const size_t length = strlen(text);
  static const char letters[] = "kmg";
  const char *letter = length > 0 ? strchr(letters, text[length - 1] | 0x20) : NULL;
  const size_t kept = letter != NULL && *letter != '\0' ? length - 1 : length;
  if (kept >= sizeof digits) {
    refuse("-%s %s: a size in bytes was expected", option, text);
  }
  memcpy(digits, text, kept);
  digits[kept] = '\0';
  int64_t size = whole_number(option, digits, 1, INT64_MAX);
  for (int64_t i = kept < length ? letter - letters + 1 : 0; i > 0; --i) {
    size = multiply(size, 1024, text);
  }
  return size;
}

static struct options parse(int argc, char **argv) {
  static const struct option known[] = {{"block", required_argument, NULL, 'b'},
                                        {"transfer", required_argument, NULL, 't'},
                                        {"segments", required_argument, NULL, 's'},
                                        {"random", required_argument, NULL, 'z'},
                                        {"per-call", required_argument, NULL, 'p'},
                                        {"at", no_argument, NULL, 'a'},
                                        PASS_OPTIONS,
                                        {NULL, 0, NULL, 0}};
  struct options options = {.block_bytes = 1 << 20, .segments = 1, .pass = pass_options_default()};
  int good = 1;
  int option = 0;
  while ((option = getopt_long(argc, argv, "b:t:s:i:z:C", known, NULL)) != -1) {
    switch (option) {
      case 'b': options.block_bytes = size_of("b", optarg); break;
      case 't': options.transfer_bytes = size_of("t", optarg); break;
      case 's': options.segments = whole_number("segments", optarg, 1, INT64_MAX); break;
      case 'p': options.per_call = whole_number("per-call", optarg, 0, INT_MAX); break;
      case 'a': options.at = 1; break;
      case 'i': pass_option_taken(&options.pass, PASS_REPETITIONS, optarg); break;
      case 'C': pass_option_taken(&options.pass, PASS_REORDER, NULL); break;
      case 'z':
        options.random = 1;
        options.random_seed = (uint64_t)whole_number("random", optarg, 0, INT64_MAX);
        break;
      default: good &= pass_option_taken(&options.pass, option, optarg); break;
    }
  }
  if (!good || options.pass.file == NULL || optind != argc) {
    usage_error(usage);
  }
  if (options.at) {
    options.per_call = 1;
  }
  if (options.transfer_bytes == 0) {
    options.transfer_bytes = options.block_bytes;
  }
  if (options.block_bytes % options.transfer_bytes != 0 || options.transfer_bytes > INT_MAX) {
    refuse("-b %lld -t %lld: a block of whole transfers of at most %d bytes was expected", (long long)options.block_bytes,
         (long long)options.transfer_bytes, INT_MAX);
  }
  return options;
}

/* A permutation of [0, count) that needs no memory: four rounds of a Feistel network on the least even number of bits that hold count,
 * walked on from places outside. */
static int64_t permuted(int64_t index, int64_t count, uint64_t seed) {
  int half = 1;
  while (half < 31 && (INT64_C(1) << (2 * half)) < count) {
    ++half;
  }
  const uint64_t mask = (UINT64_C(1) << half) - 1;
  uint64_t place = (uint64_t)index;
  do {
    uint64_t left = place >> half;
    uint64_t right = place & mask;
    for (uint64_t round = 0; round < 4; ++round) {
      uint64_t mixed = (right + 1 + round * UINT64_C(0x9e3779b97f4a7c15) + seed * UINT64_C(0xbf58476d1ce4e5b9)) *
                       UINT64_C(0x94d049bb133111eb);
      mixed ^= mixed >> 29;
      const uint64_t next = left ^ ((mixed * UINT64_C(0xd6e8feb86659fd93)) >> 32 & mask);
      left = right;
      right = next;
    }
    place = left << half | right;
  } while (place >= (uint64_t)count);
  return (int64_t)place;
}

static int64_t regular_offset(const struct interleave *kernel, int rank, int64_t transfer) {
  const struct options *options = &kernel->options;
  const int64_t per_block = options->block_bytes / options->transfer_bytes;
  const int64_t segment = transfer / per_block;
  return (segment * all_ranks + rank) * options->block_bytes + transfer % per_block * options->transfer_bytes;
}

static int by_offset(const void *left, const void *right) {
  const int64_t a = *(const int64_t *)left;
  const int64_t b = *(const int64_t *)right;
  return (a > b) - (a < b);
}

static int64_t per_call(const struct interleave *kernel) {
  return kernel->options.per_call > 0 && kernel->options.per_call < kernel->transfers ? kernel->options.per_call : kernel->transfers;
}

static int64_t transfers_of_step(const struct interleave *kernel, int step) {
  const int64_t rest = kernel->transfers - step * per_call(kernel);
  return rest < per_call(kernel) ? rest : per_call(kernel);
}

/* Every rank draws its own transfers from the permutation of all; a view's pieces go up. */
static void draw_offsets(struct interleave *kernel, struct part *part, int steps) {
  const int64_t transfer_bytes = kernel->options.transfer_bytes;
  part->offsets = allocate(kernel->transfers, sizeof *part->offsets);
  for (int64_t i = 0; i < kernel->transfers; ++i) {
    const int64_t index = part->rank * kernel->transfers + i;
    part->offsets[i] = permuted(index, kernel->transfers * all_ranks, kernel->options.random_seed) * transfer_bytes;
  }
  for (int step = 0; step < steps; ++step) {
    qsort(part->offsets + step * per_call(kernel), (size_t)transfers_of_step(kernel, step), sizeof(int64_t), by_offset);
  }
}

static int64_t offset_of(const struct interleave *kernel, const struct part *part, int64_t transfer) {
  return part->offsets != NULL ? part->offsets[transfer] : regular_offset(kernel, part->rank, transfer);
}

static void runs(const struct kernel *passes, int neighbour, int step, run_visitor *visit, void *user) {
  const struct interleave *kernel = passes->context;
  const struct part *part = &kernel->part[neighbour];
  const int64_t bytes = kernel->options.transfer_bytes;
  const int64_t first = step * per_call(kernel);
  for (int64_t i = 0; i < transfers_of_step(kernel, step); ++i) {
    visit(user, offset_of(kernel, part, first + i), bytes, i * bytes);
  }
}

static MPI_Datatype random_view(const struct interleave *kernel, const struct part *part, int step) {
  const int64_t count = transfers_of_step(kernel, step);
  MPI_Aint *displacements = allocate(count, sizeof *displacements);
  for (int64_t i = 0; i < count; ++i) {
    displacements[i] = (MPI_Aint)part->offsets[step * per_call(kernel) + i];
  }
  MPI_Datatype view = MPI_DATATYPE_NULL;
  CHECK(MPI_Type_create_hindexed_block((int)count, 1, displacements, kernel->transfer, &view), "view");
  CHECK(MPI_Type_commit(&view), "view");
  free(displacements);
  return view;
}

static struct steps make_steps(const struct interleave *kernel, const struct part *part, int count) {
  struct steps steps;
  steps_allocate(&steps, count);
  for (int i = 0; i < count; ++i) {
    struct step *step = &steps.step[i];
    step->etype = kernel->transfer;
    step->memory = kernel->transfer;
    step->count = (int)transfers_of_step(kernel, i);
    step->bytes = step->count * kernel->options.transfer_bytes;
    step->buffer_bytes = step->bytes;
    if (kernel->options.at) {
      step->names_offset = 1;
      step->displacement = (MPI_Offset)offset_of(kernel, part, i);
    } else if (part->offsets != NULL) {
      step->begins_view = 1;
      step->filetype = random_view(kernel, part, i);
    } else {
      step->begins_view = i == 0;
      step->displacement = (MPI_Offset)(part->rank * kernel->options.block_bytes);
      step->filetype = kernel->turn;
    }
  }
  return steps;
}

static void release_steps(const struct interleave *kernel, struct steps *steps) {
  for (int i = 0; i < steps->count && kernel->options.random && !kernel->options.at; ++i) {
    CHECK(MPI_Type_free(&steps->step[i].filetype), "view");
  }
  free(steps->step);
}

static void make_types(struct interleave *kernel) {
  const struct options *options = &kernel->options;
  MPI_Datatype block = MPI_DATATYPE_NULL;
  const int64_t per_block = options->block_bytes / options->transfer_bytes;
  if (per_block > INT_MAX) {
    refuse("-b %lld -t %lld: at most %d transfers in a block were expected", (long long)options->block_bytes,
         (long long)options->transfer_bytes, INT_MAX);
  }
  CHECK(MPI_Type_contiguous((int)options->transfer_bytes, MPI_BYTE, &kernel->transfer), "transfer type");
  CHECK(MPI_Type_commit(&kernel->transfer), "transfer type");
  CHECK(MPI_Type_contiguous((int)per_block, kernel->transfer, &block), "block type");
  CHECK(MPI_Type_create_resized(block, 0, (MPI_Aint)(options->block_bytes * all_ranks), &kernel->turn), "view type");
  CHECK(MPI_Type_commit(&kernel->turn), "view type");
  CHECK(MPI_Type_free(&block), "block type");
}

static void facts(const struct kernel *passes) {
  const struct interleave *kernel = passes->context;
  const struct options *options = &kernel->options;
  printf(", \"block_bytes\": %lld, \"transfer_bytes\": %lld, \"segments\": %lld, \"per_call\": %lld, \"random\": %s",
         (long long)options->block_bytes, (long long)options->transfer_bytes, (long long)options->segments,
         (long long)per_call(kernel), options->random ? "true" : "false");
}

int main(int argc, char **argv) {
  start_mpi(&argc, &argv, "interleave");
  struct interleave kernel = {.options = parse(argc, argv)};
  const struct options *options = &kernel.options;
  const int64_t rank_bytes = multiply(options->block_bytes, options->segments, "-b and -s");
  kernel.transfers = rank_bytes / options->transfer_bytes;
  const int64_t steps = (kernel.transfers + per_call(&kernel) - 1) / per_call(&kernel);
  if (per_call(&kernel) > INT_MAX || steps > INT_MAX) {
    refuse("%lld transfers of a rank in %lld calls are more than an int counts; use --per-call", (long long)kernel.transfers,
         (long long)steps);
  }
  struct kernel passes = {.name = "interleave", .context = &kernel, .runs = runs, .facts = facts};
  passes.file_bytes = multiply(rank_bytes, all_ranks, "the file's size");
  make_types(&kernel);
  for (int neighbour = 0; neighbour < 2; ++neighbour) {
    struct part *part = &kernel.part[neighbour];
    part->rank = (this_rank + neighbour) % all_ranks;
    if (options->random) {
      draw_offsets(&kernel, part, (int)steps);
    }
    *(neighbour ? &passes.neighbour : &passes.own) = make_steps(&kernel, part, (int)steps);
  }
  kernel_of_runs(&passes);
  const int code = kernel_run(&passes, &options->pass);
  release_steps(&kernel, &passes.own);
  release_steps(&kernel, &passes.neighbour);
  for (int neighbour = 0; neighbour < 2; ++neighbour) {
    free(kernel.part[neighbour].offsets);
  }
  CHECK(MPI_Type_free(&kernel.turn), "view type");
  CHECK(MPI_Type_free(&kernel.transfer), "transfer type");
  pass_options_release(&kernel.options.pass);
  end_mpi();
  return code;
}
