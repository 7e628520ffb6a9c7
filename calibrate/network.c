/* What messages cost: ping-pong over sizes, and agreements, inside a node and between nodes. */
#include "calibrate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TAG = 17, SMALLEST = 8, LARGEST = 4 << 20, SIZES = 20, BATCHES = 9, WARM = 4 };

/* One batch: `count` round trips between rank 0 and the other, of `size` bytes. */
static double round_trips(int other, unsigned char *buffer, int size, int64_t count) {
  const double start = now_seconds();
  for (int64_t i = 0; i < count; ++i) {
    if (this_rank == 0) {
      CHECK(MPI_Send(buffer, size, MPI_BYTE, other, TAG, MPI_COMM_WORLD), "ping");
      CHECK(MPI_Recv(buffer, size, MPI_BYTE, other, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE), "pong");
    } else {
      CHECK(MPI_Recv(buffer, size, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE), "ping");
      CHECK(MPI_Send(buffer, size, MPI_BYTE, 0, TAG, MPI_COMM_WORLD), "pong");
    }
  }
  return now_seconds() - start;
}

/* Rank 0 knows how long it took; both need the number. */
static int64_t agreed(int other, int64_t count) {
  if (this_rank == 0) {
    CHECK(MPI_Send(&count, 1, MPI_INT64_T, other, TAG, MPI_COMM_WORLD), "count");
  } else {
    CHECK(MPI_Recv(&count, 1, MPI_INT64_T, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE), "count");
  }
  return count;
}

/* Of single trips the shortest: one that met a busy moment would make batches of next to nothing. */
static int64_t trips_for(int other, unsigned char *buffer, int size, double budget) {
  double least = round_trips(other, buffer, size, 1);
  for (int i = 0; i < WARM; ++i) {
    const double seconds = round_trips(other, buffer, size, 1);
    least = seconds < least ? seconds : least;
  }
  return agreed(other, repetitions_for(least, 1, budget, 100000));
}

/* All sizes in turn, again and again: a busy moment does not fall on one size alone. */
static void ping_pong(int other, int between, double budget) {
  static struct batches batches[SIZES];
  int64_t count[SIZES];
  unsigned char *buffer = allocate(LARGEST, 1);
  memset(buffer, 1, LARGEST);
  memset(batches, 0, sizeof batches);
  for (int i = 0; i < SIZES; ++i) {
    count[i] = trips_for(other, buffer, SMALLEST << i, budget / (SIZES * BATCHES));
  }
  for (int batch = 0; batch < BATCHES; ++batch) {
    for (int i = 0; i < SIZES; ++i) {
      batches_add(&batches[i], round_trips(other, buffer, SMALLEST << i, count[i]) / (double)count[i] / 2);
    }
  }
  for (int i = 0; i < SIZES && this_rank == 0; ++i) {
    printf("{\"kind\": \"ping_pong\", \"between\": %s, \"size_bytes\": %d, \"seconds\": %.9e, \"least_seconds\": %.9e, \"trips\": %lld}\n",
           between ? "true" : "false", SMALLEST << i, batches_typical(&batches[i]), batches_least(&batches[i]), (long long)count[i] * BATCHES);
  }
  free(buffer);
}

static void agreements(MPI_Comm ranks, int between, double budget) {
  int size = 0;
  CHECK(MPI_Comm_size(ranks, &size), "ranks");
  int64_t own = 1;
  int64_t sum = 0;
  int64_t count = WARM;
  struct batches batches = {.count = 0};
  for (int batch = -1; batch < BATCHES; ++batch) {
    CHECK(MPI_Barrier(ranks), "barrier");
    const double start = now_seconds();
    for (int64_t i = 0; i < count; ++i) {
      CHECK(MPI_Allreduce(&own, &sum, 1, MPI_INT64_T, MPI_SUM, ranks), "agreement");
    }
    const double seconds = now_seconds() - start;
    if (batch >= 0) {
      batches_add(&batches, seconds / (double)count);
    } else {
      count = repetitions_for(seconds, count, budget / BATCHES, 20000);
      CHECK(MPI_Bcast(&count, 1, MPI_INT64_T, 0, ranks), "count");
    }
  }
  if (this_rank == 0) {
    printf("{\"kind\": \"agreement\", \"between\": %s, \"ranks\": %d, \"seconds\": %.9e, \"least_seconds\": %.9e}\n",
           between ? "true" : "false", size, batches_typical(&batches), batches_least(&batches));
  }
}

static int ranks_of(MPI_Comm ranks) {
  int size = 0;
  if (ranks != MPI_COMM_NULL) {
    CHECK(MPI_Comm_size(ranks, &size), "ranks");
  }
  return size;
}

static void pair(int other, int between, double budget) {
  if (other >= 0 && (this_rank == 0 || this_rank == other)) {
    ping_pong(other, between, budget);
  }
  meet_asleep();
}

static void agree(MPI_Comm ranks, int between, double budget) {
  if (ranks_of(ranks) > 1) {
    agreements(ranks, between, budget);
  }
  meet_asleep();
}

void measure_network(const struct settings *settings, const struct places *places) {
  const double budget = settings->seconds / 10;
  progress(places->neighbour >= 0 ? "messages inside the node" : "one rank on the node: nothing to send inside it");
  pair(places->neighbour, 0, budget);
  agree(places->few, 0, budget / 10);
  if (places->stranger >= 0) {
    progress("messages between nodes");
  }
  pair(places->stranger, 1, budget);
  agree(places->leaders, 1, budget / 10);
}
