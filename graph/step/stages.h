// A callback that sees the graphs of every captured function of the process, stage by stage, including
// functions that the program doesn't make itself, such as a trainer's. For a single function use
// PassOptions::on_stage.
#pragma once

#include <functional>
#include <string_view>

#include "isochron/graph/ir/graph.h"

namespace isochron::graph {

struct GraphStage {
  std::string_view function;   // CaptureOptions::name
  std::string_view signature;  // "(f32(32, 10), i64(32))"
  int64_t trace = 0;           // which trace of the process, from 1
  std::string_view stage;      // as PassOptions::on_stage has it
  const Graph& graph;
};
using GraphStageSink = std::function<void(const GraphStage&)>;

/// Shows `sink` the stages of all traces from now on, on the thread that traces; what it throws ends the
/// trace. Empty: nobody sees them any more.
void set_graph_stage_sink(GraphStageSink sink);
/// Null where there is none.
GraphStageSink graph_stage_sink();

}  // namespace isochron::graph
