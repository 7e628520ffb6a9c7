// What accesses took, kept from run to run where the user wants that.  Small text files, one for each machine, file system, profile and number of ranks.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "plan/experience.h"

namespace penstock::file {

/// Of one rank's own accesses, and of collective ones.  Sent as it is.
struct Learned {
  using Kept = std::array<plan::Experience::Known, plan::Experience::kKept>;
  Kept own{};
  Kept together{};
  std::int32_t own_count = 0;
  std::int32_t together_count = 0;
};

/// Where that of such runs is: in penstock/learned of $XDG_STATE_HOME, or of ~/.local/state; empty when neither is an absolute path.
std::string learned_path(const std::string& file_system, const std::string& profile, int ranks, int nodes);

/// Nothing where the file is not there or makes no sense: it is a help, no promise.
Learned read_learned(const std::string& path);

/// Whole or not at all, whatever other jobs write at the same time.  False when it could not be written.
bool write_learned(const std::string& path, std::span<const plan::Experience::Known> own, std::span<const plan::Experience::Known> together);

}  // namespace penstock::file
