// File views: what set_view takes and refuses, what get_view gives back, and where bytes land (MPI 4.1 section 14.3).
// ranks: 1 3 4
#include "check.h"

using check::open_on_world;
using check::scratch;

namespace {

MPI_Datatype committed(MPI_Datatype type) {
  MPI_Type_commit(&type);
  return type;
}

MPI_Datatype vector_of_ints(int count, int block, int stride) {
  MPI_Datatype type;
  MPI_Type_vector(count, block, stride, MPI_INT, &type);
  return committed(type);
}

struct View {
  MPI_Offset displacement = -1;
  MPI_Datatype etype = MPI_DATATYPE_NULL, filetype = MPI_DATATYPE_NULL;
  std::string datarep;
};

int combiner_of(MPI_Datatype type) {
  int integers, addresses, types, combiner = -1;
  MPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner);
  return combiner;
}

View view_of(MPI_File file) {
  View view;
  char name[MPI_MAX_DATAREP_STRING] = "";
  CHECK_OK(MPI_File_get_view(file, &view.displacement, &view.etype, &view.filetype, name));
  view.datarep = name;
  return view;
}

/// What get_view gave is ours to free, unless it is predefined.
void free_types(View* view) {
  for (MPI_Datatype* type : {&view->etype, &view->filetype})
    if (*type != MPI_DATATYPE_NULL && combiner_of(*type) != MPI_COMBINER_NAMED) CHECK_OK(MPI_Type_free(type));
}

void check_same_map(MPI_Datatype got, MPI_Datatype expected) {
  MPI_Count got_size, expected_size, got_lower, expected_lower, got_extent, expected_extent;
  MPI_Type_size_x(got, &got_size), MPI_Type_size_x(expected, &expected_size);
  CHECK_EQ(got_size, expected_size);
  MPI_Type_get_extent_x(got, &got_lower, &got_extent), MPI_Type_get_extent_x(expected, &expected_lower, &expected_extent);
  CHECK_EQ(got_lower, expected_lower);
  CHECK_EQ(got_extent, expected_extent);
  MPI_Type_get_true_extent_x(got, &got_lower, &got_extent);
  MPI_Type_get_true_extent_x(expected, &expected_lower, &expected_extent);
  CHECK_EQ(got_lower, expected_lower);
  CHECK_EQ(got_extent, expected_extent);
}

int set_view(MPI_File file, MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype, const char* datarep = "native") {
  return MPI_File_set_view(file, displacement, etype, filetype, datarep, MPI_INFO_NULL);
}

}  // namespace

TEST(default_view) {
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  View view = view_of(file);
  CHECK_EQ(view.displacement, 0);
  CHECK(view.etype == MPI_BYTE);
  CHECK(view.filetype == MPI_BYTE);
  CHECK_EQ(view.datarep, std::string("native"));
  CHECK_OK(MPI_File_close(&file));
}

TEST(predefined_types_come_back) {
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  for (MPI_Datatype type : {MPI_INT, MPI_DOUBLE, MPI_CHAR, MPI_INT64_T}) {
    CHECK_OK(set_view(file, 24, type, type));
    View view = view_of(file);
    CHECK_EQ(view.displacement, 24);
    CHECK(view.etype == type);
    CHECK(view.filetype == type);
    free_types(&view);
  }
  CHECK_OK(MPI_File_close(&file));
}

TEST(derived_types_come_back) {
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  MPI_Datatype etype, filetype;
  MPI_Type_contiguous(2, MPI_INT, &etype);
  MPI_Type_commit(&etype);
  MPI_Type_vector(3, 1, 4, etype, &filetype);
  MPI_Type_commit(&filetype);
  CHECK_OK(set_view(file, 100, etype, filetype));
  View view = view_of(file);
  CHECK_EQ(view.displacement, 100);
  CHECK_EQ(view.datarep, std::string("native"));
  check_same_map(view.etype, etype);
  check_same_map(view.filetype, filetype);
  CHECK(combiner_of(view.etype) != MPI_COMBINER_NAMED);
  CHECK(combiner_of(view.filetype) != MPI_COMBINER_NAMED);
  MPI_Type_free(&etype);
  MPI_Type_free(&filetype);
  // They can be set again, and freed while in force.
  CHECK_OK(set_view(file, 8, view.etype, view.filetype));
  free_types(&view);
  view = view_of(file);
  CHECK_EQ(view.displacement, 8);
  free_types(&view);
  // And can describe memory.
  CHECK_OK(MPI_File_close(&file));
}

