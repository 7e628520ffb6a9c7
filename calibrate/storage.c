/* What reading and writing cost: the page cache and the device apart, in order and at random, over request sizes, by one rank and by all at once; calls,
 * new pages, making durable, opening.
 *
 * The device is reached past the page cache (O_DIRECT) where the file system permits that.  Elsewhere reads come after the pages were dropped
 * (posix_fadvise), which the system may do in part only, and writes have their fdatasync counted.  With O_DIRECT a batch of writes ends with one too: a
 * device's own cache is not what is asked for. */
#define _GNU_SOURCE /* O_DIRECT */
#include "calibrate.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { ALIGNMENT = 4096, LARGEST = 4 << 20, BATCHES = 5, ALL_SIZES = 6, SOME_SIZES = 3 };
static const int64_t all_sizes[ALL_SIZES] = {4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20};
static const int64_t some_sizes[SOME_SIZES] = {4 << 10, 64 << 10, 1 << 20};
static const int64_t cached_bytes_most = 64 << 20; /* more would measure memory that the caches do not see twice */

struct target {
  const char *path;
  int plain;
  int direct; /* -1 where the file system knows no O_DIRECT */
  unsigned char *buffer;
  int64_t begin; /* this rank's part of the file */
  int64_t bytes;
};

struct cell {
  int write;
  int cached;
  int random;
  int everybody;
  int64_t size;
};

struct outcome {
  double seconds; /* of a call */
  double rate;    /* bytes per second, of all that take part */
  int64_t calls;
};

static uint64_t next_random(uint64_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state;
}

static void drop_pages(int file) {
  fdatasync(file);
  posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
}

/* How far a rank is in its part. */
struct walk {
  int64_t slots;
  int64_t next;
  uint64_t state;
};

static int64_t offset_of(struct walk *walk, const struct target *target, const struct cell *cell) {
  const int64_t slot = cell->random ? (int64_t)(next_random(&walk->state) % (uint64_t)walk->slots) : walk->next++ % walk->slots;
  return target->begin + slot * cell->size;
}

/* One batch, for `budget` seconds or `most` calls; returns its seconds. */
static double batch(const struct target *target, const struct cell *cell, int file, struct walk *walk, double budget, int64_t most,
                    int64_t *calls) {
  /* The clock is asked rarely where asking would count. */
  const int64_t at_a_time = cell->cached && cell->size <= 64 << 10 ? 32 : 1;
  const double start = now_seconds();
  double seconds = 0.0;
  *calls = 0;
  do {
    for (int64_t i = 0; i < at_a_time; ++i) {
      const int64_t offset = offset_of(walk, target, cell);
      if (cell->write) {
        pwrite_whole(file, target->buffer, cell->size, offset, target->path);
      } else if (pread_whole(file, target->buffer, cell->size, offset, target->path) != cell->size) {
        fail("%s: the file ends before byte %lld: somebody else changed it", target->path, (long long)(offset + cell->size));
      }
    }
    *calls += at_a_time;
    seconds = now_seconds() - start;
  } while (seconds < budget && *calls < most);
  if (cell->write && !cell->cached && fdatasync(file) != 0) {
    fail("%s: fdatasync: %s", target->path, strerror(errno));
  }
  return cell->write && !cell->cached ? now_seconds() - start : seconds;
}

static struct outcome access_part(const struct target *target, const struct cell *cell, double budget) {
  const int direct = !cell->cached && target->direct >= 0;
  const int file = direct ? target->direct : target->plain;
  const int64_t bytes = cell->cached && target->bytes > cached_bytes_most ? cached_bytes_most : target->bytes;
  struct walk walk = {.slots = bytes / cell->size, .state = (uint64_t)this_rank * 7919 + 88172645463325252U};
  /* Without O_DIRECT what was read once is in the page cache. */
  const int drops = !cell->cached && !cell->write && !direct;
  const int64_t most = drops ? walk.slots : INT64_MAX;
  struct batches batches = {.count = 0};
  double spent = 0.0;
  int64_t moved = 0;
  struct outcome outcome = {.calls = 0};
  for (int i = 0; i < BATCHES && (i == 0 || spent < budget); ++i) {
    int64_t calls = 0;
    if (drops) {
      drop_pages(file);
    }
    const double seconds = batch(target, cell, file, &walk, budget / BATCHES, most, &calls);
    batches_add(&batches, seconds / (double)calls);
    spent += seconds;
    moved += calls * cell->size;
    outcome.calls += calls;
  }
  outcome.seconds = batches_typical(&batches);
  outcome.rate = cell->everybody ? (double)moved / spent : (double)cell->size / outcome.seconds;
  return outcome;
}

static void print_cell(const struct cell *cell, const struct outcome *outcome, int ranks, int direct) {
  printf("{\"kind\": \"access\", \"write\": %s, \"cached\": %s, \"random\": %s, \"direct\": %s, \"ranks\": %d, \"size_bytes\": %lld, "
         "\"seconds\": %.9e, \"bytes_per_second\": %.6e, \"calls\": %lld}\n",
         cell->write ? "true" : "false", cell->cached ? "true" : "false", cell->random ? "true" : "false", direct ? "true" : "false",
         ranks, (long long)cell->size, outcome->seconds, outcome->rate, (long long)outcome->calls);
}

