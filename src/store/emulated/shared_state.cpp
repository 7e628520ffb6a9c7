// A file in /dev/shm, which lasts no longer than the machine's clock, with a shared lock as the mark of being used.
#include "store/emulated/shared_state.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <mutex>
#include <utility>

namespace penstock::store {

namespace {

constexpr const char* kDirectory = "/dev/shm";
constexpr std::size_t kBytes = 4096;
static_assert(sizeof(DeviceState) <= kBytes);

class Mapped {
 public:
  Mapped(int descriptor, std::string path, void* memory) : descriptor_(descriptor), path_(std::move(path)), memory_(memory) {}
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;
  ~Mapped() {
    munmap(memory_, kBytes);
    // Had alone, nobody else uses it; whoever has opened it meanwhile finds that its name is gone and makes it again.
    if (flock(descriptor_, LOCK_EX | LOCK_NB) == 0) unlink(path_.c_str());
    ::close(descriptor_);
  }
  [[nodiscard]] DeviceState* state() const { return static_cast<DeviceState*>(memory_); }

 private:
  int descriptor_;
  std::string path_;
  void* memory_;
};

int lock_shared(int descriptor) {
  int failed = 0;
  do {
    failed = flock(descriptor, LOCK_SH);
  } while (failed != 0 && errno == EINTR);
  return failed;
}

Status failed_with(int error, const std::string& path) {
  return Status::from_errno(error, "sharing the pretended device '" + path + "' between processes");
}

/// This user's own, so that nobody else can keep it locked, and with room for the state: a full /dev/shm would be a signal later.
Status make_fit(int descriptor, const std::string& path) {
  struct stat info;
  if (fstat(descriptor, &info) != 0) return failed_with(errno, path);
  if (!S_ISREG(info.st_mode) || info.st_uid != geteuid())
    return Status::failure(Code::kAccess, EACCES, "sharing the pretended device '" + path + "' between processes: the file is not this user's own; remove it");
  int error = 0;
  do {
    error = posix_fallocate(descriptor, 0, kBytes);
  } while (error == EINTR);
  if (error == 0 && lock_shared(descriptor) != 0) error = errno;
  return error == 0 ? Status() : failed_with(error, path);
}

/// Opened, with room, locked as used, and still under its name.
Result<int> open_state_file(const std::string& path) {
  for (;;) {
    const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (descriptor < 0) return failed_with(errno, path);
    Status fits = make_fit(descriptor, path);
    struct stat info;
    if (fits.ok() && fstat(descriptor, &info) != 0) fits = failed_with(errno, path);
    if (fits.ok() && info.st_nlink > 0) return descriptor;
    ::close(descriptor);
    if (!fits.ok()) return fits;  // else the last user has just gone
  }
}

Result<std::shared_ptr<Mapped>> map_state(const std::string& path) {
  const Result<int> descriptor = open_state_file(path);
  if (!descriptor.ok()) return descriptor.status();
  void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, *descriptor, 0);
  if (memory == MAP_FAILED) {
    const int error = errno;
    ::close(*descriptor);
    return failed_with(error, path);
  }
  return std::make_shared<Mapped>(*descriptor, path, memory);
}

}  // namespace

Result<std::shared_ptr<DeviceState>> shared_device_state(const std::string& name) {
  // Never destroyed: files may be closed after static objects are gone.
  static auto* const mutex = new std::mutex;
  static auto* const used = new std::map<std::string, std::weak_ptr<Mapped>>;
  const std::string path = std::string(kDirectory) + "/penstock-device-" + std::to_string(geteuid()) + "-" + name;
  const std::lock_guard guard(*mutex);
  std::shared_ptr<Mapped> mapped = (*used)[path].lock();
  if (mapped == nullptr) {
    Result<std::shared_ptr<Mapped>> made = map_state(path);
    if (!made.ok()) return made.status();
    mapped = *made;
    (*used)[path] = mapped;
  }
  return std::shared_ptr<DeviceState>(mapped, mapped->state());
}

}  // namespace penstock::store
