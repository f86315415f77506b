// Adaptors: communicators that add one thing to another one, which they own. They may be stacked in any
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

/// What all adaptors share: calls are passed through, between `before` and `after`.
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
    __builtin_unreachable();  // GCC doesn't see it of virtual calls
  }
  void abort_call(int exit_status) override { upstream_->abort_call(exit_status); }

 protected:
  virtual void before(const Call&) {}
  /// Not called where the call has thrown.
  virtual void after(const Call&) {}

 private:
  const std::unique_ptr<Communicator> upstream_;
};

/// A link of a cluster's network, played on one machine: a call lasts at least as long as its traffic
/// (`traffic_of`) takes on a link that sends and receives `bytes_per_second` at once. What is left of that
/// time is slept, so that the cores are free as they are while a real wire works.
class SlowLink final : public CommunicatorAdaptor {
 public:
  struct Options {
    std::chrono::nanoseconds latency{0};  // once a call; twice for all_reduce, which answers
    double bytes_per_second = 1e9;
  };
  /// Throws kInvalidArgument for a negative latency, or unless bytes_per_second > 0.
  SlowLink(std::unique_ptr<Communicator> upstream, const Options& options);
  /// How long this call lasts at least on this rank; 0 in a group of one.
  std::chrono::nanoseconds least_duration(const Call& call) const;

 private:
  void before(const Call& call) override;
  void after(const Call& call) override;

  const Options options_;
  std::chrono::steady_clock::time_point begin_;
};

/// Fails the N-th collective call, counted from 1, and all later ones, with kCommunication: run a test for
/// every N. The calls aren't passed on, so other ranks wait until this one aborts or is destroyed.
class FailingCommunicator final : public CommunicatorAdaptor {
 public:
  FailingCommunicator(std::unique_ptr<Communicator> upstream, int64_t failing)
      : CommunicatorAdaptor(std::move(upstream)), failing_(failing) {}
  /// Whether the N-th call has come.
  bool failed() const { return calls_ >= failing_; }

 private:
  void before(const Call& call) override;

  const int64_t failing_;
  int64_t calls_ = 0;
};

/// What a RecordingCommunicator keeps; outlives it, and may be read by any thread at any time.
class CallRecord {
 public:
  static constexpr size_t kDefaultMostCalls = 4096;
  /// Keeps the first `most_calls` calls; later ones are counted only.
  explicit CallRecord(size_t most_calls = kDefaultMostCalls);

  void add(const Call& call, const Traffic& traffic);
  /// Those kept, in their order.
  std::vector<Call> calls() const;
  int64_t count() const;
  int64_t count(CallKind kind) const;
  /// Of all calls together.
  Traffic traffic() const;
  void clear();

 private:
  mutable std::mutex mutex_;
  const size_t most_calls_;
  std::vector<Call> calls_;
  std::array<int64_t, kCallKindCount> counts_{};
  Traffic traffic_;
};

/// Writes every call that succeeds into a record, with this rank's traffic. Allocates nothing once made.
class RecordingCommunicator final : public CommunicatorAdaptor {
 public:
  RecordingCommunicator(std::unique_ptr<Communicator> upstream, CallRecord& record)
      : CommunicatorAdaptor(std::move(upstream)), record_(record) {}

 private:
  void after(const Call& call) override;

  CallRecord& record_;
};

}  // namespace isochron::comm
