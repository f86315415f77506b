// Recurrent ops where their rows' samples don't reach: padding, threads, instruction sets, extreme numbers.
#include "isochron/ops/recurrent/recurrent.h"

#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <limits>

#include "isochron/autograd/autograd.h"
#include "isochron/core/process/threads.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/graph/step/captured.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/random/random.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/slicing.h"
#include "support/expect_error.h"
#include "support/vector_targets.h"

namespace isochron {
namespace {

using testing::Each;

Tensor uniform_values(const Shape& shape, uint64_t seed, DType dtype = DType::kF32) {
  random::Generator generator(seed);
  return random_uniform(shape, -1, 1, dtype, generator);
}

std::vector<Tensor> weights(int64_t features, int64_t units, bool lstm, DType dtype = DType::kF32) {
  const int64_t columns = (lstm ? 4 : 3) * units;
  return {uniform_values({features, columns}, 2, dtype), uniform_values({units, columns}, 3, dtype),
          uniform_values(lstm ? Shape{columns} : Shape{2, columns}, 4, dtype)};
}

/// Sequence, final h and the gradients of their sum with respect to x and the weights; prepared anew each
/// time.
std::vector<Tensor> train(const Tensor& x, bool is_lstm, int64_t units,
                          const RecurrentOptions& options = {}) {
  const std::vector<Tensor> w = weights(x.extent(2), units, is_lstm, x.dtype());
  CapturedFunction step(
      [&](std::span<const Tensor> in) {
        std::vector<Tensor> all;
        if (is_lstm) {
          const LstmResult result = lstm(in[0], in[1], in[2], in[3], {}, options);
          all = {result.sequence, result.h};
        } else {
          const GruResult result = gru(in[0], in[1], in[2], in[3], {}, options);
          all = {result.sequence, result.h};
        }
        const std::vector<Tensor> targets = all;
        for (const Tensor& gradient : gradients(targets, in)) all.push_back(gradient);
        return all;
      },
      {});
  const Tensor* arguments[] = {&x, &w[0], &w[1], &w[2]};
  std::vector<Tensor> copies;
  for (const Tensor& result : step.call(arguments)) copies.push_back(copy(result));
  return copies;
}

void expect_all_close(const std::vector<Tensor>& got, const std::vector<Tensor>& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t k = 0; k < got.size(); ++k) {
    const std::vector<double> a = got[k].to_vector();
    const std::vector<double> b = want[k].to_vector();
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      ASSERT_NEAR(a[i], b[i], tolerance * (1 + std::abs(b[i]))) << "tensor " << k << ", element " << i;
    }
  }
}

TEST(RecurrentOps, AgreeOnEveryInstructionSet) {
  const Tensor x = uniform_values({7, 5, 3}, 1);
  const Tensor wide = cast(x, DType::kF64);
  for (const bool is_lstm : {true, false}) {
    const std::vector<Tensor> want = train(wide, is_lstm, 19);
    const std::vector<Tensor> half_want = train(x, is_lstm, 19);
    for_each_target([&] {
      expect_all_close(train(wide, is_lstm, 19), want, 1e-12);
      expect_all_close(train(x, is_lstm, 19), half_want, 2e-5);
    });
  }
}

TEST(RecurrentOps, GiveTheSameBitsOnAnyNumberOfThreads) {
  const Tensor x = uniform_values({101, 12, 6}, 1);
  const int before = compute_threads();
  for (const bool is_lstm : {true, false}) {
    set_compute_threads(1);
    const std::vector<Tensor> one = train(x, is_lstm, 24);
    set_compute_threads(3);
    const std::vector<Tensor> three = train(x, is_lstm, 24);
    set_compute_threads(before);
    for (size_t k = 0; k < 3; ++k) EXPECT_EQ(one[k].to_vector(), three[k].to_vector()) << k;
    expect_all_close(three, one, 1e-4);  // gradients are summed in another order
  }
}

Tensor row_of(const Tensor& x, int64_t row) {
  return copy(slice(x, {row, 0, 0}, {row + 1, x.extent(1), x.extent(2)}));
}

