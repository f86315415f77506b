#include "isochron/ops/cpu/pooling.h"

#include <algorithm>

#include "isochron/core/checked.h"
#include "isochron/core/threads.h"
#include "isochron/graph/stored.h"

namespace isochron::ops {
namespace {

using graph::KernelArgs;

constexpr int64_t kThreadedElems = 64 * 1024;  // input elements from which all threads pay
constexpr size_t kCacheLine = 64;

bool covers_once(const PoolingShape& s) {
  const auto covers = [](const WindowAxis& axis) {
    return axis.stride == axis.window && axis.before == 0 && axis.output * axis.stride == axis.input;
  };
  return covers(s.depth) && covers(s.height) && covers(s.width);
}

bool is_gradient(Pooling pooling) {
  return pooling == Pooling::kMaxGradient || pooling == Pooling::kAverageGradient;
}

/// The function of a window of several elements takes them as a list: workspace, one list a thread. Numbers
/// are stored as E, positions as P.
template <typename E, typename P>
class PoolingKernel final : public graph::Kernel {
 public:
  PoolingKernel(Pooling pooling, const PoolingShape& shape, int threads)
      : pooling_(pooling), s_(shape), functions_(pooling_functions<E, P>()) {
    const int64_t elems = s_.batch * s_.input_pixels() * s_.channels;
    threads_ = elems >= kThreadedElems ? threads : 1;
    covers_once_ = covers_once(s_);
    const size_t entry = sizeof(E*) + sizeof(int32_t);
    if (lists())
      list_bytes_ = align_up(checked_mul(static_cast<size_t>(s_.window_elems()), entry), kCacheLine);
  }

  size_t workspace_bytes() const override { return checked_mul(list_bytes_, static_cast<size_t>(threads_)); }

  /// Rows of the output are independent; of its gradient images are, so that every sum has one order.
  void run(const KernelArgs& args) override {
    const bool backward = is_gradient(pooling_);
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
  using T = ComputeType<E>;
  template <typename Q>
  static Q* at(std::byte* base, int64_t elems) {
    return base ? reinterpret_cast<Q*>(base) + elems : nullptr;
  }
  bool lists() const { return pooling_ == Pooling::kMax || pooling_ == Pooling::kAverage; }

  void row_forward(const KernelArgs& args, int64_t row, std::byte* list) const {
    const E* x = at<const E>(args.inputs[0], row / s_.output_rows() * s_.input_pixels() * s_.channels);
    const int64_t out = row * s_.width.output * s_.channels;
    E* y = at<E>(args.outputs[0], out);
    P* positions = pooling_ == Pooling::kMax         ? at<P>(args.outputs[1], out)
                   : pooling_ == Pooling::kMaxSelect ? at<P>(args.inputs[1], out)
                                                     : nullptr;
    const E** rows = reinterpret_cast<const E**>(list);
    int32_t* elements = reinterpret_cast<int32_t*>(rows + s_.window_elems());
    for (int64_t column = 0; column < s_.width.output; ++column) {
      int64_t count = 0;
      s_.each_source(row % s_.output_rows(), column, [&](int64_t pixel, int64_t k) {
        const E* from = x + pixel * s_.channels;
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
    const E* g = at<const E>(args.inputs[0], out);
    E* dx = at<E>(args.outputs[0], n * s_.input_pixels() * s_.channels);
    const bool scatter = pooling_ == Pooling::kMaxGradient;
    const P* positions = scatter ? at<const P>(args.inputs[1], out) : nullptr;
    if (!covers_once_) std::fill_n(dx, s_.input_pixels() * s_.channels, E{});
    for (int64_t row = 0; row < s_.output_rows(); ++row) {
      for (int64_t column = 0; column < s_.width.output; ++column) {
        const T scale = scatter ? T{0} : factor(s_.inside(row, column));
        s_.each_source(row, column, [&](int64_t pixel, int64_t k) {
          E* to = dx + pixel * s_.channels;
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
  const PoolingFunctions<E, P>& functions_;
  int threads_ = 1;
  size_t list_bytes_ = 0;
  bool covers_once_ = false;  // every input pixel lies under exactly one window: nothing to clear or add
};

template <typename E>
std::unique_ptr<graph::Kernel> make_kernel(Pooling pooling, const PoolingShape& shape, bool bytes,
                                           int threads) {
  if (bytes) return std::make_unique<PoolingKernel<E, uint8_t>>(pooling, shape, threads);
  return std::make_unique<PoolingKernel<E, int32_t>>(pooling, shape, threads);
}

/// Of the positions that a call reads or writes, if any.
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
  if (graph::is_narrow(dtype) && is_gradient(pooling) && !covers_once(shape)) return nullptr;
  switch (dtype) {
    case DType::kF64:
      return make_kernel<double>(pooling, shape, bytes, request.threads);
    case DType::kF16:
      return make_kernel<float16>(pooling, shape, bytes, request.threads);
    case DType::kBF16:
      return make_kernel<bfloat16>(pooling, shape, bytes, request.threads);
    default:
      return make_kernel<float>(pooling, shape, bytes, request.threads);
  }
}

}  // namespace isochron::ops
