// Steps that continue after an update: later reads get the new content, and no gradient flows through the
// update, eager and captured.
#include <gmock/gmock.h>

#include <functional>

#include "isochron/autograd/autograd.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/graph/step/captured.h"
#include "isochron/ops/control/control.h"
#include "isochron/ops/control/scan.h"
#include "isochron/ops/control/update_if.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"
#include "isochron/optim/optimizers.h"
#include "support/expect_error.h"
#include "support/near.h"

namespace isochron::optim {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;

/// Two variables of f64 (2).
struct Pair {
  Variable w{vec64({0.5, -2}), "w"};
  Variable d{vec64({3, 4}), "d"};
};

/// The results of `body` in an eager call, under a persistent tape, and in a captured call, each on its own
/// variables. Gradients are computed by `gradient`, which works for both.
using Gradient = std::function<Tensor(const Tensor& target, const Tensor& source)>;
using Body = std::function<std::vector<Tensor>(const Pair& pair, const Tensor& x, const Gradient& gradient)>;
void expect_same_updates(const std::function<Body()>& make, int calls = 3) {
  const Body eager = make();
  const Body traced = make();
  Pair eager_pair, traced_pair;
  auto step = capture([&](const Tensor& x) {
    return traced(traced_pair, x, [](const Tensor& target, const Tensor& source) {
      return gradients(target, {&source, 1})[0];
    });
  });
  for (int i = 0; i < calls; ++i) {
    const Tensor x = vec64({1.0 + i, 0.25 * i - 1});
    GradientTape tape(true);
    const std::vector<Tensor> expected =
        eager(eager_pair, x,
              [&](const Tensor& target, const Tensor& source) { return tape.gradient(target, source); });
    const std::span<const Tensor> found = step(x);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t k = 0; k < found.size(); ++k)
      EXPECT_TRUE(near(found[k], expected[k], 1e-13, 1e-15)) << "result " << k << " of call " << i;
    EXPECT_TRUE(near(traced_pair.w.tensor(), eager_pair.w.tensor(), 1e-13, 1e-15));
    EXPECT_TRUE(near(traced_pair.d.tensor(), eager_pair.d.tensor(), 1e-13, 1e-15));
  }
}

TEST(SeveralUpdates, AGradientEndsAtTheNewContentOfAnUpdate) {
  Pair pair;
  Sgd sgd({.learning_rate = 0.5});
  auto step = capture([&](const Tensor& x) {
    sgd.apply(std::vector{pair.d}, std::vector{stop_gradient(pair.w * x)});
    return gradients(sum(pair.d.tensor() * pair.w), std::vector<Tensor>{pair.w, pair.d});
  });
  const std::span<const Tensor> g = step(vec64({1, 1}));
  EXPECT_THAT(g[0].to_vector(), ElementsAre(2.75, 5));  // d - 0.5 w
  EXPECT_THAT(g[1].to_vector(), ElementsAre(0.5, -2));
  EXPECT_THAT(pair.d.tensor().to_vector(), ElementsAre(2.75, 5));
}

