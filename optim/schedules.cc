#include "isochron/optim/schedules.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "isochron/graph/capture/capture.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/shape/creation.h"

namespace isochron::optim {
namespace {

void check_rate(double rate, std::string_view where) {
  require(std::isfinite(rate) && rate >= 0, ErrorCode::kInvalidArgument, where,
          "a learning rate must be finite and >= 0, got {}", rate);
}
void check_steps(int64_t steps, std::string_view where) {
  require(steps >= 1, ErrorCode::kInvalidArgument, where, "takes at least 1 step, got {}", steps);
}
void check_share(double share, std::string_view where) {
  require(share >= 0 && share <= 1, ErrorCode::kInvalidArgument, where, "a share must lie in [0, 1], got {}",
          share);
}
void check_factor(double factor, double least, std::string_view where) {
  require(std::isfinite(factor) && factor >= least, ErrorCode::kInvalidArgument, where,
          "a factor must be finite and >= {}, got {}", least, factor);
}

Tensor number(double value) { return scalar(value, DType::kF64); }
/// base^exponent for a number and a tensor.
Tensor power(double base, const Tensor& exponent) { return pow(number(base), exponent); }
/// 1 at along = 0, 0 at 1.
Tensor half_wave(const Tensor& along) { return cos(along * std::numbers::pi) * 0.5 + 0.5; }

}  // namespace

Schedule::Schedule(double rate) : rate_(rate) { check_rate(rate, "schedule"); }

Schedule::Schedule(Function function) : function_(std::move(function)) {
  require(function_ != nullptr, ErrorCode::kInvalidArgument, "schedule", "the function is empty");
}

double Schedule::at(int64_t steps_done) const {
  if (constant()) return rate_;
  const graph::EagerScope eager;
  const double rate = (*this)(full({}, static_cast<double>(steps_done), DType::kF64)).item<double>();
  check_rate(rate, "schedule");
  return rate;
}

Tensor Schedule::operator()(const Tensor& steps_done) const {
  if (constant()) return number(rate_);
  const Tensor rate =
      function_(steps_done.dtype() == DType::kF64 ? steps_done : cast(steps_done, DType::kF64));
  require(rate.defined() && rate.shape() == Shape{}, ErrorCode::kShapeMismatch, "schedule",
          "must give one number of shape (), got {}", rate.defined() ? rate.spec().str() : "nothing");
  require(rate.dtype() == DType::kF64, ErrorCode::kDtypeMismatch, "schedule", "must give f64, got {}",
          rate.spec().str());
  return rate;
}

Schedule step_decay(double initial, int64_t every, double factor) {
  check_rate(initial, "step_decay");
  check_steps(every, "step_decay");
  check_factor(factor, 0, "step_decay");
  return Schedule(
      [=](const Tensor& step) { return power(factor, floor(step / static_cast<double>(every))) * initial; });
}

Schedule piecewise(std::vector<int64_t> boundaries, std::vector<double> rates) {
  require(rates.size() == boundaries.size() + 1, ErrorCode::kInvalidArgument, "piecewise",
          "takes one rate more than boundaries, got {} and {}", rates.size(), boundaries.size());
  require(std::is_sorted(boundaries.begin(), boundaries.end(), std::less_equal<>()),
          ErrorCode::kInvalidArgument, "piecewise", "the boundaries must ascend strictly");
  for (const double rate : rates) check_rate(rate, "piecewise");
  if (boundaries.empty()) return Schedule(rates[0]);
  return Schedule([boundaries = std::move(boundaries), rates = std::move(rates)](const Tensor& step) {
    Tensor rate = number(rates[0]);
    for (size_t i = 0; i < boundaries.size(); ++i)
      rate = where(step > static_cast<double>(boundaries[i]), number(rates[i + 1]), rate);
    return rate;
  });
}

Schedule exponential(double initial, int64_t steps, double factor) {
  check_rate(initial, "exponential");
  check_steps(steps, "exponential");
  check_factor(factor, 0, "exponential");
  return Schedule(
      [=](const Tensor& step) { return power(factor, step / static_cast<double>(steps)) * initial; });
}

Schedule cosine(double initial, int64_t steps, double final_share) {
  check_rate(initial, "cosine");
  check_steps(steps, "cosine");
  check_share(final_share, "cosine");
  return Schedule([=](const Tensor& step) {
    const Tensor along = minimum(step / static_cast<double>(steps), 1.0);
    return half_wave(along) * (initial * (1 - final_share)) + initial * final_share;
  });
}

Schedule cosine_restarts(double initial, int64_t first_steps, double period_factor, double height_factor,
                         double final_share) {
  check_rate(initial, "cosine_restarts");
  check_steps(first_steps, "cosine_restarts");
  check_factor(period_factor, 1, "cosine_restarts");
  check_factor(height_factor, 0, "cosine_restarts");
  check_share(final_share, "cosine_restarts");
  return Schedule([=](const Tensor& step) {
    const Tensor periods = step / static_cast<double>(first_steps);  // in units of the first period
    Tensor restarts, along;
    if (period_factor == 1) {
      restarts = floor(periods);
      along = periods - restarts;
    } else {
      // The first n periods are as long as (f^n - 1) / (f - 1) times the first one.
      const auto before = [=](const Tensor& n) {
        return (power(period_factor, n) - 1.0) * (1 / (period_factor - 1));
      };
      // Because of rounding, the logarithm may fall short of a whole number or reach it too early.
      constexpr double kRounding = 1e-9;
      const Tensor reached = log(periods * (period_factor - 1) + 1.0) * (1 / std::log(period_factor));
      const Tensor guess = floor(reached + kRounding);
      restarts = guess - cast(before(guess) > periods, DType::kF64);
      along = clip((periods - before(restarts)) / power(period_factor, restarts), 0.0, 1.0);
    }
    const Tensor wave = power(height_factor, restarts) * half_wave(along);
    return wave * (initial * (1 - final_share)) + initial * final_share;
  });
}

Schedule polynomial(double initial, int64_t steps, double final, double exponent, bool cycle) {
  check_rate(initial, "polynomial");
  check_rate(final, "polynomial");
  check_steps(steps, "polynomial");
  check_factor(exponent, 0, "polynomial");
  return Schedule([=](const Tensor& step) {
    const Tensor passed = step / static_cast<double>(steps);
    const Tensor along = cycle ? passed / maximum(ceil(passed), 1.0) : minimum(passed, 1.0);
    return pow(1.0 - along, exponent) * (initial - final) + final;
  });
}

Schedule one_cycle(double peak, int64_t steps, const OneCycleOptions& options) {
  check_rate(peak, "one_cycle");
  check_steps(steps, "one_cycle");
  check_share(options.initial_share, "one_cycle");
  check_share(options.final_share, "one_cycle");
  const double top = options.warm_share * static_cast<double>(steps) - 1;  // the step at the peak
  const double end = static_cast<double>(steps) - 1;
  require(top > 0 && top < end, ErrorCode::kInvalidArgument, "one_cycle",
          "warm_share x steps must be above 1 and below the number of steps, got {} x {}", options.warm_share,
          steps);
  const double low = peak * options.initial_share;
  const double final = peak * options.final_share;
  return Schedule([=](const Tensor& step) {
    const Tensor up = half_wave(step * (1 / top)) * (low - peak) + peak;
    const Tensor along = minimum((step - top) * (1 / (end - top)), 1.0);
    const Tensor down = half_wave(along) * (peak - final) + final;
    return where(step <= top, up, down);
  });
}

Schedule inverse_sqrt(double initial, int64_t steps) {
  check_rate(initial, "inverse_sqrt");
  check_steps(steps, "inverse_sqrt");
  const double offset = static_cast<double>(steps);
  return Schedule([=](const Tensor& step) { return sqrt(offset / (step + offset)) * initial; });
}

Schedule warmup(int64_t steps, Schedule after) {
  require(steps >= 0, ErrorCode::kInvalidArgument, "warmup", "takes 0 steps or more, got {}", steps);
  if (steps == 0) return after;
  const double length = static_cast<double>(steps);
  const double peak = after.at(0);
  return Schedule([=](const Tensor& step) {
    return where(step < length, (step + 1.0) * (peak / length), after(maximum(step - length, 0.0)));
  });
}

Schedule sequence(std::vector<Schedule> phases, std::vector<int64_t> starts) {
  require(!phases.empty() && starts.size() + 1 == phases.size(), ErrorCode::kInvalidArgument, "sequence",
          "{} phases need one start fewer, got {}", phases.size(), starts.size());
  for (size_t i = 0; i < starts.size(); ++i) {
    require(starts[i] > (i == 0 ? 0 : starts[i - 1]), ErrorCode::kInvalidArgument, "sequence",
            "start {} is {}: starts must be > 0 and strictly increasing", i, starts[i]);
  }
  return Schedule([=](const Tensor& step) {
    Tensor rate = phases[0](step);
    for (size_t i = 0; i < starts.size(); ++i) {
      const double start = static_cast<double>(starts[i]);
      rate = where(step < start, rate, phases[i + 1](maximum(step - start, 0.0)));
    }
    return rate;
  });
}

}  // namespace isochron::optim
