// Numbers in 16 bits: casts, and products on them that are large enough for the kernels of their own.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "isochron/backends/common/choices.h"
#include "isochron/backends/common/vector_target.h"
#include "isochron/backends/cpu/elementwise/tile_functions.h"
#include "isochron/core/base/rng.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/graph/ir/half_storage.h"
#include "isochron/memory/allocators/buffer.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/rows/registry.h"

namespace isochron {
namespace {

template <typename T>
class Casts : public testing::Test {};
using HalfTypes = testing::Types<bfloat16, float16>;
TYPED_TEST_SUITE(Casts, HalfTypes);

bool same_number(float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); }

TYPED_TEST(Casts, WidenEveryNumberExactly) {
  std::vector<TypeParam> half(1 << 16);
  for (size_t i = 0; i < half.size(); ++i) half[i].bits = static_cast<uint16_t>(i);
  std::vector<float> wide(half.size());
  const int64_t count = static_cast<int64_t>(half.size());
  ops::tile_cast(dtype_of<TypeParam>, DType::kF32)(wide.data(), half.data(), nullptr, nullptr, count);
  for (size_t i = 0; i < half.size(); ++i) {
    ASSERT_TRUE(same_number(wide[i], static_cast<float>(half[i]))) << i;
  }
}

TYPED_TEST(Casts, RoundToNearestEvenAtAnyLength) {
  Rng rng(7);
  std::vector<float> numbers = {0.0f, -0.0f, 1.0f, 1e38f, -3e38f, 65504.0f, 65520.0f, 1e-7f, 6e-8f, 1e-40f};
  numbers.push_back(std::numeric_limits<float>::infinity());
  numbers.push_back(std::numeric_limits<float>::quiet_NaN());
  for (uint32_t i = 0; i < 4096; ++i)  // halfway between two numbers of either dtype, and beside
    numbers.push_back(std::bit_cast<float>(0x3f800000u + i * 0x1000u + i % 3 - 1));
  while (numbers.size() < 9001) numbers.push_back(static_cast<float>(rng.normal() * 100));
  for (const size_t count : {size_t{1}, size_t{3}, size_t{8}, size_t{17}, numbers.size()}) {
    std::vector<TypeParam> half(count + 1);
    half[count].bits = 0x1234;
    ops::tile_cast(DType::kF32, dtype_of<TypeParam>)(half.data(), numbers.data(), nullptr, nullptr,
                                                     static_cast<int64_t>(count));
    for (size_t i = 0; i < count; ++i) {
      const auto got = static_cast<float>(half[i]);
      const bool flushed = std::fpclassify(numbers[i]) == FP_SUBNORMAL && got == 0;
      ASSERT_TRUE(flushed || same_number(got, static_cast<float>(TypeParam(numbers[i])))) << numbers[i];
    }
    EXPECT_EQ(half[count].bits, 0x1234) << "wrote past the end";
  }
}

Tensor random_tensor(const Shape& shape, uint64_t seed) {
  Rng rng(seed);
  Tensor result = empty({DType::kF32, shape});
  for (float& value : result.span<float>()) value = static_cast<float>(rng.normal());
  return result;
}

/// The largest error of the op on tensors stored as `half` compared with f32 on the same numbers, relative to
/// the largest result. The first result is stored as `result`.
double error_of(const graph::OpDef& op, const graph::Attributes& attributes, std::vector<Tensor> inputs,
                DType half, DType result) {
  std::vector<Tensor> rounded;
  for (Tensor& input : inputs) {
    if (input.rank() > 1) input = cast(input, half);  // biases stay f32
    rounded.push_back(cast(input, DType::kF32));
  }
  const std::vector<Tensor> want = graph::apply(op, rounded, attributes);
  std::vector<DType> results(want.size(), DType::kF32);
  results[0] = result;
  graph::Attributes stored = attributes;
  stored.set(graph::kStorage, results);
  const std::vector<Tensor> got = graph::apply(op, inputs, stored);
  EXPECT_EQ(got[0].dtype(), result);
  double largest = 0;
  double error = 0;
  for (size_t o = 0; o < want.size(); ++o) {
    const std::vector<double> a = want[o].to_vector();
    const std::vector<double> b = got[o].to_vector();
    for (size_t i = 0; i < a.size(); ++i) {
      largest = std::max(largest, std::abs(a[i]));
      error = std::max(error, std::isnan(b[i]) ? 1e30 : std::abs(a[i] - b[i]));
    }
  }
  return error / largest;
}

/// Half a unit in the last place of the result, and the rounding of f32 sums.
double bound_of(DType result) {
  const double rounding = result == DType::kBF16 ? 1.0 / 256 : result == DType::kF16 ? 1.0 / 2048 : 0;
  return rounding + 1e-5;
}

class LargeProducts : public testing::TestWithParam<std::tuple<DType, bool>> {
 protected:
  DType half() const { return std::get<0>(GetParam()); }
  DType result() const { return std::get<1>(GetParam()) ? DType::kF32 : half(); }
  void SetUp() override { ops::set_deterministic(true); }  // the kernel that the rule prefers
  void TearDown() override { ops::set_deterministic(false); }
  void expect_close(const char* op, const graph::Attributes& attributes, const std::vector<Tensor>& inputs) {
    EXPECT_LE(error_of(ops::row(op), attributes, inputs, half(), result()), bound_of(result())) << op;
  }
};

TEST_P(LargeProducts, OfMatrices) {
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      const Tensor a = random_tensor(transpose_a ? Shape{130, 96} : Shape{96, 130}, 1);
      const Tensor b = random_tensor(transpose_b ? Shape{200, 130} : Shape{130, 200}, 2);
      expect_close("matmul", {{"transpose_a", transpose_a}, {"transpose_b", transpose_b}}, {a, b});
    }
  }
  expect_close("matmul", {{"transpose_a", false}, {"transpose_b", false}},
               {random_tensor({3, 64, 80}, 3), random_tensor({3, 80, 72}, 4)});
}

