/* Writes and reads checkpoints of the combustion code S3D: mass of 11 species, velocity, pressure and temperature on a box of points.
 * A plain MPI program: it knows nothing of what carries its MPI-IO calls out.
 *
 * The ranks cut the box in blocks along x, y and z; species and velocity components are a fourth dimension that is not cut.  Arrays are
 * in Fortran's order, x fastest.  The file: checkpoints one after another, each the four arrays; an array is one call through a view of
 * its own. */
#include "common/passes.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AXES = 3, ARRAYS = 4, NUMBER_BYTES = 8 };

struct array {
  const char *name;
  int components;
  int dimensions;
};
static const struct array arrays[ARRAYS] = {{"mass", 11, 4}, {"velocity", 3, 4}, {"pressure", 1, 3}, {"temperature", 1, 3}};

struct options {
  int64_t points[AXES];
  int64_t blocks[AXES]; /* of ranks along each axis; 0 leaves it to MPI */
  int checkpoints;
  struct pass_options pass;
};

struct part {
  int64_t low[AXES];
  int64_t size[AXES];
  MPI_Datatype filetype[ARRAYS];
};

struct s3d {
  struct options options;
  int64_t array_bytes[ARRAYS];
  int64_t checkpoint_bytes;
  struct part part[2];
};

static const char usage[] =
    "usage: s3d --file PATH [--points X[,Y,Z]] [--blocks X,Y,Z] [--checkpoints N] [options]\n"
    "  --points X,Y,Z    of the whole box; one number for a cube (50; the paper's 800)\n"
    "  --blocks X,Y,Z    ranks along each axis (as even as the number of ranks allows, most along x)\n"
    "  --checkpoints N   written one after another (1)\n" PASS_USAGE;

/* Three numbers with commas between, or one for all three. */
static void three(const char *option, const char *text, int64_t *values) {
  char copy[128];
  if (strlen(text) >= sizeof copy) {
    refuse("--%s %s: three numbers with commas between were expected", option, text);
  }
  strcpy(copy, text);
  char *rest = copy;
  int count = 0;
  for (char *word = strsep(&rest, ","); word != NULL; word = strsep(&rest, ",")) {
    if (count == AXES) {
      refuse("--%s %s: three numbers with commas between were expected", option, text);
    }
    values[count++] = whole_number(option, word, 1, INT_MAX);
  }
  if (count == 1) {
    values[1] = values[2] = values[0];
  } else if (count != AXES) {
    refuse("--%s %s: three numbers with commas between, or one, were expected", option, text);
  }
}

static struct options parse(int argc, char **argv) {
  static const struct option known[] = {{"points", required_argument, NULL, 'n'},
                                        {"blocks", required_argument, NULL, 'b'},
                                        {"checkpoints", required_argument, NULL, 'c'},
                                        PASS_OPTIONS,
                                        {NULL, 0, NULL, 0}};
  struct options options = {.points = {50, 50, 50}, .checkpoints = 1, .pass = pass_options_default()};
  int good = 1;
  int option = 0;
  while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
    switch (option) {
      case 'n': three("points", optarg, options.points); break;
      case 'b': three("blocks", optarg, options.blocks); break;
      case 'c': options.checkpoints = (int)whole_number("checkpoints", optarg, 1, INT_MAX / ARRAYS); break;
      default: good &= pass_option_taken(&options.pass, option, optarg); break;
    }
  }
  if (!good || options.pass.file == NULL || optind != argc) {
    usage_error(usage);
  }
  return options;
}

static void place_blocks(struct options *options) {
  int even[AXES] = {0, 0, 0};
  if (options->blocks[0] == 0) {
    CHECK(MPI_Dims_create(all_ranks, AXES, even), "blocks");
    for (int axis = 0; axis < AXES; ++axis) {
      options->blocks[axis] = even[axis];
    }
  }
  const int64_t *blocks = options->blocks;
  if (blocks[0] > all_ranks || blocks[1] > all_ranks || blocks[0] * blocks[1] * blocks[2] != all_ranks) {
    refuse("--blocks %lld,%lld,%lld: a product of %d, the number of ranks, was expected", (long long)blocks[0], (long long)blocks[1],
         (long long)blocks[2], all_ranks);
  }
  for (int axis = 0; axis < AXES; ++axis) {
    if (options->points[axis] < blocks[axis]) {
      refuse("%lld points along axis %d: at least one for each of %lld blocks was expected", (long long)options->points[axis], axis,
           (long long)blocks[axis]);
    }
  }
}