TEST(types_may_be_freed_at_once) {
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  MPI_Datatype filetype = vector_of_ints(2, 1, check::size);
  CHECK_OK(set_view(file, 4 * check::rank, MPI_INT, filetype));
  MPI_Type_free(&filetype);
  int values[2] = {check::rank, 100 + check::rank};
  CHECK_OK(MPI_File_write_all(file, values, 2, MPI_INT, MPI_STATUS_IGNORE));
  CHECK_OK(MPI_File_close(&file));
  check::barrier();
  if (check::rank == 0) {
    const check::Bytes bytes = check::contents(scratch());
    if (!CHECK_EQ(bytes.size(), 8u * static_cast<unsigned>(check::size))) return;
    const int* got = reinterpret_cast<const int*>(bytes.data());
    for (int r = 0; r < check::size; ++r) {
      CHECK_EQ(got[r], r);
      CHECK_EQ(got[check::size + r], 100 + r);
    }
  }
}

// A filetype's extent says nothing of where its data lies: HDF5 makes filetypes whose extent is smaller, and writes one copy.
TEST(extent_smaller_than_the_data) {
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  int lengths[2] = {1, 1}, places[2] = {0, 2};
  MPI_Datatype apart, filetype;
  MPI_Type_indexed(2, lengths, places, MPI_INT, &apart);
  MPI_Type_create_resized(apart, 0, sizeof(int), &filetype);
  MPI_Type_commit(&filetype);
  CHECK_OK(set_view(file, 16 * check::rank, MPI_INT, filetype));
  const int base = 10 * check::rank;
  int values[4] = {base, base + 1, base + 2, base + 3};
  MPI_Status status;
  CHECK_OK(MPI_File_write_all(file, values, 4, MPI_INT, &status));
  CHECK_EQ(check::count_in(status, MPI_INT), 4);
  int again[4] = {-1, -1, -1, -1};
  CHECK_OK(MPI_File_read_at_all(file, 1, again, 2, MPI_INT, &status));
  CHECK_EQ(check::count_in(status, MPI_INT), 2);
  CHECK_EQ(again[0], base + 1);
  CHECK_EQ(again[1], base + 2);
  MPI_Type_free(&filetype);
  MPI_Type_free(&apart);
  CHECK_OK(set_view(file, 0, MPI_INT, MPI_INT));
  CHECK_OK(MPI_File_read_at_all(file, 4 * check::rank, again, 4, MPI_INT, &status));
  const int expected[4] = {base, base + 2, base + 1, base + 3};
  for (int i = 0; i < 4; ++i) CHECK_EQ(again[i], expected[i]);
  CHECK_OK(MPI_File_close(&file));
}

TEST(view_resets_both_pointers) {
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  for (int view = 0; view < 4; ++view) {  // each time: what the pointers were two views ago counts as little
    CHECK_OK(MPI_File_seek(file, 10 + view, MPI_SEEK_SET));
    CHECK_OK(MPI_File_seek_shared(file, 20 + view, MPI_SEEK_SET));
    CHECK_OK(set_view(file, 0, MPI_INT, MPI_INT));
    MPI_Offset position = -1;
    CHECK_OK(MPI_File_get_position(file, &position));
    CHECK_EQ(position, 0);
    CHECK_OK(MPI_File_get_position_shared(file, &position));
    CHECK_EQ(position, 0);
  }
  CHECK_OK(MPI_File_close(&file));
}

