#include "isochron/graph/program/device_replay.h"

#include <algorithm>

#include "isochron/core/base/error.h"
#include "isochron/core/telemetry/sealed.h"

namespace isochron::graph {

DeviceReplay::~DeviceReplay() {
  try {
    forget();
    if (recording_stream_ != cuda::Stream::kNone) gpu_->context().destroy(recording_stream_);
  } catch (const Error&) {  // the device is lost, and with it everything on it
  }
}

cuda::GraphExec DeviceReplay::find(std::span<std::byte* const> inputs) const {
  const auto found = std::ranges::find_if(
      recordings_, [&](const Recording& one) { return std::ranges::equal(one.inputs, inputs); });
  return found == recordings_.end() ? cuda::GraphExec::kNone : found->graph;
}

cuda::GraphExec DeviceReplay::record(std::span<std::byte* const> inputs,
                                     const std::function<void(cuda::Stream)>& enqueue) {
  note_made(Made::kPlan);
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
  recordings_.push_back({{inputs.begin(), inputs.end()}, executable});
  return executable;
}

void DeviceReplay::forget() {
  if (recordings_.empty()) return;
  gpu_->synchronize();
  forget_idle();
}

void DeviceReplay::forget_idle() {
  for (const Recording& recording : recordings_) gpu_->context().destroy(recording.graph);
  recordings_.clear();
}

}  // namespace isochron::graph
