// The cost model of collective I/O on non-volatile memory, equations 1 to 5 as they are printed.  Knows numbers only: neither
// files nor ranks nor what Penstock does.
//
// Notation is that of the paper's Table III: Tcollective, Tindividual, Tcomm, TIO, Tother, msg_size_i, tau, iter, Ts, Tw,
// bdw_seq, bdw_ran.  That table has the words for Ts and Tw the wrong way round ("Tw: communication time independent of the
// message size"); the text below equation 2 and the units of their values say that Ts is the part that does not depend on the
// message (seconds) and Tw the part in proportion to it (seconds per MB).  So it is here.
#pragma once

#include <cstdint>


namespace penstock::model::paper {

/// What does not depend on the application: measured once on a platform.
struct Platform {
  double startup_seconds = 0;           ///< Ts, of each iteration
  double transfer_seconds_per_mb = 0;   ///< Tw, of each MB of a message
  double sequential_mb_per_second = 0;  ///< bdw_seq, between the end of a compute node and the end of a storage node
  double random_mb_per_second = 0;      ///< bdw_ran, likewise
  double other_seconds = 0;             ///< Tother; the paper's own validation has 0
};

/// What depends on the application.
struct Workload {
  double message_mb = 0;    ///< msg_size, the same in every iteration
  std::int64_t iterations = 0;  ///< iter
  double shuffled_share = 0;  ///< tau, between 0 and 1: of the data, what goes through the shuffle
};

/// tau as the paper estimates it: non-aggregators over all ranks.  Requires: 0 <= aggregators <= ranks, 1 <= ranks.
double estimated_shuffled_share(std::int64_t ranks, std::int64_t aggregators);

/// iter: total size over collective buffer size, rounded up.  Requires: 0 <= total_mb, 0 < buffer_mb, quotient below 2^53.
std::int64_t iterations_of(double total_mb, double buffer_mb);

/// Equation 2, Tcomm = sum over i of (Ts + Tw * msg_size_i * tau): seconds in which the slowest aggregator shuffles; those of
/// the other aggregators, and messages of several ranks to one aggregator, overlap with it.
double communication_seconds(const Platform& platform, const Workload& workload);

/// Equations 3 and 5, TIO = sum over i of msg_size_i, over bdw_seq or bdw_ran.  Requires: mb_per_second > 0.
double file_seconds(double total_mb, double mb_per_second);

/// Equation 1, Tcollective = Tcomm + TIO + Tother.  `total_mb` is the numerator of equation 3.  The paper prints it as the sum
/// of msg_size_i, but what its validation moves in one iteration of all aggregators is more than the slowest one's message, so
/// it is given apart.
double collective_seconds(const Platform& platform, const Workload& workload, double total_mb);

/// Equation 4, Tindividual = TIO + Tother.
double individual_seconds(const Platform& platform, double total_mb);

}  // namespace penstock::model::paper
