// Errors of matmul name both operands.
#include "isochron/ops/matmul/matmul.h"

#include <gtest/gtest.h>

#include "isochron/ops/shape/creation.h"
#include "support/expect_error.h"

namespace isochron {
namespace {

TEST(Matmul, NamesItsOperandsWhereTheyDontFit) {
  EXPECT_ERROR(matmul(ones({2, 3, 4}), ones({4, 4, 5})), ErrorCode::kShapeMismatch,
               "the batch axes of (2, 3, 4) x (4, 4, 5) do not broadcast: (2) and (4)");
  EXPECT_ERROR(matmul(ones({3, 4}), ones({3, 5})), ErrorCode::kShapeMismatch,
               "inner dimensions differ: (3, 4) x (3, 5)");
}

TEST(Matmul, TakesVectorsAsNumPyDoes) {
  const Tensor matrix = from_vector({2, 3}, {1, 2, 3, 4, 5, 6}), vector = from_vector({3}, {1, 0, 2});
  EXPECT_EQ(matmul(matrix, vector).to_vector(), (Values{7, 16}));
  EXPECT_EQ(matmul(vector, matrix, false, true).to_vector(), (Values{7, 16}));
  EXPECT_EQ(matmul(vector, vector).shape(), Shape({}));
  EXPECT_EQ(matmul(vector, vector).item<float>(), 5);
  EXPECT_EQ(matmul(ones({3}), ones({5, 3, 4})).shape(), Shape({5, 4}));
  EXPECT_EQ(matmul(ones({5, 4, 3}), ones({3})).shape(), Shape({5, 4}));
  EXPECT_ERROR(matmul(matrix, ones({2})), ErrorCode::kShapeMismatch, "inner dimensions differ");
}

}  // namespace
}  // namespace isochron
