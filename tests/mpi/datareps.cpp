// Data representations native, internal and external32, byte by byte, and the extents of types in a file
// (MPI 4.1 section 14.5).
// ranks: 1 3 4
#include "calls.h"

#include <array>
#include <cwchar>

using calls::Call;
using calls::Direction;
using check::open_on_world;
using check::scratch;

namespace {

int set_view(MPI_File file, MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype, const char* datarep) {
  return MPI_File_set_view(file, displacement, etype, filetype, datarep, MPI_INFO_NULL);
}

/// Opens a scratch file with a view of `etype` in `datarep` that starts at byte `displacement`.
bool open_as(const char* datarep, MPI_Datatype etype, MPI_Offset displacement, MPI_File* file) {
  check::make_file_for_all(scratch(), {});  // empty, whatever the test wrote before
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, file)) return false;
  const int code = set_view(*file, displacement, etype, etype, datarep);
  check::expect_success(code, (std::string("set_view ") + datarep).c_str(), __FILE__, __LINE__);
  if (check::all_ranks(code == MPI_SUCCESS)) return true;
  MPI_File_close(file);
  return false;
}

/// Writes `values`, compares the file with `expected`, reads them back.
template <typename T>
void check_bytes_in_file(MPI_Datatype type, const std::vector<T>& values, const check::Bytes& expected, int line) {
  const int count = static_cast<int>(values.size());
  const MPI_Offset mine = static_cast<MPI_Offset>(expected.size()) * check::rank;
  MPI_File file;
  if (!open_as("external32", type, mine, &file)) return;
  MPI_Status status;
  std::vector<T> memory = values;
  CHECK_OK(MPI_File_write_all(file, memory.data(), count, type, &status));
  CHECK_EQ(check::count_in(status, type), count);
  check::expect_bytes(memory.data(), values.data(), values.size() * sizeof(T), "the buffer after writing", __FILE__, line);
  std::fill(memory.begin(), memory.end(), T());
  CHECK_OK(MPI_File_read_at(file, 0, memory.data(), count, type, &status));
  CHECK_EQ(check::count_in(status, type), count);
  check::expect_bytes(memory.data(), values.data(), values.size() * sizeof(T), "what is read back", __FILE__, line);
  CHECK_OK(MPI_File_close(&file));
  check::barrier();
  const check::Bytes bytes = check::contents(scratch());
  if (CHECK_EQ(bytes.size(), expected.size() * static_cast<std::size_t>(check::size)))
    check::expect_bytes(bytes.data() + mine, expected.data(), expected.size(), "the file", __FILE__, line);
  check::barrier();
}

void check_extent(MPI_File file, MPI_Datatype type, MPI_Aint expected, const char* name) {
  MPI_Aint extent = -1;
  check::expect_success(MPI_File_get_type_extent(file, type, &extent), name, __FILE__, __LINE__);
  check::expect_equal(extent, expected, (std::string("extent of ") + name).c_str(), __FILE__, __LINE__);
  if (!check::have_large_count()) return;
  MPI_Count large = -1;
  check::expect_success(MPI_File_get_type_extent_c(file, type, &large), name, __FILE__, __LINE__);
  check::expect_equal(large, static_cast<MPI_Count>(expected), (std::string("large extent of ") + name).c_str(), __FILE__, __LINE__);
}

#define CHECK_EXTENT(file, type, expected) check_extent(file, type, expected, #type)

}  // namespace

TEST(external32_int) {
  check_bytes_in_file<int>(MPI_INT, {1, -2, 0x12345678, INT32_MIN},
                           {0, 0, 0, 1, 0xFF, 0xFF, 0xFF, 0xFE, 0x12, 0x34, 0x56, 0x78, 0x80, 0, 0, 0}, __LINE__);
}

