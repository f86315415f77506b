// Padding with elements of the tensor itself, against PyTorch's pad (tests/golden/make_functions_torch.py)
// and at its limits.
#include "isochron/ops/shape/padding_modes.h"

#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"
#include "ops/golden_functions.h"
#include "support/expect_error.h"

namespace isochron {
namespace {

using Values = std::vector<double>;

constexpr std::pair<const char*, PaddingMode> kModes[] = {{"reflect", PaddingMode::kReflect},
                                                          {"replicate", PaddingMode::kReplicate},
                                                          {"circular", PaddingMode::kCircular}};

using PaddingModes = GoldenFunctions;

TEST_F(PaddingModes, ResultsAndGradientsAreThoseOfPyTorch) {
  for (const auto& [name, mode] : kModes) {
    const auto check = [&](int axes, const Dims& before, const Dims& after) {
      check_several(fmt::format("pad_{}_{}d", name, axes),
                    [&](In in) { return pad(in[0], before, after, mode); });
    };
    check(1, {0, 3, 0}, {0, 1, 0});
    check(2, {0, 3, 0, 0}, {0, 1, 2, 0});
    check(3, {0, 1, 1, 3, 0}, {0, 0, 2, 2, 0});
  }
}

TEST(PaddingModesGradients, AgreeWithDifferences) {
  constexpr double kStep = 1e-6;
  const Tensor x = from_vector({2, 3}, {0.3, -1.2, 0.7, 2.1, -0.4, 1.5}, DType::kF64);
  for (const auto& [name, mode] : kModes) {
    // Squares, so that the gradient depends on x and can be differentiated again.
    const auto loss = [mode = mode](const Tensor& in) { return sum(square(pad(in, {1, 2}, {0, 1}, mode))); };
    GradientTape second;
    GradientTape first;
    const Tensor dx = first.gradient(loss(x), x);
    const Values ddx = second.gradient(sum(square(dx)), x).to_vector();
    for (size_t i = 0; i < 6; ++i) {
      Values up = x.to_vector(), down = up;
      up[i] += kStep;
      down[i] -= kStep;
      const Tensor above = from_vector({2, 3}, up, DType::kF64),
                   below = from_vector({2, 3}, down, DType::kF64);
      const double difference = (loss(above).item<double>() - loss(below).item<double>()) / (2 * kStep);
      EXPECT_NEAR(dx.to_vector()[i], difference, 1e-3 * std::abs(difference) + 1e-5) << name << i;
      // The loss is sum(n x^2) with n copies of each element, so the gradient's gradient is 8 n^2 x.
      const double copies = dx.to_vector()[i] / (2 * x.to_vector()[i]);
      EXPECT_NEAR(ddx[i], 8 * copies * copies * x.to_vector()[i], 1e-9) << name << i;
    }
  }
}

TEST(PaddingModesLimits, EveryDtypeIsMoved) {
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kI64, DType::kI32,
                            DType::kU8, DType::kBool}) {
    const Tensor x = cast(vec({1, 0, 1, 1}), dtype);
    SCOPED_TRACE(x.spec().str());
    EXPECT_EQ(pad(x, {2}, {3}, PaddingMode::kReflect).to_vector(), (Values{1, 0, 1, 0, 1, 1, 1, 0, 1}));
    EXPECT_EQ(pad(x, {1}, {2}, PaddingMode::kReplicate).to_vector(), (Values{1, 1, 0, 1, 1, 1, 1}));
    EXPECT_EQ(pad(x, {3}, {2}, PaddingMode::kCircular).to_vector(), (Values{0, 1, 1, 1, 0, 1, 1, 1, 0}));
    EXPECT_EQ(pad(x, {1}, {0}, PaddingMode::kReflect).dtype(), dtype);
  }
}

TEST(PaddingModesLimits, StridedInputsAreThoseOfCopies) {
  const Tensor x = reshape(cast(arange(12), DType::kF32), {3, 4});
  for (const auto& [name, mode] : kModes) {
    EXPECT_EQ(pad(transpose(x), {2, 1}, {1, 2}, mode).to_vector(),
              transpose(pad(x, {1, 2}, {2, 1}, mode)).to_vector())
        << name;
  }
}

TEST(PaddingModesLimits, AsMuchAsTheAxisGives) {
  const Tensor x = vec({1, 2, 3});
  EXPECT_EQ(pad(x, {2}, {2}, PaddingMode::kReflect).to_vector(), (Values{3, 2, 1, 2, 3, 2, 1}));
  EXPECT_EQ(pad(x, {3}, {3}, PaddingMode::kCircular).to_vector(), (Values{1, 2, 3, 1, 2, 3, 1, 2, 3}));
  EXPECT_EQ(pad(vec({7}), {4}, {0}, PaddingMode::kReplicate).to_vector(), (Values{7, 7, 7, 7, 7}));
  for (const auto& [name, mode] : kModes) {
    EXPECT_EQ(pad(x, {0}, {0}, mode).to_vector(), x.to_vector()) << name;
    EXPECT_EQ(pad(scalar(3), {}, {}, mode).item<float>(), 3) << name;
    EXPECT_EQ(pad(zeros({0, 3}), {0, 1}, {0, 1}, mode).shape(), Shape({0, 5})) << name;
  }
}

TEST(PaddingModesLimits, MistakesAreErrors) {
  const Tensor x = zeros({2, 3});
  EXPECT_ERROR(pad(x, {0, 3}, {0, 0}, PaddingMode::kReflect), ErrorCode::kShapeMismatch,
               "[pad] axis 1 of f32(2, 3) can't be padded by 3 elements on one side; kReflect needs fewer");
  EXPECT_ERROR(pad(x, {0, 0}, {0, 4}, PaddingMode::kCircular), ErrorCode::kShapeMismatch,
               "at most the extent");
  EXPECT_ERROR(pad(zeros({0}), {1}, {0}, PaddingMode::kReplicate), ErrorCode::kShapeMismatch,
               "needs an element to repeat");
  EXPECT_ERROR(pad(x, {1}, {1}, PaddingMode::kReflect), ErrorCode::kInvalidArgument,
               "need one entry per axis");
  EXPECT_ERROR(pad(x, {0, -1}, {0, 0}, PaddingMode::kReflect), ErrorCode::kInvalidArgument,
               "use slice to remove elements");
  EXPECT_ERROR(pad(Tensor(), {}, {}, PaddingMode::kReflect), ErrorCode::kInvalidArgument, "undefined");
  EXPECT_ERROR(pad(x, {0, INT64_MAX}, {0, 0}, PaddingMode::kReplicate), ErrorCode::kOverflow, "[pad");
}

}  // namespace
}  // namespace isochron
