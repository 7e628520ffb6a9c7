/* Writes and reads the solution of the NAS block-tridiagonal benchmark: five numbers for each point of a cube, once for each of many time
 * steps.  A plain MPI program: it knows nothing of what carries its MPI-IO calls out.
 *
 * The cube is cut into q x q x q cells for q * q ranks; a rank has q of them, one in every slab of the slowest dimension, on a diagonal, so
 * that sweeps in all three directions keep all ranks busy.  The file: the time steps one after another, each the whole cube, x fastest,
 * the five numbers of a point together.  A time step is one call; with --ghost, memory has that many points of border round each cell. */
#include "common/passes.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBERS = 5, POINT_BYTES = NUMBERS * 8, AXES = 3 };

struct options {
  int64_t points; /* along an edge of the cube */
  int variables;
  int ghost;
  int view_each; /* a view for each time step, not one for all */
  struct pass_options pass;
};

/* A box of points; x, y, z. */
struct cell {
  int64_t low[AXES];
  int64_t size[AXES];
  int64_t buffer_offset; /* of its memory, border included */
};

struct part {
  struct cell *cells;
  MPI_Datatype filetype;
  MPI_Datatype memory;
  int64_t points;
  int64_t buffer_bytes;
};

struct btio {
  struct options options;
  int edge_cells; /* q */
  int64_t variable_bytes;
  struct part part[2];
};

static const char usage[] =
    "usage: btio --file PATH [--points N] [--variables N] [--ghost N] [--view-each] [options]\n"
    "  a square number of ranks\n"
    "  --points N        along an edge of the cube (24; NAS classes S 12, W 24, A 64, B 102, C 162, D 408)\n"
    "  --variables N     time steps written, each by one call (40)\n"
    "  --ghost N         points of border round each cell in memory (0)\n"
    "  --view-each       set a view for each time step, as libraries do, not one for all of them\n" PASS_USAGE;

static struct options parse(int argc, char **argv) {
  static const struct option known[] = {{"points", required_argument, NULL, 'n'},
                                        {"variables", required_argument, NULL, 'v'},
                                        {"ghost", required_argument, NULL, 'g'},
                                        {"view-each", no_argument, NULL, 'e'},
                                        PASS_OPTIONS,
                                        {NULL, 0, NULL, 0}};
  struct options options = {.points = 24, .variables = 40, .pass = pass_options_default()};
  int good = 1;
  int option = 0;
  while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
    switch (option) {
      case 'n': options.points = whole_number("points", optarg, 1, 1 << 20); break;
      case 'v': options.variables = (int)whole_number("variables", optarg, 1, INT_MAX); break;
      case 'g': options.ghost = (int)whole_number("ghost", optarg, 0, 1 << 10); break;
      case 'e': options.view_each = 1; break;
      default: good &= pass_option_taken(&options.pass, option, optarg); break;
    }
  }
  if (!good || options.pass.file == NULL || optind != argc) {
    usage_error(usage);
  }
  return options;
}

static int square_root(int ranks, int64_t points) {
  int root = 1;
  while ((root + 1) * (root + 1) <= ranks) {
    ++root;
  }
  if (root * root != ranks) {
    refuse("%d ranks: a square number was expected, such as %d or %d", ranks, root * root, (root + 1) * (root + 1));
  }
  if (points < root) {
    refuse("--points %lld: at least one for each of the %d cells along an edge was expected", (long long)points, root);
  }
  return root;
}

/* The first cells are one point larger where the points do not divide evenly. */
static void cut(int64_t points, int cells, int index, int64_t *low, int64_t *size) {
  const int64_t even = points / cells;
  const int64_t rest = points % cells;
  *low = index * even + (index < rest ? index : rest);
  *size = even + (index < rest);
}

/* In slab c a rank's cell moves one to the right in x and one down in y, round the edges: in each slab every rank has another cell. */
static struct cell *make_cells(const struct btio *kernel, int rank) {
  const int q = kernel->edge_cells;
  const int border = 2 * kernel->options.ghost;
  struct cell *cells = allocate(q, sizeof *cells);
  int64_t used = 0;
  for (int slab = 0; slab < q; ++slab) {
    const int place[AXES] = {(rank % q + slab) % q, (rank / q - slab + q) % q, slab};
    struct cell *cell = &cells[slab];
    int64_t bytes = POINT_BYTES;
    for (int axis = 0; axis < AXES; ++axis) {
      cut(kernel->options.points, q, place[axis], &cell->low[axis], &cell->size[axis]);
      bytes = multiply(bytes, cell->size[axis] + border, "a cell in memory");
    }
    cell->buffer_offset = used;
    used += bytes;
  }
  return cells;
}

/* One box of points out of a larger one, the numbers of a point together. */
static MPI_Datatype box(const int64_t *whole, const int64_t *size, const int64_t *low) {
  int sizes[AXES + 1];
  int subsizes[AXES + 1];
  int starts[AXES + 1];
  for (int axis = 0; axis < AXES; ++axis) {
    sizes[AXES - 1 - axis] = (int)whole[axis];
    subsizes[AXES - 1 - axis] = (int)size[axis];
    starts[AXES - 1 - axis] = (int)low[axis];
  }
  sizes[AXES] = subsizes[AXES] = NUMBERS;
  starts[AXES] = 0;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  CHECK(MPI_Type_create_subarray(AXES + 1, sizes, subsizes, starts, MPI_ORDER_C, MPI_DOUBLE, &type), "cell type");
  return type;
}

