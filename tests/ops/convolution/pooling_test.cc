#include "isochron/ops/convolution/pooling.h"

#include <gmock/gmock.h>

#include <cmath>

#include "isochron/autograd/autograd.h"
#include "isochron/core/process/threads.h"
#include "isochron/data/formats/npy.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "support/expect_error.h"
#include "support/near.h"

namespace isochron {
namespace {

using testing::ElementsAre;
using Pool = Tensor (*)(const Tensor&, const Dims&, const PoolingOptions&);

TEST(Pooling, TheMeanOfALargeWindowKeepsItsDigits) {
  const Tensor x = full({1, 1024, 1024, 1}, 0.1);
  EXPECT_NEAR(average_pool(x, {1024, 1024}, {}).to_vector()[0], 0.1, 1e-6);
}

void expect_golden_pooling(const char* op, Pool pool, DType dtype, double tolerance) {
  struct Case {
    const char* name;
    Dims window;
    PoolingOptions options;
  };
  const Case cases[] = {{"valid2", {2, 2}, {}},
                        {"valid2_ragged", {2, 2}, {}},
                        {"same3_stride2", {3, 3}, {{2, 2}, Padding::same()}},
                        {"valid3_stride1", {3, 3}, {{1, 1}, Padding::valid()}},
                        {"oblong", {3, 2}, {{2, 3}, Padding::same()}}};
  const data::NpzFile golden = data::read_npz(ISOCHRON_SOURCE_DIR "/tests/golden/ops_torch.npz");
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const auto at = [&](const char* what) {
      return cast(golden.at(fmt::format("{}.{}.{}", op, c.name, what)), dtype);
    };
    const Tensor x = at("x");
    GradientTape tape;
    const Tensor y = pool(x, c.window, c.options);
    const Tensor targets[] = {y};
    const Tensor sources[] = {x};
    const Tensor seeds[] = {at("dy")};
    EXPECT_TRUE(near(y, at("y"), tolerance, tolerance));
    EXPECT_TRUE(near(tape.gradient(targets, sources, seeds)[0], at("dx"), tolerance, tolerance));
  }
}

TEST(Pooling, MaximumMatchesPyTorch) {
  expect_golden_pooling("max_pool", max_pool2d, DType::kF64, 0);
  expect_golden_pooling("max_pool", max_pool2d, DType::kF32, 1e-6);
}

TEST(Pooling, AverageMatchesPyTorch) {
  expect_golden_pooling("average_pool", average_pool2d, DType::kF64, 1e-14);
  expect_golden_pooling("average_pool", average_pool2d, DType::kF32, 1e-6);
}

TEST(Pooling, NanWinsWhereverItLies) {
  const Tensor x = from_vector({1, 2, 4, 1}, {NAN, 1, 2, 3, 5, 4, NAN, 6});
  const std::vector<double> y = max_pool2d(x, {2, 2}).to_vector();
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_TRUE(std::isnan(y[1]));
}

TEST(Pooling, GradientGoesToTheFirstOfEqualElements) {
  const Tensor x = from_vector({1, 2, 2, 1}, {1, 7, 7, 7});
  GradientTape tape;
  const Tensor y = max_pool2d(x, {2, 2});
  EXPECT_THAT(tape.gradient(y, x).to_vector(), ElementsAre(0, 1, 0, 0));
}

TEST(Pooling, OverlappingWindowsAddTheirGradients) {
  const Tensor x = from_vector({1, 1, 3, 1}, {1, 9, 2});
  GradientTape tape;
  const Tensor y = max_pool2d(x, {1, 2}, {{1, 1}, Padding::valid()});
  EXPECT_THAT(y.to_vector(), ElementsAre(9, 9));
  EXPECT_THAT(tape.gradient(y, x).to_vector(), ElementsAre(0, 2, 0));
}

TEST(Pooling, ThreadsDoNotChangeTheResult) {
  const int threads = compute_threads();
  std::vector<double> values(16 * 20 * 20 * 17);
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<double>(i * i % 9973));
  const Tensor x = from_vector({16, 20, 20, 17}, values);
  std::vector<std::vector<double>> results;
  for (const int count : {1, 4}) {
    set_compute_threads(count);
    GradientTape tape;
    const Tensor y = max_pool2d(x, {3, 3}, {{2, 2}, Padding::same()});
    results.push_back(y.to_vector());
    results.push_back(tape.gradient(y, x).to_vector());
  }
  set_compute_threads(threads);
  EXPECT_EQ(results[0], results[2]);
  EXPECT_EQ(results[1], results[3]);
}

TEST(Pooling, GlobalAverageIsTheMeanOverPixels) {
  const Tensor x = from_vector({1, 2, 2, 2}, {1, 10, 2, 20, 3, 30, 4, 40});
  EXPECT_THAT(global_average_pool(x).to_vector(), ElementsAre(2.5, 25));
}

TEST(Pooling, GlobalPoolingTakesAnyNumberOfAxes) {
  const Tensor x = from_vector({1, 3, 2}, {1, 10, 2, 20, 6, 3});
  EXPECT_THAT(global_average_pool(x).to_vector(), ElementsAre(3, 11));
  EXPECT_THAT(global_max_pool(x).to_vector(), ElementsAre(6, 20));
  EXPECT_EQ(global_max_pool(zeros({2, 3, 4, 5, 6}), true).shape(), (Shape{2, 1, 1, 1, 6}));
  EXPECT_ERROR(global_average_pool(zeros({2, 3})), ErrorCode::kShapeMismatch, "(N, spatial..., C)");
}

TEST(Pooling, TakesLargeWindows) {
  std::vector<double> values(5000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i * 7919 % 5000);
  const Tensor x = from_vector({1, 5000, 1}, values);
  GradientTape tape;
  const Tensor y = max_pool1d(x, {5000});
  EXPECT_THAT(y.to_vector(), ElementsAre(4999));
  EXPECT_EQ(sum(tape.gradient(y, x) * x).item<float>(), 4999);
  EXPECT_THAT(average_pool1d(x, {2500}).shape(), (Shape{1, 2, 1}));
}

TEST(Pooling, RejectsAnImageWithoutPixels) {
  EXPECT_ERROR(max_pool1d(zeros({1, 0, 3}), {3}, {{1}, Padding::explicitly(2, 2)}), ErrorCode::kShapeMismatch,
               "has an empty spatial axis");
}

TEST(Pooling, RejectsPaddingThatAWindowCouldLieIn) {
  EXPECT_ERROR(average_pool2d(zeros({1, 4, 4, 1}), {2, 2}, {{1, 1}, Padding::explicitly(2, 0, 0, 0)}),
               ErrorCode::kInvalidArgument, "must be smaller than the window");
}

}  // namespace
}  // namespace isochron
