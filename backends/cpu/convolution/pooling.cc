#include "isochron/backends/cpu/convolution/pooling.h"

#include <algorithm>

#include "isochron/core/base/checked.h"
#include "isochron/core/process/threads.h"
#include "isochron/graph/ir/half_storage.h"

namespace isochron::ops {
namespace {

using graph::KernelArgs;

constexpr int64_t kThreadedElems = 64 * 1024;  // input elements from which all threads are used
bool covers_once(const PoolingShape& s) {
  const auto covers = [](const WindowAxis& axis) {
    return axis.stride == axis.window && axis.before == 0 && axis.output * axis.stride == axis.input;
  };
  return covers(s.depth) && covers(s.height) && covers(s.width);
}

bool is_gradient(Pooling pooling) {
  return pooling == Pooling::kMaxGradient || pooling == Pooling::kAverageGradient;
}

/// Numbers are stored as E, positions as P.
template <typename E, typename P>
class PoolingKernel final : public graph::Kernel {
 public:
  PoolingKernel(Pooling pooling, const PoolingShape& shape, int threads)
      : pooling_(pooling), s_(shape), functions_(pooling_functions<E, P>()) {
    const int64_t elems = s_.batch * s_.input_pixels() * s_.channels;
    threads_ = elems >= kThreadedElems ? threads : 1;
    covers_once_ = covers_once(s_);
    list_bytes_ = align_up(
        checked_mul(static_cast<size_t>(s_.window_elems()), sizeof(int64_t) + sizeof(int32_t)), kCacheLine);
  }

  size_t workspace_bytes() const override { return checked_mul(list_bytes_, static_cast<size_t>(threads_)); }

  /// Threads divide the rows of the output in the forward op. In the gradient they divide whole images, so
  /// that the order of every sum is fixed.
  void run(const KernelArgs& args) override {
    const int64_t rows = is_gradient(pooling_) ? s_.output_rows() : 1;  // of a part
    const int64_t parts = s_.batch * s_.output_rows() / rows;
    parallel_for(threads_, threads_, [&](int64_t begin, int64_t end) {
      for (int64_t thread = begin; thread < end; ++thread) {
        std::byte* list = args.workspace + static_cast<size_t>(thread) * list_bytes_;
        for (int64_t i = parts * thread / threads_; i < parts * (thread + 1) / threads_; ++i) {
          if (is_gradient(pooling_) && !covers_once_) clear_image(args, i);
          for (int64_t row = i * rows; row < (i + 1) * rows; ++row) pool_row(args, row, list);
        }
      }
    });
  }

 private:
  using T = ComputeType<E>;
  template <typename Q>
  static Q* at(std::byte* base, int64_t elems) {
    return base ? reinterpret_cast<Q*>(base) + elems : nullptr;
  }
  int64_t image_elems() const { return s_.input_pixels() * s_.channels; }

  void clear_image(const KernelArgs& args, int64_t n) const {
    std::fill_n(at<E>(args.outputs[0], n * image_elems()), image_elems(), E{});
  }

  /// Computes row `row` of the output. The windows at its ends lie partly in the padding and are computed one
  /// by one; the windows between them are computed together.
  void pool_row(const KernelArgs& args, int64_t row, std::byte* list) const {
    const int64_t whole = std::min(s_.width.first_whole(), s_.width.output);
    const int64_t whole_end = std::max(whole, s_.width.whole_end());
    for (int64_t column = 0; column < s_.width.output;) {
      const bool together = column == whole && whole < whole_end;
      const int64_t windows = together ? whole_end - whole : 1;
      pool(args, row, column, windows, list);
      column += windows;
    }
  }

  void pool(const KernelArgs& args, int64_t row, int64_t column, int64_t windows, std::byte* list) const {
    int64_t* offsets = reinterpret_cast<int64_t*>(list);
    int32_t* positions = reinterpret_cast<int32_t*>(offsets + s_.window_elems());
    int64_t count = 0;
    s_.each_source(row % s_.output_rows(), column, [&](int64_t pixel, int64_t k) {
      offsets[count] = pixel * s_.channels;
      positions[count++] = static_cast<int32_t>(k);
    });
    const WindowRun run{offsets, positions, count, windows, s_.width.stride * s_.channels, s_.channels};
    const int64_t image = row / s_.output_rows() * image_elems();
    const int64_t out = (row * s_.width.output + column) * s_.channels;
    const T mean = T{1} / static_cast<T>(s_.count_padding ? s_.window_elems() : count);
    switch (pooling_) {
      case Pooling::kMax:
        return functions_.max(run, at<const E>(args.inputs[0], image), at<E>(args.outputs[0], out),
                              at<P>(args.outputs[1], out));
      case Pooling::kAverage:
        return functions_.scaled_sum(run, at<const E>(args.inputs[0], image), mean,
                                     at<E>(args.outputs[0], out));
      case Pooling::kMaxSelect:
        return functions_.select(run, at<const E>(args.inputs[0], image), at<const P>(args.inputs[1], out),
                                 at<E>(args.outputs[0], out));
      case Pooling::kMaxGradient:
        return functions_.scatter(run, at<const E>(args.inputs[0], out), at<const P>(args.inputs[1], out),
                                  !covers_once_, at<E>(args.outputs[0], image));
      case Pooling::kAverageGradient:
        return functions_.scaled_add(run, at<const E>(args.inputs[0], out), mean, !covers_once_,
                                     at<E>(args.outputs[0], image));
    }
  }

  Pooling pooling_;
  PoolingShape s_;
  const PoolingFunctions<E, P>& functions_;
  int threads_ = 1;
  size_t list_bytes_ = 0;
  bool covers_once_ = false;  // every input pixel lies under exactly one window: nothing to clear or add
};

template <typename E>
std::unique_ptr<graph::Kernel> make_pooling_kernel(Pooling pooling, const PoolingShape& shape, bool bytes,
                                                   int threads) {
  if (bytes) return std::make_unique<PoolingKernel<E, uint8_t>>(pooling, shape, threads);
  return std::make_unique<PoolingKernel<E, int32_t>>(pooling, shape, threads);
}

/// Whether the positions that a call reads or writes, if any, are stored as bytes.
bool byte_positions(Pooling pooling, const graph::KernelRequest& request) {
  const TensorSpec* positions = pooling == Pooling::kMax ? &request.outputs[1] : nullptr;
  if (pooling == Pooling::kMaxGradient || pooling == Pooling::kMaxSelect) positions = &request.inputs[1];
  return positions && positions->dtype == DType::kU8;
}

}  // namespace

std::unique_ptr<graph::Kernel> prepare_pooling(Pooling pooling, const PoolingShape& shape,
                                               const graph::KernelRequest& request) {
  const DType dtype = request.inputs[0].dtype;
  const bool bytes = byte_positions(pooling, request);
  if (request.outputs[0].dtype != dtype) return nullptr;
  if (is_half(dtype) && is_gradient(pooling) && !covers_once(shape)) return nullptr;
  switch (dtype) {
    case DType::kF64:
      return make_pooling_kernel<double>(pooling, shape, bytes, request.threads);
    case DType::kF16:
      return make_pooling_kernel<float16>(pooling, shape, bytes, request.threads);
    case DType::kBF16:
      return make_pooling_kernel<bfloat16>(pooling, shape, bytes, request.threads);
    default:
      return make_pooling_kernel<float>(pooling, shape, bytes, request.threads);
  }
}

}  // namespace isochron::ops
