// A directory that is as slow as a pretended device: passes every call on to another directory, by FUSE, and answers reads, writes and syncs when
// the device would.  Knows nothing of MPI, of the engine's stores, or of who makes and removes devices.
//
//   fuse-device --source DIRECTORY --at DIRECTORY [--bytes-per-second N] [--requests-per-second N] [--random-latency-us N]
//               [--sequential-latency-us N] [--serial] [--page-cache] [--for-all] [--of NAME]
//
// --of says whose it is, for those who look for it among the processes.
// Stays until it is unmounted or told to end.  Without --page-cache the kernel hands every read and write straight to it (direct_io); maps
// that are shared and writable are then refused.
#define FUSE_USE_VERSION 312
#include <dirent.h>
#include <fcntl.h>
#include <fuse3/fuse.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

#include "store/emulated/device.h"

#if FUSE_VERSION < FUSE_MAKE_VERSION(3, 12)
#error "libfuse 3.12 or newer is needed"
#endif

namespace {

using penstock::store::DeviceProfile;
using penstock::store::DeviceState;
using penstock::store::kRequestBytesMax;

struct Options {
  std::string source;
  std::string at;
  DeviceProfile profile;
  bool page_cache = false;
  bool for_all = false;
};

Options options;
DeviceState state;
int source_descriptor = -1;

// --- time -------------------------------------------------------------------------------------------------------------------

std::int64_t now_ns() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

void sleep_until(std::int64_t time_ns) {
  // The kernel rounds the sleep of a thread up to its slack, 50 us unless it is told otherwise.
  thread_local const int slack = prctl(PR_SET_TIMERSLACK, 1UL);
  (void)slack;
  const timespec until{static_cast<time_t>(time_ns / 1'000'000'000), static_cast<long>(time_ns % 1'000'000'000)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
  }
}

/// With a page cache the kernel reads ahead and writes behind with several requests at a time, which several threads take: what follows one
/// of the last few requests continues it, in whichever order they came.
class RecentEnds {
 public:
  /// Whether a request that begins at `begin` continues one of the last; remembers its end.
  bool continues(std::uint64_t begin, std::uint64_t end) {
    const bool found = std::any_of(ends_.begin(), ends_.end(), [&](const auto& one) { return one.load(std::memory_order_relaxed) == begin; });
    ends_[next_.fetch_add(1, std::memory_order_relaxed) % ends_.size()].store(end, std::memory_order_relaxed);
    return found;
  }

 private:
  std::array<std::atomic<std::uint64_t>, 8> ends_{};
  std::atomic<std::size_t> next_ = 0;
};
RecentEnds recent_ends;

/// The number of an open file, which is also that of its descriptor here: two opens of one file are one file to the device.
std::uint64_t number_of(int descriptor) {
  struct stat info;
  return fstat(descriptor, &info) == 0 ? static_cast<std::uint64_t>(info.st_ino) : 0;
}

/// Answers no sooner than the device would be done with `bytes` at `offset`, asked for at `began`.
void wait_for_device(int descriptor, off_t offset, std::size_t bytes, std::int64_t began) {
  const std::uint64_t file = number_of(descriptor);
  if (options.page_cache) {
    const std::uint64_t begin = penstock::store::place_of(file, offset);
    if (recent_ends.continues(begin, begin + bytes)) state.head.store(begin, std::memory_order_relaxed);
  }
  std::int64_t done = began;
  for (std::size_t moved = 0; moved < bytes;) {
    const std::size_t part = std::min(bytes - moved, kRequestBytesMax);
    done = penstock::store::take_request(options.profile, state, done, file, offset + static_cast<off_t>(moved), part);
    moved += part;
  }
  if (done > now_ns()) sleep_until(done);
}

// --- calls on names ---------------------------------------------------------------------------------------------------------

/// The name below the source directory; calls are made relative to its descriptor, so that nothing mounted over it matters.
const char* below(const char* path) { return path[1] == '\0' ? "." : path + 1; }

int answer(int result) { return result == -1 ? -errno : 0; }

int descriptor_of(const fuse_file_info* info) { return static_cast<int>(info->fh); }

/// Calls that take no directory descriptor go through /proc, which follows no link of the user's.
std::string by_descriptor(int descriptor) { return "/proc/self/fd/" + std::to_string(descriptor); }

/// A descriptor that only names a file, for the time of one call.
class Named {
 public:
  explicit Named(const char* path) : descriptor_(openat(source_descriptor, below(path), O_PATH | O_NOFOLLOW | O_CLOEXEC)) {}
  Named(const Named&) = delete;
  Named& operator=(const Named&) = delete;
  ~Named() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  [[nodiscard]] bool there() const { return descriptor_ >= 0; }
  [[nodiscard]] std::string path() const { return by_descriptor(descriptor_); }

