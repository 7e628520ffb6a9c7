// A directory that is as slow as a pretended device: passes every call on to another directory, by FUSE, and answers reads, writes and syncs when
// the device would.  Knows nothing of MPI, of the engine's stores, or of who makes and removes devices.
//
//   fuse-device --source DIRECTORY --at DIRECTORY [--bytes-per-second N] [--requests-per-second N] [--random-latency-us N]
//               [--sequential-latency-us N] [--serial] [--page-cache] [--for-all] [--of NAME]
//
// --of says whose it is, for those who look for it among the processes.
// Stays until it is unmounted or told to end, once it has got a byte on its standard input: when who started it ends before that, so does this.
// Without --page-cache the kernel hands every read and write straight to it (direct_io); maps
// that are shared and writable are then refused.
#define FUSE_USE_VERSION 312
#include <dirent.h>
#include <fcntl.h>
#include <fuse3/fuse_lowlevel.h>
#include <limits.h>
#include <linux/fuse.h>
#include <sys/prctl.h>
#include <sys/resource.h>
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
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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
  std::int64_t own = began;
  std::int64_t done = began;
  for (std::size_t moved = 0; moved < bytes;) {
    const std::size_t part = std::min(bytes - moved, kRequestBytesMax);
    done = penstock::store::take_request(options.profile, state, began, file, offset + static_cast<off_t>(moved), part, own);
    moved += part;
  }
  if (done > now_ns()) sleep_until(done);
}

// --- what there is ----------------------------------------------------------------------------------------------------------

/// A file, directory or link that the kernel knows, by a descriptor that only names it: it stays the same when its name changes or goes.
struct Node {
  int descriptor = -1;
  std::pair<dev_t, ino_t> key;
  std::uint64_t lookups = 0;  ///< how often the kernel was told of it and has not forgotten it
};

/// Thread rule: all calls may be made concurrently.
class Nodes {
 public:
  /// The node of what `descriptor`, which is taken over, names.
  Node* know(int descriptor, const struct stat& info) {
    const std::lock_guard guard(mutex_);
    std::unique_ptr<Node>& node = nodes_[{info.st_dev, info.st_ino}];
    if (node == nullptr) {
      node = std::make_unique<Node>();
      node->descriptor = descriptor;
      node->key = {info.st_dev, info.st_ino};
    } else {
      close(descriptor);
    }
    ++node->lookups;
    return node.get();
  }

