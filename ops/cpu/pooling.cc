#include "isochron/ops/cpu/pooling.h"

#include <algorithm>

#include "isochron/core/checked.h"
#include "isochron/core/threads.h"

namespace isochron::ops {
namespace {

using graph::KernelArgs;

constexpr int64_t kThreadedElems = 64 * 1024;  // input elements from which all threads pay
constexpr size_t kCacheLine = 64;

/// The function of a window of several elements takes them as a list: workspace, one list a thread.
template <typename T>
class PoolingKernel final : public graph::Kernel {
 public:
  PoolingKernel(Pooling pooling, const PoolingShape& shape, int threads)
      : pooling_(pooling), s_(shape), functions_(pooling_functions<T>()) {
    const int64_t elems = s_.batch * s_.input_pixels() * s_.channels;
    threads_ = elems >= kThreadedElems ? threads : 1;
    const auto covers_once = [](const WindowAxis& axis) {
      return axis.stride == axis.window && axis.before == 0 && axis.output * axis.stride == axis.input;
    };
    covers_once_ = covers_once(s_.depth) && covers_once(s_.height) && covers_once(s_.width);
    const size_t entry = sizeof(T*) + sizeof(int32_t);
    if (lists())
      list_bytes_ = align_up(checked_mul(static_cast<size_t>(s_.window_elems()), entry), kCacheLine);
  }

  size_t workspace_bytes() const override { return checked_mul(list_bytes_, static_cast<size_t>(threads_)); }

  /// Rows of the output are independent; of its gradient images are, so that every sum has one order.
  void run(const KernelArgs& args) override {
    const bool backward = pooling_ == Pooling::kMaxGradient || pooling_ == Pooling::kAverageGradient;
    const int64_t parts = backward ? s_.batch : s_.batch * s_.output_rows();
    parallel_for(threads_, threads_, [&](int64_t begin, int64_t end) {
      for (int64_t thread = begin; thread < end; ++thread) {
        std::byte* list = args.workspace + static_cast<size_t>(thread) * list_bytes_;
        for (int64_t i = parts * thread / threads_; i < parts * (thread + 1) / threads_; ++i) {
          backward ? image_backward(args, i) : row_forward(args, i, list);
        }
      }
    });
  }

 private:
  template <typename P>
  static P* at(std::byte* base, int64_t elems) {
    return base ? reinterpret_cast<P*>(base) + elems : nullptr;
  }
  bool lists() const { return pooling_ == Pooling::kMax || pooling_ == Pooling::kAverage; }

  void row_forward(const KernelArgs& args, int64_t row, std::byte* list) const {
    const T* x = at<const T>(args.inputs[0], row / s_.output_rows() * s_.input_pixels() * s_.channels);
    const int64_t out = row * s_.width.output * s_.channels;
    T* y = at<T>(args.outputs[0], out);
    int32_t* positions = pooling_ == Pooling::kMax         ? at<int32_t>(args.outputs[1], out)
                         : pooling_ == Pooling::kMaxSelect ? at<int32_t>(args.inputs[1], out)
                                                           : nullptr;
    const T** rows = reinterpret_cast<const T**>(list);
    int32_t* elements = reinterpret_cast<int32_t*>(rows + s_.window_elems());
    for (int64_t column = 0; column < s_.width.output; ++column) {
      int64_t count = 0;
      s_.each_source(row % s_.output_rows(), column, [&](int64_t pixel, int64_t k) {
        const T* from = x + pixel * s_.channels;
        if (lists()) {
          rows[count] = from;
          elements[count] = static_cast<int32_t>(k);
        } else {
          functions_.scatter(y, from, positions, static_cast<int32_t>(k), count > 0, s_.channels);
        }
        ++count;
      });
      if (pooling_ == Pooling::kMax) {
        functions_.max(rows, elements, count, y, positions, s_.channels);
      } else if (pooling_ == Pooling::kAverage) {
        functions_.scaled_sum(rows, count, factor(count), y, s_.channels);
      }
      if (y) y += s_.channels;
      if (positions) positions += s_.channels;
    }
  }

  void image_backward(const KernelArgs& args, int64_t n) const {
    const int64_t out = n * s_.output_pixels() * s_.channels;
    const T* g = at<const T>(args.inputs[0], out);
    T* dx = at<T>(args.outputs[0], n * s_.input_pixels() * s_.channels);
    const bool scatter = pooling_ == Pooling::kMaxGradient;
    const int32_t* positions = scatter ? at<const int32_t>(args.inputs[1], out) : nullptr;
    if (!covers_once_) std::fill_n(dx, s_.input_pixels() * s_.channels, T{0});
    for (int64_t row = 0; row < s_.output_rows(); ++row) {
      for (int64_t column = 0; column < s_.width.output; ++column) {
        const T scale = scatter ? T{0} : factor(s_.inside(row, column));
        s_.each_source(row, column, [&](int64_t pixel, int64_t k) {
          T* to = dx + pixel * s_.channels;
          if (scatter) {
            functions_.scatter(to, g, positions, static_cast<int32_t>(k), !covers_once_, s_.channels);
          } else {
            functions_.scaled_add(to, g, scale, !covers_once_, s_.channels);
          }
        });
        g += s_.channels;
        if (positions) positions += s_.channels;
      }
    }
  }

  /// Of a mean over a window with `count` elements inside the image.
  T factor(int64_t count) const {
    return T{1} / static_cast<T>(s_.count_padding ? s_.window_elems() : count);
  }

  Pooling pooling_;
  PoolingShape s_;
  const PoolingFunctions<T>& functions_;
  int threads_ = 1;
  size_t list_bytes_ = 0;
  bool covers_once_ = false;  // every input pixel lies under exactly one window: nothing to clear or add
};

}  // namespace

std::unique_ptr<graph::Kernel> prepare_pooling(Pooling pooling, const PoolingShape& shape,
                                               const graph::KernelRequest& request) {
  if (request.inputs[0].dtype == DType::kF64) {
    return std::make_unique<PoolingKernel<double>>(pooling, shape, request.threads);
  }
  return std::make_unique<PoolingKernel<float>>(pooling, shape, request.threads);
}

}  // namespace isochron::ops
