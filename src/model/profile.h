// A calibration profile: what a machine's network, storage and memory cost, in seconds and bytes.  Pure: reads text, not files.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "model/figures.h"  // generated from table/profile.toml: struct Figures, its rows and the built-in profiles

namespace penstock::model {

/// What the model computes with, and where it comes from.
struct Profile {
  std::string name;         ///< "ssd", or what a measured one is called
  bool measured = false;    ///< false: one of the built-in profiles
  std::string machine;      ///< where it was measured: machine_of() the host's name; empty for built-in ones
  std::string mount_point;  ///< of the file system that was measured
  Figures figures{};
};

/// Reads what `penstock calibrate` wrote (TOML).  Numbers that the text leaves out are taken from the built-in profile that it names as `based_on`
/// ("ssd" when it names none), so that a profile of an older version still serves.  `where` names the text in errors.
/// Fails with kArgument on text that is no profile, on numbers that are less than table/profile.toml permits or not finite, and on names that
/// the table does not have: a misspelt number must not be taken for one that was measured.
Result<Profile> parse_profile(std::string_view text, const std::string& where);

/// The built-in profile of that name.  Fails with kArgument, naming those there are.
Result<Profile> built_in_profile(std::string_view name);

/// The name of the built-in profile that fits a file system best: by its name in store::Traits ("tmpfs", "ext4", "lustre", ...) and by whether only
/// this node can write it.
std::string_view built_in_for(std::string_view file_system, bool node_local);

/// What the nodes of a cluster have in common of their names: the host's name without its domain and without a number at its end
/// (penstock calibrate writes that, with the processors' name behind a comma).
std::string machine_of(std::string_view host);

/// One number of a profile, by its row.
double& at(Figures& figures, const FieldRow& row);
double at(const Figures& figures, const FieldRow& row);

}  // namespace penstock::model
