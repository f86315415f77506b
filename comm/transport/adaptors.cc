#include "isochron/comm/transport/adaptors.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <thread>

namespace isochron::comm {

void CommunicatorAdaptor::all_to_all(const std::byte* data, std::byte* received, const Slices& slices) {
  const Call call = Call::all_to_all(slices);
  before(call);
  upstream_->all_to_all(data, received, slices);
  after(call);
}

void CommunicatorAdaptor::all_gather(std::byte* data, const Slices& slices) {
  const Call call = Call::all_gather(slices);
  before(call);
  upstream_->all_gather(data, slices);
  after(call);
}

void CommunicatorAdaptor::all_reduce(std::byte* data, int64_t count, DType dtype) {
  const Call call = Call::all_reduce(count, dtype);
  before(call);
  upstream_->all_reduce(data, count, dtype);
  after(call);
}

void CommunicatorAdaptor::broadcast(std::span<std::byte> data, int root) {
  const Call call = Call::broadcast(data.size(), root);
  before(call);
  upstream_->broadcast(data, root);
  after(call);
}

void CommunicatorAdaptor::barrier() {
  const Call call = Call::barrier();
  before(call);
  upstream_->barrier();
  after(call);
}

SlowLink::SlowLink(std::unique_ptr<Communicator> upstream, const Options& options)
    : CommunicatorAdaptor(std::move(upstream)), options_(options) {
  require(options.latency.count() >= 0, ErrorCode::kInvalidArgument, "SlowLink",
          "a latency of {} ns; give at least 0", options.latency.count());
  require(options.bytes_per_second > 0, ErrorCode::kInvalidArgument, "SlowLink",
          "{} bytes per second; give more than 0", options.bytes_per_second);
}

std::chrono::nanoseconds SlowLink::least_duration(const Call& call) const {
  if (size() == 1) return std::chrono::nanoseconds(0);
  const Traffic traffic = traffic_of(call, rank(), size());
  const auto bytes = static_cast<double>(std::max(traffic.bytes_sent, traffic.bytes_received));
  const int trips = call.kind == CallKind::kAllReduce ? 2 : 1;
  return trips * options_.latency +
         std::chrono::nanoseconds(std::llround(std::ceil(bytes / options_.bytes_per_second * 1e9)));
}

void SlowLink::before(const Call&) { begin_ = std::chrono::steady_clock::now(); }

void SlowLink::after(const Call& call) { std::this_thread::sleep_until(begin_ + least_duration(call)); }

void FailingCommunicator::before(const Call& call) {
  ++calls_;
  require(calls_ < failing_, ErrorCode::kCommunication, "FailingCommunicator",
          "call {} fails as planned ({}); calls fail from the {}. on", calls_, call_kind_name(call.kind),
          failing_);
}

CallRecord::CallRecord(size_t most_calls) : most_calls_(most_calls) { calls_.reserve(most_calls); }

void CallRecord::add(const Call& call, const Traffic& traffic) {
  const std::lock_guard lock(mutex_);
  if (calls_.size() < most_calls_) calls_.push_back(call);
  ++counts_[static_cast<size_t>(call.kind)];
  traffic_.messages_sent += traffic.messages_sent;
  traffic_.messages_received += traffic.messages_received;
  traffic_.bytes_sent += traffic.bytes_sent;
  traffic_.bytes_received += traffic.bytes_received;
}

std::vector<Call> CallRecord::calls() const {
  const std::lock_guard lock(mutex_);
  return calls_;
}

int64_t CallRecord::count() const {
  const std::lock_guard lock(mutex_);
  return std::accumulate(counts_.begin(), counts_.end(), int64_t{0});
}

int64_t CallRecord::count(CallKind kind) const {
  const std::lock_guard lock(mutex_);
  return counts_[static_cast<size_t>(kind)];
}

Traffic CallRecord::traffic() const {
  const std::lock_guard lock(mutex_);
  return traffic_;
}

void CallRecord::clear() {
  const std::lock_guard lock(mutex_);
  calls_.clear();
  counts_ = {};
  traffic_ = {};
}

void RecordingCommunicator::after(const Call& call) { record_.add(call, traffic_of(call, rank(), size())); }

}  // namespace isochron::comm