TEST(external32_short) {
  check_bytes_in_file<short>(MPI_SHORT, {258, -1}, {1, 2, 0xFF, 0xFF}, __LINE__);
  check_bytes_in_file<unsigned short>(MPI_UNSIGNED_SHORT, {0xFFFE}, {0xFF, 0xFE}, __LINE__);
}

TEST(external32_char) {
  check_bytes_in_file<char>(MPI_CHAR, {'a', 'b', 'c'}, {'a', 'b', 'c'}, __LINE__);
  check_bytes_in_file<unsigned char>(MPI_BYTE, {1, 2, 3}, {1, 2, 3}, __LINE__);
}

TEST(external32_int64) {
  check_bytes_in_file<std::int64_t>(MPI_INT64_T, {1, -2, 0x0102030405060708},
                                    {0, 0, 0, 0, 0, 0, 0, 1, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFE, 1, 2, 3, 4, 5, 6, 7, 8},
                                    __LINE__);
}

// MPI_LONG has 4 bytes in external32, whatever the machine's (the table of section 14.5.2).
TEST(external32_long) { check_bytes_in_file<long>(MPI_LONG, {1, -2}, {0, 0, 0, 1, 0xFF, 0xFF, 0xFF, 0xFE}, __LINE__); }

TEST(external32_unsigned_long) {
  check_bytes_in_file<unsigned long>(MPI_UNSIGNED_LONG, {1, 0xFFFFFFFEu}, {0, 0, 0, 1, 0xFF, 0xFF, 0xFF, 0xFE}, __LINE__);
}

TEST(external32_float) {
  check_bytes_in_file<float>(MPI_FLOAT, {1.0f, -2.5f}, {0x3F, 0x80, 0, 0, 0xC0, 0x20, 0, 0}, __LINE__);
}

TEST(external32_double) {
  check_bytes_in_file<double>(MPI_DOUBLE, {1.0, -0.5}, {0x3F, 0xF0, 0, 0, 0, 0, 0, 0, 0xBF, 0xE0, 0, 0, 0, 0, 0, 0}, __LINE__);
}

TEST(external32_complex) {
  check_bytes_in_file<float>(MPI_FLOAT, {1.0f, 2.0f}, {0x3F, 0x80, 0, 0, 0x40, 0, 0, 0}, __LINE__);
  MPI_File file;
  if (!open_as("external32", MPI_C_FLOAT_COMPLEX, 8 * check::rank, &file)) return;
  const float value[2] = {1.0f, 2.0f};
  float back[2] = {};
  CHECK_OK(MPI_File_write_all(file, value, 1, MPI_C_FLOAT_COMPLEX, MPI_STATUS_IGNORE));
  CHECK_OK(MPI_File_read_at(file, 0, back, 1, MPI_C_FLOAT_COMPLEX, MPI_STATUS_IGNORE));
  CHECK_BYTES(back, value, sizeof value);
  CHECK_OK(MPI_File_close(&file));
  check::barrier();
  const check::Bytes bytes = check::contents(scratch());
  const unsigned char expected[8] = {0x3F, 0x80, 0, 0, 0x40, 0, 0, 0};
  if (CHECK(bytes.size() >= 8u)) CHECK_BYTES(bytes.data(), expected, 8);
}

TEST(external32_wide_character) { check_bytes_in_file<wchar_t>(MPI_WCHAR, {L'A', L'\u20AC'}, {0, 'A', 0x20, 0xAC}, __LINE__); }

TEST(external32_long_double) {
  // 1.0 and -2.0 in IEEE binary128; 80-bit values are held exactly.
  check::Bytes expected(32, 0);
  expected[0] = 0x3F, expected[1] = 0xFF, expected[16] = 0xC0;
  MPI_File file;
  if (!open_as("external32", MPI_LONG_DOUBLE, 32 * check::rank, &file)) return;
  long double values[2] = {1.0L, -2.0L}, back[2] = {};
  CHECK_OK(MPI_File_write_all(file, values, 2, MPI_LONG_DOUBLE, MPI_STATUS_IGNORE));
  CHECK_OK(MPI_File_read_at(file, 0, back, 2, MPI_LONG_DOUBLE, MPI_STATUS_IGNORE));
  CHECK(back[0] == values[0]);
  CHECK(back[1] == values[1]);
  CHECK_OK(MPI_File_close(&file));
  check::barrier();
  const check::Bytes bytes = check::contents(scratch());
  if (CHECK(bytes.size() >= 32u)) CHECK_BYTES(bytes.data(), expected.data(), 32);
}

