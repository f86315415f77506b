#include "isochron/core/tensor/tensor.h"

#include <gmock/gmock.h>

#include <array>
#include <limits>

#include "isochron/core/telemetry/counters.h"
#include "support/expect_error.h"

namespace isochron {
namespace {

using testing::ElementsAre;

class Block final : public Storage {
 public:
  explicit Block(std::array<float, 4>& values) : Storage(reinterpret_cast<std::byte*>(values.data()), 16) {}
  std::string owner() const override { return "variable 'w'"; }
};

TEST(Tensor, ReadsStridedMemoryOfTheCaller) {
  std::array<float, 6> values{1, 2, 3, 4, 5, 6};
  const Tensor transposed = Tensor::from_external(values.data(), {DType::kF32, {3, 2}}, {1, 3});
  EXPECT_FALSE(transposed.contiguous());
  EXPECT_THAT(transposed.to_vector(), ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_ERROR(transposed.data<float>(), ErrorCode::kInvalidArgument, "contiguous()");
  const Tensor reversed = Tensor::from_external(values.data() + 5, {DType::kF32, {6}}, {-1});
  EXPECT_THAT(reversed.to_vector(), ElementsAre(6, 5, 4, 3, 2, 1));
  const Tensor repeated = Tensor::from_external(values.data(), {DType::kF32, {2, 2}}, {0, 1});
  EXPECT_THAT(repeated.to_vector(), ElementsAre(1, 2, 1, 2));
  EXPECT_ERROR(Tensor::from_external(nullptr, {DType::kF32, {6}}), ErrorCode::kInvalidArgument,
               "[from_external] the address of f32(6) is null");
  EXPECT_ERROR(Tensor::from_external(nullptr, {DType::kF32, {}}, {}), ErrorCode::kInvalidArgument, "null");
  EXPECT_EQ(Tensor::from_external(nullptr, {DType::kF32, {0, 3}}).elems(), 0) << "of an empty vector";
  EXPECT_ERROR(Tensor::from_external(values.data(), {DType::kF32, {2, 2}}, {1, INT64_MAX}),
               ErrorCode::kOverflow,
               "stride 9223372036854775807 of axis 1 of f32(2, 2) reaches beyond any memory");
  EXPECT_ERROR(Tensor::from_external(reinterpret_cast<char*>(values.data()) + 2, {DType::kF32, {5}}),
               ErrorCode::kInvalidArgument, "isn't a multiple of 4 bytes, as that of f32(5) must be");
  EXPECT_ERROR(Tensor::from_external(values.data(), {DType::kF32, {6}}, {1, 1}), ErrorCode::kShapeMismatch,
               "strides have 2");
}

TEST(Tensor, ExtentsOfOneAndNoneDoNotSpoilContiguity) {
  float value = 3;
  EXPECT_TRUE(Tensor::from_external(&value, {DType::kF32, {1, 1}}, {77, -5}).contiguous());
  EXPECT_TRUE(Tensor::from_external(&value, {DType::kF32, {0, 4}}, {9, 9}).contiguous());
}

TEST(Tensor, ReadsEveryDtype) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    dispatch_dtype(dtype, [&]<typename T>(T) {
      std::array<T, 2> values{T(1), T(0)};
      const Tensor tensor = Tensor::from_external(values.data(), {dtype, {2}});
      EXPECT_THAT(tensor.to_vector(), ElementsAre(1, 0)) << dtype_name(dtype);
      EXPECT_EQ(tensor.span<T>().size(), 2u);
    });
  }
}

TEST(Tensor, RejectsTheWrongDtypeAndCount) {
  std::array<float, 2> values{1, 2};
  const Tensor tensor = Tensor::from_external(values.data(), {DType::kF32, {2}});
  EXPECT_ERROR(tensor.data<double>(), ErrorCode::kDtypeMismatch, "expected dtype f64, but the tensor is f32");
  EXPECT_ERROR(tensor.item<float>(), ErrorCode::kShapeMismatch, "f32(2)");
  EXPECT_EQ(Tensor::from_external(values.data() + 1, {DType::kF32, {1, 1}}).item<int>(), 2);
  int64_t large = (int64_t{1} << 62) + 1;
  const Tensor whole = Tensor::from_external(&large, {DType::kI64, {}});
  EXPECT_EQ(whole.item<int64_t>(), large) << "exactly, not by way of a double";
  EXPECT_ERROR(whole.item<int>(), ErrorCode::kOutOfRange, "use item<double>()");
  large = -1;
  EXPECT_ERROR(whole.item<uint64_t>(), ErrorCode::kOutOfRange, "Tensor(i64(): -1)");
  double real = -2.9;
  const Tensor fraction = Tensor::from_external(&real, {DType::kF64, {}});
  EXPECT_EQ(fraction.item<int>(), -2);
  for (const double unfit : {1e19, -1e19, 0x1p63, std::numeric_limits<double>::quiet_NaN()}) {
    real = unfit;
    EXPECT_ERROR(fraction.item<int64_t>(), ErrorCode::kOutOfRange, "does not fit");
  }
  EXPECT_EQ(tensor.extent(-1), 2);
  EXPECT_ERROR(tensor.extent(1), ErrorCode::kOutOfRange, "axis 1");
}

TEST(Tensor, UndefinedHasNoContent) {
  const Tensor none;
  EXPECT_FALSE(none.defined());
  EXPECT_ERROR(none.raw(), ErrorCode::kInvalidArgument, "undefined");
  EXPECT_ERROR(none.data<float>(), ErrorCode::kInvalidArgument, "undefined");
  EXPECT_ERROR(none.item<float>(), ErrorCode::kShapeMismatch, "undefined");
  EXPECT_ERROR(none.to_vector(), ErrorCode::kInvalidArgument, "undefined");
  EXPECT_EQ(none.str(), "Tensor(undefined)");
  EXPECT_ERROR(none.spec(), ErrorCode::kInvalidArgument, "undefined");
  EXPECT_ERROR(none.dtype(), ErrorCode::kInvalidArgument, "undefined");
  EXPECT_ERROR(none.elems(), ErrorCode::kInvalidArgument, "undefined");
  EXPECT_ERROR(none.contiguous(), ErrorCode::kInvalidArgument, "undefined");
  EXPECT_ERROR(none.device(), ErrorCode::kInvalidArgument, "undefined");
  float numbers[4] = {};
  std::byte bytes[16];
  EXPECT_ERROR(Tensor::from_external(numbers, {DType::kF32, {2, 2}}, {1, 2}).read(bytes),
               ErrorCode::kInvalidArgument, "is strided");
  EXPECT_ERROR(none.refreshed(), ErrorCode::kInvalidArgument, "undefined");
  EXPECT_FALSE(none.is_value());
}

TEST(Tensor, OverAStorageMustFit) {
  std::array<float, 4> values{1, 2, 3, 4};
  Ref<Storage> block = make_ref<Block>(values);
  EXPECT_THAT(Tensor::over(block, {DType::kF32, {2}}, 8).to_vector(), ElementsAre(3, 4));
  EXPECT_ERROR(Tensor::over(block, {DType::kF32, {3}}, 8), ErrorCode::kOutOfRange, "needs 12 bytes");
  EXPECT_ERROR(Tensor::over(block, {DType::kF32, {1}}, ~size_t{0}), ErrorCode::kOverflow, "does not fit");
}

TEST(Tensor, KnowsWhenItsContentWasReplaced) {
  std::array<float, 4> values{1, 2, 3, 4};
  Ref<Storage> block = make_ref<Block>(values);
  const Tensor before = Tensor::over(block, {DType::kF32, {4}});
  EXPECT_FALSE(before.stale());
  block->next_generation();
  EXPECT_TRUE(before.stale());
  EXPECT_ERROR(before.raw(), ErrorCode::kStale, "variable 'w'");
  EXPECT_ERROR(before.to_vector(), ErrorCode::kStale, "generation 0, now 1");
  EXPECT_THAT(before.refreshed().to_vector(), ElementsAre(1, 2, 3, 4));
}

TEST(Tensor, GraphValueHasNoContent) {
  const Tensor value = Tensor::of_value(make_ref<ValueBase>(), {DType::kF32, {2, 3}});
  EXPECT_TRUE(value.is_value());
  EXPECT_EQ(value.elems(), 6);
  EXPECT_ERROR(value.raw(), ErrorCode::kCaptureViolation, "f32(2, 3) is a value of the graph");
  EXPECT_EQ(value.str(), "Tensor(f32(2, 3), in capture)");
}

TEST(Tensor, CopiesShareOneLiveObject) {
  const int64_t before = counter_value(Counter::kLiveTensors);
  {
    float value = 1;
    const Tensor a = Tensor::from_external(&value, {DType::kF32, {}});
    const Tensor b = a;
    EXPECT_EQ(counter_value(Counter::kLiveTensors), before + 1);
    EXPECT_EQ(a.impl(), b.impl());
  }
  EXPECT_EQ(counter_value(Counter::kLiveTensors), before);
}

TEST(Tensor, PrintsItsFirstElements) {
  std::array<int32_t, 17> values{7, 8};
  EXPECT_EQ(Tensor::from_external(values.data(), {DType::kI32, {2}}).str(), "Tensor(i32(2): 7 8)");
  EXPECT_THAT(Tensor::from_external(values.data(), {DType::kI32, {17}}).str(), testing::EndsWith(" 0 ...)"));
}

}  // namespace
}  // namespace isochron
