// System calls on one file.  Every call continues after EINTR and short counts, and says file, offset and length when
// it fails.
#include "store/posix/posix_store.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "store/posix/bus_errors.h"
#include "store/posix/file_systems.h"
#include "store/range_locks.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

namespace penstock::store {

namespace {

/// Linux moves at most 0x7ffff000 bytes per call; a round number below it keeps later calls aligned.
constexpr std::size_t kCallBytesMax = std::size_t{1} << 30;
constexpr int kPiecesMax = IOV_MAX;
/// fallocate(2) may give back what it has when a signal interrupts it, and begin anew: under a profiler's timer only steps that fit between two
/// signals make progress.
constexpr Offset kReserveStepBytes = Offset{256} << 20;
constexpr Offset kReserveStepBytesLeast = Offset{1} << 20;

Offset page_bytes() {
  static const Offset size = sysconf(_SC_PAGESIZE);
  return size;
}

std::string describe(const char* operation, const std::string& path, Offset offset, Offset length) {
  return std::string(operation) + " of " + std::to_string(length) + " bytes at offset " + std::to_string(offset) +
         " of '" + path + "'";
}

/// A mapping from which on large folios are asked for: half of a huge page.
constexpr Offset kLargeFoliosBytesMin = Offset{1} << 20;

/// fallocate(2) over [offset, offset + length), step by step; 0 or an errno.
int reserve(int descriptor, Offset offset, Offset length) {
  Offset longest = kReserveStepBytes;
  while (length > 0) {
    const Offset step = std::min(length, longest);
    if (fallocate(descriptor, 0, offset, step) != 0) {
      if (errno != EINTR) return errno;
      longest = std::max(longest / 2, kReserveStepBytesLeast);
      continue;
    }
    offset += step;
    length -= step;
  }
  return 0;
}

class PosixMapping final : public Mapping {
 public:
  PosixMapping(int descriptor, const std::string& path, std::byte* base, Offset lead, Offset first, Offset length,
               bool writable)
      : descriptor_(descriptor), path_(path), base_(base), lead_(lead), writable_(writable) {
    guard_.emplace(base, static_cast<std::size_t>(lead + length));
    data_ = base + lead;
    first_ = first;
    length_ = length;
  }
  ~PosixMapping() override {
    guard_.reset();
    munmap(base_, static_cast<std::size_t>(lead_ + length_));
  }
  [[nodiscard]] bool guarded() const { return guard_->works(); }

  Status intact() const override {
    if (!guard_->lost()) return {};
    return Status::failure(Code::kIo, EFAULT,
                           describe("mapping", path_, first_, length_) + ": the file's end or its device went away meanwhile; did somebody make it shorter?");
  }

  Status populate(Offset offset, Offset length) override {
    if (length <= 0) return {};
    if (offset < first_ || length > length_ - (offset - first_))
      return Status::failure(Code::kIntern,
                             describe("populating", path_, offset, length) + ": outside of what is mapped");
    const Offset from = (lead_ + (offset - first_)) & ~(page_bytes() - 1);
    const auto size = static_cast<std::size_t>(lead_ + (offset - first_) + length - from);
    int error = fault_in(base_ + from, size);
    if (error == 0) return {};
    // EINVAL: a kernel before 5.14.  EFAULT: touching would have been SIGBUS; only the calls below know why.
    if (error != EFAULT && error != EINVAL)
      return Status::from_errno(error, describe("mapping", path_, offset, length));
    const bool can_fault_in = error == EFAULT;
    struct stat info;
    if (fstat(descriptor_, &info) != 0) return Status::from_errno(errno, "size of '" + path_ + "'");
    if (info.st_size < offset + length)
      return Status::failure(Code::kIo, EFAULT,
                             describe("mapping", path_, offset, length) + ": the file has only " +
                                 std::to_string(info.st_size) + " bytes; somebody made it shorter meanwhile");
    if (writable_) {
      // Reserved storage can not run out when the page is touched.  Where the file system cannot reserve, an old kernel
      // leaves us with the size check alone.
      error = reserve(descriptor_, offset, length);
      if (error != 0 && (can_fault_in || (error != EOPNOTSUPP && error != ENOSYS)))
        return Status::from_errno(error == EOPNOTSUPP || error == ENOSYS ? ENOSPC : error,
                                  describe("write through a mapping", path_, offset, length));
    }
    if (!can_fault_in) return {};
    error = fault_in(base_ + from, size);
    if (error == 0) return {};
    return Status::from_errno(EIO, describe("mapping", path_, offset, length));
  }

