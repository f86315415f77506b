// Kernels of layer_norm. The normalizations over positions are in backends/cpu/normalization/group_norm.h.
#pragma once

#include <memory>

#include "isochron/graph/ir/kernel.h"

namespace isochron::ops {

// x, y and their gradients may all be stored in the same 16-bit dtype; the other tensors are then f32. For
// other combinations of dtypes these functions return null.

/// The tensors of `rows` consecutive rows of `columns` numbers each, stored as E. Pointers to absent optional
/// tensors are null.
template <typename E, typename T>
struct LayerNormRows {
  int64_t rows, columns;
  bool centered;
  double epsilon;
  const E* x;
  const T *gamma, *beta;  // optional
  E* y;                   // optional
  T *mean, *rstd;         // optional; rstd is 1 / standard deviation, or 1 / root mean square
};

template <typename E, typename T>
struct LayerNormGradientRows {
  int64_t rows, columns;
  bool centered;
  const E* x;
  const T *mean, *rstd;
  const E* dy;
  const T* gamma;     // optional
  const E* added;     // optional; is added to dx
  E* dx;              // optional
  T *dgamma, *dbeta;  // optional; the rows' gradients are added to them
};

/// Inputs x (..., D) [, gamma (D) [, beta (D)]]; outputs y, mean (...), 1 / standard deviation (...).
std::unique_ptr<graph::Kernel> prepare_layer_norm(const graph::KernelRequest& request);
/// Inputs x, mean, 1 / standard deviation, dy [, gamma]; outputs dx [, dgamma, dbeta].
std::unique_ptr<graph::Kernel> prepare_layer_norm_gradient(const graph::KernelRequest& request);

}  // namespace isochron::ops
