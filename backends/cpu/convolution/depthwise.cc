#include "isochron/backends/cpu/convolution/depthwise.h"

#include <algorithm>

#include "isochron/core/base/checked.h"
#include "isochron/core/process/threads.h"

namespace isochron::ops {
namespace {

using graph::KernelArgs;

constexpr int64_t kBlock = 32;        // channels that a thread sums at a time
constexpr int64_t kTileColumns = 64;  // output pixels that a thread sums at a time, in L1

/// T = float or double. If a channel has several output channels, each image is first expanded to one channel
/// per output channel, and its gradient is summed back over them. In between, the convolution has one output
/// channel per channel.
template <typename T>
class DepthwiseConvolution final : public graph::Kernel {
 public:
  DepthwiseConvolution(ConvolutionPass pass, const ConvolutionShape& shape, bool bias, int threads)
      : pass_(pass), s_(shape), bias_(bias), threads_(threads), functions_(depthwise_functions<T>()) {
    const bool several = s_.group_outputs() > 1;
    list_bytes_ = align_up(checked_mul(window_elems(), 2 * sizeof(T*)), kCacheLine);
    const int64_t elems = !several ? 0 : transposed() ? s_.outputs : s_.input_pixels() * s_.outputs;
    thread_bytes_ = align_up(list_bytes_ + checked_mul(static_cast<size_t>(elems), sizeof(T)), kCacheLine);
  }

  size_t workspace_bytes() const override {
    return checked_mul(static_cast<size_t>(threads_), thread_bytes_);
  }

  void run(const KernelArgs& args) override {
    const T* a = reinterpret_cast<const T*>(args.inputs[0]);
    const T* b = reinterpret_cast<const T*>(args.inputs[1]);
    T* out = reinterpret_cast<T*>(args.outputs[0]);
    if (pass_ == ConvolutionPass::kWeightGradient) {
      weight_gradient(a, b, out, args.workspace);
      if (bias_) bias_gradient(b, reinterpret_cast<T*>(args.outputs[1]));
    } else {
      const bool biased = pass_ == ConvolutionPass::kForward && bias_;
      filter(a, b, biased ? reinterpret_cast<const T*>(args.inputs[2]) : nullptr, out, args.workspace);
    }
  }

 private:
  bool transposed() const { return pass_ == ConvolutionPass::kInputGradient; }
  size_t window_elems() const { return static_cast<size_t>(s_.window_elems()); }

  /// A thread's part of the workspace.
  struct Scratch {
    const T** pixels;  // the pixels under a window, and the weights they are multiplied by
    const T** weights;
    T* elems;            // sums of a pixel's outputs, or an image repeated
    int64_t image = -1;  // which image
  };

  /// Divides `count` items over the threads, and calls body(scratch, begin, end) for each thread's part.
  template <typename Body>
  void in_parts(int64_t count, std::byte* workspace, Body body) const {
    parallel_for(threads_, threads_, [&](int64_t first, int64_t last) {
      for (int64_t thread = first; thread < last; ++thread) {
        std::byte* base = workspace + static_cast<size_t>(thread) * thread_bytes_;
        const T** pixels = reinterpret_cast<const T**>(base);
        Scratch scratch{pixels, pixels + s_.window_elems(), reinterpret_cast<T*>(base + list_bytes_)};
        body(scratch, count * thread / threads_, count * (thread + 1) / threads_);
      }
    });
  }

  /// Image n of x, expanded to one channel per output channel.
  const T* image_of(const T* x, int64_t n, Scratch& scratch) const {
    const int64_t times = s_.group_outputs();
    const int64_t elems = s_.input_pixels() * s_.channels;
    if (times == 1) return x + n * elems;
    if (scratch.image != n) {
      scratch.image = n;
      T* to = scratch.elems;
      for (int64_t i = 0; i < elems; ++i) {
        for (int64_t j = 0; j < times; ++j) *to++ = x[n * elems + i];
      }
    }
    return scratch.elems;
  }

  /// The result of the forward op, or the gradient of its input, row by row.
  void filter(const T* from, const T* kernel, const T* bias, T* to, std::byte* workspace) const {
    const int64_t rows = transposed() ? s_.input_rows() : s_.output_rows();
    const int64_t row_elems = transposed() ? s_.width.input * s_.channels : s_.width.output * s_.outputs;
    in_parts(s_.batch * rows, workspace, [&](Scratch& scratch, int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t n = row / rows;
        const T* image =
            transposed() ? from + n * s_.output_pixels() * s_.outputs : image_of(from, n, scratch);
        filter_row(row % rows, image, kernel, bias, to + row * row_elems, scratch);
      }
    });
  }

