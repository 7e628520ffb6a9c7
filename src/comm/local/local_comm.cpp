// Ranks as threads: the agreement, lock and words of a node, and collectives that read straight from the other rank's buffer.
#include "comm/local/local_comm.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "comm/node_state.h"
#include "comm/own_memory.h"
#include "comm/sums.h"

namespace penstock::comm {
namespace {

/// Who is still there; one for a group and all its duplicates.
struct Roll {
  explicit Roll(int size) : left(static_cast<std::size_t>(size)) {}
  std::vector<std::atomic<bool>> left;
  std::atomic<int> missed{-1};  ///< a rank that had left when somebody waited for it
};

/// What one rank shows the others.
struct alignas(64) Seat {
  const void* bytes = nullptr;                ///< read by others between two agreements only
  std::atomic<std::uint32_t> agreements{0};   ///< agreements entered
  std::atomic<int> exclusive_locks{0};        ///< held
  std::atomic<int> shared_locks{0};
};

/// One side of a message, until the other side comes.  Whoever comes second copies, so that a posted receive completes without its rank's help.
struct HalfMessage {
  int other;  ///< for what was sent: the sender; for what is awaited: from whom
  const void* from;
  void* to;
  std::size_t size_bytes;
  int* state;  ///< kUnderWay until the message is over; guarded by the mutex of the mailboxes
};
enum MessageState : int { kUnderWay, kDone, kOtherSize };

struct Mailbox {
  std::deque<HalfMessage> sent;
  std::deque<HalfMessage> awaited;
};

struct Mailboxes {
  explicit Mailboxes(std::size_t ranks) : of_rank(ranks) {}
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Mailbox> of_rank;
};

/// What the members of a team have in common: the state they would have in a node's memory, and memory that the first of them owns.
struct TeamSeat {
  TeamState state;
  OwnMemory memories[Team::kMemories];
};

struct Group {
  Group(std::shared_ptr<Roll> roll_of_ranks, int ranks_per_node)
      : roll(std::move(roll_of_ranks)),
        seats(roll->left.size()),
        teams(roll->left.size()),
        mailboxes(roll->left.size()),
        ranks_per_node(ranks_per_node) {
    add_processors(state);
    spins = spins_for(state, static_cast<int>(seats.size()));
  }
  std::shared_ptr<Roll> roll;
  NodeState state;
  std::vector<Seat> seats;
  std::vector<TeamSeat> teams;  ///< by the rank of the first member
  Mailboxes mailboxes;
  int ranks_per_node;
  int spins;
};

Topology topology_of(int rank, int size, int ranks_per_node) {
  const int per_node = ranks_per_node > 0 ? ranks_per_node : size;
  Topology topology;
  topology.rank = rank;
  topology.size = size;
  topology.node = rank / per_node;
  topology.node_count = (size + per_node - 1) / per_node;
  topology.rank_in_node = rank % per_node;
  topology.ranks_in_node = std::min(per_node, size - topology.node * per_node);
  for (int other = 0; other < size; ++other) topology.node_of_rank.push_back(other / per_node);
  return topology;
}

class LocalExchange final : public Exchange {
 public:
  LocalExchange(std::shared_ptr<Group> group, int rank) : group_(std::move(group)), rank_(rank) {}
  /// What nobody answered is taken back: its memory is the caller's again.
  ~LocalExchange() override {
    std::lock_guard lock(boxes().mutex);
    for (Mailbox& box : boxes().of_rank)
      for (std::deque<HalfMessage>* side : {&box.sent, &box.awaited})
        side->erase(std::remove_if(side->begin(), side->end(), [this](const HalfMessage& half) { return is_mine(half); }), side->end());
  }

  Status send(int to, const void* bytes, std::size_t size_bytes) override {
    std::lock_guard lock(boxes().mutex);
    Mailbox& box = boxes().of_rank[static_cast<std::size_t>(to)];
    meet(box.awaited, box.sent, {rank_, bytes, nullptr, size_bytes, &sends_.emplace_back(kUnderWay)});
    return {};
  }

