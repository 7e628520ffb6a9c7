// Directories and small files of sysfs (Documentation/ABI/testing/sysfs-class-net and stable/sysfs-class-infiniband in the kernel's sources).
#include "file/interfaces.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <map>

namespace penstock::file {

namespace {

namespace fs = std::filesystem;

/// The first line of a file; empty where there is none.
std::string line_of(const fs::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

/// The number that a text begins with; 0 where there is none.
int number_of(const std::string& text) {
  int number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return std::max(number, 0);
}

/// The card that an entry of a class belongs to; empty for what is made of software.  Virtual functions belong to the physical one they are made of.
std::string card_of(const fs::path& entry) {
  std::error_code error;
  const fs::path physical = fs::canonical(entry / "device/physfn", error);
  if (!error) return physical.string();
  const fs::path device = fs::canonical(entry / "device", error);
  return error ? std::string() : device.string();
}

/// In Mbit/s; 0 when not known; -1 for one that is down.
int speed_of_network(const fs::path& entry) {
  const std::string state = line_of(entry / "operstate");
  if (state != "up" && state != "unknown") return -1;
  return number_of(line_of(entry / "speed"));
}

int speed_of_infiniband(const fs::path& entry) {
  constexpr int kMbitOfGbit = 1000;
  std::error_code error;
  int fastest = -1;
  for (fs::directory_iterator port(entry / "ports", error), end; !error && port != end; port.increment(error)) {
    if (line_of(port->path() / "state").find("ACTIVE") == std::string::npos) continue;
    fastest = std::max(fastest, std::min(number_of(line_of(port->path() / "rate")), 1 << 20) * kMbitOfGbit);
  }
  return fastest;
}

/// Adds the cards of a class that are up, each with the fastest speed that is known of it.
void add_cards(const fs::path& entries, int (*speed_of)(const fs::path&), std::map<std::string, int>& speed_of_card) {
  std::error_code error;
  for (fs::directory_iterator entry(entries, error), end; !error && entry != end; entry.increment(error)) {
    const std::string card = card_of(entry->path());
    if (card.empty()) continue;
    const int speed = speed_of(entry->path());
    if (speed < 0) continue;
    int& fastest = speed_of_card.try_emplace(card, speed).first->second;
    fastest = std::max(fastest, speed);
  }
}

}  // namespace

int network_interfaces(const std::string& classes) {
  std::map<std::string, int> speed_of_card;
  add_cards(fs::path(classes) / "net", speed_of_network, speed_of_card);
  add_cards(fs::path(classes) / "infiniband", speed_of_infiniband, speed_of_card);
  int fastest = 0;
  for (const auto& [card, speed] : speed_of_card) fastest = std::max(fastest, speed);
  const auto count = std::ranges::count_if(speed_of_card, [fastest](const auto& entry) { return entry.second == fastest; });
  return static_cast<int>(std::clamp<std::ptrdiff_t>(count, 1, kInterfacesMost));
}

}  // namespace penstock::file
