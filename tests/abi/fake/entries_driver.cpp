// Calls entry points on handles of each sort and checks who was asked.  Prints what was not as expected; exit 1 when
// anything was.
#include <dlfcn.h>
#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <string>

#include "mpi/calls.h"
#include "mpi/handles.h"
#include "mpi/real.h"

extern std::string last_native;
extern MPI_File last_handle;
extern MPI_Count last_native_count;
extern int last_error_seen;

std::string last_call;      // noted by the generated stand-ins for src/mpi
MPI_Count last_call_count;  // likewise
MPI_Count extent_to_give;
bool extent_was_null;

extern "C" {
void penstock_flavour_start(void* (*resolver)(const char*));
int MPI_File_read_c(MPI_File, void*, MPI_Count, MPI_Datatype, MPI_Status*);
int MPI_File_write_at_c(MPI_File, MPI_Offset, const void*, MPI_Count, MPI_Datatype, MPI_Status*);
int MPI_File_get_type_extent_c(MPI_File, MPI_Datatype, MPI_Count*);
MPI_File MPI_File_f2c(MPI_Fint);
int MPI_Register_datarep_c(const char*, penstock::mpi::calls::LargeConversionFunction*,
                           penstock::mpi::calls::LargeConversionFunction*, MPI_Datarep_extent_function*, void*);
}

PENSTOCK_OPTIONAL_MPI(native_extent, "MPI_File_get_type_extent", int(MPI_File, MPI_Datatype, MPI_Aint*));
PENSTOCK_OPTIONAL_MPI(native_envelope_c, "PMPI_Type_get_envelope_c", int(MPI_Datatype, MPI_Count*));

