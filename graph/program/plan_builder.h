// How a graph becomes a plan: scheduling, buffers that are shared (views, in place), lifetimes, placement,
// address tables.
#pragma once

#include "isochron/graph/program/plan.h"

namespace isochron::graph {

/// Behind every buffer of a plan with PlanOptions::poison.
inline constexpr size_t kRedZoneBytes = 64;

/// Fills an empty plan. Throws as Plan's constructor.
void build_plan(const Graph& graph, const PlanOptions& options, Plan& plan);

}  // namespace isochron::graph
