// A file is a reserved stretch of address space that never moves, so that mappings stay valid while it grows.
#include "store/memory/memory_store.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <shared_mutex>

#include "store/range_locks.h"

namespace penstock::store {

/// The bytes of one file.  Invariant: bytes at and beyond `size` are zero.
class MemoryContent {
 public:
  static Result<std::shared_ptr<MemoryContent>> make(Offset capacity) {
    void* base = mmap(nullptr, static_cast<std::size_t>(capacity), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) return Status::from_errno(errno, "reserving memory for a file");
    return std::shared_ptr<MemoryContent>(new MemoryContent(static_cast<std::byte*>(base), capacity));
  }
  ~MemoryContent() { munmap(base_, static_cast<std::size_t>(capacity_)); }
  MemoryContent(const MemoryContent&) = delete;
  MemoryContent& operator=(const MemoryContent&) = delete;

  void read(Transfer& transfer) {
    const std::shared_lock guard(mutex_);
    transfer.done =
        static_cast<std::size_t>(std::clamp<Offset>(size_ - transfer.offset, 0, static_cast<Offset>(transfer.length)));
    if (transfer.done > 0) std::memcpy(transfer.memory, base_ + transfer.offset, transfer.done);
  }

  bool write(Transfer& transfer) {
    transfer.done = 0;
    Offset end = 0;
    if (!checked_add(transfer.offset, static_cast<Offset>(transfer.length), end) || end > capacity_) return false;
    const std::lock_guard guard(mutex_);
    if (transfer.length > 0) {
      std::memcpy(base_ + transfer.offset, transfer.memory, transfer.length);
      size_ = std::max(size_, end);
    }
    transfer.done = transfer.length;
    return true;
  }

  Offset size() {
    const std::shared_lock guard(mutex_);
    return size_;
  }

  bool resize(Offset size_bytes, bool may_cut) {
    if (size_bytes > capacity_) return false;
    const std::lock_guard guard(mutex_);
    if (size_bytes >= size_) {
      size_ = size_bytes;
    } else if (may_cut) {
      cut(size_bytes);
    }
    return true;
  }

  [[nodiscard]] std::byte* base() const { return base_; }
  [[nodiscard]] Offset capacity() const { return capacity_; }
  RangeLocks& locks() { return locks_; }

 private:
  MemoryContent(std::byte* base, Offset capacity) : base_(base), capacity_(capacity) {}

  void cut(Offset size_bytes) {
    const Offset page = sysconf(_SC_PAGESIZE);
    const Offset whole_from = std::min((size_bytes + page - 1) / page * page, size_);
    std::memset(base_ + size_bytes, 0, static_cast<std::size_t>(whole_from - size_bytes));
    if (whole_from < size_) madvise(base_ + whole_from, static_cast<std::size_t>(size_ - whole_from), MADV_DONTNEED);
    size_ = size_bytes;
  }

  std::byte* const base_;
  const Offset capacity_;
  std::shared_mutex mutex_;
  Offset size_ = 0;
  RangeLocks locks_;
};

namespace {

class MemoryMapping final : public Mapping {
 public:
  MemoryMapping(std::shared_ptr<MemoryContent> content, Offset first, Offset length) : content_(std::move(content)) {
    data_ = content_->base() + first;
    first_ = first;
    length_ = length;
  }

  Status populate(Offset offset, Offset length) override {
    if (length <= 0) return {};
    if (offset < first_ || length > length_ - (offset - first_))
      return Status::failure(Code::kIntern, "populating beyond what is mapped of a file in memory");
    if (content_->size() < offset + length)
      return Status::failure(Code::kIo, EFAULT, "mapping a file in memory: somebody made it shorter meanwhile");
    return {};
  }

 private:
  std::shared_ptr<MemoryContent> content_;
};

class MemoryFile final : public File {
 public:
  MemoryFile(std::shared_ptr<MemoryContent> content, std::string path, const MemoryOptions& options)
      : content_(std::move(content)), path_(std::move(path)) {
    traits_.file_system = "memory";
    traits_.can_map = options.can_map;
    traits_.maps_coherent = options.can_map;
    traits_.node_local = true;
    traits_.coherent_between_nodes = true;
    traits_.range_locks = true;
  }
  ~MemoryFile() override { (void)close(); }

