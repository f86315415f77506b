// Where NaN and infinity come from, in a step written by hand.
#include <gmock/gmock.h>

#include <limits>

#include "isochron/autograd/autograd.h"
#include "isochron/graph/step/captured.h"
#include "isochron/nn/layers/layers.h"
#include "isochron/nn/losses/ctc.h"
#include "isochron/nn/losses/losses.h"
#include "isochron/ops/attention/attention.h"
#include "isochron/ops/control/control.h"
#include "isochron/ops/control/scan.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/reduction/cumulative.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/reduction/softmax.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"
#include "isochron/ops/shape/slicing.h"
#include "isochron/optim/optimizers.h"
#include "support/expect_error.h"
#include "support/near.h"

namespace isochron::nn {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

/// log(x + shift) among other elementwise ops, with which it is fused.
class Logarithm : public Module {
 public:
  Tensor forward(const Tensor& x) override { return log((x + shift) * 0.5) * 3.0 + 1.0; }
  void members(Members& list) override { list("shift", shift); }
  Variable shift{zeros({1}), "shift"};
};

class Net : public Module {
 public:
  Tensor forward(const Tensor& x) override { return out(features(x)); }
  void members(Members& list) override { list("features", features)("out", out); }
  Logarithm features;
  Dense out{1};
};

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotANumber) << error.what();
    return error.what();
  }
  return "";
}

const Tensor kGood = from_vector({2, 3}, {1, 2, 3, 4, 5, 6});
const Tensor kNegative = from_vector({2, 3}, {1, 2, 3, 4, -5, 6});

TEST(CheckNumerics, PassesALoopThatEndsEarlyAndIsDifferentiated) {
  for (const bool poison : {false, true}) {
    CaptureOptions options{.check_numerics = true};
    options.plan.poison = poison;
    auto step = capture(
        [](const Tensor& x) {
          const auto condition = [](std::span<const Tensor> state) { return state[0] < 3.0; };
          const auto body = [](std::span<const Tensor> state) {
            return std::vector<Tensor>{state[0] + 1.0, state[1] * 0.5};
          };
          const std::vector<Tensor> initial = {scalar(0, DType::kI64), x};
          const Tensor y = while_loop(condition, body, initial, {.max_iterations = 50})[1];
          const Tensor sources[] = {x};
          return gradients(sum(y), sources)[0];
        },
        options);
    EXPECT_EQ(step(ones({4})).to_vector(), std::vector<double>(4, 0.125)) << poison;
  }
}

TEST(CheckNumerics, NamesTheOpAndItsLayer) {
  Net net;
  const auto forward = [&](const Tensor& x) { return net(x); };
  auto plain = capture(forward);
  EXPECT_TRUE(std::isnan(plain(kNegative).to_vector()[1])) << "nobody looks";
  auto checked = capture(forward, {.check_numerics = true});
  EXPECT_TRUE(near(checked(kGood), net(kGood), 1e-6));
  EXPECT_THAT(error_of([&] { checked(kNegative); }),
              AllOf(testing::StartsWith("[features/log] node 'features/log_"), HasSubstr("1 of 6 elements"),
                    HasSubstr("the first at (1, 1)")));
  EXPECT_TRUE(near(checked(kGood), net(kGood), 1e-6)) << "it serves on";
  EXPECT_EQ(capture(forward, {.plan = {.check_numerics = true}}).plan_count(), 0u);
}

TEST(CheckNumerics, OfAGradientNamesTheOpThatItIsOf) {
  Net net;
  optim::Sgd sgd;
  auto step = capture(
      [&](const Tensor& x) {
        const Tensor loss = sum(sqrt(net(x) * 0.0));  // finite, with an infinite slope
        sgd.minimize(loss, net.parameters());
        return loss;
      },
      {.check_numerics = true});
  EXPECT_THAT(error_of([&] { step(kGood); }), ContainsRegex("node 'gradients/sqrt_[0-9]+/"));
  for (const Variable& parameter : net.parameters())
    EXPECT_THAT(parameter.tensor().to_vector(),
                testing::Each(testing::Truly([](double x) { return std::isfinite(x); })))
        << "found before the update";
  auto through_layer = capture(
      [&](const Tensor& x) {
        const Tensor y = net.features(x);
        sgd.minimize(sum(y) * std::numeric_limits<float>::max(), net.features.parameters());
      },
      {.check_numerics = true});
  EXPECT_THAT(error_of([&] { through_layer(kGood); }),
              AllOf(HasSubstr("node '"), testing::Not(HasSubstr("fused"))));
}

