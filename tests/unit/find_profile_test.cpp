// Which profile a file is planned with: by hint, by machine and mount point, or built in.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "file/profiles.h"

namespace penstock::file {
namespace {

model::Profile profile(const std::string& name, const std::string& machine, const std::string& mount_point) {
  model::Profile made = *model::built_in_profile("ssd");
  made.name = name;
  made.machine = machine;
  made.mount_point = mount_point;
  return made;
}

TEST(FindProfile, TheDeepestMountPointOfThisMachine) {
  const std::vector<model::Profile> profiles = {profile("root", "node", "/"), profile("scratch", "node", "/scratch"), profile("other", "login", "/scratch/fast"),
                                                profile("nowhere", "node", "")};
  const auto name = [&](const std::string& path) { return fitting(profiles, "node", path)->name; };
  EXPECT_EQ(name("/scratch"), "scratch");
  EXPECT_EQ(name("/scratch/fast/a"), "scratch");
  EXPECT_EQ(name("/scratches"), "root");
  EXPECT_EQ(name("/usr/share"), "root");
  EXPECT_EQ(fitting(profiles, "elsewhere", "/scratch"), nullptr);
}

/// A directory with profiles, as the environment names it.
class FindProfileHere : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = std::filesystem::temp_directory_path() / ("penstock-profiles-" + std::to_string(getpid()));
    std::filesystem::create_directories(directory_ / "penstock" / "profiles");
    setenv("XDG_CONFIG_HOME", directory_.c_str(), 1);
  }
  void TearDown() override {
    unsetenv("XDG_CONFIG_HOME");
    std::filesystem::remove_all(directory_);
  }
  std::string write(const std::string& name, const std::string& text) {
    const std::filesystem::path path = directory_ / "penstock" / "profiles" / name;
    std::ofstream(path) << text;
    return path.string();
  }
  std::filesystem::path directory_;
};

TEST_F(FindProfileHere, ByHint) {
  const std::string path = write("mine.toml", "[profile]\nversion = 1\nname = \"mine\"\n");
  for (const std::string& wanted : {std::string("mine"), path}) {
    const FoundProfile found = find_profile(wanted, "/tmp/file", "ext4", true);
    EXPECT_EQ(found.profile.name, "mine") << wanted;
    EXPECT_TRUE(found.profile.measured);
    EXPECT_EQ(found.remark, "");
  }
  EXPECT_EQ(find_profile("hdd", "/tmp/file", "ext4", true).profile.name, "hdd");
}

TEST_F(FindProfileHere, WhatCannotBeUsedIsSaidAndTheBuiltInOneTaken) {
  const std::string broken = write("broken.toml", "[profile\n");
  const std::string huge = write("huge.toml", std::string((1 << 20) + 1, '#'));
  for (const std::string& wanted : {broken, huge, std::string("broken"), std::string("neverheard"), std::string("/no/such/file.toml")}) {
    const FoundProfile found = find_profile(wanted, "/tmp/file", "tmpfs", true);
    EXPECT_EQ(found.profile.name, "tmpfs");
    EXPECT_NE(found.remark.find(wanted), std::string::npos) << found.remark;
    EXPECT_NE(found.remark.find("tmpfs"), std::string::npos) << found.remark;
  }
}

TEST_F(FindProfileHere, NobodysMistakeCountsWhereNothingIsAskedFor) {
  write("broken.toml", "[profile\n");
  const FoundProfile found = find_profile("", "relative", "gpfs", false);
  EXPECT_EQ(found.profile.name, "lustre");
  EXPECT_EQ(found.remark, "");
}

TEST(FindProfile, WithoutAPlaceToLookThereIsWhatIsBuiltIn) {
  setenv("XDG_CONFIG_HOME", "relative", 1);
  const std::string home = std::getenv("HOME") != nullptr ? std::getenv("HOME") : "";
  unsetenv("HOME");
  EXPECT_EQ(profile_directory(), "");
  EXPECT_EQ(find_profile("", "/tmp/file", "xfs", true).profile.name, "ssd");
  setenv("HOME", home.c_str(), 1);
  unsetenv("XDG_CONFIG_HOME");
}

TEST(ProfileOf, AStoreThatKnowsItsPaceHasNoPageCacheBeforeIt) {
  const model::Profile made = profile_of({.call_seconds = 1e-4, .random_call_seconds = 2e-3, .per_byte_seconds = 3e-9, .requests_at_once = 5}, "emulated some", true);
  EXPECT_EQ(made.name, "emulated some");
  EXPECT_EQ(made.figures.file.cached, 0);
  for (const model::Storage& storage : {made.figures.storage_read, made.figures.storage_write}) {
    EXPECT_EQ(storage.device_call, 1e-4);
    EXPECT_EQ(storage.device_random_call, 2e-3);
    EXPECT_EQ(storage.device_per_byte, 3e-9);
    EXPECT_EQ(storage.device_ranks, 5);
    EXPECT_EQ(storage.device_streams, 1);
  }
  EXPECT_EQ(made.figures.memory.piece, model::built_in_profile("ssd")->figures.memory.piece);
}

}  // namespace
}  // namespace penstock::file
