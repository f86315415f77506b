// Kernels of attention and its gradient.
#pragma once

#include <memory>

#include "isochron/graph/ir/kernel.h"
#include "isochron/ops/attention/attention_shape.h"

namespace isochron::ops {

/// q, k, v (or qkv) [, key mask]; y (N, T, H, D), log of the softmax's sums (N, H, T).
std::unique_ptr<graph::Kernel> prepare_attention(const AttentionShape& shape,
                                                 const graph::KernelRequest& request);
/// q, k, v (or qkv), y, log sums, dy [, key mask]; dq, dk, dv (or dqkv).
std::unique_ptr<graph::Kernel> prepare_attention_gradient(const AttentionShape& shape,
                                                          const graph::KernelRequest& request);
/// The same for tensors that mixed precision stores in 16 bits; the logs of the sums stay f32. If the
/// processor multiplies bf16 and that is faster, the products are in bf16: probabilities and the gradients of
/// scores are rounded to bf16 for them. Otherwise null, and the call goes through f32.
std::unique_ptr<graph::Kernel> prepare_half_attention(const AttentionShape& shape,
                                                      const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_half_attention_gradient(const AttentionShape& shape,
                                                               const graph::KernelRequest& request);

}  // namespace isochron::ops
