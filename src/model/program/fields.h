// Reads the fields of a request that nobody has checked yet.  Knows JSON, not what the fields are for.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/status.h"

namespace penstock::model {

using Json = nlohmann::ordered_json;

/// The fields of one JSON object, taken one by one.  The first thing that is wrong is kept, and every later take() gives the
/// least value that is allowed; so all fields are taken first, and done() is asked once.  Borrows the object.
class Fields {
 public:
  /// `path` says in errors where the object is: "" for the request itself, "platform" for an object inside it.
  explicit Fields(const Json& object, std::string path = "");

  /// A number from `least` to `most`, both finite.  Without `otherwise` the field has to be there.
  double number(std::string_view name, double least, double most, std::optional<double> otherwise = std::nullopt);

  /// A whole number from `least` to `most`.
  std::int64_t whole(std::string_view name, std::int64_t least, std::int64_t most,
                     std::optional<std::int64_t> otherwise = std::nullopt);

  /// Text of at most 256 KiB.
  std::string text(std::string_view name, std::optional<std::string> otherwise = std::nullopt);

  bool boolean(std::string_view name, std::optional<bool> otherwise = std::nullopt);

  /// An object inside this one; an empty one when it is missing and may be, or is something else.
  const Json& object(std::string_view name, bool may_be_missing = false);

  /// A list of objects, each to be read by Fields of its own; an empty one when it is missing and may be, or is wrong.
  const Json& list(std::string_view name, std::size_t most, bool may_be_missing = false);

  [[nodiscard]] bool has(std::string_view name) const;

  /// Fails with kArgument: the first field that was wrong, else a field that nobody took.
  [[nodiscard]] Status done() const;

 private:
  const Json* take(std::string_view name, bool may_be_missing);
  void wrong(std::string_view name, const std::string& expected, const Json* found);
  [[nodiscard]] std::string named(std::string_view name) const;

  const Json& object_;
  std::string path_;
  std::set<std::string, std::less<>> taken_;
  Status status_;
};

/// What a value looks like in an error: short, whatever its size.
std::string shown(const Json& value);

}  // namespace penstock::model
