// A small test harness for MPI programs: tests that register themselves, checks that say file, line, rank, what was
// expected and what came, and a verdict of all ranks.  Knows only the public interface of MPI, nothing of Penstock.
//
// A program is a list of TEST(name) { ... } bodies and one TEST_MAIN(level).  Every body runs on all ranks; a failed check is
// noted and the body goes on, so that collective calls still match.  Rank 0 prints "ok" only when every rank passed every
// test: that line is the verdict, because what mpiexec returns is not a reliable one.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef MPI_ABI_VERSION
// The standard ABI's header has integers for handles instead of Fortran's numbers.
using MPI_Fint = int;
inline MPI_Fint MPI_File_c2f(MPI_File file) { return MPI_File_toint(file); }
inline MPI_File MPI_File_f2c(MPI_Fint number) { return MPI_File_fromint(number); }
#endif

#if MPI_VERSION < 4
// The large-count forms are in MPI 4.0.  An older mpi.h does not declare them, but a preloaded library may bring them.
#define CHECK_LARGE_COUNT(name, ...) extern "C" int MPI_File_##name(__VA_ARGS__) __attribute__((weak))
CHECK_LARGE_COUNT(read_at_c, MPI_File, MPI_Offset, void*, MPI_Count, MPI_Datatype, MPI_Status*);
CHECK_LARGE_COUNT(read_at_all_c, MPI_File, MPI_Offset, void*, MPI_Count, MPI_Datatype, MPI_Status*);
CHECK_LARGE_COUNT(write_at_c, MPI_File, MPI_Offset, const void*, MPI_Count, MPI_Datatype, MPI_Status*);
CHECK_LARGE_COUNT(write_at_all_c, MPI_File, MPI_Offset, const void*, MPI_Count, MPI_Datatype, MPI_Status*);
CHECK_LARGE_COUNT(iread_at_c, MPI_File, MPI_Offset, void*, MPI_Count, MPI_Datatype, MPI_Request*);
CHECK_LARGE_COUNT(iread_at_all_c, MPI_File, MPI_Offset, void*, MPI_Count, MPI_Datatype, MPI_Request*);
CHECK_LARGE_COUNT(iwrite_at_c, MPI_File, MPI_Offset, const void*, MPI_Count, MPI_Datatype, MPI_Request*);
CHECK_LARGE_COUNT(iwrite_at_all_c, MPI_File, MPI_Offset, const void*, MPI_Count, MPI_Datatype, MPI_Request*);
CHECK_LARGE_COUNT(read_c, MPI_File, void*, MPI_Count, MPI_Datatype, MPI_Status*);
CHECK_LARGE_COUNT(read_all_c, MPI_File, void*, MPI_Count, MPI_Datatype, MPI_Status*);
CHECK_LARGE_COUNT(write_c, MPI_File, const void*, MPI_Count, MPI_Datatype, MPI_Status*);
CHECK_LARGE_COUNT(write_all_c, MPI_File, const void*, MPI_Count, MPI_Datatype, MPI_Status*);
CHECK_LARGE_COUNT(iread_c, MPI_File, void*, MPI_Count, MPI_Datatype, MPI_Request*);
CHECK_LARGE_COUNT(iread_all_c, MPI_File, void*, MPI_Count, MPI_Datatype, MPI_Request*);
CHECK_LARGE_COUNT(iwrite_c, MPI_File, const void*, MPI_Count, MPI_Datatype, MPI_Request*);
CHECK_LARGE_COUNT(iwrite_all_c, MPI_File, const void*, MPI_Count, MPI_Datatype, MPI_Request*);
CHECK_LARGE_COUNT(read_shared_c, MPI_File, void*, MPI_Count, MPI_Datatype, MPI_Status*);
CHECK_LARGE_COUNT(write_shared_c, MPI_File, const void*, MPI_Count, MPI_Datatype, MPI_Status*);
CHECK_LARGE_COUNT(iread_shared_c, MPI_File, void*, MPI_Count, MPI_Datatype, MPI_Request*);
CHECK_LARGE_COUNT(iwrite_shared_c, MPI_File, const void*, MPI_Count, MPI_Datatype, MPI_Request*);
CHECK_LARGE_COUNT(read_ordered_c, MPI_File, void*, MPI_Count, MPI_Datatype, MPI_Status*);
CHECK_LARGE_COUNT(write_ordered_c, MPI_File, const void*, MPI_Count, MPI_Datatype, MPI_Status*);
CHECK_LARGE_COUNT(read_at_all_begin_c, MPI_File, MPI_Offset, void*, MPI_Count, MPI_Datatype);
CHECK_LARGE_COUNT(write_at_all_begin_c, MPI_File, MPI_Offset, const void*, MPI_Count, MPI_Datatype);
CHECK_LARGE_COUNT(read_all_begin_c, MPI_File, void*, MPI_Count, MPI_Datatype);
CHECK_LARGE_COUNT(write_all_begin_c, MPI_File, const void*, MPI_Count, MPI_Datatype);
CHECK_LARGE_COUNT(read_ordered_begin_c, MPI_File, void*, MPI_Count, MPI_Datatype);
CHECK_LARGE_COUNT(write_ordered_begin_c, MPI_File, const void*, MPI_Count, MPI_Datatype);
CHECK_LARGE_COUNT(get_type_extent_c, MPI_File, MPI_Datatype, MPI_Count*);
#undef CHECK_LARGE_COUNT
namespace check {
inline bool have_large_count() { return &MPI_File_write_c != nullptr; }
}
#else
namespace check {
inline bool have_large_count() { return true; }
}
#endif

