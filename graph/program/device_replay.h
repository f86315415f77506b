// A plan's work on a device, recorded once as a CUDA graph for each set of input addresses and launched as a
// whole at every step: one driver call per step, however many kernels the plan has.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "isochron/memory/cuda/gpu.h"

namespace isochron::graph {

class DeviceReplay {
 public:
  explicit DeviceReplay(std::shared_ptr<cuda::Gpu> gpu) : gpu_(std::move(gpu)) {}
  ~DeviceReplay();
  DeviceReplay(const DeviceReplay&) = delete;
  DeviceReplay& operator=(const DeviceReplay&) = delete;

  /// The recording for `inputs`; kNone if there is none.
  cuda::GraphExec find(std::span<std::byte* const> inputs) const;
  /// Calls `enqueue`, which enqueues all work in the stream that it is given, and records this work for
  /// `inputs`. Throws kCaptureViolation if a call can't be captured, kOutOfMemory.
  cuda::GraphExec record(std::span<std::byte* const> inputs,
                         const std::function<void(cuda::Stream)>& enqueue);
  /// Waits for the device and destroys all recordings. Needed when addresses in them have changed.
  void forget();
  /// Like forget(), but without waiting: the device must have finished all recordings.
  void forget_idle();

  cuda::Gpu& gpu() const { return *gpu_; }
  size_t recordings() const { return recordings_.size(); }
  /// The counts of the newest recording.
  const cuda::GraphCounts& counts() const { return counts_; }

 private:
  struct Recording {
    std::vector<std::byte*> inputs;
    cuda::GraphExec graph = cuda::GraphExec::kNone;
  };

  const std::shared_ptr<cuda::Gpu> gpu_;
  /// Recordings are captured in this stream, and nothing runs in it. The device's own stream isn't captured,
  /// because another thread may enqueue work there while a recording is made.
  cuda::Stream recording_stream_ = cuda::Stream::kNone;
  std::vector<Recording> recordings_;
  cuda::GraphCounts counts_;
};

}  // namespace isochron::graph
