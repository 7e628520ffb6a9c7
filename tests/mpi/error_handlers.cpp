// Error handlers of files: set, get, create, call, inherited and default ones (MPI 4.1 sections 9.3.3 and 14.7).
// ranks: 1 3
#include <sys/resource.h>

#include <csignal>
#include <optional>
#include <utility>

#include "check.h"

using check::open_on_world;
using check::scratch;

namespace {

int calls = 0;
int last_code = MPI_SUCCESS;
MPI_File last_file = MPI_FILE_NULL;

void note(MPI_File* file, int* code, ...) {
  ++calls;
  last_file = *file;
  last_code = *code;
}

int other_calls = 0;
void note_otherwise(MPI_File*, int*, ...) { ++other_calls; }

/// A call that must fail on this rank alone and touches nothing.
int provoke(MPI_File file) { return MPI_File_seek(file, -1, MPI_SEEK_SET); }

MPI_Errhandler handler_of(MPI_File file) {
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  CHECK_OK(MPI_File_get_errhandler(file, &handler));
  return handler;
}

MPI_Errhandler make(MPI_File_errhandler_function* function) {
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  CHECK_OK(MPI_File_create_errhandler(function, &handler));
  return handler;
}

MPI_Offset position_seen = -1;
void look_at_the_file(MPI_File* file, int*, ...) { MPI_File_get_position(*file, &position_seen); }

void reset() {
  calls = other_calls = 0;
  last_code = MPI_SUCCESS;
  last_file = MPI_FILE_NULL;
}

}  // namespace

TEST(errors_return_by_default) {
  CHECK(handler_of(MPI_FILE_NULL) == MPI_ERRORS_RETURN);
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  CHECK(handler_of(file) == MPI_ERRORS_RETURN);
  EXPECT_CLASS(provoke(file), MPI_ERR_ARG);
  CHECK_OK(MPI_File_close(&file));
}

#ifdef MPIR_ERRORS_THROW_EXCEPTIONS
// What MPICH's C++ binding sets: the call returns its code, and the binding throws.
TEST(handler_of_the_cxx_binding) {
  CHECK_OK(MPI_File_set_errhandler(MPI_FILE_NULL, MPIR_ERRORS_THROW_EXCEPTIONS));
  CHECK(handler_of(MPI_FILE_NULL) == MPIR_ERRORS_THROW_EXCEPTIONS);
  MPI_File file = MPI_FILE_NULL;
  EXPECT_CLASS(MPI_File_open(MPI_COMM_WORLD, "/nonexistent/file", MPI_MODE_RDONLY, MPI_INFO_NULL, &file), MPI_ERR_NO_SUCH_FILE);
  CHECK_OK(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
}
#endif

// Each get gives a reference that the program frees; Open MPI counts those of predefined handlers too.
TEST(predefined_handlers_survive_being_freed) {
  for (MPI_Errhandler predefined : {MPI_ERRORS_ARE_FATAL, MPI_ERRORS_RETURN}) {
    CHECK_OK(MPI_File_set_errhandler(MPI_FILE_NULL, predefined));
    for (int i = 0; i < 20; ++i) {
      MPI_Errhandler handler = handler_of(MPI_FILE_NULL);
      CHECK(handler == predefined);
      CHECK_OK(MPI_Errhandler_free(&handler));
    }
  }
  MPI_Comm copy;
  CHECK_OK(MPI_Comm_dup(MPI_COMM_SELF, &copy));
  CHECK_OK(MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN));
  CHECK_OK(MPI_Comm_free(&copy));
}

