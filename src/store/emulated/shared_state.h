// Memory that the users of a pretended device on one node share.  Knows neither requests nor profiles.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "store/emulated/device.h"

namespace penstock::store {

/// The state of the device `name` of this user on this node, in a file of shared memory that the last user removes; one that was killed
/// leaves it to the next.  All users in one process share one mapping.  Fails with kAccess where the file is somebody else's, and as the
/// system calls fail.  Requires a name without slashes.  Thread rule: may be called concurrently.
Result<std::shared_ptr<DeviceState>> shared_device_state(const std::string& name);

}  // namespace penstock::store
