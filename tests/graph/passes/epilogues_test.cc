// What a product takes along of the node that reads it, and what it must leave to that.
#include <gmock/gmock.h>

#include "graph/program/trace.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/matmul/matmul.h"
#include "isochron/ops/reduction/reduction.h"

namespace isochron::graph {
namespace {

using In = const std::vector<Tensor>&;
using testing::ElementsAre;

const TensorSpec kA{DType::kF32, {6, 4}};
const TensorSpec kB{DType::kF32, {4, 5}};
const TensorSpec kBias{DType::kF32, {5}};
const TensorSpec kResult{DType::kF32, {6, 5}};

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
            "%7 = matmul_add(%0, %1, %2) {transpose_a=false, transpose_b=false, relu=true} : f32(6, 5)\n"
            "return %7\n");
  graph = absorbed({kBias, {DType::kF32, {5, 4}}, kA},
                   [](In in) { return in[0] + matmul(in[2], in[1], false, true); });
  EXPECT_EQ(to_text(*graph),
            "%0 = input 0 : f32(5)\n"
            "%1 = input 1 : f32(5, 4)\n"
            "%2 = input 2 : f32(6, 4)\n"
            "%5 = matmul_add(%2, %1, %0) {transpose_a=false, transpose_b=true, relu=false} : f32(6, 5)\n"
            "return %5\n");
}

TEST(Epilogues, AMatrixAndANumberAColumnAreAdded) {
  const std::vector<TensorSpec> specs{kA, kB, kBias, kResult};
  const std::vector<std::string> one{"matmul_add"};
  EXPECT_EQ(ops_of(specs, [](In in) { return matmul(in[0], in[1]) + in[3]; }), one);
  EXPECT_EQ(ops_of(specs, [](In in) { return relu(matmul(in[0], in[1])); }), one);
  EXPECT_EQ(ops_of(specs, [](In in) { return relu(in[3] + (matmul(in[0], in[1]) + in[2])); }), one);
  EXPECT_EQ(ops_of({{DType::kF32, {2, 6, 4}}, kB, {DType::kF32, {1, 5}}},
                   [](In in) { return matmul(in[0], in[1]) + in[2]; }),
            one);
}

TEST(Epilogues, OfTwoProductsTheLaterTakesTheOther) {
  auto graph = absorbed({kA, kB, kA}, [](In in) {
    const Tensor early = matmul(in[0], in[1]);
    const Tensor late = matmul(in[2], in[1]);
    return late + early;
  });
  ASSERT_THAT(op_names(*graph), ElementsAre("matmul", "matmul_add"));
  EXPECT_EQ(graph->nodes()[1]->inputs[0], graph->inputs()[2]);
  EXPECT_EQ(graph->nodes()[1]->inputs[2], graph->nodes()[0]->outputs[0]);
}

TEST(Epilogues, ChainsOfLayersAreChainsOfProducts) {
  const TensorSpec square{DType::kF32, {5, 5}};
  const auto names = ops_of({kA, kB, kBias, square, kResult}, [](In in) {
    const Tensor h = relu(matmul(in[0], in[1]) + in[2]);
    return std::vector{matmul(h, in[3]) + h, matmul(h, in[3], false, true) + in[4]};
  });
  EXPECT_THAT(names, ElementsAre("matmul_add", "matmul_add", "matmul_add"));
}

TEST(Epilogues, WhatIsNotOneStaysANodeOfItsOwn) {
  const std::vector<TensorSpec> specs{
      kA, kB, kBias, kResult, {DType::kF32, {6, 1}}, {DType::kF32, {3, 6, 5}}};
  const auto stays = [&](const auto& function) {
    EXPECT_THAT(ops_of(specs, function), testing::Not(testing::Contains("matmul_add")));
  };
  stays([](In in) { return matmul(in[0], in[1]); });
  stays([](In in) {
    const Tensor product = matmul(in[0], in[1]);
    return std::vector{product, product + in[2]};  // read twice
  });
  stays([](In in) {
    const Tensor product = matmul(in[0], in[1]);
    return product + product;
  });
  stays([](In in) { return matmul(in[0], in[1]) - in[3]; });
  stays([](In in) { return matmul(in[0], in[1]) + in[4]; });        // a number a row
  stays([](In in) { return matmul(in[0], in[1]) + in[5]; });        // a larger result
  stays([](In in) { return matmul(in[0], in[1]) + 1.0; });          // a number frozen into the program
  stays([](In in) { return relu(matmul(in[0], in[1])) + in[3]; });  // another order
  stays([](In in) { return tanh(matmul(in[0], in[1]) + in[2]); });
  stays([](In in) { return matmul(in[0], in[1]) + tanh(in[3]); });
  stays([](In in) { return sum(relu(matmul(in[0], in[1]))); });
  stays([](In in) { return matmul(in[0], in[1]) + in[3] + in[3] * 1.0; });
  stays([](In in) {
    const Tensor h = matmul(in[0], in[1]) + in[3];
    return std::vector{h, relu(h)};  // both are wanted
  });
  const TensorSpec f64{DType::kF64, {5, 5}};
  EXPECT_THAT(ops_of({f64, f64, f64}, [](In in) { return matmul(in[0], in[1]) + in[2]; }),
              ElementsAre("matmul", "add"));
  const TensorSpec half{DType::kBF16, {5, 5}};
  EXPECT_THAT(ops_of({half, half, half}, [](In in) { return matmul(in[0], in[1]) + in[2]; }),
              ElementsAre("matmul", "add"))
      << "the program adds in 16 bits";
}

TEST(Epilogues, InMixedPrecisionWhatIsAddedIsStoredAsTheResultIs) {
  const TensorSpec square{DType::kF32, {5, 5}};
  auto graph = absorbed(
      {{DType::kF32, {2, 5}}, square},
      [](In in) {
        const Tensor h = matmul(in[0], in[1]);
        return matmul(relu(matmul(h, in[1]) + h), in[1]);
      },
      Precision::kMixedBf16);
  EXPECT_THAT(op_names(*graph), ElementsAre("cast", "cast", "matmul", "matmul_add", "matmul"));
  EXPECT_EQ(graph->nodes()[3]->outputs[0]->spec, (TensorSpec{DType::kBF16, {2, 5}}));
  EXPECT_EQ(graph->nodes()[3]->attributes.str(),
            "transpose_a=false, transpose_b=false, relu=true, storage=[bf16]");
  graph = absorbed(
      {kA, kB, kBias, {DType::kF32, {5, 5}}},
      [](In in) { return matmul(relu(matmul(in[0], in[1]) + in[2]), in[3]); }, Precision::kMixedBf16);
  EXPECT_THAT(op_names(*graph), testing::Not(testing::Contains("matmul_add"))) << "the bias is in f32";
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
  EXPECT_THAT(op_names(*graph), ElementsAre("matmul_add"));
  EXPECT_EQ(seen.back(), "epilogues");
}

}  // namespace
}  // namespace isochron::graph