TEST(tiles_follow_the_extent) {
  // A filetype of two ints in an extent of five, twice: ints 0, 1, 5, 6 from the displacement on.
  check::make_file_for_all(scratch(), check::Bytes(static_cast<std::size_t>(100 * check::size + 100), 0));
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  MPI_Datatype pair, filetype;
  MPI_Type_contiguous(2, MPI_INT, &pair);
  MPI_Type_create_resized(pair, 0, 20, &filetype);
  MPI_Type_commit(&filetype);
  CHECK_OK(set_view(file, 3 + 100 * check::rank, MPI_INT, filetype));
  int values[4] = {1, 2, 3, 4};
  CHECK_OK(MPI_File_write(file, values, 4, MPI_INT, MPI_STATUS_IGNORE));
  MPI_Offset offset = -1;
  CHECK_OK(MPI_File_get_byte_offset(file, 3, &offset));
  CHECK_EQ(offset, 3 + 100 * check::rank + 24);
  CHECK_OK(MPI_File_close(&file));
  MPI_Type_free(&pair);
  MPI_Type_free(&filetype);
  check::barrier();
  const check::Bytes bytes = check::contents(scratch());
  if (!CHECK(bytes.size() >= static_cast<std::size_t>(3 + 100 * check::rank + 28))) return;
  int got[7];
  std::memcpy(got, bytes.data() + 3 + 100 * check::rank, sizeof got);
  CHECK_EQ(got[0], 1);
  CHECK_EQ(got[1], 2);
  CHECK_EQ(got[2], 0);
  CHECK_EQ(got[4], 0);
  CHECK_EQ(got[5], 3);
  CHECK_EQ(got[6], 4);
}

TEST(elements_at_one_place_and_inside_of_others_can_be_read) {
  // Displacements that do not decrease are all that the standard asks of a filetype that is read through (MPI 4.1 section 14.1.1).
  check::Bytes content(static_cast<std::size_t>(200));
  for (std::size_t i = 0; i < content.size(); ++i) content[i] = static_cast<unsigned char>(i);
  check::make_file_for_all(scratch(), content);
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_RDONLY, &file)) return;
  int lengths[4] = {1, 1, 1, 2};
  MPI_Aint places[4] = {0, 0, 2, 8};  // bytes 0-3, 0-3, 2-5, 8-15; the next copy 13 further
  MPI_Datatype spread, filetype;
  MPI_Type_create_hindexed(4, lengths, places, MPI_INT, &spread);
  MPI_Type_create_resized(spread, 0, 13, &filetype);
  MPI_Type_commit(&filetype);
  CHECK_OK(set_view(file, 10, MPI_INT, filetype));
  const int first[20] = {0, 1, 2, 3, 0, 1, 2, 3, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15};
  unsigned char got[60];
  MPI_Status status;
  CHECK_OK(MPI_File_read_all(file, got, 15, MPI_INT, &status));
  CHECK_EQ(check::count_in(status, MPI_INT), 15);
  for (int i = 0; i < 60; ++i)
    if (!CHECK_EQ(int{got[i]}, 10 + 13 * (i / 20) + first[i % 20])) break;
  CHECK_OK(MPI_File_read_at(file, 3, got, 2, MPI_INT, &status));  // from within one copy into the next
  CHECK_EQ(int{got[0]}, 10 + 8);
  CHECK_EQ(int{got[4]}, 10 + 12);
  // The file ends in copy 14, which begins at byte 192: of its ints 192-195, 192-195, 194-197, 200-207 three are there.
  CHECK_OK(MPI_File_read_at(file, 14 * 5, got, 15, MPI_INT, &status));
  CHECK_EQ(check::count_in(status, MPI_INT), 3);
  CHECK_OK(MPI_File_close(&file));
  MPI_Type_free(&spread);
  MPI_Type_free(&filetype);
}

TEST(lower_bound_below_zero) {
  // A negative lower bound moves nothing by itself: bytes are where the typemap says, copies an extent apart.
  check::make_file_for_all(scratch(), check::Bytes(static_cast<std::size_t>(100 * check::size + 100), 0));
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  MPI_Datatype filetype;
  MPI_Type_create_resized(MPI_INT, -4, 12, &filetype);
  MPI_Type_commit(&filetype);
  CHECK_OK(set_view(file, 100 * check::rank, MPI_INT, filetype));
  int values[2] = {11, 22};
  CHECK_OK(MPI_File_write_at_all(file, 0, values, 2, MPI_INT, MPI_STATUS_IGNORE));
  CHECK_OK(MPI_File_close(&file));
  MPI_Type_free(&filetype);
  check::barrier();
  const check::Bytes bytes = check::contents(scratch());
  if (!CHECK(bytes.size() >= static_cast<std::size_t>(100 * check::rank + 16))) return;
  int got[4];
  std::memcpy(got, bytes.data() + 100 * check::rank, sizeof got);
  CHECK_EQ(got[0], 11);
  CHECK_EQ(got[1], 0);
  CHECK_EQ(got[3], 22);
}

