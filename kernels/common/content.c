/* Bytes that tell their own place: made, checked in memory, checked in a file by plain sequential reads.  Knows nothing of patterns. */
#include "content.h"

#include "program.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORD_BYTES = 8, CHUNK_BYTES = 1 << 20 };

/* The word that holds the byte at `offset`. */
static uint64_t word_at(int64_t offset, uint64_t seed) {
  uint64_t word = ((uint64_t)offset / WORD_BYTES + (seed + 1) * UINT64_C(0x632be59bd9b4e019)) * UINT64_C(0x9e3779b97f4a7c15);
  return word ^ (word >> 29);
}

/* Bytes from `offset` to the end of its word, at most `size_bytes`. */
static int64_t rest_of_word(int64_t offset, int64_t size_bytes) {
  const int64_t rest = WORD_BYTES - offset % WORD_BYTES;
  return rest < size_bytes ? rest : size_bytes;
}

void content_bytes(unsigned char *buffer, int64_t offset, int64_t size_bytes, uint64_t seed) {
  while (size_bytes > 0) {
    const uint64_t word = word_at(offset, seed);
    const int64_t count = rest_of_word(offset, size_bytes);
    memcpy(buffer, (const unsigned char *)&word + offset % WORD_BYTES, (size_t)count);
    buffer += count;
    offset += count;
    size_bytes -= count;
  }
}

int64_t content_wrong(const unsigned char *buffer, int64_t offset, int64_t size_bytes, uint64_t seed, uint64_t *hash) {
  int64_t wrong = 0;
  while (size_bytes > 0) {
    const uint64_t expected = word_at(offset, seed);
    const int64_t count = rest_of_word(offset, size_bytes);
    const int64_t first = offset % WORD_BYTES;
    const unsigned char *must = (const unsigned char *)&expected + first;
    if (memcmp(buffer, must, (size_t)count) != 0) {
      for (int64_t i = 0; i < count; ++i) {
        wrong += buffer[i] != must[i];
      }
    }
    /* Parts of a word have no byte in common, and multiplication distributes: the sum does not depend on where words are cut. */
    uint64_t found = 0;
    memcpy((unsigned char *)&found + first, buffer, (size_t)count);
    *hash += found * ((uint64_t)(offset - first) * 2 + UINT64_C(0xd6e8feb86659fd93));
    buffer += count;
    offset += count;
    size_bytes -= count;
  }
  return wrong;
}

/* [begin, end) of an open file. */
static int64_t wrong_in_part(int file, const char *path, int64_t begin, int64_t end, int64_t content_offset, uint64_t seed,
                             uint64_t *hash) {
  unsigned char *chunk = allocate(CHUNK_BYTES, 1);
  int64_t wrong = 0;
  for (int64_t at = begin; at < end; at += CHUNK_BYTES) {
    const int64_t wanted = end - at < CHUNK_BYTES ? end - at : CHUNK_BYTES;
    const int64_t found = pread_whole(file, chunk, wanted, at, path);
    wrong += wanted - found;
    wrong += content_wrong(chunk, content_offset + at, found, seed, hash);
  }
  free(chunk);
  return wrong;
}

static int64_t bytes_too_many(int file, const char *path, int64_t file_bytes) {
  const off_t size = lseek(file, 0, SEEK_END);
  if (size != file_bytes) {
    fprintf(stderr, "%s has %lld bytes, %lld were expected\n", path, (long long)size, (long long)file_bytes);
  }
  return size > file_bytes ? size - file_bytes : 0;
}

int64_t content_wrong_in_file(const char *path, int64_t file_bytes, uint64_t seed, uint64_t *hash) {
  const int64_t share = file_bytes / all_ranks;
  const int64_t begin = share * this_rank;
  const int64_t end = this_rank == all_ranks - 1 ? file_bytes : begin + share;
  const int file = open_posix(path, O_RDONLY);
  int64_t wrong = wrong_in_part(file, path, begin, end, 0, seed, hash);
  wrong += this_rank == 0 ? bytes_too_many(file, path, file_bytes) : 0;
  close(file);
  return wrong;
}

int64_t content_wrong_in_own_file(const char *path, int64_t file_bytes, int64_t content_offset, uint64_t seed, uint64_t *hash) {
  const int file = open_posix(path, O_RDONLY);
  int64_t wrong = wrong_in_part(file, path, 0, file_bytes, content_offset, seed, hash);
  wrong += bytes_too_many(file, path, file_bytes);
  close(file);
  return wrong;
}