namespace check {

inline int rank = 0;
inline int size = 1;
inline int failures_here = 0;         // failed checks of this rank in the running test
inline int thread_level = 0;          // what MPI_Init_thread provided
inline std::string program = "test";  // for scratch names
inline std::string directory = ".";
inline std::string current = "setup";
inline int run_number = 0;  // the process id of rank 0, the same on all ranks
inline std::vector<std::string> scratch_names;
inline std::vector<std::string> arguments;  // what the harness did not understand: the program's own

/// The program runs with Penstock preloaded: only then may a test look at hints that are Penstock's own.
inline bool preloaded() {
  const char* names = std::getenv("LD_PRELOAD");
  return names && std::strstr(names, "penstock");
}

// ---- what a failure looks like ----

inline std::string class_name(int error_class) {
  struct Name {
    int value;
    const char* name;
  };
  static const Name names[] = {
#define NAME(x) {x, #x}
      NAME(MPI_SUCCESS),
      NAME(MPI_ERR_BUFFER),
      NAME(MPI_ERR_COUNT),
      NAME(MPI_ERR_TYPE),
      NAME(MPI_ERR_TAG),
      NAME(MPI_ERR_COMM),
      NAME(MPI_ERR_RANK),
      NAME(MPI_ERR_REQUEST),
      NAME(MPI_ERR_ROOT),
      NAME(MPI_ERR_GROUP),
      NAME(MPI_ERR_ARG),
      NAME(MPI_ERR_TRUNCATE),
      NAME(MPI_ERR_OTHER),
      NAME(MPI_ERR_INTERN),
      NAME(MPI_ERR_IN_STATUS),
      NAME(MPI_ERR_PENDING),
      NAME(MPI_ERR_ACCESS),
      NAME(MPI_ERR_AMODE),
      NAME(MPI_ERR_BAD_FILE),
      NAME(MPI_ERR_CONVERSION),
      NAME(MPI_ERR_DUP_DATAREP),
      NAME(MPI_ERR_FILE),
      NAME(MPI_ERR_FILE_EXISTS),
      NAME(MPI_ERR_FILE_IN_USE),
      NAME(MPI_ERR_INFO),
      NAME(MPI_ERR_INFO_KEY),
      NAME(MPI_ERR_INFO_VALUE),
      NAME(MPI_ERR_IO),
      NAME(MPI_ERR_NO_MEM),
      NAME(MPI_ERR_NO_SPACE),
      NAME(MPI_ERR_NO_SUCH_FILE),
      NAME(MPI_ERR_NOT_SAME),
      NAME(MPI_ERR_QUOTA),
      NAME(MPI_ERR_READ_ONLY),
      NAME(MPI_ERR_UNSUPPORTED_DATAREP),
      NAME(MPI_ERR_UNSUPPORTED_OPERATION),
#undef NAME
  };
  for (const Name& entry : names)
    if (entry.value == error_class) return entry.name;
  return "class " + std::to_string(error_class);
}

inline int class_of(int code) {
  if (code == MPI_SUCCESS) return MPI_SUCCESS;
  int error_class = -1;
  MPI_Error_class(code, &error_class);
  return error_class;
}

inline std::string describe(int code) {
  if (code == MPI_SUCCESS) return "MPI_SUCCESS";
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  return class_name(class_of(code)) + " (" + text + ")";
}

inline void fail(const char* file, int line, const std::string& what) {
  constexpr int shown_at_most = 12;
  ++failures_here;
  if (failures_here > shown_at_most) return;
  const char* slash = std::strrchr(file, '/');
  std::fprintf(stderr, "%s:%d: %s: rank %d of %d: %s%s\n", slash ? slash + 1 : file, line, current.c_str(), rank, size,
               what.c_str(), failures_here == shown_at_most ? " (further failures of this test are not shown)" : "");
}

template <typename T>
std::string show(const T& value) {
  std::ostringstream text;
  if constexpr (std::is_same_v<T, char> || std::is_same_v<T, signed char> || std::is_same_v<T, unsigned char>)
    text << static_cast<int>(value);
  else
    text << value;
  return text.str();
}

template <typename T, typename U>
bool expect_equal(const T& got, const U& expected, const char* text, const char* file, int line) {
  if (got == static_cast<T>(expected)) return true;
  fail(file, line, std::string(text) + ": expected " + show(static_cast<T>(expected)) + ", got " + show(got));
  return false;
}

inline bool expect_true(bool condition, const char* text, const char* file, int line) {
  if (!condition) fail(file, line, std::string("expected ") + text);
  return condition;
}

inline bool expect_success(int code, const char* text, const char* file, int line) {
  if (code == MPI_SUCCESS) return true;
  fail(file, line, std::string(text) + ": expected MPI_SUCCESS, got " + describe(code));
  return false;
}

inline bool expect_class(int code, std::initializer_list<int> allowed, const char* text, const char* file, int line) {
  const int got = class_of(code);
  for (int error_class : allowed)
    if (error_class == got) return true;
  std::string names;
  for (int error_class : allowed) names += (names.empty() ? "" : " or ") + class_name(error_class);
  fail(file, line, std::string(text) + ": expected " + names + ", got " + describe(code));
  return false;
}

inline bool expect_bytes(const void* got, const void* expected, std::size_t length, const char* text, const char* file,
                         int line) {
  if (length == 0) return true;
  const auto* a = static_cast<const unsigned char*>(got);
  const auto* b = static_cast<const unsigned char*>(expected);
  if (std::memcmp(a, b, length) == 0) return true;
  const std::size_t at = static_cast<std::size_t>(std::mismatch(a, a + length, b).first - a);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < length; ++i) wrong += a[i] != b[i];
  std::ostringstream what;
  what << text << ": byte " << at << " of " << length << ": expected " << int(b[at]) << ", got " << int(a[at]) << "; "
       << wrong << " bytes differ";
  fail(file, line, what.str());
  return false;
}

