// The open file: views, pointers, atomicity, and the carrying out of accesses on comm + store.  Knows nothing of MPI: data
// arrives as tilings and bytes, failures leave as Status.  (MPI 4.1 chapter 14 is the contract all the same.)
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "access/layout.h"
#include "base/status.h"
#include "comm/comm.h"
#include "file/learned.h"
#include "file/sieve_lock.h"
#include "file/worker.h"
#include "hints/hints.h"
#include "plan/aggregation.h"
#include "plan/choose.h"
#include "plan/node_shares.h"
#include "plan/striping.h"
#include "store/store.h"
#include "strategy/window.h"
#include "trace/trace.h"

namespace penstock::strategy {
class Target;
struct Moved;
}  // namespace penstock::strategy

namespace penstock::file {

struct OpenNotice;

/// The access mode, checked by check_mode().
struct Mode {
  bool read = false;
  bool write = false;
  bool create = false;
  bool exclusive = false;
  bool delete_on_close = false;
  bool unique_open = false;
  bool sequential = false;
  bool append = false;
  bool operator==(const Mode&) const = default;
};

/// The combinations that MPI 4.1 section 14.2.1 forbids fail with kMode.
Status check_mode(const Mode& mode);

/// What of the file is visible to one rank (MPI 4.1 section 14.3).  Sizes are in the file's data representation.
struct View {
  access::Tiling filetype = access::bytes_at(0);  ///< displacement included
  Offset filetype_size = 1;                       ///< data bytes in one copy of the filetype
  Offset etype_size = 1;
  bool contiguous = true;
  /// Offsets never decrease.  False where the filetype's extent is smaller than what its data spans, so that each copy begins before the
  /// end of the one before it; in one copy, offsets never decrease in any case.
  bool ascending = true;
  Offset contiguous_start = 0;  ///< offset of data position 0 when contiguous
  bool writable = true;         ///< one copy of the filetype does not overlap itself
  /// In one copy, offsets of bytes never decrease.  Else only those at which its pieces begin do not: elements at one place, or that begin
  /// inside of others, which MPI lets be read.
  bool in_order = true;
  Offset surely_fits = 0;       ///< data positions before this one lie below the largest offset; set when it comes into force
  int shared_word = 0;          ///< which of the group's words is its shared pointer; set when it comes into force
};

enum class Pointer : std::uint8_t { kExplicit, kIndividual, kShared, kOrdered };

/// One data access of one rank.
struct Request {
  bool write = false;
  bool collective = false;
  Pointer pointer = Pointer::kExplicit;
  Offset offset_etypes = 0;  ///< kExplicit only
  access::Tiling memory = access::bytes_at(0);
  bool memory_contiguous = true;
  std::byte* buffer = nullptr;
  Offset bytes = 0;  ///< of data; a multiple of the view's etype size
};

/// What came of it.  `bytes` is exact also where status failed for a rank other than this one.
struct Outcome {
  Status status;
  Offset bytes = 0;
};

/// An access that was started and not waited for.  Shared by the program's thread and the worker.
class Pending {
 public:
  /// Blocks until done.
  void wait();
  [[nodiscard]] bool done() const { return done_.load(std::memory_order_acquire); }
  /// Requires done().
  [[nodiscard]] const Outcome& outcome() const { return outcome_; }

 private:
  friend class File;
  void finish(Outcome outcome);
  std::atomic<bool> done_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  Outcome outcome_;
  std::function<Outcome(Outcome)> transform_;  ///< run by whoever finishes, before done
  std::function<void()> notify_;               ///< run after done
};

enum class Whence : std::uint8_t { kSet, kCurrent, kEnd };

/// Facts about the file that rank 0 found when it opened it and told the others, so that they need not open it to know.  They stay what they are:
/// other threads read them while this rank opens the file in the background.
struct OpenedFacts {
  char file_system[32] = {};
  bool node_local = false;
  bool coherent_between_nodes = false;
  bool maps = false;  ///< files can be mapped, and ranks of a node see each other's maps
  plan::Striping striping;
  char profile[64] = {};  ///< what planning goes by: its name
  int interfaces = 0;  ///< of a node to the network, where that placed aggregators
  Offset size_bytes = 0;
};

/// Failures as they travel between ranks.  status_of: this rank's own Status when the verdict is its own, else a sentence that names the rank.
comm::Verdict verdict_of(const Status& status, int rank);
Status status_of(const comm::Verdict& verdict, const Status& mine, int my_rank, const std::string& path);

class File {
 public:
  /// Collective.  Rank 0 creates and looks up; the others open the file when they first need it: the very same one, also when its name was
  /// removed or given to another file in between.
  /// Takes ownership of `comm` (destroyed by close()).  `store` must outlive the file.  `local`: a failure that this rank met already;
  /// then the open fails on all ranks.
  /// Fails on all ranks alike with kMode, kNotSame (modes differ), kNoSuchFile, kFileExists, kAccess ...
  static Result<std::unique_ptr<File>> open(std::unique_ptr<comm::Comm> comm, store::Store& store, const std::string& path,
                                            const Mode& mode, const hints::Hints& hints, trace::FileTrace* trace, Status local);
  ~File();

