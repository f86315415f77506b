// Transformer layers beyond what tests/nn/models/golden_models_test.cc compares with PyTorch, and encodings
// of positions.
#include "isochron/nn/layers/transformer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/slicing.h"
#include "ops/golden_functions.h"
#include "support/expect_error.h"

namespace isochron::nn {
namespace {

using Values = std::vector<double>;

TEST(TransformerLayers, CausalPositionsDontSeeWhatFollows) {
  const TrainingScope inference(false);
  for (const bool norm_first : {false, true}) {
    TransformerEncoderLayer layer(8, 2, 16, {.norm_first = norm_first, .causal = true});
    const Tensor x = random_normal({2, 5, 8});
    const Tensor changed = concatenate({narrow(x, 1, 0, 3), random_normal({2, 2, 8})}, 1);
    EXPECT_TRUE(near(narrow(layer(x), 1, 0, 3), narrow(layer(changed), 1, 0, 3), 1e-5, 1e-6));
    EXPECT_FALSE(near(layer(x), layer(changed), 1e-3, 1e-3));
  }
}

TEST(TransformerLayers, DropOutInTrainingOnly) {
  TransformerDecoderLayer layer(8, 2, 16, {.dropout = 0.5});
  const Tensor x = random_normal({1, 4, 8}), memory = random_normal({1, 3, 8});
  const Values first = layer(x, memory).to_vector();
  EXPECT_NE(layer(x, memory).to_vector(), first);
  const TrainingScope inference(false);
  EXPECT_EQ(layer(x, memory).to_vector(), layer(x, memory).to_vector());
}

TEST(TransformerLayers, CheckTheirNumbers) {
  EXPECT_ERROR(TransformerEncoderLayer(8, 3, 16), ErrorCode::kInvalidArgument, "heads");
  EXPECT_ERROR(TransformerEncoderLayer(8, 2, 0), ErrorCode::kInvalidArgument, "units must be >= 1");
  EXPECT_ERROR(TransformerDecoderLayer(8, 2, 16, {.dropout = 1}), ErrorCode::kInvalidArgument, "[0, 1)");
}

TEST(SpatialDropouts, DropWholeChannels) {
  SpatialDropout layer(0.5);
  const Tensor y = layer(ones({16, 5, 3, 8}));
  const Values of_channels = sum(y, {1, 2}).to_vector();
  int dropped = 0;
  for (const double total : of_channels) {
    EXPECT_TRUE(total == 0 || total == 30) << total;
    dropped += total == 0;
  }
  EXPECT_GT(dropped, 30);
  EXPECT_LT(dropped, 98);
  const TrainingScope inference(false);
  EXPECT_EQ(layer(y).to_vector(), y.to_vector());
  EXPECT_ERROR(SpatialDropout(1), ErrorCode::kInvalidArgument, "[0, 1)");
  EXPECT_ERROR(layer(scalar(1)), ErrorCode::kShapeMismatch, "at least 1 axes");
}

TEST(Positions, AreSinesAndCosines) {
  const Tensor x = sinusoidal_positions(3, 4, DType::kF64);
  const Values expected = {0,
                           1,
                           0,
                           1,
                           std::sin(1),
                           std::cos(1),
                           std::sin(0.01),
                           std::cos(0.01),
                           std::sin(2),
                           std::cos(2),
                           std::sin(0.02),
                           std::cos(0.02)};
  EXPECT_TRUE(near(x, from_vector({3, 4}, expected, DType::kF64), 1e-15, 1e-15));
  EXPECT_EQ(sinusoidal_positions(0, 2).shape(), Shape({0, 2}));
  EXPECT_ERROR(sinusoidal_positions(3, 5), ErrorCode::kInvalidArgument, "even and positive, got 3 and 5");
}

class RotaryPositions : public GoldenFunctions {};

TEST_F(RotaryPositions, AreThoseOfPyTorch) {
  check_several("rotary", [](In in) { return rotary_embedding(in[0]); });
  check_several("rotary_interleaved",
                [](In in) { return rotary_embedding(in[0], {}, {.interleaved = true}); });
}

TEST(SinusoidalPositions, InACapturedFunction) {
  auto added = capture([](const Tensor& x) { return x + sinusoidal_positions(3, 4); });
  const Tensor x = random_normal({3, 4});
  EXPECT_EQ(added(x).to_vector(), (x + sinusoidal_positions(3, 4)).to_vector());
}

TEST_F(RotaryPositions, MayBeGiven) {
  const Tensor x = arrays_.at("rotary.x0");  // (2, 5, 3, 6)
  const Tensor whole = rotary_embedding(x);
  const Tensor last = rotary_embedding(narrow(x, 1, 3, 2), from_vector({2}, {3, 4}, DType::kI64));
  EXPECT_TRUE(near(last, narrow(whole, 1, 3, 2), 1e-14, 1e-14));
  const Tensor of_samples = from_vector({2, 2}, {3, 4, 0, 1}, DType::kI32);
  const Tensor mixed = rotary_embedding(narrow(x, 1, 3, 2), of_samples);
  EXPECT_TRUE(near(narrow(mixed, 0, 0, 1), narrow(narrow(whole, 1, 3, 2), 0, 0, 1), 1e-14, 1e-14));
  EXPECT_TRUE(
      near(narrow(mixed, 0, 1, 1), narrow(rotary_embedding(narrow(x, 1, 3, 2)), 0, 1, 1), 1e-14, 1e-14));
  EXPECT_EQ(rotary_embedding(cast(x, DType::kBF16)).dtype(), DType::kBF16);
  EXPECT_ERROR(rotary_embedding(zeros({1, 2, 1, 3})), ErrorCode::kShapeMismatch, "an even D");
  EXPECT_ERROR(rotary_embedding(x, arange(4)), ErrorCode::kShapeMismatch,
               "one position for each of the 5 steps");
}

}  // namespace
}  // namespace isochron::nn
