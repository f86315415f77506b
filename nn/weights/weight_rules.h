// How other frameworks name and lay out what our layers own: one row a kind of layer and tensor. A new layer
// adds its rows in weight_rules.cc and can then be loaded from and saved to every convention there.
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

/// Some of a layer's tensors and those that hold the same elsewhere, usually one and one. What has no rule
/// has the same name and layout there.
struct WeightRule {
  /// Tensors of the one side made of those of the other, each in the order of its names.
  using Conversion =
      std::function<std::vector<Tensor>(const Module& layer, const std::vector<Tensor>& tensors)>;

  std::string kind;  // Module::kind() of the layer
  /// What the layer calls them, children's as paths: "output/kernel". "#" stands for any number, the same one
  /// in all names of the rule, "@" in theirs for what a Sequential calls the layer. None: theirs alone, read
  /// over.
  std::vector<std::string> ours;
  std::vector<std::string> theirs;  // names below the layer's own; none: ours alone, left out
  Conversion to_theirs;
  Conversion to_ours;
  /// Whether the rule is meant for tensors such as these; for all where empty.
  std::function<bool(const std::vector<Tensor>& ours)> applies = {};
  /// Either side may lack them: read where both have them.
  bool optional = false;
};

/// The table of a convention. Of several rules for a tensor the outermost layer's counts, then the first.
std::span<const WeightRule> weight_rules(Convention convention);

/// What a Sequential calls layers of this kind under a convention (numbered from the second on); under
/// kPyTorch they go by position.
std::string_view layer_name(Convention convention, std::string_view kind);

/// What a Sequential calls the layer that has this one as its child under a convention (numbered likewise),
/// as Keras has "bidirectional" around an LSTM; empty where there is none.
std::string_view wrapper_name(Convention convention, const Module& layer);

// The usual rows; also for rules of one's own (WeightNaming::rules in weights.h).

/// Another name, the same layout.
WeightRule renamed(std::string kind, std::string ours, std::string theirs);
/// Axis i of theirs is axis permutation[i] of ours.
WeightRule permuted(std::string kind, std::string ours, std::string theirs, const Dims& permutation);
/// Theirs that have no counterpart here: skipped when read, not written.
WeightRule read_over(std::string kind, std::string theirs);
/// Ours that have no counterpart there: not written, and left as they are when read.
WeightRule left_out(std::string kind, std::string ours);
/// The same name and layout on both sides, where both have it.
WeightRule where_kept(std::string kind, std::string name);

}  // namespace isochron::nn
