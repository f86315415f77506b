#include "isochron/graph/ir/checked_kernel.h"

#include <cmath>
#include <utility>

#include "isochron/core/tensor/finite.h"

namespace isochron::graph {
namespace {

thread_local bool t_checked = false;

class CheckedKernel final : public Kernel {
 public:
  CheckedKernel(std::unique_ptr<Kernel> kernel, const Node& node, std::shared_ptr<cuda::Gpu> gpu)
      : kernel_(std::move(kernel)),
        gpu_(std::move(gpu)),
        name_(node.name()),
        op_(node.op->name),
        inputs_(node.input_specs()),
        outputs_(node.output_specs()),
        fills_(node.op->name == "pad" && !std::isfinite(node.attributes.get<double>("value"))) {
    // The stacks that a loop leaves for its gradient have as many valid rows as the loop had iterations; the
    // other rows hold nothing. Results of the body are checked inside the body.
    if (op_ == "while_loop") outputs_.resize(static_cast<size_t>(node.attributes.get<int64_t>("states")));
  }

  size_t workspace_bytes() const override { return kernel_->workspace_bytes(); }
  void bind(const KernelArgs& args) override { kernel_->bind(args); }
  void run(const KernelArgs& args) override {
    bool given = fills_;  // infinities; asked before the run, which may overwrite inputs
    for (size_t i = 0; i < inputs_.size() && !given; ++i) {
      given = args.inputs[i] != nullptr &&
              find_not_finite(inputs_[i], on_host(inputs_[i], args.inputs[i], args.stream)).has_value();
    }
    kernel_->run(args);
    for (size_t i = 0; i < outputs_.size(); ++i) {
      if (args.outputs[i] == nullptr) continue;
      const std::optional<NotFinite> found =
          find_not_finite(outputs_[i], on_host(outputs_[i], args.outputs[i], args.stream));
      if (!found || (given && found->nans == 0)) continue;
      fail(ErrorCode::kNotANumber, op_, "node '{}', result {}, {}", name_, i,
           not_finite_text(outputs_[i], *found));
    }
  }

 private:
  template <typename Stream>
  const std::byte* on_host(const TensorSpec& spec, const std::byte* data, Stream stream) {
    if (!gpu_) return data;
    copy_.resize(spec.size_bytes());
    gpu_->context().copy_to_host(copy_.data(), reinterpret_cast<uintptr_t>(data), copy_.size(), stream);
    gpu_->context().synchronize(stream);
    return copy_.data();
  }

  std::unique_ptr<Kernel> kernel_;
  std::shared_ptr<cuda::Gpu> gpu_;
  std::vector<std::byte> copy_;
  std::string name_, op_;
  std::vector<TensorSpec> inputs_, outputs_;
  bool fills_;  // with infinity, as asked
};

}  // namespace

CheckedScope::CheckedScope(bool on) : before_(std::exchange(t_checked, on)) {}
CheckedScope::~CheckedScope() { t_checked = before_; }
bool CheckedScope::current() { return t_checked; }

std::unique_ptr<Kernel> checked_kernel(std::unique_ptr<Kernel> kernel, const Node& node,
                                       std::shared_ptr<cuda::Gpu> gpu) {
  return std::make_unique<CheckedKernel>(std::move(kernel), node, std::move(gpu));
}

}  // namespace isochron::graph
