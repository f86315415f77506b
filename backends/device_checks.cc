#include "isochron/backends/device_checks.h"

#include <algorithm>
#include <array>
#include <utility>

#include "isochron/backends/common/choices.h"
#include "isochron/core/cuda/kernel_module.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/graph/ir/half_storage.h"
#include "isochron/graph/step/captured.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/rows/samples.h"

namespace isochron::ops {
namespace {

constexpr size_t kCallsOfModule = 64;  // calls compiled as one module

enum class How : uint8_t {
  kPlain,
  kStored,  // a call in f32, some of whose tensors mixed precision stores in `dtype`
  kTf32,
};

struct Call {
  const graph::OpDef* op;
  DType dtype;
  How how;
  const graph::OpSample* sample;
  DeviceCheck* check;
  graph::Attributes attributes = {};
  std::vector<Tensor> inputs = {}, expected = {};
  std::vector<TensorSpec> outputs = {};
  std::unique_ptr<graph::Kernel> kernel = nullptr;
  bool wrong = false;

  bool stored() const { return how == How::kStored; }
  bool tf32() const { return how == How::kTf32; }
  DType computed() const { return stored() ? DType::kF32 : dtype; }
  std::string text() const {
    return fmt::format("{}{}", stored() ? "stored " : tf32() ? "tf32 " : "", sample_text(*sample, dtype));
  }
  void report(const std::string& what) {
    if (!std::exchange(wrong, true)) ++check->wrong;
    check->findings.push_back(fmt::format("{}: {}", text(), what));
  }
};

bool multiplies(const graph::OpDef& op) { return op.precision.rule == graph::PrecisionRule::kLow; }

/// The dtype in which calls run in every way.
DType main_dtype(const graph::OpDef& op) {
  const std::vector<DType>& dtypes = tested_dtypes(op);
  return std::ranges::find(dtypes, DType::kF32) != dtypes.end() ? DType::kF32 : dtypes.front();
}

/// Device memory between guard bytes that no kernel may touch. All of it is filled with 255 at first, which
/// is NaN in every float dtype. So a kernel's results show whether it reads foreign or uninitialized memory.
class Fenced {
 public:
  Fenced(cuda::Gpu& gpu, size_t bytes) : storage_(gpu.allocate(bytes + 2 * kFence, "check")), bytes_(bytes) {
    gpu.context().fill(reinterpret_cast<uintptr_t>(storage_->data()), 0xff, bytes + 2 * kFence, gpu.stream());
  }
  Fenced(cuda::Gpu& gpu, const Tensor& content) : Fenced(gpu, content.spec().size_bytes()) {
    std::vector<std::byte> all(bytes_);
    content.read(all.data());
    storage_->write(kFence, all.data(), bytes_);
  }

  std::byte* address() const { return storage_->data() + kFence; }
  Tensor as(const TensorSpec& spec) const { return Tensor::over(storage_, spec, kFence); }
  /// Whether the guard bytes around it are unchanged.
  bool intact() const {
    std::array<std::byte, kFence> before, after;
    storage_->read(0, before.data(), kFence);
    storage_->read(kFence + bytes_, after.data(), kFence);
    const auto untouched = [](std::byte byte) { return byte == std::byte{0xff}; };
    return std::ranges::all_of(before, untouched) && std::ranges::all_of(after, untouched);
  }

 private:
  static constexpr size_t kFence = cuda::kDeviceAlignment;
  Ref<Storage> storage_;
  size_t bytes_;
};

class Checker {
 public:
  Checker(std::shared_ptr<cuda::Gpu> gpu, bool every_way) : gpu_(std::move(gpu)), every_way_(every_way) {}

  void add(Call call) {
    ++call.check->calls;
    calls_.push_back(std::move(call));
    if (calls_.size() == kCallsOfModule) run();
  }

  void run() {
    cuda::KernelSources sources = gpu_->sources();
    run_with(sources, true);
    if (!std::exchange(sources.libraries, {}).empty()) run_with(sources, false);
    calls_.clear();
  }

