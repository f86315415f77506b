#include "isochron/comm/transport/thread_communicator.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "isochron/comm/transport/call.h"

namespace isochron::comm {

namespace {

/// The state that the ranks of a group share: each rank's call, and a barrier that ends early if a rank has
/// left.
class Board {
 public:
  struct Entry {
    Call call;
    const std::byte* source = nullptr;
    std::byte* target = nullptr;  // of all_reduce; each rank writes its own range of elements to it
  };

  explicit Board(int ranks) : entries_(static_cast<size_t>(ranks)) {}

  int size() const { return static_cast<int>(entries_.size()); }
  const Entry& entry(int rank) const { return entries_[static_cast<size_t>(rank)]; }

  /// Waits until all ranks have made their calls. From then until `leave_call`, entries are read without a
  /// lock.
  void enter_call(int rank, const Entry& own) {
    std::unique_lock lock(mutex_);
    entries_[static_cast<size_t>(rank)] = own;
    const uint64_t round = round_;
    if (ended_.empty() && ++arrived_ == size()) {
      if (const int other = differing_rank(); other == 0) {
        next_round();
      } else {
        set_ended(
            fmt::format("ranks call different collectives: rank 0 {}, rank {} {}; all ranks must make the "
                        "same calls in the same order, with equal sizes",
                        entry(0).call.text(), other, entry(other).call.text()));
      }
    }
    changed_.wait(lock, [&] { return round_ != round || !ended_.empty(); });
    if (round_ == round) {
      fail(ErrorCode::kCommunication, "comm", "{} can't be completed: {}", own.call.text(), ended_);
    }
  }
  /// Waits until no rank reads another rank's memory any more. All ranks are certain to call this.
  void leave_call() {
    std::unique_lock lock(mutex_);
    const uint64_t round = round_;
    if (++arrived_ == size()) next_round();
    changed_.wait(lock, [&] { return round_ != round; });
  }

  /// From now on no call can be completed, for this reason. The first reason is the one that is reported.
  void end(std::string reason) {
    const std::lock_guard lock(mutex_);
    set_ended(std::move(reason));
  }

 private:
  /// The first rank whose call differs from rank 0's; 0 if there is none.
  int differing_rank() const {
    for (int rank = 1; rank < size(); ++rank) {
      if (entry(rank).call != entry(0).call) return rank;
    }
    return 0;
  }
  void next_round() {
    arrived_ = 0;
    ++round_;
    changed_.notify_all();
  }
  void set_ended(std::string reason) {
    if (ended_.empty()) ended_ = std::move(reason);
    changed_.notify_all();
  }

  std::vector<Entry> entries_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int arrived_ = 0;
  uint64_t round_ = 0;
  std::string ended_;  // empty: calls can be completed
};

/// Sums the ranks' elements [begin, end) in rank order, and writes the sums to all ranks.
template <typename T>
void reduce_elements(const Board& board, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    T sum{};
    for (int rank = 0; rank < board.size(); ++rank) {
      T value;
      std::memcpy(&value, board.entry(rank).source + static_cast<size_t>(i) * sizeof(T), sizeof(T));
      sum = rank == 0 ? value : static_cast<T>(sum + value);
    }
    for (int rank = 0; rank < board.size(); ++rank) {
      std::memcpy(board.entry(rank).target + static_cast<size_t>(i) * sizeof(T), &sum, sizeof(T));
    }
  }
}

void copy(std::byte* to, const std::byte* from, size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<Board> board, int rank, LinkModel link)
      : board_(std::move(board)), rank_(rank), link_(std::move(link)) {
    arrivals_.total_ns.resize(static_cast<size_t>(board_->size()));
  }
  ThreadCommunicator(const ThreadCommunicator&) = delete;
  ThreadCommunicator& operator=(const ThreadCommunicator&) = delete;
  ~ThreadCommunicator() override {
    board_->end(fmt::format("rank {} has left the group: its communicator is destroyed", rank_));
  }

  int rank() const override { return rank_; }
  int size() const override { return board_->size(); }
  std::string description() const override { return fmt::format("{} threads of one process", size()); }

  void all_to_all(const std::byte* data, std::byte* received, const Slices& slices) override {
    check(slices);
    board_->enter_call(rank_, {Call::all_to_all(slices), data, nullptr});
    receive([&](int peer) {
      copy(received + static_cast<size_t>(peer) * slices.slice_bytes,
           board_->entry(peer).source + slices.begin(rank_), slices.bytes(rank_));
      return slices.bytes(rank_);
    });
    board_->leave_call();
  }