 private:
  int fault_in(std::byte* address, std::size_t size) const {
    while (madvise(address, size, writable_ ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) != 0)
      if (errno != EINTR && errno != EAGAIN) return errno;
    return 0;
  }

  int descriptor_;  // borrowed: a mapping does not outlive its file
  const std::string& path_;
  std::byte* base_;
  Offset lead_;  ///< bytes between the page's start and `first`
  bool writable_;
  std::optional<BusErrorGuard> guard_;
};

class PosixFile final : public File {
 public:
  PosixFile(int descriptor, std::string path, Traits traits)
      : descriptor_(descriptor), path_(std::move(path)), traits_(std::move(traits)) {}
  ~PosixFile() override { (void)close(); }

  Status read(std::span<Transfer> batch) override {
    if (batch.size() == 1) {
      bool at_end = false;
      return read_one(batch[0], at_end);
    }
    return read_many(batch);
  }

  Status write(std::span<Transfer> batch) override {
    if (batch.size() == 1) return write_one(batch[0]);
    return write_many(batch);
  }

  Result<std::unique_ptr<Mapping>> map(Offset first, Offset length, bool writable) override {
    if (!traits_.can_map) return Status::failure(Code::kUnsupported, "'" + path_ + "' cannot be mapped into memory");
    Offset end = 0;
    if (first < 0 || length <= 0 || !checked_add(first, length, end))
      return Status::failure(Code::kArgument, EINVAL,
                             describe("mapping", path_, first, length) + ": not a range of a file");
    const Offset lead = first & (page_bytes() - 1);
    void* base = mmap(nullptr, static_cast<std::size_t>(lead + length), writable ? PROT_READ | PROT_WRITE : PROT_READ,
                      MAP_SHARED, descriptor_, first - lead);
    if (base == MAP_FAILED) {
      // Whatever the reason (ENOMEM under a limit on address space, EAGAIN under one on locked memory), calls need no mapping.
      const Status why = Status::from_errno(errno, describe("mapping", path_, first, length));
      return Status::failure(Code::kUnsupported, why.system_errno(), std::string(why.text()));
    }
    // New pages then come in large folios where the kernel and the file system can: several times fewer faults.  Where
    // they can not, this fails or changes nothing.
    if (writable && length >= kLargeFoliosBytesMin) (void)madvise(base, static_cast<std::size_t>(lead + length), MADV_HUGEPAGE);
    std::unique_ptr<PosixMapping> mapping(new (std::nothrow) PosixMapping(descriptor_, path_, static_cast<std::byte*>(base), lead, first, length, writable));
    if (mapping == nullptr) {
      munmap(base, static_cast<std::size_t>(lead + length));
      return Status::no_memory();
    }
    if (!mapping->guarded()) return Status::failure(Code::kUnsupported, describe("mapping", path_, first, length) + ": too many at the same time");
    return std::unique_ptr<Mapping>(std::move(mapping));
  }

  Result<Offset> size() override {
    struct stat info;
    if (fstat(descriptor_, &info) != 0) return Status::from_errno(errno, "size of '" + path_ + "'");
    return Offset{info.st_size};
  }

  Status resize(Offset size_bytes) override {
    while (ftruncate(descriptor_, size_bytes) != 0)
      if (errno != EINTR) return Status::from_errno(errno, setting_size(size_bytes));
    return {};
  }

