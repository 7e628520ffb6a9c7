/* A cubed-sphere mesh and its decompositions for any number of ranks.  Pure: knows neither files nor MPI calls.
 *
 * A face of the cube has n = 3 * elements_per_edge intervals each way, because an element has 4 x 4 points and neighbours
 * share their edges.  A point is named by whole numbers (face, a, b), or by its place (x, y, z) on the cube's lattice.
 * Columns are numbered element by element; a point that several elements share belongs to the first of them, so an element
 * brings 16, 12 or 9 new columns, as in the atmosphere model's own numbering. */
#include "e3sm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FACES = 6, POINTS = 4, ELEMENTS_PER_EDGE_MAX = 4096 };

struct lattice_point {
  int x, y, z;
};

/* Faces 0 to 3 go round the equator, 4 is the top, 5 the bottom. */
static struct lattice_point on_cube(int face, int a, int b, int n) {
  switch (face) {
    case 0: return (struct lattice_point){n, a, b};
    case 1: return (struct lattice_point){n - a, n, b};
    case 2: return (struct lattice_point){0, n - a, b};
    case 3: return (struct lattice_point){a, 0, b};
    case 4: return (struct lattice_point){n - b, a, n};
    default: return (struct lattice_point){b, a, 0};
  }
}

static int lies_on(struct lattice_point p, int face, int n) {
  switch (face) {
    case 0: return p.x == n;
    case 1: return p.y == n;
    case 2: return p.x == 0;
    case 3: return p.y == 0;
    case 4: return p.z == n;
    default: return p.z == 0;
  }
}

static int owns(int face, int i, int j, int a, int b, int n) {
  if ((a == 0 && i > 0) || (b == 0 && j > 0)) {
    return 0;
  }
  const struct lattice_point p = on_cube(face, 3 * i + a, 3 * j + b, n);
  for (int lower = 0; lower < face; ++lower) {
    if (lies_on(p, lower, n)) {
      return 0;
    }
  }
  return 1;
}

/* From -1 to 1 along an edge of the cube, equal angles for the elements, Gauss-Lobatto-Legendre points inside them. */
static double along_edge(int whole, int elements_per_edge) {
  static const double inside[POINTS - 1] = {0.0, 0.2763932022500210, 0.7236067977499790};
  const double place = (double)(whole / 3) + inside[whole % 3];
  return tan((place / elements_per_edge * 2.0 - 1.0) * 0.78539816339744830962);
}

static void place(double *position, struct lattice_point p, const double *edge) {
  const double x = edge[p.x];
  const double y = edge[p.y];
  const double z = edge[p.z];
  const double length = sqrt(x * x + y * y + z * z);
  position[0] = x / length;
  position[1] = y / length;
  position[2] = z / length;
}

/* A Hilbert curve over a square of side `size` (a power of two) that begins in the corner (x, y), goes along the unit
 * vector u in the end and has v to its side.  Cells outside the face are left out, so that any size of face can be used:
 * neighbours on the curve are then near each other, though not always adjacent. */
struct walk {
  int cells_per_edge;
  int64_t count;
  int *cells; /* i, j in turn */
};

static void hilbert(struct walk *walk, int size, int x, int y, int ux, int uy, int vx, int vy) {
  if (size == 1) {
    if (x < walk->cells_per_edge && y < walk->cells_per_edge) {
      walk->cells[2 * walk->count] = x;
      walk->cells[2 * walk->count + 1] = y;
      ++walk->count;
    }
    return;
  }
  const int half = size / 2;
  hilbert(walk, half, x, y, vx, vy, ux, uy);
  hilbert(walk, half, x + half * vx, y + half * vy, ux, uy, vx, vy);
  hilbert(walk, half, x + half * (ux + vx), y + half * (uy + vy), ux, uy, vx, vy);
  hilbert(walk, half, x + (size - 1) * ux + (half - 1) * vx, y + (size - 1) * uy + (half - 1) * vy, -vx, -vy, -ux, -uy);
}

