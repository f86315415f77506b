// Parameter groups, weight decay, clipping, noise and averages.
#include "isochron/optim/step_options.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "isochron/graph/step/captured.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/optim/clipping.h"
#include "isochron/optim/optimizers.h"
#include "support/expect_error.h"
#include "support/near.h"

namespace isochron::optim {
namespace {

bool is_bias(const Variable& parameter) { return parameter.name() == "bias"; }
bool is_head(const Variable& parameter) { return parameter.name() == "head"; }

struct Three {
  Variable kernel{ones({2, 3}), "kernel"};
  Variable bias{ones({3}), "bias"};
  Variable head{ones({3}), "head"};
  std::vector<Variable> parameters() const { return {kernel, bias, head}; }
  std::vector<Tensor> gradients(double value) const {
    return {full({2, 3}, value), full({3}, value), full({3}, value)};
  }
  std::vector<double> firsts() const {
    std::vector<double> result;
    for (const Variable& p : parameters()) result.push_back(p.tensor().to_vector()[0]);
    return result;
  }
};

TEST(ParameterGroups, LearnAtTheirOwnRateAndDecay) {
  Three three;
  Sgd sgd({.learning_rate = 0.5,
           .weight_decay = {.rate = 0.25},
           .step = {.parameter_groups = {{.holds = is_bias, .weight_decay = 0.0},
                                         {.holds = is_head, .learning_rate_factor = 0.5}}}});
  sgd.apply(three.parameters(), three.gradients(1));
  EXPECT_EQ(three.firsts(), (std::vector<double>{1 - 0.125 - 0.5, 1 - 0.5, 1 - 0.0625 - 0.25}));
}

TEST(ParameterGroups, TheFirstThatHoldsAParameterHasIt) {
  Three three;
  const auto any = [](const Variable&) { return true; };
  Sgd sgd({.learning_rate = 1,
           .step = {.parameter_groups = {{.holds = is_bias, .learning_rate_factor = 0},
                                         {.holds = any, .learning_rate_factor = 0.25}}}});
  sgd.apply(three.parameters(), three.gradients(1));
  EXPECT_EQ(three.firsts(), (std::vector<double>{0.75, 1, 0.75}));
}

TEST(ParameterGroups, ScaleTheRateOfEveryOptimizer) {
  // With the same factor f for all parameters, every optimizer moves as with f times the learning rate.
  const auto moved = [](auto options, double factor, double rate) {
    const Variable p(from_vector({2, 2}, {1, -2, 3, 0.5}, DType::kF64), "p");
    const auto any = [](const Variable&) { return true; };
    options.learning_rate = rate;
    options.weight_decay = {.rate = 0.1};
    options.step.parameter_groups = {{.holds = any, .learning_rate_factor = factor}};
    return [p, options](auto make) {
      Optimizer optimizer = make(options);
      for (int i = 1; i <= 5; ++i)
        optimizer.apply(std::vector{p}, std::vector{from_vector({2, 2}, {1.0 * i, -1, 0.5, 2}, DType::kF64)});
      return p.tensor().to_vector();
    };
  };
  const auto expect_same = [&](auto options, auto make) {
    const std::vector<double> grouped = moved(options, 0.25, 0.04)(make);
    const std::vector<double> plain = moved(options, 1, 0.01)(make);
    for (size_t i = 0; i < plain.size(); ++i) EXPECT_NEAR(grouped[i], plain[i], 1e-14);
    EXPECT_NE(plain[0], 1);
  };
  expect_same(SgdOptions{.momentum = 0.9}, [](const auto& o) { return Sgd(o); });
  expect_same(SgdOptions{.momentum = 0.9, .learning_rate_outside_velocity = true},
              [](const auto& o) { return Sgd(o); });
  expect_same(AdamOptions{}, [](const auto& o) { return Adam(o); });
  expect_same(AdamWOptions{}, [](const auto& o) { return AdamW(o); });
  expect_same(RmsPropOptions{.momentum = 0.5}, [](const auto& o) { return RmsProp(o); });
  expect_same(AdagradOptions{}, [](const auto& o) { return Adagrad(o); });
  expect_same(AdadeltaOptions{}, [](const auto& o) { return Adadelta(o); });
  expect_same(AdamaxOptions{}, [](const auto& o) { return Adamax(o); });
  expect_same(NadamOptions{}, [](const auto& o) { return Nadam(o); });
  expect_same(RAdamOptions{}, [](const auto& o) { return RAdam(o); });
  expect_same(LionOptions{}, [](const auto& o) { return Lion(o); });
  expect_same(RpropOptions{}, [](const auto& o) { return Rprop(o); });
  expect_same(AdafactorOptions{}, [](const auto& o) { return Adafactor(o); });
  expect_same(LambOptions{}, [](const auto& o) { return Lamb(o); });
}

TEST(ParameterGroups, WithAFactorOfZeroStandStill) {
  const auto expect_frozen = [](auto options, auto make) {
    const Variable p(from_vector({2, 2}, {1, -2, 3, 0.5}), "p");
    options.learning_rate = 0.125;
    options.step.parameter_groups = {{.holds = [](const Variable&) { return true; }}};
    Optimizer optimizer = make(options);
    const auto after_step = [&] {
      optimizer.apply(std::vector{p}, std::vector{from_vector({2, 2}, {1, -1, 0.5, 2})});
      return p.tensor().to_vector();
    };
    const std::vector<double> before = after_step();
    optimizer.set_learning_rate_factor(0, 0);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(after_step(), before) << optimizer.description()[0];
    optimizer.set_learning_rate_factor(0, 1);
    EXPECT_NE(after_step(), before);
  };
  expect_frozen(SgdOptions{.momentum = 0.5}, [](const auto& o) { return Sgd(o); });
  expect_frozen(SgdOptions{.momentum = 0.5, .nesterov = true}, [](const auto& o) { return Sgd(o); });
  expect_frozen(AdamWOptions{}, [](const auto& o) { return AdamW(o); });
  expect_frozen(RmsPropOptions{.momentum = 0.5}, [](const auto& o) { return RmsProp(o); });
  expect_frozen(NadamOptions{}, [](const auto& o) { return Nadam(o); });
  expect_frozen(LionOptions{}, [](const auto& o) { return Lion(o); });
  expect_frozen(RpropOptions{}, [](const auto& o) { return Rprop(o); });
  expect_frozen(AdafactorOptions{}, [](const auto& o) { return Adafactor(o); });
  expect_frozen(LambOptions{}, [](const auto& o) { return Lamb(o); });
}

TEST(ParameterGroups, KeepRpropsStepSizesWhileTheyStandStill) {
  const Variable p(zeros({1}), "p");
  Rprop rprop({.learning_rate = 0.125,
               .eta_plus = 2,
               .step = {.parameter_groups = {{.holds = [](const Variable&) { return true; }}}}});
  const auto after_step = [&] {
    rprop.apply(std::vector{p}, std::vector{ones({1})});
    return p.tensor().item<float>();
  };
  EXPECT_EQ(after_step(), -0.125);
  rprop.set_learning_rate_factor(0, 0);
  EXPECT_EQ(after_step(), -0.125);
  rprop.set_learning_rate_factor(0, 1);
  EXPECT_EQ(after_step(), -0.375);
}

TEST(Clipping, OfAnOptimizerIsThatOfTheFunctions) {
  const auto expect_same = [](const Clipping& clip, auto function) {
    Three own, by_hand;
    Sgd clipping({.learning_rate = 0.5, .step = {.clip = clip}});
    Sgd plain({.learning_rate = 0.5});
    auto step = capture([&](const Tensor& a, const Tensor& b, const Tensor& c) {
      clipping.apply(own.parameters(), std::vector{a, b, c});
      plain.apply(by_hand.parameters(), function(std::vector{a, b, c}));
    });
    const std::vector<Tensor> g = {full({2, 3}, 3), full({3}, -0.25), full({3}, 0.5)};
    step(g[0], g[1], g[2]);
    for (size_t i = 0; i < 3; ++i)
      EXPECT_TRUE(near(own.parameters()[i], by_hand.parameters()[i].tensor(), 1e-6)) << i;
    EXPECT_NE(own.firsts()[0], 1);
  };
  expect_same({.value = 0.3}, [](const std::vector<Tensor>& g) { return clip_by_value(g, 0.3); });
  expect_same({.norm = 0.6}, [](const std::vector<Tensor>& g) { return clip_by_norm(g, 0.6); });
  expect_same({.global_norm = 2}, [](const std::vector<Tensor>& g) { return clip_by_global_norm(g, 2); });
  expect_same({.global_norm = 100}, [](const std::vector<Tensor>& g) { return g; });
}

TEST(Clipping, ByTheGlobalNormTakesOneMoreKernelAndNoMemory) {
  Three three;
  Adam adam({.step = {.clip = {.global_norm = 1}}});
  auto step = capture([&](const Tensor& a, const Tensor& b, const Tensor& c) {
    adam.apply(three.parameters(), std::vector{a, b, c});
  });
  const std::vector<Tensor> g = three.gradients(1);
  step(g[0], g[1], g[2]);
  EXPECT_LE(step.plan_report().instructions, 3u) << "norm, factor, update";
  EXPECT_LE(step.plan_report().arena_bytes, 256u);
}

/// What plain descent at rate 1 adds to zeros in each of `steps` steps of no gradient.
std::vector<std::vector<double>> noise_of(const GradientNoise& noise, int steps, bool captured) {
  const Variable p(zeros({40, 50}, DType::kF64), "p");
  Sgd sgd({.learning_rate = 1, .step = {.noise = noise}});
  const auto update = [&](const Tensor& g) { sgd.apply(std::vector{p}, std::vector{g}); };
  auto step = capture(update);
  std::vector<std::vector<double>> result;
  for (int i = 0; i < steps; ++i) {
    p.assign(zeros({40, 50}, DType::kF64));
    captured ? step(zeros({40, 50}, DType::kF64)) : update(zeros({40, 50}, DType::kF64));
    result.push_back(p.tensor().to_vector());
  }
  return result;
}

TEST(GradientNoise, IsNormalAndAnneals) {
  const auto noise = noise_of({.eta = 0.3, .gamma = 0.55, .seed = 5}, 40, true);
  for (const int t : {0, 1, 9, 39}) {
    double sum = 0, squares = 0;
    for (const double x : noise[static_cast<size_t>(t)]) {
      sum += x;
      squares += x * x;
    }
    const double variance = 0.3 / std::pow(1 + t, 0.55);
    EXPECT_NEAR(squares / 2000, variance, 0.12 * variance) << t;
    EXPECT_NEAR(sum / 2000, 0, 4 * std::sqrt(variance / 2000)) << t;
  }
  EXPECT_NE(noise[0][0] / noise[0][1], noise[1][0] / noise[1][1]) << "drawn anew each step";
}

TEST(GradientNoise, IsAFunctionOfSeedAndStep) {
  const auto first = noise_of({.eta = 0.3, .seed = 5}, 3, true);
  EXPECT_EQ(noise_of({.eta = 0.3, .seed = 5}, 3, true), first);
  EXPECT_EQ(noise_of({.eta = 0.3, .seed = 5}, 3, false), first) << "eager";
  EXPECT_NE(noise_of({.eta = 0.3, .seed = 6}, 3, true), first);
  EXPECT_EQ(noise_of({}, 1, true)[0], std::vector<double>(2000, 0)) << "off by default";
}

TEST(ParameterGroups, TheirRatesMayChange) {
  for (const bool captured : {false, true}) {
    const Variable p(zeros({1}, DType::kF64), "p"), bias(zeros({1}, DType::kF64), "bias");
    const auto is_bias = [](const Variable& parameter) { return parameter.name() == "bias"; };
    Sgd sgd(
        {.learning_rate = 1, .step = {.parameter_groups = {{.holds = is_bias, .learning_rate_factor = 2}}}});
    const auto apply = [&] {
      const Tensor g = ones({1}, DType::kF64);
      sgd.apply(std::vector{p, bias}, std::vector{g, g});
    };
    auto step = capture(apply);
    const auto update = [&] { captured ? step() : apply(); };
    update();
    sgd.set_learning_rate_factor(0, 10);
    update();
    EXPECT_EQ(p.tensor().item<double>(), -2);
    EXPECT_EQ(bias.tensor().item<double>(), -12);
    EXPECT_ERROR(sgd.set_learning_rate_factor(1, 1), ErrorCode::kOutOfRange, "no parameter group 1");
    EXPECT_ERROR(sgd.set_learning_rate_factor(0, -1), ErrorCode::kInvalidArgument, "must be finite");
  }
}

TEST(AveragedWeights, BeforeTheFirstStepAreTheParameters) {
  const Variable p(ones({1}), "p");
  Sgd sgd({.learning_rate = 1, .step = {.ema_decay = 0.5}});
  { const AveragedWeights none(sgd); }
  sgd.apply(std::vector{p}, std::vector{ones({1})});
  EXPECT_EQ(p.tensor().item<float>(), 0);
  {
    AveragedWeights averages(sgd);
    EXPECT_ERROR(sgd.state(), ErrorCode::kInvalidArgument, "end their scope first");
    const Variable q(ones({1}), "q");
    EXPECT_ERROR(sgd.prepare(std::vector{p, q}), ErrorCode::kInvalidArgument,
                 "parameters can't be added while");
    EXPECT_EQ(sgd.parameters().size(), 1u);
    averages.keep();
    EXPECT_EQ(sgd.state().size(), 3u);
  }
  { const AveragedWeights again(sgd); }
}

TEST(LossScales, RowsOfOneProcessDontDivideGradients) {
  for (const double scale : {0.0, 4.0}) {
    const Variable p(zeros({1}), "p");
    Sgd sgd({.learning_rate = 1, .step = {.loss_scale = {.initial = scale}}});
    auto step = capture([&] { sgd.minimize(sum(p * 8.0), std::vector{p}, scalar(8, DType::kF64)); });
    step();
    EXPECT_EQ(p.tensor().item<float>(), -8) << scale;
  }
}

TEST(AveragedWeights, StandInForTheParametersWhileTheyLive) {
  const Variable p(zeros({2}, DType::kF64), "p");
  Sgd sgd({.learning_rate = 1, .step = {.ema_decay = 0.75}});
  auto step = capture([&](const Tensor& g) { sgd.apply(std::vector{p}, std::vector{g}); });
  auto evaluate = capture([&](const Tensor& x) { return p.tensor() * x; });
  const Tensor one = ones({2}, DType::kF64);
  for (int i = 0; i < 3; ++i) step(one);  // p: -1, -2, -3; average: -1, -1.25, -1.6875
  EXPECT_EQ(evaluate(one).to_vector()[1], -3);
  {
    const AveragedWeights averages(sgd);
    EXPECT_EQ(evaluate(one).to_vector()[1], -1.6875);
    EXPECT_EQ(p.tensor().to_vector()[0], -1.6875);
  }
  EXPECT_EQ(evaluate(one).to_vector()[1], -3);
  step(one);
  const double average = 0.75 * -1.6875 + 0.25 * -4;
  EXPECT_EQ(sgd.state().back().tensor().to_vector()[0], average);
  {
    AveragedWeights kept(sgd);
    kept.keep();
    EXPECT_EQ(sgd.state().back().tensor().to_vector()[0], average);
  }
  EXPECT_EQ(p.tensor().to_vector()[0], average);
  step(one);
  EXPECT_EQ(p.tensor().to_vector()[0], average - 1) << "training goes on from there";
  Sgd without;
  EXPECT_ERROR(AveragedWeights(without), ErrorCode::kInvalidArgument, "ema_decay");
}

TEST(OptimizerState, NamesAreUniqueAndAllOfItIsThereBeforeTheFirstStep) {
  const std::vector<Variable> parameters = {Variable(ones({2, 3}), "p"), Variable(ones({3}), "p"),
                                            Variable(ones({3}), "q")};
  Adam adam({.step = {.accumulate = 2, .loss_scale = LossScale::dynamic(), .ema_decay = 0.9}});
  EXPECT_EQ(adam.state_bytes(), 0u);
  adam.prepare(parameters);
  const std::vector<Variable> state = adam.state();
  std::set<std::string> names;
  for (const Variable& variable : state) names.insert(variable.name());
  EXPECT_EQ(names.size(), state.size());
  EXPECT_EQ(state.size(), 2u + 3 + 3 + 2 + 3 * 4);
  EXPECT_EQ(adam.state_bytes(), 4 * 12 * sizeof(float));
  EXPECT_EQ(adam.parameters(), parameters);
  adam.apply(parameters, std::vector{ones({2, 3}), ones({3}), ones({3})});
  EXPECT_EQ(adam.state(), state);
}

TEST(OptimizerState, NamesFollowThoseOfTheParameters) {
  const std::vector<Variable> parameters = {Variable(ones({2}), "p"), Variable(ones({2}), "p")};
  Sgd sgd({.momentum = 0.9, .step = {.ema_decay = 0.9, .keep_gradients = true}});
  sgd.prepare(parameters);
  const auto last_names = [&] {
    std::vector<std::string> names;
    for (const Variable& variable : sgd.state()) names.push_back(variable.name());
    return std::vector(names.end() - 4, names.end());
  };
  EXPECT_EQ(last_names(),
            (std::vector<std::string>{"p/velocity", "p/average", "p_2/velocity", "p_2/average"}));
  parameters[0].rename("block/p");  // as a module does when its parameters are listed
  EXPECT_EQ(last_names(),
            (std::vector<std::string>{"block/p/velocity", "block/p/average", "p/velocity", "p/average"}));
  EXPECT_EQ(sgd.kept_gradients()[0].name(), "block/p");
}

TEST(OptimizerState, ContinuesARunBitForBit) {
  const StepOptions options{.accumulate = 2,
                            .loss_scale = {.initial = 1024, .growth_interval = 2},
                            .noise = {.eta = 0.1},
                            .ema_decay = 0.9};
  const auto run = [&](const Variable& p, Optimizer& optimizer, int begin, int end) {
    auto step =
        capture([&](const Tensor& g) { optimizer.apply(std::vector{p}, std::vector{optimizer.scaled(g)}); });
    for (int i = begin; i < end; ++i) step(full({3}, std::sin(i)));
  };
  const auto make = [&] { return Nadam({.learning_rate = cosine(0.1, 8), .step = options}); };
  const Variable whole(ones({3}), "p");
  Optimizer throughout = make();
  run(whole, throughout, 0, 15);
  const Variable p(ones({3}), "p"), q(zeros({3}), "p");
  Optimizer before = make(), after = make();
  run(p, before, 0, 7);
  after.prepare(std::vector{q});
  q.assign(p);
  for (size_t i = 0; i < before.state().size(); ++i) after.state()[i].assign(before.state()[i]);
  run(q, after, 7, 15);
  EXPECT_EQ(q.tensor().to_vector(), whole.tensor().to_vector());
  for (size_t i = 0; i < after.state().size(); ++i) {
    EXPECT_EQ(after.state()[i].tensor().to_vector(), throughout.state()[i].tensor().to_vector())
        << after.state()[i].name();
  }
}

TEST(OptimizerState, BytesOfEachKind) {
  const Variable matrix(ones({30, 20}), "matrix"), vector(ones({20}), "vector");
  const auto bytes = [&](Optimizer optimizer) {
    optimizer.prepare(std::vector{matrix, vector});
    return optimizer.state_bytes() / sizeof(float);
  };
  EXPECT_EQ(bytes(Sgd()), 0u);
  EXPECT_EQ(bytes(Sgd({.momentum = 0.9})), 620u);
  EXPECT_EQ(bytes(Adam()), 2 * 620u);
  EXPECT_EQ(bytes(Adam({.amsgrad = true})), 3 * 620u);
  EXPECT_EQ(bytes(RmsProp()), 620u);
  EXPECT_EQ(bytes(Adagrad()), 620u);
  EXPECT_EQ(bytes(Adadelta()), 2 * 620u);
  EXPECT_EQ(bytes(Adamax()), 2 * 620u);
  EXPECT_EQ(bytes(Nadam()), 2 * 620u);
  EXPECT_EQ(bytes(Lion()), 620u);
  EXPECT_EQ(bytes(Rprop()), 2 * 620u);
  EXPECT_EQ(bytes(Lamb()), 2 * 620u);
  EXPECT_EQ(bytes(Adafactor()), 30u + 20 + 20);
}

TEST(StepOptions, RejectsWrongOnes) {
  EXPECT_ERROR(Sgd({.step = {.clip = {.value = 1, .norm = 1}}}), ErrorCode::kInvalidArgument,
               "at most one option of Clipping");
  EXPECT_ERROR(Sgd({.step = {.clip = {.norm = -1}}}), ErrorCode::kInvalidArgument, "clipping limit");
  EXPECT_ERROR(Sgd({.step = {.noise = {.eta = -1}}}), ErrorCode::kInvalidArgument, "eta");
  EXPECT_ERROR(Sgd({.step = {.ema_decay = 1}}), ErrorCode::kInvalidArgument, "ema_decay");
  EXPECT_ERROR(Sgd({.step = {.parameter_groups = {{}}}}), ErrorCode::kInvalidArgument, "holds");
  EXPECT_ERROR(Sgd({.step = {.parameter_groups = {{.holds = is_bias, .learning_rate_factor = -1}}}}),
               ErrorCode::kInvalidArgument, "factor");
  EXPECT_ERROR(Sgd({.weight_decay = {.rate = -1}}), ErrorCode::kInvalidArgument, "weight decay");
  EXPECT_ERROR(Adafactor({.clip_threshold = 0}), ErrorCode::kInvalidArgument, "clip_threshold");
  EXPECT_ERROR(Adagrad({.initial_square_sum = -1}), ErrorCode::kInvalidArgument, "initial_square_sum");
  EXPECT_ERROR(Rprop({.eta_minus = 1}), ErrorCode::kInvalidArgument, "0 < eta_minus < 1 < eta_plus");
  EXPECT_ERROR(Rprop({.eta_plus = 1}), ErrorCode::kInvalidArgument, "0 < eta_minus < 1 < eta_plus");
  EXPECT_ERROR(Rprop({.min_step = 0}), ErrorCode::kInvalidArgument, "0 < min_step <= max_step");
  EXPECT_ERROR(Rprop({.min_step = 2, .max_step = 1}), ErrorCode::kInvalidArgument, "got 2 and 1");
}

TEST(KeptGradients, AreThoseOfTheNewestStepUnscaledAndUnclipped) {
  Three three;
  Sgd sgd({.learning_rate = 0.5,
           .step = {.loss_scale = LossScale::fixed(8), .clip = {.value = 0.25}, .keep_gradients = true}});
  EXPECT_TRUE(sgd.kept_gradients().empty());
  const size_t saved = (sgd.prepare(three.parameters()), sgd.state().size());
  for (const double gradient : {1.0, 3.0}) sgd.apply(three.parameters(), three.gradients(8 * gradient));
  const std::vector<Variable> kept = sgd.kept_gradients();
  ASSERT_EQ(kept.size(), 3u);
  EXPECT_EQ(kept[0].name(), "kernel");
  EXPECT_EQ(kept[0].tensor().to_vector(), std::vector<double>(6, 3));
  EXPECT_EQ(sgd.state().size(), saved) << "no checkpoint holds them";
  Sgd without({.learning_rate = 0.5});
  without.apply(three.parameters(), three.gradients(1));
  EXPECT_TRUE(without.kept_gradients().empty());
}

TEST(KeptGradients, OfACapturedStepAndItsLastMicroBatch) {
  const Variable weight(ones({3}), "weight");
  Sgd sgd({.learning_rate = 0.5, .step = {.accumulate = 2, .keep_gradients = true}});
  auto step = capture([&](const Tensor& x) {
    const Tensor loss = sum(weight.tensor() * x);
    sgd.minimize(loss, {&weight, 1});
    return loss;
  });
  for (const double x : {1.0, 2.0, 5.0}) {
    step(full({3}, x));
    EXPECT_EQ(sgd.kept_gradients()[0].tensor().to_vector(), std::vector<double>(3, x));
  }
}

}  // namespace
}  // namespace isochron::optim