  Status grow(Offset size_bytes) override {
    const Result<Offset> present = size();
    if (!present) return present.status();
    if (*present >= size_bytes) return {};
    // Not ftruncate: between looking at the size and cutting to it, another process may have written further.
    // Reserving the last byte extends the file, and does nothing to one that is longer already.
    const int error = reserve(descriptor_, size_bytes - 1, 1);
    if (error == 0) return {};
    if (error == EOPNOTSUPP || error == ENOSYS)
      return Status::failure(
          Code::kUnsupported, error,
          setting_size(size_bytes) + ": " + traits_.file_system + " cannot extend a file without writing to it");
    return Status::from_errno(error, setting_size(size_bytes));
  }

  Status preallocate(Offset size_bytes) override {
    if (size_bytes <= 0) return {};
    const int error = reserve(descriptor_, 0, size_bytes);
    if (error == EOPNOTSUPP || error == ENOSYS) return append_zeros(size_bytes);
    if (error != 0)
      return Status::from_errno(error, "reserving " + std::to_string(size_bytes) + " bytes for '" + path_ + "'");
    return {};
  }

  Status sync() override {
    while (fsync(descriptor_) != 0) {
      if (errno == EINTR) continue;
      if (errno == EINVAL) return {};  // a special file that has nothing to make durable
      return Status::from_errno(errno, "making '" + path_ + "' durable");
    }
    // Pages that are clean now would go on being read although another node has written since.  Advice cannot fail in a way that matters here.
    if (!traits_.node_local && !traits_.coherent_between_nodes) (void)posix_fadvise(descriptor_, 0, 0, POSIX_FADV_DONTNEED);
    return {};
  }

  Status close() override {
    if (descriptor_ < 0) return {};
    // A child made by fork shares our open file description and would keep our locks alive.
    if (locks_used_.load(std::memory_order_relaxed)) {
      (void)set_lock(F_OFD_SETLK, F_UNLCK, 0, 0);
      locks_.release_all(this);
    }
    const int descriptor = descriptor_;
    descriptor_ = -1;
    // Not repeated on EINTR: Linux has closed the descriptor by then, and another thread may own the number already.
    if (::close(descriptor) != 0 && errno != EINTR) return Status::from_errno(errno, "closing '" + path_ + "'");
    return {};
  }

  // The kernel's locks belong to the open file description: they exclude other processes and other opens, but neither
  // two threads of this file, nor do they count.  `locks_` does both.
  Status lock_range(Offset offset, Offset length, bool exclusive) override {
    PENSTOCK_TRY(check_range(offset, length));
    locks_used_.store(true, std::memory_order_relaxed);
    exclusive = exclusive || !traits_.can_read_back;  // the kernel gives shared locks to readers only
    locks_.acquire(this, offset, length, exclusive);
    int error = 0;
    do {
      error = set_lock(F_OFD_SETLKW, exclusive ? F_WRLCK : F_RDLCK, offset, length);
    } while (error == EINTR);
    if (error == 0) return {};
    (void)unlock_range(offset, length);
    return lock_failure(error, offset, length);
  }

  Status unlock_range(Offset offset, Offset length) override {
    PENSTOCK_TRY(check_range(offset, length));
    int error = 0;
    const bool found = locks_.release(this, offset, length, [&](const RangeLocks::Part& part) {
      const int failed = set_lock(F_OFD_SETLK, F_UNLCK, part.first, part.second);
      if (failed != 0) error = failed;
    });
    if (!found)
      return Status::failure(Code::kIntern, describe("unlocking", path_, offset, length) + ": it was not locked");
    return error == 0 ? Status() : lock_failure(error, offset, length);
  }