/* The faces in an order, and turned, such that the curve leaves each at the corner where it enters the next: a walk that
 * goes from (0, 0) to (ne - 1, 0) is turned by swapping its two directions and by counting them backwards. */
static int64_t *curve_over_faces(int ne) {
  static const struct {
    int face, swap, backwards_i, backwards_j;
  } turns[FACES] = {
      {4, 0, 1, 0}, /* top: from (ne, 0) to (0, 0) */
      {0, 1, 0, 1}, /* from its top left corner down to its bottom left one */
      {5, 0, 0, 1}, /* bottom: from (0, ne) to (ne, ne) */
      {1, 0, 0, 0}, {2, 0, 0, 0}, {3, 0, 0, 0},
  };
  struct walk walk = {ne, 0, allocate(2 * (int64_t)ne * ne, sizeof(int))};
  int size = 1;
  while (size < ne) {
    size *= 2;
  }
  hilbert(&walk, size, 0, 0, 1, 0, 0, 1);
  int64_t *curve = allocate(FACES * walk.count, sizeof *curve);
  int64_t next = 0;
  for (int turn = 0; turn < FACES; ++turn) {
    for (int64_t cell = 0; cell < walk.count; ++cell) {
      int i = walk.cells[2 * cell + (turns[turn].swap ? 1 : 0)];
      int j = walk.cells[2 * cell + (turns[turn].swap ? 0 : 1)];
      i = turns[turn].backwards_i ? ne - 1 - i : i;
      j = turns[turn].backwards_j ? ne - 1 - j : j;
      curve[next++] = ((int64_t)turns[turn].face * ne + j) * ne + i;
    }
  }
  free(walk.cells);
  return curve;
}

struct mesh mesh_make(int elements_per_edge) {
  const int ne = elements_per_edge;
  if (ne < 1 || ne > ELEMENTS_PER_EDGE_MAX) {
    fail("--ne %d: 1 to %d elements per edge of the cube were expected", ne, ELEMENTS_PER_EDGE_MAX);
  }
  const int n = 3 * ne;
  struct mesh mesh;
  mesh.elements_per_edge = ne;
  mesh.elements = FACES * (int64_t)ne * ne;
  mesh.columns = FACES * (int64_t)n * n + 2;
  mesh.first_column = allocate(mesh.elements + 1, sizeof(int64_t));
  mesh.position = allocate(3 * mesh.columns, sizeof(double));
  mesh.curve = curve_over_faces(ne);
  double *edge = allocate(n + 1, sizeof *edge);
  for (int whole = 0; whole <= n; ++whole) {
    edge[whole] = along_edge(whole, ne);
  }
  int64_t next = 0;
  for (int64_t element = 0; element < mesh.elements; ++element) {
    const int face = (int)(element / ((int64_t)ne * ne));
    const int j = (int)(element / ne % ne);
    const int i = (int)(element % ne);
    mesh.first_column[element] = next;
    for (int point = 0; point < POINTS * POINTS; ++point) {
      const int a = point % POINTS;
      const int b = point / POINTS;
      if (owns(face, i, j, a, b, n)) {
        place(&mesh.position[3 * next++], on_cube(face, 3 * i + a, 3 * j + b, n), edge);
      }
    }
  }
  mesh.first_column[mesh.elements] = next;
  if (next != mesh.columns) {
    fail("the mesh has %lld columns, %lld were expected: the numbering of shared points is wrong", (long long)next,
         (long long)mesh.columns);
  }
  free(edge);
  return mesh;
}

void mesh_release(struct mesh *mesh) {
  free(mesh->first_column);
  free(mesh->position);
  free(mesh->curve);
  memset(mesh, 0, sizeof *mesh);
}

static int64_t columns_of(const struct mesh *mesh, int64_t element) {
  return mesh->first_column[element + 1] - mesh->first_column[element];
}

