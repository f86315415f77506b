// Matrix multiply kernels: a register-tiled one in Highway for small products (no threads, no allocation),
// oneDNN's for large ones in f32, and in bf16 where the processor multiplies it; other products of 16-bit
// floats go through f32.
#pragma once

#include <memory>

#include "isochron/graph/ir/kernel.h"

namespace isochron::ops {

/// Operands have one dtype. If that has 16 bits, the result may be f32.
std::unique_ptr<graph::Kernel> prepare_matmul(const graph::KernelRequest& request);

/// c (m x n, contiguous) = a b for T = float or double. Element (i, p) of a is at a[i * a_row + p *
/// a_column]; rows of b are contiguous, b_row apart. Any size, one thread, no packing: meant for operands
/// that fit L2.
template <typename T>
void small_matmul(int64_t m, int64_t n, int64_t k, const T* a, int64_t a_row, int64_t a_column, const T* b,
                  int64_t b_row, T* c);
template <>
void small_matmul<float>(int64_t m, int64_t n, int64_t k, const float* a, int64_t a_row, int64_t a_column,
                         const float* b, int64_t b_row, float* c);
template <>
void small_matmul<double>(int64_t m, int64_t n, int64_t k, const double* a, int64_t a_row, int64_t a_column,
                          const double* b, int64_t b_row, double* c);

}  // namespace isochron::ops
