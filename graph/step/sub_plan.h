// A plan that runs within a kernel: the branch of a condition, the body of a loop.
#pragma once

#include <memory>

#include "isochron/graph/program/plan.h"

namespace isochron::graph {

/// A sub-graph prepared to run within a kernel: optimized, and planned for the kernel's device.
class SubPlan {
 public:
  SubPlan(std::unique_ptr<Graph> graph, const KernelRequest& request);
  Plan& plan() { return *plan_; }
  /// The arena's size; a multiple of 64.
  size_t arena_bytes() const;

 private:
  std::unique_ptr<Graph> graph_;
  std::unique_ptr<Plan> plan_;
};

}  // namespace isochron::graph
