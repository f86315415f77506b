// scan: eager against captured, gradients of both, against the fused recurrent ops, errors.
#include "isochron/ops/control/scan.h"

#include <gmock/gmock.h>

#include <cmath>

#include "isochron/autograd/autograd.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/graph/capture/capture.h"
#include "isochron/graph/step/captured.h"
#include "isochron/ops/control/control.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/matmul/matmul.h"
#include "isochron/ops/random/random.h"
#include "isochron/ops/recurrent/recurrent.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"
#include "support/expect_error.h"

namespace isochron {
namespace {

using testing::ElementsAre;

Tensor numbers(const Shape& shape, uint64_t seed) {
  random::Generator generator(seed);
  return random_uniform(shape, -1, 1, DType::kF64, generator);
}

void expect_close(std::span<const Tensor> got, std::span<const Tensor> want, double tolerance = 1e-12) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t k = 0; k < got.size(); ++k) {
    ASSERT_EQ(got[k].spec(), want[k].spec()) << k;
    const std::vector<double> a = got[k].to_vector();
    const std::vector<double> b = want[k].to_vector();
    for (size_t i = 0; i < a.size(); ++i) {
      ASSERT_NEAR(a[i], b[i], tolerance * (1 + std::abs(b[i]))) << "tensor " << k << ", element " << i;
    }
  }
}

/// Sums before and after each row, the last sum, and the rows seen.
std::vector<Tensor> running_sums(const Tensor& x, bool reverse) {
  const ScanResult result = scan(
      [](std::span<const Tensor> state, std::span<const Tensor> slices) {
        const Tensor total = state[0] + slices[0];
        return ScanStep{{total, state[1] + 1.0}, {total, state[0], slices[0], state[1]}};
      },
      {scalar(10, DType::kF64), scalar(0, DType::kI64)}, {x}, {.reverse = reverse});
  std::vector<Tensor> all = result.state;
  all.insert(all.end(), result.outputs.begin(), result.outputs.end());
  return all;
}

TEST(Scan, CarriesStateAndStacksOutputs) {
  const Tensor x = from_vector({3}, {1, 2, 4}, DType::kF64);
  for (const bool reverse : {false, true}) {
    auto step = capture([reverse](const Tensor& input) { return running_sums(input, reverse); });
    const auto expect_all = [&](std::span<const Tensor> got) {
      EXPECT_EQ(got[0].item<double>(), 17);
      EXPECT_EQ(got[1].item<int64_t>(), 3);
      if (reverse) {
        EXPECT_THAT(got[2].to_vector(), ElementsAre(17, 16, 14));
        EXPECT_THAT(got[3].to_vector(), ElementsAre(16, 14, 10));
        EXPECT_THAT(got[5].to_vector(), ElementsAre(2, 1, 0));
      } else {
        EXPECT_THAT(got[2].to_vector(), ElementsAre(11, 13, 17));
        EXPECT_THAT(got[3].to_vector(), ElementsAre(10, 11, 13));
        EXPECT_THAT(got[5].to_vector(), ElementsAre(0, 1, 2));
      }
      EXPECT_THAT(got[4].to_vector(), ElementsAre(1, 2, 4));
    };
    expect_all(step(x));
    expect_all(step(x));
    expect_all(running_sums(x, reverse));
  }
}

TEST(Scan, ExchangedStateAndUnreadResults) {
  const auto fibonacci = [](const Tensor& a, const Tensor& b) {
    const ScanResult result = scan(
        [](std::span<const Tensor> s, std::span<const Tensor>) {
          return ScanStep{{s[1], s[0] + s[1]}, {s[0], s[0] * 100.0}};
        },
        {a, b}, {}, {.steps = 8});
    return result.outputs[0];
  };
  auto step = capture(fibonacci);
  const Tensor a = full({}, 0, DType::kF64);
  const Tensor b = full({}, 1, DType::kF64);
  EXPECT_THAT(step(a, b).to_vector(), ElementsAre(0, 1, 1, 2, 3, 5, 8, 13));
  EXPECT_THAT(fibonacci(a, b).to_vector(), ElementsAre(0, 1, 1, 2, 3, 5, 8, 13));
}

TEST(Scan, OfNoRowsGivesTheInitialState) {
  const Tensor x = zeros({0}, DType::kF64);
  auto step = capture([](const Tensor& input) { return running_sums(input, false); });
  for (const std::vector<Tensor>& all :
       {running_sums(x, false), std::vector<Tensor>(step(x).begin(), step(x).end())}) {
    EXPECT_EQ(all[0].item<double>(), 10);
    EXPECT_EQ(all[2].spec(), (TensorSpec{DType::kF64, {0}}));
    EXPECT_EQ(all[5].spec(), (TensorSpec{DType::kI64, {0}}));
  }
}

