#include "isochron/graph/program/plan.h"

#include "isochron/core/telemetry/counters.h"
#include "isochron/core/telemetry/sealed.h"
#include "isochron/graph/program/instrumented_run.h"
#include "isochron/graph/program/plan_builder.h"

namespace isochron::graph {

Plan::Plan(const Graph& graph, const PlanOptions& options) : poison_(options.poison) {
  note_made(Made::kPlan);
  executor_ = build_program(graph, options, program_);
  count(Counter::kPlans, 1);
}

Plan::~Plan() { count(Counter::kPlans, -1); }

void Plan::bind_arena(std::byte* arena) {
  if (arena_bound_ && arena == arena_) return;
  arena_bound_ = true;
  arena_ = arena;
  if (poison_) poison(program_, arena);
  if (executor_) executor_->forget();
  program_.bind_arena(arena);
}

void Plan::name_kernels() {
  if (trace_names_.empty()) trace_names_ = trace_names(program_);
}

/// Runs the program by an executor, or traced.
void Plan::run_elsewhere() {
  if (executor_) return executor_->run(program_);
  name_kernels();
  run_traced(program_, trace_names_);
}

void Plan::record() {
  if (executor_) executor_->record(program_);
}

void Plan::run_profiled(std::span<int64_t> times_ns) {
  executor_ ? executor_->profile(program_, times_ns) : run_timed(program_, times_ns);
}

void Plan::run_checked() { run_poisoned(program_, arena_); }

}  // namespace isochron::graph
