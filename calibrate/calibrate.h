/* What the parts of the calibration program share.  Plain MPI and POSIX: it measures the machine, and knows neither Penstock nor its model.
 *
 * Every measurement is one line of JSON from rank 0 with the field "kind"; penstock calibrate makes a profile of them.  Seconds are the
 * first quartile of batches: a busy moment of the machine only ever adds. */
#ifndef CALIBRATE_H
#define CALIBRATE_H

#include "common/program.h"

#include <stddef.h>

struct settings {
  const char *file; /* made and filled by us; its directory is what is measured */
  double seconds;   /* that all measurements together may take, about */
};

/* Where the ranks are. */
struct places {
  int processors;    /* of the node of rank 0 */
  int nodes;
  int node_ranks;    /* of the node of rank 0 */
  int on_first_node; /* whether this rank is there */
  int neighbour;     /* a rank on the node of rank 0, or -1 */
  int stranger;      /* a rank on another node, or -1 */
  MPI_Comm first_node;  /* its ranks, MPI_COMM_NULL elsewhere */
  MPI_Comm few;         /* those of them that have a processor each */
  MPI_Comm leaders;     /* one rank of each node */
};

void measure_network(const struct settings *settings, const struct places *places);
void measure_storage(const struct settings *settings, const struct places *places);
void measure_memory(const struct settings *settings);

/* Collective over all ranks.  Those that wait sleep, and leave the processors to those that measure. */
void meet_asleep(void);

/* What rank 0 says on standard error about how far it is. */
void progress(const char *text);

double now_seconds(void);

/* Batches of one figure. */
enum { BATCHES_MAX = 15 };
struct batches {
  int count;
  double values[BATCHES_MAX];
};
void batches_add(struct batches *batches, double value);
/* The first quartile. */
double batches_typical(const struct batches *batches);
double batches_least(const struct batches *batches);

/* How often something is done in a batch, when doing it `count` times took `seconds` and a batch may take `budget`. */
int64_t repetitions_for(double seconds, int64_t count, double budget, int64_t most);

#endif
