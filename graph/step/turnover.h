// Counts the traces of a captured function, to tell when it drops plans that it needs again.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_set>

#include "isochron/core/tensor/signature.h"
#include "isochron/graph/capture/settings.h"

namespace isochron {

class PlanTurnover {
 public:
  void add(const Signature& signature, const graph::TracedSettings& settings, int64_t trace_ns);
  /// Whether a signature was traced that had been traced before with the same settings.
  bool traced_again() const { return traced_again_ > 0; }
  /// A text for notices and reports about a function of this name, which keeps `max_plans` plans and has been
  /// called `calls` times.
  std::string text(const std::string& name, size_t max_plans, uint64_t calls) const;

  bool told = false;  // a notice has been emitted

 private:
  std::unordered_set<size_t> signatures_, without_settings_;  // hashes
  size_t traces_ = 0;
  size_t traced_again_ = 0;
  int64_t trace_ns_ = 0;
};

}  // namespace isochron