/* One cell by those that take part; the others sleep.  Pages are those of the node of rank 0: elsewhere they may be cached too, and are not asked. */
static void measure_cell(const struct target *target, const struct places *places, const struct cell *cell, double budget) {
  const MPI_Comm team = !cell->everybody ? MPI_COMM_SELF : cell->cached ? places->first_node : MPI_COMM_WORLD;
  const int takes_part = cell->everybody ? team != MPI_COMM_NULL : this_rank == 0;
  if (takes_part) {
    int ranks = 1;
    CHECK(MPI_Comm_size(team, &ranks), "team");
    CHECK(MPI_Barrier(team), "team");
    struct outcome outcome = access_part(target, cell, budget);
    const struct outcome own = outcome;
    CHECK(MPI_Reduce(&own.rate, &outcome.rate, 1, MPI_DOUBLE, MPI_SUM, 0, team), "rates");
    CHECK(MPI_Reduce(&own.calls, &outcome.calls, 1, MPI_INT64_T, MPI_SUM, 0, team), "calls");
    if (this_rank == 0) {
      print_cell(cell, &outcome, ranks, !cell->cached && target->direct >= 0);
    }
  }
  meet_asleep();
}

/* So that the page cache has what cached accesses go to. */
static void warm_part(const struct target *target) {
  const int64_t bytes = target->bytes < cached_bytes_most ? target->bytes : cached_bytes_most;
  for (int64_t at = 0; at < bytes; at += LARGEST) {
    const int64_t left = bytes - at;
    pread_whole(target->plain, target->buffer, left < LARGEST ? left : LARGEST, target->begin + at, target->path);
  }
}

static void measure_kind(const struct target *target, const struct places *places, int cached, double budget) {
  for (int everybody = 0; everybody < (all_ranks > 1 ? 2 : 1); ++everybody) {
    for (int write = 0; write < 2; ++write) {
      for (int random = 0; random < 2; ++random) {
        const int count = everybody ? SOME_SIZES : ALL_SIZES;
        for (int i = 0; i < count; ++i) {
          const struct cell cell = {.write = write, .cached = cached, .random = random, .everybody = everybody,
                                    .size = everybody ? some_sizes[i] : all_sizes[i]};
          measure_cell(target, places, &cell, budget);
        }
      }
    }
  }
}

static void measure_calls(const struct target *target, const struct places *places, double budget) {
  struct target small = *target;
  small.bytes = small.bytes > 1 << 20 ? 1 << 20 : small.bytes;
  for (int write = 0; write < 2; ++write) {
    const struct cell cell = {.write = write, .cached = 1, .size = 8};
    measure_cell(&small, places, &cell, budget);
  }
}

/* By rank 0: the same calls to a new file, and again to the pages that it then has. */
static void measure_new_pages(const struct target *target, double budget) {
  struct batches fresh = {.count = 0};
  struct batches again = {.count = 0};
  const int64_t size = 1 << 20;
  const int64_t count = target->bytes / size < 32 ? target->bytes / size : 32;
  char path[4096];
  snprintf(path, sizeof path, "%s-new", target->path);
  const double end = now_seconds() + budget;
  for (int round = 0; round < BATCHES_MAX && (round == 0 || now_seconds() < end); ++round) {
    const int file = open_posix(path, O_RDWR | O_CREAT | O_TRUNC);
    for (int pass = 0; pass < 2; ++pass) {
      const double start = now_seconds();
      for (int64_t i = 0; i < count; ++i) {
        pwrite_whole(file, target->buffer, size, i * size, path);
      }
      batches_add(pass == 0 ? &fresh : &again, (now_seconds() - start) / (double)count);
    }
    close(file);
    unlink(path);
  }
  printf("{\"kind\": \"new_pages\", \"size_bytes\": %lld, \"seconds_new\": %.9e, \"seconds_again\": %.9e}\n", (long long)size,
         batches_typical(&fresh), batches_typical(&again));
}

static void measure_sync_and_open(const struct target *target, double budget) {
  struct batches syncs = {.count = 0};
  struct batches opens = {.count = 0};
  double end = now_seconds() + budget;
  for (int i = 0; i < BATCHES_MAX && (i < 3 || now_seconds() < end); ++i) {
    pwrite_whole(target->plain, target->buffer, ALIGNMENT, target->begin + i * ALIGNMENT, target->path);
    const double start = now_seconds();
    if (fsync(target->plain) != 0) {
      fail("%s: fsync: %s", target->path, strerror(errno));
    }
    batches_add(&syncs, now_seconds() - start);
  }
  end = now_seconds() + budget / 2;
  for (int i = 0; i < BATCHES_MAX && (i < 3 || now_seconds() < end); ++i) {
    const int count = 20;
    const double start = now_seconds();
    for (int j = 0; j < count; ++j) {
      close(open_posix(target->path, O_RDWR));
    }
    batches_add(&opens, (now_seconds() - start) / count);
  }
  printf("{\"kind\": \"sync\", \"seconds\": %.9e, \"least_seconds\": %.9e}\n", batches_typical(&syncs), batches_least(&syncs));
  printf("{\"kind\": \"open\", \"seconds\": %.9e, \"least_seconds\": %.9e}\n", batches_typical(&opens), batches_least(&opens));
}

