#include "isochron/graph/capture/apply.h"

#include <algorithm>
#include <cstring>

#include "isochron/core/telemetry/counters.h"
#include "isochron/graph/capture/capture.h"
#include "isochron/memory/allocators/buffer.h"
#include "isochron/memory/cuda/gpu.h"

namespace isochron::graph {
namespace {

thread_local std::vector<ApplyObserver*> t_observers;
thread_local int t_unobserved = 0;  // scopes open

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

namespace {

void tell_observers(const OpDef& op, const Attributes& attributes, std::span<const Tensor> inputs,
                    std::span<const Tensor> outputs) {
  for (size_t i = 0; t_unobserved == 0 && i < t_observers.size(); ++i)
    t_observers[i]->on_apply(op, attributes, inputs, outputs);
}

}  // namespace

std::vector<Tensor> apply(const OpDef& op, std::span<const Tensor> inputs, Attributes attributes) {
  if (Capture* capture = Capture::current()) return capture->record(op, inputs, std::move(attributes));
  std::vector<Tensor> outputs = apply_eager(op, inputs, attributes);
  tell_observers(op, attributes, inputs, outputs);
  return outputs;
}

Tensor apply_one(const OpDef& op, std::initializer_list<Tensor> inputs, Attributes attributes) {
  return std::move(
      apply(op, std::span<const Tensor>(inputs.begin(), inputs.size()), std::move(attributes))[0]);
}

namespace {

/// Copies one contiguous tensor to another of the same size, on any devices. A copy within a device is
/// enqueued in that device's stream; any other copy has finished when this returns.
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
  require(tensor.defined(), ErrorCode::kInvalidArgument, "copy", "the tensor is undefined");
  require(Capture::current() == nullptr, ErrorCode::kCaptureViolation, "copy",
          "{} would be copied once, while the function is traced, and every call would return that copy; "
          "in a captured function use stop_gradient()",
          tensor.spec().str());
  return internal::copy_now(tensor);
}

Tensor internal::copy_now(const Tensor& tensor) {
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
          "the tensor is undefined, or a value of the graph being captured; to run a captured function on a "
          "device, set CaptureOptions::plan.device");
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
  if (tensor.is_value() || tensor.contiguous()) return tensor;
  const Tensor result = internal::copy_now(tensor);
  static const OpDef op = [] {  // only for tapes, so that gradients flow through
    OpDef row;
    row.name = "contiguous";
    row.gradient = [](const GradientCall& call) { return std::vector<Tensor>{call.output_gradients[0]}; };
    return row;
  }();
  if (Capture::current() == nullptr) tell_observers(op, {}, {&tensor, 1}, {&result, 1});
  return result;
}

}  // namespace isochron::graph
