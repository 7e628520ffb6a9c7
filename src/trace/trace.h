// Trace: where the time of every call goes, and how much moved.  Knows neither MPI nor files.
//
// An OpTrace lives on the stack of one MPI_File_* call (or of the worker that carries out a non-blocking one) and is always in
// exactly one phase, so phases cannot overlap and their sum is the wall time of the call by construction.
// Off (no FileTrace): one null check per switch, no clock.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <ctime>

#include "trace/counters.h"  // generated from table/counters.toml: enum class Phase, enum class Counter, names

namespace penstock::trace {

inline std::int64_t now_ns() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

/// What a call is for: reads and writes of one file are told apart, since they take different times.
enum class Doing : std::uint8_t { kElse, kWriting, kReading };
constexpr std::size_t kDoings = 3;
constexpr Doing doing(bool write) { return write ? Doing::kWriting : Doing::kReading; }

/// Totals of one rank for one file.  Thread rule: any number of OpTraces add to it at once.
struct FileTrace {
  struct Sums {
    std::array<std::atomic<std::int64_t>, kPhaseCount> phase_ns{};
    std::array<std::atomic<std::int64_t>, kCounterCount> counters{};
  };
  std::array<Sums, kDoings> of;  ///< by Doing
  std::atomic<std::int64_t> wall_ns{0};             ///< sum over calls of end - begin; equals the sum of phase_ns
  std::atomic<std::int64_t> background_ns{0};       ///< time of workers, beside the program's; not part of wall_ns
  std::int64_t opened_at_ns = 0;

  [[nodiscard]] std::int64_t count(Counter counter) const {
    std::int64_t all = 0;
    for (const Sums& sums : of) all += sums.counters[static_cast<std::size_t>(counter)];
    return all;
  }
  [[nodiscard]] std::int64_t nanoseconds(Phase phase) const {
    std::int64_t all = 0;
    for (const Sums& sums : of) all += sums.phase_ns[static_cast<std::size_t>(phase)];
    return all;
  }
};

class OpTrace {
 public:
  /// `background`: the work is done by a worker while the program computes; its phases go to background_ns as one sum.
  explicit OpTrace(FileTrace* file, Phase first = Phase::kOther, Doing doing = Doing::kElse, bool background = false)
      : file_(file), phase_(first), doing_(doing), background_(background) {
    if (file_ != nullptr) started_ns_ = last_ns_ = now_ns();
  }
  OpTrace(const OpTrace&) = delete;
  OpTrace& operator=(const OpTrace&) = delete;
  ~OpTrace() {
    if (file_ != nullptr) finish();
  }

  /// Ends the current phase and begins another; returns the one that ended.
  Phase enter(Phase phase) {
    Phase before = phase_;
    if (file_ != nullptr && phase != before) {
      const std::int64_t now = now_ns();
      elapsed_ns_[static_cast<std::size_t>(before)] += now - last_ns_;
      last_ns_ = now;
    }
    phase_ = phase;
    return before;
  }

  void count(Counter counter, std::int64_t amount = 1) {
    if (file_ != nullptr) sums().counters[static_cast<std::size_t>(counter)].fetch_add(amount, std::memory_order_relaxed);
  }

  [[nodiscard]] bool on() const { return file_ != nullptr; }

 private:
  [[nodiscard]] FileTrace::Sums& sums() const { return file_->of[static_cast<std::size_t>(doing_)]; }

  void finish() {
    enter(phase_ == Phase::kOther ? Phase::kOpen : Phase::kOther);  // closes the running phase
    if (background_) {
      file_->background_ns.fetch_add(last_ns_ - started_ns_, std::memory_order_relaxed);
      return;
    }
    for (std::size_t i = 0; i < kPhaseCount; ++i)
      if (elapsed_ns_[i] != 0) sums().phase_ns[i].fetch_add(elapsed_ns_[i], std::memory_order_relaxed);
    file_->wall_ns.fetch_add(last_ns_ - started_ns_, std::memory_order_relaxed);
  }

  FileTrace* file_;
  Phase phase_;
  Doing doing_;
  bool background_;
  std::int64_t started_ns_ = 0;
  std::int64_t last_ns_ = 0;
  std::array<std::int64_t, kPhaseCount> elapsed_ns_{};
};

/// In `phase` until the end of the scope, then back in the phase before.
class PhaseScope {
 public:
  PhaseScope(OpTrace& trace, Phase phase) : trace_(trace), before_(trace.enter(phase)) {}
  PhaseScope(const PhaseScope&) = delete;
  PhaseScope& operator=(const PhaseScope&) = delete;
  ~PhaseScope() { trace_.enter(before_); }

 private:
  OpTrace& trace_;
  Phase before_;
};

}  // namespace penstock::trace