#define CHECK(condition) check::expect_true(static_cast<bool>(condition), #condition, __FILE__, __LINE__)
#define CHECK_EQ(got, expected) check::expect_equal((got), (expected), #got, __FILE__, __LINE__)
#define CHECK_OK(call) check::expect_success((call), #call, __FILE__, __LINE__)
#define CHECK_BYTES(got, expected, length) check::expect_bytes((got), (expected), (length), #got, __FILE__, __LINE__)
/// The call fails with one of the error classes; more than one where the standard leaves the choice open.
#define EXPECT_CLASS(call, ...) check::expect_class((call), {__VA_ARGS__}, #call, __FILE__, __LINE__)

/// The call fails, with whatever class.
#define EXPECT_ERROR(call) check::expect_true((call) != MPI_SUCCESS, "an error from " #call, __FILE__, __LINE__)

// ---- tests and their registration ----

struct Test {
  const char* name;
  void (*body)();
};
inline std::vector<Test>& tests() {
  static std::vector<Test> all;
  return all;
}
struct Registration {
  Registration(const char* name, void (*body)()) { tests().push_back({name, body}); }
};

#define TEST(name)                                                              \
  static void test_##name();                                                    \
  static const check::Registration registration_##name(#name, &test_##name); \
  static void test_##name()

