// Helpers that the weight rule tables of the conventions share.
#pragma once

#include "isochron/nn/weights/weight_rules.h"

namespace isochron::nn::weight_tables {

using Tensors = std::vector<Tensor>;
using Rules = std::vector<WeightRule>;

Rules pytorch_rules();
Rules keras_rules();

/// A rule for one tensor on each side that doesn't depend on the layer itself.
WeightRule one_to_one(std::string kind, std::string ours, std::string theirs,
                      std::function<Tensor(const Tensor&)> to_theirs,
                      std::function<Tensor(const Tensor&)> to_ours);

/// The permutation that undoes this one.
Dims inverse(const Dims& permutation);

/// Splits the last axis into parts of these lengths.
Tensors cut(const Tensor& x, std::span<const int64_t> lengths);

/// The module as an object of its layer class. Throws kInvalidArgument if a user-defined class uses the name
/// of this kind.
template <typename Layer>
const Layer& layer_as(const Module& module) {
  const auto* layer = dynamic_cast<const Layer*>(&module);
  require(layer != nullptr, ErrorCode::kInvalidArgument, module.kind(),
          "this module isn't the layer of that kind; give its class a kind() of its own");
  return *layer;
}

}  // namespace isochron::nn::weight_tables
