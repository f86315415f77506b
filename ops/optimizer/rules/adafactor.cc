// Adafactor: b = 1 - t^beta_2_decay; q = g g + epsilon_1. For w of shape (..., R, C), the states are a (...,
// R) and c (..., C): a = b a + (1 - b) mean of q over the last axis; c = b c + (1 - b) mean of q over the
// second-to-last axis; x = g / sqrt(a / (mean of a over R) * c). If w has fewer than two axes, a has the
// shape of w and c is empty: a = b a + (1 - b) q; x = g / sqrt(a). Then w -= min(r, 1 / sqrt(t))
// max(epsilon_2, rms w) x / max(1, rms x / clip_threshold). (Shazeer and Stern, ICML 2018.)
#include <algorithm>
#include <cmath>

#include "isochron/ops/optimizer/decomposed_update.h"
#include "isochron/ops/optimizer/update_rule.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"

namespace isochron::ops {
namespace {

using graph::Attributes;
using Values = std::vector<double>;

/// x with a new axis of extent 1, which is the last (-1) or second-to-last (-2) axis of the result.
Tensor with_axis(const Tensor& x, int axis) {
  const int at = x.rank() + 1 + axis;
  Dims shape;
  for (int a = 0; a < at; ++a) shape.push_back(x.extent(a));
  shape.push_back(1);
  for (int a = at; a < x.rank(); ++a) shape.push_back(x.extent(a));
  return reshape(x, shape);
}

/// Updates Adafactor's row and column means, and returns the second moment of every element computed from
/// them.
Values factored_moment(ParameterUpdate& update, double ema_decay, double epsilon) {
  const size_t columns = static_cast<size_t>(update.shape[update.shape.rank() - 1]);
  const size_t rows = static_cast<size_t>(update.shape[update.shape.rank() - 2]);
  const size_t matrices = columns * rows > 0 ? update.p.size() / (rows * columns) : 0;
  Values& a = *update.states[0];
  Values& c = *update.states[1];
  Values result(update.p.size());
  for (size_t m = 0; m < matrices; ++m) {
    const auto square = [&](size_t i, size_t j) {
      const double g = update.g[(m * rows + i) * columns + j];
      return g * g + epsilon;
    };
    double mean = 0;
    for (size_t i = 0; i < rows; ++i) {
      double total = 0;
      for (size_t j = 0; j < columns; ++j) total += square(i, j);
      double& row = a[m * rows + i];
      row = ema_decay * row + (1 - ema_decay) * total / static_cast<double>(columns);
      mean += row / static_cast<double>(rows);
    }
    for (size_t j = 0; j < columns; ++j) {
      double total = 0;
      for (size_t i = 0; i < rows; ++i) total += square(i, j);
      double& column = c[m * columns + j];
      column = ema_decay * column + (1 - ema_decay) * total / static_cast<double>(rows);
      for (size_t i = 0; i < rows; ++i)
        result[(m * rows + i) * columns + j] = a[m * rows + i] / mean * column;
    }
  }
  return result;
}

void adafactor(ParameterUpdate& update) {
  const double count = static_cast<double>(update.p.size());
  const double t = update.step + 1;
  const double ema_decay = 1 - std::pow(t, update.attributes.get<double>("beta_2_decay"));
  const double epsilon = update.attributes.get<double>("epsilon_1");
  Values moment;
  if (update.shape.rank() >= 2) {
    moment = factored_moment(update, ema_decay, epsilon);
  } else {
    Values& a = *update.states[0];
    for (size_t e = 0; e < a.size(); ++e)
      a[e] = ema_decay * a[e] + (1 - ema_decay) * (update.g[e] * update.g[e] + epsilon);
    moment = a;
  }
  Values moves(update.p.size());
  for (size_t e = 0; e < moves.size(); ++e) moves[e] = update.g[e] / std::sqrt(moment[e]);
  const double rms = std::sqrt(sum_of_squares(update.p) / count);
  const double move_rms = std::sqrt(sum_of_squares(moves) / count);
  const double rate = std::min(update.rate, 1 / std::sqrt(t)) *
                      std::max(update.attributes.get<double>("epsilon_2"), rms) /
                      std::max(1.0, move_rms / update.attributes.get<double>("clip_threshold"));
  for (size_t e = 0; e < moves.size(); ++e) update.p[e] -= rate * moves[e];
}

std::vector<Tensor> adafactor_decomposed(const graph::OpCall& call, std::span<const Tensor> inputs) {
  DecomposedUpdate update(call, inputs);
  const double epsilon_1 = call.attributes.get<double>("epsilon_1");
  const double epsilon_2 = call.attributes.get<double>("epsilon_2");
  const double threshold = call.attributes.get<double>("clip_threshold");
  const Tensor step = update.step();
  const Tensor one_minus_decay = pow(step, call.attributes.get<double>("beta_2_decay"));
  for (size_t i = 0; i < update.parameters(); ++i) {
    const Tensor p = update.parameter(i), g = update.gradient(i);
    const Tensor squares = square(g) + epsilon_1, share = cast(one_minus_decay, p.dtype());
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

Shape state_shape(const Shape& parameter, size_t k) {
  const int rank = parameter.rank();
  if (rank < 2) return k == 0 ? parameter : Shape{0};
  Shape shape;
  for (int axis = 0; axis < rank; ++axis) {
    if (axis != (k == 0 ? rank - 1 : rank - 2)) shape.push_back(parameter[axis]);
  }
  return shape;
}

}  // namespace

OptimizerRule adafactor_rule() {
  return {.summary = "Adafactor",
          .variants = {Attributes{
              {"beta_2_decay", -0.8}, {"epsilon_1", 1e-30}, {"epsilon_2", 1e-3}, {"clip_threshold", 1.0}}},
          .states = count_states<2>,
          .reference = adafactor,
          .decompose = adafactor_decomposed,
          .state_shape = state_shape,
          .reads_step = true};
}

}  // namespace isochron::ops
