// MPI_Info to hints and back.
#pragma once

#include <mpi.h>

#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "hints/hints.h"

namespace penstock::mpi {

/// Every pair in `info`; none for MPI_INFO_NULL.
Result<std::vector<hints::Given>> given_by(MPI_Info info);

/// A new info object with these pairs; the caller frees it.
Status make_info(const std::map<std::string, std::string>& pairs, MPI_Info* info);

}  // namespace penstock::mpi