TEST(RecurrentOps, GiveTheSameBitsForARowAloneAndAmongOthers) {
  const Tensor x = uniform_values({48, 3, 5}, 1);
  const int before = compute_threads();
  set_compute_threads(1);  // one block of rows, with more units than are computed at once
  for (const bool is_lstm : {true, false}) {
    const Tensor all = train(x, is_lstm, 200)[0];
    for (const int64_t row : {0, 17, 47}) {
      const Tensor alone = train(row_of(x, row), is_lstm, 200)[0];
      EXPECT_EQ(alone.to_vector(), row_of(all, row).to_vector()) << row;
    }
  }
  set_compute_threads(before);
}

TEST(RecurrentOps, NeverReadPadding) {
  const Tensor lengths = from_vector({3}, {4, 0, 2}, DType::kI64);
  std::vector<double> values = uniform_values({3, 4, 2}, 5).to_vector();
  for (const bool is_lstm : {true, false}) {
    for (const bool reverse : {false, true}) {
      const Tensor clean = from_vector({3, 4, 2}, values);
      std::vector<double> dirty = values;
      for (size_t n = 0; n < 3; ++n) {
        for (size_t t = static_cast<size_t>(lengths.to_vector()[n]); t < 4; ++t) {
          dirty[(n * 4 + t) * 2] = std::numeric_limits<double>::quiet_NaN();
        }
      }
      const RecurrentOptions options{reverse, lengths};
      const std::vector<Tensor> want = train(clean, is_lstm, 5, options);
      const std::vector<Tensor> got = train(from_vector({3, 4, 2}, dirty), is_lstm, 5, options);
      for (size_t k = 0; k < got.size(); ++k) EXPECT_EQ(got[k].to_vector(), want[k].to_vector()) << k;
      EXPECT_THAT(narrow(got[0], 0, 1, 1).to_vector(), Each(0));
    }
  }
}

TEST(RecurrentOps, NeverReadPaddingInTheGradientOfTheGradient) {
  const Tensor lengths = from_vector({2}, {2, 1}, DType::kI32);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto twice = [&](bool is_lstm, double padding) {
    const Tensor x = from_vector({2, 2, 1}, {0.5, -0.25, 0.75, padding}, DType::kF64);
    const std::vector<Tensor> w = weights(1, 2, is_lstm, DType::kF64);
    auto step = capture([&](const Tensor& in) {
      const RecurrentOptions options{.lengths = lengths};
      const Tensor out = is_lstm ? lstm(in, w[0], w[1], w[2], {}, options).sequence
                                 : gru(in, w[0], w[1], w[2], {}, options).sequence;
      const Tensor once = gradients(sum(out), std::array{in})[0];
      return gradients(sum(once * once), std::array{in})[0];
    });
    return step(x).to_vector();
  };
  for (const bool is_lstm : {true, false}) {
    const std::vector<double> result = twice(is_lstm, nan);
    EXPECT_EQ(result, twice(is_lstm, 3)) << is_lstm;
    EXPECT_NE(result[2], 0);
    EXPECT_EQ(result[3], 0);
  }
}

TEST(RecurrentOps, RefuseLengthsOutsideTheSequence) {
  const std::vector<Tensor> w = weights(2, 3, true);
  for (const double length : {-1.0, 5.0}) {
    const Tensor lengths = from_vector({1}, {length}, DType::kI32);
    EXPECT_ERROR(lstm(ones({1, 4, 2}), w[0], w[1], w[2], {}, {false, lengths}), ErrorCode::kOutOfRange,
                 "length");
  }
}

TEST(RecurrentOps, RefuseHalfAState) {
  const std::vector<Tensor> w = weights(2, 3, true);
  EXPECT_ERROR(lstm(ones({1, 4, 2}), w[0], w[1], w[2], {ones({1, 3}), Tensor()}), ErrorCode::kInvalidArgument,
               "only one");
}

/// One step from a zero state through kernels that pass x on: gates i, f, g, o all see x.
std::vector<double> lstm_of(const std::vector<double>& x, DType dtype) {
  const int64_t count = static_cast<int64_t>(x.size());
  const LstmResult result =
      lstm(from_vector({count, 1, 1}, x, dtype), ones({1, 4}, dtype), zeros({1, 4}, dtype), Tensor());
  return result.h.to_vector();
}

