// SIGBUS on a mapped file, made an error: somebody else cut the file after its pages were faulted in, or its device failed.  Knows neither files nor stores.
#pragma once

#include <cstddef>

namespace penstock::store {

/// As long as it lives, touching memory of [base, base + size_bytes) whose page is gone does not end the program: what lies there and behind it becomes memory
/// of nothing, and lost() is true.  All other SIGBUS go to whoever took them before.  Thread rule: any.
class BusErrorGuard {
 public:
  /// There are guards for so many ranges at the same time.
  static constexpr int kMost = 256;

  /// Requires: a mapping that lives longer, at page boundaries.
  BusErrorGuard(void* base, std::size_t size_bytes);
  ~BusErrorGuard();
  BusErrorGuard(const BusErrorGuard&) = delete;
  BusErrorGuard& operator=(const BusErrorGuard&) = delete;

  /// False when there are too many already: then nothing is guarded.
  [[nodiscard]] bool works() const { return place_ >= 0; }
  [[nodiscard]] bool lost() const;

 private:
  int place_ = -1;
};

}  // namespace penstock::store
