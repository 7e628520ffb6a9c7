// Identities by stat(2), pins by O_PATH descriptors, and the way to them through /proc.
#include "store/pinned/pinned_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

namespace penstock::store {

namespace {

class PinnedFile final : public ForwardingFile {
 public:
  PinnedFile(std::unique_ptr<File> inner, const Identity& identity) : ForwardingFile(std::move(inner)), identity_(identity) {}
  ~PinnedFile() override {
    if (identity_.descriptor >= 0) ::close(identity_.descriptor);
  }
  [[nodiscard]] Identity identity() const override { return identity_; }

 private:
  const Identity identity_;
};

/// Inode numbers that every node sees alike; others are made up by each client.
bool inodes_are_global(const Traits& traits) {
  return traits.node_local || traits.coherent_between_nodes || traits.file_system == "nfs";
}

/// Of the file just opened under `path`.  Without a spare descriptor it is known all the same, but not kept.  A name that is gone already
/// gives an identity that no file has: whoever comes later is told so.
Identity pin(const std::string& path, const Traits& traits) {
  Identity identity;
  identity.known = true;
  identity.known_on_other_nodes = inodes_are_global(traits);
  struct stat info;
  const int descriptor = ::open(path.c_str(), O_PATH | O_CLOEXEC);
  const bool found = descriptor >= 0 ? fstat(descriptor, &info) == 0 : stat(path.c_str(), &info) == 0;
  if (found) {
    identity.device = info.st_dev;
    identity.inode = info.st_ino;
  }
  if (descriptor >= 0) {
    identity.process = getpid();
    identity.descriptor = descriptor;
  }
  return identity;
}

bool is(const std::string& path, const Identity& wanted) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return false;
  return info.st_ino == wanted.inode && (!wanted.same_node || info.st_dev == wanted.device);
}

std::string where_it_is_kept(const Identity& identity) {
  return "/proc/" + std::to_string(identity.process) + "/fd/" + std::to_string(identity.descriptor);
}

Status not_there(const std::string& path, const Identity& wanted, const Status& by_name) {
  const std::string what = by_name.ok() ? "the name means another file now" : "the name no longer leads to it (" + std::string(by_name.text()) + ")";
  const std::string why = wanted.same_node
                              ? "process " + std::to_string(wanted.process) + ", which still has it open, cannot be asked for it through /proc"
                              : "it is still open only on another node";
  return Status::failure(Code::kNoSuchFile, by_name.system_errno(),
                         "opening '" + path + "': since MPI_File_open somebody removed, renamed or replaced it: " + what + ", and " + why +
                             "; keep the name until every process has accessed the file once");
}

/// The file that is wanted, by its name or through the process that keeps it.
Result<std::unique_ptr<File>> open_wanted(Store& store, const std::string& path, const OpenOptions& options) {
  Result<std::unique_ptr<File>> file = store.open(path, options);
  const Identity& wanted = options.same_as;
  if (!wanted.known || (file.ok() && is(path, wanted))) return file;
  if (wanted.same_node && wanted.descriptor >= 0) {
    // The process that keeps it cannot close it meanwhile, so looking before is enough.
    const std::string kept = where_it_is_kept(wanted);
    if (is(kept, wanted)) return store.open(kept, options);
  }
  if (!file.ok() && file.status().code() != Code::kNoSuchFile) return file;
  return not_there(path, wanted, file.status());
}

}  // namespace

Result<std::unique_ptr<File>> PinnedStore::open(const std::string& path, const OpenOptions& options) {
  Result<std::unique_ptr<File>> file = open_wanted(inner_, path, options);
  if (!options.for_others || !file.ok()) return file;
  const Identity identity = pin(path, (*file)->traits());
  return std::unique_ptr<File>(new PinnedFile(std::move(*file), identity));
}

}  // namespace penstock::store