  Status receive(int from, void* bytes, std::size_t size_bytes) override {
    std::lock_guard lock(boxes().mutex);
    Mailbox& box = boxes().of_rank[static_cast<std::size_t>(rank_)];
    meet(box.sent, box.awaited, {from, nullptr, bytes, size_bytes, &receives_.emplace_back(kUnderWay)});
    return {};
  }

  Status wait_received() override { return wait_for(receives_); }

  Status wait() override {
    PENSTOCK_TRY(wait_for(receives_));
    return wait_for(sends_);
  }

 private:
  Mailboxes& boxes() { return group_->mailboxes; }
  [[nodiscard]] bool is_mine(const HalfMessage& half) const {
    const auto among = [&](const std::deque<int>& states) {
      return std::any_of(states.begin(), states.end(), [&](const int& state) { return &state == half.state; });
    };
    return among(sends_) || among(receives_);
  }

  /// Requires the mutex.
  void meet(std::deque<HalfMessage>& others, std::deque<HalfMessage>& own, const HalfMessage& mine) {
    const auto found = std::find_if(others.begin(), others.end(), [&](const HalfMessage& half) { return half.other == mine.other; });
    if (found == others.end()) {
      own.push_back(mine);
      return;
    }
    const bool same = found->size_bytes == mine.size_bytes;
    if (same && mine.size_bytes > 0) std::memcpy(mine.to != nullptr ? mine.to : found->to, mine.to != nullptr ? found->from : mine.from, mine.size_bytes);
    *found->state = *mine.state = same ? kDone : kOtherSize;
    others.erase(found);
    boxes().changed.notify_all();
  }

  Status wait_for(std::deque<int>& states) {
    std::unique_lock lock(boxes().mutex);
    for (const int& state : states)
      while (state == kUnderWay) PENSTOCK_TRY(sleep(lock));
    const bool fits = std::find(states.begin(), states.end(), static_cast<int>(kOtherSize)) == states.end();
    states.clear();
    if (fits) return {};
    return Status::failure(Code::kIntern, "a message was not as long as its receiver expected");
  }

  /// Until something changes, or somebody who has left keeps it from ever changing.
  Status sleep(std::unique_lock<std::mutex>& lock) {
    if (boxes().changed.wait_for(lock, std::chrono::milliseconds(100)) == std::cv_status::no_timeout) return {};
    for (std::size_t rank = 0; rank < group_->seats.size(); ++rank)
      if (group_->roll->left[rank].load(std::memory_order_acquire))
        return Status::failure(Code::kIntern, "rank " + std::to_string(rank) + " left the group while messages were under way");
    return {};
  }

  std::shared_ptr<Group> group_;
  int rank_;
  std::deque<int> sends_, receives_;  ///< a MessageState each; deques, so that their places stay
};

class LocalTeam final : public Team {
 public:
  LocalTeam(std::shared_ptr<Group> group, int first_rank, int size, int place)
      : group_(std::move(group)), seat_(group_->teams[static_cast<std::size_t>(first_rank)]), first_rank_(first_rank), size_(size), place_(place) {}
  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] int place() const override { return place_; }

  Verdict meet(const Verdict& mine) override {
    const std::uint64_t key = verdict_key(mine, first_rank_ + place_);
    return verdict_of(seat_.state.agreement.agree(key, static_cast<std::uint32_t>(size_), {.spins = group_->spins}).key);
  }

  Result<std::byte*> memory(int which, std::size_t size_bytes) override {
    if (place_ == 0) {
      const Result<std::byte*> made = seat_.memories[which].at_least(size_bytes);
      bytes_ = made.ok() ? *made : nullptr;
      std::memcpy(seat_.state.announced, &bytes_, sizeof bytes_);
    }
    (void)meet({});
    std::byte* bytes = nullptr;
    std::memcpy(&bytes, seat_.state.announced, sizeof bytes);
    (void)meet({});
    if (bytes == nullptr) return Status::failure(Code::kNoMemory, "no memory for " + std::to_string(size_bytes) + " bytes");
    return bytes;
  }

