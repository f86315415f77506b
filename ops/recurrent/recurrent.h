// Recurrent layers over a whole sequence, batch first: x: (N, T, C), H units. One convention throughout:
//
//   LSTM (Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000), columns of the kernels
//   and of the bias in Keras' order i, f, g, o:
//     [i f g o] = x kernel + h recurrent_kernel + bias          kernel: (C, 4H), recurrent_kernel: (H, 4H),
//     c' = sigmoid(f) c + sigmoid(i) tanh(g)                    bias: (4H)
//     h' = sigmoid(o) tanh(c')
//   GRU (Cho et al. 2014; reset after the product, as Keras' default and PyTorch), columns z, r, n:
//     [z r n] from x = x kernel + bias[0], from h = h recurrent_kernel + bias[1]
//     z, r = sigmoid(from x + from h), n' = tanh(n from x + r * n from h)      kernels: (C, 3H), (H, 3H),
//     h' = z h + (1 - z) n'                                                    bias: (2, 3H)
//
// There is no op for a GRU that applies the reset before the product; write its step and use `scan`
// (ops/control/scan.h). In PyTorch's layouts, the LSTM has rows i, f, g, o and two biases, which are added;
// the GRU has rows r, z, n.
//
// f32 and f64; 16-bit floats are computed in f32. In f32 each sigmoid and tanh has an error of at most 4 ULP.
// Results have the same bits for any number of threads, with two exceptions: the kernel of bf16 products (see
// below) depends on the number of threads, and so do the gradients of the kernels and the bias. The second
// gradient is computed step by step in elementary ops.
//
// Under mixed_bf16, if the processor multiplies bf16 (backends/common/vector_target.h), matrix products have
// bf16 operands and sum in f32. The operands are x and the kernels; h, which is rounded once per step; and
// the gradients of the gates' sums, from which the gradients of x, h, the kernels and the bias are computed.
// Gates, cells and states are computed in f32, and h and c are passed from step to step in f32. On other
// processors, and under mixed_f16, operands are converted to f32.
//
// All throw kShapeMismatch and kDtypeMismatch and, when they run, kOutOfRange for a length outside [0, T]. A
// device kernel can't throw: there such a length is clamped to [0, T].
#pragma once

#include "isochron/core/tensor/tensor.h"

namespace isochron {

struct RecurrentOptions {
  /// Runs from the last step to the first. Row t of the sequence is still the state after reading x_t.
  bool reverse = false;
  /// (N) i32 or i64: the number of valid steps of each row. Undefined: all T. Steps beyond it leave the row's
  /// state unchanged, give 0 in the sequence, and don't use x. So the final state is the state after the last
  /// valid step, also in reverse, as with PyTorch's packed sequences.
  Tensor lengths = {};
};

/// h and c: (N, H); if both are undefined, they are zeros.
struct LstmState {
  Tensor h;
  Tensor c;
};
struct LstmResult {
  Tensor sequence;  // (N, T, H)
  Tensor h;         // (N, H), after the last step
  Tensor c;
};
/// `bias` may be undefined, which means no bias.
LstmResult lstm(const Tensor& x, const Tensor& kernel, const Tensor& recurrent_kernel, const Tensor& bias,
                const LstmState& initial = {}, const RecurrentOptions& options = {});

struct GruResult {
  Tensor sequence;  // (N, T, H)
  Tensor h;         // (N, H), after the last step
};
/// `bias` and `initial` may be undefined, which means zeros.
GruResult gru(const Tensor& x, const Tensor& kernel, const Tensor& recurrent_kernel, const Tensor& bias,
              const Tensor& initial = {}, const RecurrentOptions& options = {});

/// One step in elementary ops, for hand-written loops. x: (N, C), states: (N, H).
LstmState lstm_step(const Tensor& x, const LstmState& state, const Tensor& kernel,
                    const Tensor& recurrent_kernel, const Tensor& bias);
Tensor gru_step(const Tensor& x, const Tensor& h, const Tensor& kernel, const Tensor& recurrent_kernel,
                const Tensor& bias);

}  // namespace isochron
