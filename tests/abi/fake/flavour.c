// A stand-in for a flavour: every function answers with its own name, or with a sum of its arguments when the first
// is not null. It refers to data of the MPI library, as Open MPI's handles do, so it loads only when that library was
// put in reach.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

#include "preload/front_symbols.h"

extern int native_data;
static void* (*resolver)(const char*);
static intptr_t answer_while_loading;

void penstock_flavour_start(void* (*given)(const char*)) { resolver = given; }

/// What the tests ask about the inside: 1 the MPI's data, 2 and 3 the native functions as the resolver finds them, 4
/// a re-entered call.
static intptr_t inside(intptr_t question) {
  if (question == 1) return native_data;
  if (question == 4) return answer_while_loading;
  intptr_t (*native)(intptr_t) = resolver(question == 2 ? "MPI_File_get_size" : "PMPI_File_get_size");
  return native(0);
}

#define FUNCTION(slot, symbol, missing)                                                                          \
  intptr_t symbol(intptr_t a, intptr_t b, intptr_t c, intptr_t d, intptr_t e, intptr_t f) {                      \
    if (a == -1) return inside(b);                                                                               \
    return a == 0 ? (intptr_t)#symbol : a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f;                               \
  }
PENSTOCK_FRONT_SYMBOLS(FUNCTION)

/// Calls a file function from within the search for the flavour.
__attribute__((constructor)) static void reenter(void) {
  intptr_t (*get_size)(intptr_t) = (intptr_t(*)(intptr_t))dlsym(RTLD_DEFAULT, "MPI_File_get_size");
  if (getenv("FAKE_REENTER") != NULL && get_size != NULL) answer_while_loading = get_size(0);
}
