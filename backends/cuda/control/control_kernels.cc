// Kernels of the ops with sub-graphs, as conditional nodes of the captured graph.
#include "isochron/backends/common/sub_graph_kernels.h"
#include "isochron/backends/cuda/control/control.h"
#include "isochron/backends/cuda/factories.h"

namespace isochron::ops {
namespace {

using graph::KernelArgs;
using graph::KernelRequest;
using graph::Plan;

class DeviceCondKernel final : public CondKernel {
 public:
  explicit DeviceCondKernel(const KernelRequest& request) : CondKernel(request), control_(*request.module) {}
  void run(const KernelArgs& args) override {
    for (const bool wanted : {true, false}) {
      control_.run_if(args.stream, args.inputs[0], wanted, [&](cuda::Stream stream) {
        Plan& plan = wanted ? then_.plan() : otherwise_.plan();
        plan.enqueue(stream);
        for (size_t i = 0; i < sizes_.size(); ++i)
          cuda::copy_within(control_.context(), args.outputs[i], plan.output(i), sizes_[i], stream);
      });
    }
  }

 private:
  DeviceControl control_;
};

class DeviceWhileKernel final : public WhileKernel {
 public:
  explicit DeviceWhileKernel(const KernelRequest& request)
      : WhileKernel(request), control_(*request.module), loop_(*request.module) {}
  void run(const KernelArgs& args) override {
    std::byte* const iteration = args.workspace;
    std::byte* const continues = args.workspace + sizeof(int64_t);
    for (size_t i = 0; i < states_; ++i)
      cuda::copy_within(control_.context(), state_[i], args.inputs[i], sizes_[i], args.stream);
    loop_.set_number(args.stream, iteration, 0);
    const auto ask = [&](cuda::Stream stream) {
      condition_.plan().enqueue(stream);
      cuda::copy_within(control_.context(), continues, condition_.plan().output(0), sizeof(bool), stream);
    };
    // The condition isn't evaluated beyond the bound: it may read data that exists only for that many
    // iterations.
    const auto test = [&](cuda::Stream stream) {
      if (bound_ < 0) return ask(stream);
      loop_.test_bound(stream, iteration, bound_, continues);
      control_.run_if(stream, continues, true, ask);
    };
    test(args.stream);
    control_.run_while(args.stream, continues, [&](cuda::Stream stream) {
      for (size_t i = 0; bound_ >= 0 && i < states_; ++i) {
        std::byte* const stack = args.outputs[states_ + 1 + i];
        if (stack != nullptr) loop_.save_row(stream, state_[i], stack, iteration, sizes_[i]);
      }
      body_.plan().enqueue(stream);
      loop_.count_iteration(stream, iteration);
      test(stream);
    });
    if (args.outputs[states_] != nullptr)
      cuda::copy_within(control_.context(), args.outputs[states_], iteration, sizeof(int64_t), args.stream);
  }

 private:
  DeviceControl control_;
  DeviceLoop loop_;
};

class DeviceUpdateIfKernel final : public UpdateIfKernel {
 public:
  explicit DeviceUpdateIfKernel(const KernelRequest& request)
      : UpdateIfKernel(request), control_(*request.module) {}
  void run(const KernelArgs& args) override {
    for (size_t i = 0; i < sizes_.size(); ++i)
      cuda::copy_within(control_.context(), args.outputs[i], args.inputs[i + 1], sizes_[i], args.stream);
    control_.run_if(args.stream, args.inputs[0], true,
                    [this](cuda::Stream stream) { update_.plan().enqueue(stream); });
  }

 private:
  DeviceControl control_;
};

/// Enqueues all steps one after the other.
class DeviceScanKernel final : public ScanKernel {
 public:
  explicit DeviceScanKernel(const KernelRequest& request)
      : ScanKernel(request), context_(request.module->context()), loop_(*request.module) {}
  void run(const KernelArgs& args) override {
    run_steps(
        args,
        [&](std::byte* to, const std::byte* from, size_t bytes) {
          cuda::copy_within(context_, to, from, bytes, args.stream);
        },
        [&](int64_t row) { loop_.set_number(args.stream, args.workspace, row); },
        [&] { body_.plan().enqueue(args.stream); });
  }

 private:
  cuda::Context& context_;
  DeviceLoop loop_;
};

}  // namespace

std::unique_ptr<graph::Kernel> prepare_cond_cuda(const KernelRequest& request) {
  return std::make_unique<DeviceCondKernel>(request);
}
std::unique_ptr<graph::Kernel> prepare_while_loop_cuda(const KernelRequest& request) {
  return std::make_unique<DeviceWhileKernel>(request);
}
std::unique_ptr<graph::Kernel> prepare_update_if_cuda(const KernelRequest& request) {
  return std::make_unique<DeviceUpdateIfKernel>(request);
}
std::unique_ptr<graph::Kernel> prepare_scan_cuda(const KernelRequest& request) {
  return std::make_unique<DeviceScanKernel>(request);
}

}  // namespace isochron::ops
