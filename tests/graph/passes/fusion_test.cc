// What the fusion pass joins, and what it must keep apart.
#include <gmock/gmock.h>

#include <cmath>
#include <map>

#include "graph/program/trace.h"
#include "isochron/autograd/autograd.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/graph/step/captured.h"
#include "isochron/ops/control/debug.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/matmul/matmul.h"
#include "isochron/ops/random/random.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"

namespace isochron::graph {
namespace {

using In = const std::vector<Tensor>&;
using testing::Each;
using testing::ElementsAre;
using testing::Pair;
const TensorSpec kMatrix{DType::kF32, {6, 6}};

template <typename F>
std::unique_ptr<Graph> fused(const std::vector<TensorSpec>& specs, F function) {
  auto graph = trace(specs, function);
  fuse_elementwise(*graph);
  graph->check();
  return graph;
}

TEST(Fusion, ChainsAndDiamondsBecomeOneNode) {
  EXPECT_THAT(op_names(*fused({kMatrix}, [](In in) { return exp(tanh(in[0]) * 2.0); })),
              ElementsAre("fused"));
  auto diamond = fused({kMatrix}, [](In in) {
    const Tensor a = in[0] + 1.0;
    return exp(a) * sin(a);
  });
  ASSERT_THAT(op_names(*diamond), ElementsAre("fused"));
  EXPECT_EQ(program_of(*diamond->nodes()[0]).code.size(), 4u);
  EXPECT_EQ(program_of(*diamond->nodes()[0]).outputs.size(), 1u);
}

TEST(Fusion, ASingleOpStaysItself) {
  EXPECT_THAT(op_names(*fused({kMatrix}, [](In in) { return exp(in[0]); })), ElementsAre("exp"));
  EXPECT_THAT(op_names(*fused({kMatrix}, [](In in) { return sum(in[0]); })), ElementsAre("sum"));
}

TEST(Fusion, RefusesAPathThatLeavesAndComesBack) {
  auto graph = fused({kMatrix}, [](In in) {
    const Tensor a = in[0] + 1.0;
    const Tensor b = exp(a);
    // Joining b and the sum would need the product before itself.
    return std::pair(b + matmul(a, a), b);
  });
  EXPECT_THAT(op_names(*graph), ElementsAre("fused", "matmul", "add"));
  EXPECT_EQ(program_of(*graph->nodes()[0]).outputs.size(), 2u);
}

TEST(Fusion, RefusesACycleThroughAnotherGroup) {
  auto graph = fused({kMatrix, kMatrix}, [](In in) {
    const Tensor a = in[0] + 1.0;
    const Tensor b = in[1] * 2.0;
    const Tensor c = exp(b) + matmul(a, a);
    const Tensor d = sin(a) + matmul(b, b);
    return std::pair(c, d);
  });
  const auto names = op_names(*graph);
  EXPECT_EQ(std::count(names.begin(), names.end(), "matmul"), 2);
  auto crossed = fused({kMatrix}, [](In in) {
    const Tensor a = in[0] + 1.0;
    const Tensor s = sum(a, {1}, true);  // closes a's group
    const Tensor wide = a * s;           // needs s: not in that group
    const Tensor t = sum(wide * a, {}, true);
    return wide + t * a;
  });
  EXPECT_GE(crossed->node_count(), 3u);
}

TEST(Fusion, TheTermsOfALongSumArentKeptUntilItsEnd) {
  const Shape square{128, 128};
  const auto arena = [&](int uses) {
    auto step = capture([&](const Tensor& x, const Tensor& w) {
      Tensor h = x;
      for (int i = 0; i < uses; ++i) h = tanh(matmul(h, w));
      return gradients(sum(h), {w})[0];
    });
    step(random_normal({4, 128}), random_normal(square, 0, 0.1));
    return static_cast<double>(step.plan_report().arena_bytes) / static_cast<double>(square.elems() * 4);
  };
  EXPECT_LT(arena(16), 7) << "weights";
}

TEST(Fusion, DerivativesAreComputedWhereTheyAreReadFromWhatIsKept) {
  // 1 - y^2 depends on the forward pass alone. Beside y it would be a second result, kept for the backward
  // pass.
  const auto arena = [](auto activation, bool fuse) {
    const Variable w(full({32, 32}, 0.1), "w");
    CaptureOptions options;
    if (!fuse) options.passes.disabled = {"fuse"};
    auto step = capture(
        [&](const Tensor& x) {
          Tensor y = x;
          for (int i = 0; i < 20; ++i) y = activation(matmul(y, w));
          return gradients(sum(square(y)), std::vector<Variable>{w})[0];
        },
        options);
    step(ones({32, 32}));
    return step.plan_report().arena_bytes;
  };
  const auto of_tanh = [](const Tensor& x) { return tanh(x); };
  const auto of_sigmoid = [](const Tensor& x) { return sigmoid(x); };
  EXPECT_LE(arena(of_tanh, true), arena(of_tanh, false));
  EXPECT_LE(arena(of_sigmoid, true), arena(of_sigmoid, false));
}

TEST(Fusion, DerivativesOfValuesIn16BitsAreComputedBeforeTheyAreRounded) {
  // tanh(4) is 1 in bf16, but its derivative is 0.00134. The gradient of the squares reads y, which is kept
  // for it.
  const auto gradient = [](Precision precision) {
    auto step = capture(
        [](const Tensor& x, const Tensor& w) {
          const Tensor y = tanh(matmul(x, w));
          return gradients(sum(square(matmul(y, w))), {x})[0];
        },
        {.passes = {.precision = precision}});
    return step(ones({16, 16}), full({16, 16}, 0.25)).to_vector()[0];
  };
  const double exact = gradient(Precision::kF32), y = std::tanh(4.0);
  EXPECT_NEAR(exact, 16 * 0.25 * (2 * 16 * 0.25 * y) * (16 * 0.25) * (1 - y * y), 1e-4);
  EXPECT_NEAR(gradient(Precision::kMixedBf16), exact, 0.02 * exact);
}

TEST(Fusion, WhatWouldKeepMoreStaysWhereItIs) {
  // The product is read once, later; to compute it there, two values would have to be kept until then.
  auto graph = fused({kMatrix, kMatrix}, [](In in) {
    const Tensor a = exp(in[0]), b = sin(in[1]);
    return matmul(matmul(a, b), in[0]) * (a * b);
  });
  EXPECT_THAT(op_names(*graph), ElementsAre("fused", "matmul", "matmul", "mul"));
}

TEST(Fusion, LongLoopsWhoseSearchesEndEarlyComputeTheSame) {
  const auto function = [](const Tensor& x, const Tensor& w) {
    const Tensor mask = x * 0.5;  // read again behind everything
    Tensor h = x;
    for (int i = 0; i < 1500; ++i) h = tanh(matmul(h, w) + x) * 0.5;
    return h * mask + x;
  };
  const Tensor x = random_normal({2, 2}), w = random_normal({2, 2});
  auto fused = capture(function);
  auto plain = capture(function, CaptureOptions{.passes = {.disabled = {"all"}}});
  EXPECT_EQ(fused(x, w).to_vector(), plain(x, w).to_vector());
  EXPECT_LT(fused.plan_report().instructions, plain.plan_report().instructions / 3 * 2);
}

TEST(Fusion, SeveralOutputsAndClosingReductionsOfEveryKind) {
  auto graph = fused({kMatrix}, [](In in) {
    const Tensor a = tanh(in[0]);
    return std::vector<Tensor>{a,           sum(a, {0}),  mean(a, {1}),     max(a, {0, 1}),
                               min(a, {1}), prod(a, {0}), sum(a, {1}, true)};
  });
  ASSERT_THAT(op_names(*graph), ElementsAre("fused"));
  EXPECT_EQ(program_of(*graph->nodes()[0]).outputs.size(), 7u);
  EXPECT_EQ(graph->outputs()[6]->spec.shape, (Shape{6, 1}));
}

TEST(Fusion, AReductionIsReadOnlyAfterItsGroup) {
  auto graph = fused({kMatrix}, [](In in) {  // softmax
    const Tensor e = exp(in[0] - max(in[0], {1}, true));
    return e / sum(e, {1}, true);
  });
  ASSERT_THAT(op_names(*graph), ElementsAre("max", "fused", "div"));
  EXPECT_EQ(program_of(*graph->nodes()[1]).outputs.size(), 2u);
  auto chained = fused({{DType::kF32, {1, 5}}}, [](In in) { return exp(sum(in[0] * 2.0, {0}, true) + 1.0); });
  ASSERT_THAT(op_names(*chained), ElementsAre("fused", "fused"));
}

TEST(Fusion, KeepsShapesApartButBroadcastsOperands) {
  auto graph = fused({kMatrix, {DType::kF32, {6}}, {DType::kF32, {6, 1}}}, [](In in) {
    const Tensor bias = in[1] * 2.0;  // six elements: its own node
    return tanh((in[0] + bias) * in[2]);
  });
  ASSERT_THAT(op_names(*graph), ElementsAre("mul", "fused"));
  EXPECT_EQ(graph->nodes()[1]->inputs.size(), 3u);
}

TEST(Fusion, RespectsTheLimits) {
  auto chain = fused({kMatrix}, [](In in) {
    Tensor x = in[0];
    for (int i = 0; i < 60; ++i) x = tanh(x);
    return x;
  });
  size_t instructions = 0;
  for (const auto& node : chain->nodes()) {
    ASSERT_EQ(node->op->name, "fused");
    EXPECT_LE(program_of(*node).code.size(), 24u);
    instructions += program_of(*node).code.size();
  }
  EXPECT_EQ(instructions, 60u);
  EXPECT_EQ(chain->node_count(), 3u);

  auto wide = fused(std::vector<TensorSpec>(40, kMatrix), [](In in) {
    Tensor x = in[0];
    for (size_t i = 1; i < in.size(); ++i) x = x + in[i];
    return x;
  });
  for (const auto& node : wide->nodes()) EXPECT_LE(node->inputs.size(), 16u);
  EXPECT_LE(wide->node_count(), 4u);

  auto many = fused({kMatrix}, [](In in) {
    std::vector<Tensor> results{in[0] + 1.0};
    for (int i = 0; i < 20; ++i) results.push_back(sin(results.back()));
    return results;
  });
  for (const auto& node : many->nodes()) EXPECT_LE(node->outputs.size(), 8u);
}

TEST(Fusion, EmptyTensorsAreLeftAloneAndScalarsFuse) {
  EXPECT_THAT(op_names(*fused({{DType::kF32, {0, 3}}}, [](In in) { return exp(in[0] * 2.0); })),
              ElementsAre("mul", "exp"));
  EXPECT_THAT(op_names(*fused({{DType::kF32, {}}}, [](In in) { return exp(in[0] * 2.0); })),
              ElementsAre("fused"));
}

TEST(Fusion, MixedDtypesShareAProgram) {
  auto graph = fused({kMatrix}, [](In in) {
    return where(greater(in[0], scalar(0)), cast(cast(in[0], DType::kF64) * 2.0, DType::kF32), in[0]);
  });
  ASSERT_THAT(op_names(*graph), ElementsAre("fused"));
  EXPECT_EQ(graph->outputs()[0]->spec.dtype, DType::kF32);
}

TEST(Fusion, UpdatesAreOutputs) {
  const Tensor weight = ones({6, 6});
  auto graph = fused({kMatrix}, [&](In in) {
    assign(weight, weight - in[0] * 0.1);
    return sum(square(weight.refreshed()));
  });
  ASSERT_THAT(op_names(*graph), ElementsAre("fused"));
  EXPECT_EQ(program_of(*graph->nodes()[0]).outputs.size(), 2u);
  ASSERT_EQ(graph->updates().size(), 1u);
  EXPECT_EQ(graph->updates()[0].value, graph->nodes()[0]->outputs[0]);
}

TEST(Fusion, SmallUpdatesOfOneShapeAreOneNode) {
  const Tensor a = ones({6}), b = ones({6}), c = ones({7}), wide = ones({5000}), wider = ones({5000});
  const auto moved = [](const Tensor& average, const Tensor& by) {
    assign(average, average * 0.9 + by * 0.1);
  };
  const auto updates = [&](In in) {
    moved(a, sum(in[0], {0}));
    moved(b, sum(exp(in[0]), {0}));
    moved(c, in[1]);
    moved(wide, in[2]);
    moved(wider, in[3]);
    return sum(in[0]);
  };
  const TensorSpec large{DType::kF32, {5000}};
  const auto graph = fused({kMatrix, {DType::kF32, {7}}, large, large}, updates);
  std::map<std::string, std::vector<size_t>> outputs;  // of programs without reductions, by shape
  for (const auto& node : graph->nodes()) {
    if (node->op->name != "fused" || program_of(*node).outputs[0].reduced) continue;
    outputs[program_of(*node).shape.str()].push_back(program_of(*node).outputs.size());
  }
  EXPECT_THAT(outputs, ElementsAre(Pair("(5000)", ElementsAre(1, 1)), Pair("(6)", ElementsAre(2)),
                                   Pair("(7)", ElementsAre(1))));
}

TEST(Fusion, UpdatesThatLaterNodesWaitForStayApart) {
  const Tensor a = ones({6}), b = ones({6});
  const auto graph = fused({{DType::kF32, {6}}}, [&](In in) {
    assign(a, a * 0.9 + in[0]);
    const Tensor product = matmul(reshape(a.refreshed(), {1, 6}), reshape(in[0], {6, 1}));
    assign(b, b * 0.9 + sum(product));
    return product;
  });
  EXPECT_EQ(std::ranges::count(op_names(*graph), "fused"), 2);
  // Nor is what reads one held up by what another waits for.
  const auto apart = fused({{DType::kF32, {6}}}, [&](In in) {
    assign(a, a * 0.9 + in[0]);
    assign(b, b * 0.9 + reshape(matmul(reshape(in[0], {1, 6}), reshape(in[0], {6, 1})), {1}));
    return matmul(reshape(a.refreshed(), {1, 6}), reshape(in[0], {6, 1}));
  });
  EXPECT_EQ(std::ranges::count(op_names(*apart), "fused"), 2);
}

/// Labels of a graph's prints, in the order in which they run.
std::vector<std::string> printed(const Graph& graph) {
  std::vector<std::string> labels;
  for (const auto& node : graph.nodes()) {
    if (node->op->side_effect) labels.push_back(node->attributes.get<std::string>("label"));
  }
  return labels;
}

TEST(Fusion, LeavesSideEffectsInTheirOrder) {
  // `a` and `b` may be one program, which is ready only once `z` is.
  auto graph = trace({kMatrix, kMatrix, kMatrix}, [](In in) {
    const Tensor a = in[0] * 2.0;
    print(a, "first");
    print(in[1], "second");
    return a + in[2];
  });
  fuse_elementwise(*graph);
  graph->check();
  EXPECT_THAT(printed(*graph), testing::ElementsAre("first", "second"));
  // Here a joint program would have to run both before the first print and after the second.
  auto around = trace({kMatrix, kMatrix}, [](In in) {
    const Tensor a = in[0] * 2.0;
    print(a, "first");
    return a + print(in[1], "second");
  });
  fuse_elementwise(*around);
  around->check();
  EXPECT_THAT(printed(*around), testing::ElementsAre("first", "second"));
}

}  // namespace
}  // namespace isochron::graph