  void forget(Node* node, std::uint64_t lookups) {
    const std::lock_guard guard(mutex_);
    node->lookups -= std::min(node->lookups, lookups);
    if (node->lookups > 0) return;
    close(node->descriptor);
    nodes_.erase(node->key);
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<dev_t, ino_t>, std::unique_ptr<Node>> nodes_;
};
Nodes nodes;

constexpr double kSecondsKnown = 60;  // nobody changes anything past the kernel

int descriptor_of(fuse_ino_t number) {
  return number == FUSE_ROOT_ID ? source_descriptor : reinterpret_cast<Node*>(number)->descriptor;
}

int descriptor_of(const fuse_file_info* file) { return static_cast<int>(file->fh); }

/// For calls that take no descriptor which only names; it is followed no further, also where it names a symbolic link.
std::string path_of(fuse_ino_t number) { return "/proc/self/fd/" + std::to_string(descriptor_of(number)); }

void answer(fuse_req_t request, int result) { fuse_reply_err(request, result == -1 ? errno : 0); }

/// Fills in what `name` in `parent` is; 0 or an errno.
int entry_of(fuse_ino_t parent, const char* name, fuse_entry_param& entry) {
  const int descriptor = openat(descriptor_of(parent), name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor < 0) return errno;
  if (fstatat(descriptor, "", &entry.attr, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) != 0) {
    const int error = errno;
    close(descriptor);
    return error;
  }
  entry.ino = reinterpret_cast<fuse_ino_t>(nodes.know(descriptor, entry.attr));
  entry.generation = 1;
  entry.attr_timeout = entry.entry_timeout = kSecondsKnown;
  return 0;
}

void answer_with_entry(fuse_req_t request, fuse_ino_t parent, const char* name) {
  fuse_entry_param entry = {};
  const int error = entry_of(parent, name, entry);
  if (error != 0) {
    fuse_reply_err(request, error);
  } else if (fuse_reply_entry(request, &entry) != 0) {
    nodes.forget(reinterpret_cast<Node*>(entry.ino), 1);  // the kernel has not heard of it
  }
}

/// Who asks owns what is made, when we may say so: as root, who would own it otherwise.  A directory with the set-group-ID bit passes its group on.
int give_to_caller(fuse_req_t request, fuse_ino_t parent, const char* name) {
  if (geteuid() != 0) return 0;
  const fuse_ctx* const caller = fuse_req_ctx(request);
  struct stat directory;
  const bool inherits = fstatat(descriptor_of(parent), "", &directory, AT_EMPTY_PATH) == 0 && (directory.st_mode & S_ISGID) != 0;
  return fchownat(descriptor_of(parent), name, caller->uid, inherits ? directory.st_gid : caller->gid, AT_SYMLINK_NOFOLLOW);
}

void answer_made(fuse_req_t request, fuse_ino_t parent, const char* name, int result) {
  if (result == -1 || give_to_caller(request, parent, name) == -1) return answer(request, -1);
  answer_with_entry(request, parent, name);
}

// --- calls on names ---------------------------------------------------------------------------------------------------------

void on_lookup(fuse_req_t request, fuse_ino_t parent, const char* name) { answer_with_entry(request, parent, name); }

void on_forget(fuse_req_t request, fuse_ino_t number, std::uint64_t lookups) {
  if (number != FUSE_ROOT_ID) nodes.forget(reinterpret_cast<Node*>(number), lookups);
  fuse_reply_none(request);
}

void on_forget_multi(fuse_req_t request, size_t count, fuse_forget_data* forgotten) {
  for (size_t index = 0; index < count; ++index)
    if (forgotten[index].ino != FUSE_ROOT_ID) nodes.forget(reinterpret_cast<Node*>(forgotten[index].ino), forgotten[index].nlookup);
  fuse_reply_none(request);
}

void on_getattr(fuse_req_t request, fuse_ino_t number, fuse_file_info*) {
  struct stat info;
  if (fstatat(descriptor_of(number), "", &info, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) != 0) return answer(request, -1);
  fuse_reply_attr(request, &info, kSecondsKnown);
}

/// A time as utimensat(2) takes it.
timespec time_to_set(int wanted, int explicit_flag, int now_flag, const timespec& given) {
  if ((wanted & now_flag) != 0) return {0, UTIME_NOW};
  return (wanted & explicit_flag) != 0 ? given : timespec{0, UTIME_OMIT};
}

int set_attributes(fuse_ino_t number, const struct stat& attributes, int wanted, const fuse_file_info* file) {
  const std::string path = path_of(number);
  if ((wanted & FUSE_SET_ATTR_MODE) != 0 && chmod(path.c_str(), attributes.st_mode) != 0) return -1;
  if ((wanted & (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID)) != 0) {
    const uid_t user = (wanted & FUSE_SET_ATTR_UID) != 0 ? attributes.st_uid : static_cast<uid_t>(-1);
    const gid_t group = (wanted & FUSE_SET_ATTR_GID) != 0 ? attributes.st_gid : static_cast<gid_t>(-1);
    if (fchownat(descriptor_of(number), "", user, group, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) != 0) return -1;
  }
  if ((wanted & FUSE_SET_ATTR_SIZE) != 0) {
    const int cut = file != nullptr ? ftruncate(descriptor_of(file), attributes.st_size) : truncate(path.c_str(), attributes.st_size);
    if (cut != 0) return -1;
  }
  if ((wanted & (FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_MTIME)) == 0) return 0;
  const timespec times[2] = {time_to_set(wanted, FUSE_SET_ATTR_ATIME, FUSE_SET_ATTR_ATIME_NOW, attributes.st_atim),
                             time_to_set(wanted, FUSE_SET_ATTR_MTIME, FUSE_SET_ATTR_MTIME_NOW, attributes.st_mtim)};
  return utimensat(AT_FDCWD, path.c_str(), times, 0);
}

void on_setattr(fuse_req_t request, fuse_ino_t number, struct stat* attributes, int wanted, fuse_file_info* file) {
  if (set_attributes(number, *attributes, wanted, file) != 0) return answer(request, -1);
  on_getattr(request, number, file);
}

void on_readlink(fuse_req_t request, fuse_ino_t number) {
  char target[PATH_MAX + 1];
  const ssize_t length = readlinkat(descriptor_of(number), "", target, PATH_MAX);
  if (length < 0) return answer(request, -1);
  target[length] = '\0';
  fuse_reply_readlink(request, target);
}

void on_mknod(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode, dev_t device) {
  answer_made(request, parent, name, mknodat(descriptor_of(parent), name, mode, device));
}
void on_mkdir(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode) {
  answer_made(request, parent, name, mkdirat(descriptor_of(parent), name, mode));
}
void on_symlink(fuse_req_t request, const char* target, fuse_ino_t parent, const char* name) {
  answer_made(request, parent, name, symlinkat(target, descriptor_of(parent), name));
}
void on_link(fuse_req_t request, fuse_ino_t number, fuse_ino_t parent, const char* name) {
  const std::string from = path_of(number);
  if (linkat(AT_FDCWD, from.c_str(), descriptor_of(parent), name, AT_SYMLINK_FOLLOW) != 0) return answer(request, -1);
  answer_with_entry(request, parent, name);
}
void on_unlink(fuse_req_t request, fuse_ino_t parent, const char* name) {
  answer(request, unlinkat(descriptor_of(parent), name, 0));
}
void on_rmdir(fuse_req_t request, fuse_ino_t parent, const char* name) {
  answer(request, unlinkat(descriptor_of(parent), name, AT_REMOVEDIR));
}
void on_rename(fuse_req_t request, fuse_ino_t from, const char* old_name, fuse_ino_t to, const char* new_name, unsigned int flags) {
  answer(request, renameat2(descriptor_of(from), old_name, descriptor_of(to), new_name, flags));
}
void on_statfs(fuse_req_t request, fuse_ino_t) {
  struct statvfs info;
  if (fstatvfs(source_descriptor, &info) != 0) return answer(request, -1);
  fuse_reply_statfs(request, &info);
}

void on_setxattr(fuse_req_t request, fuse_ino_t number, const char* name, const char* value, size_t size, int flags) {
  answer(request, setxattr(path_of(number).c_str(), name, value, size, flags));
}
void on_removexattr(fuse_req_t request, fuse_ino_t number, const char* name) {
  answer(request, removexattr(path_of(number).c_str(), name));
}

/// An answer of `length` bytes in `value`, or of their number where the kernel asked for it with `size` 0.
void answer_with_bytes(fuse_req_t request, const std::vector<char>& value, ssize_t length, size_t size) {
  if (length < 0) return answer(request, -1);
  if (size == 0) {
    fuse_reply_xattr(request, static_cast<size_t>(length));
  } else {
    fuse_reply_buf(request, value.data(), static_cast<size_t>(length));
  }
}
void on_getxattr(fuse_req_t request, fuse_ino_t number, const char* name, size_t size) {
  std::vector<char> value(size);
  answer_with_bytes(request, value, getxattr(path_of(number).c_str(), name, value.data(), size), size);
}
void on_listxattr(fuse_req_t request, fuse_ino_t number, size_t size) {
  std::vector<char> value(size);
  answer_with_bytes(request, value, listxattr(path_of(number).c_str(), value.data(), size), size);
}

// --- directories ------------------------------------------------------------------------------------------------------------

/// An open directory; several threads may read it, each from a place of its own.
struct OpenDirectory {
  DIR* stream = nullptr;
  std::mutex mutex;
};

OpenDirectory* directory_of(const fuse_file_info* file) { return reinterpret_cast<OpenDirectory*>(file->fh); }

void on_opendir(fuse_req_t request, fuse_ino_t number, fuse_file_info* file) {
  const int descriptor = openat(descriptor_of(number), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* const stream = descriptor < 0 ? nullptr : fdopendir(descriptor);
  if (stream == nullptr) {
    const int error = errno;
    if (descriptor >= 0) close(descriptor);
    fuse_reply_err(request, error);
    return;
  }
  auto directory = std::make_unique<OpenDirectory>();
  directory->stream = stream;
  file->fh = reinterpret_cast<std::uint64_t>(directory.get());
  if (fuse_reply_open(request, file) == 0) {
    (void)directory.release();
  } else {
    closedir(stream);
  }
}

/// Entries from `offset` on into `buffer`; how many bytes of it they take, -1 and errno where there is none to be had.
ssize_t entries_from(fuse_req_t request, OpenDirectory& directory, off_t offset, std::vector<char>& buffer) {
  size_t used = 0;
  const std::lock_guard guard(directory.mutex);
  seekdir(directory.stream, offset);
  for (;;) {
    errno = 0;
    const dirent* const entry = readdir(directory.stream);
    if (entry == nullptr && errno != 0 && used == 0) return -1;
    if (entry == nullptr) break;
    struct stat info = {};
    info.st_ino = entry->d_ino;
    info.st_mode = static_cast<mode_t>(DTTOIF(entry->d_type));
    const size_t left = buffer.size() - used;
    const size_t needed = fuse_add_direntry(request, buffer.data() + used, left, entry->d_name, &info, entry->d_off);
    if (needed > left) break;
    used += needed;
  }
  return static_cast<ssize_t>(used);
}

/// Once it is answered the directory may be closed by another thread at any time.
void on_readdir(fuse_req_t request, fuse_ino_t, size_t size, off_t offset, fuse_file_info* file) {
  std::vector<char> buffer(size);
  const ssize_t used = entries_from(request, *directory_of(file), offset, buffer);
  if (used < 0) return answer(request, -1);
  fuse_reply_buf(request, buffer.data(), static_cast<size_t>(used));
}

void on_releasedir(fuse_req_t request, fuse_ino_t, fuse_file_info* file) {
  const std::unique_ptr<OpenDirectory> directory(directory_of(file));
  answer(request, closedir(directory->stream));
}

// --- open files -------------------------------------------------------------------------------------------------------------

/// The kernel knows where the end is and who caches what; the file below is opened for plain reads and writes.
int flags_below(int flags) {
  int kept = flags & ~(O_APPEND | O_DIRECT | O_CREAT | O_EXCL | O_NOCTTY | O_NOFOLLOW);
  // To write a part of a page the kernel's cache reads the rest of it.
  if (options.page_cache && (flags & O_ACCMODE) == O_WRONLY) kept = (kept & ~O_ACCMODE) | O_RDWR;
  return kept | O_CLOEXEC;
}

void set_opened(fuse_file_info* file, int descriptor) {
  file->fh = static_cast<std::uint64_t>(descriptor);
  file->direct_io = options.page_cache ? 0 : 1;
  file->keep_cache = options.page_cache ? 1 : 0;
}

// That writes of one file need not wait for each other is said in an answer that libfuse before 3.15 can not give: there it is put together here.
#if FUSE_VERSION >= FUSE_MAKE_VERSION(3, 15)
int answer_opened(fuse_req_t request, fuse_file_info* file) {
  file->parallel_direct_writes = 1;
  return fuse_reply_open(request, file);
}
int answer_created(fuse_req_t request, const fuse_entry_param& entry, fuse_file_info* file) {
  file->parallel_direct_writes = 1;
  return fuse_reply_create(request, &entry, file);
}
#else
constexpr std::uint32_t kParallelDirectWrites = 1U << 6;

fuse_open_out words_of(const fuse_file_info* file) {
  fuse_open_out words = {};
  words.fh = file->fh;
  words.open_flags = options.page_cache ? static_cast<std::uint32_t>(FOPEN_KEEP_CACHE) : FOPEN_DIRECT_IO | kParallelDirectWrites;
  return words;
}

int answer_opened(fuse_req_t request, fuse_file_info* file) {
  const fuse_open_out words = words_of(file);
  return fuse_reply_buf(request, reinterpret_cast<const char*>(&words), sizeof words);
}

fuse_entry_out words_of(const fuse_entry_param& entry) {
  fuse_entry_out words = {};
  words.nodeid = entry.ino;
  words.generation = entry.generation;
  words.entry_valid = words.attr_valid = static_cast<std::uint64_t>(kSecondsKnown);
  const struct stat& info = entry.attr;
  words.attr.ino = info.st_ino;
  words.attr.size = static_cast<std::uint64_t>(info.st_size);
  words.attr.blocks = static_cast<std::uint64_t>(info.st_blocks);
  words.attr.atime = static_cast<std::uint64_t>(info.st_atim.tv_sec);
  words.attr.mtime = static_cast<std::uint64_t>(info.st_mtim.tv_sec);
  words.attr.ctime = static_cast<std::uint64_t>(info.st_ctim.tv_sec);
  words.attr.atimensec = static_cast<std::uint32_t>(info.st_atim.tv_nsec);
  words.attr.mtimensec = static_cast<std::uint32_t>(info.st_mtim.tv_nsec);
  words.attr.ctimensec = static_cast<std::uint32_t>(info.st_ctim.tv_nsec);
  words.attr.mode = info.st_mode;
  words.attr.nlink = static_cast<std::uint32_t>(info.st_nlink);
  words.attr.uid = info.st_uid;
  words.attr.gid = info.st_gid;
  words.attr.rdev = static_cast<std::uint32_t>(info.st_rdev);
  words.attr.blksize = static_cast<std::uint32_t>(info.st_blksize);
  return words;
}

int answer_created(fuse_req_t request, const fuse_entry_param& entry, fuse_file_info* file) {
  struct {
    fuse_entry_out entry;
    fuse_open_out opened;
  } const words = {words_of(entry), words_of(file)};
  return fuse_reply_buf(request, reinterpret_cast<const char*>(&words), sizeof words);
}
#endif

void on_open(fuse_req_t request, fuse_ino_t number, fuse_file_info* file) {
  const std::string path = path_of(number);
  const int flags = flags_below(file->flags);
  int descriptor = open(path.c_str(), flags);
  // Somebody else's file that may only be written.
  if (descriptor < 0 && errno == EACCES) descriptor = open(path.c_str(), (flags & ~O_ACCMODE) | (file->flags & O_ACCMODE));
  if (descriptor < 0) return answer(request, -1);
  set_opened(file, descriptor);
  if (answer_opened(request, file) != 0) close(descriptor);
}

void on_create(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode, fuse_file_info* file) {
  const int flags = flags_below(file->flags) | O_CREAT | O_NOFOLLOW | (file->flags & O_EXCL);
  const int descriptor = openat(descriptor_of(parent), name, flags, mode);
  if (descriptor < 0) return answer(request, -1);
  fuse_entry_param entry = {};
  int error = give_to_caller(request, parent, name) == -1 ? errno : entry_of(parent, name, entry);
  if (error != 0) {
    close(descriptor);
    fuse_reply_err(request, error);
    return;
  }
  set_opened(file, descriptor);
  if (answer_created(request, entry, file) == 0) return;
  close(descriptor);
  nodes.forget(reinterpret_cast<Node*>(entry.ino), 1);
}

void on_read(fuse_req_t request, fuse_ino_t, size_t size, off_t offset, fuse_file_info* file) {
  const std::int64_t began = now_ns();
  thread_local std::vector<char> buffer;
  if (buffer.size() < size) buffer.resize(size);
  std::size_t moved = 0;
  while (moved < size) {
    const ssize_t bytes = pread(descriptor_of(file), buffer.data() + moved, size - moved, offset + static_cast<off_t>(moved));
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0 && moved == 0) return answer(request, -1);
    if (bytes <= 0) break;
    moved += static_cast<std::size_t>(bytes);
  }
  if (moved > 0) wait_for_device(descriptor_of(file), offset, moved, began);
  fuse_reply_buf(request, buffer.data(), moved);
}

void on_write(fuse_req_t request, fuse_ino_t, const char* buffer, size_t size, off_t offset, fuse_file_info* file) {
  const std::int64_t began = now_ns();
  std::size_t moved = 0;
  while (moved < size) {
    const ssize_t bytes = pwrite(descriptor_of(file), buffer + moved, size - moved, offset + static_cast<off_t>(moved));
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0 && moved == 0) return answer(request, -1);
    if (bytes <= 0) break;
    moved += static_cast<std::size_t>(bytes);
  }
  if (moved > 0) wait_for_device(descriptor_of(file), offset, moved, began);
  fuse_reply_write(request, moved);
}

