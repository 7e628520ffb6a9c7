// Staging memory: one buffer per thread, kept between calls.  Private to this room.
#pragma once

#include <cstddef>
#include <memory>

#include "base/status.h"
#include "base/units.h"

namespace penstock::strategy {

/// Uninitialized memory that lasts for the scope.  Requires: one at a time in a thread.
class Staging {
 public:
  /// At least `bytes`; check with ok().
  explicit Staging(Offset bytes);
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  ~Staging();
  [[nodiscard]] Status status() const;
  [[nodiscard]] std::byte* data() const { return data_; }

 private:
  Offset bytes_;
  std::byte* data_;
};

}  // namespace penstock::strategy
