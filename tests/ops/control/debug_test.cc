#include "isochron/ops/control/debug.h"

#include <gmock/gmock.h>

#include "isochron/graph/step/captured.h"
#include "isochron/ops/control/control.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "support/expect_error.h"

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

}  // namespace
}  // namespace isochron