  /// Collective.  Waits for what is pending.  The file is closed whatever is returned.
  Status close(trace::OpTrace& trace);

  // --- Data access.  Collective when request.collective. ----------------------------------------------------
  /// `local`: an argument error found before; a collective call still joins the agreement with it.
  Outcome access(const Request& request, trace::OpTrace& trace, Status local = {});

  /// What is wrong with a request, before anything is done: the mode, whole etypes, a negative offset.  Local.
  [[nodiscard]] Status check_request(const Request& request) const;

  /// Starts the access and returns; the buffer is borrowed until done.  `transform` (may be empty) is applied to the outcome by the thread that
  /// finishes, before done() turns true; `notify` (may be empty) runs after.  Local, also for collective requests (MPI 4.1 section 14.4.5), unless
  /// kMayWait allows to wait for other ranks, as the beginning of a split collective may: then no collective request is ever carried out by each rank for
  /// itself where the file aggregates.
  enum class Starting : std::uint8_t { kNeverWaits, kMayWait };
  std::shared_ptr<Pending> start(const Request& request, Status local, Starting starting, std::function<Outcome(Outcome)> transform,
                                 std::function<void()> notify);
  /// Whether what was started may need errands (comm/errands.h).
  [[nodiscard]] bool needs_errands() const { return comm_->background_needs_help(); }
  /// Blocks until it is done.  On a thread of the program, which may be needed for that.
  void wait(Pending& pending);

  // --- Views and pointers. ---------------------------------------------------------------------------------------
  /// Collective.  `fingerprint` must be equal on all ranks (etype extent and data representation).  Both pointers return to 0.
  Status set_view(const View& view, std::uint64_t fingerprint, trace::OpTrace& trace, Status local);

  Status seek(Offset offset_etypes, Whence whence);
  [[nodiscard]] Offset position_etypes() const { return individual_.load(std::memory_order_relaxed); }
  /// Collective.
  Status seek_shared(Offset offset_etypes, Whence whence, trace::OpTrace& trace, Status local);
  Result<Offset> shared_position_etypes();
  /// Collective.  Blocks until all ranks have come, and so have done what they did before.
  Status await_others(trace::OpTrace& trace) { return agree({}, trace); }
  /// Where the shared pointer stands, in bytes of the file: MPI_DISPLACEMENT_CURRENT.
  Result<Offset> shared_byte_offset();
  /// Absolute offset in bytes of a position in the view (MPI_File_get_byte_offset).
  Result<Offset> byte_offset(Offset offset_etypes) const;

  // --- The file as a whole. ---------------------------------------------------------------------------------------
  Result<Offset> size();
  Status set_size(Offset size_bytes, trace::OpTrace& trace, Status local);     ///< collective
  Status preallocate(Offset size_bytes, trace::OpTrace& trace, Status local);  ///< collective
  /// Collective.  `local`: a failure that this rank has to tell, from a non-blocking write that went before.
  Status sync(trace::OpTrace& trace, Status local);
  Status set_atomicity(bool atomic, trace::OpTrace& trace, Status local);      ///< collective
  [[nodiscard]] bool atomic() const { return atomic_.load(std::memory_order_relaxed); }

  /// Stays what it is until the file is closed, also when others come into force.
  [[nodiscard]] const hints::Hints& hints() const { return *hints_.load(std::memory_order_acquire); }
  /// Collective.  Accesses that are under way may still follow the hints of before.
  Status set_hints(const hints::Hints& hints, trace::OpTrace& trace, Status local);
  [[nodiscard]] const OpenedFacts& facts() const { return facts_; }
  /// How the storage has the file: what planning may rely on to be the same on all ranks.
  [[nodiscard]] const plan::Striping& striping() const { return facts_.striping; }
  /// The ranks that access the file in collective calls, ascending; none: each rank for itself.
  /// Where several ways to place them are open to choice, those to begin with.
  [[nodiscard]] const std::vector<int>& aggregators() const;
  /// Whether the hint cb_config_list says where they are.
  [[nodiscard]] bool follows_config_list() const { return !aggregators_of_node_.empty(); }
  /// A sentence for the log about a hint that the open could not follow; empty when there is none.  On rank 0.
  [[nodiscard]] const std::string& remark() const { return remark_; }
  [[nodiscard]] const Mode& mode() const { return mode_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] comm::Comm& comm() { return *comm_; }
  [[nodiscard]] trace::FileTrace* trace() const { return trace_; }

