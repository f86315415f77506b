// Adaptors: communicators that own another communicator and add one thing to it. They may be stacked in any
// order.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "isochron/comm/transport/call.h"
#include "isochron/comm/transport/communicator.h"

namespace isochron::comm {

/// The base of all adaptors: passes each call on, between `before` and `after`.
class CommunicatorAdaptor : public Communicator {
 public:
  explicit CommunicatorAdaptor(std::unique_ptr<Communicator> upstream) : upstream_(std::move(upstream)) {}
  int rank() const override { return upstream_->rank(); }
  int size() const override { return upstream_->size(); }
  std::string description() const override { return upstream_->description(); }
  void all_to_all(const std::byte* data, std::byte* received, const Slices& slices) override;
  void all_gather(std::byte* data, const Slices& slices) override;
  void all_reduce(std::byte* data, int64_t count, DType dtype) override;
  void broadcast(std::span<std::byte> data, int root) override;
  void barrier() override;
  Arrivals arrivals() const override { return upstream_->arrivals(); }
  [[noreturn]] void abort(int exit_status) override {
    upstream_->abort(exit_status);
    __builtin_unreachable();  // GCC ignores [[noreturn]] on virtual calls
  }
  void abort_call(int exit_status) override { upstream_->abort_call(exit_status); }

 protected:
  virtual void before(const Call&) {}
  /// Not called if the call has thrown.
  virtual void after(const Call&) {}

 private:
  const std::unique_ptr<Communicator> upstream_;
};

/// A link of a cluster's network, simulated on one machine. A call takes at least as long as its traffic
/// (`traffic_of`) takes on a link that sends and receives `bytes_per_second` at the same time. The rest of
/// that time is slept, so that the cores are free, as they are while a real network transfers data.
class SlowLink final : public CommunicatorAdaptor {
 public:
  struct Options {
    std::chrono::nanoseconds latency{0};  // once per call; twice for all_reduce, which also returns sums
    double bytes_per_second = 1e9;
  };
  /// Throws kInvalidArgument for a negative latency, or unless bytes_per_second > 0.
  SlowLink(std::unique_ptr<Communicator> upstream, const Options& options);
  /// The minimum duration of this call on this rank; 0 in a group of one.
  std::chrono::nanoseconds least_duration(const Call& call) const;

 private:
  void before(const Call& call) override;
  void after(const Call& call) override;

  const Options options_;
  std::chrono::steady_clock::time_point begin_;
};

/// Makes the N-th collective call, counted from 1, and all later ones throw kCommunication, so that a test
/// can be run for every N. Failing calls aren't passed on, so other ranks wait until this rank aborts or its
/// communicator is destroyed.
class FailingCommunicator final : public CommunicatorAdaptor {
 public:
  FailingCommunicator(std::unique_ptr<Communicator> upstream, int64_t failing)
      : CommunicatorAdaptor(std::move(upstream)), failing_(failing) {}
  /// Whether the N-th call has been made.
  bool failed() const { return calls_ >= failing_; }

 private:
  void before(const Call& call) override;

  const int64_t failing_;
  int64_t calls_ = 0;
};

/// The calls that a RecordingCommunicator has recorded. Outlives it, and may be read by any thread at any
/// time.
class CallRecord {
 public:
  static constexpr size_t kDefaultMostCalls = 4096;
  /// Keeps the first `most_calls` calls and only counts later ones.
  explicit CallRecord(size_t most_calls = kDefaultMostCalls);

  void add(const Call& call, const Traffic& traffic);
  /// The calls that were kept, in order.
  std::vector<Call> calls() const;
  int64_t count() const;
  int64_t count(CallKind kind) const;
  /// The total over all calls.
  Traffic traffic() const;
  void clear();

 private:
  mutable std::mutex mutex_;
  const size_t most_calls_;
  std::vector<Call> calls_;
  std::array<int64_t, kCallKindCount> counts_{};
  Traffic traffic_;
};

/// Adds every successful call to a record, with this rank's traffic. Allocates nothing after construction.
class RecordingCommunicator final : public CommunicatorAdaptor {
 public:
  RecordingCommunicator(std::unique_ptr<Communicator> upstream, CallRecord& record)
      : CommunicatorAdaptor(std::move(upstream)), record_(record) {}

 private:
  void after(const Call& call) override;

  CallRecord& record_;
};

}  // namespace isochron::comm
