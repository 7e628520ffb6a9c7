// Comm over MPI: shared memory inside a node, messages between the first ranks of the nodes.
//
// A *domain* is a set of ranks that share a NodeState: a node, or a single rank where its node could not have shared memory.
#include "comm/mpi/mpi_comm.h"

#include <algorithm>
#include <climits>
#include <cstring>
#include <new>

#include "comm/errands.h"
#include "comm/mpi/patience.h"
#include "comm/mpi/topology.h"
#include "comm/mpi/window.h"
#include "comm/node_segment.h"
#include "comm/node_state.h"
#include "comm/own_memory.h"
#include "comm/segment_pool.h"
#include "comm/sums.h"

namespace penstock::comm {
namespace {

constexpr int kTreeTag = 1;
constexpr int kAgreeTag = 2;
constexpr int kExchangeTag = 4;

// Behind the NodeState in a segment: two boards, used in turn, each with a slot per rank.  Messages that fit go by the board: between cores
// that ranks have to share, a collective call of MPI costs milliseconds.
constexpr std::size_t kSlotBytes = 256;

/// `size_bytes` bytes as a count of a datatype, whatever the size: MPI 3 counts with int.
class Bytes {
 public:
  explicit Bytes(std::size_t size_bytes) : size_bytes_(size_bytes) {}
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;
  ~Bytes() {
    if (made_ != MPI_DATATYPE_NULL) PMPI_Type_free(&made_);
  }

  Status prepare() {
    if (fits()) return {};
    constexpr std::size_t kPart = std::size_t{1} << 30;
    const std::size_t parts = size_bytes_ / kPart;
    if (parts > INT_MAX) return Status::failure(Code::kCount, "a collective message is larger than 2^61 bytes");
    MPI_Datatype part = MPI_DATATYPE_NULL;
    PENSTOCK_TRY(status_of(PMPI_Type_contiguous(static_cast<int>(kPart), MPI_BYTE, &part), "PMPI_Type_contiguous"));
    const int counts[] = {static_cast<int>(parts), static_cast<int>(size_bytes_ % kPart)};
    const MPI_Aint offsets[] = {0, static_cast<MPI_Aint>(parts * kPart)};
    const MPI_Datatype types[] = {part, MPI_BYTE};
    Status status = status_of(PMPI_Type_create_struct(2, counts, offsets, types, &made_), "PMPI_Type_create_struct");
    if (status.ok()) status = status_of(PMPI_Type_commit(&made_), "PMPI_Type_commit");
    PMPI_Type_free(&part);
    return status;
  }

  [[nodiscard]] int count() const { return fits() ? static_cast<int>(size_bytes_) : 1; }
  [[nodiscard]] MPI_Datatype type() const { return fits() ? MPI_BYTE : made_; }

 private:
  [[nodiscard]] bool fits() const { return size_bytes_ <= INT_MAX; }

  std::size_t size_bytes_;
  MPI_Datatype made_ = MPI_DATATYPE_NULL;
};

/// Whether all are complete, after which none is left, or MPI failed.
bool all_done(std::vector<MPI_Request>& requests, Status& failure) {
  if (requests.empty()) return true;
  int done = 0;
  failure = status_of(PMPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE), "PMPI_Testall");
  if (done != 0) requests.clear();
  return done != 0 || !failure.ok();
}

/// Calls MPI itself, or, on a thread that may not, has errands do it: then the requests belong to the thread that carries them.
class MpiExchange final : public Exchange {
 public:
  MpiExchange(MPI_Comm comm, int spins, bool by_errand) : comm_(comm), spins_(spins), by_errand_(by_errand) {}
  MpiExchange(const MpiExchange&) = delete;
  MpiExchange& operator=(const MpiExchange&) = delete;
  /// Only after a failure any message is left; then MPI is not asked to wait for what may never come.
  ~MpiExchange() override {
    if (by_errand_) Errands::of_process().wait(last_ticket_);
  }

  Status send(int to, const void* bytes, std::size_t size_bytes) override {
    return post([=, this] { return post_send(to, bytes, size_bytes); });
  }

