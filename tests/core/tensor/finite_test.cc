#include "isochron/core/tensor/finite.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "isochron/core/tensor/dtype.h"

namespace isochron {
namespace {

template <typename T>
void check(double largest) {
  const TensorSpec spec{dtype_of<T>, {3, 1000}};
  std::vector<T> values(3000, static_cast<T>(1));
  const auto find = [&] { return find_not_finite(spec, reinterpret_cast<const std::byte*>(values.data())); };
  values[7] = static_cast<T>(largest);
  values[8] = static_cast<T>(-largest);
  values[9] = static_cast<T>(0);
  EXPECT_FALSE(find().has_value());
  const double infinity = std::numeric_limits<double>::infinity();
  values[1024] = static_cast<T>(-infinity);
  values[2047] = static_cast<T>(infinity);
  values[2999] = static_cast<T>(std::nan(""));
  ASSERT_TRUE(find().has_value());
  EXPECT_EQ(find()->first, 1024);
  EXPECT_EQ(find()->count, 3);
  for (T& value : values) value = static_cast<T>(infinity);
  EXPECT_EQ(find()->count, 3000);
}

TEST(Finite, FindsNaNAndInfinityAmongTheLargest) {
  check<double>(std::numeric_limits<double>::max());
  check<float>(static_cast<double>(std::numeric_limits<float>::max()));
  check<float16>(65504);
  check<bfloat16>(3.3895e38);
}

TEST(Finite, WholeNumbersAndNothingAreFinite) {
  const std::vector<int64_t> values(4, -1);
  const auto* data = reinterpret_cast<const std::byte*>(values.data());
  EXPECT_FALSE(find_not_finite({DType::kI64, {4}}, data).has_value());
  EXPECT_FALSE(find_not_finite({DType::kF32, {0}}, nullptr).has_value());
}

TEST(Finite, TheTextNamesCountAndPlace) {
  EXPECT_EQ(not_finite_text({DType::kF32, {4, 10}}, {7, 3}),
            "f32(4, 10): 3 of 40 elements are NaN or infinite, the first at (0, 7)");
}

}  // namespace
}  // namespace isochron