using Function = std::function<std::vector<Tensor>(std::span<const Tensor>)>;

/// The same numbers in a capture as outside.
std::vector<Tensor> seeds_for(std::span<const Tensor> targets) {
  const graph::EagerScope eager;
  std::vector<Tensor> seeds;
  for (size_t i = 0; i < targets.size(); ++i) seeds.push_back(numbers(targets[i].shape(), 50 + i));
  return seeds;
}

std::vector<Tensor> with_gradients(const Function& function, const std::vector<Tensor>& arguments,
                                   bool captured) {
  const auto all_of = [&function](std::span<const Tensor> inputs) {
    GradientTape tape;
    std::vector<Tensor> targets = function(inputs);
    const std::vector<Tensor> sources(inputs.begin(), inputs.end());
    const std::vector<Tensor> seeds = seeds_for(targets);
    std::vector<Tensor> all = targets;
    for (const Tensor& gradient : tape.gradient(targets, sources, seeds)) all.push_back(gradient);
    return all;
  };
  if (!captured) return all_of(arguments);
  CapturedFunction step(all_of, {});
  std::vector<const Tensor*> pointers;
  for (const Tensor& argument : arguments) pointers.push_back(&argument);
  std::vector<Tensor> copies;
  for (const Tensor& result : step.call(pointers)) copies.push_back(copy(result));
  return copies;
}

/// x (N, T, C), kernel, recurrent kernel, bias, h, c, in either direction.
Function fused_lstm(bool reverse) {
  return [reverse](std::span<const Tensor> in) {
    const LstmResult result = lstm(in[0], in[1], in[2], in[3], {in[4], in[5]}, {.reverse = reverse});
    return std::vector<Tensor>{result.sequence, result.h, result.c};
  };
}
Function scanned_lstm(bool reverse) {
  return [reverse](std::span<const Tensor> in) {
    const ScanResult result = scan(
        [&](std::span<const Tensor> state, std::span<const Tensor> slices) {
          const LstmState next = lstm_step(slices[0], {state[0], state[1]}, in[1], in[2], in[3]);
          return ScanStep{{next.h, next.c}, {next.h}};
        },
        {in[4], in[5]}, {transpose(in[0], {1, 0, 2})}, {.reverse = reverse});
    return std::vector<Tensor>{transpose(result.outputs[0], {1, 0, 2}), result.state[0], result.state[1]};
  };
}
Function fused_gru(bool reverse) {
  return [reverse](std::span<const Tensor> in) {
    const GruResult result = gru(in[0], in[1], in[2], in[3], in[4], {.reverse = reverse});
    return std::vector<Tensor>{result.sequence, result.h};
  };
}
Function scanned_gru(bool reverse) {
  return [reverse](std::span<const Tensor> in) {
    const ScanResult result = scan(
        [&](std::span<const Tensor> state, std::span<const Tensor> slices) {
          const Tensor next = gru_step(slices[0], state[0], in[1], in[2], in[3]);
          return ScanStep{{next}, {next}};
        },
        {in[4]}, {transpose(in[0], {1, 0, 2})}, {.reverse = reverse});
    return std::vector<Tensor>{transpose(result.outputs[0], {1, 0, 2}), result.state[0]};
  };
}

// More rows than a block, more steps than a chunk, more units than a vector, both threads.
constexpr int64_t kRows = 107;
constexpr int64_t kSteps = 13;
constexpr int64_t kFeatures = 5;
constexpr int64_t kUnits = 21;

std::vector<Tensor> layer_arguments(bool lstm) {
  const int64_t columns = (lstm ? 4 : 3) * kUnits;
  std::vector<Tensor> arguments{numbers({kRows, kSteps, kFeatures}, 1),
                                numbers({kFeatures, columns}, 2) * 0.5, numbers({kUnits, columns}, 3) * 0.5,
                                numbers(lstm ? Shape{columns} : Shape{2, columns}, 4),
                                numbers({kRows, kUnits}, 5)};
  if (lstm) arguments.push_back(numbers({kRows, kUnits}, 6));
  return arguments;
}

TEST(Scan, OfAnLstmStepEqualsTheFusedOp) {
  for (const bool reverse : {false, true}) {
    const std::vector<Tensor> want = with_gradients(fused_lstm(reverse), layer_arguments(true), false);
    for (const bool captured : {false, true}) {
      expect_close(with_gradients(scanned_lstm(reverse), layer_arguments(true), captured), want, 1e-11);
    }
    expect_close(with_gradients(fused_lstm(reverse), layer_arguments(true), true), want, 1e-12);
  }
}