/// Ranks of the world agree whether all of them have `mine`.  Collective.
inline bool all_ranks(bool mine) {
  int one = mine ? 1 : 0, all = 0;
  MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  return all == 1;
}

inline void barrier() { MPI_Barrier(MPI_COMM_WORLD); }

/// A file name for this test, the same on all ranks; the file is removed when the test ends.  Local.
inline std::string scratch(const std::string& suffix = "file") {
  std::string name =
      directory + "/" + program + "-" + std::to_string(run_number) + "-" + current + "." + suffix;
  if (std::find(scratch_names.begin(), scratch_names.end(), name) == scratch_names.end()) scratch_names.push_back(name);
  return name;
}

/// A name that only this rank uses.  Local.
inline std::string own_scratch(const std::string& suffix = "file") { return scratch(suffix + std::to_string(rank)); }

// ---- looking at files without MPI: the truth that MPI-IO is compared with ----

using Bytes = std::vector<unsigned char>;

/// The whole file, or nothing and a failure when it cannot be read.
inline Bytes contents(const std::string& name) {
  Bytes bytes;
  const int file = open(name.c_str(), O_RDONLY);
  if (file < 0) {
    fail(__FILE__, __LINE__, "cannot read back " + name + ": " + std::strerror(errno));
    return bytes;
  }
  struct stat facts = {};
  fstat(file, &facts);
  bytes.resize(static_cast<std::size_t>(facts.st_size));
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = read(file, bytes.data() + done, bytes.size() - done);
    if (n <= 0) break;
    done += static_cast<std::size_t>(n);
  }
  close(file);
  return bytes;
}

