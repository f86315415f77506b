// Looks up rows of a table by index, either one row per index or one reduced row per bag of indices. The
// layers in nn/layers/embedding.h call these functions.
#pragma once

#include <cstdint>
#include <optional>

#include "isochron/graph/ir/op.h"

namespace isochron {

struct LookupOptions {
  /// The index of the row that pads short sequences: the row gets no gradient, and bags ignore it. A negative
  /// index counts from the end, as in PyTorch.
  std::optional<int64_t> padding_idx = {};
  /// Makes the table's gradient row-sparse, like PyTorch's option of this name: optimizers then need to
  /// update only the rows that a step reads (optim/optimizer.h describes the differences).
  bool sparse = false;
};

/// The rows of `table` at `indices`, as gather(table, indices): table (V, ...), indices i32 or i64 (...).
/// Throws as `gather`, and kOutOfRange unless padding_idx lies in [-V, V).
Tensor embedding(const Tensor& table, const Tensor& indices, const LookupOptions& options = {});

enum class BagMode : uint8_t { kSum, kMean, kMax };
struct BagOptions {
  BagMode mode = BagMode::kMean;
  std::optional<int64_t> padding_idx = {};  // as in LookupOptions
  bool sparse = false;                      // as in LookupOptions; not with kMax, whose gradient is dense
  /// The last offset is the number of indices, so that there is one offset more than bags.
  bool include_last_offset = false;
};

/// Reduces the rows of `table` at the indices of each bag to one row. table: floating (V, D), result (B, D).
/// An empty bag gives zeros. Without offsets, the bags are the rows of `indices` (B, L). With `offsets` (B),
/// i32 or i64, ascending from 0, `indices` is (N) and bag b goes from offsets[b] to the next offset, the last
/// bag to the end. `weights`, with the table's dtype and the shape of `indices`, multiply the rows before
/// they are summed; they may be undefined. Rows are added in the order of the indices, 16-bit floats in f32.
/// The gradient of a maximum goes to the first of equal elements; NaN counts as the largest. Unlike `gather`
/// followed by a reduction, the rows aren't copied first. Throws kShapeMismatch, kDtypeMismatch,
/// kInvalidArgument (weights with another mode than kSum, sparse with kMax), kOutOfRange (padding_idx; at run
/// time an index or an offset, whose position the error names).
Tensor embedding_bag(const Tensor& table, const Tensor& indices, const BagOptions& options = {},
                     const Tensor& weights = {});
Tensor embedding_bag(const Tensor& table, const Tensor& indices, const Tensor& offsets,
                     const BagOptions& options = {}, const Tensor& weights = {});

}  // namespace isochron
