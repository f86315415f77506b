#include "isochron/ops/device_checks.h"

#include "isochron/core/cuda/kernel_module.h"
#include "isochron/graph/apply.h"
#include "isochron/ops/samples.h"

namespace isochron::ops {
namespace {

constexpr size_t kCallsOfModule = 64;  // compiled together

struct Call {
  const graph::OpDef* op;
  DType dtype;
  const graph::OpSample* sample;
  DeviceCheck* check;
  std::vector<Tensor> inputs, expected;
  std::unique_ptr<graph::Kernel> kernel;

  void report(const std::string& text) const {
    check->findings.push_back(fmt::format("{}: {}", sample_text(*sample, dtype), text));
  }
};

class Checker {
 public:
  explicit Checker(std::shared_ptr<cuda::Gpu> gpu) : gpu_(std::move(gpu)) {}

  void add(Call call) {
    ++call.check->calls;
    calls_.push_back(std::move(call));
    if (calls_.size() == kCallsOfModule) run();
  }

  void run() {
    cuda::KernelModule module(gpu_->shared_context(), gpu_->sources());
    for (Call& call : calls_) guarded(call, [&] { prepare(call, module); });
    module.load();
    for (Call& call : calls_) {
      if (call.kernel) guarded(call, [&] { compare(call); });
    }
    calls_.clear();  // its kernels refer to the module
  }

 private:
  template <typename Body>
  static void guarded(const Call& call, const Body& body) {
    try {
      body();
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kDeviceLost) throw;
      call.report(error.what());
    }
  }

  static void prepare(Call& call, cuda::KernelModule& module) {
    call.inputs = make_inputs(*call.sample, call.dtype);
    call.expected = graph::apply_eager(*call.op, call.inputs, call.sample->attributes);
    std::vector<TensorSpec> inputs, outputs;
    for (const Tensor& input : call.inputs) inputs.push_back(input.spec());
    for (const Tensor& output : call.expected) outputs.push_back(output.spec());
    call.kernel = call.op->prepare_cuda({*call.op, inputs, outputs, call.sample->attributes, 1, {}, &module});
  }

  void compare(Call& call) {
    std::vector<Tensor> inputs, outputs;
    std::vector<std::byte*> in, out;
    for (const Tensor& input : call.inputs) {
      inputs.push_back(graph::to_device(input, gpu_->device()));
      in.push_back(inputs.back().device_address());
    }
    for (const Tensor& expected : call.expected) {
      outputs.push_back(Tensor::over(gpu_->allocate(expected.size_bytes(), "check"), expected.spec()));
      out.push_back(outputs.back().device_address());
    }
    Ref<Storage> workspace;
    if (const size_t bytes = call.kernel->workspace_bytes(); bytes > 0)
      workspace = gpu_->allocate(bytes, "workspace");
    const graph::KernelArgs args{in.data(), out.data(), workspace ? workspace->data() : nullptr,
                                 gpu_->stream()};
    call.kernel->bind(args);
    call.kernel->run(args);
    for (size_t o = 0; o < outputs.size(); ++o) {
      Tolerance tolerance = tolerance_of(*call.op, call.dtype, outputs[o].dtype());
      tolerance.relative *= 2;
      tolerance.absolute *= 2;
      const std::string difference =
          difference_of(outputs[o].to_vector(), call.expected[o].to_vector(), tolerance);
      if (!difference.empty()) return call.report(fmt::format("output {}: {}", o, difference));
    }
  }

  const std::shared_ptr<cuda::Gpu> gpu_;
  std::vector<Call> calls_;
};

}  // namespace

std::vector<DeviceCheck> check_device(
    const std::shared_ptr<cuda::Gpu>& gpu, const graph::Registry& registry,
    const std::function<bool(const graph::OpDef& op, DType dtype, size_t sample)>& selected) {
  std::vector<DeviceCheck> checks;
  checks.reserve(registry.rows().size());  // calls refer to them
  Checker checker(gpu);
  for (const graph::OpDef& op : registry.rows()) {
    if (op.prepare_cuda == nullptr || op.samples.empty()) continue;
    checks.push_back({op.name, 0, {}});
    for (const DType dtype : tested_dtypes(op)) {
      for (size_t s = 0; s < op.samples.size(); ++s) {
        if (!selected || selected(op, dtype, s))
          checker.add({&op, dtype, &op.samples[s], &checks.back(), {}, {}, nullptr});
      }
    }
  }
  checker.run();
  return checks;
}

}  // namespace isochron::ops