void on_fsync(fuse_req_t request, fuse_ino_t, int data_only, fuse_file_info* file) {
  const std::int64_t began = now_ns();
  const int result = data_only != 0 ? fdatasync(descriptor_of(file)) : fsync(descriptor_of(file));
  const int error = result == -1 ? errno : 0;
  sleep_until(began + options.profile.random_latency_ns);
  fuse_reply_err(request, error);
}

void on_fallocate(fuse_req_t request, fuse_ino_t, int mode, off_t offset, off_t length, fuse_file_info* file) {
  answer(request, fallocate(descriptor_of(file), mode, offset, length));
}

void on_lseek(fuse_req_t request, fuse_ino_t, off_t offset, int whence, fuse_file_info* file) {
  const off_t found = lseek(descriptor_of(file), offset, whence);
  if (found < 0) return answer(request, -1);
  fuse_reply_lseek(request, found);
}

void on_release(fuse_req_t request, fuse_ino_t, fuse_file_info* file) { answer(request, close(descriptor_of(file))); }

void on_init(void*, fuse_conn_info* connection) {
  // One request for what a device takes at once; the kernel's own limit is the same where nobody raised it.
  connection->max_write = kRequestBytesMax;
  connection->max_read = kRequestBytesMax;
  connection->max_readahead = kRequestBytesMax;
  connection->max_background = 64;
  connection->congestion_threshold = 48;
  // The kernel has to take set-user-ID bits away itself: for us, as root, writing below does not.
  connection->want &= ~static_cast<unsigned>(FUSE_CAP_HANDLE_KILLPRIV);
  if (options.page_cache) connection->want |= connection->capable & FUSE_CAP_WRITEBACK_CACHE;
}

