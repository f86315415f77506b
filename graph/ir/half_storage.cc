#include "isochron/graph/ir/half_storage.h"

#include <algorithm>

#include "isochron/core/base/checked.h"
#include "isochron/graph/ir/backend.h"

namespace isochron::graph {
namespace {

std::unique_ptr<Kernel> make_kernel(const KernelRequest& request) {
  return backend_of(request).make_kernel(request);
}

TensorSpec widened(const TensorSpec& spec) {
  return {is_half(spec.dtype) ? DType::kF32 : spec.dtype, spec.shape};
}

/// The specs with f32 in place of 16-bit floats, except those in the bit mask `kept`.
std::vector<TensorSpec> widened(std::span<const TensorSpec> specs, uint32_t kept = 0) {
  std::vector<TensorSpec> result;
  for (size_t i = 0; i < specs.size(); ++i) {
    const bool keep = i < 32 && ((kept >> i) & 1U) != 0;
    result.push_back(keep ? specs[i] : widened(specs[i]));
  }
  return result;
}

/// Copies the 16-bit operands to f32, runs the op's kernel on them, and copies its results to 16 bits.
class ThroughF32 final : public Kernel {
 public:
  ThroughF32(const KernelRequest& request, uint32_t half_inputs, uint32_t half_outputs, KernelFactory make)
      : inputs_(request.inputs.size()), outputs_(request.outputs.size()) {
    const std::vector<TensorSpec> wide_inputs = widened(request.inputs, half_inputs);
    const std::vector<TensorSpec> wide_outputs = widened(request.outputs, half_outputs);
    for (size_t i = 0; i < wide_inputs.size(); ++i) {
      if (!(request.inputs[i] == wide_inputs[i])) add(request, request.inputs[i], wide_inputs[i], i, before_);
    }
    for (size_t i = 0; i < wide_outputs.size(); ++i) {
      const bool unread = !request.unread.empty() && request.unread[i];
      if (!(request.outputs[i] == wide_outputs[i]) && !unread)
        add(request, wide_outputs[i], request.outputs[i], i, after_);
    }
    KernelRequest wide{request.op,     wide_inputs,    wide_outputs,   request.attributes, request.threads,
                       request.unread, request.module, request.shared, request.backend};
    inner_ = make(wide);
    inner_offset_ = reserve(inner_->workspace_bytes());
  }

  size_t workspace_bytes() const override { return bytes_; }

  void bind(const KernelArgs& args) override {
    std::copy_n(args.inputs, inputs_.size(), inputs_.begin());
    std::copy_n(args.outputs, outputs_.size(), outputs_.begin());
    for (Copy& copy : before_) {
      copy.from = args.inputs[copy.index];
      copy.to = inputs_[copy.index] = args.workspace + copy.offset;
    }
    for (Copy& copy : after_) {
      copy.from = outputs_[copy.index] = args.workspace + copy.offset;
      copy.to = args.outputs[copy.index];
    }
    for (Copy& copy : before_) copy.kernel->bind(copy.args(args));
    inner_->bind(inner_args(args));
    for (Copy& copy : after_) copy.kernel->bind(copy.args(args));
  }

  void run(const KernelArgs& args) override {
    for (Copy& copy : before_) copy.kernel->run(copy.args(args));
    inner_->run(inner_args(args));
    for (Copy& copy : after_) copy.kernel->run(copy.args(args));
  }

 private:
  struct Copy {
    std::unique_ptr<Kernel> kernel;
    size_t index;
    size_t offset;            // of the f32 copy in the workspace
    size_t workspace_offset;  // of the copy kernel's workspace
    std::byte* from = nullptr;
    std::byte* to = nullptr;
    KernelArgs args(const KernelArgs& of) { return {&from, &to, of.workspace + workspace_offset, of.stream}; }
  };

  size_t reserve(size_t bytes) {
    const size_t offset = bytes_;
    bytes_ = checked_add(bytes_, align_up(bytes, cuda::kDeviceAlignment));
    return offset;
  }

  void add(const KernelRequest& request, const TensorSpec& from, const TensorSpec& to, size_t index,
           std::vector<Copy>& copies) {
    const OpDef& cast = request.op.registry->at("cast");
    const Attributes attributes{{"dtype", to.dtype}};
    KernelRequest call{cast, {&from, 1}, {&to, 1}, attributes, request.threads, {}, request.module};
    call.backend = request.backend;
    Copy copy{make_kernel(call), index, 0, 0};
    copy.offset = reserve(std::max(from.size_bytes(), to.size_bytes()));
    copy.workspace_offset = reserve(copy.kernel->workspace_bytes());
    copies.push_back(std::move(copy));
  }

  KernelArgs inner_args(const KernelArgs& args) const {
    return {inputs_.data(), outputs_.data(), args.workspace + inner_offset_, args.stream};
  }

  std::vector<Copy> before_;
  std::vector<Copy> after_;
  std::unique_ptr<Kernel> inner_;
  std::vector<std::byte*> inputs_;
  std::vector<std::byte*> outputs_;
  size_t inner_offset_ = 0;
  size_t bytes_ = 0;
};

}  // namespace

std::vector<TensorSpec> defined_inputs(std::span<const TensorSpec> inputs, const Attributes& attributes) {
  return has_half_storage(attributes) ? widened(inputs)
                                      : std::vector<TensorSpec>(inputs.begin(), inputs.end());
}

std::vector<TensorSpec> infer_with_storage(const OpDef& op, std::span<const TensorSpec> inputs,
                                           const Attributes& attributes) {
  const std::vector<TensorSpec> wide = widened(inputs);
  std::vector<TensorSpec> results = op.infer({op, wide, attributes});
  const auto& dtypes = attributes.get<std::vector<DType>>(kStorage);
  require(dtypes.size() == results.size(), ErrorCode::kInvalidArgument, op.name,
          "'{}' must name the dtypes of {} results, got {}", kStorage, results.size(), dtypes.size());
  for (size_t i = 0; i < results.size(); ++i) results[i].dtype = dtypes[i];
  return results;
}

bool has_half_storage(const KernelRequest& request) {
  const auto half = [](const TensorSpec& spec) { return is_half(spec.dtype); };
  return has_half_storage(request.attributes) &&
         (std::ranges::any_of(request.inputs, half) || std::ranges::any_of(request.outputs, half));
}

std::unique_ptr<Kernel> prepare_through_f32(const KernelRequest& request) {
  return std::make_unique<ThroughF32>(request, 0, 0, make_kernel);
}

std::unique_ptr<Kernel> prepare_through_f32(const KernelRequest& request, uint32_t half_inputs,
                                            uint32_t half_outputs, KernelFactory make) {
  return std::make_unique<ThroughF32>(request, half_inputs, half_outputs, make);
}

std::unique_ptr<Kernel> prepare_kernel(const KernelRequest& request) {
  std::unique_ptr<Kernel> kernel = make_kernel(request);
  if (kernel == nullptr && has_half_storage(request)) return prepare_through_f32(request);
  return kernel;
}

}  // namespace isochron::graph
