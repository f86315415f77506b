// Gradients around a layer norm, which its own gradient adds.
#include <gmock/gmock.h>

#include "graph/program/trace.h"
#include "isochron/autograd/autograd.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/matmul/matmul.h"
#include "isochron/ops/normalization/normalization.h"
#include "isochron/ops/reduction/reduction.h"

namespace isochron::graph {
namespace {

using In = const std::vector<Tensor>&;

const TensorSpec kRows{DType::kF32, {6, 8}};
const TensorSpec kColumns{DType::kF32, {8}};
const TensorSpec kSquare{DType::kF32, {8, 8}};

template <typename F>
std::unique_ptr<Graph> with_residuals(const std::vector<TensorSpec>& specs, F function) {
  auto graph = trace(specs, function);
  absorb_residuals(*graph);
  graph->check();
  return graph;
}

Tensor block(const Tensor& x, const Tensor& weight, const Tensor& gamma, const Tensor& beta) {
  return x + matmul(layer_norm(x, gamma, beta), weight);
}

TEST(Residuals, EachLayerNormTakesTheGradientAroundIt) {
  const auto graph = with_residuals({kRows, kSquare, kColumns, kColumns}, [](In in) {
    const Tensor h = block(block(in[0], in[1], in[2], in[3]), in[1], in[2], in[3]);
    return gradients(sum(h * h), std::vector{in[0], in[2]});
  });
  int with = 0;
  for (const auto& node : graph->nodes())
    with += node->op->name == "layer_norm_gradient" && node->inputs.size() == 6;
  EXPECT_EQ(with, 2);
}

TEST(Residuals, WithoutGammaOrWithOtherReadersNothingIsTaken) {
  const auto none = [](const std::vector<TensorSpec>& specs, const auto& function) {
    const auto graph = with_residuals(specs, function);
    for (const auto& node : graph->nodes())
      EXPECT_LT(node->op->name == "layer_norm_gradient" ? node->inputs.size() : 0, 6u);
  };
  none({kRows, kSquare}, [](In in) {
    const Tensor h = in[0] + matmul(layer_norm(in[0], Tensor(), Tensor()), in[1]);
    return gradients(sum(h * h), std::vector{in[0]});
  });
  none({kRows, kColumns, kColumns}, [](In in) {
    const Tensor normal = layer_norm(in[0], in[1], in[2]);
    const Tensor own = gradients(sum(square(normal)), std::vector{in[0]})[0];
    return std::vector{own + in[0], own};
  });
  none({kRows, kColumns, kColumns}, [](In in) {  // the other term depends on gamma's gradient
    const Tensor normal = layer_norm(in[0], in[1], in[2]);
    const std::vector<Tensor> own = gradients(sum(square(normal)), std::vector{in[0], in[1]});
    return own[0] + in[0] * own[1];
  });
  none({kRows, kSquare, kColumns, kColumns}, [](In in) {
    const Tensor normal = layer_norm(in[0], in[2], in[3]);
    return gradients(sum(square(matmul(normal, in[1]))), std::vector{in[0]});
  });
}

}  // namespace
}  // namespace isochron::graph
