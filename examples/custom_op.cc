// A custom op: snake(x) = x + sin(x)^2 (Ziyin et al. 2020), with a kernel in C++ and a gradient written in
// ops. Once registered, it works like any other op: eager, captured, differentiated.
#include <fmt/format.h>

#include <array>
#include <cmath>

#include "isochron/isochron.h"

using namespace isochron;

// The kernel gets addresses and must not allocate.
struct SnakeKernel final : graph::Kernel {
  explicit SnakeKernel(int64_t count) : elems(count) {}
  void run(const graph::KernelArgs& args) override {
    const auto* x = reinterpret_cast<const float*>(args.inputs[0]);
    auto* y = reinterpret_cast<float*>(args.outputs[0]);
    for (int64_t i = 0; i < elems; ++i) y[i] = x[i] + std::sin(x[i]) * std::sin(x[i]);
  }
  int64_t elems;
};

std::unique_ptr<graph::Kernel> make_snake(const graph::KernelRequest& request) {
  return std::make_unique<SnakeKernel>(request.inputs[0].shape.elems());
}

// The op's definition: shapes, dtypes (the kernel sees only those accepted here) and gradient.
graph::OpDef snake_row() {
  graph::OpDef op;
  op.name = "snake";
  op.infer = [](const graph::OpCall& call) {
    const TensorSpec& x = call.inputs[0];
    require(x.dtype == DType::kF32, ErrorCode::kDtypeMismatch, "snake", "is defined on f32, not on {}",
            x.str());
    return std::vector{x};
  };
  op.gradient = [](const graph::GradientCall& call) {
    return std::vector{call.output_gradients[0] * (sin(call.inputs[0] * 2.0) + 1.0)};
  };
  return op;
}

Tensor snake(const Tensor& x) {
  static const graph::OpDef& row = ops::register_op(snake_row(), make_snake);
  return graph::apply_one(row, {x});
}

int main() {
  auto slope = capture([](const Tensor& x) { return gradients(sum(snake(x)), std::array{x})[0]; });
  const Tensor x = from_vector({7}, {-3, -2, -1, 0, 1, 2, 3});
  const std::vector<double> analytic = slope(x).to_vector();
  const std::vector<double> numeric = ((snake(x + 0.01) - snake(x - 0.01)) / 0.02).to_vector();
  double worst = 0;
  for (size_t i = 0; i < analytic.size(); ++i) {
    worst = std::max(worst, std::abs(analytic[i] - numeric[i]));
    fmt::print("snake'({:2})  gradient {:8.5f}  difference {:8.5f}\n", i - 3.0, analytic[i], numeric[i]);
  }
  try {
    snake(cast(x, DType::kF64));
  } catch (const Error& error) {
    fmt::print("{}\n", error.what());
    return worst < 1e-3 && error.code() == ErrorCode::kDtypeMismatch ? 0 : 1;
  }
  return 1;
}
