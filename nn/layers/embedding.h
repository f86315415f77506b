// Layers that look up vectors in a table by index: vectors of words, users or products.
#pragma once

#include <optional>

#include "isochron/nn/module/module.h"
#include "isochron/ops/indexing/embedding.h"

namespace isochron::nn {

struct EmbeddingOptions {
  Initializer initializer = init::uniform();
  DType dtype = DType::kF32;  // of the table
  /// The index of the padding row, which fills up short sequences. The row starts as zeros and gets no
  /// gradient from lookups, so it changes only if the table is also used otherwise (`scores`). A negative
  /// index counts from the end.
  std::optional<int64_t> padding_idx = {};
  /// Optimizers update only the rows that a step reads. The cost of a step then doesn't depend on the size of
  /// the table, and the optimizer states of other rows don't change: PyTorch's `sparse` with its SparseAdam.
  /// optim/optimizer.h says what this means for each optimizer.
  bool sparse = false;
};
/// A learned vector for each of `count` numbers. x: integers (...), the result is (..., width).
class Embedding : public Module {
 public:
  /// Throws kInvalidArgument unless count and width are >= 1 and the dtype is floating; kOutOfRange unless
  /// padding_idx lies in [-count, count).
  Embedding(int64_t count, int64_t width, EmbeddingOptions options = {});
  /// Throws kDtypeMismatch unless x holds integers, and, when the op runs, kOutOfRange for an index outside
  /// [0, count).
  Tensor forward(const Tensor& x) override;
  /// x (..., width) times the transposed table, (..., count): a score for each row of the table. For models
  /// that tie input and output (Press and Wolf: "Using the Output Embedding to Improve Language Models", EACL
  /// 2017).
  Tensor scores(const Tensor& x);
  void members(Members& list) override { list("embeddings", table_); }
  std::string_view kind() const override { return "embedding"; }
  const Variable& table() const { return table_; }

 private:
  void build_table();
  int64_t count_, width_;
  EmbeddingOptions options_;
  Variable table_;
};

struct EmbeddingBagOptions {
  BagMode mode = BagMode::kMean;
  Initializer initializer = init::uniform();
  DType dtype = DType::kF32;                // of the table
  std::optional<int64_t> padding_idx = {};  // as in EmbeddingOptions; bags leave it out, means don't count it
  bool sparse = false;                      // as in EmbeddingOptions; not with BagMode::kMax
  /// As in BagOptions, for calls with offsets.
  bool include_last_offset = false;
};
/// The sum, mean or maximum of the vectors of each bag of indices, as in PyTorch's EmbeddingBag: one vector
/// per bag, zeros for an empty bag. The individual vectors are never stored.
class EmbeddingBag : public Module {
 public:
  /// Throws like Embedding, and kInvalidArgument for `sparse` with BagMode::kMax.
  EmbeddingBag(int64_t count, int64_t width, EmbeddingBagOptions options = {});
  /// x: integers (B, L), one bag per row; fill up short bags with padding_idx. The result is (B, width).
  /// Throws the same errors as embedding_bag.
  Tensor forward(const Tensor& x) override;
  /// `bag(x, offsets)`: x is integers (N), and bag b begins at offsets[b]; offsets: (B). Throws the same
  /// errors as embedding_bag.
  Tensor forward(const Tensor& x, const Tensor& offsets) override;
  /// The same with per-sample weights, which have the shape of x, for BagMode::kSum. Without offsets, call
  /// `bag(x, Tensor(), weights)`; x is then (B, L).
  Tensor forward(const Tensor& x, const Tensor& offsets, const Tensor& weights) override;
  void members(Members& list) override { list("embeddings", table_); }
  std::string_view kind() const override { return "embedding_bag"; }
  const Variable& table() const { return table_; }

 private:
  void build_table();
  BagOptions bag_options() const;
  int64_t count_, width_;
  EmbeddingBagOptions options_;
  Variable table_;
};

}  // namespace isochron::nn
