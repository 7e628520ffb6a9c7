// Store: moves bytes between memory and one file.  Knows nothing of MPI, datatypes, ranks or hints.
//
// Blocking on purpose: on page-cached files a queue costs more than it hides (measured), and a caller that wants
// overlap calls from a thread of its own.  Trace and fault layers are ordinary stores on ForwardingFile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/status.h"
#include "base/units.h"

namespace penstock::store {

/// One contiguous extent of the file and the memory it moves from or to.  `done` is set by the store:
/// length when complete, less where the file ended (reads) or the failure struck.
struct Transfer {
  Offset offset = 0;
  std::byte* memory = nullptr;  ///< never written to by write()
  std::size_t length = 0;
  std::size_t done = 0;
};

/// How fast a store is that knows it, whatever stands behind it.
struct Pace {
  double call_seconds = 0;         ///< of a request that goes on where the last one ended
  double random_call_seconds = 0;  ///< of one elsewhere
  double per_byte_seconds = 0;     ///< of all users together
  double requests_at_once = 1;     ///< it works on
};

/// What planning may know of a store: facts, never the driver's name.
struct Traits {
  std::string file_system;    ///< for reports only: "tmpfs", "ext4", "lustre", "memory" ...
  Offset block_bytes = 4096;  ///< preferred granularity of access
  Offset stripe_bytes = 0;    ///< 0: not striped
  int stripe_count = 1;       ///< after so many, stripes lie where the ones before them do
  int target_count = 1;       ///< of storage devices; fewer than stripes where some have several
  bool can_map = false;                 ///< map() works
  bool maps_coherent = false;           ///< a mapped store is seen by every other reader on this node at once
  bool node_local = false;              ///< only this node can write the file: the page cache is the truth
  bool coherent_between_nodes = false;  ///< a finished write is seen by a later read on another node
  bool range_locks = false;             ///< lock_range() works
  std::optional<Pace> pace;             ///< no: it is what a calibration profile says
  bool can_read_back = true;            ///< a file opened for writing can be read too (no: permissions forbid it)
};

/// Which file it is that somebody has open, in words that can be sent to other processes.
struct Identity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::int64_t process = 0;  ///< who keeps the file reachable, and by which descriptor; -1: nobody does
  std::int32_t descriptor = -1;
  bool known = false;                 ///< false: nothing is known, any file is as good
  bool known_on_other_nodes = false;  ///< the inode number means the same there
  bool same_node = true;              ///< for whoever compares: device, process and descriptor mean something here

  /// The same identity for a process on another node than the one that has the file open.
  [[nodiscard]] Identity from_another_node() const {
    Identity other = *this;
    other.known = known && known_on_other_nodes;
    other.same_node = false;
    return other;
  }
};

/// A part of a file in memory.  Unmapped by its destructor.  Reading or writing beyond the file's end is a mistake: the
/// owner of the mapping has called grow() and populate() first, and asks intact() afterwards.
class Mapping {
 public:
  virtual ~Mapping() = default;
  [[nodiscard]] std::byte* data() const { return data_; }  ///< address of file offset `first`
  [[nodiscard]] Offset first() const { return first_; }
  [[nodiscard]] Offset length() const { return length_; }
  /// Faults in [offset, offset + length) (file offsets) so that touching it cannot fail later; reports as a Status what
  /// would have been SIGBUS (no space, I/O error, truncated by somebody).
  virtual Status populate(Offset offset, Offset length) = 0;
  /// Fails with kIo when something that was touched since the mapping was made was not there any more: somebody cut the file after populate().  What was
  /// written to it is lost then, and what was read from it is nothing.
  [[nodiscard]] virtual Status intact() const { return {}; }

 protected:
  std::byte* data_ = nullptr;
  Offset first_ = 0;
  Offset length_ = 0;
};

/// An open file.  Thread rule: all calls may be made concurrently, except close() and the destructor.
class File {
 public:
  virtual ~File() = default;

  /// Reads / writes every transfer of `batch`.  Requires: ascending offsets, not overlapping.  Interrupted and short
  /// system calls are continued.  Adjacent transfers (offset + length == next offset) go in one system call.
  /// A read past the end completes short (done < length), successfully; memory beyond is left alone.
  /// Fails with kNoSpace, kQuota, kIo, kAccess ... (errno kept); `done` tells what had moved.
  virtual Status read(std::span<Transfer> batch) = 0;
  virtual Status write(std::span<Transfer> batch) = 0;

