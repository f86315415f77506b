// Reference implementations in f64 for testing the ops of ops/linalg/linalg.cc, and sample matrices that are
// far from singular.
#pragma once

#include <vector>

#include "isochron/ops/rows/rules.h"

namespace isochron::ops {

/// Random numbers in [-1, 1]; the number of rows is added to the diagonal of square matrices.
InputSample dominant_sample(const Shape& shape);
/// The same with its rows in reverse order, so that solving it needs row exchanges.
InputSample permuted_sample(const Shape& shape);
/// A diagonal with values from 1 to 2, and smaller numbers in both triangles.
InputSample triangular_sample(const Shape& shape);

using MatrixValues = std::vector<std::vector<double>>;
MatrixValues triangle_reference(const OpCall& call, std::span<const TensorSpec> outputs,
                                const MatrixValues& inputs);
MatrixValues cholesky_reference(const OpCall& call, std::span<const TensorSpec> outputs,
                                const MatrixValues& inputs);
MatrixValues triangular_solve_reference(const OpCall& call, std::span<const TensorSpec> outputs,
                                        const MatrixValues& inputs);
MatrixValues solve_reference(const OpCall& call, std::span<const TensorSpec> outputs,
                             const MatrixValues& inputs);
MatrixValues slogdet_reference(const OpCall& call, std::span<const TensorSpec> outputs,
                               const MatrixValues& inputs);
MatrixValues qr_reference(const OpCall& call, std::span<const TensorSpec> outputs,
                          const MatrixValues& inputs);

}  // namespace isochron::ops
