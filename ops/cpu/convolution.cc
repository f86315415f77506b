#include "isochron/ops/cpu/convolution.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "isochron/core/threads.h"
#include "isochron/ops/cpu/choose_kernel.h"
#include "isochron/ops/cpu/onednn.h"
#include "isochron/ops/cpu/winograd.h"

namespace isochron::ops {
namespace {

using dnnl::memory;
using graph::Kernel;
using graph::KernelArgs;
using graph::KernelRequest;

constexpr double kLibraryProducts = 64 * 1024;    // multiply-adds from which a call of oneDNN pays
constexpr double kThreadedProducts = 256 * 1024;  // and from which all threads do

// --- plain loops: the innermost one runs over output channels, which lie together ---

/// T = float or double. Any stride, dilation and groups.
template <typename T>
class PortableConvolution final : public Kernel {
 public:
  PortableConvolution(ConvolutionPass pass, const ConvolutionShape& shape, int threads)
      : pass_(pass), s_(shape), threads_(shape.products() >= kThreadedProducts ? threads : 1) {}

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
  void set_bias(bool bias) { has_bias_ = bias; }

 private:
  int64_t depth() const { return s_.channels / s_.groups; }
  int64_t share() const { return s_.outputs / s_.groups; }
  int64_t pixel_of_x(int64_t n, int64_t ih, int64_t iw) const {
    return ((n * s_.height.input + ih) * s_.width.input + iw) * s_.channels;
  }
  int64_t pixel_of_y(int64_t row, int64_t ow) const { return (row * s_.width.output + ow) * s_.outputs; }

  void forward(const T* x, const T* kernel, const T* bias, T* y) const {
    const int64_t rows = s_.batch * s_.height.output;
    parallel_for(threads_, rows, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        for (int64_t ow = 0; ow < s_.width.output; ++ow) {
          T* to = y + pixel_of_y(row, ow);
          bias ? void(std::copy_n(bias, s_.outputs, to)) : void(std::fill_n(to, s_.outputs, T{0}));
          add_pixel(x, kernel, row / s_.height.output, row % s_.height.output, ow, to);
        }
      }
    });
  }

  /// to[0 .. outputs) += the window at (n, oh, ow) times the kernel.
  void add_pixel(const T* x, const T* kernel, int64_t n, int64_t oh, int64_t ow, T* __restrict to) const {
    for (int64_t kh = 0; kh < s_.height.window; ++kh) {
      const int64_t ih = s_.height.source(oh, kh);
      if (ih < 0) continue;
      for (int64_t kw = 0; kw < s_.width.window; ++kw) {
        const int64_t iw = s_.width.source(ow, kw);
        if (iw < 0) continue;
        const T* from = x + pixel_of_x(n, ih, iw);
        const T* weights = kernel + (kh * s_.width.window + kw) * depth() * s_.outputs;
        for (int64_t c = 0; c < s_.channels; ++c) {
          const int64_t first = c / depth() * share();
          const T* w = weights + c % depth() * s_.outputs + first;
          const T value = from[c];
          for (int64_t o = 0; o < share(); ++o) to[first + o] += value * w[o];
        }
      }
    }
  }

