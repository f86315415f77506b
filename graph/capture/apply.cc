#include "isochron/graph/capture/apply.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "isochron/core/process/threads.h"
#include "isochron/core/telemetry/counters.h"
#include "isochron/graph/capture/capture.h"
#include "isochron/graph/ir/decomposition.h"
#include "isochron/graph/ir/half_storage.h"
#include "isochron/memory/allocators/buffer.h"
#include "isochron/memory/cuda/gpu.h"

namespace isochron::graph {
namespace {

thread_local std::vector<ApplyObserver*> t_observers;
thread_local int t_unobserved = 0;  // scopes open

/// A prepared eager kernel with the call it serves.
struct CacheEntry {
  const OpDef* op = nullptr;
  int threads = 0;
  std::vector<TensorSpec> inputs;
  Attributes attributes;
  std::vector<TensorSpec> outputs;
  std::unique_ptr<Kernel> kernel;
  bool busy = false;
};

bool matches(const CacheEntry& entry, const OpDef& op, int threads, std::span<const Tensor> inputs,
             const Attributes& attributes) {
  if (entry.op != &op || entry.threads != threads || entry.inputs.size() != inputs.size()) return false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!(entry.inputs[i] == inputs[i].spec())) return false;
  }
  return entry.attributes == attributes;
}

void fill(CacheEntry& entry, const OpDef& op, int threads, std::span<const Tensor> inputs,
          const Attributes& attributes) {
  std::vector<TensorSpec> specs;
  for (const Tensor& input : inputs) specs.push_back(input.spec());
  std::vector<TensorSpec> outputs = infer_outputs(op, specs, attributes);
  std::unique_ptr<Kernel> kernel = prepare_kernel({op, specs, outputs, attributes, threads});
  entry.op = &op;
  entry.threads = threads;
  entry.inputs = std::move(specs);
  entry.attributes = attributes;
  entry.outputs = std::move(outputs);
  entry.kernel = std::move(kernel);
}

/// The cache line for a call: a direct-mapped table a thread, so its size is fixed.
CacheEntry& cache_line(const OpDef& op, std::span<const Tensor> inputs, const Attributes& attributes) {
  thread_local std::array<CacheEntry, kEagerCacheEntries> cache;
  size_t hash = reinterpret_cast<size_t>(&op) >> 4;
  for (const Tensor& input : inputs) hash = hash_spec(hash, input.spec());
  if (!attributes.entries().empty()) hash = hash_mix(hash, attributes.hash());
  return cache[(hash ^ (hash >> 17)) % kEagerCacheEntries];
}

std::vector<Tensor> run(CacheEntry& entry, std::span<const Tensor> inputs) {
  constexpr size_t kInline = 16;
  std::array<std::byte*, kInline> few_inputs;
  std::array<std::byte*, kInline> few_outputs;
  std::vector<std::byte*> many;
  std::byte** in = few_inputs.data();
  std::byte** out = few_outputs.data();
  if (inputs.size() > kInline || entry.outputs.size() > kInline) {
    many.resize(inputs.size() + entry.outputs.size());
    in = many.data();
    out = many.data() + inputs.size();
  }
  for (size_t i = 0; i < inputs.size(); ++i) in[i] = inputs[i].raw();
  std::vector<Tensor> outputs;
  outputs.reserve(entry.outputs.size());
  for (size_t i = 0; i < entry.outputs.size(); ++i) {
    outputs.push_back(empty(entry.outputs[i], entry.op->name));
    out[i] = outputs.back().raw();
  }
  const size_t workspace_bytes = entry.kernel->workspace_bytes();
  Ref<Storage> workspace;
  if (workspace_bytes > 0) workspace = allocate_buffer(workspace_bytes, "workspace");
  const KernelArgs args{in, out, workspace ? workspace->data() : nullptr};
  entry.kernel->bind(args);
  flush_subnormals_to_zero();
  entry.kernel->run(args);
  return outputs;
}

