// Equations 1 to 5 of the paper.  Arithmetic only.
#include "model/paper.h"

#include <cmath>

namespace penstock::model::paper {

double estimated_shuffled_share(std::int64_t ranks, std::int64_t aggregators) {
  return static_cast<double>(ranks - aggregators) / static_cast<double>(ranks);
}

std::int64_t iterations_of(double total_mb, double buffer_mb) {
  return static_cast<std::int64_t>(std::ceil(total_mb / buffer_mb));
}

double communication_seconds(const Platform& platform, const Workload& workload) {
  const double of_message = platform.transfer_seconds_per_mb * workload.message_mb * workload.shuffled_share;
  return static_cast<double>(workload.iterations) * (platform.startup_seconds + of_message);
}

double file_seconds(double total_mb, double mb_per_second) { return total_mb / mb_per_second; }

double collective_seconds(const Platform& platform, const Workload& workload, double total_mb) {
  return communication_seconds(platform, workload) + file_seconds(total_mb, platform.sequential_mb_per_second) +
         platform.other_seconds;
}

double individual_seconds(const Platform& platform, double total_mb) {
  return file_seconds(total_mb, platform.random_mb_per_second) + platform.other_seconds;
}

}  // namespace penstock::model::paper
