// Making each call last as long as the device would take.
#include "store/emulated/emulated_store.h"

#include <sched.h>
#include <sys/stat.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <functional>

#include "store/emulated/shared_state.h"

namespace penstock::store {

namespace {

/// The kernel wakes sleepers a little late: so much earlier they are woken, and wait for the rest awake.
constexpr std::int64_t kAwakeNs = 60'000;
/// So far may the requests of one call be taken in before the caller waits: others get their turn between them.
constexpr std::int64_t kAheadNs = 5'000'000;

class SystemClock final : public DeviceClock {
 public:
  [[nodiscard]] std::int64_t now_ns() const override {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  }

  void sleep_until(std::int64_t time_ns) override {
    const std::int64_t asleep_ns = time_ns - kAwakeNs;
    if (asleep_ns > now_ns()) {
      const timespec until{static_cast<time_t>(asleep_ns / 1'000'000'000), static_cast<long>(asleep_ns % 1'000'000'000)};
      while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
      }
    }
    while (now_ns() < time_ns) sched_yield();
  }
};

Traits traits_on(Traits traits, const DeviceProfile& profile) {
  traits.file_system = "emulated " + profile.name;
  traits.can_map = false;
  traits.maps_coherent = false;
  traits.pace = pace_of(profile);
  return traits;
}

/// A number of the file's own, by whatever name each rank opened it.
std::uint64_t number_of(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return std::hash<std::string>()(path);  // the store's names are not the system's
  return static_cast<std::uint64_t>(info.st_dev) * 0x9e3779b97f4a7c15U + static_cast<std::uint64_t>(info.st_ino);
}

class EmulatedFile final : public ForwardingFile {
 public:
  EmulatedFile(std::unique_ptr<File> inner, const DeviceProfile& profile, std::shared_ptr<DeviceState> state, DeviceClock& clock,
               std::uint64_t number, std::string path)
      : ForwardingFile(std::move(inner)),
        profile_(profile),
        state_(std::move(state)),
        clock_(clock),
        number_(number),
        path_(std::move(path)),
        traits_(traits_on(inner_->traits(), profile)) {}

  Status read(std::span<Transfer> batch) override {
    const std::int64_t began = clock_.now_ns();
    Status status = inner_->read(batch);
    pay(batch, began);
    return status;
  }

  Status write(std::span<Transfer> batch) override {
    const std::int64_t began = clock_.now_ns();
    Status status = inner_->write(batch);
    pay(batch, began);
    return status;
  }

  Result<std::unique_ptr<Mapping>> map(Offset, Offset, bool) override {
    return Status::failure(Code::kUnsupported, "'" + path_ + "' cannot be mapped into memory: it lies on a pretended device (PENSTOCK_EMULATE)");
  }

  Status sync() override {
    const std::int64_t began = clock_.now_ns();
    Status status = inner_->sync();
    clock_.sleep_until(began + profile_.random_latency_ns);
    return status;
  }

  [[nodiscard]] const Traits& traits() const override { return traits_; }

 private:
  /// Of the requests of one call: see take_request().
  struct Booking {
    std::int64_t told;
    std::int64_t own;
    std::int64_t done;
  };

  /// Returns when the device is done with what moved.
  void pay(std::span<const Transfer> batch, std::int64_t began) {
    Booking booking{began, began, began};
    std::size_t index = 0;
    while (index < batch.size()) {
      const Offset first = batch[index].offset;
      Offset end = first;
      while (index < batch.size() && batch[index].offset == end) {
        const Transfer& transfer = batch[index++];
        end += static_cast<Offset>(transfer.done);
        if (transfer.done < transfer.length) break;
      }
      book(first, end, booking);
    }
    if (booking.done > began) clock_.sleep_until(booking.done);
  }

  /// Books what is contiguous in the file, and waits where that is far ahead.
  void book(Offset first, Offset end, Booking& booking) {
    while (first < end) {
      const std::size_t bytes = static_cast<std::size_t>(std::min<Offset>(end - first, kRequestBytesMax));
      booking.done = std::max(booking.done, take_request(profile_, *state_, booking.told, number_, first, bytes, booking.own));
      first += static_cast<Offset>(bytes);
      if (booking.done - booking.told <= kAheadNs) continue;
      clock_.sleep_until(booking.done);
      booking.told = booking.own = booking.done;
    }
  }

  const DeviceProfile profile_;
  const std::shared_ptr<DeviceState> state_;
  DeviceClock& clock_;
  const std::uint64_t number_;
  const std::string path_;
  const Traits traits_;
};

}  // namespace

DeviceClock& system_device_clock() {
  static auto* const clock = new SystemClock;
  return *clock;
}

Result<std::unique_ptr<File>> EmulatedStore::open(const std::string& path, const OpenOptions& options) {
  if (!profile_.ok()) return profile_.status();
  Result<std::shared_ptr<DeviceState>> state = shared_device_state((*profile_).name);
  if (!state.ok()) return state.status();
  Result<std::unique_ptr<File>> file = inner_.open(path, options);
  if (!file.ok()) return file;
  return std::unique_ptr<File>(new EmulatedFile(std::move(*file), *profile_, std::move(*state), clock_, number_of(path), path));
}

}  // namespace penstock::store
