#include "isochron/nn/losses/ctc.h"

#include <array>
#include <cmath>
#include <limits>

#include "isochron/graph/step/captured.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/reduction/softmax.h"
#include "isochron/ops/shape/shape_ops.h"
#include "isochron/ops/shape/slicing.h"
#include "nn/losses/loss_checks.h"
#include "support/expect_error.h"

namespace isochron::nn {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Tensor integers(const Shape& shape, const std::vector<double>& values) {
  return from_vector(shape, values, DType::kI64);
}

class CtcOfPyTorch : public GoldenLosses {
 protected:
  CtcOfPyTorch() : GoldenLosses("losses_torch.npz") {}

  /// Checks the loss of the first `samples` samples, whose labels are reduced by `shift`.
  void check_loss(const std::string& name, int64_t samples, double shift, CtcOptions options) {
    const auto first = [&](const std::string& array_name) {
      return narrow(array("ctc." + array_name), 0, 0, samples);
    };
    for (const OverAll& over : kOverAll) {
      if (over.reduction != over.per_sample) continue;
      options.reduction = over.reduction;
      options.per_sample = over.per_sample;
      check("ctc." + name + over.name, "ctc.x", [&](const Tensor& x) {
        return ctc_loss(log_softmax(narrow(x, 0, 0, samples)), first("labels") - shift,
                        first("input_lengths"), first("label_lengths"), options);
      });
    }
  }
};

TEST_F(CtcOfPyTorch, ValuesAndGradients) {
  check_loss("possible", 5, 0, CtcOptions{});
  check_loss("last_blank", 5, 1, CtcOptions{.blank = 4});
  check_loss("zero_infinity", 6, 0, CtcOptions{.zero_infinity = true});
}

Tensor logits() { return sin(reshape(arange(2 * 4 * 3, DType::kF64) * 1.7, {2, 4, 3})) * 2.0; }

TEST(Ctc, HasTheGradientOfItsFormula) {
  const Tensor labels = integers({2, 2}, {1, 1, 2, 1}), steps = integers({2}, {4, 3}),
               count = integers({2}, {2, 2});
  expect_gradient([&](const Tensor& x) { return ctc_loss(x, labels, steps, count); }, log_softmax(logits()));
  expect_gradient([&](const Tensor& x) { return ctc_loss(log_softmax(x), labels, steps, count); }, logits());
}

TEST(Ctc, HasASecondGradient) {
  const Tensor labels = integers({2, 2}, {1, 1, 2, 1}), steps = integers({2}, {4, 3}),
               count = integers({2}, {2, 2});
  expect_gradient(
      [&](const Tensor& x) {
        GradientTape tape(true);
        tape.watch(x);
        return square(tape.gradient(ctc_loss(log_softmax(x), labels, steps, count), x));
      },
      logits());
}

TEST(Ctc, SumsAllAlignments) {
  // Three steps of two classes, blank and 1, all of probability 1/2: 6 of 8 paths read "1" (not 000, 101).
  const Tensor half = full({1, 3, 2}, std::log(0.5), DType::kF64);
  const CtcOptions sum{.per_sample = Reduction::kSum};
  const auto loss = [&](const Tensor& labels, double count) {
    return ctc_loss(half, labels, integers({1}, {3}), integers({1}, {count}), sum).item<double>();
  };
  EXPECT_NEAR(loss(integers({1, 1}, {1}), 1), -std::log(6.0 / 8), 1e-14);
  EXPECT_NEAR(loss(integers({1, 2}, {1, 1}), 2), -std::log(1.0 / 8), 1e-14);
  EXPECT_NEAR(loss(integers({1, 1}, {1}), 0), -std::log(1.0 / 8), 1e-14);
  EXPECT_NEAR(loss(zeros({1, 0}, DType::kI64), 0), -std::log(1.0 / 8), 1e-14);
}

TEST(Ctc, ImpossibleAlignmentsAreInfiniteOrZero) {
  const Tensor labels = integers({2, 2}, {1, 1, 1, 2}), steps = integers({2}, {2, 2}),
               count = integers({2}, {2, 2});
  const Tensor x = log_softmax(logits());
  for (const bool zero : {false, true}) {
    const std::vector<double> both = loss_and_gradient(
        [&](const Tensor& in) {
          return ctc_loss(in, labels, steps, count, {.reduction = Reduction::kNone, .zero_infinity = zero});
        },
        x);
    EXPECT_EQ(both[0], zero ? 0 : kInfinity);
    EXPECT_NEAR(both[1], -(x.to_vector()[13] + x.to_vector()[17]) / 2, 1e-14);
    for (size_t i = 0; i < 12; ++i) EXPECT_EQ(both[2 + i], 0) << i;
    for (size_t i = 12; i < 24; ++i) EXPECT_EQ(both[2 + i], i == 13 || i == 17 ? -0.5 : 0) << i;
  }
}

TEST(Ctc, NumbersOfLabelsThatCantBeHaveNoAlignment) {
  const Tensor x = log_softmax(logits()), labels = integers({2, 2}, {1, 2, 2, 1});
  const auto loss = [&](const Tensor& steps, const Tensor& count) {
    return loss_and_gradient(
        [&](const Tensor& in) {
          return sum(ctc_loss(in, labels, steps, count, {.reduction = Reduction::kNone}));
        },
        x);
  };
  std::vector<double> expected(25, 0);
  expected[0] = kInfinity;
  EXPECT_EQ(loss(integers({2}, {4, 4}), integers({2}, {-1, 3})), expected);
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();  // twice as much would be 0 or 2
  for (const int64_t count : {kMin, kMin + 1}) {
    const std::vector<int64_t> counts{count, std::numeric_limits<int64_t>::max()};
    EXPECT_EQ(loss(integers({2}, {4, 4}), from_span<int64_t>({2}, counts)), expected);
  }
  EXPECT_EQ(loss(integers({2}, {-1, -1}), integers({2}, {1, 2})), expected);
  expected[0] = 0;
  EXPECT_EQ(loss(integers({2}, {-1, -1}), integers({2}, {0, 0})), expected);
}

TEST(Ctc, LooksAtNothingBeyondTheLengths) {
  const Tensor x = log_softmax(logits()), steps = integers({2}, {2, 3}), count = integers({2}, {1, 1});
  std::vector<double> values = x.to_vector();
  for (size_t i = 2 * 3; i < 4 * 3; ++i) values[i] = std::nan("");
  const auto loss = [&](const Tensor& in, const Tensor& labels) {
    return loss_and_gradient([&](const Tensor& p) { return ctc_loss(p, labels, steps, count); }, in);
  };
  EXPECT_EQ(loss(from_vector({2, 4, 3}, values, DType::kF64), integers({2, 2}, {1, -100, 2, 77})),
            loss(x, integers({2, 2}, {1, 0, 2, 0})));
}

TEST(Ctc, ProbabilitiesOfZeroAreAllowed) {
  // One path is left: 1, blank.
  const Tensor x = from_vector({1, 2, 2}, {-kInfinity, 0, 0, -kInfinity}, DType::kF64);
  EXPECT_EQ(loss_and_gradient(
                [&](const Tensor& in) {
                  return ctc_loss(in, integers({1, 1}, {1}), integers({1}, {2}), integers({1}, {1}));
                },
                x),
            (std::vector<double>{0, 0, -1, -1, 0}));
}

TEST(Ctc, Holds16BitsOverManySteps) {
  constexpr int64_t kSteps = 300;
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    const Tensor x = full({1, kSteps, 2}, -0.75, dtype);
    const Tensor loss = ctc_loss(x, integers({1, 1}, {1}), integers({1}, {kSteps}), integers({1}, {1}));
    EXPECT_EQ(loss.dtype(), dtype);
    // kSteps (kSteps + 1) / 2 places for the label.
    EXPECT_NEAR(cast(loss, DType::kF64).item<double>(), 0.75 * kSteps - std::log(kSteps * (kSteps + 1) / 2.0),
                0.6);
  }
}

