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

}  // namespace
}  // namespace isochron
