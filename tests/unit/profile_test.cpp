// Calibration profiles: what is read, and what is refused.
#include "model/profile.h"

#include <gtest/gtest.h>

namespace penstock::model {
namespace {

const std::string kHead = "[profile]\nversion = 1\nname = \"mine\"\nbased_on = \"tmpfs\"\nmachine = \"cluster, Processor 3000\"\nmount_point = \"/scratch\"\n";

TEST(Profile, BuiltInOnesHaveEveryNumber) {
  for (const std::string_view name : kBuiltInNames) {
    const Result<Profile> profile = built_in_profile(name);
    ASSERT_TRUE(profile.ok());
    EXPECT_EQ(profile->name, name);
    EXPECT_FALSE(profile->measured);
    for (const FieldRow& row : kFieldRows) EXPECT_GE(at(profile->figures, row), row.minimum) << row.name;
  }
  EXPECT_EQ(built_in_profile("floppy").status().code(), Code::kArgument);
}

TEST(Profile, FiguresAreAnArrayOfTheRows) {
  EXPECT_EQ(sizeof(Figures), std::size(kFieldRows) * sizeof(double));
  Figures figures{};
  double value = 0;
  for (const FieldRow& row : kFieldRows) at(figures, row) = ++value;
  value = 0;
  for (const FieldRow& row : kFieldRows) EXPECT_EQ(at(figures, row), ++value);
}

TEST(Profile, NumbersThatAreLeftOutComeFromWhatItIsBasedOn) {
  const Result<Profile> profile = parse_profile(kHead + "[network.inside]\nstartup = 3e-6\n[memory]\nmap = 1\n[measurements]\nanything = true\n", "p.toml");
  ASSERT_TRUE(profile.ok()) << profile.status().text();
  EXPECT_EQ(profile->name, "mine");
  EXPECT_TRUE(profile->measured);
  EXPECT_EQ(profile->machine, "cluster");
  EXPECT_EQ(profile->mount_point, "/scratch");
  EXPECT_EQ(profile->figures.network_inside.startup, 3e-6);
  EXPECT_EQ(profile->figures.memory.map, 1.0);
  EXPECT_EQ(profile->figures.storage_read.device_per_byte, built_in_profile("tmpfs")->figures.storage_read.device_per_byte);
}

TEST(Profile, WhatIsNoProfileIsRefusedWithItsPlace) {
  const auto refused = [](const std::string& text, const std::string& words) {
    const Result<Profile> profile = parse_profile(text, "p.toml");
    ASSERT_FALSE(profile.ok()) << text;
    EXPECT_EQ(profile.status().code(), Code::kArgument);
    EXPECT_NE(profile.status().text().find("p.toml"), std::string::npos);
    EXPECT_NE(profile.status().text().find(words), std::string::npos) << profile.status().text();
  };
  refused("", "[profile]");
  refused("[profile", "line 1");
  refused("profile = 3\n", "[profile]");
  refused("[profile]\nname = \"x\"\n", "version");
  refused("[profile]\nversion = 2\n", "version");
  refused("[profile]\nversion = 1\nbased_on = \"floppy\"\n", "based_on");
  refused(kHead + "[memory]\nmap = -1\n", "memory.map");
  refused(kHead + "[memory]\nmap = inf\n", "memory.map");
  refused(kHead + "[memory]\nmap = nan\n", "memory.map");
  refused(kHead + "[memory]\nmap = \"1\"\n", "memory.map");
  refused(kHead + "[memory]\nmap = true\n", "memory.map");
  refused(kHead + "[storage.read]\ndevice_ranks = 0.5\n", "storage.read.device_ranks");
  refused(kHead + "[memory]\nmpa = 1\n", "memory.mpa");
  refused("memory = 1\n" + kHead, "memory");
  std::string deep = "a";
  for (int part = 0; part < 200'000; ++part) deep += ".a";
  refused(kHead + "[" + deep + "]\n", "parts");
  refused(kHead + "[measurements]\n" + deep + " = 1\n", "parts");
}

TEST(Profile, NodesOfAClusterAreOneMachine) {
  EXPECT_EQ(machine_of("node017.cluster.org"), "node");
  EXPECT_EQ(machine_of("gpu-12"), "gpu");
  EXPECT_EQ(machine_of("frontend"), "frontend");
  EXPECT_EQ(machine_of("gpu_12"), "gpu");
  EXPECT_EQ(machine_of("10"), "10");
  EXPECT_EQ(machine_of("-10"), "-10");
  EXPECT_EQ(machine_of(""), "");
}

TEST(Profile, ABuiltInOneForEachKindOfFileSystem) {
  EXPECT_EQ(built_in_for("tmpfs", true), "tmpfs");
  EXPECT_EQ(built_in_for("ext4", true), "ssd");
  EXPECT_EQ(built_in_for("gpfs", false), "lustre");
}

}  // namespace
}  // namespace penstock::model
