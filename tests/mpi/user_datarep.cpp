// Data representations that the program registers (MPI 4.1 section 14.5.3).
// ranks: 1 3
#include "check.h"

#include <atomic>
#include <thread>

using check::open_on_world;
using check::scratch;

namespace {

int conversions_written = 0, conversions_read = 0, extents_asked = 0;
std::atomic<int> conversions_elsewhere = 0;  // on another thread than the one that the program runs on
const std::thread::id program_thread = std::this_thread::get_id();
int extra = 4711;  // what extra_state points to

/// The displacements of the ints of one item of `datatype`, which may be any type made of ints by the constructors used here.
std::vector<MPI_Aint> places_of_ints(MPI_Datatype datatype) {
  int integer_count, address_count, type_count, combiner;
  MPI_Type_get_envelope(datatype, &integer_count, &address_count, &type_count, &combiner);
  if (combiner == MPI_COMBINER_NAMED) return {0};
  std::vector<int> integers(static_cast<std::size_t>(integer_count) + 1);
  std::vector<MPI_Aint> addresses(static_cast<std::size_t>(address_count) + 1);
  std::vector<MPI_Datatype> types(static_cast<std::size_t>(type_count) + 1);
  MPI_Type_get_contents(datatype, integer_count, address_count, type_count, integers.data(), addresses.data(), types.data());
  const std::vector<MPI_Aint> inner = places_of_ints(types[0]);
  MPI_Aint lower, extent;
  MPI_Type_get_extent(types[0], &lower, &extent);
  std::vector<MPI_Aint> blocks;
  if (combiner == MPI_COMBINER_CONTIGUOUS)
    for (int i = 0; i < integers[0]; ++i) blocks.push_back(i * extent);
  else if (combiner == MPI_COMBINER_VECTOR)
    for (int i = 0; i < integers[0]; ++i)
      for (int j = 0; j < integers[1]; ++j) blocks.push_back((i * integers[2] + j) * extent);
  else
    blocks.push_back(0);  // dup, resized
  std::vector<MPI_Aint> places;
  for (MPI_Aint block : blocks)
    for (MPI_Aint place : inner) places.push_back(block + place);
  int discarded, also, many, of_child;
  MPI_Type_get_envelope(types[0], &discarded, &also, &many, &of_child);
  if (of_child != MPI_COMBINER_NAMED) MPI_Type_free(&types[0]);
  return places;
}

/// Address of the i-th int of user memory.
int* int_at(void* user, MPI_Datatype datatype, MPI_Offset i) {
  const std::vector<MPI_Aint> places = places_of_ints(datatype);
  MPI_Aint lower, extent;
  MPI_Type_get_extent(datatype, &lower, &extent);
  const auto per_item = static_cast<MPI_Offset>(places.size());
  return reinterpret_cast<int*>(static_cast<char*>(user) + i / per_item * extent + places[static_cast<std::size_t>(i % per_item)]);
}

// Representation "wide": an int takes 8 bytes, itself and its complement.

int wide_extent(MPI_Datatype datatype, MPI_Aint* extent, void* state) {
  ++extents_asked;
  if (state != &extra) return MPI_ERR_OTHER;
  int size = 0;
  MPI_Type_size(datatype, &size);
  *extent = datatype == MPI_BYTE ? 1 : 2 * size;
  return MPI_SUCCESS;
}

int wide_read(void* user, MPI_Datatype datatype, int count, void* filebuf, MPI_Offset position, void* state) {
  ++conversions_read;
  if (std::this_thread::get_id() != program_thread) ++conversions_elsewhere;
  if (state != &extra) return MPI_ERR_OTHER;
  for (int i = 0; i < count; ++i) {
    int pair[2];
    std::memcpy(pair, static_cast<char*>(filebuf) + 8 * i, 8);
    if (pair[1] != ~pair[0]) return MPI_ERR_OTHER;
    *int_at(user, datatype, position + i) = pair[0];
  }
  return MPI_SUCCESS;
}

int wide_write(void* user, MPI_Datatype datatype, int count, void* filebuf, MPI_Offset position, void* state) {
  ++conversions_written;
  if (std::this_thread::get_id() != program_thread) ++conversions_elsewhere;
  if (state != &extra) return MPI_ERR_OTHER;
  for (int i = 0; i < count; ++i) {
    const int value = *int_at(user, datatype, position + i);
    const int pair[2] = {value, ~value};
    std::memcpy(static_cast<char*>(filebuf) + 8 * i, pair, 8);
  }
  return MPI_SUCCESS;
}

// Representation "plain": as in memory, without conversion functions.

int plain_extent(MPI_Datatype datatype, MPI_Aint* extent, void*) {
  int size = 0;
  MPI_Type_size(datatype, &size);
  *extent = size;
  return MPI_SUCCESS;
}

// Representation "masked": as many bytes as in memory, each with all bits inverted; reading only.

int masked_read(void* user, MPI_Datatype datatype, int count, void* filebuf, MPI_Offset position, void*) {
  for (int i = 0; i < count; ++i) {
    int value;
    std::memcpy(&value, static_cast<char*>(filebuf) + 4 * i, 4);
    *int_at(user, datatype, position + i) = ~value;
  }
  return MPI_SUCCESS;
}

int failing(void*, MPI_Datatype, int, void*, MPI_Offset, void*) { return MPI_ERR_OTHER; }

/// Registrations last as long as the program, so each name once.
int register_once(const char* name, MPI_Datarep_conversion_function* read, MPI_Datarep_conversion_function* write,
                  MPI_Datarep_extent_function* extent, void* state) {
  static std::vector<std::string> done;
  if (std::find(done.begin(), done.end(), name) != done.end()) return MPI_SUCCESS;
  done.emplace_back(name);
  return MPI_Register_datarep(name, read, write, extent, state);
}

bool open_as(const char* datarep, MPI_Offset displacement, MPI_Datatype filetype, MPI_File* file) {
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, file)) return false;
  const int code = MPI_File_set_view(*file, displacement, MPI_INT, filetype, datarep, MPI_INFO_NULL);
  CHECK_OK(code);
  if (check::all_ranks(code == MPI_SUCCESS)) return true;
  MPI_File_close(file);
  return false;
}

}  // namespace