TEST(handler_of_a_file) {
  reset();
  MPI_File file, other;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  if (!open_on_world(scratch("other"), MPI_MODE_CREATE | MPI_MODE_RDWR, &other)) return;
  MPI_Errhandler handler = make(note);
  CHECK_OK(MPI_File_set_errhandler(file, handler));
  MPI_Errhandler got = handler_of(file);
  CHECK(got == handler);
  if (got != MPI_ERRHANDLER_NULL) MPI_Errhandler_free(&got);
  MPI_Errhandler_free(&handler);  // the file keeps it
  const int code = provoke(file);
  CHECK_EQ(calls, 1);
  CHECK(last_file == file);
  EXPECT_CLASS(last_code, MPI_ERR_ARG);
  EXPECT_CLASS(code, MPI_ERR_ARG);
  // Not for another file, not for success.
  EXPECT_CLASS(provoke(other), MPI_ERR_ARG);
  CHECK_OK(MPI_File_seek(file, 0, MPI_SEEK_SET));
  CHECK_EQ(calls, 1);
  CHECK_OK(MPI_File_close(&file));
  CHECK_OK(MPI_File_close(&other));
}

TEST(handler_may_be_replaced) {
  reset();
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  MPI_Errhandler one = make(note), two = make(note_otherwise);
  CHECK_OK(MPI_File_set_errhandler(file, one));
  CHECK_OK(MPI_File_set_errhandler(file, two));
  provoke(file);
  CHECK_EQ(calls, 0);
  CHECK_EQ(other_calls, 1);
  CHECK_OK(MPI_File_set_errhandler(file, MPI_ERRORS_RETURN));
  provoke(file);
  CHECK_EQ(calls, 0);
  CHECK_EQ(other_calls, 1);
  MPI_Errhandler_free(&one);
  MPI_Errhandler_free(&two);
  CHECK_OK(MPI_File_close(&file));
}

TEST(call_errhandler) {
  reset();
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  CHECK_OK(MPI_File_call_errhandler(file, MPI_ERR_IO));  // with MPI_ERRORS_RETURN nothing happens
  CHECK_EQ(calls, 0);
  MPI_Errhandler handler = make(note);
  CHECK_OK(MPI_File_set_errhandler(file, handler));
  CHECK_OK(MPI_File_call_errhandler(file, MPI_ERR_QUOTA));
  CHECK_EQ(calls, 1);
  CHECK(last_file == file);
  EXPECT_CLASS(last_code, MPI_ERR_QUOTA);
  MPI_Errhandler_free(&handler);
  CHECK_OK(MPI_File_close(&file));
}

TEST(call_errhandler_with_a_code_of_the_program) {
  reset();
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  int error_class = 0, code = 0;
  MPI_Add_error_class(&error_class);
  MPI_Add_error_code(error_class, &code);
  MPI_Errhandler handler = make(note);
  CHECK_OK(MPI_File_set_errhandler(file, handler));
  CHECK_OK(MPI_File_call_errhandler(file, code));
  CHECK_EQ(calls, 1);
  CHECK_EQ(last_code, code);
  MPI_Errhandler_free(&handler);
  CHECK_OK(MPI_File_close(&file));
}

TEST(every_rank_of_a_failed_collective_hears_of_it) {
  reset();
  check::make_file_for_all(scratch(), {1, 2, 3});
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_RDONLY, &file)) return;
  MPI_Errhandler handler = make(note);
  CHECK_OK(MPI_File_set_errhandler(file, handler));
  int value = 1;
  EXPECT_CLASS(MPI_File_write_at_all(file, 0, &value, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_READ_ONLY, MPI_ERR_ACCESS,
               MPI_ERR_AMODE);
  CHECK_EQ(calls, 1);
  CHECK(last_file == file);
  MPI_Errhandler_free(&handler);
  CHECK_OK(MPI_File_close(&file));
}

