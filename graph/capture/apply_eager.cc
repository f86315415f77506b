// Runs eager calls on the CPU, or in the stream of the device that holds their inputs.
#include "isochron/graph/capture/apply.h"

#include <algorithm>
#include <array>
#include <list>
#include <optional>
#include <unordered_map>
#include <utility>

#include "isochron/core/cuda/kernel_module.h"
#include "isochron/core/process/threads.h"
#include "isochron/core/telemetry/counters.h"
#include "isochron/graph/capture/capture.h"
#include "isochron/graph/ir/backend.h"
#include "isochron/graph/ir/decomposition.h"
#include "isochron/graph/ir/half_storage.h"
#include "isochron/memory/allocators/buffer.h"
#include "isochron/memory/cuda/gpu.h"

namespace isochron::graph {
namespace {

using Specs = std::vector<TensorSpec>;

Specs specs_of(std::span<const Tensor> tensors) {
  Specs specs;
  specs.reserve(tensors.size());
  for (const Tensor& tensor : tensors) specs.push_back(tensor.spec());
  return specs;
}

/// Where a call runs.
struct Place {
  int threads = 1;                 // on the CPU
  std::shared_ptr<cuda::Gpu> gpu;  // null: the CPU

  Ref<Storage> allocate(size_t bytes, std::string_view tag) const {
    return gpu ? gpu->allocate(bytes, tag) : allocate_buffer(bytes, tag);
  }
};

/// A prepared kernel with the call that it serves.
class PreparedCall {
 public:
  PreparedCall(const OpDef& op, const Place& place, std::span<const Tensor> inputs,
               const Attributes& attributes)
      : op_(&op),
        threads_(place.threads),
        inputs_(specs_of(inputs)),
        attributes_(attributes),
        outputs_(infer_outputs(op, inputs_, attributes_)),
        gpu_(place.gpu) {
    if (gpu_) module_ = gpu_->make_module();
    kernel_ = prepare_kernel({op, inputs_, outputs_, attributes_, threads_, {}, module_.get()});
    if (module_) module_->load();
  }

  /// Waits until the last run has finished, because the destructor unloads code that this run executes.
  ~PreparedCall() {
    try {
      if (gpu_) gpu_->synchronize();
    } catch (const Error&) {  // the device is lost, and with it everything on it
    }
  }
  PreparedCall(const PreparedCall&) = delete;
  PreparedCall& operator=(const PreparedCall&) = delete;

  bool serves(const OpDef& op, const Place& place, std::span<const Tensor> inputs,
              const Attributes& attributes) const {
    const auto same = [](const TensorSpec& spec, const Tensor& tensor) { return spec == tensor.spec(); };
    return op_ == &op && threads_ == place.threads && gpu_ == place.gpu &&
           std::ranges::equal(inputs_, inputs, same) && attributes_ == attributes;
  }

  std::vector<Tensor> run(const Place& place, std::span<const Tensor> inputs) {
    constexpr size_t kInline = 16;
    std::array<std::byte*, kInline> few_inputs;
    std::array<std::byte*, kInline> few_outputs;
    std::vector<std::byte*> many;
    std::byte** in = few_inputs.data();
    std::byte** out = few_outputs.data();
    if (inputs.size() > kInline || outputs_.size() > kInline) {
      many.resize(inputs.size() + outputs_.size());
      in = many.data();
      out = many.data() + inputs.size();
    }
    for (size_t i = 0; i < inputs.size(); ++i) in[i] = inputs[i].device_address();
    std::vector<Tensor> outputs;
    outputs.reserve(outputs_.size());
    for (size_t i = 0; i < outputs_.size(); ++i) {
      outputs.push_back(place.gpu
                            ? Tensor::over(place.allocate(outputs_[i].size_bytes(), op_->name), outputs_[i])
                            : empty(outputs_[i], op_->name));
      out[i] = outputs.back().device_address();
    }
    const size_t workspace_bytes = kernel_->workspace_bytes();
    Ref<Storage> workspace;
    if (workspace_bytes > 0) workspace = place.allocate(workspace_bytes, "workspace");
    const KernelArgs args{in, out, workspace ? workspace->data() : nullptr,
                          place.gpu ? place.gpu->stream() : cuda::Stream::kNone};
    kernel_->bind(args);
    flush_subnormals_to_zero();
    kernel_->run(args);
    return outputs;
  }

