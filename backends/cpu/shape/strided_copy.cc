#include "isochron/backends/cpu/shape/strided_copy.h"

#include <array>
#include <cstring>

#include "isochron/backends/cpu/common/axis_kernels.h"
#include "isochron/core/process/threads.h"
#include "isochron/ops/shape/block_view.h"

namespace isochron::ops {
namespace {

constexpr int64_t kBlock =
    16;  // square block of a two-dimensional transpose: both sides stay within cache lines

class StridedCopy final : public graph::Kernel {
 public:
  StridedCopy(const TensorSpec& output, const Strides& strides, int64_t offset_elems, int threads)
      : size_(dtype_size(output.dtype)), offset_(offset_elems), elems_(output.shape.elems()) {
    merge_axes(output.shape, strides);
    threads_ = elems_ >= 2 * kElemsPerThread && rows_ > 1 ? threads : 1;
  }

  void run(const graph::KernelArgs& args) override {
    if (elems_ == 0) return;
    switch (size_) {
      case 1:
        copy_all<uint8_t>(args);
        break;
      case 2:
        copy_all<uint16_t>(args);
        break;
      case 4:
        copy_all<uint32_t>(args);
        break;
      default:
        copy_all<uint64_t>(args);
    }
  }

 private:
  /// Drops axes of extent 1 and merges neighboring axes with a common stride. The last two axes form the
  /// blocks.
  void merge_axes(const Shape& shape, const Strides& strides) {
    for (int i = 0; i < shape.rank(); ++i) {
      if (shape[i] == 1) continue;
      if (rank_ > 0 && strides_[rank_ - 1] == strides[i] * shape[i]) {
        extents_[rank_ - 1] *= shape[i];
        strides_[rank_ - 1] = strides[i];
      } else {
        extents_[rank_] = shape[i];
        strides_[rank_++] = strides[i];
      }
    }
    while (rank_ < 2) {  // pad in front with extents of one
      for (size_t i = rank_; i-- > 0;) {
        extents_[i + 1] = extents_[i];
        strides_[i + 1] = strides_[i];
      }
      extents_[0] = 1;
      strides_[0] = 0;
      ++rank_;
    }
    rows_ = 1;
    for (size_t i = 0; i + 1 < rank_; ++i) rows_ *= extents_[i];
  }

  template <typename T>
  void copy_all(const graph::KernelArgs& args) {
    const T* in = reinterpret_cast<const T*>(args.inputs[0]) + offset_;
    T* out = reinterpret_cast<T*>(args.outputs[0]);
    parallel_for(threads_, rows_, [&](int64_t begin, int64_t end) { copy_rows(in, out, begin, end); });
  }

  /// Rows [begin, end) of the output, where a row is the last merged axis.
  template <typename T>
  void copy_rows(const T* in, T* out, int64_t begin, int64_t end) const {
    const int64_t columns = extents_[rank_ - 1];
    const int64_t step = strides_[rank_ - 1];
    const int64_t row_step = strides_[rank_ - 2];
    const int64_t group = extents_[rank_ - 2];
    for (int64_t row = begin; row < end;) {
      const int64_t within = row % group;
      const int64_t count = std::min({group - within, end - row, kBlock});
      int64_t offset = within * row_step;
      int64_t rest = row / group;
      for (size_t i = rank_ - 2; i-- > 0;) {
        offset += rest % extents_[i] * strides_[i];
        rest /= extents_[i];
      }
      if (step == 1) {
        for (int64_t r = 0; r < count; ++r) {
          std::memcpy(out + (row + r) * columns, in + offset + r * row_step,
                      static_cast<size_t>(columns) * sizeof(T));
        }
      } else {
        copy_block(in + offset, out + row * columns, count, columns, row_step, step);
      }
      row += count;
    }
  }

  template <typename T>
  static void copy_block(const T* in, T* out, int64_t rows, int64_t columns, int64_t row_step, int64_t step) {
    for (int64_t c0 = 0; c0 < columns; c0 += kBlock) {
      const int64_t c1 = std::min(columns, c0 + kBlock);
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = c0; c < c1; ++c) out[r * columns + c] = in[r * row_step + c * step];
      }
    }
  }

  size_t size_;
  int64_t offset_;
  int64_t elems_;
  int64_t rows_ = 1;
  int threads_ = 1;
  size_t rank_ = 0;
  std::array<int64_t, kMaxRank + 2> extents_{};
  std::array<int64_t, kMaxRank + 2> strides_{};
};

}  // namespace

std::unique_ptr<graph::Kernel> make_strided_copy(const TensorSpec& output, const Strides& strides,
                                                 int64_t offset_elems, int threads) {
  return std::make_unique<StridedCopy>(output, strides, offset_elems, threads);
}

std::unique_ptr<graph::Kernel> prepare_transpose(const graph::KernelRequest& request) {
  const Dims& permutation = request.attributes.get<Dims>("permutation");
  const Strides from = contiguous_strides(request.inputs[0].shape);
  Strides strides = from;
  for (int i = 0; i < permutation.rank(); ++i) strides[i] = from[static_cast<int>(permutation[i])];
  return make_strided_copy(request.outputs[0], strides, 0, request.threads);
}

std::unique_ptr<graph::Kernel> prepare_slice(const graph::KernelRequest& request) {
  const BlockView view = block_view(request.attributes, request.outputs[0].shape, request.inputs[0].shape);
  return make_strided_copy(request.outputs[0], view.strides, view.offset, request.threads);
}

}  // namespace isochron::ops
