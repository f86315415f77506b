#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <limits>

#include "isochron/autograd/autograd.h"
#include "isochron/core/process/threads.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/graph/step/captured.h"
#include "isochron/memory/allocators/buffer.h"
#include "isochron/memory/allocators/pool.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/matmul/matmul.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"
#include "isochron/optim/clipping.h"
#include "isochron/optim/optimizers.h"
#include "support/expect_error.h"
#include "support/near.h"

namespace isochron::optim {
namespace {

struct Line {
  Variable weight{from_vector({2, 1}, {0.5, -0.5}), "weight"};
  Variable bias{zeros({1}), "bias"};
  std::vector<Variable> parameters() const { return {weight, bias}; }
  Tensor loss(const Tensor& x, const Tensor& y) const { return mean(square(matmul(x, weight) + bias - y)); }
};

const Tensor kX = from_vector({4, 2}, {1, 2, -1, 0.5, 3, 1, 0, -2});
const Tensor kY = from_vector({4, 1}, {3, -0.5, 4, -2});

TEST(Optimizer, CapturedStepEqualsEagerStepBitForBit) {
  Line eager_line;
  Line captured_line;
  Adam eager_adam;
  Adam captured_adam;
  CaptureOptions options;
  options.passes.disabled = {"all"};
  auto step = capture(
      [&](const Tensor& x, const Tensor& y) {
        const Tensor loss = captured_line.loss(x, y);
        captured_adam.minimize(loss, captured_line.parameters());
        return loss;
      },
      options);
  for (int i = 0; i < 20; ++i) {
    GradientTape tape;
    const Tensor loss = eager_line.loss(kX, kY);
    eager_adam.minimize(loss, eager_line.parameters());
    EXPECT_EQ(step(kX, kY).item<float>(), loss.item<float>());
  }
  EXPECT_EQ(captured_line.weight.tensor().to_vector(), eager_line.weight.tensor().to_vector());
  EXPECT_EQ(captured_line.bias.tensor().to_vector(), eager_line.bias.tensor().to_vector());
}

TEST(Optimizer, KeepsNothingOfAnAllocatorThatIsGone) {
  for (int i = 0; i < 2; ++i) {  // the second would read anything that the first leaves in statics
    PoolAllocator pool;
    const AllocatorScope scope(pool);
    Line line;
    Adam adam({.step = {.accumulate = 2}});
    for (int micro = 0; micro < 3; ++micro) {
      const GradientTape tape;
      const Tensor loss = line.loss(kX, kY);
      adam.minimize(loss, line.parameters());
      adam.flush_next();
    }
    EXPECT_TRUE(std::isfinite(line.weight.tensor().to_vector()[0]));
  }
}

TEST(Optimizer, ReducesTheLoss) {
  Line line;
  Sgd sgd({.learning_rate = 0.05, .momentum = 0.5});
  auto step = capture([&](const Tensor& x, const Tensor& y) {
    const Tensor loss = line.loss(x, y);
    sgd.minimize(loss, line.parameters());
    return loss;
  });
  const float first = step(kX, kY).item<float>();
  for (int i = 0; i < 200; ++i) step(kX, kY);
  EXPECT_LT(step(kX, kY).item<float>(), 1e-3f * first);
}

TEST(Optimizer, NewLearningRateReachesTheCapturedStep) {
  Variable p(zeros({3}), "p");
  Sgd sgd({.learning_rate = 1});
  auto step = capture([&](const Tensor& g) { sgd.apply(std::vector{p}, std::vector{g}); });
  step(ones({3}));
  sgd.set_learning_rate(0.25);
  step(ones({3}));
  EXPECT_EQ(p.tensor().to_vector(), std::vector<double>(3, -1.25));
  EXPECT_EQ(step.plan_count(), 1u);
  EXPECT_EQ(sgd.learning_rate(), 0.25);
  EXPECT_EQ(sgd.step_count(), 2);
}

TEST(Optimizer, LearningRateMayBeComputedInTheStep) {
  Variable p(zeros({1}), "p");
  Sgd sgd({.learning_rate = 1});
  auto step = capture([&](const Tensor& g) {
    sgd.apply(std::vector{p}, std::vector{g});
    sgd.learning_rate_slot().assign(sgd.learning_rate_slot().tensor() * 0.5);
  });
  for (int i = 0; i < 3; ++i) step(ones({1}));
  EXPECT_EQ(p.tensor().to_vector(), std::vector<double>{-1.75});
}

TEST(Optimizer, SkipsFrozenParameters) {
  Line line;
  line.bias.set_trainable(false);
  Adam adam;
  GradientTape tape;
  adam.minimize(line.loss(kX, kY), line.parameters());
  EXPECT_EQ(line.bias.tensor().to_vector(), std::vector<double>{0});
  EXPECT_NE(line.weight.tensor().to_vector()[0], 0.5);
  EXPECT_EQ(adam.state_bytes(), 2 * line.weight.size_bytes());
}

TEST(Optimizer, MakesStatesOnceAndCountsTheirBytes) {
  Line line;
  RmsProp rmsprop({.momentum = 0.9, .centered = true});
  EXPECT_EQ(rmsprop.state_bytes(), 0u);
  const std::vector<Tensor> g = {ones({2, 1}), ones({1})};
  rmsprop.apply(line.parameters(), g);
  EXPECT_EQ(rmsprop.state_bytes(), 3 * 3 * sizeof(float));
  const std::vector<Variable> state = rmsprop.state();
  rmsprop.apply(line.parameters(), g);
  EXPECT_EQ(rmsprop.state(), state);
  EXPECT_EQ(state[2].name(), "weight/mean_square");
}

TEST(Optimizer, StatesMadeInsideACaptureOutliveIt) {
  Variable p(zeros({2}), "p");
  Adam adam;
  {
    auto step = capture([&](const Tensor& g) { adam.apply(std::vector{p}, std::vector{g}); });
    step(ones({2}));
  }
  EXPECT_TRUE(near(adam.state()[3], full({2}, 0.1), 1e-6));
  auto again = capture([&](const Tensor& g) { adam.apply(std::vector{p}, std::vector{g}); });
  again(ones({2}));
  EXPECT_TRUE(near(adam.state()[3], full({2}, 0.19), 1e-6));
}

TEST(Optimizer, APlanKeepsTheStorageOfFreedVariables) {
  auto optimizer = std::make_unique<Adam>();
  auto p = std::make_unique<Variable>(zeros({64}), "p");
  auto step = capture([&](const Tensor& g) {
    optimizer->apply(std::vector{*p}, std::vector{g});
    return p->tensor() * 1.0;
  });
  const double first = step(ones({64})).to_vector()[0];
  optimizer.reset();
  p.reset();
  EXPECT_LT(step(ones({64})).to_vector()[0], first);
}

/// Parameters after three steps on large gradients, with `threads`.
std::vector<double> on_threads(const std::function<Optimizer()>& make, int threads) {
  set_compute_threads(threads);
  Optimizer optimizer = make();
  std::vector<double> numbers(300 * 301);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = std::sin(static_cast<double>(i));
  const Variable p(from_vector({300, 301}, numbers), "p"), q(from_vector({300 * 301}, numbers), "q");
  const Tensor g = from_vector({300, 301}, numbers) * 0.01;
  for (int i = 0; i < 3; ++i)
    optimizer.apply(std::vector{p, q}, std::vector{g + 0.1 * i, copy(reshape(g, {300 * 301}))});
  std::vector<double> result = p.tensor().to_vector();
  const std::vector<double> rest = q.tensor().to_vector();
  result.insert(result.end(), rest.begin(), rest.end());
  return result;
}

TEST(Optimizer, UpdatesAreTheSameBitsOnAnyNumberOfThreads) {
  const int before = compute_threads();
  const std::vector<std::function<Optimizer()>> kinds = {
      [] { return Sgd({.momentum = 0.9}); },
      [] { return Adam({.step = {.loss_scale = LossScale::fixed(1), .clip = {.global_norm = 0.5}}}); },
      [] { return Adam({.step = {.accumulate = 2, .noise = {.eta = 0.1}, .ema_decay = 0.9}}); },
      [] { return Adafactor(); },
      [] { return Lamb({.weight_decay = {.rate = 0.1}}); },
  };
  for (const auto& make : kinds) {
    const std::vector<double> expected = on_threads(make, 1);
    for (const int threads : {2, 3, 4}) EXPECT_EQ(on_threads(make, threads), expected) << threads;
  }
  set_compute_threads(before);
}

TEST(Optimizer, TapesDontRecordUpdates) {
  Variable p(zeros({2}), "p");
  Adam adam({.step = {.loss_scale = LossScale::dynamic(), .clip = {.norm = 1}}});
  GradientTape tape(true);
  for (int i = 0; i < 3; ++i) adam.apply(std::vector{p}, std::vector{full({2}, i)});
  EXPECT_EQ(tape.size(), 0u);
  EXPECT_EQ(adam.step_count(), 3);
}

TEST(Optimizer, AScheduleMayReplaceTheNumber) {
  Variable p(zeros({1}), "p");
  Sgd sgd({.learning_rate = 1});
  sgd.apply(std::vector{p}, std::vector{ones({1})});
  sgd.set_schedule(step_decay(0.5, 2, 0.5));
  EXPECT_EQ(sgd.learning_rate(), 0.5) << "that of step 1";
  for (int i = 0; i < 2; ++i) sgd.apply(std::vector{p}, std::vector{ones({1})});
  EXPECT_EQ(p.tensor().item<double>(), -1.75);
  EXPECT_EQ(sgd.learning_rate(), 0.25);
}

TEST(Optimizer, SaysThatItWasMovedFrom) {
  const std::vector<std::function<Optimizer()>> all = {[] { return Optimizer(Sgd({.momentum = 0.9})); },
                                                       [] { return Optimizer(Adam()); },
                                                       [] { return Optimizer(RmsProp()); }};
  for (const auto& make : all) {
    Line line;
    Optimizer optimizer = make();
    Optimizer here = std::move(optimizer);
    const std::vector<Tensor> gradients = {ones({2, 1}), ones({1})};
    constexpr const char* kText = "[optimizer] it was moved from; use the one that it was moved to";
    EXPECT_ERROR(optimizer.apply(line.parameters(), gradients), ErrorCode::kInvalidArgument, kText);
    EXPECT_ERROR(optimizer.prepare(line.parameters()), ErrorCode::kInvalidArgument, kText);
    EXPECT_ERROR(optimizer.description(), ErrorCode::kInvalidArgument, kText);
    GradientTape tape;
    EXPECT_ERROR(optimizer.minimize(line.loss(kX, kY), line.parameters()), ErrorCode::kInvalidArgument,
                 kText);
    EXPECT_ERROR(optimizer.learning_rate(), ErrorCode::kInvalidArgument, "[variable] it is undefined");
    EXPECT_ERROR(optimizer.step_count(), ErrorCode::kInvalidArgument, "[variable] it is undefined");
    EXPECT_ERROR(optimizer.group(), ErrorCode::kInvalidArgument, kText);
    EXPECT_ERROR(optimizer.state(), ErrorCode::kInvalidArgument, kText);
    EXPECT_ERROR(optimizer.parameters(), ErrorCode::kInvalidArgument, kText);
    EXPECT_ERROR(optimizer.kept_gradients(), ErrorCode::kInvalidArgument, kText);
    EXPECT_ERROR(optimizer.phase(), ErrorCode::kInvalidArgument, kText);
    EXPECT_ERROR(optimizer.loss_scale(), ErrorCode::kInvalidArgument, kText);
    EXPECT_ERROR(optimizer.skipped_steps(), ErrorCode::kInvalidArgument, kText);
    EXPECT_ERROR(optimizer.scaled(ones({})), ErrorCode::kInvalidArgument, kText);
    EXPECT_NO_THROW(here.apply(line.parameters(), gradients));
  }
}

TEST(Variable, WithoutContentSaysSo) {
  const Variable none;
  EXPECT_ERROR(none.tensor(), ErrorCode::kInvalidArgument, "[variable] it is undefined");
  EXPECT_ERROR(none.name(), ErrorCode::kInvalidArgument, "[variable] it is undefined");
  EXPECT_ERROR(none.assign(ones({1})), ErrorCode::kInvalidArgument, "[variable] it is undefined");
  EXPECT_ERROR(none.set_trainable(false), ErrorCode::kInvalidArgument, "[variable] it is undefined");
  EXPECT_EQ(none, Variable());
}

TEST(Optimizer, RejectsWrongCalls) {
  Line line;
  Adam adam;
  const Tensor loss = line.loss(kX, kY);
  EXPECT_ERROR(adam.minimize(loss, line.parameters()), ErrorCode::kCaptureViolation, "GradientTape");
  EXPECT_ERROR(adam.minimize(ones({3}), line.parameters()), ErrorCode::kShapeMismatch,
               "the loss is f32(3), expected one number; take its mean()");
  EXPECT_ERROR(adam.minimize(Tensor(), line.parameters()), ErrorCode::kShapeMismatch, "undefined");
  const std::vector<Tensor> missing = {ones({2, 1}), Tensor()};
  EXPECT_ERROR(adam.apply(line.parameters(), missing), ErrorCode::kInvalidArgument, "parameter 'bias'");
  const std::vector<Tensor> one = {ones({2, 1})};
  EXPECT_ERROR(adam.apply(line.parameters(), one), ErrorCode::kInvalidArgument,
               "each of the 2 parameters, got 1");
  const std::vector<Tensor> shaped = {ones({1, 2}), ones({1})};
  EXPECT_ERROR(adam.apply(line.parameters(), shaped), ErrorCode::kShapeMismatch, "parameter 'weight'");
  const std::vector<Tensor> typed = {ones({2, 1}), ones({1}, DType::kF64)};
  EXPECT_ERROR(adam.apply(line.parameters(), typed), ErrorCode::kDtypeMismatch, "parameter 'bias'");
  EXPECT_ERROR(adam.apply(std::vector{line.bias, line.bias}, std::vector{ones({1}), ones({1})}),
               ErrorCode::kInvalidArgument, "twice");
  EXPECT_EQ(adam.state_bytes(), 0u);
  EXPECT_EQ(line.bias.tensor().to_vector(), std::vector<double>{0});
  adam.apply(std::vector{line.bias}, std::vector{ones({1})});
  EXPECT_ERROR(adam.apply(line.parameters(), std::vector{ones({2, 1}), ones({1})}),
               ErrorCode::kInvalidArgument, "'weight' was not among the 1");
  EXPECT_EQ(adam.step_count(), 1);
}

TEST(Optimizer, RejectsWrongOptions) {
  EXPECT_ERROR(Adam({.beta_1 = 1}), ErrorCode::kInvalidArgument, "beta_1");
  EXPECT_ERROR(Adam({.epsilon = -1}), ErrorCode::kInvalidArgument, "epsilon");
  EXPECT_ERROR(Sgd({.nesterov = true}), ErrorCode::kInvalidArgument, "nesterov");
  EXPECT_ERROR(RmsProp({.learning_rate = NAN}), ErrorCode::kInvalidArgument, "learning rate");
  Sgd sgd;
  EXPECT_ERROR(sgd.set_learning_rate(-1), ErrorCode::kInvalidArgument, "learning rate");
  auto step = capture([&](const Tensor& x) {
    sgd.set_learning_rate(0.5);
    return x;
  });
  EXPECT_ERROR(step(ones({1})), ErrorCode::kCaptureViolation, "learning_rate_slot");
}

TEST(Optimizer, CenteredRmspropStaysFiniteUnderAConstantGradient) {
  Variable p(zeros({1}), "p");
  RmsProp rmsprop({.centered = true, .epsilon_outside_root = true});
  for (int i = 0; i < 500; ++i) rmsprop.apply(std::vector{p}, std::vector{full({1}, 1e3)});
  EXPECT_TRUE(std::isfinite(p.tensor().item<float>()));
}

TEST(Optimizer, RpropStepsByTheSignsOfGradients) {
  const Variable p(zeros({5}), "p");
  Rprop rprop({.learning_rate = 0.125, .eta_plus = 2});
  const auto step = [&](const std::vector<double>& gradient) {
    rprop.apply(std::vector{p}, std::vector{from_vector({5}, gradient)});
    return p.tensor().to_vector();
  };
  using Values = std::vector<double>;
  // The squares of the first gradients are 0 in f32.
  EXPECT_EQ(step({1e-30, -1e-30, 2, 0, 3}), (Values{-0.125, 0.125, -0.125, 0, -0.125}));
  rprop.set_learning_rate(100);  // isn't read again
  EXPECT_EQ(step({1e-30, -1e-30, -2, -1, 0}), (Values{-0.375, 0.375, -0.125, 0.125, -0.125}));
  EXPECT_EQ(step({-1, -1e9, -2, 1, 3}), (Values{-0.375, 0.875, -0.0625, 0.125, -0.25}));
  EXPECT_TRUE(std::isnan(step({NAN, 0, 0, 0, 0})[0]));
}

TEST(Optimizer, AdafactorStaysFiniteWhereRowsAndColumnsOfTheGradientAreZero) {
  // As those of units that are never active are: the second moments there are epsilon_1, whose product no f32
  // holds.
  const std::vector<double> gradient = {0, 0, 0, 0, 0, 0.3, -2, 0, 0, 1, 0.1, 0};
  const Variable p(ones({3, 4}), "p"), exact(ones({3, 4}, DType::kF64), "exact");
  Adafactor narrow, wide;
  for (int i = 0; i < 3; ++i) {
    narrow.apply(std::vector{p}, std::vector{from_vector({3, 4}, gradient)});
    wide.apply(std::vector{exact}, std::vector{from_vector({3, 4}, gradient, DType::kF64)});
  }
  const std::vector<double> expected = exact.tensor().to_vector();
  EXPECT_EQ(expected[0], 1);
  EXPECT_NE(expected[6], 1);
  EXPECT_THAT(p.tensor().to_vector(), testing::Pointwise(testing::DoubleNear(1e-6), expected));
}

TEST(Clipping, ScalesToTheGlobalNorm) {
  const std::vector<Tensor> tensors = {full({2}, 3), Tensor(), full({1, 2}, 4)};
  EXPECT_NEAR(global_norm(tensors).item<double>(), std::sqrt(50.0), 1e-5);
  const std::vector<Tensor> clipped = clip_by_global_norm(tensors, 1);
  EXPECT_NEAR(global_norm(clipped).item<double>(), 1, 1e-6);
  EXPECT_FALSE(clipped[1].defined());
  EXPECT_TRUE(near(clipped[2], full({1, 2}, 4 / std::sqrt(50.0)), 1e-6));
  EXPECT_TRUE(near(clip_by_global_norm(tensors, 10)[0], full({2}, 3), 0));
  EXPECT_ERROR(clip_by_global_norm(tensors, 0), ErrorCode::kInvalidArgument, "max_norm");
  for (const double beyond : {std::numeric_limits<double>::infinity(), 1e39}) {
    EXPECT_TRUE(near(clip_by_global_norm(tensors, beyond)[0], full({2}, 3), 0)) << beyond;
    EXPECT_TRUE(near(clip_by_norm(tensors, beyond)[0], full({2}, 3), 0)) << beyond;
  }
  EXPECT_ERROR(global_norm({}), ErrorCode::kInvalidArgument, "none");
}

TEST(Clipping, HasGradientsWhereTheNormIsZero) {
  const Tensor x = zeros({3}), y = from_vector({2}, {3, 4});
  GradientTape tape(true);
  tape.watch(x);
  EXPECT_EQ(tape.gradient(sum(clip_by_norm({&x, 1}, 1)[0]), x).to_vector(), (std::vector<double>{1, 1, 1}));
  EXPECT_EQ(tape.gradient(global_norm({&x, 1}), x).to_vector(), (std::vector<double>{0, 0, 0}));
  const Tensor both[] = {x, y};
  EXPECT_EQ(global_norm(both).item<float>(), 5);
  const Tensor nan = from_vector({1}, {std::nan("")});
  EXPECT_TRUE(std::isnan(global_norm({&nan, 1}).item<float>()));
}

TEST(Clipping, ClipsValues) {
  const std::vector<Tensor> tensors = {from_vector({3}, {-3, 0.5, 2})};
  EXPECT_EQ(clip_by_value(tensors, 1)[0].to_vector(), (std::vector<double>{-1, 0.5, 1}));
  EXPECT_ERROR(clip_by_value(tensors, -1), ErrorCode::kInvalidArgument, "limit");
}

TEST(Variable, StandsForItsContent) {
  const Variable v(from_vector({2}, {1, 2}), "v");
  const Tensor before = v;
  v.assign(from_vector({2}, {3, 4}));
  EXPECT_EQ((v + 1.0).to_vector(), (std::vector<double>{4, 5}));
  EXPECT_ERROR(before.to_vector(), ErrorCode::kStale, "variable 'v'");
  EXPECT_ERROR(v.assign(ones({3})), ErrorCode::kShapeMismatch, "(3)");
  EXPECT_ERROR(Variable(Tensor(), "w"), ErrorCode::kInvalidArgument, "'w'");
}

TEST(Variable, CopiesTheInitialContent) {
  const Tensor initial = ones({2});
  const Variable v(initial, "v");
  v.assign(zeros({2}));
  EXPECT_EQ(initial.to_vector(), (std::vector<double>{1, 1}));
}

TEST(Adafactor, KeepsNaNRatherThanLeapingFarAway) {
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    for (const Shape& shape : {Shape{2, 3}, Shape{512, 32}}) {
      const Variable p(ones(shape, dtype), "p");
      std::vector<double> g(static_cast<size_t>(shape.elems()), 1e-3);
      g[0] = std::nan("");
      Adafactor optimizer;
      const Tensor gradient[] = {from_vector(shape, g, dtype)};
      optimizer.apply({&p, 1}, gradient);
      for (const double value : p.tensor().to_vector()) {
        ASSERT_TRUE(std::isnan(value) || std::fabs(value - 1) < 0.1) << value;
      }
    }
  }
}

}  // namespace
}  // namespace isochron::optim
