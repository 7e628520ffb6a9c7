/* Writes and reads checkpoints of the cosmology code HACC as its I/O benchmark lays them out: nine variables, 38 bytes a particle.
 * A plain MPI program: it knows nothing of what carries its MPI-IO calls out.
 *
 * Every rank has the same number of particles; a variable of a rank is one call at an offset that the rank works out, without views.
 * Three layouts: variables one after another, each of all ranks; ranks one after another, each with all its variables; a file for each rank. */
#include "common/passes.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VARIABLES = 9, PARTICLE_BYTES = 38 };

struct variable {
  const char *name;
  int bytes;
};
/* Place, velocity, potential, number, mask. */
static const struct variable variables[VARIABLES] = {{"xx", 4}, {"yy", 4},  {"zz", 4},  {"vx", 4},  {"vy", 4},
                                                     {"vz", 4}, {"phi", 4}, {"pid", 8}, {"mask", 2}};

enum layout { BY_VARIABLE, BY_RANK, OWN_FILES, LAYOUTS };
static const char *const layout_names[LAYOUTS] = {"variables", "ranks", "files"};

struct options {
  int64_t particles;
  enum layout layout;
  struct pass_options pass;
};

static const char usage[] =
    "usage: hacc --file PATH [--particles N] [--layout NAME] [options]\n"
    "  --particles N     of each rank, 38 bytes each (100000; the cache study's 13107200)\n"
    "  --layout NAME     variables: one file, each variable of all ranks together (the default)\n"
    "                    ranks: one file, all variables of a rank together\n"
    "                    files: a file for each rank, PATH.00000 and so on\n" PASS_USAGE;

static enum layout layout_of(const char *text) {
  for (int layout = 0; layout < LAYOUTS; ++layout) {
    if (strcmp(text, layout_names[layout]) == 0) {
      return (enum layout)layout;
    }
  }
  refuse("--layout %s: variables, ranks or files was expected", text);
}

static struct options parse(int argc, char **argv) {
  static const struct option known[] = {{"particles", required_argument, NULL, 'p'},
                                        {"layout", required_argument, NULL, 'l'},
                                        PASS_OPTIONS,
                                        {NULL, 0, NULL, 0}};
  struct options options = {.particles = 100000, .layout = BY_VARIABLE, .pass = pass_options_default()};
  int good = 1;
  int option = 0;
  while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
    switch (option) {
      case 'p': options.particles = whole_number("particles", optarg, 1, INT_MAX); break;
      case 'l': options.layout = layout_of(optarg); break;
      default: good &= pass_option_taken(&options.pass, option, optarg); break;
    }
  }
  if (!good || options.pass.file == NULL || optind != argc) {
    usage_error(usage);
  }
  return options;
}

static int64_t bytes_before(int variable) {
  int64_t bytes = 0;
  for (int i = 0; i < variable; ++i) {
    bytes += variables[i].bytes;
  }
  return bytes;
}

/* Of the file in which those of all ranks lie one after another, where each has its own. */
static int64_t offset_of(const struct options *options, int rank, int variable) {
  if (options->layout == BY_VARIABLE) {
    return options->particles * (bytes_before(variable) * all_ranks + (int64_t)variables[variable].bytes * rank);
  }
  return options->particles * ((int64_t)PARTICLE_BYTES * rank + bytes_before(variable));
}

static void runs(const struct kernel *passes, int neighbour, int step, run_visitor *visit, void *user) {
  const struct options *options = passes->context;
  visit(user, offset_of(options, (this_rank + neighbour) % all_ranks, step), options->particles * variables[step].bytes, 0);
}

static MPI_Datatype type_of(int bytes) { return bytes == 8 ? MPI_INT64_T : bytes == 4 ? MPI_FLOAT : MPI_UINT16_T; }

static struct steps make_steps(const struct options *options, int rank) {
  struct steps steps;
  steps_allocate(&steps, VARIABLES);
  for (int i = 0; i < VARIABLES; ++i) {
    const int64_t before = options->layout == OWN_FILES ? options->particles * PARTICLE_BYTES * rank : 0;
    steps.step[i] = (struct step){.names_offset = 1,
                                  .displacement = (MPI_Offset)(offset_of(options, rank, i) - before),
                                  .memory = type_of(variables[i].bytes),
                                  .count = (int)options->particles,
                                  .bytes = options->particles * variables[i].bytes,
                                  .buffer_bytes = options->particles * variables[i].bytes};
  }
  return steps;
}

static void facts(const struct kernel *passes) {
  const struct options *options = passes->context;
  printf(", \"particles\": %lld, \"layout\": \"%s\"", (long long)options->particles, layout_names[options->layout]);
}

int main(int argc, char **argv) {
  start_mpi(&argc, &argv, "hacc");
  struct options options = parse(argc, argv);
  const int64_t rank_bytes = options.particles * PARTICLE_BYTES;
  struct kernel passes = {.name = "hacc",
                          .file_bytes = multiply(rank_bytes, all_ranks, "the file's size"),
                          .own_file_bytes = options.layout == OWN_FILES ? rank_bytes : 0,
                          .context = &options,
                          .runs = runs,
                          .facts = facts};
  passes.own = make_steps(&options, this_rank);
  passes.neighbour = make_steps(&options, (this_rank + 1) % all_ranks);
  kernel_of_runs(&passes);
  const int code = kernel_run(&passes, &options.pass);
  free(passes.own.step);
  free(passes.neighbour.step);
  pass_options_release(&options.pass);
  end_mpi();
  return code;
}
