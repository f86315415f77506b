// What an optimizer's step needs besides the arrays: from a rule's settings, the learning rate and the number
// of the step. Compiled by NVRTC too, behind scalar_functors.h, whose macro is defined then: no headers
// there.
#pragma once

#ifndef ISOCHRON_SCALAR
#include "isochron/ops/elementwise/scalar_functors.h"
#endif

namespace isochron {
namespace ops {
namespace element {

/// The parameter moves by -rate * direction.
struct UpdateNumbers {
  double gradient_factor = 1;
  double rate = 0;
  double gradient_rate = 0;  // of the newest gradient itself
  double momentum = 0;
  double velocity_rate = 0;     // factor of what enters the velocity
  double new_1 = 0;             // weight of the newest gradient in the first moment
  double old_2 = 0;             // weight of the second moment so far
  double new_2 = 0;             // weight of the newest gradient's square in it
  double root_factor = 1;       // of the second moment's root
  double epsilon_inside = 0;    // under the root
  double epsilon_outside = 0;   // beside it
  double parameter_factor = 1;  // what weight decay leaves of the parameter
  double eta_minus = 1;         // Rprop: what a step size is multiplied by where the gradient's sign turns
  double eta_plus = 1;          // and where it stays
  double min_step = 0;          // Rprop: limits of step sizes
  double max_step = 0;
};

/// Of which moments that begin at 0; kNesterov: of both, the first one a step ahead, as Nadam's; kRectified:
/// of both, the second one where RAdam uses it.
enum class Correction { kNone, kFirst, kBoth, kNesterov, kRectified };

struct UpdateSettings {
  UpdateNumbers fixed;  // but for what depends on the step
  double beta_1 = 0;
  double beta_2 = 0;
  Correction correction = Correction::kNone;
  double fading = 0;  // Nadam: the gap of its momentum to beta_1 shrinks by e^-fading a step
  bool epsilon_after_correction = false;
  bool rate_in_velocity = false;  // where the velocity is made of steps, not of gradients
};

/// base^n for n >= 1 by its binary digits: exact to a few roundings, and the same everywhere.
ISOCHRON_SCALAR double power(double base, unsigned long long n) {
  double result = 1;
  for (; n != 0; n >>= 1) {
    if (n & 1) result *= base;
    base *= base;
  }
  return result;
}

/// Nadam's momentum of step t, c_t = beta_1 (1 - e^(-fading t) / 2).
ISOCHRON_SCALAR double nadam_momentum(const UpdateSettings& settings, unsigned long long t) {
  return settings.beta_1 * (1 - 0.5 * ISOCHRON_MATH(exp)(-settings.fading * static_cast<double>(t)));
}

/// c_1 ... c_t, to 1e-15 of 1. As log(1 - x / 2) = -sum_k (x / 2)^k / k, its logarithm without beta_1 is a
/// sum of geometric series in t.
ISOCHRON_SCALAR double nadam_product(const UpdateSettings& settings, unsigned long long t) {
  const double product = power(settings.beta_1, t);
  if (product < 1e-18) return product;
  const double first = ISOCHRON_MATH(expm1)(-settings.fading);
  const double all = ISOCHRON_MATH(expm1)(-settings.fading * static_cast<double>(t));
  double sum = 0, half = 1;        // 1 / 2^k
  double one_step = 0, steps = 0;  // e^(-fading k) - 1 and e^(-fading k t) - 1
  for (int k = 1; k <= 52; ++k) {
    half /= 2;
    one_step += first + one_step * first;
    steps += all + steps * all;
    const double series = one_step == 0 ? static_cast<double>(t) : (1 + one_step) * (steps / one_step);
    sum += half / k * series;
  }
  return product * ISOCHRON_MATH(exp)(-sum);
}

/// RAdam's r_t, or 0 where the second moment's variance is too large to use it.
ISOCHRON_SCALAR double rectification(double beta_2, unsigned long long t) {
  const double left = power(beta_2, t);
  const double longest = 2 / (1 - beta_2) - 1;
  const double length = longest - 2 * static_cast<double>(t) * left / (1 - left);
  if (length <= 5) return 0;
  return ISOCHRON_MATH(sqrt)((length - 4) * (length - 2) * longest /
                             ((longest - 4) * (longest - 2) * length));
}

/// `step` counts from 1.
ISOCHRON_SCALAR UpdateNumbers update_numbers(const UpdateSettings& settings, double gradient_factor,
                                             double rate, long long step) {
  UpdateNumbers numbers = settings.fixed;
  const unsigned long long t = static_cast<unsigned long long>(step);
  numbers.gradient_factor = gradient_factor;
  numbers.rate = settings.rate_in_velocity ? 1 : rate;
  numbers.velocity_rate = settings.rate_in_velocity ? rate : 1;
  if (settings.correction == Correction::kNesterov) {
    const double product = nadam_product(settings, t), next = nadam_momentum(settings, t + 1);
    numbers.rate = rate * next / (1 - product * next);
    numbers.gradient_rate = rate * (1 - nadam_momentum(settings, t)) / (1 - product);
  } else if (settings.correction != Correction::kNone) {
    numbers.rate = rate / (1 - power(settings.beta_1, t));
  }
  if (settings.correction == Correction::kBoth || settings.correction == Correction::kNesterov) {
    const double correction_2 = ISOCHRON_MATH(sqrt)(1 - power(settings.beta_2, t));
    if (settings.epsilon_after_correction) {
      numbers.root_factor = 1 / correction_2;
    } else {
      numbers.rate *= correction_2;
    }
  } else if (settings.correction == Correction::kRectified) {
    const double factor = rectification(settings.beta_2, t);
    if (factor > 0) {
      numbers.rate *= factor * ISOCHRON_MATH(sqrt)(1 - power(settings.beta_2, t));
    } else {  // the divisor is 1
      numbers.root_factor = 0;
      numbers.epsilon_outside = 1;
    }
  }
  return numbers;
}

/// What weight decay leaves of a parameter that learns at `rate`.
ISOCHRON_SCALAR double decayed_share(double rate, double decay) { return 1 - rate * decay; }

/// Of one parameter, that learns at `rate_factor` times the rate and decays by `decay` times what it learns
/// at.
ISOCHRON_SCALAR UpdateNumbers numbers_of(const UpdateSettings& settings, UpdateNumbers numbers, double rate,
                                         double rate_factor, double decay) {
  if (settings.rate_in_velocity) {
    numbers.velocity_rate *= rate_factor;
    if (rate_factor == 0) numbers.rate = 0;  // the velocity so far moves nothing either
  } else {
    numbers.rate *= rate_factor;
  }
  numbers.gradient_rate *= rate_factor;
  numbers.parameter_factor = decayed_share(rate * rate_factor, decay);
  return numbers;
}

}  // namespace element
}  // namespace ops
}  // namespace isochron
