// From Status to what an MPI program sees: error codes with the right class and our sentence, and error handlers.
#pragma once

#include <mpi.h>

#include <new>
#include <stdexcept>
#include <string>

#include "base/status.h"
#include "mpi/calls.h"  // generated from table/mpi_file.toml

namespace penstock::mpi {

using calls::Fint;

/// MPI error class of a Penstock code (table/errors.toml).
int error_class(Code code);

/// An error code of that class whose MPI_Error_string is the Status's sentence, where this MPI library lets us (the number of sentences
/// that are kept is bounded; then it is the bare class).  MPI_SUCCESS for success.  Any thread.
int error_code(const Status& status);

/// What MPI reports on one of our own calls of it: class by MPI_Error_class, text by MPI_Error_string.
Status status_from_mpi(int code, const std::string& context);

/// The error handler of one file (MPI 4.1 section 14.7), or the one that new files and failures without a file take.
class ErrorHandler {
 public:
  ErrorHandler();  ///< MPI_ERRORS_RETURN
  ErrorHandler(const ErrorHandler& other);
  ErrorHandler& operator=(const ErrorHandler& other);
  ~ErrorHandler();

  /// Local.  Any handler that MPI_File_create_errhandler made, in C or Fortran, or a predefined one.
  Status set(MPI_Errhandler handler);
  /// Another handle of the same handler, which the caller frees.
  Status get(MPI_Errhandler* handler) const;
  /// Calls it for `file`.  Returns `code` unless the handler does not return.
  int call(MPI_File file, int code) const;
  /// True of handlers of MPICH's C++ binding, which calls them itself (MPI_File_call_errhandler) when a call returns a code.
  [[nodiscard]] bool called_by_binding() const { return kind_ == Kind::kCxx; }

 private:
  enum class Kind { kReturn, kFatal, kAbort, kC, kFortran, kCxx, kNative };
  Kind kind_ = Kind::kReturn;
  MPI_Errhandler given_;
  MPI_File_errhandler_function* function_ = nullptr;
  struct Shadow;
  Shadow* shadow_ = nullptr;  ///< keeps a handler of the program alive; null for predefined ones, and where there are only sessions
};

/// MPI_File_create_errhandler: remembers the function behind the handler.
int create_error_handler(MPI_File_errhandler_function* function, MPI_Errhandler* handler);

/// The file of ours whose error handler is being run through a native file with Fortran handle `native`, or MPI_FILE_NULL.
MPI_File file_of_shadow(Fint native);

/// Handler of MPI_FILE_NULL: for failures of open and delete, and what new files start with.
ErrorHandler& default_error_handler();

/// error_code() and the handler of `file` (MPI_FILE_NULL: the default one).  Returns the code, MPI_SUCCESS for success.
int raise(MPI_File file, const Status& status);

/// The error of a call that ran out of memory, as raise() has it; the bare class where there is not even memory for that.
int out_of_memory(MPI_File file);

/// What every entry point does with its call: nothing of ours is thrown into the program.  What an error handler of the program throws is the program's.
template <typename Call>
int guarded(MPI_File file, Call call) {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return out_of_memory(file);
  } catch (const std::length_error&) {  // more of something than memory can ever have
    return out_of_memory(file);
  }
}

}  // namespace penstock::mpi
