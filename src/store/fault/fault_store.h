// The fault store: makes the N-th call of another store fail, for tests.  Knows nothing of MPI, datatypes, ranks or
// hints.
//
// Text form of a plan (PENSTOCK_FAULT), rules separated by ',' or ';':
//   rule   = kind ":" number [ "+" ] ":" action { ":" option }
//   kind   = "any" | "open" | "remove" | "read" | "write" | "map" | "populate" | "size" | "resize" | "grow" |
//            "preallocate" | "sync" | "close" | "lock"
//   number = which call of that kind, counted from 1 over all files of the store; "+": that one and all later ones
//   action = errno name ("ENOSPC") or number | "end" (reads: the file ends in the middle of the call)
//   option = "short" (reads and writes: half of the bytes move before the failure) | "rank=" number
// Example: write:3:ENOSPC:short;any:5+:EIO:rank=1
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <string_view>
#include <vector>

#include "store/store.h"

namespace penstock::store {

enum class Call : int {
  kOpen,
  kRemove,
  kRead,
  kWrite,
  kMap,
  kPopulate,
  kSize,
  kResize,
  kGrow,
  kPreallocate,
  kSync,
  kClose,
  kLock,
  kAny
};
constexpr int kCallCount = static_cast<int>(Call::kAny);
std::string_view name(Call call);

struct FaultRule {
  Call call = Call::kAny;
  std::int64_t number = 1;  ///< counted from 1
  bool from_then_on = false;
  int error = 5;      ///< errno of the failure; 0: a read that ends early and succeeds
  bool half = false;  ///< half of the bytes move before the failure
  int rank = -1;      ///< for whoever reads the environment: the rank that this is meant for, -1 all
};

/// Fails with kInfo naming the rule that does not parse.
Result<std::vector<FaultRule>> parse_fault_rules(std::string_view text);

/// The rules and the count of calls, shared by all files of a store.  Thread rule: all calls may be made concurrently.
class FaultPlan {
 public:
  explicit FaultPlan(std::vector<FaultRule> rules = {}) : rules_(std::move(rules)) {}

  /// Counts a call; the rule that strikes it, or null.
  const FaultRule* strike(Call call);

  [[nodiscard]] std::int64_t calls(Call call) const;  ///< made so far; kAny: of every kind
  [[nodiscard]] std::int64_t struck() const { return struck_.load(); }

 private:
  const std::vector<FaultRule> rules_;
  std::array<std::atomic<std::int64_t>, kCallCount + 1> calls_{};
  std::atomic<std::int64_t> struck_ = 0;
};

/// Requires: `inner` outlives this.  Unlocking and unmapping are neither counted nor struck: they cannot fail usefully.
///  A close that is struck closes all the same, as close(2) does.
class FaultStore final : public Store {
 public:
  FaultStore(Store& inner, std::shared_ptr<FaultPlan> plan) : inner_(inner), plan_(std::move(plan)) {}
  Result<std::unique_ptr<File>> open(const std::string& path, const OpenOptions& options) override;
  Status remove(const std::string& path) override;

 private:
  Store& inner_;
  std::shared_ptr<FaultPlan> plan_;
};

}  // namespace penstock::store
