// The order of the tensors of the recurrent ops.
#pragma once

#include <optional>

#include "isochron/graph/ir/op.h"

namespace isochron::ops {

/// Positions of the tensors of `lstm`, `gru` and their gradient ops. The inputs of a gradient op are the
/// gradients of the forward outputs listed in the attribute `seeds`, then the forward op's inputs, then the
/// forward outputs that it needs (sequence, gates, and for an LSTM cells).
struct RecurrentLayout {
  RecurrentLayout(const graph::OpDef& op, const graph::Attributes& attributes);

  bool lstm;
  bool gradient;
  bool initial_state;
  bool lengths;
  Dims seeds;  // forward outputs with a gradient, ascending; gradient ops only

  // Outputs of the forward op.
  static constexpr size_t kSequence = 0;
  static constexpr size_t kHidden = 1;
  size_t cell() const { return 2; }
  size_t cells() const { return 3; }
  size_t gates() const { return lstm ? 4 : 2; }
  size_t outputs() const { return lstm ? 5 : 3; }

  // Inputs. The gradient op's outputs are in the same order, without lengths.
  size_t states() const { return initial_state ? (lstm ? 2 : 1) : 0; }
  size_t first() const { return static_cast<size_t>(seeds.rank()); }
  size_t x() const { return first(); }
  size_t kernel() const { return first() + 1; }
  size_t recurrent_kernel() const { return first() + 2; }
  size_t bias() const { return first() + 3; }
  size_t initial_hidden() const { return first() + 4; }
  size_t initial_cell() const { return first() + 5; }
  size_t lengths_input() const { return first() + 4 + states(); }
  size_t forward_inputs() const { return 4 + states() + (lengths ? 1 : 0); }
  size_t saved_sequence() const { return first() + forward_inputs(); }
  size_t saved_gates() const { return saved_sequence() + 1; }
  size_t saved_cells() const { return saved_sequence() + 2; }
  size_t inputs() const { return first() + forward_inputs() + (gradient ? (lstm ? 3 : 2) : 0); }
  /// The input that holds the gradient of forward output `output`.
  std::optional<size_t> seed(size_t output) const;
};

}  // namespace isochron::ops
