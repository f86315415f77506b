#include "isochron/nn/losses.h"

#include "isochron/ops/elementwise.h"
#include "isochron/ops/reduction.h"
#include "isochron/ops/softmax.h"

namespace isochron::nn {
namespace {

void require_one_shape(const Tensor& prediction, const Tensor& target, std::string_view loss) {
  require(prediction.defined() && target.defined(), ErrorCode::kInvalidArgument, loss,
          "an operand is undefined");
  if (!(prediction.shape() == target.shape()) || prediction.rank() == 0) {
    fail(ErrorCode::kShapeMismatch, loss,
         "predictions are {}, targets {}; both must be (N, ...), reshape one", prediction.spec().str(),
         target.spec().str());
  }
}

/// prediction - target, of equal specs.
Tensor error_of(const Tensor& prediction, const Tensor& target, std::string_view loss) {
  require_one_shape(prediction, target, loss);
  return prediction - target;
}

void require_samples(const Tensor& losses) {
  require(losses.elems() > 0, ErrorCode::kInvalidArgument, "loss",
          "the batch is empty: losses are {}; leave empty batches out", losses.spec().str());
}

/// The elements' losses reduced, the elements of a sample to their mean first.
Tensor reduce_elements(const Tensor& elements, const LossOptions& options) {
  require_samples(elements);
  const bool plain = options.reduction == Reduction::kMean && !options.sample_weights.defined();
  if (plain) return mean(elements);  // the mean of means of equally many
  Axes inner;
  for (int axis = 1; axis < elements.rank(); ++axis) inner.push_back(axis);
  return reduce_losses(inner.empty() ? elements : mean(elements, inner), options);
}

}  // namespace

Tensor reduce_losses(const Tensor& losses, const LossOptions& options) {
  require_samples(losses);
  const Tensor& weights = options.sample_weights;
  Tensor weighted = losses;
  if (weights.defined()) {
    require(weights.shape() == losses.shape(), ErrorCode::kShapeMismatch, "loss",
            "sample weights are {}, the losses {}", weights.shape().str(), losses.shape().str());
    weighted = losses * weights;
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
      return sum(weighted) / sum(weights);
  }
  fail(ErrorCode::kInvalidArgument, "loss", "reduction {} does not exist",
       static_cast<int>(options.reduction));
}

Tensor mean_squared_error(const Tensor& prediction, const Tensor& target, const LossOptions& options) {
  return reduce_elements(square(error_of(prediction, target, "mean_squared_error")), options);
}

Tensor mean_absolute_error(const Tensor& prediction, const Tensor& target, const LossOptions& options) {
  return reduce_elements(abs(error_of(prediction, target, "mean_absolute_error")), options);
}

Tensor huber(const Tensor& prediction, const Tensor& target, double delta, const LossOptions& options) {
  require(delta > 0, ErrorCode::kInvalidArgument, "huber", "delta must be > 0, got {}", delta);
  const Tensor size = abs(error_of(prediction, target, "huber"));
  const Tensor near = square(size) * 0.5;
  const Tensor far = size * delta - 0.5 * delta * delta;
  return reduce_elements(where(size <= delta, near, far), options);
}

Tensor sparse_softmax_cross_entropy(const Tensor& logits, const Tensor& labels, const LossOptions& options) {
  return reduce_elements(isochron::sparse_softmax_cross_entropy(logits, labels), options);
}

Tensor softmax_cross_entropy(const Tensor& logits, const Tensor& targets, const LossOptions& options) {
  return reduce_elements(isochron::softmax_cross_entropy(logits, targets), options);
}

Tensor sparse_categorical_cross_entropy(const Tensor& probabilities, const Tensor& labels,
                                        const LossOptions& options) {
  return reduce_elements(isochron::sparse_categorical_cross_entropy(probabilities, labels), options);
}

Tensor categorical_cross_entropy(const Tensor& probabilities, const Tensor& targets,
                                 const LossOptions& options) {
  return reduce_elements(isochron::categorical_cross_entropy(probabilities, targets), options);
}

Tensor binary_cross_entropy(const Tensor& probabilities, const Tensor& targets, const LossOptions& options) {
  require_one_shape(probabilities, targets, "binary_cross_entropy");
  return reduce_elements(isochron::binary_cross_entropy(probabilities, targets), options);
}

Tensor binary_cross_entropy_from_logits(const Tensor& logits, const Tensor& targets,
                                        const LossOptions& options) {
  require_one_shape(logits, targets, "binary_cross_entropy_from_logits");
  return reduce_elements(isochron::binary_cross_entropy_from_logits(logits, targets), options);
}

}  // namespace isochron::nn
