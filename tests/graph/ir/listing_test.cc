#include <gmock/gmock.h>

#include <set>

#include "graph/program/trace.h"
#include "isochron/autograd/autograd.h"
#include "isochron/graph/capture/variable.h"
#include "isochron/graph/step/stages.h"
#include "isochron/ops/control/control.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/matmul/matmul.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "support/expect_error.h"

namespace isochron::graph {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using In = const std::vector<Tensor>&;

const ListedNode& find(const GraphListing& listing, const std::string& name) {
  for (const ListedNode& node : listing) {
    if (node.name == name) return node;
  }
  ADD_FAILURE() << "no node " << name;
  return listing.front();
}

/// Every name occurs once, and every input exists.
void expect_sound(const GraphListing& listing) {
  std::set<std::string> names;
  for (const ListedNode& node : listing) EXPECT_TRUE(names.insert(node.name).second) << node.name;
  for (const ListedNode& node : listing) {
    for (const std::string& input : node.inputs) {
      EXPECT_TRUE(names.contains(input.substr(0, input.find(':')))) << node.name << " reads " << input;
    }
  }
}

TEST(Listing, NamesNodesByScopeAndBoundValuesByTheirNames) {
  const Variable weight(zeros({3, 2}), "kernel");
  const auto graph = trace({{DType::kF32, {4, 3}}}, [&](In in) {
    const NameScope scope("dense [1]");
    const Tensor y = matmul(in[0], weight);
    weight.assign(weight.tensor() + 1.0);
    return y;
  });
  const GraphListing listing = list_nodes(*graph, {{weight.tensor().raw(), "dense/kernel"}});
  expect_sound(listing);
  const ListedNode& product = find(listing, "dense__1_/matmul_0");
  EXPECT_EQ(product.op, "matmul");
  EXPECT_THAT(product.inputs, ElementsAre("input_0", "dense/kernel"));
  EXPECT_EQ(product.outputs[0].str(), "f32(4, 2)");
  EXPECT_THAT(product.attributes[0], testing::Pair("transpose_a", "false"));
  EXPECT_EQ(find(listing, "dense/kernel").op, "variable");
  EXPECT_THAT(find(listing, "output_0").inputs, ElementsAre("dense__1_/matmul_0"));
  EXPECT_THAT(find(listing, "dense/kernel_update").inputs, ElementsAre("dense__1_/add_1"));
}

std::unique_ptr<Graph> with_loop() {
  return trace({{DType::kF32, {4}}}, [](In in) {
    return while_loop([](std::span<const Tensor> s) { return sum(s[0]) < 100.0; },
                      [](std::span<const Tensor> s) { return std::vector<Tensor>{s[0] * 2.0}; }, {in[0]});
  });
}

TEST(Listing, BodiesLieInTheScopeOfTheirNode) {
  const GraphListing listing = list_nodes(*with_loop());
  expect_sound(listing);
  EXPECT_EQ(find(listing, "while_loop_0/body/input_0").op, "input");
  EXPECT_EQ(find(listing, "while_loop_0/body/mul_0").op, "mul");
  EXPECT_EQ(find(listing, "while_loop_0/condition/output_0").op, "output");
}

TEST(Dot, BodiesAndFusedKernelsAreClusters) {
  const std::string loop = to_dot(*with_loop());
  EXPECT_THAT(loop, HasSubstr("subgraph cluster_n0_body {"));
  EXPECT_THAT(loop, HasSubstr("label=\"body of while_loop\""));
  EXPECT_THAT(loop, HasSubstr("n0_body_n0 [label=\"mul\"];"));
  auto fused = trace({{DType::kF32, {4, 8}}}, [](In in) { return sum(exp(in[0] * 2.0), {1}); });
  run_passes(*fused);
  const std::string dot = to_dot(*fused);
  EXPECT_THAT(dot, HasSubstr("label=\"fused\""));
  EXPECT_THAT(dot, HasSubstr("[label=\"mul 2\"];"));
  EXPECT_THAT(dot, HasSubstr("[label=\"exp\"];"));
  EXPECT_THAT(dot, HasSubstr("[label=\"sum over (1)\"];"));
  EXPECT_EQ(std::count(dot.begin(), dot.end(), '{'), std::count(dot.begin(), dot.end(), '}'));
}

TEST(Stages, EveryTraceShowsItsRoad) {
  std::vector<std::string> seen;
  std::vector<size_t> nodes;
  set_graph_stage_sink([&](const GraphStage& stage) {
    EXPECT_EQ(stage.function, "gradient step");
    EXPECT_EQ(stage.signature, "(f32(3))");
    seen.emplace_back(stage.stage);
    nodes.push_back(stage.graph.node_count());
  });
  const Variable weight(zeros({3}), "w");
  auto step = capture(
      [&](const Tensor& x) {
        const Tensor loss = sum(square(weight.tensor() * x));
        const Tensor w = weight;
        weight.assign(w - gradients(loss, {&w, 1})[0]);
        return loss;
      },
      {.name = "gradient step"});
  step(ones({3}));
  set_graph_stage_sink({});
  EXPECT_THAT(seen,
              ElementsAre("forward", "traced", "dead_code", "fold_constants", "simplify", "cse", "recompute",
                          "residuals", "fuse", "precision", "fold_broadcasts", "overlap", "planned"));
  EXPECT_LT(nodes.front(), nodes[1]);
  EXPECT_LT(nodes.back(), nodes[1]);
  seen.clear();
  auto other = capture([](const Tensor& x) { return x * 2.0; });
  other(ones({2}));
  EXPECT_THAT(seen, testing::IsEmpty()) << "nobody is shown anything any more";
}

TEST(Stages, AFunctionHasItsOwnHookAndAFailureEndsTheTrace) {
  std::vector<std::string> own;
  auto function = [](const Tensor& x) { return exp(x) + 1.0; };
  PassOptions passes;
  passes.on_stage = [&](std::string_view stage, const Graph&) { own.emplace_back(stage); };
  auto step = capture(function, {.passes = passes});
  step(ones({2}));
  EXPECT_EQ(own.front(), "traced");
  EXPECT_EQ(own.back(), "planned");
  set_graph_stage_sink([](const GraphStage&) { fail(ErrorCode::kIo, "dump", "no room"); });
  auto failing = capture(function);
  EXPECT_ERROR(failing(ones({2})), ErrorCode::kIo, "no room");
  set_graph_stage_sink({});
  failing(ones({2}));
  EXPECT_EQ(failing.plan_count(), 1u);
}

}  // namespace
}  // namespace isochron::graph