namespace {

MPI_File handle(std::uintptr_t value) { return reinterpret_cast<MPI_File>(value); }
const MPI_File ours = handle(0x10), forwarding = handle(0x20), foreign = handle(0x30), behind = handle(0x40);
constexpr MPI_Count huge = MPI_Count{1} << 40;
int failures = 0;

#define EXPECT(got, expected)                                                       \
  do {                                                                              \
    if (!((got) == (expected))) {                                                   \
      std::printf("line %d: %s is not %s\n", __LINE__, #got, #expected);            \
      ++failures;                                                                   \
    }                                                                               \
  } while (false)

void forget() {
  last_call.clear();
  last_native.clear();
  last_handle = nullptr;
  last_call_count = last_native_count = 0;
  last_error_seen = 0;
}

void* resolve(const char* name) { return dlsym(RTLD_DEFAULT, (std::string("native_") + name).c_str()); }

void files_of_ours() {
  forget();
  EXPECT(MPI_File_read(ours, nullptr, 5, 0, nullptr), MPI_SUCCESS);
  EXPECT(last_call, "read");
  EXPECT(last_call_count, 5);
  forget();
  PMPI_File_read(ours, nullptr, -1, 0, nullptr);
  EXPECT(last_call, "read");
  EXPECT(last_call_count, -1);
  MPI_File_read_c(ours, nullptr, huge, 0, nullptr);
  EXPECT(last_call_count, huge);
  EXPECT(last_native, "");
}

void foreign_files() {
  forget();
  MPI_File_read(foreign, nullptr, 5, 0, nullptr);
  EXPECT(last_native, "MPI_File_read");
  EXPECT(last_handle, foreign);
  PMPI_File_read(foreign, nullptr, 6, 0, nullptr);
  EXPECT(last_native, "PMPI_File_read");
  EXPECT(last_native_count, 6);
  EXPECT(last_call, "");
}

void forwarding_files() {
  forget();
  MPI_File_read(forwarding, nullptr, 5, 0, nullptr);
  EXPECT(last_native, "MPI_File_read");
  EXPECT(last_handle, behind);
  EXPECT(last_call, "");
}

void large_counts_on_a_native_library() {
  forget();
  EXPECT(MPI_File_write_at_c(foreign, 0, nullptr, huge, 0, nullptr), MPI_SUCCESS);
  EXPECT(last_native, "MPI_File_write_at_c");
  EXPECT(last_native_count, huge);
  EXPECT(MPI_File_read_c(forwarding, nullptr, 7, 0, nullptr), MPI_SUCCESS);
  EXPECT(last_native, "MPI_File_read");
  EXPECT(last_native_count, 7);
  EXPECT(last_handle, behind);
  forget();
  EXPECT(MPI_File_read_c(forwarding, nullptr, huge, 0, nullptr), MPI_ERR_UNSUPPORTED_OPERATION);
  EXPECT(last_native, "MPI_File_call_errhandler");
  EXPECT(last_error_seen, MPI_ERR_UNSUPPORTED_OPERATION);
  EXPECT(last_handle, behind);
}

void a_function_that_the_native_library_lacks() {
  forget();
  EXPECT(MPI_File_seek(foreign, 0, 0), MPI_ERR_UNSUPPORTED_OPERATION);
  EXPECT(last_native, "MPI_File_call_errhandler");
}

void optional_functions() {
  MPI_Aint extent = 0;
  EXPECT(native_envelope_c.exists(), false);
  EXPECT(native_extent.exists(), true);
  EXPECT(native_extent(foreign, 0, &extent), MPI_SUCCESS);
  EXPECT(extent, 24);
}

void extents() {
  MPI_Aint plain = 0;
  MPI_Count large = 0;
  extent_to_give = 12;
  EXPECT(MPI_File_get_type_extent(ours, 0, &plain), MPI_SUCCESS);
  EXPECT(plain, 12);
  extent_to_give = huge;
  MPI_File_get_type_extent(ours, 0, &plain);
  EXPECT(plain, MPI_UNDEFINED);
  MPI_File_get_type_extent_c(ours, 0, &large);
  EXPECT(large, huge);
  extent_was_null = false;
  MPI_File_get_type_extent(ours, 0, nullptr);
  EXPECT(extent_was_null, true);
  EXPECT(MPI_File_get_type_extent_c(foreign, 0, &large), MPI_SUCCESS);
  EXPECT(large, 24);
}

void opening_and_closing() {
  forget();
  MPI_File_open(0, "a", 0, 0, nullptr);
  EXPECT(last_call, "open");
  forget();
  MPI_File_sync(foreign);  // opens a file inside the native library
  EXPECT(last_native, "MPI_File_open");
  EXPECT(last_call, "");
  MPI_File_open(0, "a", 0, 0, nullptr);
  EXPECT(last_call, "open");
  for (const MPI_File each : {ours, forwarding}) {
    forget();
    MPI_File fh = each;
    MPI_File_close(&fh);
    EXPECT(last_call, "close");
    EXPECT(last_native, "");
  }
  forget();
  MPI_File fh = foreign;
  MPI_File_close(&fh);
  EXPECT(last_native, "MPI_File_close");
  EXPECT(last_call, "");
  MPI_File_close(nullptr);
  EXPECT(last_call, "close");
}

void handle_conversion() {
  forget();
  EXPECT(MPI_File_c2f(foreign), 99);
  EXPECT(last_call, "");
  MPI_File_c2f(forwarding);
  EXPECT(last_call, "c2f");
  MPI_File_f2c(1);
  EXPECT(last_call, "f2c");
  MPI_Register_datarep_c("r", nullptr, nullptr, nullptr, nullptr);
  EXPECT(last_call, "register_datarep_c");
}

}  // namespace

/// Stands for src/mpi: `forwarding` stands for the native file `behind`; null is served by us.
bool penstock::mpi::native_of(MPI_File fh, MPI_File* native) {
  if (fh == ours || fh == nullptr) return false;
  *native = fh == forwarding ? behind : fh;
  return true;
}

int main() {
  penstock_flavour_start(resolve);
  files_of_ours();
  foreign_files();
  forwarding_files();
  large_counts_on_a_native_library();
  a_function_that_the_native_library_lacks();
  optional_functions();
  extents();
  opening_and_closing();
  handle_conversion();
  return failures == 0 ? 0 : 1;
}
