// Every data access call of MPI 4.1 section 14.4 behind one function, so that a test can go through all of them.
// Knows the public interface of MPI only.
#pragma once

#include "check.h"

namespace calls {

enum class Pointer { at, individual, shared };
enum class Style { blocking, nonblocking, collective, nonblocking_collective, split };
enum class Direction { read, write };

struct Call {
  Pointer pointer;
  Style style;
  bool large = false;  ///< the _c form
};

inline bool is_collective(const Call& call) {
  return call.style == Style::collective || call.style == Style::nonblocking_collective || call.style == Style::split;
}

/// The calls that there are: shared pointers have no nonblocking collective form.
inline std::vector<Call> all_calls() {
  std::vector<Call> all;
  for (bool large : {false, true}) {
    if (large && !check::have_large_count()) continue;
    for (Pointer pointer : {Pointer::at, Pointer::individual, Pointer::shared})
      for (Style style : {Style::blocking, Style::nonblocking, Style::collective, Style::nonblocking_collective, Style::split})
        if (pointer != Pointer::shared || style != Style::nonblocking_collective) all.push_back({pointer, style, large});
  }
  return all;
}

inline std::string name_of(const Call& call, Direction direction) {
  const bool shared_collective = call.pointer == Pointer::shared && is_collective(call);
  std::string name = "MPI_File_";
  if (call.style == Style::nonblocking || call.style == Style::nonblocking_collective) name += "i";
  name += direction == Direction::read ? "read" : "write";
  if (call.pointer == Pointer::at) name += "_at";
  if (call.pointer == Pointer::shared) name += shared_collective ? "_ordered" : "_shared";
  if (is_collective(call) && !shared_collective) name += "_all";
  if (call.style == Style::split) name += "_begin/end";
  if (call.large) name += "_c";
  return name;
}

#define CALLS_UNPACK(...) __VA_ARGS__
#define CALLS_COUNT(name, before, ...)                                               \
  (call.large ? MPI_File_##name##_c(CALLS_UNPACK before, count, __VA_ARGS__)           \
              : MPI_File_##name(CALLS_UNPACK before, static_cast<int>(count), __VA_ARGS__))
#define CALLS_EITHER(read_name, write_name, before, ...)                                         \
  (direction == Direction::read ? CALLS_COUNT(read_name, before, __VA_ARGS__)                     \
                                : CALLS_COUNT(write_name, before, __VA_ARGS__))

/// Starts a nonblocking call.  Requires: a nonblocking style.
inline int start(const Call& call, Direction direction, MPI_File file, MPI_Offset offset, void* buffer, MPI_Count count,
                 MPI_Datatype type, MPI_Request* request) {
  const bool collective = call.style == Style::nonblocking_collective;
  if (call.pointer == Pointer::at)
    return collective ? CALLS_EITHER(iread_at_all, iwrite_at_all, (file, offset, buffer), type, request)
                      : CALLS_EITHER(iread_at, iwrite_at, (file, offset, buffer), type, request);
  if (call.pointer == Pointer::individual)
    return collective ? CALLS_EITHER(iread_all, iwrite_all, (file, buffer), type, request)
                      : CALLS_EITHER(iread, iwrite, (file, buffer), type, request);
  return CALLS_EITHER(iread_shared, iwrite_shared, (file, buffer), type, request);
}

inline int split_begin(const Call& call, Direction direction, MPI_File file, MPI_Offset offset, void* buffer, MPI_Count count,
                       MPI_Datatype type) {
  if (call.pointer == Pointer::at)
    return CALLS_EITHER(read_at_all_begin, write_at_all_begin, (file, offset, buffer), type);
  if (call.pointer == Pointer::individual) return CALLS_EITHER(read_all_begin, write_all_begin, (file, buffer), type);
  return CALLS_EITHER(read_ordered_begin, write_ordered_begin, (file, buffer), type);
}

inline int split_end(const Call& call, Direction direction, MPI_File file, void* buffer, MPI_Status* status) {
  const bool reading = direction == Direction::read;
  if (call.pointer == Pointer::at)
    return reading ? MPI_File_read_at_all_end(file, buffer, status) : MPI_File_write_at_all_end(file, buffer, status);
  if (call.pointer == Pointer::individual)
    return reading ? MPI_File_read_all_end(file, buffer, status) : MPI_File_write_all_end(file, buffer, status);
  return reading ? MPI_File_read_ordered_end(file, buffer, status) : MPI_File_write_ordered_end(file, buffer, status);
}

/// Carries the call out to its end: waits for a nonblocking one, ends a split one.  `offset` is used by explicit-offset calls.
/// Returns the first error.
inline int transfer(const Call& call, Direction direction, MPI_File file, MPI_Offset offset, void* buffer, MPI_Count count,
                    MPI_Datatype type, MPI_Status* status) {
  const bool collective = call.style == Style::collective;
  if (call.style == Style::nonblocking || call.style == Style::nonblocking_collective) {
    MPI_Request request = MPI_REQUEST_NULL;
    const int code = start(call, direction, file, offset, buffer, count, type, &request);
    return code != MPI_SUCCESS ? code : MPI_Wait(&request, status);
  }
  if (call.style == Style::split) {
    const int code = split_begin(call, direction, file, offset, buffer, count, type);
    return code != MPI_SUCCESS ? code : split_end(call, direction, file, buffer, status);
  }
  if (call.pointer == Pointer::at)
    return collective ? CALLS_EITHER(read_at_all, write_at_all, (file, offset, buffer), type, status)
                      : CALLS_EITHER(read_at, write_at, (file, offset, buffer), type, status);
  if (call.pointer == Pointer::individual)
    return collective ? CALLS_EITHER(read_all, write_all, (file, buffer), type, status)
                      : CALLS_EITHER(read, write, (file, buffer), type, status);
  return collective ? CALLS_EITHER(read_ordered, write_ordered, (file, buffer), type, status)
                    : CALLS_EITHER(read_shared, write_shared, (file, buffer), type, status);
}

}  // namespace calls
