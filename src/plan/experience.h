// What accesses of a file took, beside what the model predicted: corrects the choice while the program runs.  Pure: the caller has the clock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/units.h"
#include "model/predict.h"

namespace penstock::plan {

/// What accesses have in common that are expected to take alike: sizes by their powers of two.
struct Signature {
  bool write = false;
  bool fresh = false;
  std::int8_t bytes = 0;     ///< logarithm of the data, of a piece, and from piece to piece
  std::int8_t piece = 0;
  std::int8_t distance = 0;
  friend bool operator==(const Signature&, const Signature&) = default;
};
Signature signature_of(bool write, bool fresh, Offset bytes, Offset pieces, Offset span_bytes);

/// A way that is possible, and the seconds that the model predicts for it.
struct Estimate {
  model::Way way = model::Way::kIndependent;
  double seconds = 0;
};

/// Chooses among estimates, corrected by what was measured for the same signature.  Each way's correction is the median of the last three ratios of
/// measured to predicted seconds, never beyond kCorrectionMost or below its inverse.  Another way takes over only when it is expected to take less than
/// kHysteresis of the present one, so that two that are alike do not take turns.  A way that has not been measured yet is tried when it could be the
/// better one and what tries have cost so far, with what this one is expected to, stays below kTriesMost of all time spent.
/// Not for concurrent use.  No allocation; the last kKept signatures.
class Experience {
 public:
  static constexpr double kCorrectionMost = 8;
  static constexpr double kHysteresis = 0.9;
  static constexpr double kTriesMost = 0.02;
  /// One that is predicted to take more than so many times the present one is never tried.
  static constexpr double kHopeless = 4;
  static constexpr std::size_t kKept = 8;

  struct Decision {
    std::size_t place = 0;  ///< in the estimates
    double expected = 0;    ///< seconds, corrected
    bool tried = false;     ///< for the sake of knowing, not because it is expected to be best
  };
  /// `estimates`: the simpler ways first, each way once.  Requires: not empty.
  Decision decide(const Signature& signature, std::span<const Estimate> estimates);
  /// What an access took that was carried out as decided.
  void note(const Signature& signature, const Estimate& estimate, double seconds, bool tried);

  /// Whether an access that also paid for what later ones use (memory that it made) is not to be noted: the first of its signature.  Where every access has to
  /// pay again, that is what they take.
  [[nodiscard]] bool only_prepares(const Signature& signature);

  /// What is known of one signature, as it is kept for the next run.
  struct Known {
    static constexpr std::size_t kRatios = 3;
    Signature signature;
    std::array<std::array<float, kRatios>, model::kWayNames.size()> ratios{};  ///< the latest first; 0: none
    std::int8_t current = -1;   ///< the way in use
    bool prepared = false;      ///< an access was left out by only_prepares()
    double spent = 0;           ///< seconds, all accesses
    double spent_on_tries = 0;  ///< beyond what the way in use was expected to take
    double expected = 0;        ///< of the way in use, for the latest access
  };
  [[nodiscard]] std::span<const Known> known() const { return {known_.data(), count_}; }
  /// Takes over what an earlier run found out.  What cannot be is left out.
  void recall(std::span<const Known> known);

 private:
  Known& of(const Signature& signature);
  std::array<Known, kKept> known_{};  ///< the one used last in front
  std::size_t count_ = 0;
};

}  // namespace penstock::plan
