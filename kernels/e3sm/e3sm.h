/* The shapes shared by the files of the climate kernel: requests, decompositions, the mesh, variables.
 * The kernel is a plain MPI program: it knows nothing of what carries its MPI-IO calls out. */
#ifndef E3SM_H
#define E3SM_H

#include "common/program.h"

enum { DIMENSIONS_MAX = 8, NAME_MAX_BYTES = 32 };

/* What one rank holds of a global array, in elements: sorted by offset, not overlapping, neighbours of one kind joined. */
struct requests {
  int64_t count;
  int64_t *offsets;
  int64_t *lengths;
  /* 1 where the elements are not computed by anyone and carry the fill value (ocean points of the land model). */
  int64_t *fill;
};

struct decomposition {
  char name[NAME_MAX_BYTES];
  int dimensions;
  int64_t sizes[DIMENSIONS_MAX];
  int64_t elements;
  struct requests own;
};

struct decompositions {
  int count;
  struct decomposition *list;
};

/* A cubed sphere with 4 x 4 Gauss-Lobatto-Legendre points in each element; points shared by elements are owned once. */
struct mesh {
  int elements_per_edge;
  int64_t elements;
  int64_t columns;
  int64_t *first_column; /* of each element, one more at the end */
  int64_t *curve;        /* elements in the order of the space-filling curve */
  double *position;      /* x, y, z of each column on the unit sphere */
};

enum content { LATITUDE, LONGITUDE, DOMAIN, FIELD };

struct variable {
  char name[NAME_MAX_BYTES];
  enum content content;
  int number; /* among the variables of this content */
  int decomposition;
  int element_bytes;
  int64_t offset_in_record;
};

/* requests.c */
void requests_allocate(struct requests *requests, int64_t count);
void requests_release(struct requests *requests);
/* Sorts by offset and joins neighbours.  Fails when two requests overlap or leave [0, elements). */
void requests_tidy(struct requests *requests, int64_t elements, const char *name);
int64_t requests_elements(const struct requests *requests);
/* What the next rank holds (the last one gets rank 0's).  Collective. */
struct requests requests_of_next_rank(const struct requests *own, MPI_Comm comm);
void decompositions_release(struct decompositions *decompositions);

/* map.c: decompositions from a NetCDF map.  Collective. */
struct decompositions map_read(const char *path, MPI_Comm comm);

/* mesh.c */
struct mesh mesh_make(int elements_per_edge);
void mesh_release(struct mesh *mesh);
struct decompositions mesh_decompositions(const struct mesh *mesh, int levels, int rank, int ranks);
/* The rank whose elements own each column. */
int32_t *mesh_domains(const struct mesh *mesh, int ranks);

/* content.c: bytes that are computed from (variable, global element) alone. */
struct world {
  const struct mesh *mesh;   /* null when the decompositions come from a map */
  const int32_t *domains;    /* null when there is no mesh */
  const struct decompositions *decompositions;
};
/* Writes the elements of `requests` to `buffer`, packed.  Returns the bytes written.  Files that follow one another at the same place have
 * other values for each `record`, so that one is not taken for the other. */
int64_t content_fill(const struct world *world, const struct variable *variable, int record, const struct requests *requests,
                     unsigned char *buffer);
/* A hash of packed elements that does not depend on how they are split over ranks: add the parts. */
uint64_t content_hash(const struct variable *variable, int record, const struct requests *requests,
                      const unsigned char *buffer);

#endif
