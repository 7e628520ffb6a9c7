/* Writes climate variables to one file the way the E3SM model does and reads them back, checking every byte.
 * A plain MPI program: it knows nothing of what carries its MPI-IO calls out.
 *
 * The file: a header (one line of JSON that tells each variable's place, padded with spaces to a multiple of 4096 bytes),
 * then the records one after another, each holding all variables in order.  Numbers in the machine's own byte order. */
#include "common/passes.h"
#include "e3sm.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER_UNIT_BYTES = 4096 };

struct options {
  const char *map;
  int elements_per_edge;
  int levels;
  int variables;
  int records;
  int group;
  struct pass_options pass;
};

/* The variables [first, after) of one call, with the requests of one rank. */
struct group {
  int first;
  int after;
  int64_t bytes;
  int64_t requests;
  MPI_Datatype filetype;
};

/* What this rank moves, or what the next one wrote. */
struct part {
  struct requests *requests; /* of each decomposition */
  struct group *groups;
};

struct job {
  struct options options;
  struct world world;
  int variables;
  struct variable *variable;
  char *header;
  int64_t header_bytes;
  int64_t record_bytes;
  int groups;
  struct part part[2];
};

static const char usage[] =
    "usage: e3sm [--map FILE | --ne N] [--variables N] [--levels L] [--records N] [--group N] --file PATH [options]\n"
    "  --map FILE        a NetCDF decomposition map; without it a cubed-sphere mesh is made\n"
    "  --ne N            elements along an edge of the cube (8)\n"
    "  --levels L        vertical levels of 3-D variables on the mesh (32)\n"
    "  --variables N     field variables in a record (12)\n"
    "  --records N       records appended to the file (2)\n"
    "  --group N         variables written by one call; 0 = all of a record (1)\n" PASS_USAGE;

static struct options parse(int argc, char **argv) {
  static const struct option known[] = {{"map", required_argument, NULL, 'm'},
                                        {"ne", required_argument, NULL, 'n'},
                                        {"levels", required_argument, NULL, 'l'},
                                        {"variables", required_argument, NULL, 'v'},
                                        {"records", required_argument, NULL, 'r'},
                                        {"group", required_argument, NULL, 'g'},
                                        PASS_OPTIONS,
                                        {NULL, 0, NULL, 0}};
  struct options options = {
      .elements_per_edge = 8, .levels = 32, .variables = 12, .records = 2, .group = 1, .pass = pass_options_default()};
  options.pass.sync = 1;
  int good = 1;
  int option = 0;
  while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
    switch (option) {
      case 'm': options.map = optarg; break;
      case 'n': options.elements_per_edge = (int)whole_number("ne", optarg, 1, INT_MAX); break;
      case 'l': options.levels = (int)whole_number("levels", optarg, 1, INT_MAX); break;
      case 'v': options.variables = (int)whole_number("variables", optarg, 1, INT_MAX / 2); break;
      case 'r': options.records = (int)whole_number("records", optarg, 1, INT_MAX); break;
      case 'g': options.group = (int)whole_number("group", optarg, 0, INT_MAX / 2); break;
      default: good &= pass_option_taken(&options.pass, option, optarg); break;
    }
  }
  if (!good || options.pass.file == NULL || optind != argc) {
    usage_error(usage);
  }
  return options;
}

static void add_variable(struct job *job, const char *name, enum content content, int number, int decomposition,
                         int element_bytes) {
  struct variable *variable = &job->variable[job->variables++];
  snprintf(variable->name, sizeof variable->name, "%s", name);
  variable->content = content;
  variable->number = number;
  variable->decomposition = decomposition;
  variable->element_bytes = element_bytes;
  variable->offset_in_record = job->record_bytes;
  const int64_t elements = job->world.decompositions->list[decomposition].elements;
  if (elements > (INT64_MAX - job->record_bytes) / element_bytes) {
    refuse("a record of these variables does not fit in 64 bits; use fewer variables or levels");
  }
  job->record_bytes += elements * element_bytes;
}

