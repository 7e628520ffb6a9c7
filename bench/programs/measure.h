/* What the benchmark programs share: patterns of pieces, filled and checked.  Header only; on kernels/common. */
#ifndef MEASURE_H
#define MEASURE_H

#include "common/content.h"
#include "common/program.h"

#include <stdint.h>

/* Who writes what: `count` pieces of `piece_bytes` by each rank.  Contiguous: each rank has a part of the file to itself.
 * Interleaved: the ranks' pieces take turns. */
struct pattern {
  int interleaved;
  int64_t piece_bytes;
  int64_t count;
};

static inline int64_t rank_bytes(const struct pattern *pattern) { return pattern->piece_bytes * pattern->count; }
static inline int64_t file_bytes(const struct pattern *pattern) { return rank_bytes(pattern) * all_ranks; }

static inline int64_t piece_offset(const struct pattern *pattern, int64_t piece) {
  return pattern->interleaved ? (piece * all_ranks + this_rank) * pattern->piece_bytes
                              : (this_rank * pattern->count + piece) * pattern->piece_bytes;
}

/* All pieces of this rank, packed. */
static inline void fill_pieces(const struct pattern *pattern, unsigned char *buffer, uint64_t seed) {
  for (int64_t piece = 0; piece < pattern->count; ++piece) {
    content_bytes(buffer + piece * pattern->piece_bytes, piece_offset(pattern, piece), pattern->piece_bytes, seed);
  }
}

static inline int64_t check_pieces(const struct pattern *pattern, const unsigned char *buffer, uint64_t seed, uint64_t *hash) {
  int64_t wrong = 0;
  for (int64_t piece = 0; piece < pattern->count; ++piece) {
    wrong += content_wrong(buffer + piece * pattern->piece_bytes, piece_offset(pattern, piece), pattern->piece_bytes, seed, hash);
  }
  return wrong;
}

#endif
