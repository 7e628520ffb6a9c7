// A stand-in for an MPI library: the marks that the front looks for, a few file functions, and data that a flavour
// refers to. FAMILY_MARK is the symbol that tells the family; ANSWER tells one library from another.
#include <stdint.h>

int FAMILY_MARK = 1;
int native_data = ANSWER;

int PMPI_Init(int* argc, char*** argv) { return 0; }
intptr_t MPI_File_get_size(intptr_t a) { return ANSWER; }
intptr_t PMPI_File_get_size(intptr_t a) { return ANSWER + 1; }
intptr_t MPI_File_f2c(intptr_t a) { return ANSWER + 2; }
