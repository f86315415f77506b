#include "isochron/backends/cpu/convolution/convolution.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "isochron/backends/common/vector_target.h"
#include "isochron/backends/cpu/common/choose_kernel.h"
#include "isochron/backends/cpu/common/onednn.h"
#include "isochron/backends/cpu/convolution/convolution_plain.h"
#include "isochron/backends/cpu/convolution/depthwise.h"
#include "isochron/backends/cpu/convolution/winograd.h"
#include "isochron/graph/ir/half_storage.h"

namespace isochron::ops {
namespace {

using dnnl::memory;
using graph::Kernel;
using graph::KernelArgs;
using graph::KernelRequest;

constexpr double kLibraryProducts = 4 * 1024;     // multiply-adds from which a call of oneDNN pays off
constexpr double kThreadedProducts = 256 * 1024;  // multiply-adds from which all threads are used

class LibraryConvolution final : public Kernel {
 public:
  explicit LibraryConvolution(onednn::BoundPrimitive primitive) : primitive_(std::move(primitive)) {}
  size_t workspace_bytes() const override { return primitive_.workspace_bytes(); }
  void bind(const KernelArgs& args) override { primitive_.bind(args); }
  void run(const KernelArgs&) override { primitive_.run(); }

 private:
  onednn::BoundPrimitive primitive_;
};

/// The algorithms for a call, in the order that the rule prefers.
enum Algorithm : size_t {
  kOwnWinograd,      // backends/cpu/convolution/winograd.h
  kDirectNhwc,       // oneDNN's direct convolution in our layouts
  kDirectBlocked,    // the same in oneDNN's blocked layouts
  kLibraryWinograd,  // oneDNN's
  kOwnLoops,         // for calls that the library doesn't support
};
constexpr std::string_view kTimed[] = {"own_winograd", "nhwc", "blocked", "onednn_winograd"};

/// The dims of a tensor in the library's order: batch, channels, then spatial axes. A single spatial axis is
/// passed as two, the first with extent 1.
memory::dims with_space(std::initializer_list<int64_t> leading, const ConvolutionShape& s,
                        int64_t WindowAxis::*extent) {
  memory::dims dims(leading);
  if (!s.planar()) dims.push_back(s.depth.*extent);
  dims.push_back(s.height.*extent);
  dims.push_back(s.width.*extent);
  return dims;
}

/// The library's description of a kernel (spatial..., C / groups, O): (O, C / groups, spatial...). If there
/// are several groups, they are split off as a leading axis.
memory::desc kernel_desc(const ConvolutionShape& s, memory::data_type type) {
  const int64_t position = s.group_channels() * s.outputs;
  memory::dims dims = with_space({s.group_outputs(), s.group_channels()}, s, &WindowAxis::window);
  memory::dims strides{1, s.outputs};
  if (!s.planar()) strides.push_back(s.height.window * s.width.window * position);
  strides.push_back(s.width.window * position);
  strides.push_back(position);
  if (s.groups > 1) {
    dims.insert(dims.begin(), s.groups);
    strides.insert(strides.begin(), s.group_outputs());
  }
  return {dims, type, strides};
}

constexpr auto kHalf = memory::data_type::bf16;  // the only 16-bit dtype that the library multiplies

/// The library's types of the three tensors of a call.
struct LibraryTypes {
  memory::data_type x = memory::data_type::f32;
  memory::data_type kernel = memory::data_type::f32;
  memory::data_type y = memory::data_type::f32;
  bool half() const { return x == kHalf || y == kHalf; }
};

/// A call described for oneDNN: in our layouts, and in layouts that the primitive may choose.
struct LibraryCallSpec {
  LibraryCallSpec(const ConvolutionShape& s, Algorithm algorithm, bool with_bias, const LibraryTypes& types)
      : bias(with_bias) {
    const memory::dims x_dims = with_space({s.batch, s.channels}, s, &WindowAxis::input);
    const memory::dims y_dims = with_space({s.batch, s.outputs}, s, &WindowAxis::output);
    const auto ours = s.planar() ? memory::format_tag::nhwc : memory::format_tag::ndhwc;
    const auto chosen = memory::format_tag::any;
    x = memory::desc(x_dims, types.x, ours);
    y = memory::desc(y_dims, types.y, ours);
    x_asked = algorithm == kDirectNhwc ? x : memory::desc(x_dims, types.x, chosen);
    y_asked = algorithm == kDirectNhwc ? y : memory::desc(y_dims, types.y, chosen);
    kernel = kernel_desc(s, types.kernel);
    kernel_asked = memory::desc(kernel.dims(), types.kernel, chosen);
    bias_desc =
        bias ? memory::desc({s.outputs}, memory::data_type::f32, memory::format_tag::x) : memory::desc();
    stride = with_space({}, s, &WindowAxis::stride);
    dilation = with_space({}, s, &WindowAxis::dilation);
    for (int64_t& distance : dilation) --distance;  // the library counts the gaps
    before = with_space({}, s, &WindowAxis::before);
    after = with_space({}, s, &WindowAxis::after);
    library_algorithm = algorithm == kLibraryWinograd ? dnnl::algorithm::convolution_winograd
                                                      : dnnl::algorithm::convolution_direct;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  }

