// The description of a call that attention kernels are built from.
#pragma once

#include <cstdint>

namespace isochron::graph {
struct OpCall;
}

namespace isochron::ops {

/// The checked shape of a call with one packed tensor or with three tensors.
struct AttentionShape {
  int64_t batch = 0, queries = 0, keys = 0, heads = 0, key_heads = 0, width = 0;
  bool packed = false;
  bool causal = false;
  bool masked = false;
  double scale = 1;
  /// How many keys query `i` sees, before the mask.
  int64_t visible(int64_t i) const {
    if (!causal) return keys;
    const int64_t count = i + 1 + keys - queries;
    return count < 0 ? 0 : count;
  }
  double products() const {
    return static_cast<double>(batch * heads * queries) * static_cast<double>(keys * width) *
           (causal ? 0.5 : 1.0);
  }
};

/// The shape of a call of `attention`, or of `attention_gradient`. Throws the errors of the op's shape rule.
AttentionShape attention_shape(const graph::OpCall& call);
AttentionShape attention_gradient_shape(const graph::OpCall& call);

}  // namespace isochron::ops