TEST(default_handler_catches_failed_opens) {
  // The handler of MPI_FILE_NULL is the one for open and delete, and new files get it (section 14.7).
  reset();
  MPI_Errhandler handler = make(note);
  CHECK_OK(MPI_File_set_errhandler(MPI_FILE_NULL, handler));
  MPI_Errhandler got = handler_of(MPI_FILE_NULL);
  CHECK(got == handler);
  if (got != MPI_ERRHANDLER_NULL) MPI_Errhandler_free(&got);
  MPI_File file = MPI_FILE_NULL;
  EXPECT_CLASS(MPI_File_open(MPI_COMM_WORLD, scratch("absent").c_str(), MPI_MODE_RDONLY, MPI_INFO_NULL, &file),
               MPI_ERR_NO_SUCH_FILE);
  CHECK_EQ(calls, 1);
  CHECK(last_file == MPI_FILE_NULL);
  EXPECT_CLASS(MPI_File_delete(scratch("absent").c_str(), MPI_INFO_NULL), MPI_ERR_NO_SUCH_FILE);
  CHECK_EQ(calls, 2);
  if (open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) {
    provoke(file);
    CHECK_EQ(calls, 3);
    CHECK(last_file == file);
    CHECK_OK(MPI_File_close(&file));
  }
  CHECK_OK(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
  MPI_Errhandler_free(&handler);
  CHECK(handler_of(MPI_FILE_NULL) == MPI_ERRORS_RETURN);
}

TEST(changing_the_default_leaves_open_files_alone) {
  reset();
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  MPI_Errhandler handler = make(note);
  CHECK_OK(MPI_File_set_errhandler(MPI_FILE_NULL, handler));
  provoke(file);
  CHECK_EQ(calls, 0);
  CHECK_OK(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
  MPI_Errhandler_free(&handler);
  CHECK_OK(MPI_File_close(&file));
}

TEST(fatal_by_default_but_not_for_this_file) {
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  CHECK_OK(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_ARE_FATAL));
  CHECK(handler_of(MPI_FILE_NULL) == MPI_ERRORS_ARE_FATAL);
  EXPECT_CLASS(provoke(file), MPI_ERR_ARG);  // the program is still there
  CHECK_OK(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
  CHECK_OK(MPI_File_close(&file));
}

TEST(fatal_for_another_file) {
  MPI_File file, fatal;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  if (!open_on_world(scratch("fatal"), MPI_MODE_CREATE | MPI_MODE_RDWR, &fatal)) return;
  CHECK_OK(MPI_File_set_errhandler(fatal, MPI_ERRORS_ARE_FATAL));
  CHECK(handler_of(fatal) == MPI_ERRORS_ARE_FATAL);
  EXPECT_CLASS(provoke(file), MPI_ERR_ARG);
  int value = 3;
  CHECK_OK(MPI_File_write_at(fatal, 4 * check::rank, &value, 1, MPI_INT, MPI_STATUS_IGNORE));  // no error, nothing fatal
  CHECK_OK(MPI_File_close(&fatal));
  CHECK_OK(MPI_File_close(&file));
}

TEST(handler_that_uses_the_file) {
  // A handler may call MPI.
  position_seen = -1;
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  MPI_Errhandler handler = make(look_at_the_file);
  CHECK_OK(MPI_File_set_errhandler(file, handler));
  CHECK_OK(MPI_File_seek(file, 11, MPI_SEEK_SET));
  provoke(file);
  CHECK_EQ(position_seen, 11);
  MPI_Errhandler_free(&handler);
  CHECK_OK(MPI_File_close(&file));
}

TEST(error_strings_say_something) {
  MPI_File file = MPI_FILE_NULL;
  const int code = MPI_File_open(MPI_COMM_WORLD, scratch("absent").c_str(), MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
  char text[MPI_MAX_ERROR_STRING + 1] = "";
  int length = -1;
  CHECK_OK(MPI_Error_string(code, text, &length));
  CHECK(length > 10);
  CHECK_EQ(std::strlen(text), static_cast<std::size_t>(length));
  if (check::preloaded()) CHECK(std::string(text).find(scratch("absent")) != std::string::npos);
}

TEST(failed_nonblocking_call_is_reported_once) {
  // The error comes from the call or from its completion, never from neither.
  reset();
  check::make_file_for_all(scratch(), {1, 2, 3});
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_RDONLY, &file)) return;
  MPI_Errhandler handler = make(note);
  CHECK_OK(MPI_File_set_errhandler(file, handler));
  int value = 1;
  MPI_Request request = MPI_REQUEST_NULL;
  int code = MPI_File_iwrite_at(file, 0, &value, 1, MPI_INT, &request);
  if (code == MPI_SUCCESS) code = MPI_Wait(&request, MPI_STATUS_IGNORE);
  EXPECT_CLASS(code, MPI_ERR_READ_ONLY, MPI_ERR_ACCESS, MPI_ERR_AMODE);
  MPI_Errhandler_free(&handler);
  CHECK_OK(MPI_File_close(&file));
}

namespace {

/// While it lives, writes behind the first 4 KiB of a file fail.
class SmallFiles {
 public:
  SmallFiles() {
    getrlimit(RLIMIT_FSIZE, &before_);
    struct rlimit small = before_;
    small.rlim_cur = 4096;
    std::signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
  }
  ~SmallFiles() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, SIG_DFL);
  }
  SmallFiles(const SmallFiles&) = delete;
  SmallFiles& operator=(const SmallFiles&) = delete;

 private:
  struct rlimit before_ {};
};

}  // namespace

