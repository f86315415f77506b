#include "isochron/ops/elementwise/activations.h"

#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/slicing.h"

namespace isochron {

Tensor softsign(const Tensor& x) {
  const ErrorScope scope("softsign");
  return x / (abs(x) + 1.0);
}

Tensor hard_tanh(const Tensor& x, double low, double high) {
  const ErrorScope scope("hard_tanh");
  return clip(x, low, high);
}

Tensor hard_sigmoid(const Tensor& x) {
  const ErrorScope scope("hard_sigmoid");
  return relu6(x + 3.0) / 6.0;
}

Tensor hard_swish(const Tensor& x) {
  const ErrorScope scope("hard_swish");
  return x * hard_sigmoid(x);
}

Tensor mish(const Tensor& x) {
  const ErrorScope scope("mish");
  return x * tanh(softplus(x));
}

Tensor log_sigmoid(const Tensor& x) {
  const ErrorScope scope("log_sigmoid");
  return -softplus(-x);
}

Tensor celu(const Tensor& x, double alpha) {
  const ErrorScope scope("celu");
  require(alpha > 0, ErrorCode::kInvalidArgument, "celu", "alpha must be > 0, got {}", alpha);
  const Tensor positive = x > 0.0;
  return where(positive, x, expm1(where(positive, 0, x) / alpha) * alpha);
}

Tensor hard_shrink(const Tensor& x, double threshold) {
  const ErrorScope scope("hard_shrink");
  return where(abs(x) <= threshold, 0, x);
}

Tensor soft_shrink(const Tensor& x, double threshold) {
  const ErrorScope scope("soft_shrink");
  require(threshold >= 0, ErrorCode::kInvalidArgument, "soft_shrink", "threshold must be >= 0, got {}",
          threshold);
  return where(abs(x) <= threshold, 0, x - sign(x) * threshold);
}

Tensor prelu(const Tensor& x, const Tensor& slope) {
  const ErrorScope scope("prelu");
  const Tensor y = where(x > 0.0, x, x * slope);
  require(y.shape() == x.shape(), ErrorCode::kShapeMismatch, "prelu", "the slope {} does not broadcast to {}",
          slope.spec().str(), x.spec().str());
  return y;
}

Tensor glu(const Tensor& x, int64_t axis) {
  const ErrorScope scope("glu");
  const std::vector<Tensor> halves = split(x, 2, axis);
  return halves[0] * sigmoid(halves[1]);
}

}  // namespace isochron
