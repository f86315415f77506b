#include "isochron/comm/group/group.h"

#include <unistd.h>

#include <bit>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <thread>
#include <vector>

#include "isochron/core/base/clock.h"
#include "isochron/core/base/error.h"
#include "isochron/core/base/library_call.h"
#include "isochron/core/process/threads.h"
#include "isochron/core/telemetry/counters.h"

namespace isochron::comm {
namespace {

/// The ranks compare this many calls at the start, and then one call whenever the number of calls has
/// doubled.
constexpr uint32_t kComparedCalls = 64;

/// A collective that runs a function, for calls from the host.
template <typename F>
class CollectiveOf final : public Collective {
 public:
  CollectiveOf(F function, const char* label, size_t bytes) : function_(std::move(function)) {
    describe(label, bytes);
  }
  size_t run(Communicator& communicator) override { return function_(communicator); }

 private:
  F function_;
};

template <typename F>
void run_function(Group& group, const char* label, size_t bytes, F function) {
  if (group.size() == 1) return;
  CollectiveOf<F> collective(std::move(function), label, bytes);
  group.run(collective);
}

/// Adds up numbers that are stored rank by rank.
template <typename T>
void add_ranks(std::span<T> numbers, const std::byte* all, int ranks) {
  const T* const each = reinterpret_cast<const T*>(all);
  std::copy_n(each, numbers.size(), numbers.begin());
  for (size_t i = numbers.size(); i < numbers.size() * static_cast<size_t>(ranks); ++i)
    numbers[i % numbers.size()] += each[i];
}

}  // namespace

Group::Group() = default;

Group::Group(const std::function<std::unique_ptr<Communicator>()>& open) {
  std::atomic<bool> opened{false};
  thread_ = std::thread([this, &open, &opened] {
    thread_id_ = gettid();
    flush_subnormals_to_zero();  // so that sums are computed as in a step
    bool is_open = false;        // once the constructor returns, `failure_` is a collective's error
    try {
      communicator_ = open();
      rank_ = communicator_->rank();
      size_ = communicator_->size();
      description_ = communicator_->description();
      notes_ = RankNotes(rank_, size_);
      own_call_.resize(static_cast<size_t>(size_));
      calls_of_ranks_.resize(static_cast<size_t>(size_));
      is_open = true;
    } catch (...) {
      failure_ = std::current_exception();
    }
    opened.store(true);
    opened.notify_all();  // from here on the constructor may return, which destroys `opened`
    if (is_open) work_through();
  });
  opened.wait(false, std::memory_order_acquire);
  if (failure_) {
    thread_.join();
    std::rethrow_exception(failure_);
  }
}

Group::~Group() { leave(); }

void Group::leave() {
  if (!thread_.joinable()) return;
  // MPICH's MPI_Abort ends the process with exit(), which calls this function.
  if (ending_.load(std::memory_order_acquire) == kAbort) std::_Exit(exit_status_);
  end(kTogether);
  thread_.join();
}

/// Wakes the group's thread, which ends once everything started earlier is done.
void Group::end(End how) {
  last_ = started_.load(std::memory_order_relaxed) + 1;
  ending_.store(how, std::memory_order_release);
  started_.fetch_add(1);
  started_.notify_one();
}

void Group::work_through() {
  for (;;) {
    const uint32_t done = done_.load(std::memory_order_acquire);
    started_.wait(done, std::memory_order_acquire);
    const std::scoped_lock lock(working_);
    const int ending = ending_.load(std::memory_order_acquire);
    if (ending == kAbort) communicator_->abort(exit_status_);
    const uint32_t next = done_.load(std::memory_order_relaxed) + 1;
    if (ending == kTogether && next == last_) break;
    if (started_.load(std::memory_order_acquire) != next - 1) run_next();
  }
  communicator_.reset();
}

std::string Group::Call::text() const {
  return bytes > 0 ? fmt::format("{} of {} bytes", label, bytes) : std::string(label);
}

/// Throws if the ranks don't make the same call: the transport would mix up their data, or wait forever.
void Group::compare_ranks(const Collective& collective, uint32_t number) {
  Call& own = calls_of_ranks_[static_cast<size_t>(rank_)];
  own = {.content = collective.content_, .bytes = collective.bytes_};
  std::strncpy(own.label, collective.label_, sizeof own.label - 1);
  std::ranges::fill(own_call_, own);
  const auto data = std::as_bytes(std::span(own_call_));
  communicator_->all_to_all(data.data(), reinterpret_cast<std::byte*>(calls_of_ranks_.data()),
                            {data.size(), sizeof(Call)});
  for (int rank = 1; rank < size_; ++rank) {
    const Call &first = calls_of_ranks_[0], &other = calls_of_ranks_[static_cast<size_t>(rank)];
    require(other == first, ErrorCode::kCommunication, "group",
            "the ranks make different calls: call {} is {} on rank 0, but {}{} on rank {}; all ranks must "
            "make the same calls in the same order",
            number, first.text(), other.text(),
            other.text() == first.text() ? " with another dtype, shape, order or root" : "", rank);
  }
}

/// Runs the oldest collective of the queue. The caller must hold `working_`.
void Group::run_next() {
  const uint32_t next = done_.load(std::memory_order_relaxed);
  const int64_t began_ns = now_ns();
  try {
    if (!failed_.load(std::memory_order_relaxed) && !abandoned_.load(std::memory_order_acquire)) {
      const SingleThreadLibraryCall library;  // MPI's allocations don't count as ours
      Collective& collective = *queue_[next % kQueued];
      activity_.begin(collective.label_, static_cast<int64_t>(collective.bytes_));
      if (next < kComparedCalls || std::has_single_bit(next + 1)) compare_ranks(collective, next + 1);
      const size_t bytes = collective.run(*communicator_);
      bytes_sent_.fetch_add(static_cast<int64_t>(bytes), std::memory_order_relaxed);
      count(Counter::kCollectives, 1);
      count(Counter::kSentBytes, static_cast<int64_t>(bytes));
    }
  } catch (...) {
    failure_ = std::current_exception();
    failed_.store(true, std::memory_order_release);
  }
  calls_.fetch_add(1, std::memory_order_relaxed);
  busy_ns_.fetch_add(now_ns() - began_ns, std::memory_order_relaxed);
  activity_.finish();
  done_.store(next + 1);  // seq_cst: visible before notify_all looks for waiting threads
  done_.notify_all();
}

void Group::throw_if_failed() const {
  if (failed_.load(std::memory_order_acquire)) std::rethrow_exception(failure_);
  require(
      !abandoned_.load(std::memory_order_relaxed), ErrorCode::kCommunication, "group",
      "an error stopped a step of rank {} in the middle of its exchange, so this rank is out of step with "
      "the others; restart all ranks from a checkpoint",
      rank_);
}

void Group::start(Collective& collective) {
  if (size_ == 1) return;
  start_when_waited_for(collective);
  started_.notify_one();
}

void Group::start_when_waited_for(Collective& collective) {
  if (size_ == 1) return;
  throw_if_failed();
  require(thread_.joinable(), ErrorCode::kCommunication, "group", "rank {} has left", rank_);
  const uint32_t number = started_.load(std::memory_order_relaxed) + 1;
  for (uint32_t done = done_.load(std::memory_order_acquire); number - done > kQueued;
       done = done_.load(std::memory_order_acquire)) {
    started_.notify_one();  // those in the queue may be for whoever waits, who isn't there yet
    done_.wait(done, std::memory_order_acquire);
  }
  collective.number_ = number;
  queue_[(number - 1) % kQueued] = &collective;
  activity_.enter();
  started_.store(number);  // seq_cst: visible before notify_one looks for a waiting thread
}

/// Returns when the latest start of the collective is done.
void Group::finish(const Collective& collective) {
  const auto left = [&](uint32_t done) { return static_cast<int32_t>(collective.number_ - done) > 0; };
  uint32_t done = done_.load(std::memory_order_acquire);
  if (!left(done)) return;
  const int64_t began_ns = now_ns();
  for (; left(done); done = done_.load(std::memory_order_acquire)) {
    const std::unique_lock lock(working_, std::try_to_lock);
    if (lock.owns_lock()) {
      if (left(done_.load(std::memory_order_relaxed))) run_next();
    } else {
      done_.wait(done, std::memory_order_acquire);
    }
  }
  exposed_ns_.fetch_add(now_ns() - began_ns, std::memory_order_relaxed);
}

void Group::wait(Collective& collective) {
  if (size_ == 1) return;
  finish(collective);
  throw_if_failed();
}

void Group::abandon(Collective& collective) {
  if (size_ == 1) return;
  abandoned_.store(true, std::memory_order_release);
  finish(collective);
}

/// Gathers every rank's numbers on all ranks; each rank adds them up itself.
const std::byte* Group::gathered(std::span<const std::byte> own, const char* label) {
  gathered_.resize(std::max(gathered_.size(), own.size() * static_cast<size_t>(size_)));
  gather(own, std::span(gathered_).first(own.size() * static_cast<size_t>(size_)), label);
  return gathered_.data();
}

void Group::sum(std::span<double> numbers, const char* label) {
  if (size_ > 1 && !numbers.empty()) add_ranks(numbers, gathered(std::as_bytes(numbers), label), size_);
}

void Group::sum(std::span<int64_t> numbers, const char* label) {
  if (size_ > 1 && !numbers.empty()) add_ranks(numbers, gathered(std::as_bytes(numbers), label), size_);
}

void Group::gather(std::span<const std::byte> own, std::span<std::byte> all, const char* label) {
  require(all.size() == own.size() * static_cast<size_t>(size_), ErrorCode::kInvalidArgument, "gather",
          "{} ranks of {} bytes need {} bytes, got {}", size_, own.size(),
          own.size() * static_cast<size_t>(size_), all.size());
  if (own.empty()) return;
  std::memcpy(all.data() + static_cast<size_t>(rank_) * own.size(), own.data(), own.size());
  run_function(*this, label, all.size(), [&](Communicator& communicator) {
    communicator.all_gather(all.data(), {all.size(), own.size()});
    return own.size() * static_cast<size_t>(size_ - 1);
  });
}

void Group::broadcast(std::span<std::byte> data, int root, const char* label) {
  require(root >= 0 && root < size_, ErrorCode::kInvalidArgument, "broadcast", "there is no rank {} among {}",
          root, size_);
  run_function(*this, label, data.size(), [&](Communicator& communicator) {
    communicator.broadcast(data, root);
    return root == rank_ ? data.size() : 0;
  });
}

void Group::barrier(const char* label) {
  run_function(*this, label, 0, [](Communicator& communicator) {
    communicator.barrier();
    return size_t{0};
  });
}

void Group::abort(int exit_status) {
  if (thread_.joinable()) {
    static constexpr auto kPatience = std::chrono::seconds(1);
    try {  // MPICH's abort may wait forever for ranks that have left
      std::thread([exit_status] {
        std::this_thread::sleep_for(kPatience);
        std::_Exit(exit_status);
      }).detach();
    } catch (const std::system_error&) {  // no thread can be started
    }
    exit_status_ = exit_status;
    ending_.store(kAbort, std::memory_order_release);
    const std::unique_lock lock(working_, std::try_to_lock);
    if (lock.owns_lock()) communicator_->abort(exit_status);
    communicator_->abort_call(exit_status);
    end(kAbort);
    // If the group's thread is stuck in a call, the launcher ends all ranks once this process has exited.
    std::this_thread::sleep_for(kPatience);
  }
  std::_Exit(exit_status);
}

Arrivals Group::arrivals() {
  const std::scoped_lock lock(working_);
  return communicator_ ? communicator_->arrivals() : Arrivals{};
}

CommunicationStats Group::stats() const {
  return {calls_.load(std::memory_order_relaxed), bytes_sent_.load(std::memory_order_relaxed),
          busy_ns_.load(std::memory_order_relaxed), exposed_ns_.load(std::memory_order_relaxed)};
}

}  // namespace isochron::comm
