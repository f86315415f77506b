// A square root whose gradient at 0 is 0, for norms and standard deviations.
#pragma once

#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/shape/creation.h"

namespace isochron::ops {

/// The square root of x >= 0. Its gradient at 0 is 0; the gradient of `sqrt` is infinite there.
inline Tensor root(const Tensor& x) {
  const Tensor zero = equal(x, scalar(0, x.dtype()));
  return where(zero, scalar(0, x.dtype()), sqrt(where(zero, scalar(1, x.dtype()), x)));
}

}  // namespace isochron::ops
