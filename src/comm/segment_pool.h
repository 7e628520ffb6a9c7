// Segments that no team uses any more, for the next team of the same processes: a program that opens one file after another would make, fault in and unmap
// some MiB for each.  Knows neither teams nor MPI.
#pragma once

#include <mutex>
#include <optional>
#include <vector>

#include "comm/node_segment.h"

namespace penstock::comm {

/// A segment and what its processes call it.
struct NamedSegment {
  NodeSegment::Name name{};
  NodeSegment segment;
  std::size_t size_bytes = 0;
  int members = 0;  ///< processes that have it
};

/// Thread rule: any.
class SegmentPool {
 public:
  /// The process's.  Never destroyed: files may be closed after static objects are gone.
  static SegmentPool& of_process();

  /// The smallest that is large enough and not much larger.  What others of its processes have of it is found by its name.
  std::optional<NamedSegment> take_fitting(std::size_t size_bytes, int members);
  std::optional<NamedSegment> take(const NodeSegment::Name& name);
  /// Requires: nobody touches it any more before all its processes have it again.  Lets go of the oldest where all take too much memory.
  void give(NamedSegment segment);

  /// Of all that are kept: of each node, since processes share them.
  static constexpr std::size_t kBytesMost = std::size_t{64} << 20;

 private:
  std::optional<NamedSegment> take_at(std::size_t index);

  std::mutex mutex_;
  std::vector<NamedSegment> kept_;  ///< the oldest first
};

}  // namespace penstock::comm
