#include "isochron/nn/losses/loss_operands.h"

#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/shape_ops.h"

namespace isochron::nn {

void require_one_shape(const Tensor& prediction, const Tensor& target, std::string_view loss) {
  require(prediction.defined() && target.defined(), ErrorCode::kInvalidArgument, loss,
          "an operand is undefined");
  if (!(prediction.shape() == target.shape()) || prediction.rank() == 0) {
    fail(ErrorCode::kShapeMismatch, loss,
         "predictions are {}, targets {}; both must be (N, ...), reshape one", prediction.spec().str(),
         target.spec().str());
  }
}

void require_floating(const Tensor& prediction, const Tensor& target, std::string_view loss) {
  require(
      is_floating(prediction.dtype()), ErrorCode::kDtypeMismatch, loss,
      "predictions and targets must be floating, got {}; cast them, because whole numbers would be truncated",
      prediction.spec().str());
  require(prediction.dtype() == target.dtype(), ErrorCode::kDtypeMismatch, loss,
          "predictions are {}, targets {}; cast one", prediction.spec().str(), target.spec().str());
}

void require_numbers(const Tensor& prediction, const Tensor& target, std::string_view loss) {
  require_one_shape(prediction, target, loss);
  require_floating(prediction, target, loss);
}

void require_vectors(const Tensor& prediction, const Tensor& target, std::string_view loss) {
  require_numbers(prediction, target, loss);
  require(prediction.rank() >= 2, ErrorCode::kShapeMismatch, loss, "operands must be (N, ..., C), got {}",
          prediction.spec().str());
}

void require_labels(const Tensor& prediction, const Tensor& labels, std::string_view loss) {
  require(labels.defined() && is_integer(labels.dtype()), ErrorCode::kDtypeMismatch, loss,
          "labels must be integers, got {}", labels.defined() ? labels.spec().str() : "an undefined tensor");
  const Shape rows = reduced_shape(prediction.shape(), {prediction.rank() - 1}, false);
  require(labels.shape() == rows, ErrorCode::kShapeMismatch, loss,
          "predictions are {}, labels {}; one label for each row is needed, {}: classes are the last axis",
          prediction.spec().str(), labels.spec().str(), rows.str());
}

void require_class_weights(const Tensor& weights, const Tensor& prediction, std::string_view loss) {
  if (!weights.defined()) return;
  require(weights.shape() == Shape{prediction.extent(-1)}, ErrorCode::kShapeMismatch, loss,
          "class weights are {}, the predictions {}", weights.spec().str(), prediction.spec().str());
  require(weights.dtype() == prediction.dtype(), ErrorCode::kDtypeMismatch, loss,
          "class weights are {}, the predictions {}; cast one", weights.spec().str(),
          prediction.spec().str());
}

Tensor require_broadcast(const Tensor& factor, const Tensor& prediction, std::string_view name,
                         std::string_view loss) {
  require(broadcast_shapes(factor.shape(), prediction.shape(), loss) == prediction.shape(),
          ErrorCode::kShapeMismatch, loss, "the {} {} must broadcast to the predictions {}", name,
          factor.spec().str(), prediction.spec().str());
  return factor;
}

Tensor smoothed(const Tensor& targets, double smoothing, int64_t classes, std::string_view loss) {
  require(smoothing >= 0 && smoothing <= 1, ErrorCode::kInvalidArgument, loss,
          "the label smoothing must lie in [0, 1], got {}", smoothing);
  return smoothing > 0 ? targets * (1 - smoothing) + smoothing / static_cast<double>(classes) : targets;
}

Tensor widened(const Tensor& x) { return is_half(x.dtype()) ? cast(x, DType::kF32) : x; }

Tensor reduce_widened(const Tensor& losses, DType dtype, LossOptions options) {
  Tensor& weights = options.sample_weights;
  if (weights.defined()) {
    require(weights.dtype() == dtype, ErrorCode::kDtypeMismatch, "loss",
            "sample weights are {}, the predictions {}; cast one", weights.spec().str(), dtype_name(dtype));
    weights = widened(weights);
  }
  return cast(reduce_losses(losses, options), dtype);
}

Tensor cosine_of_angle(const Tensor& a, const Tensor& b) {
  constexpr double kSmallestSquare = 1e-12;  // not representable in f16, nor are many squares
  const auto inverse_length = [](const Tensor& x) {
    return rsqrt(maximum(sum(square(x), {-1}), kSmallestSquare));
  };
  return sum(a * b, {-1}) * inverse_length(a) * inverse_length(b);
}

}  // namespace isochron::nn
