// What is said when a call is wrong: the class, and a sentence that names the file, the operation, the value and what to do.
// All access modes there are, against the rules of MPI 4.1 section 14.2.1.
// preloaded only
// ranks: 1 2
// thorough: 3:
#include "calls.h"

using calls::Call;
using calls::Direction;
using check::open_on_world;
using check::scratch;

namespace {

/// Read by Penstock at the first file call; a wrong hint is told there, because it must not make an open fail.
const std::string log_name = [] {
  const char* directory = std::getenv("PENSTOCK_TEST_DIRECTORY");
  const std::string name = std::string(directory ? directory : ".") + "/log-" + std::to_string(getpid());
  setenv("PENSTOCK_LOG", name.c_str(), 1);
  return name;
}();

std::string sentence_of(int code) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  return text;
}

/// Fails with the class, and the sentence has all of `words`.
void check_failure(int code, int error_class, std::initializer_list<std::string> words, const char* what, int line) {
  check::expect_class(code, {error_class}, what, __FILE__, line);
  const std::string sentence = sentence_of(code);
  for (const std::string& word : words)
    if (sentence.find(word) == std::string::npos)
      check::fail(__FILE__, line, std::string(what) + ": expected '" + word + "' in the sentence, got '" + sentence + "'");
}
#define EXPECT_FAILURE(call, error_class, ...) check_failure((call), error_class, {__VA_ARGS__}, #call, __LINE__)

/// MPICH 4.0 puts a stack of its own before our sentence and cuts both short, so the last part of the name has to do.
std::string short_name() { return scratch().substr(scratch().rfind('/') + 1); }

bool open_some(MPI_File* file, int amode = MPI_MODE_RDWR) {
  check::make_file_for_all(scratch(), check::Bytes(64, 1));
  return open_on_world(scratch(), amode, file);
}

bool allowed(int amode) {
  const int ways = amode & (MPI_MODE_RDONLY | MPI_MODE_WRONLY | MPI_MODE_RDWR);
  if (ways != MPI_MODE_RDONLY && ways != MPI_MODE_WRONLY && ways != MPI_MODE_RDWR) return false;
  if (ways == MPI_MODE_RDONLY && (amode & (MPI_MODE_CREATE | MPI_MODE_EXCL))) return false;
  return !(ways == MPI_MODE_RDWR && (amode & MPI_MODE_SEQUENTIAL));
}

}  // namespace

TEST(access_modes_that_are_forbidden) {
  MPI_File file = MPI_FILE_NULL;
  const auto attempt = [&](int amode) { return MPI_File_open(MPI_COMM_WORLD, scratch().c_str(), amode, MPI_INFO_NULL, &file); };
  EXPECT_FAILURE(attempt(MPI_MODE_CREATE), MPI_ERR_AMODE, short_name(), "exactly one of RDONLY, WRONLY and RDWR");
  EXPECT_FAILURE(attempt(MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_WRONLY), MPI_ERR_AMODE, short_name(), "exactly one of");
  EXPECT_FAILURE(attempt(MPI_MODE_CREATE | MPI_MODE_RDONLY), MPI_ERR_AMODE, short_name(), "CREATE", "RDWR or WRONLY");
  EXPECT_FAILURE(attempt(MPI_MODE_EXCL | MPI_MODE_RDONLY), MPI_ERR_AMODE, short_name(), "EXCL", "RDWR or WRONLY");
  EXPECT_FAILURE(attempt(MPI_MODE_CREATE | MPI_MODE_SEQUENTIAL | MPI_MODE_RDWR), MPI_ERR_AMODE, short_name(), "SEQUENTIAL", "RDONLY or WRONLY");
  CHECK(!check::exists(scratch()));
}

TEST(mode_with_bits_that_mean_nothing) {
  MPI_File file = MPI_FILE_NULL;
  EXPECT_FAILURE(MPI_File_open(MPI_COMM_WORLD, scratch().c_str(), MPI_MODE_RDWR | MPI_MODE_CREATE | 1 << 20, MPI_INFO_NULL, &file),
                 MPI_ERR_AMODE, short_name(), std::to_string(MPI_MODE_RDWR | MPI_MODE_CREATE | 1 << 20), "MPI_MODE_");
  CHECK(!check::exists(scratch()));
}