inline void make_file(const std::string& name, const Bytes& bytes) {
  const int file = open(name.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
  const bool written = file >= 0 && write(file, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
  if (file >= 0) close(file);
  if (!written) fail(__FILE__, __LINE__, "cannot make " + name + ": " + std::strerror(errno));
}

/// Rank 0 makes the file; all ranks see it.  Collective.
inline void make_file_for_all(const std::string& name, const Bytes& bytes) {
  if (rank == 0) make_file(name, bytes);
  barrier();
}

inline bool exists(const std::string& name) {
  struct stat facts;
  return stat(name.c_str(), &facts) == 0;
}

inline std::int64_t size_of_file(const std::string& name) {
  struct stat facts;
  return stat(name.c_str(), &facts) == 0 ? static_cast<std::int64_t>(facts.st_size) : -1;
}

/// Everything written before is visible to everybody after (MPI 4.1 section 14.6.1: sync, barrier, sync).  Collective.
inline void sync_all(MPI_File file) {
  CHECK_OK(MPI_File_sync(file));
  barrier();
  CHECK_OK(MPI_File_sync(file));
}

/// Opens on all ranks of the world; false (on all of them) when any rank failed.  Collective.
inline bool open_on_world(const std::string& name, int amode, MPI_File* file, MPI_Info info = MPI_INFO_NULL) {
  const int code = MPI_File_open(MPI_COMM_WORLD, name.c_str(), amode, info, file);
  if (code != MPI_SUCCESS) fail(__FILE__, __LINE__, "open " + name + ": " + describe(code));
  return all_ranks(code == MPI_SUCCESS);
}

inline MPI_Count bytes_in(const MPI_Status& status) {
  MPI_Count count = -1;
  MPI_Get_elements_x(&status, MPI_BYTE, &count);
  return count;
}

inline int count_in(const MPI_Status& status, MPI_Datatype type) {
  int count = -1;
  MPI_Get_count(&status, type, &count);
  return count;
}

// ---- running ----

inline void remove_scratch() {
  barrier();
  if (rank == 0)
    for (const std::string& name : scratch_names) unlink(name.c_str());
  scratch_names.clear();
}

inline std::string option(const std::string& name, const std::string& otherwise) {
  for (std::size_t i = 0; i + 1 < arguments.size(); ++i)
    if (arguments[i] == name) return arguments[i + 1];
  return otherwise;
}

inline bool flag(const std::string& name) {
  return std::find(arguments.begin(), arguments.end(), name) != arguments.end();
}

inline int run(int argc, char** argv, int wanted_level) {
  std::string only;
  bool list = false;
  const char* slash = std::strrchr(argv[0], '/');
  program = slash ? slash + 1 : argv[0];
  if (const char* given = std::getenv("PENSTOCK_TEST_DIRECTORY")) directory = given;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--list")
      list = true;
    else if (argument == "--test" && i + 1 < argc)
      only = argv[++i];
    else if (argument == "--directory" && i + 1 < argc)
      directory = argv[++i];
    else
      arguments.push_back(argument);
  }
  if (list) {
    for (const Test& test : tests()) std::printf("%s\n", test.name);
    return 0;
  }
  if (flag("--single")) wanted_level = MPI_THREAD_SINGLE;
  if (flag("--multiple")) wanted_level = MPI_THREAD_MULTIPLE;
  if (flag("--mixed")) {
    // Some ranks one, some the other: launchers tell a rank before MPI does.
    const char* mine = std::getenv("PMI_RANK") ? std::getenv("PMI_RANK") : std::getenv("OMPI_COMM_WORLD_RANK");
    wanted_level = mine && std::atoi(mine) % 2 == 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE;
  }
  MPI_Init_thread(&argc, &argv, wanted_level, &thread_level);
  // A request's error comes out of MPI_Wait through the error handler of MPI_COMM_WORLD, which ends the job by default: a program that wants to see
  // it there sets this one.  What happens to a program that does not is tested in error_handlers.cpp.
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  run_number = static_cast<int>(getpid());
  MPI_Bcast(&run_number, 1, MPI_INT, 0, MPI_COMM_WORLD);

  std::vector<std::string> failed;
  int run_count = 0;
  for (const Test& test : tests()) {
    if (!only.empty() && only != test.name) continue;
    ++run_count;
    current = test.name;
    failures_here = 0;
    if (flag("--verbose") && rank == 0) std::fprintf(stderr, "%s ...\n", test.name);
    test.body();
    const bool passed = all_ranks(failures_here == 0);
    remove_scratch();
    if (!passed) failed.emplace_back(test.name);
  }
  MPI_Finalize();
  if (rank == 0) {
    for (const std::string& name : failed) std::printf("failed: %s\n", name.c_str());
    if (run_count == 0) std::printf("no test is called '%s'; --list shows them\n", only.c_str());
    if (failed.empty() && run_count > 0) std::printf("ok\n");
  }
  return failed.empty() && run_count > 0 ? 0 : 1;
}

}  // namespace check

#define TEST_MAIN(level) \
  int main(int argc, char** argv) { return check::run(argc, argv, level); }
