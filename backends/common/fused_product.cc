#include "isochron/backends/common/fused_product.h"

#include <algorithm>
#include <array>
#include <vector>

#include "isochron/core/base/checked.h"
#include "isochron/graph/ir/half_storage.h"
#include "isochron/ops/matmul/fused_product.h"
#include "isochron/ops/rows/registry.h"

namespace isochron::ops {
namespace {

using graph::ElementProgram;
using graph::Kernel;
using graph::KernelArgs;
using graph::KernelRequest;

/// Runs the product, then the element program. The product is stored in the output that returns it, if there
/// is one, otherwise at the start of the workspace.
class ProductThenProgram final : public Kernel {
 public:
  explicit ProductThenProgram(const KernelRequest& request)
      : ProductThenProgram(request, FusedProduct(request)) {}

  size_t workspace_bytes() const override {
    return checked_add(product_bytes_, std::max(product_->workspace_bytes(), rest_->workspace_bytes()));
  }
  void bind(const KernelArgs& args) override {
    std::copy_n(args.inputs, factors_.size(), factors_.begin());
    operands_[0] = product_output_ < 0 ? args.workspace : args.outputs[product_output_];
    std::copy_n(args.inputs + factors_.size(), operands_.size() - 1, operands_.begin() + 1);
    for (size_t o = 0; o < outputs_.size(); ++o)
      outputs_[o] = args.outputs[o + (product_output_ >= 0 && o >= static_cast<size_t>(product_output_))];
    product_->bind(product_args(args));
    rest_->bind(rest_args(args));
  }
  void run(const KernelArgs& args) override {
    product_->run(product_args(args));
    rest_->run(rest_args(args));
  }

 private:
  ProductThenProgram(const KernelRequest& request, const FusedProduct& fused)
      : product_output_(fused.product_output()), operands_(request.inputs.size() - kProductFactors + 1) {
    const TensorSpec& product = fused.spec();
    product_ = graph::prepare_kernel(fused.product_request(request));
    auto program = std::make_shared<ElementProgram>(*fused.program);
    std::vector<TensorSpec> operands{product}, outputs(request.outputs.begin(), request.outputs.end());
    operands.insert(operands.end(), request.inputs.begin() + kProductFactors, request.inputs.end());
    if (product_output_ >= 0) {
      program->outputs.erase(program->outputs.begin() + product_output_);
      outputs.erase(outputs.begin() + product_output_);
    } else {
      product_bytes_ = align_up(product.size_bytes(), cuda::kDeviceAlignment);
    }
    outputs_.resize(outputs.size());
    graph::Attributes attributes;
    attributes.set("program", std::shared_ptr<const graph::AttributeObject>(std::move(program)));
    rest_ = graph::prepare_kernel({row("fused"),
                                   operands,
                                   outputs,
                                   attributes,
                                   request.threads,
                                   {},
                                   request.module,
                                   request.shared,
                                   request.backend});
  }

  KernelArgs product_args(const KernelArgs& args) const {
    return {factors_.data(), operands_.data(), args.workspace + product_bytes_, args.stream};
  }
  KernelArgs rest_args(const KernelArgs& args) const {
    return {operands_.data(), outputs_.data(), args.workspace + product_bytes_, args.stream};
  }

  const int product_output_;
  std::unique_ptr<Kernel> product_, rest_;
  std::array<std::byte*, kProductFactors> factors_ = {};
  std::vector<std::byte*> operands_;  // the product, then the program's other operands
  std::vector<std::byte*> outputs_;   // without the product
  size_t product_bytes_ = 0;          // bytes of the product in the workspace
};

}  // namespace

std::unique_ptr<Kernel> prepare_product_then_program(const KernelRequest& request) {
  return std::make_unique<ProductThenProgram>(request);
}

}  // namespace isochron::ops
