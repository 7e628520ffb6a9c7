// Data representations (MPI 4.1 section 14.5): native, internal, external32 and those that the program registers.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <string>

#include "access/layout.h"
#include "base/status.h"
#include "mpi/calls.h"

namespace penstock::mpi {

struct DataRepresentation {
  enum class Kind { kNative, kExternal32, kUser };
  std::string name;
  Kind kind = Kind::kNative;  ///< internal is native: files of the same MPI on the same machine
  MPI_Datarep_conversion_function* read_small = nullptr;
  MPI_Datarep_conversion_function* write_small = nullptr;
  calls::LargeConversionFunction* read_large = nullptr;
  calls::LargeConversionFunction* write_large = nullptr;
  MPI_Datarep_extent_function* extent = nullptr;
  void* extra_state = nullptr;

  /// True when bytes differ between memory and file (in that direction).
  [[nodiscard]] bool converts(bool write) const;
  /// True when element sizes may differ between memory and file.
  [[nodiscard]] bool resizes() const { return kind != Kind::kNative; }
};

/// The representation called `name`.  Fails with kUnknownDatarep.
Result<const DataRepresentation*> find_representation(const std::string& name);
const DataRepresentation& native_representation();

/// Fails with kDuplicateDatarep, or kArgument for an empty or too long name.
Status register_representation(DataRepresentation representation);

/// Size in the file of one predefined datatype.
Result<Offset> element_size_in_file(const DataRepresentation& representation, MPI_Datatype named, Offset native_size, access::Element element);

/// What is asked of a datatype to convert items of it and to count them.  Found out when an access begins: the program may free the datatype before a
/// non-blocking one is over, and below MPI_THREAD_MULTIPLE its own threads alone may call MPI.
struct Items {
  access::Type native;
  access::Type in_file;
  Offset elements = 0;  ///< predefined datatypes in one item; told where functions of the program count them
};
Result<Items> items_of(MPI_Datatype datatype, const DataRepresentation& representation);

/// Whether converting calls functions of the program, which may do whatever the program may.
bool calls_program(const DataRepresentation& representation);

/// Converts `count` items between the program's buffer and the packed file form; `file_bytes` is the size of that form.  `datatype` is for functions of the
/// program alone.
Status convert_to_file(const DataRepresentation& representation, const void* buffer, MPI_Datatype datatype, const Items& items, Offset count,
                       std::byte* file_form, Offset file_bytes);
/// Only the first `file_bytes` bytes of the file form are there (the file may have ended).
Status convert_from_file(const DataRepresentation& representation, void* buffer, MPI_Datatype datatype, const Items& items, Offset count,
                         const std::byte* file_form, Offset file_bytes);

/// How many bytes of memory stand for the first `file_bytes` bytes of items in the file; an element that they end in counts for nothing.
Offset bytes_in_memory(const Items& items, Offset file_bytes);

}  // namespace penstock::mpi
