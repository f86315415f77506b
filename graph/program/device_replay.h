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

  /// What was recorded for `inputs`; kNone for none.
  cuda::GraphExec find(std::span<std::byte* const> inputs) const;
  /// Calls `enqueue`, which puts all work in the stream that it is given, and records that for `inputs`.
  /// Throws kCaptureViolation where a call can't be captured, kOutOfMemory.
  cuda::GraphExec record(std::span<std::byte* const> inputs,
                         const std::function<void(cuda::Stream)>& enqueue);
  /// Waits for the device and destroys all recordings. For when addresses in them have changed.
  void forget();
  /// Like forget() without waiting: the device must not run any of the recordings any more.
  void forget_idle();

  cuda::Gpu& gpu() const { return *gpu_; }
  size_t recordings() const { return recordings_.size(); }
  /// Of the newest recording.
  const cuda::GraphCounts& counts() const { return counts_; }

 private:
  struct Recording {
    std::vector<std::byte*> inputs;
    cuda::GraphExec graph = cuda::GraphExec::kNone;
  };

  const std::shared_ptr<cuda::Gpu> gpu_;
  /// Nothing runs in it. Another thread may copy and draw in the device's own one while a recording is made.
  cuda::Stream recording_stream_ = cuda::Stream::kNone;
  std::vector<Recording> recordings_;
  cuda::GraphCounts counts_;
};

}  // namespace isochron::graph
