// What a fit does about numbers that aren't finite: it finds out where they come from.
#include "isochron/core/event.h"
#include "isochron/core/finite.h"
#include "isochron/graph/apply.h"
#include "isochron/train/fit.h"

namespace isochron::train {

void Trainer::Fit::look_at_state(const std::string& data) {
  if (not_finite_) return;
  const std::string what = good_->look(run_.total_steps, data);
  if (what.empty()) return;
  not_a_number(run_.step, fmt::format("after step {} of epoch {} {}", run_.step, run_.epoch, what));
}

void Trainer::Fit::not_a_number(int64_t step, const std::string& what) {
  not_finite_ = true;
  const std::string origin = find_origin();
  run_.not_finite = origin.empty() ? what : fmt::format("{}: {}", what, origin);
  for (Callback* callback : options_.callbacks) {
    if (callback->on_not_a_number(run_, step)) return;
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
    origin = replay_checked();
  } catch (const std::exception& error) {
    emit({EventKind::kNotice, "fit",
          fmt::format("the steps before a number that isn't finite could not be run again: {}",
                      error.what())});
  }
  present.restore();
  return origin;
}

/// Runs the steps since the last good state again, op by op; gives the first result that isn't finite.
std::string Trainer::Fit::replay_checked() {
  good_->restore();
  data::Dataset data = dataset_;
  std::vector<std::string> disabled;  // every pass but the one that decides what is computed
  for (const graph::PassInfo& pass : graph::passes()) {
    if (pass.name != "precision") disabled.emplace_back(pass.name);
  }
  BatchPlan checked("checked train step", true, trainer_.counted(trainer_.functions_.train),
                    {.passes = {.disabled = disabled, .precision = trainer_.functions_.precision},
                     .plan = {.check_numerics = true}});
  // Before the first batch of a dataset that an earlier fit left in the middle, a shuffle's order is another
  // one: then nothing may be found.
  std::optional<data::Dataset::Iterator> at =
      good_->data().empty() ? data.begin() : data.resume(good_->data());
  for (int64_t step = good_->total_steps() + 1; step <= run_.total_steps; ++step) {
    if (*at == std::default_sentinel) at.emplace(data.begin());
    const data::Element& batch = **at;
    const int64_t ago = run_.total_steps - step;
    const std::string when =
        ago < run_.step ? fmt::format(" (in step {})", run_.step - ago) : fmt::format(" ({} steps ago)", ago);
    for (int i = 0; i < batch.size(); ++i) {
      const Tensor tensor = batch[i].contiguous() ? batch[i] : graph::contiguous(batch[i]);
      if (const std::optional<NotFinite> found = find_not_finite(tensor.spec(), tensor.raw())) {
        return fmt::format("the batch's '{}' {}{}", batch.name(i), not_finite_text(tensor.spec(), *found),
                           when);
      }
    }
    checked.prepare(batch);
    try {
      checked.call(batch);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kNotANumber) throw;
      return fmt::format("first in {}{}", error.what(), when);
    }
    ++*at;
  }
  return {};
}

}  // namespace isochron::train