TEST(RecurrentOps, SaturateAndPassNaNThrough) {
  std::vector<double> x;
  for (double v = 1e-30; v < 1e30; v *= 1.7) {
    x.push_back(v);
    x.push_back(-v);
  }
  const double infinity = std::numeric_limits<double>::infinity();
  x.insert(x.end(), {0.0, infinity, -infinity});
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    const std::vector<double> got = lstm_of(x, dtype);
    for (size_t i = 0; i < x.size(); ++i) {
      const double value = from_vector({}, {x[i]}, dtype).to_vector()[0];
      const double gate = 1 / (1 + std::exp(-value));
      const double want = gate * std::tanh(gate * std::tanh(value));
      const double relative = dtype == DType::kF32 ? 2e-6 : 1e-14;
      EXPECT_NEAR(got[i], want, relative * std::abs(want) + 1e-37) << x[i];
    }
    EXPECT_TRUE(std::isnan(lstm_of({std::nan("")}, dtype)[0]));
  }
}

TEST(RecurrentOps, ComputeGatesToAFewUlp) {
  std::vector<double> numbers;
  for (float v = -20; v < 20; v += 0.00123F) numbers.push_back(v);
  for (float v = 1e-6F; v < 86; v *= 1.001F) numbers.insert(numbers.end(), {v, -v});
  const int64_t count = static_cast<int64_t>(numbers.size());
  const Tensor x = from_vector({count, 1, 1}, numbers);
  // One unit. Its state is sigmoid(x) times 1 with x in the forget gate, and tanh(x) with an open input gate.
  const auto worst = [&](const std::vector<double>& kernel, const std::vector<double>& bias, double before,
                         auto function, double ulp, double ulp_per_x) {
    const LstmState initial{zeros({count, 1}), full({count, 1}, before)};
    auto step = capture([&](const Tensor& input) {
      return lstm(input, from_vector({1, 4}, kernel), zeros({1, 4}), from_vector({4}, bias), initial).c;
    });
    const std::vector<double> got = step(x).to_vector();
    double excess = -1;
    for (size_t i = 0; i < numbers.size(); ++i) {
      const double want = function(numbers[i]);
      const double error = std::abs(got[i] - want) / std::ldexp(1.0, std::ilogb(want) - 23);
      excess = std::max(excess, error - ulp - ulp_per_x * std::abs(numbers[i]));
    }
    return excess;
  };
  for_each_target([&] {
    EXPECT_LT(worst(
                  {0, 1, 0, 0}, {0, 0, 0, 0}, 1, [](double v) { return 1 / (1 + std::exp(-v)); }, 3, 0.25),
              0);
    EXPECT_LT(worst(
                  {0, 0, 1, 0}, {86, 0, 0, 0}, 0, [](double v) { return std::tanh(v); }, 7, 0),
              0);
  });
}

TEST(RecurrentOps, WidenSixteenBitFloats) {
  const std::vector<Tensor> w = weights(2, 3, false);
  const Tensor x = uniform_values({2, 4, 2}, 6);
  const GruResult half = gru(cast(x, DType::kBF16), cast(w[0], DType::kBF16), cast(w[1], DType::kBF16),
                             cast(w[2], DType::kBF16));
  EXPECT_EQ(half.sequence.dtype(), DType::kBF16);
  const GruResult full = gru(x, w[0], w[1], w[2]);
  expect_all_close({cast(half.sequence, DType::kF32)}, {full.sequence}, 0.02);
}

TEST(RecurrentOps, KeepNothingForGradientsThatNobodyAsksFor) {
  const std::vector<Tensor> w = weights(8, 32, true);
  auto inference = capture([&](const Tensor& x) { return lstm(x, w[0], w[1], w[2]).h; });
  inference(uniform_values({16, 50, 8}, 1));
  EXPECT_LT(inference.plan_report().arena_bytes, 16 * 50 * 32 * sizeof(float));
}

}  // namespace
}  // namespace isochron