  Status receive(int from, void* bytes, std::size_t size_bytes) override {
    return post([=, this] { return post_receive(from, bytes, size_bytes); });
  }

  Status wait_received() override { return wait_for(receives_); }

  Status wait() override {
    PENSTOCK_TRY(wait_for(receives_));
    return wait_for(sends_);
  }

 private:
  template <typename Call>
  Status post(Call call) {
    if (!by_errand_) return call();
    last_ticket_ = Errands::of_process().post([this, call] {
      if (failure_.ok()) failure_ = call();
      return true;
    });
    return {};
  }

  Status post_send(int to, const void* bytes, std::size_t size_bytes) {
    Bytes message(size_bytes);
    PENSTOCK_TRY(message.prepare());
    MPI_Request request = MPI_REQUEST_NULL;
    PENSTOCK_TRY(status_of(PMPI_Issend(bytes, message.count(), message.type(), to, kExchangeTag, comm_, &request), "PMPI_Issend"));
    sends_.push_back(request);
    return {};
  }

  Status post_receive(int from, void* bytes, std::size_t size_bytes) {
    Bytes message(size_bytes);
    PENSTOCK_TRY(message.prepare());
    MPI_Request request = MPI_REQUEST_NULL;
    PENSTOCK_TRY(status_of(PMPI_Irecv(bytes, message.count(), message.type(), from, kExchangeTag, comm_, &request), "PMPI_Irecv"));
    receives_.push_back(request);
    return {};
  }

  Status wait_for(std::vector<MPI_Request>& requests) {
    if (by_errand_ && last_ticket_ == 0) return {};  // nothing was posted: nobody may be there to carry anything in a group of one
    if (by_errand_) {
      last_ticket_ = Errands::of_process().post([this, &requests] { return !failure_.ok() || all_done(requests, failure_); });
      Errands::of_process().wait(last_ticket_);
      return failure_;
    }
    if (requests.empty()) return {};
    const Status status = wait_patiently(requests.data(), static_cast<int>(requests.size()), spins_);
    requests.clear();
    return status;
  }

  MPI_Comm comm_;
  int spins_;
  bool by_errand_;
  Status failure_;  ///< of an errand
  std::uint64_t last_ticket_ = 0;
  std::vector<MPI_Request> sends_, receives_;
};

/// A team of one: its memory is its own.
class SingleTeam final : public Team {
 public:
  [[nodiscard]] int size() const override { return 1; }
  [[nodiscard]] int place() const override { return 0; }
  Verdict meet(const Verdict& mine) override { return mine; }
  Result<std::byte*> memory(int which, std::size_t size_bytes) override { return memories_[which].at_least(size_bytes); }

 private:
  OwnMemory memories_[kMemories];
};

class MpiComm;

/// Members in processes of one node.
class NodeTeam final : public Team {
 public:
  NodeTeam(MpiComm& comm, TeamState& state, int size, int place) : comm_(comm), state_(state), size_(size), place_(place) {}
  NodeTeam(const NodeTeam&) = delete;
  NodeTeam& operator=(const NodeTeam&) = delete;
  ~NodeTeam() override {
    for (NamedSegment& memory : memories_) let_go(memory);
  }
  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] int place() const override { return place_; }
  Verdict meet(const Verdict& mine) override;
  Result<std::byte*> memory(int which, std::size_t size_bytes) override;

 private:
  Result<NamedSegment> share(std::size_t size_bytes, bool anew);
  Status agree_on(const Status& mine);
  static void let_go(NamedSegment& memory);

  MpiComm& comm_;
  TeamState& state_;
  int size_;
  int place_;
  NamedSegment memories_[kMemories];
};

class MpiComm final : public Comm {
 public:
  MpiComm() = default;
  MpiComm(const MpiComm&) = delete;
  MpiComm& operator=(const MpiComm&) = delete;
  ~MpiComm() override;

  Status make(MPI_Comm user_comm);