TEST(what_was_not_opened_for_it) {
  MPI_File file;
  int value = 0;
  if (!open_some(&file, MPI_MODE_RDONLY)) return;
  EXPECT_FAILURE(MPI_File_write_at(file, 0, &value, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_READ_ONLY, short_name(), "write", "RDWR");
  EXPECT_FAILURE(MPI_File_set_size(file, 8), MPI_ERR_READ_ONLY, short_name(), "set_size", "RDWR");
  CHECK_OK(MPI_File_close(&file));
  if (!open_some(&file, MPI_MODE_WRONLY)) return;
  EXPECT_FAILURE(MPI_File_read_at(file, 0, &value, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_ACCESS, short_name(), "read", "RDWR");
  CHECK_OK(MPI_File_close(&file));
  check::barrier();
}

TEST(wrong_buffers_and_counts) {
  MPI_File file;
  int value = 0;
  if (!open_some(&file)) return;
  EXPECT_FAILURE(MPI_File_write_at(file, 0, nullptr, 4, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_BUFFER, short_name(), "write", "null", "4");
  EXPECT_FAILURE(MPI_File_read_at(file, 0, nullptr, 4, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_BUFFER, short_name(), "read", "null", "4");
  EXPECT_FAILURE(MPI_File_write_at(file, 0, &value, -7, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_COUNT, short_name(), "-7", "negative");
  EXPECT_FAILURE(MPI_File_write_at(file, -5, &value, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_ARG, short_name(), "-5", "negative");
  EXPECT_FAILURE(MPI_File_write_at(file, 0, &value, 1, MPI_DATATYPE_NULL, MPI_STATUS_IGNORE), MPI_ERR_TYPE, short_name(), "datatype");
  // No buffer is needed where there is nothing to move.
  CHECK_OK(MPI_File_write_at_all(file, 0, nullptr, 0, MPI_INT, MPI_STATUS_IGNORE));
  CHECK_OK(MPI_File_close(&file));
}

TEST(places_for_results_that_are_null) {
  MPI_File file;
  if (!open_some(&file)) return;
  EXPECT_FAILURE(MPI_File_get_size(file, nullptr), MPI_ERR_ARG, short_name(), "get_size", "null");
  EXPECT_FAILURE(MPI_File_get_info(file, nullptr), MPI_ERR_ARG, short_name(), "get_info", "null");
  EXPECT_FAILURE(MPI_File_seek(file, 0, 4711), MPI_ERR_ARG, short_name(), "4711", "MPI_SEEK_SET");
  EXPECT_FAILURE(MPI_File_seek(file, -1, MPI_SEEK_SET), MPI_ERR_ARG, short_name(), "-1");
  CHECK_OK(MPI_File_close(&file));
}

TEST(views_that_do_not_fit) {
  MPI_File file;
  if (!open_some(&file)) return;
  MPI_Datatype five;
  MPI_Datatype backwards;
  MPI_Datatype uncommitted;
  const int lengths[] = {1, 1};
  const int displacements[] = {4, 0};
  MPI_Type_contiguous(5, MPI_BYTE, &five);
  MPI_Type_commit(&five);
  MPI_Type_indexed(2, lengths, displacements, MPI_INT, &backwards);
  MPI_Type_commit(&backwards);
  MPI_Type_contiguous(2, MPI_INT, &uncommitted);
  EXPECT_FAILURE(MPI_File_set_view(file, 0, MPI_INT, five, "native", MPI_INFO_NULL), MPI_ERR_TYPE, short_name(), "set_view", "5", "4");
  EXPECT_FAILURE(MPI_File_set_view(file, 0, MPI_INT, backwards, "native", MPI_INFO_NULL), MPI_ERR_TYPE, short_name(), "backwards");
  EXPECT_FAILURE(MPI_File_set_view(file, 0, MPI_INT, uncommitted, "native", MPI_INFO_NULL), MPI_ERR_TYPE, short_name(), "commit");
  EXPECT_FAILURE(MPI_File_set_view(file, 0, MPI_DATATYPE_NULL, MPI_INT, "native", MPI_INFO_NULL), MPI_ERR_TYPE, short_name(), "NULL");
  EXPECT_FAILURE(MPI_File_set_view(file, -3, MPI_INT, MPI_INT, "native", MPI_INFO_NULL), MPI_ERR_ARG, short_name(), "-3", "negative");
  EXPECT_FAILURE(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "klingon", MPI_INFO_NULL), MPI_ERR_UNSUPPORTED_DATAREP, "klingon");
  EXPECT_FAILURE(MPI_File_set_view(file, MPI_DISPLACEMENT_CURRENT, MPI_INT, MPI_INT, "native", MPI_INFO_NULL), MPI_ERR_ARG, short_name(),
                 "SEQUENTIAL");
  // A view that was refused leaves the one before in force.
  char three[3] = {};
  CHECK_OK(MPI_File_write_at(file, 0, three, 3, MPI_BYTE, MPI_STATUS_IGNORE));
  CHECK_OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
  EXPECT_FAILURE(MPI_File_write_at(file, 0, three, 3, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_IO, short_name(), "3 bytes", "4 bytes");
  MPI_Type_free(&five);
  MPI_Type_free(&backwards);
  MPI_Type_free(&uncommitted);
  CHECK_OK(MPI_File_close(&file));
}

TEST(closed_handles) {
  MPI_File file;
  if (!open_some(&file)) return;
  MPI_File copy = file;
  int value = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Info info;
  CHECK_OK(MPI_File_close(&file));
  EXPECT_FAILURE(MPI_File_write_at(copy, 0, &value, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_FILE, "write", "closed");
  EXPECT_FAILURE(MPI_File_iread(copy, &value, 1, MPI_INT, &request), MPI_ERR_FILE, "read", "closed");
  EXPECT_FAILURE(MPI_File_write_all_begin(copy, &value, 1, MPI_INT), MPI_ERR_FILE, "closed");
  EXPECT_FAILURE(MPI_File_get_info(copy, &info), MPI_ERR_FILE, "get_info", "closed");
  EXPECT_FAILURE(MPI_File_sync(copy), MPI_ERR_FILE, "sync", "closed");
  EXPECT_FAILURE(MPI_File_close(&copy), MPI_ERR_FILE, "close", "closed");
  EXPECT_FAILURE(MPI_File_sync(MPI_FILE_NULL), MPI_ERR_FILE, "sync", "MPI_FILE_NULL");
}

TEST(hints_that_are_wrong_do_not_fail_and_are_told) {
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "penstock_strategy", "teleported");
  MPI_Info_set(info, "penstock_strategie", "mapped");
  MPI_Info_set(info, "somebody_elses", "hint");
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file, info)) return;
  CHECK_OK(MPI_File_set_info(file, info));
  CHECK_OK(MPI_File_close(&file));
  MPI_Info_free(&info);
  const check::Bytes bytes = check::contents(log_name);
  const std::string log(bytes.begin(), bytes.end());
  for (const char* word : {"teleported", "penstock_strategie", "did you mean penstock_strategy", "independent"})
    if (log.find(word) == std::string::npos) check::fail(__FILE__, __LINE__, std::string("expected '") + word + "' in the log, got '" + log + "'");
  CHECK(log.find("somebody_elses") == std::string::npos);
  unlink(log_name.c_str());
}

// The last one: so many different failures leave no room for further sentences in MPI's tables.
TEST(every_access_mode) {
  const int flags[] = {MPI_MODE_RDONLY, MPI_MODE_WRONLY, MPI_MODE_RDWR, MPI_MODE_CREATE, MPI_MODE_EXCL,
                       MPI_MODE_DELETE_ON_CLOSE, MPI_MODE_UNIQUE_OPEN, MPI_MODE_SEQUENTIAL, MPI_MODE_APPEND};
  for (int bits = 0; bits < 1 << 9; ++bits) {
    int amode = 0;
    for (int i = 0; i < 9; ++i)
      if (bits >> i & 1) amode |= flags[i];
    // What is there, or not, must not be what decides.
    const bool creates_new = (amode & MPI_MODE_CREATE) && (amode & MPI_MODE_EXCL);
    if (check::rank == 0) {
      unlink(scratch().c_str());
      if (!creates_new) check::make_file(scratch(), {1});
    }
    check::barrier();
    MPI_File file = MPI_FILE_NULL;
    const int code = MPI_File_open(MPI_COMM_WORLD, scratch().c_str(), amode, MPI_INFO_NULL, &file);
    const std::string what = "open with mode " + std::to_string(amode);
    if (allowed(amode))
      check::expect_success(code, what.c_str(), __FILE__, __LINE__);
    else
      check::expect_class(code, {MPI_ERR_AMODE}, what.c_str(), __FILE__, __LINE__);
    if (code == MPI_SUCCESS) CHECK_OK(MPI_File_close(&file));
    check::barrier();
  }
}

TEST_MAIN(MPI_THREAD_SINGLE)
