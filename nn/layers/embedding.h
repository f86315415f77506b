// Layers that look vectors up in a table by number: of words, users, goods.
#pragma once

#include <optional>

#include "isochron/nn/module/module.h"
#include "isochron/ops/indexing/embedding.h"

namespace isochron::nn {

struct EmbeddingOptions {
  Initializer initializer = init::uniform();
  DType dtype = DType::kF32;  // of the table
  /// The number of a row that stands for nothing, such as the fill of short sentences: it begins as zeros and
  /// gets no gradient, so that it stays what it is. Negative: counted from the end.
  std::optional<int64_t> padding_idx = {};
  /// Optimizers update only the rows that a step reads, so that a step costs the same however large the table
  /// is, and states of other rows don't move: PyTorch's `sparse` with its SparseAdam. What that means for
  /// each optimizer stands in optim/optimizer.h.
  bool sparse = false;
};
/// A learned vector for each of `count` numbers. x: integers (...), the result is (..., width).
class Embedding : public Module {
 public:
  /// Throws kInvalidArgument unless count and width are >= 1 and the dtype is floating; kOutOfRange unless
  /// padding_idx lies in [-count, count).
  Embedding(int64_t count, int64_t width, EmbeddingOptions options = {});
  /// Throws kDtypeMismatch unless x holds integers; kOutOfRange when the op runs for one outside [0, count).
  Tensor forward(const Tensor& x) override;
  /// x (..., width) times the table, transposed: scores of all numbers, for models that tie input and output
  /// (Press and Wolf: "Using the Output Embedding to Improve Language Models", EACL 2017).
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
  /// As in BagOptions, for `cut`.
  bool include_last_offset = false;
};
/// The sum, mean or largest of the vectors of several numbers, as PyTorch's EmbeddingBag: one vector a bag,
/// zeros for an empty one. The vectors themselves are never written out.
class EmbeddingBag : public Module {
 public:
  /// Throws as Embedding, and kInvalidArgument for `sparse` with BagMode::kMax.
  EmbeddingBag(int64_t count, int64_t width, EmbeddingBagOptions options = {});
  /// x: integers (B, L), a bag a row; short ones are filled up with padding_idx. The result is (B, width).
  /// Throws as embedding_bag.
  Tensor forward(const Tensor& x) override;
  /// With a weight for each number, (B, L), for BagMode::kSum.
  Tensor weighted(const Tensor& x, const Tensor& weights);
  /// x: integers (N), cut into bags at `offsets` (B); weights (N) or none. As embedding_bag.
  Tensor cut(const Tensor& x, const Tensor& offsets, const Tensor& weights = {});
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