TEST(external32_pairs) {
  check_bytes_in_file<std::array<int, 2>>(MPI_2INT, {{1, -2}, {258, 3}}, {0, 0, 0, 1, 0xFF, 0xFF, 0xFF, 0xFE, 0, 0, 1, 2, 0, 0, 0, 3}, __LINE__);
  if (MPI_2INTEGER != MPI_DATATYPE_NULL)
    check_bytes_in_file<std::array<int, 2>>(MPI_2INTEGER, {{1, -2}}, {0, 0, 0, 1, 0xFF, 0xFF, 0xFF, 0xFE}, __LINE__);
  if (MPI_2REAL != MPI_DATATYPE_NULL)
    check_bytes_in_file<std::array<float, 2>>(MPI_2REAL, {{1.0f, -2.5f}}, {0x3F, 0x80, 0, 0, 0xC0, 0x20, 0, 0}, __LINE__);
  if (MPI_2DOUBLE_PRECISION != MPI_DATATYPE_NULL)
    check_bytes_in_file<std::array<double, 2>>(MPI_2DOUBLE_PRECISION, {{1.0, -0.5}}, {0x3F, 0xF0, 0, 0, 0, 0, 0, 0, 0xBF, 0xE0, 0, 0, 0, 0, 0, 0},
                                               __LINE__);
}

TEST(external32_pair_with_a_gap) {
  struct Pair {
    double value;
    int place;
  };
  MPI_File file;
  if (!open_as("external32", MPI_DOUBLE_INT, 24 * check::rank, &file)) return;
  const Pair pairs[2] = {{1.0, 258}, {-0.5, -1}};
  Pair back[2] = {};
  CHECK_OK(MPI_File_write_all(file, pairs, 2, MPI_DOUBLE_INT, MPI_STATUS_IGNORE));
  CHECK_OK(MPI_File_read_at(file, 0, back, 2, MPI_DOUBLE_INT, MPI_STATUS_IGNORE));
  for (int i = 0; i < 2; ++i) CHECK(back[i].value == pairs[i].value && back[i].place == pairs[i].place);
  CHECK_OK(MPI_File_close(&file));
  check::barrier();
  const check::Bytes bytes = check::contents(scratch());
  const check::Bytes expected = {0x3F, 0xF0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 0xBF, 0xE0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF};
  if (CHECK_EQ(bytes.size(), 24u * static_cast<unsigned>(check::size))) CHECK_BYTES(bytes.data() + 24 * check::rank, expected.data(), 24);
}

