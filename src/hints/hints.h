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
#include "hints/config_list.h"

namespace penstock::hints {

enum class Switch { kAutomatic, kEnable, kDisable };
enum class Strategy { kAutomatic, kIndependent, kMapped, kSieved, kTwoPhase, kTwoLayer };
std::string_view name(Strategy strategy);

/// What is in force for one file.  Defaults are those of table/hints.toml.
struct Hints {
  Strategy strategy = Strategy::kAutomatic;
  bool bypass = false;
  Offset read_buffer_bytes = 4 << 20;
  Offset write_buffer_bytes = 512 << 10;
  Offset collective_buffer_bytes = 16 << 20;
  int aggregators = 0;  ///< from cb_nodes; 0: automatic
  int local_aggregators = 0;  ///< of each node; 0: one
  std::vector<NodeLimit> config_list;  ///< from cb_config_list: aggregators of each node; empty: evenly
  int interfaces = 0;  ///< of a node, to the network; 0: to be found out
  std::string profile;  ///< from penstock_profile; empty: to be found
  Switch learn = Switch::kAutomatic;
  Offset stripe_bytes = 0;  ///< of a new file; 0: as the file system likes
  int stripe_count = 0;     ///< the same; -1: over all devices
  int first_device = -1;    ///< the same: its number; -1: as the file system likes
  Switch sieve_reads = Switch::kAutomatic;
  Switch sieve_writes = Switch::kAutomatic;
  Switch no_atime = Switch::kAutomatic;
  int permissions = -1;  ///< from file_perm; -1: not given
  /// Every hint with the value in force, by its first name in the table; what MPI_File_get_info tells.
  std::map<std::string, std::string> effective;
  bool operator==(const Hints&) const = default;
};

/// One hint as somebody wrote it.  Later ones win over earlier ones (low -> high: hints file, environment, MPI_Info).
struct Given {
  std::string key;
  std::string value;
  std::string source;  ///< "MPI_Info", "PENSTOCK_HINTS", a file's name: for messages
};

struct Parsed {
  Hints hints;
  /// One sentence each, for the log: a penstock key nobody knows (with the nearest one that exists), a value that cannot be understood or is out of
  /// range.  A hint never makes a call fail: what was in force stays in force.  Unknown keys of other libraries are dropped in silence
  /// (MPI 4.1 section 14.2.8), and so are facts and unchanged values, so that the info of one file can be given to another.
  std::vector<std::string> complaints;
};

enum class When { kOpen, kLater };

/// Applies `given` over `base` in order.  `when` kLater ignores hints whose scope is "open" (the value in force stays; a penstock key that would
/// have changed it is complained about).
///
/// Values: a switch is enable, disable or automatic, or auto, true, yes, 1, false, no, 0; an amount of bytes is a number, or one with k, KiB, m, MiB,
/// g or GiB behind it, all powers of 1024; letters may be of either case.
Parsed apply(const Hints& base, const std::vector<Given>& given, When when);

/// Defaults of the table.
Hints defaults();

/// Parses PENSTOCK_HINTS: `glob:key=value` entries separated by ';' or newlines; a glob with a colon is written with "\:".  A missing glob
/// ("key=value") means every file.  Keeps the entries whose glob (fnmatch, matched against the whole name and against the last
/// component of the path in it) fits `file_name`.  Fails with kInfo naming the entry that does not parse.
Result<std::vector<Given>> from_environment_text(std::string_view text, std::string_view file_name);

/// Parses a hints file in ROMIO's format: lines of `key value`, comments from a word that starts with '#', blank lines ignored.  Bad lines
/// are reported, not fatal.
std::vector<Given> from_hints_file(std::string_view text, std::string_view source, std::vector<std::string>& complaints);

/// What `name` means: prefix (empty, or one of the known ones without the colon) and path.  A colon that ends no known prefix is part of the
/// name.  The known ones are in table/hints.toml: so far ROMIO's, which mean the path behind them.
struct FileName {
  std::string prefix;
  std::string path;
};
FileName split_prefix(std::string_view name);

}  // namespace penstock::hints
