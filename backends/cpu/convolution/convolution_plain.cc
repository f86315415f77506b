#include "isochron/backends/cpu/convolution/convolution_plain.h"

#include <algorithm>

#include "isochron/core/process/threads.h"

namespace isochron::ops {
namespace {

using graph::KernelArgs;

/// T = float or double. The innermost loops run over output channels, which are contiguous.
template <typename T>
class PlainConvolution final : public graph::Kernel {
 public:
  PlainConvolution(ConvolutionPass pass, const ConvolutionShape& shape, bool bias, int threads)
      : pass_(pass), s_(shape), has_bias_(bias), threads_(threads) {}

  void run(const KernelArgs& args) override {
    const T* a = reinterpret_cast<const T*>(args.inputs[0]);
    const T* b = reinterpret_cast<const T*>(args.inputs[1]);
    T* out = reinterpret_cast<T*>(args.outputs[0]);
    if (pass_ == ConvolutionPass::kForward) {
      forward(a, b, has_bias_ ? reinterpret_cast<const T*>(args.inputs[2]) : nullptr, out);
    } else if (pass_ == ConvolutionPass::kInputGradient) {
      input_gradient(a, b, out);
    } else {
      weight_gradient(a, b, out);
      if (has_bias_) bias_gradient(b, reinterpret_cast<T*>(args.outputs[1]));
    }
  }

 private:
  void forward(const T* x, const T* kernel, const T* bias, T* y) const {
    const int64_t rows = s_.output_rows();
    parallel_for(threads_, s_.batch * rows, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* image = x + row / rows * s_.input_pixels() * s_.channels;
        for (int64_t ow = 0; ow < s_.width.output; ++ow) {
          T* to = y + (row * s_.width.output + ow) * s_.outputs;
          bias ? void(std::copy_n(bias, s_.outputs, to)) : void(std::fill_n(to, s_.outputs, T{0}));
          s_.each_source(row % rows, ow, [&](int64_t pixel, int64_t k) {
            add_product(image + pixel * s_.channels, kernel + k * kernel_elems(), to);
          });
        }
      }
    });
  }

  /// to[0 .. outputs) += pixel times the kernel's weights at one position.
  void add_product(const T* pixel, const T* weights, T* __restrict to) const {
    const int64_t depth = s_.group_channels();
    const int64_t share = s_.group_outputs();
    for (int64_t c = 0; c < s_.channels; ++c) {
      const int64_t first = c / depth * share;
      const T* w = weights + c % depth * s_.outputs + first;
      const T value = pixel[c];
      for (int64_t o = 0; o < share; ++o) to[first + o] += value * w[o];
    }
  }

  void input_gradient(const T* g, const T* kernel, T* dx) const {
    const int64_t rows = s_.input_rows();
    parallel_for(threads_, s_.batch * rows, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* image = g + row / rows * s_.output_pixels() * s_.outputs;
        for (int64_t iw = 0; iw < s_.width.input; ++iw) {
          T* to = dx + (row * s_.width.input + iw) * s_.channels;
          std::fill_n(to, s_.channels, T{0});
          s_.each_target(row % rows, iw, [&](int64_t pixel, int64_t k) {
            add_transposed_product(image + pixel * s_.outputs, kernel + k * kernel_elems(), to);
          });
        }
      }
    });
  }

  /// to[0 .. channels) += gradient of an output pixel times the transposed weights at one position.
  void add_transposed_product(const T* pixel, const T* weights, T* to) const {
    const int64_t depth = s_.group_channels();
    const int64_t share = s_.group_outputs();
    for (int64_t c = 0; c < s_.channels; ++c) {
      const int64_t first = c / depth * share;
      const T* w = weights + c % depth * s_.outputs + first;
      T total = 0;
      for (int64_t o = 0; o < share; ++o) total += pixel[first + o] * w[o];
      to[c] += total;
    }
  }

  /// Each thread computes whole rows of the kernel's gradient, so the order of every sum is fixed.
  void weight_gradient(const T* x, const T* g, T* dkernel) const {
    parallel_for(threads_, s_.window_elems() * s_.group_channels(), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        T* to = dkernel + row * s_.outputs;
        std::fill_n(to, s_.outputs, T{0});
        for (int64_t n = 0; n < s_.batch; ++n) {
          add_image(x + n * s_.input_pixels() * s_.channels, g + n * s_.output_pixels() * s_.outputs, row,
                    to);
        }
      }
    });
  }

  void add_image(const T* x, const T* g, int64_t row, T* __restrict to) const {
    const int64_t depth = s_.group_channels();
    const int64_t k = row / depth;
    const int64_t kw = k % s_.width.window;
    const int64_t kh = k / s_.width.window % s_.height.window;
    const int64_t kd = k / s_.width.window / s_.height.window;
    for (int64_t out_row = 0; out_row < s_.output_rows(); ++out_row) {
      const int64_t id = s_.depth.source(out_row / s_.height.output, kd);
      const int64_t ih = s_.height.source(out_row % s_.height.output, kh);
      if (id < 0 || ih < 0) continue;
      const T* x_row = x + (id * s_.height.input + ih) * s_.width.input * s_.channels + row % depth;
      for (int64_t ow = 0; ow < s_.width.output; ++ow) {
        const int64_t iw = s_.width.source(ow, kw);
        if (iw < 0) continue;
        add_outer(x_row + iw * s_.channels, g + (out_row * s_.width.output + ow) * s_.outputs, to);
      }
    }
  }

  /// to[0 .. outputs) += for each group, one channel of the pixel times the group's gradients.
  void add_outer(const T* pixel, const T* gradient, T* __restrict to) const {
    const int64_t share = s_.group_outputs();
    for (int64_t group = 0; group < s_.groups; ++group) {
      const T value = pixel[group * s_.group_channels()];
      for (int64_t o = group * share; o < (group + 1) * share; ++o) to[o] += value * gradient[o];
    }
  }

  void bias_gradient(const T* g, T* dbias) const {
    std::fill_n(dbias, s_.outputs, T{0});
    for (int64_t p = 0; p < s_.batch * s_.output_pixels(); ++p) {
      for (int64_t o = 0; o < s_.outputs; ++o) dbias[o] += g[p * s_.outputs + o];
    }
  }

  int64_t kernel_elems() const { return s_.group_channels() * s_.outputs; }

  ConvolutionPass pass_;
  ConvolutionShape s_;
  bool has_bias_;
  int threads_;
};

}  // namespace

std::unique_ptr<graph::Kernel> prepare_plain_convolution(ConvolutionPass pass, const ConvolutionShape& shape,
                                                         bool bias, DType dtype, int threads) {
  if (dtype == DType::kF64) {
    return std::make_unique<PlainConvolution<double>>(pass, shape, bias, threads);
  }
  return std::make_unique<PlainConvolution<float>>(pass, shape, bias, threads);
}

}  // namespace isochron::ops