TEST(converts_both_ways) {
  CHECK_OK(register_once("wide", wide_read, wide_write, wide_extent, &extra));
  MPI_File file;
  if (!open_as("wide", 80 * check::rank, MPI_INT, &file)) return;
  int values[10], back[10] = {};
  for (int i = 0; i < 10; ++i) values[i] = 100 * check::rank + i;
  conversions_written = conversions_read = 0;
  MPI_Status status;
  CHECK_OK(MPI_File_write_all(file, values, 10, MPI_INT, &status));
  CHECK_EQ(check::count_in(status, MPI_INT), 10);
  CHECK(conversions_written > 0);
  CHECK_OK(MPI_File_read_at(file, 0, back, 10, MPI_INT, &status));
  CHECK_EQ(check::count_in(status, MPI_INT), 10);
  CHECK(conversions_read > 0);
  CHECK_BYTES(back, values, sizeof values);
  // From the middle: offsets count etypes, of 8 bytes each in this file.
  CHECK_OK(MPI_File_read_at(file, 4, back, 3, MPI_INT, &status));
  CHECK_BYTES(back, values + 4, 12);
  MPI_Offset offset = -1;
  CHECK_OK(MPI_File_get_byte_offset(file, 4, &offset));
  CHECK_EQ(offset, 80 * check::rank + 32);
  CHECK_OK(MPI_File_close(&file));
  check::barrier();
  const check::Bytes bytes = check::contents(scratch());
  if (!CHECK_EQ(bytes.size(), 80u * static_cast<unsigned>(check::size))) return;
  for (int i = 0; i < 10; ++i) {
    int pair[2];
    std::memcpy(pair, bytes.data() + 80 * check::rank + 8 * i, 8);
    CHECK_EQ(pair[0], values[i]);
    CHECK_EQ(pair[1], ~values[i]);
  }
}

