// Parameters that miss updates, frozen or without a gradient: rules that correct the bias of their states by
// the count of updates use the count of the parameter's own, as PyTorch does.
#include "isochron/optim/participation.h"

#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "isochron/autograd/autograd.h"
#include "isochron/graph/step/captured.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/indexing/embedding.h"
#include "isochron/ops/optimizer/update_rule.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/optim/optimizers.h"
#include "support/expect_error.h"

namespace isochron::optim {
namespace {

using testing::ElementsAreArray;

/// Of the kind that a test makes several times.
using Make = std::function<Optimizer()>;

const Tensor kGradient = from_vector({2, 2}, {0.5, -1, 0.25, 3});

Variable weight(const char* name) { return {from_vector({2, 2}, {1, 2, -3, 4}), name}; }

/// `weight` after `updates` updates along kGradient.
std::vector<double> alone(const Make& make, int updates) {
  const Variable parameter = weight("alone");
  Optimizer optimizer = make();
  for (int i = 0; i < updates; ++i) optimizer.apply(std::vector{parameter}, std::vector{kGradient});
  return parameter.tensor().to_vector();
}

/// Parameters that one optimizer updates, each by a letter, and a captured step for each set of letters.
class Letters {
 public:
  Letters(std::string_view letters, const Make& make) : optimizer(make()) {
    for (const char letter : letters) parameters.push_back(weight(std::string(1, letter).c_str()));
    optimizer.prepare(parameters);
  }

  std::vector<Variable> of(const std::string& letters) const {
    std::vector<Variable> result;
    for (const Variable& parameter : parameters) {
      if (letters.find(parameter.name()) != std::string::npos) result.push_back(parameter);
    }
    return result;
  }
  void apply(const std::string& letters) {
    const std::vector<Variable> some = of(letters);
    optimizer.apply(some, std::vector<Tensor>(some.size(), kGradient));
    for (const Variable& parameter : some) ++updates[parameter.name()];
  }
  /// The updates of `groups`, which are separated by spaces: all in a captured step, made at the first call.
  void step(const std::string& groups) {
    const auto update = [this, groups] {
      size_t begin = 0;
      for (size_t end = 0; end < groups.size(); begin = end + 1) {
        end = std::min(groups.find(' ', begin), groups.size());
        apply(groups.substr(begin, end - begin));
      }
    };
    auto& step = steps.try_emplace(groups, std::function<void()>(update), CaptureOptions()).first->second;
    const auto before = updates;
    step();
    updates = before;
    for (const char letter : groups) {
      if (letter != ' ') ++updates[std::string(1, letter)];
    }
  }
  void expect_own_counts(const Make& make) const {
    for (const Variable& parameter : parameters) {
      EXPECT_THAT(parameter.tensor().to_vector(),
                  ElementsAreArray(
                      alone(make, updates.contains(parameter.name()) ? updates.at(parameter.name()) : 0)))
          << parameter.name();
    }
  }

