// LAMB: m and v as in Adam; x = m / (1 - beta_1^t) / (sqrt(v / (1 - beta_2^t)) + epsilon); w -= r x |w| /
// |x|, without the factor |w| / |x| if a norm is 0. (You et al., ICLR 2020.)
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

void lamb(ParameterUpdate& update) {
  Values moves(update.p.size());
  for (size_t e = 0; e < moves.size(); ++e) {
    double states[2] = {(*update.states[0])[e], (*update.states[1])[e]};
    update_moments(update.attributes, update.g[e], states);
    for (const size_t k : {0, 1}) (*update.states[k])[e] = states[k];
    const double root = std::sqrt(states[1] / bias_correction(update, "beta_2"));
    moves[e] =
        states[0] / bias_correction(update, "beta_1") / (root + update.attributes.get<double>("epsilon"));
  }
  const double norm = std::sqrt(sum_of_squares(update.p));
  const double length = std::sqrt(sum_of_squares(moves));
  const double ratio = norm > 0 && length > 0 ? norm / length : 1;
  for (size_t e = 0; e < moves.size(); ++e) update.p[e] -= update.rate * ratio * moves[e];
}

std::vector<Tensor> lamb_decomposed(const graph::OpCall& call, std::span<const Tensor> inputs) {
  DecomposedUpdate update(call, inputs);
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

}  // namespace

OptimizerRule lamb_rule() {
  return {.summary = "LAMB",
          .variants = {Attributes{{"beta_1", 0.9}, {"beta_2", 0.99}, {"epsilon", 1e-2}}},
          .states = count_states<2>,
          .reference = lamb,
          .decompose = lamb_decomposed,
          .reads_step = true};
}

}  // namespace isochron::ops
