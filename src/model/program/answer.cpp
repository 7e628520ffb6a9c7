// The table of operations, and what is common to all answers.
#include "model/program/answer.h"

#include <array>
#include <optional>

namespace penstock::model {
namespace {

struct Operation {
  std::string_view name;
  Result<Json> (*answer)(Fields& request);
};

constexpr std::array kOperations = {
    Operation{"paper", answer_paper},
    Operation{"predict", answer_predict},
    Operation{"profile", answer_profile},
};

std::string line_of(const Json& value) { return value.dump(-1, ' ', true, Json::error_handler_t::replace); }

std::string refused(std::string_view operation, std::string_view text) {
  return line_of({{"operation", operation}, {"error", text}});
}

/// Nothing when the line is no JSON, or deeper than kDepthMax: such a value is never built.
std::optional<Json> parsed(std::string_view line) {
  bool shallow = true;
  const auto watch = [&shallow](int depth, Json::parse_event_t, Json&) {
    shallow = shallow && depth <= kDepthMax;
    return shallow;
  };
  Json value = Json::parse(line, watch, false);
  if (!shallow || value.is_discarded()) return std::nullopt;
  return value;
}

std::string names_of_operations() {
  std::string names;
  for (const Operation& operation : kOperations) names += (names.empty() ? "" : ", ") + std::string(operation.name);
  return names;
}

}  // namespace

std::string answer(std::string_view line) {
  const std::optional<Json> request = parsed(line);
  if (!request || !request->is_object()) {
    return refused("", "expected one JSON object on a line, at most " + std::to_string(kDepthMax) + " deep");
  }
  Fields fields(*request);
  const std::string name = fields.text("operation", "");
  for (const Operation& operation : kOperations) {
    if (operation.name != name) continue;
    Result<Json> result = operation.answer(fields);
    if (!result.ok()) return refused(name, result.status().text());
    Json whole = {{"operation", name}};
    whole.update(*result);
    return line_of(whole);
  }
  return refused("", "operation: expected one of " + names_of_operations());
}

std::string answer_to_long_line() {
  return refused("", "the line is longer than " + std::to_string(kLineBytesMax) + " bytes");
}

}  // namespace penstock::model
