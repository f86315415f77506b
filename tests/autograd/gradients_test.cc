// Reverse mode within a capture.
#include <gmock/gmock.h>

#include <cmath>

#include "isochron/autograd/autograd.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/graph/capture/capture.h"
#include "isochron/graph/capture/variable.h"
#include "isochron/graph/step/captured.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"
#include "isochron/ops/shape/slicing.h"
#include "support/expect_error.h"
#include "support/near.h"

namespace isochron {
namespace {

using testing::ElementsAre;

TEST(Gradients, AreForCaptures) {
  const Tensor x = vec64({1});
  EXPECT_ERROR(gradients(x, {&x, 1}), ErrorCode::kCaptureViolation, "record with a GradientTape");
}

TEST(Gradients, OfInputsAndVariables) {
  const Tensor weight = vec64({2, 3});
  auto step = capture([&](const Tensor& x) {
    const Tensor loss = sum(square(x * weight));
    return gradients(loss, std::vector<Tensor>{x, weight});
  });
  const std::span<const Tensor> g = step(vec64({1, 10}));
  EXPECT_THAT(g[0].to_vector(), ElementsAre(8, 180));
  EXPECT_THAT(g[1].to_vector(), ElementsAre(4, 600));
  graph::assign(weight, vec64({0, 1}));
  EXPECT_THAT(step(vec64({1, 10}))[0].to_vector(), ElementsAre(0, 20));
}

TEST(Gradients, OfAListOfVariables) {
  const std::vector<Variable> variables{{vec64({2, 3}), "w"}, {vec64({1, 1}), "b"}};
  const auto loss_of = [&](const Tensor& x) { return sum(square(x * variables[0]) + x * variables[1]); };
  auto step = capture([&](const Tensor& x) { return gradients(loss_of(x), variables); });
  const Variable x(vec64({1, 10}), "x");
  const std::span<const Tensor> captured = step(x);  // a variable is an argument too
  ASSERT_EQ(captured.size(), 2u);
  EXPECT_THAT(captured[0].to_vector(), ElementsAre(4, 600));
  EXPECT_THAT(captured[1].to_vector(), ElementsAre(1, 10));
  GradientTape tape;
  const Tensor loss = loss_of(x);
  const std::vector<Tensor> eager = tape.gradient(loss, variables);
  ASSERT_EQ(eager.size(), 2u);
  EXPECT_THAT(eager[0].to_vector(), ElementsAre(4, 600));
}

TEST(Gradients, SecondAndThirdDerivatives) {
  auto step = capture([](const Tensor& x) {
    const std::vector<Tensor> source{x};
    const Tensor y = sum(sin(x) * x);
    const Tensor d1 = gradients(y, source)[0];
    const Tensor d2 = gradients(sum(d1), source)[0];
    const Tensor d3 = gradients(sum(d2), source)[0];
    return std::tuple(d1, d2, d3);
  });
  const double x = 0.7;
  const auto [d1, d2, d3] = step(vec64({x}));
  EXPECT_NEAR(d1.item<double>(), std::sin(x) + x * std::cos(x), 1e-12);
  EXPECT_NEAR(d2.item<double>(), 2 * std::cos(x) - x * std::sin(x), 1e-12);
  EXPECT_NEAR(d3.item<double>(), -3 * std::sin(x) - x * std::cos(x), 1e-12);
}

TEST(Gradients, MixedSecondDerivative) {
  auto step = capture([](const Tensor& x, const Tensor& y) {
    const Tensor dx = gradients(sum(square(x) * exp(y)), std::vector<Tensor>{x})[0];
    return gradients(sum(dx), std::vector<Tensor>{y})[0];
  });
  EXPECT_NEAR(step(vec64({3}), vec64({1})).item<double>(), 6 * std::exp(1.0), 1e-12);
}

TEST(Gradients, SeedsTargetsAndDisconnectedSources) {
  const Tensor lonely = vec64({1});
  auto step = capture([&](const Tensor& x) {
    const std::vector<Tensor> targets{x * 2.0, x * x};
    const std::vector<Tensor> sources{x, lonely};
    const std::vector<Tensor> plain = gradients(targets, sources);
    EXPECT_FALSE(plain[1].defined());
    const std::vector<Tensor> seeds{x * 0.0 + 10.0, Tensor()};
    return std::pair(plain[0], gradients(targets, sources, seeds)[0]);
  });
  const auto [plain, seeded] = step(vec64({1, 4}));
  EXPECT_THAT(plain.to_vector(), ElementsAre(4, 10));
  EXPECT_THAT(seeded.to_vector(), ElementsAre(20, 20));
}

TEST(Gradients, TakeListsOfTargetsAndSeeds) {
  const Tensor x = vec64({2, 3});
  GradientTape tape;
  const Tensor y = square(x), z = x * 3.0;
  EXPECT_THAT(tape.gradient({y, z}, {x}, {vec64({1, 2}), vec64({10, 0})})[0].to_vector(),
              ElementsAre(34, 12));
  auto step = capture([](const Tensor& in) { return gradients({square(in), in * 3.0}, {in})[0]; });
  EXPECT_THAT(step(x).to_vector(), ElementsAre(7, 9));
}

/// The gradient of a weighted sum of slices of x (4, 5), which may overlap, have gaps and lie along any axis.
Tensor gradient_of_slices(const Tensor& x, bool second) {
  GradientTape tape(true);
  Tensor total =
      sum(square(narrow(x, 0, 1, 2))) + sum(narrow(x, 0, 3, 1) * 3.0) + sum(square(narrow(x, 0, 2, 2)));
  for (int64_t i = 4; i >= 0; i -= 2)
    total = total + sum(square(narrow(x, 1, i, 1)) * static_cast<double>(i + 1));
  total =
      total + sum(square(slice(x, {0, 0}, {3, 4}))) + sum(square(slice(x, {0}, {4}, {2}))) + sum(square(x));
  const Tensor first = tape.gradient({total}, {x})[0];
  return second ? tape.gradient({sum(square(first))}, {x})[0] : first;
}

TEST(Gradients, OfSlicesAreJoined) {
  std::vector<double> numbers, expected(20, 0), hessian(20, 0);
  for (size_t i = 0; i < 20; ++i) numbers.push_back(0.5 * static_cast<double>(i) - 3);
  for (size_t i = 0; i < 20; ++i) {
    const size_t row = i / 5, column = i % 5;
    if (row == 3) expected[i] += 3;
    hessian[i] += 2.0 * (row == 1 || row == 2) + 2.0 * (row >= 2);
    if (column % 2 == 0) hessian[i] += 2.0 * static_cast<double>(column + 1);
    hessian[i] += 2.0 * (row < 3 && column < 4) + 2.0 * (row % 2 == 0) + 2;
    expected[i] += hessian[i] * numbers[i];
  }
  const Tensor x = from_vector({4, 5}, numbers, DType::kF64);
  EXPECT_TRUE(near(gradient_of_slices(x, false), from_vector({4, 5}, expected, DType::kF64), 1e-14));
  std::vector<double> of_squares;
  for (size_t i = 0; i < 20; ++i) of_squares.push_back(2 * expected[i] * hessian[i]);
  EXPECT_TRUE(near(gradient_of_slices(x, true), from_vector({4, 5}, of_squares, DType::kF64), 1e-13));
  auto step = capture([](const Tensor& in) { return gradient_of_slices(in, true); });
  EXPECT_TRUE(near(step(x), from_vector({4, 5}, of_squares, DType::kF64), 1e-13));
}

TEST(Gradients, OfAnUnrolledLoopsSlicesTakeOneCopy) {
  int pads = 0, concatenations = 0;
  auto step = capture([&](const Tensor& x) {
    Tensor state = zeros({3, 1}, DType::kF64);
    for (const Tensor& part : split(x, 40, 1)) state = tanh(state + part);
    const Tensor gradient = gradients(sum(state), {x})[0];
    for (const auto& node : graph::Capture::current()->graph().nodes()) {
      pads += node->op->name == "pad";
      concatenations += node->op->name == "concatenate";
    }
    return gradient;
  });
  step(ones({3, 40}, DType::kF64));
  EXPECT_EQ(pads, 0);
  EXPECT_EQ(concatenations, 1);
}

TEST(Gradients, ErrorsNameTheTarget) {
  auto integer =
      capture([](const Tensor& x) { return gradients(cast(x, DType::kI32), std::vector<Tensor>{x})[0]; });
  EXPECT_ERROR(integer(vec64({1})), ErrorCode::kDtypeMismatch, "target 0 is i32(1)");
  auto undefined = capture([](const Tensor& x) { return gradients(Tensor(), std::vector<Tensor>{x})[0]; });
  EXPECT_ERROR(undefined(vec64({1})), ErrorCode::kInvalidArgument, "undefined");
  auto source = capture([](const Tensor& x) { return gradients(x, std::vector<Tensor>{Tensor()})[0]; });
  EXPECT_ERROR(source(vec64({1})), ErrorCode::kInvalidArgument, "undefined");
}

TEST(Gradients, OfTheNewestContentOfAVariable) {
  const Variable weight(vec64({3}), "weight");
  auto step = capture([&](const Tensor& x) {
    const Tensor before = gradients(weight * weight * x, std::vector<Tensor>{weight})[0];
    weight.assign(weight + 1.0);
    const Tensor after = gradients(weight * weight * x, std::vector<Tensor>{weight})[0];
    return std::pair(before, after);
  });
  const auto [before, after] = step(vec64({1}));
  EXPECT_EQ(before.item<int>(), 6);
  EXPECT_EQ(after.item<int>(), 8);
}

TEST(Gradients, TiesAndZerosFollowTheDocumentedRules) {
  auto step = capture([](const Tensor& x) {
    const std::vector<Tensor> source{x};
    return std::tuple(gradients(max(x), source)[0], gradients(prod(x), source)[0],
                      gradients(sum(relu(x)), source)[0], gradients(sum(maximum(x, 0.0)), source)[0]);
  });
  const auto [largest, product, rectified, halves] = step(vec64({2, 0, 2}));
  EXPECT_THAT(largest.to_vector(), ElementsAre(0.5, 0, 0.5));
  EXPECT_THAT(product.to_vector(), ElementsAre(0, 4, 0));
  EXPECT_THAT(rectified.to_vector(), ElementsAre(1, 0, 1));
  EXPECT_THAT(halves.to_vector(), ElementsAre(1, 0.5, 1));
}

TEST(Gradients, OfThoseOfAProductAreRightAtZeros) {
  auto hessian = capture([](const Tensor& x) {
    const std::vector<Tensor> source{x};
    const Tensor first = gradients(prod(x), source)[0];
    std::vector<Tensor> rows;
    for (int64_t i = 0; i < 4; ++i) {
      rows.push_back(
          gradients(first * vec64({i == 0 ? 1. : 0., i == 1 ? 1. : 0., i == 2 ? 1. : 0., i == 3 ? 1. : 0.}),
                    source)[0]);
    }
    return concatenate(rows, 0);
  });
  EXPECT_THAT(hessian(vec64({0, 2, 3, 5})).to_vector(),
              ElementsAre(0, 15, 10, 6, 15, 0, 0, 0, 10, 0, 0, 0, 6, 0, 0, 0));
  EXPECT_THAT(hessian(vec64({0, 2, 0, 5})).to_vector(),
              ElementsAre(0, 0, 10, 0, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(hessian(vec64({0, 2, 0, 0})).to_vector(), testing::Each(0));
}

TEST(Gradients, OfEluIsThatOfItsExponentialAtZero) {
  auto step = capture([](const Tensor& x) {
    const std::vector<Tensor> source{x};
    return std::tuple(gradients(sum(elu(x)), source)[0], gradients(sum(selu(x)), source)[0]);
  });
  const auto [smooth, scaled] = step(vec64({-0.0, 0, 200, -200}));
  EXPECT_THAT(smooth.to_vector(), ElementsAre(1, 1, 1, testing::DoubleNear(0, 1e-9)));
  EXPECT_THAT(scaled.to_vector(), testing::Contains(testing::DoubleNear(1.7580993408473766, 1e-12)).Times(2));
}

TEST(Gradients, OfAQuotientInF16NeedsNoSquareOfTheDivisor) {
  auto step = capture([](const Tensor& a, const Tensor& b) {
    return gradients(sum(cast(a, DType::kF16) / cast(b, DType::kF16)), std::vector<Tensor>{b})[0];
  });
  EXPECT_THAT(Tensor(step(vec64({3000, 1}), vec64({300, 0.01}))).to_vector(),
              ElementsAre(testing::DoubleNear(-3000.0 / 300 / 300, 1e-3), testing::DoubleNear(-10000, 20)));
}

TEST(Gradients, OfAnAngleInF16NeedsNoSquares) {
  auto step = capture([](const Tensor& a, const Tensor& b) {
    return gradients(sum(atan2(cast(a, DType::kF16), cast(b, DType::kF16))), std::vector<Tensor>{a, b})[0];
  });
  EXPECT_THAT(Tensor(step(vec64({300, 3e-4}), vec64({400, 4e-4}))).to_vector(),
              ElementsAre(testing::DoubleNear(400.0 / 250000, 2e-6), testing::DoubleNear(1600, 5)));
}

}  // namespace
}  // namespace isochron
