// Reading the fields of a request that nobody has checked yet.
#include "model/program/fields.h"

#include <array>
#include <cmath>
#include <cstdio>

namespace penstock::model {
namespace {

constexpr std::size_t kTextBytesMax = std::size_t{256} << 10;  // a calibration profile is one

std::string shown(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.10g", value);
  return text.data();
}

const Json& empty_object() {
  static const Json empty = Json::object();
  return empty;
}

const Json& empty_list() {
  static const Json empty = Json::array();
  return empty;
}

}  // namespace

std::string shown(const Json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  if (value.is_string()) {
    constexpr std::size_t kShownBytes = 60;
    const auto& text = value.get_ref<const std::string&>();
    if (text.size() > kShownBytes) return "a text of " + std::to_string(text.size()) + " bytes";
  }
  return value.dump(-1, ' ', true, Json::error_handler_t::replace);
}

Fields::Fields(const Json& object, std::string path) : object_(object), path_(std::move(path)) {
  if (!object.is_object()) wrong("", "an object", &object);
}

std::string Fields::named(std::string_view name) const {
  return path_.empty() || name.empty() ? path_ + std::string(name) : path_ + "." + std::string(name);
}

void Fields::wrong(std::string_view name, const std::string& expected, const Json* found) {
  if (!status_.ok()) return;
  std::string text = named(name) + ": expected " + expected;
  text += found != nullptr ? ", found " + shown(*found) : ", and there is no such field";
  status_ = Status::failure(Code::kArgument, std::move(text));
}

bool Fields::has(std::string_view name) const { return object_.is_object() && object_.contains(name); }

const Json* Fields::take(std::string_view name, bool may_be_missing) {
  taken_.emplace(name);
  if (has(name)) return &object_[std::string(name)];
  if (!may_be_missing) wrong(name, "a value", nullptr);
  return nullptr;
}

double Fields::number(std::string_view name, double least, double most, std::optional<double> otherwise) {
  const Json* value = take(name, otherwise.has_value());
  if (value == nullptr) return otherwise.value_or(least);
  const double found = value->is_number() ? value->get<double>() : NAN;
  if (found >= least && found <= most) return found;
  wrong(name, "a number from " + shown(least) + " to " + shown(most), value);
  return least;
}

std::int64_t Fields::whole(std::string_view name, std::int64_t least, std::int64_t most,
                           std::optional<std::int64_t> otherwise) {
  const Json* value = take(name, otherwise.has_value());
  if (value == nullptr) return otherwise.value_or(least);
  // An unsigned number above INT64_MAX would come out negative.
  const bool fits = value->is_number_unsigned() ? value->get<std::uint64_t>() <= static_cast<std::uint64_t>(INT64_MAX)
                                                : value->is_number_integer();
  const std::int64_t found = fits ? value->get<std::int64_t>() : 0;
  if (fits && found >= least && found <= most) return found;
  wrong(name, "a whole number from " + std::to_string(least) + " to " + std::to_string(most), value);
  return least;
}

std::string Fields::text(std::string_view name, std::optional<std::string> otherwise) {
  const Json* value = take(name, otherwise.has_value());
  if (value == nullptr) return otherwise.value_or("");
  if (value->is_string() && value->get_ref<const std::string&>().size() <= kTextBytesMax) {
    return value->get<std::string>();
  }
  wrong(name, "a text of at most " + std::to_string(kTextBytesMax) + " bytes", value);
  return "";
}

bool Fields::boolean(std::string_view name, std::optional<bool> otherwise) {
  const Json* value = take(name, otherwise.has_value());
  if (value == nullptr) return otherwise.value_or(false);
  if (value->is_boolean()) return value->get<bool>();
  wrong(name, "true or false", value);
  return false;
}

const Json& Fields::object(std::string_view name, bool may_be_missing) {
  const Json* value = take(name, may_be_missing);
  if (value == nullptr) return empty_object();
  if (value->is_object()) return *value;
  wrong(name, "an object", value);
  return empty_object();
}

const Json& Fields::list(std::string_view name, std::size_t most, bool may_be_missing) {
  const Json* value = take(name, may_be_missing);
  if (value == nullptr) return empty_list();
  if (value->is_array() && value->size() <= most) return *value;
  wrong(name, "a list of at most " + std::to_string(most), value);
  return empty_list();
}

Status Fields::done() const {
  if (!status_.ok() || !object_.is_object()) return status_;
  for (const auto& [name, value] : object_.items()) {
    if (!taken_.contains(name)) {
      const std::string short_name = name.size() <= 60 ? name : name.substr(0, 60) + "...";
      return Status::failure(Code::kArgument, named(short_name) + ": there is no such field here");
    }
  }
  return {};
}

}  // namespace penstock::model
