/* What memory costs: copying, near and far, in pieces; mapping a file and faulting its pages in.  By rank 0, while the others sleep. */
#include "calibrate.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

enum { FAR = 64 << 20, BLOCK = 1 << 20, NEAR = 16 << 10, PIECES = 1 << 15, STEP = 256 << 10, MAPPED = 8 << 20 };

/* The compiler must not find out that nobody reads what is copied. */
static void used(const void *memory) { __asm__ volatile("" : : "r"(memory) : "memory"); }

static double copy_far(unsigned char *to, const unsigned char *from) {
  const double start = now_seconds();
  for (int64_t at = 0; at < FAR; at += BLOCK) {
    memcpy(to + at, from + at, BLOCK);
    used(to);
  }
  return (now_seconds() - start) / FAR;
}

static double copy_near(unsigned char *to, const unsigned char *from) {
  const int count = 2000;
  const double start = now_seconds();
  for (int i = 0; i < count; ++i) {
    memcpy(to, from, NEAR);
    used(to);
  }
  return (now_seconds() - start) / count / NEAR;
}

/* Pieces of 8 bytes, 24 apart, gathered by a loop that does not know their size before it runs. */
static double copy_pieces(unsigned char *to, const unsigned char *from, volatile size_t *piece) {
  const size_t size = *piece;
  const double start = now_seconds();
  for (int round = 0; round < 8; ++round) {
    for (int64_t i = 0; i < PIECES; ++i) {
      memcpy(to + (size_t)i * size, from + i * 24, size);
      used(to);
    }
  }
  return (now_seconds() - start) / 8 / PIECES;
}

static void measure_copies(double budget) {
  unsigned char *from = allocate(FAR, 1);
  unsigned char *to = allocate(FAR, 1);
  memset(from, 3, FAR);
  memset(to, 5, FAR);
  volatile size_t piece = 8;
  struct batches far = {.count = 0}, near = {.count = 0}, pieces = {.count = 0};
  const double end = now_seconds() + budget;
  for (int i = 0; i < BATCHES_MAX && (i < 3 || now_seconds() < end); ++i) {
    batches_add(&far, copy_far(to, from));
    batches_add(&near, copy_near(to, from));
    batches_add(&pieces, copy_pieces(to, from, &piece));
  }
  printf("{\"kind\": \"copy\", \"far_seconds_per_byte\": %.9e, \"near_seconds_per_byte\": %.9e, \"piece_seconds\": %.9e, \"piece_bytes\": %d}\n",
         batches_typical(&far), batches_typical(&near), batches_typical(&pieces), 8);
  free(from);
  free(to);
}

/* Seconds of a page; negative where the pages can not be had so. */
static double populate(int file, int64_t begin, int advice) {
  const int64_t page = 4096;
  unsigned char *memory = mmap(NULL, MAPPED, PROT_READ | PROT_WRITE, MAP_SHARED, file, begin);
  if (memory == MAP_FAILED) {
    return -1.0;
  }
  int refused = 0;
  const double start = now_seconds();
  for (int64_t at = 0; at < MAPPED && !refused; at += STEP) {
    refused = madvise(memory + at, STEP, advice) != 0;
  }
  double seconds = now_seconds() - start;
  if (refused && errno == EINVAL) { /* a kernel before 5.14 */
    const double again = now_seconds();
    for (int64_t at = 0; at < MAPPED; at += page) {
      volatile unsigned char *byte = memory + at;
      if (advice == MADV_POPULATE_READ) {
        (void)*byte;
      } else {
        *byte = 1;
      }
    }
    seconds = now_seconds() - again;
    refused = 0;
  }
  munmap(memory, MAPPED);
  return refused ? -1.0 : seconds / ((double)MAPPED / (double)page);
}

static void add_populated(struct batches *batches, int file, int64_t begin, int advice) {
  const double seconds = populate(file, begin, advice);
  if (seconds >= 0) {
    batches_add(batches, seconds);
  }
}

static double map_once(int file) {
  const int count = 100;
  const double start = now_seconds();
  for (int i = 0; i < count; ++i) {
    void *memory = mmap(NULL, BLOCK, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) {
      return -1.0;
    }
    munmap(memory, BLOCK);
  }
  return (now_seconds() - start) / count;
}

static void measure_faults(const char *beside, double budget) {
  char path[4096];
  snprintf(path, sizeof path, "%s-mapped", beside);
  const int file = open_posix(path, O_RDWR | O_CREAT | O_TRUNC);
  unsigned char *buffer = allocate(MAPPED, 1);
  memset(buffer, 9, MAPPED);
  struct batches reads = {.count = 0}, writes = {.count = 0}, fresh = {.count = 0}, maps = {.count = 0};
  const double end = now_seconds() + budget;
  for (int i = 0; i < BATCHES_MAX && (i < 3 || now_seconds() < end); ++i) {
    if (ftruncate(file, 0) != 0) {
      fail("%s: ftruncate: %s", path, strerror(errno));
    }
    pwrite_whole(file, buffer, MAPPED, 0, path);
    add_populated(&reads, file, 0, MADV_POPULATE_READ);
    add_populated(&writes, file, 0, MADV_POPULATE_WRITE);
    const double map = map_once(file);
    if (map >= 0) {
      batches_add(&maps, map);
    }
    if (ftruncate(file, 2 * (off_t)MAPPED) != 0) {
      fail("%s: ftruncate: %s", path, strerror(errno));
    }
    add_populated(&fresh, file, MAPPED, MADV_POPULATE_WRITE);
  }
  if (reads.count > 0 && writes.count > 0 && fresh.count > 0 && maps.count > 0) {
    printf("{\"kind\": \"faults\", \"read_seconds\": %.9e, \"write_seconds\": %.9e, \"new_seconds\": %.9e, \"map_seconds\": %.9e}\n",
           batches_typical(&reads), batches_typical(&writes), batches_typical(&fresh), batches_typical(&maps));
  }
  free(buffer);
  close(file);
  unlink(path);
}

void measure_memory(const struct settings *settings) {
  progress("copies and page faults");
  if (this_rank == 0) {
    measure_copies(settings->seconds / 40);
    measure_faults(settings->file, settings->seconds / 40);
  }
  meet_asleep();
}