TEST(external32_optional_types_of_fortran) {
  // Where the library has them; each a number that only changes its byte order.
  struct Sixteen {
    unsigned char bytes[16];
  };
  Sixteen up, down;
  for (int i = 0; i < 16; ++i) up.bytes[i] = static_cast<unsigned char>(i + 1), down.bytes[i] = static_cast<unsigned char>(16 - i);
  const check::Bytes reversed(down.bytes, down.bytes + 16);
  check::Bytes twice = reversed;
  twice.insert(twice.end(), reversed.begin(), reversed.end());
  int size = 0;
#ifdef MPI_COMPLEX32
  if (MPI_COMPLEX32 != MPI_DATATYPE_NULL && MPI_Type_size(MPI_COMPLEX32, &size) == MPI_SUCCESS && size == 32)
    check_bytes_in_file<std::array<Sixteen, 2>>(MPI_COMPLEX32, {{up, up}}, twice, __LINE__);
#endif
#ifdef MPI_INTEGER16
  if (MPI_INTEGER16 != MPI_DATATYPE_NULL && MPI_Type_size(MPI_INTEGER16, &size) == MPI_SUCCESS && size == 16)
    check_bytes_in_file<Sixteen>(MPI_INTEGER16, {up}, reversed, __LINE__);
#endif
#ifdef MPI_LOGICAL1
  if (MPI_LOGICAL1 != MPI_DATATYPE_NULL && MPI_Type_size(MPI_LOGICAL1, &size) == MPI_SUCCESS && size == 1)
    check_bytes_in_file<std::int8_t>(MPI_LOGICAL1, {1, 0}, {1, 0}, __LINE__);
#endif
#ifdef MPI_LOGICAL2
  if (MPI_LOGICAL2 != MPI_DATATYPE_NULL && MPI_Type_size(MPI_LOGICAL2, &size) == MPI_SUCCESS && size == 2)
    check_bytes_in_file<std::int16_t>(MPI_LOGICAL2, {1, 0}, {0, 1, 0, 0}, __LINE__);
#endif
#ifdef MPI_LOGICAL8
  if (MPI_LOGICAL8 != MPI_DATATYPE_NULL && MPI_Type_size(MPI_LOGICAL8, &size) == MPI_SUCCESS && size == 8)
    check_bytes_in_file<std::int64_t>(MPI_LOGICAL8, {1}, {0, 0, 0, 0, 0, 0, 0, 1}, __LINE__);
#endif
#ifdef MPIX_C_FLOAT16
  if (MPIX_C_FLOAT16 != MPI_DATATYPE_NULL && MPI_Type_size(MPIX_C_FLOAT16, &size) == MPI_SUCCESS && size == 2)
    check_bytes_in_file<std::uint16_t>(MPIX_C_FLOAT16, {0x3C00, 0x8001}, {0x3C, 0, 0x80, 1}, __LINE__);
#endif
}

TEST(external32_real_of_eighteen_digits) {
  // Fortran's real of 80 bits, where the library has a type for it: binary128 in the file, as long double is.
  if (sizeof(long double) != 16) return;
  MPI_Datatype real = MPI_DATATYPE_NULL;
  if (MPI_Type_create_f90_real(18, MPI_UNDEFINED, &real) != MPI_SUCCESS || real == MPI_DATATYPE_NULL) return;
  int size = 0;
  MPI_Type_size(real, &size);
  if (!CHECK_EQ(size, 16)) return;
  MPI_File file;
  if (!open_as("external32", real, 32 * check::rank, &file)) return;
  const long double values[2] = {1.0L, -2.0L};
  long double back[2] = {};
  CHECK_OK(MPI_File_write_all(file, values, 2, real, MPI_STATUS_IGNORE));
  CHECK_OK(MPI_File_read_at(file, 0, back, 2, real, MPI_STATUS_IGNORE));
  CHECK(back[0] == values[0] && back[1] == values[1]);
  CHECK_OK(MPI_File_close(&file));
  check::barrier();
  check::Bytes expected(32, 0);
  expected[0] = 0x3F, expected[1] = 0xFF, expected[16] = 0xC0;
  const check::Bytes bytes = check::contents(scratch());
  if (CHECK(bytes.size() >= 32u)) CHECK_BYTES(bytes.data(), expected.data(), 32);
}