  void all_gather(std::byte* data, const Slices& slices) override {
    check(slices);
    board_->enter_call(rank_, {Call::all_gather(slices), data, nullptr});
    ++arrivals_.calls;
    receive(
        [&](int peer) {
          copy(data + slices.begin(peer), board_->entry(peer).source + slices.begin(peer),
               slices.bytes(peer));
          return slices.bytes(peer);
        },
        arrivals_.total_ns.data());
    board_->leave_call();
  }

  void all_reduce(std::byte* data, int64_t count, DType dtype) override {
    board_->enter_call(rank_, {Call::all_reduce(count, dtype), data, data});
    const Slices elements = Slices::of(static_cast<size_t>(count), size(), 1);
    const auto begin = static_cast<int64_t>(elements.begin(rank_));
    const auto end = static_cast<int64_t>(elements.begin(rank_ + 1));
    if (dtype == DType::kF32) {
      reduce_elements<float>(*board_, begin, end);
    } else if (dtype == DType::kF64) {
      reduce_elements<double>(*board_, begin, end);
    } else {
      reduce_elements<uint64_t>(*board_, begin, end);  // i64 that wraps instead of overflowing
    }
    board_->leave_call();
  }

  void broadcast(std::span<std::byte> data, int root) override {
    require(root >= 0 && root < size(), ErrorCode::kInvalidArgument, "comm",
            "broadcast from rank {} of a group of {}; the root must be one of its ranks", root, size());
    board_->enter_call(rank_, {Call::broadcast(data.size(), root), data.data(), nullptr});
    if (rank_ != root) copy(data.data(), board_->entry(root).source, data.size());
    board_->leave_call();
  }

  void barrier() override { board_->enter_call(rank_, {}); }
  Arrivals arrivals() const override { return arrivals_; }

  [[noreturn]] void abort(int exit_status) override {
    const std::string text = fmt::format("rank {} aborted with exit status {}", rank_, exit_status);
    board_->end(text);
    fail(ErrorCode::kCommunication, "comm", "{}", text);
  }

 private:
  /// `copy_from` copies a peer's slice and returns its size in bytes. Adds each peer's arrival time to
  /// `total_ns` if it isn't null.
  template <typename CopyFrom>
  void receive(const CopyFrom& copy_from, int64_t* total_ns = nullptr) const {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point began = Clock::now();
    std::chrono::nanoseconds last{0};
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank_) continue;
      const size_t bytes = copy_from(peer);
      std::chrono::nanoseconds arrived = Clock::now() - began;
      if (link_) arrived = std::max(arrived, link_(peer, rank_, bytes));
      if (total_ns != nullptr) total_ns[peer] += arrived.count();
      last = std::max(last, arrived);
    }
    if (link_) std::this_thread::sleep_until(began + last);
  }

  void check(const Slices& slices) const {
    require(slices.begin(size()) == slices.total_bytes, ErrorCode::kInvalidArgument, "comm",
            "{} slices of {} bytes don't hold {} bytes; use Slices::of", size(), slices.slice_bytes,
            slices.total_bytes);
  }

  const std::shared_ptr<Board> board_;
  const int rank_;
  const LinkModel link_;
  Arrivals arrivals_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> make_thread_group(int ranks, const LinkModel& link) {
  require(ranks >= 1, ErrorCode::kInvalidArgument, "comm", "a group of {} ranks; expected at least 1", ranks);
  const auto board = std::make_shared<Board>(ranks);
  std::vector<std::unique_ptr<Communicator>> members;
  for (int rank = 0; rank < ranks; ++rank) {
    members.push_back(std::make_unique<ThreadCommunicator>(board, rank, link));
  }
  return members;
}

void run_thread_group(int ranks, const std::function<void(Communicator&)>& body) {
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::jthread> threads;
  auto members = make_thread_group(ranks);  // destroyed before the threads are joined if one fails to start
  threads.reserve(members.size());
  for (auto& member : members) {
    threads.emplace_back([&body, &mutex, &first, own = std::move(member)]() mutable {
      try {
        body(*own);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (first == nullptr) first = std::current_exception();
      }
      own.reset();
    });
  }
  threads.clear();
  if (first != nullptr) std::rethrow_exception(first);
}

}  // namespace isochron::comm
