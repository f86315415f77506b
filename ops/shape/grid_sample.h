// Sampling images at positions that are computed, as spatial transformers do (Jaderberg et al. 2015).
#pragma once

#include "isochron/core/tensor/tensor.h"

namespace isochron {

struct GridSampleOptions {
  bool nearest = false;        // the nearest pixel, ties to even, instead of linear interpolation
  bool border = false;         // beyond the edge the pixel at the edge, instead of 0
  bool align_corners = false;  // -1 and 1 are the centers of the outer pixels, instead of their outer edges
};

/// x at the positions `grid`: x (N, H, W, C), grid (N, P, Q, 2) of pairs (column, row) in which -1 and 1 are
/// the edges of the image; result (N, P, Q, C). Positions are computed in f32, or f64 if x is. Differentiable
/// in both; the gradient of a nearest pixel's position is 0. NaN counts as outside, and gives NaN with
/// `border`. Throws kShapeMismatch, kDtypeMismatch.
Tensor grid_sample(const Tensor& x, const Tensor& grid, GridSampleOptions options = {});
/// The grid of an affine map of positions: theta (N, 2, 3), result (N, height, width, 2) for `grid_sample`.
/// Throws kShapeMismatch, kDtypeMismatch, kInvalidArgument for an empty size.
Tensor affine_grid(const Tensor& theta, int64_t height, int64_t width, bool align_corners = false);

}  // namespace isochron