/* Dynamics: whole elements, a contiguous part of the curve for each rank. */
static struct requests dynamics_columns(const struct mesh *mesh, int rank, int ranks) {
  const int64_t first = mesh->elements * rank / ranks;
  const int64_t after = mesh->elements * (rank + 1) / ranks;
  struct requests requests;
  requests_allocate(&requests, after - first);
  for (int64_t i = first; i < after; ++i) {
    requests.offsets[i - first] = mesh->first_column[mesh->curve[i]];
    requests.lengths[i - first] = columns_of(mesh, mesh->curve[i]);
    requests.fill[i - first] = 0;
  }
  requests_tidy(&requests, mesh->columns, "dynamics");
  return requests;
}

/* Physics: columns that follow each other on the curve go to different ranks in turn, which evens out day and night. */
static struct requests physics_columns(const struct mesh *mesh, int rank, int ranks) {
  struct requests requests;
  requests_allocate(&requests, mesh->columns / ranks + 1);
  int64_t count = 0;
  int64_t passed = 0;
  for (int64_t i = 0; i < mesh->elements; ++i) {
    const int64_t element = mesh->curve[i];
    for (int64_t column = mesh->first_column[element]; column < mesh->first_column[element + 1]; ++column, ++passed) {
      if (passed % ranks == rank) {
        requests.offsets[count] = column;
        requests.lengths[count] = 1;
        requests.fill[count] = 0;
        ++count;
      }
    }
  }
  requests.count = count;
  requests_tidy(&requests, mesh->columns, "physics");
  return requests;
}

/* The same columns on every level of an array (levels, columns). */
static struct requests on_levels(const struct requests *columns, int levels, int64_t columns_all) {
  struct requests requests;
  requests_allocate(&requests, columns->count * levels);
  for (int level = 0; level < levels; ++level) {
    for (int64_t i = 0; i < columns->count; ++i) {
      const int64_t at = level * columns->count + i;
      requests.offsets[at] = level * columns_all + columns->offsets[i];
      requests.lengths[at] = columns->lengths[i];
      requests.fill[at] = 0;
    }
  }
  requests_tidy(&requests, levels * columns_all, "levels");
  return requests;
}

struct decompositions mesh_decompositions(const struct mesh *mesh, int levels, int rank, int ranks) {
  static const char *const names[4] = {"physics_2d", "physics_3d", "dynamics_2d", "dynamics_3d"};
  struct decompositions result = {4, allocate(4, sizeof(struct decomposition))};
  for (int i = 0; i < result.count; i += 2) {
    struct decomposition *flat = &result.list[i];
    struct decomposition *deep = &result.list[i + 1];
    memset(flat, 0, 2 * sizeof *flat);
    memcpy(flat->name, names[i], strlen(names[i]) + 1);
    memcpy(deep->name, names[i + 1], strlen(names[i + 1]) + 1);
    flat->own = i == 0 ? physics_columns(mesh, rank, ranks) : dynamics_columns(mesh, rank, ranks);
    flat->dimensions = 1;
    flat->sizes[0] = mesh->columns;
    flat->elements = mesh->columns;
    deep->own = on_levels(&flat->own, levels, mesh->columns);
    deep->dimensions = 2;
    deep->sizes[0] = levels;
    deep->sizes[1] = mesh->columns;
    deep->elements = levels * mesh->columns;
  }
  return result;
}

int32_t *mesh_domains(const struct mesh *mesh, int ranks) {
  int32_t *domains = allocate(mesh->columns, sizeof *domains);
  for (int rank = 0; rank < ranks; ++rank) {
    for (int64_t i = mesh->elements * rank / ranks; i < mesh->elements * (rank + 1) / ranks; ++i) {
      const int64_t element = mesh->curve[i];
      for (int64_t column = mesh->first_column[element]; column < mesh->first_column[element + 1]; ++column) {
        domains[column] = rank;
      }
    }
  }
  return domains;
}
