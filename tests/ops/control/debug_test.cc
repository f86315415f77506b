#include "isochron/ops/control/debug.h"

#include <gmock/gmock.h>

#include <cmath>

#include "isochron/graph/step/captured.h"
#include "isochron/ops/control/control.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "support/expect_error.h"
#include "support/simulated/results_on.h"

namespace isochron {
namespace {

TEST(Print, WritesWhenItRunsAndPassesTheValueOn) {
  testing::internal::CaptureStderr();
  const Tensor y = print(from_vector({2}, {1, 2.5}), "loss");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "loss: Tensor(f32(2): 1 2.5)\n");
  EXPECT_EQ(y.to_vector(), (std::vector<double>{1, 2.5}));
}

TEST(Print, WritesAtEveryReplayThoughNobodyReadsIt) {
  auto step = capture([](const Tensor& x) {
    print(x * 2.0, "doubled");
    return x + 1.0;
  });
  testing::internal::CaptureStderr();
  EXPECT_EQ(step(from_vector({1}, {3})).item<float>(), 4);
  EXPECT_EQ(step(from_vector({1}, {5})).item<float>(), 6);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "doubled: Tensor(f32(1): 6)\ndoubled: Tensor(f32(1): 10)\n");
}

TEST(CheckNumerics, NamesLabelFirstIndexAndCount) {
  const Tensor bad = from_vector({2, 3}, {0, 1, 2, 3, INFINITY, NAN}, DType::kBF16);
  EXPECT_ERROR(check_numerics(bad, "gradient of w"), ErrorCode::kNotANumber,
               "'gradient of w' bf16(2, 3): 2 of 6 elements are NaN or infinite, the first at (1, 1)");
}

TEST(CheckNumerics, LooksAtEveryReplay) {
  auto step = capture([](const Tensor& x) {
    check_numerics(log(x), "logarithm");
    return x * 2.0;
  });
  EXPECT_EQ(step(from_vector({1}, {1})).item<float>(), 2);
  EXPECT_ERROR(step(from_vector({1}, {-1})), ErrorCode::kNotANumber, "'logarithm' f32(1): 1 of 1");
  EXPECT_EQ(step(from_vector({1}, {3})).item<float>(), 6);
}

TEST(CheckNumerics, LooksInABranchWhoseResultNobodyReads) {
  auto step = capture([](const Tensor& x) {
    cond(
        less(sum(x), scalar(0)), [&] { return std::vector<Tensor>{check_numerics(log(x), "logarithm")}; },
        [&] { return std::vector<Tensor>{x}; });
    return x * 2.0;
  });
  EXPECT_EQ(step(from_vector({1}, {1})).item<float>(), 2);
  EXPECT_ERROR(step(from_vector({1}, {-1})), ErrorCode::kNotANumber, "'logarithm' f32(1): 1 of 1");
}

using Tensors = std::vector<Tensor>;

constexpr int kMultiprocessors = 4;

CaptureOptions on_device() {
  CaptureOptions options;
  options.plan.device = SimulatedGpu::kDevice;
  return options;
}

TEST(Print, WritesOnADeviceWhatItWritesHere) {
  const std::string label = "50% of \"x\"@\\";
  std::vector<double> many(17, 0.125);
  for (const Tensor& x :
       {from_vector({2, 2}, {1, -2.5, 1e10, NAN}), from_vector({3}, {1, -2, 300}, DType::kI64),
        from_vector({2}, {0.5, 2}, DType::kBF16), from_vector({2}, {1, 0}, DType::kBool),
        from_vector({17}, many), from_vector({16}, std::vector<double>(16, 3)), zeros({0, 3})}) {
    testing::internal::CaptureStderr();
    print(x, label);
    const std::string expected = testing::internal::GetCapturedStderr();
    const SimulatedGpu simulated({}, x.elems() <= 4);  // what printf is given of more lies in memory
    auto step = capture([&](const Tensor& in) { return print(in, label); }, on_device());
    testing::internal::CaptureStdout();
    EXPECT_THAT(step(x).to_vector(), testing::Pointwise(testing::NanSensitiveDoubleEq(), x.to_vector()));
    simulated.gpu->synchronize();
    EXPECT_EQ(testing::internal::GetCapturedStdout(), expected);
  }
}

TEST(Print, LinesOfADeviceKeepTheirOrder) {
  for (const uint64_t seed : {1, 2, 3, 4, 5}) {  // the simulated device uses another random order
    cuda::SimulatedDevice device;
    device.seed = seed;
    const SimulatedGpu simulated(device);
    auto step = capture(
        [](const Tensor& x) {
          Tensors printed;  // in separate memory, so that nothing else orders the prints
          for (const double factor : {1.0, 2.0, 3.0, 4.0}) printed.push_back(print(x * factor, "y"));
          return printed[0] + printed[1] + printed[2] + printed[3];
        },
        on_device());
    testing::internal::CaptureStdout();
    step(from_vector({1}, {3}));
    step(from_vector({1}, {4}));
    simulated.gpu->synchronize();
    EXPECT_EQ(testing::internal::GetCapturedStdout(),
              "y: Tensor(f32(1): 3)\ny: Tensor(f32(1): 6)\ny: Tensor(f32(1): 9)\ny: Tensor(f32(1): 12)\n"
              "y: Tensor(f32(1): 4)\ny: Tensor(f32(1): 8)\ny: Tensor(f32(1): 12)\ny: Tensor(f32(1): 16)\n");
  }
}

TEST(CheckNumerics, EndsADevice) {
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16}) {
    for (const double bad :
         {static_cast<double>(INFINITY), static_cast<double>(-INFINITY), static_cast<double>(NAN)}) {
      std::vector<double> values(20'000, 60'000);
      const auto check = [](std::span<const Tensor> in) {
        return Tensors{check_numerics(in[0], "gradient of 'w' 100%")};
      };
      const auto checked = [&] {
        return results_of(check, {from_vector({2, 100, 100}, values, dtype)}, kMultiprocessors)[0];
      };
      EXPECT_EQ(checked(), from_vector({20'000}, values, dtype).to_vector());
      values[15'003] = values[19'999] = bad;
      EXPECT_ERROR(
          checked(), ErrorCode::kDeviceLost,
          fmt::format(
              "check_numerics: 'gradient of 'w' 100%' {}(2, 100, 100): 2 of 20000 elements are NaN or "
              "infinite, the first at (1, 50, 3)",
              dtype_name(dtype)));
    }
  }
}

TEST(CheckNumerics, LooksOnADeviceThoughNobodyReadsIt) {
  const SimulatedGpu simulated;
  auto step = capture(
      [](const Tensor& x) {
        cond(
            less(sum(x), scalar(0)), [&] { return Tensors{check_numerics(log(x), "logarithm")}; },
            [&] { return Tensors{x}; });
        return x * 2.0;
      },
      on_device());
  EXPECT_EQ(step(from_vector({1}, {1})).item<float>(), 2);
  EXPECT_ERROR(step(from_vector({1}, {-1})).item<float>(), ErrorCode::kDeviceLost,
               "'logarithm' f32(1): 1 of 1");
}

}  // namespace
}  // namespace isochron