TEST(gaps_of_a_new_file_are_zero) {
  // The standard leaves bytes undefined that nobody wrote; what we promise is that of the file system: zeros.
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  MPI_Datatype filetype = vector_of_ints(20, 1, 3);
  CHECK_OK(set_view(file, 300 * check::rank, MPI_INT, filetype));
  std::vector<int> values(20, -1);
  CHECK_OK(MPI_File_write(file, values.data(), 20, MPI_INT, MPI_STATUS_IGNORE));
  CHECK_OK(MPI_File_close(&file));
  MPI_Type_free(&filetype);
  check::barrier();
  if (check::rank != 0) return;
  const check::Bytes bytes = check::contents(scratch());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const std::size_t within = i % 300;
    const bool written = within < 232 && within % 12 < 4;
    if (!CHECK_EQ(bytes[i], written ? 255 : 0)) return;
  }
}

TEST(zero_length_blocks) {
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  int lengths[] = {0, 1, 0, 2, 0}, places[] = {0, 1, 2, 4, 9};
  MPI_Datatype filetype;
  MPI_Type_indexed(5, lengths, places, MPI_INT, &filetype);
  MPI_Type_commit(&filetype);
  CHECK_OK(set_view(file, 1000 * check::rank, MPI_INT, filetype));
  int values[6] = {1, 2, 3, 4, 5, 6};
  CHECK_OK(MPI_File_write_all(file, values, 6, MPI_INT, MPI_STATUS_IGNORE));
  int back[6] = {};
  CHECK_OK(MPI_File_read_at(file, 0, back, 6, MPI_INT, MPI_STATUS_IGNORE));
  CHECK_BYTES(back, values, sizeof values);
  MPI_Count lower, extent;
  MPI_Type_get_extent_x(filetype, &lower, &extent);
  MPI_Offset offset = -1;
  CHECK_OK(MPI_File_get_byte_offset(file, 3, &offset));
  CHECK_EQ(offset, 1000 * check::rank + extent + 4);
  CHECK_OK(MPI_File_close(&file));
  MPI_Type_free(&filetype);
}

