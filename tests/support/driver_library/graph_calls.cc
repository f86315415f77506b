// Kernels and graphs of the tests' libcuda.so.1.
#include <algorithm>
#include <cstring>

#include "support/driver_library/cubin.h"
#include "support/driver_library/library.h"

using namespace isochron;
using namespace isochron::cuda;

extern "C" {

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  return in_context([&](SimulatedContext& context) {
    const auto* const begin = static_cast<const char*>(image);
    const size_t elf = Cubin::size_at(begin);
    *module = raw<CUmodule>(context.load({begin, elf > 0 ? elf : std::strlen(begin)}));
  });
}
CUresult cuModuleUnload(CUmodule module) {
  return in_context([&](SimulatedContext& context) { context.unload(handle<Module>(module)); });
}
CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  return in_context([&](SimulatedContext& context) {
    *function = raw<CUfunction>(context.function(handle<Module>(module), name));
  });
}
CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  return in_context([&](SimulatedContext& context) {
    demand(attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES && value >= 0, "unknown attribute");
    context.allow_shared_bytes(handle<Function>(function), static_cast<size_t>(value));
  });
}
CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                        CUstream stream, void** arguments, void** extra) {
  return in_context([&](SimulatedContext& context) {
    demand(extra == nullptr, "arguments in one buffer");
    const auto called = handle<Function>(function);
    context.launch(called, {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes},
                   {arguments, context.argument_count(called)}, handle(stream));
  });
}

CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode) {
  return in_context([&](SimulatedContext& context) {
    demand(mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, "other threads would be held up by this capture");
    context.begin_capture(handle(stream));
  });
}
CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode*,
                                     const CUgraphEdgeData*, size_t count, CUstreamCaptureMode mode) {
  return in_context([&](SimulatedContext& context) {
    demand(mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, "other threads would be held up by this capture");
    demand(count == 0, "nodes in an empty body");
    context.begin_capture_to(handle(stream), handle(graph));
  });
}
CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  return in_context([&](SimulatedContext& context) {
    *graph = nullptr;
    *graph = raw<CUgraph>(context.end_capture(handle(stream)));
  });
}
CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  return in_context([&](SimulatedContext& context) {
    *status = !context.capturing(handle(stream))          ? CU_STREAM_CAPTURE_STATUS_NONE
              : context.capture_is_broken(handle(stream)) ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                                          : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  });
}
CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t*, CUgraph* graph,
                                const CUgraphNode** dependencies, const CUgraphEdgeData** edges,
                                size_t* count) {
  const CUresult asked = cuStreamIsCapturing(stream, status);
  if (asked != CUDA_SUCCESS || *status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return asked;
  return in_context([&](SimulatedContext& context) {
    std::vector<CUgraphNode>& nodes = library().primary.followed[reinterpret_cast<uintptr_t>(stream)];
    nodes.clear();
    for (const GraphNode node : context.followed(handle(stream))) nodes.push_back(raw<CUgraphNode>(node));
    *graph = raw<CUgraph>(context.open_graph(handle(stream)));
    *dependencies = nodes.data();
    *edges = nullptr;  // none says more than that it comes before
    *count = nodes.size();
  });
}
CUresult cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode* dependencies,
                                           const CUgraphEdgeData* edges, size_t count, unsigned flags) {
  return in_context([&](SimulatedContext& context) {
    demand(flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES && edges == nullptr && count > 0,
           "added, not set, or none at all");
    context.follow(handle(stream), nodes_at(dependencies, count));
  });
}
CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle* condition, CUgraph graph, CUcontext owner,
                                        unsigned first, unsigned flags) {
  return in_context([&](SimulatedContext& context) {
    demand(owner == reinterpret_cast<CUcontext>(&library().primary), "a condition of another context");
    demand(first == 0 && flags == CU_GRAPH_COND_ASSIGN_DEFAULT, "a condition that isn't 0 at each launch");
    *condition = static_cast<CUgraphConditionalHandle>(context.create_condition_in(handle(graph)));
  });
}
CUresult cuGraphAddNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                        const CUgraphEdgeData*, size_t count, CUgraphNodeParams* params) {
  return in_context([&](SimulatedContext& context) {
    const std::vector<GraphNode> after = nodes_at(dependencies, count);
    if (params->type == CU_GRAPH_NODE_TYPE_EMPTY) {
      *node = raw<CUgraphNode>(context.add_empty_node(handle(graph), after));
      return;
    }
    demand(params->type == CU_GRAPH_NODE_TYPE_CONDITIONAL, "nodes of other types come from captures");
    const auto& conditional = params->conditional;
    const bool repeats = conditional.type == CU_GRAPH_COND_TYPE_WHILE;
    demand(repeats || conditional.type == CU_GRAPH_COND_TYPE_IF, "a switch");
    demand(conditional.size == 1 && conditional.ctx == reinterpret_cast<CUcontext>(&library().primary),
           "more than one body, or another context");
    const auto [added, body] = context.add_conditional_node(
        handle(graph), after, static_cast<Condition>(conditional.handle), repeats);
    *node = raw<CUgraphNode>(added);
    auto& kept = library().primary.bodies[static_cast<uintptr_t>(added)];
    kept = std::make_unique<CUgraph>(raw<CUgraph>(body));
    params->conditional.phGraph_out = kept.get();
  });
}
CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
  return in_context([&](SimulatedContext& context) {
    const auto all = context.nodes_of(handle(graph));
    if (nodes != nullptr) {
      for (size_t i = 0; i < std::min(*count, all.size()); ++i) nodes[i] = raw<CUgraphNode>(all[i].first);
    }
    *count = all.size();
  });
}
CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType* type) {
  return in_context([&](SimulatedContext& context) {
    using Kind = SimulatedContext::NodeKind;
    const Kind kind = context.kind_of(handle<GraphNode>(node));
    *type = kind == Kind::kKernel        ? CU_GRAPH_NODE_TYPE_KERNEL
            : kind == Kind::kCopy        ? CU_GRAPH_NODE_TYPE_MEMCPY
            : kind == Kind::kMemset      ? CU_GRAPH_NODE_TYPE_MEMSET
            : kind == Kind::kConditional ? CU_GRAPH_NODE_TYPE_CONDITIONAL
                                         : CU_GRAPH_NODE_TYPE_EMPTY;
  });
}
CUresult cuGraphInstantiateWithFlags(CUgraphExec* executable, CUgraph graph, unsigned long long flags) {
  return in_context([&](SimulatedContext& context) {
    demand(flags == 0, "flags are 0");
    *executable = raw<CUgraphExec>(context.instantiate(handle(graph)));
  });
}
CUresult cuGraphDestroy(CUgraph graph) {
  return in_context([&](SimulatedContext& context) { context.destroy(handle(graph)); });
}
CUresult cuGraphExecDestroy(CUgraphExec executable) {
  return in_context([&](SimulatedContext& context) { context.destroy(handle(executable)); });
}
CUresult cuGraphUpload(CUgraphExec executable, CUstream stream) {
  return in_context([&](SimulatedContext& context) { context.upload(handle(executable), handle(stream)); });
}
CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream) {
  return in_context([&](SimulatedContext& context) { context.launch(handle(executable), handle(stream)); });
}

}  // extern "C"
