// Runs a program on a device: its steps are recorded once as a CUDA graph and launched as a whole.
// Independent steps run concurrently, unless the first runs show that they are faster in order. If
// CUDA_LAUNCH_BLOCKING is set to a value other than 0, each step is launched separately and waited for
// instead, so that an error names the instruction that caused it.
#pragma once

#include <memory>
#include <vector>

#include "isochron/graph/program/device_replay.h"
#include "isochron/graph/program/executor.h"
#include "isochron/graph/program/order_trial.h"

namespace isochron::cuda {
class KernelModule;
}

namespace isochron::graph {

class DeviceExecutor final : public Executor {
 public:
  /// The most sets of input addresses that are recorded: the two slots of a ring
  /// (memory/cuda/transfer_ring.h) and four of the program's own. Inputs at other addresses are copied to
  /// memory of this executor, and one more recording is made for that memory.
  static constexpr size_t kMaxRecordings = 6;

  /// `module` holds the program's kernels. It is null for a sub-program within a kernel of another program:
  /// such a program is enqueued in the outer program's stream and never run by itself. `one_by_one`: each
  /// step is launched separately.
  DeviceExecutor(std::shared_ptr<cuda::Gpu> gpu, std::unique_ptr<cuda::KernelModule> module, bool one_by_one);
  ~DeviceExecutor() override;

  void run(Program& program) override;
  void profile(Program& program, std::span<int64_t> times_ns) override;
  void record(Program& program) override;
  void forget() override;
  void enqueue(Program& program, cuda::Stream stream) override;

 private:
  void enqueue_in_order(Program& program, cuda::Stream stream);
  void enqueue_side_by_side(Program& program, cuda::Stream stream);
  void run_blocking(Program& program, cuda::Stream stream);
  void copy_inputs(Program& program);
  struct Recorded {
    cuda::GraphExec graph, in_order;  // the same except during a trial
  };
  Recorded recorded(Program& program, std::span<std::byte* const> inputs);
  void end_trial(Program& program);

  const std::shared_ptr<cuda::Gpu> gpu_;
  const std::unique_ptr<cuda::KernelModule> module_;
  const bool blocking_, one_by_one_;
  std::unique_ptr<DeviceReplay> replay_;
  // Both are set until it is known which order is faster.
  std::unique_ptr<DeviceReplay> in_order_;
  std::unique_ptr<OrderTrial> trial_;
  bool tried_ = false;                // also true if there is nothing to try
  std::vector<Ref<Storage>> copies_;  // of the inputs
  std::vector<std::byte*> copied_;    // their addresses
};

}  // namespace isochron::graph
