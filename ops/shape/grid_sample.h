// Sampling of images at computed positions, as in spatial transformers (Jaderberg et al. 2015).
#pragma once

#include "isochron/core/tensor/tensor.h"

namespace isochron {

struct GridSampleOptions {
  bool nearest = false;        // take the nearest pixel, ties to even, instead of interpolating linearly
  bool border = false;         // positions outside the image take the nearest edge pixel instead of 0
  bool align_corners = false;  // -1 and 1 are the centers of the outer pixels, instead of their outer edges
};

/// Samples x (N, H, W, C) at the positions `grid` (N, P, Q, 2); result (N, P, Q, C). A position is a pair
/// (column, row), with -1 and 1 at the edges of the image. Positions are computed in f32, or in f64 if x is
/// f64. Differentiable in both inputs; with `nearest`, the gradient of the positions is 0. NaN positions
/// count as outside, and give NaN with `border`. Throws kShapeMismatch, kDtypeMismatch.
Tensor grid_sample(const Tensor& x, const Tensor& grid, GridSampleOptions options = {});
/// The grid of the affine maps theta (N, 2, 3), for `grid_sample`; result (N, height, width, 2). Throws
/// kShapeMismatch, kDtypeMismatch, kInvalidArgument for an empty size.
Tensor affine_grid(const Tensor& theta, int64_t height, int64_t width, bool align_corners = false);

}  // namespace isochron
