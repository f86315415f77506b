// A step that tests of captured functions share.
#pragma once

#include <vector>

#include "isochron/core/tensor/tensor.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/shape/creation.h"

namespace isochron {

inline Tensor vec(const std::vector<double>& values) {
  return from_vector({static_cast<int64_t>(values.size())}, values);
}
inline Tensor doubled(const Tensor& x) { return x * 2.0; }

}  // namespace isochron
