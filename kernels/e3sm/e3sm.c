/* Writes climate variables to one file the way the E3SM model does and reads them back, checking every byte.
 * A plain MPI program: it knows nothing of what carries its MPI-IO calls out.
 *
 * The file: a header (one line of JSON that tells each variable's place, padded with spaces to a multiple of 4096 bytes),
 * then the records one after another, each holding all variables in order.  Numbers in the machine's own byte order. */
#include "e3sm.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER_UNIT_BYTES = 4096 };

struct options {
  const char *map;
  const char *file;
  int elements_per_edge;
  int levels;
  int variables;
  int records;
  int group;
  int collective;
  int json;
  int keep;
};

enum phase { OPEN, VIEW, WRITE, SYNC, CLOSE, READ, READ_SHIFTED, PHASES };
static const char *const phase_names[PHASES] = {"open", "view", "write", "sync", "close", "read", "read_shifted"};

struct tally {
  double seconds[PHASES];
  int64_t calls;
  int64_t bytes_written;
  int64_t bytes_read;
  int64_t requests;
  int64_t wrong;
  int64_t first_wrong_variable;
  uint64_t hash;
};

/* Everything that a pass over the file needs. */
struct job {
  struct options options;
  MPI_Comm comm;
  int rank;
  int ranks;
  struct world world;
  int variables;
  struct variable *variable;
  char *header;
  int64_t header_bytes;
  int64_t record_bytes;
  struct tally tally;
};

static const char usage[] =
    "usage: e3sm [--map FILE | --ne N] [--variables N] [--levels L] [--records N] [--group N] --file PATH\n"
    "            [--collective | --independent] [--json] [--keep]\n"
    "  --map FILE      a NetCDF decomposition map; without it a cubed-sphere mesh is made\n"
    "  --ne N          elements along an edge of the cube (8)\n"
    "  --levels L      vertical levels of 3-D variables on the mesh (32)\n"
    "  --variables N   field variables in a record (12)\n"
    "  --records N     records appended to the file (2)\n"
    "  --group N       variables written by one call; 0 = all of a record (1)\n"
    "  --file PATH     the file to write\n"
    "  --collective    MPI_File_write_all and read_all (the default); --independent: MPI_File_write and read\n"
    "  --json          one line of JSON instead of a table\n"
    "  --keep          leave the file\n";

static int whole_number(const char *option, const char *text, int least) {
  char *end = NULL;
  errno = 0;
  const long value = strtol(text, &end, 10);
  if (errno != 0 || end == text || *end != '\0' || value < least || value > INT_MAX) {
    fail("--%s %s: a whole number of at least %d was expected", option, text, least);
  }
  return (int)value;
}

