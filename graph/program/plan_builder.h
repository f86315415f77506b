// Turns a graph into a program: scheduling, buffer sharing (views, in place), lifetimes, placement, address
// tables.
#pragma once

#include "isochron/graph/program/plan.h"

namespace isochron::graph {

/// Fills an empty program and returns its executor; null if Program::run runs it. Throws the same errors as
/// Plan's constructor.
std::unique_ptr<Executor> build_program(const Graph& graph, const PlanOptions& options, Program& program);

}  // namespace isochron::graph
