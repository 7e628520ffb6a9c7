// Counting each call by its outcome.
#include "store/trace/trace_store.h"

namespace penstock::store {

namespace {

Status counted(CallCount& count, Status status) {
  count.calls.fetch_add(1, std::memory_order_relaxed);
  if (!status.ok()) count.failures.fetch_add(1, std::memory_order_relaxed);
  return status;
}

template <typename T>
Result<T> counted(CallCount& count, Result<T> result) {
  count.calls.fetch_add(1, std::memory_order_relaxed);
  if (!result.ok()) count.failures.fetch_add(1, std::memory_order_relaxed);
  return result;
}

void count_bytes(CallCount& count, Offset bytes) { count.bytes.fetch_add(bytes, std::memory_order_relaxed); }

void count_batch(CallCount& count, std::span<const Transfer> batch) {
  Offset bytes = 0;
  for (const Transfer& transfer : batch) bytes += static_cast<Offset>(transfer.done);
  count.transfers.fetch_add(static_cast<std::int64_t>(batch.size()), std::memory_order_relaxed);
  count_bytes(count, bytes);
}

class TraceMapping final : public Mapping {
 public:
  TraceMapping(std::unique_ptr<Mapping> inner, std::shared_ptr<StoreCounts> counts)
      : inner_(std::move(inner)), counts_(std::move(counts)) {
    data_ = inner_->data();
    first_ = inner_->first();
    length_ = inner_->length();
  }
  Status populate(Offset offset, Offset length) override {
    count_bytes(counts_->populate, length);
    return counted(counts_->populate, inner_->populate(offset, length));
  }
  [[nodiscard]] Status intact() const override { return inner_->intact(); }

 private:
  std::unique_ptr<Mapping> inner_;
  std::shared_ptr<StoreCounts> counts_;
};

class TraceFile final : public ForwardingFile {
 public:
  TraceFile(std::unique_ptr<File> inner, std::shared_ptr<StoreCounts> counts)
      : ForwardingFile(std::move(inner)), counts_(std::move(counts)) {}

  Status read(std::span<Transfer> batch) override {
    Status status = counted(counts_->read, inner_->read(batch));
    count_batch(counts_->read, batch);
    return status;
  }
  Status write(std::span<Transfer> batch) override {
    Status status = counted(counts_->write, inner_->write(batch));
    count_batch(counts_->write, batch);
    return status;
  }
  Result<std::unique_ptr<Mapping>> map(Offset first, Offset length, bool writable) override {
    Result<std::unique_ptr<Mapping>> mapping = counted(counts_->map, inner_->map(first, length, writable));
    if (!mapping) return mapping;
    count_bytes(counts_->map, length);
    return std::unique_ptr<Mapping>(new TraceMapping(std::move(*mapping), counts_));
  }
  Result<Offset> size() override { return counted(counts_->size, inner_->size()); }
  Status resize(Offset size_bytes) override { return counted(counts_->resize, inner_->resize(size_bytes)); }
  Status grow(Offset size_bytes) override { return counted(counts_->grow, inner_->grow(size_bytes)); }
  Status preallocate(Offset size_bytes) override {
    return counted(counts_->preallocate, inner_->preallocate(size_bytes));
  }
  Status sync() override { return counted(counts_->sync, inner_->sync()); }
  Status close() override { return counted(counts_->close, inner_->close()); }
  Status lock_range(Offset offset, Offset length, bool exclusive) override {
    return counted(counts_->lock, inner_->lock_range(offset, length, exclusive));
  }
  Status unlock_range(Offset offset, Offset length) override {
    return counted(counts_->unlock, inner_->unlock_range(offset, length));
  }

 private:
  std::shared_ptr<StoreCounts> counts_;
};

}  // namespace

Result<std::unique_ptr<File>> TraceStore::open(const std::string& path, const OpenOptions& options) {
  Result<std::unique_ptr<File>> file = counted(counts_->open, inner_.open(path, options));
  if (!file) return file;
  return std::unique_ptr<File>(new TraceFile(std::move(*file), counts_));
}

Status TraceStore::remove(const std::string& path) { return counted(counts_->remove, inner_.remove(path)); }

}  // namespace penstock::store
