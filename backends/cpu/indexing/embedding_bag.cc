#include "isochron/backends/cpu/indexing/embedding_bag.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "isochron/backends/cpu/common/axis_kernels.h"
#include "isochron/backends/cpu/elementwise/tile_functions.h"
#include "isochron/backends/cpu/indexing/indexed.h"
#include "isochron/ops/indexing/embedding.h"

namespace isochron::ops {
namespace {

using graph::KernelArgs;
using graph::KernelRequest;

/// T: the dtype. Bags are distributed over threads.
template <typename T>
class EmbeddingBagKernel final : public graph::Kernel {
 public:
  using S = decltype(widen(T()));  // type of the sums

  explicit EmbeddingBagKernel(const KernelRequest& request)
      : name_(request.op.name),
        mode_(static_cast<BagMode>(request.attributes.get<int64_t>("mode"))),
        padding_(request.attributes.get<int64_t>("padding")),
        cut_(request.attributes.get<bool>("cut")),
        weights_at_(request.attributes.get<bool>("weighted") ? (cut_ ? 3 : 2) : 0),
        index_dtype_(request.inputs[1].dtype),
        offset_dtype_(cut_ ? request.inputs[2].dtype : DType::kI64),
        offsets_(cut_ ? request.inputs[2].shape.elems() : 0),
        count_(request.inputs[1].shape.elems()),
        extent_(request.inputs[0].shape[0]),
        width_(request.inputs[0].shape[1]),
        bags_(request.outputs[0].shape[0]) {
    threads_ = count_ * width_ >= kElemsPerThread ? request.threads : 1;
  }

  void run(const KernelArgs& args) override {
    check_indices(args.inputs[1], index_dtype_, count_, extent_, name_, "index");
    if (cut_) check_offsets(Indices(args.inputs[2], offset_dtype_));
    parallel_for(threads_, bags_, [&](int64_t begin, int64_t end) {
      for (int64_t bag = begin; bag < end; ++bag) {
        for (int64_t at = 0; at < width_; at += kTile) reduce(args, bag, at, std::min(kTile, width_ - at));
      }
    });
  }

 private:
  static constexpr int64_t kTile = 256;
  static constexpr int64_t kAhead = 4;  // rows that are prefetched while one is added

  void check_offsets(const Indices& offsets) const {
    for (int64_t i = 0; i < offsets_; ++i) {
      const int64_t least = i == 0 ? 0 : offsets[i - 1];
      const int64_t most = i == 0 ? 0 : count_;
      if (offsets[i] >= least && offsets[i] <= most) [[likely]]
        continue;
      fail(ErrorCode::kOutOfRange, name_,
           "offset {} at position {} lies outside [{}, {}]; offsets ascend from 0", offsets[i], i, least,
           most);
    }
    if (offsets_ <= bags_ || offsets[offsets_ - 1] == count_) return;
    fail(ErrorCode::kOutOfRange, name_, "the last offset is {}, and there are {} indices; they must be equal",
         offsets[offsets_ - 1], count_);
  }

  /// Computes columns [at, at + columns) of one bag's result.
  void reduce(const KernelArgs& args, int64_t bag, int64_t at, int64_t columns) const {
    const Indices indices(args.inputs[1], index_dtype_);
    int64_t begin = cut_ ? 0 : bag * (count_ / bags_);
    int64_t end = cut_ ? count_ : begin + count_ / bags_;
    if (cut_) {
      const Indices offsets(args.inputs[2], offset_dtype_);
      begin = offsets[bag];
      if (bag + 1 < offsets_) end = offsets[bag + 1];
    }
    const T* table = reinterpret_cast<const T*>(args.inputs[0]) + at;
    const T* weights = weights_at_ == 0 ? nullptr : reinterpret_cast<const T*>(args.inputs[weights_at_]);
    S sums[kTile] = {};
    int64_t positions[kTile];
    std::fill_n(positions, columns, int64_t{-1});
    int64_t taken = 0;
    for (int64_t i = begin; i < end; ++i) {
      if (i + kAhead < end) fetch(table + indices[i + kAhead] * width_, columns);
      if (indices[i] == padding_) continue;
      const T* row = table + indices[i] * width_;
      if (mode_ == BagMode::kMax) {
        take_larger(sums, positions, row, columns, i, taken == 0);
      } else if (weights) {
        const S weight = widen(weights[i]);
        for (int64_t k = 0; k < columns; ++k) sums[k] += weight * widen(row[k]);
      } else {
        for (int64_t k = 0; k < columns; ++k) sums[k] += widen(row[k]);
      }
      ++taken;
    }
    T* out = reinterpret_cast<T*>(args.outputs[0]) + bag * width_ + at;
    const S divisor = mode_ == BagMode::kMean && taken > 1 ? static_cast<S>(taken) : S(1);
    for (int64_t k = 0; k < columns; ++k) out[k] = static_cast<T>(sums[k] / divisor);
    if (mode_ == BagMode::kMax)
      std::copy_n(positions, columns, reinterpret_cast<int64_t*>(args.outputs[1]) + bag * width_ + at);
  }

  static void take_larger(S* largest, int64_t* positions, const T* row, int64_t columns, int64_t position,
                          bool first) {
    for (int64_t k = 0; k < columns; ++k) {
      const S x = widen(row[k]);
      if (!first && !(x > largest[k]) && !(std::isnan(x) && !std::isnan(largest[k]))) continue;
      largest[k] = x;
      positions[k] = position;
    }
  }

  static void fetch(const T* row, int64_t columns) {
    const std::byte* bytes = reinterpret_cast<const std::byte*>(row);
    for (size_t i = 0; i < static_cast<size_t>(columns) * sizeof(T); i += 64) __builtin_prefetch(bytes + i);
  }

  std::string name_;
  BagMode mode_;
  int64_t padding_;
  bool cut_;
  size_t weights_at_;
  DType index_dtype_;
  DType offset_dtype_;
  int64_t offsets_;
  int64_t count_;
  int64_t extent_;
  int64_t width_;
  int64_t bags_;
  int threads_ = 1;
};

}  // namespace

std::unique_ptr<graph::Kernel> prepare_embedding_bag(const KernelRequest& request) {
  switch (request.inputs[0].dtype) {
    case DType::kF64:
      return std::make_unique<EmbeddingBagKernel<double>>(request);
    case DType::kF16:
      return std::make_unique<EmbeddingBagKernel<float16>>(request);
    case DType::kBF16:
      return std::make_unique<EmbeddingBagKernel<bfloat16>>(request);
    default:
      return std::make_unique<EmbeddingBagKernel<float>>(request);
  }
}

}  // namespace isochron::ops
