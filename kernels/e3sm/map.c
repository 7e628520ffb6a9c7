/* Reads a decomposition map (NetCDF) on rank 0 and deals its requests out to the ranks that there are.
 * Rank 0 reads with the serial NetCDF library and scatters each rank's share: a parallel reader such as PnetCDF is
 * packaged for one MPI only, while this works under every one, and the maps are small. */
#include "e3sm.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef E3SM_NETCDF
#include <netcdf.h>

static void check_netcdf(int code, const char *path, const char *what) {
  if (code != NC_NOERR) {
    fail("%s: %s: %s; a decomposition map with D1.nreqs, D1.offsets, D1.lengths and the attribute D1.dims was expected", path,
         what, nc_strerror(code));
  }
}

static int64_t dimension(int file, const char *path, const char *name) {
  int id = 0;
  size_t length = 0;
  check_netcdf(nc_inq_dimid(file, name, &id), path, name);
  check_netcdf(nc_inq_dimlen(file, id, &length), path, name);
  return (int64_t)length;
}

static int *integers(int file, const char *path, int number, const char *field, int64_t count) {
  char name[64];
  snprintf(name, sizeof name, "D%d.%s", number, field);
  int id = 0;
  check_netcdf(nc_inq_varid(file, name, &id), path, name);
  int dimensions = 0;
  int dimension_id = 0;
  size_t length = 0;
  check_netcdf(nc_inq_varndims(file, id, &dimensions), path, name);
  if (dimensions != 1) {
    fail("%s: %s has %d dimensions, 1 was expected", path, name, dimensions);
  }
  check_netcdf(nc_inq_vardimid(file, id, &dimension_id), path, name);
  check_netcdf(nc_inq_dimlen(file, dimension_id, &length), path, name);
  if ((int64_t)length != count) {
    fail("%s: %s has %zu values, %lld were expected", path, name, length, (long long)count);
  }
  int *values = allocate(count, sizeof *values);
  check_netcdf(nc_get_var_int(file, id, values), path, name);
  return values;
}

static void read_sizes(int file, const char *path, int number, struct decomposition *decomposition) {
  char name[64];
  size_t length = 0;
  int values[DIMENSIONS_MAX];
  snprintf(name, sizeof name, "D%d.dims", number);
  check_netcdf(nc_inq_attlen(file, NC_GLOBAL, name, &length), path, name);
  if (length == 0 || length > DIMENSIONS_MAX) {
    fail("%s: %s has %zu dimensions, 1 to %d were expected", path, name, length, DIMENSIONS_MAX);
  }
  check_netcdf(nc_get_att_int(file, NC_GLOBAL, name, values), path, name);
  decomposition->dimensions = (int)length;
  decomposition->elements = 1;
  for (size_t i = 0; i < length; ++i) {
    if (values[i] <= 0) {
      fail("%s: %s: dimension %zu is %d, a positive size was expected", path, name, i, values[i]);
    }
    decomposition->sizes[i] = values[i];
    if (decomposition->elements > INT64_MAX / values[i]) {
      fail("%s: %s: the number of elements overflows 64 bits", path, name);
    }
    decomposition->elements *= values[i];
  }
}

/* The requests of all lists in one row, and where each list begins (one more at the end). */
struct lists {
  int count;
  int64_t *starts;
  struct requests all;
};

static struct lists read_lists(int file, const char *path, int number) {
  struct lists lists;
  char name[64];
  snprintf(name, sizeof name, "D%d.total_nreqs", number);
  const int64_t total = dimension(file, path, name);
  lists.count = (int)dimension(file, path, "decomp_nprocs");
  int *counts = integers(file, path, number, "nreqs", lists.count);
  int *fill_starts = integers(file, path, number, "fill_starts", lists.count);
  int *offsets = integers(file, path, number, "offsets", total);
  int *lengths = integers(file, path, number, "lengths", total);
  lists.starts = allocate(lists.count + 1, sizeof(int64_t));
  requests_allocate(&lists.all, total);
  int64_t next = 0;
  for (int list = 0; list < lists.count; ++list) {
    lists.starts[list] = next;
    if (counts[list] < 0 || next + counts[list] > total) {
      fail("%s: D%d.nreqs[%d] is %d: the requests of all ranks add up to more than the %lld in the file", path, number, list,
           counts[list], (long long)total);
    }
    for (int64_t i = 0; i < counts[list]; ++i) {
      lists.all.offsets[next + i] = offsets[next + i];
      lists.all.lengths[next + i] = lengths[next + i];
      lists.all.fill[next + i] = i >= fill_starts[list];
    }
    next += counts[list];
  }
  lists.starts[lists.count] = next;
  lists.all.count = next;
  free(counts);
  free(fill_starts);
  free(offsets);
  free(lengths);
  return lists;
}

