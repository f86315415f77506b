// Gradients summed over micro-batches inside the captured step.
#include <gtest/gtest.h>

#include <cmath>

#include "isochron/autograd/autograd.h"
#include "isochron/graph/step/captured.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/matmul/matmul.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/slicing.h"
#include "isochron/optim/optimizers.h"
#include "support/expect_error.h"
#include "support/near.h"

namespace isochron::optim {
namespace {

constexpr DType kF64 = DType::kF64;

struct AccumulatedLine {
  Variable weight{from_vector({2, 1}, {0.5, -0.5}, kF64), "weight"};
  Variable bias{zeros({1}, kF64), "bias"};
  std::vector<Variable> parameters() const { return {weight, bias}; }
  Tensor loss(const Tensor& x, const Tensor& y) const { return mean(square(matmul(x, weight) + bias - y)); }
  std::vector<double> values() const {
    std::vector<double> result = weight.tensor().to_vector();
    result.push_back(bias.tensor().item<double>());
    return result;
  }
};

/// Ten rows; the last ones follow another line.
const Tensor kLineX =
    from_vector({10, 2}, {1, 2, -1, 0.5, 3, 1, 0, -2, 2, 2, 1, -1, 0.5, 0.25, -2, 1, 1, 1, -1, 2}, kF64);
const Tensor kLineY = from_vector({10, 1}, {3, -0.5, 4, -2, 4, 0, 0.75, -1, 5, -7}, kF64);

Tensor rows_from(const Tensor& tensor, int64_t begin, int64_t end) {
  return slice(tensor, {begin, 0}, {end, tensor.extent(1)});
}

/// A step on micro-batches, captured.
template <typename Options, typename Kind>
class Training {
 public:
  explicit Training(Options options, bool passes = true) : optimizer_(options), step_(make_step(passes)) {}
  void operator()(int64_t begin, int64_t end) {
    step_(rows_from(kLineX, begin, end), rows_from(kLineY, begin, end));
  }
  AccumulatedLine line_;
  Kind optimizer_;

 private:
  using Function = std::function<Tensor(const Tensor&, const Tensor&)>;
  Captured<Function> make_step(bool passes) {
    CaptureOptions options;
    if (!passes) options.passes.disabled = {"all"};
    return Captured<Function>(
        [this](const Tensor& x, const Tensor& y) {
          const Tensor loss = line_.loss(x, y);
          optimizer_.minimize(loss, line_.parameters(), static_cast<double>(x.extent(0)));
          return loss;
        },
        options);
  }

 public:
  Captured<Function> step_;
};

void expect_near_each(const std::vector<double>& a, const std::vector<double>& b, double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], tolerance) << i;
}

template <typename Kind, typename Options>
void expect_the_large_batch(Options options) {
  Training<Options, Kind> large(options);
  options.step.accumulate = 3;
  Training<Options, Kind> small(options);
  for (int i = 0; i < 30; ++i) {
    large(0, 10);
    small(0, 4);
    small(4, 8);
    small(8, 10);  // half as many rows, which count half as much
    expect_near_each(small.line_.values(), large.line_.values(), 1e-12);
  }
  EXPECT_EQ(small.optimizer_.step_count(), 30);
}

TEST(Accumulation, EqualsTheLargeBatch) {
  expect_the_large_batch<Sgd>(SgdOptions{.learning_rate = 0.05, .momentum = 0.5});
  expect_the_large_batch<Adam>(AdamOptions{.learning_rate = 0.05});
  expect_the_large_batch<Adafactor>(AdafactorOptions{.learning_rate = 0.05});
  expect_the_large_batch<Lamb>(LambOptions{.learning_rate = cosine(0.05, 40), .weight_decay = {.rate = 0.1}});
  expect_the_large_batch<Sgd>(SgdOptions{.learning_rate = 0.05, .step = {.clip = {.global_norm = 0.5}}});
  expect_the_large_batch<Sgd>(SgdOptions{.learning_rate = 0.05, .step = {.clip = {.norm = 0.5}}});
  expect_the_large_batch<Sgd>(SgdOptions{.learning_rate = 0.05, .step = {.clip = {.value = 0.25}}});
  expect_the_large_batch<Sgd>(SgdOptions{.learning_rate = 0.05, .step = {.noise = {.eta = 0.1, .seed = 3}}});
  expect_the_large_batch<Sgd>(
      SgdOptions{.learning_rate = 0.05, .step = {.loss_scale = LossScale::dynamic(), .ema_decay = 0.9}});
}