TEST(extents_come_from_the_representation) {
  CHECK_OK(register_once("wide", wide_read, wide_write, wide_extent, &extra));
  MPI_File file;
  if (!open_as("wide", 0, MPI_INT, &file)) return;
  extents_asked = 0;
  MPI_Aint extent = -1;
  CHECK_OK(MPI_File_get_type_extent(file, MPI_INT, &extent));
  CHECK_EQ(extent, 8);
  MPI_Datatype several;
  MPI_Type_contiguous(5, MPI_INT, &several);
  MPI_Type_commit(&several);
  CHECK_OK(MPI_File_get_type_extent(file, several, &extent));
  CHECK_EQ(extent, 40);
  MPI_Type_free(&several);
  CHECK_OK(MPI_File_close(&file));
}

TEST(strided_memory) {
  CHECK_OK(register_once("wide", wide_read, wide_write, wide_extent, &extra));
  MPI_File file;
  if (!open_as("wide", 40 * check::rank, MPI_INT, &file)) return;
  MPI_Datatype every_other;
  MPI_Type_vector(5, 1, 2, MPI_INT, &every_other);
  MPI_Type_commit(&every_other);
  int values[10], back[10];
  for (int i = 0; i < 10; ++i) values[i] = i % 2 ? -1 : 100 * check::rank + i, back[i] = -1;
  MPI_Status status;
  CHECK_OK(MPI_File_write_at_all(file, 0, values, 1, every_other, &status));
  CHECK_OK(MPI_File_read_at_all(file, 0, back, 1, every_other, &status));
  CHECK_EQ(check::count_in(status, every_other), 1);
  CHECK_BYTES(back, values, sizeof values);
  CHECK_OK(MPI_File_close(&file));
  MPI_Type_free(&every_other);
}