  void input_gradient(const T* g, const T* kernel, T* dx) const {
    const int64_t rows = s_.batch * s_.height.input;
    parallel_for(threads_, rows, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t n = row / s_.height.input;
        const int64_t ih = row % s_.height.input;
        for (int64_t iw = 0; iw < s_.width.input; ++iw) {
          T* to = dx + pixel_of_x(n, ih, iw);
          std::fill_n(to, s_.channels, T{0});
          gather_pixel(g, kernel, n, ih, iw, to);
        }
      }
    });
  }

  /// to[0 .. channels) += what the outputs over (n, ih, iw) send back.
  void gather_pixel(const T* g, const T* kernel, int64_t n, int64_t ih, int64_t iw, T* to) const {
    for (int64_t kh = 0; kh < s_.height.window; ++kh) {
      const int64_t oh = s_.height.target(ih, kh);
      if (oh < 0) continue;
      for (int64_t kw = 0; kw < s_.width.window; ++kw) {
        const int64_t ow = s_.width.target(iw, kw);
        if (ow < 0) continue;
        const T* from = g + pixel_of_y(n * s_.height.output + oh, ow);
        const T* weights = kernel + (kh * s_.width.window + kw) * depth() * s_.outputs;
        for (int64_t c = 0; c < s_.channels; ++c) {
          const int64_t first = c / depth() * share();
          const T* w = weights + c % depth() * s_.outputs + first;
          T total = 0;
          for (int64_t o = 0; o < share(); ++o) total += from[first + o] * w[o];
          to[c] += total;
        }
      }
    }
  }

  /// A thread owns whole rows of the kernel, so the order of every sum is fixed.
  void weight_gradient(const T* x, const T* g, T* dkernel) const {
    const int64_t rows = s_.height.window * s_.width.window * depth();
    parallel_for(threads_, rows, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        T* to = dkernel + row * s_.outputs;
        std::fill_n(to, s_.outputs, T{0});
        for (int64_t n = 0; n < s_.batch; ++n) add_image(x, g, n, row, to);
      }
    });
  }

  void add_image(const T* x, const T* g, int64_t n, int64_t row, T* __restrict to) const {
    const int64_t kh = row / depth() / s_.width.window;
    const int64_t kw = row / depth() % s_.width.window;
    for (int64_t oh = 0; oh < s_.height.output; ++oh) {
      const int64_t ih = s_.height.source(oh, kh);
      if (ih < 0) continue;
      for (int64_t ow = 0; ow < s_.width.output; ++ow) {
        const int64_t iw = s_.width.source(ow, kw);
        if (iw < 0) continue;
        const T* from = g + pixel_of_y(n * s_.height.output + oh, ow);
        const T* pixel = x + pixel_of_x(n, ih, iw) + row % depth();
        for (int64_t group = 0; group < s_.groups; ++group) {
          const T value = pixel[group * depth()];
          for (int64_t o = group * share(); o < (group + 1) * share(); ++o) to[o] += value * from[o];
        }
      }
    }
  }

  void bias_gradient(const T* g, T* dbias) const {
    std::fill_n(dbias, s_.outputs, T{0});
    const int64_t pixels = s_.batch * s_.height.output * s_.width.output;
    for (int64_t p = 0; p < pixels; ++p) {
      for (int64_t o = 0; o < s_.outputs; ++o) dbias[o] += g[p * s_.outputs + o];
    }
  }

  ConvolutionPass pass_;
  ConvolutionShape s_;
  int threads_;
  bool has_bias_ = false;
};

// --- oneDNN ---

class LibraryConvolution final : public Kernel {
 public:
  explicit LibraryConvolution(onednn::BoundPrimitive primitive) : primitive_(std::move(primitive)) {}
  size_t workspace_bytes() const override { return primitive_.workspace_bytes(); }
  void bind(const KernelArgs& args) override { primitive_.bind(args); }
  void run(const KernelArgs&) override { primitive_.run(); }

 private:
  onednn::BoundPrimitive primitive_;
};

/// How a call may be served, in the order that the rule prefers; our own loops serve what the library
/// doesn't.
enum Way : size_t { kPlain, kBlocked, kWinograd, kTiles, kPortable };
constexpr std::string_view kTimedWays[] = {"nhwc", "blocked", "winograd", "tiles"};

