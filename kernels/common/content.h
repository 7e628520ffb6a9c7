/* Bytes that tell their own place: what a file must hold at an offset is computed from the offset alone, so that whoever reads a byte, in
 * whatever decomposition, can tell it.  Knows nothing of patterns or MPI-IO. */
#ifndef CONTENT_H
#define CONTENT_H

#include <stdint.h>

/* The bytes at [offset, offset + size_bytes) of the file numbered `seed`; offsets need not be aligned. */
void content_bytes(unsigned char *buffer, int64_t offset, int64_t size_bytes, uint64_t seed);
/* Bytes that differ from what they must be; adds those that are there to `hash`, whoever they belong to and however they are cut. */
int64_t content_wrong(const unsigned char *buffer, int64_t offset, int64_t size_bytes, uint64_t seed, uint64_t *hash);
/* Checks this rank's contiguous share of the finished file with plain reads, whoever wrote it; rank 0 also checks its size. */
int64_t content_wrong_in_file(const char *path, int64_t file_bytes, uint64_t seed, uint64_t *hash);
/* The same of the whole of a file whose first byte must be the content's at `content_offset`, and of its size. */
int64_t content_wrong_in_own_file(const char *path, int64_t file_bytes, int64_t content_offset, uint64_t seed, uint64_t *hash);

#endif
