// Striking calls by number, and the text form of the rules.
#include "store/fault/fault_store.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>

namespace penstock::store {

namespace {

constexpr std::string_view kCallNames[] = {"open",   "remove", "read",        "write", "map",   "populate", "size",
                                           "resize", "grow",   "preallocate", "sync",  "close", "lock",     "any"};

struct ErrnoName {
  std::string_view name;
  int value;
};
constexpr ErrnoName kErrnoNames[] = {
    {"EACCES", EACCES},   {"EAGAIN", EAGAIN},   {"EBADF", EBADF},
    {"EBUSY", EBUSY},     {"EDQUOT", EDQUOT},   {"EEXIST", EEXIST},
    {"EFAULT", EFAULT},   {"EFBIG", EFBIG},     {"EINTR", EINTR},
    {"EINVAL", EINVAL},   {"EIO", EIO},         {"EISDIR", EISDIR},
    {"ELOOP", ELOOP},     {"EMFILE", EMFILE},   {"ENAMETOOLONG", ENAMETOOLONG},
    {"ENFILE", ENFILE},   {"ENODEV", ENODEV},   {"ENOENT", ENOENT},
    {"ENOLCK", ENOLCK},   {"ENOMEM", ENOMEM},   {"ENOSPC", ENOSPC},
    {"ENOSYS", ENOSYS},   {"ENOTDIR", ENOTDIR}, {"EOPNOTSUPP", EOPNOTSUPP},
    {"EPERM", EPERM},     {"EROFS", EROFS},     {"ESTALE", ESTALE},
    {"ETXTBSY", ETXTBSY},
};

std::vector<std::string_view> split(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t at = text.find_first_of(separators);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

template <typename Number>
bool parse_number(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

bool parse_action(std::string_view text, FaultRule& rule) {
  if (text == "end") {
    rule.error = 0;
    return rule.call == Call::kRead;
  }
  for (const ErrnoName& row : kErrnoNames)
    if (row.name == text) {
      rule.error = row.value;
      return true;
    }
  return parse_number(text, rule.error) && rule.error > 0;
}

bool parse_option(std::string_view text, FaultRule& rule) {
  if (text == "short") {
    rule.half = true;
    return rule.call == Call::kRead || rule.call == Call::kWrite || rule.call == Call::kAny;
  }
  if (!text.starts_with("rank=")) return false;
  return parse_number(text.substr(5), rule.rank) && rule.rank >= 0;
}

std::optional<FaultRule> parse_rule(std::string_view text) {
  const std::vector<std::string_view> fields = split(text, ":");
  if (fields.size() < 3) return std::nullopt;
  FaultRule rule;
  const auto* call = std::find(std::begin(kCallNames), std::end(kCallNames), fields[0]);
  if (call == std::end(kCallNames)) return std::nullopt;
  rule.call = static_cast<Call>(call - std::begin(kCallNames));
  std::string_view number = fields[1];
  if (number.ends_with('+')) {
    rule.from_then_on = true;
    number.remove_suffix(1);
  }
  if (!parse_number(number, rule.number) || rule.number < 1) return std::nullopt;
  if (!parse_action(fields[2], rule)) return std::nullopt;
  for (std::size_t i = 3; i < fields.size(); ++i)
    if (!parse_option(fields[i], rule)) return std::nullopt;
  return rule;
}

Status struck_status(const FaultRule& rule, Call call) {
  return Status::from_errno(rule.error, "fault injected into " + std::string(name(call)));
}

/// Moves the first half of the bytes of a batch with `move`; the rest stays undone.
template <typename Move>
void move_half(std::span<Transfer> batch, Move&& move) {
  std::size_t total = 0;
  for (Transfer& transfer : batch) {
    transfer.done = 0;
    total += transfer.length;
  }
  std::size_t left = total / 2;
  for (Transfer& transfer : batch) {
    if (left == 0) return;
    Transfer part = transfer;
    part.length = std::min(part.length, left);
    left -= part.length;
    if (!move(std::span(&part, 1)).ok()) return;
    transfer.done = part.done;
  }
}

class FaultMapping final : public Mapping {
 public:
  FaultMapping(std::unique_ptr<Mapping> inner, std::shared_ptr<FaultPlan> plan)
      : inner_(std::move(inner)), plan_(std::move(plan)) {
    data_ = inner_->data();
    first_ = inner_->first();
    length_ = inner_->length();
  }
  Status populate(Offset offset, Offset length) override {
    if (const FaultRule* rule = plan_->strike(Call::kPopulate)) return struck_status(*rule, Call::kPopulate);
    return inner_->populate(offset, length);
  }
  [[nodiscard]] Status intact() const override { return inner_->intact(); }

 private:
  std::unique_ptr<Mapping> inner_;
  std::shared_ptr<FaultPlan> plan_;
};

class FaultFile final : public ForwardingFile {
 public:
  FaultFile(std::unique_ptr<File> inner, std::shared_ptr<FaultPlan> plan)
      : ForwardingFile(std::move(inner)), plan_(std::move(plan)) {}

  Status read(std::span<Transfer> batch) override {
    const FaultRule* rule = plan_->strike(Call::kRead);
    if (rule == nullptr || rule->error == EINTR) return inner_->read(batch);  // a store continues what a signal interrupts
    for (Transfer& transfer : batch) transfer.done = 0;
    if (rule->half || rule->error == 0) move_half(batch, [&](std::span<Transfer> part) { return inner_->read(part); });
    return rule->error == 0 ? Status() : struck_status(*rule, Call::kRead);
  }

  Status write(std::span<Transfer> batch) override {
    const FaultRule* rule = plan_->strike(Call::kWrite);
    if (rule == nullptr || rule->error == EINTR) return inner_->write(batch);
    for (Transfer& transfer : batch) transfer.done = 0;
    if (rule->half) move_half(batch, [&](std::span<Transfer> part) { return inner_->write(part); });
    return struck_status(*rule, Call::kWrite);
  }

  Result<std::unique_ptr<Mapping>> map(Offset first, Offset length, bool writable) override {
    if (const FaultRule* rule = plan_->strike(Call::kMap)) return struck_status(*rule, Call::kMap);
    Result<std::unique_ptr<Mapping>> mapping = inner_->map(first, length, writable);
    if (!mapping) return mapping;
    return std::unique_ptr<Mapping>(new FaultMapping(std::move(*mapping), plan_));
  }

  Result<Offset> size() override {
    if (const FaultRule* rule = plan_->strike(Call::kSize)) return struck_status(*rule, Call::kSize);
    return inner_->size();
  }
  Status resize(Offset size_bytes) override {
    if (const FaultRule* rule = plan_->strike(Call::kResize)) return struck_status(*rule, Call::kResize);
    return inner_->resize(size_bytes);
  }
  Status grow(Offset size_bytes) override {
    if (const FaultRule* rule = plan_->strike(Call::kGrow)) return struck_status(*rule, Call::kGrow);
    return inner_->grow(size_bytes);
  }
  Status preallocate(Offset size_bytes) override {
    if (const FaultRule* rule = plan_->strike(Call::kPreallocate)) return struck_status(*rule, Call::kPreallocate);
    return inner_->preallocate(size_bytes);
  }
  Status sync() override {
    if (const FaultRule* rule = plan_->strike(Call::kSync)) return struck_status(*rule, Call::kSync);
    return inner_->sync();
  }
  Status close() override {
    if (closed_) return {};
    closed_ = true;
    const FaultRule* rule = plan_->strike(Call::kClose);
    Status status = inner_->close();
    return rule == nullptr ? status : struck_status(*rule, Call::kClose);
  }
  Status lock_range(Offset offset, Offset length, bool exclusive) override {
    if (const FaultRule* rule = plan_->strike(Call::kLock)) return struck_status(*rule, Call::kLock);
    return inner_->lock_range(offset, length, exclusive);
  }
  Result<bool> range_is_locked(Offset offset, Offset length) override {
    if (const FaultRule* rule = plan_->strike(Call::kLock)) return struck_status(*rule, Call::kLock);
    return inner_->range_is_locked(offset, length);
  }

 private:
  std::shared_ptr<FaultPlan> plan_;
  bool closed_ = false;
};

}  // namespace

std::string_view name(Call call) { return kCallNames[static_cast<int>(call)]; }

Result<std::vector<FaultRule>> parse_fault_rules(std::string_view text) {
  std::vector<FaultRule> rules;
  for (std::string_view part : split(text, ",;")) {
    if (part.empty()) continue;
    const std::optional<FaultRule> rule = parse_rule(part);
    if (!rule)
      return Status::failure(Code::kInfo,
                             "fault rule '" + std::string(part) +
                                 "' does not parse: expected kind:number[+]:errno[:short][:rank=N], for example "
                                 "write:3:ENOSPC or any:5+:EIO:rank=1");
    rules.push_back(*rule);
  }
  return rules;
}

const FaultRule* FaultPlan::strike(Call call) {
  const std::int64_t of_kind = calls_[static_cast<std::size_t>(call)].fetch_add(1) + 1;
  const std::int64_t of_any = calls_[kCallCount].fetch_add(1) + 1;
  for (const FaultRule& rule : rules_) {
    if (rule.call != Call::kAny && rule.call != call) continue;
    const std::int64_t number = rule.call == Call::kAny ? of_any : of_kind;
    if (number == rule.number || (rule.from_then_on && number > rule.number)) {
      struck_.fetch_add(1);
      return &rule;
    }
  }
  return nullptr;
}

std::int64_t FaultPlan::calls(Call call) const { return calls_[static_cast<std::size_t>(call)].load(); }

Result<std::unique_ptr<File>> FaultStore::open(const std::string& path, const OpenOptions& options) {
  if (const FaultRule* rule = plan_->strike(Call::kOpen)) return struck_status(*rule, Call::kOpen);
  Result<std::unique_ptr<File>> file = inner_.open(path, options);
  if (!file) return file;
  return std::unique_ptr<File>(new FaultFile(std::move(*file), plan_));
}

Status FaultStore::remove(const std::string& path) {
  if (const FaultRule* rule = plan_->strike(Call::kRemove)) return struck_status(*rule, Call::kRemove);
  return inner_.remove(path);
}

}  // namespace penstock::store
