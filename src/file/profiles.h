// Which calibration profile a file is planned with.  Reads this user's profiles; knows nothing of open files.
#pragma once

#include <string>
#include <vector>

#include "model/profile.h"
#include "store/store.h"

namespace penstock::file {

struct FoundProfile {
  model::Profile profile;
  std::string remark;  ///< a sentence for the log about one that was asked for or found and could not be used; empty when there is none
};

/// `wanted`: the hint penstock_profile: a built-in name, the name of one of this user's profiles, or a file; empty: the one that was measured on this machine and
/// the file system of `path`, or else the built-in one that fits `file_system` best.
FoundProfile find_profile(const std::string& wanted, const std::string& path, const std::string& file_system, bool node_local);

/// The profile of a store that knows its pace, which no page cache stands before: of the node, what the built-in one has that fits `file_system` best.
model::Profile profile_of(const store::Pace& pace, const std::string& file_system, bool node_local);

/// Where this user's profiles are: penstock/profiles in $XDG_CONFIG_HOME, or in ~/.config.  Empty when neither is an absolute path.
std::string profile_directory();

/// That one of `profiles` whose mount point is the longest that `path` (absolute) lies below, of this `machine`; null when there is none.
const model::Profile* fitting(const std::vector<model::Profile>& profiles, const std::string& machine, const std::string& path);

}  // namespace penstock::file