  [[nodiscard]] const Topology& topology() const override { return *topology_; }
  Status barrier() override;
  Status broadcast(void* bytes, std::size_t size_bytes, int root) override;
  Status all_gather(const void* mine, std::size_t size_bytes, void* all) override;
  Status gather(const void* mine, std::size_t size_bytes, void* all, int root) override;
  std::unique_ptr<Exchange> exchange() override { return std::make_unique<MpiExchange>(comm_, spins_, !may_call_mpi()); }
  Status exclusive_sum(Offset mine, Offset& before, Offset& total) override;
  Verdict agree(const Verdict& mine) override;
  [[nodiscard]] bool may_agree_in_background() const override { return one_domain() || background_; }
  [[nodiscard]] bool may_exchange_in_background() const override { return alone() || background_; }
  [[nodiscard]] bool may_lock_in_background() const override { return one_domain() || thread_multiple_; }
  [[nodiscard]] bool background_needs_help() const override { return background_ && !thread_multiple_; }
  void help_background() override {
    (void)Errands::of_process().progress();
    if (!alone()) let_mpi_progress(comm_);
  }
  [[nodiscard]] bool calls_may_overlap() const override { return thread_multiple_; }
  [[nodiscard]] Status words_and_lock() const override { return window_.failure(); }
  Offset fetch_add(int word, Offset delta) override;
  Offset load(int word) override;
  void store(int word, Offset value) override;
  void lock(bool exclusive) override;
  void unlock(bool exclusive) override;
  Result<std::unique_ptr<Team>> team(int first, int count) override;
  Result<std::unique_ptr<Comm>> duplicate() override;

 private:
  friend class NodeTeam;
  Status make_alone();
  Status share_memory();
  void join(NodeState& state) const;
  [[nodiscard]] std::size_t boards_bytes() const;
  [[nodiscard]] std::size_t segment_bytes() const;
  TeamState* team_states() const;
  Status broadcast_in_node(void* bytes, int size_bytes);
  Status all_in_node(bool mine, bool& all);
  Status find_leaders();
  Status spread(std::uint64_t& key);
  char* next_board();
  [[nodiscard]] bool by_board(std::size_t size_bytes) const { return one_domain() && size_bytes <= kSlotBytes; }
  void gather_by_board(const void* mine, std::size_t size_bytes, char* all);
  [[nodiscard]] Waiting waiting();
  [[nodiscard]] bool may_call_mpi() const { return thread_multiple_ || !ThreadOfOurs::here(); }
  static bool poke_mpi(void* context);

  [[nodiscard]] bool one_domain() const { return leaders_.size() == 1; }
  [[nodiscard]] bool alone() const { return topology_->size == 1; }

  MPI_Comm comm_ = MPI_COMM_NULL;  ///< null in a group of one, which needs no MPI
  std::shared_ptr<const Topology> topology_;
  std::vector<int> node_ranks_;    ///< ranks of this node, ascending
  std::vector<int> leaders_;       ///< first rank of every domain, ascending
  std::size_t leader_index_ = 0;   ///< of this rank in leaders_, where it is there
  int domain_size_ = 1;
  bool leader_ = true;             ///< of its domain
  NodeSegment segment_;            ///< where state_ is, or
  std::unique_ptr<NodeState> own_state_;
  NodeState* state_ = nullptr;
  std::uint32_t boards_used_ = 0;
  std::uint64_t told_ = 0;         ///< message buffers of spread(): members, so that they outlive a message that failed
  std::uint64_t heard_ = 0;
  Window window_;                  ///< made where there are several domains
  int spins_ = 0;
  bool thread_multiple_ = false;
  bool background_ = false;        ///< threads of ours get at MPI, on every rank: themselves or by errands
};

MpiComm::~MpiComm() {
  if (comm_ == MPI_COMM_NULL) return;
  int finalized = 0;
  if (PMPI_Finalized(&finalized) != MPI_SUCCESS || finalized != 0) return;
  window_.free();
  PMPI_Comm_free(&comm_);
}

