// Making failures; success needs no code.
#include "base/status.h"

#include <cstring>

namespace penstock {

Status Status::failure(Code code, int system_errno, std::string text) {
  Status status;
  status.detail_ = std::make_shared<const Detail>(Detail{code, system_errno, std::move(text)});
  return status;
}

Status Status::from_errno(int system_errno, std::string_view context) {
  char buffer[128];
  // The GNU strerror_r: thread-safe, may return a constant string instead of the buffer.
  std::string text(context);
  text += ": ";
  text += strerror_r(system_errno, buffer, sizeof buffer);
  return failure(code_of_errno(system_errno), system_errno, std::move(text));
}

Status Status::no_memory() {
  // Made while the library is loaded, and there for as long as any thread runs.
  static const auto& made = *new std::shared_ptr<const Detail>(std::make_shared<const Detail>(Detail{Code::kNoMemory, 0, "no memory to carry the call out"}));
  Status status;
  status.detail_ = made;
  return status;
}

Status Status::with_context(std::string_view context) const {
  if (ok()) return {};
  std::string text(context);
  text += ": ";
  text += detail_->text;
  return failure(detail_->code, detail_->system_errno, std::move(text));
}

namespace {
[[maybe_unused]] const Status made_early = Status::no_memory();
}  // namespace

}  // namespace penstock
