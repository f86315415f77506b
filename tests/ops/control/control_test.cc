// Conditionals and loops: eager against captured, gradients against central differences, errors.
#include "isochron/ops/control/control.h"

#include <gmock/gmock.h>

#include <cmath>

#include "isochron/autograd/autograd.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/graph/step/captured.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/indexing/indexing.h"
#include "isochron/ops/matmul/matmul.h"
#include "isochron/ops/random/random.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "support/expect_error.h"

namespace isochron {
namespace {

using ::testing::ElementsAre;

Tensor number(double value) { return full({}, value, DType::kF64); }
Tensor integer(int64_t value) { return full({}, static_cast<double>(value), DType::kI64); }

/// The document's loop: x = fmod(2 x, 7) repeated n times.
std::vector<Tensor> doubling(const Tensor& x, const Tensor& n, int64_t bound = -1) {
  return while_loop([&](std::span<const Tensor> s) { return s[0] < n; },
                    [](std::span<const Tensor> s) {
                      return std::vector<Tensor>{s[0] + 1.0, fmod(s[1] * 2.0, 7.0)};
                    },
                    {scalar(0, DType::kI64), x}, {.max_iterations = bound});
}

TEST(WhileLoop, CapturedEqualsEagerAndPlainArithmetic) {
  auto step = capture([](const Tensor& x, const Tensor& n) { return doubling(x, n)[1]; });
  for (int64_t n : {0, 1, 5, 1000}) {
    double expected = 1.5;
    for (int64_t i = 0; i < n; ++i) expected = std::fmod(expected * 2, 7);
    EXPECT_EQ(step(number(1.5), integer(n)).item<double>(), expected) << n;
    EXPECT_EQ(doubling(number(1.5), integer(n))[1].item<double>(), expected) << n;
  }
  EXPECT_EQ(step.plan_count(), 1u);  // the number of iterations is data, not signature
}

TEST(WhileLoop, ConditionsDrawAnewInEachIteration) {
  int ended_between = 0;
  for (uint64_t seed = 0; seed < 16; ++seed) {
    random::Generator generator(seed);
    auto count = capture([&](const Tensor& start) {
      return while_loop(
          [&](std::span<const Tensor>) { return random_uniform({}, 0, 1, DType::kF32, generator) < 0.8; },
          [](std::span<const Tensor> state) { return std::vector<Tensor>{state[0] + 1.0}; }, {start},
          {.max_iterations = 100})[0];
    });
    const int64_t iterations = count(integer(0)).item<int64_t>();
    ended_between += iterations > 0 && iterations < 100;
  }
  EXPECT_GE(ended_between, 6) << "one draw for all iterations would end none or each at 0";
}

TEST(WhileLoop, StopsAtItsBound) {
  auto step = capture([](const Tensor& x, const Tensor& n) { return doubling(x, n, 3)[0]; });
  EXPECT_EQ(step(number(1), integer(10)).item<int64_t>(), 3);
  EXPECT_EQ(step(number(1), integer(2)).item<int64_t>(), 2);
  EXPECT_EQ(doubling(number(1), integer(10), 3)[0].item<int64_t>(), 3);
}

TEST(WhileLoop, SwappedStateIsNotOverwrittenTooEarly) {
  const auto fibonacci = [](const Tensor& a, const Tensor& b, const Tensor& n) {
    return while_loop([&](std::span<const Tensor> s) { return s[0] < n; },
                      [](std::span<const Tensor> s) {
                        return std::vector<Tensor>{s[0] + 1.0, s[2], s[1] + s[2]};
                      },
                      {scalar(0, DType::kI64), a, b});
  };
  auto step =
      capture([&](const Tensor& a, const Tensor& b, const Tensor& n) { return fibonacci(a, b, n)[1]; });
  EXPECT_EQ(step(number(0), number(1), integer(20)).item<double>(), 6765);
  EXPECT_EQ(fibonacci(number(0), number(1), integer(20))[1].item<double>(), 6765);
}

TEST(WhileLoop, StateHandedThroughAndExchanged) {
  auto step = capture([](const Tensor& a, const Tensor& b, const Tensor& n) {
    return while_loop([&](std::span<const Tensor> s) { return s[0] < n; },
                      [](std::span<const Tensor> s) {
                        return std::vector<Tensor>{s[0] + 1.0, s[2], s[1]};
                      },
                      {scalar(0, DType::kI64), a, b});
  });
  const auto odd = step(number(3), number(4), integer(5));
  EXPECT_EQ(odd[1].item<double>(), 4);
  EXPECT_EQ(odd[2].item<double>(), 3);
}

TEST(WhileLoop, ReadsVariablesByReference) {
  const Tensor variable = full({2}, 1.0, DType::kF64);
  auto step = capture([&](const Tensor& n) {
    return while_loop([&](std::span<const Tensor> s) { return s[0] < n; },
                      [&](std::span<const Tensor> s) {
                        return std::vector<Tensor>{s[0] + 1.0, s[1] + variable.refreshed()};
                      },
                      {scalar(0, DType::kI64), full({2}, 0.0, DType::kF64)})[1];
  });
  EXPECT_THAT(step(integer(3)).to_vector(), ElementsAre(3, 3));
  graph::assign(variable, from_vector({2}, {1, 10}, DType::kF64));
  EXPECT_THAT(step(integer(3)).to_vector(), ElementsAre(3, 30));
}

/// f(x, w): w is captured by the body; x is state; also uses matmul and a value from outside the loop.
Tensor recurrent(const Tensor& x, const Tensor& w, int64_t steps) {
  const Tensor scale = mean(square(w));
  return sum(while_loop(
      [&](std::span<const Tensor> s) { return s[0] < scalar(static_cast<double>(steps), DType::kI64); },
      [&](std::span<const Tensor> s) {
        return std::vector<Tensor>{s[0] + 1.0, tanh(matmul(s[1], w)) + s[1] * scale};
      },
      {scalar(0, DType::kI64), x}, {.max_iterations = 6})[1]);
}

TEST(WhileLoop, GradientMatchesTheTapeAndCentralDifferences) {
  const Tensor x = from_vector({1, 2}, {0.3, -0.7}, DType::kF64);
  const Tensor w = from_vector({2, 2}, {0.5, -0.2, 0.1, 0.8}, DType::kF64);
  auto step = capture([](const Tensor& a, const Tensor& b) {
    const std::vector<Tensor> sources{a, b};
    return gradients(recurrent(a, b, 4), sources);
  });
  const auto captured = step(x, w);
  GradientTape tape;
  const std::vector<Tensor> sources{x, w};
  const std::vector<Tensor> eager = tape.gradient(recurrent(x, w, 4), sources);
  constexpr double kEpsilon = 1e-6;
  for (int which = 0; which < 2; ++which) {
    const std::vector<double> base = sources[static_cast<size_t>(which)].to_vector();
    const std::vector<double> from_graph = captured[static_cast<size_t>(which)].to_vector();
    const std::vector<double> from_tape = eager[static_cast<size_t>(which)].to_vector();
    for (size_t i = 0; i < base.size(); ++i) {
      const auto at = [&](double delta) {
        std::vector<double> moved = base;
        moved[i] += delta;
        const Tensor t = from_vector(sources[static_cast<size_t>(which)].shape(), moved, DType::kF64);
        return (which == 0 ? recurrent(t, w, 4) : recurrent(x, t, 4)).item<double>();
      };
      const double expected = (at(kEpsilon) - at(-kEpsilon)) / (2 * kEpsilon);
      EXPECT_NEAR(from_graph[i], expected, 1e-5 + 1e-3 * std::abs(expected));
      EXPECT_NEAR(from_tape[i], expected, 1e-5 + 1e-3 * std::abs(expected));
    }
  }
}

TEST(WhileLoop, SecondDerivativeWorks) {
  // y = x^(2^3) by three squarings: y'' = 56 x^6.
  auto step = capture([](const Tensor& x) {
    const Tensor y = while_loop([](std::span<const Tensor> s) { return s[0] < 3.0; },
                                [](std::span<const Tensor> s) {
                                  return std::vector<Tensor>{s[0] + 1.0, square(s[1])};
                                },
                                {scalar(0, DType::kI64), x}, {.max_iterations = 5})[1];
    const std::vector<Tensor> sources{x};
    const Tensor first = gradients(y, sources)[0];
    return std::pair<Tensor, Tensor>(first, gradients(first, sources)[0]);
  });
  const auto [first, second] = step(number(1.1));
  EXPECT_NEAR(first.item<double>(), 8 * std::pow(1.1, 7), 1e-9);
  EXPECT_NEAR(second.item<double>(), 56 * std::pow(1.1, 6), 1e-9);
}

TEST(WhileLoop, WithoutGradientItsStacksTakeNoMemory) {
  const auto build = [](int64_t bound) {
    auto step = capture([bound](const Tensor& x, const Tensor& n) { return doubling(x, n, bound)[1]; });
    step(full({1000}, 1.0, DType::kF64), integer(2));
    return step.plan_report().arena_bytes;
  };
  EXPECT_EQ(build(-1), build(500));
}

TEST(WhileLoop, NestsAndContainsConditionals) {
  // Counts the primes below n by trial division.
  const auto primes = [](const Tensor& n) {
    return while_loop(
        [&](std::span<const Tensor> s) { return s[0] < n; },
        [](std::span<const Tensor> s) {
          const Tensor candidate = s[0];
          const std::vector<Tensor> found = while_loop(
              [&](std::span<const Tensor> t) { return logical_and(square(t[0]) <= candidate, t[1] > 0.0); },
              [&](std::span<const Tensor> t) {
                const Tensor remainder = fmod(candidate, t[0]);
                const Tensor prime = cond(
                    equal(remainder, scalar(0, DType::kF64)), [] { return scalar(0, DType::kF64); },
                    [] { return scalar(1, DType::kF64); });
                return std::vector<Tensor>{t[0] + 1.0, prime};
              },
              {scalar(2, DType::kF64), scalar(1, DType::kF64)});
          return std::vector<Tensor>{candidate + 1.0, s[1] + found[1]};
        },
        {scalar(2, DType::kF64), scalar(0, DType::kF64)});
  };
  auto step = capture([&](const Tensor& n) { return primes(n)[1]; });
  EXPECT_EQ(step(number(100)).item<double>(), 25);
  EXPECT_EQ(primes(number(100))[1].item<double>(), 25);
}

TEST(WhileLoop, RejectsWhatItCannotDo) {
  const auto forever = [](std::span<const Tensor> s) { return s[0] < 3.0; };
  EXPECT_ERROR(
      while_loop(forever, [](std::span<const Tensor>) { return std::vector<Tensor>{}; }, {number(0)}),
      ErrorCode::kShapeMismatch, "body gives 0 tensors");
  auto changes = capture([&](const Tensor& x) {
    return while_loop([](std::span<const Tensor> s) { return sum(s[0]) < 3.0; },
                      [](std::span<const Tensor> s) { return std::vector<Tensor>{sum(s[0])}; }, {x})[0];
  });
  EXPECT_ERROR(changes(full({2}, 0, DType::kF64)), ErrorCode::kShapeMismatch, "keeps its shape and dtype");
  auto number_as_condition = capture([&](const Tensor& x) {
    return while_loop([](std::span<const Tensor> s) { return s[0]; },
                      [](std::span<const Tensor> s) { return std::vector<Tensor>{s[0]}; }, {x})[0];
  });
  EXPECT_ERROR(number_as_condition(number(1)), ErrorCode::kDtypeMismatch, "must be one bool");
  auto unbounded = capture([](const Tensor& x, const Tensor& n) {
    const std::vector<Tensor> sources{x};
    return gradients(doubling(x, n)[1], sources)[0];
  });
  EXPECT_ERROR(unbounded(number(1), integer(1)), ErrorCode::kUnsupported, "max_iterations");
  const Tensor variable = full({}, 0, DType::kF64);
  auto assigns = capture([&](const Tensor& x) {
    return while_loop([](std::span<const Tensor> s) { return s[0] < 3.0; },
                      [&](std::span<const Tensor> s) {
                        graph::assign(variable, s[0]);
                        return std::vector<Tensor>{s[0] + 1.0};
                      },
                      {x})[0];
  });
  EXPECT_ERROR(assigns(number(1)), ErrorCode::kUnsupported, "assign it outside");
}

Tensor piecewise(const Tensor& x) {
  return cond(
      sum(x) > 0.0, [&] { return sum(square(x)); }, [&] { return sum(exp(x)); });
}

TEST(Cond, RunsTheChosenBranchAndDifferentiatesIt) {
  auto step = capture([](const Tensor& x) {
    const Tensor y = piecewise(x);
    const std::vector<Tensor> sources{x};
    return std::pair<Tensor, Tensor>(y, gradients(y, sources)[0]);
  });
  const Tensor up = from_vector({2}, {1, 2}, DType::kF64);
  const Tensor down = from_vector({2}, {-1, -2}, DType::kF64);
  const auto positive = step(up);
  EXPECT_EQ(positive.first.item<double>(), 5);
  EXPECT_THAT(positive.second.to_vector(), ElementsAre(2, 4));
  const auto negative = step(down);
  EXPECT_DOUBLE_EQ(negative.first.item<double>(), std::exp(-1.0) + std::exp(-2.0));
  EXPECT_THAT(negative.second.to_vector(), ElementsAre(std::exp(-1.0), std::exp(-2.0)));
  EXPECT_EQ(step.plan_count(), 1u);
  EXPECT_EQ(piecewise(up).item<double>(), 5);
}

TEST(Cond, GradientsOfABodyRefuseTheWayThroughWhatWasComputedBefore) {
  const auto in_branch = [](auto target) {
    return [target](const Tensor& x) {
      const Tensor y = x * x;
      return cond(
          x > 0.0, [&] { return gradients(target(x, y), {x})[0]; }, [&] { return x * 0.0; });
    };
  };
  auto through_y = capture(in_branch([](const Tensor& x, const Tensor& y) { return y * x; }));
  EXPECT_ERROR(through_y(number(2)), ErrorCode::kUnsupported, "value that was computed before");
  auto through_y_alone = capture(in_branch([](const Tensor&, const Tensor& y) { return y * 3.0; }));
  EXPECT_ERROR(through_y_alone(number(2)), ErrorCode::kUnsupported, "value that was computed before");
  auto stopped = capture(in_branch([](const Tensor& x, const Tensor& y) { return stop_gradient(y) * x; }));
  EXPECT_EQ(stopped(number(2)).item<double>(), 4);
  auto inside = capture(in_branch([](const Tensor& x, const Tensor&) { return x * x * x; }));
  EXPECT_EQ(inside(number(2)).item<double>(), 12);
  auto independent = capture([](const Tensor& x) {
    const Tensor scale = full({}, 5.0, DType::kF64) * 2.0;
    return cond(
        x > 0.0, [&] { return gradients(x * scale, {x})[0]; }, [&] { return x * 0.0; });
  });
  EXPECT_EQ(independent(number(2)).item<double>(), 10);
  auto both = capture([](const Tensor& x) {
    const Tensor y = x * x;
    return cond(
        x > 0.0,
        [&] {
          return gradients(y * x, {x, y})[0];
        },
        [&] { return x * 0.0; });
  });
  EXPECT_ERROR(both(number(2)), ErrorCode::kUnsupported, "value that was computed before");
  auto deep = capture([](const Tensor& x) {
    const Tensor y = exp(x);
    return cond(
        x > 0.0,
        [&] {
          return cond(
              x > 1.0, [&] { return gradients(y * x, {x})[0]; }, [&] { return x * 0.0; });
        },
        [&] { return x * 0.0; });
  });
  EXPECT_ERROR(deep(number(2)), ErrorCode::kUnsupported, "value that was computed before");
}

TEST(Cond, ABranchThatIsNeverTakenMayHoldWhatFails) {
  auto step = capture([](const Tensor& taken) {
    return cond(
        taken,
        [&] {
          return gather(from_vector({2}, {1, 2}), from_vector({1}, {7}, DType::kI64));
        },
        [&] { return from_vector({1}, {5}); });
  });
  EXPECT_EQ(step(full({}, 0, DType::kBool)).to_vector(), (std::vector<double>{5}));
  EXPECT_ERROR(step(full({}, 1, DType::kBool)), ErrorCode::kOutOfRange, "7");
}

TEST(Cond, RejectsBranchesThatDiffer) {
  auto step = capture([](const Tensor& x) {
    return cond(
        x > 0.0, [&] { return x; }, [&] { return full({2}, 0, DType::kF64); });
  });
  EXPECT_ERROR(step(number(1)), ErrorCode::kShapeMismatch, "in one branch");
}

}  // namespace
}  // namespace isochron