Status MpiComm::make(MPI_Comm user_comm) {
  int is_inter = 0;
  PENSTOCK_TRY(status_of(PMPI_Comm_test_inter(user_comm, &is_inter), "PMPI_Comm_test_inter"));
  if (is_inter != 0)
    return Status::failure(Code::kComm, "the communicator is an intercommunicator; files are opened on intracommunicators");
  int size = 1;
  PENSTOCK_TRY(status_of(PMPI_Comm_size(user_comm, &size), "PMPI_Comm_size"));
  int level = MPI_THREAD_SINGLE;
  PENSTOCK_TRY(status_of(PMPI_Query_thread(&level), "PMPI_Query_thread"));
  thread_multiple_ = level == MPI_THREAD_MULTIPLE;
  if (size == 1) return make_alone();

  // Without the program's hints: some of them forbid wildcards in receiving, which let_mpi_progress() uses.
  PENSTOCK_TRY(status_of(PMPI_Comm_dup_with_info(user_comm, MPI_INFO_NULL, &comm_), "PMPI_Comm_dup_with_info"));
  PENSTOCK_TRY(status_of(PMPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "PMPI_Comm_set_errhandler"));
  Result<std::shared_ptr<const Topology>> topology = comm::topology_of(user_comm, comm_);
  if (!topology.ok()) return topology.status();
  topology_ = std::move(topology).value();
  for (int rank = 0; rank < size; ++rank)
    if (topology_->node_of_rank[static_cast<std::size_t>(rank)] == topology_->node) node_ranks_.push_back(rank);
  PENSTOCK_TRY(share_memory());
  PENSTOCK_TRY(find_leaders());
  background_ = state_->ranks_without_background.load(std::memory_order_acquire) == 0;
  if (one_domain()) return {};
  // Each process has a thread level of its own; what one cannot do in the background, none may begin.
  background_ = agree({.code = static_cast<std::int32_t>(background_ ? Code::kOk : Code::kUnsupported)}).ok();

  // Agreed: a rank without the window must not leave the others with one.  It is also the meeting that Window::make() asks for.
  // Files open all the same: most never need the words.
  const Status made = window_.make(comm_, spins_);
  const Verdict verdict = agree({.code = static_cast<std::int32_t>(made.code())});
  if (verdict.ok()) return {};
  const std::string why = made.ok() ? "rank " + std::to_string(verdict.rank) + " could not make a window" : std::string(made.text());
  window_.give_up(Status::failure(Code::kUnsupported,
                                  "shared file pointers, atomic mode and locks between nodes need one-sided communication, which this "
                                  "MPI library does not give (" + why + "); with Open MPI over TCP, allow its osc component pt2pt"));
  return {};
}

Status MpiComm::make_alone() {
  Topology topology;
  topology.node_of_rank = {0};
  topology_ = std::make_shared<const Topology>(std::move(topology));
  node_ranks_ = leaders_ = {0};
  own_state_ = std::make_unique<NodeState>();
  state_ = own_state_.get();
  return {};
}

std::size_t MpiComm::boards_bytes() const { return 2 * kSlotBytes * static_cast<std::size_t>(topology_->ranks_in_node); }

// Behind the boards: what a team needs, for every rank that may be the first of one.
std::size_t MpiComm::segment_bytes() const {
  return sizeof(NodeState) + boards_bytes() + sizeof(TeamState) * static_cast<std::size_t>(topology_->ranks_in_node);
}

TeamState* MpiComm::team_states() const {
  static_assert(sizeof(NodeState) % alignof(TeamState) == 0 && kSlotBytes % alignof(TeamState) == 0);
  return reinterpret_cast<TeamState*>(reinterpret_cast<char*>(state_) + sizeof(NodeState) + boards_bytes());
}

void MpiComm::join(NodeState& state) const {
  add_processors(state);
  if (!thread_multiple_ && !Errands::of_process().promised()) state.ranks_without_background.fetch_add(1, std::memory_order_acq_rel);
}

