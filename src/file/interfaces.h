// The network cards of this node, as the kernel lists them.  Knows nothing of files, ranks or MPI.
#pragma once

#include <string>

namespace penstock::file {

/// More aggregators of a node than this do not come from its network.
inline constexpr int kInterfacesMost = 16;

/// How many network cards of this machine carry a job's messages: those of hardware that are up, and of these the fastest where speeds are known, so that
/// eight fast ones and one for administration count as eight.  Functions of one card count once, and so do its Ethernet and InfiniBand faces.  At least 1, at
/// most kInterfacesMost; 1 where nothing can be read.  `classes`: where the kernel shows devices by class.
///
/// Read from sysfs and not asked of hwloc, which reads the same files: hwloc does not tell speed or state, without which administration networks count;
/// discovering a machine's topology takes it milliseconds, this takes a tenth of one; and MPI libraries bring a libhwloc of their own, next to which a preloaded
/// library had better not load another.
int network_interfaces(const std::string& classes = "/sys/class");

}  // namespace penstock::file
