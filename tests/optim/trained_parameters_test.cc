// Which parameters a step trains: exactly those that the loss depends on and the optimizer was given, unless
// an option says otherwise.
#include <gmock/gmock.h>

#include "isochron/autograd/autograd.h"
#include "isochron/graph/step/captured.h"
#include "isochron/ops/control/control.h"
#include "isochron/ops/control/scan.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"
#include "isochron/optim/optimizers.h"
#include "support/expect_error.h"
#include "support/near.h"

namespace isochron::optim {
namespace {

using testing::Each;
using testing::ElementsAre;

/// A body and two heads, f32 (2) each.
struct Heads {
  Variable body{from_vector({2}, {1, 2}), "body"};
  Variable left{from_vector({2}, {3, 4}), "left"};
  Variable right{from_vector({2}, {5, 6}), "right"};
  std::vector<Variable> all() const { return {body, left, right}; }
  Tensor loss_of(const Variable& head, const Tensor& x) const { return sum(square(body * x * head)); }
};

const Tensor kInput = from_vector({2}, {0.5, -1});

/// minimize(loss(heads), given) in a capture and under a tape. Returns the error, which must be the same for
/// both; empty if there is none. After an error, nothing may have changed.
std::string trained_names(const std::function<Tensor(const Heads&)>& loss,
                          const std::function<std::vector<Variable>(const Heads&)>& given,
                          const StepOptions& options = {}) {
  std::string errors[2];
  for (const bool captured : {false, true}) {
    const Heads heads, untouched;
    Sgd sgd({.learning_rate = 0.1, .step = options});
    const auto step = [&](const Tensor&) {
      const GradientTape tape;
      sgd.minimize(loss(heads), given(heads));
    };
    try {
      if (captured) {
        capture(step)(kInput);
      } else {
        step(kInput);
      }
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      errors[captured] = error.what();
      for (size_t i = 0; i < 3; ++i)
        EXPECT_EQ(heads.all()[i].tensor().to_vector(), untouched.all()[i].tensor().to_vector());
      EXPECT_EQ(sgd.step_count(), 0);
    }
  }
  EXPECT_EQ(errors[0], errors[1]);
  return errors[1];
}

std::vector<Variable> body_alone(const Heads& heads) { return {heads.body}; }

TEST(TrainedParameters, ForgottenOnesAreNamed) {
  const auto both = [](const Heads& h) { return h.loss_of(h.left, kInput) + h.loss_of(h.right, kInput); };
  EXPECT_THAT(
      trained_names(both, body_alone),
      testing::StartsWith("[minimize] the loss also trains 2 variables that the 1 parameters given leave "
                          "out: 'left', 'right';"));
  EXPECT_EQ(trained_names(both, [](const Heads& h) { return h.all(); }), "");
  EXPECT_EQ(trained_names(both, body_alone, {.allow_untrained = true}), "");
  EXPECT_THAT(trained_names([](const Heads& h) { return h.loss_of(h.left, kInput); }, body_alone),
              testing::AllOf(testing::HasSubstr("'left'"), testing::Not(testing::HasSubstr("'right'"))));
}

TEST(TrainedParameters, OfManyForgottenOnesEightAreNamed) {
  for (const int count : {8, 9, 10}) {
    const Heads heads;
    std::vector<Variable> others;
    for (int i = 0; i < count; ++i) others.emplace_back(ones({2}), fmt::format("head{}", i));
    const auto step = [&](const Tensor& x) {
      const GradientTape tape;
      Tensor loss = sum(heads.body * x);
      for (const Variable& other : others) loss = loss + sum(other * x);
      Sgd().minimize(loss, std::vector{heads.body});
    };
    std::string named;
    try {
      step(kInput);
    } catch (const Error& error) {
      named = error.what();
    }
    EXPECT_THAT(named, testing::HasSubstr(fmt::format("also trains {} variables", count)));
    EXPECT_EQ(named.find(" more;") != std::string::npos, count > 8) << named;
    if (count > 8) {
      EXPECT_THAT(named, testing::HasSubstr(fmt::format(" and {} more;", count - 8)));
    }
    int shown = 0;
    for (int i = 0; i < count; ++i) shown += named.find(fmt::format("'head{}'", i)) != std::string::npos;
    EXPECT_EQ(shown, 8) << named;
  }
}

TEST(TrainedParameters, ForgottenOnesAreNamedAfterTheirUpdateToo) {
  const Heads heads;
  Sgd first, second;
  const auto step = [&](const Tensor& x) {
    const GradientTape tape(true);
    first.minimize(heads.loss_of(heads.left, x), std::vector{heads.body, heads.left});
    second.minimize(heads.loss_of(heads.left, x), std::vector{heads.body});
  };
  EXPECT_ERROR(step(kInput), ErrorCode::kInvalidArgument, "leave out: 'left';");
  EXPECT_ERROR(capture(step)(kInput), ErrorCode::kInvalidArgument, "leave out: 'left';");
}

TEST(TrainedParameters, AreFoundThroughViewsLoopsAndBranches) {
  const auto named = testing::HasSubstr("leave out: 'left';");
  EXPECT_THAT(trained_names(
                  [](const Heads& h) {
                    return sum(reshape(h.left, {2, 1}) * h.body);
                  },
                  body_alone),
              named);
  EXPECT_THAT(trained_names(
                  [](const Heads& h) {
                    const auto body = [&](std::span<const Tensor> state, std::span<const Tensor>) {
                      return ScanStep{{state[0] * h.left}};
                    };
                    return sum(scan(body, {h.body}, {}, {.steps = 2}).state[0]);
                  },
                  body_alone),
              named);
  EXPECT_THAT(trained_names(
                  [](const Heads& h) {
                    return sum(cond(
                        greater(sum(h.body.tensor()), scalar(0)), [&] { return h.body * h.left; },
                        [&] { return h.body * 2.0; }));
                  },
                  body_alone),
              named);
}

TEST(TrainedParameters, OthersThanTrainableOnesWithAGradientDontCount) {
  EXPECT_EQ(trained_names([](const Heads& h) { return sum(h.body * stop_gradient(h.left)); }, body_alone),
            "");
  EXPECT_EQ(trained_names([](const Heads& h) { return sum(h.body * floor(h.left)); }, body_alone), "");
  EXPECT_EQ(
      trained_names([](const Heads& h) { return sum(h.body * cast(greater(h.left, h.right), DType::kF32)); },
                    body_alone),
      "");
  EXPECT_EQ(trained_names(
                [](const Heads& h) {
                  const auto body = [&](std::span<const Tensor> state, std::span<const Tensor>) {
                    return ScanStep{{state[0] * stop_gradient(h.left)}};
                  };
                  return sum(scan(body, {h.body}, {}, {.steps = 2}).state[0]);
                },
                body_alone),
            "")
      << "stopped within a loop's body";
  const auto stopped_scan = [](const Heads& h) {
    const auto body = [&](std::span<const Tensor> state, std::span<const Tensor>) {
      return ScanStep{{state[0] * stop_gradient(h.left)}};
    };
    return sum(scan(body, {h.body}, {}, {.steps = 2}).state[0]);
  };
  EXPECT_THAT(trained_names(stopped_scan,
                            [](const Heads& h) {
                              return std::vector{h.body, h.left};
                            }),
              testing::HasSubstr("doesn't depend on parameter 'left'"));
  EXPECT_EQ(trained_names(
                [](const Heads& h) {
                  h.left.set_trainable(false);
                  return h.loss_of(h.left, kInput);
                },
                body_alone),
            "");
  EXPECT_EQ(trained_names([](const Heads& h) { return sum(h.body * kInput); }, body_alone), "")
      << "data are no variables";
}

TEST(TrainedParameters, UnusedOnesAreAnErrorUnlessAllowed) {
  const auto left = [](const Heads& h) { return h.loss_of(h.left, kInput); };
  const auto all = [](const Heads& h) { return h.all(); };
  EXPECT_THAT(trained_names(left, all),
              testing::AllOf(testing::HasSubstr("doesn't depend on parameter 'right'"),
                             testing::HasSubstr("allow_unused")));
  EXPECT_EQ(trained_names(left, all, {.allow_unused = true}), "");
  const auto right_alone = [](const Heads& h) { return std::vector{h.right}; };
  EXPECT_THAT(trained_names(left, right_alone, {.allow_untrained = true, .allow_unused = true}),
              testing::HasSubstr("depends on none of the 1 trainable parameters"));
}

TEST(TrainedParameters, UnusedOnesStayAsTheyAre) {
  Heads heads, without;
  const StepOptions options{.ema_decay = 0.5, .allow_unused = true, .keep_gradients = true};
  AdamW adam({.learning_rate = 0.1, .weight_decay = {.rate = 0.5}, .step = options});
  AdamW alone({.learning_rate = 0.1, .weight_decay = {.rate = 0.5}});
  const auto step = [](Heads& h, AdamW& optimizer, const std::vector<Variable>& parameters) {
    return capture([&h, &optimizer, parameters](const Tensor& x) {
      optimizer.minimize(h.loss_of(h.left, x), parameters);
    });
  };
  auto all = step(heads, adam, heads.all());
  auto two = step(without, alone, {without.body, without.left});
  for (int i = 0; i < 5; ++i) {
    all(kInput);
    two(kInput);
  }
  EXPECT_EQ(heads.body.tensor().to_vector(), without.body.tensor().to_vector());
  EXPECT_EQ(heads.left.tensor().to_vector(), without.left.tensor().to_vector());
  EXPECT_THAT(heads.right.tensor().to_vector(), ElementsAre(5, 6)) << "no decay either";
  EXPECT_THAT(adam.kept_gradients()[2].tensor().to_vector(), ElementsAre(0, 0));
  const AveragedWeights averages(adam);
  EXPECT_THAT(heads.right.tensor().to_vector(), ElementsAre(5, 6));
}

TEST(TrainedParameters, HeadsMayTakeTurns) {
  Heads heads;
  Sgd sgd({.learning_rate = 0.5, .step = {.ema_decay = 0.5, .allow_unused = true, .keep_gradients = true}});
  const auto train = [&](const Variable& head) {
    return capture([&, head](const Tensor& x) {
      sgd.minimize(sum(head * x), std::vector{heads.left, heads.right});
    });
  };
  auto left = train(heads.left), right = train(heads.right);
  left(kInput);
  right(kInput);
  left(kInput);
  EXPECT_THAT(heads.left.tensor().to_vector(), ElementsAre(2.5, 5));
  EXPECT_THAT(heads.right.tensor().to_vector(), ElementsAre(4.75, 6.5));
  EXPECT_THAT(sgd.kept_gradients()[0].tensor().to_vector(), ElementsAre(0.5, -1));
  EXPECT_THAT(sgd.kept_gradients()[1].tensor().to_vector(), ElementsAre(0, 0)) << "of the step before";
  const AveragedWeights averages(sgd);  // each step: half of the old average and half of the parameter
  EXPECT_THAT(heads.left.tensor().to_vector(), ElementsAre(2.625, 4.75));
  EXPECT_THAT(heads.right.tensor().to_vector(), ElementsAre(4.8125, 6.375));
}

TEST(TrainedParameters, AveragesOfThoseThatAreFrozenLaterGoOn) {
  for (const int64_t accumulate : {1, 2}) {
    for (const bool captured : {false, true}) {
      const Variable p(zeros({1}, DType::kF64), "p"), q(zeros({1}, DType::kF64), "q");
      Sgd sgd({.learning_rate = 1, .step = {.accumulate = accumulate, .ema_decay = 0.5}});
      const Tensor one = ones({1}, DType::kF64);
      const auto update = [&](int times) {
        const auto apply = [&](const Tensor& g) { sgd.apply(std::vector{p, q}, std::vector{g, g}); };
        auto step = capture(apply);
        for (int i = 0; i < times * accumulate; ++i) {
          if (captured) {
            step(one);
          } else {
            apply(one);
          }
        }
      };
      update(2);  // both: -1, -2; averages: -1, -1.5
      q.set_trainable(false);
      update(2);
      const AveragedWeights averages(sgd);
      EXPECT_EQ(p.tensor().item<double>(), 0.5 * (0.5 * -1.5 + 0.5 * -3) + 0.5 * -4);
      EXPECT_EQ(q.tensor().item<double>(), 0.5 * (0.5 * -1.5 + 0.5 * -2) + 0.5 * -2);
    }
  }
}

TEST(TrainedParameters, OfMicroBatchesThatUseDifferentHeadsAreAllUpdated) {
  Heads heads;
  Sgd sgd({.learning_rate = 1, .step = {.accumulate = 2, .allow_unused = true}});
  const auto micro_batch = [&](const Variable& head) {
    return capture([&, head](const Tensor& x) {
      sgd.minimize(sum(head * x), std::vector{heads.left, heads.right});
    });
  };
  auto left = micro_batch(heads.left), right = micro_batch(heads.right);
  for (int group = 1; group <= 2; ++group) {
    left(kInput);
    right(kInput);
    EXPECT_THAT(heads.left.tensor().to_vector(), ElementsAre(3 - 0.25 * group, 4 + 0.5 * group));
    EXPECT_THAT(heads.right.tensor().to_vector(), ElementsAre(5 - 0.25 * group, 6 + 0.5 * group));
  }
}

TEST(TrainedParameters, GroupsAndFiltersMustHoldForSome) {
  const Heads heads;
  const auto gradients_of = [](const std::vector<Variable>& parameters) {
    return std::vector<Tensor>(parameters.size(), ones({2}));
  };
  const auto named = [](std::string name) { return [name](const Variable& p) { return p.name() == name; }; };
  Sgd misspelt({.step = {.parameter_groups = {{.holds = named("left")}, {.holds = named("rigth")}}}});
  EXPECT_ERROR(misspelt.apply(heads.all(), gradients_of(heads.all())), ErrorCode::kInvalidArgument,
               "parameter group 1 holds none of the 3 parameters (the first is 'body'); fix");
  Sgd hidden({.step = {.parameter_groups = {{.holds = named("left")}, {.holds = named("left")}}}});
  EXPECT_ERROR(hidden.prepare(heads.all()), ErrorCode::kInvalidArgument, "earlier groups already hold all");
  AdamW decay({.weight_decay = {.rate = 0.1, .applies = named("kernel")}});
  EXPECT_ERROR(decay.prepare(heads.all()), ErrorCode::kInvalidArgument,
               "applies to none of the 3 parameters");
  EXPECT_EQ(decay.state_bytes(), 0u);
  Sgd good({.weight_decay = {.rate = 0.1, .applies = named("body")},
            .step = {.parameter_groups = {{.holds = named("right")}}}});
  heads.right.set_trainable(false);
  good.apply(heads.all(), gradients_of(heads.all()));  // that of a frozen one holds something too
  EXPECT_EQ(good.step_count(), 1);
}

TEST(TrainedParameters, BehindACapturedFunctionNeedTheirStepInside) {
  const Variable w(ones({3, 1}), "w");
  auto forward = capture([&](const Tensor& x) { return matmul(x, w); });
  Sgd sgd;
  GradientTape tape;
  const Tensor loss = mean(square(forward(ones({2, 3}))));
  EXPECT_ERROR(
      sgd.minimize(loss, std::vector{w}), ErrorCode::kInvalidArgument,
      "parameter 'w' has no gradient: the loss is computed from a result that the next call of captured "
      "'step' replaces, and a GradientTape doesn't see into captured functions");
}

}  // namespace
}  // namespace isochron::optim
