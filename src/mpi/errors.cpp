// Error codes and error handlers.
#include "mpi/errors.h"

#include <dlfcn.h>
#include <execinfo.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include "comm/mpi/topology.h"
#include "mpi/error_classes.h"  // generated from table/errors.toml
#include "mpi/handles.h"
#include "mpi/real.h"

namespace penstock::mpi {

namespace {

// The native library's file functions, needed for error handlers alone: a file error handler cannot be made, kept or run without them.
constinit const RealFunction<int(MPI_File_errhandler_function*, MPI_Errhandler*)> native_create_errhandler("PMPI_File_create_errhandler");
constinit const RealFunction<int(MPI_Comm, const char*, int, MPI_Info, MPI_File*)> native_open("PMPI_File_open");
constinit const RealFunction<int(MPI_File*)> native_close("PMPI_File_close");
constinit const RealFunction<int(MPI_File, MPI_Errhandler)> native_set_errhandler("PMPI_File_set_errhandler");
constinit const RealFunction<int(MPI_File, MPI_Errhandler*)> native_get_errhandler("PMPI_File_get_errhandler");
constinit const RealFunction<int(MPI_File, int)> native_call_errhandler("PMPI_File_call_errhandler");
#ifdef PENSTOCK_FLAVOUR_ABI
constinit const RealFunction<int(MPI_File)> native_c2f("PMPI_File_toint");  // the standard ABI has no c2f in C
#else
constinit const RealFunction<Fint(MPI_File)> native_c2f("PMPI_File_c2f");
#endif

}  // namespace

int error_class(Code code) { return mpi_class_of(code); }

namespace {

/// Sentences are few and repeat; a program that loops on a failing call must not fill MPI's table of codes.  Later ones have their class only,
/// unless the library has a way to make codes that do not stay.
constexpr std::size_t kSentencesKept = 256;
/// Different failures of one file that its report quotes; all are counted.
constexpr std::size_t kErrorsReported = 16;

using CreateCode = int(int, int, const char*, int, int, const char*, const char*, ...);

/// A code that MPI_Error_string answers with `text` for the rest of the run, or 0 where this library cannot do that.
int make_lasting_code(int wanted_class, const std::string& text) {
  int code = wanted_class;
  if (PMPI_Add_error_code(wanted_class, &code) != MPI_SUCCESS || PMPI_Add_error_string(code, const_cast<char*>(text.c_str())) != MPI_SUCCESS)
    return 0;
  // MPICH 4.0 accepts both and then answers with something else.
  int seen_class = 0;
  char seen[MPI_MAX_ERROR_STRING + 1] = {};
  int length = 0;
  const bool right = PMPI_Error_class(code, &seen_class) == MPI_SUCCESS && seen_class == wanted_class &&
                     PMPI_Error_string(code, seen, &length) == MPI_SUCCESS && text == seen;
  return right ? code : 0;
}

/// The way in which MPICH's own file layer makes its codes: good until as many errors came after it as MPICH remembers.
int make_passing_code(int wanted_class, const std::string& text) {
  auto* create = reinterpret_cast<CreateCode*>(real_symbol("MPIR_Err_create_code"));
  if (create == nullptr) return wanted_class;
  return create(MPI_SUCCESS, 0, "Penstock", 0, wanted_class, "**io", "**io %s", text.c_str());
}

std::mutex sentences_mutex;

std::map<std::pair<int, std::string>, int>& sentences() {
  static auto* const map = new std::map<std::pair<int, std::string>, int>;
  return *map;
}

}  // namespace

int error_code(const Status& status) {
  if (status.ok()) return MPI_SUCCESS;
  const int wanted_class = error_class(status.code());
  std::string text(status.text());
  if (text.empty()) return wanted_class;
  if (text.size() >= MPI_MAX_ERROR_STRING) text.resize(MPI_MAX_ERROR_STRING - 1);
  int initialized = 0;
  int finalized = 0;
  PMPI_Initialized(&initialized);
  PMPI_Finalized(&finalized);
  if (initialized == 0 || finalized != 0) return wanted_class;
  std::lock_guard lock(sentences_mutex);
  const auto key = std::make_pair(wanted_class, text);
  if (const auto found = sentences().find(key); found != sentences().end()) return found->second;
  static bool codes_last = true;
  if (codes_last && sentences().size() < kSentencesKept) {
    const int code = make_lasting_code(wanted_class, text);
    if (code != 0) {
      sentences().emplace(key, code);
      return code;
    }
    codes_last = false;
  }
  return make_passing_code(wanted_class, text);
}

Status status_from_mpi(int code, const std::string& context) {
  if (code == MPI_SUCCESS) return {};
  int mpi_class = MPI_ERR_OTHER;
  char text[MPI_MAX_ERROR_STRING + 1] = {};
  int length = 0;
  PMPI_Error_class(code, &mpi_class);
  PMPI_Error_string(code, text, &length);
  return Status::failure(code_of_mpi_class(mpi_class), context + ": " + text);
}

// --- Error handlers. ---------------------------------------------------------------------------------------------------------

namespace {

enum class Caller { kC, kFortran, kCxx };

struct KnownHandler {
  MPI_File_errhandler_function* function;
  Caller made_by;
};

std::mutex handlers_mutex;

/// Handlers that went through MPI_File_create_errhandler.  A handler that the program frees stays here until its value is used again.
std::map<MPI_Errhandler, KnownHandler>& known_handlers() {
  static auto* const map = new std::map<MPI_Errhandler, KnownHandler>;
  return *map;
}

/// Whether another language's binding of the MPI library is among the callers: the function that Fortran's passes takes Fortran handles, the one
/// that the C++ binding of MPICH passes takes objects, which only that library can make.
Caller caller_language() {
  void* frames[8];
  const int depth = backtrace(frames, 8);
  for (int i = 0; i < depth; ++i) {
    Dl_info where{};
    if (dladdr(frames[i], &where) == 0) continue;
    const char* object = where.dli_fname != nullptr ? where.dli_fname : "";
    const char* base = std::strrchr(object, '/');
    base = base != nullptr ? base + 1 : object;
    if (std::strstr(base, "mpifort") != nullptr || std::strstr(base, "mpichfort") != nullptr || std::strstr(base, "mpi_mpifh") != nullptr ||
        std::strstr(base, "mpi_usempi") != nullptr)
      return Caller::kFortran;
    if (where.dli_sname != nullptr && std::strncmp(where.dli_sname, "mpi_file_create_errhandler", 26) == 0) return Caller::kFortran;
    if (std::strstr(base, "mpichcxx") != nullptr || std::strstr(base, "mpicxx") != nullptr) return Caller::kCxx;
  }
  return Caller::kC;
}

}  // namespace

int create_error_handler(MPI_File_errhandler_function* function, MPI_Errhandler* handler) {
  if (!native_create_errhandler.exists()) return MPI_ERR_UNSUPPORTED_OPERATION;
  const int code = native_create_errhandler(function, handler);
  if (code != MPI_SUCCESS) return code;
  const Caller caller = caller_language();
  std::lock_guard lock(handlers_mutex);
  known_handlers()[*handler] = {function, caller};
  return MPI_SUCCESS;
}

/// A native file (of nothing, on MPI_COMM_SELF) that holds the handler, for two reasons.  MPI has no other way to keep a file error handler
/// alive after the program has freed its own handle of it.  And Open MPI's Fortran binding makes handlers without any call that we see: those
/// only the native library can run, and only through a file of its own.  The Fortran handle that the callback then gets is the shadow's;
/// MPI_File_f2c maps it back to the file meant.
struct ErrorHandler::Shadow {
  MPI_File native = MPI_FILE_NULL;
  Fint fortran = 0;
  int references = 1;

};

namespace {
std::mutex shadow_mutex;
/// While a handler runs through a shadow on this thread: the file it is about, and the shadow's Fortran handle.
thread_local MPI_File shadow_stands_for = MPI_FILE_NULL;
thread_local Fint shadow_fortran = 0;
}  // namespace

ErrorHandler::ErrorHandler() : given_(MPI_ERRORS_RETURN) {}

ErrorHandler::ErrorHandler(const ErrorHandler& other)
    : kind_(other.kind_), given_(other.given_), function_(other.function_), shadow_(other.shadow_) {
  std::lock_guard lock(shadow_mutex);
  if (shadow_ != nullptr) ++shadow_->references;
}

ErrorHandler& ErrorHandler::operator=(const ErrorHandler& other) {
  ErrorHandler copy(other);
  std::swap(kind_, copy.kind_);
  std::swap(given_, copy.given_);
  std::swap(function_, copy.function_);
  std::swap(shadow_, copy.shadow_);
  return *this;
}

ErrorHandler::~ErrorHandler() {
  if (shadow_ == nullptr) return;
  {
    std::lock_guard lock(shadow_mutex);
    if (--shadow_->references > 0) return;
  }
  int finalized = 0;
  PMPI_Finalized(&finalized);
  if (finalized == 0 && native_close.exists()) native_close(&shadow_->native);
  delete shadow_;
}

Status ErrorHandler::set(MPI_Errhandler handler) {
  ErrorHandler made;
  made.given_ = handler;
  if (handler == MPI_ERRHANDLER_NULL) return Status::failure(Code::kArgument, "set_errhandler: the error handler is MPI_ERRHANDLER_NULL");
  if (handler == MPI_ERRORS_RETURN) {
    made.kind_ = Kind::kReturn;
  } else if (handler == MPI_ERRORS_ARE_FATAL) {
    made.kind_ = Kind::kFatal;
#ifdef MPIR_ERRORS_THROW_EXCEPTIONS
  } else if (handler == MPIR_ERRORS_THROW_EXCEPTIONS) {
    made.kind_ = Kind::kReturn;  // MPICH's C++ binding throws when it sees the code
#endif
#ifdef MPI_ERRORS_ABORT
  } else if (handler == MPI_ERRORS_ABORT) {
    made.kind_ = Kind::kAbort;
#endif
  } else if (!comm::world_is_there()) {
    // A program of sessions: there is no communicator for a native file.  What the handler runs is known where C or Fortran made it through us, and that is enough.
    std::lock_guard lock(handlers_mutex);
    const auto known = known_handlers().find(handler);
    if (known == known_handlers().end() || known->second.made_by == Caller::kCxx)
      return Status::failure(Code::kUnsupported, "set_errhandler: an error handler of this language needs a program that calls MPI_Init");
    made.kind_ = known->second.made_by == Caller::kC ? Kind::kC : Kind::kFortran;
    made.function_ = known->second.function;
  } else {
    if (!native_open.exists() || !native_set_errhandler.exists() || !native_get_errhandler.exists() || !native_c2f.exists())
      return Status::failure(Code::kUnsupported, "set_errhandler: the MPI library has no file functions to keep this error handler with");
    auto* shadow = new Shadow;
    if (int code = native_open(MPI_COMM_SELF, "/dev/null", MPI_MODE_RDONLY, MPI_INFO_NULL, &shadow->native); code != MPI_SUCCESS) {
      delete shadow;
      return status_from_mpi(code, "set_errhandler: a native file to keep this error handler with");
    }
    made.shadow_ = shadow;
    shadow->fortran = native_c2f(shadow->native);
    PENSTOCK_TRY(status_from_mpi(native_set_errhandler(shadow->native, handler), "set_errhandler"));
    std::lock_guard lock(handlers_mutex);
    const auto known = known_handlers().find(handler);
    made.kind_ = Kind::kNative;
    if (known != known_handlers().end()) {
      constexpr Kind kKinds[] = {Kind::kC, Kind::kFortran, Kind::kCxx};
      made.kind_ = kKinds[static_cast<int>(known->second.made_by)];
      made.function_ = known->second.function;
    }
  }
  *this = made;
  return {};
}

Status ErrorHandler::get(MPI_Errhandler* handler) const {
  if (kind_ == Kind::kReturn || kind_ == Kind::kFatal || kind_ == Kind::kAbort) {
#ifdef OPEN_MPI
    // Open MPI counts references to predefined handlers too, and MPI_Errhandler_free takes one away: the program must get a real one, and only
    // the native library gives them out.  Its own null file, which nobody else uses, holds the handler for that moment.
    if (comm::world_is_there() && native_set_errhandler.exists() && native_get_errhandler.exists()) {
      std::lock_guard lock(shadow_mutex);
      PENSTOCK_TRY(status_from_mpi(native_set_errhandler(MPI_FILE_NULL, given_), "get_errhandler"));
      const int got = native_get_errhandler(MPI_FILE_NULL, handler);
      native_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN);
      return status_from_mpi(got, "get_errhandler");
    }
#endif
    *handler = given_;
    return {};
  }
  if (shadow_ == nullptr) return Status::failure(Code::kUnsupported, "get_errhandler: only a program that calls MPI_Init can ask for a handler of its own");
  return status_from_mpi(native_get_errhandler(shadow_->native, handler), "get_errhandler");
}

