/* Lists of requests: order, join, exchange.  Knows nothing of files. */
#include "e3sm.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

void requests_allocate(struct requests *requests, int64_t count) {
  requests->count = count;
  requests->offsets = allocate(count, sizeof(int64_t));
  requests->lengths = allocate(count, sizeof(int64_t));
  requests->fill = allocate(count, sizeof(int64_t));
}

void requests_release(struct requests *requests) {
  free(requests->offsets);
  free(requests->lengths);
  free(requests->fill);
  memset(requests, 0, sizeof *requests);
}

struct request {
  int64_t offset, length, fill;
};

static int by_offset(const void *left, const void *right) {
  const int64_t a = ((const struct request *)left)->offset;
  const int64_t b = ((const struct request *)right)->offset;
  return (a > b) - (a < b);
}

void requests_tidy(struct requests *requests, int64_t elements, const char *name) {
  struct request *sorted = allocate(requests->count, sizeof *sorted);
  for (int64_t i = 0; i < requests->count; ++i) {
    sorted[i] = (struct request){requests->offsets[i], requests->lengths[i], requests->fill[i]};
  }
  qsort(sorted, (size_t)requests->count, sizeof *sorted, by_offset);
  int64_t kept = 0;
  int64_t end = 0;
  for (int64_t i = 0; i < requests->count; ++i) {
    const struct request next = sorted[i];
    if (next.length < 0 || next.offset < 0 || next.offset > elements - next.length) {
      fail("decomposition %s: request at %lld of %lld elements leaves the array of %lld elements", name,
           (long long)next.offset, (long long)next.length, (long long)elements);
    }
    if (next.length == 0) {
      continue;
    }
    if (next.offset < end) {
      fail("decomposition %s: element %lld is requested twice by one rank; a view must not repeat bytes", name,
           (long long)next.offset);
    }
    const int joins = kept > 0 && next.offset == end && next.fill == requests->fill[kept - 1];
    if (joins) {
      requests->lengths[kept - 1] += next.length;
    } else {
      requests->offsets[kept] = next.offset;
      requests->lengths[kept] = next.length;
      requests->fill[kept] = next.fill;
      ++kept;
    }
    end = next.offset + next.length;
  }
  requests->count = kept;
  free(sorted);
}

int64_t requests_elements(const struct requests *requests) {
  int64_t elements = 0;
  for (int64_t i = 0; i < requests->count; ++i) {
    elements += requests->lengths[i];
  }
  return elements;
}

struct requests requests_of_next_rank(const struct requests *own, MPI_Comm comm) {
  int rank = 0;
  int ranks = 1;
  CHECK(MPI_Comm_rank(comm, &rank), "communicator");
  CHECK(MPI_Comm_size(comm, &ranks), "communicator");
  const int next = (rank + 1) % ranks;
  const int previous = (rank + ranks - 1) % ranks;
  int64_t count = 0;
  CHECK(MPI_Sendrecv(&own->count, 1, MPI_INT64_T, previous, 0, &count, 1, MPI_INT64_T, next, 0, comm, MPI_STATUS_IGNORE),
        "exchange of request counts");
  if (own->count > INT_MAX || count > INT_MAX) {
    fail("more than %d requests of one rank cannot be sent in one message; use more ranks", INT_MAX);
  }
  struct requests received;
  requests_allocate(&received, count);
  int64_t *const send[3] = {own->offsets, own->lengths, own->fill};
  int64_t *const receive[3] = {received.offsets, received.lengths, received.fill};
  for (int part = 0; part < 3; ++part) {
    CHECK(MPI_Sendrecv(send[part], (int)own->count, MPI_INT64_T, previous, part + 1, receive[part], (int)count, MPI_INT64_T,
                       next, part + 1, comm, MPI_STATUS_IGNORE),
          "exchange of requests");
  }
  return received;
}

void decompositions_release(struct decompositions *decompositions) {
  for (int i = 0; i < decompositions->count; ++i) {
    requests_release(&decompositions->list[i].own);
  }
  free(decompositions->list);
  decompositions->list = NULL;
  decompositions->count = 0;
}
