// Progress: having the MPI library call us while a thread of the program is inside of it.
#pragma once

#include <functional>
#include <memory>

#include "file/file.h"

namespace penstock::mpi {

/// Has Open MPI's progress engine, which every blocking call of it runs, call `callback`; that returns how many things it completed.  False with other
/// libraries.  For the rest of the program.
bool called_by_progress_engine(int (*callback)());

/// Promises that errands are carried (comm/errands.h) where this library lets us keep that.  Local; before the first group of ranks is made.  Cheap when
/// repeated.
void promise_errands();

/// File::start(), on a thread of the program, with errands carried until the access is done.
std::shared_ptr<file::Pending> start_in_background(file::File& file, const file::Request& request, Status local,
                                                   std::function<file::Outcome(file::Outcome)> finish, std::function<void()> notify,
                                                   file::File::Starting starting = file::File::Starting::kNeverWaits);

}  // namespace penstock::mpi
