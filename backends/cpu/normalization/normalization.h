// Kernels of layer_norm; those over positions are in backends/cpu/normalization/group_norm.h.
#pragma once

#include <memory>

#include "isochron/graph/ir/kernel.h"

namespace isochron::ops {

// x, y and their gradients may be stored in one 16-bit dtype, the same for all (else null); the other tensors
// are then f32.

/// What is read and written for `rows` consecutive rows of `columns` numbers each, stored as E. Pointers to
/// optional tensors are null if these don't exist.
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
  T *dgamma, *dbeta;  // optional; to which the rows' gradients are added
};

/// x (..., D) [, gamma (D) [, beta (D)]]; y, mean (...), 1 / standard deviation (...).
std::unique_ptr<graph::Kernel> prepare_layer_norm(const graph::KernelRequest& request);
/// x, mean, 1 / standard deviation, dy [, gamma]; dx [, dgamma, dbeta].
std::unique_ptr<graph::Kernel> prepare_layer_norm_gradient(const graph::KernelRequest& request);

}  // namespace isochron::ops
