#include "isochron/graph/passes/passes.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "graph/program/trace.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/matmul/matmul.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/rows/registry.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"
#include "isochron/ops/shape/slicing.h"
#include "support/expect_error.h"

namespace isochron::graph {
namespace {

using In = const std::vector<Tensor>&;
using testing::ElementsAre;
using testing::IsEmpty;
const TensorSpec kVector{DType::kF32, {4}};
const TensorSpec kSquareMatrix{DType::kF32, {3, 3}};

TEST(Passes, DeadCodeGoesButUpdatesStay) {
  const Tensor variable = zeros({4});
  auto graph = trace({kVector}, [&](In in) {
    const Tensor unused = exp(in[0]) + 1.0;
    assign(variable, in[0] * 2.0);
    return in[0] + 3.0;
  });
  EXPECT_EQ(graph->node_count(), 4u);
  remove_dead_code(*graph);
  EXPECT_THAT(op_names(*graph), ElementsAre("mul", "add"));
}

TEST(Passes, ConstantsFoldUnlessLargeBroadcastOrVariable) {
  const Tensor fixed = constant(from_vector({4}, {1, 2, 3, 4}));
  const Tensor variable = zeros({4});
  auto graph = trace({kVector}, [&](In in) { return in[0] + exp(fixed * 2.0); });
  fold_constants(*graph);
  EXPECT_THAT(op_names(*graph), ElementsAre("add"));
  const Tensor folded = graph->nodes()[0]->inputs[1]->bound;
  EXPECT_NEAR(folded.to_vector()[1], std::exp(4.0), 1e-3);

  auto kept = trace({kVector}, [&](In in) { return in[0] + exp(variable * 2.0); });
  fold_constants(*kept);
  EXPECT_EQ(kept->node_count(), 3u) << "a variable may change";
  auto broadcast = trace({}, [&](In) { return broadcast_to(scalar(2), {1000}); });
  fold_constants(*broadcast);
  EXPECT_EQ(broadcast->node_count(), 1u) << "reading one number is cheaper than a thousand";
  fold_broadcasts(*broadcast);
  EXPECT_EQ(broadcast->node_count(), 0u);
  EXPECT_EQ(broadcast->outputs()[0]->bound.to_vector(), std::vector<double>(1000, 2));
  auto wide = trace({}, [&](In) { return broadcast_to(scalar(2), {100'000}); });
  fold_broadcasts(*wide);
  EXPECT_EQ(wide->node_count(), 1u) << "it would cost more memory than it saves time";
  const Tensor large = constant(zeros({512, 1024}));
  auto limited = trace({}, [&](In) { return large + 1.0; });
  fold_constants(*limited);
  EXPECT_EQ(limited->node_count(), 1u) << "larger than the fold limit";
}

TEST(Passes, SimplifiesToTheOperand) {
  const std::vector<std::function<Tensor(const Tensor&)>> identities = {
      [](const Tensor& x) { return x + 0.0; },
      [](const Tensor& x) { return 0.0 + x; },
      [](const Tensor& x) { return x - 0.0; },
      [](const Tensor& x) { return x * 1.0; },
      [](const Tensor& x) { return 1.0 * x; },
      [](const Tensor& x) { return x / 1.0; },
      [](const Tensor& x) { return pow(x, 1.0); },
      [](const Tensor& x) { return -(-x); },
      [](const Tensor& x) {
        return sum(sum(reshape(x, {2, 1, 2}), {1}, true) + 0.0, {1}, true);
      }};
  for (size_t i = 0; i < identities.size(); ++i) {
    auto graph = trace({kVector}, [&](In in) { return identities[i](in[0]); });
    simplify_algebra(*graph);
    graph->check();
    for (const auto& node : graph->nodes()) EXPECT_EQ(node->op->name, "reshape") << "rule " << i;
  }
}

TEST(Passes, KeepsWhatChangesTheResult) {
  const std::vector<std::function<Tensor(const Tensor&)>> others = {
      [](const Tensor& x) { return x + 1.0; },
      [](const Tensor& x) { return 0.0 - x; },
      [](const Tensor& x) { return 1.0 / x; },
      [](const Tensor& x) { return x * 0.0; },  // NaN and infinities stay NaN
      [](const Tensor& x) { return x - x; },
      [](const Tensor& x) { return x / x; },
      [](const Tensor& x) { return pow(x, 0.5); },  // pow(-inf, 0.5) is inf, its square root NaN
      [](const Tensor& x) { return sum(x, {0}, true); }};
  for (size_t i = 0; i < others.size(); ++i) {
    auto graph = trace({kVector}, [&](In in) { return others[i](in[0]); });
    simplify_algebra(*graph);
    EXPECT_EQ(graph->node_count(), 1u) << "case " << i;
  }
  auto wider = trace({{DType::kF32, {}}}, [](In in) { return in[0] + constant(zeros({1, 1})); });
  simplify_algebra(*wider);
  EXPECT_EQ(wider->node_count(), 1u) << "the sum has another shape";
}

TEST(Passes, NoRuleChangesANumber) {
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> numbers = {nan, inf, -inf, 0.0, -0.0, 1, -1, 2.5, -2.5, 1e-30, 1e30, -1e30};
  const Tensor x = from_vector({static_cast<int64_t>(numbers.size())}, numbers);
  const auto function = [](const Tensor& v) {
    return std::vector<Tensor>{v + 0.0,       0.0 + v,       v - 0.0,       v * 1.0,       1.0 * v,
                               v / 1.0,       pow(v, 1.0),   pow(v, 2.0),   pow(v, 0.5),   pow(v, 0.0),
                               pow(v, -1.0),  -(-v),         v * 0.0,       v - v,         v / v,
                               0.0 - v,       1.0 / v,       maximum(v, v), minimum(v, 0), clip(v, -1, 1),
                               sum(v, {}, 0), max(v, {}, 0), min(v, {}, 0), prod(v),       mean(v)};
  };
  for (const char* name : {"simplify", "cse", "fuse", "fold_constants", "all on"}) {
    auto plain = capture(function, CaptureOptions{.passes = {.disabled = {"all"}}});
    auto passed = capture(
        function, CaptureOptions{.passes = std::string(name) == "all on" ? PassOptions{} : only(name)});
    const std::span<const Tensor> expected = plain(x);
    const std::span<const Tensor> got = passed(x);
    for (size_t i = 0; i < expected.size(); ++i) {
      const std::vector<double> e = expected[i].to_vector();
      const std::vector<double> g = got[i].to_vector();
      for (size_t j = 0; j < e.size(); ++j) {
        EXPECT_TRUE(e[j] == g[j] || (std::isnan(e[j]) && std::isnan(g[j])))
            << name << ", function " << i << " of element " << j << ": " << e[j] << " became " << g[j];
      }
    }
  }
}

TEST(Passes, RewritesPowersReshapesAndTransposes) {
  auto power = trace({kVector}, [](In in) { return pow(in[0], 2.0); });
  simplify_algebra(*power);
  EXPECT_THAT(op_names(*power), ElementsAre("square"));
  auto shapes = trace({kSquareMatrix}, [](In in) {
    return reshape(reshape(reshape(in[0], {9}), {1, 9}), {9, 1});
  });
  simplify_algebra(*shapes);
  EXPECT_THAT(op_names(*shapes), ElementsAre("reshape"));
  auto back = trace({kSquareMatrix}, [](In in) { return reshape(reshape(in[0], {9}), {3, 3}); });
  simplify_algebra(*back);
  EXPECT_THAT(op_names(*back), IsEmpty());
  auto product = trace({kSquareMatrix, kSquareMatrix},
                       [](In in) { return matmul(transpose(in[0]), transpose(in[1]), true); });
  simplify_algebra(*product);
  ASSERT_THAT(op_names(*product), ElementsAre("matmul"));
  EXPECT_EQ(product->nodes()[0]->attributes.str(), "transpose_a=false, transpose_b=true");
  const TensorSpec batch{DType::kF32, {2, 3, 3}};
  auto mixed = trace({batch, batch}, [](In in) {
    return matmul(transpose(in[0], {0, 2, 1}), transpose(in[1], {0, 1, 2}));
  });
  simplify_algebra(*mixed);
  EXPECT_THAT(op_names(*mixed), ElementsAre("transpose", "matmul"))
      << "only an exchange of the last two axes";
  EXPECT_EQ(mixed->nodes()[1]->attributes.str(), "transpose_a=true, transpose_b=false");
}

TEST(Passes, MergesEqualCallsAndNumbers) {
  auto graph = trace({kVector, kVector}, [](In in) {
    const Tensor a = (in[0] + in[1]) * 2.0;
    const Tensor b = (in[0] + in[1]) * 2.0;
    const Tensor c = (in[1] + in[0]) * 3.0;  // operands the other way round stay apart
    return std::vector<Tensor>{a, b, c, sum(in[0], {0}), sum(in[0], {0}, true)};
  });
  EXPECT_EQ(graph->node_count(), 8u);
  merge_common_subexpressions(*graph);
  graph->check();
  EXPECT_EQ(graph->node_count(), 6u);
  EXPECT_EQ(graph->outputs()[0], graph->outputs()[1]);
  EXPECT_NE(graph->outputs()[3], graph->outputs()[4]) << "attributes differ";
  auto zeros_of_two_signs = trace({kVector}, [](In in) { return std::pair(in[0] / 0.0, in[0] / -0.0); });
  merge_common_subexpressions(*zeros_of_two_signs);
  EXPECT_EQ(zeros_of_two_signs->node_count(), 2u);
  auto pads_of_two_signs = trace({kVector}, [](In in) {
    return std::vector<Tensor>{pad(in[0], {1}, {0}), pad(in[0], {1}, {0}, -0.0), pad(in[0], {1}, {0}, 0.0)};
  });
  merge_common_subexpressions(*pads_of_two_signs);
  EXPECT_EQ(pads_of_two_signs->node_count(), 2u);
}

TEST(Passes, LeaveEqualCallsOfRandomOpsAndSideEffectsApart) {
  struct Case {
    bool random, side_effect;
    size_t calls;
  };
  for (const Case test : {Case{false, false, 1}, Case{true, false, 2}, Case{false, true, 2}}) {
    OpDef op = ops::row("exp");
    op.random = test.random;
    op.side_effect = test.side_effect;
    auto graph =
        trace({kVector}, [&](In in) { return std::pair(apply_one(op, {in[0]}), apply_one(op, {in[0]})); });
    merge_common_subexpressions(*graph);
    EXPECT_EQ(graph->node_count(), test.calls);
  }
}

TEST(Passes, AreSwitchedByNameAndShown) {
  const auto function = [](In in) { return exp((in[0] + 0.0) * 2.0); };
  std::vector<std::string> ran;
  PassOptions options;
  std::string before;
  options.on_stage = [&](std::string_view pass, const Graph& after) {
    ran.emplace_back(pass);
    if (pass == "simplify") {
      EXPECT_THAT(before, testing::HasSubstr("add("));
      EXPECT_THAT(to_text(after), testing::Not(testing::HasSubstr("add(")));
    }
    before = to_text(after);
  };
  auto graph = trace({kVector}, function);
  run_passes(*graph, options);
  EXPECT_THAT(ran, ElementsAre("dead_code", "fold_constants", "simplify", "cse", "recompute", "residuals",
                               "fuse", "precision", "fold_broadcasts", "overlap"));
  EXPECT_THAT(op_names(*graph), ElementsAre("fused"));
  const size_t all = ran.size();
  for (const std::string& pass : std::vector<std::string>(ran)) {
    ran.clear();
    options.disabled = {pass};
    run_passes(*trace({kVector}, function), options);
    EXPECT_EQ(ran.size(), all - 1);
    EXPECT_THAT(ran, testing::Not(testing::Contains(pass)));
  }
  ran.clear();
  options.disabled = {"all"};
  graph = trace({kVector}, function);
  run_passes(*graph, options);
  EXPECT_THAT(ran, IsEmpty());
  EXPECT_EQ(graph->node_count(), 3u);
  options.disabled = {"fuse", "fusion"};
  EXPECT_ERROR(
      run_passes(*graph, options), ErrorCode::kInvalidArgument,
      "no pass 'fusion'; passes are dead_code, fold_constants, simplify, cse, recompute, residuals, fuse, "
      "precision, fold_broadcasts, inline_broadcasts, epilogues, overlap, or all");
}

TEST(Graph, CheckFindsAReadBeforeItsProducer) {
  auto graph = trace({kVector}, [](In in) { return exp(in[0] + 1.0); });
  graph->check();
  const std::vector<size_t> reversed{1, 0};
  graph->reorder_nodes(reversed);
  EXPECT_ERROR(graph->check(), ErrorCode::kInvalidArgument, "exp_1 reads %2 before it is produced");
}

}  // namespace
}  // namespace isochron::graph