  /// Maps [first, first + length).  Fails with kUnsupported where traits().can_map is false or the kernel refuses.
  virtual Result<std::unique_ptr<Mapping>> map(Offset first, Offset length, bool writable) = 0;

  virtual Result<Offset> size() = 0;
  virtual Status resize(Offset size_bytes) = 0;  ///< exactly; cuts or extends with zeros
  /// At least `size_bytes`, zeros where nothing was; never cuts, whatever others do meanwhile.  kUnsupported where the
  /// file system has no call that can do that: then write the last byte of what you have to write instead, which grows
  /// the file as well.
  virtual Status grow(Offset size_bytes) = 0;
  virtual Status preallocate(Offset size_bytes) = 0;  ///< storage for [0, size_bytes) is reserved; grows, never cuts
  /// What was written is on the device.  Where neither node_local nor coherent_between_nodes, what other nodes had made durable before is seen by
  /// reads on this node afterwards.
  virtual Status sync() = 0;
  virtual Status close() = 0;                         ///< reports what was deferred; idempotent

  /// Advisory lock over a byte range, between all open files of this and other processes.  Blocks.  kUnsupported where
  /// not had. Two threads that use the same File exclude each other too.  Not recursive: whoever holds a range and asks
  /// for an overlapping one (unless both are shared) waits for itself.  A store may give an exclusive lock where a
  /// shared one was asked.
  virtual Status lock_range(Offset offset, Offset length, bool exclusive) = 0;
  /// Gives back one lock taken with the same offset and length.
  virtual Status unlock_range(Offset offset, Offset length) = 0;
  /// True when somebody else holds a lock that an exclusive lock on this range would have to wait for.
  virtual Result<bool> range_is_locked(Offset offset, Offset length) = 0;

  [[nodiscard]] virtual const Traits& traits() const = 0;
  /// Of a file that was opened for_others; unknown from a store that cannot tell its files apart.
  [[nodiscard]] virtual Identity identity() const { return {}; }
};

struct OpenOptions {
  bool read = true;
  bool write = false;
  bool create = false;     ///< create when absent
  bool exclusive = false;  ///< with create: fail with kFileExists when present
  int permissions = -1;    ///< mode bits before umask; -1: 0666
  bool no_atime = true;    ///< leave the access time alone where the system permits
  Offset stripe_bytes = 0;  ///< of a file that is created, where the file system lets one choose; 0: as it likes
  int stripe_count = 0;     ///< the same; -1: over all devices
  int first_device = -1;    ///< the same: its number, -1: as the file system likes
  bool for_others = false;  ///< other processes will open the same file later: they need its identity()
  Identity same_as{};         ///< when known: this file and no other, whatever its name means by now
};

class Store {
 public:
  virtual ~Store() = default;
  virtual Result<std::unique_ptr<File>> open(const std::string& path, const OpenOptions& options) = 0;
  /// Fails with kNoSuchFile when absent.
  virtual Status remove(const std::string& path) = 0;
};

/// Forwards everything to another file; what the trace and fault layers derive from.
class ForwardingFile : public File {
 public:
  explicit ForwardingFile(std::unique_ptr<File> inner) : inner_(std::move(inner)) {}
  Status read(std::span<Transfer> batch) override { return inner_->read(batch); }
  Status write(std::span<Transfer> batch) override { return inner_->write(batch); }
  Result<std::unique_ptr<Mapping>> map(Offset first, Offset length, bool writable) override {
    return inner_->map(first, length, writable);
  }
  Result<Offset> size() override { return inner_->size(); }
  Status resize(Offset size_bytes) override { return inner_->resize(size_bytes); }
  Status grow(Offset size_bytes) override { return inner_->grow(size_bytes); }
  Status preallocate(Offset size_bytes) override { return inner_->preallocate(size_bytes); }
  Status sync() override { return inner_->sync(); }
  Status close() override { return inner_->close(); }
  Status lock_range(Offset offset, Offset length, bool exclusive) override {
    return inner_->lock_range(offset, length, exclusive);
  }
  Status unlock_range(Offset offset, Offset length) override { return inner_->unlock_range(offset, length); }
  Result<bool> range_is_locked(Offset offset, Offset length) override {
    return inner_->range_is_locked(offset, length);
  }
  [[nodiscard]] const Traits& traits() const override { return inner_->traits(); }
  [[nodiscard]] Identity identity() const override { return inner_->identity(); }

 protected:
  std::unique_ptr<File> inner_;
};

}  // namespace penstock::store
