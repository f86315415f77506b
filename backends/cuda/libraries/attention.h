// Attention and its gradient, computed by a library.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "isochron/core/cuda/library_algorithm.h"
#include "isochron/core/tensor/dtype.h"

namespace isochron::cuda {

/// y = softmax(scale q k^T) v for each sample and head. q is (batch, queries, heads, width), k and v are
/// (batch, keys, key_heads, width); key_heads divides heads. The tensors of a call are
///   forward: q, k, v, y (as q, without gaps), and the logarithms of the sums of exponentials (batch, heads,
///   queries) in f32;
///   gradient: q, k, v, y, dy, those logarithms, dq, dk, dv (as q, k, v), and a scratch as the logarithms.
struct AttentionSpec {
  enum class Pass : uint8_t { kForward, kGradient } pass = Pass::kForward;
  int64_t batch = 0, queries = 0, keys = 0, heads = 0, key_heads = 0, width = 0;
  /// Elements from one position of q, and of k and v, to the next.
  int64_t query_step = 0, key_step = 0;
  /// Query i sees keys 0 .. i; requires as many queries as keys.
  bool causal = false;
  double scale = 1;
  /// The dtype of q, k, v, y and their gradients: kF16 or kBF16. Scores and sums are in f32.
  DType dtype = DType::kBF16;

  bool operator==(const AttentionSpec&) const = default;
};

using AttentionLibrary = KernelLibrary<AttentionSpec>;

/// This machine's cuDNN, shared by the whole process. Null if it isn't found, which is reported once as an
/// event kNotice.
AttentionLibrary* machine_attention();
/// Like convolutions_for (backends/cuda/libraries/convolutions.h).
std::unique_ptr<AttentionLibrary> attention_for(const std::string& described_device);

}  // namespace isochron::cuda