/* On the mesh: coordinates and domains first, then fields on the four decompositions in turn.  With a map: fields on its
 * decompositions in turn; those of the first are double precision, as coordinates are, the others single. */
static void make_variables(struct job *job) {
  enum { COORDINATES = 3, DYNAMICS_2D = 2 };
  job->variable = allocate(job->options.variables + COORDINATES, sizeof *job->variable);
  if (job->world.mesh != NULL) {
    add_variable(job, "lat", LATITUDE, 0, DYNAMICS_2D, 8);
    add_variable(job, "lon", LONGITUDE, 0, DYNAMICS_2D, 8);
    add_variable(job, "domain", DOMAIN, 0, DYNAMICS_2D, 4);
  }
  for (int i = 0; i < job->options.variables; ++i) {
    char name[NAME_MAX_BYTES];
    const int decomposition = i % job->world.decompositions->count;
    snprintf(name, sizeof name, "field_%d", i);
    add_variable(job, name, FIELD, i, decomposition, job->world.mesh == NULL && decomposition == 0 ? 8 : 4);
  }
}

static const char *type_name(const struct variable *variable) {
  return variable->content == DOMAIN ? "int32" : variable->element_bytes == 8 ? "float64" : "float32";
}

static void make_header(struct job *job) {
  const int64_t room = 512 + (int64_t)job->variables * (128 + 24 * DIMENSIONS_MAX);
  const int64_t padded = (room + HEADER_UNIT_BYTES - 1) / HEADER_UNIT_BYTES * HEADER_UNIT_BYTES;
  job->header = allocate(padded + 1, 1);
  job->header_bytes = padded;
  int64_t used = snprintf(job->header, (size_t)padded,
                          "{\"format\": \"e3sm-kernel-1\", \"header_bytes\": %lld, \"record_bytes\": %lld, \"records\": %d, "
                          "\"variables\": [",
                          (long long)padded, (long long)job->record_bytes, job->options.records);
  for (int i = 0; i < job->variables; ++i) {
    const struct variable *variable = &job->variable[i];
    const struct decomposition *decomposition = &job->world.decompositions->list[variable->decomposition];
    used += snprintf(job->header + used, (size_t)(padded - used),
                     "%s{\"name\": \"%s\", \"type\": \"%s\", \"decomposition\": \"%s\", \"offset\": %lld, \"shape\": [",
                     i == 0 ? "" : ", ", variable->name, type_name(variable), decomposition->name,
                     (long long)variable->offset_in_record);
    for (int k = 0; k < decomposition->dimensions; ++k) {
      used += snprintf(job->header + used, (size_t)(padded - used), "%s%lld", k == 0 ? "" : ", ",
                       (long long)decomposition->sizes[k]);
    }
    used += snprintf(job->header + used, (size_t)(padded - used), "]}");
  }
  used += snprintf(job->header + used, (size_t)(padded - used), "]}\n");
  memset(job->header + used, ' ', (size_t)(padded - used));
}

static const struct requests *requests_of(const struct job *job, const struct part *part, int variable) {
  return &part->requests[job->variable[variable].decomposition];
}

