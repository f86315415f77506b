// Kernels over batches (..., rows, columns) of matrices. All matrices are factored and checked before any
// result is written.
#pragma once

#include <memory>

#include "isochron/graph/ir/kernel.h"

namespace isochron::ops {

std::unique_ptr<graph::Kernel> prepare_triangle(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_cholesky(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_triangular_solve(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_solve(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_slogdet(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_qr(const graph::KernelRequest& request);

}  // namespace isochron::ops
