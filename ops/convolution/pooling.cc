// Registry rows, gradients and public functions of pooling. Max pooling saves the positions of the maxima.
// Its gradient scatters to these positions, and the second gradient selects from them.
#include "isochron/ops/convolution/pooling.h"

#include <cmath>

#include "isochron/graph/capture/apply.h"
#include "isochron/graph/capture/capture.h"
#include "isochron/ops/convolution/pooling_shape.h"
#include "isochron/ops/indexing/indexing.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/rows/families.h"
#include "isochron/ops/rows/registry.h"
#include "isochron/ops/rows/rules.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/interpolation.h"

namespace isochron {
namespace ops {
namespace {

using graph::Attributes;
using Doubles = std::vector<std::vector<double>>;

PoolingShape pooling_shape(const OpCall& call, const Dims& x) {
  constexpr double kMaxWindowElems = 1 << 24;  // positions are stored exactly in the tensor's dtype
  const std::string& where = call.op.name;
  const DType dtype = call.inputs[0].dtype;
  require(dtype == DType::kF32 || dtype == DType::kF64, ErrorCode::kDtypeMismatch, where,
          "takes f32 or f64, got {}; cast it", call.inputs[0].str());
  const Dims& window = call.attributes.get<Dims>("window");
  PoolingShape s;
  static_cast<SlidingWindow&>(s) =
      sliding_window(where, x, window, call.attributes.get<Dims>("stride"), ones_if_empty({}, x.rank() - 2),
                     call.attributes.get<Dims>("padding"));
  s.batch = x[0];
  s.channels = x.back();
  s.count_padding = call.attributes.get_or("count_padding", false);
  double elems = 1;
  for (const WindowAxis& axis : {s.depth, s.height, s.width}) {
    require(axis.input >= 1, ErrorCode::kShapeMismatch, where, "the image {} has an empty spatial axis",
            call.inputs[0].str());
    require(axis.before < axis.window && axis.after < axis.window, ErrorCode::kInvalidArgument, where,
            "padding {} and {} must be smaller than the window {}, so that each window meets the image",
            axis.before, axis.after, axis.window);
    elems *= static_cast<double>(axis.window);
  }
  require(elems <= kMaxWindowElems, ErrorCode::kUnsupported, where,
          "a window of {} elements; at most {} are supported (reduce over the axes instead)", elems,
          kMaxWindowElems);
  return s;
}

PoolingShape pooled_shape(const OpCall& call) { return pooling_shape(call, call.inputs[0].shape); }

Shape output_shape(const PoolingShape& s) { return s.output_shape(s.batch, s.channels); }

/// The shape for a gradient op: its inputs have the output's shape, and the image's shape is an attribute.
PoolingShape gradient_shape(const OpCall& call) {
  const PoolingShape s = pooling_shape(call, call.attributes.get<Dims>("input_shape"));
  require(call.inputs[0].shape == output_shape(s), ErrorCode::kShapeMismatch, call.op.name,
          "input 0 must be {}, got {}", output_shape(s).str(), call.inputs[0].str());
  return s;
}

/// The narrowest dtype for the positions, because they are kept for the backward pass.
DType positions_dtype(const PoolingShape& s) {
  constexpr int64_t kBytePositions = 256;
  return s.window_elems() <= kBytePositions ? DType::kU8 : DType::kI32;
}

void require_positions(const OpCall& call, const PoolingShape& s) {
  require_dtype(call, 1, positions_dtype(s));
  require(call.inputs[1].shape == output_shape(s), ErrorCode::kShapeMismatch, call.op.name,
          "input 1 must be {}, got {}", output_shape(s).str(), call.inputs[1].str());
}

std::vector<TensorSpec> infer_max(const OpCall& call) {
  const PoolingShape s = pooled_shape(call);
  return {{call.inputs[0].dtype, output_shape(s)}, {positions_dtype(s), output_shape(s)}};
}

std::vector<TensorSpec> infer_average(const OpCall& call) {
  return {{call.inputs[0].dtype, output_shape(pooled_shape(call))}};
}

std::vector<TensorSpec> infer_select(const OpCall& call) {
  const PoolingShape s = pooled_shape(call);
  require_positions(call, s);
  return {{call.inputs[0].dtype, output_shape(s)}};
}

std::vector<TensorSpec> infer_max_gradient(const OpCall& call) {
  require_positions(call, gradient_shape(call));
  return {{call.inputs[0].dtype, Shape(call.attributes.get<Dims>("input_shape"))}};
}

std::vector<TensorSpec> infer_average_gradient(const OpCall& call) {
  gradient_shape(call);
  return {{call.inputs[0].dtype, Shape(call.attributes.get<Dims>("input_shape"))}};
}

// --- gradients ---

Attributes pooling_window(const GradientCall& call) {
  Attributes window{{"window", call.attributes.get<Dims>("window")},
                    {"stride", call.attributes.get<Dims>("stride")},
                    {"padding", call.attributes.get<Dims>("padding")}};
  if (call.attributes.has("count_padding")) {
    window.set("count_padding", call.attributes.get<bool>("count_padding"));
  }
  return window;
}

Attributes with_input_shape(Attributes attributes, const Dims& shape) {
  attributes.set("input_shape", shape);
  return attributes;
}

std::vector<Tensor> max_gradient(const GradientCall& call) {
  return {graph::apply_one(row("max_pool_gradient"), {call.output_gradients[0], call.outputs[1]},
                           with_input_shape(pooling_window(call), call.inputs[0].shape()))};
}

std::vector<Tensor> max_gradient_gradient(const GradientCall& call) {
  return {graph::apply_one(row("max_pool_select"), {call.output_gradients[0], call.inputs[1]},
                           pooling_window(call)),
          Tensor()};
}

std::vector<Tensor> select_gradient(const GradientCall& call) {
  return {graph::apply_one(row("max_pool_gradient"), {call.output_gradients[0], call.inputs[1]},
                           with_input_shape(pooling_window(call), call.inputs[0].shape())),
          Tensor()};
}

std::vector<Tensor> average_gradient(const GradientCall& call) {
  return {graph::apply_one(row("average_pool_gradient"), {call.output_gradients[0]},
                           with_input_shape(pooling_window(call), call.inputs[0].shape()))};
}

std::vector<Tensor> average_gradient_gradient(const GradientCall& call) {
  return {graph::apply_one(row("average_pool"), {call.output_gradients[0]}, pooling_window(call))};
}

// --- references ---

/// Calls visit(y index, x index, window position) for every element under every window, in order.
template <typename Visit>
void each_element(const PoolingShape& s, Visit visit) {
  const int64_t outputs = s.batch * s.output_pixels() * s.channels;
  for (int64_t y = 0; y < outputs; ++y) {
    const int64_t p = y / s.channels % s.output_pixels();
    const int64_t n = y / s.channels / s.output_pixels();
    for (int64_t k = 0; k < s.window_elems(); ++k) {
      const int64_t iw = s.width.source(p % s.width.output, k % s.width.window);
      const int64_t ih =
          s.height.source(p / s.width.output % s.height.output, k / s.width.window % s.height.window);
      const int64_t id =
          s.depth.source(p / s.width.output / s.height.output, k / s.width.window / s.height.window);
      if (id < 0 || ih < 0 || iw < 0) continue;
      const int64_t pixel = ((n * s.depth.input + id) * s.height.input + ih) * s.width.input + iw;
      visit(static_cast<size_t>(y), static_cast<size_t>(pixel * s.channels + y % s.channels), k);
    }
  }
}

std::vector<double> window_counts(const PoolingShape& s, size_t outputs) {
  if (s.count_padding) return std::vector<double>(outputs, static_cast<double>(s.window_elems()));
  std::vector<double> counts(outputs);
  each_element(s, [&](size_t y, size_t, int64_t) { counts[y] += 1; });
  return counts;
}

Doubles max_reference(const OpCall& call, std::span<const TensorSpec> outputs, const Doubles& in) {
  Doubles out = zeros_of(outputs);
  std::vector<bool> seen(out[0].size());
  each_element(pooled_shape(call), [&](size_t y, size_t x, int64_t k) {
    if (seen[y] && !(in[0][x] > out[0][y])) return;
    seen[y] = true;
    out[0][y] = in[0][x];
    out[1][y] = static_cast<double>(k);
  });
  return out;
}

Doubles max_gradient_reference(const OpCall& call, std::span<const TensorSpec> outputs, const Doubles& in) {
  Doubles out = zeros_of(outputs);
  each_element(gradient_shape(call), [&](size_t y, size_t x, int64_t k) {
    if (in[1][y] == static_cast<double>(k)) out[0][x] += in[0][y];
  });
  return out;
}

Doubles select_reference(const OpCall& call, std::span<const TensorSpec> outputs, const Doubles& in) {
  Doubles out = zeros_of(outputs);
  each_element(pooled_shape(call), [&](size_t y, size_t x, int64_t k) {
    if (in[1][y] == static_cast<double>(k)) out[0][y] += in[0][x];
  });
  return out;
}

Doubles average_reference(const OpCall& call, std::span<const TensorSpec> outputs, const Doubles& in) {
  Doubles out = zeros_of(outputs);
  const PoolingShape s = pooled_shape(call);
  const std::vector<double> counts = window_counts(s, out[0].size());
  each_element(s, [&](size_t y, size_t x, int64_t) { out[0][y] += in[0][x] / counts[y]; });
  return out;
}

Doubles average_gradient_reference(const OpCall& call, std::span<const TensorSpec> outputs,
                                   const Doubles& in) {
  Doubles out = zeros_of(outputs);
  const PoolingShape s = gradient_shape(call);
  const std::vector<double> counts = window_counts(s, in[0].size());
  each_element(s, [&](size_t y, size_t x, int64_t) { out[0][x] += in[0][y] / counts[y]; });
  return out;
}

// --- rows ---

struct PoolingSample {
  Dims x, y, window, stride, padding;
  Attributes attributes() const { return {{"window", window}, {"stride", stride}, {"padding", padding}}; }
};

const std::vector<PoolingSample>& pooling_samples() {
  static const std::vector<PoolingSample> samples = {
      {{2, 6, 8, 3}, {2, 3, 4, 3}, {2, 2}, {2, 2}, {0, 0, 0, 0}},
      {{2, 7, 5, 18}, {2, 3, 2, 18}, {2, 2}, {2, 2}, {0, 0, 0, 0}},
      {{1, 5, 6, 2}, {1, 5, 6, 2}, {3, 3}, {1, 1}, {1, 1, 1, 1}},
      {{2, 7, 6, 2}, {2, 4, 2, 2}, {3, 2}, {2, 3}, {1, 1, 0, 0}},
      {{0, 4, 4, 2}, {0, 2, 2, 2}, {2, 2}, {2, 2}, {0, 0, 0, 0}},
      {{2, 7, 3}, {2, 4, 3}, {3}, {2}, {1, 1}},
      {{1, 4, 3, 5, 2}, {1, 2, 2, 3, 2}, {2, 2, 3}, {2, 1, 2}, {0, 0, 0, 0, 1, 1}},
      {{2, 3, 4, 2, 3}, {2, 3, 2, 2, 3}, {3, 2, 1}, {1, 2, 1}, {1, 1, 0, 0, 0, 0}}};
  return samples;
}

OpDef pooling_row(const char* name, const char* summary) {
  OpDef op;
  op.name = name;
  op.summary = summary;
  op.dtypes = {DType::kF64, DType::kF32};
  op.precision.rule = graph::PrecisionRule::kFollow;
  return op;
}

/// Error samples of the ops that take an image.
std::vector<ErrorSample> window_errors() {
  const auto call = [](const Dims& window, const Dims& stride, const Dims& padding, ErrorCode code) {
    return ErrorSample{
        {{DType::kF32, {2, 4, 4, 3}}}, {{"window", window}, {"stride", stride}, {"padding", padding}}, code};
  };
  std::vector<ErrorSample> errors = {call({5, 2}, {1, 1}, {0, 0, 0, 0}, ErrorCode::kShapeMismatch),
                                     call({2, 2}, {0, 1}, {0, 0, 0, 0}, ErrorCode::kInvalidArgument),
                                     call({2, 2}, {1, 1}, {2, 0, 0, 0}, ErrorCode::kInvalidArgument),
                                     call({2}, {1, 1}, {0, 0, 0, 0}, ErrorCode::kInvalidArgument)};
  errors.push_back(errors[1]);
  errors.back().attributes = pooling_samples()[0].attributes();
  errors.back().inputs[0].shape = {4, 3};
  errors.back().code = ErrorCode::kShapeMismatch;
  errors.push_back(errors.back());
  errors.back().inputs = {{DType::kI32, {2, 4, 4, 3}}};
  errors.back().code = ErrorCode::kDtypeMismatch;
  return errors;
}

InputSample positions_sample(const PoolingSample& s) {
  return {Shape(s.y), 0, static_cast<double>(Shape(s.window).elems() - 1), DType::kU8};
}

void register_max(graph::Registry& registry) {
  OpDef op = pooling_row("max_pool", "largest element of each window, and its position in the window");
  op.infer = infer_max;
  op.gradient = max_gradient;
  op.skippable_outputs = OpDef::kAllOutputs;
  op.reference = max_reference;
  for (const PoolingSample& s : pooling_samples()) op.samples.push_back({{{Shape(s.x)}}, s.attributes()});
  op.errors = window_errors();
  registry.add(std::move(op));

  OpDef gradient = pooling_row("max_pool_gradient", "gradient of max_pool: scatters to the given positions");
  gradient.min_inputs = gradient.max_inputs = 2;
  gradient.infer = infer_max_gradient;
  gradient.gradient = max_gradient_gradient;
  gradient.reference = max_gradient_reference;
  OpDef select = pooling_row("max_pool_select", "the element at a given position of each window");
  select.min_inputs = select.max_inputs = 2;
  select.infer = infer_select;
  select.gradient = select_gradient;
  select.reference = select_reference;
  for (const PoolingSample& s : pooling_samples()) {
    gradient.samples.push_back({{{Shape(s.y)}, positions_sample(s)}, with_input_shape(s.attributes(), s.x)});
    select.samples.push_back({{{Shape(s.x)}, positions_sample(s)}, s.attributes()});
  }
  const Attributes window = pooling_samples()[0].attributes();
  gradient.errors = {{{{DType::kF32, {2, 3, 4, 3}}, {DType::kF32, {2, 3, 4, 3}}},
                      with_input_shape(window, {2, 6, 8, 3}),
                      ErrorCode::kDtypeMismatch},
                     {{{DType::kF32, {2, 3, 3, 3}}, {DType::kU8, {2, 3, 4, 3}}},
                      with_input_shape(window, {2, 6, 8, 3}),
                      ErrorCode::kShapeMismatch}};
  select.errors = {
      {{{DType::kF32, {2, 6, 8, 3}}, {DType::kU8, {2, 3, 3, 3}}}, window, ErrorCode::kShapeMismatch}};
  registry.add(std::move(gradient));
  registry.add(std::move(select));
}

void register_average(graph::Registry& registry) {
  OpDef op =
      pooling_row("average_pool", "mean of each window's elements, those in the padding left out or zero");
  op.infer = infer_average;
  op.gradient = average_gradient;
  op.reference = average_reference;
  op.errors = window_errors();
  OpDef gradient = pooling_row("average_pool_gradient", "gradient of average_pool");
  gradient.infer = infer_average_gradient;
  gradient.gradient = average_gradient_gradient;
  gradient.reference = average_gradient_reference;
  for (const PoolingSample& s : pooling_samples()) {
    for (const bool count_padding : {false, true}) {
      Attributes attributes = s.attributes();
      attributes.set("count_padding", count_padding);
      op.samples.push_back({{{Shape(s.x)}}, attributes});
      gradient.samples.push_back({{{Shape(s.y)}}, with_input_shape(attributes, s.x)});
    }
  }
  gradient.errors = {{{{DType::kF32, {2, 3, 3, 3}}},
                      with_input_shape(pooling_samples()[0].attributes(), {2, 6, 8, 3}),
                      ErrorCode::kShapeMismatch}};
  registry.add(std::move(op));
  registry.add(std::move(gradient));
}

}  // namespace

PoolingShape pooling_shape(Pooling pooling, const OpCall& call) {
  const bool gradient = pooling == Pooling::kMaxGradient || pooling == Pooling::kAverageGradient;
  return gradient ? gradient_shape(call) : pooled_shape(call);
}

void register_pooling(graph::Registry& registry) {
  register_max(registry);
  register_average(registry);
}

}  // namespace ops

namespace {

Tensor pool(std::string_view row, std::string_view where, int axes, const Tensor& x, const Dims& window,
            const PoolingOptions& options) {
  const graph::OpDef& op = ops::row(row);
  require(x.defined(), ErrorCode::kInvalidArgument, where, "the input is undefined");
  ops::require_image(where, x.shape(), axes);
  const Dims stride = options.stride.empty() ? window : options.stride;
  const Dims ones = ops::ones_if_empty({}, x.rank() - 2);
  graph::Attributes attributes{
      {"window", window},
      {"stride", stride},
      {"padding", options.padding.resolve(ops::spatial_extents(x.shape()), window, stride, ones)}};
  if (row == "average_pool") attributes.set("count_padding", options.count_padding);
  return graph::apply_one(op, {x}, std::move(attributes));
}

Axes spatial_axes(std::string_view where, const Tensor& x) {
  require(x.defined() && x.rank() >= 3, ErrorCode::kShapeMismatch, where,
          "images are (N, spatial..., C), got {}", x.defined() ? x.spec().str() : "nothing");
  Axes axes;
  for (int axis = 1; axis + 1 < x.rank(); ++axis) axes.push_back(axis);
  return axes;
}

}  // namespace

Tensor max_pool(const Tensor& x, const Dims& window, const PoolingOptions& options) {
  return pool("max_pool", "max_pool", 0, x, window, options);
}
Tensor max_pool1d(const Tensor& x, const Dims& window, const PoolingOptions& options) {
  return pool("max_pool", "max_pool1d", 1, x, window, options);
}
Tensor max_pool2d(const Tensor& x, const Dims& window, const PoolingOptions& options) {
  return pool("max_pool", "max_pool2d", 2, x, window, options);
}
Tensor max_pool3d(const Tensor& x, const Dims& window, const PoolingOptions& options) {
  return pool("max_pool", "max_pool3d", 3, x, window, options);
}
Tensor average_pool(const Tensor& x, const Dims& window, const PoolingOptions& options) {
  return pool("average_pool", "average_pool", 0, x, window, options);
}
Tensor average_pool1d(const Tensor& x, const Dims& window, const PoolingOptions& options) {
  return pool("average_pool", "average_pool1d", 1, x, window, options);
}
Tensor average_pool2d(const Tensor& x, const Dims& window, const PoolingOptions& options) {
  return pool("average_pool", "average_pool2d", 2, x, window, options);
}
Tensor average_pool3d(const Tensor& x, const Dims& window, const PoolingOptions& options) {
  return pool("average_pool", "average_pool3d", 3, x, window, options);
}

namespace {

/// Checks `size` and replaces -1 by the extent of x.
Dims adaptive_size(std::string_view where, const Tensor& x, const Dims& size) {
  const int axes = spatial_axes(where, x).rank();
  require(size.rank() == axes, ErrorCode::kShapeMismatch, where,
          "size {} must have one extent for each of the {} spatial axes of {}", dims_str(size), axes,
          x.spec().str());
  Dims result = size;
  for (int i = 0; i < axes; ++i) {
    const int64_t extent = x.extent(i + 1);
    if (size[i] == -1) result[i] = extent;
    require(extent > 0, ErrorCode::kInvalidArgument, where, "axis {} of {} is empty", i + 1, x.spec().str());
    require(result[i] > 0, ErrorCode::kInvalidArgument, where,
            "the size of axis {} is {}; expected at least 1, or -1 to keep its {} elements", i + 1, size[i],
            extent);
    require(std::max(extent, result[i]) <= kMaxWindowReach, ErrorCode::kUnsupported, where,
            "axis {} of {} to {} elements; at most {} are supported", i + 1, x.spec().str(), size[i],
            kMaxWindowReach);
  }
  return result;
}

/// Copies the windows of an axis side by side. Each is filled up to `window` elements by repeating its last
/// element, which changes neither the maximum nor its first position.
Tensor windows_apart(const Tensor& x, int axis, int64_t size, int64_t window) {
  const int64_t extent = x.extent(axis);
  std::vector<int64_t> sources;
  for (int64_t i = 0; i < size; ++i) {
    const int64_t begin = i * extent / size, last = ((i + 1) * extent - 1) / size;
    for (int64_t k = 0; k < window; ++k) sources.push_back(std::min(begin + k, last));
  }
  Tensor indices = constant(from_span<int64_t>({size * window}, sources));
  if (graph::Capture::current() == nullptr) indices = to_device(indices, x.device());
  return gather(x, indices, axis);
}

}  // namespace

Tensor adaptive_average_pool(const Tensor& x, const Dims& size) {
  const ErrorScope scope("adaptive_average_pool");
  return resize(x, adaptive_size("adaptive_average_pool", x, size), {.interpolation = Interpolation::kArea});
}

Tensor adaptive_max_pool(const Tensor& x, const Dims& size) {
  const ErrorScope scope("adaptive_max_pool");
  const Dims outputs = adaptive_size("adaptive_max_pool", x, size);
  ops::require_image("adaptive_max_pool", x.shape(), outputs.rank());
  Tensor image = x;
  Dims window;
  for (int i = 0; i < outputs.rank(); ++i) {
    const int64_t extent = x.extent(i + 1);
    int64_t longest = extent / outputs[i];
    if (extent % outputs[i] != 0) {
      longest = 0;
      for (int64_t o = 0; o < outputs[i]; ++o) {
        const int64_t end = ((o + 1) * extent - 1) / outputs[i] + 1;
        longest = std::max(longest, end - o * extent / outputs[i]);
      }
      image = windows_apart(image, i + 1, outputs[i], longest);
    }
    window.push_back(longest);
  }
  return max_pool(image, window);
}

Tensor global_average_pool(const Tensor& x, bool keep_dims) {
  return mean(x, spatial_axes("global_average_pool", x), keep_dims);
}
Tensor global_max_pool(const Tensor& x, bool keep_dims) {
  return max(x, spatial_axes("global_max_pool", x), keep_dims);
}

}  // namespace isochron
