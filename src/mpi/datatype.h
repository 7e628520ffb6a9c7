// From MPI_Datatype to access: datatypes are decoded once and the result is kept with the datatype.
#pragma once

#include <mpi.h>

#include <atomic>

#include "access/layout.h"
#include "base/status.h"

namespace penstock::mpi {

struct DataRepresentation;

/// A datatype as src/access sees it, with what every call asks of it.
struct Decoded {
  access::Type type;
  access::Tiling tiling;           ///< copies one after another, as in a buffer
  Offset size = 0;                 ///< bytes of data
  Offset extent = 0;
  bool dense = false;              ///< copies follow one another without gap or reordering
  bool one_piece = false;          ///< one copy is contiguous
  Offset first_byte = 0;           ///< where one copy's data begins
  mutable std::atomic<bool> committed{false};  ///< known to be; once committed a datatype stays so
};

/// Has the key by which datatypes carry their decoded form.  A program of sessions may end MPI while no file is open and begin it anew (MPI 4.1 section
/// 11.3), when the number of a key from before is somebody else's.  Every open file has one.  Thread rule: any.
class KeyOfDecoded {
 public:
  KeyOfDecoded();
  ~KeyOfDecoded();
  KeyOfDecoded(const KeyOfDecoded&) = delete;
  KeyOfDecoded& operator=(const KeyOfDecoded&) = delete;
};

/// The decoded form of `datatype`, which stays valid while the program holds the datatype.  Local; any thread.
/// Requires: a KeyOfDecoded.  Cost after the first time: a look-up.
/// Fails with kType for MPI_DATATYPE_NULL and for what MPI does not describe.
Result<const Decoded*> decode(MPI_Datatype datatype);

/// The datatype in another data representation (MPI 4.1 section 14.5): elements have that representation's sizes, and displacements that
/// count elements scale with them.  Not kept: made anew at each call.
Result<access::Type> decode_in(MPI_Datatype datatype, const DataRepresentation& representation);

/// The same with what each element is, for converting; `in_file` null: as in memory.
Result<access::Type> decode_typed(MPI_Datatype datatype, const DataRepresentation* in_file);

/// Number of predefined datatypes in its type map.
Result<Offset> elements_of(MPI_Datatype datatype);

/// A handle of the program's datatype that outlives the program's own (predefined ones are the same for ever).
Status keep_datatype(MPI_Datatype given, MPI_Datatype& kept);
/// Gives back what keep_datatype() made.
void free_datatype(MPI_Datatype& datatype);

/// One that is given back with the object.  On a thread that may call MPI.
class KeptDatatype {
 public:
  KeptDatatype() = default;
  ~KeptDatatype() { free_datatype(datatype_); }
  KeptDatatype(const KeptDatatype&) = delete;
  KeptDatatype& operator=(const KeptDatatype&) = delete;
  Status keep(MPI_Datatype given) { return keep_datatype(given, datatype_); }
  [[nodiscard]] MPI_Datatype get() const { return datatype_; }

 private:
  MPI_Datatype datatype_ = MPI_BYTE;
};

/// Fails with kType when the datatype has not been committed.  Cost after the first time: a load.
Status check_committed(MPI_Datatype datatype, const Decoded& decoded);

/// True for the datatypes that MPI itself defines.
bool is_named(MPI_Datatype datatype);

}  // namespace penstock::mpi