  bool busy = false;  // run() is active: a nested equal call needs another kernel

 private:
  const OpDef* const op_;
  const int threads_;
  const Specs inputs_;
  const Attributes attributes_;
  const Specs outputs_;
  const std::shared_ptr<cuda::Gpu> gpu_;        // null: the CPU
  std::unique_ptr<cuda::KernelModule> module_;  // of a device; outlives the kernel
  std::unique_ptr<Kernel> kernel_;
};

/// The prepared calls of a thread, the least recently used one replaced when it is full: a loop of at most
/// kEagerCacheEntries different calls prepares each of them once.
class Cache {
 public:
  static Cache& of_this_thread() {
    thread_local Cache cache;
    return cache;
  }

  /// The prepared call for these arguments; prepares it if necessary. Null if that call is running.
  PreparedCall* find(const OpDef& op, const Place& place, std::span<const Tensor> inputs,
                     const Attributes& attributes) {
    const size_t key = key_of(op, place, inputs, attributes);
    const auto found = by_key_.find(key);
    if (found != by_key_.end()) {
      const Calls::iterator entry = found->second;
      if (entry->call.busy) return nullptr;
      if (entry->call.serves(op, place, inputs, attributes)) {
        calls_.splice(calls_.begin(), calls_, entry);
        return &entry->call;
      }
      remove(entry);
    }
    Calls prepared;
    prepared.emplace_front(key, op, place, inputs, attributes);  // preparing may call ops
    if (const auto meanwhile = by_key_.find(key); meanwhile != by_key_.end()) remove(meanwhile->second);
    while (calls_.size() >= kEagerCacheEntries && remove_least_recently_used()) {
    }
    calls_.splice(calls_.begin(), prepared);
    by_key_[key] = calls_.begin();
    return &calls_.front().call;
  }

  void clear() {
    while (remove_least_recently_used()) {
    }
  }

 private:
  struct Entry {
    Entry(size_t its_key, const OpDef& op, const Place& place, std::span<const Tensor> inputs,
          const Attributes& attributes)
        : key(its_key), call(op, place, inputs, attributes) {}

    size_t key;
    PreparedCall call;
  };
  using Calls = std::list<Entry>;

  static size_t key_of(const OpDef& op, const Place& place, std::span<const Tensor> inputs,
                       const Attributes& attributes) {
    size_t key = hash_mix(reinterpret_cast<size_t>(&op), static_cast<size_t>(place.threads));
    if (place.gpu) key = hash_mix(key, reinterpret_cast<size_t>(place.gpu.get()));
    for (const Tensor& input : inputs) key = hash_spec(key, input.spec());
    return attributes.entries().empty() ? key : hash_mix(key, attributes.hash());
  }

  void remove(Calls::iterator entry) {
    by_key_.erase(entry->key);
    calls_.erase(entry);
  }

  /// Removes the call that was used longest ago among those that aren't running; false if all run.
  bool remove_least_recently_used() {
    for (auto entry = calls_.end(); entry != calls_.begin();) {
      if ((--entry)->call.busy) continue;
      remove(entry);
      return true;
    }
    return false;
  }