/* All cells of a rank in one type; `places` says where each one's box begins. */
static MPI_Datatype joined(const struct btio *kernel, MPI_Datatype *boxes, const MPI_Aint *places) {
  const int q = kernel->edge_cells;
  int *ones = allocate(q, sizeof *ones);
  for (int i = 0; i < q; ++i) {
    ones[i] = 1;
  }
  MPI_Datatype type = MPI_DATATYPE_NULL;
  CHECK(MPI_Type_create_struct(q, ones, places, boxes, &type), "type of all cells");
  CHECK(MPI_Type_commit(&type), "type of all cells");
  for (int i = 0; i < q; ++i) {
    CHECK(MPI_Type_free(&boxes[i]), "cell type");
  }
  free(ones);
  return type;
}

static void make_part(const struct btio *kernel, int rank, struct part *part) {
  const int q = kernel->edge_cells;
  const int64_t n = kernel->options.points;
  const int64_t border = kernel->options.ghost;
  const int64_t whole[AXES] = {n, n, n};
  const int64_t inside[AXES] = {border, border, border};
  MPI_Datatype *boxes = allocate(q, sizeof *boxes);
  MPI_Datatype *memories = allocate(q, sizeof *memories);
  MPI_Aint *nowhere = allocate(q, sizeof *nowhere);
  MPI_Aint *places = allocate(q, sizeof *places);
  *part = (struct part){.cells = make_cells(kernel, rank)};
  for (int i = 0; i < q; ++i) {
    const struct cell *cell = &part->cells[i];
    const int64_t padded[AXES] = {cell->size[0] + 2 * border, cell->size[1] + 2 * border, cell->size[2] + 2 * border};
    boxes[i] = box(whole, cell->size, cell->low);
    nowhere[i] = 0;
    memories[i] = box(padded, cell->size, inside);
    places[i] = (MPI_Aint)cell->buffer_offset;
    part->points += cell->size[0] * cell->size[1] * cell->size[2];
    part->buffer_bytes = cell->buffer_offset + padded[0] * padded[1] * padded[2] * POINT_BYTES;
  }
  part->filetype = joined(kernel, boxes, nowhere);
  part->memory = joined(kernel, memories, places);
  free(boxes);
  free(memories);
  free(nowhere);
  free(places);
}

static void release_part(struct part *part) {
  CHECK(MPI_Type_free(&part->filetype), "type of all cells");
  CHECK(MPI_Type_free(&part->memory), "type of all cells");
  free(part->cells);
}

static void runs(const struct kernel *passes, int neighbour, int step, run_visitor *visit, void *user) {
  const struct btio *kernel = passes->context;
  const struct part *part = &kernel->part[neighbour];
  const int64_t n = kernel->options.points;
  const int64_t border = kernel->options.ghost;
  for (int i = 0; i < kernel->edge_cells; ++i) {
    const struct cell *cell = &part->cells[i];
    const int64_t line = cell->size[0] + 2 * border;
    const int64_t plane = line * (cell->size[1] + 2 * border);
    for (int64_t z = 0; z < cell->size[2]; ++z) {
      for (int64_t y = 0; y < cell->size[1]; ++y) {
        const int64_t point = ((cell->low[2] + z) * n + cell->low[1] + y) * n + cell->low[0];
        const int64_t memory = (z + border) * plane + (y + border) * line + border;
        visit(user, step * kernel->variable_bytes + point * POINT_BYTES, cell->size[0] * POINT_BYTES,
              cell->buffer_offset + memory * POINT_BYTES);
      }
    }
  }
}

static struct steps make_steps(const struct btio *kernel, const struct part *part) {
  struct steps steps;
  steps_allocate(&steps, kernel->options.variables);
  for (int i = 0; i < steps.count; ++i) {
    const int each = kernel->options.view_each;
    /* The view repeats the whole cube: without a view of its own, a time step goes on where the last one ended. */
    steps.step[i] = (struct step){.begins_view = each || i == 0,
                                  .displacement = each ? (MPI_Offset)(i * kernel->variable_bytes) : 0,
                                  .etype = MPI_DOUBLE,
                                  .filetype = part->filetype,
                                  .memory = part->memory,
                                  .count = 1,
                                  .bytes = part->points * POINT_BYTES,
                                  .buffer_bytes = part->buffer_bytes};
  }
  return steps;
}

static void facts(const struct kernel *passes) {
  const struct btio *kernel = passes->context;
  printf(", \"points\": %lld, \"variables\": %d, \"ghost\": %d, \"view_each\": %s", (long long)kernel->options.points,
         kernel->options.variables, kernel->options.ghost, kernel->options.view_each ? "true" : "false");
}

int main(int argc, char **argv) {
  start_mpi(&argc, &argv, "btio");
  struct btio kernel = {.options = parse(argc, argv)};
  const int64_t n = kernel.options.points;
  kernel.edge_cells = square_root(all_ranks, n);
  kernel.variable_bytes = multiply(n * n, n * POINT_BYTES, "a time step");
  struct kernel passes = {.name = "btio", .context = &kernel, .runs = runs, .facts = facts};
  passes.file_bytes = multiply(kernel.variable_bytes, kernel.options.variables, "the file's size");
  for (int neighbour = 0; neighbour < 2; ++neighbour) {
    make_part(&kernel, (this_rank + neighbour) % all_ranks, &kernel.part[neighbour]);
    *(neighbour ? &passes.neighbour : &passes.own) = make_steps(&kernel, &kernel.part[neighbour]);
  }
  kernel_of_runs(&passes);
  const int code = kernel_run(&passes, &kernel.options.pass);
  for (int neighbour = 0; neighbour < 2; ++neighbour) {
    release_part(&kernel.part[neighbour]);
    free((neighbour ? &passes.neighbour : &passes.own)->step);
  }
  pass_options_release(&kernel.options.pass);
  end_mpi();
  return code;
}
