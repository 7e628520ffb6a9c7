// Counting network cards, on a made-up /sys/class.
#include "file/interfaces.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace penstock::file {
namespace {

namespace fs = std::filesystem;

/// A tree like /sys: devices, and classes with links to them.
class Machine {
 public:
  Machine() {
    char name[] = "interfaces_test.XXXXXX";
    top_ = fs::absolute(mkdtemp(name));
    fs::create_directories(classes());
  }
  ~Machine() { fs::remove_all(top_); }
  [[nodiscard]] fs::path classes() const { return top_ / "class"; }

  fs::path add(const std::string& entry, const std::string& card) {
    const fs::path made = classes() / entry;
    fs::create_directories(made);
    if (!card.empty()) {
      fs::create_directories(top_ / card);
      fs::create_directory_symlink(top_ / card, made / "device");
    }
    return made;
  }
  void network(const std::string& name, const std::string& card, const std::string& state, const std::string& speed) {
    const fs::path entry = add("net/" + name, card);
    std::ofstream(entry / "operstate") << state << "\n";
    if (!speed.empty()) std::ofstream(entry / "speed") << speed << "\n";
  }
  void infiniband(const std::string& name, const std::string& card, const std::string& state, const std::string& rate) {
    const fs::path port = add("infiniband/" + name, card) / "ports/1";
    fs::create_directories(port);
    std::ofstream(port / "state") << state << "\n";
    std::ofstream(port / "rate") << rate << "\n";
  }
  void virtual_function(const std::string& card, const std::string& of) { fs::create_directory_symlink(top_ / of, top_ / card / "physfn"); }
  [[nodiscard]] int count() const { return network_interfaces(classes().string()); }

 private:
  fs::path top_;
};

TEST(Interfaces, OneAtLeast) {
  EXPECT_EQ(network_interfaces("/no/such/directory"), 1);
  EXPECT_EQ(Machine().count(), 1);
  EXPECT_GE(network_interfaces(), 1);
  EXPECT_LE(network_interfaces(), kInterfacesMost);
}

TEST(Interfaces, TheFastestOfHardwareThatAreUp) {
  Machine machine;
  machine.network("lo", "", "unknown", "");
  machine.network("bridge0", "", "up", "400000");
  machine.network("eth0", "card0", "up", "1000");
  machine.network("eth1", "card1", "up", "1000");
  EXPECT_EQ(machine.count(), 2);
  for (int i = 0; i < 8; ++i) machine.network("hsn" + std::to_string(i), "fast" + std::to_string(i), "up", "200000");
  EXPECT_EQ(machine.count(), 8) << "the two slow ones are for administration";
  machine.network("hsn8", "fast8", "down", "200000");
  EXPECT_EQ(machine.count(), 8);
  for (int i = 9; i < 30; ++i) machine.network("hsn" + std::to_string(i), "fast" + std::to_string(i), "up", "200000");
  EXPECT_EQ(machine.count(), kInterfacesMost);
}

TEST(Interfaces, ACardCountsOnce) {
  Machine machine;
  machine.network("ib0", "card0", "down", "");
  machine.infiniband("mlx5_0", "card0", "4: ACTIVE", "200 Gb/sec (4X HDR)");
  machine.network("ens1", "card1", "up", "200000");
  machine.infiniband("mlx5_1", "card1", "4: ACTIVE", "200 Gb/sec (2X NDR)");
  machine.infiniband("mlx5_2", "card2", "1: DOWN", "200 Gb/sec (2X NDR)");
  EXPECT_EQ(machine.count(), 2);
  machine.network("ens1v0", "card1v0", "up", "200000");
  machine.virtual_function("card1v0", "card1");
  EXPECT_EQ(machine.count(), 2);
}

TEST(Interfaces, WithoutSpeedsAllCount) {
  Machine machine;
  machine.network("eth0", "card0", "up", "-1");
  machine.network("eth1", "card1", "unknown", "");
  EXPECT_EQ(machine.count(), 2);
}

}  // namespace
}  // namespace penstock::file
