// The native MPI library's functions, found by name when they are first needed.  Knows no file, no handle and no
// datatype.
//
// Our own MPI_File_* and PMPI_File_* stand in front of the native ones, so calling those by their plain names would
// come back to us: whoever wants the native function asks here.  Functions that some MPI libraries lack (large-count
// forms, extensions) are asked for here too, because a reference that cannot be bound would end the program at the
// first call.
#pragma once

#include <mpi.h>

#include <atomic>
#include <utility>

namespace penstock::mpi {

/// The native function called `name`, or null.  What stands behind us in the preload order comes first (a profiling
/// tool), then the MPI library itself, whether or not it is in the global scope.  Never one of our own.  Local; from
/// any thread; not cached.
void* real_symbol(const char* name);

/// True while this thread is inside a native function that was called through RealFunction.  Then an MPI_File_open
/// that arrives here comes from the native library, or from a tool behind us, and belongs to it.
bool inside_native_call();

/// Ends a call that the native library has no function for: its error handler for `native` sees
/// MPI_ERR_UNSUPPORTED_OPERATION. Returns that class.
int unsupported_by_native(MPI_File native);

/// Marks this thread as being inside a native function for as long as it lives.
class NativeCall {
 public:
  NativeCall();
  ~NativeCall();
  NativeCall(const NativeCall&) = delete;
  NativeCall& operator=(const NativeCall&) = delete;
};

template <typename Signature>
class RealFunction;

/// A native function that may be missing: `static constinit RealFunction<int(MPI_Datatype, MPI_Count*)> size_c("PMPI_Type_size_c");`
/// `if (size_c.exists()) size_c(datatype, &size);`  Looked up at the first use and kept.  Thread rule: any, concurrently.
template <typename Returned, typename... Arguments>
class RealFunction<Returned(Arguments...)> {
 public:
  /// Requires: `name` lives as long as the program.
  explicit constexpr RealFunction(const char* name) : name_(name) {}

  [[nodiscard]] bool exists() const { return find() != nullptr; }
  [[nodiscard]] const char* name() const { return name_; }

  /// Requires: exists().
  Returned operator()(Arguments... arguments) const {
    const NativeCall inside;
    return find()(std::forward<Arguments>(arguments)...);
  }

 private:
  using Pointer = Returned (*)(Arguments...);
  enum class Known : int { kNothing, kMissing, kFound };

  Pointer find() const {
    const Known known = known_.load(std::memory_order_acquire);
    if (known == Known::kFound) return function_.load(std::memory_order_relaxed);
    return known == Known::kMissing ? nullptr : look_up();
  }

  /// Threads that come here together find the same and write the same.
  Pointer look_up() const {
    const auto function = reinterpret_cast<Pointer>(real_symbol(name_));
    function_.store(function, std::memory_order_relaxed);
    known_.store(function != nullptr ? Known::kFound : Known::kMissing, std::memory_order_release);
    return function;
  }

  const char* name_;
  mutable std::atomic<Pointer> function_{nullptr};
  mutable std::atomic<Known> known_{Known::kNothing};
};

/// Declares an MPI function that the native library may lack, as a namespace-scope object called `function`:
/// `PENSTOCK_OPTIONAL_MPI(type_get_envelope_c, "PMPI_Type_get_envelope_c", int(MPI_Datatype, MPI_Count*, MPI_Count*, ...));`
#define PENSTOCK_OPTIONAL_MPI(function, name, ...) \
  inline constinit const ::penstock::mpi::RealFunction<__VA_ARGS__> function { name }

}  // namespace penstock::mpi