  Calls calls_;  // the most recently used one first
  std::unordered_map<size_t, Calls::iterator> by_key_;
};

/// The device of the inputs that aren't on the CPU; nullopt if all inputs are on the CPU.
std::optional<Device> device_of(const OpDef& op, std::span<const Tensor> inputs) {
  std::optional<Device> found;
  for (const Tensor& input : inputs) {
    if (input.device().is_cpu()) continue;
    require(!found || *found == input.device(), ErrorCode::kDevice, op.name,
            "its inputs live on {} and {}; copy them to one with to_device()", found->str(),
            input.device().str());
    found = input.device();
  }
  return found;
}

/// The inputs, copied to `device` if necessary. Throws kDevice for CPU inputs of more than one element that
/// aren't constants.
std::vector<Tensor> brought_to(Device device, const OpDef& op, std::span<const Tensor> inputs) {
  std::vector<Tensor> there;
  there.reserve(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& input = inputs[i];
    require(!input.device().is_cpu() || input.is_value() || input.storage()->constant() || input.elems() <= 1,
            ErrorCode::kDevice, op.name,
            "input {}, {}, lives on the CPU and others on {}; copy it there with to_device(), or move its "
            "variable with move_to()",
            i, input.spec().str(), device.str());
    there.push_back(to_device(input, device));
  }
  return there;
}

/// Runs the decomposition of an op for which the backend has no kernel.
std::vector<Tensor> run_decomposed(const OpDef& op, std::span<const Tensor> inputs,
                                   const Attributes& attributes) {
  const Specs specs = specs_of(inputs);
  const Specs outputs = infer_outputs(op, specs, attributes);
  const EagerScope now;
  const UnobservedScope unobserved;
  std::vector<Tensor> results = decomposed({op, specs, attributes}, inputs, outputs);
  for (Tensor& result : results) {
    const auto shares = [&](const Tensor& input) { return input.storage().get() == result.storage().get(); };
    result = std::ranges::any_of(inputs, shares) ? copy(result) : contiguous(result);
  }
  return results;
}

std::vector<Tensor> run_at(const Place& place, const OpDef& op, std::span<const Tensor> inputs,
                           const Attributes& attributes) {
  count(Counter::kEagerOps, 1);
  const Backend& backend = backend_of(place.gpu ? DeviceKind::kCuda : DeviceKind::kCpu);
  if (!backend.runs(op)) {
    if (op.decompose != nullptr) return run_decomposed(op, inputs, attributes);
    require(!place.gpu, ErrorCode::kUnsupported, op.name,
            "{} has no kernel for it; copy its inputs to the CPU with to_device()",
            place.gpu->device().str());
  }
  if (!attributes.has_objects()) {
    if (PreparedCall* const call = Cache::of_this_thread().find(op, place, inputs, attributes)) {
      struct Busy {
        bool& flag;
        explicit Busy(bool& f) : flag(f) { flag = true; }
        ~Busy() { flag = false; }
      } busy(call->busy);
      return call->run(place, inputs);
    }
  }
  return PreparedCall(op, place, inputs, attributes).run(place, inputs);
}

/// A view shares its input's memory.
Tensor view(const OpDef& op, const Tensor& input, std::span<const Tensor> inputs,
            const Attributes& attributes) {
  const TensorSpec spec = infer_outputs(op, specs_of(inputs), attributes)[0];
  static_cast<void>(input.device_address());  // throws for a stale view, which must not become valid again
  return Tensor::over(input.storage(), spec, input.impl()->offset_bytes);
}

}  // namespace

void clear_eager_kernels() { Cache::of_this_thread().clear(); }

std::vector<Tensor> apply_eager(const OpDef& op, std::span<const Tensor> inputs,
                                const Attributes& attributes) {
  bool plain = true;
  for (size_t i = 0; i < inputs.size(); ++i) {
    require(inputs[i].defined(), ErrorCode::kInvalidArgument, op.name, "input {} is undefined", i);
    plain = plain && inputs[i].contiguous();
  }
  std::vector<Tensor> packed;
  if (!plain) {
    const UnobservedScope packing;  // tapes see the call with its own inputs
    for (const Tensor& input : inputs) packed.push_back(contiguous(input));
    inputs = packed;
  }
  if (op.fusion == FusionClass::kView) return {view(op, inputs[0], inputs, attributes)};
  const std::optional<Device> device = device_of(op, inputs);
  if (!device) {
    std::vector<Tensor> outputs = run_at({compute_threads(), nullptr}, op, inputs, attributes);
    const auto constant = [](const Tensor& input) { return input.storage()->constant(); };
    if (!inputs.empty() && !op.random && std::ranges::all_of(inputs, constant)) {
      // So calls on a device accept them, too.
      for (const Tensor& output : outputs) output.storage()->set_constant();
    }
    return outputs;
  }
  const std::vector<Tensor> there = brought_to(*device, op, inputs);
  return run_at({1, cuda::gpu(*device)}, op, there, attributes);
}

}  // namespace isochron::graph
