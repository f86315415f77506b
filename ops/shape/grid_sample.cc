#include "isochron/ops/shape/grid_sample.h"

#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/indexing/indexing.h"
#include "isochron/ops/matmul/matmul.h"
#include "isochron/ops/rows/rules.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"
#include "isochron/ops/shape/slicing.h"

namespace isochron {
namespace {

/// Converts coordinates, with -1 and 1 at the edges, to positions in pixels.
Tensor in_pixels(const Tensor& coordinate, int64_t extent, bool align_corners) {
  const double size = static_cast<double>(extent);
  return align_corners ? (coordinate + 1.0) * ((size - 1) / 2) : ((coordinate + 1.0) * size - 1.0) * 0.5;
}

/// A row or column of pixels: its index in the image, and its weight in the result.
struct Neighbor {
  Tensor index;
  Tensor weight;
};

Neighbor neighbor(const Tensor& pixel, const Tensor& weight, int64_t extent, bool border) {
  const double last = static_cast<double>(extent - 1);
  const Tensor inside = logical_and(pixel >= 0.0, pixel <= last);
  const Tensor known = where(is_nan(pixel), 0, stop_gradient(pixel));
  return {cast(clip(known, 0, last), DType::kI64), border ? weight : where(inside, weight, 0)};
}

std::vector<Neighbor> neighbors(const Tensor& coordinate, int64_t extent, GridSampleOptions options) {
  Tensor at = in_pixels(coordinate, extent, options.align_corners);
  if (options.border) at = clip(at, 0, static_cast<double>(extent - 1));
  if (options.nearest) return {neighbor(round(at), ones(at.shape(), at.dtype()), extent, options.border)};
  const Tensor first = floor(at);
  const Tensor share = at - first;
  return {neighbor(first, 1.0 - share, extent, options.border),
          neighbor(first + 1.0, share, extent, options.border)};
}

/// 2 i / n - 1 + 1 / n, the centers of n pixels, or with aligned corners 2 i / (n - 1) - 1.
Tensor centers(int64_t n, bool align_corners, DType dtype) {
  const double edge = align_corners ? (n == 1 ? 0.0 : 1.0) : 1.0 - 1.0 / static_cast<double>(n);
  return linspace(-edge, edge, n, dtype);
}

}  // namespace

Tensor grid_sample(const Tensor& x, const Tensor& grid, GridSampleOptions options) {
  const ErrorScope scope("grid_sample");
  ops::require_defined(x, "grid_sample");
  ops::require_defined(grid, "grid_sample");
  require(is_floating(x.dtype()) && x.dtype() == grid.dtype(), ErrorCode::kDtypeMismatch, "grid_sample",
          "image and grid must have one floating dtype, got {} and {}", x.spec().str(), grid.spec().str());
  require(x.rank() == 4 && grid.rank() == 4 && grid.extent(0) == x.extent(0) && grid.extent(3) == 2,
          ErrorCode::kShapeMismatch, "grid_sample", "expected (N, H, W, C) and (N, P, Q, 2), got {} and {}",
          x.spec().str(), grid.spec().str());
  const int64_t n = x.extent(0), height = x.extent(1), width = x.extent(2), channels = x.extent(3);
  require(height > 0 && width > 0, ErrorCode::kShapeMismatch, "grid_sample", "the image {} is empty",
          x.spec().str());
  const Tensor positions = is_half(grid.dtype()) ? cast(grid, DType::kF32) : grid;
  const Tensor pixels = reshape(x, {n * height * width, channels});
  const Tensor image = reshape(arange(n), {n, 1, 1}) * static_cast<double>(height * width);
  Tensor result;
  for (const Neighbor& row : neighbors(select(positions, 1, 3), height, options)) {
    for (const Neighbor& column : neighbors(select(positions, 0, 3), width, options)) {
      const Tensor index = image + row.index * static_cast<double>(width) + column.index;
      const Tensor weight = cast(expand_dims(row.weight * column.weight, 3), x.dtype());
      const Tensor term = gather(pixels, index) * weight;
      result = result.defined() ? result + term : term;
    }
  }
  return result;
}

Tensor affine_grid(const Tensor& theta, int64_t height, int64_t width, bool align_corners) {
  const ErrorScope scope("affine_grid");
  ops::require_defined(theta, "affine_grid");
  require(theta.rank() == 3 && theta.extent(1) == 2 && theta.extent(2) == 3, ErrorCode::kShapeMismatch,
          "affine_grid", "expected (N, 2, 3), got {}", theta.spec().str());
  require(is_floating(theta.dtype()), ErrorCode::kDtypeMismatch, "affine_grid",
          "expected a floating dtype, got {}", theta.spec().str());
  require(height > 0 && width > 0, ErrorCode::kInvalidArgument, "affine_grid",
          "height and width must be > 0, got {} and {}", height, width);
  const DType dtype = theta.dtype();
  const std::vector<Tensor> axes =
      meshgrid({centers(height, align_corners, dtype), centers(width, align_corners, dtype)});
  const Tensor points =
      reshape(stack({axes[1], axes[0], ones({height, width}, dtype)}, 2), {1, height * width, 3});
  const Tensor moved = matmul(broadcast_to(points, {theta.extent(0), height * width, 3}), theta, false, true);
  return reshape(moved, {theta.extent(0), height, width, 2});
}

}  // namespace isochron
