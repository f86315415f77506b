// How other frameworks name and lay out the tensors of our layers: one rule per kind of layer and tensor. To
// load and save a new layer under all conventions here, add its rules in weight_rules.cc.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "isochron/core/tensor/tensor.h"
#include "isochron/nn/module/module.h"

namespace isochron::nn {

enum class Convention : uint8_t {
  kIsochron,  // names "dense_1/kernel", dense kernels (in, out), convolutions (window..., in, out)
  kKeras,     // Keras 3: mostly the same; paths of its variables below the model's own name
  kPyTorch,   // names "1.weight", dense weights (out, in), convolutions (out, in, window...)
};

/// Maps some tensors of a layer to the tensors with the same content in the other framework, usually one to
/// one. A tensor without a rule has the same name and layout there.
struct WeightRule {
  /// Converts the tensors of one side to those of the other, each in the order of its names.
  using Conversion =
      std::function<std::vector<Tensor>(const Module& layer, const std::vector<Tensor>& tensors)>;

  std::string kind;  // Module::kind() of the layer
  /// The layer's names for the tensors; a child's tensors are named by paths: "output/kernel". "#" stands for
  /// any number, the same number in all names of the rule. In `theirs`, "@" stands for the name that a
  /// Sequential gives to the layer. Empty: the tensors of `theirs` have no counterpart here and are skipped
  /// when read.
  std::vector<std::string> ours;
  std::vector<std::string> theirs;  // names below the layer's own; empty: `ours` are left out there
  Conversion to_theirs;
  Conversion to_ours;
  /// Whether the rule applies to these tensors; if empty, it applies to all.
  std::function<bool(const std::vector<Tensor>& ours)> applies = {};
  /// Whether the tensors may be missing on either side; they are read if both sides have them.
  bool optional = false;
};

/// The rules of a convention. If several rules match a tensor, the outermost layer's rule wins, then the
/// first.
std::span<const WeightRule> weight_rules(Convention convention);

/// The name that a Sequential gives to layers of this kind under a convention (from the second layer on, a
/// number is appended). Under kPyTorch, layers are named by position instead.
std::string_view layer_name(Convention convention, std::string_view kind);

/// The name that a Sequential gives to the wrapper around this layer under a convention (numbered in the same
/// way), such as Keras's "bidirectional" around an LSTM; empty if there is no wrapper.
std::string_view wrapper_name(Convention convention, const Module& layer);

// Common rules; also for user-defined rules (WeightNaming::rules in weights.h).

/// Another name, the same layout.
WeightRule renamed(std::string kind, std::string ours, std::string theirs);
/// Axis i of theirs is axis permutation[i] of ours.
WeightRule permuted(std::string kind, std::string ours, std::string theirs, const Dims& permutation);
/// Tensors of the other framework that have no counterpart here: skipped when read, not written.
WeightRule read_over(std::string kind, std::string theirs);
/// Our tensors that have no counterpart there: not written, and left unchanged when read.
WeightRule left_out(std::string kind, std::string ours);
/// The same name and layout on both sides; the tensor may be missing on either side.
WeightRule where_kept(std::string kind, std::string name);

}  // namespace isochron::nn
