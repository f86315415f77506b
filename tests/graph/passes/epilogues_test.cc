// What a product absorbs from its first reader, and what must stay in that reader.
#include <gmock/gmock.h>

#include "graph/program/trace.h"
#include "isochron/ops/convolution/convolution.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/matmul/matmul.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/shape_ops.h"

namespace isochron::graph {
namespace {

using In = const std::vector<Tensor>&;
using testing::Contains;
using testing::ElementsAre;
using testing::Not;

const TensorSpec kA{DType::kF32, {6, 4}};
const TensorSpec kB{DType::kF32, {4, 5}};
const TensorSpec kBias{DType::kF32, {5}};
const TensorSpec kResult{DType::kF32, {6, 5}};
const std::vector<std::string> kOne{"fused_product"};

template <typename F>
std::unique_ptr<Graph> absorbed(const std::vector<TensorSpec>& specs, F function,
                                Precision precision = Precision::kF32) {
  auto graph = trace(specs, function);
  fuse_elementwise(*graph);
  cast_to_precision(*graph, precision);
  absorb_epilogues(*graph);
  graph->check();
  return graph;
}
template <typename F>
std::vector<std::string> ops_of(const std::vector<TensorSpec>& specs, F function) {
  return op_names(*absorbed(specs, function));
}

TEST(Epilogues, ADenseLayerIsOneNode) {
  auto graph = absorbed({kA, kB, kBias}, [](In in) { return relu(matmul(in[0], in[1]) + in[2]); });
  EXPECT_EQ(to_text(*graph),
            "%0 = input 0 : f32(6, 4)\n"
            "%1 = input 1 : f32(4, 5)\n"
            "%2 = input 2 : f32(5)\n"
            "%7 = fused_product(%0, %1, %2) {transpose_a=false, transpose_b=false, product='matmul', "
            "program={r2=add(r0,r1); r3=relu(r2); -> r3}} : f32(6, 5)\n"
            "return %7\n");
  graph = absorbed({kBias, {DType::kF32, {5, 4}}, kA},
                   [](In in) { return in[0] + matmul(in[2], in[1], false, true); });
  EXPECT_EQ(to_text(*graph),
            "%0 = input 0 : f32(5)\n"
            "%1 = input 1 : f32(5, 4)\n"
            "%2 = input 2 : f32(6, 4)\n"
            "%5 = fused_product(%2, %1, %0) {transpose_a=false, transpose_b=true, product='matmul', "
            "program={r2=add(r1,r0); -> r2}} : f32(6, 5)\n"
            "return %5\n");
}

TEST(Epilogues, AnyElementOpsGoAlong) {
  const std::vector<TensorSpec> specs{kA, kB, kBias, kResult, {DType::kF32, {6, 1}}};
  EXPECT_EQ(ops_of(specs, [](In in) { return relu(in[3] + (matmul(in[0], in[1]) + in[2])); }), kOne);
  EXPECT_EQ(ops_of(specs, [](In in) { return tanh(matmul(in[0], in[1]) * 2.0 - in[4]); }), kOne);
  EXPECT_EQ(ops_of(specs, [](In in) { return square(matmul(in[0], in[1])) + in[3]; }), kOne);
  EXPECT_EQ(ops_of(specs, [](In in) { return matmul(in[0], in[1]) * 3.0; }), kOne);
  EXPECT_EQ(ops_of(specs,
                   [](In in) {
                     const Tensor h = matmul(in[0], in[1]) + in[3];
                     return std::vector{h, relu(h)};
                   }),
            kOne);
  EXPECT_EQ(ops_of(specs,
                   [](In in) {
                     const Tensor product = matmul(in[0], in[1]);
                     return product * product;
                   }),
            kOne);
  EXPECT_EQ(ops_of({{DType::kF32, {2, 6, 4}}, kB, {DType::kF32, {1, 5}}},
                   [](In in) { return matmul(in[0], in[1]) + in[2]; }),
            kOne);
  const TensorSpec f64{DType::kF64, {5, 5}}, half{DType::kBF16, {5, 5}};
  EXPECT_EQ(ops_of({f64, f64, f64}, [](In in) { return matmul(in[0], in[1]) + in[2]; }), kOne);
  EXPECT_EQ(ops_of({half, half, half}, [](In in) { return matmul(in[0], in[1]) + in[2]; }), kOne);
}

TEST(Epilogues, AProductThatOthersReadIsStoredToo) {
  const auto graph = absorbed({kA, kB, {DType::kF32, {5, 5}}}, [](In in) {
    const Tensor product = matmul(in[0], in[1]);
    const Tensor h = gelu(product);
    return std::vector{matmul(h, in[2]), matmul(product, in[2]), product};
  });
  ASSERT_THAT(op_names(*graph), ElementsAre("fused_product", "matmul", "matmul"));
  const Node& fused = *graph->nodes()[0];
  EXPECT_EQ(fused.attributes.object<ElementProgram>("program")->str(), "{r1=gelu(r0); -> r1 r0}");
  EXPECT_EQ(graph->nodes()[1]->inputs[0], fused.outputs[0]);
  EXPECT_EQ(graph->nodes()[2]->inputs[0], fused.outputs[1]);
  EXPECT_EQ(graph->outputs()[2], fused.outputs[1]);
}

TEST(Epilogues, WhatReadsAProductAfterAnotherReaderIsLeft) {
  // The second reader needs the result of the first, so absorbing both would create a cycle through the
  // product.
  const auto graph = absorbed({kA, kB}, [](In in) {
    const Tensor product = matmul(in[0], in[1]);
    return product + transpose(transpose(product));
  });
  EXPECT_THAT(op_names(*graph), ElementsAre("matmul", "transpose", "transpose", "add"));
}

TEST(Epilogues, OfTwoProductsTheLaterTakesTheOther) {
  auto graph = absorbed({kA, kB, kA}, [](In in) {
    const Tensor early = matmul(in[0], in[1]);
    const Tensor late = matmul(in[2], in[1]);
    return late + early;
  });
  ASSERT_THAT(op_names(*graph), ElementsAre("matmul", "fused_product"));
  EXPECT_EQ(graph->nodes()[1]->inputs[0], graph->inputs()[2]);
  EXPECT_EQ(graph->nodes()[1]->inputs[2], graph->nodes()[0]->outputs[0]);
}

TEST(Epilogues, ChainsOfLayersAreChainsOfProducts) {
  const TensorSpec square{DType::kF32, {5, 5}};
  const auto names = ops_of({kA, kB, kBias, square, kResult}, [](In in) {
    const Tensor h = relu(matmul(in[0], in[1]) + in[2]);
    return std::vector{matmul(h, in[3]) + h, matmul(h, in[3], false, true) + in[4]};
  });
  EXPECT_THAT(names, ElementsAre("fused_product", "fused_product", "fused_product"));
}

TEST(Epilogues, ReductionsReadWhatIsStored) {
  const std::vector<TensorSpec> specs{kA, kB, kResult, kResult};
  const auto graph = absorbed(specs, [](In in) {
    const Tensor g = where(in[2] > 0.0, matmul(in[0], in[1]), in[3]);
    return std::vector{g, sum(g, {0}), sum(g * in[3], {0})};
  });
  ASSERT_THAT(op_names(*graph), ElementsAre("fused_product", "fused"));
  const Node& product = *graph->nodes()[0];
  const Node& sums = *graph->nodes()[1];
  EXPECT_THAT(sums.inputs, ElementsAre(product.outputs[0], graph->inputs()[3]));
  EXPECT_EQ(sums.attributes.object<ElementProgram>("program")->str(),
            "{r2=mul(r0,r1); -> sum(0)(r0) sum(0)(r2)}");
  EXPECT_EQ(product.attributes.object<ElementProgram>("program")->outputs.size(), 1u);
}

TEST(Epilogues, InMixedPrecisionReductionsReadTheRoundedResult) {
  const TensorSpec square{DType::kF32, {5, 5}};
  const auto graph = absorbed(
      {kA, kB, kResult, square},
      [](In in) {
        const Tensor g = where(in[2] > 0.0, matmul(in[0], in[1]), in[2]);
        return std::vector{matmul(g, in[3]), sum(g, {0})};
      },
      Precision::kMixedBf16);
  const auto sums = std::ranges::find_if(
      graph->nodes(), [](const auto& node) { return node->op->name == "fused" && node->inputs.size() == 1; });
  ASSERT_NE(sums, graph->nodes().end());
  EXPECT_EQ((*sums)->inputs[0]->spec.dtype, DType::kBF16);
  EXPECT_EQ((*sums)->inputs[0]->producer->op->name, "fused_product");
  EXPECT_EQ((*sums)->attributes.object<ElementProgram>("program")->str(), "{r1=cast(r0); -> sum(0)(r1)}");
  EXPECT_EQ((*sums)->outputs[0]->spec.dtype, DType::kF32);
}

TEST(Epilogues, AConvolutionsBiasGoesAlong) {
  const TensorSpec x{DType::kF32, {2, 5, 5, 3}}, kernel{DType::kF32, {3, 3, 3, 4}}, bias{DType::kF32, {4}};
  auto graph = absorbed({x, kernel, bias}, [](In in) { return relu(conv2d(in[0], in[1], in[2])); });
  ASSERT_EQ(op_names(*graph), kOne);
  const Node* node = graph->nodes()[0].get();
  EXPECT_THAT(node->inputs, ElementsAre(graph->inputs()[0], graph->inputs()[1], graph->inputs()[2]));
  EXPECT_EQ(node->attributes.get<std::string>("product"), "convolution");
  EXPECT_EQ(node->attributes.object<ElementProgram>("program")->str(), "{r2=add(r0,r1); r3=relu(r2); -> r3}");
  // Other readers read the sum.
  graph = absorbed({x, kernel, bias}, [](In in) {
    const Tensor y = conv2d(in[0], in[1], in[2]);
    return std::vector{relu(y), y};
  });
  ASSERT_EQ(op_names(*graph), kOne);
  EXPECT_EQ(graph->nodes()[0]->attributes.object<ElementProgram>("program")->str(),
            "{r2=add(r0,r1); r3=relu(r2); -> r3 r2}");
}

TEST(Epilogues, WhatIsNotOneStaysANodeOfItsOwn) {
  const std::vector<TensorSpec> specs{kA, kB, kBias, kResult, {DType::kF32, {3, 6, 5}}};
  const auto stays = [&](const auto& function) {
    EXPECT_THAT(ops_of(specs, function), Not(Contains("fused_product")));
  };
  stays([](In in) { return matmul(in[0], in[1]); });
  stays([](In in) { return matmul(in[0], in[1]) + in[4]; });  // a larger result
  stays([](In in) { return sum(relu(matmul(in[0], in[1]))); });
  stays([](In in) {  // the sum is over a value that isn't stored
    const Tensor h = tanh(matmul(in[0], in[1]));
    return std::vector{h * in[3], sum(h)};
  });
  stays([](In in) { return sum(matmul(in[0], in[1]), {0}) + in[2]; });
}

TEST(Epilogues, InMixedPrecisionResultsAreStoredAsBefore) {
  const TensorSpec square{DType::kF32, {5, 5}};
  auto graph = absorbed(
      {{DType::kF32, {2, 5}}, square},
      [](In in) {
        const Tensor h = matmul(in[0], in[1]);
        return matmul(relu(matmul(h, in[1]) + h), in[1]);
      },
      Precision::kMixedBf16);
  EXPECT_THAT(op_names(*graph), ElementsAre("cast", "cast", "matmul", "fused_product", "matmul"));
  EXPECT_EQ(graph->nodes()[3]->outputs[0]->spec, (TensorSpec{DType::kBF16, {2, 5}}));
  EXPECT_EQ(graph->nodes()[3]->attributes.str(),
            "transpose_a=false, transpose_b=false, product='matmul', "
            "program={r2=cast(r0); r3=cast(r1); r4=add(r2,r3); r5=relu(r4); r6=cast(r5); -> r6}");
  // A bias in f32 is added in f32.
  graph = absorbed(
      {kA, kB, kBias, {DType::kF32, {5, 5}}},
      [](In in) { return matmul(relu(matmul(in[0], in[1]) + in[2]), in[3]); }, Precision::kMixedBf16);
  EXPECT_THAT(op_names(*graph), Contains("fused_product"));
  const auto& program = *graph->nodes()[2]->attributes.object<ElementProgram>("program");
  EXPECT_EQ(program.operands[0].spec.dtype, DType::kBF16);
  EXPECT_EQ(program.operands[1].spec.dtype, DType::kF32);
  // That of a convolution too, whose product is one of 16 bits.
  graph = absorbed(
      {{DType::kF32, {2, 5, 5, 3}}, {DType::kF32, {3, 3, 3, 5}}, kBias, {DType::kF32, {3, 3, 5, 4}}},
      [](In in) { return conv2d(relu(conv2d(in[0], in[1], in[2])), in[3]); }, Precision::kMixedBf16);
  const auto found = std::ranges::find_if(graph->nodes(),
                                          [](const auto& node) { return node->op->name == "fused_product"; });
  ASSERT_NE(found, graph->nodes().end());
  EXPECT_EQ((*found)->attributes.object<ElementProgram>("program")->str(),
            "{r2=cast(r0); r3=add(r2,r1); r4=cast(r3); r5=cast(r4); r6=relu(r5); r7=cast(r6); -> r7}");
}

TEST(Epilogues, AreForDevicesAlone) {
  const auto function = [](In in) { return relu(matmul(in[0], in[1]) + in[2]); };
  auto graph = trace({kA, kB, kBias}, function);
  run_passes(*graph, {});
  EXPECT_THAT(op_names(*graph), ElementsAre("matmul", "fused"));
  PassOptions options;
  options.device = {DeviceKind::kCuda, 0};
  std::vector<std::string> seen;
  options.on_stage = [&](std::string_view stage, const Graph&) { seen.emplace_back(stage); };
  run_passes(*graph, options);
  EXPECT_EQ(op_names(*graph), kOne);
  EXPECT_EQ(seen.back(), "epilogues");
}

}  // namespace
}  // namespace isochron::graph