fuse_lowlevel_ops operations() {
  fuse_lowlevel_ops calls = {};
  calls.init = on_init;
  calls.lookup = on_lookup;
  calls.forget = on_forget;
  calls.forget_multi = on_forget_multi;
  calls.getattr = on_getattr;
  calls.setattr = on_setattr;
  calls.readlink = on_readlink;
  calls.mknod = on_mknod;
  calls.mkdir = on_mkdir;
  calls.symlink = on_symlink;
  calls.link = on_link;
  calls.unlink = on_unlink;
  calls.rmdir = on_rmdir;
  calls.rename = on_rename;
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

/// The way through the kernel with as much as a request can carry takes some time, and longer where cores are busy; a slow device has a buffer in which
/// what comes a little late finds its place in time.
std::int64_t forgiven_idle_ns(std::int64_t bytes_per_second) {
  constexpr std::int64_t kLeastNs = 1'000'000;
  if (bytes_per_second <= 0) return kLeastNs;
  return std::max(kLeastNs, static_cast<std::int64_t>(kRequestBytesMax) * 1'000'000'000 / bytes_per_second / 3);
}

bool told_to_stay(fuse_session* session) {
  char word = 0;
  ssize_t bytes = 0;
  do {
    bytes = read(STDIN_FILENO, &word, 1);
  } while (bytes < 0 && errno == EINTR && fuse_session_exited(session) == 0);
  return bytes == 1;
}

int answer_until_unmounted(fuse_session* session) {
  fuse_loop_config* const loop = fuse_loop_cfg_create();
  // A request that waits holds a thread: there are more of them than anybody's queue is deep.
  fuse_loop_cfg_set_max_threads(loop, 128);
  fuse_loop_cfg_set_idle_threads(loop, 16);
  fuse_loop_cfg_set_clone_fd(loop, 1);
  const int code = fuse_session_loop_mt(session, loop) < 0 ? 1 : 0;
  fuse_loop_cfg_destroy(loop);
  return code;
}

int serve() {
  std::string mount = "fsname=penstock-device,subtype=penstock-device,max_read=" + std::to_string(kRequestBytesMax);
  // Who may use which file is then decided by the kernel, from owners and permissions.
  mount += options.for_all ? ",default_permissions,allow_other" : ",default_permissions";
  char name[] = "fuse-device";
  char option[] = "-o";
  char* words[] = {name, option, mount.data(), nullptr};
  fuse_args arguments = FUSE_ARGS_INIT(3, words);
  const fuse_lowlevel_ops calls = operations();
  fuse_session* const session = fuse_session_new(&arguments, &calls, sizeof calls, nullptr);
  if (session == nullptr) return 1;
  int code = 1;
  if (fuse_set_signal_handlers(session) == 0) {
    if (fuse_session_mount(session, options.at.c_str()) == 0) {
      if (told_to_stay(session)) code = answer_until_unmounted(session);
      fuse_session_unmount(session);
    }
    fuse_remove_signal_handlers(session);
  }
  fuse_session_destroy(session);
  fuse_opt_free_args(&arguments);
  return code;
}

/// Every file that the kernel knows holds a descriptor.
void raise_limit_of_descriptors() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  constexpr rlim_t kMany = 1 << 20;
  if (geteuid() == 0 && limit.rlim_max != RLIM_INFINITY) limit.rlim_max = std::max(limit.rlim_max, kMany);
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit);  // where it may not be raised it stays
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
  options.profile.forgiven_idle_ns = forgiven_idle_ns(options.profile.bytes_per_second);
  raise_limit_of_descriptors();
  umask(0);
  return serve();
}
