// The memory store: files that live in this process, for tests and for trying.  Knows nothing of MPI, datatypes, ranks
// or hints.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "store/store.h"

namespace penstock::store {

class MemoryContent;

struct MemoryOptions {
  bool can_map = false;                      ///< traits().can_map
  Offset file_bytes_max = Offset{16} << 30;  ///< address space reserved for each file; beyond it: kNoSpace
};

/// Files by name, each shared by all that open it, living until removed and closed (or the store ends and the last file
/// is closed). Storage is taken as it is touched, so files may be sparse.  Thread rule: all calls may be made
/// concurrently.
class MemoryStore final : public Store {
 public:
  explicit MemoryStore(MemoryOptions options = {}) : options_(options) {}
  Result<std::unique_ptr<File>> open(const std::string& path, const OpenOptions& options) override;
  Status remove(const std::string& path) override;

 private:
  const MemoryOptions options_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<MemoryContent>> files_;
};

}  // namespace penstock::store