TEST(external32_every_call) {
  for (const Call& call : calls::all_calls()) {
    MPI_File file;
    if (!open_as("external32", MPI_INT, 0, &file)) return;
    int values[3] = {check::rank, -1 - check::rank, 0x01020304}, back[3] = {};
    const std::string what = name_of(call, Direction::write);
    if (call.pointer == calls::Pointer::individual) CHECK_OK(MPI_File_seek(file, 3 * check::rank, MPI_SEEK_SET));
    if (call.pointer == calls::Pointer::shared && !is_collective(call)) {
      for (int turn = 0; turn < check::size; ++turn) {
        if (turn == check::rank)
          check::expect_success(transfer(call, Direction::write, file, 0, values, 3, MPI_INT, MPI_STATUS_IGNORE), what.c_str(),
                                __FILE__, __LINE__);
        check::barrier();
      }
    } else {
      check::expect_success(transfer(call, Direction::write, file, 3 * check::rank, values, 3, MPI_INT, MPI_STATUS_IGNORE),
                            what.c_str(), __FILE__, __LINE__);
    }
    CHECK_OK(MPI_File_read_at(file, 3 * check::rank, back, 3, MPI_INT, MPI_STATUS_IGNORE));
    check::expect_bytes(back, values, sizeof values, what.c_str(), __FILE__, __LINE__);
    CHECK_OK(MPI_File_close(&file));
    check::barrier();
    const check::Bytes bytes = check::contents(scratch());
    if (CHECK_EQ(bytes.size(), 12u * static_cast<unsigned>(check::size))) {
      const unsigned char expected[12] = {0, 0, 0, static_cast<unsigned char>(check::rank), 0xFF, 0xFF, 0xFF,
                                          static_cast<unsigned char>(0xFF - check::rank), 1, 2, 3, 4};
      check::expect_bytes(bytes.data() + 12 * check::rank, expected, 12, (what + ": the file").c_str(), __FILE__, __LINE__);
    }
    check::barrier();
  }
}

TEST(external32_strided_view_and_memory) {
  check::make_file_for_all(scratch(), check::Bytes(static_cast<std::size_t>(40 * check::size), 0));
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_RDWR, &file)) return;
  MPI_Datatype filetype, memory_type;
  MPI_Type_create_resized(MPI_INT, 0, 4 * check::size, &filetype);
  MPI_Type_commit(&filetype);
  MPI_Type_vector(5, 1, 2, MPI_INT, &memory_type);
  MPI_Type_commit(&memory_type);
  const int code = set_view(file, 4 * check::rank, MPI_INT, filetype, "external32");
  CHECK_OK(code);
  if (check::all_ranks(code == MPI_SUCCESS)) {
    int memory[10], back[10];
    for (int i = 0; i < 10; ++i) memory[i] = i % 2 ? -1 : 100 * check::rank + i, back[i] = -1;
    MPI_Status status;
    CHECK_OK(MPI_File_write_all(file, memory, 1, memory_type, &status));
    CHECK_EQ(check::count_in(status, memory_type), 1);
    CHECK_OK(MPI_File_read_at_all(file, 0, back, 1, memory_type, &status));
    CHECK_BYTES(back, memory, sizeof memory);
    check::sync_all(file);
    if (check::rank == 0) {
      const check::Bytes bytes = check::contents(scratch());
      for (int r = 0; r < check::size; ++r)
        for (int i = 0; i < 5; ++i) {
          const int value = 100 * r + 2 * i;
          const unsigned char expected[4] = {0, 0, static_cast<unsigned char>(value >> 8), static_cast<unsigned char>(value)};
          CHECK_BYTES(bytes.data() + 4 * (i * check::size + r), expected, 4);
        }
    }
  }
  CHECK_OK(MPI_File_close(&file));
  MPI_Type_free(&filetype);
  MPI_Type_free(&memory_type);
}

