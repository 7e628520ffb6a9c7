// One line of text with a JSON object in, one line out.  Knows which operations there are, not how lines come and go.
//
// A request is an object with the field "operation" and those of the operation.  The answer is an object that begins with
// "operation" and has either the operation's results or "error", a sentence that names the field, what was expected and what
// was found.  A line is hostile until checked: whatever it has, there is one answer, and the next line is read.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/status.h"
#include "model/program/fields.h"

namespace penstock::model {

/// A longer line is not read whole; its answer says so.
inline constexpr std::size_t kLineBytesMax = std::size_t{1} << 20;

/// Objects and lists inside one another.
inline constexpr int kDepthMax = 16;

/// The answer to one line, without its newline.
std::string answer(std::string_view line);

/// The answer to a line of more than kLineBytesMax.
std::string answer_to_long_line();

// The operations: each takes the request's fields ("operation" is taken already), asks done(), and gives the results.

/// The paper's model as printed.
Result<Json> answer_paper(Fields& request);

/// Penstock's own: the seconds of candidates for an access.
Result<Json> answer_predict(Fields& request);

/// The numbers of a profile, checked.
Result<Json> answer_profile(Fields& request);

}  // namespace penstock::model
