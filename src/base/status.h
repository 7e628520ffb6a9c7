// Status and Result: how every room reports failure.  Knows the table of errors and nothing else.
//
// Nothing in Penstock throws across a room's border: a call returns a Status, or a Result that holds either a
// value or the Status that says why there is none.  Success costs one null pointer.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/error_codes.h"  // generated from table/errors.toml: enum class Code, name(), text()

namespace penstock {

/// Outcome of an operation.  Cheap to move; a success owns nothing.  Thread rule: a value, like int.
class [[nodiscard]] Status {
 public:
  Status() = default;

  /// Makes a failure.  `system_errno` is the errno that caused it, or 0.  `text` is a sentence for the user:
  /// the file, the operation, the value, what was expected, what to do.
  static Status failure(Code code, int system_errno, std::string text);
  static Status failure(Code code, std::string text) { return failure(code, 0, std::move(text)); }

  /// Makes a failure from errno: the code is looked up in table/errors.toml, the text is
  /// "`context`: strerror(system_errno)".
  static Status from_errno(int system_errno, std::string_view context);

  /// kNoMemory, which itself takes none.
  static Status no_memory();

  [[nodiscard]] bool ok() const { return !detail_; }
  explicit operator bool() const { return ok(); }
  [[nodiscard]] Code code() const { return detail_ ? detail_->code : Code::kOk; }
  [[nodiscard]] int system_errno() const { return detail_ ? detail_->system_errno : 0; }
  [[nodiscard]] std::string_view text() const { return detail_ ? std::string_view(detail_->text) : ""; }

  /// The same failure with `context` put before its text; a success stays a success.
  [[nodiscard]] Status with_context(std::string_view context) const;

 private:
  struct Detail {
    Code code;
    int system_errno;
    std::string text;
  };
  std::shared_ptr<const Detail> detail_;
};

/// A value, or the Status that says why there is none.  Requires: never made from a successful Status.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}  // NOLINT: implicit on purpose, so that functions can return T
  Result(Status status) : status_(std::move(status)) {}  // NOLINT

  [[nodiscard]] bool ok() const { return value_.has_value(); }
  explicit operator bool() const { return ok(); }
  [[nodiscard]] const Status& status() const { return status_; }
  [[nodiscard]] T& value() & { return *value_; }
  [[nodiscard]] const T& value() const& { return *value_; }
  [[nodiscard]] T&& value() && { return std::move(*value_); }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return std::move(*value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

/// Returns from the calling function when `expression` (a Status) failed.
#define PENSTOCK_TRY(expression)                                            \
  do {                                                                      \
    if (::penstock::Status status_of_try = (expression); !status_of_try.ok()) \
      return status_of_try;                                                 \
  } while (false)

}  // namespace penstock
