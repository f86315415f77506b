#include "isochron/backends/common/matmul_add.h"

#include <algorithm>
#include <array>
#include <vector>

#include "isochron/core/base/checked.h"
#include "isochron/graph/ir/half_storage.h"
#include "isochron/ops/rows/registry.h"

namespace isochron::ops {
namespace {

using graph::Attributes;
using graph::ElementOp;
using graph::ElementProgram;
using graph::Kernel;
using graph::KernelArgs;
using graph::KernelRequest;

/// Sums of products of `factors` as they are added up.
DType sums_of(DType factors) { return factors == DType::kF64 ? DType::kF64 : DType::kF32; }

/// From the product, which is its first operand, and the terms to the result.
std::shared_ptr<const ElementProgram> program_of(const KernelRequest& request, const TensorSpec& product) {
  auto program = std::make_shared<ElementProgram>();
  program->shape = product.shape;
  program->operands.push_back({product});
  for (const TensorSpec& term : request.inputs.subspan(2)) program->operands.push_back({term});
  const auto add = [&program](ElementOp op, DType dtype, uint8_t a, uint8_t b = 0) {
    program->code.push_back({op, dtype, {a, b, 0}});
    return static_cast<uint8_t>(program->operands.size() + program->code.size() - 1);
  };
  const auto as = [&](DType dtype, uint8_t reg) {
    return program->register_dtype(reg) == dtype ? reg : add(ElementOp::kCast, dtype, reg);
  };
  uint8_t sum = 0;
  for (size_t i = 1; i < program->operands.size(); ++i)
    sum = add(ElementOp::kAdd, product.dtype, sum, as(product.dtype, static_cast<uint8_t>(i)));
  if (request.attributes.get<bool>("relu")) sum = add(ElementOp::kRelu, product.dtype, sum);
  sum = as(request.outputs[0].dtype, sum);
  if (program->code.empty()) sum = add(ElementOp::kCopy, product.dtype, sum);
  program->outputs.push_back({sum});
  return program;
}

/// The product lies at the beginning of the workspace.
class MatmulAdd final : public Kernel {
 public:
  explicit MatmulAdd(const KernelRequest& request) : operands_(request.inputs.size() - 1) {
    const DType factors = request.inputs[0].dtype;
    const TensorSpec product{sums_of(factors), request.outputs[0].shape};
    Attributes flags;
    for (const char* name : {"transpose_a", "transpose_b"})
      flags.set(name, request.attributes.get<bool>(name));
    if (product.dtype != factors) flags.set(graph::kStorage, std::vector<DType>{product.dtype});
    product_ = graph::prepare_kernel({row("matmul"),
                                      request.inputs.first(2),
                                      {&product, 1},
                                      flags,
                                      request.threads,
                                      {},
                                      request.module,
                                      nullptr,
                                      request.backend});
    std::vector<TensorSpec> operands{product};
    operands.insert(operands.end(), request.inputs.begin() + 2, request.inputs.end());
    Attributes attributes;
    attributes.set("program", std::shared_ptr<const graph::AttributeObject>(program_of(request, product)));
    rest_ = graph::prepare_kernel({row("fused"),
                                   operands,
                                   request.outputs,
                                   attributes,
                                   request.threads,
                                   {},
                                   request.module,
                                   nullptr,
                                   request.backend});
    product_bytes_ = align_up(product.size_bytes(), cuda::kDeviceAlignment);
  }

  size_t workspace_bytes() const override {
    return checked_add(product_bytes_, std::max(product_->workspace_bytes(), rest_->workspace_bytes()));
  }
  void bind(const KernelArgs& args) override {
    std::copy_n(args.inputs, factors_.size(), factors_.begin());
    operands_[0] = args.workspace;
    std::copy_n(args.inputs + 2, operands_.size() - 1, operands_.begin() + 1);
    product_->bind(product_args(args));
    rest_->bind(rest_args(args));
  }
  void run(const KernelArgs& args) override {
    product_->run(product_args(args));
    rest_->run(rest_args(args));
  }

 private:
  KernelArgs product_args(const KernelArgs& args) const {
    return {factors_.data(), operands_.data(), args.workspace + product_bytes_, args.stream};
  }
  KernelArgs rest_args(const KernelArgs& args) const {
    return {operands_.data(), args.outputs, args.workspace + product_bytes_, args.stream};
  }

  std::unique_ptr<Kernel> product_, rest_;
  std::array<std::byte*, 2> factors_ = {};
  std::vector<std::byte*> operands_;  // the product, the terms
  size_t product_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> prepare_matmul_add(const KernelRequest& request) {
  return std::make_unique<MatmulAdd>(request);
}

}  // namespace isochron::ops