TEST(external32_struct) {
  // A char, a double and a short without gaps in the file: the displacements come from the extents in the file.
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  struct Mixed {
    char letter;
    double number;
    short small;
  } mine = {'q', 1.0, 515}, back = {};
  int lengths[3] = {1, 1, 1};
  MPI_Datatype types[3] = {MPI_CHAR, MPI_DOUBLE, MPI_SHORT}, memory_type, raw, filetype;
  MPI_Aint memory_places[3] = {offsetof(Mixed, letter), offsetof(Mixed, number), offsetof(Mixed, small)};
  MPI_Aint file_places[3] = {0, 1, 9};
  MPI_Type_create_struct(3, lengths, memory_places, types, &memory_type);
  MPI_Type_commit(&memory_type);
  MPI_Type_create_struct(3, lengths, file_places, types, &raw);
  MPI_Type_create_resized(raw, 0, 11, &filetype);
  MPI_Type_commit(&filetype);
  const int code = set_view(file, 11 * check::rank, filetype, filetype, "external32");
  CHECK_OK(code);
  if (check::all_ranks(code == MPI_SUCCESS)) {
    CHECK_OK(MPI_File_write_at_all(file, 0, &mine, 1, memory_type, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_read_at_all(file, 0, &back, 1, memory_type, MPI_STATUS_IGNORE));
    CHECK_EQ(back.letter, mine.letter);
    CHECK_EQ(back.number, mine.number);
    CHECK_EQ(back.small, mine.small);
    check::sync_all(file);
    const unsigned char expected[11] = {'q', 0x3F, 0xF0, 0, 0, 0, 0, 0, 0, 2, 3};
    const check::Bytes bytes = check::contents(scratch());
    if (CHECK_EQ(bytes.size(), 11u * static_cast<unsigned>(check::size)))
      CHECK_BYTES(bytes.data() + 11 * check::rank, expected, 11);
  }
  CHECK_OK(MPI_File_close(&file));
  MPI_Type_free(&memory_type);
  MPI_Type_free(&raw);
  MPI_Type_free(&filetype);
}

TEST(external32_reads_short_at_the_end) {
  check::make_file_for_all(scratch(), {0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3});
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_RDONLY, &file)) return;
  const int code = set_view(file, 0, MPI_INT, MPI_INT, "external32");
  CHECK_OK(code);
  if (check::all_ranks(code == MPI_SUCCESS)) {
    int back[5] = {-1, -1, -1, -1, -1};
    MPI_Status status;
    CHECK_OK(MPI_File_read_at(file, 1, back, 5, MPI_INT, &status));
    CHECK_EQ(check::count_in(status, MPI_INT), 2);
    CHECK_EQ(back[0], 2);
    CHECK_EQ(back[1], 3);
  }
  CHECK_OK(MPI_File_close(&file));
}

TEST(external32_long_reads_short_at_the_end) {
  // Counts are in elements, although a long has 4 bytes in the file and 8 in memory.
  check::make_file_for_all(scratch(), {0, 0, 0, 1, 0, 0, 0, 2, 0xFF, 0xFF, 0xFF, 0xFD});
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_RDONLY, &file)) return;
  const int code = set_view(file, 0, MPI_LONG, MPI_LONG, "external32");
  CHECK_OK(code);
  if (check::all_ranks(code == MPI_SUCCESS)) {
    long back[5] = {-1, -1, -1, -1, -1};
    MPI_Status status;
    CHECK_OK(MPI_File_read_at_all(file, 1, back, 5, MPI_LONG, &status));
    CHECK_EQ(check::count_in(status, MPI_LONG), 2);
    CHECK_EQ(back[0], 2);
    CHECK_EQ(back[1], -3);
    MPI_Offset offset = -1;
    CHECK_OK(MPI_File_get_byte_offset(file, 3, &offset));
    CHECK_EQ(offset, 12);
  }
  CHECK_OK(MPI_File_close(&file));
}