/* Two ranks that write one element would make the file depend on who comes last. */
static void refuse_overlaps(const struct lists *lists, const struct decomposition *decomposition) {
  struct requests copy;
  requests_allocate(&copy, lists->all.count);
  memcpy(copy.offsets, lists->all.offsets, (size_t)copy.count * sizeof(int64_t));
  memcpy(copy.lengths, lists->all.lengths, (size_t)copy.count * sizeof(int64_t));
  memcpy(copy.fill, lists->all.fill, (size_t)copy.count * sizeof(int64_t));
  requests_tidy(&copy, decomposition->elements, decomposition->name);
  requests_release(&copy);
}

/* Where rank `rank` begins in the row: whole lists in blocks when there are more lists than ranks, otherwise each list is
 * shared by the ranks that fall on it, in blocks of requests. */
static int64_t share_start(const struct lists *lists, int rank, int ranks) {
  if (rank >= ranks) {
    return lists->starts[lists->count];
  }
  if (ranks <= lists->count) {
    return lists->starts[(int64_t)rank * lists->count / ranks];
  }
  const int64_t list = (int64_t)rank * lists->count / ranks;
  const int64_t first = (list * ranks + lists->count - 1) / lists->count;
  const int64_t after = ((list + 1) * ranks + lists->count - 1) / lists->count;
  const int64_t length = lists->starts[list + 1] - lists->starts[list];
  return lists->starts[list] + length * (rank - first) / (after - first);
}

static void scatter(const struct lists *lists, struct decomposition *decomposition, MPI_Comm comm) {
  int rank = 0;
  int ranks = 1;
  CHECK(MPI_Comm_rank(comm, &rank), "communicator");
  CHECK(MPI_Comm_size(comm, &ranks), "communicator");
  int *counts = allocate(ranks, sizeof *counts);
  int *displacements = allocate(ranks, sizeof *displacements);
  for (int i = 0; rank == 0 && i < ranks; ++i) {
    displacements[i] = (int)share_start(lists, i, ranks);
    counts[i] = (int)share_start(lists, i + 1, ranks) - displacements[i];
  }
  int count = 0;
  CHECK(MPI_Scatter(counts, 1, MPI_INT, &count, 1, MPI_INT, 0, comm), "scatter of request counts");
  requests_allocate(&decomposition->own, count);
  const int64_t *const send[3] = {lists->all.offsets, lists->all.lengths, lists->all.fill};
  int64_t *const receive[3] = {decomposition->own.offsets, decomposition->own.lengths, decomposition->own.fill};
  for (int part = 0; part < 3; ++part) {
    CHECK(MPI_Scatterv(send[part], counts, displacements, MPI_INT64_T, receive[part], count, MPI_INT64_T, 0, comm),
          "scatter of requests");
  }
  requests_tidy(&decomposition->own, decomposition->elements, decomposition->name);
  free(counts);
  free(displacements);
}

struct decompositions map_read(const char *path, MPI_Comm comm) {
  int rank = 0;
  CHECK(MPI_Comm_rank(comm, &rank), "communicator");
  int file = 0;
  struct decompositions decompositions = {0, NULL};
  if (rank == 0) {
    check_netcdf(nc_open(path, NC_NOWRITE, &file), path, "open");
    decompositions.count = (int)dimension(file, path, "num_decomp");
  }
  CHECK(MPI_Bcast(&decompositions.count, 1, MPI_INT, 0, comm), path);
  decompositions.list = allocate(decompositions.count, sizeof *decompositions.list);
  for (int i = 0; i < decompositions.count; ++i) {
    struct decomposition *decomposition = &decompositions.list[i];
    struct lists lists = {0, NULL, {0, NULL, NULL, NULL}};
    memset(decomposition, 0, sizeof *decomposition);
    snprintf(decomposition->name, sizeof decomposition->name, "D%d", i + 1);
    if (rank == 0) {
      read_sizes(file, path, i + 1, decomposition);
      lists = read_lists(file, path, i + 1);
      if (lists.all.count > INT_MAX) {
        fail("%s: D%d has %lld requests; at most %d can be scattered", path, i + 1, (long long)lists.all.count, INT_MAX);
      }
      refuse_overlaps(&lists, decomposition);
    }
    CHECK(MPI_Bcast(decomposition, (int)sizeof *decomposition, MPI_BYTE, 0, comm), path);
    scatter(&lists, decomposition, comm);
    requests_release(&lists.all);
    free(lists.starts);
  }
  if (rank == 0) {
    check_netcdf(nc_close(file), path, "close");
  }
  return decompositions;
}

#else

struct decompositions map_read(const char *path, MPI_Comm comm) {
  (void)comm;
  fail("%s: this kernel was built without NetCDF and cannot read maps; install libnetcdf-dev and build again, or leave --map "
       "out to use the cubed-sphere mesh",
       path);
}

#endif