// The first rank of the node makes the segment, the others map it, all hear whether all have it.
Status MpiComm::share_memory() {
  struct Announcement {
    bool made;
    NodeSegment::Name name;
  };
  bool have = true;
  if (topology_->ranks_in_node > 1) {
    Announcement announcement{};
    Result<NodeSegment> segment = Status::failure(Code::kOther, "not announced");
    if (topology_->rank_in_node == 0) {
      segment = NodeSegment::create(segment_bytes(), announcement.name);
      announcement.made = segment.ok();
      if (segment.ok()) new (segment.value().memory()) NodeState;  // the rest is right as zero bytes
    }
    PENSTOCK_TRY(broadcast_in_node(&announcement, sizeof announcement));
    if (topology_->rank_in_node != 0 && announcement.made)
      segment = NodeSegment::open(segment_bytes(), announcement.name);
    if (segment.ok()) {
      segment_ = std::move(segment).value();
      state_ = std::launder(static_cast<NodeState*>(segment_.memory()));
      join(*state_);
    }
    const Status heard = all_in_node(state_ != nullptr, have);
    if (topology_->rank_in_node == 0 && announcement.made) NodeSegment::remove_name(announcement.name);
    PENSTOCK_TRY(heard);
  }
  if (have && state_ != nullptr) {
    domain_size_ = topology_->ranks_in_node;
    leader_ = topology_->rank_in_node == 0;
  } else {
    segment_ = NodeSegment();
    own_state_ = std::make_unique<NodeState>();
    state_ = own_state_.get();
    join(*state_);
  }
  spins_ = spins_for(*state_, topology_->ranks_in_node);
  return {};
}

// A binomial tree of messages from the node's first rank.
Status MpiComm::broadcast_in_node(void* bytes, int size_bytes) {
  const int size = topology_->ranks_in_node;
  const int me = topology_->rank_in_node;
  int distance = 1;
  while (distance <= me) distance *= 2;  // twice the highest bit of me: what lies below are this rank's children
  if (me > 0)
    PENSTOCK_TRY(status_of(PMPI_Recv(bytes, size_bytes, MPI_BYTE, node_ranks_[static_cast<std::size_t>(me - distance / 2)],
                                     kTreeTag, comm_, MPI_STATUS_IGNORE),
                           "PMPI_Recv"));
  for (; me + distance < size; distance *= 2)
    PENSTOCK_TRY(status_of(PMPI_Send(bytes, size_bytes, MPI_BYTE, node_ranks_[static_cast<std::size_t>(me + distance)],
                                     kTreeTag, comm_),
                           "PMPI_Send"));
  return {};
}

// The same tree up, then down.
Status MpiComm::all_in_node(bool mine, bool& all) {
  const int size = topology_->ranks_in_node;
  const int me = topology_->rank_in_node;
  int distance = 1;
  while (distance <= me) distance *= 2;
  const int parent = me - distance / 2;
  all = mine;
  for (; me + distance < size; distance *= 2) {
    bool child = false;
    PENSTOCK_TRY(status_of(PMPI_Recv(&child, sizeof child, MPI_BYTE,
                                     node_ranks_[static_cast<std::size_t>(me + distance)], kTreeTag, comm_,
                                     MPI_STATUS_IGNORE),
                           "PMPI_Recv"));
    all = all && child;
  }
  if (me > 0)
    PENSTOCK_TRY(status_of(PMPI_Send(&all, sizeof all, MPI_BYTE, node_ranks_[static_cast<std::size_t>(parent)], kTreeTag,
                                     comm_),
                           "PMPI_Send"));
  return broadcast_in_node(&all, sizeof all);
}

Status MpiComm::find_leaders() {
  const char mine = leader_ ? 1 : 0;
  std::vector<char> leads(static_cast<std::size_t>(topology_->size), 0);
  if (topology_->node_count == 1 && domain_size_ == topology_->size)
    leads[0] = 1;  // nothing to ask
  else
    PENSTOCK_TRY(status_of(PMPI_Allgather(&mine, 1, MPI_CHAR, leads.data(), 1, MPI_CHAR, comm_), "PMPI_Allgather"));
  for (int rank = 0; rank < topology_->size; ++rank) {
    if (leads[static_cast<std::size_t>(rank)] == 0) continue;
    if (rank == topology_->rank) leader_index_ = leaders_.size();
    leaders_.push_back(rank);
  }
  return {};
}

Status MpiComm::barrier() {
  const Verdict verdict = agree({});
  if (verdict.ok()) return {};
  return Status::failure(static_cast<Code>(verdict.code),
                         "an access to the shared words failed on rank " + std::to_string(verdict.rank));
}