TEST(strided_view) {
  // Filetypes are built with extents in the file: every rank's int of 8 bytes, ranks interleaved.
  CHECK_OK(register_once("wide", wide_read, wide_write, wide_extent, &extra));
  MPI_Datatype filetype;
  MPI_Type_create_resized(MPI_INT, 0, 8 * check::size, &filetype);
  MPI_Type_commit(&filetype);
  MPI_File file;
  if (open_as("wide", 8 * check::rank, filetype, &file)) {
    int values[6], back[6] = {};
    for (int i = 0; i < 6; ++i) values[i] = 10 * i + check::rank;
    CHECK_OK(MPI_File_write_all(file, values, 6, MPI_INT, MPI_STATUS_IGNORE));
    check::sync_all(file);
    CHECK_OK(MPI_File_read_at(file, 0, back, 6, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_BYTES(back, values, sizeof values);
    CHECK_OK(MPI_File_close(&file));
    check::barrier();
    const check::Bytes bytes = check::contents(scratch());
    if (CHECK_EQ(bytes.size(), 48u * static_cast<unsigned>(check::size)))
      for (int i = 0; i < 6; ++i) {
        int got;
        std::memcpy(&got, bytes.data() + 8 * (i * check::size + check::rank), 4);
        CHECK_EQ(got, values[i]);
      }
  }
  MPI_Type_free(&filetype);
}

TEST(many_items) {
  // More than any one staging buffer is likely to hold: positions must go on where the last call stopped.
  CHECK_OK(register_once("wide", wide_read, wide_write, wide_extent, &extra));
  constexpr int count = 300000;
  MPI_File file;
  if (!open_as("wide", MPI_Offset(8) * count * check::rank, MPI_INT, &file)) return;
  std::vector<int> values(count), back(count);
  for (int i = 0; i < count; ++i) values[static_cast<std::size_t>(i)] = i ^ check::rank;
  CHECK_OK(MPI_File_write(file, values.data(), count, MPI_INT, MPI_STATUS_IGNORE));
  CHECK_OK(MPI_File_read_at_all(file, 0, back.data(), count, MPI_INT, MPI_STATUS_IGNORE));
  CHECK_BYTES(back.data(), values.data(), count * 4);
  CHECK_OK(MPI_File_close(&file));
}

TEST(no_conversion_functions) {
  CHECK_OK(register_once("plain", MPI_CONVERSION_FN_NULL, MPI_CONVERSION_FN_NULL, plain_extent, nullptr));
  MPI_File file;
  if (!open_as("plain", 8 * check::rank, MPI_INT, &file)) return;
  int values[2] = {check::rank, 77}, back[2] = {};
  CHECK_OK(MPI_File_write_all(file, values, 2, MPI_INT, MPI_STATUS_IGNORE));
  CHECK_OK(MPI_File_read_at(file, 0, back, 2, MPI_INT, MPI_STATUS_IGNORE));
  CHECK_BYTES(back, values, sizeof values);
  char name[MPI_MAX_DATAREP_STRING] = "";
  MPI_Offset displacement;
  MPI_Datatype etype, filetype;
  CHECK_OK(MPI_File_get_view(file, &displacement, &etype, &filetype, name));
  CHECK_EQ(std::string(name), std::string("plain"));
  CHECK_OK(MPI_File_close(&file));
  check::barrier();
  const check::Bytes bytes = check::contents(scratch());
  if (CHECK_EQ(bytes.size(), 8u * static_cast<unsigned>(check::size))) CHECK_BYTES(bytes.data() + 8 * check::rank, values, 8);
}

TEST(without_conversion_functions_data_is_native) {
  // Section 14.5.3: without a function "the requested data access" is done in the native representation, whatever the extents are.
  CHECK_OK(register_once("wide without functions", MPI_CONVERSION_FN_NULL, MPI_CONVERSION_FN_NULL, wide_extent, &extra));
  MPI_File file;
  if (!open_as("wide without functions", 16 * check::rank, MPI_INT, &file)) return;
  const int values[4] = {check::rank, 77, -1, -2};
  int back[4] = {-9, -9, -9, -9};
  MPI_Status status;
  CHECK_OK(MPI_File_write_all(file, values, 2, MPI_INT, &status));
  CHECK_EQ(check::count_in(status, MPI_INT), 2);
  CHECK_OK(MPI_File_read_at(file, 0, back, 2, MPI_INT, &status));
  CHECK_EQ(check::count_in(status, MPI_INT), 2);
  CHECK_BYTES(back, values, 8);
  CHECK_EQ(back[2], -9);  // what lies behind the buffer
  CHECK_EQ(back[3], -9);
  CHECK_OK(MPI_File_close(&file));
}

TEST(types_may_be_freed_in_flight) {
  CHECK_OK(register_once("wide", wide_read, wide_write, wide_extent, &extra));
  constexpr int count = 1 << 14;
  MPI_File file;
  if (!open_as("wide", MPI_Offset(8) * count * check::rank, MPI_INT, &file)) return;
  std::vector<int> values(2 * count), back(2 * count, -1);
  for (int i = 0; i < 2 * count; ++i) values[static_cast<std::size_t>(i)] = i % 2 == 0 ? i ^ check::rank : -1;
  for (const bool reading : {false, true})
    for (const bool split : {false, true}) {
      MPI_Datatype pair;
      MPI_Type_create_resized(MPI_INT, 0, 8, &pair);
      MPI_Type_commit(&pair);
      MPI_Request request = MPI_REQUEST_NULL;
      MPI_Status status;
      std::fill(back.begin(), back.end(), -1);
      if (split)
        CHECK_OK(reading ? MPI_File_read_at_all_begin(file, 0, back.data(), count, pair)
                         : MPI_File_write_at_all_begin(file, 0, values.data(), count, pair));
      else
        CHECK_OK(reading ? MPI_File_iread_at(file, 0, back.data(), count, pair, &request)
                         : MPI_File_iwrite_at(file, 0, values.data(), count, pair, &request));
      MPI_Type_free(&pair);
      if (split)
        CHECK_OK(reading ? MPI_File_read_at_all_end(file, back.data(), &status) : MPI_File_write_at_all_end(file, values.data(), &status));
      else
        CHECK_OK(MPI_Wait(&request, &status));
      CHECK_EQ(check::count_in(status, MPI_INT), count);
      if (reading) CHECK_BYTES(back.data(), values.data(), 8u * count);
    }
  CHECK_OK(MPI_File_close(&file));
}

TEST(conversion_functions_run_on_the_threads_of_the_program) {
  // They may call MPI, which below MPI_THREAD_MULTIPLE no other thread may.
  CHECK_OK(register_once("wide", wide_read, wide_write, wide_extent, &extra));
  MPI_File file;
  if (!open_as("wide", 80 * check::rank, MPI_INT, &file)) return;
  int values[10], back[10];
  for (int i = 0; i < 10; ++i) values[i] = 100 * check::rank + i;
  conversions_elsewhere = 0;
  MPI_Request request;
  MPI_Status status;
  CHECK_OK(MPI_File_iwrite_at(file, 0, values, 10, MPI_INT, &request));
  CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  CHECK_OK(MPI_File_iread_at(file, 0, back, 10, MPI_INT, &request));
  // Asking does not end the request.  Under MPICH's it may never see that the access is over.
  int done = 0;
  for (int tries = 0; done == 0 && tries < 100; ++tries) CHECK_OK(MPI_Request_get_status(request, &done, &status));
  if (done != 0) CHECK_EQ(check::count_in(status, MPI_INT), 10);
  if (done != 0) CHECK_BYTES(back, values, sizeof values);
  CHECK_OK(MPI_Wait(&request, &status));
  CHECK_EQ(check::count_in(status, MPI_INT), 10);
  CHECK_BYTES(back, values, sizeof values);
  CHECK_OK(MPI_File_read_at_all_begin(file, 0, back, 10, MPI_INT));
  CHECK_OK(MPI_File_read_at_all_end(file, back, &status));
  CHECK_EQ(check::count_in(status, MPI_INT), 10);
  CHECK_BYTES(back, values, sizeof values);
  CHECK_EQ(conversions_elsewhere, 0);
  CHECK_OK(MPI_File_close(&file));
}

TEST(every_form_of_completion_converts) {
  // Data are converted when the program completes the request, also where it asks for no status.
  CHECK_OK(register_once("wide", wide_read, wide_write, wide_extent, &extra));
  MPI_File file;
  if (!open_as("wide", 80 * check::rank, MPI_INT, &file)) return;
  int values[10];
  for (int i = 0; i < 10; ++i) values[i] = 100 * check::rank + i;
  CHECK_OK(MPI_File_write_at(file, 0, values, 10, MPI_INT, MPI_STATUS_IGNORE));
  for (int form = 0; form < 8; ++form) {
    int back[2][5];
    std::fill(&back[0][0], &back[0][0] + 10, -1);
    MPI_Request requests[2];
    for (int i = 0; i < 2; ++i) CHECK_OK(MPI_File_iread_at(file, 5 * i, back[i], 5, MPI_INT, &requests[i]));
    int done = 0, count = 0, which[2];
    for (int over = 0; over < 2;) switch (form) {
        case 0: CHECK_OK(MPI_Wait(&requests[over++], MPI_STATUS_IGNORE)); break;
        case 1: CHECK_OK(MPI_Test(&requests[over], &done, MPI_STATUS_IGNORE)); over += done; break;
        case 2: CHECK_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)); over = 2; break;
        case 3: CHECK_OK(MPI_Testall(2, requests, &done, MPI_STATUSES_IGNORE)); over += 2 * done; break;
        case 4: CHECK_OK(MPI_Waitany(2, requests, which, MPI_STATUS_IGNORE)); ++over; break;
        case 5: CHECK_OK(MPI_Testany(2, requests, which, &done, MPI_STATUS_IGNORE)); over += done; break;
        case 6: CHECK_OK(MPI_Waitsome(2, requests, &count, which, MPI_STATUSES_IGNORE)); over += count; break;
        default: CHECK_OK(MPI_Testsome(2, requests, &count, which, MPI_STATUSES_IGNORE)); over += count; break;
      }
    CHECK_BYTES(back, values, sizeof values);
  }
  CHECK_OK(MPI_File_close(&file));
}

