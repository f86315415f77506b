#include "isochron/ops/cpu/pooling.h"

#include <algorithm>
#include <vector>

#include "isochron/core/threads.h"

namespace isochron::ops {
namespace {

using graph::KernelArgs;

constexpr int64_t kThreadedElems = 64 * 1024;  // input elements from which all threads pay
constexpr int64_t kMaxWindowElems = 1024;      // of which only those inside the image count

/// Images of a batch are independent: a thread takes whole ones, so every sum has one order.
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
    covers_once_ = covers_once(s_.height) && covers_once(s_.width);
  }

  void run(const KernelArgs& args) override {
    parallel_for(threads_, s_.batch, [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        if (pooling_ == Pooling::kMaxGradient || pooling_ == Pooling::kAverageGradient) {
          image_backward(args, n);
        } else {
          image_forward(args, n);
        }
      }
    });
  }

 private:
  template <typename P>
  static P* at(std::byte* base, int64_t elems) {
    return base ? reinterpret_cast<P*>(base) + elems : nullptr;
  }

  /// The window of output pixel (oh, ow): the input pixels inside the image and their window positions.
  struct Window {
    int64_t count = 0;
    int64_t pixels[kMaxWindowElems];
    int32_t positions[kMaxWindowElems];
  };
  void find_window(int64_t oh, int64_t ow, Window& window) const {
    window.count = 0;
    for (int64_t kh = 0; kh < s_.height.window; ++kh) {
      const int64_t ih = s_.height.source(oh, kh);
      if (ih < 0) continue;
      for (int64_t kw = 0; kw < s_.width.window; ++kw) {
        const int64_t iw = s_.width.source(ow, kw);
        if (iw < 0) continue;
        window.pixels[window.count] = ih * s_.width.input + iw;
        window.positions[window.count++] = static_cast<int32_t>(kh * s_.width.window + kw);
      }
    }
  }

  void image_forward(const KernelArgs& args, int64_t n) const {
    const T* x = at<const T>(args.inputs[0], n * s_.input_pixels() * s_.channels);
    const int64_t out = n * s_.output_pixels() * s_.channels;
    T* y = at<T>(args.outputs[0], out);
    const bool select = pooling_ == Pooling::kMaxSelect;
    int32_t* positions = pooling_ == Pooling::kMax ? at<int32_t>(args.outputs[1], out)
                         : select                  ? at<int32_t>(args.inputs[1], out)
                                                   : nullptr;
    Window window;
    const T* rows[kMaxWindowElems];
    for (int64_t pixel = 0; pixel < s_.output_pixels(); ++pixel) {
      find_window(pixel / s_.width.output, pixel % s_.width.output, window);
      for (int64_t k = 0; k < window.count; ++k) rows[k] = x + window.pixels[k] * s_.channels;
      if (select) {
        for (int64_t k = 0; k < window.count; ++k)
          functions_.scatter(y, rows[k], positions, window.positions[k], k > 0, s_.channels);
      } else if (pooling_ == Pooling::kMax) {
        functions_.max(rows, window.positions, window.count, y, positions, s_.channels);
      } else {
        functions_.scaled_sum(rows, window.count, T{1} / static_cast<T>(window.count), y, s_.channels);
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
    Window window;
    for (int64_t pixel = 0; pixel < s_.output_pixels(); ++pixel) {
      find_window(pixel / s_.width.output, pixel % s_.width.output, window);
      for (int64_t k = 0; k < window.count; ++k) {
        T* to = dx + window.pixels[k] * s_.channels;
        if (scatter) {
          functions_.scatter(to, g, positions, window.positions[k], !covers_once_, s_.channels);
        } else {
          functions_.scaled_add(to, g, T{1} / static_cast<T>(window.count), !covers_once_, s_.channels);
        }
      }
      g += s_.channels;
      if (positions) positions += s_.channels;
    }
  }

  Pooling pooling_;
  PoolingShape s_;
  const PoolingFunctions<T>& functions_;
  int threads_ = 1;
  bool covers_once_ = false;  // every input pixel lies under exactly one window: nothing to clear or add
};

}  // namespace

std::unique_ptr<graph::Kernel> prepare_pooling(Pooling pooling, const PoolingShape& shape,
                                               const graph::KernelRequest& request) {
  const int64_t elems = shape.height.window * shape.width.window;
  require(elems <= kMaxWindowElems, ErrorCode::kUnsupported, request.op.name,
          "a window of {} elements; at most {} are supported (reduce over the axes instead)", elems,
          kMaxWindowElems);
  if (request.inputs[0].dtype == DType::kF64) {
    return std::make_unique<PoolingKernel<double>>(pooling, shape, request.threads);
  }
  return std::make_unique<PoolingKernel<float>>(pooling, shape, request.threads);
}

}  // namespace isochron::ops