 private:
  File(std::unique_ptr<comm::Comm> comm, store::Store& store, std::string path, const Mode& mode, const hints::Hints& hints,
       trace::FileTrace* trace);

  /// The steps of open().
  Status open_together(trace::OpTrace& trace, Status local);                   ///< collective
  Status open_for_all(OpenNotice& notice, Learned& learned);                   ///< on rank 0: creates or looks up, and finds what all go by
  /// Whether collective calls are to choose between aggregators and each rank for itself.
  [[nodiscard]] bool may_decline(const plan::Setting& setting, bool node_local) const;
  void take(const OpenNotice& notice);
  Status place_aggregators(const OpenNotice& notice, trace::OpTrace& trace);   ///< collective
  Status begin_at_end(trace::OpTrace& trace);                                  ///< collective
  Status open_store();                                           ///< this rank's store file; idempotent, thread-safe
  Status open_here(store::OpenOptions options);
  /// Rank 0 finds what the machine and the file system cost.
  void choose_profile(OpenedFacts& facts, model::Figures& figures);
  /// Opens the file on nodes other than rank 0's, while its name is there.  Collective.
  Status open_on_every_node();
  /// Finds out how many aggregators each node has by rank 0's list of nodes: those that cb_nodes asks for, or what the list allows, or what suits a striped file.
  /// `otherwise`: how many there were without a list.  Collective.
  Status follow_list(int otherwise);
  /// One way to place aggregators, and what has been found out by going by it.  Its numbers are in placings_, at the same place.
  struct Arrangement {
    plan::Placement placement;
    std::unique_ptr<comm::Team> team;  ///< of the local aggregator; none: this one was not gone by yet
    strategy::CollectiveMemory memory;  ///< of the collective access that is under way; they come one after another
    plan::Experience experience;        ///< of collective accesses, on local aggregators: all of them learn the same, since they have to decide alike
  };
  /// Finds this rank's place among so many aggregators.  `rules`: with the most that a window may have.  Throws where there is no memory.
  void add_arrangement(const plan::Layers& numbers, plan::DomainRules rules);
  /// All that are open to choice; goes by the first.  Collective; fails on all ranks, where some rank has no memory.
  Status arrange(std::span<const plan::Layers> layers, const plan::DomainRules& rules);
  /// Goes by that arrangement from now on.  Collective; false on all ranks where some rank has met a failure, or some team cannot be had.
  bool go_over(std::size_t to, Status mine);
  /// The arrangement by which a collective access that all of them know alike had better go; -1: the present one, or each rank for itself.  On local aggregators.
  int better_arrangement(const plan::Accessed& all, bool write);
  [[nodiscard]] store::OpenOptions open_options() const;
  /// The view in force, for the length of one call: another thread may set another meanwhile.
  class HeldView {
   public:
    explicit HeldView(const File& file)
        : kept_(file.calls_may_overlap_ ? file.share_view() : nullptr), view_(kept_ != nullptr ? kept_.get() : file.view_.get()) {}
    [[nodiscard]] const View& operator*() const { return *view_; }
    [[nodiscard]] const View* operator->() const { return view_; }

