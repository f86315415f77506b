// Resizing images and sequences by interpolation, one axis after the other.
#pragma once

#include "isochron/core/tensor/tensor.h"

namespace isochron {

enum class Interpolation {
  kNearest,  // the nearest element, of two the later; as in TensorFlow and PyTorch's
             // "nearest-exact"
  kLinear,   // bilinear for images, trilinear for volumes
  kCubic,    // cubic convolution with a = -0.75 as in PyTorch (Keys 1981); may overshoot
  kArea,     // the mean of all elements that the new one covers at least in part, each counted whole
             // (PyTorch's "area"); TensorFlow's counts those at the borders by the part that is covered
};

struct ResizeOptions {
  Interpolation interpolation = Interpolation::kLinear;
  /// If false, element i covers the area around its center at i + 1/2, and input and output cover the same
  /// total area (PyTorch's default, TensorFlow 2). If true, the centers of the first elements coincide, and
  /// so do those of the last. Not for kNearest and kArea.
  bool align_corners = false;
  /// Widens the filter by the scale ratio when an axis gets smaller, so that every element contributes
  /// (PyTorch's and TensorFlow's antialias; as there, kCubic then uses a = -0.5). Not for kNearest and kArea,
  /// and not with align_corners.
  bool antialias = false;
};

/// x: (N, spatial..., C), such as (N, H, W, C) for images and (N, W, C) for sequences. size: the new extents
/// of the spatial axes. Result: (N, size..., C). Positions and weights are computed in f64; positions beyond
/// the edge use the element at the edge. f32 and f64; 16-bit floats in f32, rounded once per axis; any dtype
/// with kNearest. Differentiable in x, by the transposed op. Throws kShapeMismatch, kInvalidArgument (empty
/// axes, options that exclude each other), kDtypeMismatch, kUnsupported for extents above 2^24.
Tensor resize(const Tensor& x, const Dims& size, ResizeOptions options = {});

}  // namespace isochron
