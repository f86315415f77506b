// The recurrent ops composed of elementary ops: one step, and whole layers.
#pragma once

#include <span>
#include <vector>

#include "isochron/core/tensor/tensor.h"

namespace isochron::ops {

struct RecurrentLayout;  // ops/recurrent/recurrent_layout.h

/// The results of a step: the next state, and the four gates that the op saves for its gradient.
struct RecurrentStep {
  Tensor h;
  Tensor c;
  Tensor gates;
};
/// `from_x`: the input's product with the kernel, (N, gates H).
RecurrentStep recurrent_step(bool lstm, const Tensor& from_x, const Tensor& h, const Tensor& c,
                             const Tensor& recurrent_kernel, const Tensor& bias);

/// The forward op step by step; differentiable any number of times. `inputs` are the forward op's.
std::vector<Tensor> decompose_recurrent(const RecurrentLayout& layout, bool reverse,
                                        std::span<const Tensor> inputs);

}  // namespace isochron::ops
