// Helper for writing an optimizer update as other ops: gives access to a call's tensors parameter by
// parameter.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/optimizer/update_parameters.h"

namespace isochron::ops {

/// Reads the inputs of each parameter and collects the new tensors. `results` returns them in the order of
/// the op's outputs.
class DecomposedUpdate {
 public:
  DecomposedUpdate(const graph::OpCall& call, std::span<const Tensor> inputs)
      : parameters_(call.op, call.attributes, call.inputs.size()),
        layout_(parameters_.layout),
        inputs_(inputs),
        done_(inputs[UpdateLayout::kStep] + 1.0),
        results_(layout_.outputs()) {
    results_[0] = done_;
  }

  size_t parameters() const { return layout_.parameters; }
  /// The number of this step in f64, counted from 1.
  Tensor step() const { return cast(done_, DType::kF64); }
  /// The learning rate of parameter `i`, in f64.
  Tensor rate(size_t i) const { return inputs_[UpdateLayout::kLearningRate] * parameters_.rate_factor(i); }
  /// Parameter `i` after weight decay.
  Tensor parameter(size_t i) const {
    const Tensor& p = inputs_[layout_.parameter(i)];
    return p * cast(1.0 - rate(i) * parameters_.weight_decay(i), p.dtype());
  }
  Tensor gradient(size_t i) const {
    const Tensor& g = inputs_[layout_.gradient(i)];
    return g * cast(inputs_[UpdateLayout::kGradientFactor], g.dtype());
  }
  const Tensor& state(size_t k, size_t i) const { return inputs_[layout_.state(k, i)]; }

  void set_parameter(size_t i, const Tensor& value) {
    results_[layout_.parameter(i) - UpdateLayout::kFirstAliased] = value;
  }
  void set_state(size_t k, size_t i, const Tensor& value) {
    results_[layout_.state(k, i) - UpdateLayout::kFirstAliased] = value;
  }
  std::vector<Tensor> results() { return std::move(results_); }

 private:
  const UpdateParameters parameters_;
  const UpdateLayout& layout_;
  std::span<const Tensor> inputs_;
  Tensor done_;
  std::vector<Tensor> results_;
};

}  // namespace isochron::ops
