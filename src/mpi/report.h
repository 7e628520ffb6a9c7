// The report of a closed file: one line of JSON, summed over the ranks that had it open (docs/report.md has the fields).
#pragma once

#include "mpi/handles.h"

namespace penstock::mpi {

/// Collective over the file's ranks; does nothing unless PENSTOCK_REPORT is set.  Requires: the file is not closed yet.
void write_report(OpenFile& open);

}  // namespace penstock::mpi
