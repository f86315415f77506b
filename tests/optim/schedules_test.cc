// Schedules against Keras's and PyTorch's (tests/golden/README.md), on the host and in captured steps.
#include "isochron/optim/schedules.h"

#include <gtest/gtest.h>

#include <cmath>

#include "isochron/data/formats/npy.h"
#include "isochron/graph/step/captured.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/optim/optimizers.h"
#include "support/expect_error.h"

namespace isochron::optim {
namespace {

const data::NpzFile& golden_rates(const std::string& library) {
  static const std::string folder = std::string(ISOCHRON_SOURCE_DIR) + "/tests/golden/schedules_";
  static const data::NpzFile keras = data::read_npz(folder + "keras.npz");
  static const data::NpzFile torch = data::read_npz(folder + "torch.npz");
  return library == "keras" ? keras : torch;
}

struct ScheduleCase {
  std::string library;
  std::string name;
  Schedule schedule;
  double tolerance = 1e-12;
};

/// Keras takes pi in f32 for its cosines.
constexpr double kCoarsePi = 2e-8;

void PrintTo(const ScheduleCase& c, std::ostream* out) { *out << c.library << " " << c.name; }

std::vector<ScheduleCase> cases() {
  return {
      {"keras", "piecewise", piecewise({10, 40}, {0.1, 0.02, 0.005})},
      {"keras", "exponential", exponential(0.1, 20, 0.6)},
      {"keras", "step_decay", step_decay(0.1, 20, 0.6)},
      {"keras", "cosine", cosine(0.1, 90, 0.05), kCoarsePi},
      {"keras", "restarts", cosine_restarts(0.1, 10), kCoarsePi},
      {"keras", "restarts_even", cosine_restarts(0.1, 15, 1, 0.7, 0.1), kCoarsePi},
      {"keras", "restarts_set", cosine_restarts(0.1, 9, 1.5, 0.8, 0.01), kCoarsePi},
      {"keras", "polynomial", polynomial(0.1, 80, 0.01, 0.5)},
      {"keras", "polynomial_cycle", polynomial(0.1, 30, 0.01, 2, true)},
      {"torch", "step_decay", step_decay(0.1, 25, 0.3)},
      {"torch", "exponential", exponential(0.1, 1, 0.97)},
      {"torch", "polynomial", polynomial(0.1, 80, 0, 1.7)},
      {"torch", "one_cycle", one_cycle(0.1, 120)},
      {"torch", "one_cycle_set",
       one_cycle(0.1, 120, {.warm_share = 0.4, .initial_share = 0.1, .final_share = 0.001})},
      {"torch", "restarts", cosine_restarts(0.1, 7, 2, 1, 0.01)},
      {"torch", "warmup_cosine", warmup(8, cosine(0.1, 92, 0.01))},
      {"torch", "warmup_inverse_sqrt", warmup(8, inverse_sqrt(0.1, 8))},
  };
}

class GoldenSchedule : public testing::TestWithParam<ScheduleCase> {};

TEST_P(GoldenSchedule, GivesTheLibrarysRates) {
  const std::vector<double> rates = golden_rates(GetParam().library).at(GetParam().name).to_vector();
  for (size_t step = 0; step < rates.size(); ++step) {
    EXPECT_NEAR(GetParam().schedule.at(static_cast<int64_t>(step)), rates[step], GetParam().tolerance)
        << step;
  }
}

TEST_P(GoldenSchedule, IsTheSameInACapturedStep) {
  const Schedule& schedule = GetParam().schedule;
  for (const bool passes : {false, true}) {
    CaptureOptions options;
    if (!passes) options.passes.disabled = {"all"};
    auto rate = capture([&](const Tensor& step) { return schedule(step); }, options);
    for (int64_t step = 0; step < 150; ++step) {
      const Tensor count = full({}, static_cast<double>(step), DType::kI64);
      EXPECT_EQ(rate(count).item<double>(), schedule.at(step)) << step << (passes ? " with passes" : "");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, GoldenSchedule, testing::ValuesIn(cases()), [](const auto& test) {
  return fmt::format("{}_{}", test.param.library, test.param.name);
});

TEST(Schedule, WarmsUpToAnother) {
  const Schedule schedule = warmup(4, cosine(0.2, 8, 0.1));
  EXPECT_DOUBLE_EQ(schedule.at(0), 0.05);
  EXPECT_DOUBLE_EQ(schedule.at(3), 0.2);
  EXPECT_DOUBLE_EQ(schedule.at(4), 0.2);
  EXPECT_DOUBLE_EQ(schedule.at(8), 0.2 * 0.55) << "half of the cosine";
  EXPECT_NEAR(schedule.at(12), 0.02, 1e-15);
  EXPECT_NEAR(schedule.at(1000), 0.02, 1e-15);
}

TEST(Schedule, PhasesBeginAnew) {
  const Schedule schedule = sequence({0.5, cosine(0.2, 8), exponential(1, 1, 0.5)}, {3, 11});
  EXPECT_EQ(schedule.at(0), 0.5);
  EXPECT_EQ(schedule.at(2), 0.5);
  EXPECT_EQ(schedule.at(3), 0.2);
  EXPECT_DOUBLE_EQ(schedule.at(7), 0.1);
  EXPECT_EQ(schedule.at(11), 1);
  EXPECT_EQ(schedule.at(13), 0.25);
  EXPECT_EQ(sequence({0.5}, {}).at(9), 0.5);
  EXPECT_ERROR(sequence({}, {}), ErrorCode::kInvalidArgument, "0 phases need one start fewer, got 0");
  EXPECT_ERROR(sequence({0.1, 0.2}, {0}), ErrorCode::kInvalidArgument, "start 0 is 0");
  EXPECT_ERROR(sequence({0.1, 0.2, 0.3}, {4, 4}), ErrorCode::kInvalidArgument, "start 1 is 4");
}

TEST(Schedule, RestartsExactlyAtTheEndOfEveryPeriod) {
  const Schedule schedule = cosine_restarts(1, 1000);
  for (int64_t period = 1000, start = 0; period < int64_t{1} << 40; start += period, period *= 2) {
    EXPECT_DOUBLE_EQ(schedule.at(start), 1) << start;
    EXPECT_LT(schedule.at(start + period - 1), 1e-5) << start;
  }
}

TEST(Schedule, EveryCapturedStepUsesItsOwnRate) {
  // A gradient of 1 takes the learning rate itself from w in each step of plain descent.
  const Variable w(zeros({1}, DType::kF64), "w");
  const Schedule schedule = warmup(4, cosine(0.2, 8, 0.1));
  Sgd optimizer({.learning_rate = schedule});
  EXPECT_EQ(optimizer.learning_rate(), schedule.at(0));
  auto step = capture([&](const Tensor& g) { optimizer.apply(std::vector{w}, std::vector{g}); });
  double expected = 0;
  for (int64_t i = 0; i < 14; ++i) {
    step(ones({1}, DType::kF64));
    expected -= schedule.at(i);
    EXPECT_NEAR(w.tensor().item<double>(), expected, 1e-14) << i;
    EXPECT_EQ(optimizer.learning_rate(), schedule.at(i + 1)) << "the slot holds the next step's rate";
  }
  EXPECT_EQ(step.plan_count(), 1u);
}

TEST(Schedule, OnesOwnIsAFunctionOfTheStep) {
  const Schedule schedule([](const Tensor& step) { return 1.0 / (step + 1.0); });
  EXPECT_EQ(schedule.at(3), 0.25);
  EXPECT_EQ(warmup(2, schedule).at(3), 0.5);
  EXPECT_ERROR(Schedule([](const Tensor& step) { return cast(step, DType::kF32); }).at(0),
               ErrorCode::kDtypeMismatch, "f64");
  EXPECT_ERROR(Schedule([](const Tensor&) { return ones({2}, DType::kF64); }).at(0),
               ErrorCode::kShapeMismatch, "one number");
  EXPECT_ERROR(Sgd({.learning_rate = Schedule([](const Tensor& step) { return step - 1.0; })}),
               ErrorCode::kInvalidArgument, "learning rate");
}

TEST(Schedule, RejectsArgumentsOutOfRange) {
  EXPECT_ERROR(Schedule(-1), ErrorCode::kInvalidArgument, "learning rate");
  EXPECT_ERROR(Schedule(NAN), ErrorCode::kInvalidArgument, "learning rate");
  EXPECT_ERROR(Schedule(Schedule::Function()), ErrorCode::kInvalidArgument, "empty");
  EXPECT_ERROR(step_decay(1, 0, 0.5), ErrorCode::kInvalidArgument, "step_decay");
  EXPECT_ERROR(exponential(1, 5, -0.5), ErrorCode::kInvalidArgument, "exponential");
  EXPECT_ERROR(piecewise({5, 5}, {1, 2, 3}), ErrorCode::kInvalidArgument, "ascend");
  EXPECT_ERROR(piecewise({5}, {1}), ErrorCode::kInvalidArgument, "one rate more");
  EXPECT_ERROR(cosine(1, 5, 2), ErrorCode::kInvalidArgument, "share");
  EXPECT_ERROR(cosine_restarts(1, 5, 0.5), ErrorCode::kInvalidArgument, "factor");
  EXPECT_ERROR(polynomial(1, 5, NAN), ErrorCode::kInvalidArgument, "polynomial");
  EXPECT_ERROR(one_cycle(1, 3), ErrorCode::kInvalidArgument, "warm_share");
  EXPECT_ERROR(inverse_sqrt(INFINITY, 3), ErrorCode::kInvalidArgument, "inverse_sqrt");
  EXPECT_ERROR(warmup(-1, 1), ErrorCode::kInvalidArgument, "warmup");
  Sgd scheduled({.learning_rate = cosine(1, 5)});
  EXPECT_ERROR(scheduled.set_learning_rate(1), ErrorCode::kInvalidArgument, "schedule");
}

}  // namespace
}  // namespace isochron::optim
