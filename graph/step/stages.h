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
  std::string_view stage;      // as in PassOptions::on_stage
  const Graph& graph;
};
using GraphStageSink = std::function<void(const GraphStage&)>;

/// Passes the stages of all traces from now on to `sink`, on the thread that traces; an exception from `sink`
/// ends the trace. An empty `sink` removes the callback.
void set_graph_stage_sink(GraphStageSink sink);
/// The current callback; null if there is none.
GraphStageSink graph_stage_sink();

}  // namespace isochron::graph
