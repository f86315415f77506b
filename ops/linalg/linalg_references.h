// The textbook definitions in doubles that the rows of ops/linalg/linalg.cc are tested against, and their
// samples: matrices far enough from singular.
#pragma once

#include <vector>

#include "isochron/ops/rows/rules.h"

namespace isochron::ops {

/// Random numbers in [-1, 1] and, where they are square, as many more on the diagonal as there are rows.
InputSample dominant_sample(const Shape& shape);
/// The same with its rows in reverse order, so that solving it needs row exchanges.
InputSample permuted_sample(const Shape& shape);
/// A diagonal of 1 to 2 and smaller numbers elsewhere, in both triangles.
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