TEST(etype_wider_than_its_data) {
  // Offsets count etypes; an etype of one int in an extent of three.
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  MPI_Datatype etype;
  MPI_Type_create_resized(MPI_INT, 0, 12, &etype);
  MPI_Type_commit(&etype);
  CHECK_OK(set_view(file, 0, etype, etype));
  int value = 40 + check::rank;
  CHECK_OK(MPI_File_write_at_all(file, check::rank, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
  MPI_Offset offset = -1;
  CHECK_OK(MPI_File_get_byte_offset(file, 5, &offset));
  CHECK_EQ(offset, 60);
  CHECK_OK(MPI_File_close(&file));
  MPI_Type_free(&etype);
  check::barrier();
  const check::Bytes bytes = check::contents(scratch());
  if (!CHECK_EQ(bytes.size(), static_cast<std::size_t>(12 * (check::size - 1) + 4))) return;
  int got;
  std::memcpy(&got, bytes.data() + 12 * check::rank, 4);
  CHECK_EQ(got, value);
}

TEST(arrays_over_all_ranks) {
  // A 6 x (4 * ranks) matrix of ints in column blocks by subarray, written; read back as a cyclic darray of rows.
  const int columns = 4 * check::size;
  int sizes[2] = {6, columns}, subsizes[2] = {6, 4}, starts[2] = {0, 4 * check::rank};
  MPI_Datatype block, cyclic;
  MPI_Type_create_subarray(2, sizes, subsizes, starts, MPI_ORDER_C, MPI_INT, &block);
  MPI_Type_commit(&block);
  int how[2] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_NONE}, by[2] = {1, MPI_DISTRIBUTE_DFLT_DARG}, grid[2] = {check::size, 1};
  MPI_Type_create_darray(check::size, check::rank, 2, sizes, how, by, grid, MPI_ORDER_C, MPI_INT, &cyclic);
  MPI_Type_commit(&cyclic);
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  CHECK_OK(set_view(file, 0, MPI_INT, block));
  std::vector<int> mine;
  for (int row = 0; row < 6; ++row)
    for (int column = 0; column < 4; ++column) mine.push_back(row * columns + 4 * check::rank + column);
  CHECK_OK(MPI_File_write_all(file, mine.data(), 24, MPI_INT, MPI_STATUS_IGNORE));
  check::sync_all(file);
  CHECK_OK(set_view(file, 0, MPI_INT, cyclic));
  int my_size = 0;
  MPI_Type_size(cyclic, &my_size);
  std::vector<int> rows(static_cast<std::size_t>(my_size) / 4, -1), expected;
  for (int row = check::rank; row < 6; row += check::size)
    for (int column = 0; column < columns; ++column) expected.push_back(row * columns + column);
  if (CHECK_EQ(rows.size(), expected.size())) {
    CHECK_OK(MPI_File_read_all(file, rows.data(), static_cast<int>(rows.size()), MPI_INT, MPI_STATUS_IGNORE));
    CHECK_BYTES(rows.data(), expected.data(), rows.size() * 4);
  }
  CHECK_OK(MPI_File_close(&file));
  MPI_Type_free(&block);
  MPI_Type_free(&cyclic);
}

TEST(array_in_fortran_order_by_default_blocks) {
  // Rows vary fastest and go to the ranks in blocks as large as they come out; all columns are everybody's.
  const int rows = 4 * check::size, columns = 3;
  int sizes[2] = {rows, columns}, how[2] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC};
  int by[2] = {MPI_DISTRIBUTE_DFLT_DARG, MPI_DISTRIBUTE_DFLT_DARG}, grid[2] = {check::size, 1};
  MPI_Datatype part;
  MPI_Type_create_darray(check::size, check::rank, 2, sizes, how, by, grid, MPI_ORDER_FORTRAN, MPI_INT, &part);
  MPI_Type_commit(&part);
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  CHECK_OK(set_view(file, 0, MPI_INT, part));
  std::vector<int> mine;
  for (int column = 0; column < columns; ++column)
    for (int row = 4 * check::rank; row < 4 * check::rank + 4; ++row) mine.push_back(column * rows + row);
  CHECK_OK(MPI_File_write_all(file, mine.data(), static_cast<int>(mine.size()), MPI_INT, MPI_STATUS_IGNORE));
  CHECK_OK(MPI_File_close(&file));
  check::barrier();
  std::vector<int> expected(static_cast<std::size_t>(rows * columns));
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = static_cast<int>(i);
  const check::Bytes bytes = check::contents(scratch());
  if (CHECK_EQ(bytes.size(), 4 * expected.size())) CHECK_BYTES(bytes.data(), expected.data(), bytes.size());
  MPI_Type_free(&part);
}