/// Each kind of update: the plain rule, and updates with additional mechanisms.
TEST(SeveralUpdates, EveryKindOfUpdateIsALeaf) {
  const std::vector<std::function<Optimizer()>> kinds = {
      [] { return Sgd({.learning_rate = 0.5, .momentum = 0.9}); },
      [] { return Adam({.learning_rate = 0.1}); },
      [] { return Adam({.learning_rate = exponential(0.1, 2, 0.5)}); },
      [] { return Adam({.learning_rate = 0.1, .step = {.accumulate = 2}}); },
      [] { return Adam({.learning_rate = 0.1, .step = {.loss_scale = LossScale::fixed(8)}}); },
      [] {
        return Adam({.learning_rate = 0.1,
                     .step = {.accumulate = 2,
                              .loss_scale = LossScale::dynamic(4),
                              .clip = {.global_norm = 1},
                              .ema_decay = 0.9,
                              .keep_gradients = true}});
      },
  };
  for (size_t kind = 0; kind < kinds.size(); ++kind) {
    for (const bool stopped : {true, false}) {
      SCOPED_TRACE(fmt::format("kind {}, {}", kind, stopped ? "stopped" : "not stopped"));
      expect_same_updates(
          [&]() -> Body {
            auto optimizer = std::make_shared<Optimizer>(kinds[kind]());
            return [optimizer, stopped](const Pair& pair, const Tensor& x, const Gradient& gradient) {
              const Tensor by_hand = pair.w * x;
              optimizer->apply(std::vector{pair.d}, std::vector{stopped ? stop_gradient(by_hand) : by_hand});
              const Tensor loss = sum(square(pair.d.tensor()) * pair.w);
              return std::vector{loss, gradient(loss, pair.w), gradient(loss, pair.d)};
            };
          },
          5);
    }
  }
}

TEST(SeveralUpdates, AnAssignmentByHandIsALeaf) {
  expect_same_updates([] {
    return [](const Pair& pair, const Tensor& x, const Gradient& gradient) {
      pair.d.assign(pair.d - pair.w * x * 0.1);
      const Tensor loss = sum(pair.d.tensor() * pair.w);
      std::vector<Tensor> results{gradient(loss, pair.w), gradient(loss, pair.d)};
      pair.w.assign(pair.w - results[0] * 0.01);
      const Tensor again = sum(square(pair.d.tensor() * pair.w));
      results.insert(results.end(), {gradient(again, pair.w), gradient(again, pair.d)});
      return results;
    };
  });
}

TEST(SeveralUpdates, AVariableThatTakesOverAnotherOneIsALeafOfItsOwn) {
  Pair pair;
  auto step = capture([&](const Tensor& x) {
    pair.d.assign(pair.w);  // a hard update of a target network
    const Tensor loss = sum(pair.w * x * pair.d);
    return gradients(loss, std::vector<Tensor>{pair.w, pair.d});
  });
  const std::span<const Tensor> g = step(vec64({10, 1}));
  EXPECT_THAT(g[0].to_vector(), ElementsAre(5, -2)) << "not twice that";
  EXPECT_THAT(g[1].to_vector(), ElementsAre(5, -2));
  expect_same_updates([] {
    return [](const Pair& p, const Tensor& x, const Gradient& gradient) {
      p.d.assign(p.w);
      const Tensor loss = sum(p.w * x * p.d);
      return std::vector{gradient(loss, p.w), gradient(loss, p.d)};
    };
  });
}

TEST(SeveralUpdates, AConditionalUpdateIsALeaf) {
  expect_same_updates([] {
    return [](const Pair& pair, const Tensor& x, const Gradient& gradient) {
      const Tensor due = greater(sum(x), scalar(0.5, DType::kF64));
      const Tensor moved = pair.w * x;
      const std::vector<Tensor> state{pair.d};
      pair.d.assign(update_if(
          due, state, [&](std::span<const Tensor> before) { return std::vector{before[0] + moved}; })[0]);
      const Tensor loss = sum(square(pair.d.tensor()) * pair.w);
      return std::vector{gradient(loss, pair.w), gradient(loss, pair.d)};
    };
  });
}

TEST(SeveralUpdates, LoopsAndBranchesReadTheNewContent) {
  expect_same_updates([] {
    return [](const Pair& pair, const Tensor& x, const Gradient& gradient) {
      pair.d.assign(pair.d + pair.w * x);
      const auto body = [&](std::span<const Tensor> state, std::span<const Tensor>) {
        return ScanStep{{state[0] * pair.d + pair.w}};
      };
      const Tensor carried = scan(body, {x}, {}, {.steps = 3}).state[0];
      const Tensor chosen = cond(
          greater(sum(x), scalar(0.5, DType::kF64)), [&] { return pair.d * pair.w; },
          [&] { return pair.d - pair.w; });
      const Tensor loss = sum(carried) + sum(chosen);
      return std::vector{gradient(loss, pair.w), gradient(loss, pair.d)};
    };
  });
}