  bool bias;
  memory::desc x, y, kernel, x_asked, y_asked, kernel_asked, bias_desc;
  memory::dims stride, dilation, before, after;
  dnnl::algorithm library_algorithm;
  dnnl::primitive_attr attributes;
};

using onednn::BoundPrimitive;
using onednn::Port;
using Made = std::optional<BoundPrimitive>;

/// Whether the library's implementation is the generic one, which is slower than our own loops.
bool is_reference(const char* implementation) { return std::strncmp(implementation, "ref", 3) == 0; }

dnnl::convolution_forward::primitive_desc forward_desc(const LibraryCallSpec& c) {
  const dnnl::convolution_forward::desc desc(dnnl::prop_kind::forward_training, c.library_algorithm,
                                             c.x_asked, c.kernel_asked, c.bias_desc, c.y_asked, c.stride,
                                             c.dilation, c.before, c.after);
  return {desc, c.attributes, onednn::cpu_engine()};
}

Made make_forward(const LibraryCallSpec& c, int threads) {
  const auto desc = forward_desc(c);
  if (is_reference(desc.impl_info_str())) return {};
  std::vector<onednn::Operand> operands{{DNNL_ARG_SRC, Port::kInput, 0, desc.src_desc(), c.x},
                                        {DNNL_ARG_WEIGHTS, Port::kInput, 1, desc.weights_desc(), c.kernel},
                                        {DNNL_ARG_DST, Port::kOutput, 0, desc.dst_desc(), c.y}};
  if (c.bias) operands.push_back({DNNL_ARG_BIAS, Port::kInput, 2, desc.bias_desc(), c.bias_desc});
  return BoundPrimitive(dnnl::convolution_forward(desc), std::move(operands), desc.scratchpad_desc(),
                        threads);
}

Made make_input_gradient(const LibraryCallSpec& c, const LibraryCallSpec& forward, int threads) {
  const dnnl::convolution_backward_data::desc asked(c.library_algorithm, c.x_asked, c.kernel_asked, c.y_asked,
                                                    c.stride, c.dilation, c.before, c.after);
  const dnnl::convolution_backward_data::primitive_desc desc(asked, c.attributes, onednn::cpu_engine(),
                                                             forward_desc(forward));
  if (is_reference(desc.impl_info_str())) return {};
  return BoundPrimitive(dnnl::convolution_backward_data(desc),
                        {{DNNL_ARG_DIFF_DST, Port::kInput, 0, desc.diff_dst_desc(), c.y},
                         {DNNL_ARG_WEIGHTS, Port::kInput, 1, desc.weights_desc(), c.kernel},
                         {DNNL_ARG_DIFF_SRC, Port::kOutput, 0, desc.diff_src_desc(), c.x}},
                        desc.scratchpad_desc(), threads);
}

Made make_weight_gradient(const LibraryCallSpec& c, const LibraryCallSpec& forward, int threads) {
  const dnnl::convolution_backward_weights::desc asked(c.library_algorithm, c.x_asked, c.kernel_asked,
                                                       c.bias_desc, c.y_asked, c.stride, c.dilation, c.before,
                                                       c.after);
  const dnnl::convolution_backward_weights::primitive_desc desc(asked, c.attributes, onednn::cpu_engine(),
                                                                forward_desc(forward));
  if (is_reference(desc.impl_info_str())) return {};
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

/// Whether the library can handle the extents of this shape. It counts distances in 32 bits, and its work for
/// a window depends on the window's span, not on the number of its elements.
bool library_counts(const ConvolutionShape& s) {
  constexpr int64_t kMax = int64_t{1} << 14;
  for (const WindowAxis* axis : {&s.depth, &s.height, &s.width}) {
    if (axis->reach() > kMax || axis->before > kMax || axis->after > kMax || axis->stride > kMax)
      return false;
  }
  return true;
}

/// The primitive that computes a call by one algorithm; empty if the library has none for it.
Made make_primitive(ConvolutionPass pass, const ConvolutionShape& s, Algorithm algorithm, bool bias,
                    int threads, const LibraryTypes& types) {
  // With fewer channels, Winograd transforms don't pay off (10 times slower with one channel).
  constexpr int64_t kWinogradChannels = 16;
  if (algorithm == kLibraryWinograd && std::min(s.channels, s.outputs) < kWinogradChannels) return {};
  if (!library_counts(s)) return {};
  onednn::use_threads(threads);
  onednn::require_room("convolution");
  try {
    const LibraryCallSpec spec(s, algorithm, bias, types);
    if (pass == ConvolutionPass::kForward) return make_forward(spec, threads);
    // The library derives a backward pass from a forward one, whose tensors are all of one dtype.
    LibraryTypes forward_types;
    if (types.half()) forward_types = {kHalf, kHalf, kHalf};
    const LibraryCallSpec forward(s, algorithm, bias, forward_types);
    if (pass == ConvolutionPass::kInputGradient) return make_input_gradient(spec, forward, threads);
    return make_weight_gradient(spec, forward, threads);
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_unimplemented || error.status == dnnl_invalid_arguments) return {};
    fail(ErrorCode::kOutOfMemory, "convolution", "oneDNN says: {}", error.what());
  }
}

std::unique_ptr<Kernel> make_kernel(ConvolutionPass pass, const ConvolutionShape& s, Algorithm algorithm,
                                    bool bias, DType dtype, int threads) {
  if (algorithm == kOwnWinograd) return make_winograd(pass, s, bias, threads);
  if (algorithm == kOwnLoops && is_depthwise(s)) {
    return prepare_depthwise_convolution(pass, s, bias, dtype, threads);
  }
  if (algorithm == kOwnLoops) return prepare_plain_convolution(pass, s, bias, dtype, threads);
  Made made = make_primitive(pass, s, algorithm, bias, threads, {});
  return made ? std::make_unique<LibraryConvolution>(std::move(*made)) : nullptr;
}

/// By rule, our own kernel comes first, unless the library has a special kernel for such calls.
std::unique_ptr<Kernel> choose_depthwise(ConvolutionPass pass, const ConvolutionShape& s,
                                         const KernelRequest& request, int threads,
                                         const std::function<std::unique_ptr<Kernel>(size_t)>& make) {
  const bool library_first = s.planar() && s.group_outputs() == 1 && pass != ConvolutionPass::kWeightGradient;
  const Algorithm algorithms[] = {library_first ? kDirectNhwc : kOwnLoops,
                                  library_first ? kOwnLoops : kDirectNhwc};
  const std::string_view names[] = {library_first ? "nhwc" : "depthwise",
                                    library_first ? "depthwise" : "nhwc"};
  return choose_kernel(request, threads, names, [&](size_t i) { return make(algorithms[i]); });
}

}  // namespace

std::unique_ptr<Kernel> prepare_convolution(ConvolutionPass pass, const ConvolutionShape& shape,
                                            const KernelRequest& request) {
  const bool bias =
      pass == ConvolutionPass::kForward ? request.inputs.size() == 3 : request.outputs.size() == 2;
  const DType dtype = request.inputs[0].dtype;
  const int threads = shape.products() >= kThreadedProducts ? request.threads : 1;
  const auto make = [&](size_t algorithm) {
    return make_kernel(pass, shape, static_cast<Algorithm>(algorithm), bias, dtype, threads);
  };
  if (dtype == DType::kF64 || shape.products() < kLibraryProducts) return make(kOwnLoops);
  if (is_depthwise(shape)) return choose_depthwise(pass, shape, request, threads, make);
  std::unique_ptr<Kernel> kernel = choose_kernel(request, threads, kTimed, make);
  return kernel ? std::move(kernel) : make(kOwnLoops);
}

std::unique_ptr<Kernel> prepare_half_convolution(ConvolutionPass pass, const ConvolutionShape& shape,
                                                 const KernelRequest& request) {
  const DType operands = request.inputs[0].dtype;
  const DType result = request.outputs[0].dtype;
  const bool uniform = is_half(operands) && request.inputs[1].dtype == operands &&
                       (result == operands || result == DType::kF32);
  if (!uniform || shape.products() < kLibraryProducts || is_depthwise(shape)) return nullptr;
  const bool bias =
      pass == ConvolutionPass::kForward ? request.inputs.size() == 3 : request.outputs.size() == 2;
  const int threads = shape.products() >= kThreadedProducts ? request.threads : 1;
  LibraryTypes types{kHalf, kHalf, kHalf};
  if (result == DType::kF32) {
    memory::data_type LibraryTypes::*const of_result = pass == ConvolutionPass::kForward ? &LibraryTypes::y
                                                       : pass == ConvolutionPass::kInputGradient
                                                           ? &LibraryTypes::x
                                                           : &LibraryTypes::kernel;
    types.*of_result = memory::data_type::f32;
  }
  constexpr std::string_view kNames[] = {"own_winograd", "nhwc", "blocked", "f32"};
  return choose_kernel(request, threads, kNames, [&](size_t algorithm) -> std::unique_ptr<Kernel> {
    if (algorithm == kOwnWinograd) return make_winograd(pass, shape, bias, threads, {operands, result});
    if (algorithm > kDirectBlocked) return graph::prepare_through_f32(request);
    if (!multiplies_in(operands)) return nullptr;
    Made made = make_primitive(pass, shape, static_cast<Algorithm>(algorithm), bias, threads, types);
    return made ? std::make_unique<LibraryConvolution>(std::move(*made)) : nullptr;
  });
}

}  // namespace isochron::ops