TEST(sequential_displacement_current) {
  // A header by rank order, then a view that starts where the shared pointer is (section 14.3).
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL, &file)) return;
  const char letter = static_cast<char>('a' + check::rank);
  CHECK_OK(MPI_File_write_ordered(file, &letter, 1, MPI_CHAR, MPI_STATUS_IGNORE));
  CHECK_OK(set_view(file, MPI_DISPLACEMENT_CURRENT, MPI_INT, MPI_INT));
  int value = 1000 + check::rank;
  CHECK_OK(MPI_File_write_ordered(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
  View view = view_of(file);
  CHECK_EQ(view.displacement, check::size);
  CHECK(view.etype == MPI_INT);
  // And once more, from the middle of an int view.
  CHECK_OK(set_view(file, MPI_DISPLACEMENT_CURRENT, MPI_BYTE, MPI_BYTE));
  view = view_of(file);
  CHECK_EQ(view.displacement, 5 * check::size);
  CHECK_OK(MPI_File_close(&file));
  check::barrier();
  if (check::rank == 0) {
    const check::Bytes bytes = check::contents(scratch());
    if (!CHECK_EQ(bytes.size(), 5u * static_cast<unsigned>(check::size))) return;
    for (int r = 0; r < check::size; ++r) {
      CHECK_EQ(bytes[static_cast<std::size_t>(r)], 'a' + r);
      int got;
      std::memcpy(&got, bytes.data() + check::size + 4 * r, 4);
      CHECK_EQ(got, 1000 + r);
    }
  }
}

TEST(displacement_current_counts_what_was_written_before_the_call) {
  // The call is collective: what any rank wrote before its own call comes before the view, however early the others are.
  constexpr int letters = 1000;
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL, &file)) return;
  const int last = check::size - 1;
  char turn = 'x';
  if (check::rank == 0 && last != 0) MPI_Send(&turn, 1, MPI_CHAR, last, 0, MPI_COMM_WORLD);
  if (check::rank == last) {
    if (last != 0) MPI_Recv(&turn, 1, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < letters; ++i) CHECK_OK(MPI_File_write_shared(file, &turn, 1, MPI_CHAR, MPI_STATUS_IGNORE));
  }
  CHECK_OK(set_view(file, MPI_DISPLACEMENT_CURRENT, MPI_BYTE, MPI_BYTE));
  CHECK_EQ(view_of(file).displacement, letters);
  CHECK_OK(MPI_File_close(&file));
}

TEST(displacement_current_needs_sequential) {
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  EXPECT_CLASS(set_view(file, MPI_DISPLACEMENT_CURRENT, MPI_INT, MPI_INT), MPI_ERR_ARG);
  CHECK_OK(MPI_File_close(&file));
}

TEST(sequential_needs_displacement_current) {
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL, &file)) return;
  EXPECT_CLASS(set_view(file, 8, MPI_INT, MPI_INT), MPI_ERR_ARG, MPI_ERR_UNSUPPORTED_OPERATION);
  CHECK_OK(MPI_File_close(&file));
}

namespace {

/// A view with this etype and filetype is refused, and the view before stays in force.
void check_refused(const char* file_name, int line, MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype,
                   std::initializer_list<int> classes, const char* datarep = "native") {
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  CHECK_OK(set_view(file, 4, MPI_INT, MPI_INT));
  check::expect_class(set_view(file, displacement, etype, filetype, datarep), classes, "MPI_File_set_view", file_name, line);
  View view = view_of(file);
  CHECK_EQ(view.displacement, 4);
  CHECK(view.etype == MPI_INT);
  CHECK(view.filetype == MPI_INT);
  free_types(&view);
  CHECK_OK(MPI_File_close(&file));
}

#define EXPECT_REFUSED(...) check_refused(__FILE__, __LINE__, __VA_ARGS__)

}  // namespace

TEST(filetype_not_made_of_etypes) { EXPECT_REFUSED(0, MPI_DOUBLE, MPI_INT, {MPI_ERR_ARG, MPI_ERR_TYPE}); }

TEST(etype_larger_than_filetype_piece) {
  MPI_Datatype etype, filetype;
  MPI_Type_contiguous(3, MPI_INT, &etype);
  MPI_Type_commit(&etype);
  MPI_Type_contiguous(4, MPI_INT, &filetype);
  MPI_Type_commit(&filetype);
  EXPECT_REFUSED(0, etype, filetype, {MPI_ERR_ARG, MPI_ERR_TYPE});
  MPI_Type_free(&etype);
  MPI_Type_free(&filetype);
}

TEST(negative_displacement) { EXPECT_REFUSED(-8, MPI_INT, MPI_INT, {MPI_ERR_ARG}); }

TEST(null_types) {
  EXPECT_REFUSED(0, MPI_DATATYPE_NULL, MPI_INT, {MPI_ERR_TYPE, MPI_ERR_ARG});
  EXPECT_REFUSED(0, MPI_INT, MPI_DATATYPE_NULL, {MPI_ERR_TYPE, MPI_ERR_ARG});
}

