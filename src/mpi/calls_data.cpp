// Data access: from MPI's arguments to a file::Request.  One body per kind of call; the entry points differ in four facts only.
#include <cstring>
#include <utility>

#include "mpi/calls.h"
#include "mpi/datarep.h"
#include "mpi/datatype.h"
#include "mpi/errors.h"
#include "mpi/handles.h"
#include "mpi/progress.h"
#include "mpi/requests.h"

namespace penstock::mpi {

namespace {

using file::Outcome;
using file::Pointer;
using trace::OpTrace;
using trace::Phase;
using trace::PhaseScope;

/// The arguments of one data access call.
struct Call {
  MPI_File fh;
  bool write;
  bool collective;
  Pointer pointer;
  MPI_Offset offset;
  void* buffer;
  MPI_Count count;
  MPI_Datatype datatype;
};

/// Bytes in the file's representation that stand for the program's buffer, where the two differ.
struct Converted {
  std::unique_ptr<std::byte[]> bytes;
  const DataRepresentation* representation = nullptr;  ///< null: data is as in memory
  Items items;
};

Status check_arguments(const Call& call) {
  if (call.count < 0) return Status::failure(Code::kCount, "count " + std::to_string(call.count) + " is negative");
  if (call.datatype == MPI_DATATYPE_NULL) return Status::failure(Code::kType, "the datatype is MPI_DATATYPE_NULL");
  return {};
}

/// MPI_BOTTOM is a null pointer too: with a datatype of absolute addresses it is right.  Nothing is ever mapped in the first page.
bool no_buffer(const void* buffer, const Decoded& decoded) {
  return buffer == nullptr && decoded.first_byte > -4096 && decoded.first_byte < 4096;
}

/// The request for a call, in the file's bytes.  `converted` gets what has to live until the access is over.
Status make_request(const OpenFile& open, const Call& call, file::Request& request, Converted& converted, OpTrace& trace) {
  request.write = call.write;
  request.collective = call.collective;
  request.pointer = call.pointer;
  request.offset_etypes = call.offset;
  PENSTOCK_TRY(check_arguments(call));
  const Result<const Decoded*> found = decode(call.datatype);
  if (!found.ok()) return found.status();
  const Decoded& decoded = **found;
  PENSTOCK_TRY(check_committed(call.datatype, decoded));
  Offset bytes = 0;
  if (!checked_multiply(call.count, decoded.size, bytes))
    return Status::failure(Code::kCount, std::to_string(call.count) + " items of " + std::to_string(decoded.size) +
                                             " bytes are more than a file can hold");
  request.bytes = bytes;
  if (bytes == 0) return {};
  if (no_buffer(call.buffer, decoded))
    return Status::failure(Code::kBuffer, "the buffer is null, but the count is " + std::to_string(call.count) + "; pass a buffer or count 0");

  const DataRepresentation& representation = *open.representation.load(std::memory_order_acquire);
  // Without a function for the direction, data is as in memory (MPI 4.1 section 14.5.3).
  if (representation.converts(call.write)) {
    PhaseScope converting(trace, Phase::kConvert);
    Result<Items> items = items_of(call.datatype, representation);
    if (!items.ok()) return items.status();
    if (!checked_multiply(call.count, items->in_file.size(), bytes))
      return Status::failure(Code::kCount, std::to_string(call.count) + " items are more than a file can hold");
    request.bytes = bytes;
    converted.bytes.reset(new (std::nothrow) std::byte[static_cast<std::size_t>(bytes)]);
    if (converted.bytes == nullptr)
      return Status::failure(Code::kNoMemory, std::to_string(bytes) + " bytes to convert the data in: " +
                                                  "access less at once, or use the data representation native");
    converted.representation = &representation;
    converted.items = std::move(*items);
    request.buffer = converted.bytes.get();
    if (!call.write) return {};
    return convert_to_file(representation, call.buffer, call.datatype, converted.items, call.count, converted.bytes.get(), bytes);
  }
  request.buffer = static_cast<std::byte*>(call.buffer);
  request.memory_contiguous = decoded.dense || (decoded.one_piece && call.count == 1);
  if (request.memory_contiguous)
    request.buffer += decoded.first_byte;
  else
    request.memory = decoded.tiling;
  return {};
}

/// make_request(), with the file and the operation in what it says.
Status prepare(const OpenFile& open, const Call& call, file::Request& request, Converted& converted, OpTrace& trace) {
  const Status made = make_request(open, call, request, converted, trace);
  return made.ok() ? made : made.with_context(open.file->path() + (call.write ? ": write" : ": read"));
}

/// After the access: what was read goes to the program's buffer, and bytes of the file become bytes of memory.
Outcome finish_access(Outcome outcome, const Converted& converted, bool write, void* buffer, MPI_Datatype datatype, MPI_Count count) {
  if (!write && outcome.bytes > 0) {
    Status read = convert_from_file(*converted.representation, buffer, datatype, converted.items, count, converted.bytes.get(), outcome.bytes);
    if (!read.ok()) return {outcome.status.ok() ? read : outcome.status, 0};
  }
  outcome.bytes = bytes_in_memory(converted.items, outcome.bytes);
  return outcome;
}

int report_failure(MPI_File fh, const Status& status, OpTrace& trace) {
  trace.count(trace::Counter::kErrors);
  return raise(fh, status);
}

int blocking(const Call& call, MPI_Status* status) {
  OpenFile* open = find_open(call.fh);
  if (open == nullptr) return raise(MPI_FILE_NULL, no_such_handle(call.fh, call.write ? "write" : "read"));
  OpTrace trace(open->trace.get(), Phase::kPlan, trace::doing(call.write));
  file::Request request;
  Converted converted;
  const Status local = prepare(*open, call, request, converted, trace);
  if (!local.ok() && !call.collective) return report_failure(call.fh, local, trace);
  Outcome outcome = open->file->access(request, trace, local);
  if (converted.representation != nullptr) {
    PhaseScope converting(trace, Phase::kConvert);
    outcome = finish_access(std::move(outcome), converted, call.write, call.buffer, call.datatype, call.count);
  }
  set_status(status, outcome.bytes);
  if (!outcome.status.ok()) {
    trace.count(trace::Counter::kErrors);
    return raise(call.fh, outcome.status);
  }
  return MPI_SUCCESS;
}

/// What is left to do when a non-blocking or split access is over.  `kept`: of the call's datatype.
Finish finish_of(const Call& call, const std::shared_ptr<Converted>& converted, const std::shared_ptr<KeptDatatype>& kept) {
  if (converted->representation == nullptr) return {};
  const auto finish = [=](Outcome outcome) {
    return finish_access(std::move(outcome), *converted, call.write, call.buffer, kept != nullptr ? kept->get() : MPI_DATATYPE_NULL, call.count);
  };
  if (kept == nullptr) return {finish, {}};
  // Both hold the bytes: the access may go on when the program has given up its request.
  return {[converted](Outcome outcome) { return outcome; }, finish};
}

/// The datatype for functions of the program that are called when the access is over; null where there are none.
Status keep_for_program(const Call& call, const Converted& converted, std::shared_ptr<KeptDatatype>& kept) {
  if (call.write || converted.representation == nullptr || !calls_program(*converted.representation)) return {};
  kept = std::make_shared<KeptDatatype>();
  return kept->keep(call.datatype);
}

int nonblocking(const Call& call, MPI_Request* mpi_request) {
  const std::shared_ptr<OpenFile> open = share_open(call.fh);
  if (open == nullptr) return raise(MPI_FILE_NULL, no_such_handle(call.fh, call.write ? "iwrite" : "iread"));
  if (mpi_request == nullptr) return raise(call.fh, Status::failure(Code::kArgument, open->file->path() + ": the place for the request is a null pointer"));
  *mpi_request = MPI_REQUEST_NULL;
  OpTrace trace(open->trace.get(), Phase::kPlan, trace::doing(call.write));
  file::Request request;
  auto converted = std::make_shared<Converted>();
  Status local = prepare(*open, call, request, *converted, trace);
  if (local.ok()) local = open->file->check_request(request);
  std::shared_ptr<KeptDatatype> kept;
  if (local.ok()) local = keep_for_program(call, *converted, kept);
  if (!local.ok()) {
    // What is wrong with the arguments is told at once, and there is no request.  The other ranks of a collective call hear of it in the
    // agreement, which this rank joins in the background.
    if (call.collective) start_in_background(*open->file, request, local, {}, {});
    return report_failure(call.fh, local, trace);
  }
  Status started = start_request(open, call.fh, request, std::move(local), finish_of(call, converted, kept), mpi_request);
  if (!started.ok()) return report_failure(call.fh, started, trace);
  return MPI_SUCCESS;
}

int split_begin(const Call& call, Split::Kind kind) {
  OpenFile* open = find_open(call.fh);
  if (open == nullptr) return raise(MPI_FILE_NULL, no_such_handle(call.fh, "a split collective"));
  OpTrace trace(open->trace.get(), Phase::kPlan, trace::doing(call.write));
  file::Request request;
  auto converted = std::make_shared<Converted>();
  Status local = prepare(*open, call, request, *converted, trace);
  std::shared_ptr<KeptDatatype> kept;
  if (local.ok()) local = keep_for_program(call, *converted, kept);
  Finish finish = finish_of(call, converted, kept);
  std::unique_lock lock(open->mutex);
  if (open->split.kind != Split::Kind::kNone) {
    lock.unlock();
    return report_failure(call.fh,
                          Status::failure(Code::kRequest, open->file->path() + ": a split collective is active on this file already; end it first"),
                          trace);
  }
  open->split.kind = kind;
  open->split.buffer = call.buffer;
  open->split.finish = std::move(finish.by_program);
  lock.unlock();
  std::shared_ptr<file::Pending> pending;
  try {
    pending = start_in_background(*open->file, request, std::move(local), std::move(finish.anywhere), {}, file::File::Starting::kMayWait);
  } catch (const std::bad_alloc&) {
    lock.lock();
    open->split = {};  // nothing has begun
    throw;
  }
  lock.lock();
  open->split.pending = std::move(pending);
  return MPI_SUCCESS;
}

int split_end(MPI_File fh, const void* buffer, MPI_Status* status, bool write, Split::Kind kind) {
  OpenFile* open = find_open(fh);
  if (open == nullptr) return raise(MPI_FILE_NULL, no_such_handle(fh, "the end of a split collective"));
  OpTrace trace(open->trace.get(), Phase::kWait, trace::doing(write));
  std::unique_lock lock(open->mutex);
  if (open->split.kind != kind) {
    const char* sentence = open->split.kind == Split::Kind::kNone ? ": no split collective is active on this file; begin one first"
                                                                  : ": the split collective that is active on this file is of another kind";
    lock.unlock();
    return report_failure(fh, Status::failure(Code::kRequest, open->file->path() + sentence), trace);
  }
  const Split split = std::exchange(open->split, Split{});
  lock.unlock();
  open->file->wait(*split.pending);
  const Outcome outcome = split.finish ? split.finish(split.pending->outcome()) : split.pending->outcome();
  set_status(status, outcome.bytes);
  if (!outcome.status.ok()) {
    trace.count(trace::Counter::kErrors);
    return raise(fh, outcome.status);
  }
  return MPI_SUCCESS;
}

constexpr bool kRead = false;
constexpr bool kWrite = true;
constexpr bool kAlone = false;
constexpr bool kTogether = true;

void* writable(const void* buffer) { return const_cast<void*>(buffer); }

}  // namespace

namespace calls {

int read_at(MPI_File fh, MPI_Offset offset, void* buffer, MPI_Count count, MPI_Datatype datatype, MPI_Status* status) {
  return blocking({fh, kRead, kAlone, Pointer::kExplicit, offset, buffer, count, datatype}, status);
}
int write_at(MPI_File fh, MPI_Offset offset, const void* buffer, MPI_Count count, MPI_Datatype datatype, MPI_Status* status) {
  return blocking({fh, kWrite, kAlone, Pointer::kExplicit, offset, writable(buffer), count, datatype}, status);
}
int read_at_all(MPI_File fh, MPI_Offset offset, void* buffer, MPI_Count count, MPI_Datatype datatype, MPI_Status* status) {
  return blocking({fh, kRead, kTogether, Pointer::kExplicit, offset, buffer, count, datatype}, status);
}
int write_at_all(MPI_File fh, MPI_Offset offset, const void* buffer, MPI_Count count, MPI_Datatype datatype, MPI_Status* status) {
  return blocking({fh, kWrite, kTogether, Pointer::kExplicit, offset, writable(buffer), count, datatype}, status);
}
int read(MPI_File fh, void* buffer, MPI_Count count, MPI_Datatype datatype, MPI_Status* status) {
  return blocking({fh, kRead, kAlone, Pointer::kIndividual, 0, buffer, count, datatype}, status);
}
int write(MPI_File fh, const void* buffer, MPI_Count count, MPI_Datatype datatype, MPI_Status* status) {
  return blocking({fh, kWrite, kAlone, Pointer::kIndividual, 0, writable(buffer), count, datatype}, status);
}
int read_all(MPI_File fh, void* buffer, MPI_Count count, MPI_Datatype datatype, MPI_Status* status) {
  return blocking({fh, kRead, kTogether, Pointer::kIndividual, 0, buffer, count, datatype}, status);
}
int write_all(MPI_File fh, const void* buffer, MPI_Count count, MPI_Datatype datatype, MPI_Status* status) {
  return blocking({fh, kWrite, kTogether, Pointer::kIndividual, 0, writable(buffer), count, datatype}, status);
}
int read_shared(MPI_File fh, void* buffer, MPI_Count count, MPI_Datatype datatype, MPI_Status* status) {
  return blocking({fh, kRead, kAlone, Pointer::kShared, 0, buffer, count, datatype}, status);
}
int write_shared(MPI_File fh, const void* buffer, MPI_Count count, MPI_Datatype datatype, MPI_Status* status) {
  return blocking({fh, kWrite, kAlone, Pointer::kShared, 0, writable(buffer), count, datatype}, status);
}
int read_ordered(MPI_File fh, void* buffer, MPI_Count count, MPI_Datatype datatype, MPI_Status* status) {
  return blocking({fh, kRead, kTogether, Pointer::kOrdered, 0, buffer, count, datatype}, status);
}
int write_ordered(MPI_File fh, const void* buffer, MPI_Count count, MPI_Datatype datatype, MPI_Status* status) {
  return blocking({fh, kWrite, kTogether, Pointer::kOrdered, 0, writable(buffer), count, datatype}, status);
}

int iread_at(MPI_File fh, MPI_Offset offset, void* buffer, MPI_Count count, MPI_Datatype datatype, MPI_Request* request) {
  return nonblocking({fh, kRead, kAlone, Pointer::kExplicit, offset, buffer, count, datatype}, request);
}
int iwrite_at(MPI_File fh, MPI_Offset offset, const void* buffer, MPI_Count count, MPI_Datatype datatype, MPI_Request* request) {
  return nonblocking({fh, kWrite, kAlone, Pointer::kExplicit, offset, writable(buffer), count, datatype}, request);
}
int iread_at_all(MPI_File fh, MPI_Offset offset, void* buffer, MPI_Count count, MPI_Datatype datatype, MPI_Request* request) {
  return nonblocking({fh, kRead, kTogether, Pointer::kExplicit, offset, buffer, count, datatype}, request);
}
int iwrite_at_all(MPI_File fh, MPI_Offset offset, const void* buffer, MPI_Count count, MPI_Datatype datatype, MPI_Request* request) {
  return nonblocking({fh, kWrite, kTogether, Pointer::kExplicit, offset, writable(buffer), count, datatype}, request);
}
int iread(MPI_File fh, void* buffer, MPI_Count count, MPI_Datatype datatype, MPI_Request* request) {
  return nonblocking({fh, kRead, kAlone, Pointer::kIndividual, 0, buffer, count, datatype}, request);
}
int iwrite(MPI_File fh, const void* buffer, MPI_Count count, MPI_Datatype datatype, MPI_Request* request) {
  return nonblocking({fh, kWrite, kAlone, Pointer::kIndividual, 0, writable(buffer), count, datatype}, request);
}
int iread_all(MPI_File fh, void* buffer, MPI_Count count, MPI_Datatype datatype, MPI_Request* request) {
  return nonblocking({fh, kRead, kTogether, Pointer::kIndividual, 0, buffer, count, datatype}, request);
}
int iwrite_all(MPI_File fh, const void* buffer, MPI_Count count, MPI_Datatype datatype, MPI_Request* request) {
  return nonblocking({fh, kWrite, kTogether, Pointer::kIndividual, 0, writable(buffer), count, datatype}, request);
}
int iread_shared(MPI_File fh, void* buffer, MPI_Count count, MPI_Datatype datatype, MPI_Request* request) {
  return nonblocking({fh, kRead, kAlone, Pointer::kShared, 0, buffer, count, datatype}, request);
}
int iwrite_shared(MPI_File fh, const void* buffer, MPI_Count count, MPI_Datatype datatype, MPI_Request* request) {
  return nonblocking({fh, kWrite, kAlone, Pointer::kShared, 0, writable(buffer), count, datatype}, request);
}

int read_at_all_begin(MPI_File fh, MPI_Offset offset, void* buffer, MPI_Count count, MPI_Datatype datatype) {
  return split_begin({fh, kRead, kTogether, Pointer::kExplicit, offset, buffer, count, datatype}, Split::Kind::kReadAtAll);
}
int read_at_all_end(MPI_File fh, void* buffer, MPI_Status* status) { return split_end(fh, buffer, status, kRead, Split::Kind::kReadAtAll); }
int write_at_all_begin(MPI_File fh, MPI_Offset offset, const void* buffer, MPI_Count count, MPI_Datatype datatype) {
  return split_begin({fh, kWrite, kTogether, Pointer::kExplicit, offset, writable(buffer), count, datatype}, Split::Kind::kWriteAtAll);
}
int write_at_all_end(MPI_File fh, const void* buffer, MPI_Status* status) {
  return split_end(fh, buffer, status, kWrite, Split::Kind::kWriteAtAll);
}
int read_all_begin(MPI_File fh, void* buffer, MPI_Count count, MPI_Datatype datatype) {
  return split_begin({fh, kRead, kTogether, Pointer::kIndividual, 0, buffer, count, datatype}, Split::Kind::kReadAll);
}
int read_all_end(MPI_File fh, void* buffer, MPI_Status* status) { return split_end(fh, buffer, status, kRead, Split::Kind::kReadAll); }
int write_all_begin(MPI_File fh, const void* buffer, MPI_Count count, MPI_Datatype datatype) {
  return split_begin({fh, kWrite, kTogether, Pointer::kIndividual, 0, writable(buffer), count, datatype}, Split::Kind::kWriteAll);
}
int write_all_end(MPI_File fh, const void* buffer, MPI_Status* status) { return split_end(fh, buffer, status, kWrite, Split::Kind::kWriteAll); }
int read_ordered_begin(MPI_File fh, void* buffer, MPI_Count count, MPI_Datatype datatype) {
  return split_begin({fh, kRead, kTogether, Pointer::kOrdered, 0, buffer, count, datatype}, Split::Kind::kReadOrdered);
}
int read_ordered_end(MPI_File fh, void* buffer, MPI_Status* status) { return split_end(fh, buffer, status, kRead, Split::Kind::kReadOrdered); }
int write_ordered_begin(MPI_File fh, const void* buffer, MPI_Count count, MPI_Datatype datatype) {
  return split_begin({fh, kWrite, kTogether, Pointer::kOrdered, 0, writable(buffer), count, datatype}, Split::Kind::kWriteOrdered);
}
int write_ordered_end(MPI_File fh, const void* buffer, MPI_Status* status) {
  return split_end(fh, buffer, status, kWrite, Split::Kind::kWriteOrdered);
}

}  // namespace calls

}  // namespace penstock::mpi
