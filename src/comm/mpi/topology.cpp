// Finding the nodes, and keeping what was found as an attribute of the program's communicator.
#include "comm/mpi/topology.h"

#include <charconv>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace penstock::comm {
namespace {

using Kept = std::shared_ptr<const Topology>;

extern "C" {

// A duplicate has the same ranks in the same order, so it inherits the answer.
static int copy_topology(MPI_Comm, int, void*, void* value, void* copied, int* flag) {
  *static_cast<void**>(copied) = new Kept(*static_cast<Kept*>(value));
  *flag = 1;
  return MPI_SUCCESS;
}

static int delete_topology(MPI_Comm, int, void* value, void*) {
  delete static_cast<Kept*>(value);
  return MPI_SUCCESS;
}
}

// One key for the process.  MPI_KEYVAL_INVALID when MPI would not give one: then nothing is kept.
int topology_key() {
  static const int key = []() -> int {
    int made = MPI_KEYVAL_INVALID;
    if (PMPI_Comm_create_keyval(copy_topology, delete_topology, &made, nullptr) != MPI_SUCCESS) return MPI_KEYVAL_INVALID;
    return made;
  }();
  return key;
}

constexpr int kWholeNode = 0;
constexpr int kUnreadable = -1;

// From the environment: ranks per pretended node, kWholeNode or kUnreadable.
int wanted_ranks_per_node() {
  const char* text = std::getenv("PENSTOCK_RANKS_PER_NODE");
  if (text == nullptr || *text == '\0') return kWholeNode;
  const std::string_view digits(text);
  int number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return error == std::errc() && end == digits.data() + digits.size() && number > 0 ? number : kUnreadable;
}

// What each rank tells the others, as so many ints.
struct Place {
  int node_leader;     ///< rank in the communicator of the first rank of the node
  int rank_in_node;
  int ranks_per_node;  ///< rank 0's wish counts
};
constexpr int kPlaceInts = sizeof(Place) / sizeof(int);

Status find_place(MPI_Comm comm, int rank, Place& place) {
  MPI_Comm node = MPI_COMM_NULL;
  PENSTOCK_TRY(status_of(PMPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node),
                         "PMPI_Comm_split_type"));
  place = {.node_leader = rank, .rank_in_node = 0, .ranks_per_node = wanted_ranks_per_node()};
  Status status = status_of(PMPI_Comm_rank(node, &place.rank_in_node), "PMPI_Comm_rank");
  if (status.ok()) status = status_of(PMPI_Bcast(&place.node_leader, 1, MPI_INT, 0, node), "PMPI_Bcast");
  PMPI_Comm_free(&node);
  return status;
}

Topology topology_of_places(const std::vector<Place>& places, int rank) {
  const int ranks_per_node = places[0].ranks_per_node;
  std::map<std::pair<int, int>, int> number_of_node;
  std::vector<int> ranks_in_node;
  Topology topology;
  topology.rank = rank;
  topology.size = static_cast<int>(places.size());
  for (const Place& place : places) {
    const int pretended = ranks_per_node == kWholeNode ? 0 : place.rank_in_node / ranks_per_node;
    const int next = static_cast<int>(number_of_node.size());
    const int node = number_of_node.try_emplace({place.node_leader, pretended}, next).first->second;
    if (node == next) ranks_in_node.push_back(0);
    const int before = ranks_in_node[static_cast<std::size_t>(node)]++;
    if (static_cast<int>(topology.node_of_rank.size()) == rank) {
      topology.node = node;
      topology.rank_in_node = before;
    }
    topology.node_of_rank.push_back(node);
  }
  topology.node_count = static_cast<int>(number_of_node.size());
  topology.ranks_in_node = ranks_in_node[static_cast<std::size_t>(topology.node)];
  return topology;
}

Result<Kept> find_topology(MPI_Comm comm) {
  int rank = 0;
  int size = 1;
  PENSTOCK_TRY(status_of(PMPI_Comm_rank(comm, &rank), "PMPI_Comm_rank"));
  PENSTOCK_TRY(status_of(PMPI_Comm_size(comm, &size), "PMPI_Comm_size"));
  Place mine;
  PENSTOCK_TRY(find_place(comm, rank, mine));
  std::vector<Place> places(static_cast<std::size_t>(size));
  PENSTOCK_TRY(status_of(PMPI_Allgather(&mine, kPlaceInts, MPI_INT, places.data(), kPlaceInts, MPI_INT, comm),
                         "PMPI_Allgather"));
  if (places[0].ranks_per_node == kUnreadable)
    return Status::failure(Code::kArgument,
                           "PENSTOCK_RANKS_PER_NODE on rank 0 is not a positive number; unset it, or give the number "
                           "of ranks that a pretended node is to have");
  return std::make_shared<const Topology>(topology_of_places(places, rank));
}

}  // namespace

bool world_is_there() {
  int initialized = 0;
  int finalized = 0;
  return PMPI_Initialized(&initialized) == MPI_SUCCESS && initialized != 0 && PMPI_Finalized(&finalized) == MPI_SUCCESS && finalized == 0;
}

Status status_of(int outcome, const char* call) {
  if (outcome == MPI_SUCCESS) return {};
  char text[MPI_MAX_ERROR_STRING + 1] = "";
  int length = 0;
  int error_class = MPI_ERR_OTHER;
  if (PMPI_Error_string(outcome, text, &length) != MPI_SUCCESS) length = 0;
  if (PMPI_Error_class(outcome, &error_class) != MPI_SUCCESS) error_class = MPI_ERR_OTHER;
  const Code code = error_class == MPI_ERR_COMM     ? Code::kComm
                    : error_class == MPI_ERR_NO_MEM ? Code::kNoMemory
                                                    : Code::kOther;
  return Status::failure(code, std::string(call) + ": " + std::string(text, static_cast<std::size_t>(length)));
}

Result<std::shared_ptr<const Topology>> topology_of(MPI_Comm user_comm, MPI_Comm own_comm) {
  // Without a world the key's number may be another's by the time the next file is opened: a program of sessions may end MPI and begin it anew.
  const int key = world_is_there() ? topology_key() : MPI_KEYVAL_INVALID;
  if (key == MPI_KEYVAL_INVALID) return find_topology(own_comm);
  void* value = nullptr;
  int found = 0;
  PENSTOCK_TRY(status_of(PMPI_Comm_get_attr(user_comm, key, &value, &found), "PMPI_Comm_get_attr"));
  if (found != 0) return *static_cast<Kept*>(value);
  Result<Kept> topology = find_topology(own_comm);
  if (!topology.ok()) return topology;
  auto kept = std::make_unique<Kept>(topology.value());
  PENSTOCK_TRY(status_of(PMPI_Comm_set_attr(user_comm, key, kept.get()), "PMPI_Comm_set_attr"));
  static_cast<void>(kept.release());  // now the communicator's, until delete_topology()
  return topology;
}

}  // namespace penstock::comm
