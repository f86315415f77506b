#include "isochron/backends/cpu/control/control.h"

#include <cstring>

#include "isochron/backends/common/sub_graph_kernels.h"

namespace isochron::ops {
namespace {

using graph::KernelArgs;
using graph::KernelRequest;
using graph::Plan;

class CpuCond final : public CondKernel {
 public:
  using CondKernel::CondKernel;
  void run(const KernelArgs& args) override {
    Plan& plan = *reinterpret_cast<const bool*>(args.inputs[0]) ? then_.plan() : otherwise_.plan();
    plan.run();
    for (size_t i = 0; i < sizes_.size(); ++i) {
      if (sizes_[i] > 0) std::memcpy(args.outputs[i], plan.output(i), sizes_[i]);
    }
  }
};

class CpuWhile final : public WhileKernel {
 public:
  using WhileKernel::WhileKernel;
  void run(const KernelArgs& args) override {
    for (size_t i = 0; i < states_; ++i) {
      if (sizes_[i] > 0) std::memmove(state_[i], args.inputs[i], sizes_[i]);
    }
    int64_t& iteration = *reinterpret_cast<int64_t*>(args.workspace);
    iteration = 0;
    const bool* again = reinterpret_cast<const bool*>(condition_.plan().output(0));
    while (bound_ < 0 || iteration < bound_) {
      condition_.plan().run();
      if (!*again) break;
      if (bound_ >= 0) save(args, iteration);
      body_.plan().run();
      ++iteration;
    }
    if (args.outputs[states_]) std::memcpy(args.outputs[states_], &iteration, sizeof(iteration));
  }

 private:
  void save(const KernelArgs& args, int64_t iteration) const {
    for (size_t i = 0; i < states_; ++i) {
      std::byte* stack = args.outputs[states_ + 1 + i];
      if (stack && sizes_[i] > 0)
        std::memcpy(stack + static_cast<size_t>(iteration) * sizes_[i], state_[i], sizes_[i]);
    }
  }
};

class CpuUpdateIf final : public UpdateIfKernel {
 public:
  using UpdateIfKernel::UpdateIfKernel;
  void run(const KernelArgs& args) override {
    for (size_t i = 0; i < sizes_.size(); ++i) {
      if (args.outputs[i] != args.inputs[i + 1] && sizes_[i] > 0)
        std::memcpy(args.outputs[i], args.inputs[i + 1], sizes_[i]);
    }
    if (*reinterpret_cast<const bool*>(args.inputs[0])) update_.plan().run();
  }
};

class CpuScan final : public ScanKernel {
 public:
  using ScanKernel::ScanKernel;
  void run(const KernelArgs& args) override {
    const auto move = [](std::byte* to, const std::byte* from, size_t bytes) {
      if (bytes > 0) std::memmove(to, from, bytes);
    };
    run_steps(
        args, move, [&](int64_t row) { std::memcpy(args.workspace, &row, sizeof(row)); },
        [this] { body_.plan().run(); });
  }
};

class StackRow final : public graph::Kernel {
 public:
  explicit StackRow(const KernelRequest& request)
      : rows_(request.inputs[0].shape[0]), bytes_(request.outputs[0].size_bytes()) {}
  void run(const KernelArgs& args) override {
    int64_t index = 0;
    std::memcpy(&index, args.inputs[1], sizeof(index));
    require(index >= 0 && index < rows_, ErrorCode::kOutOfRange, "stack_row", "row {} of a stack of {}",
            index, rows_);
    if (bytes_ > 0)
      std::memcpy(args.outputs[0], args.inputs[0] + static_cast<size_t>(index) * bytes_, bytes_);
  }

 private:
  int64_t rows_;
  size_t bytes_;
};

}  // namespace

std::unique_ptr<graph::Kernel> prepare_cond(const KernelRequest& request) {
  return std::make_unique<CpuCond>(request);
}
std::unique_ptr<graph::Kernel> prepare_while_loop(const KernelRequest& request) {
  return std::make_unique<CpuWhile>(request);
}
std::unique_ptr<graph::Kernel> prepare_update_if(const KernelRequest& request) {
  return std::make_unique<CpuUpdateIf>(request);
}
std::unique_ptr<graph::Kernel> prepare_scan(const KernelRequest& request) {
  return std::make_unique<CpuScan>(request);
}
std::unique_ptr<graph::Kernel> prepare_stack_row(const KernelRequest& request) {
  return std::make_unique<StackRow>(request);
}

}  // namespace isochron::ops
