#include "isochron/graph/step/stages.h"

#include <mutex>
#include <utility>

namespace isochron::graph {
namespace {

std::mutex g_mutex;
GraphStageSink& present() {
  static GraphStageSink sink;
  return sink;
}

}  // namespace

void set_graph_stage_sink(GraphStageSink sink) {
  const std::lock_guard lock(g_mutex);
  present() = std::move(sink);
}

GraphStageSink graph_stage_sink() {
  const std::lock_guard lock(g_mutex);
  return present();
}

}  // namespace isochron::graph
