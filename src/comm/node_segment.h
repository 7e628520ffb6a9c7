// A piece of memory that the processes of one node share and that no name leads to once all have it.  Knows neither MPI nor what is inside.
#pragma once

#include <array>
#include <cstddef>

#include "base/status.h"

namespace penstock::comm {

/// Owns one mapping; unmapped with the object.  Movable.
class NodeSegment {
 public:
  /// Unguessable, so that nobody can be waiting for it; ends with a zero byte.
  using Name = std::array<char, 48>;

  NodeSegment() = default;
  NodeSegment(NodeSegment&& other) noexcept;
  NodeSegment& operator=(NodeSegment&& other) noexcept;
  ~NodeSegment();

  /// Makes a segment of zero bytes, readable by this user only, and tells its name.  The name stays until remove_name().
  /// Fails with the code of the system call; then nothing is left behind.
  static Result<NodeSegment> create(std::size_t size_bytes, Name& name);
  /// Maps the segment another process made.  Fails as well when `name` is not this user's or not of this size.
  static Result<NodeSegment> open(std::size_t size_bytes, const Name& name);
  /// After this only the mappings keep the segment alive.
  static void remove_name(const Name& name);

  [[nodiscard]] void* memory() const { return memory_; }

 private:
  static Result<NodeSegment> map(int descriptor, std::size_t size_bytes);

  void* memory_ = nullptr;
  std::size_t size_bytes_ = 0;
};

}  // namespace penstock::comm
