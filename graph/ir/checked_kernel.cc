#include "isochron/graph/ir/checked_kernel.h"

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
        outputs_(node.output_specs()) {
    // The stacks that a loop leaves for its gradient have as many valid rows as the loop had iterations; the
    // other rows hold nothing. Results of the body are checked inside the body.
    if (op_ == "while_loop") outputs_.resize(static_cast<size_t>(node.attributes.get<int64_t>("states")));
  }

  size_t workspace_bytes() const override { return kernel_->workspace_bytes(); }
  void bind(const KernelArgs& args) override { kernel_->bind(args); }
  void run(const KernelArgs& args) override {
    kernel_->run(args);
    for (size_t i = 0; i < outputs_.size(); ++i) {
      if (args.outputs[i] == nullptr) continue;
      const std::optional<NotFinite> found = find_not_finite(outputs_[i], on_host(args, i));
      if (!found) continue;
      fail(ErrorCode::kNotANumber, op_, "node '{}', result {}, {}", name_, i,
           not_finite_text(outputs_[i], *found));
    }
  }

 private:
  const std::byte* on_host(const KernelArgs& args, size_t output) {
    if (!gpu_) return args.outputs[output];
    copy_.resize(outputs_[output].size_bytes());
    gpu_->context().copy_to_host(copy_.data(), reinterpret_cast<uintptr_t>(args.outputs[output]),
                                 copy_.size(), args.stream);
    gpu_->context().synchronize(args.stream);
    return copy_.data();
  }

  std::unique_ptr<Kernel> kernel_;
  std::shared_ptr<cuda::Gpu> gpu_;
  std::vector<std::byte> copy_;
  std::string name_, op_;
  std::vector<TensorSpec> outputs_;
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
