#include "isochron/backends/cpu/indexing/row_updates.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string>

#include "isochron/backends/cpu/common/axis_kernels.h"
#include "isochron/backends/cpu/indexing/indexed.h"

namespace isochron::ops {
namespace {

using graph::KernelArgs;
using graph::KernelRequest;

/// Indices are radix-sorted, lowest digit first, together with their positions, so equal indices stay in
/// order. Then rows are distributed over threads: each row is summed by one thread, in the order of the
/// positions.
template <typename T>
class CoalesceRowsKernel final : public graph::Kernel {
 public:
  explicit CoalesceRowsKernel(const KernelRequest& request)
      : name_(request.op.name),
        index_dtype_(request.inputs[1].dtype),
        count_(request.inputs[1].shape.elems()),
        extent_(request.attributes.get<int64_t>("extent")),
        padding_(request.attributes.get<int64_t>("padding")),
        row_elems_(count_ == 0 ? 0 : request.inputs[0].shape.elems() / count_),
        digit_bits_(count_ >= kManyIndices ? 11 : 8) {
    const int bits = std::bit_width(static_cast<uint64_t>(std::max<int64_t>(extent_, 1) - 1));
    digits_ = (bits + digit_bits_ - 1) / digit_bits_;
    threads_ = count_ * row_elems_ >= 2 * kElemsPerThread ? request.threads : 1;
  }

  /// Two arrays of (index, position), then the first position of each row.
  size_t workspace_bytes() const override {
    return static_cast<size_t>(2 * count_ + count_ + 1) * sizeof(uint64_t);
  }

  void run(const KernelArgs& args) override {
    check_indices(args.inputs[1], index_dtype_, count_, extent_, name_, "index");
    uint64_t* keys = reinterpret_cast<uint64_t*>(args.workspace);
    uint64_t* spare = keys + count_;
    int64_t* starts = reinterpret_cast<int64_t*>(spare + count_);
    const Indices indices(args.inputs[1], index_dtype_);
    int64_t taken = 0;
    for (int64_t i = 0; i < count_; ++i) {
      if (indices[i] == padding_) continue;
      keys[taken++] = static_cast<uint64_t>(indices[i]) << 32 | static_cast<uint64_t>(i);
    }
    for (int digit = 0; digit < digits_; ++digit) {
      sort_by_digit(keys, spare, taken, 32 + digit * digit_bits_);
      std::swap(keys, spare);
    }
    int64_t* rows = reinterpret_cast<int64_t*>(args.outputs[1]);
    int64_t unique = 0;
    for (int64_t i = 0; i < taken; ++i) {
      const int64_t row = static_cast<int64_t>(keys[i] >> 32);
      if (unique > 0 && rows[unique - 1] == row) continue;
      rows[unique] = row;
      starts[unique++] = i;
    }
    starts[unique] = taken;
    std::fill(rows + unique, rows + count_, int64_t{-1});
    *reinterpret_cast<int64_t*>(args.outputs[2]) = unique;
    const T* updates = reinterpret_cast<const T*>(args.inputs[0]);
    T* sums = reinterpret_cast<T*>(args.outputs[0]);
    parallel_for(threads_, count_, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        T* to = sums + row * row_elems_;
        std::fill_n(to, row_elems_, T(0));
        if (row >= unique) continue;
        for (int64_t i = starts[row]; i < starts[row + 1]; ++i) add(to, updates, keys[i]);
      }
    });
  }

 private:
  static constexpr int64_t kManyIndices = 1024;
  static constexpr int kMaxBuckets = 1 << 11;

  void add(T* to, const T* updates, uint64_t key) const {
    const T* from = updates + static_cast<int64_t>(key & 0xffffffffu) * row_elems_;
    for (int64_t k = 0; k < row_elems_; ++k) to[k] += from[k];
  }

  /// One stable pass over `count` keys, by the digit that begins at bit `shift`.
  void sort_by_digit(const uint64_t* from, uint64_t* to, int64_t count, int shift) {
    const uint64_t mask = (uint64_t{1} << digit_bits_) - 1;
    std::fill_n(buckets_.begin(), mask + 1, 0u);
    for (int64_t i = 0; i < count; ++i) ++buckets_[from[i] >> shift & mask];
    uint32_t at = 0;
    for (size_t bucket = 0; bucket <= mask; ++bucket) at += std::exchange(buckets_[bucket], at);
    for (int64_t i = 0; i < count; ++i) to[buckets_[from[i] >> shift & mask]++] = from[i];
  }

  std::string name_;
  DType index_dtype_;
  int64_t count_;
  int64_t extent_;
  int64_t padding_;
  int64_t row_elems_;
  int digit_bits_;
  int digits_ = 0;
  int threads_ = 1;
  std::array<uint32_t, kMaxBuckets> buckets_;
};

}  // namespace

std::unique_ptr<graph::Kernel> prepare_coalesce_rows(const KernelRequest& request) {
  if (request.inputs[0].dtype == DType::kF64) return std::make_unique<CoalesceRowsKernel<double>>(request);
  return std::make_unique<CoalesceRowsKernel<float>>(request);
}

}  // namespace isochron::ops
