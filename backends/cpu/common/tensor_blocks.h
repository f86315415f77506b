// Divides lists of tensors into blocks of elements, for kernels that treat all elements of all tensors alike.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "isochron/core/process/threads.h"
#include "isochron/core/tensor/shape.h"

namespace isochron::ops {

class TensorBlocks {
 public:
  struct Block {
    size_t tensor;
    int64_t begin;
    int64_t count;
  };

  TensorBlocks(std::span<const TensorSpec> tensors, int threads) {
    int64_t total = 0;
    for (size_t i = 0; i < tensors.size(); ++i) {
      const int64_t elems = tensors[i].shape.elems();
      for (int64_t at = 0; at < elems; at += kBlock) blocks_.push_back({i, at, std::min(kBlock, elems - at)});
      total += elems;
    }
    threads_ = total >= kParallelElems ? threads : 1;
  }
  size_t size() const { return blocks_.size(); }
  /// Calls body(b, block b) for every block.
  template <typename Body>
  void each(Body body) const {
    parallel_for(threads_, static_cast<int64_t>(blocks_.size()), [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) body(static_cast<size_t>(b), blocks_[static_cast<size_t>(b)]);
    });
  }

 private:
  /// Elements per block. A thread processes one block at a time, and sums are computed from the sums of the
  /// blocks.
  static constexpr int64_t kBlock = 8192;
  /// With fewer elements, a parallel region costs more than it saves.
  static constexpr int64_t kParallelElems = int64_t{1} << 16;

  std::vector<Block> blocks_;
  int threads_;
};

}  // namespace isochron::ops