TEST(SeveralUpdates, TwoStepsOfOneOptimizerSeeEachOther) {
  Pair eager, captured;
  Adam eager_adam({.learning_rate = 0.1});
  Adam captured_adam({.learning_rate = 0.1});
  const auto losses = [](const Pair& pair, Adam& adam, const Tensor& x) {
    std::vector<Tensor> found;
    for (int i = 0; i < 2; ++i) {
      const GradientTape tape;
      const Tensor loss = mean(square(pair.w * x + pair.d));
      adam.minimize(loss, std::vector{pair.w, pair.d});
      found.push_back(loss);
    }
    return found;
  };
  auto step = capture([&](const Tensor& x) { return losses(captured, captured_adam, x); });
  for (int i = 0; i < 5; ++i) {
    const Tensor x = vec64({1.0 + i, -0.5});
    const std::vector<Tensor> expected = losses(eager, eager_adam, x);
    const std::span<const Tensor> found = step(x);
    for (size_t k = 0; k < 2; ++k) EXPECT_TRUE(near(found[k], expected[k], 1e-13));
    EXPECT_LT(found[1].item<double>(), found[0].item<double>()) << "the second loss follows the first update";
  }
}

TEST(SeveralUpdates, ALossFromBeforeTheUpdateIsRefused) {
  Pair pair;
  Sgd sgd;
  const Tensor x = vec64({1, 2});
  const std::vector parameters{pair.d};
  const auto twice = [&](const Tensor& input) {
    GradientTape tape(true);
    const Tensor loss = sum(pair.d * input);
    sgd.minimize(loss, parameters);
    sgd.minimize(loss, parameters);
    return loss;
  };
  EXPECT_ERROR(twice(x), ErrorCode::kStale, "had before an assignment to variable 'd'");
  auto step = capture(twice);
  EXPECT_ERROR(step(x), ErrorCode::kStale, "had before an assignment to variable 'd'");
}

TEST(SeveralUpdates, ALossFromBetweenTwoUpdatesIsRefusedAfterTheSecond) {
  Pair pair;
  Sgd sgd;
  const std::vector parameters{pair.d};
  const auto between = [&](const Tensor& x) {
    GradientTape tape(true);
    sgd.apply(parameters, std::vector{x * 2.0});
    const Tensor loss = sum(pair.d * x);
    sgd.apply(parameters, std::vector{x * 2.0});
    sgd.minimize(loss, parameters);
    return loss;
  };
  EXPECT_ERROR(between(vec64({1, 2})), ErrorCode::kStale, "had before an assignment to variable 'd'");
  auto step = capture(between);
  EXPECT_ERROR(step(vec64({1, 2})), ErrorCode::kStale, "had before an assignment to variable 'd'");
}

TEST(SeveralUpdates, WhatIsNotReadAgainAddsNothingToTheGraph) {
  Pair pair;
  Sgd sgd;
  auto step = capture([&](const Tensor& x) { sgd.apply(std::vector{pair.d}, std::vector{x * 2.0}); });
  step(vec64({1, 2}));
  for (const auto& node : step.graph().nodes()) EXPECT_NE(node->op->name, "stop_gradient");
}

TEST(SeveralUpdates, TheViewOfAnUpdateCostsNoKernel) {
  Pair pair;
  auto step = capture([&](const Tensor& x) {
    pair.d.assign(pair.d + x);
    return pair.d * 2.0;
  });
  EXPECT_THAT(step(vec64({1, 2})).to_vector(), ElementsAre(8, 12));
  EXPECT_EQ(step.plan_report().instructions, 1u);
}

}  // namespace
}  // namespace isochron::optim
