// Names of files for tests, removed at the end of the scope.
#pragma once

#include <unistd.h>

#include <atomic>
#include <string>

namespace penstock::test {

/// A name in `directory` that no other test uses; the file itself is made by whoever opens it.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& directory = default_directory()) {
    static std::atomic<int> number = 0;
    path_ = directory + "/penstock_test_" + std::to_string(getpid()) + "_" + std::to_string(number++);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() { unlink(path_.c_str()); }
  [[nodiscard]] const std::string& path() const { return path_; }

  static std::string default_directory() {
    const char* directory = getenv("TMPDIR");
    return directory != nullptr && *directory != '\0' ? directory : "/tmp";
  }

 private:
  std::string path_;
};

}  // namespace penstock::test
