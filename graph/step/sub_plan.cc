#include "isochron/graph/step/sub_plan.h"

#include "isochron/core/base/checked.h"
#include "isochron/core/cuda/kernel_module.h"
#include "isochron/graph/ir/checked_kernel.h"
#include "isochron/graph/passes/passes.h"

namespace isochron::graph {

SubPlan::SubPlan(std::unique_ptr<Graph> graph, const KernelRequest& request) : graph_(std::move(graph)) {
  PlanOptions options;
  options.threads = request.threads;
  options.module = request.module;
  options.backend = request.backend;
  if (request.module != nullptr) options.device = request.module->target();
  options.check_numerics = request.module == nullptr && CheckedScope::current();
  PassOptions passes;
  passes.device = options.device;
  passes.backend = options.backend;
  if (options.check_numerics) passes.disabled = {"all"};
  run_passes(*graph_, passes);
  plan_ = std::make_unique<Plan>(*graph_, options);
}

size_t SubPlan::arena_bytes() const { return align_up(plan_->arena_bytes(), cuda::kDeviceAlignment); }

}  // namespace isochron::graph