TEST(external32_counts_elements_of_a_cut_item) {
  // An item and a half: a long and an int, then one more long.
  struct Item {
    long large;
    int small;
  };
  check::make_file_for_all(scratch(), {0, 0, 0, 1, 0, 0, 0, 2, 0xFF, 0xFF, 0xFF, 0xFD});
  int lengths[2] = {1, 1};
  MPI_Datatype types[2] = {MPI_LONG, MPI_INT}, plain, item;
  MPI_Aint places[2] = {offsetof(Item, large), offsetof(Item, small)};
  MPI_Type_create_struct(2, lengths, places, types, &plain);
  MPI_Type_create_resized(plain, 0, sizeof(Item), &item);
  MPI_Type_commit(&item);
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_RDONLY, &file)) return;
  CHECK_OK(set_view(file, 0, MPI_INT, MPI_INT, "external32"));
  for (const Call& call : calls::all_calls()) {
    if (call.pointer != calls::Pointer::at) continue;
    Item back[3] = {{-1, -1}, {-1, -1}, {-1, -1}};
    MPI_Status status;
    const std::string what = name_of(call, Direction::read);
    check::expect_success(transfer(call, Direction::read, file, 0, back, 3, item, &status), what.c_str(), __FILE__, __LINE__);
    int elements = -1;
    MPI_Get_elements(&status, item, &elements);
    check::expect_equal(elements, 3, what.c_str(), __FILE__, __LINE__);
    check::expect_equal(check::bytes_in(status), 2 * sizeof(long) + sizeof(int), what.c_str(), __FILE__, __LINE__);
    CHECK(back[0].large == 1 && back[0].small == 2 && back[1].large == -3 && back[1].small == -1 && back[2].large == -1);
  }
  CHECK_OK(MPI_File_close(&file));
  MPI_Type_free(&plain);
  MPI_Type_free(&item);
}

TEST(external32_types_may_be_freed_in_flight) {
  // Section 5.1.9: freeing a datatype does not disturb what uses it.  Large, so that the type is gone before the data is there.
  constexpr int count = 1 << 20;
  MPI_File file;
  if (!open_as("external32", MPI_INT, MPI_Offset(4) * count * check::rank, &file)) return;
  std::vector<int> values(2 * count), back;
  for (int i = 0; i < 2 * count; ++i) values[static_cast<std::size_t>(i)] = i % 2 == 0 ? i ^ check::rank : -1;
  for (const Call& call : calls::all_calls())
    for (const Direction direction : {Direction::write, Direction::read}) {
      if (call.pointer != calls::Pointer::at || call.large) continue;
      if (call.style == calls::Style::blocking || call.style == calls::Style::collective) continue;
      MPI_Datatype every_other;
      MPI_Type_vector(count, 1, 2, MPI_INT, &every_other);
      MPI_Type_commit(&every_other);
      back.assign(2 * count, -1);
      int* const memory = direction == Direction::write ? values.data() : back.data();
      const std::string what = name_of(call, direction);
      MPI_Request request = MPI_REQUEST_NULL;
      MPI_Status status;
      const bool split = call.style == calls::Style::split;
      check::expect_success(split ? split_begin(call, direction, file, 0, memory, 1, every_other)
                                  : start(call, direction, file, 0, memory, 1, every_other, &request),
                            what.c_str(), __FILE__, __LINE__);
      MPI_Type_free(&every_other);
      check::expect_success(split ? split_end(call, direction, file, memory, &status) : MPI_Wait(&request, &status), what.c_str(), __FILE__, __LINE__);
      check::expect_equal(check::count_in(status, MPI_INT), count, what.c_str(), __FILE__, __LINE__);
      if (direction == Direction::read) check::expect_bytes(back.data(), values.data(), 8u * count, what.c_str(), __FILE__, __LINE__);
    }
  CHECK_OK(MPI_File_close(&file));
}

TEST(external32_leaves_bytes_alone) {
  // Items of MPI_BYTE are never converted (section 14.5).
  check_bytes_in_file<unsigned char>(MPI_BYTE, {9, 8, 7, 6, 5, 4, 3, 2}, {9, 8, 7, 6, 5, 4, 3, 2}, __LINE__);
  check_bytes_in_file<unsigned char>(MPI_PACKED, {9, 8, 7, 6}, {9, 8, 7, 6}, __LINE__);
}