 private:
  std::shared_ptr<Group> group_;
  TeamSeat& seat_;
  int first_rank_;
  int size_;
  int place_;
  std::byte* bytes_ = nullptr;
};

class LocalComm final : public Comm {
 public:
  LocalComm(std::shared_ptr<Group> group, int rank)
      : group_(std::move(group)),
        topology_(topology_of(rank, static_cast<int>(group_->seats.size()), group_->ranks_per_node)) {}

  ~LocalComm() override { release_locks(); }

  /// Called when the rank's thread is done: others must not wait for it, neither here nor for a lock it holds.
  void leave() {
    group_->roll->left[index(topology_.rank)].store(true, std::memory_order_release);
    release_locks();
  }

  [[nodiscard]] const Topology& topology() const override { return topology_; }

  Status barrier() override { return meet(); }

  Status broadcast(void* bytes, std::size_t size_bytes, int root) override {
    seat().bytes = bytes;
    PENSTOCK_TRY(meet());
    if (topology_.rank != root && size_bytes > 0) std::memcpy(bytes, group_->seats[index(root)].bytes, size_bytes);
    return meet();
  }

  Status all_gather(const void* mine, std::size_t size_bytes, void* all) override {
    return collect(mine, size_bytes, static_cast<char*>(all));
  }

  Status gather(const void* mine, std::size_t size_bytes, void* all, int root) override {
    return collect(mine, size_bytes, topology_.rank == root ? static_cast<char*>(all) : nullptr);
  }

  std::unique_ptr<Exchange> exchange() override { return std::make_unique<LocalExchange>(group_, topology_.rank); }

  Status exclusive_sum(Offset mine, Offset& before, Offset& total) override {
    std::vector<Offset> all(group_->seats.size());
    PENSTOCK_TRY(all_gather(&mine, sizeof mine, all.data()));
    return exclusive_sum_of(all, topology_.rank, before, total);
  }

  Verdict agree(const Verdict& mine) override {
    const std::uint32_t own = seat().agreements.fetch_add(1, std::memory_order_acq_rel);
    Vigil vigil{group_.get(), own};
    // Not even to be entered when it cannot end: an agreement that was given up must not be filled by other calls.
    if (Vigil::nobody_comes(&vigil)) return abandoned();
    const Agreement::Outcome outcome =
        group_->state.agreement.agree(verdict_key(mine, topology_.rank), static_cast<std::uint32_t>(topology_.size),
                                      {.spins = group_->spins, .poke = &Vigil::nobody_comes, .context = &vigil});
    return outcome.given_up ? abandoned() : verdict_of(outcome.key);
  }

  [[nodiscard]] bool may_agree_in_background() const override { return true; }
  [[nodiscard]] bool may_exchange_in_background() const override { return true; }
  [[nodiscard]] bool may_lock_in_background() const override { return true; }
  [[nodiscard]] bool calls_may_overlap() const override { return true; }

  Offset fetch_add(int word, Offset delta) override { return group_->state.words[word].fetch_add(delta); }
  Offset load(int word) override { return group_->state.words[word].load(); }
  void store(int word, Offset value) override { group_->state.words[word].store(value); }

  void lock(bool exclusive) override {
    group_->state.lock.lock(exclusive, group_->spins);
    (exclusive ? seat().exclusive_locks : seat().shared_locks).fetch_add(1);
  }

  void unlock(bool exclusive) override {
    (exclusive ? seat().exclusive_locks : seat().shared_locks).fetch_sub(1);
    group_->state.lock.unlock(exclusive);
  }

  Result<std::unique_ptr<Team>> team(int first, int count) override {
    const int first_rank = topology_.rank - topology_.rank_in_node + first;
    return std::unique_ptr<Team>(std::make_unique<LocalTeam>(group_, first_rank, count, topology_.rank_in_node - first));
  }

