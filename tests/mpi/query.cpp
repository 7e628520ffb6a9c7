// What an open file tells about itself: group, access mode, info; and its Fortran handle
// (MPI 4.1 sections 14.2.7 to 14.2.9, 19.3.4).
// ranks: 1 3 4
#include "check.h"

using check::open_on_world;
using check::scratch;

namespace {

/// The value of `key`, or "(absent)".
std::string value_of(MPI_Info info, const char* key) {
  char value[MPI_MAX_INFO_VAL + 1] = "";
  int present = 0;
  CHECK_OK(MPI_Info_get(info, key, MPI_MAX_INFO_VAL, value, &present));
  return present ? value : "(absent)";
}

std::string hint_in_force(MPI_File file, const char* key) {
  MPI_Info info = MPI_INFO_NULL;
  if (!CHECK_OK(MPI_File_get_info(file, &info)) || !CHECK(info != MPI_INFO_NULL)) return "(no info)";
  const std::string value = value_of(info, key);
  MPI_Info_free(&info);
  return value;
}

}  // namespace

TEST(group_of_the_world) {
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  MPI_Group of_file, of_world;
  CHECK_OK(MPI_File_get_group(file, &of_file));
  MPI_Comm_group(MPI_COMM_WORLD, &of_world);
  int relation = -1;
  CHECK_OK(MPI_Group_compare(of_file, of_world, &relation));
  CHECK_EQ(relation, MPI_IDENT);
  MPI_Group_free(&of_file);
  MPI_Group_free(&of_world);
  CHECK_OK(MPI_File_close(&file));
}

TEST(group_in_another_order) {
  MPI_Comm backwards;
  MPI_Comm_split(MPI_COMM_WORLD, 0, -check::rank, &backwards);
  MPI_File file = MPI_FILE_NULL;
  if (CHECK_OK(MPI_File_open(backwards, scratch().c_str(), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file))) {
    MPI_Group of_file;
    int place = -1;
    CHECK_OK(MPI_File_get_group(file, &of_file));
    MPI_Group_rank(of_file, &place);
    CHECK_EQ(place, check::size - 1 - check::rank);
    MPI_Group_free(&of_file);
    // Ordered access follows the ranks of the file's communicator.
    CHECK_OK(MPI_File_write_ordered(file, &check::rank, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_close(&file));
    check::barrier();
    const check::Bytes bytes = check::contents(scratch());
    if (CHECK_EQ(bytes.size(), 4u * static_cast<unsigned>(check::size)))
      CHECK_EQ(reinterpret_cast<const int*>(bytes.data())[place], check::rank);
  }
  MPI_Comm_free(&backwards);
}

TEST(access_mode_is_what_was_asked_for) {
  const int modes[] = {MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_MODE_RDONLY, MPI_MODE_WRONLY | MPI_MODE_APPEND,
                       MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL, MPI_MODE_RDWR | MPI_MODE_UNIQUE_OPEN | MPI_MODE_CREATE};
  for (int mode : modes) {
    MPI_File file;
    if (!open_on_world(scratch(), mode, &file)) return;
    int amode = -1;
    CHECK_OK(MPI_File_get_amode(file, &amode));
    CHECK_EQ(amode, mode);
    CHECK_OK(MPI_File_close(&file));
  }
}

TEST(info_is_new_each_time) {
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  MPI_Info one = MPI_INFO_NULL, two = MPI_INFO_NULL;
  CHECK_OK(MPI_File_get_info(file, &one));
  CHECK_OK(MPI_File_get_info(file, &two));
  CHECK(one != MPI_INFO_NULL);
  CHECK(two != MPI_INFO_NULL);
  CHECK(one != two);
  if (one != MPI_INFO_NULL) CHECK_OK(MPI_Info_set(one, "a_key_of_nobody", "value"));
  CHECK_EQ(hint_in_force(file, "a_key_of_nobody"), std::string("(absent)"));
  if (one != MPI_INFO_NULL) MPI_Info_free(&one);
  if (two != MPI_INFO_NULL) MPI_Info_free(&two);
  CHECK_OK(MPI_File_close(&file));
}

TEST(unknown_hints_do_no_harm) {
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "colour_of_the_disk", "green");
  MPI_Info_set(info, "cb_buffer_size", "this is no number");
  MPI_File file;
  const bool open = open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file, info);
  MPI_Info_free(&info);
  if (!open) return;
  CHECK_OK(MPI_File_close(&file));
}

TEST(hints_after_open) {
  MPI_File file;
  if (!open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file)) return;
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "access_style", "write_once,sequential");
  CHECK_OK(MPI_File_set_info(file, info));
  CHECK_OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", info));
  MPI_Info_free(&info);
  CHECK_OK(MPI_File_set_info(file, MPI_INFO_NULL));
  int value = 3;
  CHECK_OK(MPI_File_write_at(file, check::rank, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
  CHECK_OK(MPI_File_close(&file));
}

TEST(hints_of_penstock) {
  if (!check::preloaded()) return;
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "access_style", "write_once");
  MPI_Info_set(info, "ind_wr_buffer_size", "1048576");
  MPI_File file;
  const bool open = open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file, info);
  MPI_Info_free(&info);
  if (!open) return;
  CHECK_EQ(hint_in_force(file, "romio_visibility_immediate"), std::string("true"));
  CHECK_EQ(hint_in_force(file, "access_style"), std::string("write_once"));
  CHECK_EQ(hint_in_force(file, "ind_wr_buffer_size"), std::string("1048576"));
  CHECK(hint_in_force(file, "romio_filesystem_type") != "(absent)");
  CHECK(hint_in_force(file, "mpi_memory_alloc_kinds").find("system") != std::string::npos);
  MPI_Info_create(&info);
  MPI_Info_set(info, "ind_rd_buffer_size", "65536");
  CHECK_OK(MPI_File_set_info(file, info));
  MPI_Info_free(&info);
  CHECK_EQ(hint_in_force(file, "ind_rd_buffer_size"), std::string("65536"));
  CHECK_EQ(hint_in_force(file, "ind_wr_buffer_size"), std::string("1048576"));
  CHECK_OK(MPI_File_close(&file));
}

TEST(fortran_handle_goes_round) {
  CHECK(MPI_File_f2c(MPI_File_c2f(MPI_FILE_NULL)) == MPI_FILE_NULL);
  constexpr int count = 10;
  MPI_File files[count];
  MPI_Fint numbers[count];
  for (int i = 0; i < count; ++i) {
    if (!open_on_world(scratch(std::to_string(i)), MPI_MODE_CREATE | MPI_MODE_RDWR, &files[i])) return;
    numbers[i] = MPI_File_c2f(files[i]);
    CHECK_EQ(MPI_File_c2f(files[i]), numbers[i]);
    for (int j = 0; j < i; ++j) CHECK(numbers[i] != numbers[j]);
    CHECK(numbers[i] != MPI_File_c2f(MPI_FILE_NULL));
  }
  for (int i = 0; i < count; ++i) {
    CHECK(MPI_File_f2c(numbers[i]) == files[i]);
    CHECK_OK(MPI_File_close(&files[i]));
  }
  // Numbers of closed files are used again or not; a new file must work either way.
  if (!open_on_world(scratch("again"), MPI_MODE_CREATE | MPI_MODE_RDWR, &files[0])) return;
  CHECK(MPI_File_f2c(MPI_File_c2f(files[0])) == files[0]);
  CHECK_OK(MPI_File_close(&files[0]));
}

TEST_MAIN(MPI_THREAD_SINGLE)
