// How other frameworks name and lay out what our layers own: one row a kind of layer and member. A new layer
// adds its rows in weight_rules.cc and can then be loaded from and saved to every convention there.
//
// Our own names and layouts are those of Keras 3 (kernel, bias, gamma, moving_mean, ...), so Keras needs
// none.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "isochron/core/tensor.h"

namespace isochron::nn {

enum class Convention : uint8_t {
  kKeras,    // names "dense_1/kernel", dense kernels (in, out), convolutions (window..., in, out): ours
  kPyTorch,  // names "1.weight", dense weights (out, in), convolutions (out, in, window...)
};

/// One of our tensors and the tensors that hold the same elsewhere. A member without a rule has the same name
/// and layout there.
struct WeightRule {
  std::string kind;                 // Module::kind() of the layer
  std::string member;               // what the layer calls it; empty: theirs alone, read over
  std::vector<std::string> theirs;  // the layer's tensors there
  /// From ours to theirs, in the order of `theirs`, and back.
  std::function<std::vector<Tensor>(const Tensor& ours)> to_theirs;
  std::function<Tensor(const std::vector<Tensor>& theirs)> to_ours;
};

/// The table of a convention.
std::span<const WeightRule> weight_rules(Convention convention);

// The usual rows; also for rules of one's own (WeightNaming::rules in weights.h).

/// Another name, the same layout.
WeightRule renamed(std::string kind, std::string member, std::string theirs);
/// Axis i of theirs is axis permutation[i] of ours.
WeightRule permuted(std::string kind, std::string member, std::string theirs, const Dims& permutation);
/// Theirs that have no counterpart here: skipped when read, not written.
WeightRule read_over(std::string kind, std::string theirs);

}  // namespace isochron::nn
