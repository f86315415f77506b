#include "isochron/core/tensor/shape.h"

#include <gmock/gmock.h>

#include <limits>

#include "isochron/core/base/checked.h"
#include "support/expect_error.h"

namespace isochron {
namespace {

constexpr int64_t kHuge = int64_t{1} << 40;

TEST(Shape, HoldsUpToRankEight) {
  const Shape shape{1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_EQ(shape.rank(), 8);
  EXPECT_EQ(shape.elems(), 40320);
  EXPECT_EQ(shape.str(), "(1, 2, 3, 4, 5, 6, 7, 8)");
  EXPECT_ERROR((Shape{1, 1, 1, 1, 1, 1, 1, 1, 1}), ErrorCode::kInvalidArgument, "rank 9");
  Dims dims = shape;
  EXPECT_ERROR(dims.push_back(1), ErrorCode::kInvalidArgument, "rank 9");
  EXPECT_EQ(dims, static_cast<const Dims&>(shape)) << "a refused push_back changes nothing";
}

TEST(Shape, ScalarHasOneElementAndEmptyHasNone) {
  EXPECT_EQ(Shape{}.elems(), 1);
  EXPECT_EQ(Shape{}.str(), "()");
  EXPECT_EQ((Shape{3, 0, 2}).elems(), 0);
}

TEST(Shape, RejectsNegativeExtents) { EXPECT_ERROR((Shape{2, -1}), ErrorCode::kInvalidArgument, "(2, -1)"); }

TEST(Shape, ElementCountThatOverflowsIsAnError) {
  EXPECT_ERROR((Shape{kHuge, kHuge}).elems(), ErrorCode::kOverflow, "1099511627776");
  EXPECT_ERROR((TensorSpec{DType::kF64, {int64_t{1} << 62}}).size_bytes(), ErrorCode::kOverflow,
               "tensor size");
  EXPECT_EQ((TensorSpec{DType::kF64, {1 << 20}}).size_bytes(), size_t{8} << 20);
}

TEST(Shape, EqualityComparesExtentsAndRank) {
  EXPECT_EQ((Shape{2, 3}), (Shape{2, 3}));
  EXPECT_NE((Shape{2, 3}), (Shape{2, 3, 1}));
  EXPECT_NE((TensorSpec{DType::kF32, {2}}), (TensorSpec{DType::kI32, {2}}));
  EXPECT_EQ((TensorSpec{DType::kF32, {32, 100}}).str(), "f32(32, 100)");
}

TEST(Strides, AreRowMajor) {
  EXPECT_EQ(contiguous_strides({2, 3, 4}), (Dims{12, 4, 1}));
  EXPECT_EQ(contiguous_strides({}), Dims{});
  EXPECT_EQ(contiguous_strides({2, 0, 4}), (Dims{4, 4, 1})) << "an empty axis counts as one";
}

TEST(Strides, ThatOverflowAreAnError) {
  EXPECT_ERROR(contiguous_strides({0, kHuge, kHuge, 1}), ErrorCode::kOverflow, "1099511627776");
}

TEST(Broadcast, FollowsNumPy) {
  EXPECT_EQ(broadcast_shapes({2, 1, 3}, {4, 1}, "op"), (Shape{2, 4, 3}));
  EXPECT_EQ(broadcast_shapes({}, {5}, "op"), (Shape{5}));
  EXPECT_EQ(broadcast_shapes({1}, {0}, "op"), (Shape{0})) << "one against zero is zero";
  EXPECT_ERROR(broadcast_shapes({2, 3}, {2, 4}, "add"), ErrorCode::kShapeMismatch,
               "[add] shapes (2, 3) and (2, 4)");
  EXPECT_ERROR(broadcast_shapes({2}, {0}, "add"), ErrorCode::kShapeMismatch, "extents 2 and 0");
}

TEST(Broadcast, StridesOfRepeatedAxesAreZero) {
  EXPECT_EQ(broadcast_strides({3, 1}, {1, 1}, {2, 3, 4}), (Dims{0, 1, 0}));
  EXPECT_EQ(broadcast_strides({}, {}, {2, 2}), (Dims{0, 0}));
  EXPECT_EQ(broadcast_strides({2, 3}, {3, 1}, {2, 3}), (Dims{3, 1}));
}

TEST(Axes, CountFromTheEndWhenNegative) {
  EXPECT_EQ(normalize_axis(-1, 3, "op"), 2);
  EXPECT_EQ(normalize_axis(0, 3, "op"), 0);
  EXPECT_ERROR(normalize_axis(3, 3, "sum"), ErrorCode::kOutOfRange, "[sum] axis 3 is outside [-3, 3)");
  EXPECT_ERROR(normalize_axis(-4, 3, "sum"), ErrorCode::kOutOfRange, "axis -4");
  EXPECT_ERROR(normalize_axis(0, 0, "sum"), ErrorCode::kOutOfRange, "axis 0");
  EXPECT_ERROR(normalize_axis(std::numeric_limits<int64_t>::min(), 3, "sum"), ErrorCode::kOutOfRange, "axis");
}

TEST(Axes, AreSortedUniqueAndAllWhenEmpty) {
  EXPECT_EQ(normalize_axes({-1, 0}, 3, "op"), (Dims{0, 2}));
  EXPECT_EQ(normalize_axes({}, 3, "op"), (Dims{0, 1, 2}));
  EXPECT_ERROR(normalize_axes({1, -2}, 3, "sum"), ErrorCode::kInvalidArgument, "twice");
}

TEST(Axes, ReducedShapeDropsOrKeepsThem) {
  EXPECT_EQ(reduced_shape({2, 3, 4}, {0, 2}, false), (Shape{3}));
  EXPECT_EQ(reduced_shape({2, 3, 4}, {0, 2}, true), (Shape{1, 3, 1}));
}

TEST(Checked, ArithmeticThrowsInsteadOfWrapping) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(checked_add<int64_t>(kMax, -1), kMax - 1);
  EXPECT_ERROR(checked_add<int64_t>(kMax, 1), ErrorCode::kOverflow, "does not fit");
  EXPECT_ERROR(checked_add<size_t>(~size_t{0}, 1), ErrorCode::kOverflow, "does not fit");
  EXPECT_EQ(checked_mul<int64_t>(1 << 20, -4), -(4 << 20));
  EXPECT_ERROR(checked_mul<int64_t>(kMax, 2, "arena"), ErrorCode::kOverflow, "[arena]");
  EXPECT_ERROR(checked_mul<int64_t>(std::numeric_limits<int64_t>::min(), -1), ErrorCode::kOverflow, "x -1");
  EXPECT_EQ(align_up<size_t>(0, 64), 0u);
  EXPECT_EQ(align_up<size_t>(1, 64), 64u);
  EXPECT_EQ(align_up<size_t>(64, 64), 64u);
  EXPECT_ERROR(align_up<size_t>(~size_t{0} - 3, 64), ErrorCode::kOverflow, "does not fit");
}

}  // namespace
}  // namespace isochron
