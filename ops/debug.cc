#include "isochron/ops/debug.h"

#include <cstdio>
#include <cstring>

#include "isochron/core/counters.h"
#include "isochron/core/finite.h"
#include "isochron/graph/apply.h"
#include "isochron/ops/registry.h"
#include "isochron/ops/rules.h"

namespace isochron {
namespace ops {
namespace {

/// Looks at its input, then passes it on.
class ObservingKernel : public graph::Kernel {
 public:
  explicit ObservingKernel(const graph::KernelRequest& request)
      : spec_(request.inputs[0]), label_(request.attributes.get<std::string>("label")) {}

  void run(const graph::KernelArgs& args) final {
    observe(args.inputs[0]);
    if (args.outputs[0] != args.inputs[0] && spec_.size_bytes() > 0) {
      std::memcpy(args.outputs[0], args.inputs[0], spec_.size_bytes());
    }
  }

 protected:
  virtual void observe(std::byte* x) = 0;

  TensorSpec spec_;
  std::string label_;
};

class PrintKernel final : public ObservingKernel {
  using ObservingKernel::ObservingKernel;
  void observe(std::byte* x) override {
    const std::string line = fmt::format("{}: {}\n", label_, Tensor::from_external(x, spec_).str());
    std::fputs(line.c_str(), stderr);
  }
};

class CheckNumericsKernel final : public ObservingKernel {
  using ObservingKernel::ObservingKernel;
  void observe(std::byte* x) override {
    const std::optional<NotFinite> found = find_not_finite(spec_, x);
    if (!found) return;
    count(Counter::kNotFinite, 1);
    fail(ErrorCode::kNotANumber, "check_numerics", "'{}' {}", label_, not_finite_text(spec_, *found));
  }
};

template <class K>
std::unique_ptr<graph::Kernel> prepare(const graph::KernelRequest& request) {
  return std::make_unique<K>(request);
}

std::vector<TensorSpec> infer_check_numerics(const OpCall& call) {
  require_floating(call);
  return infer_same(call);
}

std::vector<Tensor> pass_on(const GradientCall& call) { return {call.output_gradients[0]}; }

OpDef observing(std::string name, std::string summary) {
  OpDef op;
  op.name = std::move(name);
  op.summary = std::move(summary);
  op.gradient = pass_on;
  op.may_alias = [](const OpCall&, int, int) { return true; };
  op.side_effect = true;
  op.samples = {{{{{2, 2}}}, {{"label", std::string("x")}}}, {{{{0}}}, {{"label", std::string("nothing")}}}};
  op.reference = [](const OpCall&, std::span<const TensorSpec>,
                    const std::vector<std::vector<double>>& inputs) {
    return std::vector<std::vector<double>>{inputs[0]};
  };
  return op;
}

Tensor apply_labelled(const OpDef& op, const Tensor& x, const std::string& label) {
  return graph::apply_one(op, {x}, {{"label", label}});
}

}  // namespace

void register_debug(graph::Registry& registry) {
  OpDef print_op = observing("print", "x, written to standard error under a label each time it is computed");
  print_op.infer = infer_same;
  print_op.prepare = prepare<PrintKernel>;
  print_op.dtypes = {DType::kF64, DType::kI32};
  registry.add(std::move(print_op));

  OpDef check = observing("check_numerics", "x, or an error where it holds NaN or infinity");
  check.infer = infer_check_numerics;
  check.prepare = prepare<CheckNumericsKernel>;
  check.dtypes = {DType::kF64, DType::kF32, DType::kF16, DType::kBF16};
  check.errors = {{{{DType::kI32, {2}}}, {{"label", std::string("x")}}, ErrorCode::kDtypeMismatch}};
  registry.add(std::move(check));
}

}  // namespace ops

Tensor print(const Tensor& x, const std::string& label) {
  static const graph::OpDef& op = ops::row("print");
  return ops::apply_labelled(op, x, label);
}

Tensor check_numerics(const Tensor& x, const std::string& label) {
  static const graph::OpDef& op = ops::row("check_numerics");
  return ops::apply_labelled(op, x, label);
}

}  // namespace isochron