/// Windows of 3 at stride 1 (tiles), others (the library), depthwise.
TEST_P(LargeProducts, OfImages) {
  struct Case {
    int64_t window, stride, channels, outputs, groups;
  };
  for (const Case& c : {Case{3, 1, 16, 24, 1}, Case{5, 1, 16, 20, 1}, Case{3, 2, 24, 32, 1},
                        Case{1, 1, 32, 16, 1}, Case{3, 1, 1, 32, 1}, Case{3, 1, 32, 32, 32}}) {
    constexpr int64_t kExtent = 13;
    const int64_t around = c.window / 2;
    const int64_t out = (kExtent + 2 * around - c.window) / c.stride + 1;
    const Shape x_shape{3, kExtent, kExtent, c.channels};
    const Shape kernel_shape{c.window, c.window, c.channels / c.groups, c.outputs};
    const Tensor x = random_tensor(x_shape, 1);
    const Tensor kernel = random_tensor(kernel_shape, 2);
    const Tensor y = random_tensor({3, out, out, c.outputs}, 3);
    const Tensor bias = random_tensor({c.outputs}, 4);
    graph::Attributes window{{"stride", Dims{c.stride, c.stride}},
                             {"padding", Dims{around, around, around, around}},
                             {"dilation", Dims{1, 1}},
                             {"groups", c.groups}};
    expect_close("convolution", window, {x, kernel, bias});
    graph::Attributes of_input = window;
    of_input.set("input_shape", static_cast<Dims>(x_shape));
    expect_close("convolution_input_gradient", of_input, {y, kernel});
    graph::Attributes of_kernel = window;
    of_kernel.set("kernel_shape", static_cast<Dims>(kernel_shape));
    of_kernel.set("bias", true);
    expect_close("convolution_weight_gradient", of_kernel, {x, y});
  }
}

INSTANTIATE_TEST_SUITE_P(Half, LargeProducts,
                         testing::Combine(testing::Values(DType::kBF16, DType::kF16), testing::Bool()),
                         [](const auto& row) {
                           return fmt::format("{}_{}", dtype_name(std::get<0>(row.param)),
                                              std::get<1>(row.param) ? "to_f32" : "to_itself");
                         });

TEST(HalfArithmetic, SaysHowTheMachineMultiplies) {
  EXPECT_FALSE(ops::multiplies_in(DType::kF16));
  EXPECT_NE(ops::half_arithmetic(Precision::kMixedF16).find("converted to f32"), std::string::npos);
  const std::string bf16 = ops::half_arithmetic(Precision::kMixedBf16);
  EXPECT_NE(bf16.find(ops::multiplies_in(DType::kBF16) ? "processor's bf16" : "converted to f32"),
            std::string::npos);
}

}  // namespace
}  // namespace isochron
