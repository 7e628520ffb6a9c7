// The posix store: files of the operating system, by system calls.  Knows nothing of MPI, datatypes, ranks or hints.
#pragma once

#include <optional>

#include "store/posix/stripe_layout.h"
#include "store/store.h"

namespace penstock::store {

/// Opens files by path.  Calls libc by name, so that tools which wrap the system calls (Darshan) see what is done.
/// Never uses O_APPEND: MPI's append mode is a position, and O_APPEND would send every pwrite to the end (pwrite(2),
/// "Bugs"). A file opened for writing only is opened for reading as well where permissions allow, because a shared
/// mapping and a read-modify-write need it; who may read is decided above.  Otherwise traits().can_read_back and
/// can_map are false.
/// On Lustre, traits() tell how the file is striped, and a new file gets the layout that was asked for.
/// Thread rule: has no state that changes.
class PosixStore final : public Store {
 public:
  PosixStore() = default;
  /// For tests: every file is said to have this layout, whatever it lies on.
  explicit PosixStore(StripeLayout pretended) : pretended_(std::move(pretended)) {}

  Result<std::unique_ptr<File>> open(const std::string& path, const OpenOptions& options) override;
  Status remove(const std::string& path) override;

 private:
  std::optional<StripeLayout> pretended_;
};

}  // namespace penstock::store
