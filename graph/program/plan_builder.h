// How a graph becomes a program: scheduling, buffers that are shared (views, in place), lifetimes, placement,
// address tables.
#pragma once

#include "isochron/graph/program/plan.h"

namespace isochron::graph {

/// Fills an empty program and returns its executor; null if Program::run runs it. Throws the same errors as
/// Plan's constructor.
std::unique_ptr<Executor> build_program(const Graph& graph, const PlanOptions& options, Program& program);

}  // namespace isochron::graph
