// Requests: what MPI_File_iread and its kin return.  They are MPI's generalized requests, so that every Wait and Test form of the program,
// and of any library that completes requests through PMPI, works on them.
#pragma once

#include <mpi.h>

#include <functional>
#include <memory>

#include "file/file.h"
#include "mpi/handles.h"

namespace penstock::mpi {

/// Starts `request` on the file and makes the MPI request for it.  `finish` turns the number of bytes moved in the file into the number that
/// the program is told (and converts what was read); it runs on the thread that finishes, after the access, when there was no error.
/// Local.  Returns an MPI error code, without having called an error handler.
Status start_request(const std::shared_ptr<OpenFile>& open, MPI_File handle, const file::Request& request, Status local,
                     std::function<file::Outcome(file::Outcome)> finish, MPI_Request* mpi_request);

/// Puts the number of bytes moved into a status that may be MPI_STATUS_IGNORE.
void set_status(MPI_Status* status, Offset bytes);

}  // namespace penstock::mpi
