// The trace store: counts what passes to another store.  Knows nothing of MPI, datatypes, ranks or hints.
#pragma once

#include <atomic>
#include <memory>

#include "store/store.h"

namespace penstock::store {

/// Counts of one kind of call.
struct CallCount {
  std::atomic<std::int64_t> calls = 0;
  std::atomic<std::int64_t> transfers = 0;  ///< reads and writes: transfers of the batches
  std::atomic<std::int64_t> bytes = 0;      ///< moved (reads, writes), mapped or populated (map, populate)
  std::atomic<std::int64_t> failures = 0;
};

/// Thread rule: any number of files add to it at once.
struct StoreCounts {
  CallCount open, remove, read, write, map, populate, size, resize, grow, preallocate, sync, close, lock, unlock;
};

/// Requires: `inner` outlives this.
class TraceStore final : public Store {
 public:
  TraceStore(Store& inner, std::shared_ptr<StoreCounts> counts) : inner_(inner), counts_(std::move(counts)) {}
  Result<std::unique_ptr<File>> open(const std::string& path, const OpenOptions& options) override;
  Status remove(const std::string& path) override;

 private:
  Store& inner_;
  std::shared_ptr<StoreCounts> counts_;
};

}  // namespace penstock::store
