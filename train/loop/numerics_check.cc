#include "isochron/train/loop/numerics_check.h"

#include "isochron/core/telemetry/counters.h"
#include "isochron/core/telemetry/event.h"
#include "isochron/core/tensor/finite.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/train/loop/fit_phase.h"

namespace isochron::train {

void Trainer::NumericsCheck::keep_snapshots(const NamedVariables& variables,
                                            std::function<std::string()> data) {
  variables_ = &variables;
  data_ = std::move(data);
  snapshot_.emplace(variables, *watch_);
  take_snapshot();
}

void Trainer::NumericsCheck::look_at_loss() {
  const int64_t step = trainer_.loss_.first_not_finite();
  if (step == 0 || found_) return;
  const OptionalPhase phase(recorder_, observe::Phase::kCallbacks);
  report(step, fmt::format("the loss of step {} of epoch {} is NaN or infinite", step, run_.epoch));
}

void Trainer::NumericsCheck::look_at_variables() {
  if (!found_ && watch_) report_variables(watch_->look());
}

void Trainer::NumericsCheck::take_snapshot() {
  if (!found_) report_variables(snapshot_->look(run_.total_steps, data_));
}

/// `what` became NaN or infinite; empty for nothing.
void Trainer::NumericsCheck::report_variables(const std::string& what) {
  if (what.empty()) return;
  report(run_.step, fmt::format("after step {} of epoch {} {}", run_.step, run_.epoch, what));
}

void Trainer::NumericsCheck::report(int64_t step, const std::string& what) {
  found_ = true;
  count(Counter::kNotFinite, 1);
  const std::string origin = find_origin();
  run_.not_finite = origin.empty() ? what : fmt::format("{}: {}", what, origin);
  if (callbacks_.deal_with_not_a_number(step)) return;
  fail(ErrorCode::kNotANumber, "fit",
       "{}; lower the learning rate, clip the gradients, or look for such numbers in the data",
       run_.not_finite);
}

std::string Trainer::NumericsCheck::find_origin() {
  if (!snapshot_ || !snapshot_->kept()) return {};
  // Keeps the state that the last full step left, for anyone who wants to inspect it.
  KeptVariables present(*variables_);
  present.keep();
  std::string origin;
  try {
    origin = replay();
  } catch (const std::exception& error) {
    emit({EventKind::kNotice, "fit",
          fmt::format("the steps before a number that isn't finite could not be run again: {}",
                      error.what())});
  }
  present.restore();
  return origin;
}

/// Runs the steps since the snapshot again in the same way, up to the first after which something isn't
/// finite; that step then runs once more, op by op. (An overflow within a step isn't an error by itself:
/// under loss scaling such steps are skipped.)
std::string Trainer::NumericsCheck::replay() {
  snapshot_->restore();
  data::Dataset data = dataset_;
  // Before the first batch of a dataset that an earlier fit left in the middle of an epoch, a shuffle has
  // another order; then nothing may be found.
  std::optional<data::Dataset::Iterator> at =
      snapshot_->data().empty() ? data.begin() : data.resume(snapshot_->data());
  KeptVariables before(*variables_);
  for (int64_t step = snapshot_->total_steps() + 1; step <= run_.total_steps; ++step) {
    if (*at == std::default_sentinel) at.emplace(data.begin());
    const int64_t ago = run_.total_steps - step, of = run_.steps_per_epoch;
    trainer_.flush_last(of > 0 ? ((run_.step - ago - 1) % of + of) % of + 1 : run_.step - ago, of);
    before.keep();
    trainer_.train_.call(**at);
    if (trainer_.loss_.first_not_finite() != 0 || !watch_->look().empty()) {
      before.restore();
      const std::string origin = origin_in(**at);
      if (origin.empty()) return {};
      return origin + (ago < run_.step ? fmt::format(" (in step {})", run_.step - ago)
                                       : fmt::format(" ({} steps ago)", ago));
    }
    ++*at;
  }
  return {};
}

/// The first result of the step on `batch` that isn't finite.
std::string Trainer::NumericsCheck::origin_in(const data::Element& batch) {
  for (int i = 0; i < batch.size(); ++i) {
    Tensor tensor = to_device(batch[i], {});
    if (!tensor.contiguous()) tensor = graph::contiguous(tensor);
    if (const std::optional<NotFinite> found = find_not_finite(tensor.spec(), tensor.raw())) {
      return fmt::format("the batch's '{}' {}", batch.name(i), not_finite_text(tensor.spec(), *found));
    }
  }
  CaptureOptions options = trainer_.capture_options();
  options.check_numerics = true;
  BatchPlan checked("checked train step", true, trainer_.counted(trainer_.functions_.train), options);
  checked.prepare(batch);
  try {
    checked.call(batch);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kNotANumber) throw;
    return fmt::format("first in {}", error.what());
  }
  return trainer_.functions_.precision == Precision::kF32
             ? "run op by op, the step is finite, so its fused kernels give that number"
             : fmt::format(
                   "run op by op, the step is finite, so that number comes from how its fused kernels round "
                   "in {}; "
                   "try f32",
                   precision_name(trainer_.functions_.precision));
}

}  // namespace isochron::train