// The board that nobody reads any more: who enters the agreement over one board has read the one before.
char* MpiComm::next_board() {
  const std::size_t board_bytes = kSlotBytes * static_cast<std::size_t>(topology_->size);
  return reinterpret_cast<char*>(state_) + sizeof(NodeState) + board_bytes * (boards_used_++ % 2);
}

// Requires: by_board(size_bytes).  `all` may be null where nobody wants it.
void MpiComm::gather_by_board(const void* mine, std::size_t size_bytes, char* all) {
  char* const board = next_board();
  std::memcpy(board + kSlotBytes * static_cast<std::size_t>(topology_->rank), mine, size_bytes);
  agree({});
  if (all == nullptr) return;
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(topology_->size); ++rank)
    std::memcpy(all + rank * size_bytes, board + rank * kSlotBytes, size_bytes);
}

Status MpiComm::broadcast(void* bytes, std::size_t size_bytes, int root) {
  if (alone() || size_bytes == 0) return {};
  if (one_domain() && size_bytes <= kSlotBytes * static_cast<std::size_t>(topology_->size)) {
    char* const board = next_board();
    if (topology_->rank == root) std::memcpy(board, bytes, size_bytes);
    agree({});
    if (topology_->rank != root) std::memcpy(bytes, board, size_bytes);
    return {};
  }
  Bytes message(size_bytes);
  PENSTOCK_TRY(message.prepare());
  return status_of(PMPI_Bcast(bytes, message.count(), message.type(), root, comm_), "PMPI_Bcast");
}

Status MpiComm::all_gather(const void* mine, std::size_t size_bytes, void* all) {
  if (size_bytes == 0) return {};
  if (alone()) {
    std::memcpy(all, mine, size_bytes);
    return {};
  }
  if (by_board(size_bytes)) {
    gather_by_board(mine, size_bytes, static_cast<char*>(all));
    return {};
  }
  Bytes message(size_bytes);
  PENSTOCK_TRY(message.prepare());
  return status_of(
      PMPI_Allgather(mine, message.count(), message.type(), all, message.count(), message.type(), comm_),
      "PMPI_Allgather");
}

Status MpiComm::gather(const void* mine, std::size_t size_bytes, void* all, int root) {
  if (size_bytes == 0) return {};
  if (alone()) {
    std::memcpy(all, mine, size_bytes);
    return {};
  }
  if (by_board(size_bytes)) {
    gather_by_board(mine, size_bytes, topology_->rank == root ? static_cast<char*>(all) : nullptr);
    return {};
  }
  Bytes message(size_bytes);
  PENSTOCK_TRY(message.prepare());
  return status_of(
      PMPI_Gather(mine, message.count(), message.type(), all, message.count(), message.type(), root, comm_),
      "PMPI_Gather");
}

Status MpiComm::exclusive_sum(Offset mine, Offset& before, Offset& total) {
  before = 0;
  total = mine;
  if (alone()) return {};
  if (one_domain()) {
    std::vector<Offset> all(static_cast<std::size_t>(topology_->size));
    gather_by_board(&mine, sizeof mine, reinterpret_cast<char*>(all.data()));
    return exclusive_sum_of(all, topology_->rank, before, total);
  }
  // Upper and lower half apart: these sums cannot overflow, and whether the whole does is seen afterwards.
  constexpr Offset kHalf = Offset{1} << 32;
  const Offset low = mine & (kHalf - 1);
  const Offset halves[2] = {(mine - low) / kHalf, low};
  Offset lower[2] = {0, 0};
  Offset all[2] = {0, 0};
  PENSTOCK_TRY(status_of(PMPI_Exscan(halves, lower, 2, MPI_INT64_T, MPI_SUM, comm_), "PMPI_Exscan"));
  PENSTOCK_TRY(status_of(PMPI_Allreduce(halves, all, 2, MPI_INT64_T, MPI_SUM, comm_), "PMPI_Allreduce"));
  if (topology_->rank == 0) lower[0] = lower[1] = 0;  // MPI leaves it undefined there
  const auto whole = [](const Offset (&parts)[2], Offset& sum) {
    return checked_multiply(parts[0] + parts[1] / kHalf, kHalf, sum) && checked_add(sum, parts[1] % kHalf, sum);
  };
  if (whole(lower, before) && whole(all, total)) return {};
  return Status::failure(Code::kArgument, "the sum over all ranks does not fit in 64 bits");
}

