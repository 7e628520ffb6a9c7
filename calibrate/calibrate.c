/* Measures what messages, files and memory cost on the machine and in the directory that it is started on.  penstock calibrate starts it natively, without
 * the library, under the launcher that the user gives, and makes a profile of its lines. */
#include "calibrate.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char usage[] =
    "usage: calibrate --file PATH [--seconds N]\n"
    "  --file PATH    a file to make; what its directory is on is measured.  It stays; all ranks must see it\n"
    "  --seconds N    that the measurements may take, about (45)\n";

double now_seconds(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

void meet_asleep(void) {
  const struct timespec nap = {.tv_nsec = 500 * 1000};
  MPI_Request request = MPI_REQUEST_NULL;
  int done = 0;
  CHECK(MPI_Ibarrier(MPI_COMM_WORLD, &request), "meeting");
  CHECK(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "meeting");
  while (!done) {
    nanosleep(&nap, NULL);
    CHECK(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "meeting");
  }
}

void progress(const char *text) {
  if (this_rank == 0) {
    fprintf(stderr, "calibrate: %s\n", text);
    fflush(stderr);
  }
}

void batches_add(struct batches *batches, double value) {
  if (batches->count < BATCHES_MAX) {
    batches->values[batches->count++] = value;
  }
}

static int by_value(const void *left, const void *right) {
  const double a = *(const double *)left;
  const double b = *(const double *)right;
  return (a > b) - (a < b);
}

double batches_typical(const struct batches *batches) {
  struct batches sorted = *batches;
  if (sorted.count == 0) {
    return 0.0;
  }
  qsort(sorted.values, (size_t)sorted.count, sizeof sorted.values[0], by_value);
  return sorted.values[(sorted.count - 1) / 4];
}

double batches_least(const struct batches *batches) {
  double least = batches->count > 0 ? batches->values[0] : 0.0;
  for (int i = 1; i < batches->count; ++i) {
    least = batches->values[i] < least ? batches->values[i] : least;
  }
  return least;
}

int64_t repetitions_for(double seconds, int64_t count, double budget, int64_t most) {
  const double wanted = seconds > 0 ? budget / (seconds / (double)count) : (double)most;
  return wanted < 1 ? 1 : wanted > (double)most ? most : (int64_t)wanted;
}

static struct settings parse(int argc, char **argv) {
  static const struct option known[] = {
      {"file", required_argument, NULL, 'f'}, {"seconds", required_argument, NULL, 's'}, {NULL, 0, NULL, 0}};
  struct settings settings = {.seconds = 45.0};
  int good = 1;
  int option = 0;
  opterr = this_rank == 0;
  while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
    switch (option) {
      case 'f': settings.file = optarg; break;
      case 's': settings.seconds = (double)whole_number("seconds", optarg, 1, 600); break;
      default: good = 0; break;
    }
  }
  if (!good || settings.file == NULL || optind != argc) {
    usage_error(usage);
  }
  return settings;
}

/* The lowest rank, other than 0, that is on the node of rank 0 or is not. */
static int lowest_rank(int counts) {
  const int mine = counts && this_rank != 0 ? this_rank : all_ranks;
  int lowest = 0;
  CHECK(MPI_Allreduce(&mine, &lowest, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD), "ranks");
  return lowest == all_ranks ? -1 : lowest;
}

static struct places find_places(void) {
  struct places places = {.first_node = MPI_COMM_NULL, .few = MPI_COMM_NULL, .leaders = MPI_COMM_NULL};
  MPI_Comm node = MPI_COMM_NULL;
  int node_rank = 0;
  int lowest = 0;
  CHECK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, this_rank, MPI_INFO_NULL, &node), "ranks of a node");
  CHECK(MPI_Comm_rank(node, &node_rank), "ranks of a node");
  CHECK(MPI_Allreduce(&this_rank, &lowest, 1, MPI_INT, MPI_MIN, node), "ranks of a node");
  places.on_first_node = lowest == 0;
  places.processors = (int)sysconf(_SC_NPROCESSORS_ONLN);
  CHECK(MPI_Bcast(&places.processors, 1, MPI_INT, 0, MPI_COMM_WORLD), "processors");
  const int leads = node_rank == 0;
  CHECK(MPI_Allreduce(&leads, &places.nodes, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD), "nodes");
  CHECK(MPI_Allreduce(&places.on_first_node, &places.node_ranks, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD), "nodes");
  places.neighbour = lowest_rank(places.on_first_node);
  places.stranger = lowest_rank(!places.on_first_node);
  const int few = places.on_first_node && node_rank < places.processors;
  CHECK(MPI_Comm_split(MPI_COMM_WORLD, leads ? 0 : MPI_UNDEFINED, this_rank, &places.leaders), "leaders");
  CHECK(MPI_Comm_split(MPI_COMM_WORLD, few ? 0 : MPI_UNDEFINED, this_rank, &places.few), "few ranks");
  CHECK(MPI_Comm_split(MPI_COMM_WORLD, places.on_first_node ? 0 : MPI_UNDEFINED, this_rank, &places.first_node), "first node");
  CHECK(MPI_Comm_free(&node), "ranks of a node");
  return places;
}

static void release(MPI_Comm *communicator) {
  if (*communicator != MPI_COMM_NULL) {
    CHECK(MPI_Comm_free(communicator), "communicator");
  }
}

int main(int argc, char **argv) {
  start_mpi(&argc, &argv, "calibrate");
  const struct settings settings = parse(argc, argv);
  struct places places = find_places();
  if (this_rank == 0) {
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    printf("{\"kind\": \"facts\", \"host\": ");
    print_string(host);
    printf(", \"ranks\": %d, \"nodes\": %d, \"node_ranks\": %d, \"processors\": %d, ", all_ranks, places.nodes,
           places.node_ranks, places.processors);
    print_mpi_version();
    printf("}\n");
  }
  measure_network(&settings, &places);
  measure_storage(&settings, &places);
  measure_memory(&settings);
  release(&places.first_node);
  release(&places.few);
  release(&places.leaders);
  end_mpi();
  return 0;
}
