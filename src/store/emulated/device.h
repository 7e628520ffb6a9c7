// A pretended device: when each request to it is done, given what all its users asked of it before.  Knows neither files nor
// system calls: times and places come in as numbers.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/units.h"
#include "store/store.h"

namespace penstock::store {

/// What is pretended.
struct DeviceProfile {
  std::string name = "device";            ///< users of one name on one node share one device
  std::int64_t bytes_per_second = 0;      ///< of all requests together; 0: no limit
  std::int64_t requests_per_second = 0;   ///< serial: of requests that do not continue the last; otherwise of all.  0: no limit
  std::int64_t random_latency_ns = 0;     ///< the least that a request takes that does not continue the device's last one
  std::int64_t sequential_latency_ns = 0; ///< the least that one takes that does
  bool serial = false;                    ///< one head: while it moves for one request, no other one's bytes move
  /// A gap this short between two requests is taken for the way between device and program, and the device is said to have worked through it: a
  /// stream of requests one at a time then moves at the device's rate.
  std::int64_t forgiven_idle_ns = 200'000;
};

/// Reads a profile's name ("hdd"), settings ("rate=200,latency=100"), or a name followed by settings that change it:
///   rate=MB/s  iops=N  latency=US  sequential_latency=US  serial=yes|no  name=WORD
/// separated by commas; rate and latencies may have a fraction, 0 takes a limit away.  Fails with kInfo naming the word that is wrong.
Result<DeviceProfile> parse_device(std::string_view text);

/// What the users of a device share, in memory that each of them has mapped: all zeros is a device at rest.  Each word is changed in one
/// step, and nobody ever holds anything: a process that dies leaves at most one request that nobody waits for.
struct DeviceState {
  std::atomic<std::int64_t> bytes_until_ns = 0;     ///< when the bytes asked for so far have moved
  std::atomic<std::int64_t> requests_until_ns = 0;  ///< when the next request may begin, where their number is limited
  std::atomic<std::uint64_t> head = 0;              ///< where the last request ended, as place_of() says it
};
static_assert(std::atomic<std::int64_t>::is_always_lock_free, "the words are shared between processes");

/// Longer requests are several, one after the other, as devices have it.
constexpr std::size_t kRequestBytesMax = std::size_t{1} << 20;

/// What users may expect of it.
[[nodiscard]] Pace pace_of(const DeviceProfile& profile);

/// A number that stands for offset `offset` of file `file` (any number that is the file's own).
[[nodiscard]] std::uint64_t place_of(std::uint64_t file, Offset offset);

/// Takes one request, told of at `now_ns`, into the device's queue; the time at which it is done.
/// A user who asks for one thing after the other may book them at once: `own_ns`, to begin with when the first one is made, is moved on by the latency of each.
/// The queue goes by `now_ns` alone, since a booking in the future would keep the device idle until then for all other users.
/// Requires 0 <= bytes <= kRequestBytesMax.  Thread rule: may be called concurrently, by several processes.
std::int64_t take_request(const DeviceProfile& profile, DeviceState& state, std::int64_t now_ns, std::uint64_t file, Offset offset, std::size_t bytes,
                          std::int64_t& own_ns);

}  // namespace penstock::store
