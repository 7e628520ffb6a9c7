// The pinned store: files of the operating system that stay reachable for other processes when their names go away.  Knows nothing of
// MPI, datatypes, ranks or hints.
#pragma once

#include "store/store.h"

namespace penstock::store {

/// On a store whose paths are names in the file system.  A file opened for_others keeps a second descriptor, which neither reads nor
/// writes, from before its open returns until its destructor runs (not just until close()): through /proc another process of the same
/// user on this node can open the very same file by it.  Opening same_as takes the name first; the descriptor only when the name is
/// gone or means another file.  Where neither leads to the file, the open fails with kNoSuchFile.
///
/// The name is compared right after it was opened.  A name that somebody turns to another file and back again between those two
/// system calls would not be noticed; whatever is there longer is.
/// Requires: `inner` outlives this.  Thread rule: has no state.
class PinnedStore final : public Store {
 public:
  explicit PinnedStore(Store& inner) : inner_(inner) {}
  Result<std::unique_ptr<File>> open(const std::string& path, const OpenOptions& options) override;
  Status remove(const std::string& path) override { return inner_.remove(path); }

 private:
  Store& inner_;
};

}  // namespace penstock::store
