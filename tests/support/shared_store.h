// A file system that all nodes share, in memory: for tests in which gathering is open to choice.
#pragma once

#include <memory>
#include <string>

#include "store/memory/memory_store.h"

namespace penstock {

class SharedFile final : public store::ForwardingFile {
 public:
  explicit SharedFile(std::unique_ptr<store::File> inner) : ForwardingFile(std::move(inner)), traits_(inner_->traits()) {
    traits_.file_system = "of several nodes";
    traits_.node_local = traits_.can_map = traits_.maps_coherent = false;
    traits_.coherent_between_nodes = true;
  }
  [[nodiscard]] const store::Traits& traits() const override { return traits_; }

 private:
  store::Traits traits_;
};

class SharedStore final : public store::Store {
 public:
  Result<std::unique_ptr<store::File>> open(const std::string& path, const store::OpenOptions& options) override {
    Result<std::unique_ptr<store::File>> file = inner_.open(path, options);
    if (!file.ok()) return file;
    return std::unique_ptr<store::File>(new SharedFile(std::move(*file)));
  }
  Status remove(const std::string& path) override { return inner_.remove(path); }

 private:
  store::MemoryStore inner_;
};

}  // namespace penstock