TEST(failed_request_that_was_freed_is_told_by_close) {
  if (!check::preloaded() || check::size > 1) return;
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  const SmallFiles limit;
  const std::vector<char> data(8192, 'x');
  MPI_Request request;
  CHECK_OK(MPI_File_iwrite_at(file, 1 << 20, data.data(), 8192, MPI_CHAR, &request));
  CHECK_OK(MPI_Request_free(&request));
  EXPECT_CLASS(MPI_File_close(&file), MPI_ERR_NO_SPACE);
}

TEST(failed_request_that_was_freed_among_many_is_told_by_close) {
  if (!check::preloaded() || check::size > 1) return;
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  const SmallFiles limit;
  const std::vector<char> data(8192, 'x');
  for (int i = 0; i < 200; ++i) {
    MPI_Request request;
    CHECK_OK(MPI_File_iwrite_at(file, i == 10 ? 1 << 20 : 0, data.data(), 8, MPI_CHAR, &request));
    CHECK_OK(MPI_Request_free(&request));
  }
  EXPECT_CLASS(MPI_File_close(&file), MPI_ERR_NO_SPACE);
}

TEST(failed_request_that_was_freed_is_told_by_sync) {
  // Also where the program has called nothing of MPI since the access was over.
  if (!check::preloaded() || check::size > 1) return;
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  const SmallFiles limit;
  const std::vector<char> data(8192, 'x');
  MPI_Request failing, behind;
  CHECK_OK(MPI_File_iwrite_at(file, 1 << 20, data.data(), 8192, MPI_CHAR, &failing));
  CHECK_OK(MPI_Request_free(&failing));
  CHECK_OK(MPI_File_iwrite_at(file, 0, data.data(), 8, MPI_CHAR, &behind));
  while (check::contents(scratch()).size() < 8) {}
  EXPECT_CLASS(MPI_File_sync(file), MPI_ERR_NO_SPACE);
  CHECK_OK(MPI_Wait(&behind, MPI_STATUS_IGNORE));
  CHECK_OK(MPI_File_close(&file));
}

namespace {

/// The file's own handler wants to go on, MPI_COMM_WORLD's would end the job: the failure is in the status, and the next sync or close returns it.
void fail_under_fatal_world(bool told_by_close) {
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
  std::optional<SmallFiles> limit(std::in_place);
  const std::vector<char> data(8192, 'x');
  MPI_Request request;
  CHECK_OK(MPI_File_iwrite_at(file, 1 << 20, data.data(), 8192, MPI_CHAR, &request));
  MPI_Status status;
  CHECK_OK(MPI_Wait(&request, &status));
  CHECK_EQ(check::count_in(status, MPI_CHAR), 0);
  limit.reset();
  if (!told_by_close) EXPECT_CLASS(MPI_File_sync(file), MPI_ERR_NO_SPACE);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (told_by_close)
    EXPECT_CLASS(MPI_File_close(&file), MPI_ERR_NO_SPACE);
  else
    CHECK_OK(MPI_File_close(&file));
}

}  // namespace

TEST(failed_request_under_a_fatal_world_is_told_later) {
  if (!check::preloaded() || check::size > 1) return;
  fail_under_fatal_world(false);
  fail_under_fatal_world(true);
}

TEST_MAIN(MPI_THREAD_SINGLE)
