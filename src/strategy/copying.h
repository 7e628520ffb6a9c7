// Copying between a piece of the file in memory and other memory, by what lies where in both.  Private to this room; knows nothing of windows or messages.
#pragma once

#include <cstddef>

#include "access/cursor.h"

namespace penstock::strategy {

/// All that `zip` has: the piece of the file begins at `file` with the offset `first`, memory offsets count from `memory`.
inline void copy_along(access::Zip& zip, std::byte* file, Offset first, std::byte* memory, bool to_file) {
  access::Step step;
  while (zip.next(step)) {
    std::byte* const in_file = file + (step.file_offset - first);
    std::byte* const in_memory = memory + step.memory_offset;
    if (to_file)
      access::copy_strided(in_file, step.file_stride, in_memory, step.memory_stride, step.length, step.count);
    else
      access::copy_strided(in_memory, step.memory_stride, in_file, step.file_stride, step.length, step.count);
  }
}

}  // namespace penstock::strategy