TEST(uncommitted_types) {
  MPI_Datatype type;
  MPI_Type_contiguous(2, MPI_INT, &type);
  EXPECT_REFUSED(0, MPI_INT, type, {MPI_ERR_TYPE, MPI_ERR_ARG});
  EXPECT_REFUSED(0, type, type, {MPI_ERR_TYPE, MPI_ERR_ARG});
  MPI_Type_free(&type);
}

// Section 14.1.1: displacements of a filetype are non-negative and never decrease.
TEST(filetype_going_backwards) {
  int lengths[2] = {1, 1}, places[2] = {4, 0};
  MPI_Datatype type;
  MPI_Type_indexed(2, lengths, places, MPI_INT, &type);
  MPI_Type_commit(&type);
  EXPECT_REFUSED(0, MPI_INT, type, {MPI_ERR_ARG, MPI_ERR_TYPE});
  MPI_Type_free(&type);
}

TEST(filetype_below_zero) {
  int lengths[2] = {1, 1}, places[2] = {-2, 3};
  MPI_Datatype type;
  MPI_Type_indexed(2, lengths, places, MPI_INT, &type);
  MPI_Type_commit(&type);
  EXPECT_REFUSED(0, MPI_INT, type, {MPI_ERR_ARG, MPI_ERR_TYPE});
  MPI_Type_free(&type);
}

TEST(filetype_that_overlaps_in_a_writable_file) {
  MPI_Datatype type;
  int lengths[2] = {2, 2}, places[2] = {0, 1};
  MPI_Type_indexed(2, lengths, places, MPI_INT, &type);
  MPI_Type_commit(&type);
  EXPECT_REFUSED(0, MPI_INT, type, {MPI_ERR_ARG, MPI_ERR_TYPE});
  MPI_Type_free(&type);
}

TEST(unknown_representation) { EXPECT_REFUSED(0, MPI_INT, MPI_INT, {MPI_ERR_UNSUPPORTED_DATAREP}, "cuneiform"); }

TEST(representation_that_differs_between_ranks) {
  if (check::size == 1) return;
  const char* mine = check::rank == 0 ? "native" : "external32";
  EXPECT_REFUSED(0, MPI_INT, MPI_INT, {MPI_ERR_NOT_SAME, MPI_ERR_UNSUPPORTED_DATAREP}, mine);
}

TEST(etypes_of_different_extent) {
  if (check::size == 1) return;
  MPI_Datatype mine = check::rank == 0 ? MPI_DOUBLE : MPI_INT;
  EXPECT_REFUSED(0, mine, mine, {MPI_ERR_NOT_SAME, MPI_ERR_ARG, MPI_ERR_TYPE});
}

TEST(etypes_of_one_extent_may_differ_in_size) {
  // The standard asks the extent alone to be the same on all ranks (section 14.3).
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  MPI_Datatype half;
  MPI_Type_create_resized(MPI_SHORT, 0, sizeof(int), &half);
  half = committed(half);
  const MPI_Datatype mine = check::rank == 0 ? MPI_INT : half;
  CHECK_OK(set_view(file, 0, mine, mine));
  CHECK_OK(MPI_File_close(&file));
  MPI_Type_free(&half);
}

TEST(bad_view_on_one_rank_fails_everywhere) {
  if (check::size == 1) return;
  EXPECT_REFUSED(check::rank == check::size - 1 ? -1 : 0, MPI_INT, MPI_INT, {MPI_ERR_ARG, MPI_ERR_NOT_SAME});
}

TEST(views_may_differ_in_displacement_and_filetype) {
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  MPI_Datatype filetype = vector_of_ints(check::rank + 1, 1, 2);
  CHECK_OK(set_view(file, 1000 * check::rank, MPI_INT, filetype));
  std::vector<int> values(10, check::rank), back(10, -1);
  CHECK_OK(MPI_File_write_all(file, values.data(), 10, MPI_INT, MPI_STATUS_IGNORE));
  CHECK_OK(MPI_File_read_at_all(file, 0, back.data(), 10, MPI_INT, MPI_STATUS_IGNORE));
  CHECK_BYTES(back.data(), values.data(), 40);
  CHECK_OK(MPI_File_close(&file));
  MPI_Type_free(&filetype);
}

TEST_MAIN(MPI_THREAD_SINGLE)
