// Vectors looked up in a table by number, one each or reduced by bags: what nn/layers/embedding.h computes.
#pragma once

#include <cstdint>
#include <optional>

#include "isochron/graph/ir/op.h"

namespace isochron {

struct LookupOptions {
  /// The number of a row that stands for "nothing", such as the fill of short sentences: it gets no gradient,
  /// and bags leave it out. Negative: counted from the end, as in PyTorch.
  std::optional<int64_t> padding_idx = {};
  /// The table's gradient is row-sparse, and optimizers need to update only the rows that a step reads
  /// (optim/optimizer.h says what that changes). As PyTorch's option.
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

/// The rows of `table` (V, D), floating, at the indices of each bag, reduced to one row: (B, D). An empty bag
/// gives zeros. Bags are the rows of `indices` (B, L); or, with offsets, `indices` (N) is cut where `offsets`
/// (B), ascending from 0, i32 or i64, says: bag b goes from offsets[b] to the next one, the last to the end.
/// `weights`, of the table's dtype and the shape of `indices`, multiply the rows of a sum; undefined: none.
/// Sums run in the order of the indices, of 16-bit floats in f32; the largest is the first of equals, and NaN
/// counts as that. The rows aren't copied first, as they are by `gather` and a reduction. Throws
/// kShapeMismatch, kDtypeMismatch, kInvalidArgument (weights where the mode isn't kSum, sparse where it is
/// kMax), kOutOfRange (padding_idx, and when run an index or an offset, naming its position). CPU alone.
Tensor embedding_bag(const Tensor& table, const Tensor& indices, const BagOptions& options = {},
                     const Tensor& weights = {});
Tensor embedding_bag(const Tensor& table, const Tensor& indices, const Tensor& offsets,
                     const BagOptions& options = {}, const Tensor& weights = {});

}  // namespace isochron
