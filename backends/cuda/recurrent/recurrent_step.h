// The arguments of the kernels of recurrent layers for one step. Used by the host and in the compiled source.
#ifndef ISOCHRON_OPS_CUDA_RECURRENT_STEP_H_
#define ISOCHRON_OPS_CUDA_RECURRENT_STEP_H_

namespace isochron {
namespace ops {
namespace element {

/// With N rows, T steps, H units and G sums a unit (LSTM 4, GRU 3). In the dtype that the layer computes in,
/// f32 or f64, but for those marked: * as the tensors with an axis of time are stored, so that products may
/// read them; + as it comes. What isn't there, or nobody reads, is null.
struct RecurrentStep {
  const void* from_x;   // (N, T, G H): the input's products
  const void* product;  // (N, G H): the state's
  const void* bias;     // + (G H), of a GRU (2, G H)
  const void* lengths;  // (N)
  void *h, *c;          // (N, H): the states, which the step replaces
  void* h_factor;       // * (N, H): h once more, where that is stored otherwise
  void* sequence;       // * (N, T, H)
  void* cells;          // * (T, N, H)
  void* gates;          // * (T, N, 4 H)
  long long time;
};

/// A step of the backward pass.
struct RecurrentGradientStep {
  const void *sequence, *cells, *gates, *lengths;  // * as above
  const void *first_h, *first_c;                   // + (N, H)
  const void *of_sequence, *of_cells, *of_gates;   // * gradients of those
  const void* product;                             // (N, H): what the sums of the step after give it
  void *dh, *dc;                                   // (N, H): of the states, but for that product
  void* sums;                                      // * (N, G H): of what the state's product goes into
  void *all_from_x, *all_from_h;                   // * (N, T, G H): of the input's and of the state's sums
  void* before;                                    // * (N, T, H): the states before each step
  long long time, time_before;                     // -1: there is none
};

/// Further arguments of a launch that runs through all steps.
struct RecurrentLaunch {
  const void* kernel;           // * (H, G H), the recurrent one
  const void *from_h, *from_c;  // + (N, H): the states that it begins with, or their gradients; null: 0
  void *to_h, *to_c;            // + (N, H): those that it ends with
  bool reverse;                 // the layer goes from the last time to the first
};

}  // namespace element
}  // namespace ops
}  // namespace isochron

#endif
