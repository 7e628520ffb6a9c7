// The operation "predict": the seconds of every candidate for a described access, by Penstock's own model.
#include "model/predict.h"

#include "model/candidates.h"
#include "model/profile.h"
#include "model/program/answer.h"

namespace penstock::model {
namespace {

constexpr std::int64_t kRanksMax = std::int64_t{1} << 24;
constexpr double kBytesMax = 9.3e18;
constexpr double kTie = 0.02;
constexpr std::size_t kCandidatesMost = 1024;

Workload workload_of(Fields& fields) {
  Workload work;
  work.write = fields.boolean("write");
  work.fresh = fields.boolean("fresh", work.write);
  work.planned = fields.boolean("planned", false);
  work.anew = fields.boolean("anew", false);
  work.ranks = static_cast<int>(fields.whole("ranks", 1, kRanksMax));
  work.nodes = static_cast<int>(fields.whole("nodes", 1, work.ranks, 1));
  work.processors = static_cast<int>(fields.whole("processors", 1, kRanksMax, 1));
  work.bytes = fields.number("bytes", 0, kBytesMax);
  work.pieces = fields.number("pieces", 0, kBytesMax, work.ranks);
  work.span = fields.number("span", 0, kBytesMax, work.bytes);
  work.rank_span = fields.number("rank_span", 0, kBytesMax, work.bytes / work.ranks);
  work.told_bytes = fields.number("told_bytes", 0, kBytesMax, 0.0);
  work.sieve_buffer = fields.number("sieve_buffer", 1, kBytesMax, work.sieve_buffer);
  return work;
}

Result<Way> way_of(const std::string& name) {
  for (std::size_t i = 0; i < kWayNames.size(); ++i)
    if (kWayNames[i] == name) return static_cast<Way>(i);
  std::string names;
  for (const std::string_view one : kWayNames) names += (names.empty() ? "" : ", ") + std::string(one);
  return Status::failure(Code::kArgument, "candidates.way: expected one of " + names + ", found " + shown(Json(name)));
}

Result<Candidate> candidate_of(const Json& object, const Workload& work, double window) {
  Fields fields(object, "candidates");
  const std::string name = fields.text("way");
  Candidate candidate;
  candidate.local_per_node = static_cast<int>(fields.whole("local_per_node", 0, work.ranks, 0));
  candidate.aggregators = static_cast<int>(fields.whole("aggregators", 1, work.ranks, work.nodes));
  candidate.window = fields.number("window", 1, kBytesMax, window);
  PENSTOCK_TRY(fields.done());
  const Result<Way> way = way_of(name);
  if (!way.ok()) return way.status();
  candidate.way = *way;
  return candidate;
}

Json shown_seconds(const Seconds& seconds) {
  return {{"file", seconds.file},       {"copy", seconds.copy},         {"gather", seconds.gather}, {"merge", seconds.merge},
          {"exchange", seconds.exchange}, {"communicate", seconds.communicate}, {"wait", seconds.wait}};
}

Result<Profile> profile_of(Fields& request) {
  const std::string text = request.text("profile_text", "");
  const std::string name = request.text("profile", text.empty() ? "ssd" : "profile");
  return text.empty() ? built_in_profile(name) : parse_profile(text, name);
}

Json figures_of(const Profile& profile) {
  Json figures = Json::object();
  for (const FieldRow& row : kFieldRows) figures[std::string(row.section) + "." + std::string(row.name)] = at(profile.figures, row);
  return {{"profile", profile.name}, {"measured", profile.measured}, {"figures", std::move(figures)}};
}

}  // namespace

/// {"operation": "profile", "profile": a built-in name, or what to call "profile_text" in errors; "profile_text": TOML}
Result<Json> answer_profile(Fields& request) {
  const Result<Profile> profile = profile_of(request);
  PENSTOCK_TRY(request.done());
  if (!profile.ok()) return profile.status();
  return figures_of(*profile);
}

/// {"operation": "predict", "profile" or "profile_text" as above, "work": {...}, "possible": {"collective", "mapped", "sieved_reads", "sieved_writes"},
/// "window": bytes, "candidates": [{"way", "local_per_node", "aggregators", "window"}] (all that are possible when left out)}
Result<Json> answer_predict(Fields& request) {
  const Result<Profile> profile = profile_of(request);
  Fields work_fields(request.object("work"), "work");
  const Workload work = workload_of(work_fields);
  Fields possible_fields(request.object("possible", true), "possible");
  Possible possible;
  possible.collective = possible_fields.boolean("collective", true);
  possible.mapped = possible_fields.boolean("mapped", profile.ok() && profile->figures.file.cached != 0 && work.nodes == 1);
  possible.sieved_reads = possible_fields.boolean("sieved_reads", true);
  possible.sieved_writes = possible_fields.boolean("sieved_writes", false);
  const double window = request.number("window", 1, kBytesMax, Candidate{}.window);
  const Json& listed = request.list("candidates", kCandidatesMost, true);
  PENSTOCK_TRY(request.done());
  PENSTOCK_TRY(work_fields.done());
  PENSTOCK_TRY(possible_fields.done());
  if (!profile.ok()) return profile.status();
  std::vector<Candidate> candidates = listed.empty() ? candidates_of(work, possible, window) : std::vector<Candidate>();
  for (const Json& one : listed) {
    const Result<Candidate> candidate = candidate_of(one, work, window);
    if (!candidate.ok()) return candidate.status();
    candidates.push_back(*candidate);
  }
  Json rows = Json::array();
  std::vector<double> sums;
  for (const Candidate& candidate : candidates) {
    const Seconds seconds = predict(profile->figures, work, candidate);
    sums.push_back(seconds.sum());
    rows.push_back({{"way", kWayNames[static_cast<std::size_t>(candidate.way)]},
                    {"local_per_node", candidate.local_per_node},
                    {"aggregators", candidate.aggregators},
                    {"window", candidate.window},
                    {"seconds", seconds.sum()},
                    {"terms", shown_seconds(seconds)}});
  }
  return Json{{"profile", profile->name}, {"measured", profile->measured}, {"chosen", least_of(sums, kTie)}, {"candidates", std::move(rows)}};
}

}  // namespace penstock::model
