// A directory of small files, read once in a process.
#include "file/profiles.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>

namespace penstock::file {

namespace {

namespace fs = std::filesystem;

/// More than a profile ever has; nobody's accident fills the memory of a job.
constexpr std::uintmax_t kBytesMost = std::uintmax_t{1} << 20;
constexpr std::size_t kFilesMost = 256;

Result<model::Profile> read_profile(const fs::path& path) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(path, error);
  if (error) return Status::from_errno(error.value(), path.string());
  if (size > kBytesMost) return Status::failure(Code::kArgument, path.string() + ": is no profile: it has more than 1 MiB");
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  if (!stream) return Status::failure(Code::kIo, path.string() + ": cannot be read");
  return model::parse_profile(text.str(), path.string());
}

/// Those that cannot be read are left out: somebody else's mistake must not cost this file anything.
std::vector<model::Profile> read_all() {
  std::vector<model::Profile> profiles;
  const std::string directory = profile_directory();
  if (directory.empty()) return profiles;
  std::error_code error;
  std::vector<fs::path> paths;
  for (fs::directory_iterator at(directory, error), end; !error && at != end && paths.size() < kFilesMost; at.increment(error))
    if (at->path().extension() == ".toml") paths.push_back(at->path());
  std::sort(paths.begin(), paths.end());
  for (const fs::path& path : paths) {
    Result<model::Profile> profile = read_profile(path);
    if (profile.ok()) profiles.push_back(std::move(*profile));
  }
  return profiles;
}

const std::vector<model::Profile>& all_profiles() {
  static const std::vector<model::Profile> profiles = read_all();
  return profiles;
}

std::string this_machine() {
  char name[256] = {};
  if (gethostname(name, sizeof name - 1) != 0) return {};
  return model::machine_of(name);
}

/// `wanted` as a built-in name, a name of this user's, or a file.
Result<model::Profile> named(const std::string& wanted) {
  Result<model::Profile> built_in = model::built_in_profile(wanted);
  if (built_in.ok()) return built_in;
  std::error_code error;
  if (wanted.find('/') != std::string::npos || fs::is_regular_file(wanted, error)) return read_profile(wanted);
  const std::string directory = profile_directory();
  const fs::path mine = fs::path(directory) / (wanted + ".toml");
  if (!directory.empty() && fs::is_regular_file(mine, error)) return read_profile(mine);
  return built_in.status();
}

FoundProfile search(const std::string& wanted, const std::string& path, const std::string& file_system, bool node_local) {
  FoundProfile found{*model::built_in_profile(model::built_in_for(file_system, node_local)), {}};
  if (!wanted.empty()) {
    Result<model::Profile> profile = named(wanted);
    if (profile.ok())
      found.profile = std::move(*profile);
    else
      found.remark = "penstock_profile: " + std::string(profile.status().text()) + "; the built-in profile " + found.profile.name + " is used";
    return found;
  }
  if (all_profiles().empty()) return found;  // nobody calibrated: nothing is looked up by the path
  std::error_code error;
  const fs::path whole = fs::absolute(path, error);
  const fs::path directory = error ? fs::path() : fs::weakly_canonical(whole.parent_path(), error);
  const model::Profile* fits = error ? nullptr : fitting(all_profiles(), this_machine(), directory.string());
  if (fits != nullptr) found.profile = *fits;
  return found;
}

bool lies_below(const std::string& path, const std::string& mount_point) {
  if (mount_point.empty() || path.compare(0, mount_point.size(), mount_point) != 0) return false;
  return mount_point.back() == '/' || path.size() == mount_point.size() || path[mount_point.size()] == '/';
}

}  // namespace

std::string profile_directory() {
  const char* config = std::getenv("XDG_CONFIG_HOME");
  if (config != nullptr && config[0] == '/') return std::string(config) + "/penstock/profiles";
  const char* home = std::getenv("HOME");
  return home != nullptr && home[0] == '/' ? std::string(home) + "/.config/penstock/profiles" : std::string();
}

const model::Profile* fitting(const std::vector<model::Profile>& profiles, const std::string& machine, const std::string& path) {
  const model::Profile* best = nullptr;
  for (const model::Profile& profile : profiles) {
    if (profile.machine != machine || !lies_below(path, profile.mount_point)) continue;
    if (best == nullptr || profile.mount_point.size() > best->mount_point.size()) best = &profile;
  }
  return best;
}

FoundProfile find_profile(const std::string& wanted, const std::string& path, const std::string& file_system, bool node_local) {
  try {
    return search(wanted, path, file_system, node_local);
  } catch (const std::exception&) {
    // The library's calls about files and strings may run out of memory; planning goes on with what is built in.
    return {*model::built_in_profile(model::built_in_for(file_system, node_local)), "no memory to read calibration profiles"};
  }
}

model::Profile profile_of(const store::Pace& pace, const std::string& file_system, bool node_local) {
  model::Profile profile = *model::built_in_profile(model::built_in_for(file_system, node_local));
  profile.name = file_system;
  profile.figures.file.cached = 0;
  profile.figures.file.sync = pace.random_call_seconds;
  for (model::Storage* storage : {&profile.figures.storage_read, &profile.figures.storage_write}) {
    storage->device_call = pace.call_seconds;
    storage->device_random_call = pace.random_call_seconds;
    storage->device_per_byte = pace.per_byte_seconds;
    storage->device_ranks = pace.requests_at_once;
    storage->device_streams = 1;
  }
  return profile;
}

}  // namespace penstock::file
