#include "isochron/nn/layers/layers.h"

#include "isochron/graph/passes/precision.h"
#include "isochron/ops/elementwise/activations.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/elementwise/float8.h"
#include "isochron/ops/matmul/matmul.h"
#include "isochron/ops/random/random.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"

namespace isochron::nn {
namespace {

void require_input(const Tensor& x, std::string_view layer, int min_rank) {
  require(is_floating(x.dtype()), ErrorCode::kDtypeMismatch, layer,
          "the input must be floating, got {}; cast it", x.spec().str());
  require(x.rank() >= min_rank, ErrorCode::kShapeMismatch, layer,
          "the input must have at least {} axes, got {}", min_rank, x.spec().str());
}

}  // namespace

Dense::Dense(int64_t units, Activation activation, DenseOptions options)
    : units_(units), activation_(activation), options_(std::move(options)) {
  require(units >= 1, ErrorCode::kInvalidArgument, "dense", "units must be >= 1, got {}", units);
}

void Dense::members(Members& list) {
  list("kernel", kernel_)("bias", bias_);
  list.buffer("input_history", input_history_)
      .buffer("kernel_history", kernel_history_)
      .buffer("gradient_history", gradient_history_);
}

Tensor Dense::product(const Tensor& x) {
  constexpr int64_t kMultiple = 16;
  const bool in_8_bits = graph::traced_precision() == Precision::kMixedFp8 && options_.float8 &&
                         x.dtype() == DType::kF32 && x.extent(-1) % kMultiple == 0 && units_ % kMultiple == 0;
  if (!in_8_bits) return matmul(x, kernel_);
  const auto with_newest = [](Variable& history, const char* name, const Tensor& newest) {
    if (!history.defined() && training()) history = Variable(zeros({kFloat8History}), name, false);
    Tensor now =
        float8_history(history.defined() ? history.tensor() : constant(zeros({kFloat8History})), newest);
    if (training()) history.assign(now);
    return now;
  };
  const Tensor of_x = with_newest(input_history_, "input_history", x);
  const Tensor of_kernel = with_newest(kernel_history_, "kernel_history", kernel_);
  if (!gradient_history_.defined() && training())
    gradient_history_ = Variable(zeros({kFloat8History}), "gradient_history", false);
  return matmul_float8(x, kernel_, of_x, of_kernel, {.history = gradient_history_, .grows = training()});
}

Tensor Dense::forward(const Tensor& x) {
  if (!kernel_.defined()) {
    require_input(x, kind(), 2);
    auto kernel = make_parameter("kernel", {x.dtype(), {x.extent(-1), units_}}, options_.kernel_initializer);
    if (options_.bias) bias_ = make_parameter("bias", {x.dtype(), {units_}}, options_.bias_initializer);
    kernel_ = std::move(kernel);  // last, so that a failed build is started again
  }
  require(x.rank() >= 1 && x.extent(-1) == kernel_.shape()[0], ErrorCode::kShapeMismatch, kind(),
          "was built for inputs of width {}, got {}", kernel_.shape()[0], x.spec().str());
  const Tensor y = product(x);
  return activate(bias_.defined() ? y + bias_ : y, activation_);
}

Tensor Flatten::forward(const Tensor& x) {
  require(x.rank() >= 1, ErrorCode::kShapeMismatch, kind(), "a scalar has no samples");
  int64_t elems = 1;
  for (int axis = 1; axis < x.rank(); ++axis) elems *= x.extent(axis);
  return reshape(x, {x.extent(0), elems});
}

Dropout::Dropout(double rate) : rate_(rate) {
  require(rate >= 0 && rate < 1, ErrorCode::kInvalidArgument, "dropout",
          "the rate must lie in [0, 1), got {}", rate);
}

Tensor Dropout::forward(const Tensor& x) { return training() ? dropout(x, rate_) : x; }

Tensor SpatialDropout::forward(const Tensor& x) {
  require_input(x, kind(), 1);
  if (!training()) return x;
  Dims shape = x.shape();
  for (int axis = 1; axis + 1 < x.rank(); ++axis) shape[axis] = 1;
  return x * channels_(ones(Shape(shape), x.dtype()));
}

Tensor PRelu::forward(const Tensor& x) {
  if (!slope_.defined()) {
    require_input(x, kind(), 1);
    slope_ = make_parameter("slope", {x.dtype(), {per_channel_ ? x.extent(-1) : 1}}, initializer_);
  }
  return prelu(x, slope_);
}

}  // namespace isochron::nn