TEST(conversion_when_reading_only) {
  CHECK_OK(register_once("masked", masked_read, MPI_CONVERSION_FN_NULL, plain_extent, nullptr));
  MPI_File file;
  if (!open_as("masked", 8 * check::rank, MPI_INT, &file)) return;
  int values[2] = {check::rank, 77}, back[2] = {};
  CHECK_OK(MPI_File_write_all(file, values, 2, MPI_INT, MPI_STATUS_IGNORE));
  CHECK_OK(MPI_File_read_at(file, 0, back, 2, MPI_INT, MPI_STATUS_IGNORE));
  CHECK_EQ(back[0], ~values[0]);
  CHECK_EQ(back[1], ~values[1]);
  CHECK_OK(MPI_File_close(&file));
}

TEST(failing_conversion) {
  CHECK_OK(register_once("broken", failing, failing, plain_extent, nullptr));
  MPI_File file;
  if (!open_as("broken", 0, MPI_INT, &file)) return;
  int value = 1;
  EXPECT_CLASS(MPI_File_write_at(file, check::rank, &value, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_CONVERSION, MPI_ERR_OTHER);
  EXPECT_CLASS(MPI_File_write_at_all(file, check::rank, &value, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_CONVERSION, MPI_ERR_OTHER);
  CHECK_OK(MPI_File_close(&file));
}

TEST(same_name_twice) {
  CHECK_OK(register_once("once", MPI_CONVERSION_FN_NULL, MPI_CONVERSION_FN_NULL, plain_extent, nullptr));
  EXPECT_CLASS(MPI_Register_datarep("once", MPI_CONVERSION_FN_NULL, MPI_CONVERSION_FN_NULL, plain_extent, nullptr),
               MPI_ERR_DUP_DATAREP);
  for (const char* name : {"native", "internal", "external32"})
    EXPECT_CLASS(MPI_Register_datarep(name, MPI_CONVERSION_FN_NULL, MPI_CONVERSION_FN_NULL, plain_extent, nullptr),
                 MPI_ERR_DUP_DATAREP);
}

TEST(bad_names) {
  const std::string too_long(MPI_MAX_DATAREP_STRING + 10, 'n');
  EXPECT_CLASS(MPI_Register_datarep(too_long.c_str(), MPI_CONVERSION_FN_NULL, MPI_CONVERSION_FN_NULL, plain_extent, nullptr),
               MPI_ERR_ARG);
}

TEST(unknown_name_in_a_view) {
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  EXPECT_CLASS(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "never registered", MPI_INFO_NULL), MPI_ERR_UNSUPPORTED_DATAREP);
  CHECK_OK(MPI_File_close(&file));
}

#if MPI_VERSION >= 4
namespace {

int wide_read_large(void* user, MPI_Datatype datatype, MPI_Count count, void* filebuf, MPI_Offset position, void* state) {
  return wide_read(user, datatype, static_cast<int>(count), filebuf, position, state);
}

int wide_write_large(void* user, MPI_Datatype datatype, MPI_Count count, void* filebuf, MPI_Offset position, void* state) {
  return wide_write(user, datatype, static_cast<int>(count), filebuf, position, state);
}

}  // namespace

TEST(large_count_registration) {
  CHECK_OK(MPI_Register_datarep_c("wide_c", wide_read_large, wide_write_large, wide_extent, &extra));
  EXPECT_CLASS(MPI_Register_datarep_c("wide_c", wide_read_large, wide_write_large, wide_extent, &extra), MPI_ERR_DUP_DATAREP);
  MPI_File file;
  if (!open_as("wide_c", 16 * check::rank, MPI_INT, &file)) return;
  int values[2] = {check::rank, 77}, back[2] = {};
  CHECK_OK(MPI_File_write_all(file, values, 2, MPI_INT, MPI_STATUS_IGNORE));
  CHECK_OK(MPI_File_read_at_c(file, 0, back, 2, MPI_INT, MPI_STATUS_IGNORE));
  CHECK_BYTES(back, values, sizeof values);
  CHECK_OK(MPI_File_close(&file));
}
#endif

TEST_MAIN(MPI_THREAD_SINGLE)