 private:
  int descriptor_;
};

int on_getattr(const char* path, struct stat* info, fuse_file_info* file) {
  if (file != nullptr) return answer(fstat(descriptor_of(file), info));
  return answer(fstatat(source_descriptor, below(path), info, AT_SYMLINK_NOFOLLOW));
}

int on_readlink(const char* path, char* target, size_t size) {
  const ssize_t length = readlinkat(source_descriptor, below(path), target, size - 1);
  if (length < 0) return -errno;
  target[length] = '\0';
  return 0;
}

/// Who asks owns what is made, when we may say so: root, for whom everything is made otherwise.
int give_to_caller(const char* path, int result) {
  if (result == -1) return -errno;
  if (geteuid() != 0) return 0;
  const fuse_context* const caller = fuse_get_context();
  struct stat parent;
  const std::string name = below(path);
  const std::size_t slash = name.rfind('/');
  gid_t group = caller->gid;
  // A directory with the set-group-ID bit passes its group on.
  if (fstatat(source_descriptor, slash == std::string::npos ? "." : name.substr(0, slash).c_str(), &parent, 0) == 0 &&
      (parent.st_mode & S_ISGID) != 0)
    group = parent.st_gid;
  return answer(fchownat(source_descriptor, below(path), caller->uid, group, AT_SYMLINK_NOFOLLOW));
}

int on_mknod(const char* path, mode_t mode, dev_t device) {
  return give_to_caller(path, mknodat(source_descriptor, below(path), mode, device));
}
int on_mkdir(const char* path, mode_t mode) { return give_to_caller(path, mkdirat(source_descriptor, below(path), mode)); }
int on_symlink(const char* target, const char* path) {
  return give_to_caller(path, symlinkat(target, source_descriptor, below(path)));
}
int on_unlink(const char* path) { return answer(unlinkat(source_descriptor, below(path), 0)); }
int on_rmdir(const char* path) { return answer(unlinkat(source_descriptor, below(path), AT_REMOVEDIR)); }
int on_rename(const char* from, const char* to, unsigned int flags) {
  return answer(renameat2(source_descriptor, below(from), source_descriptor, below(to), flags));
}
int on_link(const char* from, const char* to) {
  return answer(linkat(source_descriptor, below(from), source_descriptor, below(to), 0));
}
int on_chmod(const char* path, mode_t mode, fuse_file_info* file) {
  if (file != nullptr) return answer(fchmod(descriptor_of(file), mode));
  return answer(fchmodat(source_descriptor, below(path), mode, 0));
}
int on_chown(const char* path, uid_t user, gid_t group, fuse_file_info* file) {
  if (file != nullptr) return answer(fchown(descriptor_of(file), user, group));
  return answer(fchownat(source_descriptor, below(path), user, group, AT_SYMLINK_NOFOLLOW));
}
int on_utimens(const char* path, const timespec times[2], fuse_file_info* file) {
  if (file != nullptr) return answer(futimens(descriptor_of(file), times));
  return answer(utimensat(source_descriptor, below(path), times, AT_SYMLINK_NOFOLLOW));
}
int on_truncate(const char* path, off_t size, fuse_file_info* file) {
  if (file != nullptr) return answer(ftruncate(descriptor_of(file), size));
  const Named named(path);
  return named.there() ? answer(truncate(named.path().c_str(), size)) : -errno;
}
int on_statfs(const char*, struct statvfs* info) { return answer(fstatvfs(source_descriptor, info)); }

int on_setxattr(const char* path, const char* name, const char* value, size_t size, int flags) {
  const Named named(path);
  return named.there() ? answer(setxattr(named.path().c_str(), name, value, size, flags)) : -errno;
}
int on_getxattr(const char* path, const char* name, char* value, size_t size) {
  const Named named(path);
  if (!named.there()) return -errno;
  const ssize_t length = getxattr(named.path().c_str(), name, value, size);
  return length < 0 ? -errno : static_cast<int>(length);
}
int on_listxattr(const char* path, char* list, size_t size) {
  const Named named(path);
  if (!named.there()) return -errno;
  const ssize_t length = listxattr(named.path().c_str(), list, size);
  return length < 0 ? -errno : static_cast<int>(length);
}
int on_removexattr(const char* path, const char* name) {
  const Named named(path);
  return named.there() ? answer(removexattr(named.path().c_str(), name)) : -errno;
}

int on_opendir(const char* path, fuse_file_info* file) {
  const int descriptor = openat(source_descriptor, below(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return -errno;
  file->fh = static_cast<std::uint64_t>(descriptor);
  return 0;
}

int on_releasedir(const char*, fuse_file_info* file) { return answer(close(descriptor_of(file))); }

/// All of it at once, each time from the beginning; of a directory that is removed by now there is no path.
int on_readdir(const char*, void* buffer, fuse_fill_dir_t fill, off_t, fuse_file_info* file, fuse_readdir_flags) {
  const int descriptor = openat(descriptor_of(file), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return -errno;
  DIR* const directory = fdopendir(descriptor);
  if (directory == nullptr) {
    const int error = errno;
    close(descriptor);
    return -error;
  }
  int error = 0;
  for (;;) {
    errno = 0;
    const dirent* const entry = readdir(directory);
    if (entry == nullptr) {
      error = errno;
      break;
    }
    struct stat info = {};
    info.st_ino = entry->d_ino;
    info.st_mode = static_cast<mode_t>(DTTOIF(entry->d_type));
    if (fill(buffer, entry->d_name, &info, 0, fuse_fill_dir_flags{}) != 0) break;
  }
  closedir(directory);
  return -error;
}

// --- calls on open files ----------------------------------------------------------------------------------------------------

/// The kernel knows where the end is and who caches what; the file below is opened for plain reads and writes.
int flags_below(int flags) {
  int kept = flags & ~(O_APPEND | O_DIRECT | O_CREAT | O_EXCL | O_NOCTTY);
  // To write a part of a page the kernel's cache reads the rest of it.
  if (options.page_cache && (flags & O_ACCMODE) == O_WRONLY) kept = (kept & ~O_ACCMODE) | O_RDWR;
  return kept | O_CLOEXEC;
}

int opened(int descriptor, fuse_file_info* file) {
  if (descriptor < 0) return -errno;
  file->fh = static_cast<std::uint64_t>(descriptor);
  file->direct_io = options.page_cache ? 0 : 1;
  file->keep_cache = options.page_cache ? 1 : 0;
#if FUSE_VERSION >= FUSE_MAKE_VERSION(3, 15)
  file->parallel_direct_writes = 1;
#endif
  return 0;
}

int on_open(const char* path, fuse_file_info* file) {
  const int flags = flags_below(file->flags);
  int descriptor = openat(source_descriptor, below(path), flags);
  if (descriptor < 0 && errno == EACCES && flags != file->flags) descriptor = openat(source_descriptor, below(path), (flags & ~O_ACCMODE) | (file->flags & O_ACCMODE));
  return opened(descriptor, file);
}

int on_create(const char* path, mode_t mode, fuse_file_info* file) {
  const int descriptor = openat(source_descriptor, below(path), flags_below(file->flags) | O_CREAT | (file->flags & O_EXCL), mode);
  const int given = give_to_caller(path, descriptor < 0 ? -1 : 0);
  if (descriptor >= 0 && given != 0) close(descriptor);
  return given != 0 ? given : opened(descriptor, file);
}

int on_read(const char*, char* buffer, size_t size, off_t offset, fuse_file_info* file) {
  const std::int64_t began = now_ns();
  std::size_t moved = 0;
  while (moved < size) {
    const ssize_t bytes = pread(descriptor_of(file), buffer + moved, size - moved, offset + static_cast<off_t>(moved));
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) return -errno;
    if (bytes == 0) break;
    moved += static_cast<std::size_t>(bytes);
  }
  if (moved > 0) wait_for_device(descriptor_of(file), offset, moved, began);
  return static_cast<int>(moved);
}

int on_write(const char*, const char* buffer, size_t size, off_t offset, fuse_file_info* file) {
  const std::int64_t began = now_ns();
  std::size_t moved = 0;
  while (moved < size) {
    const ssize_t bytes = pwrite(descriptor_of(file), buffer + moved, size - moved, offset + static_cast<off_t>(moved));
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0 && moved == 0) return -errno;
    if (bytes <= 0) break;
    moved += static_cast<std::size_t>(bytes);
  }
  if (moved > 0) wait_for_device(descriptor_of(file), offset, moved, began);
  return static_cast<int>(moved);
}

int on_fsync(const char*, int data_only, fuse_file_info* file) {
  const std::int64_t began = now_ns();
  const int result = answer(data_only != 0 ? fdatasync(descriptor_of(file)) : fsync(descriptor_of(file)));
  sleep_until(began + options.profile.random_latency_ns);
  return result;
}

int on_fallocate(const char*, int mode, off_t offset, off_t length, fuse_file_info* file) {
  return answer(fallocate(descriptor_of(file), mode, offset, length));
}

off_t on_lseek(const char*, off_t offset, int whence, fuse_file_info* file) {
  const off_t found = lseek(descriptor_of(file), offset, whence);
  return found < 0 ? -errno : found;
}

int on_release(const char*, fuse_file_info* file) { return answer(close(descriptor_of(file))); }

void* on_init(fuse_conn_info* connection, fuse_config* config) {
  // One request for what a device takes at once; the kernel's own limit is the same where nobody raised it.
  connection->max_write = kRequestBytesMax;
  connection->max_read = kRequestBytesMax;
  connection->max_readahead = kRequestBytesMax;
  connection->max_background = 64;
  connection->congestion_threshold = 48;
  if (options.page_cache && (connection->capable & FUSE_CAP_WRITEBACK_CACHE) != 0) connection->want |= FUSE_CAP_WRITEBACK_CACHE;
  config->use_ino = 1;
  config->hard_remove = 1;  // what is open stays reachable by its descriptor
  config->nullpath_ok = 1;
  config->attr_timeout = config->entry_timeout = 60;
  return nullptr;
}

fuse_operations operations() {
  fuse_operations calls = {};
  calls.init = on_init;
  calls.getattr = on_getattr;
  calls.readlink = on_readlink;
  calls.mknod = on_mknod;
  calls.mkdir = on_mkdir;
  calls.symlink = on_symlink;
  calls.unlink = on_unlink;
  calls.rmdir = on_rmdir;
  calls.rename = on_rename;
  calls.link = on_link;
  calls.chmod = on_chmod;
  calls.chown = on_chown;
  calls.utimens = on_utimens;
  calls.truncate = on_truncate;
  calls.statfs = on_statfs;
  calls.setxattr = on_setxattr;
  calls.getxattr = on_getxattr;
  calls.listxattr = on_listxattr;
  calls.removexattr = on_removexattr;
  calls.opendir = on_opendir;
  calls.readdir = on_readdir;
  calls.releasedir = on_releasedir;
  calls.open = on_open;
  calls.create = on_create;
  calls.read = on_read;
  calls.write = on_write;
  calls.fsync = on_fsync;
  calls.fallocate = on_fallocate;
  calls.lseek = on_lseek;
  calls.release = on_release;
  return calls;
}

// --- start ------------------------------------------------------------------------------------------------------------------

int refuse(const std::string& text) {
  std::fprintf(stderr, "fuse-device: %s\n", text.c_str());
  return 2;
}

bool number(const char* text, std::int64_t& value) {
  const char* const end = text + std::strlen(text);
  const auto [stopped, error] = std::from_chars(text, end, value);
  return error == std::errc() && stopped == end && value >= 0 && value <= std::int64_t{1} << 50;
}

/// False when the word at `index` and what follows it can not be meant; steps over what it takes.
bool take_word(int count, char** words, int& index) {
  const std::string_view word = words[index];
  if (word == "--serial") return options.profile.serial = true;
  if (word == "--page-cache") return options.page_cache = true;
  if (word == "--for-all") return options.for_all = true;
  if (++index >= count) return false;
  const char* const value = words[index];
  std::int64_t microseconds = 0;
  if (word == "--of") return true;
  if (word == "--source") return !(options.source = value).empty();
  if (word == "--at") return !(options.at = value).empty();
  if (word == "--bytes-per-second") return number(value, options.profile.bytes_per_second);
  if (word == "--requests-per-second") return number(value, options.profile.requests_per_second);
  if (!number(value, microseconds) || microseconds > 60'000'000) return false;
  if (word == "--random-latency-us") options.profile.random_latency_ns = microseconds * 1000;
  else if (word == "--sequential-latency-us") options.profile.sequential_latency_ns = microseconds * 1000;
  else return false;
  return true;
}

int serve() {
  std::string mount = "fsname=penstock-device,subtype=penstock-device,max_read=" + std::to_string(kRequestBytesMax);
  // Who may use which file is then decided by the kernel, from owners and permissions.
  mount += options.for_all ? ",default_permissions,allow_other" : ",default_permissions";
  char name[] = "fuse-device";
  char option[] = "-o";
  char* words[] = {name, option, mount.data(), nullptr};
  fuse_args arguments = FUSE_ARGS_INIT(3, words);
  const fuse_operations calls = operations();
  fuse* const session = fuse_new(&arguments, &calls, sizeof calls, nullptr);
  if (session == nullptr) return 1;
  int code = 1;
  if (fuse_mount(session, options.at.c_str()) == 0) {
    fuse_loop_config* const loop = fuse_loop_cfg_create();
    // A request that waits holds a thread: there are more of them than anybody's queue is deep.
    fuse_loop_cfg_set_max_threads(loop, 128);
    fuse_loop_cfg_set_idle_threads(loop, 16);
    fuse_loop_cfg_set_clone_fd(loop, 1);
    if (fuse_set_signal_handlers(fuse_get_session(session)) == 0) {
      code = fuse_loop_mt(session, loop) < 0 ? 1 : 0;
      fuse_remove_signal_handlers(fuse_get_session(session));
    }
    fuse_loop_cfg_destroy(loop);
    fuse_unmount(session);
  }
  fuse_destroy(session);
  return code;
}

}  // namespace

int main(int count, char** words) {
  for (int index = 1; index < count; ++index) {
    const std::string word = words[index];
    if (!take_word(count, words, index)) return refuse(word + ": not an option with a value that can be meant");
  }
  if (options.source.empty() || options.at.empty()) return refuse("expected --source DIRECTORY --at DIRECTORY");
  source_descriptor = open(options.source.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (source_descriptor < 0) return refuse(options.source + ": " + std::strerror(errno));
  umask(0);
  return serve();
}
