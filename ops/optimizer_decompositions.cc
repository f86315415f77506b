#include "isochron/ops/optimizer_decompositions.h"

#include <cmath>

#include "isochron/ops/creation.h"
#include "isochron/ops/elementwise.h"
#include "isochron/ops/optimizer_updates.h"
#include "isochron/ops/reduction.h"
#include "isochron/ops/shape_ops.h"
#include "isochron/ops/update_parameters.h"

namespace isochron::ops {
namespace {

using graph::OpCall;

/// What the call's parameters become, one by one; each parameter's new tensors stand where the row has them.
class Composition {
 public:
  Composition(const OpCall& call, std::span<const Tensor> inputs)
      : parameters_(call.op, call.attributes, call.inputs.size()),
        layout_(parameters_.layout),
        inputs_(inputs),
        done_(inputs[UpdateLayout::kStep] + 1.0),
        results_(layout_.outputs()) {
    results_[0] = done_;
  }

  size_t parameters() const { return layout_.parameters; }
  /// The number of the step, from 1, in f64.
  Tensor step() const { return cast(done_, DType::kF64); }
  /// The learning rate of parameter `i`, in f64.
  Tensor rate(size_t i) const { return inputs_[UpdateLayout::kLearningRate] * parameters_.rate_factor(i); }
  /// Parameter `i` behind weight decay.
  Tensor parameter(size_t i) const {
    const Tensor& p = inputs_[layout_.parameter(i)];
    return p * cast(1.0 - rate(i) * parameters_.weight_decay(i), p.dtype());
  }
  Tensor gradient(size_t i) const {
    const Tensor& g = inputs_[layout_.gradient(i)];
    return g * cast(inputs_[UpdateLayout::kGradientFactor], g.dtype());
  }
  const Tensor& state(size_t k, size_t i) const { return inputs_[layout_.state(k, i)]; }

  void set_parameter(size_t i, const Tensor& value) {
    results_[layout_.parameter(i) - UpdateLayout::kFirstAliased] = value;
  }
  void set_state(size_t k, size_t i, const Tensor& value) {
    results_[layout_.state(k, i) - UpdateLayout::kFirstAliased] = value;
  }
  std::vector<Tensor> results() { return std::move(results_); }

 private:
  const UpdateParameters parameters_;
  const UpdateLayout& layout_;
  std::span<const Tensor> inputs_;
  Tensor done_;
  std::vector<Tensor> results_;
};

/// x with an axis of one more, the last (-1) or the last but one (-2) of the result.
Tensor with_axis(const Tensor& x, int axis) {
  const int at = x.rank() + 1 + axis;
  Dims shape;
  for (int a = 0; a < at; ++a) shape.push_back(x.extent(a));
  shape.push_back(1);
  for (int a = at; a < x.rank(); ++a) shape.push_back(x.extent(a));
  return reshape(x, shape);
}

}  // namespace

std::vector<Tensor> decompose_lamb_update(const OpCall& call, std::span<const Tensor> inputs) {
  Composition update(call, inputs);
  const double beta_1 = call.attributes.get<double>("beta_1"), beta_2 = call.attributes.get<double>("beta_2");
  const Tensor step = update.step();
  const auto correction = [&](double beta) { return 1.0 - exp(step * std::log(beta)); };
  for (size_t i = 0; i < update.parameters(); ++i) {
    const Tensor p = update.parameter(i), g = update.gradient(i);
    const Tensor m = update.state(0, i) + (g - update.state(0, i)) * (1 - beta_1);
    const Tensor v = update.state(1, i) + (square(g) - update.state(1, i)) * (1 - beta_2);
    const Tensor root = sqrt(v) * cast(rsqrt(correction(beta_2)), p.dtype());
    const Tensor move =
        m * cast(1.0 / correction(beta_1), p.dtype()) / (root + call.attributes.get<double>("epsilon"));
    const Tensor norm = sum(square(p)), length = sum(square(move));
    const Tensor ratio =
        where(logical_and(norm > 0.0, length > 0.0), sqrt(norm / length), scalar(1, p.dtype()));
    update.set_parameter(i, p - move * (cast(update.rate(i), p.dtype()) * ratio));
    update.set_state(0, i, m);
    update.set_state(1, i, v);
  }
  return update.results();
}

std::vector<Tensor> decompose_adafactor_update(const OpCall& call, std::span<const Tensor> inputs) {
  Composition update(call, inputs);
  const double epsilon_1 = call.attributes.get<double>("epsilon_1");
  const double epsilon_2 = call.attributes.get<double>("epsilon_2");
  const double threshold = call.attributes.get<double>("clip_threshold");
  const Tensor step = update.step();
  const Tensor fresh = pow(step, call.attributes.get<double>("beta_2_decay"));
  for (size_t i = 0; i < update.parameters(); ++i) {
    const Tensor p = update.parameter(i), g = update.gradient(i);
    const Tensor squares = square(g) + epsilon_1, share = cast(fresh, p.dtype());
    const auto moment = [&](size_t k, const Tensor& mean) {
      const Tensor next = update.state(k, i) * (1.0 - share) + mean * share;
      update.set_state(k, i, next);
      return next;
    };
    Tensor move;
    if (p.rank() < 2) {
      move = g * rsqrt(moment(0, squares));
      update.set_state(1, i, update.state(1, i));
    } else {
      const Tensor rows = moment(0, mean(squares, {-1})), columns = moment(1, mean(squares, {-2}));
      // The roots are multiplied: the moments' product may be too small for f32.
      move = g * with_axis(rsqrt(rows / mean(rows, {-1}, true)), -1) * with_axis(rsqrt(columns), -2);
    }
    const Tensor size = maximum(sqrt(mean(square(p))), epsilon_2);
    const Tensor clip = maximum(sqrt(mean(square(move))) / threshold, 1.0);
    const Tensor rate = cast(minimum(update.rate(i), rsqrt(step)), p.dtype());
    update.set_parameter(i, p - move * (rate * size / clip));
  }
  return update.results();
}

}  // namespace isochron::ops
