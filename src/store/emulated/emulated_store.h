// The emulated store: another store, as slow as a device that is not there.  Knows nothing of MPI, datatypes, ranks or hints.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "store/emulated/device.h"
#include "store/store.h"

namespace penstock::store {

/// Time as the store sees it; tests bring their own.  Thread rule: all calls may be made concurrently.
class DeviceClock {
 public:
  virtual ~DeviceClock() = default;
  [[nodiscard]] virtual std::int64_t now_ns() const = 0;
  virtual void sleep_until(std::int64_t time_ns) = 0;
};

/// The system's monotonic clock, which is the same in all processes of a node.  Lives for ever.
DeviceClock& system_device_clock();

/// Reads and writes are carried out by `inner` at once and return when the pretended device would be done with them.  Extents that follow one
/// another in a batch are one request; a longer one than kRequestBytesMax is several.  A sync is one request more, without bytes.  Nothing
/// else takes time, and nothing is cached: what is read twice is paid twice.
///
/// Traits are those of `inner` but for maps, which would go past the device: map() fails with kUnsupported.
/// All files of all processes of this user on this node that name the same device share its bandwidth and its head.
/// Opening fails with `profile`'s failure when it is one: a run that was to be slow must not be fast without anybody noticing.
/// Requires: `inner` and `clock` outlive this.
class EmulatedStore final : public Store {
 public:
  EmulatedStore(Store& inner, Result<DeviceProfile> profile, DeviceClock& clock = system_device_clock())
      : inner_(inner), profile_(std::move(profile)), clock_(clock) {}
  Result<std::unique_ptr<File>> open(const std::string& path, const OpenOptions& options) override;
  Status remove(const std::string& path) override { return inner_.remove(path); }

 private:
  Store& inner_;
  const Result<DeviceProfile> profile_;
  DeviceClock& clock_;
};

}  // namespace penstock::store
