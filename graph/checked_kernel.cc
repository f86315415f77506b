#include "isochron/graph/checked_kernel.h"

#include "isochron/core/finite.h"

namespace isochron::graph {
namespace {

class CheckedKernel final : public Kernel {
 public:
  CheckedKernel(std::unique_ptr<Kernel> kernel, const Node& node)
      : kernel_(std::move(kernel)), name_(node.name()), op_(node.op->name), outputs_(node.output_specs()) {}

  size_t workspace_bytes() const override { return kernel_->workspace_bytes(); }
  void bind(const KernelArgs& args) override { kernel_->bind(args); }
  void run(const KernelArgs& args) override {
    kernel_->run(args);
    for (size_t i = 0; i < outputs_.size(); ++i) {
      if (args.outputs[i] == nullptr) continue;
      const std::optional<NotFinite> found = find_not_finite(outputs_[i], args.outputs[i]);
      if (!found) continue;
      fail(ErrorCode::kNotANumber, op_, "node '{}', result {}, {}", name_, i,
           not_finite_text(outputs_[i], *found));
    }
  }

 private:
  std::unique_ptr<Kernel> kernel_;
  std::string name_, op_;
  std::vector<TensorSpec> outputs_;
};

}  // namespace

std::unique_ptr<Kernel> checked_kernel(std::unique_ptr<Kernel> kernel, const Node& node) {
  return std::make_unique<CheckedKernel>(std::move(kernel), node);
}

}  // namespace isochron::graph