TEST(Ctc, IsTheSameInMixedPrecision) {
  const Tensor x = from_vector({2, 4, 3}, logits().to_vector());
  const Tensor labels = integers({2, 2}, {1, 1, 2, 1});
  const Tensor steps = integers({2}, {4, 3}), count = integers({2}, {2, 2});
  const auto loss = [&](const Tensor& in) {
    const Tensor y = ctc_loss(log_softmax(in), labels, steps, count);
    return std::pair(y, gradients(y, std::array{in})[0]);
  };
  const auto [want, want_gradient] = capture(loss)(x);
  for (const isochron::Precision precision :
       {isochron::Precision::kMixedBf16, isochron::Precision::kMixedF16}) {
    CaptureOptions options;
    options.passes.precision = precision;
    const auto [got, gradient] = capture(loss, options)(x);
    EXPECT_TRUE(near(got, want, 0.02));
    EXPECT_TRUE(near(gradient, want_gradient, 0.02, 0.01));
  }
}

TEST(Ctc, WeighsSamples) {
  const Tensor x = log_softmax(logits()), labels = integers({2, 1}, {1, 2});
  const Tensor steps = integers({2}, {4, 3}), count = integers({2}, {1, 1});
  const std::vector<double> rows =
      ctc_loss(x, labels, steps, count, {.reduction = Reduction::kNone}).to_vector();
  const Tensor loss = ctc_loss(
      x, labels, steps, count,
      {.reduction = Reduction::kWeightedMean, .sample_weights = from_vector({2}, {1, 3}, DType::kF64)});
  EXPECT_NEAR(loss.item<double>(), (rows[0] + 3 * rows[1]) / 4, 1e-14);
}

TEST(Ctc, RejectsWrongCalls) {
  const Tensor x = zeros({2, 4, 3}), labels = zeros({2, 2}, DType::kI64), lengths = integers({2}, {2, 2});
  EXPECT_ERROR(ctc_loss(Tensor(), labels, lengths, lengths), ErrorCode::kInvalidArgument, "undefined");
  EXPECT_ERROR(ctc_loss(zeros({4, 3}), labels, lengths, lengths), ErrorCode::kShapeMismatch, "(N, T, C)");
  EXPECT_ERROR(ctc_loss(zeros({2, 4, 3}, DType::kI32), labels, lengths, lengths), ErrorCode::kDtypeMismatch,
               "must be floating");
  EXPECT_ERROR(ctc_loss(x, zeros({2, 2}), lengths, lengths), ErrorCode::kDtypeMismatch, "must be integers");
  EXPECT_ERROR(ctc_loss(x, lengths, lengths, lengths), ErrorCode::kShapeMismatch, "(N, L)");
  EXPECT_ERROR(ctc_loss(x, labels, lengths, zeros({3}, DType::kI64)), ErrorCode::kShapeMismatch, "i64(3)");
  EXPECT_ERROR(ctc_loss(x, labels, lengths, lengths, {.blank = 3}), ErrorCode::kInvalidArgument,
               "the blank 3");
  EXPECT_ERROR(ctc_loss(x, integers({2, 2}, {1, 2, 3, 1}), lengths, lengths), ErrorCode::kOutOfRange, "3");
}

}  // namespace
}  // namespace isochron::nn
