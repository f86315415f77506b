#include "isochron/graph/program/device_replay.h"

#include <algorithm>

#include "isochron/core/base/error.h"
#include "isochron/core/telemetry/sealed.h"

namespace isochron::graph {

DeviceReplay::~DeviceReplay() {
  try {
    forget();
    if (recording_stream_ != cuda::Stream::kNone) gpu_->context().destroy(recording_stream_);
  } catch (const Error&) {  // of a device that is lost, with all it had
  }
}

void DeviceReplay::run(std::span<std::byte* const> inputs, const std::function<void(cuda::Stream)>& enqueue) {
  gpu_->context().launch(prepare(inputs, enqueue), gpu_->stream());
}

cuda::GraphExec DeviceReplay::prepare(std::span<std::byte* const> inputs,
                                      const std::function<void(cuda::Stream)>& enqueue) {
  auto found = std::ranges::find_if(
      recordings_, [&](const Recording& one) { return std::ranges::equal(one.inputs, inputs); });
  if (found == recordings_.end()) [[unlikely]] {
    if (recordings_.size() == kMostRecordings) {
      const auto oldest = std::ranges::min_element(recordings_, {}, &Recording::last_run);
      gpu_->synchronize();
      gpu_->context().destroy(oldest->graph);
      recordings_.erase(oldest);
    }
    note_made(Made::kPlan);
    const cuda::GraphExec graph = record(enqueue);
    recordings_.push_back({{inputs.begin(), inputs.end()}, graph, 0});
    found = std::prev(recordings_.end());
  }
  found->last_run = ++runs_;
  return found->graph;
}

cuda::GraphExec DeviceReplay::record(const std::function<void(cuda::Stream)>& enqueue) {
  cuda::Context& context = gpu_->context();
  if (recording_stream_ == cuda::Stream::kNone) recording_stream_ = context.create_stream(false);
  const cuda::Stream stream = recording_stream_;
  const cuda::GraphExec executable = capture_graph(
      context, stream, [&] { enqueue(stream); }, &counts_);
  try {
    context.upload(executable, gpu_->stream());
  } catch (...) {
    context.destroy(executable);
    throw;
  }
  return executable;
}

void DeviceReplay::forget() {
  if (recordings_.empty()) return;
  gpu_->synchronize();
  for (const Recording& recording : recordings_) gpu_->context().destroy(recording.graph);
  recordings_.clear();
}

}  // namespace isochron::graph
