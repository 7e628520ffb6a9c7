// What the environment says, read once.  Nothing below src/mpi looks at the environment.
#pragma once

#include <string>
#include <vector>

#include "hints/hints.h"
#include "store/store.h"

namespace penstock::mpi {

struct Environment {
  std::string report;       ///< PENSTOCK_REPORT: file that rank 0 appends a line per closed file to; empty: no tracing at all
  std::string log;          ///< PENSTOCK_LOG: file for complaints; empty: none
  std::string hints;        ///< PENSTOCK_HINTS: glob:key=value ...
  std::string hints_file;   ///< text of PENSTOCK_HINTS_FILE or ROMIO_HINTS or /etc/romio-hints
  std::string hints_file_name;
};

const Environment& environment();

/// Hints for a file from everything but MPI_Info: the hints file, then the environment.
std::vector<hints::Given> hints_from_environment(const std::string& file_name, std::vector<std::string>& complaints);

/// The store that files of this process are on, as slow as the device of PENSTOCK_EMULATE and with the fault layer of PENSTOCK_FAULT where
/// they are asked for.  `rank` is the rank in
/// MPI_COMM_WORLD, by which faults may be limited.
store::Store& file_store();

/// One line into PENSTOCK_LOG, if there is one.  Never on stdout or stderr: those are the program's.
void log_line(const std::string& text);

}  // namespace penstock::mpi
