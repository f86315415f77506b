// Registry rows and gradients of convolution. Convolution is linear in the image and in the kernel, and so
// are its two gradients: all derivatives of the three ops, of any order, are these three ops again.
#include "isochron/ops/convolution/convolution.h"

#include "isochron/graph/capture/apply.h"
#include "isochron/ops/convolution/convolution_shape.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/rows/families.h"
#include "isochron/ops/rows/registry.h"
#include "isochron/ops/rows/rules.h"
#include "isochron/ops/shape/shape_ops.h"

namespace isochron {
namespace ops {
namespace {

using graph::Attributes;

void require_computable(const OpCall& call) {
  require_same_dtype(call);
  require(call.inputs[0].dtype == DType::kF32 || call.inputs[0].dtype == DType::kF64,
          ErrorCode::kDtypeMismatch, call.op.name, "takes f32 or f64, got {}; cast it", call.inputs[0].str());
}

ConvolutionShape convolution_shape(const OpCall& call, const Dims& x, const Dims& kernel) {
  const std::string& where = call.op.name;
  require_image(where, Shape(x), 0);
  require(kernel.rank() == x.rank(), ErrorCode::kShapeMismatch, where,
          "images are (N, spatial..., C) and kernels (spatial..., C / groups, O), got {} and {}", dims_str(x),
          dims_str(kernel));
  ConvolutionShape s;
  s.batch = x[0];
  s.channels = x.back();
  s.outputs = kernel.back();
  s.groups = call.attributes.get<int64_t>("groups");
  require(s.groups >= 1 && s.channels % s.groups == 0 && s.outputs % s.groups == 0,
          ErrorCode::kInvalidArgument, where, "{} groups don't divide {} input and {} output channels",
          s.groups, s.channels, s.outputs);
  const int64_t kernel_channels = kernel[kernel.rank() - 2] * s.groups;
  require(kernel_channels == s.channels, ErrorCode::kShapeMismatch, where,
          "the kernel {} takes {} channels, the image {} has {}", dims_str(kernel), kernel_channels,
          dims_str(x), s.channels);
  const Dims window(kernel.span().first(static_cast<size_t>(kernel.rank() - 2)));
  static_cast<SlidingWindow&>(s) =
      sliding_window(where, x, window, call.attributes.get<Dims>("stride"),
                     call.attributes.get<Dims>("dilation"), call.attributes.get<Dims>("padding"));
  return s;
}

ConvolutionShape forward_shape(const OpCall& call) {
  require_computable(call);
  return convolution_shape(call, call.inputs[0].shape, call.inputs[1].shape);
}

/// Throws kShapeMismatch unless input `index` has the spec of the result of a convolution of this shape.
void require_result(const OpCall& call, size_t index, const ConvolutionShape& s) {
  const Shape expected = s.output_shape(s.batch, s.outputs);
  require(call.inputs[index].shape == expected, ErrorCode::kShapeMismatch, call.op.name,
          "input {} must be {}, got {}", index, expected.str(), call.inputs[index].str());
}

ConvolutionShape input_gradient_shape(const OpCall& call) {
  require_computable(call);
  const ConvolutionShape s =
      convolution_shape(call, call.attributes.get<Dims>("input_shape"), call.inputs[1].shape);
  require_result(call, 0, s);
  return s;
}

ConvolutionShape weight_gradient_shape(const OpCall& call) {
  require_computable(call);
  const ConvolutionShape s =
      convolution_shape(call, call.inputs[0].shape, call.attributes.get<Dims>("kernel_shape"));
  require_result(call, 1, s);
  return s;
}

std::vector<TensorSpec> infer_convolution(const OpCall& call) {
  const ConvolutionShape s = forward_shape(call);
  if (call.inputs.size() == 3) {
    require(call.inputs[2].shape == Shape{s.outputs}, ErrorCode::kShapeMismatch, call.op.name,
            "the bias must be ({}), got {}", s.outputs, call.inputs[2].str());
  }
  return {{call.inputs[0].dtype, s.output_shape(s.batch, s.outputs)}};
}

std::vector<TensorSpec> infer_input_gradient(const OpCall& call) {
  input_gradient_shape(call);
  return {{call.inputs[0].dtype, Shape(call.attributes.get<Dims>("input_shape"))}};
}

std::vector<TensorSpec> infer_weight_gradient(const OpCall& call) {
  const ConvolutionShape s = weight_gradient_shape(call);
  std::vector<TensorSpec> outputs{{call.inputs[0].dtype, Shape(call.attributes.get<Dims>("kernel_shape"))}};
  if (call.attributes.get<bool>("bias")) outputs.push_back({call.inputs[0].dtype, {s.outputs}});
  return outputs;
}

// --- gradients; the window's attributes go from op to op ---

Attributes row_window(const Attributes& attributes) {
  return {{"stride", attributes.get<Dims>("stride")},
          {"padding", attributes.get<Dims>("padding")},
          {"dilation", attributes.get<Dims>("dilation")},
          {"groups", attributes.get<int64_t>("groups")}};
}

Tensor forward(const Tensor& x, const Tensor& kernel, Attributes window) {
  static const graph::OpDef& op = row("convolution");
  return graph::apply_one(op, {x, kernel}, std::move(window));
}

Tensor input_gradient(const Tensor& g, const Tensor& kernel, const Shape& input, Attributes window) {
  static const graph::OpDef& op = row("convolution_input_gradient");
  window.set("input_shape", static_cast<Dims>(input));
  return graph::apply_one(op, {g, kernel}, std::move(window));
}

/// The gradient of the kernel, and if `bias` of the bias.
std::vector<Tensor> weight_gradient(const Tensor& x, const Tensor& g, const Shape& kernel, bool bias,
                                    Attributes window) {
  static const graph::OpDef& op = row("convolution_weight_gradient");
  window.set("kernel_shape", static_cast<Dims>(kernel));
  window.set("bias", bias);
  const Tensor inputs[] = {x, g};
  return graph::apply(op, inputs, std::move(window));
}

std::vector<Tensor> convolution_gradient(const GradientCall& call) {
  const Tensor& g = call.output_gradients[0];
  const Tensor& x = call.inputs[0];
  const Tensor& kernel = call.inputs[1];
  const Attributes window = row_window(call.attributes);
  std::vector<Tensor> result(call.inputs.size());
  const bool bias = call.inputs.size() == 3 && call.needed[2];
  if (call.needed[1]) {
    const std::vector<Tensor> weights = weight_gradient(x, g, kernel.shape(), bias, window);
    result[1] = weights[0];
    if (bias) result[2] = weights[1];
  } else if (bias) {
    result[2] = sum_to(g, call.inputs[2].shape());
  }
  if (call.needed[0]) result[0] = input_gradient(g, kernel, x.shape(), window);
  return result;
}

/// The gradient of dx = input_gradient(g, kernel); u is the incoming gradient of dx.
std::vector<Tensor> input_gradient_gradient(const GradientCall& call) {
  const Tensor& u = call.output_gradients[0];
  const Tensor& g = call.inputs[0];
  const Tensor& kernel = call.inputs[1];
  const Attributes window = row_window(call.attributes);
  std::vector<Tensor> result(2);
  if (call.needed[0]) result[0] = forward(u, kernel, window);
  if (call.needed[1]) result[1] = weight_gradient(u, g, kernel.shape(), false, window)[0];
  return result;
}

/// The gradient of (dkernel, dbias) = weight_gradient(x, g); u and v are the incoming gradients.
std::vector<Tensor> weight_gradient_gradient(const GradientCall& call) {
  const Tensor& u = call.output_gradients[0];
  const Tensor v = call.output_gradients.size() > 1 ? call.output_gradients[1] : Tensor();
  const Tensor& x = call.inputs[0];
  const Tensor& g = call.inputs[1];
  const Attributes window = row_window(call.attributes);
  std::vector<Tensor> result(2);
  if (call.needed[0] && u.defined()) result[0] = input_gradient(g, u, x.shape(), window);
  if (call.needed[1]) {
    if (u.defined()) result[1] = forward(x, u, window);
    if (v.defined()) {
      result[1] = result[1].defined() ? result[1] + v : broadcast_to(v, g.shape());
    }
  }
  return result;
}

// --- references: one walk over all products ---

/// Calls visit(x index, kernel index, y index) for every product.
template <typename Visit>
void each_product(const ConvolutionShape& s, Visit visit) {
  const int64_t pixels = s.output_pixels();
  const int64_t depth = s.group_channels();
  for (int64_t y = 0; y < s.batch * pixels * s.outputs; ++y) {
    const int64_t o = y % s.outputs;
    const int64_t p = y / s.outputs % pixels;
    const int64_t n = y / s.outputs / pixels;
    for (int64_t k = 0; k < s.window_elems() * depth; ++k) {
      const int64_t e = k / depth;
      const int64_t iw = s.width.source(p % s.width.output, e % s.width.window);
      const int64_t ih =
          s.height.source(p / s.width.output % s.height.output, e / s.width.window % s.height.window);
      const int64_t id =
          s.depth.source(p / s.width.output / s.height.output, e / s.width.window / s.height.window);
      if (id < 0 || ih < 0 || iw < 0) continue;
      const int64_t pixel = ((n * s.depth.input + id) * s.height.input + ih) * s.width.input + iw;
      const int64_t x = pixel * s.channels + o / s.group_outputs() * depth + k % depth;
      visit(static_cast<size_t>(x), static_cast<size_t>(k * s.outputs + o), static_cast<size_t>(y));
    }
  }
}

using Doubles = std::vector<std::vector<double>>;

Doubles convolution_reference(const OpCall& call, std::span<const TensorSpec> outputs, const Doubles& in) {
  Doubles out = zeros_of(outputs);
  each_product(forward_shape(call), [&](size_t x, size_t k, size_t y) { out[0][y] += in[0][x] * in[1][k]; });
  if (in.size() == 3) {
    for (size_t y = 0; y < out[0].size(); ++y) out[0][y] += in[2][y % in[2].size()];
  }
  return out;
}

Doubles input_gradient_reference(const OpCall& call, std::span<const TensorSpec> outputs, const Doubles& in) {
  Doubles out = zeros_of(outputs);
  each_product(input_gradient_shape(call),
               [&](size_t x, size_t k, size_t y) { out[0][x] += in[0][y] * in[1][k]; });
  return out;
}

Doubles weight_gradient_reference(const OpCall& call, std::span<const TensorSpec> outputs,
                                  const Doubles& in) {
  Doubles out = zeros_of(outputs);
  each_product(weight_gradient_shape(call),
               [&](size_t x, size_t k, size_t y) { out[0][k] += in[0][x] * in[1][y]; });
  if (out.size() == 2) {
    for (size_t y = 0; y < in[1].size(); ++y) out[1][y % out[1].size()] += in[1][y];
  }
  return out;
}

// --- samples: one list of convolutions serves all three rows ---

struct ConvolutionSample {
  Dims x, kernel, y;
  Dims stride, padding, dilation;
  int64_t groups;
  Attributes window() const {
    return {{"stride", stride}, {"padding", padding}, {"dilation", dilation}, {"groups", groups}};
  }
};

const std::vector<ConvolutionSample>& convolution_samples() {
  static const std::vector<ConvolutionSample> samples = {
      {{2, 5, 6, 3}, {3, 3, 3, 4}, {2, 3, 4, 4}, {1, 1}, {0, 0, 0, 0}, {1, 1}, 1},
      {{2, 5, 4, 2}, {3, 2, 2, 5}, {2, 3, 4, 5}, {2, 1}, {1, 1, 0, 1}, {1, 1}, 1},
      {{1, 7, 7, 2}, {3, 3, 2, 3}, {1, 3, 3, 3}, {2, 2}, {1, 1, 1, 1}, {2, 2}, 1},
      {{2, 4, 4, 4}, {3, 3, 2, 6}, {2, 4, 4, 6}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 2},
      {{1, 5, 5, 3}, {3, 3, 1, 6}, {1, 2, 2, 6}, {2, 2}, {0, 0, 0, 0}, {1, 1}, 3},
      {{2, 3, 2, 5}, {1, 1, 5, 3}, {2, 3, 2, 3}, {1, 1}, {0, 0, 0, 0}, {1, 1}, 1},
      {{0, 4, 4, 2}, {3, 3, 2, 2}, {0, 2, 2, 2}, {1, 1}, {0, 0, 0, 0}, {1, 1}, 1},
      {{1, 5, 4, 18}, {3, 2, 1, 18}, {1, 3, 4, 18}, {2, 1}, {1, 1, 0, 1}, {1, 1}, 18},
      {{2, 9, 3}, {3, 3, 4}, {2, 4, 4}, {2}, {2, 0}, {2}, 1},
      {{2, 6, 4}, {2, 1, 8}, {2, 7, 8}, {1}, {1, 1}, {1}, 4},
      {{1, 3, 4, 5, 2}, {2, 3, 2, 2, 3}, {1, 2, 4, 2, 3}, {1, 1, 2}, {0, 0, 1, 1, 0, 0}, {1, 1, 1}, 1},
      {{1, 4, 3, 4, 4}, {3, 1, 3, 2, 2}, {1, 2, 3, 2, 2}, {2, 1, 1}, {1, 1, 0, 0, 1, 1}, {1, 1, 2}, 2}};
  return samples;
}

Attributes with(Attributes attributes, std::string_view name, graph::AttributeValue value) {
  attributes.set(name, std::move(value));
  return attributes;
}

InputSample input(const Dims& shape) { return {Shape(shape)}; }

OpDef convolution_row(const char* name, const char* summary) {
  OpDef op;
  op.name = name;
  op.summary = summary;
  op.min_inputs = op.max_inputs = 2;
  op.dtypes = {DType::kF64, DType::kF32};
  op.tolerance = 30;  // sums of up to 300 products
  op.precision.rule = graph::PrecisionRule::kLow;
  return op;
}

void register_forward(graph::Registry& registry) {
  OpDef op = convolution_row(
      "convolution",
      "correlation of images (N, spatial..., C) with a kernel (spatial..., C / groups, O), and a bias");
  op.max_inputs = 3;
  op.infer = infer_convolution;
  op.gradient = convolution_gradient;
  op.precision.full_inputs = [](const Attributes&) { return 0b100U; };  // the bias, added to sums
  op.flops = [](const OpCall& call) { return 2 * forward_shape(call).products(); };
  op.reference = convolution_reference;
  for (const ConvolutionSample& s : convolution_samples()) {
    op.samples.push_back({{input(s.x), input(s.kernel)}, s.window()});
    op.samples.push_back({{input(s.x), input(s.kernel), input({s.kernel.back()})}, s.window()});
  }
  const Attributes window = convolution_samples()[0].window();
  const auto f32 = [](const Shape& shape) { return TensorSpec{DType::kF32, shape}; };
  op.errors = {
      {{f32({2, 5, 5, 3}), f32({3, 3, 2, 4})}, window, ErrorCode::kShapeMismatch},
      {{f32({2, 5, 3}), f32({3, 3, 3, 4})}, window, ErrorCode::kShapeMismatch},
      {{f32({2, 2, 5, 3}), f32({3, 3, 3, 4})}, window, ErrorCode::kShapeMismatch},
      {{f32({2, 3}), f32({3, 4})}, window, ErrorCode::kShapeMismatch},
      {{f32({2, 5, 3}), f32({3, 3, 4})}, window, ErrorCode::kInvalidArgument},
      {{f32({2, 5, 5, 3}), f32({3, 3, 3, 4}), f32({3})}, window, ErrorCode::kShapeMismatch},
      {{f32({2, 5, 5, 3}), {DType::kF64, {3, 3, 3, 4}}}, window, ErrorCode::kDtypeMismatch},
      {{{DType::kI32, {2, 5, 5, 3}}, {DType::kI32, {3, 3, 3, 4}}}, window, ErrorCode::kDtypeMismatch},
      {{f32({2, 5, 5, 3}), f32({3, 3, 3, 4})},
       with(window, "stride", Dims{0, 1}),
       ErrorCode::kInvalidArgument},
      {{f32({2, 5, 5, 3}), f32({3, 3, 3, 4})},
       with(window, "padding", Dims{0, -1, 0, 0}),
       ErrorCode::kInvalidArgument},
      {{f32({2, 5, 5, 3}), f32({3, 3, 1, 4})},
       with(window, "groups", int64_t{3}),
       ErrorCode::kInvalidArgument}};
  registry.add(std::move(op));
}

void register_input_gradient(graph::Registry& registry) {
  OpDef op =
      convolution_row("convolution_input_gradient", "gradient of convolution with respect to the images");
  op.infer = infer_input_gradient;
  op.gradient = input_gradient_gradient;
  op.flops = [](const OpCall& call) { return 2 * input_gradient_shape(call).products(); };
  op.reference = input_gradient_reference;
  for (const ConvolutionSample& s : convolution_samples()) {
    op.samples.push_back({{input(s.y), input(s.kernel)}, with(s.window(), "input_shape", s.x)});
  }
  op.errors = {{{{DType::kF32, {2, 3, 3, 4}}, {DType::kF32, {3, 3, 3, 4}}},
                with(convolution_samples()[0].window(), "input_shape", Dims{2, 6, 5, 3}),
                ErrorCode::kShapeMismatch}};
  registry.add(std::move(op));
}

void register_weight_gradient(graph::Registry& registry) {
  OpDef op = convolution_row("convolution_weight_gradient",
                             "gradient of convolution with respect to kernel and bias");
  op.infer = infer_weight_gradient;
  op.gradient = weight_gradient_gradient;
  op.precision.full_outputs = 0b10;  // the gradient of the bias
  op.flops = [](const OpCall& call) { return 2 * weight_gradient_shape(call).products(); };
  op.reference = weight_gradient_reference;
  for (const ConvolutionSample& s : convolution_samples()) {
    for (const bool bias : {false, true}) {
      const Attributes attributes = with(with(s.window(), "kernel_shape", s.kernel), "bias", bias);
      op.samples.push_back({{input(s.x), input(s.y)}, attributes});
    }
  }
  op.errors = {{{{DType::kF32, {2, 5, 6, 3}}, {DType::kF32, {2, 3, 3, 4}}},
                with(with(convolution_samples()[0].window(), "kernel_shape", Dims{3, 3, 3, 4}), "bias", true),
                ErrorCode::kShapeMismatch}};
  registry.add(std::move(op));
}

}  // namespace

ConvolutionShape convolution_shape(ConvolutionPass pass, const OpCall& call) {
  switch (pass) {
    case ConvolutionPass::kForward:
      return forward_shape(call);
    case ConvolutionPass::kInputGradient:
      return input_gradient_shape(call);
    case ConvolutionPass::kWeightGradient:
      break;
  }
  return weight_gradient_shape(call);
}

void register_convolution(graph::Registry& registry) {
  register_forward(registry);
  register_input_gradient(registry);
  register_weight_gradient(registry);
}

}  // namespace ops
}  // namespace isochron