Verdict MpiComm::agree(const Verdict& mine) {
  Verdict own = mine;
  if (own.ok()) own.code = static_cast<std::int32_t>(window_.failed_access().code());
  std::uint64_t key = verdict_key(own, topology_->rank);
  if (alone()) return verdict_of(key);
  const auto size = static_cast<std::uint32_t>(domain_size_);
  Agreement& agreement = state_->agreement;
  if (one_domain()) return verdict_of(agreement.agree(key, size, waiting()).key);
  if (!leader_) return verdict_of(agreement.follow(key, size, waiting()).key);
  key = agreement.gather(key, size, waiting()).key;
  if (const Status exchanged = spread(key); !exchanged.ok())
    key = std::max(key, verdict_key({.code = static_cast<std::int32_t>(exchanged.code())}, topology_->rank));
  agreement.release(key);
  return verdict_of(key);
}

// Dissemination: after round i a leader knows what 2^i leaders before it said.  Maximum does not mind hearing things twice.
Status MpiComm::spread(std::uint64_t& key) {
  const std::size_t count = leaders_.size();
  for (std::size_t distance = 1; distance < count; distance *= 2) {
    const int to = leaders_[(leader_index_ + distance) % count];
    const int from = leaders_[(leader_index_ + count - distance) % count];
    told_ = key;
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    const auto post = [&]() -> Status {
      PENSTOCK_TRY(status_of(PMPI_Irecv(&heard_, 1, MPI_UINT64_T, from, kAgreeTag, comm_, &requests[0]), "PMPI_Irecv"));
      return status_of(PMPI_Isend(&told_, 1, MPI_UINT64_T, to, kAgreeTag, comm_, &requests[1]), "PMPI_Isend");
    };
    if (may_call_mpi()) {
      PENSTOCK_TRY(post());
      PENSTOCK_TRY(wait_patiently(requests, 2, spins_));
    } else {
      Status status;
      Errands& errands = Errands::of_process();
      errands.wait(errands.post([&] {
        status = post();
        return true;
      }));
      PENSTOCK_TRY(status);
      errands.wait(errands.post([&] {
        int done = 0;
        status = status_of(PMPI_Testall(2, requests, &done, MPI_STATUSES_IGNORE), "PMPI_Testall");
        return done != 0 || !status.ok();
      }));
      PENSTOCK_TRY(status);
    }
    key = std::max(key, heard_);
  }
  return {};
}

Waiting MpiComm::waiting() {
  Waiting waiting{.spins = spins_, .poke = may_call_mpi() ? &poke_mpi : nullptr, .context = this};
  // The rank that holds the window may have to serve it.
  if (!one_domain() && topology_->rank == 0) waiting.longest_nap_ns = 50'000;
  return waiting;
}

// MPI 4.1 section 3.5: a rank that is blocked in an MPI call must not keep its earlier sends from proceeding.
bool MpiComm::poke_mpi(void* context) {
  let_mpi_progress(static_cast<MpiComm*>(context)->comm_);
  return false;
}

Offset MpiComm::fetch_add(int word, Offset delta) {
  return one_domain() ? state_->words[word].fetch_add(delta) : window_.fetch_add(word, delta);
}

Offset MpiComm::load(int word) { return one_domain() ? state_->words[word].load() : window_.load(word); }

void MpiComm::store(int word, Offset value) {
  if (one_domain())
    state_->words[word].store(value);
  else
    window_.store(word, value);
}

void MpiComm::lock(bool exclusive) {
  if (one_domain())
    state_->lock.lock(exclusive, spins_);
  else
    window_.lock(exclusive);
}

void MpiComm::unlock(bool exclusive) {
  if (one_domain())
    state_->lock.unlock(exclusive);
  else
    window_.unlock(exclusive);
}