  Result<bool> range_is_locked(Offset offset, Offset length) override {
    PENSTOCK_TRY(check_range(offset, length));
    struct flock lock = {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    lock.l_start = offset;
    lock.l_len = length;
    while (fcntl(descriptor_, F_OFD_GETLK, &lock) != 0)
      if (errno != EINTR) return lock_failure(errno, offset, length);
    return lock.l_type != F_UNLCK;
  }

  [[nodiscard]] const Traits& traits() const override { return traits_; }

 private:
  /// `at_end` is set when the file ended inside the transfer.
  Status read_one(Transfer& transfer, bool& at_end) {
    transfer.done = 0;
    while (transfer.done < transfer.length) {
      const ssize_t moved =
          pread(descriptor_, transfer.memory + transfer.done, std::min(transfer.length - transfer.done, kCallBytesMax),
                transfer.offset + static_cast<Offset>(transfer.done));
      if (moved < 0) {
        if (errno == EINTR) continue;
        return transfer_failure("read", transfer);
      }
      if (moved == 0) {
        at_end = true;
        break;
      }
      transfer.done += static_cast<std::size_t>(moved);
    }
    return {};
  }

  Status write_one(Transfer& transfer) {
    transfer.done = 0;
    while (transfer.done < transfer.length) {
      const ssize_t moved =
          pwrite(descriptor_, transfer.memory + transfer.done, std::min(transfer.length - transfer.done, kCallBytesMax),
                 transfer.offset + static_cast<Offset>(transfer.done));
      if (moved < 0) {
        if (errno == EINTR) continue;
        return transfer_failure("write", transfer);
      }
      if (moved == 0) {
        errno = EIO;  // a write that makes no progress must not loop for ever
        return transfer_failure("write", transfer);
      }
      transfer.done += static_cast<std::size_t>(moved);
    }
    return {};
  }

  /// The transfers from the start of `batch` that abut in the file, at most a system call's worth of pieces.
  static std::span<Transfer> adjacent(std::span<Transfer> batch) {
    std::size_t count = 1;
    while (count < batch.size() && count < static_cast<std::size_t>(kPiecesMax) &&
           batch[count - 1].offset + static_cast<Offset>(batch[count - 1].length) == batch[count].offset)
      ++count;
    return batch.first(count);
  }

  /// Gathers what is left of abutting transfers; returns the number of pieces, and at which offset they start.
  static int gather(std::span<const Transfer> run, iovec* pieces, Offset& offset) {
    int count = 0;
    std::size_t bytes = 0;
    for (const Transfer& transfer : run) {
      const std::size_t left = transfer.length - transfer.done;
      if (left == 0) continue;
      if (count == 0) offset = transfer.offset + static_cast<Offset>(transfer.done);
      const std::size_t piece = std::min(left, kCallBytesMax - bytes);
      pieces[count++] = {transfer.memory + transfer.done, piece};
      bytes += piece;
      if (bytes == kCallBytesMax) break;
    }
    return count;
  }

  static void distribute(std::span<Transfer> run, std::size_t moved) {
    for (Transfer& transfer : run) {
      const std::size_t piece = std::min(transfer.length - transfer.done, moved);
      transfer.done += piece;
      moved -= piece;
      if (moved == 0) return;
    }
  }

  Status read_many(std::span<Transfer> batch) {
    for (Transfer& transfer : batch) transfer.done = 0;
    bool at_end = false;
    while (!batch.empty() && !at_end) {
      const std::span<Transfer> run = adjacent(batch);
      if (run.size() == 1)
        PENSTOCK_TRY(read_one(run[0], at_end));
      else
        PENSTOCK_TRY(read_run(run, at_end));
      batch = batch.subspan(run.size());  // what follows the end of the file stays at done = 0
    }
    return {};
  }

  Status read_run(std::span<Transfer> run, bool& at_end) {
    iovec pieces[kPiecesMax];
    Offset offset = 0;
    while (const int count = gather(run, pieces, offset)) {
      const ssize_t moved = preadv(descriptor_, pieces, count, offset);
      if (moved < 0) {
        if (errno == EINTR) continue;
        return run_failure("read", run);
      }
      if (moved == 0) {
        at_end = true;
        return {};
      }
      distribute(run, static_cast<std::size_t>(moved));
    }
    return {};
  }

  Status write_many(std::span<Transfer> batch) {
    for (Transfer& transfer : batch) transfer.done = 0;
    while (!batch.empty()) {
      const std::span<Transfer> run = adjacent(batch);
      if (run.size() == 1)
        PENSTOCK_TRY(write_one(run[0]));
      else
        PENSTOCK_TRY(write_run(run));
      batch = batch.subspan(run.size());
    }
    return {};
  }

  Status write_run(std::span<Transfer> run) {
    iovec pieces[kPiecesMax];
    Offset offset = 0;
    while (const int count = gather(run, pieces, offset)) {
      const ssize_t moved = pwritev(descriptor_, pieces, count, offset);
      if (moved < 0) {
        if (errno == EINTR) continue;
        return run_failure("write", run);
      }
      if (moved == 0) {
        errno = EIO;
        return run_failure("write", run);
      }
      distribute(run, static_cast<std::size_t>(moved));
    }
    return {};
  }

  [[gnu::cold]] Status transfer_failure(const char* operation, const Transfer& transfer) const {
    const int error = errno;
    return Status::from_errno(error, describe(operation, path_, transfer.offset, static_cast<Offset>(transfer.length)));
  }

  [[gnu::cold]] Status run_failure(const char* operation, std::span<const Transfer> run) const {
    const int error = errno;
    const Offset end = run.back().offset + static_cast<Offset>(run.back().length);
    return Status::from_errno(error, describe(operation, path_, run[0].offset, end - run[0].offset));
  }

  std::string setting_size(Offset size_bytes) const {
    return "setting the size of '" + path_ + "' to " + std::to_string(size_bytes) + " bytes";
  }

  /// Reserves by writing, where the file system cannot reserve otherwise: only behind the end of the file, so nothing
  /// is cut and nothing that was there is touched.  Requires: nobody else writes there meanwhile (MPI 4.1 section
  /// 14.2.5 makes that a conflict).
  Status append_zeros(Offset size_bytes) {
    const Result<Offset> present = size();
    if (!present) return present.status();
    static constexpr std::byte kZeros[64 << 10] = {};
    for (Offset at = *present; at < size_bytes;) {
      const Offset step = std::min<Offset>(size_bytes - at, sizeof kZeros);
      Transfer transfer{at, const_cast<std::byte*>(kZeros), static_cast<std::size_t>(step)};
      PENSTOCK_TRY(write_one(transfer));
      at += step;
    }
    return {};
  }

  Status check_range(Offset offset, Offset length) const {
    Offset end = 0;
    if (offset >= 0 && length > 0 && checked_add(offset, length, end)) return {};
    return Status::failure(Code::kArgument, EINVAL,
                           describe("locking", path_, offset, length) + ": not a range of a file");
  }

  int set_lock(int command, short type, Offset offset, Offset length) const {
    struct flock lock = {};
    lock.l_type = type;
    lock.l_whence = SEEK_SET;
    lock.l_start = offset;
    lock.l_len = length;
    return fcntl(descriptor_, command, &lock) == 0 ? 0 : errno;
  }

  Status lock_failure(int error, Offset offset, Offset length) const {
    const std::string what = describe("locking", path_, offset, length);
    if (error == EINVAL || error == ENOSYS || error == EOPNOTSUPP)
      return Status::failure(Code::kUnsupported, error,
                             what + ": " + traits_.file_system +
                                 " gives no byte-range locks as it is mounted here (Lustre: mount with flock)");
    return Status::from_errno(error, what);
  }

  int descriptor_;
  const std::string path_;
  const Traits traits_;
  std::atomic<bool> locks_used_ = false;
  RangeLocks locks_;
};

/// open(2), continued when interrupted; -1 and errno on failure.
int open_descriptor(const char* path, int flags, mode_t mode) {
  for (;;) {
    const int descriptor = ::open(path, flags, mode);
    if (descriptor >= 0 || errno != EINTR) return descriptor;
  }
}

/// The same file opened anew; -1 and errno on failure.  The old descriptor is closed.
int open_again(int descriptor, int flags) {
  const int again = open_descriptor(("/proc/self/fd/" + std::to_string(descriptor)).c_str(), flags, 0);
  const int error = errno;
  ::close(descriptor);
  errno = error;
  return again;
}

bool maps_shared(int descriptor, bool writable) {
  const auto size = static_cast<std::size_t>(page_bytes());
  void* base = mmap(nullptr, size, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, descriptor, 0);
  if (base == MAP_FAILED) return false;
  munmap(base, size);
  return true;
}

/// A file that may be written can grow anywhere; of another, what is there counts.
void add_stripes(const StripeLayout& layout, const struct stat& info, bool writable, Traits& traits) {
  const StripedPart* const part = part_for(layout, 0, writable || info.st_size == 0 ? INT64_MAX : info.st_size);
  if (part == nullptr) return;
  traits.stripe_bytes = part->stripe_bytes;
  traits.stripe_count = part->stripe_count;
  traits.target_count = target_count(*part);
}

Traits traits_of(int descriptor, const struct stat& info, bool writable, bool can_read, const std::optional<StripeLayout>& pretended) {
  Traits traits;
  traits.block_bytes = std::max<Offset>(info.st_blksize, 1);
  traits.can_read_back = can_read;
  if (!S_ISREG(info.st_mode)) {
    traits.file_system = "special file";
    return traits;
  }
  struct statfs system;
  int failed = 0;
  do {
    failed = fstatfs(descriptor, &system);
  } while (failed != 0 && errno == EINTR);
  const FileSystem& facts =
      file_system_of_magic(failed == 0 ? static_cast<unsigned long>(system.f_type) & 0xffffffffUL : 0);
  traits.file_system = facts.name;
  traits.node_local = facts.node_local;
  traits.coherent_between_nodes = facts.coherent_between_nodes;
  traits.can_map = can_read && (!facts.try_map || maps_shared(descriptor, writable));
  traits.maps_coherent = traits.can_map && facts.node_local;
  traits.range_locks = true;
  const std::optional<StripeLayout> layout = pretended ? pretended : facts.name == "lustre" ? read_layout(descriptor) : std::nullopt;
  if (layout) add_stripes(*layout, info, writable, traits);
  return traits;
}

}  // namespace

Result<std::unique_ptr<File>> PosixStore::open(const std::string& path, const OpenOptions& options) {
  int flags = O_CLOEXEC;
  if (options.create) flags |= O_CREAT;
  if (options.create && options.exclusive) flags |= O_EXCL;
  const LayoutWish wish{options.stripe_bytes, options.stripe_count, options.first_device};
  const int delay = options.create && wish.any() ? flags_to_set_layout(path) : 0;
  flags |= delay;
  const mode_t mode = options.permissions < 0 ? 0666 : static_cast<mode_t>(options.permissions);
  bool can_read = true;
  int way = options.write ? O_RDWR : O_RDONLY;
  int descriptor = open_descriptor(path.c_str(), flags | way, mode);
  if (descriptor < 0 && errno == EACCES && options.write && !options.read) {
    can_read = false;
    way = O_WRONLY;
    descriptor = open_descriptor(path.c_str(), flags | way, mode);
  }
  // Without a layout, what is written by a descriptor that waits for one fails (EBADF); the file system gives one to whoever opens the file without waiting.
  if (descriptor >= 0 && delay != 0 && !set_layout(descriptor, wish)) descriptor = open_again(descriptor, O_CLOEXEC | way);
  if (descriptor < 0) return Status::from_errno(errno, "opening '" + path + "'");
  // Only the owner of a file may ask for it.  Not when opening: where files belong to others than who makes them, that fails and leaves the file behind.
  if (options.no_atime) (void)fcntl(descriptor, F_SETFL, O_NOATIME);
  struct stat info;
  if (fstat(descriptor, &info) != 0) {
    const int error = errno;
    ::close(descriptor);
    return Status::from_errno(error, "opening '" + path + "'");
  }
  if (S_ISDIR(info.st_mode)) {
    ::close(descriptor);
    return Status::from_errno(EISDIR, "opening '" + path + "'");
  }
  return std::unique_ptr<File>(new PosixFile(descriptor, path, traits_of(descriptor, info, options.write, can_read, pretended_)));
}

Status PosixStore::remove(const std::string& path) {
  if (unlink(path.c_str()) != 0) return Status::from_errno(errno, "removing '" + path + "'");
  return {};
}

}  // namespace penstock::store
