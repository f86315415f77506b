// Ops written in others, as devices without a kernel for them run them: equal to the ops themselves.
#include <gtest/gtest.h>

#include <algorithm>

#include "isochron/graph/apply.h"
#include "isochron/graph/capture.h"
#include "isochron/graph/passes.h"
#include "isochron/ops/attention.h"
#include "isochron/ops/elementwise.h"
#include "isochron/ops/recurrent.h"
#include "isochron/ops/registry.h"
#include "isochron/ops/samples.h"

namespace isochron {
namespace {

TEST(Compositions, EqualTheirOps) {
  int calls = 0;
  for (const graph::OpDef& op : ops::registry().rows()) {
    if (op.compose == nullptr) continue;
    for (const graph::OpSample& sample : op.samples) {
      SCOPED_TRACE(op.name + ": " + ops::sample_text(sample, DType::kF64));
      const std::vector<Tensor> inputs = ops::make_inputs(sample, DType::kF64);
      std::vector<TensorSpec> specs;
      for (const Tensor& input : inputs) specs.push_back(input.spec());
      const std::vector<Tensor> expected = graph::apply_eager(op, inputs, sample.attributes);
      const std::vector<Tensor> got = op.compose({op, specs, sample.attributes}, inputs);
      ASSERT_EQ(got.size(), expected.size());
      ++calls;
      for (size_t o = 0; o < got.size(); ++o) {
        ASSERT_EQ(got[o].spec(), expected[o].spec()) << "result " << o;
        EXPECT_EQ(ops::difference_of(got[o].to_vector(), expected[o].to_vector(),
                                     ops::tolerance_of(op, DType::kF64, got[o].dtype())),
                  "")
            << "result " << o;
      }
    }
  }
  EXPECT_GT(calls, 20);
}

TEST(Compositions, TakeTheOpsPlaceInAGraphForADevice) {
  const auto traced = [](const graph::PassOptions& options) {
    auto graph = std::make_unique<graph::Graph>();
    graph::Capture capture(*graph);
    const auto input = [&](const Shape& shape) {
      return graph::Graph::tensor_of(graph->add_input({DType::kF32, shape}));
    };
    const Tensor x = input({2, 3, 4}), kernel = input({4, 20}), recurrent = input({5, 20});
    const Tensor before = x * 2.0;
    const LstmResult result = lstm(before, kernel, recurrent, {});
    const Tensor after = result.sequence + 1.0;
    graph->outputs() = {capture.lift(after), capture.lift(result.h)};
    capture.finish();
    graph::run_passes(*graph, options);
    return graph;
  };
  const auto names = [](const graph::Graph& graph) {
    std::vector<std::string> all;
    for (const auto& node : graph.nodes()) all.push_back(node->op->name);
    return all;
  };
  const auto has = [](const std::vector<std::string>& all, const char* name) {
    return std::find(all.begin(), all.end(), name) != all.end();
  };
  const auto here = names(*traced({}));
  EXPECT_TRUE(has(here, "lstm"));
  graph::PassOptions options;
  options.device = {DeviceKind::kCuda, 0};
  const auto there_graph = traced(options);
  const auto there = names(*there_graph);
  EXPECT_FALSE(has(there, "lstm"));
  EXPECT_EQ(std::count(there.begin(), there.end(), "matmul"), 1 + 3);
  EXPECT_NE(graph::to_text(*there_graph).find("lstm/"), std::string::npos)
      << "parts are named after their op";
}

}  // namespace
}  // namespace isochron