/// A call in oneDNN's terms: our layouts, and those that the primitive may choose itself.
struct LibraryCallSpec {
  LibraryCallSpec(const ConvolutionShape& s, Way way, bool with_bias) : bias(with_bias) {
    constexpr auto kF32 = memory::data_type::f32;
    const memory::dims x_dims{s.batch, s.channels, s.height.input, s.width.input};
    const memory::dims y_dims{s.batch, s.outputs, s.height.output, s.width.output};
    x = memory::desc(x_dims, kF32, memory::format_tag::nhwc);
    y = memory::desc(y_dims, kF32, memory::format_tag::nhwc);
    const auto chosen = memory::format_tag::any;
    x_asked = way == kPlain ? x : memory::desc(x_dims, kF32, chosen);
    y_asked = way == kPlain ? y : memory::desc(y_dims, kF32, chosen);
    const int64_t kh = s.height.window;
    const int64_t kw = s.width.window;
    const int64_t depth = s.channels / s.groups;
    const int64_t share = s.outputs / s.groups;
    if (s.groups == 1) {
      const memory::dims dims{s.outputs, depth, kh, kw};
      kernel =
          memory::desc(dims, kF32, memory::dims{1, s.outputs, kw * depth * s.outputs, depth * s.outputs});
      kernel_asked = memory::desc(dims, kF32, chosen);
    } else {
      const memory::dims dims{s.groups, share, depth, kh, kw};
      kernel = memory::desc(dims, kF32,
                            memory::dims{share, 1, s.outputs, kw * depth * s.outputs, depth * s.outputs});
      kernel_asked = memory::desc(dims, kF32, chosen);
    }
    bias_desc = bias ? memory::desc({s.outputs}, kF32, memory::format_tag::x) : memory::desc();
    stride = {s.height.stride, s.width.stride};
    dilation = {s.height.dilation - 1, s.width.dilation - 1};
    before = {s.height.before, s.width.before};
    after = {s.height.after, s.width.after};
    algorithm =
        way == kWinograd ? dnnl::algorithm::convolution_winograd : dnnl::algorithm::convolution_direct;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  }

  bool bias;
  memory::desc x, y, kernel, x_asked, y_asked, kernel_asked, bias_desc;
  memory::dims stride, dilation, before, after;
  dnnl::algorithm algorithm;
  dnnl::primitive_attr attributes;
};

using onednn::BoundPrimitive;
using onednn::Port;
using Made = std::optional<BoundPrimitive>;

/// A generic implementation of the library is slower than our own loops.
bool worthless(const char* implementation) { return std::strncmp(implementation, "ref", 3) == 0; }

dnnl::convolution_forward::primitive_desc forward_desc(const LibraryCallSpec& c) {
  const dnnl::convolution_forward::desc desc(dnnl::prop_kind::forward_training, c.algorithm, c.x_asked,
                                             c.kernel_asked, c.bias_desc, c.y_asked, c.stride, c.dilation,
                                             c.before, c.after);
  return {desc, c.attributes, onednn::cpu_engine()};
}

Made make_forward(const LibraryCallSpec& c, int threads) {
  const auto desc = forward_desc(c);
  if (worthless(desc.impl_info_str())) return {};
  std::vector<onednn::Operand> operands{{DNNL_ARG_SRC, Port::kInput, 0, desc.src_desc(), c.x},
                                        {DNNL_ARG_WEIGHTS, Port::kInput, 1, desc.weights_desc(), c.kernel},
                                        {DNNL_ARG_DST, Port::kOutput, 0, desc.dst_desc(), c.y}};
  if (c.bias) operands.push_back({DNNL_ARG_BIAS, Port::kInput, 2, desc.bias_desc(), c.bias_desc});
  return BoundPrimitive(dnnl::convolution_forward(desc), std::move(operands), desc.scratchpad_desc(),
                        threads);
}

Made make_input_gradient(const LibraryCallSpec& c, int threads) {
  const dnnl::convolution_backward_data::desc asked(c.algorithm, c.x_asked, c.kernel_asked, c.y_asked,
                                                    c.stride, c.dilation, c.before, c.after);
  const dnnl::convolution_backward_data::primitive_desc desc(asked, c.attributes, onednn::cpu_engine(),
                                                             forward_desc(c));
  if (worthless(desc.impl_info_str())) return {};
  return BoundPrimitive(dnnl::convolution_backward_data(desc),
                        {{DNNL_ARG_DIFF_DST, Port::kInput, 0, desc.diff_dst_desc(), c.y},
                         {DNNL_ARG_WEIGHTS, Port::kInput, 1, desc.weights_desc(), c.kernel},
                         {DNNL_ARG_DIFF_SRC, Port::kOutput, 0, desc.diff_src_desc(), c.x}},
                        desc.scratchpad_desc(), threads);
}