static struct options parse(int argc, char **argv, int rank) {
  static const struct option known[] = {
      {"map", required_argument, NULL, 'm'},     {"ne", required_argument, NULL, 'n'},
      {"levels", required_argument, NULL, 'l'},  {"variables", required_argument, NULL, 'v'},
      {"records", required_argument, NULL, 'r'}, {"group", required_argument, NULL, 'g'},
      {"file", required_argument, NULL, 'f'},    {"collective", no_argument, NULL, 'c'},
      {"independent", no_argument, NULL, 'i'},   {"json", no_argument, NULL, 'j'},
      {"keep", no_argument, NULL, 'k'},          {NULL, 0, NULL, 0}};
  struct options options = {
      .elements_per_edge = 8, .levels = 32, .variables = 12, .records = 2, .group = 1, .collective = 1};
  int option = 0;
  while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
    switch (option) {
      case 'm': options.map = optarg; break;
      case 'n': options.elements_per_edge = whole_number("ne", optarg, 1); break;
      case 'l': options.levels = whole_number("levels", optarg, 1); break;
      case 'v': options.variables = whole_number("variables", optarg, 1); break;
      case 'r': options.records = whole_number("records", optarg, 1); break;
      case 'g': options.group = whole_number("group", optarg, 0); break;
      case 'f': options.file = optarg; break;
      case 'c': options.collective = 1; break;
      case 'i': options.collective = 0; break;
      case 'j': options.json = 1; break;
      case 'k': options.keep = 1; break;
      default: options.file = NULL; optind = argc; break;
    }
  }
  if (options.file == NULL || optind != argc) {
    if (rank == 0) {
      fputs(usage, stderr);
    }
    MPI_Finalize();
    exit(2);
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
    fail("a record of these variables does not fit in 64 bits; use fewer variables or levels");
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

/* The variables [first, after) of one call, with the requests of whoever's decomposition is used. */
struct group {
  int first;
  int after;
  int64_t bytes;
  int64_t requests;
  MPI_Datatype filetype;
};

static const struct requests *requests_of(const struct job *job, const struct requests *shifted, int variable) {
  const int decomposition = job->variable[variable].decomposition;
  return shifted != NULL ? &shifted[decomposition] : &job->world.decompositions->list[decomposition].own;
}

/* Requests as bytes from the record's beginning, in the order of the file. */
static struct group make_group(const struct job *job, const struct requests *shifted, int first, int after) {
  struct group group = {first, after, 0, 0, MPI_DATATYPE_NULL};
  for (int v = first; v < after; ++v) {
    const struct requests *requests = requests_of(job, shifted, v);
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
    const struct requests *requests = requests_of(job, shifted, v);
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

static void count_check(const struct job *job, MPI_Status *status, int64_t bytes, const char *operation) {
  int words = 0;
  CHECK(MPI_Get_count(status, MPI_INT32_T, &words), job->options.file);
  if (words != (int)(bytes / 4)) {
    fail("%s: %s moved %d words of 4 bytes, %lld were expected", job->options.file, operation, words, (long long)(bytes / 4));
  }
}

static void transfer(struct job *job, MPI_File file, const struct group *group, int record, enum phase phase,
                     unsigned char *buffer) {
  const char *path = job->options.file;
  /* Words of 4 bytes reach beyond 2 GiB with an int count; every variable is a whole number of them. */
  const int words = (int)(group->bytes / 4);
  const MPI_Offset displacement = (MPI_Offset)(job->header_bytes + record * job->record_bytes);
  MPI_Status status;
  double start = MPI_Wtime();
  CHECK(MPI_File_set_view(file, displacement, MPI_BYTE, group->filetype, "native", MPI_INFO_NULL), path);
  double now = MPI_Wtime();
  job->tally.seconds[VIEW] += now - start;
  start = now;
  if (phase == WRITE) {
    if (job->options.collective) {
      CHECK(MPI_File_write_all(file, buffer, words, MPI_INT32_T, &status), path);
    } else {
      CHECK(MPI_File_write(file, buffer, words, MPI_INT32_T, &status), path);
    }
    job->tally.bytes_written += group->bytes;
    job->tally.requests += group->requests;
  } else {
    if (job->options.collective) {
      CHECK(MPI_File_read_all(file, buffer, words, MPI_INT32_T, &status), path);
    } else {
      CHECK(MPI_File_read(file, buffer, words, MPI_INT32_T, &status), path);
    }
    job->tally.bytes_read += group->bytes;
  }
  job->tally.seconds[phase] += MPI_Wtime() - start;
  ++job->tally.calls;
  count_check(job, &status, group->bytes, phase_names[phase]);
}

/* What the group's part of the record must be, packed in the order of the view. */
static void fill(const struct job *job, const struct requests *shifted, const struct group *group, int record,
                 unsigned char *buffer) {
  int64_t used = 0;
  for (int v = group->first; v < group->after; ++v) {
    used += content_fill(&job->world, &job->variable[v], record, requests_of(job, shifted, v), buffer + used);
  }
}

static void verify(struct job *job, const struct requests *shifted, const struct group *group, int record,
                   const unsigned char *read, const unsigned char *expected) {
  int64_t used = 0;
  for (int v = group->first; v < group->after; ++v) {
    const struct variable *variable = &job->variable[v];
    const struct requests *requests = requests_of(job, shifted, v);
    const int64_t bytes = requests_elements(requests) * variable->element_bytes;
    if (memcmp(read + used, expected + used, (size_t)bytes) != 0) {
      for (int64_t i = used; i < used + bytes; ++i) {
        job->tally.wrong += read[i] != expected[i];
      }
      job->tally.first_wrong_variable = v < job->tally.first_wrong_variable ? v : job->tally.first_wrong_variable;
    }
    if (shifted == NULL) {
      job->tally.hash += content_hash(variable, record, requests, read + used);
    }
    used += bytes;
  }
}

static void pass(struct job *job, MPI_File file, const struct requests *shifted, enum phase phase) {
  const int group_size = job->options.group == 0 ? job->variables : job->options.group;
  for (int first = 0; first < job->variables; first += group_size) {
    const int after = first + group_size < job->variables ? first + group_size : job->variables;
    struct group group = make_group(job, shifted, first, after);
    unsigned char *expected = allocate(group.bytes, 1);
    unsigned char *buffer = phase == WRITE ? expected : allocate(group.bytes, 1);
    for (int record = 0; record < job->options.records; ++record) {
      fill(job, shifted, &group, record, expected);
      if (phase != WRITE) {
        memset(buffer, 0xA5, (size_t)group.bytes);
      }
      transfer(job, file, &group, record, phase, buffer);
      if (phase != WRITE) {
        verify(job, shifted, &group, record, buffer, expected);
      }
    }
    if (phase != WRITE) {
      free(buffer);
    }
    free(expected);
    CHECK(MPI_Type_free(&group.filetype), "file type");
  }
}

static MPI_File open_file(struct job *job, int mode) {
  MPI_File file = MPI_FILE_NULL;
  CHECK(MPI_Barrier(job->comm), "barrier");
  const double start = MPI_Wtime();
  CHECK(MPI_File_open(job->comm, job->options.file, mode, MPI_INFO_NULL, &file), job->options.file);
  job->tally.seconds[OPEN] += MPI_Wtime() - start;
  return file;
}

static void close_file(struct job *job, MPI_File *file) {
  const double start = MPI_Wtime();
  CHECK(MPI_File_close(file), job->options.file);
  job->tally.seconds[CLOSE] += MPI_Wtime() - start;
}

static void remove_file(const struct job *job, int may_be_missing) {
  CHECK(MPI_Barrier(job->comm), "barrier");
  if (job->rank == 0) {
    const int code = MPI_File_delete(job->options.file, MPI_INFO_NULL);
    int class = MPI_SUCCESS;
    MPI_Error_class(code, &class);
    if (!(may_be_missing && class == MPI_ERR_NO_SUCH_FILE)) {
      check(code, "MPI_File_delete", job->options.file);
    }
  }
  CHECK(MPI_Barrier(job->comm), "barrier");
}

static void write_everything(struct job *job) {
  remove_file(job, 1);
  MPI_File file = open_file(job, MPI_MODE_CREATE | MPI_MODE_WRONLY);
  if (job->rank == 0) {
    MPI_Status status;
    CHECK(MPI_File_write_at(file, 0, job->header, (int)job->header_bytes, MPI_BYTE, &status), job->options.file);
    count_check(job, &status, job->header_bytes, "write of the header");
    job->tally.bytes_written += job->header_bytes;
    ++job->tally.calls;
  }
  pass(job, file, NULL, WRITE);
  const double start = MPI_Wtime();
  CHECK(MPI_File_sync(file), job->options.file);
  job->tally.seconds[SYNC] += MPI_Wtime() - start;
  close_file(job, &file);
}

static void read_everything(struct job *job) {
  const struct decompositions *decompositions = job->world.decompositions;
  struct requests *shifted = allocate(decompositions->count, sizeof *shifted);
  for (int i = 0; i < decompositions->count; ++i) {
    shifted[i] = requests_of_next_rank(&decompositions->list[i].own, job->comm);
  }
  MPI_File file = open_file(job, MPI_MODE_RDONLY);
  pass(job, file, NULL, READ);
  pass(job, file, shifted, READ_SHIFTED);
  close_file(job, &file);
  for (int i = 0; i < decompositions->count; ++i) {
    requests_release(&shifted[i]);
  }
  free(shifted);
}

/* Times: the slowest rank's.  Counts: of all ranks together. */
static struct tally gather(const struct job *job, int64_t *requests_max) {
  struct tally all = job->tally;
  CHECK(MPI_Allreduce(job->tally.seconds, all.seconds, PHASES, MPI_DOUBLE, MPI_MAX, job->comm), "times");
  const int64_t counts[5] = {job->tally.calls, job->tally.bytes_written, job->tally.bytes_read, job->tally.requests,
                             job->tally.wrong};
  int64_t sums[5];
  CHECK(MPI_Allreduce(counts, sums, 5, MPI_INT64_T, MPI_SUM, job->comm), "counts");
  all.calls = sums[0];
  all.bytes_written = sums[1];
  all.bytes_read = sums[2];
  all.requests = sums[3];
  all.wrong = sums[4];
  CHECK(MPI_Allreduce(&job->tally.hash, &all.hash, 1, MPI_UINT64_T, MPI_SUM, job->comm), "hash");
  CHECK(MPI_Allreduce(&job->tally.first_wrong_variable, &all.first_wrong_variable, 1, MPI_INT64_T, MPI_MIN, job->comm),
        "first wrong variable");
  CHECK(MPI_Allreduce(&job->tally.requests, requests_max, 1, MPI_INT64_T, MPI_MAX, job->comm), "requests");
  return all;
}

/* For JSON: quotes, backslashes and control characters escaped. */
static void print_string(const char *text) {
  putchar('"');
  for (const char *c = text; *c != '\0'; ++c) {
    if (*c == '"' || *c == '\\') {
      printf("\\%c", *c);
    } else if ((unsigned char)*c < 0x20) {
      printf("\\u%04x", (unsigned char)*c);
    } else {
      putchar(*c);
    }
  }
  putchar('"');
}

static void report_json(const struct job *job, const struct tally *all, int64_t requests_max, double wall) {
  char version[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  CHECK(MPI_Get_library_version(version, &length), "version");
  version[strcspn(version, "\n")] = '\0';
  const struct options *options = &job->options;
  printf("{\"program\": \"e3sm\", \"mpi\": ");
  print_string(version);
  printf(", \"ranks\": %d, \"mode\": \"%s\", \"map\": ", job->ranks, options->collective ? "collective" : "independent");
  if (options->map != NULL) {
    print_string(options->map);
    printf(", \"ne\": null, \"levels\": null");
  } else {
    printf("null, \"ne\": %d, \"levels\": %d", options->elements_per_edge, options->levels);
  }
  printf(", \"variables\": %d, \"records\": %d, \"variables_per_call\": %d, \"file\": ", job->variables, options->records,
         options->group == 0 ? job->variables : options->group);
  print_string(options->file);
  printf(", \"file_bytes\": %lld, \"bytes_written\": %lld, \"bytes_read\": %lld, \"calls\": %lld, \"requests\": %lld, "
         "\"requests_max\": %lld, \"seconds\": {",
         (long long)(job->header_bytes + options->records * job->record_bytes), (long long)all->bytes_written,
         (long long)all->bytes_read, (long long)all->calls, (long long)all->requests, (long long)requests_max);
  for (int phase = 0; phase < PHASES; ++phase) {
    printf("%s\"%s\": %.9f", phase == 0 ? "" : ", ", phase_names[phase], all->seconds[phase]);
  }
  printf("}, \"wall_seconds\": %.9f, \"verified\": %s, \"wrong_bytes\": %lld, \"hash\": \"%016llx\"}\n", wall,
         all->wrong == 0 ? "true" : "false", (long long)all->wrong, (unsigned long long)all->hash);
}

static void report_table(const struct job *job, const struct tally *all) {
  printf("%d ranks, %d variables, %d records, %s\n", job->ranks, job->variables, job->options.records,
         job->options.collective ? "collective" : "independent");
  for (int phase = 0; phase < PHASES; ++phase) {
    printf("  %-14s %12.6f s\n", phase_names[phase], all->seconds[phase]);
  }
  printf("  written %lld bytes, read %lld bytes, %lld calls, %lld requests, hash %016llx: %s\n",
         (long long)all->bytes_written, (long long)all->bytes_read, (long long)all->calls, (long long)all->requests,
         (unsigned long long)all->hash, all->wrong == 0 ? "verified" : "WRONG");
}

int main(int argc, char **argv) {
  if (MPI_Init(&argc, &argv) != MPI_SUCCESS) {
    fputs("e3sm: MPI_Init failed\n", stderr);
    return 1;
  }
  struct job job;
  memset(&job, 0, sizeof job);
  job.comm = MPI_COMM_WORLD;
  job.tally.first_wrong_variable = INT64_MAX;
  CHECK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "error handler");
  CHECK(MPI_Comm_rank(job.comm, &job.rank), "communicator");
  CHECK(MPI_Comm_size(job.comm, &job.ranks), "communicator");
  job.options = parse(argc, argv, job.rank);

  struct mesh mesh;
  int32_t *domains = NULL;
  struct decompositions decompositions;
  if (job.options.map != NULL) {
    decompositions = map_read(job.options.map, job.comm);
  } else {
    mesh = mesh_make(job.options.elements_per_edge);
    domains = mesh_domains(&mesh, job.ranks);
    decompositions = mesh_decompositions(&mesh, job.options.levels, job.rank, job.ranks);
    job.world.mesh = &mesh;
    job.world.domains = domains;
  }
  job.world.decompositions = &decompositions;
  make_variables(&job);
  make_header(&job);

  CHECK(MPI_Barrier(job.comm), "barrier");
  const double start = MPI_Wtime();
  write_everything(&job);
  read_everything(&job);
  CHECK(MPI_Barrier(job.comm), "barrier");
  const double wall = MPI_Wtime() - start;

  int64_t requests_max = 0;
  const struct tally all = gather(&job, &requests_max);
  if (job.rank == 0) {
    if (job.options.json) {
      report_json(&job, &all, requests_max, wall);
    } else {
      report_table(&job, &all);
    }
    if (all.wrong > 0) {
      fprintf(stderr, "e3sm: %s: %lld bytes read back differ from what was written, the first in variable %s\n",
              job.options.file, (long long)all.wrong, job.variable[all.first_wrong_variable].name);
    }
  }
  if (!job.options.keep) {
    remove_file(&job, 0);
  }
  free(job.header);
  free(job.variable);
  free(domains);
  decompositions_release(&decompositions);
  if (job.world.mesh != NULL) {
    mesh_release(&mesh);
  }
  CHECK(MPI_Finalize(), "finalize");
  return all.wrong == 0 ? 0 : 1;
}
