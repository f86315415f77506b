#include "isochron/ops/control/update_if.h"

#include <gtest/gtest.h>

#include "isochron/autograd/autograd.h"
#include "isochron/graph/capture/variable.h"
#include "isochron/graph/step/captured.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"
#include "support/expect_error.h"

namespace isochron {
namespace {

using Tensors = std::vector<Tensor>;

Tensor flag(bool value) { return full({}, value, DType::kBool); }

Tensors doubled(std::span<const Tensor> state) {
  Tensors results;
  for (const Tensor& tensor : state) results.push_back(tensor * 2.0);
  return results;
}

TEST(UpdateIf, ChangesVariablesInPlaceOnlyWhereThePredicateHolds) {
  const Variable a(full({100'000}, 3), "a");
  const Variable b(full({7, 5}, 1), "b");
  auto step = capture([&](const Tensor& predicate) {
    const Tensors results = update_if(predicate, Tensors{a, b}, doubled);
    a.assign(results[0]);
    b.assign(results[1]);
  });
  for (const bool go : {true, false, false, true}) step(flag(go));
  EXPECT_EQ(a.tensor().to_vector(), std::vector<double>(100'000, 12));
  EXPECT_EQ(b.tensor().to_vector(), std::vector<double>(35, 4));
  EXPECT_EQ(step.plan_report().instructions, 1u);
  EXPECT_EQ(step.plan_report().updates_in_place, 2);
  EXPECT_EQ(step.plan_report().updates_copied, 0);
  EXPECT_LT(step.plan_report().arena_bytes, a.size_bytes() / 4) << "no second copy of the state";
}

TEST(UpdateIf, RunsAtOnceOutsideACapture) {
  const Tensors state = {full({2}, 3)};
  EXPECT_EQ(update_if(flag(true), state, doubled)[0].to_vector(), std::vector<double>(2, 6));
  EXPECT_EQ(update_if(flag(false), state, doubled)[0].to_vector(), std::vector<double>(2, 3));
}

TEST(UpdateIf, WhoReadsTheOldStateAfterwardsStillSeesIt) {
  const Variable a(full({100}, 3), "a");
  CaptureOptions options;
  options.plan.poison = true;
  auto step = capture(
      [&](const Tensor& predicate) {
        const Tensor before = reshape(a, {10, 10});
        a.assign(update_if(predicate, Tensors{a}, doubled)[0]);
        return Tensors{before + 0.5, a.tensor() + 0.5};
      },
      options);
  const auto call = [&](bool go) {
    const auto results = step(flag(go));
    return std::pair(results[0].to_vector()[99], results[1].to_vector()[99]);
  };
  EXPECT_EQ(call(true), std::pair(3.5, 6.5));
  EXPECT_EQ(call(false), std::pair(6.5, 6.5));
}

TEST(UpdateIf, UpdatesNestAndUseTensorsFromOutside) {
  const Variable a(full({4}, 1), "a");
  auto step = capture([&](const Tensor& outer, const Tensor& inner, const Tensor& x) {
    const Tensor sum_of = sum(x);
    a.assign(update_if(outer, Tensors{a}, [&](std::span<const Tensor> state) {
      return update_if(inner, state,
                       [&](std::span<const Tensor> again) { return Tensors{again[0] + sum_of}; });
    })[0]);
  });
  const Tensor x = full({3}, 2);
  for (const bool outer : {false, true}) {
    for (const bool inner : {false, true}) step(flag(outer), flag(inner), x);
  }
  EXPECT_EQ(a.tensor().to_vector(), std::vector<double>(4, 7)) << "once, by 6";
  EXPECT_EQ(step.plan_report().updates_copied, 0);
}

TEST(UpdateIf, RejectsWrongCalls) {
  const Tensors state = {full({2}, 3)};
  const auto shorter = [](std::span<const Tensor>) { return Tensors{}; };
  const auto reshaped = [](std::span<const Tensor>) { return Tensors{full({3}, 1)}; };
  EXPECT_ERROR(update_if(flag(true), {}, doubled), ErrorCode::kInvalidArgument, "empty");
  EXPECT_ERROR(update_if(full({}, 1), state, doubled), ErrorCode::kDtypeMismatch, "one bool");
  EXPECT_ERROR(update_if(flag(true), state, shorter), ErrorCode::kShapeMismatch,
               "0 tensors for a state of 1");
  EXPECT_ERROR(update_if(flag(true), state, reshaped), ErrorCode::kShapeMismatch, "keeps its shape");
  auto traced = capture([&](const Tensor& predicate) { return update_if(predicate, state, reshaped)[0]; });
  EXPECT_ERROR(traced(flag(true)), ErrorCode::kShapeMismatch, "keeps its shape");
  auto differentiated = capture([&](const Tensor& x) {
    return gradients(sum(update_if(flag(true), Tensors{x}, doubled)[0]), Tensors{x})[0];
  });
  EXPECT_ERROR(differentiated(state[0]), ErrorCode::kUnsupported, "update_if");
}

}  // namespace
}  // namespace isochron
