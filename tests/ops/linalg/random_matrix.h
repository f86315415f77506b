// Matrices that tests of linear algebra share.
#pragma once

#include <vector>

#include "isochron/core/base/rng.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"

namespace isochron {

using Tensors = std::vector<Tensor>;

inline Tensor random_matrix(const Shape& shape, DType dtype = DType::kF64) {
  Rng rng(5);
  std::vector<double> values(static_cast<size_t>(shape.elems()));
  for (double& value : values) value = 2 * rng.uniform() - 1;
  return from_vector(shape, values, dtype);
}

inline double largest(const Tensor& x) { return max(abs(x)).item<double>(); }

}  // namespace isochron
