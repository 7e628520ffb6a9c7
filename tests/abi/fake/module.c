// A module that keeps its MPI library to itself, as Python's do: linked with it, loaded without adding to the global
// scope.
#include <stdint.h>

intptr_t MPI_File_get_size(intptr_t, intptr_t, intptr_t, intptr_t, intptr_t, intptr_t);

/// Not a tail call, so that the call comes from this module.
intptr_t module_call(intptr_t a, intptr_t b) {
  volatile intptr_t answer = MPI_File_get_size(a, b, 0, 0, 0, 0);
  return answer;
}