/// An op that the CPU has no kernel for, in others.
std::vector<Tensor> run_decomposed(const OpDef& op, std::span<const Tensor> inputs,
                                   const Attributes& attributes) {
  std::vector<TensorSpec> specs;
  for (const Tensor& input : inputs) specs.push_back(input.spec());
  const std::vector<TensorSpec> outputs = infer_outputs(op, specs, attributes);
  const EagerScope now;
  const UnobservedScope unobserved;
  std::vector<Tensor> results = decomposed({op, specs, attributes}, inputs, outputs);
  for (size_t i = 0; i < results.size(); ++i) {
    const auto shares = [&](const Tensor& input) {
      return input.storage().get() == results[i].storage().get();
    };
    const bool shared = std::ranges::any_of(inputs, shares);
    results[i] = shared ? copy(results[i]) : contiguous(results[i]);
  }
  return results;
}

std::vector<Tensor> run_cached(const OpDef& op, std::span<const Tensor> inputs,
                               const Attributes& attributes) {
  if (op.fusion == FusionClass::kView) {
    std::vector<TensorSpec> specs;
    for (const Tensor& input : inputs) specs.push_back(input.spec());
    const TensorSpec spec = infer_outputs(op, specs, attributes)[0];
    static_cast<void>(inputs[0].raw());  // a stale view would come back to life
    return {Tensor::over(inputs[0].storage(), spec, inputs[0].impl()->offset_bytes)};
  }
  count(Counter::kEagerOps, 1);
  if (op.decompose != nullptr && !backend_of(DeviceKind::kCpu).runs(op))
    return run_decomposed(op, inputs, attributes);
  const int threads = compute_threads();
  if (!attributes.has_objects()) {
    CacheEntry& entry = cache_line(op, inputs, attributes);
    if (!entry.busy) {
      if (!matches(entry, op, threads, inputs, attributes)) fill(entry, op, threads, inputs, attributes);
      struct Busy {
        bool& flag;
        explicit Busy(bool& f) : flag(f) { flag = true; }
        ~Busy() { flag = false; }
      } busy(entry.busy);
      return run(entry, inputs);
    }
  }
  CacheEntry once;
  fill(once, op, threads, inputs, attributes);
  return run(once, inputs);
}

}  // namespace

void push_observer(ApplyObserver* observer) {
  t_observers.push_back(observer);
  count(Counter::kHooks, 1);
}
void remove_observer(ApplyObserver* observer) {
  count(Counter::kHooks, -static_cast<int64_t>(std::erase(t_observers, observer)));
}
bool observed() { return t_unobserved == 0 && !t_observers.empty(); }

UnobservedScope::UnobservedScope() { ++t_unobserved; }
UnobservedScope::~UnobservedScope() { --t_unobserved; }

std::vector<Tensor> apply_eager(const OpDef& op, std::span<const Tensor> inputs,
                                const Attributes& attributes) {
  bool plain = true;
  for (size_t i = 0; i < inputs.size(); ++i) {
    require(inputs[i].defined(), ErrorCode::kInvalidArgument, op.name, "input {} is undefined", i);
    require(
        inputs[i].is_value() || inputs[i].device().is_cpu(), ErrorCode::kDevice, op.name,
        "input {}, {}, lives on {}, where only captured functions run; capture() the step with that device "
        "in its plan's options, or copy the tensor to the CPU with to_device()",
        i, inputs[i].spec().str(), inputs[i].device().str());
    plain = plain && inputs[i].contiguous();
  }
  if (plain) return run_cached(op, inputs, attributes);
  std::vector<Tensor> packed;
  for (const Tensor& input : inputs) packed.push_back(contiguous(input));
  return run_cached(op, packed, attributes);
}

std::vector<Tensor> apply(const OpDef& op, std::span<const Tensor> inputs, Attributes attributes) {
  if (Capture* capture = Capture::current()) return capture->record(op, inputs, std::move(attributes));
  std::vector<Tensor> outputs = apply_eager(op, inputs, attributes);
  for (size_t i = 0; t_unobserved == 0 && i < t_observers.size(); ++i)
    t_observers[i]->on_apply(op, attributes, inputs, outputs);
  return outputs;
}

Tensor apply_one(const OpDef& op, std::initializer_list<Tensor> inputs, Attributes attributes) {
  return std::move(
      apply(op, std::span<const Tensor>(inputs.begin(), inputs.size()), std::move(attributes))[0]);
}

