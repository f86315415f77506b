#include <algorithm>
#include <utility>

#include "isochron/core/base/error.h"
#include "isochron/core/telemetry/event.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/graph/capture/capture.h"
#include "isochron/optim/optimizer.h"

namespace isochron::optim {

AveragedWeights::AveragedWeights(Optimizer& optimizer) : live_(optimizer.averaged_) {
  optimizer.require_here();
  require(graph::Capture::current() == nullptr, ErrorCode::kCaptureViolation, "averaged weights",
          "they would be exchanged at every replay; call it between steps");
  require(live_.value() == 0, ErrorCode::kInvalidArgument, "averaged weights",
          "others stand in for the parameters already; end their scope first");
  require(optimizer.options_.ema_decay > 0, ErrorCode::kInvalidArgument, "averaged weights",
          "the optimizer keeps none; set ema_decay in its step options");
  for (const Optimizer::Entry& entry : optimizer.entries_)
    pairs_.emplace_back(entry.parameter, entry.average);
  exchange();
  live_.set(live_.value() + 1);
}

void AveragedWeights::keep() {
  if (std::exchange(kept_, true)) return;
  for (const auto& [parameter, average] : pairs_) average.assign(parameter.tensor());
  live_.set(live_.value() - 1);
}

AveragedWeights::~AveragedWeights() {
  if (kept_) return;
  live_.set(live_.value() - 1);
  try {
    exchange();
  } catch (const Error& error) {  // the device is lost, and with it everything on it
    emit({EventKind::kNotice, "averaged weights", error.what()});
  }
}

void AveragedWeights::exchange() {
  for (const auto& [parameter, average] : pairs_) {
    const Tensor a = parameter.tensor();
    const Tensor b = average.tensor();
    if (!a.device().is_cpu()) {
      const Tensor kept = copy(a);
      parameter.assign(b);
      average.assign(kept);
      continue;
    }
    std::swap_ranges(a.raw(), a.raw() + a.size_bytes(), b.raw());
    a.storage()->next_generation();
    b.storage()->next_generation();
  }
}

}  // namespace isochron::optim
