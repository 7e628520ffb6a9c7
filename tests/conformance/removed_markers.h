/* Lets programs that mark the bounds of a struct type with MPI_LB and MPI_UB compile where mpi.h no longer has these (they left the
   standard with MPI-3.0): the markers are taken out and their displacements become the bounds of a resized type. */
#include <mpi.h>
#undef MPI_LB
#undef MPI_UB
static char penstock_lower_marker, penstock_upper_marker;
#define MPI_LB ((MPI_Datatype)&penstock_lower_marker)
#define MPI_UB ((MPI_Datatype)&penstock_upper_marker)
#define MPI_Type_create_struct penstock_create_struct

static int penstock_create_struct(int count, const int* lengths, const MPI_Aint* displacements, const MPI_Datatype* types, MPI_Datatype* made) {
  int kept_lengths[16], kept = 0, has_lower = 0, has_upper = 0;
  MPI_Aint kept_displacements[16], lower = 0, upper = 0, extent = 0;
  MPI_Datatype kept_types[16], inner;
  if (count > 16) return MPI_ERR_COUNT;
  for (int i = 0; i < count; ++i) {
    if (types[i] == MPI_LB) {
      lower = displacements[i];
      has_lower = 1;
    } else if (types[i] == MPI_UB) {
      upper = displacements[i];
      has_upper = 1;
    } else {
      kept_lengths[kept] = lengths[i];
      kept_displacements[kept] = displacements[i];
      kept_types[kept++] = types[i];
    }
  }
  int failed = PMPI_Type_create_struct(kept, kept_lengths, kept_displacements, kept_types, &inner);
  if (failed != MPI_SUCCESS) return failed;
  MPI_Aint found = 0;
  PMPI_Type_get_extent(inner, &found, &extent);
  if (!has_lower) lower = found;
  if (!has_upper) upper = found + extent;
  failed = PMPI_Type_create_resized(inner, lower, upper - lower, made);
  PMPI_Type_free(&inner);
  return failed;
}
