// Group: the ranks that train together, as programs, ops and optimizers see them. The group has a
// communication thread that calls the transport, so that communication overlaps with computation. A thread
// that waits for a collective runs it itself, unless the communication thread is already calling the
// transport: a step that has nothing else to do communicates without a thread switch.
//
// Every rank makes the same calls in the same order. `comm::world()` (comm/group/world.h) is the group of
// the processes that a launcher such as mpirun started.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "isochron/comm/group/activity.h"
#include "isochron/comm/group/rank_notes.h"
#include "isochron/comm/transport/communicator.h"
#include "isochron/core/process/threads.h"

namespace isochron::comm {

/// A collective that is prepared in advance. It may be started any number of times, but each start must be
/// waited for before the next. It must outlive its last wait.
class Collective {
 public:
  Collective() = default;
  Collective(const Collective&) = delete;
  Collective& operator=(const Collective&) = delete;
  virtual ~Collective() = default;
  /// Sets the name (a string that lives as long as the program) and the size of the data for messages.
  /// `content` is a hash of dtypes, shapes and root, which must be the same on all ranks too.
  void describe(const char* label, size_t bytes, uint64_t content = 0) {
    label_ = label;
    bytes_ = bytes;
    content_ = content;
  }

 protected:
  /// Runs on the group's thread or in `wait`. Returns the number of bytes that this rank sent. Allocates
  /// nothing.
  virtual size_t run(Communicator& communicator) = 0;

 private:
  friend class Group;
  uint32_t number_ = 0;  // number of the latest start
  const char* label_ = "collective";
  size_t bytes_ = 0;
  uint64_t content_ = 0;
};

/// What a group has done so far.
struct CommunicationStats {
  int64_t calls = 0;
  int64_t bytes_sent = 0;  // by this rank
  int64_t busy_ns = 0;     // in transport calls, including waiting for other ranks
  int64_t exposed_ns = 0;  // time that callers spent waiting for collectives
};

/// All ranks make the same calls in the same order. The ranks compare their first 64 calls, and after that
/// one call whenever the number of calls has doubled. If a rank's call differs, all ranks throw
/// kCommunication.
class Group {
 public:
  /// `open` creates the transport on the group's thread, which also destroys it. Only one thread at a time
  /// uses the transport. Throws what `open` throws.
  explicit Group(const std::function<std::unique_ptr<Communicator>()>& open);
  /// A group of one rank, whose collectives do nothing. Has no thread.
  Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  /// Leaves the group if `leave` hasn't been called.
  ~Group();

  int rank() const { return rank_; }
  int size() const { return size_; }
  /// For messages, such as "Open MPI 4.1.4".
  const std::string& description() const { return description_; }

  /// Queues the collective for the group's thread, after all collectives started earlier. Only one thread at
  /// a time may call this, `wait` and the functions below. Throws kCommunication once the transport has
  /// failed.
  void start(Collective& collective);
  /// Returns when the collective has finished its newest run. Throws the error of that run; every later call
  /// throws it too.
  void wait(Collective& collective);
  /// Gives up a collective that was started but, because of an error, won't be waited for. Queued collectives
  /// that haven't begun won't run, and later calls throw kCommunication, because the ranks are no longer at
  /// the same collective. Returns when `collective` is no longer in use. If it is running, this waits until
  /// all ranks have taken part in it.
  void abandon(Collective& collective);
  /// Queues the collective without waking the group's thread. Usually the thread that waits for it runs it.
  void start_when_waited_for(Collective& collective);
  void run(Collective& collective) {
    start_when_waited_for(collective);
    wait(collective);
  }

  // `label`: as in Collective::describe.

  /// Replaces `numbers` by their sums over the ranks. Adds in rank order, so that every rank gets the same
  /// bits. Allocates only on the first call with a given size.
  void sum(std::span<double> numbers, const char* label = "sum");
  void sum(std::span<int64_t> numbers, const char* label = "sum");
  /// Collects the `own` bytes of every rank in `all`, which holds size() * own.size() bytes, rank 0's first.
  void gather(std::span<const std::byte> own, std::span<std::byte> all, const char* label = "gather");
  /// Copies the `data` of `root` to all other ranks.
  void broadcast(std::span<std::byte> data, int root = 0, const char* label = "broadcast");
  void barrier(const char* label = "barrier");

  /// Closes the transport. All ranks must take part. After that no collective may be started.
  void leave();
  /// Ends all ranks, including this process, even while a collective waits for other ranks.
  [[noreturn]] void abort(int exit_status);

  CommunicationStats stats() const;
  /// The transport's arrival times. Waits for the collective in progress.
  Arrivals arrivals();
  /// How long the group's thread was ready to run but had to wait for a core. Reading this takes a few us.
  int64_t core_wait_ns() const { return thread_id_ > 0 ? isochron::core_wait_ns(thread_id_) : 0; }
  /// The notes that ranks exchange along with the sums of each update.
  RankNotes& notes() { return notes_; }
  const RankNotes& notes() const { return notes_; }
  /// What this rank is doing, for the ranks that wait for it.
  Activity& activity() { return activity_; }
  const Activity& activity() const { return activity_; }

 private:
  enum End : int { kNot, kTogether, kAbort };
  static constexpr uint32_t kQueued = 256;  // maximum number started and not done

  void work_through();
  void run_next();
  void end(End how);
  void throw_if_failed() const;
  void finish(const Collective& collective);
  const std::byte* gathered(std::span<const std::byte> own, const char* label);

  int rank_ = 0;
  int size_ = 1;
  std::string description_ = "one process";
  std::mutex working_;  // held by the thread that calls the transport
  std::unique_ptr<Communicator> communicator_;
  Collective* queue_[kQueued] = {};
  /// A rank's call, for comparison with the calls of other ranks.
  struct Call {
    uint64_t content = 0, bytes = 0;
    char label[48] = {};
    bool operator==(const Call&) const = default;
    std::string text() const;
  };
  void compare_ranks(const Collective& collective, uint32_t number);
  std::vector<Call> own_call_, calls_of_ranks_;  // one for each rank
  std::atomic<uint32_t> started_{0};             // counts of collectives, which may wrap
  std::atomic<uint32_t> done_{0};
  std::atomic<int> ending_{kNot};
  uint32_t last_ = 0;    // number of the entry at which all ranks leave; written before ending_ is set
  int exit_status_ = 0;  // for abort
  std::atomic<bool> failed_{false};
  std::exception_ptr failure_;  // written before failed_ is set
  std::atomic<bool> abandoned_{false};
  std::atomic<int64_t> calls_{0}, bytes_sent_{0}, busy_ns_{0}, exposed_ns_{0};
  int thread_id_ = 0;
  std::vector<std::byte> gathered_;
  RankNotes notes_{0, 1};
  Activity activity_;
  std::thread thread_;
};

}  // namespace isochron::comm
