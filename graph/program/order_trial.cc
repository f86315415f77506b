#include "isochron/graph/program/order_trial.h"

#include <vector>

#include "isochron/core/base/error.h"
#include "isochron/core/base/median.h"

namespace isochron::graph {
namespace {

/// A smaller gain is within the variation between trials.
constexpr double kWorthIt = 0.98;

}  // namespace

OrderTrial::OrderTrial(std::shared_ptr<cuda::Gpu> gpu) : gpu_(std::move(gpu)) {
  try {
    for (Marks& marks : marks_) {
      marks.begin = gpu_->context().create_event(true);
      marks.end = gpu_->context().create_event(true);
    }
  } catch (...) {
    release();
    throw;
  }
}

OrderTrial::~OrderTrial() { release(); }

void OrderTrial::release() {
  try {
    for (const Marks& marks : marks_) {
      for (const cuda::Event event : {marks.begin, marks.end})
        if (event != cuda::Event::kNone) gpu_->context().destroy(event);
    }
  } catch (const Error&) {  // the device is lost, and with it everything on it
  }
}

void OrderTrial::begin() { gpu_->context().record(marks_.at(runs_).begin, gpu_->stream()); }

void OrderTrial::end() { gpu_->context().record(marks_.at(runs_++).end, gpu_->stream()); }

std::optional<bool> OrderTrial::in_order_is_faster() const {
  cuda::Context& context = gpu_->context();
  if (goes_on() || !context.done(marks_.back().end)) return std::nullopt;
  std::array<std::vector<double>, 2> times_ns;
  for (size_t run = 0; run < marks_.size(); ++run)
    times_ns[run % 2].push_back(context.elapsed_ns(marks_[run].begin, marks_[run].end));
  return middle_of(times_ns[1]) < kWorthIt * middle_of(times_ns[0]);
}

}  // namespace isochron::graph