TEST(CheckNumerics, LooksIntoTheBodiesOfLoops) {
  auto step = capture(
      [](const Tensor& x) {
        const graph::NameScope scope("decoder");
        return scan([](std::span<const Tensor> state,
                       std::span<const Tensor>) { return ScanStep{{log(state[0]) - 1.0}}; },
                    {x}, {}, {.steps = 2})
            .state[0];
      },
      {.check_numerics = true});
  EXPECT_THAT(error_of([&] { step(kGood); }), testing::StartsWith("[decoder/log] node 'decoder/log_"));
}

TEST(CheckNumerics, TellsNumbersThatCameIn) {
  Net net;
  net(kGood);
  auto step = capture([&](const Tensor& x) { return net(x); }, {.name = "evaluate", .check_numerics = true});
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(error_of([&] {
                step(from_vector({1, 3}, {1, nan, 2}));
              }),
              HasSubstr("[evaluate] argument 0, f32(1, 3): 1 of 3"));
  net.features.shift.assign(from_vector({1}, {nan}));
  EXPECT_THAT(error_of([&] { step(kGood); }),
              HasSubstr("[evaluate] variable 'features/shift' before the call"));
}

TEST(CheckNumerics, StateMayBeginAsInfinity) {
  const Variable least(full({}, std::numeric_limits<double>::infinity()), "least", false);
  auto step = capture(
      [&](const Tensor& x) {
        const Tensor lesser = minimum(least, mean(x));
        least.assign(lesser);
        return lesser;
      },
      {.check_numerics = true});
  EXPECT_EQ(error_of([&] { EXPECT_EQ(step(kGood).item<double>(), 3.5); }), "");
}

TEST(CheckNumerics, AHealthyStepTrainsAsWithoutIt) {
  for (const Precision precision : {Precision::kF32, Precision::kMixedBf16}) {
    Net plain_net, checked_net;
    for (Net* net : {&plain_net, &checked_net}) {
      (*net)(kGood);
      net->out.kernel().assign(from_vector({3, 1}, {0.5, -1, 0.25}));
    }
    const auto losses = [&](Net& net, bool check) {
      optim::Adam adam;
      auto step = capture(
          [&](const Tensor& x) {
            const Tensor loss = mean_squared_error(net(x), ones({2, 1}));
            adam.minimize(loss, net.parameters());
            return loss;
          },
          {.passes = {.precision = precision}, .check_numerics = check});
      std::vector<double> found;
      for (int i = 0; i < 10; ++i) found.push_back(step(kGood).item<double>());
      return from_vector({10}, found);
    };
    EXPECT_TRUE(near(losses(checked_net, true), losses(plain_net, false), 1e-2));
  }
}

TEST(CheckNumerics, InfinitiesThatWerePutInPass) {
  const CaptureOptions checking{.check_numerics = true};
  const Tensor x = from_vector({2, 3}, {1, 2, 3, 4, 5, 6}), seen = x > 1.5;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  auto masked = capture(
      [&](const Tensor& in) { return softmax(masked_fill(in, logical_not(seen), -kInfinity)); }, checking);
  EXPECT_EQ(masked(x).to_vector()[0], 0);
  auto padded = capture(
      [](const Tensor& in) {
        return max(pad(in, {0, 1}, {0, 1}, -kInfinity), {1});
      },
      checking);
  EXPECT_EQ(padded(x).to_vector(), (std::vector<double>{3, 6}));
  auto attended = capture(
      [&](const Tensor& in) {
        const Tensor q = reshape(in, {1, 2, 1, 3}), mask = from_vector({2, 2}, {1, 0, 1, 1}, DType::kBool);
        return gradients(sum(square(attention(q, q, q, {.mask = mask}))), {in})[0];
      },
      checking);
  EXPECT_NO_THROW(attended(x));
  auto summed = capture(
      [](const Tensor& in) { return gradients(sum(log_cumulative_sum_exp(in, 1)), {in})[0]; }, checking);
  EXPECT_NO_THROW(summed(x));
  const Tensor lengths = from_vector({1}, {4}, DType::kI64),
               labels = from_vector({1, 2}, {1, 2}, DType::kI64);
  auto aligned = capture(
      [&](const Tensor& in) {
        return gradients(ctc_loss(log_softmax(in), labels, lengths, from_vector({1}, {2}, DType::kI64)),
                         {in})[0];
      },
      checking);
  EXPECT_NO_THROW(aligned(ones({1, 4, 3})));
  // What makes an infinity or NaN of them is named all the same.
  auto overflows = capture([](const Tensor& in) { return exp(in * 100.0) + 1.0; }, checking);
  EXPECT_THAT(error_of([&] { overflows(x); }), HasSubstr("[exp]"));
  auto differs = capture(
      [&](const Tensor& in) {
        const Tensor hidden = masked_fill(in, seen, kInfinity);
        return hidden - hidden;
      },
      checking);
  EXPECT_THAT(error_of([&] { differs(x); }), HasSubstr("[sub]"));
}

}  // namespace
}  // namespace isochron::nn
