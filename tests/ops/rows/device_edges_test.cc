// Where devices differ from the CPU in how a call is prepared: dtypes of two widths, memory that lacks,
// scores that overflow.
#include <gmock/gmock.h>

#include <cmath>
#include <map>

#include "isochron/backends/common/choices.h"
#include "isochron/core/base/error.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/graph/step/captured.h"
#include "isochron/memory/cuda/limit_memory.h"
#include "isochron/ops/attention/attention.h"
#include "isochron/ops/convolution/convolution.h"
#include "isochron/ops/convolution/pooling.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/matmul/matmul.h"
#include "isochron/ops/random/random.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "support/near.h"
#include "support/simulated/simulated_gpu.h"

namespace isochron {
namespace {

CaptureOptions on(Device device, Precision precision = Precision::kF32) {
  CaptureOptions options;
  options.plan.device = device;
  options.passes.precision = precision;
  return options;
}

TEST(DeviceEdges, MaxPoolGoesFromOneWidthToTheOther) {
  const SimulatedGpu simulated;
  const Tensor x = random_normal({2, 8, 8, 3}), kernel = random_normal({3, 3, 3, 4}),
               second = random_normal({3, 3, 4, 4});
  const auto pooled_first = [](const Tensor& in, const Tensor& k) {
    return conv2d(max_pool2d(in, {2, 2}), k);
  };
  const auto pooled_last = [](const Tensor& in, const Tensor& k, const Tensor& next) {
    const Tensor features = conv2d(in, k);
    return std::pair(mean(conv2d(features, next)), max_pool2d(features, {2, 2}));
  };
  for (const Precision precision : {Precision::kMixedBf16, Precision::kMixedF16}) {
    const Tensor here = copy(capture(pooled_first, on({}, precision))(x, kernel));
    EXPECT_TRUE(near(to_device(capture(pooled_first, on(SimulatedGpu::kDevice, precision))(x, kernel), {}),
                     here, 2e-2, 2e-2));
    auto there = capture(pooled_last, on(SimulatedGpu::kDevice, precision));
    auto same = capture(pooled_last, on({}, precision));
    const Tensor want = copy(std::get<1>(same(x, kernel, second)));
    EXPECT_TRUE(near(to_device(std::get<1>(there(x, kernel, second)), {}), want, 2e-2, 2e-2));
  }
}

TEST(DeviceEdges, ScoresThatOverflowDownwardsShowInTheResult) {
  const SimulatedGpu simulated;
  auto attend = capture([](const Tensor& q, const Tensor& k, const Tensor& v) { return attention(q, k, v); },
                        on(SimulatedGpu::kDevice));
  const Tensor q = full({1, 1, 1, 1}, 1e30), v = from_vector({1, 2, 1, 1}, {1, 3});
  for (const double other : {0.0, -1e30}) {
    const Tensor k = from_vector({1, 2, 1, 1}, {-1e30, other});
    EXPECT_TRUE(std::isnan(attend(q, k, v).to_vector()[0])) << other;
  }
  EXPECT_NEAR(attend(full({1, 1, 1, 1}, 1.0), from_vector({1, 2, 1, 1}, {5, 5}), v).to_vector()[0], 2, 1e-6);
}

/// The square of ones on a new device that has a memory limit, and how often work was recorded for it.
int64_t recordings_within(size_t limit) {
  const SimulatedGpu simulated;
  cuda::limit_memory(SimulatedGpu::kDevice, limit);
  auto product = capture([](const Tensor& x) { return matmul(x, x); }, on(SimulatedGpu::kDevice));
  EXPECT_EQ(product(to_device(ones({110, 110}), SimulatedGpu::kDevice)).to_vector(),
            std::vector<double>(12'100, 110));
  return simulated.controls->calls("begin_capture");
}
// Three tensors of 48,400 bytes to try ways with, two of them to run one.
constexpr size_t kEnough = size_t{1} << 20, kNotToTry = size_t{128} << 10;

TEST(DeviceEdges, ARecordedWayNeedsNoMemoryToBeTriedIn) {
  ops::forget_choices();
  recordings_within(kEnough);
  std::map<std::string, std::string> recorded = ops::recorded_choices();
  ASSERT_EQ(recorded.size(), 1u);
  recorded.begin()->second = "simulated 512";  // whichever was the fastest
  ops::restore_choices(recorded);
  recordings_within(kNotToTry);
  EXPECT_EQ(ops::recorded_choices(), recorded) << "equal calls go on to run equal code";
  ops::forget_choices();
}

TEST(DeviceEdges, KernelsAreTriedWithinTheMemoryLimit) {
  ops::forget_choices();
  EXPECT_EQ(recordings_within(kNotToTry), 1) << "the step's";
  ops::forget_choices();
  EXPECT_GT(recordings_within(kEnough), 1) << "and those of the ways that were timed";
  ops::forget_choices();
}

}  // namespace
}  // namespace isochron
