// Profiles as TOML: read with toml++, without exceptions.
#define TOML_EXCEPTIONS 0
#include "model/profile.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <toml++/toml.h>

namespace penstock::model {

namespace {

constexpr std::int64_t kVersion = 1;
/// No section's name is longer.
constexpr std::size_t kSectionMost = 64;

Status bad(const std::string& where, const std::string& what) { return Status::failure(Code::kArgument, where + ": " + what); }

std::string key_of(const FieldRow& row) { return std::string(row.section) + "." + std::string(row.name); }

Status read_number(const toml::node& node, const FieldRow& row, const std::string& where, Figures& figures) {
  const std::optional<double> value = node.value<double>();
  if (!node.is_number() || !value.has_value() || !std::isfinite(*value) || *value < row.minimum)
    return bad(where, key_of(row) + ": expected a finite number, at least " + std::to_string(row.minimum) + " (" + std::string(row.unit) +
                          "); mend it or calibrate again");
  at(figures, row) = *value;
  return {};
}

/// Tables in tables, which a line of many dots makes: to free very many takes more of the stack than threads have.
bool nests_deeply(std::string_view text) {
  constexpr int kDotsMost = 32;
  int dots = 0;
  for (const char letter : text) {
    if (letter == '.' && ++dots > kDotsMost) return true;
    if (std::string_view("=,[]{}\n").find(letter) != std::string_view::npos) dots = 0;
  }
  return false;
}

/// Sections that hold what people read and the model does not.
bool is_for_people(std::string_view section) { return section == "profile" || section == "measurements"; }

Status read_table(const toml::table& table, const std::string& section, const std::string& where, Figures& figures) {
  for (const auto& [key, node] : table) {
    const std::string name(key.str());
    if (section.empty() && is_for_people(name)) continue;
    if (const toml::table* inner = node.as_table(); inner != nullptr) {
      if (section.size() > kSectionMost) return bad(where, section + " is no section of a profile");
      PENSTOCK_TRY(read_table(*inner, section.empty() ? name : section + "." + name, where, figures));
      continue;
    }
    const auto* row = std::find_if(std::begin(kFieldRows), std::end(kFieldRows),
                                   [&](const FieldRow& one) { return one.section == section && one.name == name; });
    if (row == std::end(kFieldRows))
      return bad(where, (section.empty() ? name : section + "." + name) + " is no number of a profile; see penstock-calibrate(1) for those there are");
    PENSTOCK_TRY(read_number(node, *row, where, figures));
  }
  return {};
}

}  // namespace

double& at(Figures& figures, const FieldRow& row) { return *reinterpret_cast<double*>(reinterpret_cast<char*>(&figures) + row.offset); }
double at(const Figures& figures, const FieldRow& row) { return at(const_cast<Figures&>(figures), row); }

Result<Profile> built_in_profile(std::string_view name) {
  const auto* found = std::find(std::begin(kBuiltInNames), std::end(kBuiltInNames), name);
  if (found == std::end(kBuiltInNames)) {
    std::string names;
    for (const std::string_view one : kBuiltInNames) names += (names.empty() ? "" : ", ") + std::string(one);
    return Status::failure(Code::kArgument, "profile " + std::string(name) + ": expected one of the built-in ones (" + names + ") or a file");
  }
  Profile profile;
  profile.name = name;
  for (const FieldRow& row : kFieldRows) at(profile.figures, row) = row.built_in[found - std::begin(kBuiltInNames)];
  return profile;
}

std::string_view built_in_for(std::string_view file_system, bool node_local) {
  if (file_system == "tmpfs" || file_system == "ramfs" || file_system == "memory") return "tmpfs";
  return node_local ? "ssd" : "lustre";
}

std::string machine_of(std::string_view host) {
  const std::string_view name = host.substr(0, host.find('.'));
  const std::size_t last = name.find_last_not_of("0123456789");
  std::string_view stem = last == std::string_view::npos ? std::string_view() : name.substr(0, last + 1);
  if (stem.size() < name.size() && (stem.ends_with('-') || stem.ends_with('_'))) stem.remove_suffix(1);
  return std::string(stem.empty() ? name : stem);
}

Result<Profile> parse_profile(std::string_view text, const std::string& where) {
  if (nests_deeply(text)) return bad(where, "has names of more parts than any of a profile; expected TOML as penstock calibrate writes it");
  const toml::parse_result parsed = toml::parse(text, where);
  if (!parsed) {
    return bad(where, "line " + std::to_string(parsed.error().source().begin.line) + ": " + std::string(parsed.error().description()) +
                          "; expected TOML as penstock calibrate writes it");
  }
  const toml::table& table = parsed.table();
  const toml::table* head = table["profile"].as_table();
  if (head == nullptr) return bad(where, "expected a section [profile], as penstock calibrate writes it");
  if ((*head)["version"].value_or(std::int64_t{0}) != kVersion)
    return bad(where, "profile.version: expected " + std::to_string(kVersion) + "; calibrate again with this version of Penstock");
  Result<Profile> based = built_in_profile((*head)["based_on"].value_or(std::string("ssd")));
  if (!based.ok()) return based.status().with_context(where + ": profile.based_on");
  Profile profile{.name = (*head)["name"].value_or(where),
                  .measured = true,
                  .machine = (*head)["machine"].value_or(std::string()),
                  .mount_point = (*head)["mount_point"].value_or(std::string()),
                  .figures = based->figures};
  profile.machine = profile.machine.substr(0, profile.machine.find(", "));  // what is behind it, the kind of processor, is for people
  PENSTOCK_TRY(read_table(table, "", where, profile.figures));
  return profile;
}

}  // namespace penstock::model