int ErrorHandler::call(MPI_File file, int code) const {
  switch (kind_) {
    case Kind::kReturn:
      break;
    case Kind::kFatal:
    case Kind::kAbort:
      // The program asked for this with its error handler; the MPI library prints and ends the job as for its own errors.
      PMPI_Abort(MPI_COMM_WORLD, code);
      break;
    case Kind::kC:
      function_(&file, &code);
      break;
    case Kind::kFortran: {
      Fint fortran_file = fortran_handle(file);
      Fint fortran_code = code;
      reinterpret_cast<void (*)(Fint*, Fint*)>(function_)(&fortran_file, &fortran_code);
      break;
    }
    case Kind::kCxx:
    case Kind::kNative: {
      shadow_stands_for = file;
      shadow_fortran = shadow_->fortran;
      native_call_errhandler(shadow_->native, code);
      shadow_stands_for = MPI_FILE_NULL;
      break;
    }
  }
  return code;
}

MPI_File file_of_shadow(Fint native) {
  return shadow_stands_for != MPI_FILE_NULL && native == shadow_fortran ? shadow_stands_for : MPI_FILE_NULL;
}

ErrorHandler& default_error_handler() {
  static auto* const handler = new ErrorHandler;
  return *handler;
}

int raise(MPI_File file, const Status& status) {
  if (status.ok()) return MPI_SUCCESS;
  const int code = error_code(status);
  OpenFile* open = find_open(file);
  if (open != nullptr && open->trace != nullptr) {
    std::lock_guard lock(open->mutex);
    const std::string text(status.text());
    if (open->errors.size() < kErrorsReported && std::find(open->errors.begin(), open->errors.end(), text) == open->errors.end())
      open->errors.push_back(text);
  }
  // A copy: the handler may close the file or set another handler.
  const ErrorHandler handler = open != nullptr ? open->error_handler : default_error_handler();
  return handler.called_by_binding() ? code : handler.call(file, code);
}

int out_of_memory(MPI_File file) {
  try {
    return raise(file, Status::no_memory());
  } catch (const std::bad_alloc&) {
    return error_class(Code::kNoMemory);
  }
}

}  // namespace penstock::mpi
