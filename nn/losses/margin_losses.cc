#include "isochron/nn/losses/margin_losses.h"

#include "isochron/nn/losses/loss_operands.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/elementwise/root.h"
#include "isochron/ops/indexing/along_axis.h"
#include "isochron/ops/indexing/indexing.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/slicing.h"

namespace isochron::nn {
namespace {

/// max(1 - t x, 0) of each element.
Tensor hinge_of(const Tensor& prediction, const Tensor& target, std::string_view loss) {
  require_numbers(prediction, target, loss);
  const Tensor t = widened(target);
  const Tensor sign = where(equal(t, scalar(0, t.dtype())), scalar(-1, t.dtype()), t);
  return relu(1.0 - sign * widened(prediction));
}

/// The Euclidean length of vectors (..., C), with gradient 0 where it is 0.
Tensor length(const Tensor& x) { return ops::root(sum(square(x), {-1})); }

}  // namespace

Tensor hinge(const Tensor& prediction, const Tensor& target, const LossOptions& options) {
  const ErrorScope scope("hinge");
  return reduce_widened(hinge_of(prediction, target, "hinge"), prediction.dtype(), options);
}

Tensor squared_hinge(const Tensor& prediction, const Tensor& target, const LossOptions& options) {
  const ErrorScope scope("squared_hinge");
  return reduce_widened(square(hinge_of(prediction, target, "squared_hinge")), prediction.dtype(), options);
}

Tensor categorical_hinge(const Tensor& prediction, const Tensor& target, const LossOptions& options) {
  const ErrorScope scope("categorical_hinge");
  require_vectors(prediction, target, "categorical_hinge");
  const Tensor x = widened(prediction), t = widened(target);
  const Tensor positive = sum(t * x, {-1});
  const Tensor negative = max((1.0 - t) * x, {-1});
  return reduce_widened(relu(negative - positive + 1.0), prediction.dtype(), options);
}

Tensor hinge_embedding(const Tensor& distance, const Tensor& target, double margin,
                       const LossOptions& options) {
  const ErrorScope scope("hinge_embedding");
  require_numbers(distance, target, "hinge_embedding");
  const Tensor x = widened(distance);
  return reduce_widened(where(target > 0.0, x, relu(margin - x)), distance.dtype(), options);
}

Tensor margin_ranking(const Tensor& first, const Tensor& second, const Tensor& target, double margin,
                      const LossOptions& options) {
  const ErrorScope scope("margin_ranking");
  require_numbers(first, second, "margin_ranking");
  require_numbers(first, target, "margin_ranking");
  const Tensor lead = widened(target) * (widened(first) - widened(second));
  return reduce_widened(relu(margin - lead), first.dtype(), options);
}

Tensor cosine_embedding(const Tensor& first, const Tensor& second, const Tensor& target, double margin,
                        const LossOptions& options) {
  const ErrorScope scope("cosine_embedding");
  require_vectors(first, second, "cosine_embedding");
  const Tensor cosine = cosine_of_angle(widened(first), widened(second));
  require_one_shape(cosine, target, "cosine_embedding");
  require_floating(first, target, "cosine_embedding");
  return reduce_widened(where(target > 0.0, 1.0 - cosine, relu(cosine - margin)), first.dtype(), options);
}

Tensor triplet_margin(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                      const TripletMarginOptions& options) {
  const ErrorScope scope("triplet_margin");
  require(!anchor.defined() || !positive.defined() || !negative.defined() ||
              (anchor.shape() == positive.shape() && anchor.shape() == negative.shape()),
          ErrorCode::kShapeMismatch, "triplet_margin",
          "anchors are {}, positives {}, negatives {}; all must have one shape",
          anchor.defined() ? anchor.spec().str() : "", positive.defined() ? positive.spec().str() : "",
          negative.defined() ? negative.spec().str() : "");
  require_vectors(anchor, positive, "triplet_margin");
  require_vectors(anchor, negative, "triplet_margin");
  require(options.margin > 0, ErrorCode::kInvalidArgument, "triplet_margin", "the margin must be > 0, got {}",
          options.margin);
  const Tensor a = widened(anchor), p = widened(positive), n = widened(negative);
  const auto distance = [&](const Tensor& x, const Tensor& y) { return length(x - y + options.eps); };
  Tensor apart = distance(a, n);
  if (options.swap) apart = minimum(apart, distance(p, n));
  return reduce_widened(relu(distance(a, p) - apart + options.margin), anchor.dtype(), reduction_of(options));
}

Tensor soft_margin(const Tensor& prediction, const Tensor& target, const LossOptions& options) {
  const ErrorScope scope("soft_margin");
  require_numbers(prediction, target, "soft_margin");
  return reduce_widened(softplus(-widened(target) * widened(prediction)), prediction.dtype(), options);
}

Tensor multi_margin(const Tensor& prediction, const Tensor& labels, const MultiMarginOptions& options) {
  const ErrorScope scope("multi_margin");
  constexpr std::string_view kName = "multi_margin";
  require_vectors(prediction, prediction, kName);
  require_labels(prediction, labels, kName);
  require_class_weights(options.class_weights, prediction, kName);
  require(options.power == 1 || options.power == 2, ErrorCode::kInvalidArgument, kName,
          "the power must be 1 or 2, got {}", options.power);
  const Tensor x = widened(prediction);
  const Tensor index = cast(labels, DType::kI64);
  const Tensor own = take_along_axis(x, expand_dims(index, -1), -1);
  const Tensor is_own = one_hot(index, x.extent(-1), x.dtype()) > 0.0;  // infinity - infinity is NaN
  Tensor terms = relu(where(is_own, scalar(0, x.dtype()), x - own + options.margin));
  if (options.power == 2) terms = square(terms);
  Tensor losses = mean(terms, {-1});
  if (options.class_weights.defined()) losses = losses * widened(gather(options.class_weights, index));
  return reduce_widened(losses, prediction.dtype(), reduction_of(options));
}

}  // namespace isochron::nn
