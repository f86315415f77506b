// The masks of attention layers. (Values and gradients: tests/nn/models/golden_models_test.cc.)
#include <gtest/gtest.h>

#include "isochron/nn/layers/attention.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/random/random.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"
#include "support/expect_error.h"
#include "support/near.h"

namespace isochron::nn {
namespace {

TEST(AttentionLayers, AMaskOfThreeOrFourAxesIsOfQueriesAndKeys) {
  constexpr int64_t kLength = 4;  // as many samples as positions
  MultiHeadAttention plain(8, 2), causal(8, 2, {.causal = true});
  CrossAttention cross(8, 2);
  const Tensor x = random_normal({kLength, kLength, 8});
  const Tensor keys =
      from_vector({kLength, kLength}, {1, 1, 0, 1, 1, 0, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1}, DType::kBool);
  const Tensor lower =
      from_vector({1, kLength, kLength}, {1, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 0, 1, 1, 1, 1}, DType::kBool);
  plain.build(x.spec());
  causal.build(x.spec());
  for (size_t i = 0; i < plain.parameters().size(); ++i) causal.parameters()[i].assign(plain.parameters()[i]);
  const auto expect_same = [](const Tensor& a, const Tensor& b) { EXPECT_TRUE(near(a, b, 1e-5, 1e-6)); };
  expect_same(plain(x, lower), causal(x));
  expect_same(plain(x, reshape(lower, {1, 1, kLength, kLength})), causal(x));
  expect_same(plain(x, keys, lower), causal(x, keys));
  expect_same(plain(x, keys), plain(x, reshape(keys, {kLength, 1, 1, kLength})));
  expect_same(plain(x, Tensor(), Tensor()), plain(x));
  const Tensor memory = random_normal({kLength, kLength, 6});
  expect_same(cross(x, memory, keys), cross(x, memory, reshape(keys, {kLength, 1, 1, kLength})));
  const Tensor both = from_vector({1, kLength, kLength}, {1, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 0, 1, 1, 1, 1});
  expect_same(cross(x, memory, keys, lower), cross(x, memory, keys, log(both)));
  EXPECT_ERROR(plain(x, lower, lower), ErrorCode::kShapeMismatch, "the key mask must be bool(4, 4)");
}

}  // namespace
}  // namespace isochron::nn
