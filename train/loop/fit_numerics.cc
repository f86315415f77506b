// What a fit does about numbers that aren't finite: it finds out where they come from.
#include "isochron/core/telemetry/counters.h"
#include "isochron/core/telemetry/event.h"
#include "isochron/core/tensor/finite.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/train/loop/fit.h"

namespace isochron::train {

void Trainer::Fit::look_at_state() {
  if (not_finite_) return;
  check_variables(good_->look(run_.total_steps, [this] { return at_ ? dataset_.state() : std::string(); }));
}

/// `what` became NaN or infinite; empty for nothing.
void Trainer::Fit::check_variables(const std::string& what) {
  if (what.empty()) return;
  not_a_number(run_.step, fmt::format("after step {} of epoch {} {}", run_.step, run_.epoch, what));
}

void Trainer::Fit::not_a_number(int64_t step, const std::string& what) {
  not_finite_ = true;
  count(Counter::kNotFinite, 1);
  const std::string origin = find_origin();
  run_.not_finite = origin.empty() ? what : fmt::format("{}: {}", what, origin);
  for (const NamedCallback& named : callbacks_) {
    if (named.callback->on_not_a_number(run_, step)) return;
  }
  fail(ErrorCode::kNotANumber, "fit",
       "{}; lower the learning rate, clip the gradients, or look for such numbers in the data",
       run_.not_finite);
}

std::string Trainer::Fit::find_origin() {
  if (!good_ || !good_->kept()) return {};
  // What the last full step left stays, for whoever wants to look at it.
  KeptVariables present(variables());
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

/// Runs the steps since the last good state again, just as they were run, up to the one after which something
/// isn't finite, and that one once more op by op. (What overflows within a step is no fault by itself: under
/// loss scaling such steps are left out.)
std::string Trainer::Fit::replay() {
  good_->restore();
  data::Dataset data = dataset_;
  // Before the first batch of a dataset that an earlier fit left in the middle, a shuffle's order is another
  // one: then nothing may be found.
  std::optional<data::Dataset::Iterator> at =
      good_->data().empty() ? data.begin() : data.resume(good_->data());
  KeptVariables before(variables());
  for (int64_t step = good_->total_steps() + 1; step <= run_.total_steps; ++step) {
    if (*at == std::default_sentinel) at.emplace(data.begin());
    const int64_t ago = run_.total_steps - step, of = run_.steps_per_epoch;
    flush_last(of > 0 ? ((run_.step - ago - 1) % of + of) % of + 1 : run_.step - ago);
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
std::string Trainer::Fit::origin_in(const data::Element& batch) {
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
  return {};
}

}  // namespace isochron::train
