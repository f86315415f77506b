// Ops decomposed into others, as run by devices without a kernel for them: the results equal those of the ops
// themselves.
#include <gtest/gtest.h>

#include <set>

#include "isochron/graph/capture/apply.h"
#include "isochron/graph/capture/capture.h"
#include "isochron/graph/passes/passes.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/matmul/matmul.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/rows/registry.h"
#include "isochron/ops/rows/samples.h"

namespace isochron {
namespace {

TEST(Decompositions, EqualTheirOps) {
  int calls = 0;
  for (const graph::OpDef& op : ops::registry().rows()) {
    if (op.decompose == nullptr) continue;
    const DType dtype = ops::tested_dtypes(op).front();
    for (const graph::OpSample& sample : op.samples) {
      SCOPED_TRACE(op.name + ": " + ops::sample_text(sample, dtype));
      const std::vector<Tensor> inputs = ops::make_inputs(sample, dtype);
      std::vector<TensorSpec> specs;
      for (const Tensor& input : inputs) specs.push_back(input.spec());
      const std::vector<Tensor> expected = graph::apply_eager(op, inputs, sample.attributes);
      const std::vector<Tensor> got = op.decompose({op, specs, sample.attributes}, inputs);
      ASSERT_EQ(got.size(), expected.size());
      ++calls;
      for (size_t o = 0; o < got.size(); ++o) {
        ASSERT_EQ(got[o].spec(), expected[o].spec()) << "result " << o;
        EXPECT_EQ(ops::difference_of(got[o].to_vector(), expected[o].to_vector(),
                                     ops::tolerance_of(op, dtype, got[o].dtype())),
                  "")
            << "result " << o;
      }
    }
  }
  EXPECT_GE(calls, 6);
}

/// A row that has no kernel on a device: sum_i x_i^2, and x + 1.
const graph::OpDef& squares() {
  static graph::Registry registry;
  static const graph::OpDef& op = [&]() -> const graph::OpDef& {
    graph::OpDef made;
    made.name = "squares";
    made.summary = "the sum of squares, and x + 1";
    made.infer = [](const graph::OpCall& call) {
      return std::vector<TensorSpec>{{call.inputs[0].dtype, {}}, call.inputs[0]};
    };
    made.decompose = [](const graph::OpCall&, std::span<const Tensor> inputs) {
      return std::vector<Tensor>{sum(square(inputs[0])), inputs[0] + 1.0};
    };
    graph::add_kernel(DeviceKind::kCpu, {made.name, [](const graph::KernelRequest&) {
                                           return std::unique_ptr<graph::Kernel>();
                                         }});
    return registry.add(std::move(made));
  }();
  return op;
}

TEST(Decompositions, TakeTheOpsPlaceInAGraphForADevice) {
  const auto traced = [](const graph::PassOptions& options) {
    auto graph = std::make_unique<graph::Graph>();
    graph::Capture capture(*graph);
    const Tensor x = graph::Graph::tensor_of(graph->add_input({DType::kF32, {2, 3}}));
    const std::vector<Tensor> parts = graph::apply(squares(), std::vector<Tensor>{x * 2.0}, {});
    graph->outputs() = {capture.lift(parts[0] * 3.0), capture.lift(matmul(parts[1], x, true, false))};
    capture.finish();
    graph::run_passes(*graph, options);
    return graph;
  };
  const auto names = [](const graph::Graph& graph) {
    std::set<std::string> all;
    for (const auto& node : graph.nodes()) all.insert(node->op->name);
    return all;
  };
  EXPECT_TRUE(names(*traced({})).contains("squares"));
  graph::PassOptions options;
  options.device = {DeviceKind::kCuda, 0};
  const auto there = traced(options);
  EXPECT_FALSE(names(*there).contains("squares"));
  EXPECT_TRUE(names(*there).contains("matmul")) << "what is around it stays";
  EXPECT_NE(graph::to_text(*there).find("squares/"), std::string::npos) << "parts are named after their op";
}

}  // namespace
}  // namespace isochron
