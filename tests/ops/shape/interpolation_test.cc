// Resizing against PyTorch's interpolate (tests/golden/README.md), and what the registry's samples can't say.
#include "isochron/ops/shape/interpolation.h"

#include <gtest/gtest.h>

#include "isochron/autograd/autograd.h"
#include "isochron/data/formats/npy.h"
#include "isochron/ops/shape/creation.h"
#include "support/expect_error.h"
#include "support/near.h"

namespace isochron {
namespace {

using Values = std::vector<double>;

TEST(Resize, AgreesWithPyTorch) {
  const data::NpzFile arrays = data::read_npz(ISOCHRON_SOURCE_DIR "/tests/golden/resize_torch.npz");
  const std::pair<std::string, Dims> sizes[] = {
      {"up", {9, 10}}, {"down", {3, 2}}, {"mixed", {4, 11}}, {"flat", {1, 6}}};
  const std::pair<std::string, ResizeOptions> methods[] = {
      {"nearest", {Interpolation::kNearest}},
      {"linear", {}},
      {"linear_corners", {.align_corners = true}},
      {"linear_antialias", {.antialias = true}},
      {"cubic", {Interpolation::kCubic}},
      {"cubic_corners", {Interpolation::kCubic, true}},
      {"cubic_antialias", {Interpolation::kCubic, false, true}},
      {"area", {Interpolation::kArea}}};
  const Tensor x = arrays.at("x");
  for (const auto& [size_name, size] : sizes) {
    const Tensor dy = arrays.at(size_name + ".dy");
    for (const auto& [name, options] : methods) {
      const std::string prefix = size_name + "." + name;
      GradientTape tape;
      const Tensor y = resize(x, size, options);
      EXPECT_TRUE(near(y, arrays.at(prefix + ".y"), 1e-12, 1e-13)) << prefix;
      EXPECT_TRUE(near(tape.gradient({&y, 1}, {&x, 1}, {&dy, 1})[0], arrays.at(prefix + ".dx"), 1e-12, 1e-13))
          << prefix;
    }
  }
}

TEST(Resize, TakesSequencesAndVolumes) {
  const Tensor sequence = from_vector({1, 2, 1}, {0, 4});
  EXPECT_EQ(resize(sequence, {4}).to_vector(), (Values{0, 1, 3, 4}));
  EXPECT_EQ(resize(sequence, {3}, {.align_corners = true}).to_vector(), (Values{0, 2, 4}));
  const Tensor volume = from_vector({1, 2, 2, 2, 1}, {0, 1, 2, 3, 4, 5, 6, 7});
  EXPECT_EQ(resize(volume, {1, 1, 1}).to_vector(), (Values{3.5}));
}

TEST(Resize, NearestTakesAnyDtype) {
  const Tensor mask = from_vector({1, 1, 2, 1}, {200, 7}, DType::kU8);
  EXPECT_EQ(resize(mask, {2, 4}, {Interpolation::kNearest}).to_vector(),
            (Values{200, 200, 7, 7, 200, 200, 7, 7}));
  EXPECT_ERROR(resize(mask, {2, 4}), ErrorCode::kDtypeMismatch, "must be floating");
}

TEST(Resize, RefusesWhatDoesNotFit) {
  const Tensor x = zeros({1, 4, 4, 3});
  EXPECT_ERROR(resize(x, {8}), ErrorCode::kShapeMismatch, "[resize] size (8)");
  EXPECT_ERROR(resize(zeros({4, 4}), {}), ErrorCode::kShapeMismatch, "(N, spatial axes..., C)");
  EXPECT_ERROR(resize(x, {0, 4}), ErrorCode::kInvalidArgument, "at least one");
  EXPECT_ERROR(resize(x, {8, 8}, {Interpolation::kNearest, true}), ErrorCode::kInvalidArgument,
               "nearest takes");
  EXPECT_ERROR(resize(x, {8, 8}, {Interpolation::kArea, false, true}), ErrorCode::kInvalidArgument,
               "area takes");
}

}  // namespace
}  // namespace isochron
