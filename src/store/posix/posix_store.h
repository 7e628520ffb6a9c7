// The posix store: files of the operating system, by system calls.  Knows nothing of MPI, datatypes, ranks or hints.
#pragma once

#include "store/store.h"

namespace penstock::store {

/// Opens files by path.  Calls libc by name, so that tools which wrap the system calls (Darshan) see what is done.
/// Never uses O_APPEND: MPI's append mode is a position, and O_APPEND would send every pwrite to the end (pwrite(2),
/// "Bugs"). A file opened for writing only is opened for reading as well where permissions allow, because a shared
/// mapping and a read-modify-write need it; who may read is decided above.  Otherwise traits().can_read_back and
/// can_map are false.
/// Thread rule: has no state.
class PosixStore final : public Store {
 public:
  Result<std::unique_ptr<File>> open(const std::string& path, const OpenOptions& options) override;
  Status remove(const std::string& path) override;
};

}  // namespace penstock::store