namespace {

/// From one contiguous tensor to another of the same size, wherever they live. Between two of a device it is
/// put in its stream; else it is done when this returns.
void copy_bytes(const Tensor& from, const Tensor& to) {
  const size_t bytes = from.size_bytes();
  if (from.device().is_cpu() && to.device().is_cpu()) {
    if (bytes > 0) std::memmove(to.raw(), from.raw(), bytes);
  } else if (to.device().is_cpu()) {
    from.read(to.raw());
  } else if (from.device().is_cpu()) {
    to.storage()->write(to.impl()->offset_bytes, from.raw(), bytes);
  } else if (from.device() == to.device()) {
    const auto gpu = cuda::gpu(from.device());
    cuda::copy_within(gpu->context(), to.device_address(), from.device_address(), bytes, gpu->stream());
  } else {
    copy_bytes(to_device(from, {}), to);
  }
}

}  // namespace

void assign(const Tensor& target, const Tensor& value) {
  require(target.defined() && value.defined(), ErrorCode::kInvalidArgument, "assign",
          "an operand is undefined");
  require(target.shape() == value.shape(), ErrorCode::kShapeMismatch, "assign",
          "the variable is {}, the value is {}", target.spec().str(), value.spec().str());
  require(target.dtype() == value.dtype(), ErrorCode::kDtypeMismatch, "assign",
          "the variable is {}, the value is {}; cast it first", target.spec().str(), value.spec().str());
  require(!target.is_value(), ErrorCode::kCaptureViolation, "assign",
          "the target is a value of a graph; only a variable from outside can be assigned");
  if (Capture* capture = Capture::current()) {
    capture->assign(target, value);
    return;
  }
  require(target.contiguous(), ErrorCode::kUnsupported, "assign", "the variable {} is strided",
          target.spec().str());
  require(!target.storage()->constant(), ErrorCode::kInvalidArgument, "assign", "the target is a constant");
  const Tensor source = contiguous(value);
  copy_bytes(source, target.refreshed());
  target.storage()->next_generation();
}

Tensor copy(const Tensor& tensor) {
  if (!tensor.device().is_cpu()) {
    const auto gpu = cuda::gpu(tensor.device());
    const Tensor result = Tensor::over(gpu->allocate(tensor.size_bytes(), "copy"), tensor.spec());
    copy_bytes(tensor, result);
    return result;
  }
  Tensor result = empty(tensor.spec(), "copy");
  if (tensor.contiguous()) {
    if (tensor.elems() > 0) std::memcpy(result.raw(), tensor.raw(), tensor.size_bytes());
    return result;
  }
  const size_t size = dtype_size(tensor.dtype());
  const std::byte* base = tensor.raw();
  std::byte* out = result.raw();
  Dims index = tensor.shape();
  std::fill(index.begin(), index.end(), 0);
  for (int64_t n = 0; n < tensor.elems(); ++n, out += size) {
    int64_t offset = 0;
    for (int i = 0; i < tensor.rank(); ++i) offset += index[i] * tensor.strides()[i];
    std::memcpy(out, base + offset * static_cast<int64_t>(size), size);
    for (int i = tensor.rank() - 1; i >= 0 && ++index[i] == tensor.shape()[i]; --i) index[i] = 0;
  }
  return result;
}

Tensor to_device(const Tensor& tensor, Device device) {
  require(tensor.defined() && !tensor.is_value(), ErrorCode::kCaptureViolation, "to_device",
          "takes a tensor with content; a captured function runs on the device of its plan's options");
  if (tensor.device() == device) return contiguous(tensor);
  const Tensor source = contiguous(tensor);
  if (device.is_cpu()) {
    const Tensor result = empty(source.spec(), "copy");
    copy_bytes(source, result);
    return result;
  }
  const Tensor result = Tensor::over(cuda::gpu(device)->allocate(source.size_bytes(), "copy"), source.spec());
  copy_bytes(source, result);
  return result;
}

Tensor contiguous(const Tensor& tensor) {
  return tensor.is_value() || tensor.contiguous() ? tensor : copy(tensor);
}

}  // namespace isochron::graph
