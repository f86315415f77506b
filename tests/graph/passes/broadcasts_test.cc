// Small operands that are fused into the large groups that read them, and operands that stay separate.
#include <gmock/gmock.h>

#include "graph/program/trace.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/matmul/matmul.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/shape_ops.h"

namespace isochron::graph {
namespace {

using In = const std::vector<Tensor>&;
using testing::ElementsAre;

const TensorSpec kLarge{DType::kF32, {16, 8}};
const TensorSpec kSmall{DType::kF32, {8}};

template <typename F>
std::unique_ptr<Graph> inlined(const std::vector<TensorSpec>& specs, F function) {
  auto graph = trace(specs, function);
  fuse_elementwise(*graph);
  inline_broadcasts(*graph);
  graph->check();
  return graph;
}

TEST(InlineBroadcasts, AFactorAChannelIsComputedWhereItIsRead) {
  const auto graph = inlined({kLarge, kSmall, kSmall}, [](In in) {
    const Tensor scale = rsqrt(in[1] + 1e-5) * in[2];
    const Tensor y = in[0] * scale;
    return std::vector{y, sum(y * in[0], {0})};
  });
  ASSERT_THAT(op_names(*graph), ElementsAre("fused"));
  EXPECT_EQ(graph->nodes()[0]->attributes.object<ElementProgram>("program")->str(),
            "{r1=1e-05; r4=add(r0,r1); r5=rsqrt(r4); r6=mul(r5,r2); r7=mul(r3,r6); r8=mul(r7,r3); "
            "-> r7 sum(0)(r8)}");
  EXPECT_THAT(graph->nodes()[0]->inputs,
              ElementsAre(graph->inputs()[1], graph->inputs()[2], graph->inputs()[0]));
}

TEST(InlineBroadcasts, ChainsOfSizesBecomeOne) {
  const TensorSpec larger{DType::kF32, {16, 16, 8}};
  const auto graph = inlined({{DType::kF32, {}}, kSmall, kLarge, larger}, [](In in) {
    const Tensor middle = in[2] * (tanh(in[0]) + in[1] * 2.0);
    return std::vector{in[3] * exp(middle)};
  });
  EXPECT_THAT(op_names(*graph), ElementsAre("fused"));
}

TEST(InlineBroadcasts, EveryLargeReaderComputesIt) {
  const auto graph = inlined({kLarge, kSmall, {DType::kF32, {8, 32}}}, [](In in) {
    const Tensor scale = rsqrt(in[1]);
    const Tensor h = matmul(in[0] * scale, in[2]);
    return std::vector{h, tanh(in[0]) + scale * sum(h)};
  });
  EXPECT_THAT(op_names(*graph), testing::Not(testing::Contains("rsqrt")));
}

TEST(InlineBroadcasts, WhatOthersNeedStays) {
  const auto stays = [&](const auto& function) {
    const auto graph = inlined({kLarge, kSmall, {DType::kF32, {2, 8}}, {DType::kF32, {8, 16}}}, function);
    EXPECT_THAT(op_names(*graph), testing::Contains("rsqrt"));
  };
  stays([](In in) {
    const Tensor scale = rsqrt(in[1]);
    return std::vector{in[0] * scale, scale};  // a result
  });
  stays([](In in) {
    const Tensor scale = rsqrt(in[1]);
    return std::vector{in[0] * scale, in[2] * scale};  // a reader that isn't much larger
  });
  stays([](In in) {
    const Tensor scale = rsqrt(in[1]);
    return std::vector{in[0] * scale, matmul(reshape(scale, {1, 8}), in[3])};  // a reader of another kind
  });
}

TEST(InlineBroadcasts, NeitherReductionsNorLongPrograms) {
  auto graph = inlined({kLarge, kLarge}, [](In in) { return in[0] * mean(square(in[1]), {0}); });
  EXPECT_THAT(op_names(*graph), ElementsAre("fused", "mul"));
  graph = inlined({kLarge, kSmall}, [](In in) {
    Tensor x = in[1];
    for (int i = 0; i < 9; ++i) x = tanh(x);
    return in[0] * x;
  });
  EXPECT_THAT(op_names(*graph), ElementsAre("fused", "mul"));
}

TEST(InlineBroadcasts, ResultsStayWhatTheyWere) {
  const auto function = [](In in) {
    const Tensor scale = rsqrt(square(in[1]) + 1.0);
    const Tensor y = in[0] * scale;
    return std::vector{y, sum(y, {0})};
  };
  const auto program_of_all = [&](const std::vector<std::string>& disabled) {
    auto graph = trace({kLarge, kSmall}, function);
    PassOptions options;
    options.device = {DeviceKind::kCuda, 0};
    options.disabled = disabled;
    run_passes(*graph, options);
    return graph->nodes().size();
  };
  EXPECT_EQ(program_of_all({}), 1u);
  EXPECT_EQ(program_of_all({"inline_broadcasts"}), 2u);
  auto graph = trace({kLarge, kSmall}, function);
  run_passes(*graph, {});
  EXPECT_EQ(graph->nodes().size(), 2u) << "for devices alone";
}

}  // namespace
}  // namespace isochron::graph