/* Requests as bytes from the record's beginning, in the order of the file. */
static struct group make_group(const struct job *job, const struct part *part, int first, int after) {
  struct group group = {first, after, 0, 0, MPI_DATATYPE_NULL};
  for (int v = first; v < after; ++v) {
    const struct requests *requests = requests_of(job, part, v);
    group.requests += requests->count;
    group.bytes += requests_elements(requests) * job->variable[v].element_bytes;
  }
  if (group.requests > INT_MAX || group.bytes / 4 > INT_MAX) {
    fail("one call of %lld requests and %lld bytes is more than an int counts; use --group with a smaller number",
         (long long)group.requests, (long long)group.bytes);
  }
  int *lengths = allocate(group.requests, sizeof *lengths);
  MPI_Aint *displacements = allocate(group.requests, sizeof *displacements);
  int64_t next = 0;
  for (int v = first; v < after; ++v) {
    const struct variable *variable = &job->variable[v];
    const struct requests *requests = requests_of(job, part, v);
    for (int64_t i = 0; i < requests->count; ++i, ++next) {
      if (requests->lengths[i] > INT_MAX / variable->element_bytes) {
        fail("one request of %lld elements is more bytes than an int counts; use more ranks", (long long)requests->lengths[i]);
      }
      lengths[next] = (int)requests->lengths[i] * variable->element_bytes;
      displacements[next] = (MPI_Aint)(variable->offset_in_record + requests->offsets[i] * variable->element_bytes);
    }
  }
  CHECK(MPI_Type_create_hindexed((int)group.requests, lengths, displacements, MPI_BYTE, &group.filetype), "file type");
  CHECK(MPI_Type_commit(&group.filetype), "file type");
  free(lengths);
  free(displacements);
  return group;
}

/* A step is a group of variables of one record. */
static const struct group *group_of(const struct job *job, int neighbour, int step) {
  return &job->part[neighbour].groups[step % job->groups];
}

/* A file that is written again has other records than the one before it. */
static int record_of(const struct job *job, int step, uint64_t seed) {
  return step / job->groups + (int)(seed % 1000) * job->options.records;
}

/* What the group's part of the record must be, packed in the order of the view. */
static void fill(const struct kernel *kernel, int neighbour, int step, uint64_t seed, unsigned char *buffer) {
  const struct job *job = kernel->context;
  const struct group *group = group_of(job, neighbour, step);
  int64_t used = 0;
  for (int v = group->first; v < group->after; ++v) {
    used += content_fill(&job->world, &job->variable[v], record_of(job, step, seed), requests_of(job, &job->part[neighbour], v),
                         buffer + used);
  }
}

static int64_t wrong(const struct kernel *kernel, int neighbour, int step, uint64_t seed, const unsigned char *read, uint64_t *hash) {
  const struct job *job = kernel->context;
  const struct group *group = group_of(job, neighbour, step);
  unsigned char *expected = allocate(group->bytes, 1);
  int64_t different = 0;
  int64_t used = 0;
  fill(kernel, neighbour, step, seed, expected);
  for (int v = group->first; v < group->after; ++v) {
    const struct variable *variable = &job->variable[v];
    const struct requests *requests = requests_of(job, &job->part[neighbour], v);
    const int64_t bytes = requests_elements(requests) * variable->element_bytes;
    if (memcmp(read + used, expected + used, (size_t)bytes) != 0) {
      const int64_t before = different;
      for (int64_t i = used; i < used + bytes; ++i) {
        different += read[i] != expected[i];
      }
      fprintf(stderr, "e3sm: rank %d: %s: %lld wrong bytes in variable %s of record %d\n", this_rank, job->options.pass.file,
              (long long)(different - before), variable->name, step / job->groups);
    }
    *hash += content_hash(variable, record_of(job, step, seed), requests, read + used);
    used += bytes;
  }
  free(expected);
  return different;
}

static void make_part(struct job *job, int neighbour) {
  const struct decompositions *decompositions = job->world.decompositions;
  struct part *part = &job->part[neighbour];
  part->requests = allocate(decompositions->count, sizeof *part->requests);
  for (int i = 0; i < decompositions->count; ++i) {
    const struct requests *own = &decompositions->list[i].own;
    part->requests[i] = neighbour ? requests_of_next_rank(own, MPI_COMM_WORLD) : *own;
  }
  const int size = job->options.group == 0 ? job->variables : job->options.group;
  job->groups = (job->variables + size - 1) / size;
  part->groups = allocate(job->groups, sizeof *part->groups);
  for (int i = 0; i < job->groups; ++i) {
    const int after = (i + 1) * (int64_t)size < job->variables ? (i + 1) * size : job->variables;
    part->groups[i] = make_group(job, part, i * size, after);
  }
}

