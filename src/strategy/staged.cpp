// Windows, and carrying them through the staging buffer.
#include "strategy/staged.h"

#include <algorithm>
#include <cerrno>
#include <string>

#include "strategy/staging.h"

namespace penstock::strategy {

namespace {

using trace::Counter;
using trace::Phase;
using trace::PhaseScope;

/// A gap that is cheaper to read over than to start another system call behind (and to lose the read-ahead at).
constexpr Offset kGapBytesMax = Offset{64} << 10;
/// Where the page cache serves, a window that stays in a core's own cache is picked apart faster than a large one, and
/// a system call per window costs nothing against it.
constexpr Offset kLocalWindowBytes = Offset{256} << 10;
/// No file reaches this far, and behind it lie the signs of file/sieve_lock.h.
constexpr Offset kFileEndMax = INT64_MAX - 4096;

Offset window_bytes(const Access& access) {
  const Offset most = std::max(access.buffer_bytes, Offset{1});
  return access.store.traits().node_local ? std::min(most, kLocalWindowBytes) : most;
}

/// A range lock for the length of a scope.
class RangeLock {
 public:
  explicit RangeLock(store::File& file) : file_(file) {}
  RangeLock(const RangeLock&) = delete;
  RangeLock& operator=(const RangeLock&) = delete;
  ~RangeLock() {
    if (length_ > 0) (void)file_.unlock_range(offset_, length_);
  }
  Status lock(Offset offset, Offset length, bool exclusive) {
    PENSTOCK_TRY(file_.lock_range(offset, length, exclusive));
    offset_ = offset;
    length_ = length;
    return {};
  }

 private:
  store::File& file_;
  Offset offset_ = 0;
  Offset length_ = 0;
};

Offset memory_position_of(const Access& access, Offset position) {
  return access.memory_position + (position - access.position);
}

/// Copies the first `bytes` data bytes of `window`, whose file offset `window.first` is at `staged`, to the program's
/// buffer.
void pick(const Access& access, const Window& window, Offset bytes, const std::byte* staged) {
  access::Zip zip(access.file, window.position, access.memory, memory_position_of(access, window.position), bytes);
  access::Step step;
  while (zip.next(step))
    access::copy_strided(access.buffer + step.memory_offset, step.memory_stride,
                         staged + (step.file_offset - window.first), step.file_stride, step.length, step.count);
}

/// The other way round.
void put(const Access& access, const Window& window, std::byte* staged) {
  access::Zip zip(access.file, window.position, access.memory, memory_position_of(access, window.position),
                  window.bytes);
  access::Step step;
  while (zip.next(step))
    access::copy_strided(staged + (step.file_offset - window.first), step.file_stride,
                         access.buffer + step.memory_offset, step.memory_stride, step.length, step.count);
}

Result<std::size_t> read_window(const Access& access, const Window& window, std::byte* staged) {
  const PhaseScope phase(access.trace, Phase::kRead);
  store::Transfer transfer{window.first, staged, static_cast<std::size_t>(window.end - window.first)};
  PENSTOCK_TRY(access.store.read(std::span(&transfer, 1)));
  access.trace.count(Counter::kStoreReads);
  access.trace.count(Counter::kStoreBytesRead, static_cast<Offset>(transfer.done));
  return transfer.done;
}

Status write_window(const Access& access, const Window& window, Exclusion exclusion, std::byte* staged) {
  RangeLock lock(access.store);
  if (exclusion == Exclusion::kRangeLocks) {
    const PhaseScope phase(access.trace, Phase::kWait);
    PENSTOCK_TRY(lock.lock(window.first, window.end - window.first, window.has_gaps()));
  }
  if (window.has_gaps()) {
    const Result<std::size_t> present = read_window(access, window, staged);
    if (!present) return present.status();
    std::fill(staged + *present, staged + (window.end - window.first), std::byte{0});  // behind the end of the file
  }
  {
    const PhaseScope phase(access.trace, Phase::kCopy);
    put(access, window, staged);
  }
  const PhaseScope phase(access.trace, Phase::kWrite);
  store::Transfer transfer{window.first, staged, static_cast<std::size_t>(window.end - window.first)};
  PENSTOCK_TRY(access.store.write(std::span(&transfer, 1)));
  access.trace.count(Counter::kStoreWrites);
  access.trace.count(Counter::kStoreBytesWritten, window.end - window.first);
  return {};
}

}  // namespace

Window next_window(const access::Tiling& file, Offset position, Offset bytes, Offset span_bytes_max,
                   Offset gap_bytes_max) {
  Window window{position, 0, 0, 0};
  window.first = window.end = access::offset_of(file, position);
  Offset limit = 0;
  if (!checked_add(window.first, span_bytes_max, limit)) limit = INT64_MAX;
  const Offset within = std::min(bytes, access::position_of(file, limit) - position);
  access::Cursor cursor(file, position, within);
  access::Run run;
  while (cursor.next(run)) {
    if (run.offset - window.end > gap_bytes_max) break;
    const bool apart = run.count > 1 && run.stride - run.length > gap_bytes_max;
    const Offset count = apart ? 1 : run.count;
    window.bytes += run.length * count;
    window.end = std::max(window.end, run.offset + (count - 1) * run.stride + run.length);
    if (apart) break;
  }
  return window;
}

Result<Offset> read_staged(const Access& access) {
  const Offset span_max = window_bytes(access);
  const access::Bounds bounds = access::bounds_of(access.file, access.position, access.bytes);
  const Staging staging(std::min(span_max, bounds.end - bounds.first));
  PENSTOCK_TRY(staging.status());
  for (Offset moved = 0; moved < access.bytes;) {
    const Window window =
        next_window(access.file, access.position + moved, access.bytes - moved, span_max, kGapBytesMax);
    const Result<std::size_t> read = read_window(access, window, staging.data());
    if (!read) return read.status();
    const Offset reached = window.first + static_cast<Offset>(*read);
    const Offset bytes = reached == window.end
                             ? window.bytes
                             : std::min(window.bytes, access::position_of(access.file, reached) - window.position);
    if (bytes > 0) {
      const PhaseScope phase(access.trace, Phase::kCopy);
      pick(access, window, bytes, staging.data());
      moved += bytes;
    }
    if (bytes < window.bytes) return moved;
  }
  return access.bytes;
}

Result<Offset> write_staged(const Access& access, Exclusion exclusion) {
  const Offset span_max = window_bytes(access);
  const access::Bounds bounds = access::bounds_of(access.file, access.position, access.bytes);
  if (bounds.end > kFileEndMax)
    return Status::from_errno(EFBIG, "write up to offset " + std::to_string(bounds.end) + " of a file");
  const Staging staging(std::min(span_max, bounds.end - bounds.first));
  PENSTOCK_TRY(staging.status());
  for (Offset moved = 0; moved < access.bytes;) {
    const Window window =
        next_window(access.file, access.position + moved, access.bytes - moved, span_max, kGapBytesMax);
    PENSTOCK_TRY(write_window(access, window, exclusion, staging.data()));
    moved += window.bytes;
  }
  return access.bytes;
}

}  // namespace penstock::strategy