Result<std::unique_ptr<Team>> MpiComm::team(int first, int count) {
  if (count == 1) return std::unique_ptr<Team>(std::make_unique<SingleTeam>());
  if (domain_size_ != topology_->ranks_in_node)
    return Status::failure(Code::kUnsupported, "the ranks of this node share no memory");
  return std::unique_ptr<Team>(std::make_unique<NodeTeam>(*this, team_states()[first], count, topology_->rank_in_node - first));
}

Verdict NodeTeam::meet(const Verdict& mine) {
  const int rank = comm_.topology().rank;
  return verdict_of(state_.agreement.agree(verdict_key(mine, rank), static_cast<std::uint32_t>(size_), comm_.waiting()).key);
}

Status NodeTeam::agree_on(const Status& mine) {
  const Verdict verdict = meet({static_cast<std::int32_t>(mine.code()), mine.system_errno(), comm_.topology().rank});
  if (verdict.ok() || !mine.ok()) return mine;
  return Status::failure(static_cast<Code>(verdict.code), "rank " + std::to_string(verdict.rank) + " could not share memory");
}

Result<std::byte*> NodeTeam::memory(int which, std::size_t size_bytes) {
  NamedSegment& memory = memories_[which];
  if (memory.size_bytes < size_bytes) {
    let_go(memory);
    Result<NamedSegment> shared = share(size_bytes, false);
    if (!shared.ok()) return shared.status();
    memory = std::move(shared).value();
  }
  return static_cast<std::byte*>(memory.segment.memory());
}

void NodeTeam::let_go(NamedSegment& memory) {
  if (memory.size_bytes > 0) SegmentPool::of_process().give(std::exchange(memory, NamedSegment()));
}

namespace {

/// What the first member tells the others.
struct Offer {
  NodeSegment::Name name{};
  std::uint64_t again = 0;  ///< an earlier team's, of the same processes
};

}  // namespace

// The first member has it, from an earlier team or made anew, the others find or map it, and all hear of each step whether it went well.
Result<NamedSegment> NodeTeam::share(std::size_t size_bytes, bool anew) {
  static_assert(sizeof(Offer) <= sizeof state_.announced);
  SegmentPool& pool = SegmentPool::of_process();
  NamedSegment mine{.size_bytes = size_bytes, .members = size_};
  Status status;
  Offer offer;
  if (place_ == 0) {
    std::optional<NamedSegment> kept = anew ? std::nullopt : pool.take_fitting(size_bytes, size_);
    offer.again = kept.has_value() ? 1 : 0;
    if (kept.has_value()) {
      mine = std::move(*kept);
    } else {
      ++memories_made_;
      Result<NodeSegment> made = NodeSegment::create(size_bytes, mine.name);
      status = made.status();
      if (made.ok()) mine.segment = std::move(made).value();
    }
    offer.name = mine.name;
    std::memcpy(state_.announced, &offer, sizeof offer);
  }
  PENSTOCK_TRY(agree_on(status));
  if (place_ != 0) {
    std::memcpy(&offer, state_.announced, sizeof offer);
    if (offer.again != 0) {
      std::optional<NamedSegment> kept = pool.take(offer.name);
      if (kept.has_value()) mine = std::move(*kept);
      if (!kept.has_value()) status = Status::failure(Code::kOther, "memory that an earlier team shared is gone");
    } else {
      mine.name = offer.name;
      Result<NodeSegment> opened = NodeSegment::open(size_bytes, offer.name);
      status = opened.status();
      if (opened.ok()) mine.segment = std::move(opened).value();
    }
  }
  const Status all_have_it = agree_on(status);
  if (place_ == 0 && offer.again == 0) NodeSegment::remove_name(offer.name);
  if (!all_have_it.ok() && offer.again != 0) return share(size_bytes, true);
  PENSTOCK_TRY(all_have_it);
  return mine;
}

Result<std::unique_ptr<Comm>> MpiComm::duplicate() { return make_mpi_comm(alone() ? MPI_COMM_SELF : comm_); }

}  // namespace

Result<std::unique_ptr<Comm>> make_mpi_comm(MPI_Comm user_comm) {
  auto comm = std::make_unique<MpiComm>();
  PENSTOCK_TRY(comm->make(user_comm));
  return std::unique_ptr<Comm>(std::move(comm));
}

}  // namespace penstock::comm