   private:
    std::shared_ptr<const View> kept_;  ///< none where calls do not overlap: counting references is dear beside a small access
    const View* view_;
  };
  [[nodiscard]] std::shared_ptr<const View> share_view() const;
  [[nodiscard]] Status check_request(const View& view, const Request& request) const;
  Result<Offset> claim_position(const View& view, const Request& request);  ///< in bytes of data; advances the pointer it used
  /// In bytes of data; fails when an access of `bytes` from there ends beyond what an offset can say.
  Result<Offset> position_of_etype(const View& view, Offset etype, Offset bytes) const;
  Result<Offset> claim_ordered(const View& view, const Request& request, Status& local);  ///< collective
  void give_back(const View& view, const Request& request, Offset bytes_moved);  ///< individual pointer, after a short read
  Outcome carry_out(const View& view, const Request& request, Offset position_bytes, trace::OpTrace& trace);
  /// The same for a collective access by way of aggregators.  Collective.
  Outcome carry_out_together(const View& view, const Request& request, Offset position_bytes, trace::OpTrace& trace, const Status& local);
  struct Contribution;
  [[nodiscard]] static Contribution contribution(const View& view, const Request& request, Offset position_bytes);
  /// By the present arrangement, or by a better one that is gone over to in this call.  Collective.
  Result<strategy::Moved> gather(const Request& request, const Contribution& mine, strategy::Target& target, trace::OpTrace& trace, const Status& local);
  Result<strategy::Moved> gather_here(const Request& request, const Contribution& mine, strategy::Target& target, trace::OpTrace& trace, const Status& local,
                                      bool may_go_over);
  void count_gathered(const Contribution& mine, trace::OpTrace& trace) const;
  /// A finished write on one node is seen by a later read on any other, or there is only one node that could.
  [[nodiscard]] bool nodes_see_each_other() const { return facts_.node_local || facts_.coherent_between_nodes; }
  /// The same of the nodes that have ranks of this file: one sees its own writes on any file system.
  [[nodiscard]] bool ranks_see_each_other() const { return nodes_see_each_other() || comm_->topology().node_count == 1; }
  /// Before and after an access by aggregators of other nodes, where nodes do not see each other's writes: every rank sees what it wrote itself,
  /// whoever wrote it for it and whoever reads it for it (MPI 4.1 section 14.6.1).
  Status show_own_writes();
  /// In atomic mode, where nodes do not see each other's writes: what this one wrote is shown, what it has of others' is forgotten (MPI 4.1 section 14.6.1).
  Status see_other_nodes(trace::OpTrace& trace);
  Status see_aggregators_writes(bool wrote_for_others, const Status& mine);  ///< collective
  /// Remembers which stripes of a turn this rank wrote to as an aggregator.
  void note_stripes(std::span<const store::Transfer> batch);
  [[nodiscard]] bool aggregates() const { return !arrangements_.empty() && !atomic(); }
  Outcome move(const View& view, const Request& request, Offset position_bytes, trace::OpTrace& trace);
  Outcome move_piece(store::File& store_file, const Request& request, Offset offset, trace::OpTrace& trace);
  /// Whether all ranks had better move their own data in a collective access that all of them know alike.  On local aggregators.
  bool better_alone(const plan::Accessed& all, bool write, int aggregators, bool planned);
  /// A choice that was made; `any`: among several ways, so that it is worth learning from.
  struct Weighed {
    plan::Signature signature;
    plan::Estimate estimate;
    double expected = 0;  ///< seconds, with what was learned
    bool tried = false;
    bool any = false;
  };
  /// How one rank's access goes: by hint, or by what the model and what was learned say.
  /// `end`: of what it touches.
  Weighed weigh(plan::Pattern pattern, Offset end, store::File& store_file, const hints::Hints& asked, bool may_sieve_writes);
  void learn(const Weighed& weighed, std::int64_t nanoseconds, trace::OpTrace& trace);
  /// When all ranks have agreed on the call.  What it took is learned when the next one begins, which tells all local aggregators the least that a rank saw it
  /// take: that of the last one to come.
  void remember_taken(trace::OpTrace& trace);
  void learn_together(const strategy::Taken& taken);
  /// When a collective access failed on some rank: then not all of them may know the same of it.
  void forget_together();
  /// What is known from the last such file of this process and, where the hint asks for it, from the last run.
  [[nodiscard]] Learned recall_learned(const OpenedFacts& facts, const store::Identity& identity, bool also_from_last_run) const;
  /// When aggregators have been placed: begins with what rank 0 has recalled.  Collective.
  Status go_on_learning(Learned& learned, bool rank_0_knows_together);
  /// What this rank knows of its own accesses takes the place of rank 0's; of collective ones, all go by what rank 0 knows.
  void recall_own(Learned& learned) const;
  /// On rank 0.
  void keep_learned();
  void keep_for_next_file();
  [[nodiscard]] LikeFiles like_files(const OpenedFacts& facts, const store::Identity& identity) const;
  [[nodiscard]] std::span<const plan::Experience::Known> learned_together() const;
  bool keeps_learned_ = false;  ///< rank 0's hint
  /// Rank 0's hint when the file was opened, by which collective accesses are judged: of those in force now ranks may have different ones, and a rank may be
  /// given others while its access is under way in the background.
  hints::Switch sieve_reads_ = hints::Switch::kAutomatic;
  [[nodiscard]] bool learns() const { return hints().learn != hints::Switch::kDisable; }
  [[nodiscard]] bool tries_gathering();
  void note_gathering(bool declined);
  /// What a strategy moved, counted, or its failure with the file's name.
  Outcome finish(const Request& request, const Result<Offset>& moved, trace::OpTrace& trace);
  Outcome move_pieces(store::File& store_file, const View& view, const Request& request, Offset position, trace::OpTrace& trace);
  struct Stretch;
  Outcome move_stretch(store::File& store_file, WriteRight right, const Request& request, const Stretch& stretch, trace::OpTrace& trace);
  /// The three ways to agree, all collective.  Collective calls of one file agree in the order in which the program made them: the first two wait
  /// for those in the background; agree_in_order() is for those, which are in order already.
  Status agree(const Status& mine, trace::OpTrace& trace);
  Status agree_same(const Status& mine, std::uint64_t fingerprint, trace::OpTrace& trace);
  Status agree_in_order(const Status& mine);
  void drain_collectives();
  /// Until `over`, which is asked under pending_mutex_.
  void wait_for_background(const std::function<bool()>& over);
  Result<Offset> end_in_etypes(const View& view);
  /// Where MPI gives no words between nodes: the failure of everything that needs the shared pointer.
  [[nodiscard]] Status shared_pointer_works() const;
  Result<Offset> shared_position(const View& view);
  [[nodiscard]] Result<Offset> place_of(const View& view, Offset offset_etypes) const;  ///< absolute, in bytes
  Result<WriteRight> write_right(store::File& store_file, const hints::Hints& asked);
  /// The thread for accesses in the background, those that agree `in_order` or others.  Throws where there is no memory.
  Worker& worker(bool in_order);
  /// `moved`: what came of it, where that had to be done before.
  void run_pending(const std::shared_ptr<const View>& view, const Request& request, Result<Offset> position, Status local,
                   const std::shared_ptr<Pending>& pending, const std::optional<Outcome>& moved);

