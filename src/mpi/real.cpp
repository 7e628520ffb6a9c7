// Finds the native MPI library's functions.  Knows the loader, and the names MPI libraries of this ABI are loaded
// under.  In the archive that programs link (PENSTOCK_STATIC) the linker has found them already.
#include "mpi/real.h"

#include <dlfcn.h>

#include <string_view>

#ifdef PENSTOCK_STATIC

#include "mpi/static_names.h"  // generated: PENSTOCK_STATIC_SYMBOLS

// What the linker's --wrap calls the native function; null where this MPI library lacks it.
#define REQUIRED(symbol) extern "C" void __real_##symbol();
#define OPTIONAL(symbol) extern "C" __attribute__((weak)) void __real_##symbol();
PENSTOCK_STATIC_SYMBOLS(REQUIRED, OPTIONAL)

// Functions besides those of files, under names of ours: mpi.h may have declared them.
#if MPI_VERSION >= 4
extern "C" void native_get_envelope_c() __asm__("PMPI_Type_get_envelope_c");
extern "C" void native_get_contents_c() __asm__("PMPI_Type_get_contents_c");
#else
extern "C" __attribute__((weak)) void native_get_envelope_c() __asm__("PMPI_Type_get_envelope_c");
extern "C" __attribute__((weak)) void native_get_contents_c() __asm__("PMPI_Type_get_contents_c");
#endif
extern "C" void native_grequest_start() __asm__("PMPIX_Grequest_start");
extern "C" void native_create_code() __asm__("MPIR_Err_create_code");

namespace penstock::mpi {
namespace {

struct Named {
  std::string_view name;
  void (*function)();
};

#define NAMED(symbol) {#symbol, &__real_##symbol},
const Named kLinked[] = {
    PENSTOCK_STATIC_SYMBOLS(NAMED, NAMED)
    {"PMPI_Type_get_envelope_c", &native_get_envelope_c},
    {"PMPI_Type_get_contents_c", &native_get_contents_c},
    {"PMPIX_Grequest_start", &native_grequest_start},
    {"MPIR_Err_create_code", &native_create_code},
};

}  // namespace

void* real_symbol(const char* name) {
  for (const Named& linked : kLinked)
    if (linked.name == name) return reinterpret_cast<void*>(linked.function);
  return nullptr;
}

}  // namespace penstock::mpi

#else

namespace penstock::mpi {
namespace {

using Resolver = void* (*)(const char*);

std::atomic<Resolver> front_resolver{nullptr};

/// Libraries of the ABI that this flavour is built for, by the names that they are loaded under.
constexpr const char* kLibraryNames[] = {
#if defined(PENSTOCK_FLAVOUR_OMPI)
    "libmpi.so.40",
#elif defined(PENSTOCK_FLAVOUR_ABI)
    "libmpi_abi.so.1", "libmpi_abi.so.0",
#else
    "libmpi.so.12",    "libmpich.so.12",
#endif
};

bool is_ours(const void* symbol) {
  Dl_info ours{};
  Dl_info theirs{};
  return dladdr(&front_resolver, &ours) != 0 && dladdr(symbol, &theirs) != 0 && ours.dli_fbase == theirs.dli_fbase;
}

void* not_ours(void* symbol) { return symbol != nullptr && !is_ours(symbol) ? symbol : nullptr; }

/// The MPI library that a module keeps to itself (Python's do) is in no scope we can see; by its name it is found.
void* from_loaded_library(const char* name) {
  for (const char* library : kLibraryNames) {
    void* handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
    if (handle == nullptr) continue;
    void* symbol = not_ours(dlsym(handle, name));
    dlclose(handle);  // gives back the reference that dlopen took; whoever loaded the library keeps it
    if (symbol != nullptr) return symbol;
  }
  return nullptr;
}

}  // namespace

void* real_symbol(const char* name) {
  // The front knows which MPI library is meant when there are several; only without it do we look ourselves.
  const Resolver resolver = front_resolver.load(std::memory_order_acquire);
  void* symbol = not_ours(resolver != nullptr ? resolver(name) : dlsym(RTLD_NEXT, name));
  return symbol != nullptr ? symbol : from_loaded_library(name);
}

}  // namespace penstock::mpi

/// The front (libpenstock.so) tells how it finds native functions, before any other call.
extern "C" __attribute__((visibility("default"))) void penstock_flavour_start(void* (*resolver)(const char*)) {
  penstock::mpi::front_resolver.store(resolver, std::memory_order_release);
}

#endif

namespace penstock::mpi {

namespace {
thread_local int native_depth = 0;
}  // namespace

bool inside_native_call() { return native_depth > 0; }

NativeCall::NativeCall() { ++native_depth; }
NativeCall::~NativeCall() { --native_depth; }

int unsupported_by_native(MPI_File native) {
  static constinit RealFunction<int(MPI_File, int)> call_errhandler("MPI_File_call_errhandler");
  if (call_errhandler.exists()) call_errhandler(native, MPI_ERR_UNSUPPORTED_OPERATION);
  return MPI_ERR_UNSUPPORTED_OPERATION;
}

}  // namespace penstock::mpi
