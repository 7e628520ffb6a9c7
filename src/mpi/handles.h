// Our own MPI_File handles: what stands behind each, and how a handle that is not ours is told apart.
//
// A handle is the address of a slot in a slab that is never freed, so that a handle of a closed file, or any other pointer, can be checked without
// touching memory that may be gone.
#pragma once

#include <mpi.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "file/file.h"
#include "hints/hints.h"
#include "mpi/datatype.h"
#include "mpi/errors.h"
#include "trace/trace.h"

namespace penstock::mpi {

struct DataRepresentation;

/// A split collective between its begin and its end (MPI 4.1 section 14.4.5).
struct Split {
  enum class Kind { kNone, kReadAtAll, kWriteAtAll, kReadAll, kWriteAll, kReadOrdered, kWriteOrdered };
  Kind kind = Kind::kNone;
  std::shared_ptr<file::Pending> pending;
  const void* buffer = nullptr;
  std::function<file::Outcome(file::Outcome)> finish;  ///< for a thread of the program, when it is over; may be empty
};

/// What an open file is to MPI; the file itself is below, in src/file.
struct OpenFile {
  KeyOfDecoded key;
  std::unique_ptr<file::File> file;     ///< null for a forwarding handle
  MPI_File native = MPI_FILE_NULL;      ///< of a bypassed file: where its calls are forwarded to
  ErrorHandler error_handler = default_error_handler();
  MPI_Group group = MPI_GROUP_NULL;
  int access_mode = 0;
  std::mutex view_mutex;                ///< guards what set_view got and get_view gives
  MPI_Datatype etype = MPI_BYTE;        ///< duplicates
  MPI_Datatype filetype = MPI_BYTE;
  Offset displacement = 0;
  std::atomic<const DataRepresentation*> representation = nullptr;
  Split split;
  std::mutex mutex;                     ///< guards split, deferred, complaints and errors
  Status deferred;                      ///< a non-blocking write that failed and could not be reported; told by the next sync or close
  std::vector<std::string> complaints;
  std::vector<std::string> errors;      ///< the first few different failures, for the report
  std::unique_ptr<trace::FileTrace> trace;
  double opened_seconds = 0;            ///< wall-clock time of opening, since the epoch
};

/// Makes a handle for `open`.  Null when out of memory.
MPI_File add_handle(std::shared_ptr<OpenFile> open);
/// Takes the file out of its slot; the handle is invalid from then on.
std::shared_ptr<OpenFile> remove_handle(MPI_File handle);
/// The file behind a handle of ours; null when it is closed, or no handle of ours.  Borrowed: until the program closes it.
OpenFile* find_open(MPI_File handle);
/// The same, shared: for what outlives the call.
std::shared_ptr<OpenFile> share_open(MPI_File handle);
/// True when the pointer is one of our slots, open or not.
bool is_ours(MPI_File handle);

/// For the generated entry points: false when the handle is ours to serve (open, closed or MPI_FILE_NULL); true, with the handle to forward to, for
/// a bypassed file or a handle that the native library made.
bool native_of(MPI_File handle, MPI_File* native);

/// Fortran handles: the slot's number.
Fint fortran_handle(MPI_File handle);
MPI_File from_fortran_handle(Fint handle);

/// A sentence for a handle that find_open() did not find.
Status no_such_handle(MPI_File handle, const char* operation);

}  // namespace penstock::mpi