  void filter_row(int64_t row, const T* from, const T* kernel, const T* bias, T* to,
                  const Scratch& scratch) const {
    const T** pixels = scratch.pixels;
    const T** weights = scratch.weights;
    const bool fold = transposed() && s_.group_outputs() > 1;
    const int64_t step = transposed() ? s_.outputs : s_.width.stride * s_.outputs;
    int64_t count = 0;
    for (int64_t column = 0; column < (transposed() ? s_.width.input : s_.width.output); ++column) {
      if (column > 0 && whole(column - 1) && whole(column)) {  // the same elements, moved by one step
        for (int64_t k = 0; k < count; ++k) pixels[k] += step;
      } else {
        count = 0;
        const auto visit = [&](int64_t pixel, int64_t k) {
          pixels[count] = from + pixel * s_.outputs;
          weights[count++] = kernel + k * s_.outputs;
        };
        transposed() ? s_.each_target(row, column, visit) : s_.each_source(row, column, visit);
      }
      functions_.weighted_sum(pixels, weights, count, bias, fold ? scratch.elems : to, s_.outputs);
      if (fold) add_up(scratch.elems, to);
      to += transposed() ? s_.channels : s_.outputs;
    }
  }

  /// Whether the window's whole width lies inside the image.
  bool whole(int64_t column) const {
    const WindowAxis& w = s_.width;
    if (!transposed()) return w.source(column, 0) >= 0 && w.source(column, w.window - 1) >= 0;
    return w.stride == 1 && w.target(column, 0) >= 0 && w.target(column, w.window - 1) >= 0;
  }

  void add_up(const T* sums, T* to) const {
    const int64_t times = s_.group_outputs();
    for (int64_t c = 0; c < s_.channels; ++c) {
      T total = 0;
      for (int64_t j = 0; j < times; ++j) total += sums[c * times + j];
      to[c] = total;
    }
  }

  /// Each thread computes whole items: blocks of channels of a kernel position. So the order of every sum is
  /// fixed.
  void weight_gradient(const T* x, const T* g, T* dkernel, std::byte* workspace) const {
    const int64_t blocks = (s_.outputs + kBlock - 1) / kBlock;
    const int64_t items = blocks * s_.window_elems();
    in_parts(items, workspace, [&](Scratch& scratch, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        std::fill_n(dkernel + offset_of(i), block_channels(i / s_.window_elems()), T{0});
      }
      for (int64_t row = 0; row < s_.batch * s_.output_rows() && begin < end; ++row) {
        const T* image = image_of(x, row / s_.output_rows(), scratch);
        for (int64_t column = 0; column < s_.width.output; column += kTileColumns) {
          const int64_t last = std::min(column + kTileColumns, s_.width.output);
          for (int64_t i = begin; i < end; ++i) add_tile(image, g, row, column, last, i, dkernel);
        }
      }
    });
  }

  /// Item i of the weight gradient: channels of block i / window_elems at position i % window_elems.
  int64_t offset_of(int64_t i) const {
    return i % s_.window_elems() * s_.outputs + i / s_.window_elems() * kBlock;
  }
  int64_t block_channels(int64_t block) const { return std::min(kBlock, s_.outputs - block * kBlock); }

  void add_tile(const T* x, const T* g, int64_t row, int64_t first, int64_t last, int64_t i,
                T* dkernel) const {
    const WindowAxis& w = s_.width;
    const int64_t k = i % s_.window_elems();
    const int64_t block = i / s_.window_elems();
    const int64_t out_row = row % s_.output_rows();
    const int64_t id = s_.depth.source(out_row / s_.height.output, k / w.window / s_.height.window);
    const int64_t ih = s_.height.source(out_row % s_.height.output, k / w.window % s_.height.window);
    if (id < 0 || ih < 0) return;
    const int64_t kw = k % w.window;
    while (first < last && w.source(first, kw) < 0) ++first;
    while (first < last && w.source(last - 1, kw) < 0) --last;
    if (first == last) return;
    const int64_t x_row = id * s_.height.input + ih;
    functions_.add_products(x + (x_row * w.input + w.source(first, kw)) * s_.outputs + block * kBlock,
                            w.stride * s_.outputs, g + (row * w.output + first) * s_.outputs + block * kBlock,
                            s_.outputs, last - first, dkernel + offset_of(i), block_channels(block));
  }

  void bias_gradient(const T* g, T* dbias) const {
    parallel_for(threads_, (s_.outputs + kBlock - 1) / kBlock, [&](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; ++block) {
        std::fill_n(dbias + block * kBlock, block_channels(block), T{0});
        for (int64_t row = 0; row < s_.batch * s_.output_rows(); ++row) {
          functions_.add_products(nullptr, 0, g + row * s_.width.output * s_.outputs + block * kBlock,
                                  s_.outputs, s_.width.output, dbias + block * kBlock, block_channels(block));
        }
      }
    });
  }

  ConvolutionPass pass_;
  ConvolutionShape s_;
  bool bias_;
  int threads_;
  const DepthwiseFunctions<T>& functions_;
  size_t list_bytes_ = 0;
  size_t thread_bytes_ = 0;
};

}  // namespace

std::unique_ptr<graph::Kernel> prepare_depthwise_convolution(ConvolutionPass pass,
                                                             const ConvolutionShape& shape, bool bias,
                                                             DType dtype, int threads) {
  if (dtype == DType::kF64) {
    return std::make_unique<DepthwiseConvolution<double>>(pass, shape, bias, threads);
  }
  return std::make_unique<DepthwiseConvolution<float>>(pass, shape, bias, threads);
}

}  // namespace isochron::ops
