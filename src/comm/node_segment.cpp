// POSIX shared memory with a random name.
#include "comm/node_segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <string_view>
#include <utility>

namespace penstock::comm {
namespace {

Status make_name(NodeSegment::Name& name) {
  constexpr std::string_view kStart = "/penstock-";
  std::array<std::uint8_t, 16> random;
  std::size_t filled = 0;
  while (filled < random.size()) {
    const ssize_t got = getrandom(random.data() + filled, random.size() - filled, 0);
    if (got < 0 && errno != EINTR) return Status::from_errno(errno, "making a name for shared memory");
    if (got > 0) filled += static_cast<std::size_t>(got);
  }
  static_assert(kStart.size() + 2 * random.size() < std::tuple_size_v<NodeSegment::Name>);
  name.fill('\0');
  char* out = std::copy(kStart.begin(), kStart.end(), name.data());
  for (const std::uint8_t byte : random) {
    *out++ = "0123456789abcdef"[byte >> 4];
    *out++ = "0123456789abcdef"[byte & 15];
  }
  return {};
}

// Reserves the memory now: a full /dev/shm is an error here, where it would be a SIGBUS at the first touch later.
// A signal can make a call give back what it has and begin anew, so that under a profiler's timer a large one never ends: then in smaller steps.
Status reserve(int descriptor, std::size_t size_bytes) {
  constexpr std::size_t kStepBytesLeast = std::size_t{1} << 20;
  std::size_t longest = size_bytes;
  for (std::size_t done = 0; done < size_bytes;) {
    const std::size_t step = std::min(longest, size_bytes - done);
    const int outcome = posix_fallocate(descriptor, static_cast<off_t>(done), static_cast<off_t>(step));
    if (outcome != 0 && outcome != EINTR) return Status::from_errno(outcome, "reserving shared memory");
    if (outcome == 0)
      done += step;
    else
      longest = std::max(longest / 2, kStepBytesLeast);
  }
  return {};
}

}  // namespace

NodeSegment::NodeSegment(NodeSegment&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)), size_bytes_(std::exchange(other.size_bytes_, 0)) {}

NodeSegment& NodeSegment::operator=(NodeSegment&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(size_bytes_, other.size_bytes_);
  return *this;
}

NodeSegment::~NodeSegment() {
  if (memory_ != nullptr) munmap(memory_, size_bytes_);
}

Result<NodeSegment> NodeSegment::create(std::size_t size_bytes, Name& name) {
  PENSTOCK_TRY(make_name(name));
  const int descriptor = shm_open(name.data(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
  if (descriptor < 0) return Status::from_errno(errno, "creating shared memory");
  Status reserved = reserve(descriptor, size_bytes);
  Result<NodeSegment> segment = reserved.ok() ? map(descriptor, size_bytes) : Result<NodeSegment>(std::move(reserved));
  close(descriptor);
  if (!segment.ok()) remove_name(name);
  return segment;
}

Result<NodeSegment> NodeSegment::open(std::size_t size_bytes, const Name& name) {
  const int descriptor = shm_open(name.data(), O_RDWR | O_CLOEXEC, 0);
  if (descriptor < 0) return Status::from_errno(errno, "opening shared memory");
  struct stat facts {};
  Result<NodeSegment> segment = Status::failure(Code::kOther, "the shared memory is not what this job made");
  if (fstat(descriptor, &facts) == 0 && facts.st_uid == geteuid() &&
      facts.st_size == static_cast<off_t>(size_bytes))
    segment = map(descriptor, size_bytes);
  close(descriptor);
  return segment;
}

void NodeSegment::remove_name(const Name& name) { shm_unlink(name.data()); }

Result<NodeSegment> NodeSegment::map(int descriptor, std::size_t size_bytes) {
  void* memory = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, descriptor, 0);
  if (memory == MAP_FAILED) return Status::from_errno(errno, "mapping shared memory");
  NodeSegment segment;
  segment.memory_ = memory;
  segment.size_bytes_ = size_bytes;
  return segment;
}

}  // namespace penstock::comm