  std::unique_ptr<comm::Comm> comm_;
  store::Store& store_;
  std::string path_;
  Mode mode_;
  trace::FileTrace* trace_;
  OpenedFacts facts_;
  store::Identity identity_;  ///< of what rank 0 opened: who opens later must get the same file

  std::mutex hints_mutex_;
  std::vector<std::unique_ptr<const hints::Hints>> hints_kept_;  ///< all that were in force: workers and other threads read them without a lock
  std::atomic<const hints::Hints*> hints_;                       ///< one of them
  // Which one is gone by is found for each new pattern of a collective access; these come one after another.
  std::vector<std::unique_ptr<Arrangement>> arrangements_;  ///< none: every rank moves its own data
  std::vector<plan::Placing> placings_;  ///< the same on all ranks, and from open() on
  std::size_t present_ = 0;
  bool may_go_over_ = true;  ///< no team was lacking so far: the same on all ranks
  std::vector<int> aggregators_of_node_;  ///< by the hint; empty: evenly
  std::string remark_;
  std::vector<bool> stripes_written_;  ///< of a turn; as an aggregator.  Collective accesses come one after another
  std::atomic<bool> wrote_by_itself_{false};  ///< since other nodes were shown; kept only where they do not see it anyway
  std::atomic<bool> wrote_since_read_{false};  ///< by itself, since a collective read was told the size that came of it
  bool may_decline_ = false;      ///< a call may find that every rank had better move its own data
  plan::Setting setting_;         ///< the same on all ranks, but for the ranks of this one's node
  // What was learned of this rank's own accesses, which may come from several threads.
  std::mutex experience_mutex_;
  plan::Experience experience_;
  // Of collective ones.
  bool learns_together_ = false;  ///< as rank 0's hint says
  Weighed weighed_;               ///< in the collective access that is under way
  bool asked_ = false;            ///< whether it is to go by aggregators or not
  std::int64_t weighed_since_ns_ = 0;
  std::int64_t made_before_ = 0;  ///< Team::memories_made() when it began
  Weighed unlearned_;             ///< in the one before it, and what that took here
  strategy::Taken taken_;
  // On one node that costs small calls more than it saves: the more calls in a row found so, the more of the next ones do not ask.  The same on all ranks,
  // which make the same calls in the same order.
  int calls_to_skip_ = 0;
  int skipped_last_ = 0;

  const bool calls_may_overlap_;
  mutable std::mutex view_mutex_;  ///< guards view_ where calls may overlap
  std::shared_ptr<const View> view_;
  std::atomic<Offset> individual_{0};
  std::atomic<bool> atomic_{false};

  std::mutex open_mutex_;
  std::atomic<store::File*> opened_{nullptr};
  std::unique_ptr<store::File> store_file_;
  SieveLock sieve_lock_;

  std::mutex pending_mutex_;
  std::condition_variable pending_changed_;
  int pending_count_ = 0;
  int pending_collectives_ = 0;
  std::unique_ptr<Worker> collective_worker_;
};

}  // namespace penstock::file
