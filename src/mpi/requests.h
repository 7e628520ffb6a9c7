// Requests: what MPI_File_iread and its kin return.  They are MPI's generalized requests, so that every Wait and Test form of the program,
// and of any library that completes requests through PMPI, works on them.
#pragma once

#include <mpi.h>

#include <functional>
#include <memory>

#include "file/file.h"
#include "mpi/handles.h"

namespace penstock::mpi {

/// What is left to do with an access that is over: the number of bytes moved in the file becomes the number that the program is told, and what was read is
/// converted.  Either may be empty.
struct Finish {
  std::function<file::Outcome(file::Outcome)> anywhere;    ///< by the thread that carried it out; calls neither MPI nor the program
  std::function<file::Outcome(file::Outcome)> by_program;  ///< by the program's thread that completes the request, once
};

/// Starts `request` on the file and makes the MPI request for it.
/// Local.  Returns an MPI error code, without having called an error handler.
Status start_request(const std::shared_ptr<OpenFile>& open, MPI_File handle, const file::Request& request, Status local, Finish finish,
                     MPI_Request* mpi_request);

/// Completes the requests whose accesses are over, where that otherwise waits for the program's next call of MPI: those that were freed then tell their failures.
void complete_requests();

/// Puts the number of bytes moved into a status that may be MPI_STATUS_IGNORE.
void set_status(MPI_Status* status, Offset bytes);

}  // namespace penstock::mpi
