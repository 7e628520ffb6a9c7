// Files that lie in stripes, as PENSTOCK_LUSTRE_LAYOUT pretends, and the hints about who aggregates: what MPI_File_get_info tells, and the data.
// ranks: 1 3 4
// run: PENSTOCK_LUSTRE_LAYOUT=0-64k:4k:1,64k-eof:64k:4 PENSTOCK_RANKS_PER_NODE=2 --striped
// run: PENSTOCK_RANKS_PER_NODE=2
// preloaded only
#include <unistd.h>

#include "check.h"

using check::open_on_world;
using check::scratch;

namespace {

constexpr int kStripe = 65536;
constexpr int kStripes = 4;

/// Opened with a strategy and, where `key` is not empty, one more hint.
bool open_with(const std::string& name, const std::string& strategy, const std::string& key, const std::string& value, MPI_File* file) {
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "penstock_strategy", strategy.c_str());
  MPI_Info_set(info, "cb_nodes", "0");
  if (!key.empty()) MPI_Info_set(info, key.c_str(), value.c_str());
  const bool open = open_on_world(name, MPI_MODE_CREATE | MPI_MODE_RDWR, file, info);
  MPI_Info_free(&info);
  return open;
}

std::string told(MPI_File file, const char* key) {
  MPI_Info info = MPI_INFO_NULL;
  if (!CHECK_OK(MPI_File_get_info(file, &info))) return "(no info)";
  char value[MPI_MAX_INFO_VAL + 1] = "";
  int present = 0;
  CHECK_OK(MPI_Info_get(info, key, MPI_MAX_INFO_VAL, value, &present));
  MPI_Info_free(&info);
  return present != 0 ? value : "(absent)";
}

std::string told_with(const std::string& strategy, const std::string& key, const std::string& value, const char* asked) {
  MPI_File file;
  if (!open_with(scratch(), strategy, key, value, &file)) return "(not open)";
  const std::string answer = told(file, asked);
  CHECK_OK(MPI_File_close(&file));
  return answer;
}

/// The ranks that are the first `most` of their pretended nodes of two ranks, as the list of aggregators tells them.
std::string first_of_each_node(int most) {
  std::string list;
  for (int rank = 0; rank < check::size; ++rank)
    if (rank % 2 < most) list += (list.empty() ? "" : " ") + std::to_string(rank);
  return list;
}

std::string host() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

/// Pretended nodes have the name of their host; real ones have names of their own.
bool on_one_host() {
  char first[256] = "";
  const std::string mine = host();
  mine.copy(first, sizeof first - 1);
  MPI_Bcast(first, sizeof first, MPI_CHAR, 0, MPI_COMM_WORLD);
  return check::all_ranks(mine == first);
}

/// Every rank writes pieces of 1000 bytes, dealt out in turn, over some turns of the stripes, and reads them back from a file opened anew.
void write_and_read_back(const std::string& strategy, const std::string& buffer_bytes) {
  constexpr int kPiece = 1000;
  const int pieces = 3 * kStripe * kStripes / kPiece / check::size;
  const std::string name = scratch();
  MPI_Datatype type;
  MPI_Type_vector(pieces, kPiece, kPiece * check::size, MPI_BYTE, &type);
  MPI_Type_commit(&type);
  std::vector<char> data(static_cast<std::size_t>(pieces) * kPiece), back(data.size(), 'x');
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 13 + i / 999 + 7 * static_cast<std::size_t>(check::rank));
  for (const bool write : {true, false}) {
    MPI_File file;
    if (!open_with(name, strategy, "cb_buffer_size", buffer_bytes, &file)) break;
    CHECK_OK(MPI_File_set_view(file, MPI_Offset(check::rank) * kPiece, MPI_BYTE, type, "native", MPI_INFO_NULL));
    MPI_Status status;
    const int count = static_cast<int>(data.size());
    if (write)
      CHECK_OK(MPI_File_write_all(file, data.data(), count, MPI_BYTE, &status));
    else
      CHECK_OK(MPI_File_read_all(file, back.data(), count, MPI_BYTE, &status));
    CHECK_OK(MPI_File_close(&file));
  }
  MPI_Type_free(&type);
  CHECK(data == back);
}

}  // namespace

