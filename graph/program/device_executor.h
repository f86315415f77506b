// Runs a program on a device: its steps are recorded once as a CUDA graph and launched as a whole.
#pragma once

#include <memory>

#include "isochron/graph/program/device_replay.h"
#include "isochron/graph/program/executor.h"

namespace isochron::cuda {
class KernelModule;
}

namespace isochron::graph {

class DeviceExecutor final : public Executor {
 public:
  /// `module`: of the program's kernels; null for a program that is a part of another's kernel, which is put
  /// in that one's stream and never run by itself. `one_by_one`: steps are launched each by itself.
  DeviceExecutor(std::shared_ptr<cuda::Gpu> gpu, std::unique_ptr<cuda::KernelModule> module, bool one_by_one);
  ~DeviceExecutor() override;

  void run(Program& program) override;
  void profile(Program& program, std::span<int64_t> times_ns) override;
  void record(Program& program) override;
  void forget() override { replay_.forget(); }
  void enqueue(Program& program, cuda::Stream stream) override;

 private:
  void enqueue_side_by_side(Program& program, cuda::Stream stream);

  const std::shared_ptr<cuda::Gpu> gpu_;
  const std::unique_ptr<cuda::KernelModule> module_;
  const bool one_by_one_;
  DeviceReplay replay_;
};

}  // namespace isochron::graph
