// What all normalizations share, including the common parts of their registry rows.
#pragma once

#include <string>
#include <utility>

#include "isochron/graph/ir/op.h"
#include "isochron/ops/elementwise/elementwise.h"

namespace isochron::ops {

/// A registry row with inputs x, gamma and beta and the first output y; or, if `gradient`, with inputs x, two
/// statistics, dy and gamma and outputs dx, dgamma and dbeta. If x is stored in 16 bits, statistics, gamma,
/// beta and their gradients stay in f32.
inline graph::OpDef normalization_row(std::string name, std::string summary, bool gradient) {
  graph::OpDef op;
  op.name = std::move(name);
  op.summary = std::move(summary);
  op.min_inputs = gradient ? 4 : 1;
  op.max_inputs = gradient ? 5 : 3;
  op.precision.rule = graph::PrecisionRule::kFollow;
  op.precision.full_inputs = gradient ? +[](const graph::Attributes&) { return 0b10110U; }
                                      : +[](const graph::Attributes&) { return 0b110U; };
  op.precision.full_outputs = 0b110;
  op.skippable_outputs = graph::OpDef::kAllOutputs;
  op.may_alias = [](const graph::OpCall& call, int output, int input) {
    return output == 0 && call.inputs[static_cast<size_t>(input)].shape == call.inputs[0].shape;
  };
  op.flops = [](const graph::OpCall& call) {
    return 8.0 * static_cast<double>(call.inputs[0].shape.elems());
  };
  op.tolerance = 20;
  return op;
}

/// Returns x in f32; an undefined tensor stays undefined.
inline Tensor in_f32(const Tensor& x) { return x.defined() ? cast(x, DType::kF32) : x; }

/// Whether x (..., D) has no rows, so that there is nothing to compute.
inline bool has_no_rows(const Tensor& x) {
  return x.defined() && x.rank() >= 2 && x.elems() == 0 && x.extent(-1) > 0;
}
/// The result for x without rows. It makes the gradients of gamma and beta 0.
inline Tensor norm_of_no_rows(const Tensor& x, const Tensor& gamma, const Tensor& beta) {
  const Tensor scaled = gamma.defined() ? x * gamma : x;
  return beta.defined() ? scaled + beta : scaled;
}

}  // namespace isochron::ops
