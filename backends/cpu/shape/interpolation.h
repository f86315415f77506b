// The kernel that multiplies one axis by a banded matrix, and the matrices for interpolation.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "isochron/graph/ir/kernel.h"
#include "isochron/ops/shape/interpolation_weights.h"

namespace isochron::ops {

/// Row r has the weights [offsets[r], offsets[r + 1]), starting at column firsts[r].
struct BandedMatrix {
  std::vector<int64_t> firsts;
  std::vector<int64_t> offsets = {0};
  std::vector<double> weights;
  int64_t rows() const { return static_cast<int64_t>(firsts.size()); }
};

/// The matrix that maps the elements of the axis to the interpolated ones.
BandedMatrix interpolation_matrix(const element::InterpolationAxis& axis);
/// The transposed matrix, with `columns` rows. Precondition: `firsts` doesn't decrease.
BandedMatrix transposed(const BandedMatrix& matrix, int64_t columns);

/// output[o, r, i] = sum_k weight[r, k] input[o, k, i] along `axis`.
std::unique_ptr<graph::Kernel> make_banded_product(const graph::KernelRequest& request, int axis,
                                                   BandedMatrix matrix);

std::unique_ptr<graph::Kernel> prepare_interpolate(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_interpolate_transpose(const graph::KernelRequest& request);

}  // namespace isochron::ops