TEST(stripes_are_told_where_there_are_any) {
  const bool striped = check::flag("--striped");
  for (const char* asked : {"striping_unit", "striping_factor", "start_iodevice"}) {
    MPI_File file;
    if (!open_with(scratch(), std::string(asked) == "start_iodevice" ? "independent" : "two_phase", asked, "3", &file)) return;
    CHECK_EQ(told(file, "striping_unit"), (striped ? "65536" : "(absent)"));
    CHECK_EQ(told(file, "striping_factor"), (striped ? "4" : "(absent)"));
    CHECK_EQ(told(file, "start_iodevice"), "(absent)");
    CHECK_OK(MPI_File_close(&file));
  }
}

TEST(aggregators_are_told_where_there_are_any) {
  for (const char* strategy : {"two_phase", "two_layer"}) {
    CHECK_EQ(told_with(strategy, "cb_nodes", "1", "romio_aggregator_list"), "0");
    CHECK_EQ(told_with(strategy, "cb_nodes", "1000", "cb_nodes"), std::to_string(check::size));
  }
  MPI_File file;
  if (!open_with(scratch(), "independent", "cb_nodes", "3", &file)) return;
  CHECK_EQ(told(file, "romio_aggregator_list"), "(absent)");
  CHECK_EQ(told(file, "cb_nodes"), "3");
  CHECK_OK(MPI_File_close(&file));
}

TEST(a_list_of_nodes_is_followed) {
  const bool one_host = on_one_host();
  if (!check::flag("--striped")) {
    CHECK_EQ(told_with("two_phase", "cb_config_list", "*:1", "romio_aggregator_list"), first_of_each_node(1));
    CHECK_EQ(told_with("two_layer", "cb_config_list", "*:*", "romio_aggregator_list"), first_of_each_node(2));
    CHECK_EQ(told_with("two_layer", "cb_config_list", "nowhere:7," + host(), "romio_aggregator_list"), (one_host ? first_of_each_node(1) : "0"));
  }
  CHECK_EQ(told_with("two_phase", "cb_config_list", "nowhere , *:2", "cb_config_list"), "nowhere:1,*:2");
  CHECK_EQ(told_with("two_phase", "cb_config_list", host() + ":0", "cb_config_list"), "(absent)");
  CHECK_EQ(told_with("two_phase", "cb_config_list", "nowhere:2", "cb_nodes"), told_with("two_phase", "", "", "cb_nodes"));
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "penstock_strategy", "two_layer");
  MPI_Info_set(info, "cb_config_list", "*:2");
  MPI_Info_set(info, "cb_nodes", "1");
  MPI_File file;
  if (open_on_world(scratch(), MPI_MODE_CREATE | MPI_MODE_RDWR, &file, info)) {
    CHECK_EQ(told(file, "romio_aggregator_list"), "0");
    CHECK_OK(MPI_File_close(&file));
  }
  MPI_Info_free(&info);
}

TEST(interfaces_are_told_and_overridden) {
  for (const int interfaces : {1, 2}) {
    MPI_File file;
    if (!open_with(scratch(), "two_layer", "penstock_interfaces", std::to_string(interfaces), &file)) return;
    CHECK_EQ(told(file, "penstock_interfaces"), std::to_string(interfaces));
    if (!check::flag("--striped")) CHECK_EQ(told(file, "romio_aggregator_list"), first_of_each_node(interfaces));
    CHECK_OK(MPI_File_close(&file));
  }
  const std::string counted = told_with("two_layer", "", "", "penstock_interfaces");
  CHECK(!counted.empty() && counted != "0" && counted != "(absent)");
}

TEST(data_across_stripes_and_windows) {
  for (const char* strategy : {"two_phase", "two_layer"})
    for (const char* buffer_bytes : {"16384", "100000", "16777216"}) write_and_read_back(strategy, buffer_bytes);
}

TEST_MAIN(MPI_THREAD_SINGLE)