Made make_weight_gradient(const LibraryCallSpec& c, int threads) {
  const dnnl::convolution_backward_weights::desc asked(c.algorithm, c.x_asked, c.kernel_asked, c.bias_desc,
                                                       c.y_asked, c.stride, c.dilation, c.before, c.after);
  const dnnl::convolution_backward_weights::primitive_desc desc(asked, c.attributes, onednn::cpu_engine(),
                                                                forward_desc(c));
  if (worthless(desc.impl_info_str())) return {};
  std::vector<onednn::Operand> operands{
      {DNNL_ARG_SRC, Port::kInput, 0, desc.src_desc(), c.x},
      {DNNL_ARG_DIFF_DST, Port::kInput, 1, desc.diff_dst_desc(), c.y},
      {DNNL_ARG_DIFF_WEIGHTS, Port::kOutput, 0, desc.diff_weights_desc(), c.kernel}};
  if (c.bias) {
    operands.push_back({DNNL_ARG_DIFF_BIAS, Port::kOutput, 1, desc.diff_bias_desc(), c.bias_desc});
  }
  return BoundPrimitive(dnnl::convolution_backward_weights(desc), std::move(operands), desc.scratchpad_desc(),
                        threads);
}

/// The primitive that serves a call in one way; empty where the library has none for it.
Made make_primitive(ConvolutionPass pass, const ConvolutionShape& s, Way way, bool bias, int threads) {
  constexpr int64_t kWinogradChannels =
      16;  // its transforms don't pay below (10 times slower on one channel)
  if (way == kWinograd && std::min(s.channels, s.outputs) < kWinogradChannels) return {};
  onednn::use_threads(threads);
  try {
    const LibraryCallSpec spec(s, way, bias);
    if (pass == ConvolutionPass::kForward) return make_forward(spec, threads);
    if (pass == ConvolutionPass::kInputGradient) return make_input_gradient(spec, threads);
    return make_weight_gradient(spec, threads);
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_unimplemented || error.status == dnnl_invalid_arguments) return {};
    fail(ErrorCode::kOutOfMemory, "conv2d", "oneDNN says: {}", error.what());
  }
}

std::unique_ptr<Kernel> make_kernel(ConvolutionPass pass, const ConvolutionShape& s, Way way, bool bias,
                                    DType dtype, int threads) {
  if (way == kTiles) return make_winograd(pass, s, bias, threads);
  if (way != kPortable) {
    Made made = make_primitive(pass, s, way, bias, threads);
    return made ? std::make_unique<LibraryConvolution>(std::move(*made)) : nullptr;
  }
  const auto portable = [&]<typename T>(T) -> std::unique_ptr<Kernel> {
    auto kernel = std::make_unique<PortableConvolution<T>>(pass, s, threads);
    kernel->set_bias(bias);
    return kernel;
  };
  return dtype == DType::kF64 ? portable(double{}) : portable(float{});
}

}  // namespace

std::unique_ptr<Kernel> prepare_convolution(ConvolutionPass pass, const ConvolutionShape& shape,
                                            const KernelRequest& request) {
  const bool bias =
      pass == ConvolutionPass::kForward ? request.inputs.size() == 3 : request.outputs.size() == 2;
  const DType dtype = request.inputs[0].dtype;
  const int threads = shape.products() >= kThreadedProducts ? request.threads : 1;
  if (dtype == DType::kF64 || shape.products() < kLibraryProducts) {
    return make_kernel(pass, shape, kPortable, bias, dtype, threads);
  }
  const auto make = [&](size_t way) {
    return make_kernel(pass, shape, static_cast<Way>(way), bias, dtype, threads);
  };
  std::unique_ptr<Kernel> kernel = choose_kernel(request, threads, kTimedWays, make);
  return kernel ? std::move(kernel) : make(kPortable);
}

}  // namespace isochron::ops
