// The operation "paper": estimates of collective and individual I/O by the paper's equations.
#include "model/paper.h"

#include <cmath>

#include "model/program/answer.h"

namespace penstock::model {
namespace {

constexpr double kMbMax = 1e15;
constexpr double kSecondsMax = 1e9;
constexpr double kSmall = 1e-9;
constexpr std::int64_t kRanksMax = std::int64_t{1} << 31;
constexpr std::int64_t kIterationsMax = std::int64_t{1} << 53;

paper::Platform platform_of(Fields& fields) {
  return {.startup_seconds = fields.number("startup_seconds", 0, kSecondsMax),
          .transfer_seconds_per_mb = fields.number("transfer_seconds_per_mb", 0, kSecondsMax),
          .sequential_mb_per_second = fields.number("sequential_mb_per_second", kSmall, kMbMax),
          .random_mb_per_second = fields.number("random_mb_per_second", kSmall, kMbMax),
          .other_seconds = fields.number("other_seconds", 0, kSecondsMax, 0.0)};
}

}  // namespace

/// {"operation": "paper", "platform": {...}, "workload": {"total_mb", "buffer_mb", "ranks", "aggregators"; and instead of what
/// follows from these: "message_mb", "iterations", "shuffled_share"}}
Result<Json> answer_paper(Fields& request) {
  Fields platform_fields(request.object("platform"), "platform");
  const paper::Platform platform = platform_of(platform_fields);
  Fields fields(request.object("workload"), "workload");
  const double total_mb = fields.number("total_mb", 0, kMbMax);
  const double buffer_mb = fields.number("buffer_mb", kSmall, kMbMax);
  const std::int64_t ranks = fields.whole("ranks", 1, kRanksMax);
  const std::int64_t aggregators = fields.whole("aggregators", 0, ranks);
  paper::Workload workload;
  workload.message_mb = fields.number("message_mb", 0, kMbMax, buffer_mb);
  workload.shuffled_share =
      fields.number("shuffled_share", 0, 1, paper::estimated_shuffled_share(ranks, aggregators));
  const bool many = total_mb / buffer_mb > static_cast<double>(kIterationsMax);
  workload.iterations =
      fields.whole("iterations", 0, kIterationsMax, many ? 0 : paper::iterations_of(total_mb, buffer_mb));
  PENSTOCK_TRY(request.done());
  PENSTOCK_TRY(platform_fields.done());
  PENSTOCK_TRY(fields.done());
  if (many && !fields.has("iterations")) {
    return Status::failure(Code::kArgument, "workload.total_mb: more than 2^53 times buffer_mb, which no one can wait for");
  }
  return Json{{"iterations", workload.iterations},
              {"message_mb", workload.message_mb},
              {"shuffled_share", workload.shuffled_share},
              {"communication_seconds", paper::communication_seconds(platform, workload)},
              {"sequential_seconds", paper::file_seconds(total_mb, platform.sequential_mb_per_second)},
              {"random_seconds", paper::file_seconds(total_mb, platform.random_mb_per_second)},
              {"other_seconds", platform.other_seconds},
              {"collective_seconds", paper::collective_seconds(platform, workload, total_mb)},
              {"individual_seconds", paper::individual_seconds(platform, total_mb)}};
}

}  // namespace penstock::model