TEST(Accumulation, ResettingTheSumsEachBatchTrainsWrongly) {
  // A common code example clears the gradients for every batch and steps every N batches. It thus steps along
  // the gradient of the last batch alone, divided by N.
  SgdOptions options{.learning_rate = 0.05};
  Training<SgdOptions, Sgd> large(options);
  options.step.accumulate = 3;
  Training<SgdOptions, Sgd> right(options);
  AccumulatedLine wrong;
  Sgd listing({.learning_rate = 0.05 / 3});
  auto listing_step = capture(
      [&](const Tensor& x, const Tensor& y) { listing.minimize(wrong.loss(x, y), wrong.parameters()); });
  const int64_t ends[] = {0, 4, 8, 10};
  for (int epoch = 0; epoch < 200; ++epoch) {
    large(0, 10);
    for (int i = 0; i < 3; ++i) right(ends[i], ends[i + 1]);
    listing_step(rows_from(kLineX, 8, 10), rows_from(kLineY, 8, 10));
  }
  const double best = large.line_.loss(kLineX, kLineY).item<double>();
  EXPECT_NEAR(right.line_.loss(kLineX, kLineY).item<double>(), best, 1e-9);
  EXPECT_GT(wrong.loss(kLineX, kLineY).item<double>(), 1.2 * best);
}

TEST(Accumulation, UpdatesOnceAGroup) {
  Training<SgdOptions, Sgd> training({.learning_rate = 0.05, .step = {.accumulate = 4}});
  EXPECT_EQ(training.optimizer_.accumulate(), 4);
  std::vector<double> before = training.line_.values();
  for (int i = 0; i < 12; ++i) {
    EXPECT_EQ(training.optimizer_.phase(), i % 4);
    training(0, 5);
    EXPECT_EQ(training.line_.values() != before, i % 4 == 3) << i;
    EXPECT_EQ(training.optimizer_.step_count(), (i + 1) / 4);
    before = training.line_.values();
  }
  EXPECT_EQ(training.step_.plan_count(), 1u);
}

TEST(Accumulation, AnIncompleteGroupIsFlushedByItsRows) {
  const AdamOptions options{.learning_rate = 0.05};
  Training<AdamOptions, Adam> large(options);
  Training<AdamOptions, Adam> small({.learning_rate = 0.05, .step = {.accumulate = 4}});
  for (int epoch = 0; epoch < 5; ++epoch) {
    large(0, 8);
    large(8, 10);
    for (int i = 0; i < 4; ++i) small(2 * i, 2 * i + 2);
    small.optimizer_.flush_next();
    small(8, 10);
    EXPECT_EQ(small.optimizer_.phase(), 0);
    expect_near_each(small.line_.values(), large.line_.values(), 1e-12);
  }
  EXPECT_EQ(small.step_.plan_count(), 1u);
  EXPECT_EQ(small.step_.traces().size(), 1u) << "no new capture";
}

TEST(Accumulation, CapturedEqualsEagerBitForBit) {
  const AdamOptions options{.learning_rate = warmup(2, cosine(0.05, 10)),
                            .step = {.accumulate = 3,
                                     .loss_scale = LossScale::dynamic(),
                                     .clip = {.global_norm = 0.7},
                                     .noise = {.eta = 0.01},
                                     .ema_decay = 0.9}};
  Training<AdamOptions, Adam> captured(options, false);
  AccumulatedLine eager;
  Adam optimizer(options);
  for (int i = 0; i < 12; ++i) {
    captured(0, 5);
    GradientTape tape;
    optimizer.minimize(eager.loss(rows_from(kLineX, 0, 5), rows_from(kLineY, 0, 5)), eager.parameters(), 5);
    EXPECT_EQ(captured.line_.values(), eager.values()) << i;
  }
  const std::vector<Variable> a = captured.optimizer_.state();
  const std::vector<Variable> b = optimizer.state();
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].name(), b[i].name());
    EXPECT_EQ(a[i].tensor().to_vector(), b[i].tensor().to_vector()) << a[i].name();
  }
}

TEST(Accumulation, KeepsTheArenaAndUpdatesInPlace) {
  const auto report = [](const StepOptions& options) {
    const Variable p(zeros({300, 200}), "p");
    Adam adam({.step = options});
    auto step = capture([&](const Tensor& x) { adam.minimize(sum(square(p.tensor() - x)), std::vector{p}); });
    step(ones({300, 200}));
    return step.plan_report();
  };
  const graph::PlanReport plain = report({});
  const graph::PlanReport all = report(
      {.accumulate = 4, .loss_scale = LossScale::dynamic(), .clip = {.global_norm = 1}, .ema_decay = 0.9});
  EXPECT_LE(all.updates_copied, 1) << "flush, which becomes false";
  EXPECT_LE(all.arena_bytes, plain.arena_bytes + 4096);
}

TEST(Accumulation, RowsMayBeCountedInTheStep) {
  const Variable p(zeros({1}, kF64), "p");
  Sgd sgd({.learning_rate = 1, .step = {.accumulate = 2}});
  auto step = capture(
      [&](const Tensor& g, const Tensor& count) { sgd.apply(std::vector{p}, std::vector{g}, count); });
  step(full({1}, 10, kF64), full({}, 1, kF64));
  step(full({1}, 2, kF64), full({}, 3, kF64));
  EXPECT_EQ(p.tensor().item<double>(), -4) << "(10 + 3 x 2) / 4";
}