static void release_part(struct job *job, int neighbour) {
  struct part *part = &job->part[neighbour];
  for (int i = 0; i < job->groups; ++i) {
    CHECK(MPI_Type_free(&part->groups[i].filetype), "file type");
  }
  for (int i = 0; neighbour && i < job->world.decompositions->count; ++i) {
    requests_release(&part->requests[i]);
  }
  free(part->requests);
  free(part->groups);
}

static struct steps make_steps(const struct job *job, int neighbour) {
  struct steps steps;
  if (job->groups > INT_MAX / job->options.records) {
    refuse("--records %d: fewer were expected, an int counts the calls of a pass", job->options.records);
  }
  steps_allocate(&steps, job->groups * job->options.records);
  for (int i = 0; i < steps.count; ++i) {
    const struct group *group = group_of(job, neighbour, i);
    /* Words of 4 bytes reach beyond 2 GiB with an int count; every variable is a whole number of them. */
    steps.step[i] = (struct step){.begins_view = 1,
                                  .displacement = (MPI_Offset)(job->header_bytes + i / job->groups * job->record_bytes),
                                  .etype = MPI_BYTE,
                                  .filetype = group->filetype,
                                  .memory = MPI_INT32_T,
                                  .count = (int)(group->bytes / 4),
                                  .bytes = group->bytes,
                                  .buffer_bytes = group->bytes,
                                  .pieces = group->requests};
  }
  return steps;
}

static void facts(const struct kernel *kernel) {
  const struct job *job = kernel->context;
  const struct options *options = &job->options;
  printf(", \"map\": ");
  if (options->map != NULL) {
    print_string(options->map);
    printf(", \"ne\": null, \"levels\": null");
  } else {
    printf("null, \"ne\": %d, \"levels\": %d", options->elements_per_edge, options->levels);
  }
  printf(", \"variables\": %d, \"records\": %d, \"variables_per_call\": %d", job->variables, options->records,
         options->group == 0 ? job->variables : options->group);
}

static int run(struct job *job) {
  struct kernel kernel = {.name = "e3sm",
                          .file_bytes = job->header_bytes + job->options.records * job->record_bytes,
                          .context = job,
                          .fill = fill,
                          .wrong = wrong,
                          .header = job->header,
                          .header_bytes = job->header_bytes,
                          .facts = facts};
  for (int neighbour = 0; neighbour < 2; ++neighbour) {
    make_part(job, neighbour);
    *(neighbour ? &kernel.neighbour : &kernel.own) = make_steps(job, neighbour);
  }
  const int code = kernel_run(&kernel, &job->options.pass);
  for (int neighbour = 0; neighbour < 2; ++neighbour) {
    release_part(job, neighbour);
    free((neighbour ? &kernel.neighbour : &kernel.own)->step);
  }
  return code;
}

int main(int argc, char **argv) {
  start_mpi(&argc, &argv, "e3sm");
  struct job job;
  memset(&job, 0, sizeof job);
  job.options = parse(argc, argv);

  struct mesh mesh;
  int32_t *domains = NULL;
  struct decompositions decompositions;
  if (job.options.map != NULL) {
    decompositions = map_read(job.options.map, MPI_COMM_WORLD);
  } else {
    mesh = mesh_make(job.options.elements_per_edge);
    domains = mesh_domains(&mesh, all_ranks);
    decompositions = mesh_decompositions(&mesh, job.options.levels, this_rank, all_ranks);
    job.world.mesh = &mesh;
    job.world.domains = domains;
  }
  job.world.decompositions = &decompositions;
  make_variables(&job);
  make_header(&job);
  const int code = run(&job);
  free(job.header);
  free(job.variable);
  free(domains);
  decompositions_release(&decompositions);
  if (job.world.mesh != NULL) {
    mesh_release(&mesh);
  }
  pass_options_release(&job.options.pass);
  end_mpi();
  return code;
}