  Result<std::unique_ptr<Comm>> duplicate() override {
    std::shared_ptr<Group> made;
    if (topology_.rank == 0) made = std::make_shared<Group>(group_->roll, group_->ranks_per_node);
    seat().bytes = &made;
    PENSTOCK_TRY(meet());
    std::shared_ptr<Group> shared = *static_cast<const std::shared_ptr<Group>*>(group_->seats[0].bytes);
    PENSTOCK_TRY(meet());
    return std::unique_ptr<Comm>(std::make_unique<LocalComm>(std::move(shared), topology_.rank));
  }

 private:
  /// Says when waiting has become hopeless: a rank that has left did not enter the agreement before it left.
  struct Vigil {
    Group* group;
    std::uint32_t own;  ///< number of the agreement waited for

    static bool nobody_comes(void* context) {
      auto& vigil = *static_cast<Vigil*>(context);
      for (std::size_t rank = 0; rank < vigil.group->seats.size(); ++rank) {
        if (!vigil.group->roll->left[rank].load(std::memory_order_acquire)) continue;
        if (vigil.group->seats[rank].agreements.load(std::memory_order_acquire) > vigil.own) continue;
        vigil.group->roll->missed.store(static_cast<int>(rank));
        return true;
      }
      return false;
    }
  };

  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }
  Seat& seat() { return group_->seats[index(topology_.rank)]; }

  void release_locks() {
    while (seat().exclusive_locks.load() > 0) LocalComm::unlock(true);
    while (seat().shared_locks.load() > 0) LocalComm::unlock(false);
  }

  Verdict abandoned() const {
    return {.code = static_cast<std::int32_t>(Code::kIntern), .system_errno = 0, .rank = group_->roll->missed.load()};
  }

  Status meet() {
    const Verdict verdict = agree({});
    if (verdict.ok()) return {};
    return Status::failure(Code::kIntern, "rank " + std::to_string(verdict.rank) +
                                              " left the group while other ranks waited for it in a collective call");
  }

  Status collect(const void* mine, std::size_t size_bytes, char* all) {
    seat().bytes = mine;
    PENSTOCK_TRY(meet());
    if (all != nullptr && size_bytes > 0)
      for (std::size_t rank = 0; rank < group_->seats.size(); ++rank)
        std::memcpy(all + rank * size_bytes, group_->seats[rank].bytes, size_bytes);
    return meet();
  }

  std::shared_ptr<Group> group_;
  Topology topology_;
};

std::vector<std::unique_ptr<LocalComm>> make_group(const std::shared_ptr<Group>& group) {
  std::vector<std::unique_ptr<LocalComm>> comms;
  for (std::size_t rank = 0; rank < group->seats.size(); ++rank)
    comms.push_back(std::make_unique<LocalComm>(group, static_cast<int>(rank)));
  return comms;
}

}  // namespace

std::vector<std::unique_ptr<Comm>> make_local_group(int size, int ranks_per_node) {
  std::vector<std::unique_ptr<Comm>> comms;
  for (auto& comm : make_group(std::make_shared<Group>(std::make_shared<Roll>(size), ranks_per_node)))
    comms.push_back(std::move(comm));
  return comms;
}

void run_ranks(int size, const std::function<void(Comm&)>& body, int ranks_per_node) {
  const auto roll = std::make_shared<Roll>(size);
  auto comms = make_group(std::make_shared<Group>(roll, ranks_per_node));
  std::vector<std::exception_ptr> thrown(comms.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < comms.size(); ++rank)
    threads.emplace_back([&, rank] {
      try {
        body(*comms[rank]);
      } catch (...) {
        thrown[rank] = std::current_exception();
      }
      comms[rank]->leave();
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& exception : thrown)
    if (exception) std::rethrow_exception(exception);
  if (const int missed = roll->missed.load(); missed >= 0)
    throw std::runtime_error("rank " + std::to_string(missed) + " returned while other ranks waited for it");
}

}  // namespace penstock::comm
