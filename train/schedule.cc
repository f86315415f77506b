#include "isochron/train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "isochron/core/error.h"
#include "isochron/ops/elementwise.h"

namespace isochron::train {
namespace {

/// The schedule's lengths as numbers to divide by.
struct Shape {
  double warmup, cosine_steps;
  explicit Shape(const WarmupCosine& s)
      : warmup(std::max<double>(1, static_cast<double>(s.warmup_steps))),
        cosine_steps(static_cast<double>(s.total_steps - s.warmup_steps)) {}
};

}  // namespace

double WarmupCosine::rate(int64_t steps_done) const {
  const Shape shape(*this);
  const double step = static_cast<double>(steps_done);
  const double ramp = std::min(1.0, (step + 1) / shape.warmup);
  const double along = std::clamp((step - static_cast<double>(warmup_steps)) / shape.cosine_steps, 0.0, 1.0);
  const double wave = 0.5 + 0.5 * std::cos(std::numbers::pi * along);
  return peak * ramp * (final_share + (1 - final_share) * wave);
}

Tensor WarmupCosine::rate(const Tensor& steps_done) const {
  const Shape shape(*this);
  const Tensor step = cast(steps_done, DType::kF64);
  const Tensor ramp = minimum((step + 1.0) * (1 / shape.warmup), 1.0);
  const Tensor along =
      minimum(maximum((step - static_cast<double>(warmup_steps)) * (1 / shape.cosine_steps), 0.0), 1.0);
  const Tensor wave = cos(along * std::numbers::pi) * 0.5 + 0.5;
  return ramp * (wave * (peak * (1 - final_share)) + peak * final_share);
}

BatchFunctions scheduled(BatchFunctions functions, optim::Optimizer& optimizer,
                         const WarmupCosine& schedule) {
  require(std::isfinite(schedule.peak) && schedule.peak > 0 && schedule.final_share >= 0 &&
              schedule.final_share <= 1,
          ErrorCode::kInvalidArgument, "scheduled",
          "the peak must be finite and > 0 and final_share in [0, 1], got {} and {}", schedule.peak,
          schedule.final_share);
  require(schedule.warmup_steps >= 0 && schedule.warmup_steps < schedule.total_steps,
          ErrorCode::kInvalidArgument, "scheduled", "0 <= warmup_steps < total_steps, got {} and {}",
          schedule.warmup_steps, schedule.total_steps);
  optimizer.set_learning_rate(schedule.rate(optimizer.step_count()));
  functions.train = [train = std::move(functions.train), &optimizer, schedule](const data::Element& batch) {
    // The slot is read by this step's update and replaced at the end of the replay.
    const Tensor next = schedule.rate(optimizer.step_slot() + 1);
    const Tensor loss = train(batch);
    optimizer.learning_rate_slot().assign(next);
    return loss;
  };
  return functions;
}

}  // namespace isochron::train