TEST(Accumulation, AnUpdateOfNoRowsChangesNothing) {
  for (const bool scaled : {false, true}) {
    for (const double norm : {0.0, 1.0}) {
      StepOptions step{.accumulate = 2, .clip = {.global_norm = norm}, .keep_gradients = true};
      if (scaled) step.loss_scale = LossScale::dynamic();
      const Variable weight(from_vector({2}, {0.5, -0.5}, DType::kF32), "weight");
      Sgd optimizer({.learning_rate = 0.1, .step = step});
      auto train = capture([&](const Tensor& weights) {  // of samples, all 0
        const Tensor loss = sum(square(weight.tensor()) * weights);
        optimizer.minimize(loss, std::vector{weight}, cast(sum(weights), kF64));
      });
      train(zeros({2}));
      train(zeros({2}));
      EXPECT_EQ(weight.tensor().to_vector(), (std::vector<double>{0.5, -0.5})) << scaled << " " << norm;
      train(zeros({2}));
      train(ones({2}));
      EXPECT_NEAR(weight.tensor().to_vector()[0], 0.5 - 0.1 * (norm > 0 ? std::sqrt(0.5) : 1), 1e-6)
          << "of the rows that there are, " << scaled << norm;
    }
  }
}

TEST(Accumulation, CountsRowsOf16BitLossesInFull) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    const Variable weight(full({1}, 0.5), "weight");
    Sgd sgd({.learning_rate = 1, .step = {.accumulate = 2}});
    auto train = capture([&](const Tensor& x, const Tensor& count) {
      sgd.minimize(mean(cast(weight.tensor() * x, dtype)), std::vector{weight}, count);
    });
    train(ones({1}), full({}, 100'001, kF64));
    train(full({1}, 3), full({}, 1, kF64));
    EXPECT_NEAR(weight.tensor().item<double>(), 0.5 - 100'004.0 / 100'002, 1e-5) << dtype_name(dtype);
  }
}

TEST(Accumulation, RejectsWrongCalls) {
  EXPECT_ERROR(Sgd({.step = {.accumulate = 0}}), ErrorCode::kInvalidArgument, "accumulate");
  const Variable p(zeros({1}), "p");
  Sgd sgd({.step = {.accumulate = 2}});
  const std::vector<Tensor> g = {ones({1})};
  EXPECT_ERROR(sgd.apply(std::vector{p}, g, 0), ErrorCode::kInvalidArgument, "rows");
  EXPECT_ERROR(sgd.apply(std::vector{p}, g, ones({})), ErrorCode::kInvalidArgument, "rows");
  EXPECT_EQ(sgd.phase(), 0);
  auto step = capture([&](const Tensor& x) {
    sgd.flush_next();
    return x;
  });
  EXPECT_ERROR(step(ones({1})), ErrorCode::kCaptureViolation, "flush_next");
}

TEST(Accumulation, AnUpdateThatIsRefusedChangesNothing) {
  const Variable p(zeros({2}, DType::kF64), "p"), other(zeros({2}, DType::kF64), "other");
  bool refuses = false;
  const auto schedule = [&](const Tensor&) {
    require(!refuses, ErrorCode::kInvalidArgument, "schedule", "refused");
    return scalar(0.5, DType::kF64);
  };
  const StepOptions step{.accumulate = 2, .ema_decay = 0.5, .keep_gradients = true};
  Sgd sgd({.learning_rate = Schedule(schedule), .step = step}), whole({.learning_rate = 0.5, .step = step});
  const auto state = [&] {
    std::vector<std::vector<double>> numbers = {p.tensor().to_vector()};
    for (const Variable& slot : sgd.state()) numbers.push_back(slot.tensor().to_vector());
    for (const Variable& gradient : sgd.kept_gradients()) numbers.push_back(gradient.tensor().to_vector());
    return numbers;
  };
  for (const double number : {1.0, 3.0}) {
    const std::vector<Tensor> gradient = {full({2}, number, DType::kF64)};
    if (number == 3) {
      const auto before = state();
      refuses = true;
      EXPECT_ERROR(sgd.apply(std::vector{p}, gradient), ErrorCode::kInvalidArgument, "refused");
      EXPECT_EQ(state(), before);
      EXPECT_EQ(sgd.phase(), 1);
      refuses = false;
    }
    sgd.apply(std::vector{p}, gradient);
    whole.apply(std::vector{other}, gradient);
  }
  EXPECT_EQ(p.tensor().to_vector(), (std::vector<double>{-1, -1}));
  EXPECT_EQ(other.tensor().to_vector(), p.tensor().to_vector());
}

}  // namespace
}  // namespace isochron::optim