/* O_DIRECT where both a read and a write of one block work: some file systems refuse only then. */
static int open_direct(const struct target *target) {
  const int file = open(target->path, O_RDWR | O_DIRECT | O_CLOEXEC);
  if (file < 0) {
    return -1;
  }
  if (pread(file, target->buffer, ALIGNMENT, target->begin) != ALIGNMENT || pwrite(file, target->buffer, ALIGNMENT, target->begin) != ALIGNMENT) {
    close(file);
    return -1;
  }
  return file;
}

/* As much as is written in a tenth of the time, between bounds, and in a quarter of what is free. */
static int64_t size_of_file(const struct settings *settings, int file, const unsigned char *buffer) {
  const int64_t least = (int64_t)LARGEST * 2 * all_ranks;
  const int64_t most = least > 256 << 20 ? least : 256 << 20;
  struct statvfs space;
  const double start = now_seconds();
  for (int i = 0; i < 4; ++i) {
    pwrite_whole(file, buffer, LARGEST, (int64_t)i * LARGEST, settings->file);
  }
  if (fdatasync(file) != 0) {
    fail("%s: fdatasync: %s", settings->file, strerror(errno));
  }
  const double rate = 4.0 * LARGEST / (now_seconds() - start);
  int64_t bytes = rate * settings->seconds / 10 < (double)most ? (int64_t)(rate * settings->seconds / 10) : most;
  if (fstatvfs(file, &space) == 0 && (double)space.f_bavail * (double)space.f_frsize / 4 < (double)bytes) {
    bytes = (int64_t)((double)space.f_bavail * (double)space.f_frsize / 4);
  }
  const int64_t part = bytes / all_ranks / LARGEST * LARGEST;
  return (part > 2 * LARGEST ? part : 2 * LARGEST) * all_ranks;
}

static struct target make_target(const struct settings *settings) {
  struct target target = {.path = settings->file, .direct = -1};
  void *memory = NULL;
  if (posix_memalign(&memory, ALIGNMENT, LARGEST) != 0) {
    fail("out of memory: %d bytes wanted", LARGEST);
  }
  target.buffer = memory;
  uint64_t state = 88172645463325252U + (uint64_t)this_rank;
  for (int i = 0; i < LARGEST; i += 8) {
    const uint64_t word = next_random(&state); /* nothing that a device could compress */
    memcpy(target.buffer + i, &word, sizeof word);
  }
  int64_t bytes = 0;
  if (this_rank == 0) {
    target.plain = open_posix(settings->file, O_RDWR | O_CREAT | O_TRUNC);
    bytes = size_of_file(settings, target.plain, target.buffer);
  }
  CHECK(MPI_Bcast(&bytes, 1, MPI_INT64_T, 0, MPI_COMM_WORLD), "size of the file");
  if (this_rank != 0) {
    target.plain = open_posix(settings->file, O_RDWR);
  }
  target.bytes = bytes / all_ranks;
  target.begin = target.bytes * this_rank;
  for (int64_t at = 0; at < target.bytes; at += LARGEST) {
    pwrite_whole(target.plain, target.buffer, LARGEST, target.begin + at, target.path);
  }
  if (fsync(target.plain) != 0) {
    fail("%s: fsync: %s", target.path, strerror(errno));
  }
  meet_asleep();
  target.direct = open_direct(&target);
  return target;
}

void measure_storage(const struct settings *settings, const struct places *places) {
  const double budget = settings->seconds;
  progress("making a file");
  struct target target = make_target(settings);
  if (this_rank == 0) {
    printf("{\"kind\": \"file\", \"bytes\": %lld, \"direct\": %s}\n", (long long)target.bytes * all_ranks, target.direct >= 0 ? "true" : "false");
  }
  progress("the page cache: calls, sizes, one rank and all");
  warm_part(&target);
  meet_asleep();
  measure_calls(&target, places, budget / 150);
  measure_kind(&target, places, 1, budget / 300);
  progress("new pages, making durable, opening");
  if (this_rank == 0) {
    measure_new_pages(&target, budget / 50);
    measure_sync_and_open(&target, budget / 50);
  }
  meet_asleep();
  progress(target.direct >= 0 ? "the device, past the page cache: sizes, one rank and all"
                              : "the device, with dropped pages and fsync, for want of O_DIRECT: sizes, one rank and all");
  measure_kind(&target, places, 0, budget / 100);
  close(target.plain);
  if (target.direct >= 0) {
    close(target.direct);
  }
  free(target.buffer);
}