  Status read(std::span<Transfer> batch) override {
    for (Transfer& transfer : batch) {
      if (transfer.offset < 0) return Status::from_errno(EINVAL, "read at a negative offset of '" + path_ + "'");
      content_->read(transfer);
    }
    return {};
  }

  Status write(std::span<Transfer> batch) override {
    for (Transfer& transfer : batch) transfer.done = 0;
    for (Transfer& transfer : batch) {
      if (transfer.offset < 0) return Status::from_errno(EINVAL, "write at a negative offset of '" + path_ + "'");
      if (!content_->write(transfer)) return too_large();
    }
    return {};
  }

  Result<std::unique_ptr<Mapping>> map(Offset first, Offset length, bool) override {
    if (!traits_.can_map) return Status::failure(Code::kUnsupported, "'" + path_ + "' cannot be mapped");
    Offset end = 0;
    if (first < 0 || length <= 0 || !checked_add(first, length, end))
      return Status::failure(Code::kArgument, EINVAL, "mapping '" + path_ + "': not a range of a file");
    if (end > content_->capacity()) return too_large();
    return std::unique_ptr<Mapping>(new MemoryMapping(content_, first, length));
  }

  Result<Offset> size() override { return content_->size(); }
  Status resize(Offset size_bytes) override {
    if (size_bytes < 0) return Status::from_errno(EINVAL, "setting the size of '" + path_ + "'");
    return content_->resize(size_bytes, true) ? Status() : too_large();
  }
  Status grow(Offset size_bytes) override { return content_->resize(size_bytes, false) ? Status() : too_large(); }
  Status preallocate(Offset size_bytes) override { return grow(size_bytes); }
  Status sync() override { return {}; }
  Status close() override {
    content_->locks().release_all(this);
    return {};
  }

  Status lock_range(Offset offset, Offset length, bool exclusive) override {
    Offset end = 0;
    if (offset < 0 || length <= 0 || !checked_add(offset, length, end))
      return Status::failure(Code::kArgument, EINVAL, "locking '" + path_ + "': not a range of a file");
    content_->locks().acquire(this, offset, length, exclusive);
    return {};
  }
  Status unlock_range(Offset offset, Offset length) override {
    if (content_->locks().release(this, offset, length)) return {};
    return Status::failure(Code::kIntern, "unlocking a range of '" + path_ + "' that was not locked");
  }
  Result<bool> range_is_locked(Offset offset, Offset length) override {
    return content_->locks().held_by_others(this, offset, length);
  }

  [[nodiscard]] const Traits& traits() const override { return traits_; }

 private:
  Status too_large() const {
    return Status::failure(
        Code::kNoSpace, ENOSPC,
        "'" + path_ + "' is full: a file in memory holds at most " + std::to_string(content_->capacity()) + " bytes");
  }

  std::shared_ptr<MemoryContent> content_;
  const std::string path_;
  Traits traits_;
};

}  // namespace

Result<std::unique_ptr<File>> MemoryStore::open(const std::string& path, const OpenOptions& options) {
  const std::lock_guard guard(mutex_);
  auto found = files_.find(path);
  if (found == files_.end()) {
    if (!options.create) return Status::from_errno(ENOENT, "opening '" + path + "'");
    Result<std::shared_ptr<MemoryContent>> content = MemoryContent::make(options_.file_bytes_max);
    if (!content) return content.status();
    found = files_.emplace(path, *content).first;
  } else if (options.create && options.exclusive) {
    return Status::from_errno(EEXIST, "opening '" + path + "'");
  }
  return std::unique_ptr<File>(new MemoryFile(found->second, path, options_));
}

Status MemoryStore::remove(const std::string& path) {
  const std::lock_guard guard(mutex_);
  if (files_.erase(path) == 0) return Status::from_errno(ENOENT, "removing '" + path + "'");
  return {};
}

}  // namespace penstock::store