TEST(Scan, OfAGruStepEqualsTheFusedOp) {
  for (const bool reverse : {false, true}) {
    const std::vector<Tensor> want = with_gradients(fused_gru(reverse), layer_arguments(false), false);
    for (const bool captured : {false, true}) {
      expect_close(with_gradients(scanned_gru(reverse), layer_arguments(false), captured), want, 1e-11);
    }
  }
}

/// An outer scan over rows of x whose body scans each row, with a weight from outside in both bodies.
std::vector<Tensor> nested(std::span<const Tensor> in) {
  const ScanResult result = scan(
      [&](std::span<const Tensor> state, std::span<const Tensor> slices) {
        const ScanResult inner = scan(
            [&](std::span<const Tensor> s, std::span<const Tensor> element) {
              const Tensor next = tanh(s[0] * in[1] + element[0]);
              return ScanStep{{next}, {next * state[0]}};
            },
            {state[0]}, {slices[0]}, {.reverse = true});
        return ScanStep{{inner.state[0] + sum(inner.outputs[0]) * in[1]}, {inner.outputs[0]}};
      },
      {in[2]}, {in[0]});
  return {result.state[0], result.outputs[0]};
}

TEST(Scan, NestsWithGradients) {
  const std::vector<Tensor> arguments{numbers({3, 4}, 7), numbers({}, 8), numbers({}, 9)};
  expect_close(with_gradients(nested, arguments, true), with_gradients(nested, arguments, false));
}

TEST(Scan, HasSecondDerivatives) {
  // One derivative by tape or graph inside, another outside; also where the state is read before the step.
  const Function first = [](std::span<const Tensor> in) {
    GradientTape tape;
    const ScanResult result = scan(
        [&](std::span<const Tensor> state, std::span<const Tensor> slices) {
          const Tensor next = state[0] * tanh(slices[0] * in[1]);
          return ScanStep{{next}, {next * state[0]}};
        },
        {in[2]}, {in[0]});
    const Tensor target = sum(result.outputs[0]) + result.state[0];
    const std::vector<Tensor> sources(in.begin(), in.end());
    return tape.gradient(target, sources);
  };
  const std::vector<Tensor> arguments{numbers({4}, 10), numbers({}, 11), numbers({}, 12)};
  expect_close(with_gradients(first, arguments, true), with_gradients(first, arguments, false));
}

TEST(Scan, GradientsDrawTheSameNumbers) {
  random::Generator generator(3);
  auto step = capture([&generator](const Tensor& x) {
    const ScanResult result = scan(
        [&](std::span<const Tensor> state, std::span<const Tensor> slices) {
          const Tensor dropped = dropout(slices[0], 0.5, true, generator);
          return ScanStep{{state[0] + sum(dropped)}, {dropped}};
        },
        {scalar(0, DType::kF64)}, {x});
    std::vector<Tensor> all{result.outputs[0]};
    all.push_back(gradients(result.state[0], std::vector<Tensor>{x})[0]);
    return all;
  });
  const auto results = step(ones({4, 50}, DType::kF64));
  EXPECT_EQ(results[0].to_vector(), results[1].to_vector());  // the mask, scaled
  const std::vector<double> mask = results[0].to_vector();
  EXPECT_NE(std::vector<double>(mask.begin(), mask.begin() + 50),
            std::vector<double>(mask.begin() + 50, mask.begin() + 100));
}

TEST(Scan, RejectsWrongCalls) {
  const ScanBody same = [](std::span<const Tensor> s, std::span<const Tensor>) {
    return ScanStep{{s.begin(), s.end()}};
  };
  const Tensor x = ones({3, 2});
  EXPECT_ERROR(scan(same, {x}, {}), ErrorCode::kInvalidArgument, "number of steps");
  EXPECT_ERROR(scan(same, {x}, {x, ones({4})}), ErrorCode::kShapeMismatch, "3 rows");
  EXPECT_ERROR(scan(same, {x}, {scalar(1)}), ErrorCode::kShapeMismatch, "not a sequence");
  EXPECT_ERROR(scan(same, {Tensor()}, {x}), ErrorCode::kInvalidArgument, "undefined");
  const ScanBody grows = [](std::span<const Tensor> s, std::span<const Tensor> rows) {
    return ScanStep{{s[0] + rows[0]}};
  };
  const ScanBody drops = [](std::span<const Tensor>, std::span<const Tensor>) { return ScanStep{{}}; };
  for (const ScanBody* wrong : {&grows, &drops}) {
    EXPECT_ERROR(scan(*wrong, {scalar(0)}, {x}), ErrorCode::kShapeMismatch, "[scan]");
    auto step = capture([&](const Tensor& input) { return scan(*wrong, {scalar(0)}, {input}).state; });
    EXPECT_ERROR(step(x), ErrorCode::kShapeMismatch, "[scan]");
  }
}

}  // namespace
}  // namespace isochron
