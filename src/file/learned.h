// What accesses took, kept from file to file of a process, and from run to run where the user wants that: small text files, one for each machine, file system,
// profile and number of ranks.
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
  std::int32_t local_per_node = kUnknown;  ///< local aggregators of a node by which the last file's collective accesses went; not kept from run to run
  static constexpr std::int32_t kUnknown = -1;
};

/// Where that of such runs is: in penstock/learned of $XDG_STATE_HOME, or of ~/.local/state; empty when neither is an absolute path.
std::string learned_path(const std::string& file_system, const std::string& profile, int ranks, int nodes);

/// Nothing where the file is not there or makes no sense: it is a help, no promise.
Learned read_learned(const std::string& path);

/// Whole or not at all, whatever other jobs write at the same time.  False when it could not be written.
bool write_learned(const std::string& path, std::span<const plan::Experience::Known> own, std::span<const plan::Experience::Known> together);

/// Files whose accesses are expected to take alike.
struct LikeFiles {
  std::string file_system;
  std::uint64_t device = 0;  ///< as store::Identity has it: of two that are of one kind, one may be faster
  std::string profile;
  int ranks = 1;
  int nodes = 1;
  int rank = 0;  ///< of this rank: one does not take the time of another
  friend bool operator==(const LikeFiles&, const LikeFiles&) = default;
};

/// What this rank found out with the last such file that it closed: a program that writes a file for each time step does not learn anew in each.
/// Local; for any thread.  The last kLikeFilesKept of them.
constexpr std::size_t kLikeFilesKept = 32;
Learned recall_from_process(const LikeFiles& files);
void keep_in_process(const LikeFiles& files, std::span<const plan::Experience::Known> own, std::span<const plan::Experience::Known> together,
                     int local_per_node = Learned::kUnknown);

}  // namespace penstock::file
