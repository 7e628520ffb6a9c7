// The calls about the file as a whole: opening and closing, hints, views, pointers, consistency.
#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string_view>
#include <utility>

#include "comm/mpi/mpi_comm.h"
#include "mpi/calls.h"
#include "mpi/datarep.h"
#include "mpi/datatype.h"
#include "mpi/environment.h"
#include "mpi/errors.h"
#include "mpi/handles.h"
#include "mpi/info.h"
#include "mpi/progress.h"
#include "mpi/real.h"
#include "mpi/report.h"
#include "mpi/requests.h"

namespace penstock::mpi {

namespace {

using trace::OpTrace;
using trace::Phase;
using trace::PhaseScope;

// Bypassed files go to whoever stands behind us under the plain name: a profiling tool, or the library.
constinit const RealFunction<int(MPI_Comm, const char*, int, MPI_Info, MPI_File*)> native_open("MPI_File_open");
constinit const RealFunction<int(MPI_File*)> native_close("MPI_File_close");
constinit const RealFunction<int(const char*, MPI_Info)> native_delete("MPI_File_delete");

#ifdef PENSTOCK_FLAVOUR_ABI
constexpr Fint kNullFortranHandle = 0x118;
#else
constexpr Fint kNullFortranHandle = 0;
#endif

double wall_clock_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

file::Mode mode_of(int access_mode) {
  const auto has = [access_mode](int flag) { return (access_mode & flag) != 0; };
  file::Mode mode;
  mode.read = has(MPI_MODE_RDONLY) || has(MPI_MODE_RDWR);
  mode.write = has(MPI_MODE_WRONLY) || has(MPI_MODE_RDWR);
  mode.create = has(MPI_MODE_CREATE);
  mode.exclusive = has(MPI_MODE_EXCL);
  mode.delete_on_close = has(MPI_MODE_DELETE_ON_CLOSE);
  mode.unique_open = has(MPI_MODE_UNIQUE_OPEN);
  mode.sequential = has(MPI_MODE_SEQUENTIAL);
  mode.append = has(MPI_MODE_APPEND);
  return mode;
}

/// What file::check_mode cannot see in a Mode: two of the three ways at once, bits that mean nothing.
Status check_access_mode(int access_mode) {
  constexpr int kWays = MPI_MODE_RDONLY | MPI_MODE_WRONLY | MPI_MODE_RDWR;
  constexpr int kAll = kWays | MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_DELETE_ON_CLOSE | MPI_MODE_UNIQUE_OPEN | MPI_MODE_SEQUENTIAL |
                       MPI_MODE_APPEND;
  const int ways = access_mode & kWays;
  if (ways != MPI_MODE_RDONLY && ways != MPI_MODE_WRONLY && ways != MPI_MODE_RDWR)
    return Status::failure(Code::kMode, "access mode " + std::to_string(access_mode) + ": exactly one of RDONLY, WRONLY and RDWR must be given");
  if ((access_mode & ~kAll) != 0)
    return Status::failure(Code::kMode, "access mode " + std::to_string(access_mode) + " has bits that are no MPI_MODE_ constant");
  return {};
}

/// A program may change its directory between open and the first access of a rank that opens late.
Result<std::string> absolute_path(const std::string& path) {
  if (path.empty()) return Status::failure(Code::kBadFile, "the file name is empty");
  if (path.front() == '/') return path;
  std::error_code error;
  const std::filesystem::path here = std::filesystem::current_path(error);
  if (error) return Status::from_errno(error.value(), path + ": the current directory");
  return (here / path).string();
}

/// MPI lets info values and files decide; the ranks need not pass the same hints, but a bypass has to be common: rank 0's counts.
struct OpenArguments {
  std::string path;
  hints::Hints hints;
  std::vector<std::string> complaints;
};

Result<OpenArguments> read_open_arguments(const char* filename, MPI_Info info) {
  if (filename == nullptr) return Status::failure(Code::kBadFile, "the file name is a null pointer");
  OpenArguments arguments;
  const hints::FileName name = hints::split_prefix(filename);
  Result<std::string> path = absolute_path(name.path);
  if (!path.ok()) return path.status();
  arguments.path = *path;
  std::vector<hints::Given> given = hints_from_environment(filename, arguments.complaints);
  const Result<std::vector<hints::Given>> from_program = given_by(info);
  if (!from_program.ok()) return from_program.status();
  given.insert(given.end(), from_program->begin(), from_program->end());
  hints::Parsed parsed = hints::apply(hints::defaults(), given, hints::When::kOpen);
  arguments.hints = std::move(parsed.hints);
  arguments.complaints.insert(arguments.complaints.end(), parsed.complaints.begin(), parsed.complaints.end());
  for (const std::string& complaint : arguments.complaints) log_line(std::string(filename) + ": " + complaint);
  return arguments;
}

Status check_comm(MPI_Comm comm) {
  if (comm == MPI_COMM_NULL) return Status::failure(Code::kComm, "open: the communicator is MPI_COMM_NULL");
  int inter = 0;
  PENSTOCK_TRY(status_from_mpi(PMPI_Comm_test_inter(comm, &inter), "open"));
  if (inter != 0) return Status::failure(Code::kComm, "open: a file cannot be opened on an intercommunicator (MPI 4.1 section 14.2.1)");
  return {};
}

Status open_bypassed(MPI_Comm comm, const char* filename, int access_mode, MPI_Info info, OpenFile& open) {
  if (!native_open.exists()) return Status::failure(Code::kUnsupported, std::string(filename) + ": the MPI library has no MPI_File_open to bypass to");
  return status_from_mpi(native_open(comm, filename, access_mode, info, &open.native), filename);
}

Status open_here(MPI_Comm comm, const char* filename, int access_mode, MPI_Info info, OpenFile& open) {
  promise_errands();
  Result<std::unique_ptr<comm::Comm>> group = comm::make_mpi_comm(comm);
  if (!group.ok()) return group.status().with_context(filename != nullptr ? filename : "open");
  Result<OpenArguments> arguments = read_open_arguments(filename, info);
  Status local = arguments.status();
  if (local.ok()) local = check_access_mode(access_mode).with_context(arguments->path);
  OpenArguments values;
  if (arguments.ok()) values = std::move(*arguments);

  int bypass = values.hints.bypass ? 1 : 0;
  if ((*group)->topology().size > 1) PENSTOCK_TRY((*group)->broadcast(&bypass, sizeof bypass, 0));
  if (bypass != 0) {
    const int rank = (*group)->topology().rank;
    PENSTOCK_TRY(file::status_of((*group)->agree(file::verdict_of(local, rank)), local, rank, values.path));
    group->reset();
    return open_bypassed(comm, filename, access_mode, info, open);
  }
  if (!environment().report.empty()) {
    open.trace = std::make_unique<trace::FileTrace>();
    open.trace->opened_at_ns = trace::now_ns();
  }
  open.opened_seconds = wall_clock_seconds();
  open.access_mode = access_mode;
  open.representation = &native_representation();
  open.complaints = values.complaints;
  Result<std::unique_ptr<file::File>> opened = file::File::open(std::move(*group), file_store(), values.path, mode_of(access_mode), values.hints,
                                                                open.trace.get(), std::move(local));
  if (!opened.ok()) return opened.status();
  open.file = std::move(*opened);
  if (const std::string& remark = open.file->remark(); !remark.empty()) {
    log_line(values.path + ": " + remark);
    open.complaints.push_back(remark);
  }
  return status_from_mpi(PMPI_Comm_group(comm, &open.group), "open");
}

/// What every call does first: find the file, or say why not.
template <typename Body>
int with_file(MPI_File fh, const char* operation, Phase phase, Body body) {
  OpenFile* open = find_open(fh);
  if (open == nullptr) return raise(MPI_FILE_NULL, no_such_handle(fh, operation));
  Status status;
  {
    OpTrace trace(open->trace.get(), phase);
    status = body(*open, trace);
    if (!status.ok()) trace.count(trace::Counter::kErrors);
    // Every sentence names its file; those about arguments alone do not know it.
    if (!status.ok() && status.text().find(open->file->path()) == std::string_view::npos) status = status.with_context(open->file->path());
  }
  return raise(fh, status);
}

Status null_argument(const char* what) { return Status::failure(Code::kArgument, std::string(what) + " is a null pointer"); }

Result<file::Whence> whence_of(int whence) {
  if (whence == MPI_SEEK_SET) return file::Whence::kSet;
  if (whence == MPI_SEEK_CUR) return file::Whence::kCurrent;
  if (whence == MPI_SEEK_END) return file::Whence::kEnd;
  return Status::failure(Code::kArgument, "seek: whence " + std::to_string(whence) + " is none of MPI_SEEK_SET, MPI_SEEK_CUR and MPI_SEEK_END");
}

std::uint64_t hash(std::uint64_t seed, std::uint64_t value) { return (seed ^ value) * 0x9E3779B97F4A7C15u + (seed >> 7); }

/// Everything set_view derives from its arguments.
struct NewView {
  file::View view;
  const DataRepresentation* representation = nullptr;
  Offset displacement = 0;
  std::uint64_t fingerprint = 0;
};

Result<Offset> displacement_of(const OpenFile& open, MPI_Offset given) {
  const bool sequential = open.file->mode().sequential;
  if (given == MPI_DISPLACEMENT_CURRENT) {
    if (!sequential) return Status::failure(Code::kArgument, "set_view: MPI_DISPLACEMENT_CURRENT needs a file opened with SEQUENTIAL");
    return open.file->shared_byte_offset();
  }
  if (sequential) return Status::failure(Code::kArgument, "set_view: a file opened with SEQUENTIAL needs MPI_DISPLACEMENT_CURRENT");
  if (given < 0) return Status::failure(Code::kArgument, "set_view: displacement " + std::to_string(given) + " is negative");
  return Offset{given};
}

Status make_view(const OpenFile& open, MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype, const char* datarep, NewView& made) {
  if (datarep == nullptr) return null_argument("set_view: the data representation");
  const Result<const DataRepresentation*> representation = find_representation(datarep);
  if (!representation.ok()) return representation.status().with_context("set_view");
  made.representation = *representation;
  const Result<Offset> start = displacement_of(open, displacement);
  if (!start.ok()) return start.status();
  made.displacement = *start;

  if (etype == MPI_DATATYPE_NULL || filetype == MPI_DATATYPE_NULL)
    return Status::failure(Code::kType, "set_view: the etype or the filetype is MPI_DATATYPE_NULL");
  for (MPI_Datatype datatype : {etype, filetype}) {
    const Result<const Decoded*> decoded = decode(datatype);
    if (!decoded.ok()) return decoded.status().with_context("set_view");
    PENSTOCK_TRY(check_committed(datatype, **decoded).with_context("set_view"));
  }
  const Result<access::Type> unit = decode_in(etype, **representation);
  if (!unit.ok()) return unit.status().with_context("set_view: etype");
  const Result<access::Type> type = decode_in(filetype, **representation);
  if (!type.ok()) return type.status().with_context("set_view: filetype");
  if (unit->size() <= 0) return Status::failure(Code::kType, "set_view: the etype holds no data");
  if (type->size() % unit->size() != 0)
    return Status::failure(Code::kType, "set_view: the filetype's " + std::to_string(type->size()) +
                                            " bytes are not a whole number of etypes of " + std::to_string(unit->size()) + " bytes");

  file::View& view = made.view;
  view.filetype = access::tile(*type, *start);
  view.filetype_size = type->size();
  view.etype_size = unit->size();
  view.contiguous = type->size() > 0 && access::is_contiguous(view.filetype);
  if (type->size() > 0) {
    // The standard asks it of the filetype, and nothing of how its copies lie (MPI 4.1 section 14.1.1).
    const Result<access::Tiling> first_copy = access::copy_alone(view.filetype, 0);
    if (!first_copy.ok()) return first_copy.status().with_context("set_view");
    if (!access::pieces_begin_in_order(*first_copy))
      return Status::failure(Code::kType, "set_view: the filetype's displacements go backwards; they must not decrease (MPI 4.1 section 14.1.1)");
    const Offset first = access::offset_of(view.filetype, 0);
    if (first < 0) return Status::failure(Code::kType, "set_view: the view begins at offset " + std::to_string(first) + ", before the file");
    view.contiguous_start = first;
    view.in_order = access::is_monotone(*first_copy);
    if (!view.in_order && open.file->mode().write)
      return Status::failure(Code::kType, "set_view: elements of the filetype overlap, which is allowed only in a file opened with RDONLY "
                                          "(MPI 4.1 section 14.1.1)");
    view.ascending = access::is_monotone(view.filetype);
    view.writable = view.contiguous || (view.in_order && !access::overlaps_itself(*first_copy));
  }
  // All ranks must pass the same etype extent and data representation (MPI 4.1 section 14.3); the etype's size may differ.
  made.fingerprint = hash(std::hash<std::string_view>{}(datarep), static_cast<std::uint64_t>(unit->extent));
  return {};
}

/// MPI 4.1 section 14.5.3, the extent of a datatype in the file.
Result<Offset> extent_in_file(const OpenFile& open, MPI_Datatype datatype) {
  if (datatype == MPI_DATATYPE_NULL) return Status::failure(Code::kType, "get_type_extent: the datatype is MPI_DATATYPE_NULL");
  const Result<access::Type> type = decode_in(datatype, *open.representation.load(std::memory_order_acquire));
  if (!type.ok()) return type.status();
  return type->extent;
}

hints::Hints merged_hints(OpenFile& open, MPI_Info info, Status& status) {
  const Result<std::vector<hints::Given>> given = given_by(info);
  if (!given.ok()) {
    status = given.status();
    return open.file->hints();
  }
  hints::Parsed parsed = hints::apply(open.file->hints(), *given, hints::When::kLater);
  std::lock_guard lock(open.mutex);
  for (const std::string& complaint : parsed.complaints) {
    log_line(open.file->path() + ": " + complaint);
    open.complaints.push_back(complaint);
  }
  return std::move(parsed.hints);
}

/// As many of `ranks` as an info value has room for, as ROMIO writes them.
std::string listed(const std::vector<int>& ranks) {
  std::string text;
  for (const int rank : ranks) {
    const std::string next = std::to_string(rank);
    if (text.size() + 1 + next.size() >= MPI_MAX_INFO_VAL) break;
    if (!text.empty()) text += ' ';
    text += next;
  }
  return text;
}

/// A non-blocking write that failed where nobody could be told.
Status take_deferred(OpenFile& open) {
  std::lock_guard lock(open.mutex);
  return std::exchange(open.deferred, Status{});
}

}  // namespace

namespace calls {

int open(MPI_Comm comm, const char* filename, int amode, MPI_Info info, MPI_File* fh) {
  if (fh == nullptr) return raise(MPI_FILE_NULL, null_argument("open: the place for the file handle"));
  *fh = MPI_FILE_NULL;
  // An invalid communicator has no other ranks to agree with.
  if (Status status = check_comm(comm); !status.ok()) return raise(MPI_FILE_NULL, status);
  auto made = std::make_shared<OpenFile>();
  if (Status status = open_here(comm, filename, amode, info, *made); !status.ok()) return raise(MPI_FILE_NULL, status);
  const MPI_File handle = add_handle(std::move(made));
  if (handle == MPI_File{}) return raise(MPI_FILE_NULL, Status::failure(Code::kNoMemory, "open: too many files are open"));
  *fh = handle;
  return MPI_SUCCESS;
}

int close(MPI_File* fh) {
  if (fh == nullptr) return raise(MPI_FILE_NULL, null_argument("close: the file handle's place"));
  const std::shared_ptr<OpenFile> open = share_open(*fh);
  if (open == nullptr) return raise(MPI_FILE_NULL, no_such_handle(*fh, "close"));
  const MPI_File handle = *fh;
  if (open->file == nullptr) {
    const int code = native_close(&open->native);
    remove_handle(handle);
    *fh = MPI_FILE_NULL;
    return code;
  }
  {
    std::unique_lock lock(open->mutex);
    if (open->split.kind != Split::Kind::kNone) {
      // Erroneous, but no reason to lose data or memory: let it end.
      const Split split = std::exchange(open->split, Split{});
      lock.unlock();
      open->file->wait(*split.pending);
      if (split.finish) (void)split.finish(split.pending->outcome());
    }
  }
  Status status;
  {
    OpTrace trace(open->trace.get(), Phase::kOpen);
    status = open->file->close(trace);
  }
  complete_requests();
  if (Status deferred = take_deferred(*open); status.ok()) status = deferred;
  write_report(*open);
  // The handler sees the failure while the handle still is one.
  const int code = raise(handle, status);
  remove_handle(handle);
  *fh = MPI_FILE_NULL;
  if (open->group != MPI_GROUP_NULL) PMPI_Group_free(&open->group);
  free_datatype(open->etype);
  free_datatype(open->filetype);
  open->file.reset();
  return code;
}

int remove(const char* filename, MPI_Info info) {
  Result<OpenArguments> arguments = read_open_arguments(filename, info);
  if (!arguments.ok()) return raise(MPI_FILE_NULL, arguments.status().with_context("delete"));
  if (arguments->hints.bypass && native_delete.exists()) return native_delete(filename, info);
  return raise(MPI_FILE_NULL, file_store().remove(arguments->path).with_context("delete"));
}

int set_size(MPI_File fh, MPI_Offset size) {
  return with_file(fh, "set_size", Phase::kWrite, [&](OpenFile& open, OpTrace& trace) { return open.file->set_size(size, trace, {}); });
}

int preallocate(MPI_File fh, MPI_Offset size) {
  return with_file(fh, "preallocate", Phase::kWrite, [&](OpenFile& open, OpTrace& trace) { return open.file->preallocate(size, trace, {}); });
}

int get_size(MPI_File fh, MPI_Offset* size) {
  return with_file(fh, "get_size", Phase::kOpen, [&](OpenFile& open, OpTrace&) -> Status {
    if (size == nullptr) return null_argument("get_size: the place for the size");
    const Result<Offset> bytes = open.file->size();
    if (bytes.ok()) *size = *bytes;
    return bytes.status();
  });
}

int get_group(MPI_File fh, MPI_Group* group) {
  return with_file(fh, "get_group", Phase::kOther, [&](OpenFile& open, OpTrace&) -> Status {
    if (group == nullptr) return null_argument("get_group: the place for the group");
    return status_from_mpi(PMPI_Group_excl(open.group, 0, nullptr, group), "get_group");
  });
}

int get_amode(MPI_File fh, int* amode) {
  return with_file(fh, "get_amode", Phase::kOther, [&](OpenFile& open, OpTrace&) -> Status {
    if (amode == nullptr) return null_argument("get_amode: the place for the access mode");
    *amode = open.access_mode;
    return {};
  });
}

int set_info(MPI_File fh, MPI_Info info) {
  return with_file(fh, "set_info", Phase::kOpen, [&](OpenFile& open, OpTrace& trace) {
    Status status;
    const hints::Hints merged = merged_hints(open, info, status);
    return open.file->set_hints(merged, trace, status);
  });
}

int get_info(MPI_File fh, MPI_Info* info_used) {
  return with_file(fh, "get_info", Phase::kOpen, [&](OpenFile& open, OpTrace&) -> Status {
    if (info_used == nullptr) return null_argument("get_info: the place for the info object");
    std::map<std::string, std::string> pairs = open.file->hints().effective;
    const file::OpenedFacts& facts = open.file->facts();
    // What HDF5 asks before it skips MPI_File_sync: whether a finished write is visible to every rank.  Ranks of one node share a page cache.
    const bool several_nodes = open.file->comm().topology().node_count > 1;
    pairs["romio_visibility_immediate"] = !several_nodes || facts.coherent_between_nodes ? "true" : "false";
    pairs["romio_filesystem_type"] = facts.file_system;
    pairs["penstock_store"] = "posix";
    pairs["penstock_profile"] = facts.profile;
    // What was asked for says nothing of what the file got.
    for (const char* asked : {"striping_unit", "striping_factor", "start_iodevice"}) pairs.erase(asked);
    if (facts.striping.stripe_bytes > 0) {
      pairs["striping_unit"] = std::to_string(facts.striping.stripe_bytes);
      pairs["striping_factor"] = std::to_string(facts.striping.stripe_count);
    }
    if (const std::vector<int>& aggregators = open.file->aggregators(); !aggregators.empty()) {
      pairs["cb_nodes"] = std::to_string(aggregators.size());
      pairs["romio_aggregator_list"] = listed(aggregators);
      pairs["penstock_interfaces"] = std::to_string(facts.interfaces);
      if (!open.file->follows_config_list()) pairs.erase("cb_config_list");
    }
    return make_info(pairs, info_used);
  });
}

int set_view(MPI_File fh, MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype, const char* datarep, MPI_Info info) {
  return with_file(fh, "set_view", Phase::kPlan, [&](OpenFile& open, OpTrace& trace) -> Status {
    // No rank may move the pointer any more that MPI_DISPLACEMENT_CURRENT stands for.
    if (open.file->mode().sequential) PENSTOCK_TRY(open.file->await_others(trace));
    NewView made;
    Status local = make_view(open, displacement, etype, filetype, datarep, made).with_context(open.file->path());
    MPI_Datatype kept_etype = MPI_BYTE;
    MPI_Datatype kept_filetype = MPI_BYTE;
    if (local.ok()) local = keep_datatype(etype, kept_etype);
    if (local.ok()) local = keep_datatype(filetype, kept_filetype);
    Status status = open.file->set_view(made.view, made.fingerprint, trace, local);
    if (!status.ok()) {
      free_datatype(kept_etype);
      free_datatype(kept_filetype);
      return status;
    }
    {
      std::lock_guard lock(open.view_mutex);
      std::swap(open.etype, kept_etype);
      std::swap(open.filetype, kept_filetype);
      open.displacement = made.displacement;
      open.representation.store(made.representation, std::memory_order_release);
    }
    free_datatype(kept_etype);
    free_datatype(kept_filetype);
    if (info == MPI_INFO_NULL) return {};
    Status given;
    const hints::Hints merged = merged_hints(open, info, given);
    return given.ok() ? open.file->set_hints(merged, trace, {}) : given;
  });
}

int get_view(MPI_File fh, MPI_Offset* displacement, MPI_Datatype* etype, MPI_Datatype* filetype, char* datarep) {
  return with_file(fh, "get_view", Phase::kOther, [&](OpenFile& open, OpTrace&) -> Status {
    if (displacement == nullptr || etype == nullptr || filetype == nullptr || datarep == nullptr) return null_argument("get_view: a place for a result");
    std::lock_guard lock(open.view_mutex);
    *displacement = open.displacement;
    PENSTOCK_TRY(keep_datatype(open.etype, *etype));
    PENSTOCK_TRY(keep_datatype(open.filetype, *filetype));
    std::strcpy(datarep, open.representation.load(std::memory_order_acquire)->name.c_str());  // shorter than MPI_MAX_DATAREP_STRING, which the place must have
    return {};
  });
}

int seek(MPI_File fh, MPI_Offset offset, int whence) {
  return with_file(fh, "seek", Phase::kOther, [&](OpenFile& open, OpTrace&) -> Status {
    const Result<file::Whence> from = whence_of(whence);
    return from.ok() ? open.file->seek(offset, *from) : from.status();
  });
}

int get_position(MPI_File fh, MPI_Offset* offset) {
  return with_file(fh, "get_position", Phase::kOther, [&](OpenFile& open, OpTrace&) -> Status {
    if (offset == nullptr) return null_argument("get_position: the place for the offset");
    if (open.file->mode().sequential)
      return Status::failure(Code::kUnsupported, open.file->path() + ": get_position: the file was opened with SEQUENTIAL");
    *offset = open.file->position_etypes();
    return {};
  });
}

int get_byte_offset(MPI_File fh, MPI_Offset offset, MPI_Offset* displacement) {
  return with_file(fh, "get_byte_offset", Phase::kOther, [&](OpenFile& open, OpTrace&) -> Status {
    if (displacement == nullptr) return null_argument("get_byte_offset: the place for the offset");
    const Result<Offset> bytes = open.file->byte_offset(offset);
    if (bytes.ok()) *displacement = *bytes;
    return bytes.status();
  });
}

int seek_shared(MPI_File fh, MPI_Offset offset, int whence) {
  return with_file(fh, "seek_shared", Phase::kWait, [&](OpenFile& open, OpTrace& trace) {
    const Result<file::Whence> from = whence_of(whence);
    return open.file->seek_shared(offset, from.ok() ? *from : file::Whence::kSet, trace, from.status());
  });
}

int get_position_shared(MPI_File fh, MPI_Offset* offset) {
  return with_file(fh, "get_position_shared", Phase::kOther, [&](OpenFile& open, OpTrace&) -> Status {
    if (offset == nullptr) return null_argument("get_position_shared: the place for the offset");
    const Result<Offset> position = open.file->shared_position_etypes();
    if (position.ok()) *offset = *position;
    return position.status();
  });
}

int get_type_extent(MPI_File fh, MPI_Datatype datatype, MPI_Count* extent) {
  return with_file(fh, "get_type_extent", Phase::kOther, [&](OpenFile& open, OpTrace&) -> Status {
    if (extent == nullptr) return null_argument("get_type_extent: the place for the extent");
    const Result<Offset> bytes = extent_in_file(open, datatype);
    if (bytes.ok()) *extent = *bytes;
    return bytes.status();
  });
}

int register_datarep(const char* datarep, MPI_Datarep_conversion_function* read_conversion, MPI_Datarep_conversion_function* write_conversion,
                     MPI_Datarep_extent_function* file_extent, void* extra_state) {
  DataRepresentation representation;
  representation.name = datarep != nullptr ? datarep : "";
  representation.kind = DataRepresentation::Kind::kUser;
  representation.read_small = read_conversion;
  representation.write_small = write_conversion;
  representation.extent = file_extent;
  representation.extra_state = extra_state;
  return raise(MPI_FILE_NULL, register_representation(std::move(representation)));
}

int register_datarep_c(const char* datarep, LargeConversionFunction* read_conversion, LargeConversionFunction* write_conversion,
                       MPI_Datarep_extent_function* file_extent, void* extra_state) {
  DataRepresentation representation;
  representation.name = datarep != nullptr ? datarep : "";
  representation.kind = DataRepresentation::Kind::kUser;
  representation.read_large = read_conversion;
  representation.write_large = write_conversion;
  representation.extent = file_extent;
  representation.extra_state = extra_state;
  return raise(MPI_FILE_NULL, register_representation(std::move(representation)));
}

int set_atomicity(MPI_File fh, int flag) {
  return with_file(fh, "set_atomicity", Phase::kOther, [&](OpenFile& open, OpTrace& trace) { return open.file->set_atomicity(flag != 0, trace, {}); });
}

int get_atomicity(MPI_File fh, int* flag) {
  return with_file(fh, "get_atomicity", Phase::kOther, [&](OpenFile& open, OpTrace&) -> Status {
    if (flag == nullptr) return null_argument("get_atomicity: the place for the flag");
    *flag = open.file->atomic() ? 1 : 0;
    return {};
  });
}

int sync(MPI_File fh) {
  return with_file(fh, "sync", Phase::kSync, [&](OpenFile& open, OpTrace& trace) {
    complete_requests();
    return open.file->sync(trace, take_deferred(open));
  });
}

int create_errhandler(MPI_File_errhandler_function* function, MPI_Errhandler* errhandler) {
  if (function == nullptr || errhandler == nullptr) return raise(MPI_FILE_NULL, null_argument("create_errhandler: an argument"));
  return create_error_handler(function, errhandler);
}

int set_errhandler(MPI_File fh, MPI_Errhandler errhandler) {
  if (fh == MPI_FILE_NULL) return raise(MPI_FILE_NULL, default_error_handler().set(errhandler));
  return with_file(fh, "set_errhandler", Phase::kOther, [&](OpenFile& open, OpTrace&) { return open.error_handler.set(errhandler); });
}

int get_errhandler(MPI_File fh, MPI_Errhandler* errhandler) {
  if (errhandler == nullptr) return raise(fh, null_argument("get_errhandler: the place for the error handler"));
  if (fh == MPI_FILE_NULL) return raise(MPI_FILE_NULL, default_error_handler().get(errhandler));
  return with_file(fh, "get_errhandler", Phase::kOther, [&](OpenFile& open, OpTrace&) { return open.error_handler.get(errhandler); });
}

int call_errhandler(MPI_File fh, int error_code) {
  if (fh != MPI_FILE_NULL && find_open(fh) == nullptr) return raise(MPI_FILE_NULL, no_such_handle(fh, "call_errhandler"));
  const OpenFile* open = find_open(fh);
  const ErrorHandler handler = open != nullptr ? open->error_handler : default_error_handler();
  handler.call(fh, error_code);
  return MPI_SUCCESS;
}

Fint c2f(MPI_File fh) {
  // The null handle's value is the MPI library's: 0 with MPICH and Open MPI, 0x118 in the standard ABI.
  if (fh == MPI_FILE_NULL) return kNullFortranHandle;
  return fortran_handle(fh);
}

MPI_File f2c(Fint handle) {
  if (const MPI_File meant = file_of_shadow(handle); meant != MPI_FILE_NULL) return meant;
  return from_fortran_handle(handle);
}

int toint(MPI_File fh) { return static_cast<int>(c2f(fh)); }
MPI_File fromint(int handle) { return f2c(static_cast<Fint>(handle)); }

}  // namespace calls

}  // namespace penstock::mpi