  Optimizer optimizer;
  std::vector<Variable> parameters;
  std::map<std::string, int> updates;
  std::map<std::string, Captured<std::function<void()>>> steps;
};

std::vector<std::pair<const char*, Make>> rules() {
  return {{"adam", [] { return Adam({.learning_rate = 0.1}); }},
          {"amsgrad", [] { return Adam({.learning_rate = 0.1, .amsgrad = true}); }},
          {"adamw", [] { return AdamW({.learning_rate = 0.1, .weight_decay = {0.1}}); }},
          {"adamax", [] { return Adamax({.learning_rate = 0.1}); }},
          {"nadam", [] { return Nadam({.learning_rate = 0.1}); }},
          {"radam", [] { return RAdam({.learning_rate = 0.1}); }},
          {"lamb", [] { return Lamb({.learning_rate = 0.1}); }},
          {"adafactor", [] { return Adafactor({.learning_rate = 0.1}); }},
          {"sgd", [] { return Sgd({.learning_rate = 0.1, .momentum = 0.9}); }},
          {"rmsprop", [] { return RmsProp({.learning_rate = 0.1}); }}};
}

TEST(Participation, DontCountForTheParametersThatMissThem) {
  for (const auto& [name, make] : rules()) {
    for (const bool captured : {false, true}) {
      SCOPED_TRACE(fmt::format("{}{}", name, captured ? ", captured" : ""));
      Letters all("pqr", make);
      for (const char* letters : {"pqr", "pq", "pq", "p", "pqr", "qr", "r", "pqr", "pqr"})
        captured ? all.step(letters) : all.apply(letters);
      all.expect_own_counts(make);
      EXPECT_EQ(all.optimizer.step_count(), 9);
    }
  }
}

TEST(Participation, OfFrozenParametersDontCount) {
  const Make make = [] { return Adam({.learning_rate = 0.1}); };
  const Variable p = weight("p"), q = weight("q");
  Optimizer optimizer = make();
  auto step = capture([&] { optimizer.apply(std::vector{p, q}, std::vector{kGradient, kGradient}); });
  const auto update = [&](bool trainable, int times) {
    q.set_trainable(trainable);
    for (int i = 0; i < times; ++i) step();
  };
  update(true, 2);
  update(false, 40);
  update(true, 2);
  update(false, 3);
  update(true, 1);
  EXPECT_THAT(p.tensor().to_vector(), ElementsAreArray(alone(make, 48)));
  EXPECT_THAT(q.tensor().to_vector(), ElementsAreArray(alone(make, 5)));
  EXPECT_LE(step.traces().size(), 4u) << "once both groups are known, plans of before serve again";
}

TEST(Participation, MayComeLaterInTheSameStep) {
  const Make make = [] { return Adam({.learning_rate = 0.1}); };
  Letters all("pqr", make);
  for (int i = 0; i < 3; ++i) all.step("pqr pq p");
  all.step("pqr");
  for (int i = 0; i < 2; ++i) all.step("r pqr pr");
  all.expect_own_counts(make);
}

TEST(Participation, MixCapturedAndEagerSteps) {
  const Make make = [] { return Nadam({.learning_rate = 0.1}); };
  Letters all("pqr", make);
  all.step("pqr");
  all.apply("pq");
  all.step("pqr");
  all.apply("r");
  all.step("pqr");
  all.step("pq");
  all.apply("pqr");
  all.expect_own_counts(make);
}

TEST(Participation, AreRestored) {
  const Make make = [] { return Adam({.learning_rate = 0.1}); };
  for (const bool traced_before : {false, true}) {
    Letters first("pq", make), second("pq", make);
    for (const char* letters : {"pq", "p", "p", "pq"}) first.step(letters);
    if (traced_before) second.step("pq");
    const auto copy = [](const std::vector<Variable>& from, const std::vector<Variable>& to) {
      ASSERT_EQ(from.size(), to.size());
      for (size_t i = 0; i < from.size(); ++i) to[i].assign(from[i].tensor());
    };
    copy(first.parameters, second.parameters);
    copy(first.optimizer.state(), second.optimizer.state());
    second.updates = first.updates;
    second.step("pq");
    second.step("q");
    second.step("pq");
    second.expect_own_counts(make);
  }
}

TEST(Participation, OfAnOptimizerThatMissedNoneCostNothing) {
  const auto instructions = [](const Make& make) {
    Letters all("pq", make);
    all.step("pq");
    return all.steps.at("pq").plan_report().instructions;
  };
  EXPECT_EQ(instructions([] { return Adam(); }), instructions([] { return RmsProp(); }));
}

TEST(Participation, GoWithScheduleScaleAndAccumulation) {
  constexpr int64_t kMicroBatches = 2;
  const StepOptions options{.accumulate = kMicroBatches, .loss_scale = {.initial = 4}};
  const Schedule schedule = cosine(0.1, 20);
  const auto train = [](Optimizer& optimizer, const std::vector<Variable>& parameters, bool finite) {
    const double factor = finite ? 1 : std::numeric_limits<double>::infinity();
    const GradientTape tape;
    Tensor loss = scalar(0);
    for (const Variable& parameter : parameters) loss = loss + sum(parameter * kGradient) * factor;
    optimizer.minimize(loss, parameters);
  };
  const Variable reference = weight("reference");
  Optimizer one = Adam({.learning_rate = 0.1, .step = options});
  for (int update = 0; update < 3; ++update) {
    one.set_learning_rate(schedule.at(2 + update));
    for (int64_t i = 0; i < kMicroBatches; ++i) train(one, {reference}, true);
  }
  for (const bool captured : {false, true}) {
    SCOPED_TRACE(captured);
    const Variable p = weight("p"), q = weight("q");
    Optimizer both = Adam({.learning_rate = schedule, .step = options});
    both.prepare(std::vector{p, q});
    const auto update = [&](const std::vector<Variable>& parameters, bool finite, int times) {
      const auto micro_batch = [&] { train(both, parameters, finite); };
      auto step = capture(micro_batch);
      for (int64_t i = 0; i < kMicroBatches * times; ++i) captured ? step() : micro_batch();
    };
    update({q}, true, 2);
    update({p, q}, false, 1);  // skipped, so that it counts for nobody
    update({q}, false, 1);
    update({p, q}, true, 3);
    EXPECT_EQ(both.skipped_steps(), 2);
    EXPECT_EQ(both.step_count(), 5);
    EXPECT_EQ(p.tensor().to_vector(), reference.tensor().to_vector());
  }
}

TEST(Participation, OfTablesThatAreUpdatedByRows) {
  const auto make = [] { return Adam({.learning_rate = 0.1}); };
  const Tensor rows = from_vector({2}, {0, 2}, DType::kI64);
  const auto train = [&](Optimizer& optimizer, const std::vector<Variable>& tables) {
    Tensor loss = scalar(0);
    for (const Variable& table : tables)
      loss = loss + sum(embedding(table, rows, {.padding_idx = {}, .sparse = true}) * kGradient);
    optimizer.minimize(loss, tables);
  };
  const auto table = [](const char* name) { return Variable(ones({4, 2}), name); };
  const Variable p = table("p"), q = table("q"), reference = table("reference");
  Optimizer both = make(), one = make();
  auto with_q = capture([&] { train(both, {p, q}); });
  auto without = capture([&] { train(both, {p}); });
  auto own = capture([&] { train(one, {reference}); });
  with_q();
  for (int i = 0; i < 5; ++i) without();
  with_q();
  with_q();
  for (int i = 0; i < 3; ++i) own();
  EXPECT_EQ(q.tensor().to_vector(), reference.tensor().to_vector());
  for (int i = 0; i < 5; ++i) own();
  EXPECT_EQ(p.tensor().to_vector(), reference.tensor().to_vector());
}

/// Of a parameter and its value under SGD with the rate 1, whose micro-batches have a number as gradient
/// each. `groups`: the micro-batches of each update; those with "-" don't use the parameter.
double after_micro_batches(const std::vector<std::vector<std::string>>& groups, bool captured, bool frozen,
                           StepOptions options) {
  options.accumulate = std::ssize(groups.front());
  const Variable p(zeros({1}, DType::kF64), "p"), other(zeros({1}, DType::kF64), "other");
  Sgd sgd({.learning_rate = 1, .step = options});
  sgd.prepare(std::vector{other, p});
  const auto train = [&](const Tensor& x, bool with) {
    const GradientTape tape;
    const Tensor loss = sum(other * x);
    if (with || frozen) {
      sgd.minimize(loss + sum(p * x), std::vector{other, p});
    } else if (options.allow_unused) {
      sgd.minimize(loss, std::vector{other, p});
    } else {
      sgd.minimize(loss, std::vector{other});
    }
  };
  const auto with = [&](const Tensor& x) { train(x, true); };
  const auto without = [&](const Tensor& x) { train(x, false); };
  auto step_with = capture(with);
  auto step_without = capture(without);
  for (const std::vector<std::string>& group : groups) {
    for (const std::string& micro_batch : group) {
      const bool uses = micro_batch != "-";
      const Tensor x = full({1}, uses ? std::stod(micro_batch) : 1000, DType::kF64);
      if (frozen) p.set_trainable(uses);
      if (captured) {
        uses ? step_with(x) : step_without(x);
      } else {
        uses ? with(x) : without(x);
      }
    }
  }
  return p.tensor().item<double>();
}

TEST(Participation, OfAMicroBatchIsThatOfItsUpdate) {
  const std::vector<std::vector<std::string>> groups[] = {
      {{"10", "10"}, {"-", "-"}, {"-", "4"}},  // which isn't in the first one of its group
      {{"10", "10"}, {"4", "-"}, {"-", "-"}},  // in the last one
      {{"10", "10"}, {"-", "-"}, {"-", "-"}, {"4", "-"}},
      {{"4", "-"}, {"-", "-"}, {"10", "10"}}};
  const std::vector<std::string> four[] = {
      {"10", "10", "10", "10"}, {"-", "4", "-", "4"}, {"-", "-", "-", "-"}};
  for (const bool captured : {false, true}) {
    for (const bool frozen : {false, true}) {
      for (const StepOptions& options : {StepOptions{},
                                         {.exact_sums = true},
                                         {.allow_unused = true},
                                         {.loss_scale = {.initial = 4}},
                                         {.clip = {.value = 100}, .ema_decay = 0.5}}) {
        SCOPED_TRACE(fmt::format("{}{}{}{}", captured ? "captured " : "", frozen ? "frozen " : "",
                                 options.exact_sums ? "exact " : "", options.allow_unused ? "unused" : ""));
        for (const auto& some : groups) EXPECT_EQ(after_micro_batches(some, captured, frozen, options), -12);
        EXPECT_EQ(after_micro_batches({std::begin(four), std::end(four)}, captured, frozen, options), -12);
      }
    }
  }
}

TEST(Participation, OfAMicroBatchCountsOnceAnUpdate) {
  const Make make = [] { return Adam({.learning_rate = 0.1, .step = {.accumulate = 2}}); };
  const Make one = [] { return Adam({.learning_rate = 0.1}); };
  for (const bool captured : {false, true}) {
    SCOPED_TRACE(captured);
    Letters all("pqr", make);
    for (const char* letters : {"pqr", "pqr", "pq", "pq", "p", "p", "pr", "pr", "pq", "pq", "pqr", "pqr"})
      captured ? all.step(letters) : all.apply(letters);
    for (auto& [name, updates] : all.updates) updates /= 2;
    all.expect_own_counts(one);
    for (const char* letters : {"qr", "r"}) captured ? all.step(letters) : all.apply(letters);
    EXPECT_EQ(to_device(all.optimizer.state()[5], {}).to_vector(), (std::vector<double>{1, 2, 3}));
    EXPECT_EQ(all.optimizer.state()[5].name(), "missed_updates");
  }
}

TEST(Participation, OfParametersThatAreAddedLaterBeginsThen) {
  const Make make = [] { return Adam({.learning_rate = 0.1}); };
  for (const bool captured : {false, true}) {
    SCOPED_TRACE(captured);
    Letters all("pq", make);
    const auto update = [&](const char* letters) { captured ? all.step(letters) : all.apply(letters); };
    for (const char* letters : {"pq", "p", "pq"}) update(letters);
    all.parameters.push_back(weight("r"));
    EXPECT_ERROR(all.apply("pqr"), ErrorCode::kInvalidArgument, "add it by prepare()");
    all.optimizer.prepare(all.parameters);
    for (const char* letters : {"pqr", "pq", "qr", "pqr"}) update(letters);
    all.expect_own_counts(make);
    EXPECT_EQ(all.optimizer.parameters().size(), 3u);
  }
}

TEST(Participation, AveragesOfParametersThatAreAddedLaterGoOn) {
  const Variable p(zeros({1}, DType::kF64), "p"), q(zeros({1}, DType::kF64), "q");
  Sgd sgd({.learning_rate = 1, .step = {.ema_decay = 0.5}});
  const Tensor g = full({1}, -8, DType::kF64);
  auto step = capture([&] { sgd.apply(std::vector{p}, std::vector{g}); });
  step();
  sgd.prepare(std::vector{p, q});
  sgd.apply(std::vector{p, q}, std::vector{g, g});  // its average: 4
  step();
  const AveragedWeights averages(sgd);
  EXPECT_EQ(q.tensor().item<double>(), 6);
}

TEST(Participation, OfParametersThatAreAddedWithinAnUpdateBeginsWithTheirFirstMicroBatch) {
  for (const bool captured : {false, true}) {
    Letters all("p", [] { return AdamW({.weight_decay = {.rate = 0.5}, .step = {.accumulate = 2}}); });
    const auto micro_batch = [&](const char* letters) { captured ? all.step(letters) : all.apply(letters); };
    micro_batch("p");
    all.parameters.push_back(weight("q"));
    all.optimizer.prepare(all.parameters);
    micro_batch("p");
    EXPECT_EQ(all.parameters[1].tensor().to_vector(), weight("q").tensor().to_vector());
    micro_batch("pq");
    micro_batch("p");
    EXPECT_NE(all.parameters[1].tensor().to_vector(), weight("q").tensor().to_vector());
  }
}

TEST(Participation, PlansOfSeveralSignaturesCanBePreparedAndSealed) {
  const Variable p(ones({1}), "p"), q(ones({1}), "q");
  Adam adam;
  adam.prepare(std::vector{p, q});
  auto step = capture([&](const Tensor& x) {
    const bool both = x.extent(0) == 4;
    adam.minimize(both ? sum(x * p) + sum(x * q) : sum(x * p), both ? std::vector{p, q} : std::vector{p});
  });
  step.prepare({{DType::kF32, {4}}});
  step.prepare({{DType::kF32, {3}}});
  step.seal();
  step(ones({3}));
  step(ones({4}));
  EXPECT_EQ(step.traces().size(), 3u);
  auto one_plan = capture([](const Tensor& x) { return x * 2.0; }, {.max_plans = 1});
  for (const int64_t rows : {3, 4, 5}) one_plan.prepare({{DType::kF32, {rows}}});
  EXPECT_EQ(one_plan.traces().size(), 3u) << "what found no room isn't planned again";
}

TEST(Participation, OfFrozenParametersTakesNoPassOverTheirSums) {
  const Variable p(ones({4}), "p"), q(ones({4}), "q");
  Sgd sgd({.step = {.accumulate = 2, .loss_scale = {.initial = 4}, .clip = {.global_norm = 1}}});
  sgd.prepare(std::vector{p, q});
  q.set_trainable(false);
  const std::vector<Variable> state = sgd.state();
  const auto sum_of_q = std::ranges::find(state, std::string("q/gradient_sum"), &Variable::name);
  ASSERT_NE(sum_of_q, state.end());
  sum_of_q->assign(full({4}, std::numeric_limits<double>::quiet_NaN()));
  auto step = capture([&](const Tensor& x) { sgd.minimize(sum(x * p) + sum(q), std::vector{p, q}); });
  for (int i = 0; i < 4; ++i) step(ones({4}));
  EXPECT_TRUE(std::isnan(sum_of_q->tensor().to_vector()[0]));
  EXPECT_EQ(sgd.skipped_steps(), 0);
  EXPECT_LT(p.tensor().to_vector()[0], 1);
  EXPECT_EQ(q.tensor().to_vector()[0], 1);
}

TEST(Participation, OfOtherDtypesInOneUpdateIsAnError) {
  const Variable p(zeros({2}), "p"), q(zeros({2}, DType::kF64), "q");
  Adam adam;
  EXPECT_ERROR(adam.apply(std::vector{p, q}, std::vector{ones({2}), ones({2}, DType::kF64)}),
               ErrorCode::kDtypeMismatch, "parameter 'q' is f64, but 'p' is f32");
  EXPECT_TRUE(adam.parameters().empty());
  for (const int64_t accumulate : {1, 2}) {
    Sgd sgd({.learning_rate = 1, .step = {.accumulate = accumulate}});
    sgd.prepare(std::vector{p, q});
    for (int64_t i = 0; i < accumulate; ++i) sgd.apply(std::vector{p}, std::vector{ones({2})});
    EXPECT_EQ(sgd.step_count(), 1);
  }
}

TEST(Participation, AreKnownToTheRulesThatReadTheCount) {
  for (const auto& [name, rule] : ops::optimizer_rules()) {
    for (const graph::Attributes& attributes : rule.variants) {
      const Shape shape{2, 2};
      const auto updated = [&](double step) {
        std::vector<std::vector<double>> states;
        for (size_t k = 0; k < rule.states(attributes); ++k) {
          const Shape of_state = rule.state_shape != nullptr ? rule.state_shape(shape, k) : shape;
          states.emplace_back(of_state.elems(), 0.25 * static_cast<double>(k + 1));
        }
        std::vector<double> p{1, 2, -3, 4};
        ops::ParameterUpdate update{attributes, 0.5, step, shape, p, kGradient.to_vector(), {}};
        for (std::vector<double>& state : states) update.states.push_back(&state);
        rule.reference(update);
        return p;
      };
      EXPECT_EQ(updated(1) != updated(8), rule.reads_step) << name << " " << attributes.str();
    }
  }
}

}  // namespace
}  // namespace isochron::optim