static void make_part(const struct s3d *kernel, int rank, struct part *part) {
  const struct options *options = &kernel->options;
  int64_t index = rank;
  for (int axis = 0; axis < AXES; ++axis) {
    const int64_t blocks = options->blocks[axis];
    const int64_t place = index % blocks;
    const int64_t even = options->points[axis] / blocks;
    const int64_t rest = options->points[axis] % blocks;
    part->low[axis] = place * even + (place < rest ? place : rest);
    part->size[axis] = even + (place < rest);
    index /= blocks;
  }
  for (int i = 0; i < ARRAYS; ++i) {
    const int sizes[AXES + 1] = {(int)options->points[0], (int)options->points[1], (int)options->points[2], arrays[i].components};
    const int subsizes[AXES + 1] = {(int)part->size[0], (int)part->size[1], (int)part->size[2], arrays[i].components};
    const int starts[AXES + 1] = {(int)part->low[0], (int)part->low[1], (int)part->low[2], 0};
    CHECK(MPI_Type_create_subarray(arrays[i].dimensions, sizes, subsizes, starts, MPI_ORDER_FORTRAN, MPI_DOUBLE, &part->filetype[i]),
          arrays[i].name);
    CHECK(MPI_Type_commit(&part->filetype[i]), arrays[i].name);
  }
}

static int64_t array_offset(const struct s3d *kernel, int step) {
  int64_t offset = step / ARRAYS * kernel->checkpoint_bytes;
  for (int i = 0; i < step % ARRAYS; ++i) {
    offset += kernel->array_bytes[i];
  }
  return offset;
}

static void runs(const struct kernel *passes, int neighbour, int step, run_visitor *visit, void *user) {
  const struct s3d *kernel = passes->context;
  const struct part *part = &kernel->part[neighbour];
  const int64_t *points = kernel->options.points;
  const int64_t begin = array_offset(kernel, step);
  const int64_t line_bytes = part->size[0] * NUMBER_BYTES;
  int64_t memory = 0;
  for (int64_t component = 0; component < arrays[step % ARRAYS].components; ++component) {
    for (int64_t z = part->low[2]; z < part->low[2] + part->size[2]; ++z) {
      for (int64_t y = part->low[1]; y < part->low[1] + part->size[1]; ++y) {
        const int64_t number = ((component * points[2] + z) * points[1] + y) * points[0] + part->low[0];
        visit(user, begin + number * NUMBER_BYTES, line_bytes, memory);
        memory += line_bytes;
      }
    }
  }
}

static struct steps make_steps(const struct s3d *kernel, const struct part *part) {
  struct steps steps;
  steps_allocate(&steps, kernel->options.checkpoints * ARRAYS);
  const int64_t points = multiply(part->size[0] * part->size[1], part->size[2], "a block");
  for (int i = 0; i < steps.count; ++i) {
    const int64_t numbers = multiply(points, arrays[i % ARRAYS].components, "a block");
    if (numbers > INT_MAX) {
      fail("a block of %lld numbers is more than an int counts; use more ranks", (long long)numbers);
    }
    steps.step[i] = (struct step){.begins_view = 1,
                                  .displacement = (MPI_Offset)array_offset(kernel, i),
                                  .etype = MPI_DOUBLE,
                                  .filetype = part->filetype[i % ARRAYS],
                                  .memory = MPI_DOUBLE,
                                  .count = (int)numbers,
                                  .bytes = numbers * NUMBER_BYTES,
                                  .buffer_bytes = numbers * NUMBER_BYTES};
  }
  return steps;
}

static void facts(const struct kernel *passes) {
  const struct s3d *kernel = passes->context;
  const struct options *options = &kernel->options;
  printf(", \"points\": [%lld, %lld, %lld], \"blocks\": [%lld, %lld, %lld], \"checkpoints\": %d", (long long)options->points[0],
         (long long)options->points[1], (long long)options->points[2], (long long)options->blocks[0], (long long)options->blocks[1],
         (long long)options->blocks[2], options->checkpoints);
}

int main(int argc, char **argv) {
  start_mpi(&argc, &argv, "s3d");
  struct s3d kernel = {.options = parse(argc, argv)};
  place_blocks(&kernel.options);
  const int64_t *points = kernel.options.points;
  const int64_t whole = multiply(multiply(points[0] * points[1], points[2], "the box"), NUMBER_BYTES, "the box");
  for (int i = 0; i < ARRAYS; ++i) {
    kernel.array_bytes[i] = multiply(whole, arrays[i].components, arrays[i].name);
    kernel.checkpoint_bytes += kernel.array_bytes[i];
  }
  struct kernel passes = {.name = "s3d", .context = &kernel, .runs = runs, .facts = facts};
  passes.file_bytes = multiply(kernel.checkpoint_bytes, kernel.options.checkpoints, "the file's size");
  for (int neighbour = 0; neighbour < 2; ++neighbour) {
    make_part(&kernel, (this_rank + neighbour) % all_ranks, &kernel.part[neighbour]);
    *(neighbour ? &passes.neighbour : &passes.own) = make_steps(&kernel, &kernel.part[neighbour]);
  }
  kernel_of_runs(&passes);
  const int code = kernel_run(&passes, &kernel.options.pass);
  for (int neighbour = 0; neighbour < 2; ++neighbour) {
    for (int i = 0; i < ARRAYS; ++i) {
      CHECK(MPI_Type_free(&kernel.part[neighbour].filetype[i]), arrays[i].name);
    }
    free((neighbour ? &passes.neighbour : &passes.own)->step);
  }
  pass_options_release(&kernel.options.pass);
  end_mpi();
  return code;
}
