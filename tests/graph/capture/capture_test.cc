// The meaning of a captured function: which content it reads, returns and writes.
#include "isochron/graph/capture/capture.h"

#include <gmock/gmock.h>

#include "isochron/graph/capture/apply.h"
#include "isochron/graph/capture/variable.h"
#include "isochron/graph/step/captured.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/matmul/matmul.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"
#include "support/expect_error.h"
#include "support/near.h"

namespace isochron {
namespace {

using graph::assign;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<double> now(const Tensor& variable) { return variable.refreshed().to_vector(); }

TEST(Capture, BoundTensorsAreReadAtReplay) {
  const Tensor weight = vec({1, 2});
  auto step = capture([&](const Tensor& x) { return x * weight; });
  EXPECT_THAT(step(vec({10, 10})).to_vector(), ElementsAre(10, 20));
  assign(weight, vec({3, 4}));
  EXPECT_THAT(step(vec({10, 10})).to_vector(), ElementsAre(30, 40));
  EXPECT_EQ(step.traces().size(), 1u);
}

TEST(Capture, NumbersAreFrozenAndListed) {
  double factor = 2;
  auto step = capture([&](const Tensor& x) { return x * factor; }, CaptureOptions{.name = "scaled"});
  EXPECT_THAT(step(vec({1, 3})).to_vector(), ElementsAre(2, 6));
  factor = 5;
  EXPECT_THAT(step(vec({1, 3})).to_vector(), ElementsAre(2, 6));
  EXPECT_THAT(step.report(), HasSubstr("captured 'scaled'"));
  EXPECT_THAT(step.report(), HasSubstr("frozen f32() = 2"));
}

TEST(Capture, ReadingAValueWhileCapturingSaysWhatToDoInstead) {
  auto item = capture([](const Tensor& x) { return sum(x).item<float>() > 0 ? x : -x; });
  EXPECT_ERROR(item(vec({1})), ErrorCode::kCaptureViolation, "use where/cond");
  auto vector = capture([](const Tensor& x) { return (x + x).to_vector().empty() ? x : x; });
  EXPECT_ERROR(vector(vec({1})), ErrorCode::kCaptureViolation, "no content yet");
  auto data = capture([](const Tensor& x) { return x.data<float>() ? x : x; });
  EXPECT_ERROR(data(vec({1})), ErrorCode::kCaptureViolation, "value of the graph");
}

TEST(Capture, AValueThatOutlivesItsCaptureIsAnError) {
  Tensor leaked;
  auto step = capture([&](const Tensor& x) { return leaked = x + 1.0; });
  step(vec({1}));
  EXPECT_ERROR(leaked.to_vector(), ErrorCode::kCaptureViolation, "no content yet");
  EXPECT_ERROR(leaked + leaked, ErrorCode::kCaptureViolation, "");
  EXPECT_ERROR(reshape(leaked, {1, 1}), ErrorCode::kCaptureViolation, "");
  EXPECT_ERROR(assign(leaked, vec({1})), ErrorCode::kCaptureViolation, "only a variable");
  EXPECT_ERROR(step(leaked), ErrorCode::kCaptureViolation, "call the plain function");
  auto other = capture([&](const Tensor& x) { return x + leaked; });
  EXPECT_ERROR(other(vec({1})), ErrorCode::kCaptureViolation, "a capture that has ended");
  {
    auto gone = capture([&](const Tensor& x) { return leaked = x * 2.0; });
    gone(vec({1}));
  }
  EXPECT_ERROR(other(vec({1})), ErrorCode::kCaptureViolation, "a capture that has ended");
}

TEST(Capture, DoesNotNest) {
  auto inner = capture([](const Tensor& x) { return x + 1.0; });
  auto outer = capture([&](const Tensor& x) { return inner(x); });
  EXPECT_ERROR(outer(vec({1})), ErrorCode::kCaptureViolation, "call the plain function");
  const Tensor eager = vec({1});
  auto hidden = capture([&](const Tensor& x) { return x + inner(eager); });
  EXPECT_ERROR(hidden(vec({1})), ErrorCode::kCaptureViolation, "inside another capture");
  EXPECT_EQ(graph::Capture::current(), nullptr);
  EXPECT_THAT(inner(vec({1})).to_vector(), ElementsAre(2));
}

TEST(Capture, StridedArgumentsArePackedAndStridedBoundTensorsRefused) {
  float values[6] = {1, 2, 3, 4, 5, 6};
  const Tensor strided = Tensor::from_external(values, {DType::kF32, {3, 2}}, {1, 3});
  auto step = capture([](const Tensor& x) { return x * 2.0; });
  EXPECT_THAT(step(strided).to_vector(), ElementsAre(2, 8, 4, 10, 6, 12));
  EXPECT_THAT(step(zeros({3, 2})).to_vector(), ElementsAre(0, 0, 0, 0, 0, 0));
  EXPECT_THAT(step(strided).to_vector(), ElementsAre(2, 8, 4, 10, 6, 12));
  auto bound = capture([&](const Tensor& x) { return x + strided; });
  EXPECT_ERROR(bound(zeros({3, 2})), ErrorCode::kUnsupported, "bind its contiguous() copy");
}

TEST(Capture, UndefinedResultsAreNamed) {
  auto step = capture([](const Tensor& x) { return std::pair(x, Tensor()); });
  EXPECT_ERROR(step(vec({1})), ErrorCode::kInvalidArgument, "result 1 is undefined");
  EXPECT_EQ(step.plan_count(), 0u);
}

TEST(Capture, EveryKindOfResult) {
  const Tensor variable = zeros({1});
  auto nothing = capture([&](const Tensor& x) { assign(variable, x); });
  nothing(vec({4}));
  EXPECT_THAT(now(variable), ElementsAre(4));
  auto pair = capture([](const Tensor& x) { return std::pair(x + 1.0, x + 2.0); });
  const auto [a, b] = pair(vec({1}));
  EXPECT_EQ(a.item<int>() * 10 + b.item<int>(), 23);
  auto tuple = capture([](const Tensor& x, const Tensor& y) { return std::tuple(x, y, x + y); });
  const auto [p, q, r] = tuple(vec({1}), vec({2}));
  EXPECT_EQ(p.item<int>() * 100 + q.item<int>() * 10 + r.item<int>(), 123);
  auto list = capture([](const Tensor& x) { return std::vector<Tensor>{x, x * 2.0}; });
  const std::span<const Tensor> results = list(vec({3}));
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[1].item<int>(), 6);
  auto none = capture([] { return ones({2}) + 1.0; });
  EXPECT_THAT(none().to_vector(), ElementsAre(2, 2));
}

TEST(Capture, ResultsThatAreInputsVariablesDuplicatesOrViews) {
  const Tensor variable = vec({7, 8});
  auto step = capture([&](const Tensor& x) {
    const Tensor y = x + 1.0;
    return std::vector<Tensor>{x, variable, y, y, reshape(y, {2, 1}), reshape(x, {1, 2}), scalar(5)};
  });
  const Tensor x = vec({1, 2});
  const std::span<const Tensor> results = step(x);
  EXPECT_THAT(results[0].to_vector(), ElementsAre(1, 2));
  EXPECT_NE(results[0].raw(), x.raw()) << "a result is a copy, not the argument's memory";
  EXPECT_THAT(results[1].to_vector(), ElementsAre(7, 8));
  EXPECT_NE(results[1].raw(), variable.raw());
  EXPECT_THAT(results[2].to_vector(), ElementsAre(2, 3));
  EXPECT_THAT(results[3].to_vector(), ElementsAre(2, 3));
  EXPECT_EQ(results[4].shape(), (Shape{2, 1}));
  EXPECT_THAT(results[4].to_vector(), ElementsAre(2, 3));
  EXPECT_EQ(results[5].shape(), (Shape{1, 2}));
  EXPECT_THAT(results[5].to_vector(), ElementsAre(1, 2));
  EXPECT_EQ(results[6].item<int>(), 5);
}

TEST(Capture, AssignmentsAreSeenByLaterReadsAndStayInOrder) {
  const Tensor variable = vec({1});
  auto step = capture([&](const Tensor& x) {
    const Tensor before = variable + 0.0;
    assign(variable, variable + x);
    const Tensor between = variable.refreshed() * 1.0;
    assign(variable, variable.refreshed() * 2.0);
    return std::tuple(before, between, variable.refreshed());
  });
  const auto [before, between, after] = step(vec({10}));
  EXPECT_EQ(before.item<int>(), 1);
  EXPECT_EQ(between.item<int>(), 11);
  EXPECT_EQ(after.item<int>(), 22);
  EXPECT_THAT(now(variable), ElementsAre(22));
  step(vec({0}));
  EXPECT_THAT(now(variable), ElementsAre(44));
}

TEST(Capture, HandlesFromBeforeAnAssignmentAreStaleUntilTheTraceEnds) {
  const Variable w(vec({2}), "w");
  const Tensor outside = w;
  auto step = capture([&](const Tensor& x) {
    const Tensor before = w;
    const Tensor kept = stop_gradient(before);
    w.assign(w * x);
    EXPECT_ERROR(before * 1.0, ErrorCode::kStale,
                 "was replaced by an assignment to variable 'w' since it was taken");
    EXPECT_ERROR(outside * 1.0, ErrorCode::kStale, "keep its content by stop_gradient()");
    const Tensor between = w;
    w.assign(between + 1.0);
    EXPECT_ERROR(between * 1.0, ErrorCode::kStale, "take it again");
    return w - kept;
  });
  EXPECT_THAT(step(vec({3})).to_vector(), ElementsAre(2 * 3 + 1 - 2));
  EXPECT_THAT(step(vec({3})).to_vector(), ElementsAre(7 * 3 + 1 - 7));
  EXPECT_FALSE(outside.stale()) << "a handle from outside is on the variable, as ever";
  auto failing = capture([&](const Tensor& x) -> Tensor {
    w.assign(w * x);
    return matmul(x, zeros({2, 2}));
  });
  EXPECT_THROW(failing(vec({3})), Error);
  EXPECT_FALSE(outside.stale()) << "nothing was assigned";
  w.assign(vec({5}));
  EXPECT_TRUE(outside.stale());
}

TEST(Capture, CopiesAreRefused) {
  const Variable w(vec({2}), "w");
  auto step = capture([&](const Tensor& x) {
    EXPECT_ERROR(copy(x), ErrorCode::kCaptureViolation, "[copy] f32(1) would be copied once");
    return copy(w) * x;
  });
  EXPECT_ERROR(step(vec({1})), ErrorCode::kCaptureViolation, "in a captured function use stop_gradient()");
  EXPECT_THAT(copy(w).to_vector(), ElementsAre(2));
}

TEST(Capture, VariablesSwapThroughAView) {
  const Tensor a = vec({1, 2});
  const Tensor b = vec({3, 4});
  auto step = capture([&] {
    const Tensor old = stop_gradient(a);
    assign(a, b);
    assign(b, old);
  });
  step();
  EXPECT_THAT(now(a), ElementsAre(3, 4));
  EXPECT_THAT(now(b), ElementsAre(1, 2));
  step();
  EXPECT_THAT(now(a), ElementsAre(1, 2));
}

TEST(Capture, VariablesSwapThroughComputedValues) {
  const Tensor a = vec({1, 2});
  const Tensor b = vec({3, 4});
  auto step = capture([&] {
    const Tensor sum_ab = a + b;
    const Tensor new_a = b * 1.5;
    const Tensor new_b = a * 2.0;
    assign(a, new_a);
    assign(b, new_b);
    return sum_ab;
  });
  EXPECT_THAT(step().to_vector(), ElementsAre(4, 6));
  EXPECT_THAT(now(a), ElementsAre(4.5, 6));
  EXPECT_THAT(now(b), ElementsAre(2, 4));
}

TEST(Capture, AssignsInputsOtherVariablesSharedAndReturnedValues) {
  const Tensor a = vec({1, 2});
  const Tensor b = vec({3, 4});
  const Tensor c = vec({5, 6});
  const Tensor d = vec({0, 0});
  auto step = capture([&](const Tensor& x) {
    const Tensor shared = x + c;
    assign(a, x);       // an input
    assign(d, b);       // another variable's content, which is overwritten in the same step
    assign(b, shared);  // one value for two variables, and returned
    assign(c, shared);
    return shared;
  });
  EXPECT_THAT(step(vec({10, 20})).to_vector(), ElementsAre(15, 26));
  EXPECT_THAT(now(a), ElementsAre(10, 20));
  EXPECT_THAT(now(d), ElementsAre(3, 4));
  EXPECT_THAT(now(b), ElementsAre(15, 26));
  EXPECT_THAT(now(c), ElementsAre(15, 26));
}

TEST(Capture, AssignsAViewOfAnUpdatedValue) {
  const Tensor a = from_vector({2, 2}, {1, 2, 3, 4});
  const Tensor b = zeros({4});
  auto step = capture([&] {
    const Tensor next = a * 2.0;
    assign(a, next);
    assign(b, reshape(next, {4}));
  });
  step();
  EXPECT_THAT(now(a), ElementsAre(2, 4, 6, 8));
  EXPECT_THAT(now(b), ElementsAre(2, 4, 6, 8));
}

TEST(Capture, AnotherViewOfAnAssignedVariableIsAnError) {
  const Tensor variable = from_vector({2, 2}, {1, 2, 3, 4});
  const Tensor flat = reshape(variable, {4});
  auto later = capture([&] {
    assign(variable, variable * 2.0);
    return flat + 1.0;
  });
  EXPECT_ERROR(later(), ErrorCode::kStale, "take it again");
  auto refreshed = capture([&] {
    assign(variable, variable * 2.0);
    return flat.refreshed() + 1.0;
  });
  EXPECT_ERROR(refreshed(), ErrorCode::kCaptureViolation, "another view of a variable");
  auto known = capture([&] {
    const Tensor before = flat + 1.0;
    assign(variable, variable * 2.0);
    return before + flat.refreshed();
  });
  EXPECT_ERROR(known(), ErrorCode::kCaptureViolation, "another view of a variable");
  auto both = capture([&] {
    assign(variable, variable * 2.0);
    assign(flat, ones({4}));
  });
  EXPECT_ERROR(both(), ErrorCode::kCaptureViolation, "another view of a variable");
  // Read before the assignment, a view is a variable like any other.
  auto before = capture([&] {
    const Tensor sums = flat + 1.0;
    assign(variable, variable * 2.0);
    return std::pair(sums, variable.refreshed());
  });
  const auto [sums, doubled] = before();
  EXPECT_THAT(sums.to_vector(), ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(doubled.to_vector(), ElementsAre(2, 4, 6, 8));
  EXPECT_THAT(now(variable), ElementsAre(2, 4, 6, 8));
}

TEST(Capture, AssignRejectsConstantsAndStaleValues) {
  const Tensor variable = vec({1});
  const Tensor fixed = constant(vec({1}));
  auto step = capture([&](const Tensor& x) { assign(fixed, x); });
  EXPECT_ERROR(step(vec({2})), ErrorCode::kInvalidArgument, "constant");
  auto value = capture([&](const Tensor& x) { assign(x + 1.0, x); });
  EXPECT_ERROR(value(vec({2})), ErrorCode::kCaptureViolation, "only a variable");
  const Tensor old = variable;
  assign(variable, vec({2}));
  auto stale = capture([&](const Tensor& x) { return x + old; });
  EXPECT_ERROR(stale(vec({2})), ErrorCode::kStale, "take it again");
  auto target = capture([&](const Tensor& x) { assign(old, x); });  // the replaced value may be old
  target(vec({9}));
  EXPECT_THAT(now(variable), ElementsAre(9));
}

TEST(Capture, EagerScopeMakesVariablesInTheMiddleOfATrace) {
  Tensor made;
  auto step = capture([&](const Tensor& x) {
    if (!made.defined()) {
      const graph::EagerScope eager;
      made = ones({2}) * 3.0;
    }
    return x + made;
  });
  EXPECT_THAT(step(vec({1, 2})).to_vector(), ElementsAre(4, 5));
  EXPECT_THAT(made.to_vector(), ElementsAre(3, 3));
  EXPECT_EQ(step.graph().bound().size(), 1u);
}

TEST(Capture, NameScopesNestAndEnd) {
  auto step = capture(
      [](const Tensor& x) {
        const graph::NameScope outer("block");
        const Tensor y = matmul(x, x);
        const graph::NameScope inner("dense");
        return matmul(y, x);
      },
      CaptureOptions{.passes = {.disabled = {"all"}}});
  step(ones({2, 2}));
  EXPECT_EQ(step.graph().nodes()[0]->name(), "block/matmul_0");
  EXPECT_EQ(step.graph().nodes()[1]->name(), "block/dense/matmul_1");
  EXPECT_EQ(graph::NameScope::current(), "");
}

}  // namespace
}  // namespace isochron
