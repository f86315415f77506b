// RAdam: m and v as in Adam; n = 2 / (1 - beta_2) - 1; n_t = n - 2 t beta_2^t / (1 - beta_2^t); n_t > 5: w -=
// r r_t sqrt(1 - beta_2^t) / (1 - beta_1^t) * m / (sqrt(v) + epsilon), where r_t^2 = (n_t - 4)(n_t - 2) n /
// ((n - 4)(n - 2) n_t); else w -= r / (1 - beta_1^t) * m. (Liu et al.: "On the Variance of the Adaptive
// Learning Rate and Beyond", ICLR 2020, with the limit 5 of its authors' code and of PyTorch; the paper has
// 4.)
#include "isochron/ops/optimizer/update_rule.h"

#include <cmath>

namespace isochron::ops {
namespace {

using graph::Attributes;

double radam(const ParameterUpdate& update, double p, double g, double* states) {
  update_moments(update.attributes, g, states);
  const double beta_2 = update.attributes.get<double>("beta_2");
  const double t = update.step + 1;
  const double longest = 2 / (1 - beta_2) - 1;
  const double length = longest - 2 * t * std::pow(beta_2, t) / bias_correction(update, "beta_2");
  const double mean = states[0] / bias_correction(update, "beta_1");
  if (length <= 5) return p - update.rate * mean;
  const double factor =
      std::sqrt((length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length));
  const double root = std::sqrt(states[1]) + update.attributes.get<double>("epsilon");
  return p - update.rate * factor * mean * std::sqrt(bias_correction(update, "beta_2")) / root;
}

UpdateDefinition radam_definition(const Attributes& attributes) {
  UpdateDefinition result = usual_definition(UpdateFunctor::kAdam, attributes);
  result.settings.correction = element::Correction::kRectified;
  move_epsilon_outside(result);
  return result;
}

}  // namespace

OptimizerRule radam_rule() {
  const auto variant = [](double beta_2) {
    return Attributes{{"beta_1", 0.9}, {"beta_2", beta_2}, {"epsilon", 1e-2}};
  };
  return {.summary = "RAdam",
          .variants = {variant(0.99), variant(0.6)},
          .states = count_states<2>,
          .reference = by_element<radam>,
          .definition = radam_definition,
          .reads_step = true};
}

}  // namespace isochron::ops
