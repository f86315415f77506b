#include "isochron/nn/losses/losses.h"

#include <cmath>

#include "isochron/nn/losses/loss_operands.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/indexing/indexing.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/reduction/softmax.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"

namespace isochron::nn {
namespace {

/// prediction - target, of equal specs.
Tensor error_of(const Tensor& prediction, const Tensor& target, std::string_view loss) {
  require_numbers(prediction, target, loss);
  return prediction - target;
}

/// The sum of `losses` divided by the sum of `weights`; in f32 if they have 16 bits, which hold no large sum.
/// If all weights are 0, no sample counts and the result is 0.
Tensor weighted_mean(const Tensor& losses, const Tensor& weights) {
  const DType dtype = losses.dtype();
  if (is_half(dtype))
    return cast(weighted_mean(cast(losses, DType::kF32), cast(weights, DType::kF32)), dtype);
  const Tensor weight = sum(weights);
  return sum(losses) / where(equal(weight, scalar(0, dtype)), scalar(1, dtype), weight);
}

void require_samples(const Tensor& losses) {
  require(losses.elems() > 0, ErrorCode::kInvalidArgument, "loss",
          "the batch is empty: losses are {}; leave empty batches out", losses.spec().str());
}

/// Sample weights (N) as (N, 1, ...) for losses (N, ...).
Tensor sample_column(const Tensor& weights, const Tensor& losses) {
  require(weights.shape() == Shape{losses.extent(0)}, ErrorCode::kShapeMismatch, "loss",
          "sample weights are {}, the losses {}", weights.shape().str(), losses.shape().str());
  Shape column = losses.shape();
  for (int axis = 1; axis < column.rank(); ++axis) column[axis] = 1;
  return losses.rank() == 1 ? weights : reshape(weights, column);
}

/// Reduces the losses within each sample.
Tensor within_samples(const Tensor& losses, Reduction per_sample) {
  Axes inner;
  for (int axis = 1; axis < losses.rank(); ++axis) inner.push_back(axis);
  switch (per_sample) {
    case Reduction::kMean:
      return inner.empty() ? losses : mean(losses, inner);
    case Reduction::kSum:
      return inner.empty() ? losses : sum(losses, inner);
    case Reduction::kNone:
      return losses;
    default:
      fail(ErrorCode::kInvalidArgument, "loss",
           "within a sample losses are averaged, summed or kept (kMean, kSum, kNone), not {}",
           static_cast<int>(per_sample));
  }
}

}  // namespace

Tensor reduce_losses(const Tensor& losses, const LossOptions& options) {
  require(losses.defined(), ErrorCode::kInvalidArgument, "loss", "the losses are undefined");
  require_samples(losses);
  const Tensor& weights = options.sample_weights;
  const bool mean_of_all =
      options.reduction == Reduction::kMean && options.per_sample == Reduction::kMean && !weights.defined();
  if (mean_of_all) return mean(losses);  // equals the mean of the samples' means, as all have the same size
  Tensor weighted = within_samples(losses, options.per_sample);
  Tensor column;
  if (weights.defined()) {
    column = sample_column(weights, weighted);
    weighted = weighted * column;
  }
  switch (options.reduction) {
    case Reduction::kMean:
      return mean(weighted);
    case Reduction::kSum:
      return sum(weighted);
    case Reduction::kNone:
      return weighted;
    case Reduction::kWeightedMean:
      require(weights.defined(), ErrorCode::kInvalidArgument, "loss",
              "a weighted mean needs sample weights; use the mean");
      return weighted_mean(weighted, weighted.rank() == 1 ? weights : broadcast_to(column, weighted.shape()));
  }
  fail(ErrorCode::kInvalidArgument, "loss", "reduction {} does not exist",
       static_cast<int>(options.reduction));
}

namespace {

/// Losses of rows, (N, ...).
struct Rows {
  Tensor losses;
  Tensor counted = {};  // 1, or 0 for rows that are left out; undefined: all 1
  Tensor weights = {};  // by class; undefined: all 1
};

/// Reduces the rows' losses. If rows are left out or weighted, means divide by the count or weight of all
/// rows, unless the losses within a sample are summed.
Tensor reduce_rows(const Rows& rows, const LossOptions& options) {
  const bool weighted = options.reduction == Reduction::kWeightedMean;
  const bool mean_of_rows = options.reduction == Reduction::kMean && options.per_sample != Reduction::kSum;
  if (!(weighted && rows.weights.defined()) && !(rows.counted.defined() && (weighted || mean_of_rows))) {
    return reduce_losses(rows.losses, options);
  }
  require_samples(rows.losses);
  Tensor losses = rows.losses;
  Tensor divisors = rows.counted;
  const auto times = [](const Tensor& a, const Tensor& b) { return a.defined() ? a * b : b; };
  if (weighted && rows.weights.defined()) divisors = times(divisors, rows.weights);
  if (options.sample_weights.defined()) {
    const Tensor column = sample_column(options.sample_weights, losses);
    losses = losses * column;
    if (weighted) divisors = times(divisors, broadcast_to(column, losses.shape()));
  }
  return weighted_mean(losses, divisors);
}

}  // namespace

Tensor mean_squared_error(const Tensor& prediction, const Tensor& target, const LossOptions& options) {
  const ErrorScope scope("mean_squared_error");
  return reduce_losses(square(error_of(prediction, target, "mean_squared_error")), options);
}

Tensor mean_absolute_error(const Tensor& prediction, const Tensor& target, const LossOptions& options) {
  const ErrorScope scope("mean_absolute_error");
  return reduce_losses(abs(error_of(prediction, target, "mean_absolute_error")), options);
}

Tensor huber(const Tensor& prediction, const Tensor& target, double delta, const LossOptions& options) {
  const ErrorScope scope("huber");
  require(delta > 0, ErrorCode::kInvalidArgument, "huber", "delta must be > 0, got {}", delta);
  const Tensor error = error_of(prediction, target, "huber");
  const Tensor size = abs(error);
  const Tensor near = square(error) * 0.5;
  const Tensor far = size * delta - 0.5 * delta * delta;
  return reduce_losses(where(size <= delta, near, far), options);
}

Tensor log_cosh(const Tensor& prediction, const Tensor& target, const LossOptions& options) {
  const ErrorScope scope("log_cosh");
  const Tensor error = widened(error_of(prediction, target, "log_cosh"));
  const Tensor losses = error + softplus(error * -2.0) - std::log(2.0);
  return reduce_widened(losses, prediction.dtype(), options);
}

Tensor cosine_similarity_loss(const Tensor& prediction, const Tensor& target, const LossOptions& options) {
  const ErrorScope scope("cosine_similarity_loss");
  require_vectors(prediction, target, "cosine_similarity_loss");
  const Tensor cosine = cosine_of_angle(widened(prediction), widened(target));
  return reduce_widened(-cosine, prediction.dtype(), options);
}

Tensor kl_divergence(const Tensor& probabilities, const Tensor& targets, const LossOptions& options) {
  const ErrorScope scope("kl_divergence");
  require_vectors(probabilities, targets, "kl_divergence");
  const auto wide = [&](const Tensor& x) {  // f16 doesn't hold the largest quotients
    return clip(widened(x), kKerasEpsilon, 1);
  };
  const Tensor t = wide(targets);
  const Tensor divergences = sum(t * log(t / wide(probabilities)), {-1});
  return reduce_widened(divergences, probabilities.dtype(), options);
}

Tensor kl_divergence_from_logits(const Tensor& logits, const Tensor& targets, const LossOptions& options) {
  const ErrorScope scope("kl_divergence_from_logits");
  require_vectors(logits, targets, "kl_divergence_from_logits");
  const Tensor t = widened(targets);
  const Tensor log_targets = log(where(t > 0.0, t, scalar(1, t.dtype())));  // so that 0 log 0 is 0
  const Tensor divergences = sum(t * (log_targets - log_softmax(widened(logits))), {-1});
  return reduce_widened(divergences, logits.dtype(), options);
}

namespace {

/// The functions of ops that compute a cross-entropy, from logits or probabilities.
struct CrossEntropy {
  std::string_view name;
  Tensor (*from_labels)(const Tensor& prediction, const Tensor& labels);
  Tensor (*from_targets)(const Tensor& prediction, const Tensor& targets);
};
constexpr CrossEntropy kFromLogits = {"softmax_cross_entropy", isochron::sparse_softmax_cross_entropy,
                                      isochron::softmax_cross_entropy};
constexpr CrossEntropy kFromProbabilities = {"categorical_cross_entropy",
                                             isochron::sparse_categorical_cross_entropy,
                                             isochron::categorical_cross_entropy};

void check_options(const Tensor& prediction, const CrossEntropyOptions& options, std::string_view loss) {
  require(prediction.defined() && prediction.rank() >= 2, ErrorCode::kShapeMismatch, loss,
          "predictions must be (N, ..., C), got {}",
          prediction.defined() ? prediction.spec().str() : "an undefined tensor");
  require_class_weights(options.class_weights, prediction, loss);
}

/// Losses are linear in the targets, so smoothing and class weights are applied to the targets.
Tensor dense_losses(const CrossEntropy& loss, const Tensor& prediction, const Tensor& targets,
                    const CrossEntropyOptions& options) {
  Tensor t = smoothed(targets, options.label_smoothing, prediction.extent(-1), loss.name);
  if (options.class_weights.defined()) t = t * options.class_weights;
  return loss.from_targets(prediction, t);
}

Tensor dense_cross_entropy(const CrossEntropy& loss, const Tensor& prediction, const Tensor& targets,
                           const CrossEntropyOptions& options) {
  check_options(prediction, options, loss.name);
  require_one_shape(prediction, targets, loss.name);
  require(!options.ignore_index, ErrorCode::kInvalidArgument, loss.name,
          "ignore_index needs labels; give rows of target distributions the sample weight 0");
  Rows rows{dense_losses(loss, prediction, targets, options)};
  if (options.class_weights.defined()) rows.weights = sum(targets * options.class_weights, {-1});
  return reduce_rows(rows, reduction_of(options));
}

Tensor sparse_cross_entropy(const CrossEntropy& loss, const Tensor& prediction, const Tensor& labels,
                            const CrossEntropyOptions& options) {
  check_options(prediction, options, loss.name);
  require_labels(prediction, labels, loss.name);
  const DType dtype = prediction.dtype();
  Tensor index = cast(labels, DType::kI64);
  Tensor kept;
  if (options.ignore_index) {
    kept = not_equal(index, constant(from_span<int64_t>({}, std::span(&*options.ignore_index, 1))));
    index = where(kept, index, scalar(0, DType::kI64));
  }
  Rows rows;
  if (options.class_weights.defined()) rows.weights = gather(options.class_weights, index);
  if (options.label_smoothing != 0) {
    rows.losses = dense_losses(loss, prediction, one_hot(index, prediction.extent(-1), dtype), options);
  } else {
    rows.losses = loss.from_labels(prediction, index);
    if (rows.weights.defined()) rows.losses = rows.losses * rows.weights;
  }
  if (kept.defined()) {
    rows.losses = where(kept, rows.losses, scalar(0, dtype));
    rows.counted = cast(kept, dtype);
  }
  return reduce_rows(rows, reduction_of(options));
}

}  // namespace

Tensor sparse_softmax_cross_entropy(const Tensor& logits, const Tensor& labels,
                                    const CrossEntropyOptions& options) {
  const ErrorScope scope("sparse_softmax_cross_entropy");
  return sparse_cross_entropy(kFromLogits, logits, labels, options);
}

Tensor softmax_cross_entropy(const Tensor& logits, const Tensor& targets,
                             const CrossEntropyOptions& options) {
  const ErrorScope scope("softmax_cross_entropy");
  return dense_cross_entropy(kFromLogits, logits, targets, options);
}

Tensor sparse_categorical_cross_entropy(const Tensor& probabilities, const Tensor& labels,
                                        const CrossEntropyOptions& options) {
  const ErrorScope scope("sparse_categorical_cross_entropy");
  return sparse_cross_entropy(kFromProbabilities, probabilities, labels, options);
}

Tensor categorical_cross_entropy(const Tensor& probabilities, const Tensor& targets,
                                 const CrossEntropyOptions& options) {
  const ErrorScope scope("categorical_cross_entropy");
  return dense_cross_entropy(kFromProbabilities, probabilities, targets, options);
}

Tensor binary_cross_entropy(const Tensor& probabilities, const Tensor& targets,
                            const BinaryCrossEntropyOptions& options) {
  const ErrorScope scope("binary_cross_entropy");
  constexpr std::string_view kName = "binary_cross_entropy";
  require_one_shape(probabilities, targets, kName);
  const Tensor t = smoothed(targets, options.label_smoothing, 2, kName);
  Tensor losses = isochron::binary_cross_entropy(probabilities, t);
  if (options.positive_weight.defined()) {
    const Tensor weight = require_broadcast(options.positive_weight, probabilities, "positive weight", kName);
    // The cost of a target of 1, times t, is already included once.
    losses = losses + (weight - 1.0) * t * isochron::binary_cross_entropy(probabilities, ones_like(t));
  }
  return reduce_losses(losses, reduction_of(options));
}

Tensor binary_cross_entropy_from_logits(const Tensor& logits, const Tensor& targets,
                                        const BinaryCrossEntropyOptions& options) {
  const ErrorScope scope("binary_cross_entropy_from_logits");
  constexpr std::string_view kName = "binary_cross_entropy_from_logits";
  require_one_shape(logits, targets, kName);
  const Tensor t = smoothed(targets, options.label_smoothing, 2, kName);
  Tensor losses = isochron::binary_cross_entropy_from_logits(logits, t);
  if (options.positive_weight.defined()) {
    const Tensor weight = require_broadcast(options.positive_weight, logits, "positive weight", kName);
    losses = losses + (weight - 1.0) * t * softplus(-logits);
  }
  return reduce_losses(losses, reduction_of(options));
}

}  // namespace isochron::nn
