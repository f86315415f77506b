#include "isochron/core/tensor/dtype.h"

#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <limits>

#include "support/expect_error.h"

namespace isochron {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

uint16_t half_bits(float value) { return float16(value).bits; }
uint16_t brain_bits(float value) { return bfloat16(value).bits; }

TEST(Float16, RoundsToNearestEven) {
  EXPECT_EQ(half_bits(1.0f), 0x3c00);
  EXPECT_EQ(half_bits(1.0f + 0x1p-11f), 0x3c00) << "a tie goes to the even neighbor below";
  EXPECT_EQ(half_bits(1.0f + 0x1.8p-10f), 0x3c02) << "a tie goes to the even neighbor above";
  EXPECT_EQ(half_bits(1.0f + 0x1.002p-11f), 0x3c01);
  EXPECT_EQ(half_bits(-2.0f), 0xc000);
  EXPECT_EQ(half_bits(-0.0f), 0x8000);
}

TEST(Float16, OverflowsToInfinityAboveTheLastTie) {
  EXPECT_EQ(half_bits(65504.0f), 0x7bff);
  EXPECT_EQ(half_bits(65519.996f), 0x7bff);
  EXPECT_EQ(half_bits(65520.0f), 0x7c00);
  EXPECT_EQ(half_bits(-kInf), 0xfc00);
}

TEST(Float16, KeepsSubnormals) {
  EXPECT_EQ(half_bits(0x1p-24f), 0x0001);
  EXPECT_EQ(half_bits(0x1p-25f), 0x0000) << "the tie at half the smallest subnormal goes to zero";
  EXPECT_EQ(half_bits(0x1.8p-24f), 0x0002);
  EXPECT_EQ(half_bits(0x1.ffcp-15f), 0x0400) << "rounds up into the normals";
  EXPECT_EQ(static_cast<float>(float16(0x1p-24f)), 0x1p-24f);
}

TEST(Float16, NanStaysNan) { EXPECT_TRUE(std::isnan(static_cast<float>(float16(kNan)))); }

TEST(Float16, EveryFiniteValueSurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    float16 value;
    value.bits = static_cast<uint16_t>(bits);
    const float wide = static_cast<float>(value);
    if (std::isnan(wide)) continue;
    ASSERT_EQ(half_bits(wide), bits);
  }
}

TEST(BFloat16, RoundsToNearestEven) {
  EXPECT_EQ(brain_bits(1.0f), 0x3f80);
  EXPECT_EQ(brain_bits(1.0f + 0x1p-8f), 0x3f80) << "a tie goes to the even neighbor below";
  EXPECT_EQ(brain_bits(1.0f + 0x1.8p-7f), 0x3f82) << "a tie goes to the even neighbor above";
  EXPECT_EQ(brain_bits(1.0f + 0x1.002p-8f), 0x3f81);
}

TEST(BFloat16, OverflowsToInfinityAndKeepsSubnormals) {
  EXPECT_EQ(brain_bits(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(brain_bits(kInf), 0x7f80);
  EXPECT_EQ(brain_bits(0x1p-133f), 0x0001);
  EXPECT_EQ(static_cast<float>(bfloat16(0x1p-133f)), 0x1p-133f);
}

TEST(BFloat16, NanStaysNanEvenWhenItsPayloadIsLow) {
  EXPECT_TRUE(std::isnan(static_cast<float>(bfloat16(kNan))));
  const float low_payload = std::bit_cast<float>(0x7f800001u);  // truncation alone would make this Inf
  EXPECT_TRUE(std::isnan(static_cast<float>(bfloat16(low_payload))));
  const float all_ones = std::bit_cast<float>(0xffffffffu);  // rounding alone would wrap this to +0
  EXPECT_TRUE(std::isnan(static_cast<float>(bfloat16(all_ones))));
}

TEST(DType, DispatchGivesTheTypeOfTheSize) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(dispatch_dtype(dtype, []<typename T>(T) { return sizeof(T); }), dtype_size(dtype));
    EXPECT_EQ(dispatch_dtype(dtype, []<typename T>(T) { return dtype_of<T>; }), dtype);
  }
  EXPECT_ERROR(dispatch_dtype(static_cast<DType>(99), [](auto) {}), ErrorCode::kInvalidArgument, "dtype 99");
}

TEST(DType, ClassesAreDisjoint) {
  EXPECT_TRUE(is_floating(DType::kBF16));
  EXPECT_FALSE(is_floating(DType::kI64));
  EXPECT_TRUE(is_integer(DType::kU8));
  EXPECT_FALSE(is_integer(DType::kBool));
}

}  // namespace
}  // namespace isochron
