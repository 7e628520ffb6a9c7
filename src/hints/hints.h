// Hints: from pairs of strings to a struct with meanings, and back.  Pure: the environment, files and MPI_Info are read by
// others (src/mpi) and come in as text.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/units.h"

namespace penstock::hints {

enum class Switch { kAutomatic, kEnable, kDisable };
enum class Strategy { kAutomatic, kIndependent, kMapped, kSieved };
std::string_view name(Strategy strategy);

/// What is in force for one file.  Defaults are those of table/hints.toml.
struct Hints {
  Strategy strategy = Strategy::kAutomatic;
  bool bypass = false;
  Offset read_buffer_bytes = 4 << 20;
  Offset write_buffer_bytes = 512 << 10;
  Switch sieve_reads = Switch::kAutomatic;
  Switch sieve_writes = Switch::kAutomatic;
  Switch no_atime = Switch::kAutomatic;
  int permissions = -1;  ///< from file_perm; -1: not given
  /// Every hint with the value in force, by its first name in the table; what MPI_File_get_info tells.
  std::map<std::string, std::string> effective;
};

/// One hint as somebody wrote it.  Later ones win over earlier ones (low -> high: hints file, environment, MPI_Info).
struct Given {
  std::string key;
  std::string value;
  std::string source;  ///< "MPI_Info", "PENSTOCK_HINTS", a file's name: for messages
};

struct Parsed {
  Hints hints;
  /// One sentence each: a penstock_* key nobody knows (with the nearest known one), a value out of range (the default or `base` is kept, as the
  /// standard wants: a hint never makes a call fail).  Foreign unknown keys are kept silently in `effective`? No: they are dropped, as MPI 4.1
  /// section 14.2.8 lets an implementation do.
  std::vector<std::string> complaints;
};

enum class When { kOpen, kLater };

/// Applies `given` over `base` in order.  `when` kLater ignores hints whose scope is "open" (the value in force stays).
Parsed apply(const Hints& base, const std::vector<Given>& given, When when);

/// Defaults of the table.
Hints defaults();

/// Parses PENSTOCK_HINTS: `glob:key=value` entries separated by ';' or newlines; a glob with a colon is written with "\:".  A missing glob
/// ("key=value") means every file.  Keeps the entries whose glob (fnmatch, matched against the whole name and against its last
/// component) fits `file_name`.  Fails with kInfo naming the entry that does not parse.
Result<std::vector<Given>> from_environment_text(std::string_view text, std::string_view file_name);

/// Parses a hints file in ROMIO's format: lines of `key value`, '#' comments, blank lines ignored.  Bad lines are reported, not fatal.
std::vector<Given> from_hints_file(std::string_view text, std::string_view source, std::vector<std::string>& complaints);

/// What `name` means: prefix (empty, or one of the known ones without the colon) and path.  A colon that ends no known prefix is part of the
/// name.  ROMIO's own file-system prefixes (ufs: nfs: xfs: lustre: gpfs: panfs: pvfs2: testfs: ...) are known and mean the path behind them.
struct FileName {
  std::string prefix;
  std::string path;
};
FileName split_prefix(std::string_view name);

}  // namespace penstock::hints
