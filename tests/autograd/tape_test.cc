#include <gmock/gmock.h>

#include <memory>

#include "isochron/autograd/autograd.h"
#include "isochron/core/telemetry/counters.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/graph/step/captured.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/matmul/matmul.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/rows/registry.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"
#include "support/expect_error.h"
#include "support/near.h"

namespace isochron {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;

TEST(GradientTape, DifferentiatesWithoutWatching) {
  const Tensor x = vec64({1, 2, 3});
  GradientTape tape;
  const Tensor loss = sum(x * x);
  EXPECT_EQ(tape.size(), 2u);
  EXPECT_THAT(tape.gradient(loss, x).to_vector(), ElementsAre(2, 4, 6));
}

TEST(GradientTape, GoesThroughWhatMakesAViewContiguous) {
  double values[] = {1, 2, 3, 4, 5, 6};
  const Tensor x = Tensor::from_external(values, {DType::kF64, {3, 2}}, {1, 3});
  GradientTape tape;
  const Tensor loss = sum(square(contiguous(x)));
  EXPECT_EQ(tape.gradient(loss, x).to_vector(), (std::vector<double>{2, 8, 4, 10, 6, 12}));
}

TEST(GradientTape, IsUsedUpUnlessPersistent) {
  const Tensor x = vec64({3});
  const int64_t entries = counter_value(Counter::kTapeEntries);
  {
    GradientTape once;
    const Tensor y = x * x;
    EXPECT_EQ(once.gradient(y, x).item<int>(), 6);
    EXPECT_EQ(once.size(), 0u);
    EXPECT_EQ(counter_value(Counter::kTapeEntries), entries) << "records are freed by the call";
    EXPECT_ERROR(once.gradient(y, x), ErrorCode::kInvalidArgument, "GradientTape(true)");
    once.reset();
    const Tensor z = x * x * x;
    EXPECT_EQ(once.gradient(z, x).item<int>(), 27) << "reset starts again";
  }
  {
    GradientTape persistent(true);
    const Tensor y = x * x;
    const Tensor z = y * x;
    EXPECT_EQ(persistent.gradient(y, x).item<int>(), 6);
    EXPECT_EQ(persistent.gradient(z, x).item<int>(), 27);
    EXPECT_EQ(persistent.gradient(z, y).item<int>(), 3);
    EXPECT_GT(counter_value(Counter::kTapeEntries), entries);
  }
  EXPECT_EQ(counter_value(Counter::kTapeEntries), entries);
}

TEST(GradientTape, RecordsNothingWhilePaused) {
  const Tensor x = vec64({3});
  GradientTape tape(true);
  const Tensor y = x * x;
  tape.set_paused(true);
  const Tensor unseen = y * x;
  const size_t recorded = tape.size();
  EXPECT_EQ(recorded, 1u);
  EXPECT_EQ(tape.gradient(y, x).item<int>(), 6);
  EXPECT_EQ(tape.size(), recorded) << "nor what the gradient computes";
  tape.set_paused(false);
  const Tensor z = y + x;
  EXPECT_EQ(tape.size(), recorded + 1);
  EXPECT_EQ(tape.gradient(z, x).item<int>(), 7);
  EXPECT_FALSE(tape.gradient(unseen, x).defined());
}

TEST(GradientTape, LetsTensorsGo) {
  const Tensor x = vec64({3});
  const int64_t tensors = counter_value(Counter::kLiveTensors);
  {
    GradientTape tape;
    Tensor y = x;
    for (int i = 0; i < 50; ++i) y = tanh(y);
    EXPECT_GE(counter_value(Counter::kLiveTensors), tensors + 50);
    tape.gradient(y, x);
    EXPECT_LE(counter_value(Counter::kLiveTensors), tensors + 2);
  }
  EXPECT_EQ(counter_value(Counter::kLiveTensors), tensors);
}

TEST(GradientTape, WatchNarrowsWhatIsKept) {
  const Tensor x = vec64({2});
  const Tensor other = vec64({5});
  GradientTape tape(true);
  tape.watch(x);
  const Tensor unrelated = exp(other) * other;
  EXPECT_EQ(tape.size(), 0u);
  const Tensor y = x * other;
  const Tensor z = y + unrelated;
  EXPECT_EQ(tape.size(), 2u);
  EXPECT_EQ(tape.gradient(z, x).item<int>(), 5);
  EXPECT_FALSE(tape.gradient(unrelated, other).defined());
  tape.reset();
  EXPECT_EQ(tape.size(), 0u);
  const Tensor again = x * x;
  const Tensor neither = other * other;
  EXPECT_EQ(tape.size(), 1u) << "x stays watched";
  EXPECT_EQ(tape.gradient(again, x).item<int>(), 4);
  EXPECT_FALSE(tape.gradient(neither, other).defined());
  EXPECT_ERROR(tape.watch(cast(x, DType::kI32)), ErrorCode::kDtypeMismatch, "got i32(1)");
  EXPECT_ERROR(tape.watch(Tensor()), ErrorCode::kDtypeMismatch, "undefined");
}

TEST(GradientTape, SeveralTargetsAndSeeds) {
  const Tensor x = vec64({1, 2});
  GradientTape tape(true);
  const Tensor a = x * 3.0;
  const Tensor b = square(x);
  const std::vector<Tensor> targets{a, b};
  EXPECT_THAT(tape.gradient(targets, {&x, 1}, {})[0].to_vector(), ElementsAre(5, 7));
  const std::vector<Tensor> seeds{vec64({10, 0}), Tensor()};
  EXPECT_THAT(tape.gradient(targets, {&x, 1}, seeds)[0].to_vector(), ElementsAre(30, 0));
  const std::vector<Tensor> sources{x, a, b};
  const std::vector<Tensor> results = tape.gradient(targets, sources, {});
  EXPECT_THAT(results[1].to_vector(), ElementsAre(1, 1)) << "a target is its own source";
  const std::vector<Tensor> twice{a, a};
  EXPECT_THAT(tape.gradient(twice, {&x, 1}, {})[0].to_vector(), ElementsAre(6, 6));
  EXPECT_ERROR(tape.gradient(targets, {&x, 1}, std::span(seeds).first(1)), ErrorCode::kInvalidArgument,
               "1 seeds for 2 targets");
  const std::vector<Tensor> wrong{vec64({1, 2, 3}), Tensor()};
  EXPECT_ERROR(tape.gradient(targets, {&x, 1}, wrong), ErrorCode::kShapeMismatch, "seed 0 is f64(3)");
}

TEST(GradientTape, ARefusedCallUsesNothingUp) {
  const Tensor x = vec64({3});
  GradientTape tape;
  const Tensor y = x * x;
  const Tensor integer = cast(y, DType::kI64);
  EXPECT_ERROR(tape.gradient(integer, x), ErrorCode::kDtypeMismatch, "only floating tensors have gradients");
  EXPECT_ERROR(tape.gradient(Tensor(), x), ErrorCode::kInvalidArgument, "target 0 is undefined");
  EXPECT_ERROR(tape.gradient(y, Tensor()), ErrorCode::kInvalidArgument, "a source is undefined");
  const Tensor z = y * 2.0;  // still recording
  EXPECT_EQ(tape.gradient(z, x).item<int>(), 12);
}

TEST(GradientTape, DisconnectedSourcesAreUndefined) {
  const Tensor x = vec64({3});
  const Tensor other = vec64({4});
  GradientTape tape(true);
  const Tensor y = x * 2.0;
  const Tensor counted = cast(cast(x, DType::kI32), DType::kF64) * other;
  EXPECT_FALSE(tape.gradient(y, other).defined());
  EXPECT_FALSE(tape.gradient(counted, x).defined()) << "integers carry no gradient";
  EXPECT_TRUE(tape.gradient(counted, other).defined());
  EXPECT_FALSE(tape.gradient(stop_gradient(y), x).defined());
  const Tensor stopped = y * stop_gradient(y);
  EXPECT_EQ(tape.gradient(stopped, x).item<int>(), 12) << "2 times the stopped 6";
}

TEST(GradientTape, SumsOverBroadcastAxes) {
  const Tensor x = ones({4, 3}, DType::kF64);
  const Tensor row = vec64({1, 2, 3});
  const Tensor column = ones({4, 1}, DType::kF64);
  const Tensor number = scalar(2, DType::kF64);
  GradientTape tape;
  const Tensor loss = sum((x * row + column) * number);
  const std::vector<Tensor> sources{x, row, column, number};
  const std::vector<Tensor> g = tape.gradient(loss, sources);
  EXPECT_EQ(g[0].shape(), (Shape{4, 3}));
  EXPECT_THAT(g[1].to_vector(), ElementsAre(8, 8, 8));
  EXPECT_EQ(g[2].shape(), (Shape{4, 1}));
  EXPECT_THAT(g[2].to_vector(), ElementsAre(6, 6, 6, 6));
  EXPECT_EQ(g[3].shape(), Shape{});
  EXPECT_EQ(g[3].item<int>(), 36);
}

TEST(GradientTape, PowersAreFlatAtZeroWhereTheirExponentIs) {
  const Tensor x = vec64({0, 2});
  GradientTape tape(true);
  EXPECT_EQ(tape.gradient(pow(x, 0.0), x).to_vector(), (std::vector<double>{0, 0}));
  EXPECT_EQ(tape.gradient(pow(x, vec64({0, 3})), x).to_vector(), (std::vector<double>{0, 12}));
  const Tensor d1 = tape.gradient(pow(x, 2.0), x);
  const Tensor d2 = tape.gradient(d1, x);
  const Tensor d3 = tape.gradient(d2, x);
  EXPECT_EQ(d1.to_vector(), (std::vector<double>{0, 4}));
  EXPECT_EQ(d2.to_vector(), (std::vector<double>{2, 2}));
  EXPECT_EQ(d3.to_vector(), (std::vector<double>{0, 0}));
}

TEST(GradientTape, HigherDerivativesByNestingAndByPersistence) {
  const Tensor x = vec64({2});
  {
    GradientTape third;
    Tensor d2;
    {
      GradientTape second;
      Tensor d1;
      {
        GradientTape first;
        d1 = first.gradient(pow(x, 4.0), x);
      }
      d2 = second.gradient(d1, x);
      EXPECT_EQ(d2.item<double>(), 48);
    }
    EXPECT_THAT(third.gradient(d2, x).item<double>(), DoubleNear(48, 1e-12));
  }
  GradientTape tape(true);
  const Tensor y = x * x * x;
  const Tensor d1 = tape.gradient(y, x);
  const Tensor d2 = tape.gradient(d1, x);
  const Tensor d3 = tape.gradient(d2, x);
  EXPECT_EQ(d1.item<int>(), 12);
  EXPECT_EQ(d2.item<int>(), 12);
  EXPECT_EQ(d3.item<int>(), 6);
}

TEST(GradientTape, AssignedVariablesMakeItsRecordsStale) {
  const Tensor weight = vec64({2});
  const Tensor x = vec64({3});
  GradientTape tape;
  const Tensor y = x * weight;
  graph::assign(weight, vec64({5}));
  EXPECT_ERROR(tape.gradient(y, x), ErrorCode::kStale, "replaced by");
}

TEST(GradientTape, AnAssignedVariableIsANewLeaf) {
  const Tensor weight = vec64({2});
  const Tensor x = vec64({3});
  GradientTape tape(true);
  const Tensor before = sum(weight);
  graph::assign(weight, weight * x);
  const Tensor after = weight.refreshed() * x;
  EXPECT_EQ(tape.gradient(after, weight.refreshed()).item<int>(), 3);
  EXPECT_EQ(tape.gradient(after, x).item<int>(), 6) << "not through what was assigned";
  EXPECT_ERROR(tape.gradient(before, weight.refreshed()), ErrorCode::kStale, "had before");
  EXPECT_EQ(tape.gradient(before, weight).item<int>(), 1) << "a handle on the earlier content";
}

TEST(GradientTape, LeavesAreWhatComesFromOutsideThroughDifferentiableOps) {
  const Tensor a = vec64({1}), b = vec64({2}), c = vec64({3});
  GradientTape tape(true);
  const Tensor y = a * b + stop_gradient(c) + floor(c * a) + a;
  std::vector<const TensorImpl*> found;
  for (const Tensor& leaf : tape.leaves(y)) found.push_back(leaf.impl().get());
  EXPECT_THAT(found, testing::UnorderedElementsAre(a.impl().get(), b.impl().get()));
}

TEST(GradientTape, RefreshedHandlesAreTheSameSource) {
  const Tensor weight = vec64({2});
  graph::assign(weight, vec64({5}));
  GradientTape tape;
  const Tensor y = weight.refreshed() * weight.refreshed();
  EXPECT_EQ(tape.gradient(y, weight.refreshed()).item<int>(), 10);
}

TEST(GradientTape, StridedSourcesHaveGradients) {
  double values[6] = {1, 2, 3, 4, 5, 6};
  const Tensor x = Tensor::from_external(values, {DType::kF64, {3, 2}}, {1, 3});
  GradientTape tape;
  const Tensor y = x * x;
  EXPECT_THAT(tape.gradient(y, x).to_vector(), ElementsAre(2, 8, 4, 10, 6, 12));
}

TEST(GradientTape, NestedTapesRecordIndependently) {
  const Tensor x = vec64({3});
  GradientTape outer(true);
  EXPECT_EQ(GradientTape::current(), &outer);
  {
    GradientTape inner;
    EXPECT_EQ(GradientTape::current(), &inner);
    const Tensor y = x * x;
    EXPECT_EQ(outer.size(), 1u);
    EXPECT_EQ(inner.size(), 1u);
  }
  EXPECT_EQ(GradientTape::current(), &outer);
  auto first = std::make_unique<GradientTape>();
  auto second = std::make_unique<GradientTape>();
  first.reset();  // not in reverse order
  EXPECT_EQ(GradientTape::current(), second.get());
  second.reset();
  EXPECT_EQ(GradientTape::current(), &outer);
}

TEST(GradientTape, NamesAnOpWithoutGradient) {
  graph::OpDef row;
  row.name = "no_gradient_here";
  row.infer = [](const graph::OpCall& call) { return std::vector<TensorSpec>{call.inputs[0]}; };
  row.fusion = graph::FusionClass::kView;
  const graph::OpDef& op = ops::register_op(std::move(row), nullptr);
  const Tensor x = vec64({3});
  GradientTape tape(true);
  const Tensor blocked = graph::apply_one(op, {x * 2.0}) + x;
  EXPECT_ERROR(tape.gradient(blocked, x), ErrorCode::kUnsupported, "[no_gradient_here] has no gradient");
  const Tensor around = graph::apply_one(op, {stop_gradient(x)}) + x;
  const Tensor elsewhere = x * 3.0;
  EXPECT_EQ(tape.gradient(elsewhere, x).item<int>(), 3) << "only where the gradient would pass";
  EXPECT_EQ(tape.gradient(around, x).item<int>(), 1) << "the gradient is stopped before it";
}

TEST(GradientTape, InsideACaptureDifferentiatesTheGraph) {
  auto step = capture([](const Tensor& x) {
    GradientTape tape;
    tape.watch(x);
    const Tensor y = sum(x * x * x);
    EXPECT_EQ(tape.size(), 0u);
    return std::pair(y, tape.gradient(y, x));
  });
  const auto [y, g] = step(vec64({1, 2}));
  EXPECT_EQ(y.item<int>(), 9);
  EXPECT_THAT(g.to_vector(), ElementsAre(3, 12));
}

TEST(GradientTape, MatrixProductsInEveryTransposition) {
  // d sum(f(A) f(B) * w) against the product written out.
  const Tensor w = from_vector({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}, DType::kF64);
  const Tensor a = from_vector({2, 3}, {1, -2, 3, 0.5, 5, -6}, DType::kF64);
  const Tensor b = from_vector({3, 4}, {1, 2, 0, 4, -5, 6, 7, 8, 9, 1, 1, 2}, DType::kF64);
  const Tensor da = matmul(w, b, false, true);
  const Tensor db = matmul(a, w, true, false);
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      const Tensor left = ta ? transpose(a) : a;
      const Tensor right = tb ? transpose(b) : b;
      GradientTape tape;
      const Tensor loss = sum(matmul(left, right, ta, tb) * w);
      const std::vector<Tensor> sources{left, right};
      const std::vector<Tensor> g = tape.gradient(loss, sources);
      EXPECT_EQ(g[0].to_vector(), (ta ? transpose(da) : da).to_vector()) << ta << tb;
      EXPECT_EQ(g[1].to_vector(), (tb ? transpose(db) : db).to_vector()) << ta << tb;
    }
  }
}

}  // namespace
}  // namespace isochron
