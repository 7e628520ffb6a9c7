// A profile by which collective calls go over from some aggregators to others: for tests.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace penstock {

/// A profile by which few aggregators are best for few bytes, for messages are dear, and many for many.  A file, as long as this lives.
/// `reading_ranks`: how many times faster all ranks read than one; 1: few aggregators are best for reading always.  `message`: what one costs between nodes.
class TurningProfile {
 public:
  explicit TurningProfile(double reading_ranks = 4, double message = 0.14)
      : path_(std::filesystem::temp_directory_path() / ("penstock-turning-" + std::to_string(getpid()) + "-" + std::to_string(static_cast<int>(reading_ranks)) + "-" +
                                                        std::to_string(static_cast<int>(message)) + ".toml")) {
    std::string text = "[profile]\nversion = 1\nname = \"turning\"\nbased_on = \"lustre\"\n[network.between]\nstartup = " +
                       std::to_string(message) + "\nstep = 1e-6\n";
    for (const bool write : {false, true}) {
      const std::string times = std::to_string(write ? 4.0 : reading_ranks);
      text += std::string("[storage.") + (write ? "write" : "read") + "]\ndevice_call = 1e-6\ndevice_random_call = 1.5\ndevice_per_byte = 0.01\ndevice_ranks = " + times + "\ndevice_streams = " +
              times + "\n";
    }
    std::ofstream(path_) << text;
  }
  ~TurningProfile() { std::filesystem::remove(path_); }
  [[nodiscard]] std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace penstock
