// Finds the native MPI library's functions.  Knows the loader, and the names MPI libraries of this ABI are loaded
// under.
#include "mpi/real.h"

#include <dlfcn.h>

namespace penstock::mpi {
namespace {

using Resolver = void* (*)(const char*);

std::atomic<Resolver> front_resolver{nullptr};
thread_local int native_depth = 0;

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

bool inside_native_call() { return native_depth > 0; }

NativeCall::NativeCall() { ++native_depth; }
NativeCall::~NativeCall() { --native_depth; }

int unsupported_by_native(MPI_File native) {
  static constinit RealFunction<int(MPI_File, int)> call_errhandler("MPI_File_call_errhandler");
  if (call_errhandler.exists()) call_errhandler(native, MPI_ERR_UNSUPPORTED_OPERATION);
  return MPI_ERR_UNSUPPORTED_OPERATION;
}

}  // namespace penstock::mpi

/// The front (libpenstock.so) tells how it finds native functions, before any other call.
extern "C" __attribute__((visibility("default"))) void penstock_flavour_start(void* (*resolver)(const char*)) {
  penstock::mpi::front_resolver.store(resolver, std::memory_order_release);
}