 private:
  /// Runs all calls if `all`; otherwise only those that a library may have computed in the first run.
  void run_with(const cuda::KernelSources& sources, bool all) {
    const Deterministic first_candidates;  // the libraries' kernels, if there are any
    for (const bool tf32 : {false, true}) {
      cuda::KernelModule module(gpu_->shared_context(), sources, tf32);
      for (Call& call : calls_) {
        if (call.tf32() == tf32 && (all || multiplies(*call.op)))
          guarded(call, [&] { prepare(call, module); });
      }
      module.load();
      for (Call& call : calls_) {
        if (call.kernel) guarded(call, [&] { compare(call, all && every_way_); });
        call.kernel.reset();  // it refers to the module
      }
    }
  }

  template <typename Body>
  static void guarded(Call& call, const Body& body) {
    try {
      body();
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kDeviceLost)
        fail(error.code(), call.op->name, "{}: {}", call.text(), error.what());
      call.report(error.what());
    }
  }

  static void prepare(Call& call, cuda::KernelModule& module) {
    call.attributes = call.sample->attributes;
    call.inputs = make_inputs(*call.sample, call.computed());
    if (call.stored()) round_inputs(call);
    if (call.tf32()) round_factors(call);
    call.expected =
        graph::apply_eager(*call.op, call.stored() ? widened(call.inputs) : call.inputs, call.attributes);
    std::vector<TensorSpec> inputs;
    for (const Tensor& input : call.inputs) inputs.push_back(input.spec());
    call.outputs.clear();
    for (const Tensor& output : call.expected) call.outputs.push_back(output.spec());
    if (call.stored()) store_outputs(call);
    call.kernel = graph::prepare_kernel({*call.op, inputs, call.outputs, call.attributes, 1, {}, &module});
  }

  /// Converts the tensors that mixed precision stores in 16 bits to `call.dtype`.
  static void round_inputs(Call& call) {
    const graph::OpPrecision& precision = call.op->precision;
    const uint32_t full = precision.full_inputs != nullptr ? precision.full_inputs(call.attributes) : 0;
    for (size_t i = 0; i < call.inputs.size(); ++i) {
      if (call.inputs[i].dtype() == DType::kF32 && ((full >> i) & 1U) == 0)
        call.inputs[i] = cast(call.inputs[i], call.dtype);
    }
  }
  /// Rounds the factors to as many bits as f16 has, so that TF32 can represent them and their products are
  /// exact.
  static void round_factors(Call& call) {
    for (Tensor& input : call.inputs) {
      if (input.dtype() == DType::kF32) input = cast(cast(input, DType::kF16), DType::kF32);
    }
  }
  static void store_outputs(Call& call) {
    std::vector<DType> dtypes;
    for (size_t o = 0; o < call.outputs.size(); ++o) {
      DType& dtype = call.outputs[o].dtype;
      if (dtype == DType::kF32 && ((call.op->precision.full_outputs >> o) & 1U) == 0) dtype = call.dtype;
      dtypes.push_back(dtype);
    }
    call.attributes.set(graph::kStorage, dtypes);
  }
  static std::vector<Tensor> widened(const std::vector<Tensor>& inputs) {
    std::vector<Tensor> result;
    for (const Tensor& input : inputs)
      result.push_back(is_half(input.dtype()) ? cast(input, DType::kF32) : input);
    return result;
  }

  void compare(Call& call, bool every_way) {
    std::vector<Fenced> inputs, outputs;
    std::vector<std::byte*> in, out;
    for (const Tensor& input : call.inputs) in.push_back(inputs.emplace_back(*gpu_, input).address());
    for (const TensorSpec& spec : call.outputs)
      out.push_back(outputs.emplace_back(*gpu_, spec.size_bytes()).address());
    const size_t bytes = call.kernel->workspace_bytes();
    const Fenced workspace(*gpu_, bytes);
    const graph::KernelArgs args{in.data(), out.data(), bytes > 0 ? workspace.address() : nullptr,
                                 gpu_->stream()};
    call.kernel->bind(args);
    call.kernel->run(args);
    const auto report_touched = [&](const std::vector<Fenced>& tensors, const char* what) {
      for (size_t i = 0; i < tensors.size(); ++i) {
        if (!tensors[i].intact()) call.report(fmt::format("it writes beside {} {}", what, i));
      }
    };
    report_touched(inputs, "input");
    report_touched(outputs, "output");
    if (!workspace.intact()) call.report("it writes beside its workspace");
    std::vector<Tensor> results;
    for (size_t o = 0; o < outputs.size(); ++o) results.push_back(outputs[o].as(call.outputs[o]));
    report_differences(call, results, "");
    if (every_way && !call.stored() && call.dtype == main_dtype(*call.op)) compare_other_ways(call, results);
  }