TEST(get_view_names_the_representation) {
  for (const char* name : {"native", "internal", "external32"}) {
    MPI_File file;
    if (!open_as(name, MPI_INT, 0, &file)) continue;
    char back[MPI_MAX_DATAREP_STRING] = "";
    MPI_Offset displacement;
    MPI_Datatype etype, filetype;
    CHECK_OK(MPI_File_get_view(file, &displacement, &etype, &filetype, back));
    CHECK_EQ(std::string(back), std::string(name));
    CHECK_OK(MPI_File_close(&file));
  }
}

TEST(internal_round_trip) {
  MPI_File file;
  if (!open_as("internal", MPI_DOUBLE, 80 * check::rank, &file)) return;
  double values[10], back[10] = {};
  for (int i = 0; i < 10; ++i) values[i] = check::rank + 0.125 * i;
  CHECK_OK(MPI_File_write_all(file, values, 10, MPI_DOUBLE, MPI_STATUS_IGNORE));
  CHECK_OK(MPI_File_read_at_all(file, 0, back, 10, MPI_DOUBLE, MPI_STATUS_IGNORE));
  CHECK_BYTES(back, values, sizeof values);
  CHECK_OK(MPI_File_close(&file));
}

TEST(native_is_memory) {
  MPI_File file;
  if (!open_as("native", MPI_DOUBLE, 80 * check::rank, &file)) return;
  double values[10];
  for (int i = 0; i < 10; ++i) values[i] = check::rank + 0.125 * i;
  CHECK_OK(MPI_File_write_all(file, values, 10, MPI_DOUBLE, MPI_STATUS_IGNORE));
  CHECK_OK(MPI_File_close(&file));
  check::barrier();
  const check::Bytes bytes = check::contents(scratch());
  if (CHECK_EQ(bytes.size(), 80u * static_cast<unsigned>(check::size)))
    CHECK_BYTES(bytes.data() + 80 * check::rank, values, sizeof values);
}

TEST(extents_native) {
  MPI_File file;
  if (!open_as("native", MPI_BYTE, 0, &file)) return;
  CHECK_EXTENT(file, MPI_INT, 4);
  CHECK_EXTENT(file, MPI_LONG, static_cast<MPI_Aint>(sizeof(long)));
  CHECK_EXTENT(file, MPI_DOUBLE, 8);
  MPI_Datatype wide;
  MPI_Type_create_resized(MPI_INT, 0, 100, &wide);
  MPI_Type_commit(&wide);
  CHECK_EXTENT(file, wide, 100);
  MPI_Type_free(&wide);
  CHECK_OK(MPI_File_close(&file));
}

TEST(extents_external32) {
  MPI_File file;
  if (!open_as("external32", MPI_BYTE, 0, &file)) return;
  CHECK_EXTENT(file, MPI_BYTE, 1);
  CHECK_EXTENT(file, MPI_CHAR, 1);
  CHECK_EXTENT(file, MPI_WCHAR, 2);
  CHECK_EXTENT(file, MPI_SHORT, 2);
  CHECK_EXTENT(file, MPI_INT, 4);
  CHECK_EXTENT(file, MPI_LONG, 4);
  CHECK_EXTENT(file, MPI_UNSIGNED_LONG, 4);
  CHECK_EXTENT(file, MPI_LONG_LONG, 8);
  CHECK_EXTENT(file, MPI_FLOAT, 4);
  CHECK_EXTENT(file, MPI_DOUBLE, 8);
  CHECK_EXTENT(file, MPI_LONG_DOUBLE, 16);
  CHECK_EXTENT(file, MPI_C_BOOL, 1);
  CHECK_EXTENT(file, MPI_AINT, 8);
  CHECK_EXTENT(file, MPI_OFFSET, 8);
  MPI_Datatype several;
  MPI_Type_contiguous(5, MPI_LONG, &several);
  MPI_Type_commit(&several);
  CHECK_EXTENT(file, several, 20);
  MPI_Type_free(&several);
  CHECK_OK(MPI_File_close(&file));
}

TEST_MAIN(MPI_THREAD_SINGLE)
