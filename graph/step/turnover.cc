#include "isochron/graph/step/turnover.h"

#include <fmt/format.h>

#include "isochron/graph/ir/attributes.h"

namespace isochron {
namespace {

constexpr size_t kMaxSignatures = 1024;  // the most signatures that are recognized again

}  // namespace

void PlanTurnover::add(const Signature& signature, const graph::TracedSettings& settings, int64_t trace_ns) {
  ++traces_;
  trace_ns_ += trace_ns;
  size_t hash = settings.hash(), plain = 0;
  for (const TensorSpec& spec : signature) {
    hash = graph::hash_spec(hash, spec);
    plain = graph::hash_spec(plain, spec);
  }
  traced_again_ += signatures_.contains(hash) ? 1 : 0;
  if (signatures_.size() < kMaxSignatures) {
    signatures_.insert(hash);
    without_settings_.insert(plain);
  }
}

std::string PlanTurnover::text(const std::string& name, size_t max_plans, uint64_t calls) const {
  return fmt::format(
      "'{}' keeps {} plans (max_plans) and has met {}{} signatures{} in {} calls: of {} traces, which took "
      "{:.1f} ms, {} "
      "were of signatures traced before; raise max_plans to the number of signatures, or pad or bucket the "
      "inputs so "
      "that there are fewer",
      name, max_plans, signatures_.size() == kMaxSignatures ? "at least " : "", signatures_.size(),
      signatures_.size() > without_settings_.size()
          ? ", counted anew under other settings (what is trainable, the training mode, the schedule),"
          : "",
      calls, traces_, static_cast<double>(trace_ns_) / 1e6, traced_again_);
}

}  // namespace isochron