  /// Runs the same call eagerly, and captured and replayed; the captured function must give `plain` again.
  void compare_other_ways(Call& call, const std::vector<Tensor>& plain) {
    std::vector<Tensor> there;
    std::vector<const Tensor*> arguments;
    for (const Tensor& input : call.inputs) there.push_back(to_device(input, gpu_->device()));
    for (const Tensor& input : there) arguments.push_back(&input);
    if (!call.tf32())
      report_differences(call, graph::apply_eager(*call.op, there, call.attributes), "eager ");
    CaptureOptions options;
    options.passes.disabled = {"all"};
    options.passes.precision = call.tf32() ? Precision::kTf32 : Precision::kF32;
    options.plan.device = gpu_->device();
    CapturedFunction captured(
        [&](std::span<const Tensor> inputs) { return graph::apply(*call.op, inputs, call.attributes); },
        options);
    for (const char* const how : {"captured", "replayed"}) {
      const std::span<const Tensor> results = captured.call(arguments);
      for (size_t o = 0; o < results.size(); ++o) {
        const std::string difference = difference_of(results[o].to_vector(), plain[o].to_vector(), {});
        if (!difference.empty()) return call.report(fmt::format("{} output {}: {}", how, o, difference));
      }
      for (const Tensor& result : results) {  // the next replay must overwrite it
        const auto address = reinterpret_cast<uintptr_t>(result.device_address());
        const size_t bytes = result.spec().size_bytes();
        if (bytes > 0) gpu_->context().fill(address, 0xff, bytes, gpu_->stream());
      }
    }
  }

  void report_differences(Call& call, const std::vector<Tensor>& results, const char* how) {
    for (size_t o = 0; o < results.size(); ++o) {
      Tolerance tolerance = tolerance_of(*call.op, call.computed(), call.expected[o].dtype());
      tolerance.relative *= 2;
      tolerance.absolute *= 2;
      // The rounding errors of the result and of intermediate values. Truncation to TF32 has twice that
      // error.
      double rounding = 0;
      if (call.stored()) rounding = call.dtype == DType::kBF16 ? 0x1p-7 : 0x1p-10;
      if (call.tf32()) rounding = 0x1p-9;
      tolerance.relative += rounding;
      tolerance.absolute += rounding;
      const std::string difference =
          difference_of(results[o].to_vector(), call.expected[o].to_vector(), tolerance);
      if (!difference.empty()) return call.report(fmt::format("{}output {}: {}", how, o, difference));
    }
  }

  const std::shared_ptr<cuda::Gpu> gpu_;
  const bool every_way_;
  std::vector<Call> calls_;
};

}  // namespace

bool is_device_checked(const graph::OpDef& op) {
  return graph::backend_of(DeviceKind::kCuda).runs(op) && !op.samples.empty();
}

std::vector<DeviceCheck> check_device(
    const std::shared_ptr<cuda::Gpu>& gpu, const graph::Registry& registry,
    const std::function<bool(const graph::OpDef& op, DType dtype, size_t sample)>& selected, bool every_way) {
  std::vector<DeviceCheck> checks;
  checks.reserve(registry.rows().size());  // calls hold references to its elements
  Checker checker(gpu, every_way);
  const graph::Backend& backend = graph::backend_of(DeviceKind::kCuda);
  for (const graph::OpDef& op : registry.rows()) {
    if (!is_device_checked(op)) continue;
    checks.push_back({op.name});
    const auto add = [&](DType dtype, How how) {
      for (size_t s = 0; s < op.samples.size(); ++s) {
        if (!selected || selected(op, dtype, s))
          checker.add({&op, dtype, how, &op.samples[s], &checks.back()});
      }
    };
    for (const DType dtype : tested_dtypes(op)) add(dtype, How::kPlain);
    if (every_way && multiplies(op) && main_dtype(op) == DType::kF32) add(DType::kF32, How::kTf32);
    if (!backend.runs_half_storage(op)) continue;
    for (const DType half : {DType::kBF16, DType::kF16}) add(half, How::kStored);
  }
  checker.run();
  return checks;
}

}  // namespace isochron::ops
