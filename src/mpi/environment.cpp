// What the environment says.
#include "mpi/environment.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <span>
#include <sstream>

#include "comm/mpi/topology.h"
#include "mpi/errors.h"
#include "store/emulated/emulated_store.h"
#include "store/fault/fault_store.h"
#include "store/pinned/pinned_store.h"
#include "store/posix/posix_store.h"

namespace penstock::mpi {

namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

Environment read_environment() {
  Environment result;
  result.report = variable("PENSTOCK_REPORT");
  result.log = variable("PENSTOCK_LOG");
  result.hints = variable("PENSTOCK_HINTS");
  result.hints_file_name = variable("PENSTOCK_HINTS_FILE");
  if (result.hints_file_name.empty()) result.hints_file_name = variable("ROMIO_HINTS");
  if (result.hints_file_name.empty()) result.hints_file_name = "/etc/romio-hints";
  result.hints_file = text_of(result.hints_file_name);
  return result;
}

/// Bytes of a layout as Lustre tells them, when the text is the name of a file, or the layout written out.
Result<store::StripeLayout> pretended_layout(const std::string& text) {
  if (text.find('/') == std::string::npos || text.find(':') != std::string::npos) return store::layout_of_text(text);
  const std::string value = text_of(text);
  return store::parse_layout(std::as_bytes(std::span(value)));
}

store::PosixStore* make_posix_store() {
  const std::string text = variable("PENSTOCK_LUSTRE_LAYOUT");
  if (text.empty()) return new store::PosixStore;
  Result<store::StripeLayout> layout = pretended_layout(text);
  if (layout.ok()) return new store::PosixStore(std::move(*layout));
  log_line("PENSTOCK_LUSTRE_LAYOUT: " + std::string(layout.status().text()));
  return new store::PosixStore;
}

/// `inner`, as slow as the device of PENSTOCK_EMULATE where there is one.  What does not parse makes every open fail.
store::Store& emulated(store::Store& inner) {
  const std::string text = variable("PENSTOCK_EMULATE");
  if (text.empty()) return inner;
  Result<store::DeviceProfile> profile = store::parse_device(text);
  if (!profile.ok()) profile = profile.status().with_context("PENSTOCK_EMULATE");
  return *new store::EmulatedStore(inner, std::move(profile));
}

store::Store& make_store() {
  static auto* const by_name = make_posix_store();
  static auto* const pinned = new store::PinnedStore(*by_name);
  static store::Store* const posix = &emulated(*pinned);
  const std::string text = variable("PENSTOCK_FAULT");
  if (text.empty()) return *posix;
  Result<std::vector<store::FaultRule>> rules = store::parse_fault_rules(text);
  if (!rules.ok()) {
    log_line("PENSTOCK_FAULT: " + std::string(rules.status().text()));
    return *posix;
  }
  int rank = 0;
  if (comm::world_is_there()) PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::erase_if(*rules, [rank](const store::FaultRule& rule) { return rule.rank >= 0 && rule.rank != rank; });
  static auto* const faulty = new store::FaultStore(*posix, std::make_shared<store::FaultPlan>(std::move(*rules)));
  return *faulty;
}

}  // namespace

const Environment& environment() {
  static const auto* const value = new Environment(read_environment());
  return *value;
}

std::vector<hints::Given> hints_from_environment(const std::string& file_name, std::vector<std::string>& complaints) {
  const Environment& env = environment();
  std::vector<hints::Given> given = hints::from_hints_file(env.hints_file, env.hints_file_name, complaints);
  Result<std::vector<hints::Given>> from_variable = hints::from_environment_text(env.hints, file_name);
  if (from_variable.ok())
    given.insert(given.end(), from_variable->begin(), from_variable->end());
  else
    complaints.emplace_back(from_variable.status().text());
  return given;
}

store::Store& file_store() {
  static store::Store& store = make_store();
  return store;
}

void log_line(const std::string& text) {
  const std::string& path = environment().log;
  if (path.empty()) return;
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (descriptor < 0) return;
  const std::string line = text + "\n";
  // One write, so that lines of many ranks do not mix; there is nobody to tell when it fails.
  [[maybe_unused]] const ssize_t written = ::write(descriptor, line.data(), line.size());
  ::close(descriptor);
}

}  // namespace penstock::mpi
